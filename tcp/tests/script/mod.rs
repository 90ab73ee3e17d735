// SPDX-License-Identifier: MIT OR Apache-2.0
//! One engine against a peer that the test writes by hand, segment by segment.
#![allow(dead_code)]

use super::common::{Nic, SharedPool};
use std::net::SocketAddr;
use tsonic_tcp::wire::ethernet::{self, Ethernet};
use tsonic_tcp::wire::ip::{self, Ip};
use tsonic_tcp::wire::tcp::{Flags, Header, Options};
use tsonic_tcp::wire::{arp::Arp, checksum};
use tsonic_tcp::*;
use tsonic_types::{Nanos, SeqNum, TenantId};

pub const OURS: [u8; 4] = [10, 0, 0, 1];
pub const PEER: [u8; 4] = [10, 0, 0, 2];
pub const PEER_ISN: u32 = 0xffff_f000;

/// A segment that the engine sent.
#[derive(Clone, Debug)]
pub struct Out {
    pub header: Header,
    pub payload: Vec<u8>,
    pub at: Nanos,
    pub ecn: u8,
}

pub struct Script {
    pub engine: Engine<SharedPool>,
    pub nic: Nic,
    pub pool: SharedPool,
    pub now: Nanos,
    /// Everything sent and not taken by a test yet.
    pub sent: Vec<Out>,
    pub arp_requests: usize,
    pub local_port: u16,
    pub peer_port: u16,
    /// The engine's initial sequence number.
    pub isn: u32,
    pub ts: bool,
    pub tsval: u32,
    pub tsecr: u32,
    pub answer_arp: bool,
}

impl Script {
    pub fn new() -> Script {
        let interface = Interface::new(Mac([2, 0, 0, 0, 0, 1]), OURS.into(), 24);
        let pool = SharedPool::new(256);
        let mut nic = Nic::new(pool.clone(), 1_250_000_000);
        nic.paces = false;
        Script {
            engine: Engine::new(Config::new(interface), pool.clone()),
            nic,
            pool,
            now: Nanos(1_000_000_000),
            sent: Vec::new(),
            arp_requests: 0,
            local_port: 80,
            peer_port: 5000,
            isn: 0,
            ts: true,
            tsval: 1000,
            tsecr: 0,
            answer_arp: true,
        }
    }

    pub fn tune(&mut self, name: &str, value: &str) {
        self.engine
            .tunables_mut(TenantId(0))
            .unwrap()
            .set(name, value)
            .unwrap();
    }

    fn frame(&mut self, ethertype: u16, body: &[u8]) {
        let eth = Ethernet {
            dst: Mac([2, 0, 0, 0, 0, 1]),
            src: Mac([2, 0, 0, 0, 0, 2]),
            vlan: None,
            ethertype,
        };
        let mut f = vec![0; 14];
        eth.emit(&mut f);
        f.extend_from_slice(body);
        self.engine.on_frame(self.now, &f, &RxMeta::default());
    }

    /// A segment from the peer; sequence numbers as they stand on the wire.
    pub fn raw(&mut self, seq: u32, ack: u32, flags: Flags, window: u16, o: Options, data: &[u8]) {
        let h = Header {
            src_port: self.peer_port,
            dst_port: self.local_port,
            seq: SeqNum(seq),
            ack: SeqNum(ack),
            flags,
            window,
            options: o,
        };
        let mut tcp = vec![0; h.emitted_len()];
        h.emit(&mut tcp);
        tcp.extend_from_slice(data);
        let c = checksum::l4(PEER.into(), OURS.into(), 6, &tcp);
        tcp[16..18].copy_from_slice(&c.to_be_bytes());
        let i = Ip {
            src: PEER.into(),
            dst: OURS.into(),
            protocol: ip::TCP,
            ecn: 0,
            ttl: 64,
        };
        let mut b = vec![0; 20];
        ip::emit(&i, 1, tcp.len(), &mut b);
        b.extend(tcp);
        self.frame(ethernet::IPV4, &b);
    }

    /// A segment from the peer: sequence numbers relative to the SYNs, options of
    /// an established connection.
    pub fn peer(&mut self, seq: u32, ack: u32, flags: Flags, window: u16, data: &[u8]) {
        self.peer_with(seq, ack, flags, window, &[], data);
    }

    pub fn peer_with(
        &mut self,
        seq: u32,
        ack: u32,
        flags: Flags,
        window: u16,
        sack: &[(u32, u32)],
        data: &[u8],
    ) {
        let mut o = Options::default();
        if self.ts {
            o.timestamp = Some((self.tsval, self.tsecr));
        }
        for (l, r) in sack {
            o.sack[o.sack_count] = (
                SeqNum(self.isn.wrapping_add(*l)),
                SeqNum(self.isn.wrapping_add(*r)),
            );
            o.sack_count += 1;
        }
        let (s, a) = (PEER_ISN.wrapping_add(seq), self.isn.wrapping_add(ack));
        self.raw(s, a, flags, window, o, data);
    }

    /// Polls, and lets everything depart and complete at once.
    pub fn poll(&mut self) {
        loop {
            self.nic.now = self.now;
            self.engine.poll(self.now, &mut self.nic);
            let mut any = false;
            while let Some(t) = self.nic.next() {
                self.nic.run(t);
            }
            while let Some((_, c)) = self.nic.completions.pop_front() {
                // The scripts reckon with departures at once.
                let c = TxCompletion {
                    first_departure: self.now,
                    last_departure: self.now,
                    ..c
                };
                self.engine.on_tx_completion(self.now, &c);
                any = true;
            }
            while let Some((_, f)) = self.nic.departed.pop_front() {
                self.take(&f);
                any = true;
            }
            if !any {
                break;
            }
        }
    }

    fn take(&mut self, f: &[u8]) {
        let (eth, rest) = Ethernet::parse(f).unwrap();
        if eth.ethertype == ethernet::ARP {
            let a = Arp::parse(rest).unwrap();
            if !a.reply {
                self.arp_requests += 1;
                if self.answer_arp {
                    let reply = Arp {
                        reply: true,
                        sender: (Mac([2, 0, 0, 0, 0, 2]), PEER.into()),
                        target: a.sender,
                    };
                    let mut b = vec![0; 28];
                    reply.emit(&mut b);
                    self.frame(ethernet::ARP, &b);
                }
            }
            return;
        }
        let (i, packet) = ip::parse_v4(rest, true).unwrap();
        assert!(checksum::l4_ok(i.src, i.dst, 6, packet));
        let (header, payload) = Header::parse(packet).unwrap();
        if let Some((v, _)) = header.options.timestamp {
            self.tsecr = v;
        }
        self.sent.push(Out {
            header,
            payload: payload.to_vec(),
            at: self.now,
            ecn: i.ecn,
        });
    }

    /// Time passes; timers run when they are due.
    pub fn pass(&mut self, by: Nanos) {
        let end = self.now + by;
        self.poll();
        while let Some(t) = self.engine.next_timer().filter(|t| *t <= end) {
            self.now = self.now.max(t);
            self.poll();
        }
        self.now = end;
        self.tsval += by.as_millis() as u32;
    }

    pub fn pass_ms(&mut self, ms: u64) {
        self.pass(Nanos::from_millis(ms));
    }

    /// What was sent since the last call.
    pub fn take_sent(&mut self) -> Vec<Out> {
        self.poll();
        std::mem::take(&mut self.sent)
    }

    /// The one segment sent since the last call.
    pub fn one(&mut self) -> Out {
        let mut v = self.take_sent();
        assert_eq!(v.len(), 1, "{v:#?}");
        v.remove(0)
    }

    pub fn none(&mut self) {
        let v = self.take_sent();
        assert!(v.is_empty(), "{v:#?}");
    }

    /// Relative sequence number and acknowledgement of a segment.
    pub fn rel(&self, o: &Out) -> (u32, u32) {
        (
            o.header.seq.0.wrapping_sub(self.isn),
            o.header.ack.0.wrapping_sub(PEER_ISN),
        )
    }

    pub fn syn_options(&self) -> Options {
        Options {
            mss: Some(1460),
            window_scale: Some(0),
            sack_permitted: true,
            timestamp: self.ts.then_some((self.tsval, 0)),
            ..Options::default()
        }
    }

    /// A connection that the peer opened, established.
    pub fn passive(&mut self) -> ConnId {
        let o = self.syn_options();
        self.passive_with(o, 65_535)
    }

    pub fn passive_with(&mut self, o: Options, window: u16) -> ConnId {
        let l = self
            .engine
            .listen(TenantId(0), SocketAddr::from((OURS, 80)), 4)
            .unwrap();
        self.raw(PEER_ISN, 0, Flags::SYN, window, o, &[]);
        let s = self.one();
        assert!(s.header.flags.has(Flags::SYN) && s.header.flags.has(Flags::ACK));
        assert_eq!(s.header.ack.0, PEER_ISN.wrapping_add(1));
        self.isn = s.header.seq.0;
        self.pass_ms(10);
        self.peer(1, 1, Flags::ACK, window, &[]);
        self.none();
        let c = self.engine.accept(l).unwrap();
        assert_eq!(self.engine.state(c), Some(State::Established));
        c
    }

    /// A connection that the engine opens; answers the SYN.
    pub fn active(&mut self) -> (ConnId, Out) {
        let c = self
            .engine
            .connect(
                self.now,
                TenantId(0),
                None,
                SocketAddr::from((PEER, self.peer_port)),
            )
            .unwrap();
        let syn = self.one();
        self.isn = syn.header.seq.0;
        self.local_port = syn.header.src_port;
        (c, syn)
    }
}
