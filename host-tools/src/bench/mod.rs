// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench`: experiments, each a subcommand. What is simulated repeats exactly
//! with the same seed; `throughput` measures this machine.

mod all;
mod output;
mod pacing;
mod plot;
mod report;
mod throughput;
mod tso_rtt;
mod tsq;
mod win_divisor;
mod xps;

use clap::Subcommand;
use output::Shown;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// Why an experiment has no result.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Pacing.
    #[error(transparent)]
    Pacing(#[from] tsonic_bench::pacing::PacingError),
    /// Two hosts and a wire.
    #[error(transparent)]
    Hosts(#[from] tsonic_bench::hosts::HostsError),
    /// Throughput.
    #[error(transparent)]
    Throughput(#[from] tsonic_bench::throughput::ThroughputError),
    /// Instructions cannot be counted.
    #[error("cannot count instructions: {0}")]
    Count(String),
    /// Burst sizes by round-trip time.
    #[error(transparent)]
    TsoRtt(#[from] tsonic_bench::tso_rtt::TsoRttError),
    /// The result cannot be written.
    #[error("{0}; check where standard output goes")]
    Output(#[source] io::Error),
    /// Nor can a file of it.
    #[error("cannot write {}: {source}", .path.display())]
    File {
        /// Where to.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line of `all` is not one of an experiment.
    #[error("{0}")]
    Line(String),
    /// The plot cannot be drawn.
    #[error("cannot draw the plot: {0}")]
    Plot(String),
}

/// Experiments: what the mechanisms are for, measured.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Example:\n  tsonic bench pacing --flows 256 --load 95% --svg pacing.svg"
)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(flatten)]
    One(Box<Experiment>),
    All(all::AllArgs),
}

#[derive(Debug, Subcommand)]
enum Experiment {
    Pacing(pacing::PacingArgs),
    Tsq(tsq::TsqArgs),
    Throughput(throughput::ThroughputArgs),
    TsoRtt(tso_rtt::TsoRttArgs),
    Xps(xps::XpsArgs),
    WinDivisor(win_divisor::WinDivisorArgs),
}

impl Experiment {
    fn run(&self) -> Result<Shown, BenchError> {
        match self {
            Experiment::Pacing(args) => output::show(&args.output, |out| pacing::run(args, out)),
            Experiment::Tsq(args) => output::show(&args.output, |out| tsq::run(args, out)),
            Experiment::Throughput(args) => {
                output::show(&args.output, |out| throughput::run(args, out))
            }
            Experiment::TsoRtt(args) => output::show(&args.output, |out| tso_rtt::run(args, out)),
            Experiment::Xps(args) => output::show(&args.output, |out| xps::run(args, out)),
            Experiment::WinDivisor(args) => {
                output::show(&args.output, |out| win_divisor::run(args, out))
            }
        }
    }
}

/// Runs an experiment, or all.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    match &args.command {
        Command::One(experiment) => experiment.run().map(drop),
        Command::All(args) => all::run(args),
    }
}
