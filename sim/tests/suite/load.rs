// SPDX-License-Identifier: MIT OR Apache-2.0
//! Load: rings that wrap, fairness, conservation over many random
//! bursts, receive under pressure. The checks are those of
//! [`tsonic_sim::checkers`], which know nothing of how a NIC decides.

use std::collections::{HashMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_regs::Status;
use tsonic_regs::descriptor::{COOKIE_NONE, Kind};
use tsonic_regs::registers::{global, queue};
use tsonic_sim::checkers::{Fairness, Ledger};
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, source_port, tcp4_header, tcp4_layout};

pub(super) fn tso<'a>(header: &'a [u8], data: &'a [u8], mss: usize, cookie: u16) -> Post<'a> {
    Post {
        layout: tcp4_layout(Kind::Tso, mss),
        header,
        payload: data,
        cuts: &[],
        flow_slot: 0,
        inv_rate: 0,
        launch: None,
        cookie,
    }
}

/// Many times round a small ring: every burst once, phases and heads right.
pub fn ring_wrap<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let (header, data) = (tcp4_header(0), payload(1, 300));
    let d = b.place(&tso(&header, &data, 100, 0));
    let (mut posted, mut done) = (0u32, 0u32);
    let mut rng = Pcg64Mcg::seed_from_u64(3);
    while done < 1_000 {
        // A ring of 64 slots holds 63 bursts.
        let room = 63 - (posted - done);
        let n = rng.random_range(0..=room);
        for _ in 0..n {
            let mut d = d;
            d.burst.set_cookie((posted % 60_000) as u16);
            b.push(0, &d);
            posted += 1;
        }
        b.ring(0);
        let until = b.nic.now() + Ticks(rng.random_range(1..4_000));
        b.run_to(until);
        for c in b.completions(0) {
            assert_eq!(u32::from(c.status.cookie()), done % 60_000, "in order");
            assert_eq!(c.status.status(), Status::Ok.code());
            done += 1;
            let head = u32::from(c.done.head());
            // Slots before the head are free: those of the completed at least.
            let free = head.wrapping_sub(done) % 64;
            assert!(
                free <= posted - done,
                "head {head} after {done} of {posted}"
            );
        }
    }
    assert!(b.drain(1_000_000));
    let rest = b.completions(0).len() as u32;
    assert_eq!(done + rest, posted);
    assert_eq!(b.mac.sent.len() as u32, 3 * posted);
}

/// Every flow of the table due at one tick: none is lost, and each keeps its order.
/// `turns`: each is served once before any is served twice, as in a NIC that finds
/// all that are due at once.
pub fn all_at_once<N: Nic>(nic: N, turns: bool) {
    let mut b = bench(nic);
    let flows = b.read(global::FLOW_SLOTS.offset).min(1_024) as u16;
    b.enable_tx(0, 12, 13);
    let data = payload(1, 300);
    for flow in 1..flows {
        let header = tcp4_header(flow);
        let mut d = b.place(&tso(&header, &data, 100, flow));
        d.control.set_launch(1);
        d.launch = 200_000;
        d.burst.set_flow_slot(flow);
        b.push(0, &d);
    }
    b.ring(0);
    assert!(b.drain(10_000_000));
    assert_eq!(b.completions(0).len() + 1, usize::from(flows));
    let sent = &b.mac.sent;
    assert_eq!(sent.len(), 3 * (usize::from(flows) - 1));
    assert!(sent[0].0 >= Ticks(200_000));
    let mut frames = vec![0; usize::from(flows)];
    for (_, f) in sent {
        let next = &mut frames[usize::from(source_port(f) - 40_000)];
        assert_eq!(f[54..], data[*next * 100..][..100], "in order");
        *next += 1;
    }
    assert!(frames[1..].iter().all(|n| *n == 3));
    for round in sent.chunks(usize::from(flows) - 1).filter(|_| turns) {
        let mut ports: Vec<u16> = round.iter().map(|(_, f)| source_port(f)).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len() + 1, usize::from(flows));
    }
}

/// Reads that fail at random, of descriptors, headers and payload: as many
/// completions as bursts, and the books match the wire.
pub fn injected_faults<N: Nic>(nic: N, bursts: u32) {
    let config = RootComplexConfig {
        read_faults_per_million: 20_000,
        ..RootComplexConfig::default()
    };
    let mut b = Bench::new(nic, config, 16 << 20);
    b.enable_tx(0, 7, 8);
    let (header, data) = (tcp4_header(1), payload(1, 5_000));
    let post = Post {
        cuts: &[1_000, 1_000, 2_000],
        ..tso(&header, &data, 900, 0)
    };
    let mut d = b.place(&post);
    let (mut posted, mut done, mut errors, mut segments) = (0, 0, 0, 0u64);
    while done < bursts {
        while posted < bursts && posted - done < 127 {
            d.burst.set_cookie((posted % 1_000) as u16);
            d.burst.set_flow_slot((posted % 5) as u16);
            b.push(0, &d);
            posted += 1;
        }
        b.ring(0);
        b.run_to(b.nic.now() + Ticks(5_000));
        for c in b.completions(0) {
            done += 1;
            segments += u64::from(c.done.segments());
            let fault = c.status.status() == Status::AddressFault.code();
            let whole = c.status.status() == Status::Ok.code() && c.done.segments() == 6;
            assert!(fault || whole, "{c:?}");
            errors += u32::from(fault);
        }
        assert!(b.nic.now() < Ticks(1_000_000_000), "it hangs");
    }
    assert!(b.drain(1_000_000));
    assert!(b.completions(0).is_empty());
    assert_eq!(segments, b.mac.sent.len() as u64);
    assert!(errors > bursts / 50, "{errors} of {bursts}");
    assert_eq!(b.read(global::STATUS.offset), 1);
}

/// The share of cycles with a beat to the MAC, from the first to the last frame of a
/// burst of 45 segments of 1,448 bytes, on a data path of 64 bits.
pub fn busy<N: Nic>(nic: N) -> f64 {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let (header, data) = (tcp4_header(0), payload(1, 45 * 1_448));
    let d = b.place(&tso(&header, &data, 1_448, 0));
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(1_000_000));
    let sent = &b.mac.sent;
    assert_eq!(sent.len(), 45);
    let beats: usize = sent[1..].iter().map(|(_, f)| f.len().div_ceil(8)).sum();
    beats as f64 / sent[44].0.since(sent[0].0).0 as f64
}

/// Queues share the wire by their quanta.
pub fn fairness<N: Nic>(nic: N) {
    let mut b = bench(nic);
    let quanta = [1_514u32, 3_028, 1_514, 9_000];
    let sizes = [1_448usize, 500, 8_948, 1_448];
    for q in 0..4 {
        b.enable_tx(q, 8, 9);
        b.write_queue(q, queue::TX_QUANTUM, quanta[q]);
        let header = tcp4_header(q as u16);
        let data = payload(q as u32, 200_000);
        let mut d = b.place(&tso(&header, &data, sizes[q], 0));
        for i in 0..20 {
            d.burst.set_cookie(i);
            b.push(q, &d);
        }
    }
    for q in 0..4 {
        b.ring(q);
    }
    // While all have work: the fastest has 4 MB for more than half of the wire.
    let end = Ticks(600_000);
    b.run_to(end);
    let mut fair = Fairness::new(&quanta, 9_014);
    for (at, f) in &b.mac.sent {
        if *at > Ticks(10_000) {
            fair.served(usize::from(source_port(f) - 40_000), f.len());
        }
    }
    fair.check().unwrap();
    // The wire was never idle: 8 bytes a tick.
    let bytes: usize = b.mac.sent.iter().map(|(_, f)| f.len()).sum();
    assert!(bytes as u64 > end.0 * 8 * 9 / 10, "{bytes} bytes");
}

/// A budget bounds what departs between two credit flushes, and, left to itself,
/// finds the limit that keeps the wire busy. For builds that have budgets.
pub fn budget<N: Nic>(mut make: impl FnMut() -> N) {
    const FLUSH: u64 = 4_000;
    let run = |b: &mut Bench<N>, limit: u32, min: u32, max: u32| {
        b.enable_tx(0, 8, 9);
        b.write(global::CREDIT_FLUSH.offset, FLUSH as u32);
        b.write_queue(0, queue::BQL_MIN, min);
        b.write_queue(0, queue::BQL_MAX, max);
        b.write_queue(0, queue::BQL_HOLD, 10_000_000);
        b.write_queue(0, queue::BQL_LIMIT, limit);
        let back = b.alloc(64, 64);
        b.write_queue(0, queue::WRITE_BACK_LO, back as u32);
        b.write_queue(0, queue::WRITE_BACK_HI, (back >> 32) as u32);
        let header = tcp4_header(0);
        let data = payload(1, 60_000);
        let d = b.place(&tso(&header, &data, 1_448, 0));
        for _ in 0..100 {
            b.push(0, &d);
        }
        b.ring(0);
        assert!(b.drain(1_000_000_000));
        assert_eq!(b.completions(0).len(), 100);
        let mut windows: HashMap<u64, u64> = HashMap::new();
        for (at, f) in &b.mac.sent {
            *windows.entry(at.0 / FLUSH).or_default() += f.len() as u64;
        }
        let word = b.peek(back, 8);
        let half = |i: usize| u32::from_le_bytes(word[i..i + 4].try_into().expect("four bytes"));
        (windows, half(0), half(4))
    };
    let mut b = bench(make());
    let (windows, limit, inflight) = run(&mut b, 6_000, 6_000, 6_000);
    assert_eq!((limit, inflight), (6_000, 0));
    let most = windows.values().max().copied().unwrap_or(0);
    assert!(most <= 6_000 + 1_502, "{most} bytes between two flushes");
    assert!(most > 6_000, "one segment may overshoot");

    let mut b = bench(make());
    let (windows, limit, inflight) = run(&mut b, 0, 0, 1 << 24);
    assert_eq!(inflight, 0);
    // A flush period holds 32,000 bytes of wire.
    assert!((32_000..200_000).contains(&limit), "limit {limit}");
    // Once it has grown, every period is full (the last is cut short).
    let end = windows.keys().max().copied().unwrap_or(0);
    let late = (end / 2..end).map(|w| windows.get(&w).copied().unwrap_or(0));
    assert!(late.clone().all(|bytes| bytes > 30_000), "{:?}", late.min());
}

/// Random bursts, some of them bad, some reads failing: every byte completes once.
pub fn conservation<N: Nic>(nic: N, bursts: u32, seed: u64) {
    let mut b = bench(nic);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let queues = b.read(global::QUEUES.offset).min(4) as usize;
    let slots = b.read(global::FLOW_SLOTS.offset).min(32) as u16;
    for q in 0..queues {
        b.enable_tx(q, 6, 7);
    }
    let area = payload(seed as u32, 66_000);
    // Prepared bursts of all kinds; the posts vary slot and rate.
    let mut prepared = Vec::new();
    for i in 0..200 {
        let kind = match i % 8 {
            0 => Kind::Csum,
            1 => Kind::Raw,
            _ => Kind::Tso,
        };
        let len = match i % 5 {
            0 => rng.random_range(0..100),
            1 => rng.random_range(0..60_000),
            _ => rng.random_range(0..9_000),
        };
        let len = if kind == Kind::Tso { len } else { len % 1_500 };
        let mss = rng.random_range(100..2_000);
        let cuts: Vec<usize> = (0..rng.random_range(0..16))
            .map(|_| rng.random_range(1..400))
            .collect();
        let header = tcp4_header(i as u16);
        let mut d = b.place(&Post {
            layout: tcp4_layout(kind, mss),
            cuts: &cuts,
            ..tso(&header, &area[..len], mss, 0)
        });
        match i % 50 {
            7 => d.control.set_mss(0),
            17 => d.header_addr = 0x1000,
            27 => d.frag0_addr = 0x1000,
            _ => {}
        }
        prepared.push(d);
    }
    let mut ledger = Ledger::new(queues);
    let mut outstanding: Vec<VecDeque<u16>> = vec![VecDeque::new(); queues];
    let mut posted = 0;
    while posted < bursts || outstanding.iter().any(|o| !o.is_empty()) {
        for (q, open) in outstanding.iter_mut().enumerate() {
            let n = rng.random_range(0..8);
            for _ in 0..n {
                if open.len() >= 62 || posted >= bursts {
                    break;
                }
                let mut d = prepared[rng.random_range(0..prepared.len())];
                let cookie = (posted % 50_000) as u16;
                d.burst.set_cookie(cookie);
                d.burst.set_flow_slot(rng.random_range(0..slots));
                d.rate.set_inv_rate(rng.random_range(0..1u64 << 29));
                b.push(q, &d);
                ledger.queued(q, cookie, &d);
                open.push_back(cookie);
                posted += 1;
            }
            b.ring(q);
        }
        let until = b.nic.now() + Ticks(rng.random_range(1..3_000));
        b.run_to(until);
        collect(&mut b, &mut ledger, &mut outstanding);
        assert!(b.nic.now() < Ticks(100_000_000_000), "it hangs");
    }
    ledger.drained().unwrap();
    let frames = b.mac.sent.len() as u64;
    let bytes: usize = b.mac.sent.iter().map(|(_, f)| f.len()).sum();
    assert_eq!(ledger.completed(), (frames, bytes as u64));
    assert_eq!(b.counter(global::TX_FRAMES), frames);
    assert_eq!(b.counter(global::TX_BYTES), bytes as u64);
    assert_eq!(b.counter(global::TX_BURSTS), u64::from(bursts));
    assert!(b.counter(global::TX_ERRORS) > 0, "the bad ones were met");
    // Nothing is left behind.
    assert_eq!(b.read(global::STATUS.offset), 1);
}

fn collect<N: Nic>(b: &mut Bench<N>, ledger: &mut Ledger, outstanding: &mut [VecDeque<u16>]) {
    for (q, open) in outstanding.iter_mut().enumerate() {
        for c in b.completions(q) {
            ledger.complete(q, &c).unwrap();
            open.retain(|cookie| *cookie != c.status.cookie());
        }
    }
}

/// Receive: buffers of any size, frames over several, a ring that runs dry, frames
/// that are too long or bad.
pub fn receive<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_rx(0, 6, 7);
    for i in 0..128 {
        b.write(global::RSS_TABLE.offset + 4 * i, 0);
    }
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let buffers: Vec<u64> = (0..64).map(|_| b.alloc(2_048, 64)).collect();
    let mut posted: VecDeque<(u16, u16)> = VecDeque::new();
    let mut cookie = 0u16;
    let (mut received, mut sent) = (0u64, 0u64);
    for round in 0..300 {
        while posted.len() < 30 && round % 6 == 0 {
            let bytes = [64, 256, 1_024, 2_048][rng.random_range(0..4)];
            b.push_buffer(0, buffers[usize::from(cookie % 64)], bytes, cookie);
            posted.push_back((cookie, bytes));
            cookie += 1;
        }
        b.ring_rx(0);
        b.run_to(b.nic.now() + Ticks(1_000));
        let mut frames = Vec::new();
        let mut at = b.nic.now() + Ticks(1);
        for i in 0..rng.random_range(0..4u32) {
            let len = [60, 61, 1_514, 4_000][rng.random_range(0..4)];
            let frame = payload(round * 10 + i, len);
            b.arrive(at, &frame, false);
            frames.push((at, frame));
            at += Ticks(600);
        }
        sent += frames.len() as u64;
        b.run_to(at + Ticks(3_000));
        let mut completions: VecDeque<_> = b.rx_completions(0).into();
        for (at, frame) in frames {
            let Some(first) = completions.front() else {
                continue;
            };
            if first.arrival != at.0 {
                // This one was dropped.
                continue;
            }
            let mut data = Vec::new();
            let whole = loop {
                let c = completions.pop_front().expect("the end of the frame");
                let (cookie, bytes) = posted.pop_front().expect("a buffer");
                assert_eq!(c.status.cookie(), cookie, "in ring order");
                assert!(c.status.bytes() <= bytes);
                assert_eq!(c.status.sop() == 1, data.is_empty());
                let addr = buffers[usize::from(cookie % 64)];
                data.extend(b.peek(addr, c.status.bytes().into()));
                if c.status.eop() == 1 {
                    if c.status.status() == Status::RxNoBuffer.code() {
                        // No further buffer: what came is thrown away.
                        break false;
                    }
                    assert_eq!(usize::from(c.hash.frame_len()), frame.len());
                    break true;
                }
                assert_eq!(c.status.bytes(), bytes, "full unless last");
            };
            assert!(frame.starts_with(&data));
            assert!(!whole || data.len() == frame.len());
            received += u64::from(whole);
        }
        assert!(completions.is_empty());
    }
    assert_eq!(b.counter(global::RX_FRAMES), sent);
    let dropped = b.counter(global::RX_NO_BUFFER);
    assert_eq!(received + dropped, sent);
    assert!(dropped > 0 && received > dropped, "{received} of {sent}");
    // One frame over more buffers than any NIC fetches ahead.
    while let Some((cookie, bytes)) = posted.pop_front() {
        // Use up what is left: a frame that just fits each.
        let at = b.nic.now() + Ticks(10);
        b.arrive(at, &payload(1, bytes.into()), false);
        b.run_to(at + Ticks(3_000));
        let c = b.rx_completions(0);
        assert_eq!((c.len(), c[0].status.cookie()), (1, cookie));
    }
    let area = b.alloc(64 * 63, 64);
    for i in 0..63 {
        b.push_buffer(0, area + 64 * i, 64, i as u16);
    }
    b.ring_rx(0);
    let at = b.nic.now() + Ticks(10);
    let frame = payload(3, 63 * 64 - 5);
    b.arrive(at, &frame, false);
    b.run_to(at + Ticks(6_000));
    let c = b.rx_completions(0);
    assert_eq!(c.len(), 63);
    assert_eq!(b.peek(area, frame.len()), frame);
    // Too long, and bad.
    let at = b.nic.now() + Ticks(10);
    b.arrive(at, &payload(1, 20_000), false);
    b.arrive(at + Ticks(3_000), &payload(1, 100), true);
    b.run_to(at + Ticks(10_000));
    assert_eq!(b.counter(global::RX_ERRORS), 2);
    // A doorbell beyond the ring.
    use tsonic_regs::registers::{doorbell, doorbell_offset};
    b.write(doorbell_offset(0, doorbell::RX_TAIL), 64);
    assert!(b.drain(100_000));
    let c = b.rx_completions(0);
    let last = c.last().expect("an error completion");
    assert_eq!(last.status.status(), Status::DoorbellOutOfRange.code());
    assert_eq!(last.status.cookie(), COOKIE_NONE);
}
