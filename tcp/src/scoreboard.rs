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

    #[inline]
    fn segments(&self, mss: u32) -> u32 {
        segments(self.end - self.start, mss)
    }

    /// Cuts off and answers what lies before `seq`, which lies within: the first
    /// `cut` of the range's `held` segments.
    #[inline]
    fn cut_front(&mut self, seq: u64, cut: u32, held: u32) -> Sent {
        let mut head = Sent {
            end: seq,
            burst_end: false,
            ..*self
        };
        if !self.in_nic() {
            (head.last, self.first) = self.departures_at(cut, held);
        }
        self.start = seq;
        head
    }

    /// Departures of the segments on either side of a cut after the first `cut` of
    /// the range's `held`.
    #[inline]
    fn departures_at(&self, cut: u32, held: u32) -> (Nanos, Nanos) {
        let (cut, of) = (u64::from(cut), u64::from(held) - 1);
        (
            interpolate(self.first, self.last, cut - 1, of),
            interpolate(self.first, self.last, cut.min(of), of),
        )
    }
}

/// Segments of `bytes` bytes.
#[inline]
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
    /// Departures of its first and last segment.
    fn whole(&self) -> (Nanos, Nanos) {
        if self.end - self.start <= u64::from(self.mss) {
            return (self.last, self.last);
        }
        (self.first, self.first.max(self.last))
    }

    /// When the segment that holds the byte at `seq` departed: first plus its
    /// share of the time to the last.
    pub fn at(&self, seq: u64) -> Nanos {
        let mss = u64::from(self.mss.max(1));
        let last_index = (self.end - self.start - 1) / mss;
        let index = seq.clamp(self.start, self.end - 1) - self.start;
        interpolate(self.first, self.last, index / mss, last_index)
    }
}

#[inline]
fn interpolate(first: Nanos, last: Nanos, i: u64, of: u64) -> Nanos {
    if of == 0 {
        return last;
    }
    let span = last.since(first).0;
    let share = match span.checked_mul(i) {
        Some(product) => product / of,
        None => wide_share(span, i, of),
    };
    first + Nanos(share)
}

#[cold]
#[inline(never)]
fn wide_share(span: u64, i: u64, of: u64) -> u64 {
    (u128::from(span) * u128::from(i) / u128::from(of)) as u64
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

    /// Whether all is simply out: nothing sacked, lost or sent again.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.sacked | self.lost | self.retransmitted == 0
    }

    /// `n` segments of a range more.
    #[inline]
    fn add(&mut self, r: &Sent, n: u32) {
        self.out += n;
        // Nearly every range is none of these.
        if r.sacked || r.lost || r.retransmitted {
            self.change_marked(r, |counter| *counter += n);
        }
    }

    /// `n` segments of a range less.
    #[inline]
    fn sub(&mut self, r: &Sent, n: u32) {
        self.out -= n;
        if r.sacked || r.lost || r.retransmitted {
            self.change_marked(r, |counter| *counter -= n);
        }
    }

    // Apart, so that the counters that it changes take no registers from the loop over
    // acknowledged ranges.
    #[cold]
    #[inline(never)]
    fn change_marked(&mut self, r: &Sent, change: impl Fn(&mut u32)) {
        for (on, counter) in [
            (r.sacked, &mut self.sacked),
            (r.lost, &mut self.lost),
            (r.retransmitted, &mut self.retransmitted),
        ] {
            if on {
                change(counter);
            }
        }
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
        let from = self.index_by_size(d.start);
        for r in self.ranges.range_mut(from..) {
            if r.start >= d.end {
                break;
            }
            if r.burst == burst {
                r.burst = NO_BURST;
                (r.first, r.last) = if (r.start, r.end) == (d.start, d.end) {
                    d.whole()
                } else {
                    (d.at(r.start), d.at(r.end - 1))
                };
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

    /// Everything before `una` is acknowledged; `each` sees what goes, and its
    /// segments.
    #[inline]
    pub fn acknowledge(&mut self, una: u64, mut each: impl FnMut(&Sent, u32)) {
        let mss = self.mss;
        while let Some(r) = self.ranges.front_mut() {
            if r.start >= una {
                break;
            }
            let held = r.segments(mss);
            if r.end > una {
                let bytes = una - r.start;
                let cut = segments(bytes, mss);
                // Nearly always between two segments: the rest holds the others.
                let gone = if u64::from(cut) * u64::from(mss) == bytes {
                    cut
                } else {
                    held - segments(r.end - una, mss)
                };
                self.counts.sub(r, gone);
                each(&r.cut_front(una, cut, held), cut);
                break;
            }
            self.counts.sub(r, held);
            each(r, held);
            self.ranges.pop_front();
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

    /// The same for what is likely a burst among others of one size, the last one's.
    #[inline]
    fn index_by_size(&self, seq: u64) -> usize {
        let last = self.ranges.back();
        let guess = last
            .and_then(|l| l.end.checked_sub(seq + 1)?.checked_div(l.end - l.start))
            .and_then(|behind| (self.ranges.len() as u64).checked_sub(behind + 1));
        match guess {
            Some(i) if self.get(i as usize).is_some_and(|r| r.start == seq) => i as usize,
            _ => self.index(seq),
        }
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
        let mut tail = r;
        let cut = segments(seq - r.start, self.mss);
        let head = tail.cut_front(seq, cut, r.segments(self.mss));
        self.count(&head, true);
        self.count(&tail, true);
        self.ranges[i] = head;
        self.ranges.insert(i + 1, tail);
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
        if add {
            self.counts.add(r, n);
        } else {
            self.counts.sub(r, n);
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
#[path = "scoreboard_tests.rs"]
mod tests;
