// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion marks of the scheduler: to the tick, and for nothing but what is due.

mod schedule_support;
mod support;

use schedule_support::{Bench, Sink, Want, inv};
use tsonic_hdl::schedule::Schedule4;
use tsonic_hdl::schedule::check::Event;

/// Ticks from a burst's joining to its list's standing in its queue's due lists.
const TO_DUE: u64 = 2;

fn stalled() -> Bench {
    let mut bench = Bench::new(Schedule4::default());
    bench.sink = Sink::Random(0);
    bench
}

/// Offers a burst and returns its context and the tick at which it joined.
fn join(bench: &mut Bench, want: Want) -> (u8, u64) {
    bench.waiting.push_back(want);
    let before = bench.log.len();
    for _ in 0..100 {
        bench.cycle();
        let joined = bench.log[before..].iter().find_map(|event| match event {
            Event::Enqueue(burst) => Some((burst.ctx, burst.tick)),
            _ => None,
        });
        if let Some(joined) = joined {
            for _ in 0..8 {
                bench.cycle();
            }
            return joined;
        }
    }
    panic!("not taken");
}

#[test]
fn a_burst_is_marked_from_one_tick_above_the_target_on() {
    for target in [40u64, 41, 1_000, 70_000] {
        for beyond in [-1i64, 0, 1, 2] {
            let mut bench = stalled();
            bench.cn_target = target;
            let (_, first) = join(&mut bench, Want::new(1, 0, 0, 1_000, 3));
            let due = first + TO_DUE;
            // The tick at which the second one joins is the one after it is offered.
            while bench.ticks + 1 < due + target.saturating_add_signed(beyond) {
                bench.cycle();
            }
            let (ctx, joined) = join(&mut bench, Want::new(1, 0, 0, 1_000, 1));
            assert_eq!(joined - due, target.saturating_add_signed(beyond));
            let marked = bench.marks == [ctx];
            assert_eq!(marked, beyond > 0, "target {target}, {beyond} beyond");
            // Another queue is not congested.
            join(&mut bench, Want::new(2, 0, 0, 1_000, 1));
            assert_eq!(bench.marks.len(), usize::from(marked));
        }
    }
}

#[test]
fn waiting_for_a_departure_is_not_sojourn() {
    let mut bench = Bench::new(Schedule4::default());
    bench.cn_target = 10;
    // A paced flow of the queue whose next segment is due in 100,000 ticks.
    join(&mut bench, Want::new(0, 5, inv(100.0), 1_000, 4));
    for _ in 0..5_000 {
        bench.cycle();
    }
    assert_eq!(bench.grants.len(), 1);
    join(&mut bench, Want::new(0, 6, inv(100.0), 1_000, 1));
    join(&mut bench, Want::new(0, 5, inv(100.0), 1_000, 1));
    let launch = Want {
        launch: Some(bench.ticks + 50_000),
        ..Want::new(0, 7, 0, 1_000, 1)
    };
    join(&mut bench, launch);
    join(&mut bench, Want::new(0, 0, 0, 1_000, 1));
    assert!(bench.marks.is_empty());
    // It is due at 100,000 and stays so: from then on it counts.
    bench.sink = Sink::Random(0);
    let due = bench.ticks + 100_000;
    while bench.ticks < due {
        bench.cycle();
    }
    let (ctx, _) = join(&mut bench, Want::new(0, 8, inv(1.0), 1_000, 1));
    assert_eq!(bench.marks, [ctx]);
}

#[test]
fn what_is_due_behind_a_closed_gate_counts() {
    let mut bench = Bench::new(Schedule4::default());
    bench.cn_target = 500;
    bench.queue_rate(3, inv(50.0));
    join(&mut bench, Want::new(3, 0, 0, 1_000, 2));
    for _ in 0..600 {
        bench.cycle();
    }
    assert_eq!(bench.grants.len(), 1, "the gate is closed for 50,000 ticks");
    let (ctx, _) = join(&mut bench, Want::new(3, 1, inv(1.0), 1_000, 1));
    assert_eq!(bench.marks, [ctx]);
    bench.drain();
    bench.marks.clear();
    join(&mut bench, Want::new(3, 0, 0, 1_000, 1));
    assert!(bench.marks.is_empty(), "alone");
}
