// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the scoreboard: against a model that knows each byte's fate.

use super::*;
use proptest::prelude::*;

const MSS: u32 = 100;

#[derive(Clone, Debug)]
enum Step {
    Push(u64),
    Ack(u64),
    Sack(u64, u64),
    Lose(usize),
    Retransmit,
    Complete,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (1u64..2000).prop_map(Step::Push),
        (0u64..1500).prop_map(Step::Ack),
        // Between two segments, which is what peers acknowledge.
        (0u64..15).prop_map(|n| Step::Ack(n * u64::from(MSS))),
        (0u64..5000, 1u64..900).prop_map(|(a, n)| Step::Sack(a, n)),
        (0usize..20).prop_map(Step::Lose),
        Just(Step::Retransmit),
        Just(Step::Complete),
    ]
}

/// What each sequence number's fate is, kept byte by byte.
#[derive(Default)]
struct Bytes {
    una: u64,
    sacked: Vec<bool>,
}

proptest! {
    #[test]
    fn a_whole_burst_departs_from_its_first_to_its_last_segment(
        start in 0u64..1 << 40, len in 1u64..100_000, mss in 1u32..9_000, first: u64, last: u64,
    ) {
        let (first, last) = (Nanos(first), Nanos(last));
        let d = Departure { start, end: start + len, mss, first, last };
        prop_assert_eq!(d.whole(), (d.at(start), d.at(start + len - 1)));
    }

    #[test]
    fn a_range_is_found_by_the_size_of_bursts_or_without(
        sizes in proptest::collection::vec(prop_oneof![Just(4_500u64), 1u64..9_000], 1..20), seq in 0u64..100_000,
    ) {
        let mut b = Scoreboard::new(MSS);
        let mut nxt = 0;
        for n in sizes {
            b.push(nxt, nxt + n, 0, Nanos(0));
            nxt += n;
        }
        let starts: Vec<u64> = b.ranges().map(|r| r.start).collect();
        for seq in starts.into_iter().chain([seq]) {
            prop_assert_eq!(b.index_by_size(seq), b.index(seq));
        }
    }

    #[test]
    fn ranges_cover_what_is_out_and_counters_agree(steps in proptest::collection::vec(step(), 1..60)) {
        let mut b = Scoreboard::new(MSS);
        let mut model = Bytes::default();
        let mut burst = 0;
        let mut in_nic: Vec<(u32, u64, u64)> = Vec::new();
        let mut now = Nanos(0);
        for s in steps {
            now += Nanos(1000);
            let nxt = model.sacked.len() as u64;
            match s {
                Step::Push(n) => {
                    b.push(nxt, nxt + n, burst, now);
                    in_nic.push((burst, nxt, nxt + n));
                    burst += 1;
                    model.sacked.extend((0..n).map(|_| false));
                }
                Step::Ack(n) => {
                    let una = (model.una + n).min(nxt);
                    let mut seen = 0;
                    let mut right = true;
                    b.acknowledge(una, |r, n| {
                        seen += r.end - r.start;
                        right &= n == r.segments(MSS);
                    });
                    prop_assert!(right);
                    prop_assert_eq!(seen, una - model.una);
                    model.una = una;
                }
                Step::Sack(at, n) => {
                    let start = (model.una + at).min(nxt);
                    let end = (start + n).min(nxt);
                    let news = (start..end).filter(|i| !model.sacked[*i as usize]).count() as u64;
                    let mut seen = 0;
                    b.sack(start, end, |r| seen += r.end - r.start);
                    prop_assert_eq!(seen, news);
                    for i in start..end {
                        model.sacked[i as usize] = true;
                    }
                }
                Step::Lose(i) => {
                    if b.get(i).is_some_and(|r| !r.sacked && !r.in_nic()) {
                        b.mark_lost(i);
                    }
                }
                Step::Retransmit => {
                    if let Some(r) = b.next_lost().copied() {
                        let end = r.end.min(r.start + 3 * u64::from(MSS));
                        b.retransmit(r.start, end, burst, now);
                        in_nic.push((burst, r.start, end));
                        burst += 1;
                    }
                }
                Step::Complete => {
                    if !in_nic.is_empty() {
                        let (id, start, end) = in_nic.remove(0);
                        b.complete(id, &Departure { start, end, mss: MSS, first: now, last: now + Nanos(50) });
                        prop_assert!(b.ranges().all(|r| r.burst != id));
                    }
                }
            }
            let mut at = model.una;
            for r in b.ranges() {
                prop_assert_eq!(r.start, at);
                prop_assert!(r.end > r.start && r.first <= r.last);
                prop_assert!(!(r.sacked && (r.lost || r.retransmitted)));
                for i in r.start..r.end {
                    prop_assert_eq!(r.sacked, model.sacked[i as usize]);
                }
                at = r.end;
            }
            prop_assert_eq!(at, model.sacked.len() as u64);
            prop_assert_eq!(b.counts(), b.recount());
        }
    }
}

#[test]
fn a_segment_departs_at_its_share() {
    let d = Departure {
        start: 1000,
        end: 1450,
        mss: MSS,
        first: Nanos(100),
        last: Nanos(500),
    };
    let at: Vec<u64> = [1000, 1099, 1100, 1399, 1400, 1449]
        .iter()
        .map(|s| d.at(*s).0)
        .collect();
    assert_eq!(at, [100, 100, 200, 400, 500, 500]);
    let mut b = Scoreboard::new(MSS);
    b.push(1000, 1450, 7, Nanos(1));
    b.sack(1100, 1200, |_| {});
    b.complete(7, &d);
    let times: Vec<_> = b.ranges().map(|r| (r.first.0, r.last.0)).collect();
    assert_eq!(times, [(100, 100), (200, 200), (300, 500)]);
    b.sack(1300, 1400, |_| {});
    let times: Vec<_> = b.ranges().map(|r| (r.first.0, r.last.0)).collect();
    assert_eq!(
        times,
        [(100, 100), (200, 200), (300, 300), (400, 400), (500, 500)]
    );
}
