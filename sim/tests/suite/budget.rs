// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte budgets of the whole NIC. What is checked is what the host can see: frames
//! that departed, completions, write-backs.

use std::collections::HashMap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_regs::Status;
use tsonic_regs::completion::WriteBack;
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::limits::BQL_STALL_SHIFT;
use tsonic_regs::registers::{Events, global, queue};
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, source_port, tcp4_header, tcp4_layout};

/// Ticks of a microsecond.
const US: u64 = 125;
const MSS: usize = 1_448;
/// Wire bytes of a full segment.
const SEGMENT: u64 = MSS as u64 + 54;

fn tso<'a>(header: &'a [u8], data: &'a [u8], cookie: u16) -> Post<'a> {
    Post {
        layout: tcp4_layout(Kind::Tso, MSS),
        header,
        payload: data,
        cuts: &[],
        flow_slot: 0,
        inv_rate: 0,
        launch: None,
        cookie,
    }
}

/// Parameters of a budget.
#[derive(Clone, Copy)]
pub struct Limits {
    /// BQL_LIMIT.
    pub limit: u32,
    /// BQL_MIN.
    pub min: u32,
    /// BQL_MAX.
    pub max: u32,
    /// BQL_HOLD.
    pub hold: u32,
    /// BQL_STALL.
    pub stall: u32,
}

impl Limits {
    /// Free to find its own from 0; a hold of a second.
    pub const FREE: Limits = Limits {
        limit: 0,
        min: 0,
        max: 1_879_048_192,
        hold: 125_000_000,
        stall: 0,
    };

    /// A limit that stays.
    pub fn fixed(bytes: u32) -> Limits {
        Limits {
            limit: bytes,
            min: bytes,
            max: bytes,
            ..Limits::FREE
        }
    }
}

/// Starts a queue's budget; the address of its write-back.
pub fn start<N: Nic>(b: &mut Bench<N>, q: usize, limits: Limits) -> u64 {
    let back = b.alloc(64, 64);
    b.write_queue(q, queue::WRITE_BACK_LO, back as u32);
    b.write_queue(q, queue::WRITE_BACK_HI, (back >> 32) as u32);
    b.write_queue(q, queue::BQL_MIN, limits.min);
    b.write_queue(q, queue::BQL_MAX, limits.max);
    b.write_queue(q, queue::BQL_HOLD, limits.hold);
    b.write_queue(q, queue::BQL_STALL, limits.stall);
    b.write_queue(q, queue::BQL_LIMIT, limits.limit);
    back
}

/// What stands at the address of a write-back.
pub fn written_back<N: Nic>(b: &Bench<N>, at: u64) -> WriteBack {
    let bytes = b.peek(at, WriteBack::BYTES);
    let word = |i: usize| u64::from_le_bytes(bytes[i..i + 8].try_into().expect("eight bytes"));
    WriteBack::from_words([word(0), word(8)])
}

/// The start of a budget is written back, its end is not, and nothing is written
/// beyond the 16 bytes.
pub fn write_back<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let back = start(
        &mut b,
        0,
        Limits {
            limit: 70_000,
            ..Limits::FREE
        },
    );
    b.poke(back + 16, &[0x5a; 48]);
    assert!(b.drain(100_000));
    let first = written_back(&b, back);
    assert_eq!((first.bytes.limit(), first.bytes.inflight()), (70_000, 0));
    assert_eq!(first.stalls.0, 0);
    b.poke(back, &[0xee; 16]);
    let (header, data) = (tcp4_header(0), payload(1, 10 * MSS));
    let d = b.place(&tso(&header, &data, 0));
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(1_000_000));
    let second = written_back(&b, back);
    assert_eq!((second.bytes.limit(), second.bytes.inflight()), (70_000, 0));
    b.poke(back, &[0xee; 16]);
    b.write_queue(0, queue::BQL_MAX, 0);
    b.write_queue(0, queue::BQL_LIMIT, 0);
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(1_000_000));
    assert_eq!(b.completions(0).len(), 2);
    assert_eq!(b.peek(back, 16), [0xee; 16], "a budget that ended");
    assert_eq!(b.peek(back + 16, 48), [0x5a; 48]);
}

/// From limit 0 an unpaced backlog fills a line of 1 Gb/s within 10 ms, whatever the
/// latency of the host's memory: the share, in the tenth millisecond, of what goes out
/// without a budget.
pub fn fills_the_line<N: Nic>(mut make: impl FnMut() -> N, latency: Ticks) -> f64 {
    let config = RootComplexConfig {
        read_latency: latency,
        write_latency: latency,
        ..RootComplexConfig::default()
    };
    // Bytes in the last of some milliseconds.
    let mut bytes = |budget: bool, ms: u64| {
        let mut b = Bench::new(make(), config, 16 << 20);
        b.mac.slow = Some((1, 1));
        b.enable_tx(0, 8, 9);
        if budget {
            start(&mut b, 0, Limits::FREE);
        }
        let (header, data) = (tcp4_header(0), payload(1, 45 * MSS));
        let d = b.place(&tso(&header, &data, 0));
        let begin = b.nic.now().0;
        let end = begin + ms * 1_000 * US;
        let (mut posted, mut done) = (0, 0);
        while b.nic.now().0 < end {
            while posted - done < 128 {
                b.push(0, &d);
                posted += 1;
            }
            b.ring(0);
            b.run_to(b.nic.now() + Ticks(500 * US));
            done += b.completions(0).len();
        }
        let late = end - 1_000 * US..end;
        let within = b.mac.sent.iter().filter(|(at, _)| late.contains(&at.0));
        within.map(|(_, f)| f.len()).sum::<usize>() as f64
    };
    bytes(true, 10) / bytes(false, 2)
}

/// 32 paced flows of bursts of 45 segments under a limit of 200 KB that is less than
/// their bursts together: none waits for another, all keep their rates.
pub fn paced_flows_go_on<N: Nic>(nic: N) {
    const FLOWS: u16 = 32;
    const BURSTS: usize = 2;
    let mut b = bench(nic);
    b.enable_tx(0, 8, 9);
    let back = start(&mut b, 0, Limits::fixed(200_000));
    let data = payload(1, 45 * MSS);
    // Together 70 % of 1 Gb/s: 27 to 58 ticks a byte.
    let ticks_a_byte = |flow: u16| 27 + u64::from(flow);
    for flow in 1..=FLOWS {
        let header = tcp4_header(flow);
        let mut d = b.place(&tso(&header, &data, flow));
        d.burst.set_flow_slot(flow);
        d.rate.set_inv_rate(ticks_a_byte(flow) << 28);
        for _ in 0..BURSTS {
            b.push(0, &d);
        }
    }
    b.ring(0);
    assert!(b.drain(100_000_000));
    let c = b.completions(0);
    assert_eq!(c.len(), BURSTS * usize::from(FLOWS));
    assert!(c.iter().all(|c| c.status.status() == Status::Ok.code()));
    let mut flows: HashMap<u16, Vec<u64>> = HashMap::new();
    for (at, f) in &b.mac.sent {
        flows.entry(source_port(f) - 40_000).or_default().push(at.0);
    }
    for flow in 1..=FLOWS {
        let sent = &flows[&flow];
        assert_eq!(sent.len(), BURSTS * 45);
        let span = (sent[sent.len() - 1] - sent[0]) as f64;
        let exact = (sent.len() as u64 - 1) * SEGMENT * ticks_a_byte(flow);
        let error = (span - exact as f64) / exact as f64;
        assert!(error.abs() < 0.002, "flow {flow}: {error}");
    }
    let last = written_back(&b, back);
    assert_eq!((last.bytes.limit(), last.bytes.inflight()), (200_000, 0));
}

/// A burst that its flow holds for 100 ms is not in flight meanwhile: the limit ends
/// where it does without the hold.
pub fn a_hold_is_not_in_flight<N: Nic>(mut make: impl FnMut() -> N) {
    let mut limit_after = |hold: u64| {
        let mut b = bench(make());
        b.enable_tx(0, 8, 9);
        let back = start(&mut b, 0, Limits::FREE);
        let (header, data) = (tcp4_header(1), payload(1, 20 * MSS));
        let unheld = b.place(&Post {
            flow_slot: 1,
            ..tso(&header, &data, 0)
        });
        for _ in 0..4 {
            b.push(0, &unheld);
        }
        b.ring(0);
        assert!(b.drain(10_000_000));
        let before = written_back(&b, back).bytes.limit();
        assert!(before > 0);
        let begin = b.nic.now().0;
        let header = tcp4_header(2);
        let held = b.place(&Post {
            flow_slot: 2,
            launch: Some(begin + hold),
            ..tso(&header, &data, 1)
        });
        b.push(0, &held);
        b.ring(0);
        b.run_to(Ticks(begin + hold));
        let waiting = written_back(&b, back).bytes;
        assert_eq!(
            (waiting.limit(), waiting.inflight()),
            (before, 0),
            "nothing is in flight while it is held"
        );
        assert!(b.drain(10_000_000));
        assert_eq!(b.completions(0).len(), 5);
        let end = written_back(&b, back).bytes;
        assert_eq!(end.inflight(), 0);
        end.limit()
    };
    // A launch time that is almost now, and one 100 ms away.
    let (at_once, later) = (limit_after(20 * US), limit_after(100_000 * US));
    assert!(later <= at_once, "{later} after a hold, {at_once} without");
}

/// Random bursts, good and bad, reads that fail, queues that are turned off and on,
/// budgets that start again: what is in flight never falls below 0, is 0 in the end,
/// and between two flushes no queue with a fixed limit sends more than that and a
/// segment.
pub fn random_faults<N: Nic>(nic: N, rounds: u32, seed: u64) {
    const LIMITS: [u32; 4] = [9_000, 20_000, 45_000, 3_000];
    const FLUSH: u64 = 4_000;
    /// Ticks that the flush of four queues takes at most.
    const FLUSHING: u64 = 400;
    let config = RootComplexConfig {
        read_faults_per_million: 10_000,
        ..RootComplexConfig::default()
    };
    let mut b = Bench::new(nic, config, 32 << 20);
    b.write(global::CREDIT_FLUSH.offset, FLUSH as u32);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let back: Vec<u64> = (0..4)
        .map(|q| {
            b.enable_tx(q, 6, 7);
            start(&mut b, q, Limits::fixed(LIMITS[q]))
        })
        .collect();
    let area = payload(seed as u32, 40_000);
    let prepared: Vec<Vec<TxDescriptor>> = (0..4u16)
        .map(|q| {
            (0..40)
                .map(|i| {
                    let len = [rng.random_range(1..1_000), rng.random_range(1..40_000)][i % 2];
                    let header = tcp4_header(q);
                    let mut d = b.place(&Post {
                        cuts: &[700, 900],
                        ..tso(&header, &area[..len], 0)
                    });
                    match i {
                        7 => d.control.set_mss(0),
                        17 => d.header_addr = 0x1000,
                        27 => d.frag0_addr = 0x1000,
                        37 => d.lengths.set_frag0_len(1),
                        _ => {}
                    }
                    // A flow belongs to one queue.
                    d.burst.set_flow_slot([0, 1 + q, 5 + q][i % 3]);
                    d.rate.set_inv_rate([0, 1 << 27, 3 << 28][i % 3]);
                    d
                })
                .collect()
        })
        .collect();
    let mut books = Books::default();
    for round in 0..rounds {
        for q in 0..4 {
            if let Some(since) = books.off[q] {
                // What was fetched has come back by then, what was not never does.
                if round - since > 30 {
                    books.forget(q);
                    b.enable_tx(q, 6, 7);
                }
                continue;
            }
            let room = 60 - books.open[q];
            let many = rng.random_range(0..6).min(room);
            for _ in 0..many {
                b.push(q, &prepared[q][rng.random_range(0..40)]);
                books.open[q] += 1;
                books.posted += 1;
            }
            if many > 0 {
                b.ring(q);
            }
            if rng.random_bool(0.004) {
                b.disable_tx(q);
                books.off[q] = Some(round);
            }
            if rng.random_bool(0.01) {
                b.write_queue(q, queue::BQL_LIMIT, LIMITS[q]);
            }
        }
        b.run_to(b.nic.now() + Ticks(rng.random_range(1..6_000)));
        for q in 0..4 {
            let state = written_back(&b, back[q]).bytes;
            let most = u64::from(LIMITS[q]) + SEGMENT;
            assert!(
                state.limit() == LIMITS[q] && u64::from(state.inflight()) <= most,
                "round {round}, queue {q}: {state:?}"
            );
        }
        books.reap(&mut b);
    }
    b.run_to(b.nic.now() + Ticks(200_000));
    books.reap(&mut b);
    for q in 0..4 {
        if books.off[q].is_some() {
            books.forget(q);
        }
    }
    let mut turns = 0;
    while books.open.iter().any(|n| *n > 0) {
        b.run_to(b.nic.now() + Ticks(50_000));
        books.reap(&mut b);
        turns += 1;
        assert!(turns < 200, "bursts are left: {:?}", books.open);
    }
    assert!(b.drain(10_000_000));
    assert_eq!(books.posted, books.done + books.forgotten);
    assert!(books.errors > 0 && books.restarts > 0);
    for (q, at) in back.iter().enumerate() {
        let state = written_back(&b, *at).bytes;
        assert_eq!(
            state.inflight(),
            0,
            "queue {q} after {} bursts",
            books.posted
        );
    }
    // Between two flushes a queue with a fixed limit sends it and a segment at most. What
    // departs while a flush goes on may still be credited by it.
    let mut windows: HashMap<(u16, u64), u64> = HashMap::new();
    for (at, f) in b.mac.sent.iter().filter(|(at, _)| at.0 % FLUSH > FLUSHING) {
        let q = source_port(f) - 40_000;
        *windows.entry((q, at.0 / FLUSH)).or_default() += f.len() as u64;
    }
    for ((q, window), bytes) in windows {
        let most = u64::from(LIMITS[usize::from(q)]) + SEGMENT;
        assert!(bytes <= most, "queue {q}, period {window}: {bytes} bytes");
    }
}

/// Bursts of four queues.
#[derive(Default)]
struct Books {
    /// Posted and not completed.
    open: [usize; 4],
    /// Round in which the queue was turned off.
    off: [Option<u32>; 4],
    posted: usize,
    done: usize,
    errors: usize,
    /// Posted, and never fetched when their queue was turned off.
    forgotten: usize,
    restarts: usize,
}

impl Books {
    fn reap<N: Nic>(&mut self, b: &mut Bench<N>) {
        for q in 0..4 {
            for c in b.completions(q) {
                let status = c.status.status();
                // A doorbell that came too late belongs to no burst.
                if status == Status::QueueDisabled.code() {
                    continue;
                }
                assert!(self.off[q].is_some() || status != Status::QueueReset.code());
                self.open[q] -= 1;
                self.done += 1;
                self.errors += usize::from(status != Status::Ok.code());
            }
        }
    }

    fn forget(&mut self, q: usize) {
        self.forgotten += std::mem::take(&mut self.open[q]);
        self.off[q] = None;
        self.restarts += 1;
    }
}

/// A queue whose budget is used up holds up no other, and goes on with the flush.
pub fn a_closed_queue_blocks_no_other<N: Nic>(nic: N) {
    let mut b = bench(nic);
    // A period that is never over in this test, to begin with.
    b.write(global::CREDIT_FLUSH.offset, u32::MAX);
    for q in 0..2 {
        b.enable_tx(q, 8, 9);
    }
    start(&mut b, 0, Limits::fixed(2_000));
    let data = payload(1, 45 * MSS);
    for q in 0..2 {
        let header = tcp4_header(q as u16);
        let d = b.place(&tso(&header, &data, 0));
        for _ in 0..4 {
            b.push(q, &d);
        }
        b.ring(q);
    }
    b.run_to(b.nic.now() + Ticks(1_000 * US));
    let of = |b: &Bench<N>, q: u16| {
        let mine = |f: &Vec<u8>| source_port(f) - 40_000 == q;
        b.mac.sent.iter().filter(|(_, f)| mine(f)).count()
    };
    assert_eq!(
        of(&b, 0),
        2,
        "2,000 bytes and what began before they were used up"
    );
    assert_eq!(of(&b, 1), 4 * 45);
    assert_eq!(b.completions(1).len(), 4);
    // The path was never idle while queue 1 had work: 8 bytes a tick.
    let sent = &b.mac.sent;
    let span = sent[sent.len() - 1].0.0 - sent[10].0.0;
    let bytes: usize = sent[11..].iter().map(|(_, f)| f.len()).sum();
    assert!(
        bytes as u64 > span * 8 * 95 / 100,
        "{bytes} in {span} ticks"
    );
    b.write(global::CREDIT_FLUSH.offset, 1_000);
    assert!(b.drain(10_000_000));
    assert_eq!(b.completions(0).len(), 4);
    assert_eq!(of(&b, 0), 4 * 45);
}

/// A queue whose wire stands still for longer than the threshold counts a stall, in
/// steps, and one below half of it none.
pub fn stalls<N: Nic>(nic: N) {
    let step = 1u64 << BQL_STALL_SHIFT;
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let (header, data) = (tcp4_header(0), payload(1, MSS));
    let d = b.place(&tso(&header, &data, 0));
    // 3 steps and a tick are 4 steps.
    let back = start(
        &mut b,
        0,
        Limits {
            limit: 100_000,
            stall: 3 * step as u32 + 1,
            ..Limits::FREE
        },
    );
    let send = |b: &mut Bench<N>, held: u64| {
        // To the middle of a step, a few steps on.
        let at = (b.nic.now().0 / step + 6) * step + step / 2;
        b.run_to(Ticks(at));
        // The wire takes nothing for so long.
        b.mac.hold_until(Ticks(at + held));
        b.push(0, &d);
        b.ring(0);
        assert!(b.drain(100 * step));
        let state = written_back(b, back);
        assert_eq!(state.bytes.inflight(), 0);
        (state.stalls.count(), u64::from(state.stalls.longest()))
    };
    let mut stalled = Events(0);
    stalled.set_bql_stall(1);
    assert_eq!(send(&mut b, step), (0, 0));
    assert_eq!(b.read(global::EVENT_STATUS.offset), 0);
    assert_eq!(send(&mut b, 5 * step), (1, 5 * step));
    assert_eq!(b.read(global::EVENT_STATUS.offset), stalled.0);
    assert_eq!(send(&mut b, 4 * step), (2, 5 * step));
    // A budget that starts again has found none.
    b.write_queue(0, queue::BQL_LIMIT, 100_000);
    assert!(b.drain(100_000));
    assert_eq!(written_back(&b, back).stalls.0, 0);
}
