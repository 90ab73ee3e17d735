// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties of pacing, of queue rates and of the arbiter, under Verilator.

mod schedule_support;
mod support;

use schedule_support::{Bench, Sink, Want, inv, pass};
use std::collections::{BTreeMap, BTreeSet};
use tsonic_hdl::schedule::check::{Segment, fairness, window};
use tsonic_hdl::schedule::{LONGEST_GAP, Schedule4, Schedule8, Schedule32, Schedule32Wide};

/// A wire at the speed of the data path: 8 bytes a tick.
const WIRE: Sink = Sink::Wire {
    ticks_per_byte_256: 32,
    depth: 3,
};

fn of_flow(segments: &[Segment], slot: u16) -> Vec<Segment> {
    segments
        .iter()
        .filter(|s| s.burst.flow_slot == slot)
        .copied()
        .collect()
}

/// Keeps every want going: when a burst of it has been taken, the next comes.
fn run(bench: &mut Bench, cycles: u64, wants: &[Want]) {
    let mut posted: BTreeMap<(u16, u8), i64> = BTreeMap::new();
    let mut seen = bench.grants.len();
    let end = bench.cycles + cycles;
    let key = |want: &Want| {
        (
            want.flow_slot,
            if want.flow_slot == 0 { want.queue } else { 0 },
        )
    };
    let mut owner: BTreeMap<u8, (u16, u8)> = BTreeMap::new();
    let mut logged = bench.log.len();
    while bench.cycles < end {
        for want in wants {
            let count = posted.entry(key(want)).or_default();
            if *count < 2 {
                *count += 1;
                bench.waiting.push_back(*want);
            }
        }
        bench.cycle();
        for event in &bench.log[logged..] {
            if let tsonic_hdl::schedule::check::Event::Enqueue(b) = event {
                owner.insert(
                    b.ctx,
                    (b.flow_slot, if b.flow_slot == 0 { b.queue } else { 0 }),
                );
            }
        }
        logged = bench.log.len();
        for (_, grant) in &bench.grants[seen..] {
            if grant.last
                && let Some(count) = posted.get_mut(&owner[&grant.ctx])
            {
                *count -= 1;
            }
        }
        seen = bench.grants.len();
    }
}

/// Alone, a flow leaves at its ticks: never early, a few cycles late at most, and
/// its rate is exact over a long time.
#[test]
fn one_flow_is_exact() {
    for (slot, rate) in [(1, 0.13), (40, 1.000_003), (63, 7.77)] {
        let mut bench = Bench::new(Schedule4::default());
        let rate = inv(rate);
        let want = Want::new(2, slot, rate, 1514, 40);
        run(&mut bench, 400_000, &[want]);
        let segments = bench.check(false);
        let flow = of_flow(&segments, slot);
        // The gap may be shorter than the logic's own latency of a re-key, 14
        // cycles and the decision's 5, then V catches up; here it is longer.
        let late = flow.iter().map(|s| s.grant.tick - s.earliest).max();
        assert!(late <= Some(24), "late by {late:?}");
        let (first, last) = (flow[0], flow[flow.len() - 1]);
        let bytes: u64 = flow[..flow.len() - 1]
            .iter()
            .map(|s| u64::from(s.wire_bytes))
            .sum();
        let ideal = bytes as f64 * rate as f64 / f64::from(1 << 28);
        let error = ((last.grant.tick - first.grant.tick) as f64 - ideal).abs();
        assert!(error <= 24.0, "{error} ticks of {ideal}");
    }
}

/// While lateness stays within D no rate is lost, whatever the contention: 30
/// flows that ask for 80 % of a wire that others would fill alone.
#[test]
fn rates_hold_under_contention() {
    let mut bench = Bench::new(Schedule32::default());
    bench.sink = WIRE;
    bench.lateness_debt = 64 * 9_000 / 8;
    let mut wants = Vec::new();
    for queue in 0..3 {
        bench.quantum(queue, 9_000);
    }
    for n in 0..30u16 {
        // Shares from 1 to 30, in sum 80 % of 8 bytes a tick.
        let share = 0.8 * f64::from(n + 1) / 465.0;
        let wire = [300, 1514, 9000][usize::from(n) / 10];
        let rate = inv(f64::from(wire + 24) / f64::from(wire) / 8.0 / share);
        wants.push(Want::new(n as u8 % 3, n + 1, rate, wire, 6));
    }
    bench.quantum(3, 1_514);
    wants.push(Want::new(3, 0, 0, 1514, 2));
    run(&mut bench, 3_000_000, &wants);
    let segments = bench.check(false);
    for n in 0..30u16 {
        let flow = of_flow(&segments, n + 1);
        let lag = flow.iter().map(|s| s.lag).max().expect("grants");
        assert!(
            lag < bench.lateness_debt / 2,
            "flow {} was {lag} behind",
            n + 1
        );
        let (first, last) = (flow[0], flow[flow.len() - 1]);
        let bytes: u64 = flow[..flow.len() - 1]
            .iter()
            .map(|s| u64::from(s.wire_bytes))
            .sum();
        let ideal = bytes as f64 * first.burst.inv_rate as f64 / f64::from(1 << 28);
        let took = (last.grant.tick - first.grant.tick) as f64;
        // Between two grants that are equally late the rate is exact.
        let error = took - ideal - (last.lag as f64 - first.lag as f64);
        assert!(error.abs() <= 2.0, "flow {}: {took} for {ideal}", n + 1);
        assert!(
            (took - ideal).abs() <= lag as f64 + 2.0,
            "flow {}: {took} for {ideal}",
            n + 1
        );
    }
    let wire: u64 = segments.iter().map(|s| u64::from(s.wire_bytes) + 24).sum();
    assert!(wire > 8 * 2_990_000, "the wire was idle: {wire}");
}

/// Strict debt: the window bound holds with D = 0.
#[test]
fn strict_window() {
    let mut bench = Bench::new(Schedule8::default());
    bench.sink = WIRE;
    bench.lateness_debt = 0;
    let wants: Vec<_> = (1..20)
        .map(|n| {
            Want::new(
                n as u8 % 8,
                n,
                inv(1.0 + f64::from(n) / 7.0),
                400 + 60 * u32::from(n),
                5,
            )
        })
        .collect();
    run(&mut bench, 300_000, &wants);
    let segments = bench.check(false);
    for n in 1..20 {
        pass(window(&segments, n, 0));
        assert!(of_flow(&segments, n).len() > 40);
    }
}

/// All flows due at one tick: each once, in the order of their slots, nobody
/// waits longer than all others together.
fn all_at_once(mut bench: Bench, slots: u16) {
    let launch = bench.ticks + 20_000;
    for slot in 1..slots {
        let mut want = Want::new(3, slot, inv(0.0), 60, 1);
        want.launch = Some(launch);
        bench.waiting.push_back(want);
    }
    bench.drain();
    let segments = bench.check(true);
    let order: Vec<_> = segments.iter().map(|s| s.burst.flow_slot).collect();
    assert_eq!(order, (1..slots).collect::<Vec<_>>());
    assert!(segments[0].grant.tick >= launch && segments[0].grant.tick < launch + 20);
    let last = segments[segments.len() - 1].grant.tick - launch;
    assert!(last < 12 * u64::from(slots), "last out after {last} ticks");
}

#[test]
fn all_64_at_once() {
    all_at_once(Bench::new(Schedule8::default()), 64);
}

#[test]
fn all_256_at_once() {
    all_at_once(Bench::new(Schedule32Wide::default()), 256);
}

/// A queue whose gate is closed, or whose budget is used up, costs the others
/// nothing: they send as if it were not there.
#[test]
fn a_blocked_queue_costs_nothing() {
    let sent = |blocked: bool| {
        let mut bench = Bench::new(Schedule4::default());
        bench.sink = WIRE;
        let mut wants: Vec<_> = (0..3).map(|q| Want::new(q, 0, 0, 1514, 4)).collect();
        wants.push(Want::new(0, 5, inv(0.3), 700, 4));
        if blocked {
            bench.budget = 0b0111;
            wants.push(Want::new(3, 0, 0, 9000, 4));
            wants.push(Want::new(3, 9, inv(0.2), 9000, 4));
        }
        run(&mut bench, 200_000, &wants);
        let segments = bench.check(false);
        assert!(segments.iter().all(|s| s.grant.queue != 3));
        segments
            .iter()
            .map(|s| u64::from(s.wire_bytes))
            .sum::<u64>()
    };
    let (alone, blocked) = (sent(false), sent(true));
    assert!(alone.abs_diff(blocked) <= 2 * 1514, "{alone} {blocked}");
    assert!(alone > 200_000 * 8 * 95 / 100, "{alone}");
}

/// Deficit round robin: shares by quantum, whatever the lengths of segments.
#[test]
fn shares_follow_quanta() {
    let mut bench = Bench::new(Schedule8::default());
    bench.sink = WIRE;
    let quanta: BTreeMap<u8, u32> = [
        (0, 1514),
        (1, 3028),
        (2, 9000),
        (3, 16_000),
        (5, 1514),
        (7, 65_535),
    ]
    .into();
    for (&queue, &quantum) in &quanta {
        bench.quantum(queue, quantum);
    }
    let lengths = [1514, 300, 9000, 700, 64, 4000, 1514, 9000];
    let wants: Vec<_> = quanta
        .keys()
        .map(|&q| Want::new(q, 0, 0, lengths[usize::from(q)], 8))
        .collect();
    run(&mut bench, 600_000, &wants);
    let segments = bench.check(false);
    // From when all queues have work.
    let seen: BTreeSet<u8> = segments.iter().take(100).map(|s| s.grant.queue).collect();
    assert_eq!(seen.len(), quanta.len());
    pass(fairness(&segments[100..], &quanta));
}

/// Segments below the quantum, and one queue far in debt by segments of many
/// quanta: still by bytes.
#[test]
fn small_quanta_are_fair() {
    let mut bench = Bench::new(Schedule4::default());
    bench.sink = WIRE;
    let quanta: BTreeMap<u8, u32> = [(0, 100), (1, 100), (2, 200)].into();
    for (&queue, &quantum) in &quanta {
        bench.quantum(queue, quantum);
    }
    let wants = [
        Want::new(0, 0, 0, 9000, 8),
        Want::new(1, 0, 0, 64, 8),
        Want::new(2, 0, 0, 1514, 8),
    ];
    run(&mut bench, 300_000, &wants);
    let segments = bench.check(false);
    pass(fairness(&segments[60..], &quanta));
}

/// A queue's rate: never above it in any window, and reached when there is work.
#[test]
fn queue_rate() {
    let mut bench = Bench::new(Schedule4::default());
    bench.sink = WIRE;
    bench.lateness_debt = 20_000;
    let rate = inv(0.5);
    for queue in 0..4 {
        bench.quantum(queue, 3_000);
    }
    bench.queue_rate(1, rate);
    let wants = [
        Want::new(0, 0, 0, 1514, 4),
        Want::new(1, 0, 0, 1514, 4),
        Want::new(1, 7, inv(1.0), 300, 4),
        Want::new(2, 8, inv(2.0), 300, 4),
    ];
    run(&mut bench, 400_000, &wants);
    let segments = bench.check(false);
    let queue: Vec<_> = segments.iter().filter(|s| s.grant.queue == 1).collect();
    let cost = |bytes: u64| bytes as f64 / 2.0;
    let mut bytes = 0;
    for s in &queue {
        bytes += u64::from(s.wire_bytes);
        let window = (s.grant.tick - queue[0].grant.tick + bench.lateness_debt) as f64;
        assert!(cost(bytes) <= window + cost(1514) + 1.0);
    }
    let took = (queue[queue.len() - 1].grant.tick - queue[0].grant.tick) as f64;
    assert!(cost(bytes) > took * 0.999, "{} of {took}", cost(bytes));
    // The other queues got what was left.
    let rest: u64 = segments
        .iter()
        .filter(|s| s.grant.queue == 0)
        .map(|s| u64::from(s.wire_bytes))
        .sum();
    assert!(rest > 400_000 * 5, "{rest}");
}

/// A new rate ends the wait that the one before led to, at whatever moment of a grant
/// it is written, and holds from the next grant on.
#[test]
fn a_new_rate_acts_at_once() {
    let mut bench = Bench::new(Schedule4::default());
    bench.sink = WIRE;
    for after in 0..70 {
        for (rate, gap) in [(0, 0), (inv(10.0), 15_140)] {
            bench.reset();
            let start = bench.ticks;
            bench.queue_rate(1, inv(1e6));
            let flow = u16::from(after % 2 == 1);
            bench.waiting.push_back(Want::new(1, flow, 0, 1514, 8));
            for _ in 0..after {
                bench.cycle();
            }
            bench.queue_rate(1, rate);
            bench.drain();
            let segments = bench.check(true);
            let ticks: Vec<u64> = segments.iter().map(|s| s.grant.tick).collect();
            assert!(ticks[0] < start + 150, "{after}: {ticks:?}");
            // The first may have gone by the rate before.
            let mut gaps: Vec<u64> = ticks.windows(2).map(|pair| pair[1] - pair[0]).collect();
            if gaps[0] < 250 {
                gaps.remove(0);
            }
            assert!(gaps.len() >= 6);
            for apart in gaps {
                // (A frame on the wire takes 190 ticks.)
                assert!((gap..gap + 250).contains(&apart), "{after}: {ticks:?}");
            }
        }
    }
}

/// The same for all queues at once, under load.
#[test]
fn new_rates_of_all_queues() {
    let mut bench = Bench::new(Schedule32::default());
    bench.sink = WIRE;
    for queue in 0..31 {
        bench.queue_rate(queue, inv(1e6));
        bench.waiting.push_back(Want::new(queue, 0, 0, 1514, 3));
    }
    // The last one always has work.
    for _ in 0..20 {
        bench.waiting.push_back(Want::new(31, 0, 0, 1514, 40));
    }
    for _ in 0..20_000 {
        bench.cycle();
    }
    let of = |bench: &Bench| bench.grants.iter().filter(|(_, g)| g.queue != 31).count();
    assert_eq!(of(&bench), 31);
    for queue in 0..31 {
        bench.queue_rate(queue, 0);
    }
    // Two segments each, and as much of the one without a rate in between.
    let end = bench.ticks + 2 * 2 * 31 * 190 + 16_384 * 2 / 8 * 32;
    while of(&bench) < 3 * 31 {
        bench.cycle();
        assert!(bench.ticks < end, "{} grants", of(&bench));
    }
    bench.drain();
    bench.check(true);
}

/// Gaps about 2^8, 2^16 and 2^24 ticks, the longest gap, and one beyond it.
#[test]
fn gaps_at_powers_of_two() {
    let mut bench = Bench::new(Schedule4::default());
    bench.lateness_debt = 0;
    let mut slot = 0;
    let mut gaps = Vec::new();
    for (power, wire) in [(8, 64), (16, 64), (24, 64), (30, 8192)] {
        for gap in [(1u64 << power) - 1, 1 << power, (1 << power) + 1] {
            slot += 1;
            // Rounded up, so at most one tick longer.
            gaps.push((slot, gap));
            let rate = (gap << 28).div_ceil(u64::from(wire));
            bench.waiting.push_back(Want::new(1, slot, rate, wire, 3));
        }
    }
    // The longest: 2^32 ticks, whatever the rate says.
    slot += 1;
    gaps.push((slot, LONGEST_GAP));
    bench
        .waiting
        .push_back(Want::new(1, slot, (1 << 48) - 1, 64 * 300, 3));
    bench.drain();
    let segments = bench.check(true);
    for (slot, gap) in gaps {
        let flow = of_flow(&segments, slot);
        assert_eq!(flow.len(), 3);
        for pair in flow.windows(2) {
            let apart = pair[1].grant.tick - pair[0].grant.tick;
            assert!((gap..gap + 60).contains(&apart), "gap {gap}: {apart}");
        }
    }
}

/// A flow that was idle, however long, has no credit and no debt; and one whose
/// key lies ahead keeps it.
#[test]
fn idleness() {
    let mut bench = Bench::new(Schedule4::default());
    let rate = inv(10.0);
    for idle in [
        0,
        1,
        1 << 20,
        1 << 33,
        (1 << 34) - 3,
        1 << 34,
        (1 << 40) + 12345,
    ] {
        bench.waiting.push_back(Want::new(0, 3, rate, 1000, 2));
        bench.drain();
        bench.ticks += idle;
        bench.cycle();
        bench.waiting.push_back(Want::new(0, 3, rate, 1000, 4));
        bench.drain();
    }
    // Before the key, which is 10,000 ticks after the enqueue of the first.
    bench.waiting.push_back(Want::new(0, 3, rate, 1000, 1));
    for _ in 0..5_000 {
        bench.cycle();
    }
    bench.waiting.push_back(Want::new(0, 3, rate, 1000, 1));
    bench.drain();
    let segments = bench.check(true);
    assert_eq!(segments.len(), 7 * 6 + 2);
    for s in &segments {
        assert!(s.grant.tick - s.earliest < 60, "{s:?}");
    }
    let two = &segments[segments.len() - 2..];
    let apart = two[1].grant.tick - two[0].grant.tick;
    assert!((9_960..10_060).contains(&apart), "{apart}");
    pass(window(&segments, 3, bench.lateness_debt));
}

/// A flow that waits behind a closed gate for longer than the key's range.
#[test]
fn a_wait_beyond_the_range_of_keys() {
    let mut bench = Bench::new(Schedule4::default());
    bench.lateness_debt = 1_000;
    bench.waiting.push_back(Want::new(0, 3, inv(10.0), 1000, 3));
    for _ in 0..20_000 {
        bench.cycle();
    }
    bench.budget = 0;
    for _ in 0..30_000 {
        bench.cycle();
    }
    for _ in 0..9 {
        bench.ticks += 1 << 32;
        bench.cycle();
    }
    bench.budget = u64::MAX;
    bench.drain();
    let segments = bench.check(true);
    assert_eq!(segments.len(), 3);
}

/// Launch times: not before, in posting order, and past ones do nothing.
#[test]
fn launch_times() {
    let mut bench = Bench::new(Schedule4::default());
    let start = bench.ticks;
    for (after, rate) in [
        (5_000u64, 0),
        (3_000, 0),
        (9_000, inv(1.0)),
        (9_100, 0),
        (1 << 33, 0),
    ] {
        let mut want = Want::new(2, 4, rate, 500, 2);
        want.launch = Some(start + after);
        bench.waiting.push_back(want);
    }
    bench.drain();
    let segments = bench.check(true);
    let ticks: Vec<_> = segments.iter().map(|s| s.grant.tick - start).collect();
    assert!((5_000..5_030).contains(&ticks[0]), "{ticks:?}");
    assert!(
        ticks[3] < 5_120,
        "a past launch time does nothing: {ticks:?}"
    );
    assert!((9_000..9_030).contains(&ticks[4]), "{ticks:?}");
    assert!((9_500..9_530).contains(&ticks[5]), "{ticks:?}");
    assert!((10_000..10_030).contains(&ticks[6]), "{ticks:?}");
    // Beyond 2^32 ticks it is 2^32 ticks after the grant before.
    let horizon = ticks[7] + LONGEST_GAP;
    assert!((horizon..horizon + 30).contains(&ticks[8]), "{ticks:?}");
}

/// Decisions: every 7 cycles for one list, and 8 at most for frames of 64 bytes
/// from many queues, which take 8 cycles of the data path.
#[test]
fn decisions_are_fast() {
    let mut bench = Bench::new(Schedule4::default());
    run(&mut bench, 6_000, &[Want::new(1, 0, 0, 100, 60)]);
    let cycles: Vec<_> = bench.grants.iter().map(|(cycle, _)| *cycle).collect();
    let inside = cycles[20..].windows(2).filter(|w| w[1] - w[0] == 7).count();
    assert!(
        inside * 100 > cycles.len() * 95,
        "{inside} of {}",
        cycles.len()
    );

    let mut bench = Bench::new(Schedule32::default());
    let wants: Vec<_> = (0..32).map(|q| Want::new(q, 0, 0, 64, 20)).collect();
    for queue in 0..32 {
        bench.quantum(queue, 64);
    }
    run(&mut bench, 20_000, &wants);
    let cycles: Vec<_> = bench.grants.iter().map(|(cycle, _)| *cycle).collect();
    let mean = (cycles[cycles.len() - 1] - cycles[100]) as f64 / (cycles.len() - 101) as f64;
    println!("queues in turn: {mean:.2} cycles a decision");
    assert!(mean <= 8.0, "{mean} cycles a decision");

    // Paced flows far below their rate: the rate arithmetic keeps up.
    let mut bench = Bench::new(Schedule32::default());
    let wants: Vec<_> = (1..60)
        .map(|n| Want::new(n as u8 % 32, n, inv(0.2), 64, 20))
        .collect();
    run(&mut bench, 20_000, &wants);
    let cycles: Vec<_> = bench.grants.iter().map(|(cycle, _)| *cycle).collect();
    let mean = (cycles[cycles.len() - 1] - cycles[100]) as f64 / (cycles.len() - 101) as f64;
    println!("paced flows in turn: {mean:.2} cycles a decision");
    assert!(mean <= 8.0, "{mean} cycles a decision");
}

/// Reset at any moment: nothing of before comes out, and all works after it.
#[test]
fn reset_forgets() {
    let mut bench = Bench::new(Schedule8::default());
    for round in 0..30u64 {
        bench.queue_rate(1, inv(2.0));
        let wants: Vec<_> = (0..30)
            .map(|n| Want::new(n as u8 % 8, n, inv(f64::from(n) / 9.0), 900, 3))
            .collect();
        run(&mut bench, 1_000 + 37 * round, &wants);
        bench.waiting.clear();
        bench.reset();
        for _ in 0..2_000 {
            bench.cycle();
        }
        assert!(bench.log.is_empty(), "{:?}", bench.log);
        assert!(bench.idle() && bench.next_event().is_none());
    }
    bench.waiting.push_back(Want::new(1, 5, inv(1.0), 900, 3));
    bench.drain();
    assert_eq!(bench.check(true).len(), 3);
}
