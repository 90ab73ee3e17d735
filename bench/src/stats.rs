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

#[cfg(test)]
mod tests {
    use super::*;

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
