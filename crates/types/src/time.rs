// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device's clock in its own ticks, and in nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

macro_rules! instant {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Time zero.
            pub const ZERO: $name = $name(0);

            /// Time from `earlier` to `self`; 0 when `self` is not later.
            pub const fn since(self, earlier: $name) -> $name {
                $name(self.0.saturating_sub(earlier.0))
            }
        }

        impl Add for $name {
            type Output = $name;
            fn add(self, other: $name) -> $name {
                $name(self.0.saturating_add(other.0))
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: $name) {
                *self = *self + other;
            }
        }

        impl Sub for $name {
            type Output = $name;
            /// Saturates at zero.
            fn sub(self, other: $name) -> $name {
                self.since(other)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

instant! {
    /// Nanoseconds on the device's clock (an instant, or a span). Wraps after
    /// 584 years; sums saturate.
    Nanos
}
instant! {
    /// Ticks of the device's clock (an instant, or a span).
    Ticks
}

impl Nanos {
    /// A span in microseconds.
    pub const fn from_micros(us: u64) -> Nanos {
        Nanos(us.saturating_mul(1_000))
    }

    /// A span in milliseconds.
    pub const fn from_millis(ms: u64) -> Nanos {
        Nanos(ms.saturating_mul(1_000_000))
    }

    /// A span in seconds.
    pub const fn from_secs(s: u64) -> Nanos {
        Nanos(s.saturating_mul(1_000_000_000))
    }

    /// Whole microseconds.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Whole milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
}

const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// Frequency of the device's clock in Hz; never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate {
    hz: u32,
    /// Nanoseconds of a tick if they are whole, else 0: spares divisions.
    whole_nanos: u32,
}

impl TickRate {
    /// A frequency, or `None` for 0 Hz.
    pub const fn new(hz: u32) -> Option<TickRate> {
        if hz == 0 {
            return None;
        }
        let whole = NANOS_PER_SECOND.is_multiple_of(hz);
        Some(TickRate {
            hz,
            whole_nanos: if whole { NANOS_PER_SECOND / hz } else { 0 },
        })
    }

    /// Ticks per second.
    pub const fn hz(self) -> u32 {
        self.hz
    }

    /// Ticks as nanoseconds, rounded down.
    #[inline]
    pub const fn to_nanos(self, t: Ticks) -> Nanos {
        if self.whole_nanos != 0 {
            return Nanos(t.0.saturating_mul(self.whole_nanos as u64));
        }
        Nanos(scale(t.0, 1_000_000_000, self.hz as u64, 0))
    }

    /// Nanoseconds as ticks, rounded down.
    pub const fn to_ticks(self, t: Nanos) -> Ticks {
        Ticks(scale(t.0, self.hz as u64, 1_000_000_000, 0))
    }

    /// Nanoseconds as ticks, rounded up: a timer set to the result never fires
    /// early.
    pub const fn to_ticks_ceil(self, t: Nanos) -> Ticks {
        Ticks(scale(t.0, self.hz as u64, 1_000_000_000, 1_000_000_000 - 1))
    }
}

/// `(value * mul + bias) / div`, saturating at `u64::MAX`.
#[inline]
const fn scale(value: u64, mul: u64, div: u64, bias: u64) -> u64 {
    // Wholes and rest apart: 64 bits hold either product, as `mul` and `div` have
    // at most 32 and one of them is 10^9.
    let rest = ((value % div) * mul + bias) / div;
    match (value / div).checked_mul(mul) {
        Some(wholes) => wholes.saturating_add(rest),
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_and_nanos_convert_without_overflow() {
        let r = TickRate::new(125_000_000).unwrap();
        assert_eq!(r.to_nanos(Ticks(125)), Nanos(1_000));
        assert_eq!(r.to_ticks(Nanos(1_007)), Ticks(125));
        assert_eq!(r.to_ticks_ceil(Nanos(1_001)), Ticks(126));
        assert_eq!(r.to_nanos(Ticks(u64::MAX)), Nanos(u64::MAX));
        assert_eq!(TickRate::new(0), None);
    }

    #[test]
    fn conversions_are_those_of_wide_numbers() {
        let values = [0, 1, 7, 999_999_999, u64::from(u32::MAX), 1 << 53, u64::MAX];
        for hz in [1, 125_000_000, 999_999_937, u32::MAX] {
            let r = TickRate::new(hz).unwrap();
            let (hz, ns) = (u128::from(hz), 1_000_000_000);
            for v in values {
                let wide = |mul: u128, div: u128, bias: u128| {
                    u64::try_from((u128::from(v) * mul + bias) / div).unwrap_or(u64::MAX)
                };
                assert_eq!(r.to_nanos(Ticks(v)).0, wide(ns, hz, 0));
                assert_eq!(r.to_ticks(Nanos(v)).0, wide(hz, ns, 0));
                assert_eq!(r.to_ticks_ceil(Nanos(v)).0, wide(hz, ns, ns - 1));
            }
        }
    }
}
