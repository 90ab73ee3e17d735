// SPDX-License-Identifier: MIT OR Apache-2.0
//! The far end, the same for every stack: takes connections, counts what arrives, and
//! acknowledges. It sends no data, and answers after a round-trip time that is fixed.
//!
//! Connection i comes from port `NEAR_PORT + i % PORTS` to port `FAR_PORT + i / PORTS`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tsonic_sim::world::Peer;
use tsonic_types::{TickRate, Ticks};

/// Ethernet and IPv4 address of the sender, and of the far end.
pub(super) const NEAR: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 0, 1], [10, 0, 0, 1]);
pub(super) const FAR: ([u8; 6], [u8; 4]) = ([2, 0, 0, 0, 0, 2], [10, 0, 0, 2]);
/// Payload of a segment: no option is agreed on that a data segment carries.
pub(super) const MSS: usize = 1_460;
/// Most connections.
pub const CONNECTIONS_MAX: usize = 16 * PORTS;
/// Period of the data, prime to every power of two.
pub(super) const PERIOD: usize = 251;

const PORTS: usize = 50_000;
const NEAR_PORT: u16 = 10_000;
const FAR_PORT: u16 = 5_001;
/// From a segment to the acknowledgement that it causes.
const ROUND_TRIP_NS: u64 = 20_000;
/// Several segments are acknowledged after this, if no more follow.
const COALESCE_NS: u64 = 40_000;
/// And one alone after this.
const DELAY_NS: u64 = 10_000_000;
/// 65,535 << 10 bytes: never what holds a sender back.
const WINDOW_SCALE: u8 = 10;
const ETHERNET: usize = 14;
const IP: usize = 20;
const FIN: u8 = 1;
const SYN: u8 = 2;
const ACK: u8 = 16;

/// Ports of connection `i`: the sender's, and the far end's.
pub(super) fn ports(i: usize) -> (u16, u16) {
    let (column, row) = (i % PORTS, i / PORTS);
    (NEAR_PORT + column as u16, FAR_PORT + row as u16)
}

pub(super) fn index(near: u16, far: u16) -> Option<usize> {
    let column = near.checked_sub(NEAR_PORT)?;
    let row = far.checked_sub(FAR_PORT)?;
    (usize::from(column) < PORTS).then(|| usize::from(row) * PORTS + usize::from(column))
}

/// What has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Payload, in order.
    pub bytes: u64,
    /// Segments of data; one that a stack leaves to its device counts as many as its device
    /// makes of it.
    pub segments: u64,
    /// Acknowledgements of data sent.
    pub acks: u64,
    /// Segments that were not the next of their connection.
    pub misplaced: u64,
    /// Bytes that are not those of the pattern. Counted only by one who checks.
    pub wrong: u64,
    /// Connections that were made.
    pub connections: u64,
}

#[derive(Clone, Copy, Default)]
struct Connection {
    next: u32,
    /// Bytes so far.
    bytes: u64,
    /// Segments that are not acknowledged, and since when.
    pending: u32,
    since: u64,
}

pub(super) const CONNECTION_BYTES: usize = size_of::<Connection>();

/// How the far end behaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarConfig {
    pub connections: usize,
    /// Segments of a connection that it acknowledges at once.
    pub per_ack: u32,
    /// Whether it compares every byte.
    pub check: bool,
    pub clock: TickRate,
}

struct State {
    config: FarConfig,
    connections: Vec<Connection>,
    arrived: Arrived,
    /// Frames, and when they are due.
    out: VecDeque<(u64, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    /// Connections with segments to acknowledge, and since when: for each of the delays.
    coalesced: VecDeque<(u64, usize)>,
    delayed: VecDeque<(u64, usize)>,
    round_trip: u64,
    coalesce: u64,
    delay: u64,
}

/// The far end.
#[derive(Clone)]
pub(super) struct Far(Arc<Mutex<State>>);

impl Far {
    pub fn new(config: FarConfig) -> Far {
        let ticks = |ns: u64| ns * u64::from(config.clock.hz()) / 1_000_000_000;
        Far(Arc::new(Mutex::new(State {
            connections: vec![Connection::default(); config.connections],
            arrived: Arrived::default(),
            out: VecDeque::new(),
            spare: Vec::new(),
            coalesced: VecDeque::new(),
            delayed: VecDeque::new(),
            round_trip: ticks(ROUND_TRIP_NS),
            coalesce: ticks(COALESCE_NS),
            delay: ticks(DELAY_NS),
            config,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Counters and queues are whole at any time.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub fn arrived(&self) -> Arrived {
        self.state().arrived
    }
}

impl Peer for Far {
    fn receive(&mut self, now: Ticks, frame: &[u8]) {
        self.state().receive(now.0, frame);
    }

    fn next_event(&self) -> Option<Ticks> {
        let state = self.state();
        let out = state.out.front().map(|f| f.0);
        let coalesced = state.coalesced.front().map(|d| d.0 + state.coalesce);
        let delayed = state.delayed.front().map(|d| d.0 + state.delay);
        let all = out.into_iter().chain(coalesced).chain(delayed);
        all.min().map(Ticks)
    }

    fn poll(&mut self, now: Ticks, send: &mut dyn FnMut(&[u8])) {
        let state = &mut *self.state();
        let coalesce = state.coalesce;
        while let Some((since, i)) = (state.coalesced).pop_front_if(|d| d.0 + coalesce <= now.0) {
            state.overdue(since + coalesce, i, since, 2);
        }
        let delay = state.delay;
        while let Some((since, i)) = state.delayed.pop_front_if(|d| d.0 + delay <= now.0) {
            state.overdue(since + delay, i, since, 1);
        }
        while let Some((_, frame)) = state.out.pop_front_if(|f| f.0 <= now.0) {
            send(&frame);
            state.spare.push(frame);
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Duration) {}
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from(be16(bytes, at)?) << 16 | u32::from(be16(bytes, at + 2)?))
}

impl State {
    /// A frame; what is nothing for the far end is let go.
    fn receive(&mut self, now: u64, frame: &[u8]) -> Option<()> {
        match be16(frame, 12)? {
            0x0806 => self.arp(now, frame),
            0x0800 if *frame.get(ETHERNET + 9)? == 6 => self.tcp(now, frame.get(ETHERNET..)?),
            _ => None,
        }
    }

    fn arp(&mut self, now: u64, frame: &[u8]) -> Option<()> {
        let asked = frame.get(ETHERNET + 24..ETHERNET + 28)?;
        if be16(frame, ETHERNET + 6)? != 1 || asked != FAR.1 {
            return None;
        }
        let mut reply = self.spare.pop().unwrap_or_default();
        reply.clear();
        reply.extend_from_slice(&NEAR.0);
        reply.extend_from_slice(&FAR.0);
        reply.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
        reply.extend_from_slice(&FAR.0);
        reply.extend_from_slice(&FAR.1);
        reply.extend_from_slice(&NEAR.0);
        reply.extend_from_slice(&NEAR.1);
        self.out.push_back((now + self.round_trip, reply));
        Some(())
    }

    fn tcp(&mut self, now: u64, packet: &[u8]) -> Option<()> {
        // A stack that leaves the cutting to its device may hand over more than the
        // 16 bits of the length tell; only then does the frame's own length count.
        let all = usize::from(be16(packet, 2)?);
        let all = if packet.len() > 1_500 {
            packet.len()
        } else {
            all
        };
        let tcp = packet.get(IP..all)?;
        let i = index(be16(tcp, 0)?, be16(tcp, 2)?)?;
        let (seq, flags) = (be32(tcp, 4)?, *tcp.get(13)?);
        let payload = tcp.get(usize::from(*tcp.get(12)? >> 4) * 4..)?;
        let connection = self.connections.get_mut(i)?;
        if flags & SYN != 0 {
            *connection = Connection {
                next: seq.wrapping_add(1),
                ..Connection::default()
            };
            self.arrived.connections += 1;
            self.send(now, i, SYN | ACK);
            return Some(());
        }
        for (k, part) in payload.chunks(MSS).enumerate() {
            self.segment(now, i, seq.wrapping_add((k * MSS) as u32), part);
        }
        if flags & FIN != 0 {
            let connection = self.connections.get_mut(i)?;
            connection.next = connection.next.wrapping_add(1);
            self.acknowledge(now, i);
        }
        Some(())
    }

    fn segment(&mut self, now: u64, i: usize, seq: u32, payload: &[u8]) {
        let Some(c) = self.connections.get_mut(i) else {
            return;
        };
        self.arrived.segments += 1;
        if seq != c.next {
            self.arrived.misplaced += 1;
            self.acknowledge(now, i);
            return;
        }
        if self.config.check {
            let from = c.bytes;
            let right = |(k, b): (usize, &u8)| u64::from(*b) == (from + k as u64) % PERIOD as u64;
            let wrong = payload.iter().enumerate().filter(|x| !right(*x)).count();
            self.arrived.wrong += wrong as u64;
        }
        c.next = c.next.wrapping_add(payload.len() as u32);
        c.bytes += payload.len() as u64;
        c.pending += 1;
        self.arrived.bytes += payload.len() as u64;
        if c.pending == 1 {
            c.since = now;
        }
        let late = c.pending > 1 && now >= c.since + self.coalesce;
        if c.pending >= self.config.per_ack || late {
            self.acknowledge(now, i);
        } else if c.pending == 1 {
            self.coalesced.push_back((now, i));
            self.delayed.push_back((now, i));
        }
    }

    /// Acknowledges what has come since `since`, if it is still to be and at least `least`.
    fn overdue(&mut self, now: u64, i: usize, since: u64, least: u32) {
        let c = self.connections.get(i).copied().unwrap_or_default();
        if c.pending >= least && c.since == since {
            self.acknowledge(now, i);
        }
    }

    fn acknowledge(&mut self, now: u64, i: usize) {
        if let Some(c) = self.connections.get_mut(i) {
            c.pending = 0;
            self.arrived.acks += 1;
            self.send(now, i, ACK);
        }
    }

    fn send(&mut self, now: u64, i: usize, flags: u8) {
        let Some(c) = self.connections.get(i) else {
            return;
        };
        let options: &[u8] = match flags & SYN {
            0 => &[],
            _ => &[2, 4, (MSS >> 8) as u8, MSS as u8, 1, 3, 3, WINDOW_SCALE],
        };
        let (near, far) = ports(i);
        let mut f = self.spare.pop().unwrap_or_default();
        f.clear();
        f.extend_from_slice(&NEAR.0);
        f.extend_from_slice(&FAR.0);
        f.extend_from_slice(&[8, 0]);
        let bytes = (IP + 20 + options.len()) as u16;
        f.extend_from_slice(&[0x45, 0]);
        f.extend_from_slice(&bytes.to_be_bytes());
        f.extend_from_slice(&[0, 0, 0x40, 0, 64, 6, 0, 0]);
        f.extend_from_slice(&FAR.1);
        f.extend_from_slice(&NEAR.1);
        let sum = checksum(&f[ETHERNET..], 0);
        f[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&sum.to_be_bytes());
        let tcp = f.len();
        f.extend_from_slice(&far.to_be_bytes());
        f.extend_from_slice(&near.to_be_bytes());
        // The far end's numbers begin with 0; it sends a SYN and nothing else.
        let seq = u32::from(flags & SYN == 0);
        f.extend_from_slice(&seq.to_be_bytes());
        f.extend_from_slice(&c.next.to_be_bytes());
        f.extend_from_slice(&[((5 + options.len() / 4) << 4) as u8, flags]);
        f.extend_from_slice(&[0xff, 0xff, 0, 0, 0, 0]);
        f.extend_from_slice(options);
        let words = FAR.1.chunks(2).chain(NEAR.1.chunks(2));
        let pseudo: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = checksum(&f[tcp..], pseudo + 6 + u32::from(bytes) - IP as u32);
        f[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
        self.out.push_back((now + self.round_trip, f));
    }
}

/// Of an even number of bytes, over a sum so far.
fn checksum(bytes: &[u8], sum: u32) -> u16 {
    let words = bytes
        .chunks(2)
        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
    let mut sum = sum + words.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
