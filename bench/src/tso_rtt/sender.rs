// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sending host: engine and driver on a NIC, and an application that always has more
//! to write to each of its connections.

use super::fabric::FarEnd;
use super::receiver;
use super::{Case, Settings, TsoRttError};
use crate::meter::Meter;
use crate::metered::Metered;
use crate::rig::{fast_bus, fast_model};
use core::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use tsonic_driver::{RxConfig, TxConfig};
use tsonic_host::{NicConfig, Pool, PoolConfig, Shard};
use tsonic_pci::Wake;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::Model;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::stats::Counters;
use tsonic_tcp::{Config, ConnId, ConnInfo, Engine, Event, Interface, Mac};
use tsonic_types::{ByteRate, CoreId, Nanos, QueueId, TenantId};

/// Local port of a host's first flow; the others follow.
pub const FIRST_PORT: u16 = 10_000;
/// Queue pairs of a host.
const QUEUES: u16 = 8;
/// Interrupt moderation: completions gathered at most, and how long one waits.
const MODERATION: (u32, Nanos) = (64, Nanos(10_000));
/// Bytes of an application's write.
const WRITE: usize = 65_536;
/// Bytes of TCP and IP headers in front of the payload, timestamps included.
const HEADERS: u32 = 52;
/// Chunks of send memory are of so many bytes.
const CHUNK: u32 = 32_768;

/// A flow.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Payload bytes a second at most.
    pub rate: ByteRate,
    /// When it is opened.
    pub opens: Nanos,
}

/// What a host has spent: time of its core in ns, the device's own left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// In engine and driver.
    pub host: u64,
    /// In the application's writes, which copy.
    pub writes: u64,
}

/// Opens the flows whose time has come.
fn open(
    engine: &mut Engine<Pool>,
    now: Nanos,
    local: Ipv4Addr,
    flows: &[Flow],
    connections: &mut Vec<ConnId>,
) -> Result<(), tsonic_tcp::Error> {
    while let Some(flow) = flows.get(connections.len()).filter(|f| f.opens <= now) {
        let port = FIRST_PORT + connections.len() as u16;
        let there = SocketAddr::new(receiver::ADDRESS.into(), receiver::PORT);
        let here = SocketAddr::new(local.into(), port);
        let id = engine.connect(now, TenantId(0), Some(here), there)?;
        engine.set_max_pacing_rate(id, flow.rate);
        connections.push(id);
    }
    Ok(())
}

/// Fills the send buffers that have room.
fn write_all(engine: &mut Engine<Pool>, data: &[u8]) {
    while let Some(event) = engine.next_event() {
        if let Event::Ready(id, ready) = event
            && (ready.connected() || ready.writable())
        {
            while engine
                .write(id, CoreId(0), data)
                .is_ok_and(|n| n == data.len())
            {}
        }
    }
}

/// [`write_all`], which mostly copies, under the name that a profiler is told to leave out.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn tsonic_bench_write(engine: &mut Engine<Pool>, data: &[u8]) {
    write_all(engine, data);
}

/// [`Sender::turn`] under the name that a profiler is told to count.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn tsonic_bench_sender(sender: &mut Sender) -> Result<(), TsoRttError> {
    sender.turn()
}

/// See the module.
pub struct Sender {
    shard: Shard<Metered>,
    meter: Rc<Meter>,
    /// Time of the core in writes, ns.
    writes: u64,
    local: Ipv4Addr,
    flows: Vec<Flow>,
    connections: Vec<ConnId>,
    data: Vec<u8>,
}

/// A send buffer holds six bursts: two in the NIC, one that waits for its acknowledgement,
/// one to come, and the third of it that is free before the application is told.
fn send_buffer(case: &Case) -> u32 {
    let burst = case.gso_max.max(65_536);
    6 * burst
}

impl Sender {
    /// A host with address `local` at the near end of `wire`; `flows` in the order in
    /// which they open.
    ///
    /// # Errors
    /// [`TsoRttError`].
    pub fn new(
        settings: &Settings<'_>,
        case: &Case,
        local: Ipv4Addr,
        wire: FarEnd,
        flows: Vec<Flow>,
        seed: u64,
    ) -> Result<Sender, TsoRttError> {
        let path = PathConfig {
            delay: Nanos::ZERO,
            pad: false,
            ..PathConfig::default()
        };
        let link = LinkConfig {
            line_rate: 8 * settings.wire.0,
            out: path,
            back: path,
        };
        let world = World::new(
            Box::new(Model::new(fast_model())),
            fast_bus(),
            link,
            Some(Box::new(wire)),
        );
        let meter = Rc::new(Meter::default());
        let function = Metered::new(InprocFunction::new(world), Rc::clone(&meter));
        let [_, _, _, host] = local.octets();
        let mac = Mac([2, 0, 0, 0, 0, host]);
        let mut interface = Interface::new(mac, local.into(), 24);
        interface.mtu = (case.mss + HEADERS) as u16;
        let mut config = Config::new(interface);
        config.seed = seed;
        config.gso_max = Some(case.gso_max);
        let nic = NicConfig {
            queues: Some(QUEUES),
            tx: TxConfig {
                ring_log2: 10,
                completion_log2: 11,
                ..TxConfig::default()
            },
            rx: RxConfig {
                ring_log2: 11,
                completion_log2: 12,
                ..RxConfig::default()
            },
            ..NicConfig::default()
        };
        // Three eighths of the chunks are shared, and each connection may have as many as are
        // free: with one share more than there are connections all have theirs.
        let share = send_buffer(case) / CHUNK + 2;
        let pool = PoolConfig {
            chunks: (flows.len() as u32 + 2) * share * 8 / 3,
            chunk_bytes: CHUNK,
        };
        let mut shard = Shard::start(function, config, &nic, pool)?;
        for q in (0..QUEUES).map(QueueId) {
            let (count, wait) = MODERATION;
            shard.nic().device().set_moderation(q, count, wait)?;
        }
        if let Some(t) = shard.engine().tunables_mut(TenantId(0)) {
            let log = case.rtt_log.map_or("off".into(), |l| l.to_string());
            let wmem = format!("4096 65536 {}", send_buffer(case));
            for (name, value) in [
                ("net.ipv4.tcp_tso_rtt_log", log.as_str()),
                ("net.ipv4.tcp_congestion_control", "dctcp"),
                ("net.ipv4.tcp_ecn", "1"),
                ("net.ipv4.tcp_wmem", &wmem),
                // As Linux has it with DCTCP.
                ("tsonic.hystart", "0"),
                ("tsonic.ecn_react", if case.react { "1" } else { "0" }),
                ("tsonic.pacing_mode", case.mode.name()),
            ] {
                t.set(name, value)?;
            }
        }
        Ok(Sender {
            shard,
            meter,
            writes: 0,
            local,
            flows,
            connections: Vec::new(),
            data: (0..WRITE).map(|i| (i % 251) as u8).collect(),
        })
    }

    /// The device's clock.
    pub fn now(&mut self) -> Nanos {
        self.shard.now()
    }

    /// What was spent so far.
    pub fn spent(&self) -> Spent {
        Spent {
            host: self.meter.spent().host - self.writes,
            writes: self.writes,
        }
    }

    /// From now on what the host spends is timed or, for a profiler, counted.
    pub fn measure(&self, counted: bool) {
        match counted {
            true => self.meter.count(),
            false => self.meter.resume(),
        }
    }

    /// Counters of all connections.
    pub fn counters(&mut self) -> Counters {
        self.shard.engine().counters().total.clone()
    }

    /// What the connections look like.
    pub fn infos(&mut self) -> Vec<ConnInfo> {
        let engine = self.shard.engine();
        let ids = self.connections.iter();
        ids.filter_map(|id| engine.info(*id)).collect()
    }

    fn next_open(&self) -> Option<Nanos> {
        self.flows.get(self.connections.len()).map(|f| f.opens)
    }

    /// Runs until the clock reads `end`.
    ///
    /// # Errors
    /// [`TsoRttError`].
    pub fn run(&mut self, end: Nanos) -> Result<(), TsoRttError> {
        loop {
            let now = self.shard.now();
            let due = |t: Option<Nanos>| t.is_some_and(|t| t <= now);
            let wake = if due(self.next_open()) || due(self.shard.engine().next_timer()) {
                Wake::Completion
            } else if now >= end {
                return Ok(());
            } else {
                let until = self.next_open().map_or(end, |t| t.min(end));
                self.shard.wait(Some(until))?
            };
            if wake == Wake::Completion {
                self.meter.switch(true);
                let done = match self.meter.is_counted() {
                    true => tsonic_bench_sender(self),
                    false => self.turn(),
                };
                self.meter.switch(false);
                done?;
            }
        }
    }

    /// Turns of the host's loop until nothing is left to receive.
    fn turn(&mut self) -> Result<(), TsoRttError> {
        loop {
            let mut failed = None;
            let Sender {
                shard,
                meter,
                writes,
                local,
                flows,
                connections,
                data,
            } = self;
            let more = shard.turn(|engine, now| {
                failed = open(engine, now, *local, flows, connections).err();
                if meter.is_counted() {
                    return tsonic_bench_write(engine, data);
                }
                meter.switch(true);
                let before = meter.spent().host;
                write_all(engine, data);
                meter.switch(true);
                *writes += meter.spent().host - before;
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            if !more {
                return Ok(());
            }
        }
    }
}
