// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit queue selection (XPS): the queue near the writing core, kept for a
//! flow as long as moving it could reorder its packets, and looked up again
//! after a while all the same, so that a busy flow follows its core.
//!
//! Times are milliseconds modulo 2^32, compared wrap-safe (up to 2^31 ms apart).

/// `floor(hash * n / 2^32)`: an even spread of 32-bit hashes over `0..n`.
pub const fn reciprocal_scale(hash: u32, n: u32) -> u32 {
    ((hash as u64 * n as u64) >> 32) as u32
}

/// Which queues a core sends from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum XpsMap {
    /// Runs of cores: core `c` sends from queue `c / cores_per_queue`, cores
    /// beyond the last queue have none. `cores_per_queue` 0 maps no core.
    Blocks {
        /// Queues.
        queues: u16,
        /// Cores of one queue.
        cores_per_queue: u32,
    },
    /// For each core its queues: none, one, or several that the flow's hash
    /// chooses from.
    Table(Vec<Vec<u16>>),
}

impl XpsMap {
    /// The queue of `core` for a flow of that hash; `None` when the map has none
    /// for it, or one that is not below `real_queues`.
    pub fn lookup(&self, core: u32, hash: u32, real_queues: u16) -> Option<u16> {
        let queue = match self {
            XpsMap::Blocks {
                queues,
                cores_per_queue,
            } => {
                let queue = core.checked_div(*cores_per_queue)?;
                u16::try_from(queue).ok().filter(|q| q < queues)?
            }
            XpsMap::Table(cores) => {
                let list = cores.get(usize::try_from(core).ok()?)?;
                let n = u32::try_from(list.len()).unwrap_or(u32::MAX);
                *list.get(usize::try_from(reciprocal_scale(hash, n)).ok()?)?
            }
        };
        (queue < real_queues).then_some(queue)
    }
}

/// Queues of a traffic class: `offset..offset + count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRange {
    /// First queue.
    pub offset: u16,
    /// Queues; 0 counts as 1.
    pub count: u16,
}

/// The queue of a flow without XPS: the queue that its packets arrive on, folded
/// into the range, or by its hash.
pub fn hash_queue(range: QueueRange, hash: u32, rx_queue: Option<u16>) -> u16 {
    let count = range.count.max(1);
    let index = match rx_queue {
        Some(rx) => rx.checked_sub(range.offset).unwrap_or(rx) % count,
        // Below `count`, hence 16 bits.
        None => reciprocal_scale(hash, u32::from(count)) as u16,
    };
    range.offset.saturating_add(index)
}

/// XPS, and the hash over all `real_queues` (0 counts as 1) where it has no
/// answer.
pub fn select(map: &XpsMap, core: u32, hash: u32, real_queues: u16) -> u16 {
    map.lookup(core, hash, real_queues).unwrap_or_else(|| {
        let all = QueueRange {
            offset: 0,
            count: real_queues,
        };
        hash_queue(all, hash, None)
    })
}

/// What became of a flow's cached queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// The cached queue was used as it stood.
    Cached,
    /// Looked up again: the same queue, whose stamp is still young.
    Kept,
    /// Looked up again: the same queue, and its stamp renewed.
    Refreshed,
    /// Looked up again: another queue.
    Moved,
}

/// Age in ms beyond which the stamp of an unchanged queue is renewed.
const REFRESH_MS: u32 = 1_000;

/// A flow's transmit queue, with the time of the choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedQueue {
    queue: Option<u16>,
    stamp_ms: u32,
}

/// Whether `now` is later than `then + span`, modulo 2^32; spans count up to
/// 2^31 - 1.
const fn later(now: u32, then: u32, span: u32) -> bool {
    let span = if span > i32::MAX as u32 {
        i32::MAX as u32
    } else {
        span
    };
    (now.wrapping_sub(then.wrapping_add(span)) as i32) > 0
}

impl CachedQueue {
    /// A flow that has not sent yet.
    pub const fn new() -> CachedQueue {
        CachedQueue {
            queue: None,
            stamp_ms: 0,
        }
    }

    /// The cached queue; `None` when there is none, or when it is older than
    /// `reselection_ms` (0: never too old) and has to be looked up again.
    #[inline]
    pub fn get(&self, now_ms: u32, reselection_ms: u32) -> Option<u16> {
        let stale = reselection_ms != 0 && later(now_ms, self.stamp_ms, reselection_ms);
        self.queue.filter(|_| !stale)
    }

    /// Time of the choice in ms; means nothing before the first one.
    pub const fn stamp_ms(&self) -> u32 {
        self.stamp_ms
    }

    /// The queue for a packet: the cached one unless there is none, it is stale,
    /// `ooo_okay` says that a move cannot reorder, or it is not below
    /// `real_queues` (0 counts as 1); then `choose` is asked, and its answer
    /// cached. The result is below `real_queues`.
    #[inline]
    pub fn pick(
        &mut self,
        now_ms: u32,
        reselection_ms: u32,
        ooo_okay: bool,
        real_queues: u16,
        choose: impl FnOnce() -> u16,
    ) -> (u16, Pick) {
        let real = real_queues.max(1);
        match self.get(now_ms, reselection_ms) {
            Some(queue) if !ooo_okay && queue < real => (queue, Pick::Cached),
            _ => {
                let chosen = choose();
                let queue = if chosen < real { chosen } else { 0 };
                (queue, self.store(queue, now_ms))
            }
        }
    }

    fn store(&mut self, queue: u16, now_ms: u32) -> Pick {
        if self.queue != Some(queue) {
            *self = CachedQueue {
                queue: Some(queue),
                stamp_ms: now_ms,
            };
            Pick::Moved
        } else if later(now_ms, self.stamp_ms, REFRESH_MS) {
            self.stamp_ms = now_ms;
            Pick::Refreshed
        } else {
            Pick::Kept
        }
    }
}

/// Whether a TCP flow may move to another queue without reordering: less than
/// one small packet of it lies below TCP, or nothing waits for an
/// acknowledgement. `outstanding` carries the bias of 1.
#[inline]
pub fn tcp_ooo_okay(outstanding: u64, one_packet_truesize: u64, rtx_empty: bool) -> bool {
    rtx_empty || outstanding.saturating_sub(1) < one_packet_truesize
}

/// The same for other transports: nothing of the flow lies below.
pub fn datagram_ooo_okay(outstanding: u64) -> bool {
    outstanding <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAP: XpsMap = XpsMap::Blocks {
        queues: 32,
        cores_per_queue: 8,
    };

    #[test]
    fn scale_vectors() {
        for (hash, n, want) in [
            (0, 32, 0),
            (1, 32, 0),
            (0x07ff_ffff, 32, 0),
            (0x0800_0000, 32, 1),
            (0x8000_0000, 32, 16),
            (0xffff_ffff, 32, 31),
            (0xffff_ffff, 1, 0),
            (0x8000_0000, 3, 1),
            (0x5555_5555, 3, 0),
            (0x5555_5556, 3, 1),
            (0xaaaa_aaaa, 3, 1),
            (0xaaaa_aaab, 3, 2),
            (0xdead_beef, 10, 8),
        ] {
            assert_eq!(reciprocal_scale(hash, n), want);
        }
    }

    fn pick(
        c: &mut CachedQueue,
        t: u32,
        resel: u32,
        core: u32,
        ooo: bool,
        real: u16,
    ) -> (u16, Pick) {
        c.pick(t, resel, ooo, real, || select(&MAP, core, 0, real))
    }

    #[test]
    fn pick_sequence() {
        let mut c = CachedQueue::new();
        for (t, core, ooo, real, queue, what, stamp) in [
            (5_000, 3, true, 32, 0, Pick::Moved, 5_000),
            (5_100, 9, false, 32, 0, Pick::Cached, 5_000),
            (6_000, 9, false, 32, 0, Pick::Cached, 5_000),
            (6_001, 9, false, 32, 1, Pick::Moved, 6_001),
            (6_002, 3, false, 32, 1, Pick::Cached, 6_001),
            (7_001, 3, false, 32, 1, Pick::Cached, 6_001),
            (7_002, 3, false, 32, 0, Pick::Moved, 7_002),
            (7_500, 3, true, 32, 0, Pick::Kept, 7_002),
            (8_002, 3, true, 32, 0, Pick::Kept, 7_002),
            (8_003, 3, true, 32, 0, Pick::Refreshed, 8_003),
            (8_004, 20, false, 2, 0, Pick::Cached, 8_003),
            (9_005, 200, false, 32, 25, Pick::Moved, 9_005),
        ] {
            assert_eq!(
                pick(&mut c, t, 1_000, core, ooo, real),
                (queue, what),
                "t={t}"
            );
            assert_eq!(c.stamp_ms(), stamp);
        }
    }

    #[test]
    fn a_busy_flow_stays_without_reselection() {
        let mut c = CachedQueue::new();
        assert_eq!(pick(&mut c, 5_000, 0, 3, true, 32).0, 0);
        assert_eq!(pick(&mut c, 9_000, 0, 9, false, 32).0, 0);
        assert_eq!(pick(&mut c, 900_000, 0, 9, false, 32).0, 0);
        assert_eq!(pick(&mut c, 900_001, 0, 9, true, 32), (1, Pick::Moved));
    }

    #[test]
    fn short_reselection_repeats_the_lookup() {
        let mut c = CachedQueue::new();
        for (t, what, stamp) in [
            (1_000, Pick::Moved, 1_000),
            (1_100, Pick::Cached, 1_000),
            (1_101, Pick::Kept, 1_000),
            (1_500, Pick::Kept, 1_000),
            (1_999, Pick::Kept, 1_000),
            (2_000, Pick::Kept, 1_000),
            (2_001, Pick::Refreshed, 2_001),
            (2_002, Pick::Cached, 2_001),
            (2_101, Pick::Cached, 2_001),
            (2_102, Pick::Kept, 2_001),
        ] {
            assert_eq!(pick(&mut c, t, 100, 3, false, 32), (0, what), "t={t}");
            assert_eq!(c.stamp_ms(), stamp);
        }
    }

    #[test]
    fn the_clock_may_wrap() {
        let c = CachedQueue {
            queue: Some(4),
            stamp_ms: 0xffff_fff0,
        };
        assert_eq!(c.get(0x0000_03d8, 1_000), Some(4));
        assert_eq!(c.get(0x0000_03d9, 1_000), None);
    }

    #[test]
    fn a_shrunk_device_is_asked_again_at_once() {
        let mut c = CachedQueue::new();
        assert_eq!(pick(&mut c, 0, 1_000, 200, true, 32).0, 25);
        assert_eq!(pick(&mut c, 1, 1_000, 200, false, 4), (0, Pick::Moved));
    }

    #[test]
    fn fallbacks() {
        for (rx, offset, count, want) in [
            (5, 0, 32, 5),
            (37, 0, 32, 5),
            (5, 8, 4, 9),
            (13, 8, 4, 9),
            (2, 8, 4, 10),
        ] {
            assert_eq!(hash_queue(QueueRange { offset, count }, 0, Some(rx)), want);
        }
        assert_eq!(select(&MAP, 256, 0x8000_0000, 32), 16);
        assert_eq!(select(&MAP, 255, 0x8000_0000, 32), 31);
        let table = XpsMap::Table(vec![vec![3], vec![], vec![4, 5, 6]]);
        assert_eq!(table.lookup(0, u32::MAX, 32), Some(3));
        assert_eq!(table.lookup(0, 0, 3), None);
        assert_eq!(table.lookup(1, 0, 32), None);
        assert_eq!(table.lookup(2, 0x8000_0000, 32), Some(5));
        assert_eq!(table.lookup(3, 0, 32), None);
        let none = XpsMap::Blocks {
            queues: 4,
            cores_per_queue: 0,
        };
        assert_eq!(none.lookup(0, 0, 4), None);
    }

    #[test]
    fn ooo_okay_vectors() {
        for (outstanding, rtx_empty, tcp, datagram) in [
            (1, false, true, true),
            (577, false, true, false),
            (578, false, false, false),
            (66_817, false, false, false),
            (66_817, true, true, false),
        ] {
            assert_eq!(tcp_ooo_okay(outstanding, 577, rtx_empty), tcp);
            assert_eq!(datagram_ooo_okay(outstanding), datagram);
        }
    }

    #[test]
    fn flows_of_pinned_workers_spread_over_their_queues() {
        // 1000 flows, 15 workers on cores 9 + 8w, two packets a flow.
        let mut packets = [0; 32];
        for flow in 0..1_000u32 {
            let core = 9 + 8 * (flow % 15);
            let mut c = CachedQueue::new();
            for t in 0..2 {
                packets[usize::from(pick(&mut c, t, 1_000, core, false, 32).0)] += 1;
            }
        }
        for (queue, n) in packets.into_iter().enumerate() {
            let want = match queue {
                1..=10 => 134,
                11..=15 => 132,
                _ => 0,
            };
            assert_eq!(n, want, "queue {queue}");
        }
    }

    #[test]
    fn busy_flows_follow_their_core_after_the_reselection_time() {
        // The worker moves from core 3 to core 9 when the stamps are 0..=1 ms old;
        // each flow sends every 2 ms, and is never drained.
        for start in 0..2 {
            let mut c = CachedQueue::new();
            assert_eq!(pick(&mut c, start, 1_000, 3, false, 32).0, 0);
            let moved = (start..)
                .step_by(2)
                .find(|t| pick(&mut c, *t, 1_000, 9, false, 32) == (1, Pick::Moved))
                .map(|t| t - start);
            assert_eq!(moved, Some(1_002));
        }
        let mut c = CachedQueue::new();
        pick(&mut c, 0, 1_000, 3, false, 32);
        let moved = (0..).find(|t| pick(&mut c, *t, 1_000, 9, false, 32).0 == 1);
        assert_eq!(moved, Some(1_001));
    }

    proptest! {
        #[test]
        fn picks_are_real_queues(
            real: u16, resel: u32, events in proptest::collection::vec(any::<(u32, u32, u32, bool)>(), 1..50),
        ) {
            let mut c = CachedQueue::new();
            for (t, core, hash, ooo) in events {
                let (q, _) = c.pick(t, resel, ooo, real, || select(&MAP, core, hash, real));
                prop_assert!(q < real.max(1));
            }
        }

        #[test]
        fn scale_is_below_n_and_monotone(hash: u32, n in 1u32..) {
            prop_assert!(reciprocal_scale(hash, n) < n);
            prop_assert!(reciprocal_scale(hash.saturating_add(1), n) >= reciprocal_scale(hash, n));
        }
    }
}
