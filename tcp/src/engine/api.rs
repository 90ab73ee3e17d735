// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the application calls.

use super::{ConnId, Ends, Engine, ListenerId, conn_at};
use crate::conn::{CloseReason, Conn, State};
use crate::port::ChunkPool;
use crate::stats::Counters;
use core::net::{IpAddr, SocketAddr};
use thiserror::Error;
use tsonic_types::{ByteRate, CoreId, Nanos, TenantId};

/// First and last port that `connect` chooses from.
const EPHEMERAL: (u16, u16) = (32_768, 60_999);

/// Why a call did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Error {
    /// Nothing to read, or no room to write: wait for an event.
    #[error("would block: wait for the connection's next event")]
    WouldBlock,
    /// There is no such connection (any more).
    #[error("no such connection")]
    Unknown,
    /// The connection is over.
    #[error("{0}")]
    Closed(CloseReason),
    /// The sending side was shut down.
    #[error("the connection's sending side was shut down")]
    ShutDown,
    /// The address is taken.
    #[error("address {0} is in use")]
    AddressInUse(SocketAddr),
    /// None of our addresses can speak to the peer, or it is no unicast address.
    #[error("no route to {0}: give the interface an address of its family")]
    NoRoute(IpAddr),
    /// All ports or connections are taken.
    #[error("the table of connections is full")]
    TableFull,
    /// All send memory is promised to other connections.
    #[error("all send memory is promised to other connections: wait until one is gone")]
    NoMemory,
    /// There is no such tenant.
    #[error("no tenant {0}")]
    NoTenant(TenantId),
}

/// What a connection looks like.
#[derive(Clone, Debug)]
pub struct ConnInfo {
    /// Whose it is.
    pub tenant: TenantId,
    /// State.
    pub state: State,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's end.
    pub remote: SocketAddr,
    /// Payload bytes of a segment.
    pub mss: u32,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Nanos,
    /// Windowed minimum of the RTT.
    pub min_rtt: Option<Nanos>,
    /// Retransmission time-out before back-off.
    pub rto: Option<Nanos>,
    /// Pacing rate in payload bytes a second.
    pub pacing_rate: ByteRate,
    /// Whether the NIC paces the flow.
    pub paced_by_nic: bool,
    /// Queue of the last burst.
    pub queue: Option<u16>,
    /// Bytes in the NIC by the measure of small queues.
    pub in_nic: u64,
    /// The small-queue gate holds the flow back.
    pub throttled: bool,
    /// The peer's window in bytes.
    pub send_window: u64,
    /// Bytes written and not acknowledged.
    pub send_queue: u64,
    /// Bytes received and not read.
    pub receive_queue: u64,
    /// ECN was agreed on.
    pub ecn: bool,
    /// Counters.
    pub counters: Counters,
}

impl<P: ChunkPool> Engine<P> {
    /// Opens a connection to `remote`, from `local` if given (port 0: any).
    ///
    /// # Errors
    /// [`Error::NoRoute`], [`Error::AddressInUse`], [`Error::TableFull`],
    /// [`Error::NoMemory`], [`Error::NoTenant`].
    pub fn connect(
        &mut self,
        now: Nanos,
        tenant: TenantId,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<ConnId, Error> {
        self.check_tenant(tenant)?;
        let peer = remote.ip();
        let no_route = Error::NoRoute(peer);
        if peer.is_multicast() || peer.is_unspecified() || remote.port() == 0 {
            return Err(no_route);
        }
        let interface = &self.core.config.interface;
        let ip = match local {
            Some(l) if !l.ip().is_unspecified() => l.ip(),
            _ => interface.source_for(peer).ok_or(no_route)?,
        };
        if !interface.owns(ip) || interface.next_hop(peer).is_none() {
            return Err(no_route);
        }
        let remote = SocketAddr::new(peer, remote.port());
        let local = match local.map_or(0, |l| l.port()) {
            0 => self.ephemeral(ip, remote).ok_or(Error::TableFull)?,
            port => SocketAddr::new(ip, port),
        };
        if self.demux.contains_key(&Ends::of(local, remote)) {
            return Err(Error::AddressInUse(local));
        }
        if !self.core.memory.admit() {
            return Err(Error::NoMemory);
        }
        let made = self.insert(|core, index, generation| {
            Conn::new(core, index, generation, tenant, (local, remote), now)
        });
        let Some(id) = made else {
            self.core.memory.leave();
            return Err(Error::TableFull);
        };
        self.enqueue(id.index);
        self.settle(id.index);
        Ok(id)
    }

    /// Takes connections to `local` (address unspecified: any of ours).
    ///
    /// # Errors
    /// [`Error::AddressInUse`], [`Error::NoTenant`].
    pub fn listen(
        &mut self,
        tenant: TenantId,
        local: SocketAddr,
        backlog: usize,
    ) -> Result<ListenerId, Error> {
        self.check_tenant(tenant)?;
        let t = self.core.tunables(tenant);
        let backlog = backlog.min(t.somaxconn as usize);
        let half_open = t.max_syn_backlog as usize;
        self.listeners
            .add(local, tenant, backlog, half_open)
            .map(ListenerId)
            .ok_or(Error::AddressInUse(local))
    }

    /// The next connection of a listener.
    pub fn accept(&mut self, listener: ListenerId) -> Option<ConnId> {
        loop {
            let id = self.listeners.accept(listener.0)?;
            if self.get(id).is_some() {
                return Some(id);
            }
        }
    }

    /// Stops listening; connections that were not accepted are reset.
    pub fn unlisten(&mut self, listener: ListenerId) {
        for id in self.listeners.remove(listener.0) {
            self.abort(id);
        }
    }

    /// Appends to the connection's send buffer, by `core`, whose queue the data
    /// will leave from. Answers how many bytes were taken: the buffer's size bounds
    /// them, and the connection's share of the memory.
    ///
    /// # Errors
    /// [`Error::WouldBlock`] when none were; [`Error::ShutDown`],
    /// [`Error::Closed`], [`Error::Unknown`].
    pub fn write(&mut self, id: ConnId, core: CoreId, bytes: &[u8]) -> Result<usize, Error> {
        self.get(id).ok_or(Error::Unknown)?;
        let c = conn_at(&mut self.slots, id.index).ok_or(Error::Unknown)?;
        match c.state {
            State::Closed => return Err(closed(c)),
            State::SynSent | State::SynReceived => {
                c.app.wants_write = true;
                return Err(Error::WouldBlock);
            }
            _ if c.tx.fin => return Err(Error::ShutDown),
            _ => {}
        }
        c.nic.core = core;
        let room = c.write_room(self.core.tunables(c.tenant));
        let n = c.tx.buffer.write(&mut self.core.memory, bytes, room);
        if n < bytes.len() {
            c.app.wants_write = true;
            if (n as u64) < room {
                self.core.counters.share_stops += 1;
                self.starved.add(c, &self.core.memory);
            }
        }
        if n == 0 && !bytes.is_empty() {
            return Err(Error::WouldBlock);
        }
        self.enqueue(id.index);
        Ok(n)
    }

    /// Takes received bytes. 0 is the end: the peer will send no more.
    ///
    /// # Errors
    /// [`Error::WouldBlock`], [`Error::Closed`], [`Error::Unknown`].
    pub fn read(&mut self, id: ConnId, out: &mut [u8]) -> Result<usize, Error> {
        self.get(id).ok_or(Error::Unknown)?;
        let c = conn_at(&mut self.slots, id.index).ok_or(Error::Unknown)?;
        if c.rx.queue.readable() == 0 {
            return if c.rx.fin_done {
                Ok(0)
            } else if c.state == State::Closed {
                Err(closed(c))
            } else {
                Err(Error::WouldBlock)
            };
        }
        let n = c.rx.queue.read(out);
        c.after_read(n);
        if c.rx.ack_now {
            self.enqueue(id.index);
        }
        Ok(n)
    }

    /// Says that no more will be written; a FIN follows what was.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Unknown`].
    pub fn shutdown(&mut self, id: ConnId) -> Result<(), Error> {
        self.get(id).ok_or(Error::Unknown)?;
        let c = conn_at(&mut self.slots, id.index).ok_or(Error::Unknown)?;
        match c.state {
            State::Closed => return Err(closed(c)),
            State::SynSent => c.finish(CloseReason::Aborted),
            _ => c.start_close(),
        }
        self.enqueue(id.index);
        self.settle(id.index);
        Ok(())
    }

    /// Lets go of the connection: what was written is still sent, then it is
    /// closed; with unread data it is reset (RFC 9293, 3.10.4; RFC 2525, 2.17).
    /// The id is dead from here on.
    pub fn close(&mut self, now: Nanos, id: ConnId) {
        if self.get(id).is_none() {
            return;
        }
        let Some(c) = conn_at(&mut self.slots, id.index) else {
            return;
        };
        c.app.released = true;
        c.app.pending = 0;
        match c.state {
            State::Closed => {}
            State::SynSent => c.finish(CloseReason::Aborted),
            _ if c.rx.queue.readable() > 0 => c.abort(CloseReason::Aborted),
            State::FinWait2 => c.arm_fin_wait(&self.core, now),
            _ => c.start_close(),
        }
        c.rx.queue.release_unread();
        self.enqueue(id.index);
        self.settle(id.index);
    }

    /// Resets the connection and lets go of it. The id is dead from here on.
    pub fn abort(&mut self, id: ConnId) {
        if self.get(id).is_none() {
            return;
        }
        let Some(c) = conn_at(&mut self.slots, id.index) else {
            return;
        };
        c.app.released = true;
        c.app.pending = 0;
        c.abort(CloseReason::Aborted);
        self.enqueue(id.index);
        self.settle(id.index);
    }

    /// State of a connection; `None` when the id is dead.
    pub fn state(&self, id: ConnId) -> Option<State> {
        self.get(id).map(|c| c.state)
    }

    /// Why a connection ended.
    pub fn close_reason(&self, id: ConnId) -> Option<CloseReason> {
        self.get(id)?.app.reason
    }

    /// Our and the peer's address.
    pub fn addresses(&self, id: ConnId) -> Option<(SocketAddr, SocketAddr)> {
        self.get(id).map(|c| (c.local, c.remote))
    }

    /// Bytes that a write would take now, and bytes that a read would give.
    pub fn room(&self, id: ConnId) -> Option<(u64, u64)> {
        self.get(id).map(|c| {
            let room = c.write_room(self.core.tunables(c.tenant));
            let memory = c.tx.buffer.growth(&self.core.memory);
            (room.min(memory), c.rx.queue.readable())
        })
    }

    /// Switches Nagle's algorithm off (`true`) or on.
    pub fn set_nodelay(&mut self, id: ConnId, on: bool) {
        self.with(id, |c| c.tx.nodelay = on);
    }

    /// Switches keepalive probes on or off.
    pub fn set_keepalive(&mut self, now: Nanos, id: ConnId, on: bool) {
        if self.get(id).is_some()
            && let Some(c) = conn_at(&mut self.slots, id.index)
        {
            c.app.keepalive = on;
            c.arm_keepalive(self.core.tunables(c.tenant), now);
        }
        self.settle(id.index);
    }

    /// Caps the connection's pacing rate (payload bytes a second).
    pub fn set_max_pacing_rate(&mut self, id: ConnId, rate: ByteRate) {
        if self.get(id).is_some()
            && let Some(c) = conn_at(&mut self.slots, id.index)
        {
            c.tx.max_rate = rate.0.max(1);
            c.update_rate(self.core.tunables(c.tenant));
        }
    }

    /// Fixes the connection's receive buffer in bytes.
    pub fn set_receive_buffer(&mut self, id: ConnId, bytes: u32) {
        self.with(id, |c| {
            c.rx.buffer = u64::from(bytes.max(1));
            c.rx.buffer_max = c.rx.buffer;
        });
    }

    /// What a connection looks like.
    pub fn info(&self, id: ConnId) -> Option<ConnInfo> {
        self.get(id).map(|c| ConnInfo {
            tenant: c.tenant,
            state: c.state,
            local: c.local,
            remote: c.remote,
            mss: c.tx.mss,
            cwnd: c.cc.cwnd,
            ssthresh: c.cc.ssthresh,
            in_flight: c.in_flight(),
            srtt: c.srtt(),
            min_rtt: c.min_rtt.get().map(Nanos),
            rto: c.rtt.rto_us().map(Nanos::from_micros),
            pacing_rate: ByteRate(c.tx.rate),
            paced_by_nic: c.paced_by_nic(),
            queue: c.nic.queue.get(0, 0),
            in_nic: c.nic.outstanding,
            throttled: c.nic.throttled,
            send_window: c.tx.wnd,
            send_queue: c.tx.buffer.len(),
            receive_queue: c.rx.queue.readable(),
            ecn: c.agreed.ecn,
            counters: c.counters.clone(),
        })
    }

    fn with(&mut self, id: ConnId, f: impl FnOnce(&mut Conn)) {
        if self.get(id).is_some()
            && let Some(c) = conn_at(&mut self.slots, id.index)
        {
            f(c);
        }
    }

    fn check_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        if tenant.index() < self.core.tenants.len() {
            Ok(())
        } else {
            Err(Error::NoTenant(tenant))
        }
    }

    fn ephemeral(&mut self, ip: IpAddr, remote: SocketAddr) -> Option<SocketAddr> {
        let (first, last) = EPHEMERAL;
        let n = last - first + 1;
        let start = self.core.random.below(u32::from(n)) as u16;
        (0..n)
            .map(|i| SocketAddr::new(ip, first + (start + i) % n))
            .find(|l| !self.demux.contains_key(&Ends::of(*l, remote)))
    }
}

fn closed(c: &Conn) -> Error {
    Error::Closed(c.app.reason.unwrap_or(CloseReason::Normal))
}
