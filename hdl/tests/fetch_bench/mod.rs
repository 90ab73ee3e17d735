// SPDX-License-Identifier: MIT OR Apache-2.0
//! A host that posts good and bad bursts to fetch, and checks what comes of each
//! against `tsonic_regs::check`.

#![allow(dead_code)] // Fields are for reports as well.

use super::memory_side::{HostMemory, ReadPort, Rtl, fields};
use super::support::{Pcg64Mcg, RngExt, SeedableRng};
use std::collections::{HashMap, HashSet, VecDeque};
use tsonic_hdl::fetch::{CONTEXTS, Fetch};
use tsonic_regs::Status;
use tsonic_regs::check::{BuildLimits, check, check_list, list_entries};
use tsonic_regs::descriptor::{COOKIE_NONE, FragmentEntry, Kind, TxDescriptor};
use tsonic_regs::registers::{Features, QueueControl, RingSize, queue};

pub const ENQUEUE: [usize; 10] = [8, 8, 16, 48, 18, 16, 9, 1, 64, 14];
pub const IDENTITY: [usize; 5] = [8, 16, 16, 1, 18];
pub const REFUSAL: [usize; 7] = [8, 16, 16, 8, 1, 1, 8];
pub const BURST: [usize; 11] = [4, 1, 1, 1, 8, 9, 7, 9, 64, 64, 18];
pub const FRAGMENT: [usize; 2] = [64, 18];

/// The clock, which stands.
const TICKS: u64 = (1 << 32) - 1_000;
/// How far ahead a launch time may lie.
const HORIZON: u64 = 1_000_000;

pub fn build_limits() -> BuildLimits {
    let mut features = Features(0);
    features.set_tso(1);
    features.set_uso(1);
    BuildLimits {
        features,
        flow_slots: 64,
        max_segment: 16_000,
    }
}

/// What must become of a posted descriptor.
#[derive(Clone, Debug)]
pub struct Posted {
    pub order: u64,
    pub queue: usize,
    pub descriptor: TxDescriptor,
    pub list: Vec<FragmentEntry>,
    pub status: Status,
}

#[derive(Clone, Copy, Default)]
pub struct Ring {
    pub base: u64,
    pub log2: u32,
    pub tail: u64,
    /// Slots that the device said are free.
    pub head: u64,
    pub posted: u64,
}

/// Knobs of a run.
#[derive(Clone, Copy)]
pub struct Knobs {
    pub bad: f64,
    pub post: f64,
    pub bad_bell: f64,
    pub latency: u64,
    pub ready: f64,
    pub hold: u64,
}

pub struct Bench {
    pub rtl: Rtl,
    pub rng: Pcg64Mcg,
    pub memory: HostMemory,
    pub reads: ReadPort,
    pub lists: ReadPort,
    pub rings: Vec<Ring>,
    pub expected: HashMap<(usize, u16), Posted>,
    pub cookies: u16,
    pub orders: u64,
    pub last_order: Vec<u64>,
    pub writes: VecDeque<(u64, u64, u64)>,
    pub releases: Vec<(u64, u64, bool, u64)>,
    pub live: HashSet<u64>,
    pub bursts: HashMap<u64, Vec<u64>>,
    pub fragments: HashMap<u64, Vec<u64>>,
    pub accepted: Option<(u64, Vec<u64>)>,
    pub knobs: Knobs,
    pub bad_bells: u64,
    pub refused: u64,
    pub bell_errors: u64,
    pub faults: u64,
    pub taken: Vec<u64>,
    pub seen: HashMap<u8, u64>,
    pub next_memory: u64,
    /// Queues whose bursts never complete.
    pub held: Vec<usize>,
    /// Faults of slots.
    pub unknown: u64,
}

impl Bench {
    pub fn new<const Q: usize>(seed: u64, knobs: Knobs) -> Self {
        let mut bench = Self {
            rtl: Rtl::new(Fetch::<Q>::default()),
            rng: Pcg64Mcg::seed_from_u64(seed),
            memory: HostMemory::default(),
            reads: ReadPort::new(1..knobs.latency, 0.9, knobs.ready),
            lists: ReadPort::new(1..knobs.latency, 0.8, knobs.ready),
            rings: vec![Ring::default(); Q],
            expected: HashMap::new(),
            cookies: 0,
            orders: 0,
            last_order: vec![0; Q],
            writes: VecDeque::new(),
            releases: Vec::new(),
            live: HashSet::new(),
            bursts: HashMap::new(),
            fragments: HashMap::new(),
            accepted: None,
            knobs,
            bad_bells: 0,
            refused: 0,
            bell_errors: 0,
            faults: 0,
            taken: vec![0; Q],
            seen: HashMap::new(),
            next_memory: 1 << 40,
            held: Vec::new(),
            unknown: 0,
        };
        bench.rtl.set("enable", 1);
        bench.rtl.set("tso", 1);
        bench.rtl.set("uso", 1);
        bench.rtl.set("flow_slots", 64);
        bench.rtl.set("max_segment", 16_000);
        bench.rtl.set("ticks", TICKS);
        bench.rtl.set("horizon", HORIZON);
        bench
    }

    /// Registers of a ring, as the driver writes them.
    pub fn enable(&mut self, q: usize, base: u64, log2: u32, map: bool) {
        self.enable_with(q, base, (log2, log2), map);
    }

    /// The same with a completion ring of another size.
    pub fn enable_with(&mut self, q: usize, base: u64, (log2, done): (u32, u32), map: bool) {
        self.rings[q] = Ring {
            base,
            log2,
            ..Ring::default()
        };
        if map {
            self.memory.map(base, 64 << log2);
        }
        let mut size = RingSize(0);
        size.set_ring_log2(log2 as u8);
        size.set_completion_log2(done as u8);
        let mut control = QueueControl(0);
        control.set_enable(1);
        for (register, value) in [
            (queue::TX_CONTROL, 0),
            (queue::TX_RING_LO, base as u32),
            (queue::TX_RING_HI, (base >> 32) as u32),
            (queue::TX_RING_SIZE, size.0),
            (queue::TX_CONTROL, control.0),
        ] {
            self.writes
                .push_back((q as u64, register.offset as u64, u64::from(value)));
        }
    }

    pub fn bell(&mut self, q: usize, tail: u64) {
        self.writes.push_back((q as u64, u64::MAX, tail));
    }

    pub fn good(&mut self) -> (TxDescriptor, Vec<FragmentEntry>) {
        let rng = &mut self.rng;
        let mut d = TxDescriptor::default();
        let kind = rng.random_range(0..4);
        d.control.set_kind(kind);
        d.control.set_ipv6(rng.random_range(0..2));
        d.control.set_timestamp(rng.random_range(0..2));
        d.control.set_launch(rng.random_range(0..2));
        d.control.set_ip_id_fixed(rng.random_range(0..2));
        d.control.set_cwr_all(rng.random_range(0..2));
        d.control.set_l2_len(14 + 4 * rng.random_range(0..3));
        d.control.set_l3_len(if d.control.ipv6() == 1 {
            40 + 8 * rng.random_range(0..3)
        } else {
            20 + 4 * rng.random_range(0..11)
        });
        d.control.set_l4_len(if kind == Kind::Uso as u8 {
            8
        } else {
            20 + 4 * rng.random_range(0..11)
        });
        let fragments = *[0, 1, 1, 2, 2, 3, 5, 16, 17]
            .get(rng.random_range(0..9))
            .unwrap_or(&1);
        d.control.set_fragments(fragments);
        d.header_addr = rng.random();
        d.rate.set_inv_rate(rng.random::<u64>() >> 16);
        d.launch = match rng.random_range(0..20) {
            0 => TICKS + HORIZON,
            _ => rng.random_range(0..=TICKS + HORIZON),
        };
        d.frag0_addr = rng.random();
        d.frag1_addr = rng.random();
        d.burst.set_flow_slot(rng.random_range(0..64));
        d.burst.set_flow_limit(rng.random_range(0..1 << 14));
        let cookie = self.cookies;
        self.cookies = (self.cookies + 1) % COOKIE_NONE;
        d.burst.set_cookie(cookie);
        let mut lengths: Vec<u32> = (0..fragments).map(|_| rng.random_range(1..900)).collect();
        if rng.random_bool(0.2) {
            lengths.iter_mut().for_each(|l| *l = 1);
        }
        let payload: u32 = lengths.iter().sum();
        d.burst.set_payload_len(payload);
        d.lengths
            .set_frag0_len(lengths.first().copied().unwrap_or(0));
        if fragments == 2 {
            d.lengths.set_frag1_len(lengths[1]);
        }
        d.control.set_mss(rng.random_range(1..3000));
        let mut list = Vec::new();
        if fragments > 2 {
            let at = self.next_memory + 16 * rng.random_range(0..256);
            self.next_memory += 3 * 4096;
            d.frag1_addr = at;
            for length in &lengths[1..] {
                let mut entry = FragmentEntry {
                    addr: rng.random(),
                    ..FragmentEntry::default()
                };
                entry.length.set_bytes(*length);
                list.push(entry);
            }
        }
        (d, list)
    }

    /// Breaks something, and says with what status the burst must fail (or not).
    pub fn spoil(&mut self, d: &mut TxDescriptor, list: &mut [FragmentEntry]) -> bool {
        let rng = &mut self.rng;
        let mut hole = false;
        match rng.random_range(0..17) {
            0 => d.control.0 |= 1 << 45,
            1 => d.control.0 |= 1 << rng.random_range(45..48),
            2 => d.rate.0 |= 1 << 60,
            3 => d.lengths.0 |= 1 << 20,
            4 => d.control.set_kind(rng.random_range(4..16)),
            5 => d.burst.set_flow_slot(rng.random_range(64..=65535)),
            6 => d.control.set_fragments(rng.random_range(18..32)),
            7 => d.control.set_l2_len(rng.random_range(0..255)),
            8 => d.control.set_l3_len(rng.random_range(0..511)),
            9 => d.control.set_l4_len(rng.random_range(0..127)),
            10 => d.burst.set_payload_len(rng.random_range(0..1 << 18)),
            11 => d.control.set_mss(0),
            12 => {
                d.burst.set_payload_len(100_000);
                d.lengths.set_frag0_len(100_000);
                d.control.set_mss(rng.random_range(15_990..16_010));
            }
            13 => {
                if let Some(entry) = list.last_mut() {
                    entry.length.0 ^= 1 << rng.random_range(0..64);
                }
            }
            14 => {
                if !list.is_empty() {
                    let n = rng.random_range(0..list.len());
                    list[n].length.set_bytes(0);
                }
            }
            15 => {
                d.control.set_launch(1);
                d.launch = match rng.random_range(0..2) {
                    0 => TICKS + HORIZON + 1,
                    _ => rng.random(),
                };
            }
            _ => hole = !list.is_empty(),
        }
        if rng.random_bool(0.2) {
            d.frag1_addr ^= 8;
        }
        hole
    }

    pub fn post(&mut self, q: usize) {
        let (mut d, mut list) = self.good();
        let mut hole = false;
        if self.rng.random_bool(self.knobs.bad) {
            hole = self.spoil(&mut d, &mut list);
        }
        let mut status = check(&d, &build_limits());
        let launches = d.control.launch() == 1 && d.burst.flow_slot() != 0;
        if status == Status::Ok && launches && d.launch > TICKS + HORIZON {
            status = Status::BeyondHorizon;
        } else if status == Status::Ok && !list.is_empty() {
            assert_eq!(list.len(), list_entries(usize::from(d.control.fragments())));
            let words: Vec<u64> = list.iter().flat_map(|e| [e.addr, e.length.0]).collect();
            if hole {
                // The list's end is not there.
                let end = (d.frag1_addr + 16 * list.len() as u64 - 1) / 4096;
                let there = words
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| (d.frag1_addr + 8 * *i as u64) / 4096 != end);
                for (i, word) in there {
                    self.memory
                        .write_words(d.frag1_addr + 8 * i as u64, &[*word]);
                }
                status = Status::AddressFault;
            } else {
                self.memory.write_words(d.frag1_addr, &words);
                status = check_list(&d, &list);
            }
        }
        let ring = &mut self.rings[q];
        let at = ring.base + 64 * ring.tail;
        self.memory.write_words(at, &d.to_words());
        ring.tail = (ring.tail + 1) % (1 << ring.log2);
        ring.posted += 1;
        self.orders += 1;
        let posted = Posted {
            order: self.orders,
            queue: q,
            descriptor: d,
            list,
            status,
        };
        let old = self.expected.insert((q, d.burst.cookie()), posted);
        assert!(old.is_none(), "a cookie is used twice");
    }

    pub fn space(&self, q: usize) -> u64 {
        let ring = &self.rings[q];
        let size = 1 << ring.log2;
        size - 1 - (ring.tail + size - ring.head) % size
    }

    /// The driver's part of a cycle.
    pub fn drive_host(&mut self) {
        if self.rng.random_bool(self.knobs.post) {
            let q = self.rng.random_range(0..self.rings.len());
            let n = self.rng.random_range(1..8).min(self.space(q));
            for _ in 0..n {
                self.post(q);
            }
            if n > 0 {
                self.bell(q, self.rings[q].tail);
            }
        }
        if self.rng.random_bool(self.knobs.bad_bell) {
            let q = self.rng.random_range(0..self.rings.len());
            let beyond = self
                .rng
                .random_range(1 << self.rings[q].log2..=u64::from(u32::MAX));
            self.bell(q, beyond);
            self.bad_bells += 1;
        }
    }

    pub fn cycle(&mut self) {
        let now = self.rtl.now;
        let rtl = &mut self.rtl;
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
        let beat = self.reads.beat(&self.memory, now, &mut self.rng);
        let list_beat = self.lists.beat(&self.memory, now, &mut self.rng);
        for (prefix, beat) in [("rd", beat), ("list", list_beat)] {
            let b = beat.unwrap_or_default();
            rtl.set(&format!("{prefix}_valid"), u64::from(beat.is_some()));
            rtl.set(&format!("{prefix}_data"), b.data);
            rtl.set(&format!("{prefix}_last"), u64::from(b.last));
            rtl.set(&format!("{prefix}_err"), u64::from(b.err));
        }
        for name in [
            "rd_req_ready",
            "list_req_ready",
            "accept_ready",
            "enqueue_ready",
            "refusal_ready",
        ] {
            rtl.set(name, u64::from(self.rng.random_bool(self.knobs.ready)));
        }
        rtl.set("release_valid", 0);
        if let Some(n) = self.releases.iter().position(|r| r.0 <= now) {
            let (_, q, has_ctx, ctx) = self.releases.swap_remove(n);
            rtl.set("release_valid", 1);
            rtl.set("release_queue", q);
            rtl.set("release_has_ctx", u64::from(has_ctx));
            rtl.set("release_ctx", ctx);
            if has_ctx {
                assert!(self.live.remove(&ctx));
            }
        }
        rtl.settle();
        if let Some(beat) = beat {
            self.reads.taken(beat);
            self.faults += u64::from(beat.err);
        }
        if let Some(beat) = list_beat {
            self.lists.taken(beat);
        }
        self.sample(now);
        self.rtl.edge();
    }

    pub fn sample(&mut self, now: u64) {
        if self.rtl.high("rd_req_valid") && self.ready("rd_req_ready") {
            let (addr, len) = (self.rtl.get("rd_req_addr"), self.rtl.get("rd_req_len"));
            assert!(len <= 256 && len % 64 == 0 && addr % 64 == 0);
            self.reads.request(addr, len, now, &mut self.rng);
        }
        if self.rtl.high("list_req_valid") && self.ready("list_req_ready") {
            let (addr, len) = (self.rtl.get("list_req_addr"), self.rtl.get("list_req_len"));
            assert!(len <= 256 && len % 16 == 0 && addr % 16 == 0);
            self.lists.request(addr, len, now, &mut self.rng);
        }
        if self.rtl.high("head_valid") {
            let q = self.rtl.get("head_queue") as usize;
            self.rings[q].head = self.rtl.get("head_index");
        }
        self.refused += u64::from(self.rtl.high("refused"));
        if self.rtl.high("burst_write") {
            let ctx = self.rtl.get("burst_ctx");
            assert!(self.live.insert(ctx), "context {ctx} is given twice");
            assert!(self.live.len() <= CONTEXTS);
            self.bursts.insert(ctx, fields(&self.rtl, "burst", &BURST));
        }
        if self.rtl.high("fragment_write") {
            let index = self.rtl.get("fragment_index");
            self.fragments
                .insert(index, fields(&self.rtl, "fragment", &FRAGMENT));
        }
        if self.rtl.high("accept_valid") && self.ready("accept_ready") {
            assert!(
                self.accepted.is_none(),
                "accepted twice before it is enqueued"
            );
            self.accepted = Some((
                self.rtl.get("accept_ctx"),
                fields(&self.rtl, "accept", &IDENTITY),
            ));
        }
        if self.rtl.high("enqueue_valid") && self.ready("enqueue_ready") {
            self.enqueued(now);
        }
        if self.rtl.high("refusal_valid") && self.ready("refusal_ready") {
            self.refusal(now);
        }
    }

    /// The ready that was driven in this cycle, as the design sees it.
    pub fn ready(&self, name: &str) -> bool {
        self.rtl.driven(name) == 1
    }

    pub fn enqueued(&mut self, now: u64) {
        let e = fields(&self.rtl, "enqueue", &ENQUEUE);
        let (ctx, identity) = self.accepted.take().expect("accepted first");
        assert_eq!((e[0], e[1], e[2]), (ctx, identity[0], identity[1]));
        let q = identity[0] as usize;
        let p = self
            .expected
            .remove(&(q, identity[2] as u16))
            .expect("a posted burst");
        let d = &p.descriptor;
        assert_eq!(p.status, Status::Ok, "{p:?}");
        assert!(p.order > self.last_order[q], "order of queue {q}");
        self.last_order[q] = p.order;
        assert_eq!(identity[1], u64::from(d.burst.flow_slot()));
        assert_eq!(identity[3], u64::from(d.control.timestamp()));
        assert_eq!(identity[4], u64::from(d.burst.payload_len()));
        let segmented = d.control.kind() >= Kind::Tso as u8;
        let payload = u64::from(d.burst.payload_len());
        let mss = if segmented {
            payload.min(u64::from(d.control.mss()))
        } else {
            payload
        };
        let want = [
            d.rate.inv_rate(),
            payload,
            mss,
            d.header_len() as u64,
            u64::from(d.control.launch()),
            d.launch,
            u64::from(d.burst.flow_limit()),
        ];
        assert_eq!(e[3..], want, "{p:?}");
        let want = [
            u64::from(d.control.kind()),
            u64::from(d.control.ipv6()),
            u64::from(d.control.ip_id_fixed()),
            u64::from(d.control.cwr_all()),
            u64::from(d.control.l2_len()),
            u64::from(d.control.l3_len()),
            u64::from(d.control.l4_len()),
            d.header_len() as u64,
            d.header_addr,
            d.frag0_addr,
            u64::from(d.lengths.frag0_len()),
        ];
        assert_eq!(self.bursts[&ctx], want);
        if d.control.fragments() == 2 {
            assert_eq!(
                self.fragments[&(ctx * 16)],
                [d.frag1_addr, u64::from(d.lengths.frag1_len())]
            );
        }
        for (i, entry) in p.list.iter().enumerate() {
            assert_eq!(
                self.fragments[&(ctx * 16 + i as u64)],
                [entry.addr, u64::from(entry.length.bytes())]
            );
        }
        self.taken[q] += 1;
        *self.seen.entry(0).or_default() += 1;
        if self.held.contains(&q) {
            return;
        }
        let hold = self.rng.random_range(1..self.knobs.hold);
        self.releases.push((now + hold, q as u64, true, ctx));
    }

    pub fn refusal(&mut self, now: u64) {
        let r = fields(&self.rtl, "refusal", &REFUSAL);
        let (q, cookie, status) = (
            r[0] as usize,
            r[2] as u16,
            Status::from_code(r[3] as u8).expect("a code"),
        );
        *self.seen.entry(status.code()).or_default() += 1;
        if status == Status::DoorbellOutOfRange {
            assert_eq!((r[1], cookie, r[4], r[5]), (0, COOKIE_NONE, 0, 0));
            self.bell_errors += 1;
            return;
        }
        assert_eq!(r[4], 1, "a slot's reservation comes back");
        if cookie == COOKIE_NONE {
            self.unknown += 1;
            assert_eq!((status, r[1], r[5]), (Status::AddressFault, 0, 0));
        } else {
            let p = self.expected.remove(&(q, cookie)).expect("a posted burst");
            assert_eq!(status, p.status, "{p:?}");
            assert_eq!(r[1], u64::from(p.descriptor.burst.flow_slot()));
            assert_eq!(p.queue, q);
            if r[5] == 1 {
                assert!(self.live.contains(&r[6]));
            }
        }
        self.releases.push((now + 1, q as u64, r[5] == 1, r[6]));
    }

    pub fn run(&mut self, cycles: u64) {
        for _ in 0..cycles {
            self.drive_host();
            self.cycle();
        }
    }

    pub fn drain(&mut self) {
        for _ in 0..400_000 {
            self.cycle();
            if self.rtl.high("idle")
                && self.writes.is_empty()
                && self.releases.is_empty()
                && self.live.is_empty()
            {
                break;
            }
        }
        assert!(self.rtl.high("idle"), "fetch does not come to rest");
        assert!(self.live.is_empty());
    }
}
