// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench tso-rtt`.

use super::BenchError;
use super::output::{Output, OutputArgs};
use super::plot::{Axis, Plot, Series};
use crate::units;
use clap::{Args, ValueEnum};
use std::fmt;
use std::time::Duration;
use tsonic_bench::stats::Spread;
use tsonic_bench::tso_rtt::{self, AckPolicy, Case, PacingMode, Row, Settings};
use tsonic_types::{ByteRate, Nanos};

/// Bursts that grow when the peer is near: what they save, and what they cost a switch.
///
/// Two hosts with 100 Gb/s NICs send flows of 20 MB/s through one port of 100 Gb/s that marks
/// what finds more than 100 kB in front of it; the base round trip is 30 us. All combinations of
/// --mode, --flows, --mss, --log, --gso-max and --acks are run (with the log off, gso_max changes
/// nothing, and only the first is), and one more row whose senders react to marks. Columns are
/// means of the seeds, CE is the sum of their marks with the least and the largest; --json has
/// the spread of all. Host time is time of the core in engine and driver, least of the seeds.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example, in seconds:\n  tsonic bench tso-rtt --mode line,nic --flows 240 --mss 4096 --acks two-segments --time 20ms --warm-up 100ms --seeds 1"
)]
pub struct TsoRttArgs {
    /// Who spaces: bursts wait in the NIC and leave at line rate, the NIC spaces segments, or
    /// the engine's timer spaces bursts.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "line,nic,edt"
    )]
    mode: Vec<ModeArg>,
    /// Flows of each sender.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        default_value = "240,300",
        value_parser = clap::value_parser!(u32).range(1..=1_023)
    )]
    flows: Vec<u32>,
    /// Payload bytes of a segment.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BYTES",
        default_value = "4044,4096",
        value_parser = clap::value_parser!(u32).range(536..=8_948)
    )]
    mss: Vec<u32>,
    /// tcp_tso_rtt_log: 0 to 31, or off.
    #[arg(long, value_delimiter = ',', value_name = "LOG", default_value = "off,9", value_parser = log)]
    log: Vec<Log>,
    /// Most payload bytes of a burst.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BYTES",
        default_value = "65536,185000",
        value_parser = clap::value_parser!(u32).range(16_384..=262_143)
    )]
    gso_max: Vec<u32>,
    /// When receivers acknowledge: every second segment, or each burst at once.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "two-segments,burst"
    )]
    acks: Vec<AcksArg>,
    /// Sending hosts.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=32))]
    senders: u8,
    /// Limit of a flow in payload bytes; rates are drawn one hundredth around it.
    #[arg(long, value_parser = units::rate, value_name = "RATE", default_value = "160Mbit")]
    rate: ByteRate,
    /// Virtual time of each run before what is measured.
    #[arg(long, value_parser = units::span, default_value = "200ms")]
    warm_up: Duration,
    /// Virtual time of each run that is measured.
    #[arg(long, value_parser = units::measured, default_value = "1s")]
    time: Duration,
    /// Runs of each row.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    seeds: u32,
    /// Seed of the first run; each has the one after.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs at a time. They disturb each other's host time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    jobs: u32,
    /// No row whose senders react to marks.
    #[arg(long)]
    no_react: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Who spaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ModeArg {
    /// Bursts wait below TCP for their time, and leave whole at line rate.
    Line,
    /// The NIC spaces segments.
    Nic,
    /// The engine's timer spaces bursts.
    Edt,
}

/// When receivers acknowledge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AcksArg {
    /// Every second segment.
    TwoSegments,
    /// Each burst at once, as after receive aggregation.
    Burst,
}

/// A value of tcp_tso_rtt_log. A type of its own, as an option means an optional argument to clap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Log(Option<u8>);

fn log(text: &str) -> Result<Log, String> {
    match (text, text.parse()) {
        ("off", _) => Ok(Log(None)),
        (_, Ok(log @ 0..=31)) => Ok(Log(Some(log))),
        _ => Err("0 to 31, or off".into()),
    }
}

impl TsoRttArgs {
    fn cases(&self) -> Vec<Case> {
        let mut cases = Vec::new();
        for mode in &self.mode {
            for &flows in &self.flows {
                for &mss in &self.mss {
                    for (&Log(rtt_log), sizes) in self.log.iter().map(|l| (l, &self.gso_max)) {
                        let sizes = if rtt_log.is_none() {
                            &sizes[..1]
                        } else {
                            sizes
                        };
                        for &gso_max in sizes {
                            for acks in &self.acks {
                                cases.push(Case {
                                    mode: mode.mode(),
                                    flows,
                                    mss,
                                    rtt_log,
                                    gso_max,
                                    acks: acks.policy(),
                                    react: false,
                                });
                            }
                        }
                    }
                }
            }
        }
        // The one with the largest bursts at the first number of flows.
        let of_first = |c: &&Case| c.mode == cases[0].mode && c.flows == cases[0].flows;
        let largest = (cases.iter().filter(of_first)).max_by_key(|c| (c.rtt_log, c.gso_max));
        if let Some(&case) = largest.filter(|_| !self.no_react) {
            cases.push(Case {
                react: true,
                ..case
            });
        }
        cases
    }
}

impl ModeArg {
    const fn mode(self) -> PacingMode {
        match self {
            ModeArg::Line => PacingMode::Line,
            ModeArg::Nic => PacingMode::Nic,
            ModeArg::Edt => PacingMode::Edt,
        }
    }
}

impl AcksArg {
    const fn policy(self) -> AckPolicy {
        match self {
            AcksArg::TwoSegments => AckPolicy::TwoSegments,
            AcksArg::Burst => AckPolicy::Burst,
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &TsoRttArgs, out: &mut Output<'_>) -> Result<(), BenchError> {
    let settings = Settings {
        cases: &args.cases(),
        senders: args.senders,
        rate: args.rate,
        spread: 0.01,
        wire: ByteRate(12_500_000_000),
        delay: Nanos::from_micros(15),
        step: 100_000,
        warm_up: args.warm_up,
        time: args.time,
        seed: args.seed,
        seeds: args.seeds,
        jobs: args.jobs,
    };
    out.heading(heading());
    let mut rows = Vec::new();
    tso_rtt::run(&settings, |row| {
        out.row(&row, &Cells(&row));
        rows.push(row);
    })?;
    out.plot(plot(&rows));
    Ok(())
}

fn heading() -> String {
    format!(
        "{:<4} {:>5} {:>4} {:>3} {:>6} {:<5} {:<5} {:>5} {:>6} {:>8} {:>8} {:>9} {:>21} {:>6} {:>6} {:>6} {:>15} {:>6} {:>6}",
        "mode",
        "flows",
        "mss",
        "log",
        "gso",
        "acks",
        "react",
        "load",
        "seg/b",
        "bursts/s",
        "acks/s",
        "CE sum",
        "CE/s of a seed",
        "q50 kB",
        "q99 kB",
        "max kB",
        "gap p50/p99 us",
        "us/MB",
        "copy"
    )
}

/// A row of the table.
struct Cells<'a>(&'a Row);

const fn acks_name(acks: AckPolicy) -> &'static str {
    match acks {
        AckPolicy::TwoSegments => "two",
        AckPolicy::Burst => "burst",
    }
}

fn log_name(log: Option<u8>) -> String {
    log.map_or("off".into(), |l| l.to_string())
}

impl fmt::Display for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (r, c) = (self.0, &self.0.case);
        let kb = |s: &Spread| s.mean / 1e3;
        write!(
            f,
            "{:<4} {:>5} {:>4} {:>3} {:>6} {:<5} {:<5} {:>4.0}% {:>6.2} {:>8.0} {:>8.0} {:>9} {:>10.0}..{:>9.0} {:>6.1} {:>6.1} {:>6.1} {:>7.2}/{:>7.1} {:>6.1} {:>6.1}",
            c.mode.name(),
            c.flows,
            c.mss,
            log_name(c.rtt_log),
            c.gso_max,
            acks_name(c.acks),
            if c.react { "yes" } else { "no" },
            100.0 * r.load,
            r.segments_per_burst.mean,
            r.bursts_per_s.mean,
            r.acks_per_s.mean,
            r.marks,
            r.marks_per_s.min,
            r.marks_per_s.max,
            kb(&r.queue_p50),
            kb(&r.queue_p99),
            kb(&r.queue_max),
            r.gap_error_p50_ns.mean / 1e3,
            r.gap_error_p99_ns.mean / 1e3,
            r.host_ns_per_mb.min / 1e3,
            r.copy_ns_per_mb.min / 1e3,
        )
    }
}

fn plot(rows: &[Row]) -> Plot {
    let mut series: Vec<Series> = Vec::new();
    for row in rows.iter().filter(|r| !r.case.react) {
        let name = format!("{}, {} flows", row.case.mode.name(), row.case.flows);
        let point = (row.segments_per_burst.mean, row.queue_p99.mean / 1e3);
        match series.iter_mut().find(|s| s.name == name) {
            Some(s) => s.points.push(point),
            None => series.push(Series {
                name,
                points: vec![point],
            }),
        }
    }
    for s in &mut series {
        s.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    Plot {
        title: "99 % of frames find at the port at most".into(),
        x: Axis {
            title: "segments per burst",
            log: false,
        },
        y: Axis {
            title: "kB",
            log: true,
        },
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TsoRttArgs,
    }

    #[test]
    fn the_default_is_the_full_experiment_and_one_row_reacts() {
        let cases = Line::parse_from(["x"]).args.cases();
        assert_eq!(cases.len(), 3 * 2 * 2 * 3 * 2 + 1);
        let reacts: Vec<&Case> = cases.iter().filter(|c| c.react).collect();
        assert_eq!(reacts.len(), 1);
        assert_eq!((reacts[0].rtt_log, reacts[0].gso_max), (Some(9), 185_000));
        assert!(Line::try_parse_from(["x", "--log", "32"]).is_err());
    }
}
