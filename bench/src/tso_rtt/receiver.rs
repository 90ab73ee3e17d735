// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving end of bulk flows: as much of TCP as a path without loss needs.
//!
//! It answers ARP, opens passively (mss, window scale, SACK permitted, timestamps, ECN),
//! takes data in order and acknowledges it. Marks are echoed as RFC 8257, 3.2 has it:
//! each acknowledgement says whether what it acknowledges was marked. What arrives out of
//! order is counted and acknowledged at once, and not kept. It has no closing, no data of its own, and
//! a window that never fills. It takes no time.

use super::frame::{Frame, Picos};
use std::collections::{HashMap, VecDeque};
use tsonic_tcp::Mac;
use tsonic_tcp::wire::arp::{self, Arp};
use tsonic_tcp::wire::checksum::{fold, l4, sum};
use tsonic_tcp::wire::ethernet::{self, Ethernet};
use tsonic_tcp::wire::ip::{self, Ip};
use tsonic_tcp::wire::tcp::{Flags, Header, Options};
use tsonic_types::SeqNum;

use core::net::{IpAddr, Ipv4Addr};
use serde::Serialize;

/// Its Ethernet address.
pub const MAC: Mac = Mac([2, 0, 0, 0, 0, 0xfe]);
/// Its address.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 254);
/// Its port.
pub const PORT: u16 = 5001;
/// Longest time that an acknowledgement is delayed, as Linux has it at least: 40 ms.
const DELAY: Picos = 40_000_000_000;
/// Shift of the window that it offers, 16 MiB.
const SCALE: u8 = 8;
const WINDOW: u16 = u16::MAX;

/// When data is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckPolicy {
    /// Every second segment (RFC 9293, 3.8.6.3).
    TwoSegments,
    /// A burst at once, as after receive aggregation, which a burst's last segment ends by PSH.
    Burst,
}

/// What it counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Segments with data.
    pub segments: u64,
    /// Payload bytes that came in order.
    pub bytes: u64,
    /// Segments marked CE.
    pub marked: u64,
    /// Acknowledgements sent.
    pub acks: u64,
    /// Segments that were not the next in order.
    pub out_of_order: u64,
    /// Frames that it could not read.
    pub unknown: u64,
}

/// A connection.
#[derive(Clone, Copy, Debug)]
struct Flow {
    mac: Mac,
    our_next: SeqNum,
    next: SeqNum,
    acked: SeqNum,
    /// Segments since the last acknowledgement.
    pending: u32,
    marked: bool,
    ecn: bool,
    timestamp: Option<u32>,
    /// Counts acknowledgements: a timer of an older one is void.
    round: u32,
}

type Key = (Ipv4Addr, u16);

/// See the module.
#[derive(Debug)]
pub struct Receiver {
    policy: AckPolicy,
    flows: HashMap<Key, Flow>,
    /// Delayed acknowledgements by deadline, which all have the same distance.
    delayed: VecDeque<(Picos, Key, u32)>,
    /// What it counted.
    pub received: Received,
}

/// What is known of a frame with TCP.
struct Segment {
    mac: Mac,
    from: Ipv4Addr,
    ce: bool,
    header: Header,
    payload: u32,
}

fn parse(head: &[u8]) -> Option<Segment> {
    let (ethernet, packet) = Ethernet::parse(head)?;
    let h: &[u8; 20] = packet.first_chunk()?;
    let ours = ethernet.ethertype == ethernet::IPV4 && h[0] == 0x45 && h[9] == ip::TCP;
    if !ours || fold(sum(0, h)) != 0xffff {
        return None;
    }
    let (header, kept) = Header::parse(&packet[20..])?;
    // The head ends somewhere in the payload.
    let header_bytes = packet.len() - kept.len();
    let total = usize::from(u16::from_be_bytes([h[2], h[3]]));
    Some(Segment {
        mac: ethernet.src,
        from: Ipv4Addr::new(h[12], h[13], h[14], h[15]),
        ce: h[1] & 3 == ip::CE,
        header,
        payload: total.checked_sub(header_bytes)? as u32,
    })
}

impl Receiver {
    /// Without connections.
    pub fn new(policy: AckPolicy) -> Receiver {
        Receiver {
            policy,
            flows: HashMap::new(),
            delayed: VecDeque::new(),
            received: Received::default(),
        }
    }

    /// When a delayed acknowledgement is due.
    pub fn next_timer(&mut self) -> Option<Picos> {
        while let Some((at, key, round)) = self.delayed.front() {
            let flow = self.flows.get(key);
            if flow.is_some_and(|f| f.round == *round && f.pending > 0) {
                return Some(*at);
            }
            self.delayed.pop_front();
        }
        None
    }

    /// Sends what was delayed until `now`. Frames go to `send` with the address of who is to
    /// get them.
    pub fn on_timer(&mut self, now: Picos, send: &mut impl FnMut(Ipv4Addr, Frame)) {
        while let Some(at) = self.next_timer().filter(|at| *at <= now) {
            if let Some((_, key, _)) = self.delayed.pop_front() {
                self.acknowledge(at, key, send);
            }
        }
    }

    /// A frame arrives. Answers as [`Receiver::on_timer`].
    pub fn on_frame(&mut self, frame: &Frame, send: &mut impl FnMut(Ipv4Addr, Frame)) {
        let head = frame.head();
        let Some(s) = parse(head) else {
            match answer_arp(head, frame.at) {
                Some((to, answer)) => send(to, answer),
                None => self.received.unknown += 1,
            }
            return;
        };
        let key = (s.from, s.header.src_port);
        if s.header.flags.has(Flags::SYN) {
            self.open(frame.at, key, &s, send);
            return;
        }
        let Some(f) = self.flows.get_mut(&key) else {
            self.received.unknown += 1;
            return;
        };
        if s.payload == 0 {
            return;
        }
        self.received.segments += 1;
        self.received.marked += u64::from(s.ce);
        if s.header.seq != f.next {
            self.received.out_of_order += 1;
            self.acknowledge(frame.at, key, send);
            return;
        }
        if s.ce != f.marked {
            // What came before was not as this is.
            if f.pending > 0 {
                self.acknowledge(frame.at, key, send);
            }
            if let Some(f) = self.flows.get_mut(&key) {
                f.marked = s.ce;
            }
        }
        let Some(f) = self.flows.get_mut(&key) else {
            return;
        };
        self.received.bytes += u64::from(s.payload);
        if f.next == f.acked {
            // RFC 7323, 4.3: the first of those that one acknowledgement is for.
            f.timestamp = s.header.options.timestamp.map(|t| t.0);
        }
        f.next += s.payload;
        f.pending += 1;
        let now = match self.policy {
            AckPolicy::TwoSegments => f.pending >= 2,
            AckPolicy::Burst => s.header.flags.has(Flags::PSH),
        };
        if now {
            self.acknowledge(frame.at, key, send);
        } else if f.pending == 1 {
            self.delayed.push_back((frame.at + DELAY, key, f.round));
        }
    }

    fn open(&mut self, at: Picos, key: Key, s: &Segment, send: &mut impl FnMut(Ipv4Addr, Frame)) {
        let h = &s.header;
        let ecn = h.flags.has(Flags::ECE) && h.flags.has(Flags::CWR);
        let timestamp = h.options.timestamp.map(|t| t.0);
        // Any will do where nobody attacks.
        let ours = SeqNum(u32::from(h.src_port) << 16);
        let next = h.seq + 1;
        let flow = Flow {
            mac: s.mac,
            our_next: ours + 1,
            next,
            acked: next,
            pending: 0,
            marked: false,
            ecn,
            timestamp,
            round: 0,
        };
        self.flows.insert(key, flow);
        let header = Header {
            src_port: PORT,
            dst_port: key.1,
            seq: ours,
            ack: next,
            flags: Flags::SYN.with(Flags::ACK).with_if(ecn, Flags::ECE),
            window: WINDOW,
            options: Options {
                // What the sender can send, we can receive.
                mss: h.options.mss,
                window_scale: h.options.window_scale.map(|_| SCALE),
                sack_permitted: h.options.sack_permitted,
                timestamp: timestamp.map(|t| (milliseconds(at), t)),
                ..Options::default()
            },
        };
        send(key.0, tcp_frame(at, s.mac, key.0, &header));
    }

    fn acknowledge(&mut self, at: Picos, key: Key, send: &mut impl FnMut(Ipv4Addr, Frame)) {
        let Some(f) = self.flows.get_mut(&key) else {
            return;
        };
        let header = Header {
            src_port: PORT,
            dst_port: key.1,
            seq: f.our_next,
            ack: f.next,
            flags: Flags::ACK.with_if(f.ecn && f.marked, Flags::ECE),
            window: WINDOW,
            options: Options {
                timestamp: f.timestamp.map(|t| (milliseconds(at), t)),
                ..Options::default()
            },
        };
        f.acked = f.next;
        f.pending = 0;
        f.round = f.round.wrapping_add(1);
        self.received.acks += 1;
        send(key.0, tcp_frame(at, f.mac, key.0, &header));
    }
}

fn milliseconds(at: Picos) -> u32 {
    (at / 1_000_000_000) as u32
}

fn tcp_frame(at: Picos, mac: Mac, to: Ipv4Addr, header: &Header) -> Frame {
    let mut b = [0; 96];
    let ethernet = Ethernet {
        dst: mac,
        src: MAC,
        vlan: None,
        ethertype: ethernet::IPV4,
    };
    let (src, dst) = (IpAddr::V4(ADDRESS), IpAddr::V4(to));
    let l2 = ethernet.emit(&mut b);
    let packet = Ip {
        src,
        dst,
        protocol: ip::TCP,
        ecn: ip::NOT_ECT,
        ttl: 64,
    };
    let start = l2 + ip::emit(&packet, 0, header.emitted_len(), &mut b[l2..]);
    let end = start + header.emit(&mut b[start..]);
    let checksum = l4(src, dst, ip::TCP, &b[start..end]);
    b[start + 16..start + 18].copy_from_slice(&checksum.to_be_bytes());
    Frame::new(at, &b[..end])
}

/// The answer to a question for our Ethernet address.
fn answer_arp(head: &[u8], at: Picos) -> Option<(Ipv4Addr, Frame)> {
    let (ethernet, packet) = Ethernet::parse(head)?;
    let question =
        Arp::parse(packet).filter(|a| ethernet.ethertype == ethernet::ARP && !a.reply)?;
    if question.target.1 != ADDRESS {
        return None;
    }
    let mut b = [0; 60];
    let l2 = Ethernet {
        dst: question.sender.0,
        src: MAC,
        vlan: None,
        ethertype: ethernet::ARP,
    }
    .emit(&mut b);
    let answer = Arp {
        reply: true,
        sender: (MAC, ADDRESS),
        target: question.sender,
    };
    answer.emit(&mut b[l2..l2 + arp::LEN]);
    Some((question.sender.1, Frame::new(at, &b)))
}
