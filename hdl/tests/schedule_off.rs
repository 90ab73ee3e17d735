// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues that are turned off while they hold bursts, under Verilator.

mod schedule_support;
mod support;

use schedule_support::{Bench, Sink, Want, inv};
use tsonic_hdl::schedule::check::Segment;
use tsonic_hdl::schedule::{Schedule4, Schedule32};

/// A wire at the speed of the data path: 8 bytes a tick.
const WIRE: Sink = Sink::Wire {
    ticks_per_byte_256: 32,
    depth: 3,
};
/// The queue that is turned off, and another one.
const OFF: u8 = 1;
const ON: u8 = 2;

/// Every way to wait: without a rate, behind the queue's own rate, between two
/// segments, and for a launch time that is far away, alone and in a row.
fn fill(bench: &mut Bench) -> usize {
    bench.queue_rate(OFF, inv(500.0));
    let mut wants = vec![Want::new(OFF, 0, 0, 1514, 20); 3];
    for slot in 1..20 {
        wants.push(Want {
            launch: Some(bench.ticks + (1 << 31) + u64::from(slot)),
            ..Want::new(OFF, slot, inv(0.5), 1514, 2)
        });
    }
    for _ in 0..4 {
        wants.push(Want {
            launch: Some(bench.ticks + (1 << 30)),
            ..Want::new(OFF, 30, inv(1.0), 900, 3)
        });
    }
    wants.extend(vec![Want::new(OFF, 31, inv(300.0), 1514, 40); 6]);
    bench.waiting.extend(&wants);
    wants.len()
}

fn of_queue(segments: &[Segment], queue: u8) -> Vec<Segment> {
    segments
        .iter()
        .filter(|s| s.burst.queue == queue)
        .copied()
        .collect()
}

/// All of them come back soon, each once, in the order of their lists, and none of
/// them is segmented any more.
#[test]
fn what_waits_comes_back_at_once() {
    let mut bench = Bench::new(Schedule32::default());
    bench.sink = WIRE;
    let bursts = fill(&mut bench);
    for _ in 0..20_000 {
        bench.cycle();
    }
    let before = bench.grants.len();
    assert!(before > 0, "something was under way");
    let end = bench.ticks + 64 * 3 + bursts as u64 * 40;
    bench.enable(OFF, false);
    while bench.inside(OFF) > 0 {
        bench.cycle();
        assert!(bench.ticks < end, "{} are left", bench.inside(OFF));
    }
    bench.drain();
    let segments = bench.check(true);
    let last = segments.iter().filter(|s| s.grant.last).count();
    assert_eq!(last, bursts);
    let revoked = segments.iter().filter(|s| s.grant.revoked).count();
    assert!(revoked >= bursts - 1, "{revoked} of {bursts}");
    for s in segments.iter().filter(|s| s.grant.revoked) {
        assert!(s.grant.aborted && s.grant.last && s.grant.len == 0);
    }
}

/// What comes after the queue was turned off comes back too, also in a flow whose
/// time has not come; and the queue works again.
#[test]
fn what_comes_late_comes_back_too() {
    let mut bench = Bench::new(Schedule4::default());
    bench.sink = WIRE;
    bench
        .waiting
        .push_back(Want::new(OFF, 5, inv(20.0), 1514, 1));
    for _ in 0..200 {
        bench.cycle();
    }
    bench.enable(OFF, false);
    for _ in 0..3 {
        bench
            .waiting
            .push_back(Want::new(OFF, 5, inv(20.0), 1514, 3));
        bench.waiting.push_back(Want::new(OFF, 0, 0, 1514, 3));
        bench.waiting.push_back(Want {
            launch: Some(bench.ticks + 1_000_000),
            ..Want::new(OFF, 6, 0, 1514, 1)
        });
        for _ in 0..150 {
            bench.cycle();
        }
        assert_eq!(bench.inside(OFF), 0);
    }
    bench.enable(OFF, true);
    // Not before the time that the flow's last real segment left it with.
    bench
        .waiting
        .push_back(Want::new(OFF, 5, inv(20.0), 1514, 2));
    bench.drain();
    let segments = bench.check(true);
    let sent: Vec<_> = segments.iter().filter(|s| !s.grant.revoked).collect();
    assert_eq!(sent.len(), 3);
    assert_eq!(segments.len(), 3 + 9);
    // (The gap counts from the enqueue, some cycles before the grant.)
    assert!(sent[1].grant.tick - sent[0].grant.tick >= 20 * 1514 - 40);
}

/// The queue's own rate is neither paid nor forgotten.
#[test]
fn the_rate_of_the_queue_stays() {
    let mut bench = Bench::new(Schedule4::default());
    bench.queue_rate(OFF, inv(10.0));
    bench.waiting.push_back(Want::new(OFF, 0, 0, 1514, 3));
    for _ in 0..100 {
        bench.cycle();
    }
    assert_eq!(bench.grants.len(), 1);
    bench.enable(OFF, false);
    for _ in 0..50 {
        bench.cycle();
    }
    assert_eq!(bench.inside(OFF), 0);
    bench.enable(OFF, true);
    bench.waiting.push_back(Want::new(OFF, 0, 0, 1514, 1));
    bench.drain();
    let segments = bench.check(true);
    let apart = segments[2].grant.tick - segments[0].grant.tick;
    assert!(segments[1].grant.revoked);
    assert!((15_140 / 2..15_140 + 40).contains(&apart), "{apart}");
}

/// A flow of another queue, and that queue's unpaced bursts, are sent as without it.
#[test]
fn other_queues_do_not_notice() {
    let run = |disturb: bool| {
        let mut bench = Bench::new(Schedule32::default());
        bench.sink = WIRE;
        if disturb {
            fill(&mut bench);
        }
        for _ in 0..4_000 {
            bench.cycle();
        }
        let start = bench.ticks;
        for _ in 0..5 {
            bench
                .waiting
                .push_back(Want::new(ON, 40, inv(0.5), 1514, 40));
        }
        for _ in 0..500 {
            bench.cycle();
        }
        if disturb {
            bench.enable(OFF, false);
        }
        bench.drain();
        let flow = of_queue(&bench.check(true), ON);
        assert_eq!(flow.len(), 200);
        flow.iter()
            .map(|s| s.grant.tick - start)
            .collect::<Vec<_>>()
    };
    let (alone, disturbed) = (run(false), run(true));
    for (a, b) in alone.iter().zip(&disturbed) {
        // A frame in front of it on the wire, and the looks at what comes back.
        assert!(a.abs_diff(*b) < 400, "{a} {b}");
    }
    let whole = |ticks: &[u64]| ticks[199] - ticks[0];
    assert!(whole(&alone).abs_diff(whole(&disturbed)) < 400);
}

/// A burst behind one of another queue in its flow waits for that one only.
#[test]
fn a_flow_of_two_queues() {
    let mut bench = Bench::new(Schedule4::default());
    bench.sink = WIRE;
    let far = bench.ticks + 100_000;
    let launched = |queue| Want {
        launch: Some(far),
        ..Want::new(queue, 9, inv(2.0), 1514, 2)
    };
    bench
        .waiting
        .extend([launched(OFF), launched(ON), launched(OFF), launched(ON)]);
    for _ in 0..200 {
        bench.cycle();
    }
    bench.enable(OFF, false);
    for _ in 0..300 {
        bench.cycle();
    }
    assert_eq!((bench.inside(OFF), bench.inside(ON)), (1, 2));
    bench.drain();
    let segments = bench.check(true);
    let sent = of_queue(&segments, ON);
    assert_eq!(sent.len(), 4);
    assert!(sent[0].grant.tick >= far && sent[0].grant.tick < far + 100);
    assert_eq!(of_queue(&segments, OFF).len(), 2);
}
