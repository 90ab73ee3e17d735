// SPDX-License-Identifier: MIT OR Apache-2.0
//! A driver, a scheduler and a segmenter around the memory side of transmit.

mod block;
mod driver;

use super::memory_side::{HostMemory, ReadPort, Rtl, fields};
use super::support::{Pcg64Mcg, RngExt, SeedableRng};
use block::Transmit;
use std::collections::{HashMap, VecDeque};
use tsonic_regs::Status;
use tsonic_regs::descriptor::TxDescriptor;

pub const Q: usize = 4;
pub const ENQUEUE: [usize; 10] = [8, 8, 16, 48, 18, 16, 9, 1, 64, 14];
pub const JOB: [usize; 13] = [2, 1, 1, 1, 8, 9, 7, 16, 18, 18, 1, 1, 8];
pub const BEAT: [usize; 3] = [64, 1, 1];

/// A burst that was posted, and what must come of it.
#[derive(Clone, Debug)]
pub struct Posted {
    pub descriptor: TxDescriptor,
    pub fragments: Vec<(u64, u64)>,
    pub status: Status,
    /// Refused before it reaches the scheduler.
    pub refused: bool,
    pub frames: u32,
    pub bytes: u32,
    pub mark: u64,
    pub first: u64,
    pub last: u64,
}

/// A burst in the stand-in scheduler.
#[derive(Clone, Debug)]
pub struct Waiting {
    pub ctx: u64,
    pub payload: u64,
    pub mss: u64,
    pub offset: u64,
    pub index: u64,
    pub abort: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Grant {
    pub queue: usize,
    pub ctx: u64,
    pub offset: u64,
    pub len: u64,
    pub index: u64,
    pub first: bool,
    pub last: bool,
    pub aborted: bool,
}

#[derive(Default, Clone)]
pub struct Queue {
    pub ring: u64,
    pub ring_log2: u32,
    pub tail: u64,
    pub head: u64,
    pub completions: u64,
    pub completion_log2: u32,
    pub next: u64,
    pub outstanding: HashMap<u16, Posted>,
    pub good: VecDeque<u16>,
    pub waiting: VecDeque<Waiting>,
    pub cookie: u16,
    pub errors_expected: u64,
    pub errors_seen: u64,
    pub done: u64,
}

pub struct Bench {
    pub rtl: Rtl,
    pub rng: Pcg64Mcg,
    pub memory: HostMemory,
    pub ports: [ReadPort; 3],
    pub queues: Vec<Queue>,
    pub writes: VecDeque<(u64, u64, u64)>,
    pub grant: Option<Grant>,
    pub by_ctx: HashMap<u64, (usize, u16)>,
    pub marks: VecDeque<(u64, u64)>,
    pub jobs: VecDeque<Vec<u64>>,
    pub headers: VecDeque<(Vec<u8>, bool)>,
    pub bodies: VecDeque<(Vec<u8>, bool)>,
    pub header: Vec<u8>,
    pub body: Vec<u8>,
    pub departures: VecDeque<(u64, u64, u64, bool, bool)>,
    pub write_run: Vec<(u64, u64)>,
    pub seen: HashMap<Status, u64>,
    pub hole: f64,
    pub ready: f64,
    pub next_page: u64,
    pub posted: u64,
    pub limit: u64,
    pub aborts: u64,
}

pub const PORTS: [(&str, &str); 3] = [
    ("fetch_rd_req", "fetch_rd"),
    ("list_req", "list"),
    ("payload_rd_req", "payload_rd"),
];

impl Bench {
    pub fn new(seed: u64, hole: f64, ready: f64, limit: u64) -> Self {
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

    pub fn choose(&mut self) {
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

    pub fn granted(&mut self) {
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

    pub fn cycle(&mut self) {
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

    pub fn sample(&mut self) {
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
    pub fn segment(&mut self) {
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

    pub fn run(&mut self) {
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
