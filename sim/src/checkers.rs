// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent checkers: what must hold of any NIC's output, whatever order it
//! chose. They know the rules of the contract and nothing of how they are kept.

use std::collections::HashMap;

use thiserror::Error;
use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::limits::{FLOW_LIMIT_UNIT, INV_RATE_FRACTION};
use tsonic_types::Ticks;

/// A rule was broken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct Violation(pub String);

macro_rules! violation {
    ($($arg:tt)*) => { Err(Violation(format!($($arg)*))) };
}

/// One frame of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// When its last byte was handed to the MAC.
    pub at: Ticks,
    /// Its wire bytes.
    pub wire_bytes: u64,
}

/// The pacer's bound: in any window W, a flow sends at most R (W + D) + one segment.
/// `inv_rate` is in ticks per byte, 20.28; `debt` is D in ticks, with the jitter
/// between grant and departure added. All windows are looked at, in one pass.
///
/// # Errors
/// [`Violation`] naming the window.
pub fn window_bound(sent: &[Departure], inv_rate: u64, debt: u64) -> Result<(), Violation> {
    let fixed = |t: u64| i128::from(t) << INV_RATE_FRACTION;
    let time_of = |bytes: u64| i128::from(bytes) * i128::from(inv_rate);
    let largest = sent.iter().map(|d| d.wire_bytes).max().unwrap_or(0);
    let allowed = fixed(debt) + time_of(largest);
    // With P(i) the time that the bytes before i take at the rate: the window from i
    // to j holds P(j + 1) - P(i), which may exceed t(j) - t(i) by `allowed`.
    let mut before: i128 = 0;
    let mut least: Option<(i128, Ticks)> = None;
    for d in sent {
        let start = before - fixed(d.at.0);
        if least.is_none_or(|(s, _)| start < s) {
            least = Some((start, d.at));
        }
        before += time_of(d.wire_bytes);
        if let Some((s, from)) = least {
            let excess = before - fixed(d.at.0) - s - allowed;
            if excess > 0 {
                let ticks = excess >> INV_RATE_FRACTION;
                return violation!(
                    "between ticks {from} and {} a flow sent what takes {ticks} ticks more than allowed",
                    d.at
                );
            }
        }
    }
    Ok(())
}

/// The arbiter's bound: queues that all have work are served in proportion to
/// their quanta, to within a quantum and a segment of each.
pub struct Fairness {
    quanta: Vec<f64>,
    largest: f64,
    served: Vec<u64>,
}

impl Fairness {
    /// Queues with these quanta, whose frames have at most `largest` bytes.
    pub fn new(quanta: &[u32], largest: usize) -> Fairness {
        Fairness {
            quanta: quanta.iter().map(|q| f64::from(*q)).collect(),
            largest: largest as f64,
            served: vec![0; quanta.len()],
        }
    }

    /// A frame of queue `q` departed.
    pub fn served(&mut self, q: usize, wire_bytes: usize) {
        self.served[q] += wire_bytes as u64;
    }

    /// Compares every two queues.
    ///
    /// # Errors
    /// [`Violation`] naming the queues.
    pub fn check(&self) -> Result<(), Violation> {
        let turns = |q: usize| self.served[q] as f64 / self.quanta[q];
        let slack = |q: usize| 1.0 + self.largest / self.quanta[q];
        for a in 0..self.quanta.len() {
            for b in 0..a {
                let difference = (turns(a) - turns(b)).abs();
                if difference > slack(a) + slack(b) {
                    return violation!(
                        "queues {b} and {a} were served {:.1} and {:.1} quanta",
                        turns(b),
                        turns(a)
                    );
                }
            }
        }
        Ok(())
    }
}

/// The marks of a flow's byte limit: whether some order of joining and completing
/// explains them. Bursts join in the order of posting, each before it completes.
#[derive(Clone, Debug, Default)]
pub struct FlowMarks {
    /// Payload and limit (in bytes; 0: none) of each burst that joined, in order.
    bursts: Vec<(u64, u64)>,
    /// Number and marks (throttle, wake) of each burst that completed, in order.
    done: Vec<(usize, bool, bool)>,
}

impl FlowMarks {
    /// A burst was posted that will join. Returns its number.
    pub fn posted(&mut self, payload: u32, limit_units: u16) -> usize {
        let limit = u64::from(limit_units) * FLOW_LIMIT_UNIT as u64;
        self.bursts.push((payload.into(), limit));
        self.bursts.len() - 1
    }

    /// Burst `number` completed with these marks.
    pub fn completed(&mut self, number: usize, throttle: bool, wake: bool) {
        self.done.push((number, throttle, wake));
    }

    /// Crossings and wakes that were seen.
    pub fn seen(&self) -> (usize, usize) {
        let count = |f: fn(&(usize, bool, bool)) -> bool| self.done.iter().filter(|d| f(d)).count();
        (count(|d| d.1), count(|d| d.2))
    }

    /// Looks for an order.
    ///
    /// # Errors
    /// [`Violation`] when there is none.
    pub fn check(&self) -> Result<(), Violation> {
        let n = self.bursts.len();
        if self.done.len() != n {
            return violation!("{} of {n} bursts completed", self.done.len());
        }
        let mut throttles = vec![false; n];
        for (number, throttle, _) in &self.done {
            throttles[*number] = *throttle;
        }
        // Whether (joined, completed) can be reached with the flow not throttled (bit 0), and
        // throttled (bit 1): row after row of `joined`.
        let mut row = vec![0u8; n + 1];
        row[0] = 1;
        let mut joined_bytes = 0;
        for joined in 0..=n {
            let limit = joined.checked_sub(1).map_or(0, |last| self.bursts[last].1);
            let mut bytes = joined_bytes;
            for completed in 0..n {
                let (number, _, wake) = self.done[completed];
                if number >= joined {
                    break;
                }
                bytes -= self.bursts[number].0;
                let within = limit == 0 || bytes <= limit;
                let (free, held) = (row[completed] & 1 != 0, row[completed] & 2 != 0);
                row[completed + 1] |= u8::from(free && !wake)
                    | u8::from(held && within && wake)
                    | u8::from(held && !within && !wake) << 1;
            }
            let Some(((payload, limit), throttle)) =
                self.bursts.get(joined).zip(throttles.get(joined))
            else {
                break;
            };
            joined_bytes += payload;
            let mut bytes = joined_bytes;
            for (completed, state) in row.iter_mut().enumerate().take(joined + 1) {
                let above = *limit != 0 && bytes > *limit;
                let (free, held) = (*state & 1 != 0, *state & 2 != 0);
                *state = u8::from(free && !above && !*throttle)
                    | u8::from((free && above && *throttle) || (held && !*throttle)) << 1;
                match self.done.get(completed) {
                    Some((number, ..)) if *number < joined => bytes -= self.bursts[*number].0,
                    // Nothing more can have completed by now.
                    _ => break,
                }
            }
        }
        if row[n] & 1 == 0 {
            return violation!("no order explains the marks of the flow: {:?}", self.done);
        }
        Ok(())
    }
}

/// What a burst must come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    wire_bytes: u64,
    segments: u64,
    flow_slot: u16,
}

/// The books: every burst that was queued completes once, with the bytes that it
/// has, or fewer if it failed. `completed <= queued` always, and `==` at the end.
pub struct Ledger {
    open: Vec<HashMap<u16, Expected>>,
    wire_bytes: u64,
    segments: u64,
}

impl Ledger {
    /// Empty books for `queues` queues.
    pub fn new(queues: usize) -> Ledger {
        Ledger {
            open: vec![HashMap::new(); queues],
            wire_bytes: 0,
            segments: 0,
        }
    }

    /// A burst is posted. Its cookie must not be open in the queue.
    pub fn queued(&mut self, q: usize, cookie: u16, d: &TxDescriptor) {
        let payload = u64::from(d.burst.payload_len());
        let cut = matches!(
            Kind::from_code(d.control.kind()),
            Some(Kind::Tso | Kind::Uso)
        );
        let mss = u64::from(d.control.mss()).max(1);
        let segments = if cut { payload.div_ceil(mss).max(1) } else { 1 };
        let expected = Expected {
            wire_bytes: payload + segments * d.header_len() as u64,
            segments,
            flow_slot: d.burst.flow_slot(),
        };
        self.open[q].insert(cookie, expected);
    }

    /// A completion was read.
    ///
    /// # Errors
    /// [`Violation`] when it belongs to no open burst, or its numbers are not those
    /// of the burst.
    pub fn complete(&mut self, q: usize, c: &TxCompletion) -> Result<(), Violation> {
        let cookie = c.status.cookie();
        let Some(expected) = self.open[q].remove(&cookie) else {
            return violation!("queue {q} completed {cookie}, which is not open");
        };
        let (wire, segments) = (u64::from(c.done.wire_bytes()), u64::from(c.done.segments()));
        let same = wire == expected.wire_bytes && segments == expected.segments;
        let fewer = wire < expected.wire_bytes && segments < expected.segments;
        let ok = c.status.status() == Status::Ok.code();
        if (ok && !same) || (!ok && !fewer) {
            return violation!("queue {q}: {c:?} completes {expected:?}");
        }
        if c.status.flow_slot() != expected.flow_slot || usize::from(c.status.queue()) != q {
            return violation!("queue {q}: {c:?} is of another queue or flow");
        }
        if c.first_departure > c.last_departure {
            return violation!("queue {q}: {c:?} ended before it began");
        }
        self.wire_bytes += wire;
        self.segments += segments;
        Ok(())
    }

    /// Frames and wire bytes completed.
    pub fn completed(&self) -> (u64, u64) {
        (self.segments, self.wire_bytes)
    }

    /// All that was queued has completed.
    ///
    /// # Errors
    /// [`Violation`] naming what is open.
    pub fn drained(&self) -> Result<(), Violation> {
        for (q, open) in self.open.iter().enumerate() {
            if let Some(cookie) = open.keys().min() {
                return violation!("queue {q}: {} bursts open, {cookie} first", open.len());
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = 1 << INV_RATE_FRACTION;

    fn at(ticks: &[u64]) -> Vec<Departure> {
        let departure = |t: &u64| Departure {
            at: Ticks(*t),
            wire_bytes: 100,
        };
        ticks.iter().map(departure).collect()
    }

    #[test]
    fn a_window_that_holds_too_much_is_found() {
        assert!(window_bound(&at(&[0, 100, 200, 300]), ONE, 0).is_ok());
        assert!(window_bound(&at(&[0, 100, 199, 300]), ONE, 0).is_err());
        assert!(window_bound(&at(&[0, 100, 199, 300]), ONE, 1).is_ok());
        // Late, then a burst: within the debt or not.
        assert!(window_bound(&at(&[0, 400, 410, 420]), ONE, 180).is_ok());
        assert!(window_bound(&at(&[0, 400, 410, 420]), ONE, 179).is_err());
        assert!(window_bound(&[], ONE, 0).is_ok());
    }

    #[test]
    fn marks_that_no_order_explains_are_found() {
        // Three bursts of 600 bytes, 1 KiB allowed: the second passes it if it joins
        // before the first is done.
        let flow = |marks: [(bool, bool); 3]| {
            let mut f = FlowMarks::default();
            for (number, (throttle, wake)) in marks.into_iter().enumerate() {
                assert_eq!(f.posted(600, 1), number);
                f.completed(number, throttle, wake);
            }
            f.check()
        };
        let (t, f) = (true, false);
        assert!(flow([(f, f), (f, f), (f, f)]).is_ok(), "one by one");
        assert!(flow([(f, t), (t, f), (f, f)]).is_ok(), "the third late");
        assert!(flow([(f, f), (t, t), (f, f)]).is_ok(), "all at once");
        assert!(flow([(f, t), (t, t), (t, f)]).is_ok(), "twice");
        assert!(flow([(f, f), (t, f), (f, f)]).is_err(), "no wake");
        assert!(flow([(f, t), (f, f), (f, f)]).is_err(), "no crossing");
        assert!(flow([(t, t), (f, f), (f, f)]).is_err(), "within the limit");
        assert!(flow([(f, t), (t, t), (f, f)]).is_err(), "two wakes");
        assert!(flow([(f, f), (t, f), (f, t)]).is_err(), "a late wake");
        let mut short = FlowMarks::default();
        short.posted(1, 0);
        assert!(short.check().is_err(), "one has not completed");
    }

    #[test]
    fn unfair_service_is_found() {
        let mut f = Fairness::new(&[1000, 2000], 1500);
        for _ in 0..100 {
            f.served(0, 1000);
            f.served(1, 1000);
            f.served(1, 1000);
        }
        assert!(f.check().is_ok());
        for _ in 0..10 {
            f.served(0, 1000);
        }
        assert!(f.check().is_err());
    }

    #[test]
    fn the_books_do_not_balance_twice() {
        let mut l = Ledger::new(1);
        let mut d = TxDescriptor::default();
        d.control.set_kind(Kind::Tso as u8);
        d.control.set_l2_len(14);
        d.control.set_l3_len(20);
        d.control.set_l4_len(20);
        d.control.set_mss(100);
        d.burst.set_payload_len(250);
        l.queued(0, 7, &d);
        let mut c = TxCompletion::default();
        c.status.set_cookie(7);
        c.done.set_wire_bytes(250 + 3 * 54);
        c.done.set_segments(3);
        assert!(l.drained().is_err());
        l.complete(0, &c).unwrap();
        assert!(l.complete(0, &c).is_err());
        l.drained().unwrap();
        assert_eq!(l.completed(), (3, 412));
        l.queued(0, 7, &d);
        c.done.set_segments(2);
        assert!(l.complete(0, &c).is_err());
    }
}
