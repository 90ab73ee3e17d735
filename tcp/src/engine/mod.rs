// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine: connections, listeners, and the order in which they run.
//!
//! A host drives it by four calls, all of them with its own idea of now:
//! [`Engine::on_tx_completion`] and [`Engine::on_frame`] take in what the NIC
//! says, the application's calls take in what it wants, and [`Engine::poll`]
//! does what is due and posts. [`Engine::next_timer`] says when the next poll is
//! due without any input; `None` means never.

mod api;
mod control;
mod input;
mod listener;
mod poll;
#[cfg(test)]
mod predict_tests;
mod starved;

pub use api::{ConnInfo, Error};

use crate::bursts::BurstTable;
use crate::conn::{CloseReason, Conn, State};
use crate::event::{Event, Ready};
use crate::interface::Config;
use crate::memory::Memory;
use crate::neighbour::Neighbours;
use crate::port::{ChunkPool, TxLimits};
use crate::shared::{Core, Folded, Random, Tenant};
use crate::stats::{Counters, EngineCounters};
use crate::timer_queue::TimerQueue;
use crate::tunables::Tunables;
use control::ControlQueue;
use core::hash::{Hash, Hasher};
use core::net::{IpAddr, SocketAddr};
use listener::Listeners;
use starved::Starved;
use std::collections::{HashMap, VecDeque};
use tsonic_types::{FlowSlot, TenantId};

/// A connection. Numbers are used again, with another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    index: u32,
    generation: u32,
}

/// A listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ListenerId(u32);

/// Our and the peer's address, packed: key of the connection table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    /// Both ports, and whether the addresses are of IPv6.
    ports: u64,
    /// Both addresses: of IPv6 two words each, of IPv4 all in the first word.
    addresses: [u64; 4],
}

/// See [`Ends::ports`].
const IPV6_ENDS: u64 = 1 << 32;

impl Ends {
    #[inline(always)]
    fn new(local: (IpAddr, u16), remote: (IpAddr, u16)) -> Ends {
        let ports = u64::from(local.1) << 16 | u64::from(remote.1);
        if let (IpAddr::V4(l), IpAddr::V4(r)) = (local.0, remote.0) {
            let both = u64::from(l.to_bits()) << 32 | u64::from(r.to_bits());
            return Ends {
                ports,
                addresses: [both, 0, 0, 0],
            };
        }
        let bits = |a: IpAddr| match a {
            IpAddr::V4(a) => a.to_ipv6_mapped().to_bits(),
            IpAddr::V6(a) => a.to_bits(),
        };
        let (l, r) = (bits(local.0), bits(remote.0));
        Ends {
            ports: ports | IPV6_ENDS,
            addresses: [(l >> 64) as u64, l as u64, (r >> 64) as u64, r as u64],
        }
    }

    fn of(local: SocketAddr, remote: SocketAddr) -> Ends {
        Ends::new((local.ip(), local.port()), (remote.ip(), remote.port()))
    }
}

impl Hash for Ends {
    #[inline]
    fn hash<H: Hasher>(&self, h: &mut H) {
        h.write_u64(self.ports);
        h.write_u64(self.addresses[0]);
        if self.ports & IPV6_ENDS != 0 {
            for word in &self.addresses[1..] {
                h.write_u64(*word);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    conn: Option<Box<Conn>>,
}

/// See the module.
#[derive(Debug)]
pub struct Engine<P: ChunkPool> {
    core: Core<P>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Connections by (local, remote).
    demux: HashMap<Ends, u32, Folded>,
    listeners: Listeners,
    timers: TimerQueue,
    /// Connections to run in the next poll.
    ready: VecDeque<u32>,
    /// Connections that wait for room in a queue, by queue.
    waiting: Vec<VecDeque<u32>>,
    /// A burst has completed since these were last looked at.
    completed: bool,
    /// Connections whose write found no memory.
    starved: Starved,
    /// Connections with events.
    events: VecDeque<u32>,
    control: ControlQueue,
    /// Generation of the neighbour cache that waiting connections have seen.
    neighbours_seen: u32,
}

impl<P: ChunkPool> Engine<P> {
    /// An engine with one tenant (number 0) that has the default tunables. Of the chunks
    /// that `pool` has now five eighths are set aside, at least one: a first one for each
    /// connection, and no more connections are open at once. The rest is shared: beyond
    /// its first chunk a connection may hold as many as are free.
    pub fn new(config: Config, pool: P) -> Engine<P> {
        let seed = config.seed;
        Engine {
            core: Core {
                config,
                memory: Memory::new(pool),
                tenants: vec![Tenant::default()],
                bursts: BurstTable::default(),
                neighbours: Neighbours::default(),
                counters: EngineCounters::default(),
                limits: TxLimits {
                    gso_max: 65_536,
                    gso_max_segs: 65_535,
                    max_segment: 16_000,
                    fragments: 2,
                    queues: 1,
                    paces: false,
                    tso: false,
                },
                freed_flows: Vec::new(),
                random: Random(seed),
                #[cfg(test)]
                unpredicted: false,
            },
            slots: Vec::new(),
            free: Vec::new(),
            demux: HashMap::with_hasher(Folded(Random(seed ^ 0x6465_6d75).next())),
            listeners: Listeners::default(),
            timers: TimerQueue::default(),
            ready: VecDeque::new(),
            waiting: Vec::new(),
            completed: false,
            starved: Starved::default(),
            events: VecDeque::new(),
            control: ControlQueue::default(),
            neighbours_seen: 0,
        }
    }

    /// Adds a tenant with default tunables, but buffers and congestion control
    /// of tenant 0.
    pub fn add_tenant(&mut self) -> TenantId {
        let first = &self.core.tenants[0].tunables;
        let mut t = Tenant::default();
        t.tunables.rmem = first.rmem;
        t.tunables.wmem = first.wmem;
        t.tunables.congestion_control = first.congestion_control;
        self.core.tenants.push(t);
        TenantId((self.core.tenants.len() - 1) as u16)
    }

    /// Tunables of a tenant.
    pub fn tunables(&self, tenant: TenantId) -> Option<&Tunables> {
        self.core.tenants.get(tenant.index()).map(|t| &t.tunables)
    }

    /// Tunables of a tenant, to change.
    pub fn tunables_mut(&mut self, tenant: TenantId) -> Option<&mut Tunables> {
        self.core
            .tenants
            .get_mut(tenant.index())
            .map(|t| &mut t.tunables)
    }

    /// Tenants; they are numbered from 0.
    pub fn tenants(&self) -> u16 {
        // `add_tenant` numbers them with 16 bits.
        self.core.tenants.len() as u16
    }

    /// Counters of a tenant's connections, closed ones included. The sum is made
    /// when it is asked for: a burst pays nothing for it.
    pub fn tenant_counters(&self, tenant: TenantId) -> Option<Counters> {
        let mut sum = self.core.tenants.get(tenant.index())?.gone.clone();
        let live = self.slots.iter().filter_map(|s| s.conn.as_deref());
        for c in live.filter(|c| c.tenant == tenant) {
            sum.add(&c.counters);
        }
        Some(sum)
    }

    /// Counters of the engine.
    pub fn counters(&self) -> &EngineCounters {
        &self.core.counters
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.core.config
    }

    /// The pool.
    pub fn pool(&self) -> &P {
        &self.core.memory.pool
    }

    /// The pool, to change.
    pub fn pool_mut(&mut self) -> &mut P {
        &mut self.core.memory.pool
    }

    /// Changes the cap on a burst's payload and switches segmentation by the NIC
    /// on or off, from the next burst on.
    pub fn set_gso(&mut self, max: Option<u32>, tso: bool) {
        self.core.config.gso_max = max;
        self.core.config.tso = tso;
    }

    /// Changes which queues a core sends from, from the next burst on.
    pub fn set_xps(&mut self, map: Option<crate::arith::txq::XpsMap>) {
        self.core.config.xps = map;
    }

    /// Bursts in the NIC.
    pub fn bursts_in_nic(&self) -> usize {
        self.core.bursts.len()
    }

    /// Connections that could still be opened before the send memory is promised
    /// to those that there are; TIME_WAIT and others that will write no more need none.
    pub fn reserves_left(&self) -> usize {
        self.core.memory.reserves_left()
    }

    /// Connections, closing ones and TIME_WAIT included.
    pub fn connections(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Ids of all connections that the application holds.
    pub fn ids(&self) -> impl Iterator<Item = ConnId> {
        self.slots
            .iter()
            .filter_map(|s| s.conn.as_deref())
            .filter(|c| !c.app.released && c.listener.is_none())
            .map(|c| ConnId {
                index: c.index,
                generation: c.generation,
            })
    }

    /// The next event.
    pub fn next_event(&mut self) -> Option<Event> {
        if let Some(l) = self.listeners.next_event() {
            return Some(Event::Incoming(ListenerId(l)));
        }
        self.feed_the_starved();
        while let Some(index) = self.events.pop_front() {
            let Some(c) = conn_at(&mut self.slots, index) else {
                continue;
            };
            c.app.listed = false;
            let bits = core::mem::take(&mut c.app.pending);
            if bits != 0 && c.listener.is_none() {
                let id = ConnId {
                    index,
                    generation: c.generation,
                };
                return Some(Event::Ready(id, Ready(bits)));
            }
        }
        None
    }

    fn get(&self, id: ConnId) -> Option<&Conn> {
        let s = self.slots.get(id.index as usize)?;
        let c = s.conn.as_deref()?;
        (s.generation == id.generation && !c.app.released).then_some(c)
    }

    /// Enters a connection; `None` when the table is full.
    fn insert(&mut self, make: impl FnOnce(&mut Core<P>, u32, u32) -> Conn) -> Option<ConnId> {
        let index = match self.free.pop() {
            Some(i) => i,
            None if (self.slots.len() as u64) < u64::from(self.core.config.connections_max) => {
                self.slots.push(Slot::default());
                (self.slots.len() - 1) as u32
            }
            None => return None,
        };
        let slot = &mut self.slots[index as usize];
        let generation = slot.generation;
        let c = make(&mut self.core, index, generation);
        self.demux.insert(Ends::of(c.local, c.remote), index);
        slot.conn = Some(Box::new(c));
        Some(ConnId { index, generation })
    }

    /// Puts a connection on the list of those to run.
    fn enqueue(&mut self, index: u32) {
        if let Some(c) = conn_at(&mut self.slots, index)
            && !c.queued
        {
            c.queued = true;
            self.ready.push_back(index);
        }
    }

    /// After anything happened to a connection: deadline, events, listener, end.
    fn settle(&mut self, index: u32) {
        let Some(c) = conn_at(&mut self.slots, index) else {
            return;
        };
        self.timers.set(index, c.timers.next());
        if let Some(l) = c.listener {
            let generation = c.generation;
            if c.state == State::Closed {
                c.app.released = true;
                c.listener = None;
                self.listeners.half_open_gone(l);
            } else if c.state.is_synchronized() {
                c.listener = None;
                if !self.listeners.established(l, ConnId { index, generation }) {
                    c.app.released = true;
                    c.abort(CloseReason::Aborted);
                    self.timers.set(index, None);
                }
            }
        }
        if c.state == State::TimeWait && !c.time_waiting {
            c.time_waiting = true;
            let t = &mut self.core.tenants[c.tenant.index()];
            t.time_wait += 1;
            if t.time_wait > t.tunables.max_tw_buckets {
                c.finish(CloseReason::Normal);
                self.timers.set(index, None);
            }
        }
        if c.app.pending != 0 && !c.app.listed && c.listener.is_none() {
            c.app.listed = true;
            self.events.push_back(index);
        }
        let writes_no_more = c.tx.fin && c.tx.buffer.len() == 0;
        if c.reserved && (writes_no_more || c.state == State::Closed) {
            c.reserved = false;
            self.core.memory.leave();
        }
        if c.state != State::Closed {
            return;
        }
        c.tx.buffer.clear(&mut self.core.memory);
        c.tx.board.clear();
        if c.linked {
            c.linked = false;
            self.demux.remove(&Ends::of(c.local, c.remote));
            if c.time_waiting {
                self.core.tenants[c.tenant.index()].time_wait -= 1;
            }
            if c.nic.flow != FlowSlot::UNPACED {
                self.core.freed_flows.push(c.nic.flow);
                c.nic.flow = FlowSlot::UNPACED;
            }
        }
        if c.app.released && c.reset_due.is_none() && !c.queued {
            self.core.tenants[c.tenant.index()].gone.add(&c.counters);
            let slot = &mut self.slots[index as usize];
            slot.conn = None;
            slot.generation = slot.generation.wrapping_add(1);
            self.free.push(index);
        }
    }
}

/// After a segment or a completion, of connection `c`: the next poll runs it, and
/// settles it then. Answers whether it must be settled now. Where only timers and
/// events could change it need not, so a batch costs one settling; no deadline is
/// missed, as until then [`Engine::next_timer`] says that a poll is due.
#[inline(always)]
fn attend(c: &mut Conn, ready: &mut VecDeque<u32>, events: &mut VecDeque<u32>) -> bool {
    if !c.queued {
        c.queued = true;
        ready.push_back(c.index);
    }
    if c.state != State::Established || c.listener.is_some() {
        return true;
    }
    if c.app.pending != 0 && !c.app.listed {
        c.app.listed = true;
        events.push_back(c.index);
    }
    false
}

#[inline]
fn conn_at(slots: &mut [Slot], index: u32) -> Option<&mut Conn> {
    slots.get_mut(index as usize)?.conn.as_deref_mut()
}
