// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench tsq`.

use super::BenchError;
use super::output::{Output, OutputArgs};
use super::plot::{Axis, Plot};
use crate::units;
use clap::Args;
use std::fmt;
use std::time::Duration;
use tsonic_bench::rig;
use tsonic_bench::tsq::{self, Row, Settings};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_types::ByteRate;

/// What a limit on the bytes below TCP costs and buys (TCP small queues).
///
/// One connection sends as much as it can through the model of the NIC, with each limit
/// at each flush period, RTT and speed; the last row of each lets the limit follow the
/// queue's dynamic limit (tsonic.tsq_bql). Times are virtual. Columns: share of the wire,
/// bytes below the engine (mean over time, and most), smoothed RTT, congestion window,
/// segments in a burst.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  tsonic bench tsq --line 10Gbit --rtt 2ms --flush 100us")]
pub struct TsqArgs {
    /// Speeds of the wire.
    #[arg(long, value_parser = units::rate, value_delimiter = ',', default_value = "1Gbit,10Gbit", value_name = "RATE")]
    line: Vec<ByteRate>,
    /// Round trip times of the wire.
    #[arg(long, value_parser = units::delay, value_delimiter = ',', default_value = "2ms,100us", value_name = "SPAN")]
    rtt: Vec<Duration>,
    /// How long completions wait for more of them before they are seen.
    #[arg(
        long,
        value_parser = units::span,
        value_delimiter = ',',
        default_value = "0s,10us,100us,1ms",
        value_name = "SPAN"
    )]
    flush: Vec<Duration>,
    /// Values of net.ipv4.tcp_limit_output_bytes.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "16384,32768,65536,131072,262144,524288,1048576",
        value_name = "BYTES"
    )]
    limit: Vec<u32>,
    /// Largest burst in payload bytes.
    #[arg(long, default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1_448..=262_143))]
    gso_max: u32,
    /// Virtual time before the measurement.
    #[arg(long, value_parser = units::span, default_value = "100ms")]
    warm_up: Duration,
    /// Virtual time of each measurement.
    #[arg(long, value_parser = units::measured, default_value = "100ms")]
    time: Duration,
    /// Seed of sequence numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Runs the experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &TsqArgs, out: &mut Output<'_>) -> Result<(), BenchError> {
    let nic = || -> Box<dyn Nic + Send> {
        Box::new(Model::new(ModelConfig {
            queues: 4,
            ..rig::fast_model()
        }))
    };
    let settings = Settings {
        nic: &nic,
        bus: rig::fast_bus(),
        rates: &args.line,
        rtts: &args.rtt,
        flushes: &args.flush,
        limits: &args.limit,
        gso_max: args.gso_max,
        warm_up: args.warm_up,
        time: args.time,
        seed: args.seed,
    };
    out.heading(heading());
    let mut rows = Vec::new();
    tsq::run(&settings, |row| {
        out.row(&row, &Cells(&row));
        rows.push(row);
    })?;
    out.plot(plot(&rows));
    Ok(())
}

fn heading() -> String {
    format!(
        "{:>8} {:>8} {:>8} {:>8} {:>7} {:>10} {:>9} {:>9} {:>6} {:>8}",
        "line", "rtt us", "flush us", "limit", "wire", "below", "most", "srtt us", "cwnd", "segs"
    )
}

/// A row of the table.
struct Cells<'a>(&'a Row);

impl fmt::Display for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.0;
        let limit = row.limit.map_or("bql".into(), |l| l.to_string());
        write!(
            f,
            "{:>4.0}Gb/s {:>8.0} {:>8.0} {:>8} {:>6.1}% {:>10.0} {:>9} {:>9.1} {:>6} {:>8.2}",
            row.line_rate as f64 / 1e9,
            row.rtt_us,
            row.flush_us,
            limit,
            100.0 * row.wire_share,
            row.below_mean,
            row.below_max,
            row.srtt_us,
            row.cwnd,
            row.segments_per_burst
        )
    }
}

fn plot(rows: &[Row]) -> Plot {
    let mut plot = Plot {
        title: "Share of the wire against tcp_limit_output_bytes".into(),
        x: Axis {
            title: "bytes",
            log: true,
        },
        y: Axis {
            title: "%",
            log: false,
        },
        series: Vec::new(),
    };
    for row in rows {
        // The limit that follows the queue has no place on this axis.
        let Some(limit) = row.limit else { continue };
        let name = format!(
            "{:.0} Gb/s, RTT {:.0} us, flush {:.0} us",
            row.line_rate as f64 / 1e9,
            row.rtt_us,
            row.flush_us
        );
        plot.add(name, (f64::from(limit), 100.0 * row.wire_share));
    }
    plot
}
