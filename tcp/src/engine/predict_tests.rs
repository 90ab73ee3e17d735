// SPDX-License-Identifier: MIT OR Apache-2.0
//! Header prediction leaves the state that the whole of input would have left:
//! two engines get the same frames, completions and calls, one of them predicts,
//! and after every step everything that they know and posted is compared.

use super::{Engine, conn_at};
use crate::conn::Incoming;
use crate::interface::{Config, Interface};
use crate::pool::HeapPool;
use crate::port::{
    Burst, ChunkPool, PostError, QueueState, RxMeta, TxCompletion, TxLimits, TxPort,
};
use crate::shared::Random;
use crate::wire::ethernet::{self, Mac};
use crate::wire::ip::{self, Ip};
use crate::wire::tcp::{Flags, Header, Options};
use crate::{Checksum, ConnId, Event};
use core::net::IpAddr;
use std::collections::VecDeque;
use tsonic_types::{CoreId, FlowSlot, Nanos, QueueId, SeqNum, TenantId, WireBytes};

const OURS: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEERS: Mac = Mac([2, 0, 0, 0, 0, 2]);
const IRS: u32 = u32::MAX - 5_000;
const MSS: u32 = 1_448;

/// A port that keeps what was posted.
#[derive(Debug, Default)]
struct Port {
    posted: VecDeque<(u64, Vec<u8>, u32)>,
}

impl TxPort for Port {
    fn limits(&self) -> TxLimits {
        TxLimits {
            gso_max: 65_536,
            gso_max_segs: 64,
            max_segment: 9_000,
            fragments: 17,
            queues: 2,
            paces: true,
            tso: true,
        }
    }
    fn queue_state(&self, _: QueueId) -> QueueState {
        QueueState {
            free: 64,
            bql: None,
        }
    }
    fn allocate_flow(&mut self) -> Option<FlowSlot> {
        Some(FlowSlot(1))
    }
    fn free_flow(&mut self, _: FlowSlot) {}
    fn post(&mut self, b: &Burst<'_>) -> Result<(), PostError> {
        let posted = (b.token, b.header.to_vec(), b.payload_len);
        self.posted.push_back(posted);
        Ok(())
    }
    fn flush(&mut self) {}
}

/// An engine with one connection.
struct Side {
    engine: Engine<HeapPool>,
    port: Port,
    id: ConnId,
}

impl Side {
    fn new(predicts: bool, algorithm: &str, ecn: bool) -> Side {
        let ours: IpAddr = "10.0.0.1".parse().unwrap();
        let peer: IpAddr = "10.0.0.2".parse().unwrap();
        let config = Config::new(Interface::new(OURS, ours, 24));
        let mut engine = Engine::new(config, HeapPool::new(32_768, 64));
        engine.core.unpredicted = !predicts;
        let neighbours = &mut engine.core.neighbours;
        neighbours.learn(peer, PEERS, Nanos(1), true);
        let t = engine.tunables_mut(TenantId(0)).unwrap();
        t.set("net.ipv4.tcp_congestion_control", algorithm).unwrap();
        t.set("net.ipv4.tcp_ecn", if ecn { "1" } else { "0" })
            .unwrap();
        let id = engine
            .connect(Nanos(1), TenantId(0), None, (peer, 80).into())
            .unwrap();
        let mut port = Port::default();
        engine.poll(Nanos(1), &mut port);
        Side { engine, port, id }
    }

    /// All that there is to know, by parts, but the bytes of the pool and whether
    /// it predicts.
    fn state(&self) -> [String; 5] {
        let e = &self.engine;
        let core = &e.core;
        [
            format!("{:?}", e.slots),
            format!("{:?} {:?}", core.bursts, core.memory.pool.available()),
            format!("{:?} {:?}", core.tenants, core.counters),
            format!(
                "{:?} {:?} {:?} {:?}",
                e.timers, e.ready, e.events, e.waiting
            ),
            format!("{:?} {:?}", core.freed_flows, self.port),
        ]
    }
}

/// What a stream does: the peer's side, and the dice.
struct Stream {
    sides: [Side; 2],
    dice: Random,
    now: Nanos,
    options: Options,
    /// Our port, and numbers, as the peer sees them.
    ours: u16,
    acked: u32,
    sent: u32,
    ts: u32,
    predicted: usize,
    segments: usize,
}

impl Stream {
    fn new(seed: u64) -> Stream {
        let mut dice = Random(seed);
        let ecn = dice.below(3) == 0;
        let algorithm = ["cubic", "reno", "dctcp"][dice.below(3) as usize];
        let sides = [true, false].map(|p| Side::new(p, algorithm, ecn));
        let (syn, _) = Header::parse(&sides[0].port.posted[0].1[34..]).unwrap();
        let options = Options {
            mss: Some(1_460),
            window_scale: Some(7),
            sack_permitted: dice.below(4) != 0,
            timestamp: (dice.below(4) != 0).then_some((1_000, 0)),
            ..Options::default()
        };
        let mut s = Stream {
            sides,
            dice,
            now: Nanos::from_millis(1),
            ours: syn.src_port,
            acked: syn.seq.0.wrapping_add(1),
            sent: IRS,
            ts: 1_000,
            options,
            predicted: 0,
            segments: 0,
        };
        s.complete(false);
        let ece = if ecn { Flags::ECE } else { Flags(0) };
        let syn_ack = s.header(Flags::SYN.with(Flags::ACK).with(ece), 60_000);
        s.deliver(&syn_ack, 0);
        s.sent = IRS.wrapping_add(1);
        s.options = Options {
            timestamp: options.timestamp,
            ..Options::default()
        };
        s.poll();
        s
    }

    fn header(&mut self, flags: Flags, window: u16) -> Header {
        let mut options = self.options;
        if let Some(t) = &mut options.timestamp {
            *t = (self.ts, 1);
        }
        Header {
            src_port: 80,
            dst_port: self.ours,
            seq: SeqNum(self.sent),
            ack: SeqNum(self.acked),
            flags,
            window,
            options,
        }
    }

    /// Both sides receive a segment.
    fn deliver(&mut self, h: &Header, payload: usize) {
        let mut frame = vec![7; 14 + 20 + h.emitted_len() + payload];
        let ip = Ip {
            src: "10.0.0.2".parse().unwrap(),
            dst: "10.0.0.1".parse().unwrap(),
            protocol: ip::TCP,
            ecn: 0,
            ttl: 64,
        };
        let link = Interface::new(PEERS, ip.src, 24).ethernet(OURS, ethernet::IPV4);
        link.emit(&mut frame);
        ip::emit(&ip, 1, h.emitted_len() + payload, &mut frame[14..]);
        h.emit(&mut frame[34..]);
        let meta = RxMeta {
            arrival: Nanos(self.now.0 - u64::from(self.dice.below(20_000))),
            ip_checksum: Checksum::Ok,
            l4_checksum: Checksum::Ok,
            ..RxMeta::default()
        };
        let s = Incoming {
            header: h,
            payload: &frame[34 + h.emitted_len()..],
            ecn: 0,
            arrival: meta.arrival,
        };
        let side = &mut self.sides[0];
        let c = conn_at(&mut side.engine.slots, side.id.index).unwrap();
        self.predicted += usize::from(c.predicted(&s).is_some());
        self.segments += 1;
        for side in &mut self.sides {
            side.engine.on_frame(self.now, &frame, &meta);
        }
    }

    /// The oldest burst in the NIC has departed, or failed.
    fn complete(&mut self, fails: bool) {
        let spread = u64::from(self.dice.below(50_000));
        for side in &mut self.sides {
            let Some((token, ..)) = side.port.posted.pop_front() else {
                continue;
            };
            let done = TxCompletion {
                token,
                status: if fails { 9 } else { 0 },
                first_departure: Nanos(self.now.0 - spread),
                last_departure: Nanos(self.now.0 - spread / 3),
                wire_bytes: WireBytes(1_514),
                segments: 1,
                ..TxCompletion::default()
            };
            side.engine.on_tx_completion(self.now, &done);
        }
    }

    fn poll(&mut self) {
        for side in &mut self.sides {
            while let Some(Event::Ready(..)) = side.engine.next_event() {}
            side.engine.poll(self.now, &mut side.port);
        }
    }

    fn write(&mut self) {
        let bytes = vec![1; self.dice.below(100_000) as usize];
        for side in &mut self.sides {
            let _ = side.engine.write(side.id, CoreId(0), &bytes);
        }
    }

    /// An acknowledgement, mostly as predicted.
    fn acknowledge(&mut self) {
        let side = &mut self.sides[0];
        let Some(c) = conn_at(&mut side.engine.slots, side.id.index) else {
            return;
        };
        let nxt = c.tx_wire(c.tx.nxt).0;
        let odd = self.dice.below(8) == 0;
        let most = nxt.wrapping_sub(self.acked);
        if most == 0 && self.dice.below(8) != 0 {
            return;
        }
        let step = match self.dice.below(4) {
            0 => most,
            1 => self.dice.below(most + 1),
            _ => (self.dice.below(6) * MSS).min(most),
        };
        let before = self.acked;
        self.acked = self.acked.wrapping_add(step);
        self.ts += self.dice.below(2);
        let window = 500 + self.dice.below(5_000) as u16;
        let mut h = self.header(Flags::ACK, window);
        let mut payload = 0;
        if odd {
            match self.dice.below(10) {
                0 => h.flags = h.flags.with(Flags::PSH),
                1 => h.flags = h.flags.with(Flags::ECE),
                2 => payload = 1 + self.dice.below(1_448) as usize,
                3 => h.seq = h.seq - 1,
                4 => h.seq += 3_000,
                5 => h.ack = SeqNum(before) - self.dice.below(5_000),
                6 => h.ack = SeqNum(nxt) + 1,
                7 => h.window = 0,
                8 => {
                    if let Some(t) = &mut h.options.timestamp {
                        t.0 = t.0.wrapping_sub(1 + self.dice.below(3));
                    }
                }
                _ => {
                    // Behind a gap of at most two segments.
                    let from = SeqNum(self.acked) + MSS * self.dice.below(3);
                    h.options.sack[0] = (from, from + MSS * (1 + self.dice.below(9)));
                    h.options.sack_count = 1;
                }
            }
        }
        self.deliver(&h, payload);
        self.sent = self.sent.wrapping_add(payload as u32);
    }

    fn step(&mut self) {
        match self.dice.below(16) {
            0..=6 => self.acknowledge(),
            7..=9 => self.complete(false),
            10 => {
                let fails = self.dice.below(20) == 0;
                self.complete(fails);
            }
            11 | 12 => {
                self.write();
                self.poll();
            }
            13 => self.now += Nanos(u64::from(self.dice.below(2_000_000))),
            14 if self.dice.below(20) == 0 => self.now += Nanos::from_millis(300),
            _ => {
                self.now += Nanos(u64::from(self.dice.below(100_000)));
                self.poll();
            }
        }
    }
}

#[test]
fn a_predicted_acknowledgement_leaves_the_state_of_an_unpredicted_one() {
    let (mut predicted, mut segments) = (0, 0);
    for seed in 0..120 {
        let mut s = Stream::new(seed);
        for n in 0..160 {
            s.step();
            let [a, b] = [s.sides[0].state(), s.sides[1].state()];
            for (a, b) in a.iter().zip(&b) {
                let differ = a.bytes().zip(b.bytes()).position(|(a, b)| a != b);
                if let Some(at) = differ.or((a.len() != b.len()).then_some(0)) {
                    let near = |s: &str| s[at.saturating_sub(60)..].chars().take(160).collect();
                    let [a, b]: [String; 2] = [near(a), near(b)];
                    panic!("seed {seed}, step {n}:\n{a}\nwithout prediction:\n{b}");
                }
            }
        }
        predicted += s.predicted;
        segments += s.segments;
    }
    // Both paths were taken, often.
    assert!(3 * predicted > segments, "{predicted} of {segments}");
    assert!(
        5 * (segments - predicted) > segments,
        "{predicted} of {segments}"
    );
}
