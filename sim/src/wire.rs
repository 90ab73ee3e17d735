// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire: a [`Path`] carries frames one way through a bottleneck with a queue,
//! a delay, and the mishaps of a network; a [`Line`] is the MAC of a port, which
//! serialises frames at the speed of its link.
//!
//! Rates are bits per second of all that the wire carries: a frame padded to 60
//! bytes, plus 24 bytes of preamble, FCS and inter-frame gap. Probabilities are
//! 0 to 1. What happens to a frame depends on the seed and on the frames before it
//! only, so a run repeats bit by bit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_regs::limits::{FRAME_MIN, WIRE_OVERHEAD};
use tsonic_types::{Nanos, TickRate, Ticks};

use crate::model::Layers;

/// Fraction bits of times inside a wire.
const FRACTION: u32 = 32;

/// A time in ticks with [`FRACTION`] fraction bits.
fn fixed(t: Ticks) -> u128 {
    u128::from(t.0) << FRACTION
}

fn ceil(t: u128) -> Ticks {
    Ticks(((t + ((1 << FRACTION) - 1)) >> FRACTION) as u64)
}

/// Ticks a byte takes at `bits_per_second`, with fraction bits; 0 for 0.
fn ticks_per_byte(bits_per_second: u64, clock: TickRate) -> u128 {
    if bits_per_second == 0 {
        return 0;
    }
    ((u128::from(clock.hz()) * 8) << FRACTION) / u128::from(bits_per_second)
}

/// Bytes that a frame of `len` bytes takes on the wire.
fn wire_len(len: usize) -> u128 {
    (len.max(FRAME_MIN) + WIRE_OVERHEAD) as u128
}

/// A port's MAC: serialises frames, and holds back the NIC while it has more than
/// a frame's worth to send.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    ticks_per_byte: u128,
    free: u128,
    ready: Ticks,
}

impl Line {
    /// Bytes that the MAC's FIFO takes in advance.
    const FIFO: u128 = 2048;

    /// A line; a rate of 0 is as fast as the NIC.
    pub fn new(bits_per_second: u64, clock: TickRate) -> Line {
        Line {
            ticks_per_byte: ticks_per_byte(bits_per_second, clock),
            free: 0,
            ready: Ticks::ZERO,
        }
    }

    /// See [`crate::nic::MacPort::tx_ready_at`].
    pub fn ready_at(&self) -> Ticks {
        self.ready
    }

    /// A frame is handed over at `departed`; returns when its last byte is on the line.
    pub fn send(&mut self, departed: Ticks, len: usize) -> Ticks {
        self.free = self.free.max(fixed(departed)) + wire_len(len) * self.ticks_per_byte;
        self.ready = ceil(self.free.saturating_sub(Line::FIFO * self.ticks_per_byte));
        ceil(self.free)
    }
}

/// What a path does to frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathConfig {
    /// Rate of the bottleneck in bits per second; 0: none.
    pub rate: u64,
    /// One-way delay.
    pub delay: Nanos,
    /// Share of frames that are lost.
    pub loss: f64,
    /// Share of frames that arrive twice.
    pub duplicate: f64,
    /// Share of frames that are held back by up to `reorder_extra`.
    pub reorder: f64,
    /// Bound of the extra delay.
    pub reorder_extra: Nanos,
    /// Bytes that the queue in front of the bottleneck holds; `None`: any.
    pub queue_limit: Option<u64>,
    /// Bytes in that queue above which ECN-capable frames are marked.
    pub ce_threshold: Option<u64>,
    /// Frames arrive padded to 60 bytes, as behind a real MAC.
    pub pad: bool,
    /// Seed of the mishaps.
    pub seed: u64,
}

impl Default for PathConfig {
    fn default() -> Self {
        PathConfig {
            rate: 0,
            delay: Nanos::from_micros(10),
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_extra: Nanos::ZERO,
            queue_limit: None,
            ce_threshold: None,
            pad: true,
            seed: 1,
        }
    }
}

/// What a path has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// Frames sent into it.
    pub frames: u64,
    /// Their bytes, without padding and overhead.
    pub bytes: u64,
    /// TCP payload bytes in them.
    pub payload_bytes: u64,
    /// Frames lost at random, and TCP payload bytes in them.
    pub lost: u64,
    /// TCP payload bytes in them.
    pub lost_payload_bytes: u64,
    /// Frames dropped because the queue was full, and their payload.
    pub queue_drops: u64,
    /// TCP payload bytes in them.
    pub queue_drop_payload_bytes: u64,
    /// Frames that were duplicated.
    pub duplicated: u64,
    /// TCP payload bytes in them.
    pub duplicated_payload_bytes: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Frames marked CE.
    pub ce_marked: u64,
    /// Most bytes in the queue.
    pub queue_max: u64,
    /// Frames delivered.
    pub delivered: u64,
}

/// One direction of a wire.
pub struct Path {
    config: PathConfig,
    delay: Ticks,
    reorder_extra: u64,
    ticks_per_byte: u128,
    free: u128,
    stats: PathStats,
    rng: Pcg64Mcg,
    /// Frames under way by arrival, then by order of sending.
    flight: BinaryHeap<Reverse<(Ticks, u64, usize)>>,
    sequence: u64,
    frames: Vec<Vec<u8>>,
    free_frames: Vec<usize>,
}

impl Path {
    /// An empty path at a clock.
    pub fn new(config: PathConfig, clock: TickRate) -> Path {
        Path {
            delay: clock.to_ticks_ceil(config.delay),
            reorder_extra: clock.to_ticks_ceil(config.reorder_extra).0,
            ticks_per_byte: ticks_per_byte(config.rate, clock),
            free: 0,
            stats: PathStats::default(),
            rng: Pcg64Mcg::seed_from_u64(config.seed),
            flight: BinaryHeap::new(),
            sequence: 0,
            frames: Vec::new(),
            free_frames: Vec::new(),
            config,
        }
    }

    /// What was counted.
    pub fn stats(&self) -> PathStats {
        self.stats
    }

    /// Frames under way.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Whether something with probability `p` happens. A number is drawn in any
    /// case, so that one mishap does not shift the others.
    fn happens(&mut self, p: f64) -> bool {
        let draw: f64 = self.rng.random();
        draw < p
    }

    /// A frame whose last byte enters the path at `at`.
    pub fn send(&mut self, at: Ticks, frame: &[u8]) {
        let layers = Layers::parse(frame);
        let payload = layers.map_or(0, |l| l.tcp_payload(frame)) as u64;
        self.stats.frames += 1;
        self.stats.bytes += frame.len() as u64;
        self.stats.payload_bytes += payload;
        let lost = self.happens(self.config.loss);
        let twice = self.happens(self.config.duplicate);
        let late = self.happens(self.config.reorder);
        let extra = self.rng.random_range(0..=self.reorder_extra);
        if lost {
            self.stats.lost += 1;
            self.stats.lost_payload_bytes += payload;
            return;
        }
        let queued = self.queued(at);
        let full = self
            .config
            .queue_limit
            .is_some_and(|limit| queued + frame.len() as u64 > limit);
        if full && queued > 0 {
            self.stats.queue_drops += 1;
            self.stats.queue_drop_payload_bytes += payload;
            return;
        }
        self.free = self.free.max(fixed(at)) + wire_len(frame.len()) * self.ticks_per_byte;
        self.stats.queue_max = self.stats.queue_max.max(queued + frame.len() as u64);
        let mut arrival = ceil(self.free) + self.delay;
        if late {
            self.stats.reordered += 1;
            arrival += Ticks(extra);
        }
        let slot = self.put(arrival, frame);
        let mark = self.config.ce_threshold.is_some_and(|t| queued > t);
        if let Some(layers) = layers.filter(|_| mark)
            && mark_ce(&mut self.frames[slot], &layers)
        {
            self.stats.ce_marked += 1;
        }
        if twice {
            self.stats.duplicated += 1;
            self.stats.duplicated_payload_bytes += payload;
            let copy = self.frames[slot].clone();
            self.put(arrival, &copy);
        }
    }

    /// Bytes in front of the bottleneck at `at`.
    fn queued(&self, at: Ticks) -> u64 {
        let ticks = self.free.saturating_sub(fixed(at));
        ticks.checked_div(self.ticks_per_byte).unwrap_or(0) as u64
    }

    fn put(&mut self, arrival: Ticks, frame: &[u8]) -> usize {
        let slot = match self.free_frames.pop() {
            Some(slot) => slot,
            None => {
                self.frames.push(Vec::new());
                self.frames.len() - 1
            }
        };
        let f = &mut self.frames[slot];
        f.clear();
        f.extend_from_slice(frame);
        if self.config.pad && f.len() < FRAME_MIN {
            f.resize(FRAME_MIN, 0);
        }
        self.sequence += 1;
        self.flight.push(Reverse((arrival, self.sequence, slot)));
        slot
    }

    /// When the next frame arrives.
    pub fn next(&self) -> Option<Ticks> {
        self.flight.peek().map(|Reverse((at, ..))| *at)
    }

    /// Takes the next frame: replaces what `frame` holds.
    pub fn take(&mut self, frame: &mut Vec<u8>) -> Option<Ticks> {
        let Reverse((at, _, slot)) = self.flight.pop()?;
        self.stats.delivered += 1;
        std::mem::swap(frame, &mut self.frames[slot]);
        self.free_frames.push(slot);
        Some(at)
    }
}

/// Marks an ECN-capable frame: ECT(0) and ECT(1) become CE (RFC 3168, 5), and an IPv4
/// header checksum follows. Whether it did. Of the frame only the IP header is needed.
pub fn mark_congestion(frame: &mut [u8]) -> bool {
    Layers::parse(frame).is_some_and(|layers| mark_ce(frame, &layers))
}

/// Turns ECT(0) and ECT(1) into CE. Whether it did.
fn mark_ce(frame: &mut [u8], layers: &Layers) -> bool {
    const CE: u8 = 3;
    let l3 = layers.l3;
    if layers.ipv6 {
        // The traffic class lies across bytes 0 and 1; its ECN bits are 5 and 4 of byte 1.
        let ecn = frame[l3 + 1] >> 4 & CE;
        frame[l3 + 1] |= if ecn == 0 { 0 } else { CE << 4 };
        return ecn == 1 || ecn == 2;
    }
    let tos = frame[l3 + 1];
    if tos & CE == 0 || tos & CE == CE {
        return false;
    }
    frame[l3 + 1] = tos | CE;
    // RFC 1624, 3: HC' = ~(~HC + ~m + m').
    let word = |hi: u8, lo: u8| u32::from(u16::from_be_bytes([hi, lo]));
    let first = frame[l3];
    let mut sum = !word(frame[l3 + 10], frame[l3 + 11]) & 0xffff;
    sum += (!word(first, tos) & 0xffff) + word(first, tos | CE);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    frame[l3 + 10..l3 + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Toeplitz, classify};
    use tsonic_regs::completion::ChecksumVerdict;
    use tsonic_regs::limits::RSS_KEY_DEFAULT;

    fn clock() -> TickRate {
        TickRate::new(125_000_000).unwrap()
    }

    fn frame(len: usize, tos: u8) -> Vec<u8> {
        let mut f = vec![0u8; len];
        f[12] = 8;
        f[14] = 0x45;
        f[15] = tos;
        f[16..18].copy_from_slice(&((len - 14) as u16).to_be_bytes());
        f[23] = 6;
        f[46] = 0x50;
        let sum = !crate::model::checksum::fold(crate::model::checksum::sum(&f[14..34]));
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f
    }

    #[test]
    fn rate_and_delay_are_those_asked_for() {
        // 1 Gb/s at 125 MHz is a byte a tick.
        let mut p = Path::new(
            PathConfig {
                rate: 1_000_000_000,
                delay: Nanos::from_micros(8),
                ..PathConfig::default()
            },
            clock(),
        );
        p.send(Ticks(0), &frame(1000, 0));
        p.send(Ticks(0), &frame(54, 0));
        let mut f = Vec::new();
        assert_eq!(p.take(&mut f), Some(Ticks(1024 + 1000)));
        assert_eq!(p.take(&mut f), Some(Ticks(1024 + 84 + 1000)));
        assert_eq!(f.len(), 60, "padded");
        assert_eq!(p.stats().payload_bytes, 1000 - 54);
        assert_eq!(p.next(), None);
        p.config.pad = false;
        p.send(Ticks(10_000), &frame(54, 0));
        p.take(&mut f);
        assert_eq!(f.len(), 54, "as it is");
    }

    #[test]
    fn a_line_holds_the_nic_back() {
        let mut l = Line::new(1_000_000_000, clock());
        assert_eq!(l.send(Ticks(100), 1514), Ticks(100 + 1538));
        assert_eq!(l.ready_at(), Ticks(0));
        assert_eq!(l.send(Ticks(300), 1514), Ticks(100 + 2 * 1538));
        assert_eq!(l.ready_at(), Ticks(100 + 2 * 1538 - 2048));
    }

    #[test]
    fn mishaps_have_their_share_and_repeat() {
        let config = PathConfig {
            loss: 0.1,
            duplicate: 0.05,
            reorder: 0.2,
            reorder_extra: Nanos::from_micros(100),
            seed: 7,
            ..PathConfig::default()
        };
        let run = || {
            let mut p = Path::new(config, clock());
            for i in 0..10_000 {
                p.send(Ticks(i * 100), &frame(100, 0));
            }
            let mut arrivals = Vec::new();
            let mut f = Vec::new();
            while let Some(t) = p.take(&mut f) {
                arrivals.push(t);
            }
            (p.stats(), arrivals)
        };
        let (stats, arrivals) = run();
        assert_eq!(run(), (stats, arrivals.clone()));
        assert!((800..1200).contains(&stats.lost), "{stats:?}");
        assert_eq!(stats.lost_payload_bytes, stats.lost * 46);
        assert!((350..650).contains(&stats.duplicated), "{stats:?}");
        assert!((1500..2100).contains(&stats.reordered), "{stats:?}");
        assert_eq!(stats.delivered, 10_000 - stats.lost + stats.duplicated);
        assert!(arrivals.windows(2).all(|w| w[0] <= w[1]));
    }

    #[test]
    fn a_long_queue_marks_and_a_full_one_drops() {
        let mut p = Path::new(
            PathConfig {
                rate: 1_000_000_000,
                queue_limit: Some(20_000),
                ce_threshold: Some(5_000),
                ..PathConfig::default()
            },
            clock(),
        );
        for i in 0..40 {
            p.send(Ticks(0), &frame(1000, if i % 2 == 0 { 2 } else { 0 }));
        }
        let stats = p.stats();
        // Each takes 1,024 bytes of the queue; 19 and the next frame fit.
        assert_eq!(stats.queue_drops, 21);
        assert!(stats.queue_max <= 20_000);
        assert!((5..=8).contains(&stats.ce_marked), "{stats:?}");
        let t = Toeplitz::new(&RSS_KEY_DEFAULT);
        let (mut f, mut marked) = (Vec::new(), 0);
        while p.take(&mut f).is_some() {
            assert_eq!(classify(&f, &t).ip_csum, ChecksumVerdict::Ok);
            marked += u64::from(f[15] & 3 == 3);
        }
        assert_eq!(marked, stats.ce_marked);
    }
}
