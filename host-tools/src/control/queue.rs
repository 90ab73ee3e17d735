// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic queue`: transmit queues as a whole.

use super::target::Target;
use super::{ControlError, ask, print, queue_name, unexpected};
use clap::{Args, Subcommand};
use serde::Serialize;
use tsonic_host::control::protocol::{Reply, Request};

/// Resets a transmit queue of a running process.
///
/// Frames on their way to the wire still depart; every other burst comes back to the
/// engine, which sends it again. Other queues go on.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  tsonic queue reset tx-0")]
pub struct QueueArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Takes every burst out of a queue and starts it afresh.
    #[command(after_help = "Example:\n  tsonic queue reset tx-0")]
    Reset {
        /// The queue: tx-0, tx-1, ...
        #[arg(value_parser = queue_name)]
        queue: u16,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Serialize)]
struct Reset {
    queue: u16,
    bursts: u64,
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &QueueArgs) -> Result<(), ControlError> {
    let What::Reset { queue, target } = &args.what;
    let request = Request::QueueReset { queue: *queue };
    let (pid, at, Reply::QueueReset { queue, bursts }) = ask(target, request)? else {
        return Err(unexpected());
    };
    print(target, (pid, at), &Reset { queue, bursts }, |out, r| {
        writeln!(
            out,
            "tx-{} was reset; {} bursts came back",
            r.queue, r.bursts
        )
    })
}
