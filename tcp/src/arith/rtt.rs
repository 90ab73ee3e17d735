// SPDX-License-Identifier: MIT OR Apache-2.0
//! Smoothed round-trip time and retransmission time-out: RFC 6298 with the
//! refinements of Linux (a deviation that does not jump when the round-trip time
//! falls, and whose maximum of a round trip counts).
//!
//! All times in µs. `srtt8` is eight times the smoothed time; the deviation is
//! kept times four, which is what the time-out adds.

/// Longest sample that counts, in µs: 2,283 years. Keeps every sum in 64 bits.
const SAMPLE_MAX: u64 = 1 << 56;

/// The estimator of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttEstimator {
    rto_min: u64,
    rto_max: u64,
    /// 0 before the first sample, then at least 1.
    srtt8: u64,
    mdev4: u64,
    mdev_max4: u64,
    rttvar4: u64,
}

impl RttEstimator {
    /// An estimator without a sample, for time-outs from `rto_min_us` to
    /// `rto_max_us` (the latter wins).
    pub const fn new(rto_min_us: u64, rto_max_us: u64) -> RttEstimator {
        let rto_min = if rto_min_us < SAMPLE_MAX {
            rto_min_us
        } else {
            SAMPLE_MAX
        };
        RttEstimator {
            rto_min,
            rto_max: rto_max_us,
            srtt8: 0,
            mdev4: 0,
            mdev_max4: 0,
            rttvar4: 0,
        }
    }

    /// Takes a sample. `round_end`: it is the first one of data sent after the
    /// last sample that was a round's end.
    #[inline]
    pub fn sample(&mut self, rtt_us: u64, round_end: bool) {
        let rtt = rtt_us.min(SAMPLE_MAX);
        if self.srtt8 == 0 {
            self.srtt8 = (8 * rtt).max(1);
            self.mdev4 = 2 * rtt;
            self.rttvar4 = self.mdev4.max(self.rto_min);
            self.mdev_max4 = self.rttvar4;
            return;
        }
        let smoothed = self.srtt8 / 8;
        let mdev = self.mdev4 / 4;
        if rtt < smoothed {
            let error = smoothed - rtt;
            self.srtt8 -= error;
            // A fall says little about how much longer the next one may be: an
            // eighth of the usual weight.
            if error > mdev {
                self.mdev4 += (error - mdev) / 8;
            } else {
                self.mdev4 -= mdev - error;
            }
        } else {
            let error = rtt - smoothed;
            self.srtt8 += error;
            self.mdev4 = (self.mdev4 + error) - mdev;
        }
        self.srtt8 = self.srtt8.max(1);
        if self.mdev4 > self.mdev_max4 {
            self.mdev_max4 = self.mdev4;
            self.rttvar4 = self.rttvar4.max(self.mdev_max4);
        }
        if round_end {
            if self.mdev_max4 < self.rttvar4 {
                self.rttvar4 -= (self.rttvar4 - self.mdev_max4) / 4;
            }
            self.mdev_max4 = self.rto_min;
        }
    }

    /// Eight times the smoothed round-trip time in µs; 0 before the first sample.
    pub const fn srtt8_us(&self) -> u64 {
        self.srtt8
    }

    /// Four times the mean deviation in µs.
    pub const fn mdev4_us(&self) -> u64 {
        self.mdev4
    }

    /// What the time-out adds to the smoothed time, µs.
    pub const fn rttvar4_us(&self) -> u64 {
        self.rttvar4
    }

    /// The retransmission time-out in µs before back-off; `None` before the
    /// first sample.
    #[inline]
    pub fn rto_us(&self) -> Option<u64> {
        (self.srtt8 != 0).then(|| (self.srtt8 / 8 + self.rttvar4).min(self.rto_max))
    }
}

/// A time-out after `retries` retransmissions: doubled by each, at most
/// `rto_max_us`.
#[inline]
pub fn backoff(rto_us: u64, retries: u32, rto_max_us: u64) -> u64 {
    if retries == 0 {
        return rto_us.min(rto_max_us);
    }
    let doubled = u128::from(rto_us) << retries.min(64);
    u64::try_from(doubled).unwrap_or(u64::MAX).min(rto_max_us)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIN: u64 = 200_000;
    const MAX: u64 = 120_000_000;

    fn run(samples: &[u64]) -> Vec<(u64, u64, u64, u64)> {
        let mut e = RttEstimator::new(MIN, MAX);
        assert_eq!(e.rto_us(), None);
        samples
            .iter()
            .map(|s| {
                e.sample(*s, true);
                (
                    e.srtt8_us(),
                    e.mdev4_us(),
                    e.rttvar4_us(),
                    e.rto_us().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn vectors() {
        assert_eq!(
            run(&[100_000, 100_000, 120_000, 80_000, 300_000, 100_000]),
            [
                (800_000, 200_000, 200_000, 300_000),
                (800_000, 150_000, 200_000, 300_000),
                (820_000, 132_500, 200_000, 302_500),
                (797_500, 121_875, 200_000, 299_687),
                (997_813, 291_720, 291_720, 416_446),
                (973_087, 243_516, 279_669, 401_304),
            ]
        );
        assert_eq!(
            run(&[50, 50, 60, 40, 500, 50]),
            [
                (400, 100, 200_000, 200_050),
                (400, 75, 200_000, 200_050),
                (410, 67, 200_000, 200_051),
                (399, 62, 200_000, 200_049),
                (850, 498, 200_000, 200_106),
                (794, 430, 200_000, 200_099),
            ]
        );
        let rtos: Vec<u64> = run(&[1_000_000; 8]).into_iter().map(|r| r.3).collect();
        assert_eq!(
            rtos,
            [
                3_000_000, 3_000_000, 2_781_250, 2_546_875, 2_318_360, 2_107_423, 1_919_557,
                1_756_410
            ]
        );
    }

    #[test]
    fn backoff_vectors() {
        let mut sum = 0;
        for i in 0..16 {
            let want = if i < 10 { MIN << i } else { MAX };
            assert_eq!(backoff(MIN, i, MAX), want);
            sum += backoff(MIN, i, MAX);
        }
        assert_eq!(sum, 924_600_000);
        assert_eq!(backoff(u64::MAX, u32::MAX, u64::MAX), u64::MAX);
        assert_eq!(backoff(0, u32::MAX, 5), 0);
    }

    proptest! {
        #[test]
        fn estimates_stay_in_range(
            min: u64, max: u64, samples in proptest::collection::vec(any::<(u64, bool)>(), 1..100),
        ) {
            let mut e = RttEstimator::new(min, max);
            for (s, round_end) in samples {
                e.sample(s, round_end);
                prop_assert!(e.srtt8_us() >= 1 && e.rto_us().unwrap() <= max);
            }
        }

        #[test]
        fn smoothed_time_stays_between_extremes(
            samples in proptest::collection::vec((1u64..10_000_000, any::<bool>()), 1..200),
        ) {
            let mut e = RttEstimator::new(MIN, MAX);
            for (s, round_end) in &samples {
                e.sample(*s, *round_end);
                prop_assert!(e.rto_us().unwrap() >= MIN);
            }
            let low = samples.iter().map(|s| s.0).min().unwrap();
            let high = samples.iter().map(|s| s.0).max().unwrap();
            prop_assert!(e.srtt8_us() + 8 >= 8 * low && e.srtt8_us() <= 8 * high + 8);
        }
    }
}
