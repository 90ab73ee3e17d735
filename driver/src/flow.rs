// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rows of the NIC's flow table, handed to connections.
//!
//! A row carries virtual time of its flow, so it is given out again only when
//! nothing of the last flow is in the NIC. Flows that find no row use
//! [`FlowSlot::UNPACED`].

use std::ops::Range;
use tsonic_types::FlowSlot;

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    owned: bool,
    /// Bursts in the NIC.
    outstanding: u32,
}

/// The rows that one shard of the host hands out. Shards take disjoint ranges.
#[derive(Debug)]
pub struct FlowTable {
    first: u16,
    rows: Vec<Row>,
    /// Rows without owner and burst; the last one freed is the next one given.
    free: Vec<u16>,
}

impl FlowTable {
    /// The rows `slots` (row 0, the unpaced one, is left out, and so is what lies
    /// beyond 16 bits).
    pub fn new(slots: Range<u32>) -> FlowTable {
        let first = slots.start.clamp(1, u32::from(u16::MAX)) as u16;
        let end = slots.end.min(u32::from(u16::MAX) + 1);
        let rows = end.saturating_sub(u32::from(first)) as usize;
        FlowTable {
            first,
            rows: vec![Row::default(); rows],
            free: (0..rows)
                .rev()
                .map(|i| first.saturating_add(i as u16))
                .collect(),
        }
    }

    /// A row for a connection; `None` when there is none left.
    pub fn allocate(&mut self) -> Option<FlowSlot> {
        let slot = FlowSlot(self.free.pop()?);
        if let Some(row) = self.row(slot) {
            row.owned = true;
        }
        Some(slot)
    }

    /// Gives a row back; false when it is not owned. Bursts of it may still be in
    /// the NIC.
    pub fn release(&mut self, slot: FlowSlot) -> bool {
        let Some(row) = self.row(slot).filter(|r| r.owned) else {
            return false;
        };
        row.owned = false;
        if row.outstanding == 0 {
            self.free.push(slot.0);
        }
        true
    }

    /// Rows that [`FlowTable::allocate`] could still give.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// Rows that can be handed out.
    pub const fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Rows that have an owner, or bursts in the NIC.
    pub fn in_use(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// Bursts of a row in the NIC.
    pub fn outstanding(&self, slot: FlowSlot) -> u32 {
        slot.0
            .checked_sub(self.first)
            .and_then(|i| self.rows.get(usize::from(i)))
            .map_or(0, |r| r.outstanding)
    }

    /// Whether bursts may use the row.
    #[inline]
    pub(crate) fn may_post(&mut self, slot: FlowSlot) -> bool {
        slot == FlowSlot::UNPACED || self.row(slot).is_some_and(|r| r.owned)
    }

    #[inline]
    pub(crate) fn posted(&mut self, slot: FlowSlot) {
        if let Some(row) = self.row(slot) {
            row.outstanding += 1;
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, slot: FlowSlot) {
        let Some(row) = self.row(slot) else { return };
        let was = row.outstanding;
        row.outstanding = was.saturating_sub(1);
        if was == 1 && !row.owned {
            self.free.push(slot.0);
        }
    }

    #[inline]
    fn row(&mut self, slot: FlowSlot) -> Option<&mut Row> {
        let index = slot.0.checked_sub(self.first)?;
        self.rows.get_mut(usize::from(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_are_reused_at_zero_outstanding() {
        let mut t = FlowTable::new(0..3);
        let a = t.allocate().unwrap();
        let b = t.allocate().unwrap();
        assert_eq!((a, b), (FlowSlot(1), FlowSlot(2)));
        assert_eq!(t.allocate(), None, "beyond the table: slot 0");
        t.posted(a);
        t.posted(a);
        assert!(t.release(a));
        assert!(!t.release(a) && !t.may_post(a));
        t.completed(a);
        assert_eq!(t.allocate(), None, "one burst is still in the NIC");
        t.completed(a);
        assert_eq!(t.allocate(), Some(a));
        assert!(t.release(b));
        assert_eq!(t.allocate(), Some(b));
    }

    #[test]
    fn slot_0_is_nobodys_and_everybodys() {
        let mut t = FlowTable::new(0..1);
        assert_eq!(t.allocate(), None);
        assert!(t.may_post(FlowSlot::UNPACED));
        t.posted(FlowSlot::UNPACED);
        t.completed(FlowSlot::UNPACED);
        assert!(!t.release(FlowSlot::UNPACED));
        assert!(!t.may_post(FlowSlot(1)));
        let all = FlowTable::new(0..65_536);
        assert_eq!(all.available(), 65_535);
    }

    proptest! {
        #[test]
        fn no_row_has_two_owners(ops in proptest::collection::vec((0u8..4, 0usize..8), 1..300)) {
            let mut t = FlowTable::new(5..12);
            let mut owned: Vec<FlowSlot> = Vec::new();
            let mut flying: Vec<FlowSlot> = Vec::new();
            for (op, i) in ops {
                match op {
                    0 => if let Some(s) = t.allocate() {
                        prop_assert!(!owned.contains(&s) && !flying.contains(&s));
                        prop_assert!((5..12).contains(&s.0));
                        owned.push(s);
                    },
                    1 if !owned.is_empty() => {
                        let s = owned.swap_remove(i % owned.len());
                        prop_assert!(t.release(s));
                    }
                    2 if !owned.is_empty() => {
                        let s = owned[i % owned.len()];
                        t.posted(s);
                        flying.push(s);
                    }
                    3 if !flying.is_empty() => {
                        let s = flying.swap_remove(i % flying.len());
                        t.completed(s);
                    }
                    _ => {}
                }
                for s in &owned {
                    let n = flying.iter().filter(|f| *f == s).count();
                    prop_assert_eq!(t.outstanding(*s) as usize, n);
                }
            }
        }
    }
}
