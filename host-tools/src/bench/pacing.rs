// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench pacing`.

use super::BenchError;
use super::output::{Output, OutputArgs};
use super::plot::{Axis, Plot};
use crate::nics::NicKind;
use crate::units;
use clap::{Args, ValueEnum};
use std::fmt;
use std::time::Duration;
use tsonic_bench::pacing::{self, FRAME, Rates, Row, Server, Settings};
use tsonic_bench::rig;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl::RtlError;
use tsonic_types::ByteRate;

/// Bursts that the model holds; half of them may be of one queue.
const CONTEXTS: usize = 8_192;

/// How evenly flows leave that the NIC paces, beside an ideal server and pacing by software.
///
/// All combinations of --flows, --rates and --load are run. Times are virtual. Columns: the
/// error of times between departures of a flow's segments, and the largest difference of a
/// flow's rate over the whole run from the one it asked for.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  tsonic bench pacing --flows 1,256 --load 95%")]
pub struct PacingArgs {
    /// The NIC.
    #[arg(long, value_enum, default_value = "model")]
    nic: NicKind,
    /// Numbers of flows [default: 1,32,256,1023; with rtl 1,8,32].
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_023))]
    flows: Vec<u32>,
    /// How the rates differ.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "equal,log-uniform"
    )]
    rates: Vec<RatesArg>,
    /// Shares of the wire that the flows take together.
    #[arg(long, value_parser = units::share, value_delimiter = ',', default_value = "50%,95%")]
    load: Vec<f64>,
    /// Speed of the wire [default: 100Gbit; with rtl 4Gbit].
    #[arg(long, value_parser = units::rate, value_name = "RATE")]
    wire: Option<ByteRate>,
    /// Virtual time of each run [default: 500ms; with rtl 2ms].
    #[arg(long, value_parser = units::measured)]
    time: Option<Duration>,
    /// Queues over which the flows are spread.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=32))]
    queues: u16,
    /// Wire bytes that a queue may send before the next queue's turn.
    #[arg(long, default_value_t = FRAME, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    quantum: u32,
    /// Seed of rates and starts.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How rates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RatesArg {
    /// All the same.
    Equal,
    /// Their logarithms are uniform, from 1 Mb/s to 10 Gb/s before they are scaled to the load.
    LogUniform,
}

impl From<RatesArg> for Rates {
    fn from(rates: RatesArg) -> Rates {
        match rates {
            RatesArg::Equal => Rates::Equal,
            RatesArg::LogUniform => Rates::LogUniform,
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &PacingArgs, out: &mut Output<'_>) -> Result<(), BenchError> {
    let (counts, wire, millis): (&[u32], u64, u64) = match args.nic {
        NicKind::Model => (&[1, 32, 256, 1023], 12_500_000_000, 500),
        NicKind::Rtl => (&[1, 8, 32], 500_000_000, 2),
    };
    let nic = || -> Result<Box<dyn Nic + Send>, RtlError> {
        match args.nic {
            // Room for all bursts at once, whatever queue they are in: slow flows hold
            // theirs for long, and fast ones must not wait for them.
            NicKind::Model => Ok(Box::new(Model::new(ModelConfig {
                contexts: CONTEXTS,
                ..rig::fast_model()
            }))),
            NicKind::Rtl => args.nic.build(32),
        }
    };
    let rates: Vec<Rates> = args.rates.iter().map(|&r| r.into()).collect();
    let settings = Settings {
        nic: &nic,
        bus: match args.nic {
            NicKind::Model => rig::fast_bus(),
            NicKind::Rtl => RootComplexConfig::default(),
        },
        flows: if args.flows.is_empty() {
            counts
        } else {
            &args.flows
        },
        rates: &rates,
        loads: &args.load,
        wire: args.wire.unwrap_or(ByteRate(wire)),
        time: args.time.unwrap_or(Duration::from_millis(millis)),
        queues: args.queues,
        quantum: args.quantum,
        seed: args.seed,
    };
    out.heading(heading());
    let mut rows = Vec::new();
    pacing::run(&settings, |row| {
        out.row(&row, &Cells(&row));
        rows.push(row);
    })?;
    out.plot(plot(&rows));
    Ok(())
}

fn heading() -> String {
    format!(
        "{:>5} {:<11} {:>5} {:<8} {:>9} {:>10} {:>10} {:>10} {:>10} {:>9}",
        "flows",
        "rates",
        "load",
        "server",
        "gaps",
        "p50 ns",
        "p99 ns",
        "p99.9 ns",
        "max ns",
        "rate"
    )
}

const fn rates_name(rates: Rates) -> &'static str {
    match rates {
        Rates::Equal => "equal",
        Rates::LogUniform => "log-uniform",
    }
}

const fn server_name(server: Server) -> &'static str {
    match server {
        Server::Nic => "nic",
        Server::Ideal => "ideal",
        Server::Software => "software",
    }
}

/// A row of the table.
struct Cells<'a>(&'a Row);

impl fmt::Display for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, e) = (self.0, &self.0.errors);
        write!(
            f,
            "{:>5} {:<11} {:>4.0}% {:<8} {:>9} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>9.1e}",
            row.flows,
            rates_name(row.rates),
            100.0 * row.load,
            server_name(row.server),
            e.gaps,
            e.p50_ns,
            e.p99_ns,
            e.p999_ns,
            e.max_ns,
            e.rate_error
        )
    }
}

fn plot(rows: &[Row]) -> Plot {
    let mut plot = Plot {
        title: "99 % of gaps differ by at most".into(),
        x: Axis {
            title: "flows",
            log: true,
        },
        y: Axis {
            title: "ns",
            log: true,
        },
        series: Vec::new(),
    };
    for row in rows {
        let name = format!(
            "{}, {}, {:.0} %",
            server_name(row.server),
            rates_name(row.rates),
            100.0 * row.load
        );
        plot.add(name, (f64::from(row.flows), row.errors.p99_ns));
    }
    plot
}
