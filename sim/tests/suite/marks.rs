// SPDX-License-Identifier: MIT OR Apache-2.0
//! Marks in completions: congestion at enqueue, and the byte limits of flows.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::limits::INV_RATE_FRACTION;
use tsonic_regs::registers::{global, queue};
use tsonic_sim::checkers::FlowMarks;
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::nic::Nic;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, tcp4_header, tcp4_layout};

/// An address that is never mapped.
const NOWHERE: u64 = 0xdead_0000_0000;

/// A burst of `len` bytes in segments of 1,000.
fn burst<N: Nic>(b: &mut Bench<N>, flow: u16, len: usize, cookie: u16) -> TxDescriptor {
    let (header, data) = (tcp4_header(flow), payload(cookie.into(), len));
    b.place(&Post {
        layout: tcp4_layout(Kind::Tso, 1_000),
        header: &header,
        payload: &data,
        cuts: &[],
        flow_slot: flow,
        inv_rate: 0,
        launch: None,
        cookie,
    })
}

/// Ticks per byte as an inverse rate.
fn inverse(ticks: u64) -> u64 {
    ticks << INV_RATE_FRACTION
}

/// Whether the second of two bursts is marked, posted `delay` ticks after the first,
/// whose second segment its queue's rate holds back.
fn second_is_marked<N: Nic>(nic: N, target: u32, delay: u64) -> bool {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    b.set_queue_rate(0, inverse(200));
    b.write(global::CN_TARGET.offset, target);
    let first = burst(&mut b, 0, 2_000, 1);
    let second = burst(&mut b, 0, 100, 2);
    b.push(0, &first);
    b.ring(0);
    b.run_to(b.nic.now() + Ticks(delay));
    b.push(0, &second);
    b.ring(0);
    assert!(b.drain(1_000_000));
    let c = b.completions(0);
    assert_eq!(c.len(), 2);
    assert_eq!(c[0].status.cn(), 0, "the first found nothing");
    c[1].status.cn() == 1
}

/// The least target at which a burst is not marked is the sojourn to the tick: it moves
/// with the time of posting, tick by tick.
pub fn congestion<N: Nic>(make: impl Fn() -> N) {
    let delay = 3_000;
    let (mut marked, mut not) = (0u32, 6_000u32);
    assert!(second_is_marked(make(), marked, delay) && !second_is_marked(make(), not, delay));
    while not - marked > 1 {
        let target = (marked + not) / 2;
        if second_is_marked(make(), target, delay) {
            marked = target;
        } else {
            not = target;
        }
    }
    // `not` is the sojourn: at it no mark, one below it (sojourn = target + 1) one.
    println!("a sojourn of {not} ticks, {delay} after the first burst was posted");
    assert!(delay.abs_diff(not.into()) < 400, "{not}");
    for later in [1, 2, 777] {
        let target = not + later;
        let delay = delay + u64::from(later);
        assert!(second_is_marked(make(), target - 1, delay), "{later}");
        assert!(!second_is_marked(make(), target, delay), "{later}");
    }
}

/// With a target of 0: a burst alone is never marked, nor one whose queue only holds
/// what waits for its departure.
pub fn no_congestion<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    b.enable_tx(1, 6, 7);
    b.write(global::CN_TARGET.offset, 0);
    for cookie in 0..10 {
        let d = burst(&mut b, cookie % 3, 5_000, cookie);
        b.push(0, &d);
        b.ring(0);
        assert!(b.drain(1_000_000));
    }
    assert!(b.completions(0).iter().all(|c| c.status.cn() == 0));
    // A flow whose next segment leaves in 200,000 ticks, one with a launch time.
    let mut slow = burst(&mut b, 4, 2_000, 20);
    slow.rate.set_inv_rate(inverse(200));
    let mut launched = burst(&mut b, 5, 100, 21);
    launched.control.set_launch(1);
    launched.launch = b.nic.now().0 + 150_000;
    for d in [slow, launched] {
        b.push(0, &d);
        b.ring(0);
        b.run_to(b.nic.now() + Ticks(2_000));
    }
    for (cookie, flow) in [(22, 4), (23, 6), (24, 0)] {
        let d = burst(&mut b, flow, 100, cookie);
        b.push(0, &d);
        b.ring(0);
        b.run_to(b.nic.now() + Ticks(2_000));
    }
    // Another queue's congestion is not this one's.
    b.set_queue_rate(1, inverse(200));
    let held = burst(&mut b, 7, 2_000, 25);
    b.push(1, &held);
    b.ring(1);
    b.run_to(b.nic.now() + Ticks(2_000));
    let d = burst(&mut b, 8, 100, 26);
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(1_000_000));
    let c = b.completions(0);
    assert_eq!(c.len(), 6);
    assert!(c.iter().all(|c| c.status.cn() == 0), "{c:?}");
    assert_eq!(b.completions(1)[0].status.cn(), 0);
}

/// Cookie and marks of a completion.
fn marks(c: &TxCompletion) -> (u16, bool, bool) {
    let s = c.status;
    (s.cookie(), s.throttle() == 1, s.wake() == 1)
}

/// All bursts of a flow join before one of them completes, so every mark is determined;
/// each NIC must set exactly those.
pub fn determined<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let mark = b.alloc(0, 64);
    let (mut throttles, mut wakes) = (0, 0);
    for round in 0..60u16 {
        b.free_to(mark);
        // Slot 0 has no limit.
        let flow = round % 4;
        let launch = b.nic.now().0 + 60_000;
        let count = rng.random_range(1..30);
        let mut bursts = Vec::new();
        let limit = rng.random_range(0..20);
        for cookie in 0..count {
            let len = rng.random_range(0..3_000);
            let mut d = burst(&mut b, flow, len, cookie);
            d.control.set_launch(1);
            d.launch = launch;
            let limit = match rng.random_range(0..8) {
                0 => 0,
                1 => rng.random_range(0..40),
                _ => limit,
            };
            d.burst.set_flow_limit(limit);
            if rng.random_bool(0.1) && len > 0 {
                d.frag0_addr = NOWHERE;
            }
            bursts.push((len as u64, u64::from(limit) * 1_024));
            b.push(0, &d);
        }
        b.ring(0);
        assert!(b.drain(10_000_000));
        let done = b.completions(0);
        assert_eq!(done.len(), bursts.len());
        // The rules, with all joining first.
        let (mut bytes, mut limit, mut throttled) = (0, 0, false);
        let mut expected = vec![(false, false); bursts.len()];
        for (e, (len, own)) in expected.iter_mut().zip(&bursts) {
            (bytes, limit) = (bytes + len, *own);
            e.0 = flow != 0 && limit != 0 && bytes > limit && !throttled;
            throttled |= e.0;
            throttles += u32::from(e.0);
        }
        for c in &done {
            let n = usize::from(c.status.cookie());
            bytes -= bursts[n].0;
            expected[n].1 = throttled && (limit == 0 || bytes <= limit);
            throttled &= !expected[n].1;
            wakes += u32::from(expected[n].1);
        }
        for c in &done {
            let (cookie, throttle, wake) = marks(c);
            let e = expected[usize::from(cookie)];
            assert_eq!(
                (throttle, wake),
                e,
                "round {round}, burst {cookie} of {bursts:?}"
            );
        }
        assert!(!throttled);
    }
    println!("{throttles} crossings, {wakes} wakes");
    assert!(throttles == wakes && throttles > 30);
}

/// A wake interrupts at once, whatever moderation says.
pub fn wake_interrupts<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    b.write_queue(0, queue::COALESCE_COUNT, 1_000);
    b.write_queue(0, queue::COALESCE_TICKS, 10_000_000);
    for (limit, interrupts) in [(0, 0), (9, 0), (1, 1)] {
        let before = b.memory.stats().interrupts;
        let mut d = burst(&mut b, 1, 5_000, limit);
        d.burst.set_flow_limit(limit);
        b.push(0, &d);
        b.ring(0);
        b.run_to(b.nic.now() + Ticks(5_000));
        let wakes = interrupts == 1;
        assert_eq!(marks(&b.completions(0)[0]), (limit, wakes, wakes));
        assert_eq!(b.memory.stats().interrupts - before, interrupts);
    }
}

/// A burst of the random traffic.
struct Random {
    at: Ticks,
    flow: usize,
    kind: usize,
    limit: u16,
    faulty: bool,
}

/// Bursts of eight flows in two queues, some at a time.
fn traffic(bursts: usize) -> Vec<Random> {
    let mut rng = Pcg64Mcg::seed_from_u64(6);
    let mut all = Vec::new();
    let mut at = Ticks(10_000);
    while all.len() < bursts {
        for _ in 0..rng.random_range(0..16) {
            let flow = rng.random_range(0..8);
            let limit = [0, 3, 8, 20, 4, 5, 16, 10][flow];
            all.push(Random {
                at,
                flow,
                kind: rng.random_range(0..5),
                limit: if rng.random_bool(0.1) {
                    limit / 2
                } else {
                    limit
                },
                faulty: rng.random_bool(0.05),
            });
        }
        at += Ticks(rng.random_range(1_000..7_000));
    }
    all
}

/// Posts the traffic, and judges the marks. Returns how many crossings there were, how
/// many frames departed, and when the last did.
fn run<N: Nic>(nic: N, traffic: &[Random], limited: bool) -> (usize, usize, u64) {
    let mut b = bench(nic);
    for q in 0..2 {
        b.enable_tx(q, 8, 9);
    }
    let kinds: Vec<Vec<TxDescriptor>> = (0..8)
        .map(|flow| {
            let lens = [0, 300, 1_024, 3_000, 9_000];
            lens.map(|len| burst(&mut b, flow, len, 0)).to_vec()
        })
        .collect();
    let mut flows = vec![FlowMarks::default(); 8];
    let mut numbers = vec![Vec::new(); 8];
    let mut open = [0usize; 2];
    let mut next = 0;
    while next < traffic.len() || open != [0, 0] {
        if let Some(r) = traffic.get(next) {
            b.run_to(r.at);
        } else {
            assert!(b.drain(10_000_000));
        }
        while let Some(r) = traffic.get(next).filter(|r| r.at <= b.nic.now()) {
            next += 1;
            let q = r.flow % 2;
            let mut d = kinds[r.flow][r.kind];
            d.burst.set_flow_limit(if limited { r.limit } else { 0 });
            if r.faulty && d.burst.payload_len() > 0 {
                d.frag0_addr = NOWHERE;
            }
            if r.flow == 3 {
                d.rate.set_inv_rate(inverse(1) / 2);
            }
            let number = flows[r.flow].posted(d.burst.payload_len(), d.burst.flow_limit());
            // The cookie names flow and burst.
            d.burst.set_cookie((r.flow << 12 | number & 0xfff) as u16);
            numbers[r.flow].push(number);
            b.push(q, &d);
            b.ring(q);
            open[q] += 1;
            assert!(open[q] < 250, "the ring is full");
        }
        for (q, open) in open.iter_mut().enumerate() {
            for c in b.completions(q) {
                let (cookie, throttle, wake) = marks(&c);
                let status = c.status.status();
                let expected = [Status::Ok.code(), Status::AddressFault.code()];
                assert!(expected.contains(&status), "{c:?}");
                let flow = usize::from(cookie >> 12);
                let at = numbers[flow]
                    .iter()
                    .position(|n| *n & 0xfff == usize::from(cookie & 0xfff))
                    .unwrap_or_else(|| panic!("{c:?} was not posted"));
                let number = numbers[flow].remove(at);
                flows[flow].completed(number, throttle, wake);
                *open -= 1;
            }
        }
    }
    let (mut throttles, mut wakes) = (0, 0);
    for (slot, f) in flows.iter().enumerate() {
        f.check().unwrap_or_else(|v| panic!("slot {slot}: {v}"));
        throttles += f.seen().0;
        wakes += f.seen().1;
    }
    assert_eq!(throttles, wakes);
    let last = b.mac.sent.last().map_or(0, |(at, _)| at.0);
    (throttles, b.mac.sent.len(), last)
}

/// Random traffic of flows with limits: an order of events explains every mark, each
/// crossing has its wake. The same without limits departs at the same times.
pub fn random<N: Nic>(make: impl Fn() -> N, bursts: usize) {
    let traffic = traffic(bursts);
    let (throttles, frames, last) = run(make(), &traffic, true);
    let (none, same, free) = run(make(), &traffic, false);
    println!(
        "{} bursts, {throttles} crossings and as many wakes; done at {last}, without limits at {free}",
        traffic.len()
    );
    assert!(throttles > bursts / 50 && none == 0);
    // It never blocks: what a mark costs inside is a few ticks.
    assert!(frames.abs_diff(same) < frames / 100, "{frames} and {same}");
    assert!(last.abs_diff(free) < 1_000, "{last} and {free}");
}
