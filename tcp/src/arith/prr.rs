// SPDX-License-Identifier: MIT OR Apache-2.0
//! Proportional rate reduction (RFC 6937, and RFC 9937 which replaces it): how
//! many segments an acknowledgement lets out during fast recovery, so that the
//! window shrinks smoothly to `ssthresh`.
//!
//! All counts are segments.

/// One recovery episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prr {
    ssthresh: u64,
    prior_cwnd: u64,
    delivered: u64,
    out: u64,
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrrAck {
    /// In flight after the acknowledgement was taken in.
    pub in_flight: u64,
    /// Newly acknowledged, cumulatively or selectively.
    pub newly: u64,
    /// Whether it newly marked segments as lost.
    pub lost: bool,
    /// Whether it advanced the first unacknowledged byte.
    pub una_advanced: bool,
}

/// What may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrrStep {
    /// Segments that may go now.
    pub sndcnt: u64,
    /// The congestion window for it.
    pub cwnd: u64,
}

impl Prr {
    /// Recovery starts: the window goes from `prior_cwnd` to `ssthresh`.
    pub const fn new(ssthresh: u64, prior_cwnd: u64) -> Prr {
        Prr {
            ssthresh,
            prior_cwnd,
            delivered: 0,
            out: 0,
        }
    }

    /// What an acknowledgement lets out. What then really went is told to
    /// [`Prr::on_sent`]. `prior_cwnd` 0 counts as 1.
    pub fn on_ack(&mut self, ack: PrrAck) -> PrrStep {
        self.delivered = self.delivered.saturating_add(ack.newly);
        let sndcnt = if ack.in_flight > self.ssthresh {
            let due = (u128::from(self.ssthresh) * u128::from(self.delivered))
                .div_ceil(u128::from(self.prior_cwnd.max(1)));
            u64::try_from(due)
                .unwrap_or(u64::MAX)
                .saturating_sub(self.out)
        } else {
            // Slow start back up to ssthresh; one more when recovery is going well.
            let bonus = u64::from(ack.una_advanced && !ack.lost);
            self.delivered
                .saturating_sub(self.out)
                .max(ack.newly)
                .saturating_add(bonus)
                .min(self.ssthresh - ack.in_flight)
        };
        // The fast retransmission itself always goes.
        let sndcnt = sndcnt.max(u64::from(self.out == 0));
        PrrStep {
            sndcnt,
            cwnd: ack.in_flight.saturating_add(sndcnt),
        }
    }

    /// Segments were sent during recovery, new or again.
    pub const fn on_sent(&mut self, segs: u64) {
        self.out = self.out.saturating_add(segs);
    }

    /// The window after recovery.
    pub const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One segment delivered by each acknowledgement, all that is let out sent.
    fn steady(ssthresh: u64, prior: u64, acks: usize) -> Vec<(u64, u64)> {
        let mut p = Prr::new(ssthresh, prior);
        let mut in_flight = prior;
        (0..acks)
            .map(|_| {
                in_flight -= 1;
                let s = p.on_ack(PrrAck {
                    in_flight,
                    newly: 1,
                    lost: false,
                    una_advanced: false,
                });
                p.on_sent(s.sndcnt);
                in_flight += s.sndcnt;
                (s.sndcnt, s.cwnd)
            })
            .collect()
    }

    #[test]
    fn vectors() {
        assert_eq!(
            steady(10, 20, 14),
            [
                (1, 20),
                (0, 19),
                (1, 19),
                (0, 18),
                (1, 18),
                (0, 17),
                (1, 17),
                (0, 16),
                (1, 16),
                (0, 15),
                (1, 15),
                (0, 14),
                (1, 14),
                (0, 13)
            ]
        );
        let counts: Vec<u64> = steady(70, 100, 10).into_iter().map(|s| s.0).collect();
        assert_eq!(counts, [1, 1, 1, 0, 1, 1, 0, 1, 1, 0]);
        let low = PrrAck {
            in_flight: 4,
            newly: 2,
            lost: false,
            una_advanced: true,
        };
        let step = |sndcnt, cwnd| PrrStep { sndcnt, cwnd };
        assert_eq!(Prr::new(10, 20).on_ack(low), step(3, 7));
        assert_eq!(
            Prr::new(10, 20).on_ack(PrrAck { lost: true, ..low }),
            step(2, 6)
        );
        let first = PrrAck {
            in_flight: 25,
            newly: 1,
            lost: false,
            una_advanced: false,
        };
        assert_eq!(Prr::new(10, 30).on_ack(first), step(1, 26));
    }

    proptest! {
        #[test]
        fn sends_no_more_than_its_share(
            ssthresh in 1u64..1_000, prior in 1u64..2_000, newly in proptest::collection::vec(0u64..4, 1..100),
        ) {
            // In flight always above ssthresh: the proportional part.
            let mut p = Prr::new(ssthresh, prior);
            let (mut delivered, mut out) = (0, 0);
            for n in newly {
                let ack = PrrAck { in_flight: ssthresh + 1, newly: n, lost: false, una_advanced: true };
                let s = p.on_ack(ack);
                p.on_sent(s.sndcnt);
                delivered += n;
                out += s.sndcnt;
                prop_assert!(out <= (ssthresh * delivered).div_ceil(prior).max(1));
            }
        }

        #[test]
        fn any_input_does(
            ssthresh: u64, prior: u64, acks in proptest::collection::vec(any::<(u64, u64, bool, bool)>(), 1..20),
        ) {
            let mut p = Prr::new(ssthresh, prior);
            for (in_flight, newly, lost, una_advanced) in acks {
                let s = p.on_ack(PrrAck { in_flight, newly, lost, una_advanced });
                prop_assert!(s.cwnd >= in_flight);
                p.on_sent(s.sndcnt);
            }
        }
    }
}
