// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench`: experiments, each a subcommand. What is simulated repeats exactly
//! with the same seed; `throughput` measures this machine.

mod output;
mod pacing;
mod plot;
mod throughput;
mod tso_rtt;
mod tsq;
mod win_divisor;
mod xps;

use clap::Subcommand;
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
    /// Nor can the plot.
    #[error("cannot write {}: {what}", .path.display())]
    Plot {
        /// Where to.
        path: PathBuf,
        /// Why not.
        what: String,
    },
}

/// Experiments: what the mechanisms are for, measured.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Example:\n  tsonic bench pacing --flows 256 --load 95% --svg pacing.svg"
)]
pub struct BenchArgs {
    #[command(subcommand)]
    experiment: Experiment,
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

/// Runs an experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &BenchArgs) -> Result<(), BenchError> {
    match &args.experiment {
        Experiment::Pacing(args) => pacing::run(args),
        Experiment::Tsq(args) => tsq::run(args),
        Experiment::Throughput(args) => throughput::run(args),
        Experiment::TsoRtt(args) => tso_rtt::run(args),
        Experiment::Xps(args) => xps::run(args),
        Experiment::WinDivisor(args) => win_divisor::run(args),
    }
}
