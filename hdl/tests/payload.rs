// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload against a byte-exact reference: any alignment, any fragments, faults,
//! aborts, back-pressure, and the speed that it must keep.

mod memory_side;
mod support;

use memory_side::{HostMemory, ReadPort, Rtl, fields};
use std::collections::{HashMap, VecDeque};
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::payload::Payload;
use tsonic_regs::Status;

/// Widths of `SegmentJob`: kind, ipv6, ip_id_fixed, cwr_all, l2, l3, l4, len,
/// offset, index, first, last, ctx.
const JOB: [usize; 13] = [2, 1, 1, 1, 8, 9, 7, 16, 18, 18, 1, 1, 8];
const BEAT: [usize; 3] = [64, 1, 1];
const VERDICT: [usize; 5] = [8, 8, 1, 1, 18];

#[derive(Clone, Debug, Default)]
struct Burst {
    kind: u64,
    flags: [u64; 3],
    lens: [u64; 3],
    header_addr: u64,
    fragments: Vec<(u64, u64)>,
    payload: u64,
    mss: u64,
    offset: u64,
    index: u64,
    dead: bool,
    abort: bool,
    /// Writes to the stores that are still to be made.
    writes: usize,
}

impl Burst {
    fn header_len(&self) -> u64 {
        self.lens.iter().sum()
    }

    /// Addresses of payload bytes.
    fn addrs(&self, offset: u64, len: u64) -> Vec<u64> {
        self.fragments
            .iter()
            .flat_map(|&(addr, n)| addr..addr + n)
            .skip(offset as usize)
            .take(len as usize)
            .collect()
    }
}

#[derive(Debug, PartialEq)]
struct Segment {
    job: Vec<u64>,
    /// `None`: it cannot be read.
    header: Option<Vec<u8>>,
    payload: Vec<u8>,
    err: bool,
}

#[derive(Clone)]
struct Knobs {
    latency: std::ops::Range<u64>,
    rate: f64,
    ready: f64,
    grant: f64,
    hole: f64,
    abort: f64,
    small: bool,
}

struct Bench {
    rtl: Rtl,
    rng: Pcg64Mcg,
    memory: HostMemory,
    reads: ReadPort,
    knobs: Knobs,
    bursts: HashMap<u64, Burst>,
    burst_written: bool,
    free: VecDeque<u64>,
    grant: Option<(u64, u64, u64, bool, bool, bool, u64)>,
    want: VecDeque<Segment>,
    want_verdicts: VecDeque<Vec<u64>>,
    jobs: VecDeque<Vec<u64>>,
    headers: VecDeque<(Vec<u8>, bool)>,
    payloads: VecDeque<(Vec<u8>, bool)>,
    header: Vec<u8>,
    payload: Vec<u8>,
    next_page: u64,
    segments: u64,
    failed: u64,
    verdicts: u64,
    frame_beats: u64,
    first_beat: Option<u64>,
    last_beat: u64,
}

impl Bench {
    fn new(seed: u64, knobs: Knobs) -> Self {
        Self {
            rtl: Rtl::new(Payload::default()),
            rng: Pcg64Mcg::seed_from_u64(seed),
            memory: HostMemory::default(),
            reads: ReadPort::new(knobs.latency.clone(), knobs.rate, knobs.ready),
            knobs,
            bursts: HashMap::new(),
            burst_written: false,
            free: (0..256).collect(),
            grant: None,
            want: VecDeque::new(),
            want_verdicts: VecDeque::new(),
            jobs: VecDeque::new(),
            headers: VecDeque::new(),
            payloads: VecDeque::new(),
            header: Vec::new(),
            payload: Vec::new(),
            next_page: 16,
            segments: 0,
            failed: 0,
            verdicts: 0,
            frame_beats: 0,
            first_beat: None,
            last_beat: 0,
        }
    }

    /// Memory of `len` bytes with random contents at a random alignment; with a
    /// hole in some page of it, maybe.
    fn area(&mut self, len: u64) -> u64 {
        let addr = self.next_page * 4096 + self.rng.random_range(0..4096);
        self.next_page += len / 4096 + 3;
        let data: Vec<u8> = (0..len).map(|_| self.rng.random()).collect();
        self.memory.write(addr, &data);
        if self.rng.random_bool(self.knobs.hole) {
            let first = addr / 4096;
            let last = (addr + len - 1) / 4096;
            self.memory.unmap(self.rng.random_range(first..=last));
        }
        addr
    }

    fn add(&mut self, burst: Burst) {
        let ctx = self.free.pop_front().expect("a context");
        self.bursts.insert(ctx, burst);
    }

    fn random_burst(&mut self) {
        let l2 = 14 + 4 * self.rng.random_range(0..3);
        let l3 = 20 + 2 * self.rng.random_range(0..50);
        let l4 = 20 + 2 * self.rng.random_range(0..20);
        let count = *[0, 1, 1, 1, 2, 3, 5, 17]
            .get(self.rng.random_range(0..8))
            .unwrap_or(&1);
        let largest = if self.knobs.small { 40 } else { 3000 };
        let mut burst = Burst {
            kind: self.rng.random_range(0..4),
            flags: [0, 1, 2].map(|_| self.rng.random_range(0..2)),
            lens: [l2, l3, l4],
            header_addr: self.area(l2 + l3 + l4),
            ..Burst::default()
        };
        for _ in 0..count {
            let len = if self.rng.random_bool(0.3) {
                self.rng.random_range(1..10)
            } else {
                self.rng.random_range(1..largest)
            };
            let addr = self.area(len);
            burst.fragments.push((addr, len));
            burst.payload += len;
        }
        burst.mss = self
            .rng
            .random_range(1..largest)
            .max(burst.payload / 40)
            .min(burst.payload);
        self.add(burst);
    }

    /// Writes one row of the stores in this cycle, if one is missing; bursts not in
    /// two cycles in a row.
    fn write_store(&mut self) {
        self.rtl.set("burst_write", 0);
        self.rtl.set("fragment_write", 0);
        let burst_written = std::mem::take(&mut self.burst_written);
        let Some((&ctx, burst)) = self
            .bursts
            .iter_mut()
            .filter(|(_, b)| b.writes < b.fragments.len().max(1))
            .min_by_key(|(ctx, _)| **ctx)
        else {
            return;
        };
        if burst.writes == 0 && burst_written {
            return;
        }
        if burst.writes == 0 {
            self.burst_written = true;
            let (addr, len) = burst.fragments.first().copied().unwrap_or((0, 0));
            let header_len = burst.header_len();
            self.rtl.set("burst_write", 1);
            self.rtl.set("burst_ctx", ctx);
            self.rtl.set_fields(
                "burst",
                &[
                    (burst.kind, 4),
                    (burst.flags[0], 1),
                    (burst.flags[1], 1),
                    (burst.flags[2], 1),
                    (burst.lens[0], 8),
                    (burst.lens[1], 9),
                    (burst.lens[2], 7),
                    (header_len, 9),
                    (burst.header_addr, 64),
                    (addr, 64),
                    (len, 18),
                ],
            );
        } else {
            let (addr, len) = burst.fragments[burst.writes];
            self.rtl.set("fragment_write", 1);
            self.rtl
                .set("fragment_index", ctx * 16 + burst.writes as u64 - 1);
            self.rtl.set_fields("fragment", &[(addr, 64), (len, 18)]);
        }
        burst.writes += 1;
    }

    /// Chooses the next grant.
    fn choose(&mut self) {
        if self.grant.is_some() || !self.rng.random_bool(self.knobs.grant) {
            return;
        }
        let mut ready: Vec<u64> = self
            .bursts
            .iter()
            .filter(|(_, b)| b.writes >= b.fragments.len().max(1))
            .map(|(&ctx, _)| ctx)
            .collect();
        ready.sort_unstable();
        if ready.is_empty() {
            return;
        }
        // Often the same burst again, else any of the first few.
        let n = if self.rng.random_bool(0.6) {
            0
        } else {
            self.rng.random_range(0..ready.len().min(8))
        };
        let ctx = ready[n];
        let abort_now = self.rng.random_bool(self.knobs.abort);
        let burst = self.bursts.get_mut(&ctx).expect("a burst");
        burst.abort |= abort_now && burst.index > 0;
        let len = burst.mss.min(burst.payload - burst.offset);
        let last = burst.abort || burst.offset + len == burst.payload;
        let len = if burst.abort { 0 } else { len };
        self.grant = Some((
            ctx,
            burst.offset,
            len,
            burst.index == 0,
            last,
            burst.abort,
            burst.index,
        ));
    }

    /// What must come of a grant that was taken.
    fn granted(&mut self) {
        let (ctx, offset, len, first, last, aborted, index) = self.grant.take().expect("a grant");
        let burst = self.bursts.get_mut(&ctx).expect("a burst");
        burst.offset += len;
        burst.index += 1;
        let burst = burst.clone();
        let bytes = |addrs: Vec<u64>| {
            addrs
                .iter()
                .map(|&a| self.memory.byte(a))
                .collect::<Option<Vec<u8>>>()
        };
        let header = bytes((burst.header_addr..burst.header_addr + burst.header_len()).collect());
        let payload = bytes(burst.addrs(offset, len));
        let fault = u64::from(Status::AddressFault.code());
        let mut dead = burst.dead;
        if aborted || burst.dead {
            self.want_verdicts
                .push_back(vec![ctx, 0, 1, u64::from(last), index]);
        } else {
            let err = header.is_none() || payload.is_none();
            let len = if header.is_none() { 0 } else { len };
            let job = vec![
                burst.kind,
                burst.flags[0],
                burst.flags[1],
                burst.flags[2],
                burst.lens[0],
                burst.lens[1],
                burst.lens[2],
                len,
                offset,
                index,
                u64::from(first),
                u64::from(last),
                ctx,
            ];
            self.want.push_back(Segment {
                job,
                header,
                payload: payload.unwrap_or_default(),
                err,
            });
            if err {
                dead = true;
                self.want_verdicts
                    .push_back(vec![ctx, fault, 0, u64::from(last), index]);
            }
        }
        if last {
            self.bursts.remove(&ctx);
            self.free.push_back(ctx);
        } else if let Some(burst) = self.bursts.get_mut(&ctx) {
            burst.dead = dead;
        }
    }

    fn cycle(&mut self) {
        let now = self.rtl.now;
        self.choose();
        self.write_store();
        let g = self.grant.unwrap_or_default();
        let rtl = &mut self.rtl;
        rtl.set("grant_valid", u64::from(self.grant.is_some()));
        rtl.set("grant_ctx", g.0);
        rtl.set("grant_offset", g.1);
        rtl.set("grant_len", g.2);
        rtl.set("grant_first", u64::from(g.3));
        rtl.set("grant_last", u64::from(g.4));
        rtl.set("grant_aborted", u64::from(g.5));
        rtl.set("grant_index", g.6);
        let beat = self.reads.beat(&self.memory, now, &mut self.rng);
        let b = beat.unwrap_or_default();
        rtl.set("rd_valid", u64::from(beat.is_some()));
        rtl.set("rd_data", b.data);
        rtl.set("rd_last", u64::from(b.last));
        rtl.set("rd_err", u64::from(b.err));
        rtl.set(
            "rd_req_ready",
            u64::from(self.rng.random_bool(self.knobs.ready)),
        );
        for name in [
            "segment_ready",
            "header_ready",
            "payload_ready",
            "verdict_ready",
        ] {
            rtl.set(name, u64::from(self.rng.random_bool(self.knobs.ready)));
        }
        rtl.settle();
        if let (Some(beat), true) = (beat, rtl.high("rd_ready")) {
            self.reads.taken(beat);
        }
        if rtl.high("rd_req_valid") && rtl.driven("rd_req_ready") == 1 {
            let (addr, len) = (rtl.get("rd_req_addr"), rtl.get("rd_req_len"));
            self.reads.request(addr, len, now, &mut self.rng);
        }
        let taken = self.grant.is_some() && rtl.high("grant_ready");
        self.sample(now);
        self.rtl.edge();
        if taken {
            self.granted();
        }
        self.compare();
    }

    fn sample(&mut self, now: u64) {
        let rtl = &self.rtl;
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
        if rtl.high("payload_valid") && rtl.driven("payload_ready") == 1 {
            let beat = fields(rtl, "payload", &BEAT);
            self.payload.extend(beat[0].to_le_bytes());
            self.first_beat.get_or_insert(now);
            self.last_beat = now;
            if beat[1] == 1 {
                self.payloads
                    .push_back((std::mem::take(&mut self.payload), beat[2] == 1));
            }
        }
        if rtl.high("verdict_valid") && rtl.driven("verdict_ready") == 1 {
            let verdict = fields(rtl, "verdict", &VERDICT);
            let want = self
                .want_verdicts
                .pop_front()
                .expect("a verdict that is expected");
            assert_eq!(verdict, want);
            self.verdicts += 1;
        }
    }

    /// Compares whole segments.
    fn compare(&mut self) {
        while let (Some(job), Some((header, header_err))) =
            (self.jobs.front(), self.headers.front())
        {
            let len = job[7];
            if len > 0 && self.payloads.is_empty() {
                return;
            }
            let want = self.want.pop_front().expect("a segment that is expected");
            assert_eq!(*job, want.job);
            assert_eq!(*header_err, want.header.is_none());
            let mut bytes = 0;
            if let Some(wanted) = &want.header {
                let size = wanted.len();
                assert_eq!(header.len(), size.next_multiple_of(8), "beats of a header");
                assert_eq!(header[..size], *wanted);
                bytes += size as u64;
            } else {
                self.failed += 1;
            }
            if len > 0 {
                let (payload, err) = self.payloads.pop_front().expect("a payload");
                assert_eq!(err, want.err);
                if err {
                    self.failed += 1;
                } else {
                    assert_eq!(
                        payload.len() as u64,
                        len.next_multiple_of(8),
                        "beats of a payload"
                    );
                    assert_eq!(payload[..len as usize], want.payload);
                }
            }
            self.frame_beats += (bytes + len).div_ceil(8);
            self.segments += 1;
            self.jobs.pop_front();
            self.headers.pop_front();
        }
    }

    fn drain(&mut self) {
        for _ in 0..100_000 {
            if self.bursts.is_empty()
                && self.grant.is_none()
                && self.rtl.high("idle")
                && self.reads.idle()
            {
                break;
            }
            self.cycle();
        }
        assert!(
            self.rtl.high("idle") && self.bursts.is_empty(),
            "payload does not come to rest"
        );
        assert!(self.want.is_empty() && self.want_verdicts.is_empty());
    }

    fn run(&mut self, bursts: usize) {
        let mut left = bursts;
        while left > 0 {
            if self.bursts.len() < 12 {
                self.random_burst();
                left -= 1;
            }
            self.cycle();
        }
        self.drain();
    }
}

const ROUGH: Knobs = Knobs {
    latency: 1..80,
    rate: 0.8,
    ready: 0.7,
    grant: 0.5,
    hole: 0.0,
    abort: 0.0,
    small: false,
};

#[test]
fn every_byte_arrives_in_its_place() {
    let mut bench = Bench::new(1, ROUGH);
    bench.run(1500);
    println!("{} segments in {} cycles", bench.segments, bench.rtl.now);
    assert!(bench.segments > 4000 && bench.verdicts == 0);
}

#[test]
fn small_fragments_and_segments() {
    let mut bench = Bench::new(
        2,
        Knobs {
            small: true,
            latency: 1..4,
            rate: 1.0,
            ready: 1.0,
            grant: 1.0,
            ..ROUGH
        },
    );
    bench.run(2000);
    println!("{} segments in {} cycles", bench.segments, bench.rtl.now);
    assert!(bench.segments > 4000);
}

#[test]
fn faults_and_aborts() {
    let mut bench = Bench::new(
        3,
        Knobs {
            hole: 0.05,
            abort: 0.05,
            ..ROUGH
        },
    );
    bench.run(2000);
    println!(
        "{} segments, {} failed in their payload, {} verdicts",
        bench.segments, bench.failed, bench.verdicts
    );
    assert!(bench.failed > 100 && bench.verdicts > 500);
}

/// Frame beats per cycle, and cycles per segment, of four bursts of `segments`
/// segments of `mss` bytes behind a header of 14 + 20 + `l4` bytes.
fn utilisation(offset: u64, latency: u64, segments: u64, mss: u64, l4: u64) -> (f64, f64) {
    let exact = Knobs {
        latency: latency..latency + 1,
        rate: 1.0,
        ready: 1.0,
        grant: 1.0,
        hole: 0.0,
        abort: 0.0,
        small: false,
    };
    let mut bench = Bench::new(4, exact);
    for _ in 0..4 {
        let (header, payload) = (
            bench.next_page * 4096 + offset,
            (bench.next_page + 1) * 4096 + offset,
        );
        bench.next_page += 32;
        bench.memory.write(header, &[0xa5; 94]);
        let data: Vec<u8> = (0..segments * mss).map(|i| (i * 7 % 251) as u8).collect();
        bench.memory.write(payload, &data);
        bench.add(Burst {
            kind: 2,
            lens: [14, 20, l4],
            header_addr: header,
            fragments: vec![(payload, segments * mss)],
            payload: segments * mss,
            mss,
            ..Burst::default()
        });
    }
    bench.drain();
    assert_eq!(bench.segments, 4 * segments);
    let cycles = (bench.last_beat - bench.first_beat.expect("a beat") + 10) as f64;
    (
        bench.frame_beats as f64 / cycles,
        cycles / bench.segments as f64,
    )
}

#[test]
fn bursts_of_45_segments_keep_the_output_busy() {
    for offset in [0, 3, 8, 100, 511] {
        for latency in [4, 250] {
            let (busy, _) = utilisation(offset, latency, 45, 1448, 32);
            println!("offset {offset}, latency {latency}: {busy:.4}");
            assert!(
                busy >= 0.97,
                "offset {offset}, latency {latency}: {busy:.4}"
            );
        }
    }
}

#[test]
fn small_segments_follow_each_other() {
    // Frames of 60 bytes, whose words in memory are 9 to 10: two more than beats.
    for (offset, latency) in [(0, 4), (3, 4), (3, 250)] {
        let (_, cycles) = utilisation(offset, latency, 250, 6, 20);
        println!("offset {offset}, latency {latency}: {cycles:.2} cycles a segment");
        assert!(cycles <= 11.0, "{cycles:.2} cycles a segment");
    }
}
