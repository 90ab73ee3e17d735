// SPDX-License-Identifier: MIT OR Apache-2.0
//! A sender and a receiver on two model NICs, back to back: one flow that always has
//! something to send.

use tsonic_host::control::protocol::{Reply, Request, Stats};
use tsonic_host::{NicConfig, PoolConfig, Shard};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::{Config, ConnId, Interface, ListenerId, Mac};
use tsonic_types::{ByteRate, CoreId, Nanos, TenantId};

/// Queue pairs.
pub const QUEUES: u16 = 4;
/// Speed of the wire in bytes a second.
pub const LINE: u64 = 125_000_000;

pub struct Lab {
    pub sender: Shard<InprocFunction>,
    receiver: Shard<InprocFunction>,
    listener: ListenerId,
    incoming: Option<ConnId>,
    pub conn: ConnId,
    /// Whether there is anything to write.
    pub writing: bool,
    written: u64,
    /// Bytes received, each checked.
    pub received: u64,
    block: Vec<u8>,
}

/// Byte number `at` of the stream.
fn byte(at: u64) -> u8 {
    (at ^ at >> 8 ^ at >> 16) as u8
}

fn shard(function: InprocFunction, host: u8) -> Shard<InprocFunction> {
    let address = [10, 9, 0, host].into();
    let mut config = Config::new(Interface::new(Mac([2, 0, 0, 0, 0, host]), address, 24));
    config.seed = u64::from(host);
    config.xps = Some(XpsMap::Blocks {
        queues: QUEUES,
        cores_per_queue: 1,
    });
    let (nic, pool) = (NicConfig::default(), PoolConfig::default());
    Shard::start(function, config, &nic, pool).unwrap()
}

impl Lab {
    /// One whose flow is held to `rate`, over a wire with that delay each way.
    pub fn new(rate: ByteRate, delay: Nanos) -> Lab {
        let nic = || {
            Box::new(Model::new(ModelConfig {
                queues: usize::from(QUEUES),
                ..ModelConfig::default()
            }))
        };
        let path = PathConfig {
            delay,
            ..PathConfig::default()
        };
        let link = LinkConfig {
            line_rate: LINE * 8,
            out: path,
            back: path,
        };
        let world = World::pair([nic(), nic()], RootComplexConfig::default(), link).unwrap();
        let function = InprocFunction::new(world);
        let other = function.other().unwrap();
        let mut sender = shard(function, 1);
        let mut receiver = shard(other, 2);
        let to = ([10, 9, 0, 2], 5001).into();
        let listener = receiver.engine().listen(TenantId(0), to, 1).unwrap();
        let now = sender.now();
        let conn = sender.engine().connect(now, TenantId(0), None, to).unwrap();
        sender.engine().set_max_pacing_rate(conn, rate);
        Lab {
            sender,
            receiver,
            listener,
            incoming: None,
            conn,
            writing: true,
            written: 0,
            received: 0,
            block: vec![0; 64 * 1024],
        }
    }

    /// A turn of both, and a wait until something happens, at most until `until`.
    pub fn turn(&mut self, until: Option<Nanos>) {
        let (conn, writing) = (self.conn, self.writing);
        let (written, block) = (&mut self.written, &mut self.block);
        let mut again = self
            .sender
            .turn(|engine, _| {
                if !writing {
                    return;
                }
                loop {
                    let room = engine.room(conn).map_or(0, |(write, _)| write);
                    // At least a byte: a write that is refused asks to be told of room.
                    let n = (room.max(1) as usize).min(block.len());
                    for (at, b) in (*written..).zip(&mut block[..n]) {
                        *b = byte(at);
                    }
                    match engine.write(conn, CoreId(0), &block[..n]) {
                        Ok(n) => *written += n as u64,
                        Err(_) => break,
                    }
                }
            })
            .unwrap();
        let (listener, incoming) = (self.listener, &mut self.incoming);
        let (received, block) = (&mut self.received, &mut self.block);
        again |= self
            .receiver
            .turn(|engine, _| {
                *incoming = incoming.or_else(|| engine.accept(listener));
                let Some(from) = *incoming else { return };
                while let Ok(n) = engine.read(from, block) {
                    for (at, b) in (*received..).zip(&block[..n]) {
                        assert_eq!(*b, byte(at), "byte {at}");
                    }
                    *received += n as u64;
                    if n == 0 {
                        break;
                    }
                }
            })
            .unwrap();
        if !again {
            let other = self.receiver.engine().next_timer();
            let deadline = other.into_iter().chain(until).min();
            self.sender.wait(deadline).unwrap();
        }
    }

    pub fn run_until(&mut self, until: Nanos) {
        while self.sender.now() < until {
            self.turn(Some(until));
        }
    }

    pub fn run_for(&mut self, span: Nanos) {
        let until = self.sender.now() + span;
        self.run_until(until);
    }

    /// Runs until everything that was written has arrived.
    pub fn drain(&mut self) {
        self.writing = false;
        let end = self.sender.now() + Nanos::from_secs(60);
        while self.received < self.written {
            assert!(
                self.sender.now() < end,
                "{} of {}",
                self.received,
                self.written
            );
            self.turn(Some(end));
        }
    }

    pub fn ask(&mut self, request: Request) -> Reply {
        self.sender.request(request).unwrap()
    }

    /// The code's name of a request that must be refused, and the remedy.
    pub fn refusal(&mut self, request: Request) -> (String, String) {
        let failure = self.sender.request(request).unwrap_err();
        (failure.name, failure.remedy)
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.ask(Request::TunableSet {
            tenant: 0,
            name: name.into(),
            value: value.into(),
        });
    }

    pub fn stats(&mut self) -> Stats {
        match self.ask(Request::Stats { connections: 10 }) {
            Reply::Stats(stats) => *stats,
            other => panic!("{other:?}"),
        }
    }

    /// Wire bytes that the device has handed to the MAC.
    pub fn departed(&mut self) -> u64 {
        self.stats().device["tx-bytes"]
    }

    /// Wire bytes that depart in a span from now on.
    pub fn departs_in(&mut self, span: Nanos) -> u64 {
        let before = self.departed();
        self.run_for(span);
        self.departed() - before
    }
}
