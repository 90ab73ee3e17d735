// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench win-divisor`.

use super::BenchError;
use super::output::{Output, OutputArgs};
use super::plot::{Axis, Plot};
use crate::units;
use clap::{Args, ValueEnum};
use std::fmt;
use std::time::Duration;
use tsonic_bench::rig;
use tsonic_bench::win_divisor::{self, CWND_MAX, Form, Row, Settings};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_types::ByteRate;

/// Bursts by their share of the congestion window (net.ipv4.tcp_tso_win_divisor).
///
/// One connection sends as much as it can through the model of the NIC, with a congestion window
/// that is held at each of --cwnd, with segmentation off and with it in the form of 2004
/// (tsonic.tso_sizing=window: the share of the window is the size of a burst) and in today's (the
/// share decides what is deferred). Nothing is paced. Times are virtual. Columns: RTT of the wire,
/// form, divisor, window, goodput, share of the wire, segments in a burst (mean, and what the
/// arithmetic says: with today's form the most), bursts and deferrals a second, smoothed RTT.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  tsonic bench win-divisor --rtt 1ms --cwnd 32,128")]
pub struct WinDivisorArgs {
    /// Speed of the wire.
    #[arg(long, value_parser = units::rate, default_value = "1Gbit", value_name = "RATE")]
    line: ByteRate,
    /// Round trip times of the wire.
    #[arg(long, value_parser = units::delay, value_delimiter = ',', default_value = "1ms,100us", value_name = "SPAN")]
    rtt: Vec<Duration>,
    /// How bursts are sized.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "off,2004,today"
    )]
    form: Vec<FormArg>,
    /// Values of net.ipv4.tcp_tso_win_divisor.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        default_value = "0,1,3,8",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX))
    )]
    divisor: Vec<u32>,
    /// Congestion windows in segments.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "SEGMENTS",
        default_value = "4,8,16,32,64,128,256,512",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(CWND_MAX))
    )]
    cwnd: Vec<u32>,
    /// Virtual time before the measurement.
    #[arg(long, value_parser = units::span, default_value = "100ms")]
    warm_up: Duration,
    /// Virtual time of each measurement.
    #[arg(long, value_parser = units::measured, default_value = "400ms")]
    time: Duration,
    /// Seed of sequence numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// How bursts are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum FormArg {
    /// Every burst is one segment.
    Off,
    /// The share of the congestion window.
    #[value(name = "2004")]
    Y2004,
    /// By the pacing rate, deferred until the share is open.
    Today,
}

impl From<FormArg> for Form {
    fn from(form: FormArg) -> Form {
        match form {
            FormArg::Off => Form::Off,
            FormArg::Y2004 => Form::Y2004,
            FormArg::Today => Form::Today,
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &WinDivisorArgs, out: &mut Output<'_>) -> Result<(), BenchError> {
    let nic = || -> Box<dyn Nic + Send> {
        Box::new(Model::new(ModelConfig {
            queues: 4,
            ..rig::fast_model()
        }))
    };
    let forms: Vec<Form> = args.form.iter().map(|&f| f.into()).collect();
    let settings = Settings {
        nic: &nic,
        bus: rig::fast_bus(),
        wire: args.line,
        rtts: &args.rtt,
        forms: &forms,
        divisors: &args.divisor,
        cwnds: &args.cwnd,
        warm_up: args.warm_up,
        time: args.time,
        seed: args.seed,
    };
    out.heading(heading());
    let mut rows = Vec::new();
    win_divisor::run(&settings, |row| {
        out.row(&row, &Cells(&row));
        rows.push(row);
    })?;
    out.plot(plot(&rows));
    Ok(())
}

fn heading() -> String {
    format!(
        "{:>8} {:<5} {:>7} {:>5} {:>8} {:>7} {:>7} {:>6} {:>9} {:>9} {:>8}",
        "rtt us",
        "form",
        "divisor",
        "cwnd",
        "Mb/s",
        "wire",
        "segs",
        "arith",
        "bursts/s",
        "deferred",
        "srtt us"
    )
}

const fn form_name(form: Form) -> &'static str {
    match form {
        Form::Off => "off",
        Form::Y2004 => "2004",
        Form::Today => "today",
    }
}

/// A row of the table.
struct Cells<'a>(&'a Row);

impl fmt::Display for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.0;
        let divisor = row.divisor.map_or("-".into(), |d| d.to_string());
        write!(
            f,
            "{:>8.0} {:<5} {:>7} {:>5} {:>8.1} {:>6.1}% {:>7.2} {:>6} {:>9.0} {:>9.0} {:>8.1}",
            row.rtt_us,
            form_name(row.form),
            divisor,
            row.cwnd,
            row.goodput / 1e6,
            100.0 * row.wire_share,
            row.segments_per_burst,
            row.arithmetic,
            row.bursts_per_s,
            row.deferrals_per_s,
            row.srtt_us
        )
    }
}

fn plot(rows: &[Row]) -> Plot {
    let mut plot = Plot {
        title: "Segments in a burst against the congestion window".into(),
        x: Axis {
            title: "segments of the window",
            log: true,
        },
        y: Axis {
            title: "segments",
            log: true,
        },
        series: Vec::new(),
    };
    for row in rows {
        let divisor = row.divisor.map_or(String::new(), |d| format!(", {d}"));
        let name = format!("{}{divisor}, RTT {:.0} us", form_name(row.form), row.rtt_us);
        plot.add(name, (f64::from(row.cwnd), row.segments_per_burst));
    }
    plot
}
