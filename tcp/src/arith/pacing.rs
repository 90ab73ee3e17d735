// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pacing: a flow's rate from its window and round-trip time, and the
//! earliest-departure-time stamps of flows that the NIC does not pace.

/// Who spaces what a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacingMode {
    /// The NIC, each segment by the rate that comes with its burst.
    #[default]
    Nic,
    /// The NIC, each burst by its launch time: it waits below the engine, where small
    /// queues count it, and leaves whole at the speed of the line.
    Line,
    /// The engine's timer, each burst: nothing waits below it.
    Edt,
}

impl PacingMode {
    /// Names of the modes.
    pub const NAMES: &[&str] = &["nic", "line", "edt"];

    /// The mode called `name`.
    pub fn from_name(name: &str) -> Option<PacingMode> {
        match name {
            "nic" => Some(PacingMode::Nic),
            "line" => Some(PacingMode::Line),
            "edt" => Some(PacingMode::Edt),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            PacingMode::Nic => "nic",
            PacingMode::Line => "line",
            PacingMode::Edt => "edt",
        }
    }
}

/// What [`pacing_rate`] depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacingInput {
    /// Payload bytes of a segment.
    pub mss: u64,
    /// Congestion window in segments.
    pub cwnd: u64,
    /// Segments sent and not acknowledged.
    pub packets_out: u64,
    /// Slow-start threshold in segments.
    pub ssthresh: u64,
    /// Eight times the smoothed round-trip time, µs; 0 before the first sample.
    pub srtt8_us: u64,
    /// Rate in slow start, % of window per round trip (200).
    pub ss_ratio: u64,
    /// Rate in congestion avoidance, % (120).
    pub ca_ratio: u64,
    /// Most B/s; `u64::MAX` is unlimited.
    pub max: u64,
}

/// Microseconds in a second, over the 100 of a percentage, times the 8 of `srtt8`.
const SCALE: u128 = 1_000_000 / 100 * 8;

/// Pacing rate in B/s of a window-based congestion control: the window over the
/// smoothed round-trip time, with headroom to let the window grow (the larger
/// one below half of `ssthresh`). Without a sample of the round-trip time the
/// division is left out, and the rate is very large. Saturates.
#[inline]
pub fn pacing_rate(p: &PacingInput) -> u64 {
    let ratio = if p.cwnd < p.ssthresh / 2 {
        p.ss_ratio
    } else {
        p.ca_ratio
    };
    let segments = p.cwnd.max(p.packets_out);
    if let Some(rate) = narrow_rate(p.mss, segments, ratio, p.srtt8_us) {
        return rate.min(p.max);
    }
    let product = u128::from(p.mss)
        .saturating_mul(u128::from(segments))
        .saturating_mul(u128::from(ratio))
        .saturating_mul(SCALE);
    let rate = product
        .checked_div(u128::from(p.srtt8_us))
        .unwrap_or(product);
    u64::try_from(rate).unwrap_or(u64::MAX).min(p.max)
}

/// The rate where 64 bits hold all products, which is nearly always.
#[inline]
fn narrow_rate(mss: u64, segments: u64, ratio: u64, srtt8_us: u64) -> Option<u64> {
    let product = mss
        .checked_mul(segments)?
        .checked_mul(ratio)?
        .checked_mul(SCALE as u64)?;
    product.checked_div(srtt8_us)
}

/// Data segments that leave unpaced at the start of a connection, less one: the
/// segment that makes the count this is the first to be spaced.
pub const UNPACED_SEGMENTS: u64 = 10;

/// Stamps of one transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdtStep {
    /// When it departs, ns.
    pub departure_ns: u64,
    /// Earliest departure of the next one, ns.
    pub wstamp_ns: u64,
}

/// Earliest departure times of one flow: `len` payload bytes at `rate` B/s
/// (`None`, 0 or all ones: unpaced), with `wstamp_ns` from the step before and
/// `segs_out` data segments sent so far, these included.
///
/// A flow that is late gets back at most half of a gap at each step, so that its
/// short-term rate stays below twice the rate. The gap counts payload only and
/// is rounded down to nanoseconds. Saturates at the end of time.
pub fn edt_step(
    len: u64,
    rate: Option<u64>,
    wstamp_ns: u64,
    now_ns: u64,
    segs_out: u64,
) -> EdtStep {
    let departure_ns = wstamp_ns.max(now_ns);
    let gap = match rate {
        Some(rate) if rate != 0 && rate != u64::MAX && segs_out >= UNPACED_SEGMENTS => {
            let gap = u128::from(len) * 1_000_000_000 / u128::from(rate);
            u64::try_from(gap).unwrap_or(u64::MAX)
        }
        _ => 0,
    };
    let late = departure_ns - wstamp_ns;
    EdtStep {
        departure_ns,
        wstamp_ns: departure_ns.saturating_add(gap - late.min(gap / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAR: u64 = 2_147_483_647;

    fn rate(mss: u64, cwnd: u64, packets_out: u64, ssthresh: u64, srtt8_us: u64, max: u64) -> u64 {
        pacing_rate(&PacingInput {
            mss,
            cwnd,
            packets_out,
            ssthresh,
            srtt8_us,
            ss_ratio: 200,
            ca_ratio: 120,
            max,
        })
    }

    #[test]
    fn rate_vectors() {
        for (mss, cwnd, out, ssthresh, srtt8, want) in [
            (1448, 10, 10, FAR, 80_000, 2_896_000),
            (1448, 10, 10, 20, 80_000, 1_737_600),
            (1448, 9, 9, 20, 80_000, 2_606_400),
            (1448, 10, 10, 21, 80_000, 1_737_600),
            (1448, 100, 140, 50, 800, 2_432_640_000),
            (4096, 10, 0, FAR, 240, 2_730_666_666),
            (1448, 10, 10, FAR, 0, 231_680_000_000),
        ] {
            assert_eq!(rate(mss, cwnd, out, ssthresh, srtt8, u64::MAX), want);
        }
        assert_eq!(rate(1448, 10, 10, FAR, 0, 5), 5);
    }

    #[test]
    fn edt_vectors() {
        for (len, rate, prior, now, out, want) in [
            (65_160, Some(12_500_000_000), 0, 0, 45, (0, 5_212)),
            (
                65_160,
                Some(1_250_000_000),
                1_000,
                1_000,
                45,
                (1_000, 53_128),
            ),
            (1_448, Some(125_000_000), 5_000, 4_000, 11, (5_000, 16_584)),
            (1_448, Some(125_000_000), 5_000, 5_000, 9, (5_000, 5_000)),
            (1_448, Some(125_000_000), 5_000, 9_000, 20, (9_000, 16_584)),
            (
                1_448,
                Some(125_000_000),
                5_000,
                1_000_000_000,
                20,
                (1_000_000_000, 1_000_005_792),
            ),
            (1_448, Some(1_000), 0, 0, 20, (0, 1_448_000_000)),
            (1_448, None, 5_000, 5_000, 20, (5_000, 5_000)),
            (1_460, Some(12_500_000_000), 0, 0, 20, (0, 116)),
            (1, Some(12_500_000_000), 0, 0, 20, (0, 0)),
            (1, Some(0), 7, 9, 20, (9, 9)),
            (1, Some(u64::MAX), 7, 9, 20, (9, 9)),
        ] {
            let s = edt_step(len, rate, prior, now, out);
            assert_eq!((s.departure_ns, s.wstamp_ns), want);
        }
    }

    #[test]
    fn gaps_are_floored_to_nanoseconds() {
        for (rate, len, want) in [
            (1_000, 64, 64_000_000),
            (1_000, 65_160, 65_160_000_000),
            (125_000, 9_000, 72_000_000),
            (125_000_000, 1_448, 11_584),
            (1_250_000_000, 64, 51),
            (1_250_000_000, 1_448, 1_158),
            (1_250_000_000, 1_514, 1_211),
            (12_500_000_000, 64, 5),
            (12_500_000_000, 1_448, 115),
            (12_500_000_000, 1_514, 121),
            (12_500_000_000, 65_160, 5_212),
        ] {
            assert_eq!(edt_step(len, Some(rate), 0, 0, 10).wstamp_ns, want);
        }
    }

    #[test]
    fn lateness_is_repaid_by_halves() {
        // Ten bursts at 1.25e9 B/s; the third is 3 µs late, the sixth 50 µs.
        let want = [
            (0, 11_584),
            (11_584, 23_168),
            (23_168, 34_752),
            (37_752, 46_336),
            (46_336, 57_920),
            (57_920, 69_504),
            (119_504, 125_296),
            (125_296, 136_880),
            (136_880, 148_464),
            (148_464, 160_048),
        ];
        let mut w = 0;
        for (i, want) in want.into_iter().enumerate() {
            let late = match i {
                3 => 3_000,
                6 => 50_000,
                _ => 0,
            };
            let s = edt_step(14_480, Some(1_250_000_000), w, w + late, 100);
            assert_eq!((s.departure_ns, s.wstamp_ns), want);
            w = s.wstamp_ns;
        }
    }

    proptest! {
        #[test]
        fn narrow_and_wide_products_give_one_rate(
            bits in (0u32..40, 0u32..40, 0u32..20, 0u32..40), raw: [u64; 4],
        ) {
            let cut = |i: usize, b: u32| raw[i] >> (63 - b);
            let (mss, cwnd, ratio, srtt8) =
                (cut(0, bits.0), cut(1, bits.1), cut(2, bits.2), cut(3, bits.3).max(1));
            let wide = u128::from(mss) * u128::from(cwnd) * u128::from(ratio) * SCALE
                / u128::from(srtt8);
            let p = PacingInput {
                mss, cwnd, packets_out: 0, ssthresh: 0, srtt8_us: srtt8,
                ss_ratio: 0, ca_ratio: ratio, max: u64::MAX,
            };
            prop_assert_eq!(pacing_rate(&p), u64::try_from(wide).unwrap_or(u64::MAX));
        }

        #[test]
        fn rate_is_bounded_and_monotone(
            mss: u64, cwnd: u64, out: u64, ssthresh: u64, srtt8: u64, ss: u64, ca: u64, max: u64,
        ) {
            let p = PacingInput {
                mss, cwnd, packets_out: out, ssthresh, srtt8_us: srtt8, ss_ratio: ss, ca_ratio: ca, max,
            };
            let r = pacing_rate(&p);
            prop_assert!(r <= max);
            let longer = PacingInput { srtt8_us: srtt8.saturating_add(1), ..p };
            prop_assert!(pacing_rate(&longer) <= r);
            let wider = PacingInput { packets_out: out.saturating_add(1), ..p };
            prop_assert!(pacing_rate(&wider) >= r);
        }

        #[test]
        fn steps_never_go_back(len: u64, rate: Option<u64>, w: u64, now: u64, out: u64) {
            let s = edt_step(len, rate, w, now, out);
            prop_assert!(s.departure_ns >= now && s.departure_ns >= w);
            prop_assert!(s.wstamp_ns >= s.departure_ns);
        }

        #[test]
        fn short_term_rate_is_at_most_twice(
            len in 1u64..1_000_000, rate in 1u64..100_000_000_000, w in 0u64..1 << 50, late in 0u64..1 << 50,
        ) {
            let s = edt_step(len, Some(rate), w, w + late, 10);
            let gap = u128::from(len) * 1_000_000_000 / u128::from(rate);
            prop_assert!(u128::from(s.wstamp_ns - s.departure_ns) >= gap - gap / 2);
        }
    }
}
