// SPDX-License-Identifier: MIT OR Apache-2.0
//! The `tsonic` command: one subcommand a file.
//!
//! Exit code 0: done. 1: failed, the reason on standard error. 2: the command
//! line itself is wrong.

mod bench;
mod classify;
mod control;
mod demo;
mod device;
mod doctor;
mod echo;
mod explain;
mod jsonl;
mod link;
mod nics;
mod regs;
mod segment;
mod signals;
mod units;
mod verilog;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use thiserror::Error;

/// Simulate, measure and tune the tsonic NIC.
#[derive(Debug, Parser)]
#[command(name = "tsonic", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Bench(bench::BenchArgs),
    Bql(control::bql::BqlArgs),
    Classify(classify::Args),
    Coalesce(control::coalesce::CoalesceArgs),
    Demo(Box<demo::DemoArgs>),
    Device(Box<device::DeviceArgs>),
    Doctor(doctor::DoctorArgs),
    Echo(Box<echo::EchoArgs>),
    Explain(explain::Args),
    Features(control::features::FeaturesArgs),
    Queue(control::queue::QueueArgs),
    Rate(control::rate::RateArgs),
    Regs(regs::RegsArgs),
    Segment(segment::Args),
    Stats(control::stats::StatsArgs),
    Sysctl(control::sysctl::SysctlArgs),
    Verilog(verilog::Args),
    Xps(control::xps::XpsArgs),
}

/// Why a command failed.
#[derive(Debug, Error)]
enum CliError {
    /// Reading or writing.
    #[error("{0}; check where standard input and output go")]
    Io(#[from] io::Error),
    /// The demo.
    #[error(transparent)]
    Demo(#[from] demo::DemoError),
    /// A device process.
    #[error(transparent)]
    Device(#[from] device::DeviceError),
    /// A running process.
    #[error(transparent)]
    Control(#[from] control::ControlError),
    /// The machine.
    #[error(transparent)]
    Doctor(#[from] doctor::DoctorError),
    /// The host on a TAP.
    #[error(transparent)]
    Echo(#[from] echo::EchoError),
    /// A NIC for bursts or frames.
    #[error(transparent)]
    Rig(#[from] tsonic_bench::rig::RigError),
    /// An experiment.
    #[error(transparent)]
    Bench(#[from] bench::BenchError),
    /// Verilog.
    #[error(transparent)]
    Verilog(#[from] verilog::VerilogError),
}

impl Cli {
    fn run(self) -> Result<(), CliError> {
        match self.command {
            Command::Bench(args) => Ok(bench::run(&args)?),
            Command::Bql(args) => Ok(control::bql::run(&args)?),
            Command::Classify(args) => classify::run(&args),
            Command::Coalesce(args) => Ok(control::coalesce::run(&args)?),
            Command::Demo(args) => Ok(demo::run(&args)?),
            Command::Device(args) => Ok(device::run(&args)?),
            Command::Doctor(args) => Ok(doctor::run(&args)?),
            Command::Echo(args) => Ok(echo::run(&args)?),
            Command::Explain(args) => explain::run(&args),
            Command::Features(args) => Ok(control::features::run(&args)?),
            Command::Queue(args) => Ok(control::queue::run(&args)?),
            Command::Rate(args) => Ok(control::rate::run(&args)?),
            Command::Regs(args) => Ok(regs::run(&args)?),
            Command::Segment(args) => segment::run(&args),
            Command::Stats(args) => Ok(control::stats::run(&args)?),
            Command::Sysctl(args) => Ok(control::sysctl::run(&args)?),
            Command::Verilog(args) => Ok(verilog::run(&args)?),
            Command::Xps(args) => Ok(control::xps::run(&args)?),
        }
    }
}

impl CliError {
    /// Whether the command line itself is wrong, which only shows when it is carried out.
    fn is_usage(&self) -> bool {
        match self {
            CliError::Io(_) | CliError::Doctor(_) => false,
            CliError::Demo(e) => e.is_usage(),
            CliError::Device(e) => matches!(e, device::DeviceError::Rtl(e) if nics::no_such(e)),
            CliError::Control(e) => e.is_usage(),
            CliError::Echo(e) => e.is_usage(),
            CliError::Bench(_) => false,
            CliError::Rig(e) => {
                matches!(e, tsonic_bench::rig::RigError::Rtl(e) if nics::no_such(e))
            }
            CliError::Verilog(e) => e.is_usage(),
        }
    }
}

/// A line for the person who runs the command; when nobody can read it, that is all.
fn say(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The command line, or the end of the program with a word on what is wrong with it.
fn parse() -> Cli {
    let matches = Cli::command().get_matches();
    let checked = |m: &ArgMatches| {
        let cli = Cli::from_arg_matches(m)?;
        if let (Command::Demo(args), Some((_, given))) = (&cli.command, m.subcommand()) {
            args.check(given)?;
        }
        Ok(cli)
    };
    checked(&matches).unwrap_or_else(|e: clap::Error| e.exit())
}

fn main() -> ExitCode {
    tsonic_sim::rtl::before_compiling(|| {
        say(format_args!(
            "tsonic: compiling the NIC with Verilator, about a minute, this once"
        ));
    });
    match parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(
            CliError::Io(e)
            | CliError::Demo(demo::DemoError::Output(e))
            | CliError::Control(control::ControlError::Output(e))
            | CliError::Doctor(doctor::DoctorError::Output(e)),
        ) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            say(format_args!("tsonic: {e}"));
            ExitCode::from(if e.is_usage() { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent_and_every_command_has_an_example() {
        let mut cli = Cli::command();
        cli.build();
        cli.clone().debug_assert();
        fn look(command: &mut clap::Command) {
            for inner in command.get_subcommands_mut() {
                if inner.get_name() != "help" {
                    let help = inner.render_long_help().to_string();
                    let name = inner.get_bin_name().unwrap_or_default();
                    assert!(help.contains("Example"), "{name}");
                    look(inner);
                }
            }
        }
        look(&mut cli);
    }
}
