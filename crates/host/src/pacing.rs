// SPDX-License-Identifier: MIT OR Apache-2.0
//! How well the NIC kept the rates it was given, from the completions alone.
//!
//! A burst of n segments with a rate takes, from its first departure to its last,
//! the time that its wire bytes but the last segment's need at that rate. What
//! it took beyond (or below) that, shared out over its n - 1 gaps, is its error.
//! The last segment counts as an average one.

use tsonic_driver::TxCompletion;
use tsonic_types::ByteRate;

/// Bins of the histogram of errors: bin k counts gaps whose error is below 2^k ns.
const BINS: usize = 40;

/// Errors of paced bursts.
#[derive(Clone, Debug)]
pub struct PacingMeter {
    line: ByteRate,
    gaps: u64,
    sum_ns: f64,
    max_ns: f64,
    bins: [u64; BINS],
}

impl Default for PacingMeter {
    fn default() -> PacingMeter {
        PacingMeter {
            line: ByteRate::UNLIMITED,
            gaps: 0,
            sum_ns: 0.0,
            max_ns: 0.0,
            bins: [0; BINS],
        }
    }
}

impl PacingMeter {
    /// The speed of the wire: bursts with a higher rate (wire bytes without the
    /// wire's own overhead) are left out; with 0 all are.
    pub const fn set_line_rate(&mut self, line: ByteRate) {
        self.line = line;
    }

    /// Takes a completion; those without a rate or with one segment say nothing.
    pub fn record(&mut self, c: &TxCompletion) {
        let Some(rate) = c
            .rate
            .filter(|r| r.is_limited() && (1..=self.line.0).contains(&r.0))
        else {
            return;
        };
        let gaps = u64::from(c.segments.saturating_sub(1));
        if gaps == 0 || c.status_code != 0 {
            return;
        }
        let took = c.last_departure.since(c.first_departure).0 as f64;
        let bytes = c.wire_bytes.0 as f64 * gaps as f64 / f64::from(c.segments);
        let due = bytes * 1e9 / rate.0 as f64;
        let error = (took - due).abs() / gaps as f64;
        self.gaps += gaps;
        self.sum_ns += error * gaps as f64;
        self.max_ns = self.max_ns.max(error);
        // Rounded up (without `ceil`, which is a call on plain x86-64).
        let whole = error as u64;
        let up = whole.saturating_add(u64::from((whole as f64) < error));
        let bin = up.checked_ilog2().map_or(0, |b| b as usize + 1);
        self.bins[bin.min(BINS - 1)] += gaps;
    }

    /// Gaps measured.
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Mean error of a gap in nanoseconds; 0 when none was measured.
    pub fn mean_ns(&self) -> f64 {
        if self.gaps == 0 {
            0.0
        } else {
            self.sum_ns / self.gaps as f64
        }
    }

    /// Largest error of a burst's gaps in nanoseconds.
    pub const fn max_ns(&self) -> f64 {
        self.max_ns
    }

    /// A bound on the error of a share `p` (0 to 1) of the gaps: a power of two in
    /// nanoseconds, or the largest error where that is less.
    pub fn percentile_ns(&self, p: f64) -> u64 {
        let wanted = (self.gaps as f64 * p).ceil() as u64;
        let mut seen = 0;
        for (k, n) in self.bins.iter().enumerate() {
            seen += n;
            if seen >= wanted {
                return (1 << k).min(self.max_ns.ceil() as u64);
            }
        }
        self.max_ns.ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsonic_types::{FlowSlot, Nanos, QueueId, WireBytes};

    fn burst(segments: u32, rate: u64, took: u64) -> TxCompletion {
        TxCompletion {
            token: 0,
            queue: QueueId(0),
            flow: FlowSlot(1),
            rate: Some(ByteRate(rate)),
            status_code: 0,
            first_departure: Nanos(1_000),
            last_departure: Nanos(1_000 + took),
            wire_bytes: WireBytes(u64::from(segments) * 1_514),
            segments,
            congested: false,
            throttled: false,
            wake: false,
        }
    }

    #[test]
    fn a_late_gap_counts_and_a_perfect_one_does_not() {
        let mut m = PacingMeter::default();
        // 1514 B at 125 MB/s: 12,112 ns a gap.
        m.record(&burst(11, 125_000_000, 121_120));
        assert_eq!((m.gaps(), m.mean_ns()), (10, 0.0));
        m.record(&burst(11, 125_000_000, 121_120 + 1_000));
        assert_eq!((m.gaps(), m.mean_ns(), m.max_ns()), (20, 50.0, 100.0));
        assert_eq!(m.percentile_ns(0.5), 1);
        assert_eq!(m.percentile_ns(0.99), 100, "not above the largest");
        m.record(&burst(1, 125_000_000, 0));
        m.record(&TxCompletion {
            rate: None,
            ..burst(5, 1, 77)
        });
        assert_eq!(m.gaps(), 20);
    }
}
