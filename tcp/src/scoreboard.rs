// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was sent and not yet acknowledged: a sorted list of ranges of the
//! (absolute) sequence space, each with the departure of its last transmission
//! and with what is known of its fate. A range is a burst, or what acknowledgements
//! and losses left of one.
//!
//! Segments are counted as a range's length in mss, rounded up. The counters are
//! those of Linux: `in_flight = out - sacked - lost + retransmitted`.

use std::collections::VecDeque;
use tsonic_types::Nanos;

/// No burst of the NIC.
pub(crate) const NO_BURST: u32 = u32::MAX;

/// A range of sent sequence space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// First sequence number.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Departure of the first segment in the last transmission, once completed.
    pub first: Nanos,
    /// Departure of the last segment.
    pub last: Nanos,
    /// The burst of the last transmission while it is in the NIC, else [`NO_BURST`].
    pub burst: u32,
    /// Selectively acknowledged.
    pub sacked: bool,
    /// Deemed lost.
    pub lost: bool,
    /// Lost (or probed) and sent again, and that not deemed lost.
    pub retransmitted: bool,
    /// Sent more than once.
    pub ever_retransmitted: bool,
    /// Its end is the end of the burst that it was sent in.
    pub burst_end: bool,
}

impl Sent {
    /// Whether the last transmission is still in the NIC.
    pub fn in_nic(&self) -> bool {
        self.burst != NO_BURST
    }

    fn segments(&self, mss: u32) -> u32 {
        segments(self.end - self.start, mss)
    }
}

/// Segments of `bytes` bytes.
pub(crate) fn segments(bytes: u64, mss: u32) -> u32 {
    (bytes.div_ceil(u64::from(mss))) as u32
}

/// A burst's place in sequence space and its departures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    pub start: u64,
    pub end: u64,
    pub mss: u32,
    pub first: Nanos,
    pub last: Nanos,
}

impl Departure {
    /// When the segment that holds the byte at `seq` departed: first plus its
    /// share of the time to the last.
    pub fn at(&self, seq: u64) -> Nanos {
        let mss = u64::from(self.mss.max(1));
        let last_index = (self.end - self.start - 1) / mss;
        let index = seq.clamp(self.start, self.end - 1) - self.start;
        interpolate(self.first, self.last, index / mss, last_index)
    }
}

fn interpolate(first: Nanos, last: Nanos, i: u64, of: u64) -> Nanos {
    if of == 0 {
        return last;
    }
    let span = last.since(first).0;
    let share = match span.checked_mul(i) {
        Some(product) => product / of,
        None => (u128::from(span) * u128::from(i) / u128::from(of)) as u64,
    };
    first + Nanos(share)
}

/// Segment counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub out: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retransmitted: u32,
}

impl Counts {
    /// Segments that are thought to be in the network.
    pub fn in_flight(&self) -> u32 {
        (self.out + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    ranges: VecDeque<Sent>,
    counts: Counts,
    mss: u32,
}

impl Scoreboard {
    pub fn new(mss: u32) -> Scoreboard {
        Scoreboard {
            ranges: VecDeque::with_capacity(64),
            counts: Counts::default(),
            mss,
        }
    }

    /// Counts in segments of `mss` from now on.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
        self.counts = self.recount();
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Ranges, lowest first.
    #[cfg(test)]
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = &Sent> {
        self.ranges.iter()
    }

    pub fn get(&self, i: usize) -> Option<&Sent> {
        self.ranges.get(i)
    }

    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn first(&self) -> Option<&Sent> {
        self.ranges.front()
    }

    pub fn last(&self) -> Option<&Sent> {
        self.ranges.back()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.ranges.clear();
        self.counts = Counts::default();
    }

    /// New data `start..end` went into the NIC as (part of) `burst`.
    pub fn push(&mut self, start: u64, end: u64, burst: u32, now: Nanos) {
        debug_assert!(self.ranges.back().is_none_or(|r| r.end == start));
        self.ranges.push_back(Sent {
            start,
            end,
            first: now,
            last: now,
            burst,
            sacked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
            burst_end: true,
        });
        self.counts.out += segments(end - start, self.mss);
    }

    /// `start..end`, which lies in one range, goes into the NIC again as `burst`.
    pub fn retransmit(&mut self, start: u64, end: u64, burst: u32, now: Nanos) {
        self.split(start);
        self.split(end);
        let i = self.index(start);
        self.change(i, |r| {
            r.burst = burst;
            r.first = now;
            r.last = now;
            r.retransmitted = true;
            r.ever_retransmitted = true;
        });
        self.ranges[i].burst_end = true;
    }

    /// `burst` left the NIC: its ranges get their departures.
    pub fn complete(&mut self, burst: u32, d: &Departure) {
        let from = self.index(d.start);
        for r in self.ranges.range_mut(from..) {
            if r.start >= d.end {
                break;
            }
            if r.burst == burst {
                r.burst = NO_BURST;
                r.first = d.at(r.start);
                r.last = d.at(r.end - 1);
            }
        }
    }

    /// `burst` came back with segments missing: what it held and is still wanted
    /// is lost.
    pub fn fail(&mut self, burst: u32) {
        for i in 0..self.ranges.len() {
            if self.ranges[i].burst == burst {
                self.change(i, |r| {
                    r.burst = NO_BURST;
                    r.lost = !r.sacked;
                    r.retransmitted = false;
                });
            }
        }
    }

    /// Everything before `una` is acknowledged; `each` sees what goes.
    pub fn acknowledge(&mut self, una: u64, mut each: impl FnMut(&Sent)) {
        while let Some(r) = self.ranges.front().copied() {
            if r.start >= una {
                break;
            }
            self.count(&r, false);
            if r.end > una {
                let (head, tail) = self.cut(&r, una);
                self.count(&tail, true);
                self.ranges[0] = tail;
                each(&head);
                break;
            }
            self.ranges.pop_front();
            each(&r);
        }
    }

    /// `start..end` was selectively acknowledged; `each` sees what that is news of.
    pub fn sack(&mut self, start: u64, end: u64, mut each: impl FnMut(&Sent)) {
        if start >= end {
            return;
        }
        let mut i = self.index(start);
        while let Some(r) = self.ranges.get(i) {
            if r.start >= end {
                break;
            }
            if r.sacked || r.end <= start {
                i += 1;
                continue;
            }
            if r.start < start {
                self.split(start);
                i += 1;
                continue;
            }
            if r.end > end {
                self.split(end);
            }
            each(&self.ranges[i]);
            self.change(i, |r| {
                r.sacked = true;
                r.lost = false;
                r.retransmitted = false;
            });
            i = self.merge(i) + 1;
        }
    }

    /// The peer forgot what it had selectively acknowledged (a time-out): ranges
    /// are no longer sacked.
    pub fn forget_sacks(&mut self) {
        for i in 0..self.ranges.len() {
            if self.ranges[i].sacked {
                self.change(i, |r| r.sacked = false);
            }
        }
    }

    /// Range `i` is deemed lost; answers its segments.
    pub fn mark_lost(&mut self, i: usize) -> u32 {
        self.change(i, |r| {
            r.lost = true;
            r.retransmitted = false;
        });
        self.ranges[i].segments(self.mss)
    }

    /// The first range is deemed lost, at most its first segment of it (loss
    /// recovery without SACK). Answers whether that was news.
    pub fn mark_head_lost(&mut self) -> bool {
        let Some(r) = self.ranges.front().copied() else {
            return false;
        };
        if r.lost || r.sacked || r.in_nic() {
            return false;
        }
        let end = r.end.min(r.start + u64::from(self.mss));
        self.split(end);
        self.mark_lost(0);
        true
    }

    /// No range is lost any more (the time-out was spurious).
    pub fn forgive(&mut self) {
        for i in 0..self.ranges.len() {
            if self.ranges[i].lost {
                self.change(i, |r| r.lost = false);
            }
        }
    }

    /// The lowest range that is lost, not sent again yet, and not in the NIC.
    pub fn next_lost(&self) -> Option<&Sent> {
        if self.counts.lost == 0 {
            return None;
        }
        self.ranges
            .iter()
            .find(|r| r.lost && !r.retransmitted && !r.in_nic())
    }

    /// Index of the range that holds `seq`, or of the first behind it.
    fn index(&self, seq: u64) -> usize {
        self.ranges.partition_point(|r| r.end <= seq)
    }

    /// Makes `seq` a boundary of ranges, if it lies within one.
    fn split(&mut self, seq: u64) {
        let i = self.index(seq);
        let Some(r) = self.ranges.get(i).copied() else {
            return;
        };
        if r.start >= seq {
            return;
        }
        self.count(&r, false);
        let (head, tail) = self.cut(&r, seq);
        self.count(&head, true);
        self.count(&tail, true);
        self.ranges[i] = head;
        self.ranges.insert(i + 1, tail);
    }

    /// The parts of a range before and from `seq` on, which lies within it.
    fn cut(&self, r: &Sent, seq: u64) -> (Sent, Sent) {
        let mss = u64::from(self.mss);
        let of = (r.end - r.start - 1) / mss;
        let cut = (seq - r.start).div_ceil(mss);
        let (mut head, mut tail) = (*r, *r);
        head.end = seq;
        head.burst_end = false;
        tail.start = seq;
        if !r.in_nic() {
            head.last = interpolate(r.first, r.last, cut - 1, of);
            tail.first = interpolate(r.first, r.last, cut.min(of), of);
        }
        (head, tail)
    }

    /// Joins sacked neighbours of the sacked range `i`; answers its new index.
    fn merge(&mut self, mut i: usize) -> usize {
        for at in [i + 1, i] {
            let (Some(a), Some(b)) = (
                at.checked_sub(1).and_then(|p| self.ranges.get(p)).copied(),
                self.ranges.get(at).copied(),
            ) else {
                continue;
            };
            // A range in the NIC keeps its own record until its completion.
            if !a.sacked || !b.sacked || a.in_nic() || b.in_nic() {
                continue;
            }
            self.count(&a, false);
            self.count(&b, false);
            let joined = Sent {
                start: a.start,
                first: a.first.min(b.first),
                last: a.last.max(b.last),
                ever_retransmitted: a.ever_retransmitted || b.ever_retransmitted,
                ..b
            };
            self.count(&joined, true);
            self.ranges[at - 1] = joined;
            self.ranges.remove(at);
            if at == i {
                i -= 1;
            }
        }
        i
    }

    fn change(&mut self, i: usize, f: impl FnOnce(&mut Sent)) {
        let before = self.ranges[i];
        self.count(&before, false);
        f(&mut self.ranges[i]);
        let after = self.ranges[i];
        self.count(&after, true);
    }

    #[inline]
    fn count(&mut self, r: &Sent, add: bool) {
        let n = r.segments(self.mss);
        let c = &mut self.counts;
        let change = |counter: &mut u32| {
            *counter = if add { *counter + n } else { *counter - n };
        };
        change(&mut c.out);
        // Nearly every range is none of these.
        if r.sacked || r.lost || r.retransmitted {
            for (on, counter) in [
                (r.sacked, &mut c.sacked),
                (r.lost, &mut c.lost),
                (r.retransmitted, &mut c.retransmitted),
            ] {
                if on {
                    change(counter);
                }
            }
        }
    }

    fn recount(&self) -> Counts {
        let mut fresh = Scoreboard {
            ranges: VecDeque::new(),
            counts: Counts::default(),
            mss: self.mss,
        };
        for r in &self.ranges {
            fresh.count(r, true);
        }
        fresh.counts
    }
}

#[cfg(test)]
mod tests {
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
                        b.acknowledge(una, |r| seen += r.end - r.start);
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
}
