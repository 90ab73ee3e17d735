// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a series of departures comes to.

use serde::Serialize;

/// A share of sorted values, nearest rank; 0 of none.
pub fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted
        .get(rank.clamp(1, sorted.len().max(1)) - 1)
        .copied()
        .unwrap_or(0.0)
}

/// How much inter-departure times differ from those asked for, over all flows, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GapErrors {
    /// Gaps.
    pub gaps: usize,
    /// Half of them differ by at most this.
    pub p50_ns: f64,
    /// 99 %.
    pub p99_ns: f64,
    /// 99.9 %.
    pub p999_ns: f64,
    /// All.
    pub max_ns: f64,
    /// Largest difference of a flow's rate over the whole run from its own, as a share of
    /// it: from the slope of its departures (least squares). Of flows with at least
    /// [`DEPARTURES_MIN`] of them: fewer say more of where the first and last fell.
    pub rate_error: f64,
}

/// Least departures of a flow whose rate is looked at.
pub const DEPARTURES_MIN: usize = 256;

/// Departures of a flow, and the time from one to the next that it asked for, in ns.
pub struct Series<'a> {
    /// In order.
    pub departures: &'a [f64],
    /// Asked for.
    pub gap: f64,
}

/// Slope of departures over their number.
fn slope(departures: &[f64]) -> Option<f64> {
    let n = departures.len() as f64;
    let first = *departures.first()?;
    if departures.len() < DEPARTURES_MIN {
        return None;
    }
    let middle = (n - 1.0) / 2.0;
    let mean = departures.iter().map(|d| d - first).sum::<f64>() / n;
    let (mut top, mut bottom) = (0.0, 0.0);
    for (k, d) in departures.iter().enumerate() {
        let x = k as f64 - middle;
        top += x * (d - first - mean);
        bottom += x * x;
    }
    Some(top / bottom)
}

impl GapErrors {
    /// Of all flows together.
    pub fn of<'a>(flows: impl IntoIterator<Item = Series<'a>>) -> GapErrors {
        let mut errors = Vec::new();
        let mut rate_error = 0.0f64;
        for flow in flows {
            let gaps = flow.departures.windows(2).map(|w| w[1] - w[0]);
            errors.extend(gaps.map(|g| (g - flow.gap).abs()));
            if let Some(slope) = slope(flow.departures) {
                rate_error = rate_error.max((slope / flow.gap - 1.0).abs());
            }
        }
        errors.sort_by(f64::total_cmp);
        GapErrors {
            gaps: errors.len(),
            p50_ns: percentile(&errors, 0.5),
            p99_ns: percentile(&errors, 0.99),
            p999_ns: percentile(&errors, 0.999),
            max_ns: errors.last().copied().unwrap_or(0.0),
            rate_error,
        }
    }
}

/// Bits of a value that a [`Histogram`] keeps.
const KEPT: u32 = 7;

/// Counts of whole numbers, each kept to 1 part in 64 or better; those below 128 and
/// the largest are exact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    bins: Vec<u64>,
    count: u64,
    max: u64,
}

impl Histogram {
    fn bin(value: u64) -> usize {
        let Some(shift) = (value.max(1).ilog2() + 1).checked_sub(KEPT) else {
            return value as usize;
        };
        // The leading bit is always set, so each power of two has half of 2^KEPT bins.
        ((u64::from(shift) << (KEPT - 1)) + (value >> shift)) as usize
    }

    /// Largest value of a bin.
    fn top(bin: usize) -> u64 {
        let half = 1usize << (KEPT - 1);
        match (bin / half).checked_sub(1) {
            None | Some(0) => bin as u64,
            Some(shift) => ((((bin - shift * half + 1) as u128) << shift) - 1) as u64,
        }
    }

    /// Counts a value.
    pub fn add(&mut self, value: u64) {
        let bin = Histogram::bin(value);
        if self.bins.len() <= bin {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += 1;
        self.count += 1;
        self.max = self.max.max(value);
    }

    /// Values counted.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// The largest; 0 of none.
    pub const fn max(&self) -> u64 {
        self.max
    }

    /// A value that a share of all do not exceed, nearest rank; 0 of none.
    pub fn percentile(&self, share: f64) -> u64 {
        let rank = ((share * self.count as f64).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bin, n) in self.bins.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Histogram::top(bin).min(self.max);
            }
        }
        self.max
    }
}

/// What several runs gave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Mean of the runs.
    pub mean: f64,
    /// The least.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of the runs' values; all 0 of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Spread {
        let values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() {
            return Spread::default();
        }
        Spread {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: values.iter().copied().fold(f64::INFINITY, f64::min),
            max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_keeps_a_part_in_64() {
        let mut h = Histogram::default();
        assert_eq!((h.percentile(0.5), h.max()), (0, 0));
        for v in (0..128).chain([1 << 20, u64::MAX / 3]) {
            let top = Histogram::top(Histogram::bin(v));
            assert!(v <= top && top - v <= v / 64, "{v} {top}");
        }
        for v in 1..=10_000 {
            let (a, b) = (Histogram::bin(v), Histogram::bin(v + 1));
            assert!(a == b || (a + 1 == b && Histogram::top(a) == v), "{v}");
            h.add(v);
        }
        for (share, want) in [(0.5, 5_000), (0.99, 9_900)] {
            let got = h.percentile(share);
            assert!(want <= got && got <= want + want / 64, "{got}");
        }
        assert_eq!((h.percentile(1.0), h.count()), (10_000, 10_000));
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 0.5), 100.0);
        assert_eq!(percentile(&values, 0.99), 198.0);
        assert_eq!(percentile(&values, 1.0), 200.0);
        assert_eq!(percentile(&values, 0.0), 1.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_late_segment_is_two_errors_and_no_change_of_rate() {
        let mut departures: Vec<f64> = (0..1001).map(|k| f64::from(k) * 100.0).collect();
        departures[500] += 30.0;
        let series = || Series {
            departures: &departures,
            gap: 100.0,
        };
        let e = GapErrors::of([series()]);
        assert_eq!((e.gaps, e.p50_ns, e.max_ns), (1000, 0.0, 30.0));
        assert!(e.rate_error < 1e-9, "{e:?}");
        let fast = Series {
            gap: 100.01,
            ..series()
        };
        let e = GapErrors::of([series(), fast]);
        assert!((e.rate_error - 1e-4).abs() < 1e-7, "{e:?}");
    }
}
