// SPDX-License-Identifier: MIT OR Apache-2.0
//! DCTCP (RFC 8257, section 3.3): the share of marked segments, smoothed over
//! windows, and the window cut in its proportion.

/// `alpha` of 1: every segment is marked. Also the value to start from.
pub const ALPHA_ONE: u64 = 1 << ALPHA_BITS;

const ALPHA_BITS: u32 = 10;
/// The gain: 1/16.
const GAIN_SHIFT: u32 = 4;
/// Least congestion window in segments.
const CWND_MIN: u64 = 2;

/// `alpha` (in 1/1024) after a window in which `delivered` segments arrived,
/// `ce` of them marked. A value below 1/64 falls to nothing without marks.
pub fn update_alpha(alpha: u64, delivered: u64, ce: u64) -> u64 {
    let alpha = alpha.min(ALPHA_ONE);
    let decay = alpha >> GAIN_SHIFT;
    let kept = if decay == 0 { 0 } else { alpha - decay };
    let marked = (u128::from(ce) << (ALPHA_BITS - GAIN_SHIFT)) / u128::from(delivered.max(1));
    kept.saturating_add(u64::try_from(marked).unwrap_or(u64::MAX))
        .min(ALPHA_ONE)
}

/// Slow-start threshold in segments after a marked window.
pub fn ssthresh(cwnd: u64, alpha: u64) -> u64 {
    let cut = (u128::from(cwnd) * u128::from(alpha.min(ALPHA_ONE))) >> (ALPHA_BITS + 1);
    // At most half of `cwnd`, hence 64 bits.
    (cwnd - cut as u64).max(CWND_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors() {
        let mut alpha = ALPHA_ONE;
        for (delivered, ce, want) in [
            (100, 0, 960),
            (100, 0, 900),
            (100, 50, 876),
            (100, 100, 886),
            (100, 1, 831),
            (0, 0, 780),
        ] {
            alpha = update_alpha(alpha, delivered, ce);
            assert_eq!(alpha, want);
        }
        assert_eq!(update_alpha(15, 100, 0), 0);
        for (alpha, want) in [
            (1_024, 50),
            (512, 75),
            (100, 96),
            (16, 100),
            (15, 100),
            (0, 100),
        ] {
            assert_eq!(ssthresh(100, alpha), want);
        }
        assert_eq!(ssthresh(1, 0), 2);
    }

    proptest! {
        #[test]
        fn bounded_and_monotone(alpha: u64, delivered: u64, ce: u64, cwnd: u64) {
            let next = update_alpha(alpha, delivered, ce);
            prop_assert!(next <= ALPHA_ONE);
            prop_assert!(update_alpha(alpha, delivered, ce.saturating_add(1)) >= next);
            let cut = ssthresh(cwnd, alpha);
            prop_assert!(cut >= CWND_MIN && cut <= cwnd.max(CWND_MIN) && cut >= cwnd / 2);
        }
    }
}
