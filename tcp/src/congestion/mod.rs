// SPDX-License-Identifier: MIT OR Apache-2.0
//! Congestion control: how the window (in segments) grows with acknowledgements
//! and what it falls to at a congestion event. When to react is the business of
//! loss recovery; this only answers how much.

mod cubic;
mod hystart;

use crate::arith::dctcp;
use cubic::Cubic;
use hystart::HyStart;
use tsonic_types::Nanos;

/// Slow-start threshold before the first congestion event (Linux's value).
pub(crate) const SSTHRESH_INFINITE: u32 = 0x7fff_ffff;
/// Largest window in segments.
const CWND_MAX: u32 = 1 << 24;

/// The algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// CUBIC (RFC 9438).
    Cubic,
    /// Reno's growth and halving (RFC 5681).
    Reno,
    /// DCTCP (RFC 8257).
    Dctcp,
}

impl Algorithm {
    /// Names, as Linux has them.
    pub const NAMES: &[&str] = &["cubic", "reno", "dctcp"];

    /// The algorithm called `name`.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        match name {
            "cubic" => Some(Algorithm::Cubic),
            "reno" => Some(Algorithm::Reno),
            "dctcp" => Some(Algorithm::Dctcp),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::Cubic => "cubic",
            Algorithm::Reno => "reno",
            Algorithm::Dctcp => "dctcp",
        }
    }
}

/// What an acknowledgement tells congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckInfo {
    pub now: Nanos,
    /// Segments newly acknowledged.
    pub acked: u32,
    /// Smoothed round-trip time.
    pub srtt: Nanos,
    /// The window was what limited the sender.
    pub cwnd_limited: bool,
}

/// State of DCTCP.
#[derive(Clone, Copy, Debug)]
struct Dctcp {
    alpha: u64,
    delivered: u64,
    marked: u64,
    window_end: u64,
}

/// The window of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Congestion {
    pub algorithm: Algorithm,
    /// Congestion window in segments, at least 1.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Fraction of a segment that the window has grown by.
    credit: f64,
    cubic: Cubic,
    hystart: Option<HyStart>,
    dctcp: Dctcp,
}

impl Congestion {
    pub fn new(algorithm: Algorithm, initial_cwnd: u32, hystart: bool) -> Congestion {
        Congestion {
            algorithm,
            cwnd: initial_cwnd.max(1),
            ssthresh: SSTHRESH_INFINITE,
            credit: 0.0,
            cubic: Cubic::default(),
            hystart: hystart.then(HyStart::default),
            dctcp: Dctcp {
                alpha: dctcp::ALPHA_ONE,
                delivered: 0,
                marked: 0,
                window_end: 0,
            },
        }
    }

    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// A sample of the round-trip time.
    #[inline]
    pub fn on_rtt(&mut self, rtt: Nanos, una: u64, nxt: u64) {
        if self.in_slow_start()
            && let Some(h) = &mut self.hystart
            && h.on_rtt(rtt, una, nxt)
        {
            self.ssthresh = self.cwnd;
        }
    }

    /// Grows the window (not called during fast recovery).
    pub fn on_ack(&mut self, a: &AckInfo) {
        if !a.cwnd_limited || a.acked == 0 {
            return;
        }
        let mut acked = a.acked;
        if self.in_slow_start() {
            let share = self.hystart.as_ref().map_or(1, HyStart::growth_divisor);
            let room = self.ssthresh - self.cwnd;
            if share > 1 {
                self.grow(f64::from(acked) / f64::from(share));
                return;
            }
            let step = acked.min(room);
            self.cwnd = (self.cwnd + step).min(CWND_MAX);
            acked -= step;
            if acked == 0 {
                return;
            }
        }
        let by = match self.algorithm {
            Algorithm::Cubic => {
                let cwnd = f64::from(self.cwnd) + self.credit;
                self.cubic.on_ack(a.now, a.srtt, cwnd, acked)
            }
            Algorithm::Reno | Algorithm::Dctcp => f64::from(acked) / f64::from(self.cwnd),
        };
        self.grow(by);
    }

    fn grow(&mut self, by: f64) {
        self.credit += by.max(0.0);
        let whole = self.credit.floor();
        self.credit -= whole;
        self.cwnd = self.cwnd.saturating_add(whole as u32).min(CWND_MAX);
    }

    /// Threshold that the window falls to at a congestion event.
    pub fn congestion_event(&mut self, by_ecn: bool) -> u32 {
        self.credit = 0.0;
        self.ssthresh = match self.algorithm {
            Algorithm::Cubic => self.cubic.congestion_event(self.cwnd),
            Algorithm::Dctcp if by_ecn => {
                dctcp::ssthresh(u64::from(self.cwnd), self.dctcp.alpha) as u32
            }
            Algorithm::Reno | Algorithm::Dctcp => (self.cwnd / 2).max(2),
        };
        self.ssthresh
    }

    /// The congestion event was none: back to what was.
    pub fn undo(&mut self, cwnd: u32, ssthresh: u32) {
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.cubic.undo();
    }

    /// Sending starts again after `idle` without anything in flight.
    pub fn on_restart(&mut self, idle: Nanos) {
        self.cubic.shift(idle);
    }

    /// Counts segments for DCTCP's share of marked ones (RFC 8257, 3.3).
    pub fn on_marks(&mut self, delivered: u32, marked: bool, una: u64, nxt: u64) {
        let d = &mut self.dctcp;
        d.delivered += u64::from(delivered);
        if marked {
            d.marked += u64::from(delivered);
        }
        if una > d.window_end {
            d.alpha = dctcp::update_alpha(d.alpha, d.delivered, d.marked);
            d.delivered = 0;
            d.marked = 0;
            d.window_end = nxt;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(now: u64, acked: u32) -> AckInfo {
        AckInfo {
            now: Nanos(now),
            acked,
            srtt: Nanos::from_millis(10),
            cwnd_limited: true,
        }
    }

    #[test]
    fn slow_start_doubles_and_stops_at_the_threshold() {
        let mut c = Congestion::new(Algorithm::Reno, 10, false);
        c.ssthresh = 25;
        c.on_ack(&ack(0, 10));
        assert_eq!(c.cwnd, 20);
        c.on_ack(&ack(0, 10));
        assert_eq!(c.cwnd, 25);
        for _ in 0..25 {
            c.on_ack(&ack(0, 1));
        }
        assert_eq!(c.cwnd, 26);
        let idle = AckInfo {
            cwnd_limited: false,
            ..ack(0, 100)
        };
        c.on_ack(&idle);
        assert_eq!(c.cwnd, 26);
    }

    #[test]
    fn reductions_by_algorithm() {
        for (a, want) in [
            (Algorithm::Cubic, 70),
            (Algorithm::Reno, 50),
            (Algorithm::Dctcp, 50),
        ] {
            let mut c = Congestion::new(a, 100, false);
            assert_eq!(c.congestion_event(false), want);
        }
        let mut c = Congestion::new(Algorithm::Dctcp, 100, false);
        for i in 1..200 {
            c.on_marks(10, false, i * 10 + 1, i * 10 + 5);
        }
        assert_eq!(c.congestion_event(true), 100, "no marks, no cut");
    }

    #[test]
    fn undo_restores() {
        let mut c = Congestion::new(Algorithm::Cubic, 100, false);
        let before = c.ssthresh;
        c.cwnd = c.congestion_event(false);
        c.undo(100, before);
        assert_eq!((c.cwnd, c.ssthresh), (100, before));
    }
}
