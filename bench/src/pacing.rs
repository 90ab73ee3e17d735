// SPDX-License-Identifier: MIT OR Apache-2.0
//! How evenly flows leave that the NIC paces.
//!
//! Every flow is always backlogged and has a rate; segment k of flow i is due at
//! `s + k g`, with a start s inside its first gap g, drawn at random. Three servers send
//! them over one wire:
//!
//! * `nic`: the NIC, which has bursts of 44 segments and their rate;
//! * `ideal`: sends what is due in the order in which it became due, one frame after the
//!   other, and knows every due time exactly. No server of one wire does better for all;
//! * `software`: the host hands each burst to the NIC, unpaced, when its first segment is
//!   due, as an earliest-departure-time qdisc does; the NIC then sends it at line rate.
//!
//! The error is that of times between departures of a flow's segments, last byte on the wire to
//! last byte on the wire, against g. A gap counts wire bytes as descriptors do: the frame without
//! FCS, preamble and gap; the load of the wire counts these, too.

use crate::rig::{self, NicDevice, RigError};
use crate::stats::{GapErrors, Series};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
use tsonic_driver::{DriverError, Fragment, PostError, TxBurst, TxConfig, TxQueue};
use tsonic_pci::Wake;
use tsonic_regs::descriptor::Kind;
use tsonic_regs::limits::WIRE_OVERHEAD;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl::RtlError;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, Peer};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, TickRate, Ticks};

/// Payload of a segment, its headers, and both.
const MSS: u32 = 1448;
const HEADER: u32 = 66;
/// Wire bytes of a frame: without FCS, preamble and gap.
pub const FRAME: u32 = MSS + HEADER;
/// Segments of a burst.
const BURST: u32 = 44;
/// Bursts of a flow in the NIC.
const AHEAD: u32 = 2;
/// Rates are drawn from here, then scaled to the load.
const RATES: (f64, f64) = (125e3, 1.25e9);
/// Byte of the TCP header template whose 16 bits name the flow: the source port.
const PORT: usize = 34;

/// Why an experiment has no result.
#[derive(Debug, Error)]
pub enum PacingError {
    /// There is no NIC.
    #[error(transparent)]
    Nic(#[from] RtlError),
    /// The NIC and the driver.
    #[error(transparent)]
    Rig(#[from] RigError),
    /// The driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// A burst was not taken.
    #[error("the driver does not take a burst: {0}")]
    Post(#[from] PostError),
    /// More flows than the NIC has rows for.
    #[error(
        "{flows} flows need {flows} rows of the flow table, the NIC has {rows}; give fewer with --flows"
    )]
    Flows {
        /// Asked for.
        flows: u32,
        /// There are.
        rows: u32,
    },
    /// The NIC stands still with bursts inside.
    #[error("the NIC stands still at {0} ns with bursts inside")]
    Stalled(u64),
}

/// What is run: each number of flows with each kind of rates at each load.
pub struct Settings<'a> {
    /// Makes the NIC.
    pub nic: &'a dyn Fn() -> Result<Box<dyn Nic + Send>, RtlError>,
    /// The bus between it and the host.
    pub bus: RootComplexConfig,
    /// Numbers of flows.
    pub flows: &'a [u32],
    /// Kinds of rates.
    pub rates: &'a [Rates],
    /// Shares of the wire that the flows take together, 0 to 1.
    pub loads: &'a [f64],
    /// Speed of the wire.
    pub wire: ByteRate,
    /// Queues over which the flows are spread, at most as many as the NIC has.
    pub queues: u16,
    /// Quantum of each queue in wire bytes.
    pub quantum: u32,
    /// Virtual time of each run.
    pub time: Duration,
    /// Seed of rates and starts.
    pub seed: u64,
}

/// How rates differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rates {
    /// All the same.
    Equal,
    /// Their logarithms are uniform, from 1 Mb/s to 10 Gb/s before they are scaled to the load.
    LogUniform,
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// The NIC, from bursts with rates.
    Nic,
    /// What is due goes, in the order in which it became due.
    Ideal,
    /// The host, burst by burst.
    Software,
}

/// A row of the result.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// Flows.
    pub flows: u32,
    /// Their rates.
    pub rates: Rates,
    /// Share of the wire that they take together.
    pub load: f64,
    /// Who sent.
    pub server: Server,
    /// How evenly.
    #[serde(flatten)]
    pub errors: GapErrors,
}

/// A flow's schedule.
#[derive(Clone, Copy, Debug)]
struct Flow {
    rate: ByteRate,
    /// First due time, ns.
    start: f64,
    /// Time from one due time to the next, ns.
    gap: f64,
}

/// What all servers get.
struct Plan {
    flows: Vec<Flow>,
    /// ns that a frame takes on the wire.
    frame: f64,
    /// Segments due before this count.
    end: f64,
}

impl Plan {
    fn draw(settings: &Settings<'_>, flows: u32, rates: Rates, load: f64) -> Plan {
        let (wire, time) = (settings.wire, settings.time);
        let mut rng = Pcg64Mcg::seed_from_u64(settings.seed);
        let on_wire = f64::from(FRAME) + WIRE_OVERHEAD as f64;
        let weight = |rng: &mut Pcg64Mcg| match rates {
            Rates::Equal => 1.0,
            Rates::LogUniform => rng.random_range(RATES.0.ln()..RATES.1.ln()).exp(),
        };
        let weights: Vec<f64> = (0..flows).map(|_| weight(&mut rng)).collect();
        let sum: f64 = weights.iter().sum();
        let total = load * wire.0 as f64 * f64::from(FRAME) / on_wire;
        let flow = |w: &f64| {
            let rate = ByteRate((w / sum * total).max(1.0) as u64);
            let gap = f64::from(FRAME) * 1e9 / rate.0 as f64;
            Flow {
                rate,
                start: rng.random_range(0.0..gap.min(time.as_nanos() as f64 / 4.0)),
                gap,
            }
        };
        Plan {
            flows: weights.iter().map(flow).collect(),
            frame: on_wire * 1e9 / wire.0 as f64,
            end: time.as_nanos() as f64,
        }
    }

    /// When the ideal server sends.
    fn ideal(&self) -> Vec<Vec<f64>> {
        let mut departures = vec![Vec::new(); self.flows.len()];
        // Due times in units that order as integers do: 2^-10 ns.
        let key = |due: f64| (due * 1024.0) as u64;
        let mut due: BinaryHeap<Reverse<(u64, usize, u64)>> = BinaryHeap::new();
        for (i, f) in self.flows.iter().enumerate() {
            due.push(Reverse((key(f.start), i, 0)));
        }
        let mut free = 0.0f64;
        while let Some(Reverse((_, i, k))) = due.pop() {
            let f = &self.flows[i];
            let at = f.start + k as f64 * f.gap;
            if at >= self.end {
                continue;
            }
            free = free.max(at) + self.frame;
            departures[i].push(free);
            due.push(Reverse((key(at + f.gap), i, k + 1)));
        }
        departures
    }

    fn errors(&self, departures: &[Vec<f64>]) -> GapErrors {
        let both = self.flows.iter().zip(departures);
        GapErrors::of(both.map(|(f, d)| Series {
            departures: d,
            gap: f.gap,
        }))
    }
}

/// The far end: notes when frames arrive.
#[derive(Clone, Default)]
struct Meter(Arc<Mutex<Vec<Vec<Ticks>>>>);

impl Peer for Meter {
    fn receive(&mut self, now: Ticks, frame: &[u8]) {
        let flow = match frame.get(PORT..PORT + 2) {
            Some(port) => usize::from(u16::from_be_bytes([port[0], port[1]])),
            None => return,
        };
        // Lists of numbers are whole at any time.
        let mut all = self.0.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(times) = all.get_mut(flow) {
            times.push(now);
        }
    }

    fn next_event(&self) -> Option<Ticks> {
        None
    }

    fn poll(&mut self, _: Ticks, _: &mut dyn FnMut(&[u8])) {}

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Duration) {}
}

/// Headers of a flow's bursts: Ethernet, IPv4, TCP with timestamps.
fn header(flow: usize) -> [u8; HEADER as usize] {
    let mut h = [0; HEADER as usize];
    h[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
    h[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0]);
    h[22..24].copy_from_slice(&[64, 6]);
    h[26..34].copy_from_slice(&[10, 9, 0, 1, 10, 9, 0, 2]);
    h[PORT..PORT + 2].copy_from_slice(&(flow as u16).to_be_bytes());
    h[PORT + 2..PORT + 4].copy_from_slice(&5001u16.to_be_bytes());
    // 32 bytes of TCP header; ACK.
    h[46..48].copy_from_slice(&[0x80, 0x10]);
    h[54..58].copy_from_slice(&[1, 1, 8, 10]);
    h
}

/// The NIC with its queues.
struct Run<'a> {
    plan: &'a Plan,
    device: NicDevice,
    queues: Vec<TxQueue>,
    flows: tsonic_driver::FlowTable,
    payload: Fragment,
    meter: Meter,
    /// The clock when due times begin.
    origin: Nanos,
    /// Bursts that each flow has posted.
    posted: Vec<u32>,
    slots: Vec<FlowSlot>,
}

impl<'a> Run<'a> {
    fn new(settings: &Settings<'_>, plan: &'a Plan) -> Result<Run<'a>, PacingError> {
        let meter = Meter::default();
        let link = LinkConfig {
            line_rate: 8 * settings.wire.0,
            out: PathConfig {
                delay: Nanos::ZERO,
                ..PathConfig::default()
            },
            ..LinkConfig::default()
        };
        let mut device = rig::open_behind(
            (settings.nic)()?,
            settings.bus,
            link,
            Box::new(meter.clone()),
        )?;
        let info = *device.info();
        let count = plan.flows.len() as u32;
        if count >= info.flow_slots {
            return Err(PacingError::Flows {
                flows: count,
                rows: info.flow_slots - 1,
            });
        }
        let config = TxConfig {
            ring_log2: 12,
            completion_log2: 13,
            quantum: Some(settings.quantum),
            ..TxConfig::default()
        };
        let queues = (0..info.queues.min(settings.queues))
            .map(|q| device.open_tx(QueueId(q), config))
            .collect::<Result<Vec<_>, _>>()?;
        device.start()?;
        let bytes = BURST * MSS;
        let mut pool = device.chunk_pool(1, bytes.next_multiple_of(64))?;
        let chunk = pool.allocate().unwrap_or_default();
        let payload = pool.map().fragment(chunk, 0, bytes).unwrap_or_default();
        let mut flows = device.flow_table();
        let slots = plan.flows.iter().filter_map(|_| flows.allocate()).collect();
        *meter.0.lock().unwrap_or_else(|e| e.into_inner()) = vec![Vec::new(); plan.flows.len()];
        let origin = device.now() + Nanos::from_micros(100);
        Ok(Run {
            plan,
            queues,
            flows,
            payload,
            meter,
            origin,
            posted: vec![0; plan.flows.len()],
            slots,
            device,
        })
    }

    fn post(&mut self, i: usize, paced: bool) -> Result<(), PacingError> {
        let flow = self.plan.flows[i];
        let at = self.origin + Nanos(flow.start.round() as u64);
        let header = header(i);
        let burst = TxBurst {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            complete_now: false,
            l2_len: 14,
            l3_len: 20,
            l4_len: 32,
            mss: MSS as u16,
            header: &header,
            fragments: &[self.payload],
            flow: if paced {
                self.slots[i]
            } else {
                FlowSlot::UNPACED
            },
            rate: paced.then_some(flow.rate),
            flow_limit: None,
            launch: (paced && self.posted[i] == 0).then_some(at),
            token: i as u64,
        };
        self.posted[i] += 1;
        let q = i % self.queues.len();
        Ok(self.queues[q].post(&mut self.flows, &burst)?)
    }

    fn flush(&mut self) -> Result<(), PacingError> {
        for queue in &mut self.queues {
            queue.flush(self.device.function())?;
        }
        Ok(())
    }

    /// Waits until `deadline` or a completion; the flows whose bursts completed.
    fn wait(&mut self, deadline: Nanos, done: &mut Vec<usize>) -> Result<(), PacingError> {
        if self.device.wait(Some(deadline))? == Wake::Idle {
            return Err(PacingError::Stalled(self.device.now().0));
        }
        for queue in &mut self.queues {
            queue.reap(&mut self.flows, usize::MAX, |c| done.push(c.token as usize));
        }
        Ok(())
    }

    fn end(&self) -> Nanos {
        self.origin + Nanos(self.plan.end as u64)
    }

    /// The NIC paces.
    fn nic(&mut self) -> Result<(), PacingError> {
        for _ in 0..AHEAD {
            for i in 0..self.posted.len() {
                self.post(i, true)?;
            }
        }
        self.flush()?;
        let mut done = Vec::new();
        while self.device.now() < self.end() {
            self.wait(self.end(), &mut done)?;
            for i in std::mem::take(&mut done) {
                self.post(i, true)?;
            }
            self.flush()?;
        }
        Ok(())
    }

    /// The host paces, burst by burst.
    fn software(&mut self) -> Result<(), PacingError> {
        let mut due: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
        let at = |run: &Run<'_>, i: usize| {
            let f = &run.plan.flows[i];
            let since = f.start + f64::from(run.posted[i] * BURST) * f.gap;
            run.origin + Nanos(since.round() as u64)
        };
        for i in 0..self.posted.len() {
            due.push(Reverse((at(self, i), i)));
        }
        let mut done = Vec::new();
        while self.device.now() < self.end() {
            while let Some(Reverse((_, i))) =
                due.peek().copied().filter(|d| d.0.0 <= self.device.now())
            {
                due.pop();
                self.post(i, false)?;
                due.push(Reverse((at(self, i), i)));
            }
            self.flush()?;
            let next = due.peek().map_or(self.end(), |d| d.0.0.min(self.end()));
            self.wait(next, &mut done)?;
            done.clear();
        }
        Ok(())
    }

    fn departures(self) -> Vec<Vec<f64>> {
        let clock: TickRate = self.device.info().ticks;
        let ns = 1e9 / f64::from(clock.hz());
        let (start, end) = (self.origin.0 as f64, self.end().0 as f64);
        let all = self.meter.0.lock().unwrap_or_else(|e| e.into_inner());
        let flow = |times: &Vec<Ticks>| {
            let times = times.iter().map(|t| t.0 as f64 * ns - start);
            times.take_while(|t| *t < end - start).collect()
        };
        all.iter().map(flow).collect()
    }
}

/// Runs all combinations; `row` gets each row as it is there.
///
/// # Errors
/// [`PacingError`].
pub fn run(settings: &Settings<'_>, mut row: impl FnMut(Row)) -> Result<(), PacingError> {
    for &flows in settings.flows {
        for &rates in settings.rates {
            for &load in settings.loads {
                let plan = Plan::draw(settings, flows, rates, load);
                for server in [Server::Ideal, Server::Nic, Server::Software] {
                    let departures = match server {
                        Server::Ideal => plan.ideal(),
                        Server::Nic => {
                            let mut run = Run::new(settings, &plan)?;
                            run.nic()?;
                            run.departures()
                        }
                        Server::Software => {
                            let mut run = Run::new(settings, &plan)?;
                            run.software()?;
                            run.departures()
                        }
                    };
                    row(Row {
                        flows,
                        rates,
                        load,
                        server,
                        errors: plan.errors(&departures),
                    });
                }
            }
        }
    }
    Ok(())
}
