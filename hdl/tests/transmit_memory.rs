// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory side of transmit as a driver sees it: bursts posted into rings,
//! segments as the segmenter gets them, completions out of rings. Scheduler and
//! segmenter are stand-ins that interleave and delay at random.

mod memory_side;
mod support;

use memory_side::{HostMemory, ReadPort, Rtl, fields};
use std::collections::{HashMap, VecDeque};
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::transmit::Transmit;
use tsonic_regs::Status;
use tsonic_regs::completion::{COMPLETION_BYTES, TxCompletion};
use tsonic_regs::descriptor::{COOKIE_NONE, FragmentEntry, Kind, TxDescriptor};
use tsonic_regs::registers::{QueueControl, RingSize, queue};

const Q: usize = 4;
const ENQUEUE: [usize; 9] = [8, 8, 16, 48, 18, 16, 9, 1, 64];
const JOB: [usize; 13] = [2, 1, 1, 1, 8, 9, 7, 16, 18, 18, 1, 1, 8];
const BEAT: [usize; 3] = [64, 1, 1];

/// A burst that was posted, and what must come of it.
#[derive(Clone, Debug)]
struct Posted {
    descriptor: TxDescriptor,
    fragments: Vec<(u64, u64)>,
    status: Status,
    /// Refused before it reaches the scheduler.
    refused: bool,
    frames: u32,
    bytes: u32,
    mark: u64,
    first: u64,
    last: u64,
}

/// A burst in the stand-in scheduler.
#[derive(Clone, Debug)]
struct Waiting {
    ctx: u64,
    payload: u64,
    mss: u64,
    offset: u64,
    index: u64,
    abort: bool,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    queue: usize,
    ctx: u64,
    offset: u64,
    len: u64,
    index: u64,
    first: bool,
    last: bool,
    aborted: bool,
}

#[derive(Default, Clone)]
struct Queue {
    ring: u64,
    ring_log2: u32,
    tail: u64,
    head: u64,
    completions: u64,
    completion_log2: u32,
    next: u64,
    outstanding: HashMap<u16, Posted>,
    good: VecDeque<u16>,
    waiting: VecDeque<Waiting>,
    cookie: u16,
    errors_expected: u64,
    errors_seen: u64,
    done: u64,
}

struct Bench {
    rtl: Rtl,
    rng: Pcg64Mcg,
    memory: HostMemory,
    ports: [ReadPort; 3],
    queues: Vec<Queue>,
    writes: VecDeque<(u64, u64, u64)>,
    grant: Option<Grant>,
    by_ctx: HashMap<u64, (usize, u16)>,
    marks: VecDeque<(u64, u64)>,
    jobs: VecDeque<Vec<u64>>,
    headers: VecDeque<(Vec<u8>, bool)>,
    bodies: VecDeque<(Vec<u8>, bool)>,
    header: Vec<u8>,
    body: Vec<u8>,
    departures: VecDeque<(u64, u64, u64, bool, bool)>,
    write_run: Vec<(u64, u64)>,
    seen: HashMap<Status, u64>,
    hole: f64,
    ready: f64,
    next_page: u64,
    posted: u64,
    limit: u64,
    aborts: u64,
}

const PORTS: [(&str, &str); 3] = [
    ("fetch_rd_req", "fetch_rd"),
    ("list_req", "list"),
    ("payload_rd_req", "payload_rd"),
];

impl Bench {
    fn new(seed: u64, hole: f64, ready: f64, limit: u64) -> Self {
        let mut bench = Self {
            rtl: Rtl::new(Transmit::<Q>::default()),
            rng: Pcg64Mcg::seed_from_u64(seed),
            memory: HostMemory::default(),
            ports: [0, 1, 2].map(|_| ReadPort::new(1..60, 0.9, ready)),
            queues: vec![Queue::default(); Q],
            writes: VecDeque::new(),
            grant: None,
            by_ctx: HashMap::new(),
            marks: VecDeque::new(),
            jobs: VecDeque::new(),
            headers: VecDeque::new(),
            bodies: VecDeque::new(),
            header: Vec::new(),
            body: Vec::new(),
            departures: VecDeque::new(),
            write_run: Vec::new(),
            seen: HashMap::new(),
            hole,
            ready,
            next_page: 1 << 24,
            posted: 0,
            limit,
            aborts: 0,
        };
        for (name, value) in [
            ("enable", 1),
            ("tso", 1),
            ("uso", 1),
            ("flow_slots", 64),
            ("max_segment", 16_000),
        ] {
            bench.rtl.set(name, value);
        }
        for q in 0..Q {
            bench.enable(q);
        }
        bench
    }

    fn enable(&mut self, q: usize) {
        let ring = ((q as u64 + 1) << 30) + 64 * self.rng.random_range(0..64);
        let completions = ((q as u64 + 9) << 30) + 32 * self.rng.random_range(0..128);
        let (ring_log2, completion_log2) = (6 + q as u32 % 2, 7);
        self.memory.map(ring, 64 << ring_log2);
        self.memory.map(completions, 32 << completion_log2);
        self.queues[q] = Queue {
            ring,
            ring_log2,
            completions,
            completion_log2,
            cookie: self.queues[q].cookie,
            ..Queue::default()
        };
        let mut size = RingSize(0);
        size.set_ring_log2(ring_log2 as u8);
        size.set_completion_log2(completion_log2 as u8);
        let mut control = QueueControl(0);
        control.set_enable(1);
        for (register, value) in [
            (queue::TX_CONTROL, 0),
            (queue::TX_RING_LO, ring as u32),
            (queue::TX_RING_HI, (ring >> 32) as u32),
            (queue::TX_COMPLETION_LO, completions as u32),
            (queue::TX_COMPLETION_HI, (completions >> 32) as u32),
            (queue::TX_RING_SIZE, size.0),
            (queue::TX_CONTROL, control.0),
        ] {
            self.writes
                .push_back((q as u64, register.offset as u64, u64::from(value)));
        }
        // The driver clears the completions of a former life.
        self.memory
            .write(completions, &vec![0; 32 << completion_log2]);
    }

    fn area(&mut self, len: u64) -> u64 {
        let addr = self.next_page * 4096 + self.rng.random_range(0..4096);
        self.next_page += len / 4096 + 3;
        let data: Vec<u8> = (0..len).map(|_| self.rng.random()).collect();
        self.memory.write(addr, &data);
        if self.rng.random_bool(self.hole) {
            let page = self.rng.random_range(addr / 4096..=(addr + len - 1) / 4096);
            self.memory.unmap(page);
        }
        addr
    }

    fn mapped(&self, mut addrs: impl Iterator<Item = u64>) -> bool {
        addrs.all(|a| self.memory.byte(a).is_some())
    }

    fn post(&mut self, q: usize) {
        let mut d = TxDescriptor::default();
        let kind = if self.rng.random_bool(0.8) {
            Kind::Tso
        } else {
            Kind::Csum
        };
        d.control.set_kind(kind as u8);
        d.control.set_l2_len(14);
        d.control.set_l3_len(20 + 4 * self.rng.random_range(0..4));
        d.control.set_l4_len(20 + 4 * self.rng.random_range(0..4));
        d.control.set_timestamp(self.rng.random_range(0..2));
        d.burst.set_flow_slot(self.rng.random_range(0..64));
        while self.queues[q]
            .outstanding
            .contains_key(&self.queues[q].cookie)
        {
            self.queues[q].cookie = (self.queues[q].cookie + 1) % COOKIE_NONE;
        }
        let cookie = self.queues[q].cookie;
        self.queues[q].cookie = (cookie + 1) % COOKIE_NONE;
        d.burst.set_cookie(cookie);
        d.header_addr = self.area(d.header_len() as u64);
        let count = *[0usize, 1, 1, 2, 3, 6, 17]
            .get(self.rng.random_range(0..7))
            .unwrap_or(&1);
        let mut fragments = Vec::new();
        for _ in 0..count {
            let len = self.rng.random_range(1..900);
            fragments.push((self.area(len), len));
        }
        let payload: u64 = fragments.iter().map(|f| f.1).sum();
        let mss = self.rng.random_range(200..2000);
        d.control.set_mss(mss as u16);
        d.control.set_fragments(count as u8);
        d.burst.set_payload_len(payload as u32);
        if let Some(&(addr, len)) = fragments.first() {
            d.frag0_addr = addr;
            d.lengths.set_frag0_len(len as u32);
        }
        let mut status = Status::Ok;
        if count == 2 {
            d.frag1_addr = fragments[1].0;
            d.lengths.set_frag1_len(fragments[1].1 as u32);
        } else if count > 2 {
            let mut words = Vec::new();
            for &(addr, len) in &fragments[1..] {
                let mut entry = FragmentEntry {
                    addr,
                    ..FragmentEntry::default()
                };
                entry.length.set_bytes(len as u32);
                words.extend([entry.addr, entry.length.0]);
            }
            d.frag1_addr = self.area(8 * words.len() as u64 + 16) & !15;
            let there = self.mapped(d.frag1_addr..d.frag1_addr + 8 * words.len() as u64);
            if there {
                self.memory.write_words(d.frag1_addr, &words);
                if self.rng.random_bool(0.05) {
                    words[1] += 1;
                    self.memory.write_words(d.frag1_addr, &words);
                    status = Status::LengthMismatch;
                }
            } else {
                status = Status::AddressFault;
            }
        }
        if self.rng.random_bool(0.05) {
            d.control.set_kind(7);
            status = Status::BadKind;
        }
        let refused = status != Status::Ok;
        // How far it gets: up to the first segment that cannot be read.
        let (mut frames, mut bytes) = (0, 0);
        if !refused {
            let size = if kind == Kind::Tso {
                mss.min(payload)
            } else {
                payload
            };
            let addrs: Vec<u64> = fragments.iter().flat_map(|&(a, n)| a..a + n).collect();
            let header = d.header_addr..d.header_addr + d.header_len() as u64;
            let mut offset = 0;
            loop {
                let len = size.min(payload - offset);
                let part = &addrs[offset as usize..(offset + len) as usize];
                if !self.mapped(header.clone()) || !self.mapped(part.iter().copied()) {
                    status = Status::AddressFault;
                    break;
                }
                frames += 1;
                bytes += d.header_len() as u32 + len as u32;
                offset += len;
                if offset == payload {
                    break;
                }
            }
        }
        let mark = if self.rng.random_bool(0.2) {
            self.rng.random_range(0..8)
        } else {
            0
        };
        let queue = &mut self.queues[q];
        if !refused {
            queue.good.push_back(cookie);
        }
        self.memory
            .write_words(queue.ring + 64 * queue.tail, &d.to_words());
        queue.tail = (queue.tail + 1) % (1 << queue.ring_log2);
        queue.outstanding.insert(
            cookie,
            Posted {
                descriptor: d,
                fragments,
                status,
                refused,
                frames,
                bytes,
                mark,
                first: 0,
                last: 0,
            },
        );
        self.posted += 1;
    }

    /// The driver's part of a cycle: posts, rings, reaps.
    fn drive_host(&mut self) {
        if self.posted < self.limit && self.rng.random_bool(0.01) {
            let q = self.rng.random_range(0..Q);
            let size = 1 << self.queues[q].ring_log2;
            let space = size - 1 - (self.queues[q].tail + size - self.queues[q].head) % size;
            let room =
                (1 << self.queues[q].completion_log2) - 8 - self.queues[q].outstanding.len() as u64;
            let n = self.rng.random_range(1..6).min(space).min(room);
            for _ in 0..n {
                self.post(q);
            }
            if n > 0 {
                self.writes
                    .push_back((q as u64, u64::MAX, self.queues[q].tail));
            }
            if self.rng.random_bool(0.02)
                && self.queues[q].errors_expected == self.queues[q].errors_seen
            {
                self.writes
                    .push_back((q as u64, u64::MAX, 1 << self.queues[q].ring_log2));
                self.queues[q].errors_expected += 1;
            }
        }
        for q in 0..Q {
            self.reap(q);
        }
    }

    fn reap(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let size = 1u64 << queue.completion_log2;
        let at = queue.completions + COMPLETION_BYTES as u64 * (queue.next % size);
        let words = [0, 8, 16, 24].map(|o| self.memory.word(at + o).expect("mapped"));
        let c = TxCompletion::from_words(words);
        let phase = 1 - (queue.next / size % 2) as u8;
        if c.done.phase() != phase {
            return;
        }
        queue.next += 1;
        let status = Status::from_code(c.status.status()).expect("a status");
        *self.seen.entry(status).or_default() += 1;
        assert_eq!(usize::from(c.status.queue()), q);
        let ring = 1u64 << queue.ring_log2;
        let (head, free) = (
            u64::from(c.done.head()),
            (queue.tail + ring - queue.head) % ring,
        );
        assert!(
            (head + ring - queue.head) % ring <= free,
            "head {head} is not between {} and {}",
            queue.head,
            queue.tail
        );
        queue.head = head;
        if status == Status::DoorbellOutOfRange {
            assert_eq!(c.status.cookie(), COOKIE_NONE);
            queue.errors_seen += 1;
            return;
        }
        let p = queue
            .outstanding
            .remove(&c.status.cookie())
            .expect("a burst that is out");
        assert_eq!(status, p.status, "{p:?}");
        assert_eq!(c.status.flow_slot(), p.descriptor.burst.flow_slot());
        assert_eq!(
            (c.done.segments(), c.done.wire_bytes()),
            (p.frames, p.bytes),
            "{p:?}"
        );
        assert_eq!((c.first_departure, c.last_departure), (p.first, p.last));
        let marks = u64::from(c.status.cn())
            | u64::from(c.status.throttle()) << 1
            | u64::from(c.status.wake()) << 2;
        assert_eq!(marks, if p.refused { 0 } else { p.mark });
        queue.done += 1;
    }

    fn choose(&mut self) {
        if self.grant.is_some() || !self.rng.random_bool(0.5) {
            return;
        }
        let q = self.rng.random_range(0..Q);
        // The first bursts of a queue interleave: they are of several flows.
        let n = self.queues[q].waiting.len().min(3);
        if n == 0 {
            return;
        }
        let w = &self.queues[q].waiting[self.rng.random_range(0..n)];
        let len = w.mss.min(w.payload - w.offset);
        self.grant = Some(Grant {
            queue: q,
            ctx: w.ctx,
            offset: w.offset,
            len: if w.abort { 0 } else { len },
            index: w.index,
            first: w.index == 0,
            last: w.abort || w.offset + len == w.payload,
            aborted: w.abort,
        });
    }

    fn granted(&mut self) {
        let Some(g) = self.grant.take() else { return };
        let waiting = &mut self.queues[g.queue].waiting;
        let n = waiting
            .iter()
            .position(|w| w.ctx == g.ctx)
            .expect("a waiting burst");
        if g.last {
            waiting.remove(n);
        } else {
            waiting[n].offset += g.len;
            waiting[n].index += 1;
        }
    }

    fn cycle(&mut self) {
        let now = self.rtl.now;
        self.drive_host();
        self.choose();
        let rtl = &mut self.rtl;
        rtl.set("ticks", now);
        rtl.set("cfg_valid", 0);
        rtl.set("bell_valid", 0);
        if let Some((q, offset, value)) = self.writes.pop_front() {
            if offset == u64::MAX {
                rtl.set("bell_valid", 1);
                rtl.set("bell_queue", q);
                rtl.set("bell_tail", value);
            } else {
                rtl.set("cfg_valid", 1);
                rtl.set("cfg_queue", q);
                rtl.set("cfg_offset", offset);
                rtl.set("cfg_value", value);
            }
        }
        let mut beats = [None; 3];
        for (n, (_, data)) in PORTS.iter().enumerate() {
            beats[n] = self.ports[n].beat(&self.memory, now, &mut self.rng);
            let b = beats[n].unwrap_or_default();
            rtl.set(&format!("{data}_valid"), u64::from(beats[n].is_some()));
            rtl.set(&format!("{data}_data"), b.data);
            rtl.set(&format!("{data}_last"), u64::from(b.last));
            rtl.set(&format!("{data}_err"), u64::from(b.err));
        }
        for name in [
            "fetch_rd_req_ready",
            "list_req_ready",
            "payload_rd_req_ready",
            "enqueue_ready",
            "segment_ready",
            "header_ready",
            "body_ready",
            "wr_ready",
        ] {
            rtl.set(name, u64::from(self.rng.random_bool(self.ready)));
        }
        rtl.set("grant_valid", u64::from(self.grant.is_some()));
        if let Some(g) = self.grant {
            rtl.set("grant_ctx", g.ctx);
            rtl.set("grant_offset", g.offset);
            rtl.set("grant_len", g.len);
            rtl.set("grant_index", g.index);
            rtl.set("grant_first", u64::from(g.first));
            rtl.set("grant_last", u64::from(g.last));
            rtl.set("grant_aborted", u64::from(g.aborted));
        }
        rtl.set("mark_valid", 0);
        if let Some((ctx, bits)) = self.marks.pop_front() {
            rtl.set("mark_valid", 1);
            rtl.set_fields("mark", &[(ctx, 8), (bits, 3)]);
        }
        rtl.set("departed_valid", 0);
        if self.rng.random_bool(0.1)
            && let Some((ctx, bytes, cookie, err, last)) = self.departures.pop_front()
        {
            rtl.set("departed_valid", 1);
            rtl.set("departed_ctx", ctx);
            rtl.set("departed_bytes", bytes);
            rtl.set("departed_err", u64::from(err));
            rtl.set("departed_last", u64::from(last));
            let (q, _) = self.by_ctx[&ctx];
            let p = self.queues[q]
                .outstanding
                .get_mut(&(cookie as u16))
                .expect("a burst that is out");
            if !err {
                if p.first == 0 {
                    p.first = now;
                }
                p.last = now;
            }
        }
        rtl.settle();
        for (n, (request, data)) in PORTS.iter().enumerate() {
            let taken = n < 2 || rtl.high(&format!("{data}_ready"));
            if let (Some(beat), true) = (beats[n], taken) {
                self.ports[n].taken(beat);
            }
            if rtl.high(&format!("{request}_valid")) && rtl.driven(&format!("{request}_ready")) == 1
            {
                let (addr, len) = (
                    rtl.get(&format!("{request}_addr")),
                    rtl.get(&format!("{request}_len")),
                );
                self.ports[n].request(addr, len, now, &mut self.rng);
            }
        }
        let granted = self.grant.is_some() && rtl.high("grant_ready");
        self.sample();
        self.rtl.edge();
        if granted {
            self.granted();
        }
        self.segment();
    }

    fn sample(&mut self) {
        let rtl = &self.rtl;
        if rtl.high("enqueue_valid") && rtl.driven("enqueue_ready") == 1 {
            let e = fields(rtl, "enqueue", &ENQUEUE);
            let (ctx, q) = (e[0], e[1] as usize);
            let cookie = self.queues[q].good.pop_front().expect("a good burst");
            let p = &self.queues[q].outstanding[&cookie];
            assert_eq!(e[4], u64::from(p.descriptor.burst.payload_len()));
            self.by_ctx.insert(ctx, (q, cookie));
            if p.mark != 0 {
                self.marks.push_back((ctx, p.mark));
            }
            self.queues[q].waiting.push_back(Waiting {
                ctx,
                payload: e[4],
                mss: e[5],
                offset: 0,
                index: 0,
                abort: false,
            });
        }
        if rtl.high("abort_valid") {
            let ctx = rtl.get("abort_ctx");
            self.aborts += 1;
            let standing = self.grant.is_some_and(|g| g.ctx == ctx);
            for w in self.queues.iter_mut().flat_map(|q| &mut q.waiting) {
                if w.ctx == ctx && !standing {
                    w.abort = true;
                }
            }
        }
        if rtl.high("segment_valid") && rtl.driven("segment_ready") == 1 {
            self.jobs.push_back(fields(rtl, "segment", &JOB));
        }
        if rtl.high("header_valid") && rtl.driven("header_ready") == 1 {
            let beat = fields(rtl, "header", &BEAT);
            self.header.extend(beat[0].to_le_bytes());
            if beat[1] == 1 {
                self.headers
                    .push_back((std::mem::take(&mut self.header), beat[2] == 1));
            }
        }
        if rtl.high("body_valid") && rtl.driven("body_ready") == 1 {
            let beat = fields(rtl, "body", &BEAT);
            self.body.extend(beat[0].to_le_bytes());
            if beat[1] == 1 {
                self.bodies
                    .push_back((std::mem::take(&mut self.body), beat[2] == 1));
            }
        }
        if rtl.high("wr_valid") && rtl.driven("wr_ready") == 1 {
            self.write_run
                .push((rtl.get("wr_addr"), rtl.get("wr_data")));
            assert_eq!(rtl.get("wr_strb"), 0xff);
            if rtl.high("wr_last") {
                assert_eq!(self.write_run.len(), 4);
                for (n, (addr, data)) in std::mem::take(&mut self.write_run).into_iter().enumerate()
                {
                    assert_eq!(addr % 32, 8 * n as u64);
                    assert!(self.memory.byte(addr).is_some(), "a write to {addr:#x}");
                    self.memory.write_words(addr, &[data]);
                }
            }
        }
    }

    /// The stand-in segmenter: whole segments, compared with the burst.
    fn segment(&mut self) {
        while let (Some(job), Some((header, header_err))) =
            (self.jobs.front(), self.headers.front())
        {
            if job[7] > 0 && self.bodies.is_empty() {
                return;
            }
            let (len, offset, last, ctx) = (job[7], job[8], job[11] == 1, job[12]);
            let (q, cookie) = self.by_ctx[&ctx];
            let p = &self.queues[q].outstanding[&cookie];
            let header_len = p.descriptor.header_len();
            let mut err = *header_err;
            if !err {
                let want: Vec<u8> = (0..header_len as u64)
                    .map(|i| {
                        self.memory
                            .byte(p.descriptor.header_addr + i)
                            .expect("mapped")
                    })
                    .collect();
                assert_eq!(header[..header_len], want);
            }
            if len > 0 {
                let (body, body_err) = self.bodies.pop_front().expect("a body");
                err |= body_err;
                if !body_err {
                    let want: Vec<u8> = p
                        .fragments
                        .iter()
                        .flat_map(|&(a, n)| a..a + n)
                        .skip(offset as usize)
                        .take(len as usize)
                        .map(|a| self.memory.byte(a).expect("mapped"))
                        .collect();
                    assert_eq!(body[..len as usize], want);
                }
            }
            let bytes = if err { 0 } else { header_len as u64 + len };
            self.departures
                .push_back((ctx, bytes, u64::from(cookie), err, last));
            self.jobs.pop_front();
            self.headers.pop_front();
        }
    }

    fn run(&mut self) {
        for cycle in 0u64.. {
            self.cycle();
            let drained = self.posted >= self.limit
                && self.rtl.high("empty")
                && self.rtl.high("idle")
                && self.writes.is_empty()
                && self
                    .queues
                    .iter()
                    .all(|q| q.outstanding.is_empty() && q.errors_seen == q.errors_expected);
            if drained {
                break;
            }
            assert!(
                cycle < 4_000_000,
                "not drained: {:?}",
                self.queues
                    .iter()
                    .map(|q| q.outstanding.len())
                    .collect::<Vec<_>>()
            );
        }
        println!(
            "{} bursts in {} cycles, {} aborts: {:?}",
            self.posted, self.rtl.now, self.aborts, self.seen
        );
    }
}

#[test]
fn every_burst_completes_once_with_what_departed() {
    let mut bench = Bench::new(1, 0.0, 0.8, 2000);
    bench.run();
    for q in &bench.queues {
        assert!(
            q.next > 3 << q.completion_log2,
            "the completion ring did not turn over"
        );
    }
    assert_eq!(bench.aborts, 0);
}

#[test]
fn faults_anywhere() {
    let mut bench = Bench::new(2, 0.02, 0.8, 2000);
    bench.run();
    assert!(bench.aborts > 50);
    for status in [
        Status::Ok,
        Status::AddressFault,
        Status::LengthMismatch,
        Status::BadKind,
        Status::DoorbellOutOfRange,
    ] {
        assert!(bench.seen.contains_key(&status), "{status:?} was not met");
    }
}

#[test]
fn a_queue_enabled_again_starts_over() {
    let mut bench = Bench::new(3, 0.01, 1.0, 300);
    for round in 1..6 {
        bench.limit = 300 * round;
        bench.run();
        for q in 0..Q {
            bench.enable(q);
        }
    }
}
