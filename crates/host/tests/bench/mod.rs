// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bulk transfer between two hosts (engine, `host::Nic`, driver) over a minimal
//! [`wire`], cut into the calls of a host's loop, so that each can be watched by
//! itself. Shared by the allocation test and the cost example.
#![allow(dead_code, reason = "each user takes its part")]

pub mod wire;

use tsonic_driver::Device;
use tsonic_host::{Nic, NicConfig, Pool, PoolConfig};
use tsonic_tcp::{Config, ConnId, Engine, Event, Interface, Mac, RxPort};
use tsonic_types::{CoreId, Nanos, TenantId};
use wire::{Function, Wire};

/// Payload of a full burst: 45 segments of 1,448 bytes.
pub const BURST: usize = 45 * 1_448;
/// Period of the data, prime to every power of two.
const PERIOD: usize = 251;
const PORT: u16 = 5_001;

/// One host: what a shard is made of.
pub struct Host {
    pub engine: Engine<Pool>,
    pub nic: Nic<Function>,
}

impl Host {
    fn new(wire: &Wire, end: usize) -> Host {
        let mut device = Device::open(wire.function(end)).expect("open");
        let memory = PoolConfig::default();
        let pool = device.chunk_pool(memory.chunks, memory.chunk_bytes);
        let pool = Pool::new(pool.expect("pool"));
        let nic = Nic::start(device, &NicConfig::default(), pool.map()).expect("start");
        let address = format!("10.0.0.{}", end + 1).parse().expect("address");
        let mac = Mac([2, 0, 0, 0, 0, end as u8 + 1]);
        let mut config = Config::new(Interface::new(mac, address, 24));
        config.gso_max = Some(BURST as u32);
        let engine = Engine::new(config, pool);
        Host { engine, nic }
    }
}

/// The calls of a host's loop. A probe wraps those that it watches.
pub trait Probe {
    /// Takes in the completions of bursts.
    fn reap(&mut self, h: &mut Host, now: Nanos) -> usize {
        reap(h, now)
    }
    /// Takes in at most `budget` frames.
    fn receive(&mut self, h: &mut Host, now: Nanos, budget: usize) -> usize {
        receive(h, now, budget)
    }
    /// Posts and rings doorbells.
    fn poll(&mut self, h: &mut Host, now: Nanos) {
        h.engine.poll(now, &mut h.nic);
    }
    /// Writes; answers the bytes taken.
    fn write(&mut self, h: &mut Host, id: ConnId, bytes: &[u8]) -> usize {
        write(h, id, bytes)
    }
    /// Reads; answers the bytes given.
    fn read(&mut self, h: &mut Host, id: ConnId, out: &mut [u8]) -> usize {
        h.engine.read(id, out).unwrap_or(0)
    }
}

#[inline]
pub fn reap(h: &mut Host, now: Nanos) -> usize {
    let Host { engine, nic } = h;
    nic.reap(usize::MAX, |c| engine.on_tx_completion(now, c))
}

#[inline]
pub fn receive(h: &mut Host, now: Nanos, budget: usize) -> usize {
    let Host { engine, nic } = h;
    nic.receive(budget, |frame, meta| engine.on_frame(now, frame, meta))
}

#[inline]
pub fn write(h: &mut Host, id: ConnId, bytes: &[u8]) -> usize {
    h.engine.write(id, CoreId(0), bytes).unwrap_or(0)
}

/// A probe that watches nothing.
pub struct Unwatched;

impl Probe for Unwatched {}

/// One connection from host 0 to host 1, and its progress.
struct Flow {
    from: ConnId,
    to: ConnId,
    written: usize,
    read: usize,
}

/// Two hosts with connections between them.
pub struct Lab {
    wire: Wire,
    pub hosts: [Host; 2],
    flows: Vec<Flow>,
    data: Vec<u8>,
    scratch: Vec<u8>,
    /// Frames that the receiver takes before it may acknowledge.
    budget: usize,
    /// Frames that host 0 has received so far: acknowledgements.
    pub acks: usize,
}

impl Lab {
    /// Opens `connections` connections. The receiver takes `budget` frames a turn
    /// of its loop; one in `lose_every` data segments is lost (0: none).
    pub fn new(connections: usize, budget: usize, lose_every: u64) -> Lab {
        let wire = Wire::new(lose_every);
        let hosts = [Host::new(&wire, 0), Host::new(&wire, 1)];
        let mut lab = Lab {
            wire,
            hosts,
            flows: Vec::with_capacity(connections),
            data: (0..BURST + PERIOD).map(|i| (i % PERIOD) as u8).collect(),
            scratch: vec![0; BURST],
            budget,
            acks: 0,
        };
        let there = ([10, 0, 0, 2], PORT).into();
        let listen = lab.hosts[1].engine.listen(TenantId(0), there, 64);
        let listener = listen.expect("listen");
        for _ in 0..connections {
            let now = lab.now();
            let from = lab.hosts[0].engine.connect(now, TenantId(0), None, there);
            let from = from.expect("connect");
            let to = loop {
                if let Some(to) = lab.hosts[1].engine.accept(listener) {
                    break to;
                }
                lab.idle();
                for (end, h) in lab.hosts.iter_mut().enumerate() {
                    lab.wire.land(end);
                    let now = h.nic.device().now();
                    reap(h, now);
                    receive(h, now, usize::MAX);
                    h.engine.poll(now, &mut h.nic);
                    lab.wire.carry(end, usize::MAX);
                }
            };
            lab.flows.push(Flow {
                from,
                to,
                written: 0,
                read: 0,
            });
        }
        lab
    }

    fn now(&mut self) -> Nanos {
        self.hosts[0].nic.device().now()
    }

    /// Bytes that have arrived, in order and as they were sent.
    pub fn delivered(&self) -> usize {
        self.flows.iter().map(|f| f.read).sum()
    }

    /// Bursts that host 0 has posted, and their segments.
    pub fn bursts(&self) -> (u64, u64) {
        let c = &self.hosts[0].engine.counters().total;
        (c.bursts, c.segments)
    }

    /// A turn of both hosts. The sender's NIC sends one burst a turn; as many
    /// frames, completions and acknowledgements land meanwhile as it takes time.
    pub fn turn(&mut self, sender: &mut impl Probe, receiver: &mut impl Probe) {
        self.wire.land(0);
        let now = self.now();
        let [a, b] = &mut self.hosts;
        let reaped = sender.reap(a, now);
        let acks = sender.receive(a, now, usize::MAX);
        self.acks += acks;
        while let Some(Event::Ready(..)) = a.engine.next_event() {}
        for f in &mut self.flows {
            let from = f.written % PERIOD;
            f.written += sender.write(a, f.from, &self.data[from..from + BURST]);
        }
        sender.poll(a, now);
        let sent = self.wire.carry(0, 1);

        let landed = self.wire.land(1);
        let now = b.nic.device().now();
        receiver.reap(b, now);
        loop {
            let taken = receiver.receive(b, now, self.budget);
            while let Some(Event::Ready(..)) = b.engine.next_event() {}
            for f in &mut self.flows {
                loop {
                    let n = receiver.read(b, f.to, &mut self.scratch);
                    if n == 0 {
                        break;
                    }
                    let from = f.read % PERIOD;
                    assert!(
                        self.scratch[..n] == self.data[from..from + n],
                        "bytes changed after {}",
                        f.read
                    );
                    f.read += n;
                }
            }
            receiver.poll(b, now);
            if taken < self.budget {
                break;
            }
        }
        let back = self.wire.carry(1, usize::MAX);
        if reaped + acks + sent + landed + back == 0 {
            self.idle();
        }
    }

    /// Nothing to do now: on to the next landing or timer.
    fn idle(&mut self) {
        let timers = self.hosts.iter().map(|h| h.engine.next_timer());
        let timer = timers.flatten().min();
        if let Some(t) = self.wire.next_landing() {
            self.wire.advance_to(t);
        } else {
            let timer = timer.expect("a timer, or it never ends");
            self.hosts[0].nic.device().wait(Some(timer)).expect("wait");
        }
    }
}
