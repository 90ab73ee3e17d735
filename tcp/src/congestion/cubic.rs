// SPDX-License-Identifier: MIT OR Apache-2.0
//! CUBIC (RFC 9438). Windows in segments, times in seconds.

use tsonic_types::Nanos;

/// Scale of the cubic function (5.1).
const C: f64 = 0.4;
/// What a window keeps at a congestion event (4.6).
const BETA: f64 = 0.7;
/// Reno-friendly increase below the last maximum: 3 (1 - beta) / (1 + beta) (4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// Since the last congestion event.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Nanos,
    /// Seconds from the start to the plateau.
    k: f64,
    /// Window that a Reno flow would have.
    reno: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Cubic {
    epoch: Option<Epoch>,
    /// Window at the last congestion event, after fast convergence; 0: none yet.
    max: f64,
    /// Window just before the last congestion event.
    prior: f64,
    /// `max` and `prior` before the last congestion event.
    before: (f64, f64),
}

impl Cubic {
    /// Segments by which a window of `cwnd` grows when `acked` segments arrive in
    /// congestion avoidance.
    pub fn on_ack(&mut self, now: Nanos, srtt: Nanos, cwnd: f64, acked: u32) -> f64 {
        if self.max < cwnd && self.epoch.is_none() {
            // No congestion event yet, or the window is beyond the old plateau.
            self.max = cwnd;
        }
        let max = self.max;
        let e = self.epoch.get_or_insert_with(|| Epoch {
            start: now,
            k: ((max - cwnd) / C).cbrt(),
            reno: cwnd,
        });
        let acked = f64::from(acked);
        let alpha = if e.reno >= self.prior { 1.0 } else { ALPHA };
        e.reno += alpha * acked / cwnd;
        let t = seconds(now.since(e.start));
        let w = |t: f64| C * (t - e.k).powi(3) + max;
        if w(t) < e.reno {
            return e.reno - cwnd;
        }
        let target = w(t + seconds(srtt)).clamp(cwnd, 1.5 * cwnd);
        (target - cwnd) / cwnd * acked
    }

    /// The window falls; answers the new threshold (at least 2).
    pub fn congestion_event(&mut self, cwnd: u32) -> u32 {
        let w = f64::from(cwnd);
        self.before = (self.max, self.prior);
        // Fast convergence (4.7): the plateau falls, so give up more room.
        self.max = if w < self.max {
            w * (1.0 + BETA) / 2.0
        } else {
            w
        };
        self.prior = w;
        self.epoch = None;
        ((w * BETA) as u32).max(2)
    }

    pub fn undo(&mut self) {
        (self.max, self.prior) = self.before;
        self.epoch = None;
    }

    /// Time without sending does not count (4.2.1... the window must not leap
    /// after an idle period: 5.8).
    pub fn shift(&mut self, idle: Nanos) {
        if let Some(e) = &mut self.epoch {
            e.start += idle;
        }
    }
}

fn seconds(t: Nanos) -> f64 {
    t.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plateau_is_reached_after_k() {
        for (max, k) in [(100u32, 4.217), (1000, 9.086), (10_000, 19.574)] {
            let mut c = Cubic::default();
            let start = f64::from(c.congestion_event(max));
            c.on_ack(Nanos(0), Nanos(0), start, 1);
            let e = c.epoch.unwrap();
            assert!((e.k - k).abs() < 1e-3, "{}", e.k);
        }
    }

    #[test]
    fn growth_follows_the_cubic_or_reno() {
        // RTT 100 ms, window 700 -> 1000: after K seconds the plateau.
        let mut c = Cubic::default();
        let mut w = f64::from(c.congestion_event(1000));
        let rtt = Nanos::from_millis(100);
        let mut now = Nanos(0);
        let mut at_k = 0.0;
        while seconds(now) < 18.17 {
            for _ in 0..10 {
                w += c.on_ack(now, rtt, w, (w / 10.0) as u32);
            }
            now += rtt;
            if seconds(now) < 9.086 {
                at_k = w;
            }
        }
        assert!((at_k - 1000.0).abs() < 5.0, "{at_k}");
        assert!((w - 1300.0).abs() < 25.0, "{w}");
        // RTT 1 ms, window 10: Reno's line is steeper. One round adds alpha.
        let mut c = Cubic::default();
        let w = f64::from(c.congestion_event(20));
        let by: f64 = (0..14)
            .map(|_| c.on_ack(Nanos(1_000_000), Nanos(1_000_000), w, 1))
            .fold(0.0, f64::max);
        assert!((by - ALPHA).abs() < 1e-9, "{by}");
    }

    #[test]
    fn fast_convergence_lowers_the_plateau() {
        let mut c = Cubic::default();
        c.congestion_event(1000);
        c.congestion_event(1000 - 1);
        assert!((c.max - 999.0 * 0.85).abs() < 1e-9);
    }
}
