// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use proptest::prelude::*;

/// One step and the state it must lead to.
enum Step {
    /// Queue bytes: avail after it.
    Q(u32, i64),
    /// Complete bytes at a time: limit and avail after it.
    C(u32, u64, u32, i64),
}
use Step::{C, Q};

fn run(d: &mut Dql, steps: &[Step]) {
    for (i, s) in steps.iter().enumerate() {
        match *s {
            Q(bytes, avail) => {
                d.queue(bytes).unwrap();
                assert_eq!(d.avail(), avail, "step {i}");
            }
            C(bytes, t, limit, avail) => {
                d.complete(bytes, t).unwrap();
                assert_eq!((d.limit(), d.avail()), (limit, avail), "step {i}");
            }
        }
    }
}

fn fresh(limit: u32) -> Dql {
    Dql::new(limit, 0, MAX_LIMIT, 1_000, 0)
}

#[test]
fn constants() {
    assert_eq!(MAX_OBJECT, 268_435_455);
    assert_eq!(MAX_LIMIT, 1_879_048_192);
}

#[test]
fn the_first_burst_is_taken_and_sets_the_limit() {
    run(
        &mut fresh(0),
        &[
            Q(65_160, -65_160),
            C(65_160, 0, 65_160, 65_160),
            Q(65_160, 0),
            C(65_160, 0, 65_160, 65_160),
            Q(65_160, 0),
            Q(65_160, -65_160),
            C(65_160, 1, 65_160, 0),
            C(65_160, 1, 130_320, 130_320),
            Q(65_160, 65_160),
            Q(65_160, 0),
            C(130_320, 2, 130_320, 130_320),
        ],
    );
}

#[test]
fn batches_at_line_rate() {
    run(
        &mut fresh(0),
        &[
            Q(12_112, -12_112),
            C(12_112, 0, 12_112, 12_112),
            Q(12_112, 0),
            Q(12_112, -12_112),
            C(12_112, 1, 12_112, 0),
            Q(12_112, -12_112),
            C(12_112, 2, 24_224, 12_112),
            C(12_112, 2, 24_224, 24_224),
        ],
    );
}

#[test]
fn never_drained_from_zero_does_not_grow() {
    run(
        &mut fresh(0),
        &[
            Q(100_000, -100_000),
            C(50_000, 1, 0, -50_000),
            Q(50_000, -100_000),
            C(20_000, 2, 0, -80_000),
            Q(20_000, -100_000),
            C(20_000, 500, 0, -80_000),
            Q(20_000, -100_000),
            C(20_000, 1_000, 0, -80_000),
            Q(20_000, -100_000),
            C(20_000, 1_002, 0, -80_000),
            Q(20_000, -100_000),
            C(20_000, 1_003, 0, -80_000),
        ],
    );
}

#[test]
fn slack_that_lasts_is_given_back() {
    let mut d = fresh(100_000);
    run(
        &mut d,
        &[
            Q(90_000, 10_000),
            C(20_000, 1, 100_000, 30_000),
            Q(20_000, 10_000),
            C(20_000, 400, 100_000, 30_000),
            Q(20_000, 10_000),
            C(24_000, 999, 100_000, 34_000),
            Q(24_000, 10_000),
            C(20_000, 1_001, 48_000, -22_000),
            Q(20_000, -42_000),
            C(20_000, 1_002, 48_000, -22_000),
        ],
    );
    assert_eq!(d.lowest_slack, 8_000);
}

#[test]
fn what_was_over_the_limit_counts_when_all_of_it_is_done() {
    let mut d = fresh(10_000);
    run(&mut d, &[Q(15_000, -5_000), C(5_000, 0, 10_000, 0)]);
    assert_eq!(d.over_before, 5_000);
    d.queue(1_000).unwrap();
    d.complete(10_000, 0).unwrap();
    assert_eq!(d.limit(), 15_000, "exactly all of it is enough");
}

#[test]
fn clamps() {
    let mut low = Dql::new(0, 30_000, MAX_LIMIT, 1_000, 0);
    run(
        &mut low,
        &[
            Q(1_514, -1_514),
            C(1_514, 0, 30_000, 30_000),
            Q(1_514, 28_486),
            C(1_514, 1, 30_000, 30_000),
        ],
    );
    let mut high = Dql::new(0, 0, 20_000, 1_000, 0);
    run(
        &mut high,
        &[
            Q(65_160, -65_160),
            C(65_160, 0, 20_000, 20_000),
            Q(65_160, -45_160),
            C(65_160, 1, 20_000, 20_000),
        ],
    );
    assert_eq!(high.over_before, 45_160);
}

#[test]
fn counters_wrap() {
    let mut d = fresh(5_000);
    d.queued = 4_294_965_296;
    d.completed = d.queued;
    d.queued_before = d.queued;
    run(&mut d, &[Q(4_000, 1_000)]);
    assert_eq!((d.queued, d.inflight()), (2_000, 4_000));
    run(&mut d, &[C(4_000, 0, 5_000, 5_000)]);
    assert_eq!(d.completed, 2_000);
}

#[test]
fn stops_below_zero_and_opens_at_zero() {
    let mut d = fresh(3_000);
    let mut open = Vec::new();
    for _ in 0..3 {
        d.queue(1_514).unwrap();
        open.push((d.avail(), d.is_open()));
    }
    assert_eq!(open, [(1_486, true), (-28, false), (-1_542, false)]);
    d.complete(0, 5).unwrap();
    assert!(!d.is_open());
    d.complete(1_514, 5).unwrap();
    assert_eq!((d.avail(), d.is_open()), (-28, false));
    d.complete(1_514, 5).unwrap();
    assert_eq!((d.avail(), d.is_open()), (1_486, true));
}

#[test]
fn misuse_is_refused_and_counts_nothing() {
    let mut d = fresh(10);
    let before = d;
    assert_eq!(
        d.queue(MAX_OBJECT + 1),
        Err(DqlError::ObjectTooLarge(MAX_OBJECT + 1))
    );
    let not_there = DqlError::NotInFlight {
        bytes: 1,
        inflight: 0,
    };
    assert_eq!(d.complete(1, 0), Err(not_there));
    assert_eq!(d, before);
}

#[test]
fn stalls() {
    for (threshold, queued, done, want) in [
        (10, &[1_005][..], 1_009, None),
        (10, &[1_005], 1_010, Some(5)),
        (10, &[1_005], 1_015, Some(10)),
        (10, &[1_012], 1_015, None),
        (10, &[1_001, 1_012], 1_011, Some(10)),
        (10, &[1_001], 1_020, Some(19)),
        (0, &[1_001], 1_900, None),
        (200, &[1_001], 1_300, Some(299)),
    ] {
        let mut s = StallDetector::new(threshold, 1_000);
        for t in queued {
            s.queue(*t);
        }
        assert_eq!(s.complete(done), want, "{threshold} {queued:?} {done}");
        assert_eq!(s.count(), u64::from(want.is_some()));
        assert_eq!(s.longest(), want.unwrap_or(0));
        s.clear();
        assert_eq!((s.count(), s.longest()), (0, 0));
    }
}

#[test]
fn a_stall_begins_with_the_first_queueing_since_the_last_completion() {
    let mut s = StallDetector::new(10, 0);
    s.queue(5);
    s.queue(10_000);
    assert_eq!(s.complete(10_100), Some(10_095));
    // In the tick of a completion: it may have come before it.
    s.queue(10_100);
    assert_eq!(s.complete(10_200), None);
    s.queue(10_300);
    s.queue(10_301);
    assert_eq!(s.complete(10_310), Some(10));
    assert_eq!((s.count(), s.longest()), (2, 10_095));
}

#[test]
fn a_budget_that_starts_knows_what_is_in_flight() {
    let mut d = fresh(5_000);
    d.carry(7_000, 1_500);
    assert_eq!((d.inflight(), d.avail()), (7_000, -2_000));
    d.complete(4_000, 1).unwrap();
    assert_eq!((d.limit(), d.avail()), (5_000, 2_000), "still busy");
    assert_eq!(d.last_object_before, 1_500);
    d.complete(3_000, 2).unwrap();
    assert_eq!((d.limit(), d.avail()), (7_000, 7_000), "it ran dry");
}

proptest! {
    #[test]
    fn an_independent_transcription_agrees(
        limit in 0u32..200_000, min in 0u32..60_000, max in 60_000u32..400_000,
        ops in proptest::collection::vec((any::<bool>(), 0u32..70_000, 0u64..700), 1..200),
    ) {
        let mut d = Dql::new(limit, min, max, 1_000, 0);
        let mut r = Reference::new(limit, min, max);
        let mut now = 0;
        for (queue, bytes, dt) in ops {
            now += dt;
            if queue {
                d.queue(bytes).unwrap();
                r.queued += i64::from(bytes);
                r.last = i64::from(bytes);
            } else {
                let n = bytes.min(d.inflight());
                d.complete(n, now).unwrap();
                r.complete(i64::from(n), now);
            }
            prop_assert_eq!(i64::from(d.limit()), r.limit);
            prop_assert_eq!(d.avail(), r.limit + r.done - r.queued);
            prop_assert_eq!(i64::from(d.inflight()), r.queued - r.done);
        }
    }

    #[test]
    fn any_input_does(
        limit: u32, min: u32, max: u32, hold: u64,
        ops in proptest::collection::vec(any::<(bool, u32, u64)>(), 1..50),
    ) {
        let mut d = Dql::new(limit, min, max, hold, 0);
        let mut s = StallDetector::new(hold, 0);
        for (queue, bytes, t) in ops {
            if queue {
                let before = d;
                if d.queue(bytes).is_err() {
                    prop_assert_eq!(d, before);
                }
                s.queue(t);
            } else if d.complete(bytes, t).is_ok() && bytes > 0 {
                prop_assert!(d.limit() <= max.min(MAX_LIMIT));
            }
            s.complete(t);
        }
    }

    #[test]
    fn no_long_stall_is_missed(threshold in 1u64..100, start in 0u64..10_000, extra in 1u64..100) {
        let mut s = StallDetector::new(threshold, start);
        s.queue(start + 1);
        prop_assert!(s.complete(start + 1 + threshold + extra).is_some());
    }
}

/// The rules in unbounded integers, written from their description alone.
struct Reference {
    limit: i64,
    min: i64,
    max: i64,
    queued: i64,
    done: i64,
    last: i64,
    over: i64,
    queued_then: i64,
    last_then: i64,
    slack: i64,
    since: u64,
}

impl Reference {
    fn new(limit: u32, min: u32, max: u32) -> Reference {
        Reference {
            limit: limit.into(),
            min: min.into(),
            max: max.into(),
            queued: 0,
            done: 0,
            last: 0,
            over: 0,
            queued_then: 0,
            last_then: 0,
            slack: i64::MAX,
            since: 0,
        }
    }

    fn complete(&mut self, n: i64, now: u64) {
        if n == 0 {
            return;
        }
        let done = self.done + n;
        let over = (self.queued - self.done - self.limit).max(0);
        let all = done >= self.queued_then;
        let old = self.limit;
        if (over > 0 && self.queued == done) || (self.over > 0 && all) {
            self.limit += (done - self.queued_then).max(0) + self.over;
            self.since = now;
            self.slack = i64::MAX;
        } else if self.queued > done && self.queued_then > self.done && !all {
            let a = (self.limit + self.over - 2 * n).max(0);
            let b = if self.over > 0 {
                (self.last_then - self.over).max(0)
            } else {
                0
            };
            self.slack = self.slack.min(a.max(b));
            if now > self.since + 1_000 {
                self.limit = (self.limit - self.slack).max(0);
                self.since = now;
                self.slack = i64::MAX;
            }
        }
        self.limit = self.limit.clamp(self.min, self.max);
        self.over = if self.limit == old { over } else { 0 };
        self.last_then = self.last;
        self.done = done;
        self.queued_then = self.queued;
    }
}
