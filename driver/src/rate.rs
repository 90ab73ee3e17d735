// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates as the device takes them: ticks per wire byte in 20.28 fixed point.

use tsonic_regs::limits::{INV_RATE_BITS, INV_RATE_FRACTION};
use tsonic_types::{ByteRate, TickRate};

/// Largest inverse rate: the slowest flow (119 B/s at 125 MHz).
pub const INV_RATE_MAX: u64 = (1 << INV_RATE_BITS) - 1;

/// The inverse of a rate in wire bytes per second, rounded up, so that the flow
/// never exceeds the rate. A rate below the slowest counts as the slowest (0
/// included); an unlimited one gives 0, which the device does not pace.
#[inline]
pub const fn inverse_rate(rate: ByteRate, ticks: TickRate) -> u64 {
    if !rate.is_limited() {
        return 0;
    }
    if rate.0 == 0 {
        return INV_RATE_MAX;
    }
    // 32 + 28 bits.
    let exact = ((ticks.hz() as u64) << INV_RATE_FRACTION).div_ceil(rate.0);
    if exact > INV_RATE_MAX {
        INV_RATE_MAX
    } else {
        exact
    }
}

/// The slowest rate that the device can keep.
pub const fn slowest_rate(ticks: TickRate) -> ByteRate {
    ByteRate(((ticks.hz() as u64) << INV_RATE_FRACTION).div_ceil(INV_RATE_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inv(rate: u64, hz: u32) -> u64 {
        inverse_rate(ByteRate(rate), TickRate::new(hz).unwrap())
    }

    #[test]
    fn rates_at_their_ends() {
        assert_eq!(inv(125_000_000, 125_000_000), 1 << 28);
        assert_eq!(inv(1_000, 250_000_000), 250_000 << 28);
        assert_eq!(inv(12_500_000_000, 125_000_000), 2_684_355, "2684354.56 up");
        assert_eq!(inv(0, 125_000_000), INV_RATE_MAX);
        assert_eq!(inv(119, 125_000_000), INV_RATE_MAX);
        assert_eq!(inv(u64::MAX, 125_000_000), 0);
        assert_eq!(inv(u64::MAX - 1, u32::MAX), 1);
    }

    #[test]
    fn the_slowest_rate_is_the_last_that_is_exact() {
        for hz in [1_000_000, 125_000_000, u32::MAX] {
            let slowest = slowest_rate(TickRate::new(hz).unwrap()).0;
            let exact = |rate: u64| (u64::from(hz) << INV_RATE_FRACTION).div_ceil(rate);
            assert!(exact(slowest) <= INV_RATE_MAX);
            assert!(slowest == 1 || exact(slowest - 1) > INV_RATE_MAX);
        }
        assert_eq!(
            slowest_rate(TickRate::new(125_000_000).unwrap()),
            ByteRate(120)
        );
    }

    #[test]
    fn the_error_is_the_fixed_points() {
        // At 100 Gb/s: below 3.8e-7 at 125 MHz, and far below at lower rates.
        for (rate, ppb) in [(12_500_000_000, 380), (1_250_000_000, 38), (125_000, 1)] {
            let i = u128::from(inv(rate, 125_000_000));
            let exact = 125_000_000u128 << 28;
            let over = (i * u128::from(rate) - exact) * 1_000_000_000 / exact;
            assert!(over <= ppb, "{over} ppb");
        }
        // Carried over a million frames of 1,514 bytes, the remainder is kept.
        let ticks = (u128::from(inv(12_499_999_999, 250_000_000)) * 1_514 * 1_000_000) >> 28;
        assert!(ticks.abs_diff(30_280_000) <= 6, "{ticks}");
    }

    proptest! {
        #[test]
        fn never_above_the_rate_and_close_below_it(
            rate in 4_096u64..12_500_000_000, hz in 1_000_000u32..,
        ) {
            let i = u128::from(inv(rate, hz));
            let exact = u128::from(hz) << 28;
            prop_assert!(i * u128::from(rate) >= exact);
            prop_assert!((i - 1) * u128::from(rate) < exact);
        }
    }
}
