// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic features`: offloads.

use super::target::Target;
use super::{ControlError, ask, print, unexpected};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use tsonic_host::control::protocol::{Feature, Reply, Request};

/// Shows or switches offloads of a running process.
///
/// Names are those of `ethtool -k`. With tcp-segmentation-offload (tso) off every burst is one
/// segment, and the NIC only finishes its checksums.
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  tsonic features show\n  tsonic features set tso off")]
pub struct FeaturesArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Clone, Debug, Subcommand)]
enum What {
    /// Every offload.
    #[command(after_help = "Example:\n  tsonic features show")]
    Show {
        #[command(flatten)]
        target: Target,
    },
    /// Switches one.
    #[command(after_help = "Example:\n  tsonic features set tso off")]
    Set {
        /// Its name, or the short one of `ethtool -K` (tso).
        name: String,
        /// On or off.
        #[arg(value_enum)]
        state: Switch,
        #[command(flatten)]
        target: Target,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// The NIC does it.
    On,
    /// It does not.
    Off,
}

#[derive(Serialize)]
struct Features {
    features: Vec<Feature>,
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &FeaturesArgs) -> Result<(), ControlError> {
    let (target, request) = match &args.what {
        What::Show { target } => (target, Request::FeaturesShow {}),
        What::Set {
            name,
            state,
            target,
        } => {
            let (name, on) = (name.clone(), *state == Switch::On);
            (target, Request::FeaturesSet { name, on })
        }
    };
    let (pid, at, Reply::Features(features)) = ask(target, request)? else {
        return Err(unexpected());
    };
    print(target, (pid, at), &Features { features }, |out, all| {
        for f in &all.features {
            let indent = if f.part_of.is_some() { "\t" } else { "" };
            let state = if f.on { "on" } else { "off" };
            // A part is switched by its whole.
            let fixed = if f.fixed && f.part_of.is_none() {
                " [fixed]"
            } else {
                ""
            };
            writeln!(out, "{indent}{}: {state}{fixed}", f.name)?;
        }
        Ok(())
    })
}
