// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts that grow when the peer is near: what they save, and what they cost a switch.
//!
//! Two hosts, a 100 Gb/s NIC each, send many flows that are limited to the same rate,
//! give or take a hundredth, through one port of 100 Gb/s that marks by a step. Behind it, and
//! on the way back, frames take 15 us, so the base round trip is 30 us and what the frames take
//! on two wires. The port's queue, and with it the marks, depends on who
//! spaces what a burst is made of ([`PacingMode`]).

mod fabric;
mod frame;
mod port;
mod receiver;
mod run;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::AckPolicy;
pub use tsonic_tcp::arith::pacing::PacingMode;

use crate::stats::Spread;
use run::{Run, one};
use serde::Serialize;
use std::time::Duration;
use thiserror::Error;
use tsonic_driver::DriverError;
use tsonic_host::HostError;
use tsonic_types::{ByteRate, Nanos};

/// Why the experiment has no result.
#[derive(Debug, Error)]
pub enum TsoRttError {
    /// Engine, driver and device.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A connection does not open.
    #[error("a connection does not open: {0}")]
    Connect(#[from] tsonic_tcp::Error),
    /// A tunable.
    #[error(transparent)]
    Tunable(#[from] tsonic_tcp::tunables::TunableError),
    /// More flows than the NIC has rows for.
    #[error(
        "{flows} flows need {flows} rows of the flow table, of which there are {rows}; give fewer with --flows"
    )]
    Flows {
        /// Asked for.
        flows: u32,
        /// There are.
        rows: u32,
    },
    /// A connection is gone.
    #[error("{0} of the connections are not open any more at the end")]
    Gone(usize),
}

/// What is the same in all rows.
#[derive(Clone, Copy, Debug)]
pub struct Settings<'a> {
    /// The rows.
    pub cases: &'a [Case],
    /// Sending hosts.
    pub senders: u8,
    /// Limit of a flow, payload bytes a second.
    pub rate: ByteRate,
    /// Rates are drawn from the limit less this share of it to the limit and this share.
    pub spread: f64,
    /// Speed of the NICs' and of the port's wire.
    pub wire: ByteRate,
    /// One way.
    pub delay: Nanos,
    /// Wire bytes in the port's queue above which it marks.
    pub step: u64,
    /// Virtual time before what is measured.
    pub warm_up: Duration,
    /// Virtual time that is measured.
    pub time: Duration,
    /// First seed.
    pub seed: u64,
    /// Runs of a row, each with the seed after the one before.
    pub seeds: u32,
    /// Runs at a time, each in a thread.
    pub jobs: u32,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// Who spaces.
    #[serde(serialize_with = "by_name")]
    pub mode: PacingMode,
    /// Flows of a sender.
    pub flows: u32,
    /// Payload bytes of a segment.
    pub mss: u32,
    /// `tcp_tso_rtt_log`; `None`: off.
    pub rtt_log: Option<u8>,
    /// Most payload bytes of a burst.
    pub gso_max: u32,
    /// When receivers acknowledge.
    pub acks: AckPolicy,
    /// Senders reduce their window when marks are echoed.
    pub react: bool,
}

fn by_name<S: serde::Serializer>(mode: &PacingMode, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(mode.name())
}

/// A row of the result.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// What it is about.
    #[serde(flatten)]
    pub case: Case,
    /// Runs.
    pub seeds: u32,
    /// Share of the port's wire that the flows' limits take together.
    pub load: f64,
    /// Payload that arrived in order, bytes a second.
    pub goodput: Spread,
    /// Segments of a burst, mean.
    pub segments_per_burst: Spread,
    /// Bursts a second of all senders.
    pub bursts_per_s: Spread,
    /// Acknowledgements a second of all receivers.
    pub acks_per_s: Spread,
    /// Segments that left the port with a mark, in each second.
    pub marks_per_s: Spread,
    /// The same of all runs together.
    pub marks: u64,
    /// Wire bytes that half of the frames found in front of them at the port.
    pub queue_p50: Spread,
    /// 99 % of them.
    pub queue_p99: Spread,
    /// Most.
    pub queue_max: Spread,
    /// Half of the gaps between departures of a flow's segments differ from those that its
    /// rate asks for by at most this, in ns.
    pub gap_error_p50_ns: Spread,
    /// 99 % of them.
    pub gap_error_p99_ns: Spread,
    /// Time of the core in engine and driver for 1 MB of payload, ns.
    pub host_ns_per_mb: Spread,
    /// Time of the core in the application's writes, which copy, for 1 MB of payload, ns.
    pub copy_ns_per_mb: Spread,
    /// Segments sent again, of all runs together.
    pub retransmitted: u64,
    /// Segments that receivers found out of order, of all runs together.
    pub out_of_order: u64,
    /// Least windowed minimum of a flow's round-trip time in us, and the largest.
    pub min_rtt_us: Spread,
    /// Congestion window in segments at the end, mean of the flows.
    pub cwnd: Spread,
    /// Seconds of wall time that a run took.
    pub wall_s: Spread,
}

impl Row {
    fn of(settings: &Settings<'_>, case: &Case, runs: &[Run]) -> Row {
        let seconds = settings.time.as_secs_f64();
        let spread = |f: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(f));
        let per_s = |f: &dyn Fn(&Run) -> u64| spread(&|r| f(r) as f64 / seconds);
        let per_mb =
            |f: &dyn Fn(&Run) -> u64| spread(&|r| f(r) as f64 / (r.payload.max(1) as f64 / 1e6));
        let wire = f64::from(case.mss) + f64::from(run::HEADER) + 24.0;
        let offered = f64::from(settings.senders) * f64::from(case.flows);
        let load =
            offered * settings.rate.0 as f64 * wire / f64::from(case.mss) / settings.wire.0 as f64;
        Row {
            case: *case,
            seeds: runs.len() as u32,
            load,
            goodput: per_s(&|r| r.received.bytes),
            segments_per_burst: spread(&|r| r.segments as f64 / r.bursts.max(1) as f64),
            bursts_per_s: per_s(&|r| r.bursts),
            acks_per_s: per_s(&|r| r.received.acks),
            marks_per_s: per_s(&|r| r.marks),
            marks: runs.iter().map(|r| r.marks).sum(),
            queue_p50: spread(&|r| r.queue.percentile(0.5) as f64),
            queue_p99: spread(&|r| r.queue.percentile(0.99) as f64),
            queue_max: spread(&|r| r.queue.max() as f64),
            gap_error_p50_ns: spread(&|r| r.gaps.percentile(0.5) as f64),
            gap_error_p99_ns: spread(&|r| r.gaps.percentile(0.99) as f64),
            host_ns_per_mb: per_mb(&|r| r.spent.host),
            copy_ns_per_mb: per_mb(&|r| r.spent.writes),
            retransmitted: runs.iter().map(|r| r.retransmitted).sum(),
            out_of_order: runs.iter().map(|r| r.received.out_of_order).sum(),
            min_rtt_us: Spread::of(runs.iter().flat_map(|r| [r.min_rtt.0, r.min_rtt.1])),
            cwnd: spread(&|r| r.cwnd),
            wall_s: spread(&|r| r.wall.as_secs_f64()),
        }
    }
}

/// Runs all rows; `row` gets each as it is there.
///
/// # Errors
/// [`TsoRttError`].
pub fn run(settings: &Settings<'_>, mut row: impl FnMut(Row)) -> Result<(), TsoRttError> {
    for case in settings.cases {
        let seeds: Vec<u64> = (0..settings.seeds)
            .map(|n| settings.seed + u64::from(n))
            .collect();
        let mut runs = Vec::new();
        for some in seeds.chunks(settings.jobs.max(1) as usize) {
            let results: Vec<_> = std::thread::scope(|scope| {
                let each = some
                    .iter()
                    .map(|seed| scope.spawn(|| one(settings, case, *seed, false)));
                let threads: Vec<_> = each.collect();
                threads.into_iter().map(|t| t.join()).collect()
            });
            for result in results {
                match result {
                    Ok(run) => runs.push(run?),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        }
        row(Row::of(settings, case, &runs));
    }
    Ok(())
}

/// Runs `case` for a profiler, with the first seed: in the time that is measured all turns of
/// the hosts are below a function [`COUNTED`], and what they ask of the device and write below
/// one of [`LEFT_OUT`]. Answers the payload bytes posted meanwhile.
///
/// # Errors
/// [`TsoRttError`].
pub fn count(settings: &Settings<'_>, case: &Case) -> Result<u64, TsoRttError> {
    one(settings, case, settings.seed, true).map(|run| run.payload)
}

/// Name of the function whose instructions count, with all that it calls.
pub const COUNTED: &str = "tsonic_bench_sender";
/// Names of the functions below it that do not count.
pub const LEFT_OUT: [&str; 2] = ["tsonic_bench_write", crate::metered::DEVICE];
