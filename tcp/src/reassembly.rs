// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive queue: bytes in order that the application has not read, and
//! bytes behind a gap, in one ring; with the list of ranges behind the gap and
//! the SACK blocks that report them (RFC 2018, 4: the block of the newest
//! segment first). Sequence numbers are absolute (0 is the peer's SYN).

use crate::wire::tcp::SACK_MAX;

/// Most ranges behind the gap; data that would need one more is dropped (the
/// peer sends it again), so that a peer cannot make us hold a long list.
const RANGES_MAX: usize = 256;

/// What became of a segment's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// Bytes by which the in-order edge advanced.
    pub advanced: u64,
    /// The data was already there, at least in part: first range of duplicates.
    pub duplicate: Option<(u64, u64)>,
    /// It lies behind a gap.
    pub out_of_order: bool,
    /// No room or too many ranges: (part of) the data was dropped.
    pub dropped: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Reassembly {
    ring: Vec<u8>,
    /// First byte not read.
    read: u64,
    /// First byte not received.
    next: u64,
    /// Ranges behind the gap, ascending, disjoint, not touching.
    ranges: Vec<(u64, u64)>,
    /// A sequence number in each recently changed range, newest first.
    recent: [u64; SACK_MAX],
}

impl Reassembly {
    /// An empty queue; `next` is 1, the byte behind the SYN.
    pub fn new() -> Reassembly {
        Reassembly {
            ring: Vec::new(),
            read: 1,
            next: 1,
            ranges: Vec::new(),
            recent: [0; SACK_MAX],
        }
    }

    /// First byte not received.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes that can be read.
    pub fn readable(&self) -> u64 {
        self.next - self.read
    }

    /// Whether there is data behind a gap.
    pub fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Stores data that starts at `seq` and lies before `limit` (the right edge
    /// of the window); what lies beyond is cut off.
    pub fn insert(&mut self, seq: u64, data: &[u8], limit: u64) -> Inserted {
        let end = (seq + data.len() as u64).min(limit);
        let dropped = seq + data.len() as u64 > end;
        let duplicate = self.duplicate_of(seq, end);
        let start = seq.max(self.next);
        let mut r = Inserted {
            advanced: 0,
            duplicate,
            out_of_order: false,
            dropped,
        };
        if start >= end {
            return r;
        }
        if start > self.next && !self.has_room_for(start, end) {
            r.dropped = true;
            return r;
        }
        self.store(start, &data[(start - seq) as usize..(end - seq) as usize]);
        if start > self.next {
            r.out_of_order = true;
            // All that the list may ever need, at the first gap.
            self.ranges
                .reserve_exact(RANGES_MAX - self.ranges.len().min(RANGES_MAX));
            self.add(start, end);
            self.note(start);
            return r;
        }
        let before = self.next;
        self.next = end;
        // A gap may have been filled.
        let reached = self.ranges.partition_point(|x| x.0 <= self.next);
        for x in self.ranges.drain(..reached) {
            self.next = self.next.max(x.1);
        }
        r.advanced = self.next - before;
        r
    }

    /// Copies what is in order to `out`; answers the bytes.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let n = out.len().min(self.readable() as usize);
        let (at, mask) = (self.read as usize, self.ring.len().wrapping_sub(1));
        let first = n.min(self.ring.len() - (at & mask).min(self.ring.len()));
        out[..first].copy_from_slice(&self.ring[at & mask..][..first]);
        out[first..n].copy_from_slice(&self.ring[..n - first]);
        self.read += n as u64;
        n
    }

    /// SACK blocks, newest first, into `out`; answers how many.
    pub fn blocks(&self, out: &mut [(u64, u64)]) -> usize {
        let mut n = 0;
        for seq in self.recent {
            if n == out.len() {
                break;
            }
            if let Some(x) = self.range_of(seq)
                && !out[..n].contains(&x)
            {
                out[n] = x;
                n += 1;
            }
        }
        n
    }

    /// Nobody will read: lets go of the memory.
    pub fn release_unread(&mut self) {
        self.ring = Vec::new();
        self.ranges = Vec::new();
        self.read = self.next;
    }

    fn range_of(&self, seq: u64) -> Option<(u64, u64)> {
        let i = self.ranges.partition_point(|x| x.1 <= seq);
        self.ranges.get(i).copied().filter(|x| x.0 <= seq)
    }

    fn duplicate_of(&self, seq: u64, end: u64) -> Option<(u64, u64)> {
        if seq >= end {
            return None;
        }
        if seq < self.next {
            return Some((seq, end.min(self.next)));
        }
        let i = self.ranges.partition_point(|x| x.1 <= seq);
        let x = self.ranges.get(i)?;
        let (a, b) = (seq.max(x.0), end.min(x.1));
        (a < b).then_some((a, b))
    }

    fn has_room_for(&self, start: u64, end: u64) -> bool {
        self.ranges.len() < RANGES_MAX || self.ranges.iter().any(|x| x.0 <= end && start <= x.1)
    }

    fn add(&mut self, mut start: u64, mut end: u64) {
        let from = self.ranges.partition_point(|x| x.1 < start);
        let to = self.ranges.partition_point(|x| x.0 <= end);
        if from < to {
            start = start.min(self.ranges[from].0);
            end = end.max(self.ranges[to - 1].1);
            self.ranges[from] = (start, end);
            self.ranges.drain(from + 1..to);
        } else {
            self.ranges.insert(from, (start, end));
        }
    }

    /// Moves the range of `seq` to the front of the recent ones.
    fn note(&mut self, seq: u64) {
        let Some((start, end)) = self.range_of(seq) else {
            return;
        };
        let mut kept = [0; SACK_MAX];
        kept[0] = seq;
        let mut n = 1;
        for old in self.recent {
            if n < SACK_MAX && !(start..end).contains(&old) && self.range_of(old).is_some() {
                kept[n] = old;
                n += 1;
            }
        }
        self.recent = kept;
    }

    fn store(&mut self, start: u64, data: &[u8]) {
        let needed = (start + data.len() as u64 - self.read) as usize;
        if needed > self.ring.len() {
            self.grow(needed);
        }
        let mask = self.ring.len() - 1;
        let at = start as usize & mask;
        let first = data.len().min(self.ring.len() - at);
        self.ring[at..at + first].copy_from_slice(&data[..first]);
        self.ring[..data.len() - first].copy_from_slice(&data[first..]);
    }

    fn grow(&mut self, needed: usize) {
        let size = needed.next_power_of_two().max(4096);
        let mut ring = vec![0; size];
        let held = self.ranges.last().map_or(self.next, |x| x.1);
        for seq in self.read..held {
            let seq = seq as usize;
            ring[seq & (size - 1)] = self.ring[seq & (self.ring.len() - 1)];
        }
        self.ring = ring;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte(i: u64) -> u8 {
        (i.wrapping_mul(2_654_435_761) >> 13) as u8
    }

    proptest! {
        #[test]
        fn content_comes_out_whatever_the_order(
            parts in proptest::collection::vec((0u64..6000, 1u64..1500, 0usize..700), 1..80),
        ) {
            let mut q = Reassembly::new();
            let mut have = vec![false; 8001];
            have[0] = true;
            let (mut read, limit) = (1u64, 8000u64);
            for (at, n, take) in parts {
                let (start, end) = (at, at + n);
                let data: Vec<u8> = (start..end).map(byte).collect();
                let before = q.next();
                let r = q.insert(start, &data, limit);
                prop_assert_eq!(r.advanced, q.next() - before);
                for i in start..end.min(limit) {
                    have[i as usize] = true;
                }
                let expect = (1..limit).find(|i| !have[*i as usize]).unwrap_or(limit);
                prop_assert_eq!(q.next(), expect);
                let mut blocks = [(0, 0); SACK_MAX];
                let k = q.blocks(&mut blocks);
                prop_assert_eq!(k > 0, q.has_gap());
                for (i, b) in blocks[..k].iter().enumerate() {
                    prop_assert!(b.0 > q.next() && (b.0..b.1).all(|s| have[s as usize]));
                    prop_assert!(!have[b.0 as usize - 1] && !have.get(b.1 as usize).copied().unwrap_or(false));
                    prop_assert!(blocks[..i].iter().all(|o| o != b));
                }
                if r.out_of_order {
                    prop_assert!(blocks[0].0 <= start.max(before) && start.max(before) < blocks[0].1);
                }
                let mut out = vec![0; take];
                let got = q.read(&mut out);
                for b in &out[..got] {
                    prop_assert_eq!(*b, byte(read));
                    read += 1;
                }
            }
        }
    }

    #[test]
    fn duplicates_are_told() {
        let mut q = Reassembly::new();
        q.insert(1, &[1; 100], 1000);
        assert_eq!(q.insert(51, &[1; 100], 1000).duplicate, Some((51, 101)));
        q.insert(300, &[1; 100], 1000);
        assert_eq!(q.insert(350, &[1; 100], 1000).duplicate, Some((350, 400)));
        assert_eq!(q.insert(151, &[1; 10], 1000).duplicate, None);
        let r = q.insert(990, &[1; 100], 1000);
        assert!(r.dropped && r.out_of_order);
    }

    #[test]
    fn a_long_list_is_refused() {
        let mut q = Reassembly::new();
        for i in 0..RANGES_MAX as u64 {
            assert!(!q.insert(10 + 4 * i, &[0; 2], 100_000).dropped);
        }
        assert!(q.insert(50_000, &[0; 2], 100_000).dropped);
        assert!(!q.insert(12, &[0; 2], 100_000).dropped, "joins a range");
    }
}
