// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic xps`: which CPUs send from which queue.

use super::target::Target;
use super::{ControlError, ask, print, queue_name, unexpected};
use clap::{Args, Subcommand};
use serde::Serialize;
use tsonic_host::control::mask::CpuMask;
use tsonic_host::control::protocol::{QueueCpus, Reply, Request};

/// Shows or sets which CPUs send from which transmit queue.
///
/// Masks are those of /sys/class/net/*/queues/tx-*/xps_cpus. A flow follows a change when
/// nothing of it is in the NIC or nothing waits for an acknowledgement, and after
/// net.core.txq_reselection_ms in any case. CPUs of no queue, and all where no mask
/// was ever set, choose by the flow's hash.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic xps show\n  tsonic xps set tx-1 3\n  tsonic xps set tx-0 00000000,0000000c --pid 4711"
)]
pub struct XpsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// The CPUs of every queue.
    #[command(after_help = "Example:\n  tsonic xps show --json")]
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Gives a queue its CPUs.
    #[command(after_help = "Example:\n  tsonic xps set tx-1 3")]
    Set {
        /// The queue: tx-0, tx-1, ...
        #[arg(value_parser = queue_name)]
        queue: u16,
        /// Its CPUs: hexadecimal words of 32, commas between them; 0: none.
        #[arg(value_parser = mask)]
        mask: CpuMask,
        #[command(flatten)]
        target: Target,
    },
}

fn mask(text: &str) -> Result<CpuMask, String> {
    text.parse()
        .map_err(|e: tsonic_host::control::mask::MaskError| e.to_string())
}

#[derive(Serialize)]
struct Xps {
    xps_cpus: Vec<QueueCpus>,
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &XpsArgs) -> Result<(), ControlError> {
    let (target, request) = match &args.what {
        What::Show { target } => (target, Request::XpsShow {}),
        What::Set {
            queue,
            mask,
            target,
        } => {
            let (queue, cpus) = (*queue, mask.clone());
            (target, Request::XpsSet { queue, cpus })
        }
    };
    let (pid, at, Reply::Xps(xps_cpus)) = ask(target, request)? else {
        return Err(unexpected());
    };
    print(target, (pid, at), &Xps { xps_cpus }, |out, xps| {
        for q in &xps.xps_cpus {
            writeln!(out, "tx-{} {}", q.queue, q.cpus)?;
        }
        Ok(())
    })
}
