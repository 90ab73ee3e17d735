// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic rate`: rates of whole queues.

use super::target::Target;
use super::{ControlError, ask, print, queue_name, unexpected};
use crate::units;
use clap::{Args, Subcommand};
use serde::Serialize;
use tsonic_host::control::protocol::{QueueRate, Reply, Request};

/// Shows or sets the rate of transmit queues.
///
/// The NIC keeps it, segment by segment, over all flows of the queue. It counts wire
/// bytes: frames with their headers, without preamble, FCS and gap.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic rate show\n  tsonic rate set tx-0 20MB/s\n  tsonic rate set tx-0 1Gbit\n  tsonic rate set tx-0 off"
)]
pub struct RateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// The rate of every queue.
    #[command(after_help = "Example:\n  tsonic rate show")]
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Sets the rate of a queue.
    #[command(after_help = "Example:\n  tsonic rate set tx-0 20MB/s")]
    Set {
        /// The queue: tx-0, tx-1, ...
        #[arg(value_parser = queue_name)]
        queue: u16,
        /// Bytes or bits a second (20MB/s, 1Gbit); off, none or 0: no limit.
        #[arg(value_parser = limit)]
        rate: Limit,
        #[command(flatten)]
        target: Target,
    },
}

/// A rate, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit(Option<u64>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "off" | "none" | "0" => Ok(Limit(None)),
        rate => units::rate(rate).map(|r| Limit(Some(r.0))),
    }
}

#[derive(Serialize)]
struct Rates {
    rates: Vec<QueueRate>,
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &RateArgs) -> Result<(), ControlError> {
    let (target, request) = match &args.what {
        What::Show { target } => (target, Request::RateShow {}),
        What::Set {
            queue,
            rate,
            target,
        } => {
            let (queue, rate) = (*queue, rate.0);
            (target, Request::RateSet { queue, rate })
        }
    };
    let (pid, at, Reply::Rate(rates)) = ask(target, request)? else {
        return Err(unexpected());
    };
    print(target, (pid, at), &Rates { rates }, |out, all| {
        for q in &all.rates {
            match q.rate {
                Some(rate) => writeln!(out, "tx-{} {rate} B/s", q.queue)?,
                None => writeln!(out, "tx-{} off", q.queue)?,
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_or_none() {
        assert_eq!(limit("20MB/s"), Ok(Limit(Some(20_000_000))));
        for none in ["off", "none", "0"] {
            assert_eq!(limit(none), Ok(Limit(None)));
        }
        assert!(limit("fast").is_err() && limit("0MB/s").is_err() && limit("").is_err());
    }
}
