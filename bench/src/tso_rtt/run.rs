// SPDX-License-Identifier: MIT OR Apache-2.0
//! One run: hosts, port and receivers from the first SYN to the end of what is measured.

use super::fabric::{Fabric, FarEnd, picos};
use super::frame::{Frame, Picos};
use super::port::StepPort;
use super::receiver::{Received, Receiver};
use super::sender::{FIRST_PORT, Flow, Sender, Spent};
use super::{Case, Settings, TsoRttError};
use crate::rig::fast_model;
use crate::stats::Histogram;
use core::net::Ipv4Addr;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::time::{Duration, Instant};
use tsonic_tcp::State;
use tsonic_tcp::stats::Counters;
use tsonic_types::{ByteRate, Nanos, Ticks};

/// Bytes of Ethernet, IPv4 and TCP headers with timestamps.
pub const HEADER: u32 = 66;
/// Rows of the flow table that a sender can use.
const ROWS: u32 = 1_023;
/// Flows open within this part of the warm-up.
const OPENING: u32 = 8;

/// What a run gave, in the time that is measured.
#[derive(Clone, Debug)]
pub struct Run {
    /// Bursts posted, their segments, and payload.
    pub bursts: u64,
    pub segments: u64,
    pub payload: u64,
    pub retransmitted: u64,
    pub received: Received,
    /// Frames that the port has marked.
    pub marks: u64,
    /// Wire bytes that frames found in front of them.
    pub queue: Histogram,
    /// Differences of gaps from those asked for, ns.
    pub gaps: Histogram,
    pub spent: Spent,
    /// Of the whole run: least and largest of the flows' minimal RTTs, us.
    pub min_rtt: (f64, f64),
    /// Mean window at the end.
    pub cwnd: f64,
    /// Wall time of the whole run.
    pub wall: Duration,
}

/// Counts at one time.
#[derive(Default)]
struct Counts {
    bursts: u64,
    segments: u64,
    payload: u64,
    retransmitted: u64,
    spent: Spent,
    received: Received,
    marks: u64,
}

impl Counts {
    fn take(senders: &mut [Sender], fabric: &Fabric) -> Counts {
        let mut all = Counts {
            received: fabric.receiver.received,
            marks: fabric.port.marked,
            ..Counts::default()
        };
        for s in senders {
            let c: Counters = s.counters();
            all.bursts += c.bursts;
            all.segments += c.segments;
            all.payload += c.payload_bytes;
            all.retransmitted += c.retransmitted_segments;
            all.spent.host += s.spent().host;
            all.spent.writes += s.spent().writes;
        }
        all
    }
}

/// Departures of the flows' segments: when the last one was, and how gaps differ.
struct Departures {
    /// Of each sender's flows: the last departure, and the gap asked for.
    flows: Vec<Vec<(Picos, Picos)>>,
    errors: Histogram,
}

impl Departures {
    fn see(&mut self, sender: usize, frame: &Frame) {
        let Some(&[hi, lo]) = frame.head().get(34..36).and_then(|b| b.first_chunk()) else {
            return;
        };
        let flow = u16::from_be_bytes([hi, lo]).wrapping_sub(FIRST_PORT);
        let all = self.flows.get_mut(sender);
        let Some((last, gap)) = all.and_then(|f| f.get_mut(usize::from(flow))) else {
            return;
        };
        if frame.bytes <= HEADER {
            return;
        }
        if *last > 0 {
            self.errors.add((frame.at - *last).abs_diff(*gap) / 1_000);
        }
        *last = frame.at;
    }
}

fn draw(settings: &Settings<'_>, case: &Case, rng: &mut Pcg64Mcg) -> Vec<Flow> {
    let (rate, spread) = (settings.rate.0 as f64, settings.spread);
    let opening = (settings.warm_up / OPENING).as_nanos() as u64;
    let mut flow = || Flow {
        rate: ByteRate((rate * (1.0 + spread * rng.random_range(-1.0..=1.0))).max(1.0) as u64),
        opens: Nanos(rng.random_range(0..=opening)),
    };
    let mut flows: Vec<Flow> = (0..case.flows).map(|_| flow()).collect();
    flows.sort_by_key(|f| f.opens);
    flows
}

/// Runs a case with a seed. `counted`: a profiler counts the hosts' instructions in the time that
/// is measured, and nothing is timed.
pub(super) fn one(
    settings: &Settings<'_>,
    case: &Case,
    seed: u64,
    counted: bool,
) -> Result<Run, TsoRttError> {
    if case.flows > ROWS {
        return Err(TsoRttError::Flows {
            flows: case.flows,
            rows: ROWS,
        });
    }
    let started = Instant::now();
    let clock = fast_model().tick_rate;
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut departures = Departures {
        flows: Vec::new(),
        errors: Histogram::default(),
    };
    let (mut ends, mut senders) = (Vec::new(), Vec::new());
    for host in 1..=settings.senders {
        let flows = draw(settings, case, &mut rng);
        let gap = |f: &Flow| {
            let gap = u128::from(case.mss) * 1_000_000_000_000 / u128::from(f.rate.0);
            (0, gap as Picos)
        };
        departures.flows.push(flows.iter().map(gap).collect());
        let (address, end) = (Ipv4Addr::new(10, 9, 0, host), FarEnd::new(clock));
        let seed = rng.random();
        senders.push(Sender::new(
            settings,
            case,
            address,
            end.clone(),
            flows,
            seed,
        )?);
        ends.push((address, end));
    }
    let port = StepPort::new(settings.wire, settings.step);
    let mut fabric = Fabric::new(ends, settings.delay, port, Receiver::new(case.acks));
    let stride = fabric.stride();
    let mut now = Nanos::ZERO;
    let mut before = Counts::default();
    for (end, measured) in [
        (Nanos(settings.warm_up.as_nanos() as u64), false),
        (
            Nanos((settings.warm_up + settings.time).as_nanos() as u64),
            true,
        ),
    ] {
        while now < end {
            now = end.min(now + stride);
            let mut reached = Ticks(u64::MAX);
            for s in &mut senders {
                s.run(now)?;
                reached = reached.min(clock.to_ticks(s.now()));
            }
            fabric.settle(picos(reached, clock), |i, f| departures.see(i, f));
        }
        if !measured {
            senders.iter().for_each(|s| s.measure(counted));
            before = Counts::take(&mut senders, &fabric);
            fabric.port.backlog = Histogram::default();
            departures.errors = Histogram::default();
        }
    }
    let after = Counts::take(&mut senders, &fabric);
    let infos: Vec<_> = senders.iter_mut().flat_map(Sender::infos).collect();
    let gone = infos
        .iter()
        .filter(|i| i.state != State::Established)
        .count();
    if gone > 0 {
        return Err(TsoRttError::Gone(gone));
    }
    let min_rtt = |i: &tsonic_tcp::ConnInfo| i.min_rtt.map(|r| r.0 as f64 / 1e3);
    let rtts: Vec<f64> = infos.iter().filter_map(min_rtt).collect();
    let (r, b) = (after.received, before.received);
    Ok(Run {
        bursts: after.bursts - before.bursts,
        segments: after.segments - before.segments,
        payload: after.payload - before.payload,
        retransmitted: after.retransmitted - before.retransmitted,
        received: Received {
            segments: r.segments - b.segments,
            bytes: r.bytes - b.bytes,
            marked: r.marked - b.marked,
            acks: r.acks - b.acks,
            out_of_order: r.out_of_order - b.out_of_order,
            unknown: r.unknown - b.unknown,
        },
        marks: after.marks - before.marks,
        queue: std::mem::take(&mut fabric.port.backlog),
        gaps: departures.errors,
        spent: Spent {
            host: after.spent.host - before.spent.host,
            writes: after.spent.writes - before.spent.writes,
        },
        min_rtt: (
            rtts.iter().copied().fold(f64::INFINITY, f64::min),
            rtts.iter().copied().fold(0.0, f64::max),
        ),
        cwnd: infos.iter().map(|i| f64::from(i.cwnd)).sum::<f64>() / infos.len().max(1) as f64,
        wall: started.elapsed(),
    })
}
