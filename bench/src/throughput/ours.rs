// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our engine and driver on the NIC model.

use super::far::{FAR, Far, FarConfig, NEAR, PERIOD, ports};
use super::{Load, Plan, Sender, TURN_NS, ThroughputError, WIRE_BITS};
use crate::meter::{Meter, Spent};
use crate::metered::Metered;
use crate::rig;
use std::net::SocketAddr;
use std::rc::Rc;
use tsonic_host::{HostError, NicConfig, Pool, PoolConfig, Shard};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::Model;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::{Config, ConnId, Engine, Error, Event, Interface, Mac};
use tsonic_types::{CoreId, Nanos, TenantId};

/// Connections that are opened in a turn.
const OPENED: usize = 128;
/// Of the pool's chunks so many are set aside for first chunks (`tsonic_host::PoolConfig`).
const ASIDE: (usize, usize) = (5, 8);

/// The application: what it sends, and where.
struct Application {
    plan: Plan,
    opened: usize,
    connected: usize,
    ids: Vec<ConnId>,
    /// Bytes written to each connection.
    written: Vec<u64>,
    data: Vec<u8>,
    /// Connection that gets the next message.
    next: usize,
    failed: Option<Error>,
}

/// Engine, driver and application.
pub(super) struct Ours {
    shard: Shard<Metered>,
    application: Application,
    meter: Rc<Meter>,
    far: Far,
    fault: Option<HostError>,
}

/// [`Ours::host`] under the name that a profiler is told to count.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn tsonic_bench_ours(ours: &mut Ours) {
    ours.host();
}

impl Application {
    fn turn(&mut self, engine: &mut Engine<Pool>, now: Nanos) {
        while let Some(event) = engine.next_event() {
            if let Event::Ready(id, ready) = event {
                self.connected += usize::from(ready.connected());
                if self.plan.load == Load::Backlog {
                    self.refill(engine, id);
                }
            }
        }
        if self.opened < self.plan.connections {
            self.open(engine, now);
        } else if let Load::Messages { bytes, per_turn } = self.plan.load
            && self.connected == self.plan.connections
        {
            for _ in 0..per_turn {
                self.message(engine, bytes);
            }
        }
    }

    fn open(&mut self, engine: &mut Engine<Pool>, now: Nanos) {
        let until = (self.opened + OPENED).min(self.plan.connections);
        for i in self.opened..until {
            let (near, far) = ports(i);
            let (near, far) = (
                SocketAddr::from((NEAR.1, near)),
                SocketAddr::from((FAR.1, far)),
            );
            match engine.connect(now, TenantId(0), Some(near), far) {
                Ok(id) => self.ids.push(id),
                Err(e) => self.failed = Some(e),
            }
        }
        self.opened = until;
    }

    /// Writes what fits; more is there, so that the engine says when there is room.
    fn refill(&mut self, engine: &mut Engine<Pool>, id: ConnId) {
        let Some((near, far)) = engine.addresses(id) else {
            return;
        };
        let i = super::far::index(near.port(), far.port());
        let Some(written) = i.and_then(|i| self.written.get_mut(i)) else {
            return;
        };
        let from = (*written % PERIOD as u64) as usize;
        let end = from + self.plan.buffer as usize + 1;
        let bytes = self.data.get(from..end).unwrap_or_default();
        match engine.write(id, CoreId(0), bytes) {
            Ok(n) => *written += n as u64,
            Err(Error::WouldBlock) => {}
            Err(e) => self.failed = Some(e),
        }
    }

    /// Writes a message to the next connection in turn, unless it has no room.
    fn message(&mut self, engine: &mut Engine<Pool>, bytes: usize) {
        let i = self.next;
        self.next = (i + 1) % self.plan.connections;
        let (Some(id), Some(written)) = (self.ids.get(i), self.written.get_mut(i)) else {
            return;
        };
        let from = (*written % PERIOD as u64) as usize;
        let bytes = self.data.get(from..from + bytes).unwrap_or_default();
        match engine.write(*id, CoreId(0), bytes) {
            Ok(n) => *written += n as u64,
            Err(Error::WouldBlock) => {}
            Err(e) => self.failed = Some(e),
        }
    }
}

impl Ours {
    /// Nothing is connected yet.
    pub fn new(plan: Plan, bursts: bool) -> Result<Ours, ThroughputError> {
        let model = rig::fast_model();
        let far = Far::new(FarConfig {
            connections: plan.connections,
            per_ack: plan.per_ack,
            check: plan.check,
            clock: model.tick_rate,
        });
        let path = PathConfig {
            delay: Nanos::ZERO,
            ..PathConfig::default()
        };
        let link = LinkConfig {
            line_rate: WIRE_BITS,
            out: path,
            back: path,
        };
        let nic = Box::new(Model::new(model));
        let world = World::new(nic, rig::fast_bus(), link, Some(Box::new(far.clone())));
        let meter = Rc::new(Meter::default());
        let function = Metered::new(InprocFunction::new(world), Rc::clone(&meter));

        let address = std::net::IpAddr::from(NEAR.1);
        let mut config = Config::new(Interface::new(Mac(NEAR.0), address, 24));
        config.tso = bursts;
        config.connections_max = plan.connections as u32 + 16;
        let mut nic = NicConfig {
            queues: Some(1),
            ..NicConfig::default()
        };
        nic.rx.ring_log2 = 12;
        nic.rx.completion_log2 = 13;
        let shard = Shard::start(function, config, &nic, pool(&plan))?;
        let mut ours = Ours {
            shard,
            application: Application {
                opened: 0,
                connected: 0,
                ids: Vec::with_capacity(plan.connections),
                written: vec![0; plan.connections],
                data: super::pattern(plan.buffer as usize + 1),
                next: 0,
                failed: None,
                plan,
            },
            meter,
            far,
            fault: None,
        };
        ours.tune();
        Ok(ours)
    }

    /// A turn of the host: completions, frames, application, bursts, doorbells; again while
    /// frames are left.
    fn host(&mut self) {
        let application = &mut self.application;
        loop {
            match self.shard.turn(|engine, now| application.turn(engine, now)) {
                Ok(true) => {}
                Ok(false) => return,
                Err(e) => {
                    self.fault = Some(e);
                    return;
                }
            }
        }
    }

    fn tune(&mut self) {
        let buffer = self.application.plan.buffer;
        let engine = self.shard.engine();
        if let Some(t) = engine.tunables_mut(TenantId(0)) {
            t.wmem.min = t.wmem.min.min(buffer);
            t.wmem.default = buffer;
            t.wmem.max = buffer;
        }
    }
}

/// Memory for the send buffers: a first chunk for each connection, and what all buffers
/// take.
fn pool(plan: &Plan) -> PoolConfig {
    let chunk = match plan.load {
        Load::Backlog => 32_768,
        Load::Messages { .. } => 16_384,
    };
    let buffers = match plan.load {
        // A buffer that does not begin with a chunk takes one more; dynamic thresholds
        // give to one at most half of what is free.
        Load::Backlog => 2 * plan.connections * (plan.buffer as usize / chunk + 2),
        Load::Messages { .. } => 1_024,
    };
    let firsts = plan.connections * ASIDE.1 / ASIDE.0 + 64;
    PoolConfig {
        chunks: (firsts + buffers) as u32,
        chunk_bytes: chunk as u32,
    }
}

impl Sender for Ours {
    fn turn(&mut self) -> Result<(), ThroughputError> {
        self.meter.switch(true);
        match self.meter.is_counted() {
            false => self.host(),
            true => tsonic_bench_ours(self),
        }
        self.meter.switch(false);
        if let Some(fault) = self.fault.take() {
            return Err(fault.into());
        }
        if let Some(e) = self.application.failed.take() {
            return Err(e.into());
        }
        let until = self.shard.now() + Nanos(TURN_NS);
        while self.shard.now() < until {
            self.shard
                .nic()
                .wait(Some(until))
                .map_err(HostError::from)?;
        }
        self.meter.switch(false);
        Ok(())
    }

    fn connected(&self) -> usize {
        self.application.connected
    }

    fn far(&self) -> &Far {
        &self.far
    }

    fn spent(&self) -> Spent {
        self.meter.spent()
    }

    fn bursts(&mut self) -> u64 {
        self.shard.engine().counters().total.bursts
    }

    fn resume(&mut self) {
        self.meter.resume();
    }

    fn count(&mut self) {
        self.meter.count();
    }
}
