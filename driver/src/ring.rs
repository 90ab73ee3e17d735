// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ring indices, and nothing else: no memory, no register. Rings have a power of
//! two of entries; one slot of a descriptor ring stays empty, so that equal
//! indices mean an empty ring.

/// The driver's end of a descriptor ring: slots are staged, then published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    mask: u16,
    /// First slot that the device may still have to fetch.
    head: u16,
    /// First slot that the device was not told of.
    published: u16,
    /// First slot that is not filled.
    staged: u16,
}

impl Producer {
    /// An empty ring of `1 << log2` slots.
    pub const fn new(log2: u8) -> Producer {
        Producer {
            mask: ((1u32 << log2) - 1) as u16,
            head: 0,
            published: 0,
            staged: 0,
        }
    }

    /// Slots that may be staged.
    pub const fn room(&self) -> usize {
        (self.mask - (self.staged.wrapping_sub(self.head) & self.mask)) as usize
    }

    /// The slot that the next [`Producer::stage`] takes.
    pub const fn next(&self) -> usize {
        self.staged as usize
    }

    /// Takes a slot that was filled; false when there is no room.
    pub const fn stage(&mut self) -> bool {
        if self.room() == 0 {
            return false;
        }
        self.staged = self.staged.wrapping_add(1) & self.mask;
        true
    }

    /// Slots staged that the device was not told of.
    pub const fn unpublished(&self) -> usize {
        (self.staged.wrapping_sub(self.published) & self.mask) as usize
    }

    /// The new tail for the doorbell; `None` when nothing was staged since.
    pub const fn publish(&mut self) -> Option<u16> {
        if self.staged == self.published {
            return None;
        }
        self.published = self.staged;
        Some(self.staged)
    }

    /// Slots before `head` were fetched. False, and nothing changes, when `head`
    /// does not lie between the last one and the published tail.
    pub const fn fetched_up_to(&mut self, head: u16) -> bool {
        let ahead = head.wrapping_sub(self.head) & self.mask;
        let posted = self.published.wrapping_sub(self.head) & self.mask;
        if head > self.mask || ahead > posted {
            return false;
        }
        self.head = head;
        true
    }

    /// The oldest slot that the device was told of and has not fetched, as far as
    /// is known.
    pub const fn oldest_published(&self) -> Option<usize> {
        if self.head == self.published {
            None
        } else {
            Some(self.head as usize)
        }
    }

    /// One more slot, the oldest, was fetched; false when none was published.
    pub const fn fetched_one(&mut self) -> bool {
        if self.head == self.published {
            return false;
        }
        self.head = self.head.wrapping_add(1) & self.mask;
        true
    }
}

/// The driver's end of a completion ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    mask: u16,
    index: u16,
    phase: u8,
}

impl Consumer {
    /// A ring of `1 << log2` entries, none written.
    pub const fn new(log2: u8) -> Consumer {
        Consumer {
            mask: ((1u32 << log2) - 1) as u16,
            index: 0,
            phase: 1,
        }
    }

    /// The entry that comes next.
    pub const fn index(&self) -> usize {
        self.index as usize
    }

    /// What its phase bit must be for it to be new.
    pub const fn phase(&self) -> u8 {
        self.phase
    }

    /// The entry was read.
    pub const fn advance(&mut self) {
        self.index = self.index.wrapping_add(1) & self.mask;
        if self.index == 0 {
            self.phase ^= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_ring_holds_one_less_than_its_slots() {
        let mut p = Producer::new(6);
        assert_eq!(p.publish(), None);
        for i in 0..63 {
            assert_eq!((p.next(), p.room()), (i, 63 - i));
            assert!(p.stage());
        }
        assert!(!p.stage());
        assert!(!p.fetched_one(), "nothing published");
        assert_eq!(p.publish(), Some(63));
        assert!(p.fetched_up_to(63));
        assert_eq!(p.room(), 63);
        assert!(p.stage());
        assert_eq!(p.publish(), Some(0), "wrapped");
    }

    #[test]
    fn heads_that_cannot_be_are_refused() {
        let mut p = Producer::new(6);
        for _ in 0..10 {
            p.stage();
        }
        p.publish();
        p.stage();
        for head in [11, 63, 64, u16::MAX] {
            assert!(!p.fetched_up_to(head), "{head}");
        }
        assert!(p.fetched_up_to(4));
        assert!(!p.fetched_up_to(3), "back");
        assert!(p.fetched_up_to(10));
    }

    #[test]
    fn the_phase_turns_with_each_pass() {
        let mut c = Consumer::new(13);
        for pass in 0..3u32 {
            for i in 0..8_192 {
                assert_eq!((c.index(), u32::from(c.phase())), (i, 1 - pass % 2));
                c.advance();
            }
        }
    }

    proptest! {
        #[test]
        fn indices_agree_with_unbounded_counters(
            log2 in 6u8..=12, ops in proptest::collection::vec((0u8..4, 0u16..100), 1..400),
        ) {
            let size = 1u64 << log2;
            let mut p = Producer::new(log2);
            let (mut head, mut published, mut staged) = (0u64, 0u64, 0u64);
            for (op, n) in ops {
                match op {
                    0 => for _ in 0..n {
                        let fits = staged - head < size - 1;
                        prop_assert_eq!(p.stage(), fits);
                        staged += u64::from(fits);
                    },
                    1 => {
                        let want = (staged != published).then_some((staged % size) as u16);
                        prop_assert_eq!(p.publish(), want);
                        published = staged;
                    }
                    2 => {
                        let to = (head + u64::from(n)).min(published);
                        prop_assert!(p.fetched_up_to((to % size) as u16));
                        head = to;
                    }
                    _ => {
                        prop_assert_eq!(p.fetched_one(), head < published);
                        head += u64::from(head < published);
                    }
                }
                prop_assert_eq!(p.room() as u64, size - 1 - (staged - head));
            }
        }
    }
}
