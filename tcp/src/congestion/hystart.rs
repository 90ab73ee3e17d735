// SPDX-License-Identifier: MIT OR Apache-2.0
//! HyStart++ (RFC 9406): leaves slow start when the round-trip time of a round
//! has grown, by way of a few rounds of conservative slow start that may turn out
//! to be a mistake.

use tsonic_types::Nanos;

const MIN_RTT_THRESH: Nanos = Nanos::from_millis(4);
const MAX_RTT_THRESH: Nanos = Nanos::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: u32 = 4;
const CSS_ROUNDS: u32 = 5;

#[derive(Clone, Copy, Debug)]
struct Conservative {
    baseline: Nanos,
    rounds: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct HyStart {
    window_end: u64,
    last_round: Option<Nanos>,
    this_round: Option<Nanos>,
    samples: u32,
    conservative: Option<Conservative>,
}

impl HyStart {
    /// A sample; answers whether slow start is over.
    #[inline]
    pub fn on_rtt(&mut self, rtt: Nanos, una: u64, nxt: u64) -> bool {
        if una >= self.window_end {
            self.window_end = nxt;
            self.last_round = self.this_round.take();
            self.samples = 0;
            if let Some(c) = &mut self.conservative {
                c.rounds += 1;
                if c.rounds >= CSS_ROUNDS {
                    return true;
                }
            }
        }
        let this = self.this_round.map_or(rtt, |m| m.min(rtt));
        self.this_round = Some(this);
        self.samples += 1;
        let Some(last) = self.last_round else {
            return false;
        };
        if self.samples < N_RTT_SAMPLE {
            return false;
        }
        match self.conservative {
            None => {
                let thresh = Nanos(last.0 / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if this >= last + thresh {
                    self.conservative = Some(Conservative {
                        baseline: this,
                        rounds: 0,
                    });
                }
            }
            Some(c) if this < c.baseline => self.conservative = None,
            Some(_) => {}
        }
        false
    }

    /// The window grows by acknowledged segments over this.
    pub fn growth_divisor(&self) -> u32 {
        if self.conservative.is_some() {
            CSS_GROWTH_DIVISOR
        } else {
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(h: &mut HyStart, n: u64, rtt_ms: u64) -> bool {
        (0..10).any(|i| h.on_rtt(Nanos::from_millis(rtt_ms), n * 100 + i, (n + 1) * 100))
    }

    #[test]
    fn a_growing_rtt_ends_slow_start_after_five_rounds() {
        let mut h = HyStart::default();
        assert!(!round(&mut h, 1, 40));
        assert!(!round(&mut h, 2, 44));
        assert_eq!(h.growth_divisor(), 1, "below the threshold of 5 ms");
        assert!(!round(&mut h, 3, 50));
        assert_eq!(h.growth_divisor(), 4);
        for n in 4..8 {
            assert!(!round(&mut h, n, 55));
        }
        assert!(round(&mut h, 8, 55));
    }

    #[test]
    fn a_falling_rtt_returns_to_slow_start() {
        let mut h = HyStart::default();
        round(&mut h, 1, 40);
        round(&mut h, 2, 50);
        assert_eq!(h.growth_divisor(), 4);
        round(&mut h, 3, 45);
        assert_eq!(h.growth_divisor(), 1);
    }
}
