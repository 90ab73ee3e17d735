// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts (engine, driver, NIC) with a wire between them, on one clock: one sends as
//! much as it can over one connection or many, the other reads it and throws it away.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use thiserror::Error;
use tsonic_driver::{Device, DriverError};
use tsonic_host::{Nic, NicConfig, Pool, PoolConfig};
use tsonic_pci::Wake;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::stats::Counters;
use tsonic_tcp::tunables::TunableError;
use tsonic_tcp::wire::ethernet::Mac;
use tsonic_tcp::{Config, ConnId, ConnInfo, Engine, Error, Event, Interface, ListenerId};
use tsonic_tcp::{RxPort, TxCompletion};
use tsonic_types::{CoreId, Nanos, QueueId, TenantId};

const PORT: u16 = 5001;
const TENANT: TenantId = TenantId(0);
/// Bytes of a write.
const BLOCK: usize = 1 << 18;
/// So many connections are written to in every turn. More are when the engine says that there
/// is room, a third of the buffer: a look at each would cost more than all else.
const EAGER: usize = 4;
/// Frames taken in at once.
const RX_BUDGET: usize = 64;

/// Why an experiment with two hosts has no result.
#[derive(Debug, Error)]
pub enum HostsError {
    /// The driver, or the NIC.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] Error),
    /// A tunable.
    #[error(transparent)]
    Tunable(#[from] TunableError),
    /// The NICs' clocks differ.
    #[error("the two NICs have different clocks")]
    Clocks,
    /// Nothing moves any more.
    #[error("nothing moves any more at {0} ns")]
    Stalled(u64),
    /// A connection has ended.
    #[error("a connection ended at {0} ns")]
    Ended(u64),
}

/// What the two hosts are made of.
#[derive(Clone)]
pub struct Setting<'a> {
    /// Makes a NIC.
    pub nic: &'a dyn Fn() -> Box<dyn nic::Nic + Send>,
    /// The bus between a NIC and its host.
    pub bus: RootComplexConfig,
    /// The wire.
    pub link: LinkConfig,
    /// The sender's queues.
    pub queues: NicConfig,
    /// The receiver's.
    pub receiver: NicConfig,
    /// Names and values of the sender's tunables.
    pub sysctl: &'a [(&'a str, String)],
    /// Largest burst in payload bytes.
    pub gso_max: u32,
    /// The sender's NIC makes segments; otherwise every burst is one.
    pub tso: bool,
    /// Which queues the sender's cores send from; by the flow's hash if `None`.
    pub xps: Option<XpsMap>,
    /// Connections, at least 1.
    pub connections: u32,
    /// They open evenly over this time.
    pub opening: Nanos,
    /// The sender's memory.
    pub memory: PoolConfig,
    /// Interrupts of both hosts: completions gathered at most, and how long one waits;
    /// as after reset if `None`.
    pub moderation: Option<(u32, Nanos)>,
    /// Completions reach the sender's engine together: this long after the first of
    /// them has come, as from a NIC that is moderated by time. 0: each at once.
    pub flush: Nanos,
    /// Period of the device's credit flush; the reset value if `None`.
    pub credit_flush: Option<Nanos>,
    /// Seed of initial sequence numbers.
    pub seed: u64,
}

impl<'a> Setting<'a> {
    /// One connection, and defaults everywhere.
    pub fn new(
        nic: &'a dyn Fn() -> Box<dyn nic::Nic + Send>,
        bus: RootComplexConfig,
        link: LinkConfig,
    ) -> Setting<'a> {
        Setting {
            nic,
            bus,
            link,
            queues: NicConfig::default(),
            receiver: NicConfig::default(),
            sysctl: &[],
            gso_max: 65_536,
            tso: true,
            xps: None,
            connections: 1,
            opening: Nanos::ZERO,
            memory: PoolConfig::default(),
            moderation: None,
            flush: Nanos::ZERO,
            credit_flush: None,
            seed: 1,
        }
    }

    /// Memory of a host that only acknowledges: every connection wants its first chunk.
    fn receiver_memory(&self) -> PoolConfig {
        let least = PoolConfig::default();
        PoolConfig {
            // Five eighths of the chunks are first ones.
            chunks: least.chunks.max(self.connections * 8 / 5 + 8),
            ..least
        }
    }
}

struct Host {
    engine: Engine<Pool>,
    nic: Nic<InprocFunction>,
}

impl Host {
    fn start(
        function: InprocFunction,
        setting: &Setting<'_>,
        end: u8,
        queues: &NicConfig,
        memory: PoolConfig,
    ) -> Result<Host, HostsError> {
        let mut device = Device::open(function)?;
        let pool = Pool::new(device.chunk_pool(memory.chunks, memory.chunk_bytes)?);
        let mut nic = Nic::start(device, queues, pool.map())?;
        if let Some((count, wait)) = setting.moderation {
            for q in 0..nic.tx_queues().len() as u16 {
                nic.device().set_moderation(QueueId(q), count, wait)?;
            }
        }
        let mac = Mac([2, 0, 0, 0, 0, end]);
        let mut config = Config::new(Interface::new(mac, address(end), 24));
        config.gso_max = Some(setting.gso_max);
        config.tso = setting.tso;
        config.xps = setting.xps.clone();
        config.seed = setting.seed.wrapping_add(u64::from(end));
        Ok(Host {
            engine: Engine::new(config, pool),
            nic,
        })
    }

    fn now(&mut self) -> Nanos {
        self.nic.device().now()
    }

    /// Completions, those of queues that stand still included. The watchdog must look: waiting
    /// ends when it wants to.
    fn reap(
        &mut self,
        now: Nanos,
        mut each: impl FnMut(&mut Engine<Pool>, &TxCompletion),
    ) -> Result<(), HostsError> {
        let (nic, engine) = (&mut self.nic, &mut self.engine);
        nic.look(now);
        nic.reap(usize::MAX, |c| each(engine, c));
        Ok(nic.revive(now, |c| each(engine, c))?)
    }

    /// Frames in, `work`, frames out. Whether frames may be left.
    fn turn(&mut self, work: impl FnOnce(&mut Engine<Pool>)) -> Result<bool, HostsError> {
        let now = self.now();
        let (nic, engine) = (&mut self.nic, &mut self.engine);
        let received = nic.receive(RX_BUDGET, |frame, meta| engine.on_frame(now, frame, meta));
        work(engine);
        engine.poll(now, nic);
        match nic.take_fault() {
            Some(fault) => Err(fault.into()),
            None => Ok(received == RX_BUDGET),
        }
    }
}

fn address(end: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 9, 0, end))
}

/// What is seen of the sender at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// Bytes of the first connection below the engine, by the measure of TCP small queues.
    pub below: u64,
    /// Its congestion window in segments.
    pub cwnd: u32,
    /// Its smoothed RTT.
    pub srtt: Nanos,
    /// Payload bytes that the far end has read so far, of all connections.
    pub received: u64,
    /// Bursts posted so far.
    pub bursts: u64,
    /// Segments posted so far.
    pub segments: u64,
    /// Bursts deferred so far.
    pub deferred: u64,
    /// Payload bytes sent again so far.
    pub retransmitted: u64,
}

/// A transmit queue of the sender at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Bursts posted and not completed.
    pub bursts: u64,
    /// Their wire bytes.
    pub bytes: u64,
}

/// What the application has to know: which core writes to which connection.
#[derive(Default)]
struct Writer {
    conns: Vec<ConnId>,
    /// By position in `conns`.
    cores: Vec<CoreId>,
    positions: HashMap<ConnId, usize>,
    block: Vec<u8>,
}

impl Writer {
    /// Fills the buffers of those that have room. Whether one has ended.
    fn write(&self, engine: &mut Engine<Pool>) -> bool {
        let mut ended = false;
        while let Some(event) = engine.next_event() {
            let Event::Ready(id, ready) = event else {
                continue;
            };
            ended |= ready.closed();
            if ready.connected() || ready.writable() {
                self.fill(engine, id);
            }
        }
        if self.conns.len() <= EAGER {
            for id in &self.conns {
                self.fill(engine, *id);
            }
        }
        ended
    }

    fn fill(&self, engine: &mut Engine<Pool>, id: ConnId) {
        let position = self.positions.get(&id);
        let core = position.and_then(|p| self.cores.get(*p)).copied();
        let core = core.unwrap_or(CoreId(0));
        while engine.write(id, core, &self.block).is_ok() {}
    }
}

/// The two hosts and their connections.
pub struct Hosts {
    sender: Host,
    receiver: Host,
    writer: Writer,
    connections: u32,
    started: Nanos,
    opening: Nanos,
    listener: ListenerId,
    into: Vec<u8>,
    received: u64,
    flush: Nanos,
    /// Completions on their way to the engine, and since when the first.
    held: VecDeque<TxCompletion>,
    held_since: Nanos,
}

impl Hosts {
    /// Opens both ends; connections open as time goes by.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn start(setting: &Setting<'_>) -> Result<Hosts, HostsError> {
        let nics = [(setting.nic)(), (setting.nic)()];
        let world = World::pair(nics, setting.bus, setting.link).ok_or(HostsError::Clocks)?;
        let function = InprocFunction::new(world);
        let other = function.other().ok_or(HostsError::Clocks)?;
        let mut sender = Host::start(function, setting, 1, &setting.queues, setting.memory)?;
        let memory = setting.receiver_memory();
        let mut receiver = Host::start(other, setting, 2, &setting.receiver, memory)?;
        if let Some(period) = setting.credit_flush {
            sender.nic.device().set_credit_flush(period)?;
        }
        if let Some(tunables) = sender.engine.tunables_mut(TENANT) {
            for (name, value) in setting.sysctl {
                tunables.set(name, value)?;
            }
        }
        let connections = setting.connections.max(1);
        let at = SocketAddr::new(address(2), PORT);
        let listener = receiver.engine.listen(TENANT, at, connections as usize)?;
        let started = sender.now();
        Ok(Hosts {
            sender,
            receiver,
            writer: Writer {
                cores: vec![CoreId(0); connections as usize],
                block: (0..BLOCK).map(|i| (i % 251) as u8).collect(),
                ..Writer::default()
            },
            connections,
            started,
            opening: setting.opening,
            listener,
            into: vec![0; BLOCK],
            received: 0,
            flush: setting.flush,
            held: VecDeque::new(),
            held_since: Nanos::ZERO,
        })
    }

    /// The clock.
    pub fn now(&mut self) -> Nanos {
        self.sender.now()
    }

    /// Each connection, by its number, is written to from this core from its next write
    /// on; to begin with from core 0.
    pub fn place(&mut self, core: impl Fn(usize) -> CoreId) {
        for (i, at) in self.writer.cores.iter_mut().enumerate() {
            *at = core(i);
        }
    }

    /// When the next connection opens.
    fn next_open(&self) -> Option<Nanos> {
        let n = self.writer.conns.len() as u64;
        let span = self.opening.0 * n / u64::from(self.connections);
        (n < u64::from(self.connections)).then_some(self.started + Nanos(span))
    }

    fn open(&mut self, now: Nanos) -> Result<(), HostsError> {
        while self.next_open().is_some_and(|t| t <= now) {
            let at = SocketAddr::new(address(2), PORT);
            let id = self.sender.engine.connect(now, TENANT, None, at)?;
            let n = self.writer.conns.len();
            self.writer.conns.push(id);
            self.writer.positions.insert(id, n);
        }
        Ok(())
    }

    fn complete(&mut self, now: Nanos) -> Result<(), HostsError> {
        let Hosts { sender, held, .. } = self;
        let empty = held.is_empty();
        sender.reap(now, |_, c| held.push_back(*c))?;
        if empty && !held.is_empty() {
            self.held_since = now;
        }
        if now >= self.held_since + self.flush {
            for c in self.held.drain(..) {
                self.sender.engine.on_tx_completion(now, &c);
            }
        }
        Ok(())
    }

    /// Lets both ends run until `end`; `look` sees the hosts after each of their turns.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn run(
        &mut self,
        end: Nanos,
        mut look: impl FnMut(Nanos, &Hosts),
    ) -> Result<(), HostsError> {
        loop {
            let now = self.now();
            if now >= end {
                return Ok(());
            }
            self.open(now)?;
            self.complete(now)?;
            let mut ended = false;
            let Hosts { sender, writer, .. } = self;
            let mut again = sender.turn(|engine| ended = writer.write(engine))?;
            again |= self.receive()?;
            if ended {
                return Err(HostsError::Ended(now.0));
            }
            look(now, self);
            if !again {
                self.wait(end)?;
            }
        }
    }

    /// A turn of the receiver.
    fn receive(&mut self) -> Result<bool, HostsError> {
        let Hosts {
            receiver,
            listener,
            into,
            received,
            ..
        } = self;
        let now = receiver.now();
        receiver.reap(now, |engine, c| engine.on_tx_completion(now, c))?;
        let mut failed = None;
        let again = receiver.turn(|engine| {
            while engine.accept(*listener).is_some() {}
            while let Some(event) = engine.next_event() {
                let Event::Ready(id, _) = event else {
                    continue;
                };
                loop {
                    match engine.read(id, into) {
                        Ok(n) if n > 0 => *received += n as u64,
                        Ok(_) | Err(Error::WouldBlock) => break,
                        Err(e) => {
                            failed = Some(e);
                            break;
                        }
                    }
                }
            }
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(again),
        }
    }

    fn wait(&mut self, end: Nanos) -> Result<(), HostsError> {
        let held = (!self.held.is_empty()).then(|| self.held_since + self.flush);
        let timers = [
            self.sender.engine.next_timer(),
            self.receiver.engine.next_timer(),
            held,
            self.next_open(),
        ];
        let until = timers.into_iter().flatten().fold(end, Nanos::min);
        match self.sender.nic.wait(Some(until))? {
            Wake::Idle => Err(HostsError::Stalled(self.now().0)),
            _ => Ok(()),
        }
    }

    /// What is seen of the sender now.
    pub fn look(&self) -> Look {
        let total = &self.sender.engine.counters().total;
        let first = self.connection(0);
        Look {
            below: first.as_ref().map_or(0, |i| i.in_nic),
            cwnd: first.as_ref().map_or(0, |i| i.cwnd),
            srtt: first.map_or(Nanos::ZERO, |i| i.srtt),
            received: self.received,
            bursts: total.bursts,
            segments: total.segments,
            deferred: total.deferred,
            retransmitted: total.retransmitted_bytes,
        }
    }

    /// A connection at the sender; `None` before it opens.
    pub fn connection(&self, number: usize) -> Option<ConnInfo> {
        let id = self.writer.conns.get(number)?;
        self.sender.engine.info(*id)
    }

    /// The sender's counters of all connections.
    pub fn counters(&self) -> &Counters {
        &self.sender.engine.counters().total
    }

    /// What the connections look like at the receiver, in any order.
    pub fn received(&self) -> impl Iterator<Item = ConnInfo> {
        let engine = &self.receiver.engine;
        engine.ids().filter_map(|id| engine.info(id))
    }

    /// The sender's transmit queues.
    pub fn backlogs(&self) -> Vec<Backlog> {
        let queues = self.sender.nic.tx_queues().iter();
        queues
            .map(|q| Backlog {
                bursts: q.outstanding() as u64,
                bytes: q.outstanding_bytes(),
            })
            .collect()
    }
}
