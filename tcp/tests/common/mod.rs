// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two engines back to back in virtual time: each with a small NIC (segmentation
//! in software, per-flow pacing, one wire), a link between them that loses,
//! duplicates and delays by a seeded generator.
#![allow(dead_code)]

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use tsonic_tcp::port::FRAGMENTS_MAX;
use tsonic_tcp::wire::checksum;
use tsonic_tcp::*;
use tsonic_types::{CoreId, FlowSlot, Nanos, QueueId, TenantId, WireBytes};

/// A pool that engine and NIC share.
#[derive(Clone)]
pub struct SharedPool(pub Rc<RefCell<HeapPool>>);

impl SharedPool {
    pub fn new(chunks: u32) -> SharedPool {
        SharedPool(Rc::new(RefCell::new(HeapPool::new(32_768, chunks))))
    }
}

impl ChunkPool for SharedPool {
    fn chunk_bytes(&self) -> usize {
        self.0.borrow().chunk_bytes()
    }
    fn allocate(&mut self) -> Option<ChunkId> {
        self.0.borrow_mut().allocate()
    }
    fn write(&mut self, chunk: ChunkId, offset: u32, bytes: &[u8]) {
        self.0.borrow_mut().write(chunk, offset, bytes);
    }
    fn read(&self, range: ChunkRef, out: &mut [u8]) {
        self.0.borrow().read(range, out);
    }
    fn retain(&mut self, chunk: ChunkId) {
        self.0.borrow_mut().retain(chunk);
    }
    fn release(&mut self, chunk: ChunkId) {
        self.0.borrow_mut().release(chunk);
    }
    fn available(&self) -> usize {
        self.0.borrow().available()
    }
}

struct Segment {
    frame: Vec<u8>,
    token: u64,
    queue: QueueId,
    flow: FlowSlot,
    rate: Option<u64>,
    first: bool,
    last: bool,
}

/// A NIC.
pub struct Nic {
    pool: SharedPool,
    pub now: Nanos,
    pub ring: usize,
    pub queues: u16,
    pub paces: bool,
    pub gso_max: u32,
    /// Bytes a second of the wire.
    pub line: u64,
    pub flow_slots: u16,
    /// Fails every burst whose number (from 1) this divides.
    pub fail_every: Option<u64>,
    /// Limit of every queue's byte budget as it is reported.
    pub bql: Option<u64>,
    flows: Vec<VecDeque<Segment>>,
    flow_due: Vec<Nanos>,
    free_flows: Vec<u16>,
    in_ring: HashMap<u16, usize>,
    wire_free: Nanos,
    round: usize,
    partial: HashMap<u64, TxCompletion>,
    pub completions: VecDeque<(Nanos, TxCompletion)>,
    pub departed: VecDeque<(Nanos, Vec<u8>)>,
    pub posts: u64,
    pub doorbells: u64,
    rung: bool,
    pub queues_used: Vec<u64>,
}

impl Nic {
    pub fn new(pool: SharedPool, line: u64) -> Nic {
        let slots = 64;
        Nic {
            pool,
            now: Nanos(0),
            ring: 256,
            queues: 4,
            paces: true,
            gso_max: 65_536,
            line,
            flow_slots: slots,
            fail_every: None,
            bql: Some(100_000),
            flows: (0..slots).map(|_| VecDeque::new()).collect(),
            flow_due: vec![Nanos(0); slots as usize],
            free_flows: (1..slots).rev().collect(),
            in_ring: HashMap::new(),
            wire_free: Nanos(0),
            round: 0,
            partial: HashMap::new(),
            completions: VecDeque::new(),
            departed: VecDeque::new(),
            posts: 0,
            doorbells: 0,
            rung: false,
            queues_used: vec![0; 64],
        }
    }

    /// When the next segment can leave.
    pub fn next(&self) -> Option<Nanos> {
        let due = (0..self.flows.len())
            .filter(|f| !self.flows[*f].is_empty())
            .map(|f| self.flow_due[f])
            .min()?;
        Some(due.max(self.wire_free))
    }

    /// Takes back everything that has not left, as a reset of all queues does: the
    /// completions of those bursts, but of frames that nobody waits for.
    pub fn recall(&mut self) -> Vec<TxCompletion> {
        let mut back = Vec::new();
        for s in self.flows.iter_mut().flat_map(|f| f.drain(..)) {
            if !s.last {
                continue;
            }
            *self.in_ring.entry(s.queue.0).or_default() -= 1;
            let gone = TxCompletion {
                token: s.token,
                queue: s.queue,
                flow: s.flow,
                ..TxCompletion::default()
            };
            let c = self.partial.remove(&s.token).unwrap_or(gone);
            // QUEUE_RESET
            back.push(TxCompletion { status: 12, ..c });
        }
        back.retain(|c| c.token != u64::MAX);
        back
    }

    /// Lets leave what is due at `now`.
    pub fn run(&mut self, now: Nanos) {
        while self.next().is_some_and(|t| t <= now) {
            let n = self.flows.len();
            let t = self.next().unwrap();
            let f = (0..n)
                .map(|i| (self.round + 1 + i) % n)
                .find(|f| !self.flows[*f].is_empty() && self.flow_due[*f] <= t)
                .unwrap();
            self.round = f;
            let s = self.flows[f].pop_front().unwrap();
            let bytes = s.frame.len() as u64;
            let end = t + Nanos((bytes.max(60) + 24) * 1_000_000_000 / self.line);
            self.wire_free = end;
            if let Some(rate) = s.rate {
                self.flow_due[f] = t + Nanos(bytes * 1_000_000_000 / rate);
            }
            let c = self.partial.entry(s.token).or_insert_with(|| TxCompletion {
                token: s.token,
                queue: s.queue,
                flow: s.flow,
                first_departure: end,
                ..TxCompletion::default()
            });
            c.last_departure = end;
            c.segments += 1;
            c.wire_bytes = WireBytes(c.wire_bytes.0 + bytes);
            if s.last {
                let c = self.partial.remove(&s.token).unwrap();
                *self.in_ring.entry(s.queue.0).or_default() -= 1;
                self.completions.push_back((end, c));
            }
            self.departed.push_back((end, s.frame));
        }
    }
}

/// The frames of a burst.
pub fn segment(b: &Burst<'_>, pool: &HeapPool) -> Vec<Vec<u8>> {
    let mut payload = Vec::new();
    for f in b.fragments {
        payload.extend_from_slice(pool.bytes(*f));
    }
    assert_eq!(payload.len(), b.payload_len as usize);
    assert!(b.fragments.len() <= FRAGMENTS_MAX);
    let (l2, l3, l4) = (b.l2_len as usize, b.l3_len as usize, b.l4_len as usize);
    assert_eq!(b.header.len(), l2 + l3 + l4);
    if b.kind == BurstKind::Raw {
        let mut f = b.header.to_vec();
        f.extend(payload);
        return vec![f];
    }
    let mss = if b.kind == BurstKind::Tso {
        b.mss as usize
    } else {
        payload.len().max(1)
    };
    let n = payload.len().div_ceil(mss).max(1);
    let mut out = Vec::new();
    for i in 0..n {
        let part = &payload[i * mss..((i + 1) * mss).min(payload.len())];
        let mut f = b.header.to_vec();
        let ip = &mut f[l2..l2 + l3];
        let (src, dst): (IpAddr, IpAddr);
        if b.ipv6 {
            ip[4..6].copy_from_slice(&((l4 + part.len()) as u16).to_be_bytes());
            let a = |r: std::ops::Range<usize>| -> [u8; 16] { ip[r].try_into().unwrap() };
            src = IpAddr::from(a(8..24));
            dst = IpAddr::from(a(24..40));
        } else {
            ip[2..4].copy_from_slice(&((l3 + l4 + part.len()) as u16).to_be_bytes());
            let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(i as u16);
            ip[4..6].copy_from_slice(&id.to_be_bytes());
            ip[10..12].fill(0);
            let c = !checksum::fold(checksum::sum(0, ip));
            ip[10..12].copy_from_slice(&c.to_be_bytes());
            let a = |r: std::ops::Range<usize>| -> [u8; 4] { ip[r].try_into().unwrap() };
            src = IpAddr::from(a(12..16));
            dst = IpAddr::from(a(16..20));
        }
        let tcp = &mut f[l2 + l3..];
        let seq = u32::from_be_bytes(tcp[4..8].try_into().unwrap()).wrapping_add((i * mss) as u32);
        tcp[4..8].copy_from_slice(&seq.to_be_bytes());
        if i + 1 < n {
            tcp[13] &= !0x09;
        }
        if i > 0 {
            tcp[13] &= !0x80;
        }
        f.extend_from_slice(part);
        f[l2 + l3 + 16..l2 + l3 + 18].fill(0);
        let c = checksum::l4(src, dst, 6, &f[l2 + l3..]);
        f[l2 + l3 + 16..l2 + l3 + 18].copy_from_slice(&c.to_be_bytes());
        out.push(f);
    }
    out
}

impl TxPort for Nic {
    fn limits(&self) -> TxLimits {
        TxLimits {
            gso_max: self.gso_max,
            gso_max_segs: 65_535,
            max_segment: 16_000,
            fragments: 17,
            queues: self.queues,
            paces: self.paces,
            tso: true,
        }
    }
    fn queue_state(&self, queue: QueueId) -> QueueState {
        let used = self.in_ring.get(&queue.0).copied().unwrap_or(0);
        QueueState {
            free: self.ring - used,
            bql: self.bql.map(|limit| (WireBytes(limit), WireBytes(0))),
        }
    }
    fn allocate_flow(&mut self) -> Option<FlowSlot> {
        self.free_flows.pop().map(FlowSlot)
    }
    fn free_flow(&mut self, flow: FlowSlot) {
        self.free_flows.push(flow.0);
    }
    fn post(&mut self, b: &Burst<'_>) -> Result<(), PostError> {
        let used = self.in_ring.entry(b.queue.0).or_default();
        if *used >= self.ring {
            return Err(PostError::Backpressure(b.queue));
        }
        *used += 1;
        self.posts += 1;
        self.rung = true;
        self.queues_used[b.queue.index()] += 1;
        if self
            .fail_every
            .is_some_and(|n| self.posts.is_multiple_of(n))
        {
            *self.in_ring.entry(b.queue.0).or_default() -= 1;
            let c = TxCompletion {
                token: b.token,
                queue: b.queue,
                flow: b.flow,
                status: 9,
                first_departure: self.now,
                last_departure: self.now,
                ..TxCompletion::default()
            };
            self.completions.push_back((self.now, c));
            return Ok(());
        }
        let frames = segment(b, &self.pool.0.borrow());
        let n = frames.len();
        let f = b.flow.index();
        if self.flows[f].is_empty() {
            self.flow_due[f] = self.flow_due[f].max(self.now);
        }
        // Tokens of untracked bursts are all alike: keep them apart here.
        for (i, frame) in frames.into_iter().enumerate() {
            self.flows[f].push_back(Segment {
                frame,
                token: b.token,
                queue: b.queue,
                flow: b.flow,
                rate: b.rate.map(|r| r.0),
                first: i == 0,
                last: i + 1 == n,
            });
        }
        Ok(())
    }
    fn flush(&mut self) {
        self.doorbells += u64::from(std::mem::take(&mut self.rung));
    }
}

/// What the link does to a frame.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    pub delay: Nanos,
    pub loss: f64,
    pub duplicate: f64,
    pub late: f64,
    pub late_by: Nanos,
    /// Marks ECN-capable packets with congestion experienced.
    pub mark: f64,
}

impl Link {
    pub fn clean(delay_us: u64) -> Link {
        Link {
            delay: Nanos::from_micros(delay_us),
            loss: 0.0,
            duplicate: 0.0,
            late: 0.0,
            late_by: Nanos(0),
            mark: 0.0,
        }
    }
}

pub struct Host {
    pub engine: Engine<SharedPool>,
    pub nic: Nic,
    pub pool: SharedPool,
    pub dropped_payload: u64,
    pub dropped_frames: u64,
    pub frames: u64,
}

impl Host {
    pub fn new(n: u8, ipv6: bool, seed: u64, line: u64) -> Host {
        Host::with_pool(n, ipv6, seed, line, SharedPool::new(1024))
    }
    pub fn with_pool(n: u8, ipv6: bool, seed: u64, line: u64, pool: SharedPool) -> Host {
        let ip: IpAddr = if ipv6 {
            format!("fd00::{n}").parse().unwrap()
        } else {
            IpAddr::from([10, 0, 0, n])
        };
        let interface = Interface::new(Mac([2, 0, 0, 0, 0, n]), ip, if ipv6 { 64 } else { 24 });
        let mut config = Config::new(interface);
        config.seed = seed * 1000 + u64::from(n);
        Host {
            engine: Engine::new(config, pool.clone()),
            nic: Nic::new(pool.clone(), line),
            pool,
            dropped_payload: 0,
            dropped_frames: 0,
            frames: 0,
        }
    }
    pub fn ip(&self) -> IpAddr {
        self.engine.config().interface.addresses[0].0
    }
}

/// Time, sending host, frame; `false` drops it.
pub type Filter = Box<dyn FnMut(Nanos, usize, &[u8]) -> bool>;

pub struct World {
    pub now: Nanos,
    pub hosts: [Host; 2],
    pub link: Link,
    pub rng: Pcg64Mcg,
    frames: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    bodies: HashMap<u64, Vec<u8>>,
    serial: u64,
    /// Time from a departure to its completion being reaped.
    pub completion_delay: Nanos,
    /// Sees every frame that leaves; `false` drops it.
    pub filter: Option<Filter>,
    /// Frames that the link drops only while this many payload bytes are out.
    pub trace: bool,
    /// Called with `true` before the engine takes something in, `false` after.
    pub watch: Option<fn(bool)>,
}

/// Bytes of TCP payload in a frame without VLAN tag.
pub fn tcp_payload(frame: &[u8]) -> u64 {
    let (l3, total) = match frame[12..14] {
        [0x08, 0x00] if frame[23] == 6 => (
            20,
            usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20,
        ),
        [0x86, 0xdd] if frame[20] == 6 => {
            (40, usize::from(u16::from_be_bytes([frame[18], frame[19]])))
        }
        _ => return 0,
    };
    let header = usize::from(frame[14 + l3 + 12] >> 4) * 4;
    (total - header) as u64
}

impl World {
    pub fn new(seed: u64, link: Link) -> World {
        World::with(seed, link, false, 125_000_000)
    }

    pub fn with(seed: u64, link: Link, ipv6: bool, line: u64) -> World {
        World {
            now: Nanos(1_000_000),
            hosts: [
                Host::new(1, ipv6, seed, line),
                Host::new(2, ipv6, seed, line),
            ],
            link,
            rng: Pcg64Mcg::seed_from_u64(seed),
            frames: BinaryHeap::new(),
            bodies: HashMap::new(),
            serial: 0,
            completion_delay: Nanos(2_000),
            filter: None,
            trace: false,
            watch: None,
        }
    }

    fn put(&mut self, at: Nanos, to: usize, frame: Vec<u8>) {
        self.serial += 1;
        self.frames.push(Reverse((at, self.serial, to)));
        self.bodies.insert(self.serial, frame);
    }

    fn carry(&mut self, from: usize, left: Nanos, mut frame: Vec<u8>) {
        self.hosts[from].frames += 1;
        let keep = match &mut self.filter {
            Some(f) => f(left, from, &frame),
            None => true,
        };
        let l = self.link;
        if !keep || self.rng.random_bool(l.loss) {
            self.hosts[from].dropped_frames += 1;
            self.hosts[from].dropped_payload += tcp_payload(&frame);
            return;
        }
        if l.mark > 0.0
            && frame[12..14] == [8, 0]
            && frame[15] & 3 != 0
            && self.rng.random_bool(l.mark)
        {
            frame[15] |= 3;
            frame[24..26].fill(0);
            let c = !checksum::fold(checksum::sum(0, &frame[14..34]));
            frame[24..26].copy_from_slice(&c.to_be_bytes());
        }
        let mut at = left + l.delay;
        if self.rng.random_bool(l.late) {
            at += Nanos(self.rng.random_range(0..=l.late_by.0));
        }
        if self.rng.random_bool(l.duplicate) {
            self.put(at, 1 - from, frame.clone());
        }
        self.put(at, 1 - from, frame);
    }

    /// Next time that anything happens, besides the application.
    pub fn next(&self) -> Option<Nanos> {
        let mut t: Option<Nanos> = self.frames.peek().map(|f| f.0.0);
        for h in &self.hosts {
            for c in [
                h.nic.next(),
                h.nic
                    .completions
                    .front()
                    .map(|c| c.0 + self.completion_delay),
                h.engine.next_timer(),
            ] {
                t = match (t, c) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        t
    }

    /// Advances to the next happening; `false` when there is none.
    pub fn step(&mut self) -> bool {
        let Some(t) = self.next() else { return false };
        self.now = self.now.max(t);
        let now = self.now;
        for i in 0..2 {
            self.hosts[i].nic.now = now;
            self.hosts[i].nic.run(now);
            while let Some((at, frame)) = self.hosts[i].nic.departed.pop_front() {
                self.carry(i, at, frame);
            }
            let delay = self.completion_delay;
            let watch = self.watch.unwrap_or(|_| ());
            let h = &mut self.hosts[i];
            while h
                .nic
                .completions
                .front()
                .is_some_and(|c| c.0 + delay <= now)
            {
                let (_, c) = h.nic.completions.pop_front().unwrap();
                watch(true);
                h.engine.on_tx_completion(now, &c);
                watch(false);
            }
        }
        let watch = self.watch.unwrap_or(|_| ());
        while self.frames.peek().is_some_and(|f| f.0.0 <= now) {
            let Reverse((at, serial, to)) = self.frames.pop().unwrap();
            let frame = self.bodies.remove(&serial).unwrap();
            let h = &mut self.hosts[to];
            // An arriving frame flushes completions that have departed.
            while h.nic.completions.front().is_some_and(|c| c.0 <= now) {
                let (_, c) = h.nic.completions.pop_front().unwrap();
                watch(true);
                h.engine.on_tx_completion(now, &c);
                watch(false);
            }
            let meta = RxMeta {
                arrival: at,
                ..RxMeta::default()
            };
            watch(true);
            h.engine.on_frame(now, &frame, &meta);
            watch(false);
        }
        true
    }

    pub fn poll(&mut self) {
        let now = self.now;
        for h in &mut self.hosts {
            h.nic.now = now;
            h.engine.poll(now, &mut h.nic);
        }
    }

    /// A listener on host 1, a connection from host 0; both established.
    pub fn connect(&mut self) -> (ConnId, ConnId) {
        let server = SocketAddr::new(self.hosts[1].ip(), 80);
        let l = self.hosts[1]
            .engine
            .listen(TenantId(0), server, 16)
            .unwrap();
        let a = self.hosts[0]
            .engine
            .connect(self.now, TenantId(0), None, server)
            .unwrap();
        let limit = self.now + Nanos::from_secs(100);
        loop {
            self.poll();
            if let Some(b) = self.hosts[1].engine.accept(l) {
                while self.hosts[0].engine.state(a) != Some(State::Established) {
                    assert!(self.step());
                    self.poll();
                }
                return (a, b);
            }
            assert!(self.step() && self.now < limit, "no connection");
        }
    }

    /// Runs until nothing happens any more, or `limit`.
    pub fn settle(&mut self, limit: Nanos) {
        self.poll();
        while self.next().is_some_and(|t| t <= limit) && self.step() {
            self.poll();
        }
    }

    /// Sends `total` bytes from host 0 to host 1 and closes; checks content.
    /// Answers the time it took.
    pub fn transfer(&mut self, a: ConnId, b: ConnId, total: u64) -> Nanos {
        let start = self.now;
        let (mut sent, mut got) = (0u64, 0u64);
        let limit = self.now + Nanos::from_secs(1000);
        let mut buf = vec![0u8; 65_536];
        let mut closed = false;
        loop {
            while sent < total {
                let room = self.hosts[0].engine.room(a).map_or(1, |r| r.0);
                let n = (total - sent).min(buf.len() as u64).min(room) as usize;
                if n == 0 {
                    break;
                }
                for (i, x) in buf[..n].iter_mut().enumerate() {
                    *x = pattern(sent + i as u64);
                }
                match self.hosts[0].engine.write(a, CoreId(0), &buf[..n]) {
                    Ok(n) => sent += n as u64,
                    Err(Error::WouldBlock) => break,
                    Err(e) => panic!("write: {e}"),
                }
            }
            if sent == total && !closed {
                closed = true;
                self.hosts[0].engine.shutdown(a).unwrap();
            }
            loop {
                match self.hosts[1].engine.read(b, &mut buf) {
                    Ok(0) => {
                        assert_eq!(got, total);
                        return self.now.since(start);
                    }
                    Ok(n) => {
                        for (i, x) in buf[..n].iter().enumerate() {
                            assert_eq!(*x, pattern(got + i as u64), "at {}", got + i as u64);
                        }
                        got += n as u64;
                    }
                    Err(Error::WouldBlock) => break,
                    Err(e) => panic!("read: {e}"),
                }
            }
            self.poll();
            assert!(self.step(), "stuck at {} of {total}, sent {sent}", got);
            assert!(self.now < limit, "too slow: {got} of {total}");
        }
    }
}

pub fn pattern(i: u64) -> u8 {
    let x = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x >> 40) as u8
}
