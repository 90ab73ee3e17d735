// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP sequence numbers: 32 bits, compared modulo 2^32 (RFC 9293, 3.4).

use core::cmp::Ordering;
use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// A TCP sequence number. The order is that of RFC 9293, 3.4: `a < b` when `b`
/// lies less than 2^31 ahead of `a`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SeqNum(pub u32);

impl SeqNum {
    /// Signed distance from `earlier` to `self`.
    pub const fn distance(self, earlier: SeqNum) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// Bytes from `earlier` to `self`; 0 when `self` is not ahead.
    pub const fn bytes_since(self, earlier: SeqNum) -> u32 {
        let d = self.distance(earlier);
        if d > 0 { d as u32 } else { 0 }
    }

    /// The later of the two.
    pub fn max(self, other: SeqNum) -> SeqNum {
        if self.distance(other) >= 0 {
            self
        } else {
            other
        }
    }

    /// The earlier of the two.
    pub fn min(self, other: SeqNum) -> SeqNum {
        if self.distance(other) <= 0 {
            self
        } else {
            other
        }
    }
}

impl PartialOrd for SeqNum {
    fn partial_cmp(&self, other: &SeqNum) -> Option<Ordering> {
        // Not a total order (three numbers can form a circle), hence no `Ord`.
        Some(self.distance(*other).cmp(&0))
    }
}

impl Add<u32> for SeqNum {
    type Output = SeqNum;
    fn add(self, bytes: u32) -> SeqNum {
        SeqNum(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for SeqNum {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for SeqNum {
    type Output = SeqNum;
    fn sub(self, bytes: u32) -> SeqNum {
        SeqNum(self.0.wrapping_sub(bytes))
    }
}

impl fmt::Display for SeqNum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::SeqNum;

    #[test]
    fn order_wraps() {
        assert!(SeqNum(u32::MAX) < SeqNum(0));
        assert!(SeqNum(5) > SeqNum(u32::MAX - 5));
        assert_eq!(SeqNum(3).bytes_since(SeqNum(u32::MAX)), 4);
        assert_eq!(SeqNum(u32::MAX).bytes_since(SeqNum(3)), 0);
        assert_eq!(SeqNum(u32::MAX) + 2, SeqNum(1));
        assert_eq!(SeqNum(1).max(SeqNum(u32::MAX)), SeqNum(1));
        assert_eq!(SeqNum(1).min(SeqNum(u32::MAX)), SeqNum(u32::MAX));
    }
}
