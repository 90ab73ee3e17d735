// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pacer: when each flow's next segment may leave.
//!
//! With V a flow's virtual time, E its earliest departure, T the tick at which
//! the arbiter granted a segment, D the lateness debt, and gap the segment's wire
//! bytes times the inverse rate of its burst:
//!
//! ```text
//! V' = max(V, T - D) + gap        E' = max(V', T + gap/2)
//! ```
//!
//! So in any window W the flow sends at most R (W + D) + one segment, and at most
//! 2 R W + one segment, and loses no rate while it is late by no more than D. A flow
//! that is idle gets no credit: its V and E start at the present. Times and
//! inverse rates have 28 fraction bits; a flow is due once the clock reads ceil(E).
//!
//! The queue's own rate follows the same rule ([`Pace`]), except that an idle queue
//! falls behind by D, as a late one does. The logic keeps
//! flows in a calendar with keys of 34 bits; here it is a binary heap of 64-bit
//! keys, whose cost grows with the logarithm of the number of waiting flows.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tsonic_regs::limits::INV_RATE_FRACTION;
use tsonic_types::Ticks;

const FRACTION: u32 = INV_RATE_FRACTION as u32;
/// Longest gap: 2^32 ticks, a quarter of the range of the logic's keys.
const GAP_MAX: u128 = 1 << (32 + FRACTION);

/// Virtual time and earliest departure of a flow or a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// V, with 28 fraction bits.
    v: u128,
    /// E, with 28 fraction bits.
    e: u128,
}

const fn fixed(t: Ticks) -> u128 {
    (t.0 as u128) << FRACTION
}

impl Pace {
    /// First tick at which a segment may leave.
    pub const fn key(&self) -> Ticks {
        Ticks(((self.e + ((1 << FRACTION) - 1)) >> FRACTION) as u64)
    }

    /// New work after none: the past gives no credit. A departure that is still
    /// in the future stands.
    pub fn start(&mut self, now: Ticks) {
        if self.key() <= now {
            self.restart(now);
        }
    }

    /// What was, counts no more: V and E are the present.
    pub fn restart(&mut self, now: Ticks) {
        self.v = fixed(now);
        self.e = fixed(now);
    }

    /// A burst with a launch time has become the flow's first.
    pub fn launch(&mut self, at: Ticks) {
        self.v = self.v.max(fixed(at));
        self.e = self.e.max(fixed(at));
    }

    /// A segment of `wire_bytes` was granted at `granted`.
    pub fn depart(&mut self, granted: Ticks, wire_bytes: usize, inv_rate: u64, debt: Ticks) {
        let gap = (u128::from(inv_rate) * wire_bytes as u128).min(GAP_MAX);
        self.v = self.v.max(fixed(granted - debt)) + gap;
        self.e = self.v.max(fixed(granted) + gap / 2);
    }
}

/// Flows (or queues) that wait for their key.
#[derive(Default)]
pub struct Waiting {
    heap: BinaryHeap<Reverse<(Ticks, u64, u32, u32)>>,
    /// Order of insertion: equal keys leave first in, first out.
    inserted: u64,
    /// Generation of each member; an entry of another generation is dead.
    generation: Vec<u32>,
    live: usize,
    member: Vec<bool>,
}

impl Waiting {
    /// Room for `members` members, none of which waits.
    pub fn new(members: usize) -> Waiting {
        Waiting {
            generation: vec![0; members],
            member: vec![false; members],
            ..Waiting::default()
        }
    }

    /// Adds a member that does not wait yet.
    pub fn insert(&mut self, who: usize, key: Ticks) {
        self.inserted += 1;
        self.heap.push(Reverse((
            key,
            self.inserted,
            who as u32,
            self.generation[who],
        )));
        self.live += usize::from(!self.member[who]);
        self.member[who] = true;
    }

    /// Removes a member, waiting or not.
    pub fn remove(&mut self, who: usize) {
        self.generation[who] = self.generation[who].wrapping_add(1);
        self.live -= usize::from(self.member[who]);
        self.member[who] = false;
        self.drop_dead();
    }

    /// Key of the earliest member.
    pub fn next(&self) -> Option<Ticks> {
        self.heap.peek().map(|Reverse((key, ..))| *key)
    }

    /// Takes the earliest member that is due at `now`.
    pub fn pop_due(&mut self, now: Ticks) -> Option<usize> {
        let Reverse((key, _, who, _)) = *self.heap.peek()?;
        if key > now {
            return None;
        }
        self.heap.pop();
        self.live -= 1;
        self.member[who as usize] = false;
        self.drop_dead();
        Some(who as usize)
    }

    /// Members that wait.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Keeps a live entry at the top, so that `next` is exact.
    fn drop_dead(&mut self) {
        while let Some(Reverse((_, _, who, generation))) = self.heap.peek() {
            if self.generation[*who as usize] == *generation {
                break;
            }
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = 1 << FRACTION;

    #[test]
    fn a_punctual_flow_is_spaced_by_its_gap() {
        let mut p = Pace::default();
        p.start(Ticks(1_000));
        let mut t = p.key();
        for _ in 0..1_000_000 {
            // A debt of one tick keeps the fraction of a tick that each start is late.
            p.depart(t, 1514, ONE / 7, Ticks(1));
            let next = p.key();
            let gap = next.0 - t.0;
            assert!((216..=217).contains(&gap), "{gap}");
            t = next;
        }
        // 1514/7 ticks a segment; 28 fraction bits keep the error below 1e-6.
        let exact = 1_000.0 + 1e6 * 1514.0 / 7.0;
        assert!((t.0 as f64 - exact).abs() / exact < 1e-6);
    }

    #[test]
    fn lateness_within_the_debt_is_made_up_at_twice_the_rate_at_most() {
        let mut p = Pace::default();
        p.start(Ticks(0));
        p.depart(Ticks(50), 10, ONE, Ticks(100));
        // Late by 50: V = 10, but half a gap is kept.
        assert_eq!(p.key(), Ticks(55));
        // Strict: lateness is forgotten.
        let mut p = Pace::default();
        p.start(Ticks(0));
        p.depart(Ticks(50), 10, ONE, Ticks(0));
        assert_eq!(p.key(), Ticks(60));
    }

    #[test]
    fn idleness_gives_no_credit_and_forgives_no_gap() {
        let mut p = Pace::default();
        p.start(Ticks(10));
        p.depart(Ticks(10), 100, ONE, Ticks(0));
        p.start(Ticks(50));
        assert_eq!(p.key(), Ticks(110), "the gap stands");
        p.start(Ticks(500));
        assert_eq!(p.key(), Ticks(500));
        p.launch(Ticks(700));
        assert_eq!(p.key(), Ticks(700));
        p.launch(Ticks(600));
        assert_eq!(p.key(), Ticks(700));
    }

    #[test]
    fn waiting_is_a_sorted_list_with_removal() {
        let mut w = Waiting::new(8);
        for (who, key) in [(3, 30), (1, 10), (2, 10), (5, 5)] {
            w.insert(who, Ticks(key));
        }
        w.remove(5);
        w.remove(5);
        assert_eq!((w.len(), w.next()), (3, Some(Ticks(10))));
        assert_eq!(w.pop_due(Ticks(9)), None);
        assert_eq!(w.pop_due(Ticks(10)), Some(1));
        w.insert(1, Ticks(10));
        assert_eq!(w.pop_due(Ticks(10)), Some(2));
        assert_eq!(w.pop_due(Ticks(10)), Some(1));
        assert_eq!(w.pop_due(Ticks(100)), Some(3));
        assert!(w.is_empty() && w.next().is_none());
    }
}
