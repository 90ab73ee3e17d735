// SPDX-License-Identifier: MIT OR Apache-2.0
//! Protection against wrapped sequence numbers (RFC 7323, section 5): whether a
//! segment's timestamp is too old to be of this connection's last wrap.

/// Steps of the peer's clock that a timestamp may go back.
const SLACK: i32 = 1;
/// Age in seconds after which the recent timestamp says nothing any more.
/// RFC 7323, 5.5 has 24 days; 2^31 µs covers peers whose clock ticks in µs.
pub const STALE_S: u64 = 2_147;

/// Whether to accept a segment with `tsval`, when `ts_recent` was taken
/// `age_s` seconds ago. A `ts_recent` of 0 is accepted against: some peers send
/// SYNs with a timestamp of 0 and real ones later.
pub fn accept(ts_recent: u32, tsval: u32, age_s: u64) -> bool {
    let behind = ts_recent.wrapping_sub(tsval) as i32;
    behind <= SLACK || age_s >= STALE_S || ts_recent == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors() {
        for (recent, tsval, age, want) in [
            (1_000, 1_000, 0, true),
            (1_000, 999, 0, true),
            (1_000, 998, 0, false),
            (5, u32::MAX, 0, false),
            (5, 4, 0, true),
            (u32::MAX, 0, 0, true),
            (2_147_483_653, 5, 0, true),
            (2_147_483_652, 5, 0, false),
            (1_000, 500, 2_146, false),
            (1_000, 500, 2_147, true),
            (0, 77, 0, true),
            (0, 0x9000_0000, 0, true),
        ] {
            assert_eq!(accept(recent, tsval, age), want, "{recent} {tsval} {age}");
        }
    }

    proptest! {
        #[test]
        fn newer_is_always_accepted(recent: u32, ahead in 0u32..0x7fff_ffff, age: u64) {
            prop_assert!(accept(recent, recent.wrapping_add(ahead), age));
        }
    }
}
