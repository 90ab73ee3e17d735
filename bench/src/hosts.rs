// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts (engine, driver, NIC) with a wire between them, on one clock: one sends as
//! much as it can over one connection, the other reads it and throws it away.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use thiserror::Error;
use tsonic_driver::{Device, DriverError};
use tsonic_host::{Nic, NicConfig, Pool, PoolConfig};
use tsonic_pci::Wake;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::tunables::TunableError;
use tsonic_tcp::wire::ethernet::Mac;
use tsonic_tcp::{Config, ConnId, Engine, Error, Interface, ListenerId, RxPort, TxCompletion};
use tsonic_types::{CoreId, Nanos, TenantId};

const PORT: u16 = 5001;
const TENANT: TenantId = TenantId(0);
/// Bytes of a write.
const BLOCK: usize = 1 << 18;
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
}

/// What the two hosts are made of.
pub struct Setting<'a> {
    /// Makes a NIC.
    pub nic: &'a dyn Fn() -> Box<dyn nic::Nic + Send>,
    /// The bus between a NIC and its host.
    pub bus: RootComplexConfig,
    /// The wire.
    pub link: LinkConfig,
    /// The sender's queues.
    pub queues: NicConfig,
    /// Names and values of the sender's tunables.
    pub sysctl: &'a [(&'a str, String)],
    /// Largest burst in payload bytes.
    pub gso_max: u32,
    /// Completions reach the sender's engine together: this long after the first of
    /// them has come, as from a NIC that is moderated by time. 0: each at once.
    pub flush: Nanos,
    /// Period of the device's credit flush; the reset value if `None`.
    pub credit_flush: Option<Nanos>,
    /// Seed of initial sequence numbers.
    pub seed: u64,
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
    ) -> Result<Host, HostsError> {
        let mut device = Device::open(function)?;
        let memory = PoolConfig::default();
        let pool = Pool::new(device.chunk_pool(memory.chunks, memory.chunk_bytes)?);
        let nic = Nic::start(device, queues, pool.map())?;
        let mac = Mac([2, 0, 0, 0, 0, end]);
        let mut config = Config::new(Interface::new(mac, address(end), 24));
        config.gso_max = Some(setting.gso_max);
        config.seed = setting.seed.wrapping_add(u64::from(end));
        Ok(Host {
            engine: Engine::new(config, pool),
            nic,
        })
    }

    fn now(&mut self) -> Nanos {
        self.nic.device().now()
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
    /// Bytes below the engine, by the measure of TCP small queues.
    pub below: u64,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Smoothed RTT.
    pub srtt: Nanos,
    /// Payload bytes that the far end has read so far.
    pub received: u64,
    /// Bursts posted so far, and segments in them.
    pub bursts: u64,
    /// Segments posted so far.
    pub segments: u64,
    /// Payload bytes sent again so far.
    pub retransmitted: u64,
}

/// The two hosts and their connection.
pub struct Hosts {
    sender: Host,
    receiver: Host,
    conn: ConnId,
    listener: ListenerId,
    accepted: Option<ConnId>,
    block: Vec<u8>,
    into: Vec<u8>,
    received: u64,
    flush: Nanos,
    /// Completions on their way to the engine, and since when the first.
    held: VecDeque<TxCompletion>,
    held_since: Nanos,
}

impl Hosts {
    /// Opens both ends.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn start(setting: &Setting<'_>) -> Result<Hosts, HostsError> {
        let nics = [(setting.nic)(), (setting.nic)()];
        let world = World::pair(nics, setting.bus, setting.link).ok_or(HostsError::Clocks)?;
        let function = InprocFunction::new(world);
        let other = function.other().ok_or(HostsError::Clocks)?;
        let mut sender = Host::start(function, setting, 1, &setting.queues)?;
        let mut receiver = Host::start(other, setting, 2, &NicConfig::default())?;
        if let Some(period) = setting.credit_flush {
            sender.nic.device().set_credit_flush(period)?;
        }
        if let Some(tunables) = sender.engine.tunables_mut(TENANT) {
            for (name, value) in setting.sysctl {
                tunables.set(name, value)?;
            }
        }
        let at = SocketAddr::new(address(2), PORT);
        let listener = receiver.engine.listen(TENANT, at, 1)?;
        let now = sender.now();
        let conn = sender.engine.connect(now, TENANT, None, at)?;
        Ok(Hosts {
            sender,
            receiver,
            conn,
            listener,
            accepted: None,
            block: (0..BLOCK).map(|i| (i % 251) as u8).collect(),
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

    fn complete(&mut self, now: Nanos) {
        let Hosts { sender, held, .. } = self;
        let empty = held.is_empty();
        sender.nic.reap(usize::MAX, |c| held.push_back(*c));
        if empty && !held.is_empty() {
            self.held_since = now;
        }
        if now >= self.held_since + self.flush {
            for c in self.held.drain(..) {
                self.sender.engine.on_tx_completion(now, &c);
            }
        }
    }

    /// Lets both ends run until `end`; `look` sees the sender after each of its turns.
    ///
    /// # Errors
    /// [`HostsError`].
    pub fn run(&mut self, end: Nanos, mut look: impl FnMut(Nanos, Look)) -> Result<(), HostsError> {
        loop {
            let now = self.now();
            if now >= end {
                return Ok(());
            }
            self.complete(now);
            let (conn, block) = (self.conn, &self.block);
            let mut failed = None;
            let mut again = self.sender.turn(|engine| {
                loop {
                    match engine.write(conn, CoreId(0), block) {
                        Ok(_) => {}
                        Err(Error::WouldBlock) => break,
                        Err(e) => {
                            failed = Some(e);
                            break;
                        }
                    }
                }
            })?;
            let Hosts {
                receiver,
                listener,
                accepted,
                into,
                received,
                ..
            } = self;
            let (now_there, nic) = (receiver.now(), &mut receiver.nic);
            let engine = &mut receiver.engine;
            nic.reap(usize::MAX, |c| engine.on_tx_completion(now_there, c));
            again |= receiver.turn(|engine| {
                *accepted = accepted.or_else(|| engine.accept(*listener));
                let Some(conn) = *accepted else { return };
                loop {
                    match engine.read(conn, into) {
                        Ok(n) if n > 0 => *received += n as u64,
                        Ok(_) | Err(Error::WouldBlock) => break,
                        Err(e) => {
                            failed = Some(e);
                            break;
                        }
                    }
                }
            })?;
            if let Some(error) = failed {
                return Err(error.into());
            }
            look(now, self.look());
            if again {
                continue;
            }
            self.wait(end)?;
        }
    }

    fn wait(&mut self, end: Nanos) -> Result<(), HostsError> {
        let held = (!self.held.is_empty()).then(|| self.held_since + self.flush);
        let timers = [
            self.sender.engine.next_timer(),
            self.receiver.engine.next_timer(),
            held,
        ];
        let until = timers.into_iter().flatten().fold(end, Nanos::min);
        match self.sender.nic.wait(Some(until))? {
            Wake::Idle => Err(HostsError::Stalled(self.now().0)),
            _ => Ok(()),
        }
    }

    /// What is seen of the sender now.
    pub fn look(&self) -> Look {
        let counters = self.sender.engine.counters();
        let Some(info) = self.sender.engine.info(self.conn) else {
            return Look::default();
        };
        Look {
            below: info.in_nic,
            cwnd: info.cwnd,
            srtt: info.srtt,
            received: self.received,
            bursts: counters.total.bursts,
            segments: counters.total.segments,
            retransmitted: counters.total.retransmitted_bytes,
        }
    }
}
