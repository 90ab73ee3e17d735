// SPDX-License-Identifier: MIT OR Apache-2.0
//! CoDel (RFC 8289) over one queue: drop at dequeue, ever more often, while every
//! packet of an interval has waited longer than the target.
//!
//! Time is in ticks of any length (Linux: 1024 ns) modulo 2^32, compared
//! wrap-safe.

use std::collections::VecDeque;

/// Largest reciprocal square root: that of 1, in 1/65536.
const REC_ONE: u16 = u16::MAX;
/// Intervals since the last dropping state within which its rate still counts.
const RESUME_INTERVALS: u32 = 16;

/// Next `65536 / sqrt(count)` from the last one, by one Newton step as Linux
/// does it. With `x = count * (rec / 65536)^2` the step goes astray near x = 3,
/// and wraps to garbage in Linux beyond; a `count` that grows by one keeps x at
/// most 2. Above that (drops in a batch) the exact root is taken.
pub fn newton_step(rec: u16, count: u32) -> u16 {
    let inv = u64::from(rec) << 16;
    let inv2 = (inv * inv) >> 32;
    match (3u64 << 32).checked_sub(u64::from(count).saturating_mul(inv2)) {
        Some(left) if left >= 1 << 32 => {
            // 34 bits times 32 bits: the quarter taken first keeps it in 64.
            let next = ((left >> 2) * inv) >> 31;
            u16::try_from(next >> 16).unwrap_or(REC_ONE)
        }
        _ => exact_rec(count),
    }
}

/// `floor(65536 / sqrt(count))`, at most 65535; that of 1 for 0.
pub fn exact_rec(count: u32) -> u16 {
    let root = ((1u64 << 32) / u64::from(count.max(1))).isqrt();
    u16::try_from(root).unwrap_or(REC_ONE)
}

/// Ticks to the next drop: the interval over the square root of the count.
pub const fn step(interval: u32, rec: u16) -> u32 {
    ((interval as u64 * rec as u64) >> 16) as u32
}

/// `a` later than `b`.
const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    enqueued: u32,
    bytes: u64,
}

/// What a dequeue did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dequeued {
    /// Packets dropped by it.
    pub dropped: u64,
    /// Ticks that the packet delivered has waited; `None` when none was there.
    pub delay: Option<u32>,
}

/// A queue under CoDel.
#[derive(Clone, Debug)]
pub struct CodelQueue {
    target: u32,
    interval: u32,
    mtu: u64,
    packets: VecDeque<Packet>,
    backlog: u64,
    first_above: Option<u32>,
    dropping: bool,
    drop_next: u32,
    count: u32,
    last_count: u32,
    rec: u16,
}

impl CodelQueue {
    /// An empty queue. A backlog of at most `mtu` bytes is never dropped from.
    pub fn new(target: u32, interval: u32, mtu: u64) -> CodelQueue {
        CodelQueue {
            target,
            interval,
            mtu,
            packets: VecDeque::new(),
            backlog: 0,
            first_above: None,
            dropping: false,
            drop_next: 0,
            count: 0,
            last_count: 0,
            rec: 0,
        }
    }

    /// Bytes queued.
    pub const fn backlog(&self) -> u64 {
        self.backlog
    }

    /// Appends a packet.
    pub fn enqueue(&mut self, now: u32, bytes: u64) {
        self.backlog = self.backlog.saturating_add(bytes);
        self.packets.push_back(Packet {
            enqueued: now,
            bytes,
        });
    }

    /// Takes the next packet that is not dropped.
    pub fn dequeue(&mut self, now: u32) -> Dequeued {
        let mut dropped = 0;
        let mut packet = self.pop();
        let over = self.is_over(packet, now);
        if packet.is_none() || (self.dropping && !over) {
            self.dropping = false;
        } else if self.dropping {
            while self.dropping && !after(self.drop_next, now) {
                self.count = self.count.saturating_add(1);
                self.rec = newton_step(self.rec, self.count);
                dropped += 1;
                packet = self.pop();
                if self.is_over(packet, now) {
                    let step = step(self.interval, self.rec);
                    self.drop_next = self.drop_next.wrapping_add(step);
                } else {
                    self.dropping = false;
                }
            }
        } else if over {
            dropped += 1;
            packet = self.pop();
            // For its effect on `first_above`: the state is entered even when the
            // packet after the drop is fine, and the next dequeue leaves it.
            self.is_over(packet, now);
            self.enter_dropping(now);
        }
        Dequeued {
            dropped,
            delay: packet.map(|p| now.wrapping_sub(p.enqueued)),
        }
    }

    fn enter_dropping(&mut self, now: u32) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.last_count);
        let recent = after(
            self.interval.saturating_mul(RESUME_INTERVALS),
            now.wrapping_sub(self.drop_next),
        );
        if delta > 1 && recent {
            self.count = delta;
            self.rec = newton_step(self.rec, self.count);
        } else {
            self.count = 1;
            self.rec = REC_ONE;
        }
        self.last_count = self.count;
        self.drop_next = now.wrapping_add(step(self.interval, self.rec));
    }

    fn pop(&mut self) -> Option<Packet> {
        let packet = self.packets.pop_front()?;
        self.backlog = self.backlog.saturating_sub(packet.bytes);
        Some(packet)
    }

    /// Whether the queue has stood above the target for an interval.
    fn is_over(&mut self, packet: Option<Packet>, now: u32) -> bool {
        let standing = packet.is_some_and(|p| {
            let delay = now.wrapping_sub(p.enqueued);
            !after(self.target, delay) && self.backlog > self.mtu
        });
        if !standing {
            self.first_above = None;
            return false;
        }
        match self.first_above {
            None => {
                self.first_above = Some(now.wrapping_add(self.interval));
                false
            }
            Some(t) => after(now, t),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: u32 = 97_656;
    const TARGET: u32 = 4_882;
    const MTU: u64 = 1_514;

    #[test]
    fn newton_vectors() {
        let want = [
            (65_535, 97_654),
            (32_769, 48_829),
            (36_864, 54_931),
            (31_968, 47_635),
            (28_935, 43_116),
            (26_481, 39_459),
            (24_588, 36_638),
            (23_037, 34_327),
            (21_746, 32_403),
            (20_647, 30_766),
            (19_699, 29_353),
            (18_869, 28_116),
            (18_136, 27_024),
            (17_481, 26_048),
            (16_893, 25_172),
            (16_360, 24_378),
        ];
        let mut rec = REC_ONE;
        for (i, want) in want.into_iter().enumerate() {
            let count = i as u32 + 1;
            if count > 1 {
                rec = newton_step(rec, count);
            }
            assert_eq!((rec, step(INTERVAL, rec)), want, "count {count}");
        }
        assert_eq!(newton_step(16_360, 7), 20_971, "restart with a stale value");
    }

    #[test]
    fn a_batch_of_drops_takes_the_exact_root() {
        // One step would wrap here.
        assert_eq!(newton_step(65_535, 4), 32_768);
        for (rec, count, ideal) in [
            (65_535, 66, 8_067),
            (31_968, 69, 7_890),
            (16_360, 81, 7_282),
        ] {
            let got = newton_step(rec, count);
            assert!(got.abs_diff(ideal) <= 1, "{got}");
        }
        assert_eq!(newton_step(65_535, 3), 37_837);
        assert_eq!(newton_step(8_190, 129), 5_770);
    }

    #[test]
    fn drops_under_permanent_overload() {
        let mut q = CodelQueue::new(TARGET, INTERVAL, MTU);
        for _ in 0..20_000 {
            q.enqueue(0, MTU);
        }
        // The first dequeue above the target starts the interval.
        let start = TARGET;
        let mut drops = Vec::new();
        let mut t = start;
        while drops.len() < 10 {
            if q.dequeue(t).dropped > 0 {
                drops.push(f64::from(t - start) * 1.024e-3);
            }
            t += 50;
        }
        let want = [
            100.0, 200.0, 250.0, 306.25, 355.03, 399.18, 439.58, 477.1, 512.25, 545.43,
        ];
        for (got, want) in drops.iter().zip(want) {
            assert!((got - want).abs() < 0.12, "{got} against {want}");
        }
    }

    #[test]
    fn a_short_queue_and_a_small_backlog_are_left_alone() {
        let mut q = CodelQueue::new(10, 100, MTU);
        for t in 0..1_000 {
            q.enqueue(t, 100);
            let d = q.dequeue(t + 5);
            assert_eq!(
                d,
                Dequeued {
                    dropped: 0,
                    delay: Some(5)
                }
            );
        }
        q.enqueue(2_000, MTU);
        q.enqueue(2_000, MTU);
        for t in [5_000, 9_000] {
            assert_eq!(q.dequeue(t).dropped, 0, "at most one MTU behind it");
        }
        assert_eq!(q.dequeue(9_001), Dequeued::default());
    }

    proptest! {
        #[test]
        fn every_packet_is_delivered_or_dropped(
            target: u32, interval: u32, events in proptest::collection::vec(any::<(bool, u32, u64)>(), 1..300),
        ) {
            let mut q = CodelQueue::new(target, interval, MTU);
            let (mut put, mut got) = (0u64, 0u64);
            for (enqueue, t, bytes) in events {
                if enqueue {
                    q.enqueue(t, bytes);
                    put += 1;
                } else {
                    let d = q.dequeue(t);
                    got += d.dropped + u64::from(d.delay.is_some());
                }
            }
            prop_assert_eq!(put, got + q.packets.len() as u64);
        }

        #[test]
        fn newton_never_overflows(rec: u16, count: u32) {
            newton_step(rec, count);
            prop_assert!(exact_rec(count) > 0 || count > 1 << 31);
        }
    }
}
