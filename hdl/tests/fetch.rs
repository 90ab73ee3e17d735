// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetch against `tsonic_regs::check` and a host that posts good and bad bursts.

mod fetch_bench;
mod memory_side;
mod support;

use fetch_bench::{Bench, Knobs};
use support::RngExt;
use tsonic_regs::Status;

const BUSY: Knobs = Knobs {
    bad: 0.4,
    post: 0.03,
    bad_bell: 0.001,
    latency: 60,
    ready: 0.7,
    hold: 400,
};
/// Nothing is posted but by the test.
const QUIET: Knobs = Knobs {
    bad: 0.0,
    post: 0.0,
    bad_bell: 0.0,
    ..BUSY
};

fn random_bursts<const Q: usize>(seed: u64, knobs: Knobs, cycles: u64) -> Bench {
    let mut bench = Bench::new::<Q>(seed, knobs);
    for q in 0..Q {
        let base = ((q as u64 + 1) << 32) + 64 * bench.rng.random_range(0..64);
        let log2 = bench.rng.random_range(6..9);
        bench.enable(q, base, log2, true);
    }
    bench.run(cycles);
    bench.drain();
    assert!(
        bench.expected.is_empty(),
        "{} bursts are lost",
        bench.expected.len()
    );
    assert_eq!(bench.refused, bench.bad_bells);
    bench
}

#[test]
fn every_descriptor_is_judged_as_the_contract_says() {
    let bench = random_bursts::<4>(1, BUSY, 300_000);
    println!("{:?}; {} doorbells refused", bench.seen, bench.refused);
    for status in [
        Status::Ok,
        Status::ReservedBits,
        Status::BadKind,
        Status::BadFlowSlot,
        Status::TooManyFragments,
        Status::BadHeaderLength,
        Status::LengthMismatch,
        Status::MssZero,
        Status::SegmentTooLarge,
        Status::AddressFault,
        Status::DoorbellOutOfRange,
        Status::BeyondHorizon,
    ] {
        assert!(
            bench.seen.contains_key(&status.code()),
            "{status:?} was not met"
        );
    }
    for (q, ring) in bench.rings.iter().enumerate() {
        assert!(ring.posted > 3 << ring.log2, "ring {q} did not wrap");
    }
    assert_eq!(bench.bell_errors, bench.bad_bells);
}

#[test]
fn contexts_run_out_and_come_back() {
    // Contexts are held long, so the pool is what limits.
    let knobs = Knobs {
        bad: 0.1,
        post: 0.2,
        hold: 20_000,
        ready: 1.0,
        ..BUSY
    };
    random_bursts::<32>(2, knobs, 150_000);
}

#[test]
fn full_speed() {
    let knobs = Knobs {
        bad: 0.0,
        post: 1.0,
        bad_bell: 0.0,
        latency: 2,
        ready: 1.0,
        hold: 40,
    };
    let bench = random_bursts::<4>(3, knobs, 40_000);
    let taken: u64 = bench.taken.iter().sum();
    println!("{taken} descriptors in 40,000 cycles");
    assert!(taken > 40_000 / 14, "{taken}");
}

#[test]
fn slots_that_cannot_be_read_complete_with_a_fault() {
    let knobs = Knobs {
        post: BUSY.post,
        ..QUIET
    };
    let mut bench = Bench::new::<4>(4, knobs);
    for q in 0..4 {
        // Slots 0 to 23 of a ring stand in the first page, the rest in the next.
        bench.enable(q, ((q as u64 + 1) << 32) + 4096 - 24 * 64, 6, true);
    }
    let mut none = 0;
    for _ in 0..6 {
        bench.run(2_000);
        // The host takes the second page of queue 1 away, and gives it back.
        let hole = (2u64 << 20) + 1;
        bench.memory.hide(hole);
        let before = bench.expected.keys().filter(|k| k.0 == 1).count();
        bench.run(1_500);
        bench.memory.show(hole);
        none += before;
        bench.knobs.post = 0.0;
        bench.drain();
        // Bursts whose slots could not be read are not known by their cookies.
        let lost = bench.expected.keys().filter(|k| k.0 == 1).count();
        assert_eq!(lost, bench.expected.len(), "only queue 1 met a fault");
        assert_eq!(lost as u64, bench.unknown);
        bench.unknown = 0;
        bench.expected.clear();
        bench.knobs.post = BUSY.post;
    }
    println!("{} faults", bench.faults);
    assert!(bench.faults > 10 && none > 0);
    assert!(bench.taken.iter().all(|&n| n > 100), "{:?}", bench.taken);
}

#[test]
fn a_queue_that_holds_contexts_leaves_some_to_others() {
    let knobs = Knobs {
        bad: 0.0,
        post: 0.0,
        bad_bell: 0.0,
        latency: 20,
        ready: 1.0,
        hold: 2,
    };
    let mut bench = Bench::new::<4>(5, knobs);
    for q in 0..4 {
        bench.enable(q, (q as u64 + 1) << 32, 9, true);
    }
    // Queue 0 has 500 bursts that never complete; then queue 1 posts as many.
    for q in 0..2 {
        bench.held.push(q);
        for _ in 0..500 {
            bench.post(q);
        }
        bench.bell(q, bench.rings[q].tail);
        for _ in 0..20_000 {
            bench.cycle();
        }
    }
    println!("held: {:?}", &bench.taken[..2]);
    assert_eq!(bench.taken[0], 128, "half of the pool");
    assert!((60..=65).contains(&bench.taken[1]), "half of the rest");
    // The others still get through, one after the other.
    for _ in 0..300 {
        bench.post(2);
    }
    bench.bell(2, bench.rings[2].tail);
    for _ in 0..20_000 {
        bench.cycle();
    }
    assert_eq!(bench.taken[2], 300);
}

#[test]
fn doorbells_of_queues_that_are_off_are_refused() {
    let mut bench = Bench::new::<4>(6, QUIET);
    bench.enable(0, 1 << 32, 6, true);
    bench.bell(1, 3);
    for _ in 0..100 {
        bench.cycle();
    }
    assert_eq!(
        (bench.refused, bench.bell_errors, bench.reads.requests),
        (1, 0, 0)
    );
    // A size that is none keeps a queue off.
    bench.enable(2, 3 << 32, 5, true);
    bench.bell(2, 1);
    // So does a queue that the build does not have.
    bench.writes.push_back((9, u64::MAX, 1));
    for _ in 0..100 {
        bench.cycle();
    }
    assert_eq!((bench.refused, bench.reads.requests), (3, 0));
    // And one of the completion ring: what was fetched could not complete.
    for (n, done) in [5, 14, 15].into_iter().enumerate() {
        bench.enable_with(2, 3 << 32, (6, done), true);
        bench.bell(2, 1);
        for _ in 0..100 {
            bench.cycle();
        }
        assert_eq!((bench.refused, bench.reads.requests), (4 + n as u64, 0));
    }
    // Off again: what was rung before is not fetched any more, and on again the
    // ring starts at 0.
    for _ in 0..5 {
        bench.post(0);
    }
    bench.bell(0, bench.rings[0].tail);
    for _ in 0..3_000 {
        bench.cycle();
    }
    assert_eq!(bench.taken[0], 5);
    bench.enable(0, 1 << 33, 7, true);
    bench.post(0);
    bench.bell(0, 1);
    bench.drain();
    assert_eq!(bench.taken[0], 6);
    bench.rtl.set("enable", 0);
    bench.post(0);
    bench.bell(0, 2);
    for _ in 0..1_000 {
        bench.cycle();
    }
    assert_eq!(bench.taken[0], 6, "the device is off");
    bench.rtl.set("enable", 1);
    bench.drain();
    assert_eq!(bench.taken[0], 7);
}

/// Whatever stage fetch is at when a queue is turned off and on again with bursts that
/// were rung but not fetched: the new ring begins at slot 0, and nothing is taken that
/// was not posted.
#[test]
fn a_queue_turned_off_and_on_at_any_moment_starts_at_slot_0() {
    let mut bench = Bench::new::<4>(7, QUIET);
    let cycles = |bench: &mut Bench, most: u64| {
        let n = bench.rng.random_range(0..=most);
        (0..n).for_each(|_| bench.cycle());
    };
    bench.enable(0, 1 << 32, 7, true);
    for round in 1..=300 {
        for _ in 0..bench.rng.random_range(1..8) {
            bench.post(0);
        }
        bench.bell(0, bench.rings[0].tail);
        cycles(&mut bench, 40);
        bench.enable(0, (1 << 32) + (round << 20), 7, true);
        cycles(&mut bench, 40);
        // Of the old ring, what was under way may still come.
        let first = bench.orders;
        let most = bench.rng.random_range(1..4);
        (0..most).for_each(|_| bench.post(0));
        bench.bell(0, most);
        (0..1_500).for_each(|_| bench.cycle());
        let lost = bench.expected.values().filter(|p| p.order > first);
        assert_eq!(lost.count(), 0, "round {round}");
        assert_eq!(bench.unknown, 0, "round {round}");
        bench.expected.clear();
    }
    bench.drain();
}
