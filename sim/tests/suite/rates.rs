// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates of flows and of queues, and launch times.

use std::collections::HashMap;

use tsonic_regs::Status;
use tsonic_regs::registers::global;
use tsonic_sim::checkers::{Departure, window_bound};
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::nic::Nic;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, source_port, tcp4_header};
use super::load::tso;

/// Paced flows on shared queues: each keeps its rate within every window, none
/// delays another, and the long-run rate is exact.
pub fn pacing<N: Nic>(nic: N, debt: u32) {
    let mut b = bench(nic);
    b.write(global::LATENESS_DEBT.offset, debt);
    for q in 0..2 {
        b.enable_tx(q, 8, 9);
    }
    // Ticks a byte: 0.7, 1.3, 5, 40, and one flow unpaced.
    let rates = [0.0, 0.7, 1.3, 5.0, 40.0];
    let inverse = rates.map(|r| (r * f64::from(1u32 << 28)) as u64);
    // Payload for about 200,000 ticks each; the unpaced one sends in between.
    let bursts = [5, 20, 20, 4, 1];
    let (mss, len) = (1_000usize, 10_000usize);
    let data = payload(5, len);
    let mut cookie = 0;
    for flow in 0..rates.len() {
        let header = tcp4_header(flow as u16);
        let mut d = b.place(&tso(&header, &data, mss, 0));
        d.burst.set_flow_slot(flow as u16);
        d.rate.set_inv_rate(inverse[flow]);
        for _ in 0..bursts[flow] {
            d.burst.set_cookie(cookie);
            cookie += 1;
            b.push(flow % 2, &d);
        }
    }
    b.ring(0);
    b.ring(1);
    assert!(b.drain(100_000_000));
    let frame = mss + header_len();
    let mut flows: HashMap<u16, Vec<Departure>> = HashMap::new();
    for (at, f) in &b.mac.sent {
        let flow = source_port(f) - 40_000;
        flows.entry(flow).or_default().push(Departure {
            at: *at,
            wire_bytes: f.len() as u64,
        });
    }
    for flow in 1..rates.len() {
        let sent = &flows[&(flow as u16)];
        assert_eq!(sent.len(), bursts[flow] * len / mss);
        // Departure follows the grant by the data path's latency, which varies by
        // what the other flows have under way.
        let jitter = 1_500;
        window_bound(sent, inverse[flow], u64::from(debt) + jitter).unwrap();
        let span = (sent[sent.len() - 1].at.0 - sent[0].at.0) as f64;
        let exact = (sent.len() - 1) as f64 * frame as f64 * rates[flow];
        let error = (span - exact) / exact;
        // All that a short run can show is the jitter of its ends. Without a debt what
        // a segment is late is lost for good, and how late they are is the NIC's own.
        let late = if debt == 0 { 0.03 } else { 0.0 };
        let jitter = jitter as f64 / exact;
        assert!(
            error > -jitter && error < jitter + late,
            "flow {flow}: {span} ticks instead of {exact}"
        );
    }
}

fn header_len() -> usize {
    tcp4_header(0).len()
}

/// A flow alone keeps its rate to a part in a million.
pub fn rate_error<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 8, 9);
    let rate = 1.234_567;
    let header = tcp4_header(1);
    let data = payload(5, 250_000);
    let mut d = b.place(&tso(&header, &data, 1_448, 1));
    d.burst.set_flow_slot(1);
    // Rounded up, as the contract has it.
    let inverse = (rate * f64::from(1u32 << 28)).ceil() as u64;
    d.rate.set_inv_rate(inverse);
    for _ in 0..40 {
        b.push(0, &d);
    }
    b.ring(0);
    assert!(b.drain(1_000_000_000));
    let sent = &b.mac.sent;
    let (first, last) = (&sent[0], &sent[sent.len() - 1]);
    let span = (last.0.0 - first.0.0) as f64;
    let bytes: usize = sent.iter().map(|(_, f)| f.len()).sum::<usize>() - last.1.len();
    let exact = bytes as f64 * rate;
    // The last segment of a burst is shorter, so it is whole sooner by its beats.
    let ends = (first.1.len() - last.1.len()) as f64;
    let error = (span - exact).abs() - ends;
    assert!(error / exact < 1e-6, "{span} instead of {exact}");
}

/// A launch time holds back the first segment of its burst and nothing else.
pub fn launch_times<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 8, 9);
    let data = payload(5, 2_000);
    let mut expected = Vec::new();
    for (cookie, (flow, launch)) in [(1, 50_000u64), (2, 20_000), (1, 80_000), (2, 10_000)]
        .iter()
        .enumerate()
    {
        let header = tcp4_header(*flow);
        let post = Post {
            flow_slot: *flow,
            launch: Some(*launch),
            ..tso(&header, &data, 1_000, cookie as u16)
        };
        let d = b.place(&post);
        b.push(0, &d);
        // A launch in the past of the flow's order does not overtake.
        expected.push(if cookie == 3 { 20_000 } else { *launch });
    }
    b.ring(0);
    assert!(b.drain(1_000_000));
    let c = b.completions(0);
    assert_eq!(c.len(), 4);
    for c in c {
        let launch = expected[usize::from(c.status.cookie())];
        let late = c.first_departure.saturating_sub(launch);
        assert!(c.first_departure >= launch && late < 2_000, "{c:?}");
    }
}

/// A launch time beyond the horizon is refused, one at it and one of an unpaced burst
/// are not.
pub fn horizon<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 8, 9);
    let data = payload(5, 2_000);
    b.write(global::HORIZON.offset, 20_000);
    let header = tcp4_header(1);
    let now = b.nic.now().0;
    let bursts = [
        (1, Some(100_000), Status::BeyondHorizon),
        (1, Some(20_000), Status::Ok),
        (0, Some(100_000), Status::Ok),
        (2, None, Status::Ok),
        (2, Some(u64::MAX - now), Status::BeyondHorizon),
    ];
    for (cookie, (flow_slot, ahead, _)) in bursts.iter().enumerate() {
        let d = b.place(&Post {
            flow_slot: *flow_slot,
            launch: ahead.map(|ahead| now + ahead),
            ..tso(&header, &data, 1_000, cookie as u16)
        });
        b.push(0, &d);
    }
    b.ring(0);
    assert!(b.drain(1_000_000));
    let c = b.completions(0);
    assert_eq!(c.len(), bursts.len());
    for c in &c {
        let cookie = c.status.cookie();
        let (_, _, expected) = bursts[usize::from(cookie)];
        assert_eq!(c.status.status(), expected.code(), "burst {cookie}");
        let frames = if expected == Status::Ok { 2 } else { 0 };
        assert_eq!(c.done.segments(), frames, "burst {cookie}");
    }
    assert_eq!(b.mac.sent.len(), 6);
}

/// A queue's own rate holds for all its flows together, and other queues are free.
pub fn queue_rate<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.write(global::LATENESS_DEBT.offset, 0);
    for q in 0..2 {
        b.enable_tx(q, 8, 9);
    }
    let inverse = 3u64 << 28;
    b.set_queue_rate(0, inverse);
    let data = payload(1, 50_000);
    for q in 0..2u16 {
        for slot in 0..2 {
            let header = tcp4_header(q * 2 + slot);
            let mut d = b.place(&tso(&header, &data, 1_448, 0));
            // Slot 0 is every queue's own; other slots are one flow each.
            d.burst.set_flow_slot(if slot == 0 { 0 } else { 1 + q });
            b.push(q.into(), &d);
        }
    }
    b.ring(0);
    b.ring(1);
    assert!(b.drain(10_000_000));
    let of = |q: u16| {
        let mine = |f: &Vec<u8>| (source_port(f) - 40_000) / 2 == q;
        let sent = b.mac.sent.iter().filter(|(_, f)| mine(f));
        sent.map(|(at, f)| Departure {
            at: *at,
            wire_bytes: f.len() as u64,
        })
        .collect::<Vec<_>>()
    };
    let (slow, fast) = (of(0), of(1));
    window_bound(&slow, inverse, 1_500).unwrap();
    assert!(fast[fast.len() - 1].at < Ticks(40_000));
    assert!(slow[slow.len() - 1].at > Ticks(280_000));
}

/// A new rate of a queue ends the wait that the one before led to.
pub fn new_queue_rate<N: Nic>(nic: N) {
    let mut b = bench(nic);
    for q in 0..2 {
        b.enable_tx(q, 8, 9);
        // A frame of 1,502 bytes each six seconds.
        b.set_queue_rate(q, 1_000_000 << 28);
        let header = tcp4_header(q as u16);
        let data = payload(1, 10 * 1_448);
        let d = b.place(&tso(&header, &data, 1_448, 0));
        b.push(q, &d);
        b.ring(q);
    }
    b.run_to(Ticks(100_000));
    let count = |b: &Bench<N>, q: u16| {
        let of = |f: &Vec<u8>| source_port(f) - 40_000 == q;
        b.mac.sent.iter().filter(|(_, f)| of(f)).count()
    };
    assert_eq!((count(&b, 0), count(&b, 1)), (1, 1));
    // None, and four ticks a byte.
    b.set_queue_rate(0, 0);
    b.run_to(Ticks(104_000));
    assert_eq!((count(&b, 0), count(&b, 1)), (10, 1));
    b.set_queue_rate(1, 4 << 28);
    b.run_to(Ticks(106_000));
    assert_eq!(count(&b, 1), 2, "at once");
    assert!(b.drain(10_000_000));
    let sent: Vec<Departure> = (b.mac.sent.iter())
        .filter(|(_, f)| source_port(f) - 40_000 == 1)
        .map(|(at, f)| Departure {
            at: *at,
            wire_bytes: f.len() as u64,
        })
        .collect();
    assert_eq!(sent.len(), 10);
    let took = sent[9].at.0 - sent[1].at.0;
    assert!(
        (8 * 1_502 * 4..8 * 1_502 * 4 + 1_000).contains(&took),
        "{took}"
    );
}
