// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP small queues: how many bytes of one flow may lie below TCP.
//!
//! A flow's bytes count from the post of a burst to its completion, with
//! bookkeeping memory ("truesize"). The comparison is strict, and the count
//! carries a bias of 1, so that with a limit of exactly two bursts two are
//! outstanding and the third is refused.

/// What [`limit`] depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitInput {
    /// Truesize of the burst to be sent, bytes.
    pub truesize: u64,
    /// Pacing rate, B/s.
    pub pacing_rate: u64,
    /// `tcp_limit_output_bytes`.
    pub cap: u64,
    /// log2 of the share of a second whose bytes may be outstanding (10).
    pub shift: u32,
    /// log2 of a factor on the whole (1 for retransmissions, else 0).
    pub factor: u32,
    /// Artificial delay below TCP, µs (0).
    pub tx_delay_us: u64,
}

/// µs to seconds, roughly: the delay's bytes are doubled by design (2^19
/// against 10^6).
const DELAY_SHIFT: u32 = 19;

/// Bytes that may be outstanding: two bursts or a share of a second, whichever
/// is more, but at most the cap. Saturates.
#[inline]
pub fn limit(l: &LimitInput) -> u64 {
    let share = l.pacing_rate.checked_shr(l.shift).unwrap_or(0);
    let limit = l.truesize.saturating_mul(2).max(share).min(l.cap);
    let limit = shl_saturating(limit, l.factor);
    let delay = (u128::from(l.pacing_rate) * u128::from(l.tx_delay_us)) >> DELAY_SHIFT;
    limit.saturating_add(u64::try_from(delay).unwrap_or(u64::MAX))
}

#[inline]
fn shl_saturating(value: u64, by: u32) -> u64 {
    if value == 0 || by <= value.leading_zeros() {
        value.checked_shl(by).unwrap_or(0)
    } else {
        u64::MAX
    }
}

/// What the gate says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// The burst must wait for a completion.
    pub blocked: bool,
    /// The flow is marked: a completion calls it back.
    pub throttled: bool,
}

/// Whether a burst may go. `outstanding` carries the bias of 1; `rtx_queue` is
/// the number of bursts that wait for their acknowledgement (with none or one
/// the flow always sends: completions may be late, and nothing else would start
/// it again); `outstanding_again` is the count read after the mark was set, as a
/// completion may have come in between.
#[inline]
pub fn gate(outstanding: u64, limit: u64, rtx_queue: u64, outstanding_again: u64) -> Gate {
    if outstanding <= limit || rtx_queue <= 1 {
        return Gate::default();
    }
    Gate {
        blocked: outstanding_again > limit,
        throttled: true,
    }
}

/// Limit tied to the egress queue (a proposal of the mailing list): what the
/// queue's byte budget has left, but at least one burst. It counts the flow's
/// own bytes against itself; the engine uses [`bql_limit`].
pub fn bql_room(bql_limit: u64, bql_inflight: u64, one_burst: u64) -> u64 {
    bql_limit.saturating_sub(bql_inflight).max(one_burst)
}

/// Limit tied to the egress queue as the engine applies it: the queue's whole
/// byte budget and one burst. Saturates.
pub fn bql_limit(bql_limit: u64, one_burst: u64) -> u64 {
    bql_limit.saturating_add(one_burst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CAP: u64 = 4_194_304;
    const BASE: LimitInput = LimitInput {
        truesize: 66_816,
        pacing_rate: 0,
        cap: CAP,
        shift: 10,
        factor: 0,
        tx_delay_us: 0,
    };

    #[test]
    fn limit_vectors() {
        for (truesize, pacing_rate, want) in [
            (2_304, 125_000, 4_608),
            (2_304, 12_500_000, 12_207),
            (66_816, 125_000_000, 133_632),
            (66_816, 1_250_000_000, 1_220_703),
            (66_816, 12_500_000_000, CAP),
            (3_000_000, 1, CAP),
            (66_816, u64::MAX, CAP),
            (66_816, 136_839_167, 133_632),
            (66_816, 136_839_168 + 1_024, 133_633),
            (66_816, 4_294_967_295, CAP - 1),
            (66_816, 4_294_967_296, CAP),
        ] {
            assert_eq!(
                limit(&LimitInput {
                    truesize,
                    pacing_rate,
                    ..BASE
                }),
                want
            );
        }
        let fast = LimitInput {
            pacing_rate: 12_500_000_000,
            ..BASE
        };
        for cap in [1_048_576, 262_144, 131_072] {
            assert_eq!(limit(&LimitInput { cap, ..fast }), cap);
        }
        let ten_gig = LimitInput {
            pacing_rate: 1_250_000_000,
            ..BASE
        };
        assert_eq!(
            limit(&LimitInput {
                cap: 131_072,
                ..ten_gig
            }),
            131_072
        );
        assert_eq!(
            limit(&LimitInput {
                factor: 1,
                ..ten_gig
            }),
            2_441_406
        );
        assert_eq!(
            limit(&LimitInput {
                shift: 8,
                ..ten_gig
            }),
            CAP
        );
        let delayed = LimitInput {
            truesize: 2_304,
            pacing_rate: 12_500_000,
            tx_delay_us: 10_000,
            ..BASE
        };
        assert_eq!(limit(&delayed), 250_625);
    }

    #[test]
    fn gate_vectors() {
        let b = |blocked, throttled| Gate { blocked, throttled };
        for (outstanding, limit, rtx, again, want) in [
            (1, 133_632, 0, 1, b(false, false)),
            (133_632, 133_632, 5, 133_632, b(false, false)),
            (133_633, 133_632, 5, 133_633, b(true, true)),
            (133_633, 133_632, 1, 133_633, b(false, false)),
            (133_633, 133_632, 0, 133_633, b(false, false)),
            (133_634, 133_632, 2, 60_000, b(false, true)),
            (400_001, 133_632, 9, 400_001, b(true, true)),
        ] {
            assert_eq!(gate(outstanding, limit, rtx, again), want);
        }
    }

    #[test]
    fn two_equal_bursts_fit_and_the_third_does_not() {
        let l = limit(&LimitInput {
            pacing_rate: 125_000_000,
            ..BASE
        });
        let mut outstanding = 1;
        let mut sent = 0;
        while !gate(outstanding, l, 5, outstanding).blocked {
            outstanding += BASE.truesize;
            sent += 1;
        }
        assert_eq!(sent, 2);
    }

    #[test]
    fn bql_vectors() {
        for (limit, inflight, one, want) in [
            (100_000, 0, 65_160, 100_000),
            (100_000, 40_000, 65_160, 65_160),
            (100_000, 34_840, 65_160, 65_160),
            (100_000, 100_000, 65_160, 65_160),
            (100_000, 165_000, 65_160, 65_160),
            (0, 0, 1_514, 1_514),
            (3_028, 1_514, 1_514, 1_514),
            (1_879_048_192, 0, 65_160, 1_879_048_192),
        ] {
            assert_eq!(bql_room(limit, inflight, one), want);
        }
        assert_eq!(bql_limit(100_000, 65_160), 165_160);
        assert_eq!(bql_limit(u64::MAX, 1), u64::MAX);
    }

    proptest! {
        #[test]
        fn limit_is_bounded_and_monotone(
            truesize: u64, pacing_rate: u64, cap: u64, shift: u32, factor: u32, tx_delay_us: u64,
        ) {
            let l = LimitInput { truesize, pacing_rate, cap, shift, factor, tx_delay_us };
            let bytes = limit(&l);
            let bare = limit(&LimitInput { factor: 0, tx_delay_us: 0, ..l });
            let faster = limit(&LimitInput { pacing_rate: pacing_rate.saturating_add(1), ..l });
            let wider = limit(&LimitInput { cap: cap.saturating_add(1), ..l });
            prop_assert!(bare <= cap && faster >= bytes && wider >= bytes);
        }

        #[test]
        fn blocked_implies_throttled(outstanding: u64, l: u64, rtx: u64, again: u64) {
            let g = gate(outstanding, l, rtx, again);
            prop_assert!(!g.blocked || (g.throttled && outstanding > l && again > l && rtx > 1));
        }

        #[test]
        fn bql_room_keeps_one_burst(l: u64, inflight: u64, one: u64) {
            let room = bql_room(l, inflight, one);
            prop_assert!(room >= one && room <= l.max(one));
        }
    }
}
