// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP small queues: what a limit on the bytes below TCP costs and buys.
//!
//! One connection sends as much as it can. `tcp_limit_output_bytes` bounds what it has
//! below the engine; what has departed counts until its completion is seen, and completions
//! come together, `flush` after the first of them. So a limit of L bytes sends at
//! most L in the time that these take to depart and be seen: with a small limit
//! the wire waits for the host. A large one gains nothing more, and what it allows waits
//! below TCP, where nothing can be taken back and the RTT grows by it.
//!
//! The limit can also follow the queue: with `tsonic.tsq_bql` it is the queue's dynamic
//! limit, which the device learns from what departs between two flushes of its credits,
//! and one burst.

use crate::hosts::{Hosts, HostsError, Look, Setting};
use serde::Serialize;
use std::time::Duration;
use tsonic_driver::{BqlConfig, TxConfig};
use tsonic_host::NicConfig;
use tsonic_regs::limits::WIRE_OVERHEAD;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::LinkConfig;
use tsonic_types::{ByteRate, Nanos};

/// Payload of a segment with timestamps, and its headers.
const MSS: u32 = 1448;
const HEADERS: u32 = 66;

/// What is run: each limit with each flush period at each RTT and speed.
pub struct Settings<'a> {
    /// Makes a NIC.
    pub nic: &'a dyn Fn() -> Box<dyn Nic + Send>,
    /// The bus between it and the host.
    pub bus: RootComplexConfig,
    /// Speeds of the wire.
    pub rates: &'a [ByteRate],
    /// Round trip times of the wire.
    pub rtts: &'a [Duration],
    /// Periods by which completions are seen.
    pub flushes: &'a [Duration],
    /// Values of `tcp_limit_output_bytes`; besides them the limit that follows the queue.
    pub limits: &'a [u32],
    /// Largest burst in payload bytes.
    pub gso_max: u32,
    /// Virtual time before the measurement.
    pub warm_up: Duration,
    /// Virtual time of the measurement.
    pub time: Duration,
    /// Seed.
    pub seed: u64,
}

/// A row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Speed of the wire in bits per second.
    pub line_rate: u64,
    /// RTT of the wire, us.
    pub rtt_us: f64,
    /// Period by which completions are seen, us.
    pub flush_us: f64,
    /// `tcp_limit_output_bytes`; `None`: the limit follows the queue.
    pub limit: Option<u32>,
    /// Goodput in bits per second.
    pub goodput: f64,
    /// Share of the wire that its frames take.
    pub wire_share: f64,
    /// Bytes below the engine, mean over time, by the measure that the limit bounds.
    pub below_mean: f64,
    /// And at most.
    pub below_max: u64,
    /// Smoothed RTT at the end, us.
    pub srtt_us: f64,
    /// Congestion window at the end, segments.
    pub cwnd: u32,
    /// Segments in a burst, mean.
    pub segments_per_burst: f64,
    /// Payload bytes sent again.
    pub retransmitted: u64,
}

/// Means over time.
#[derive(Default)]
struct Mean {
    sum: f64,
    since: Option<(Nanos, u64)>,
    max: u64,
}

impl Mean {
    fn add(&mut self, now: Nanos, value: u64) {
        self.close(now);
        self.since = Some((now, value));
        self.max = self.max.max(value);
    }

    fn close(&mut self, now: Nanos) {
        if let Some((at, value)) = self.since {
            self.sum += value as f64 * now.since(at).0 as f64;
        }
        self.since = self.since.map(|(_, value)| (now, value));
    }
}

/// One row.
///
/// # Errors
/// [`HostsError`].
pub fn measure(
    settings: &Settings<'_>,
    rate: ByteRate,
    rtt: Duration,
    flush: Duration,
    limit: Option<u32>,
) -> Result<Row, HostsError> {
    let nanos = |d: Duration| Nanos(d.as_nanos() as u64);
    let path = PathConfig {
        delay: nanos(rtt / 2),
        seed: settings.seed,
        ..PathConfig::default()
    };
    let bql = limit.is_none().then_some(BqlConfig {
        limit: 0,
        min: 0,
        max: 1 << 20,
        hold: Nanos::from_millis(1000),
        stall: Nanos::ZERO,
    });
    let mut sysctl = vec![("tsonic.tsq_bql", u8::from(limit.is_none()).to_string())];
    if let Some(limit) = limit {
        sysctl.push(("net.ipv4.tcp_limit_output_bytes", limit.to_string()));
    }
    let link = LinkConfig {
        line_rate: 8 * rate.0,
        out: path,
        back: path,
    };
    let mut hosts = Hosts::start(&Setting {
        queues: NicConfig {
            tx: TxConfig {
                bql,
                ..TxConfig::default()
            },
            ..NicConfig::default()
        },
        sysctl: &sysctl,
        gso_max: settings.gso_max,
        flush: nanos(flush),
        credit_flush: Some(nanos(flush).max(Nanos(1_000))),
        seed: settings.seed,
        ..Setting::new(settings.nic, settings.bus, link)
    })?;
    let start = hosts.now() + nanos(settings.warm_up);
    let end = start + nanos(settings.time);
    hosts.run(start, |_, _| {})?;
    let (start, before) = (hosts.now(), hosts.look());
    let mut below = Mean::default();
    below.add(start, before.below);
    hosts.run(end, |now, hosts| below.add(now, hosts.look().below))?;
    let end = hosts.now();
    below.close(end);
    let after: Look = hosts.look();
    let seconds = end.since(start).0 as f64 / 1e9;
    let bytes = (after.received - before.received) as f64;
    let on_wire = f64::from(MSS + HEADERS) + WIRE_OVERHEAD as f64;
    let bursts = (after.bursts - before.bursts).max(1) as f64;
    Ok(Row {
        line_rate: 8 * rate.0,
        rtt_us: rtt.as_secs_f64() * 1e6,
        flush_us: flush.as_secs_f64() * 1e6,
        limit,
        goodput: 8.0 * bytes / seconds,
        wire_share: bytes / f64::from(MSS) * on_wire / seconds / rate.0 as f64,
        below_mean: below.sum / (seconds * 1e9),
        below_max: below.max,
        srtt_us: after.srtt.0 as f64 / 1e3,
        cwnd: after.cwnd,
        segments_per_burst: (after.segments - before.segments) as f64 / bursts,
        retransmitted: after.retransmitted - before.retransmitted,
    })
}

/// Runs all combinations; `row` gets each row as it is there.
///
/// # Errors
/// [`HostsError`].
pub fn run(settings: &Settings<'_>, mut row: impl FnMut(Row)) -> Result<(), HostsError> {
    let fixed = settings.limits.iter().map(|l| Some(*l));
    let limits: Vec<Option<u32>> = fixed.chain([None]).collect();
    for &rate in settings.rates {
        for &rtt in settings.rtts {
            for &flush in settings.flushes {
                for &limit in &limits {
                    row(measure(settings, rate, rtt, flush, limit)?);
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig;
    use tsonic_sim::model::{Model, ModelConfig};

    fn rows(rate: u64, limits: &[u32]) -> Vec<Row> {
        let nic = || -> Box<dyn Nic + Send> {
            Box::new(Model::new(ModelConfig {
                queues: 4,
                ..rig::fast_model()
            }))
        };
        let settings = Settings {
            nic: &nic,
            bus: rig::fast_bus(),
            rates: &[ByteRate(rate)],
            rtts: &[Duration::from_millis(2)],
            flushes: &[Duration::from_micros(100)],
            limits,
            gso_max: 65_536,
            warm_up: Duration::from_millis(100),
            time: Duration::from_millis(20),
            seed: 1,
        };
        let mut rows = Vec::new();
        run(&settings, |row| rows.push(row)).unwrap();
        rows
    }

    #[test]
    fn a_small_limit_starves_a_fast_wire_and_not_a_slow_one() {
        let fast = rows(1_250_000_000, &[16_384, 1 << 20]);
        assert!(fast[0].wire_share <= 0.45, "{fast:?}");
        assert!(fast[1].wire_share >= 0.99, "{fast:?}");
        // The limit that follows the queue fills the wire, too, and with less below.
        assert!(fast[2].wire_share >= 0.98 * fast[1].wire_share, "{fast:?}");
        assert!(fast[2].below_mean < fast[1].below_mean, "{fast:?}");
        let slow = rows(125_000_000, &[16_384]);
        assert!(slow[0].wire_share >= 0.8, "{slow:?}");
        // And again, bit by bit.
        assert_eq!(rows(125_000_000, &[16_384]), slow);
    }
}
