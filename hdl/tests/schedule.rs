// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler under Verilator, judged by `schedule::check`.

mod schedule_support;
mod support;

use schedule_support::{Bench, Sink, Want, inv};
use std::collections::{BTreeMap, BTreeSet};
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::schedule::{Schedule1, Schedule4, Schedule8, Schedule32};

/// A wire at the speed of the data path: 8 bytes a tick.
const WIRE: Sink = Sink::Wire {
    ticks_per_byte_256: 32,
    depth: 3,
};

/// Random bursts of every kind into every list; nothing lost, doubled, out of
/// order or early, and the charges add up.
fn random_traffic(mut bench: Bench, queues: u8, slots: u16, seed: u64, bursts: u32) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    for queue in 0..queues {
        if rng.random_bool(0.3) {
            bench.queue_rate(queue, inv(rng.random_range(0.01..0.4)));
        }
        bench.quantum(queue, rng.random_range(1..20_000));
    }
    let mut sent = 0;
    let mut off = BTreeSet::new();
    while sent < bursts {
        if bench.waiting.len() < 2 && rng.random_bool(0.1) {
            for _ in 0..rng.random_range(1..20) {
                let flow_slot = if rng.random_bool(0.2) {
                    0
                } else {
                    rng.random_range(1..slots)
                };
                let mss = if rng.random_bool(0.05) {
                    20
                } else {
                    rng.random_range(300..3000)
                };
                bench.waiting.push_back(Want {
                    queue: rng.random_range(0..queues),
                    flow_slot,
                    inv_rate: match rng.random_range(0..4) {
                        0 => 0,
                        1 => inv(rng.random_range(0.0..0.2)),
                        _ => inv(rng.random_range(0.0..3.0)),
                    },
                    payload_len: rng.random_range(0..6) * rng.random_range(0..2000),
                    mss,
                    header_len: rng.random_range(14..=256),
                    launch: rng
                        .random_bool(0.2)
                        .then(|| (bench.ticks + rng.random_range(0..20_000)).saturating_sub(5_000)),
                });
                sent += 1;
            }
        }
        if rng.random_bool(0.01) {
            let ctx = rng.random_range(0..=255);
            bench.aborts.push_back(ctx);
        }
        if rng.random_bool(0.001) {
            bench.sink = [Sink::Always, WIRE, Sink::Random(rng.random_range(1..200))]
                [rng.random_range(0..3)];
        }
        if rng.random_bool(0.0005) {
            let queue = rng.random_range(0..queues);
            if !off.remove(&queue) {
                bench.enable(queue, false);
                off.insert(queue);
            } else if bench.inside(queue) == 0 {
                bench.enable(queue, true);
            } else {
                off.insert(queue);
            }
        }
        if rng.random_bool(0.002) {
            // Now and then one that lets nothing pass, or every thing.
            let rate = match rng.random_range(0..8) {
                0 => 0,
                1 => inv(rng.random_range(1.0..1e6)),
                _ => inv(rng.random_range(0.01..0.4)),
            };
            bench.queue_rate(rng.random_range(0..queues), rate);
        }
        if bench.idle()
            && let Some(tick) = bench.next_event()
        {
            bench.ticks = bench.ticks.max(tick);
        }
        bench.cycle();
        assert!(bench.cycles < 4_000_000, "no progress: {}", bench.state());
    }
    bench.sink = WIRE;
    bench.drain();
    let segments = bench.check(true);
    assert!(segments.len() as u32 >= bursts);
    assert!(segments.iter().any(|s| s.grant.revoked));
    let mut charged: BTreeMap<u8, u64> = BTreeMap::new();
    for s in &segments {
        *charged.entry(s.grant.queue).or_default() += u64::from(s.wire_bytes);
    }
    assert_eq!(charged, bench.charged);
}

#[test]
fn random_traffic_1_queue() {
    random_traffic(Bench::new(Schedule1::default()), 1, 64, 1, 3_000);
}

#[test]
fn random_traffic_4_queues() {
    random_traffic(Bench::new(Schedule4::default()), 4, 64, 2, 3_000);
}

#[test]
fn random_traffic_8_queues() {
    random_traffic(Bench::new(Schedule8::default()), 8, 64, 3, 3_000);
}

#[test]
fn random_traffic_32_queues() {
    random_traffic(Bench::new(Schedule32::default()), 32, 64, 4, 10_000);
}
