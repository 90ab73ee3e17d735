// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scoreboard: what one NIC did, to be compared with what another did from
//! the same posts. Frames of each flow and their order, completions, and counters
//! must be equal; departure times must agree within a bound.

use std::collections::BTreeMap;

use tsonic_regs::completion::TxCompletion;
use tsonic_types::Ticks;

use crate::checkers::Violation;
use crate::model::Layers;

/// Name of a flow: addresses and ports as they stand in the frame, or the
/// Ethernet header of what is not IP.
pub type FlowKey = Vec<u8>;

/// The flow of a frame.
pub fn flow_key(frame: &[u8]) -> FlowKey {
    let Some(l) = Layers::parse(frame) else {
        return frame.iter().take(14).copied().collect();
    };
    let addresses = if l.ipv6 {
        l.l3 + 8..l.l3 + 40
    } else {
        l.l3 + 12..l.l3 + 20
    };
    let ports = frame.get(l.l4..l.l4 + 4).filter(|_| !l.fragment);
    let mut key = frame[addresses].to_vec();
    key.push(l.protocol);
    key.extend_from_slice(ports.unwrap_or_default());
    key
}

/// What of a completion must be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    status: u8,
    flow_slot: u16,
    wire_bytes: u32,
    segments: u32,
}

/// Record of one NIC's run.
#[derive(Clone, Debug, Default)]
pub struct Scoreboard {
    flows: BTreeMap<FlowKey, Vec<(Ticks, Vec<u8>)>>,
    /// By queue and cookie, in order.
    completions: BTreeMap<(usize, u16), Vec<Done>>,
    counters: Vec<(&'static str, u64)>,
}

/// How far apart two runs are that are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Frames compared.
    pub frames: u64,
    /// Largest difference of two departure times.
    pub departure: Ticks,
}

impl Scoreboard {
    /// A frame departed.
    pub fn frame(&mut self, at: Ticks, frame: &[u8]) {
        let flow = self.flows.entry(flow_key(frame)).or_default();
        flow.push((at, frame.to_vec()));
    }

    /// A completion was read from queue `q`.
    pub fn completion(&mut self, q: usize, c: &TxCompletion) {
        let done = Done {
            status: c.status.status(),
            flow_slot: c.status.flow_slot(),
            wire_bytes: c.done.wire_bytes(),
            segments: c.done.segments(),
        };
        let of_cookie = self.completions.entry((q, c.status.cookie())).or_default();
        of_cookie.push(done);
    }

    /// A counter's final value.
    pub fn counter(&mut self, name: &'static str, value: u64) {
        self.counters.push((name, value));
    }

    /// Frames recorded.
    pub fn frames(&self) -> usize {
        self.flows.values().map(Vec::len).sum()
    }

    /// Compares two runs; departures may be `bound` ticks apart.
    ///
    /// # Errors
    /// [`Violation`] naming the first difference.
    pub fn compare(&self, other: &Scoreboard, bound: Ticks) -> Result<Agreement, Violation> {
        let fail = |what: String| Err(Violation(what));
        if let Some(key) = self
            .flows
            .keys()
            .chain(other.flows.keys())
            .find(|k| self.flows.contains_key(*k) != other.flows.contains_key(*k))
        {
            return fail(format!("only one has frames of flow {key:02x?}"));
        }
        let mut agreement = Agreement::default();
        for (key, ours) in &self.flows {
            let theirs = other.flows.get(key).map_or(&[][..], Vec::as_slice);
            for (i, ((at, frame), (their_at, their_frame))) in ours.iter().zip(theirs).enumerate() {
                if frame != their_frame {
                    return fail(format!("frame {i} of flow {key:02x?} differs"));
                }
                let apart = at.since(*their_at).max(their_at.since(*at));
                agreement.departure = agreement.departure.max(apart);
                if apart > bound {
                    return fail(format!(
                        "frame {i} of flow {key:02x?} departs at {at} and {their_at}"
                    ));
                }
                agreement.frames += 1;
            }
            if ours.len() != theirs.len() {
                return fail(format!(
                    "flow {key:02x?} has {} and {} frames",
                    ours.len(),
                    theirs.len()
                ));
            }
        }
        for key in self.completions.keys().chain(other.completions.keys()) {
            let (ours, theirs) = (self.completions.get(key), other.completions.get(key));
            if ours != theirs {
                return fail(format!("completions of {key:?}: {ours:?} and {theirs:?}"));
            }
        }
        for (ours, theirs) in self.counters.iter().zip(&other.counters) {
            if ours != theirs {
                return fail(format!("counters: {ours:?} and {theirs:?}"));
            }
        }
        Ok(agreement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(port: u8, byte: u8) -> Vec<u8> {
        let mut f = vec![0u8; 60];
        f[12] = 8;
        f[14] = 0x45;
        f[17] = 40;
        f[23] = 6;
        f[35] = port;
        f[59] = byte;
        f
    }

    #[test]
    fn flows_may_interleave_but_not_reorder() {
        let (mut a, mut b) = (Scoreboard::default(), Scoreboard::default());
        for (at, port, byte) in [(1, 1, 1), (2, 2, 1), (3, 1, 2)] {
            a.frame(Ticks(at), &frame(port, byte));
        }
        for (at, port, byte) in [(1, 2, 1), (2, 1, 1), (5, 1, 2)] {
            b.frame(Ticks(at), &frame(port, byte));
        }
        let same = a.compare(&b, Ticks(2)).unwrap();
        assert_eq!((same.frames, same.departure), (3, Ticks(2)));
        assert!(a.compare(&b, Ticks(1)).is_err());
        b.frame(Ticks(6), &frame(1, 9));
        assert!(a.compare(&b, Ticks(2)).is_err());
        a.frame(Ticks(6), &frame(1, 8));
        assert!(a.compare(&b, Ticks(2)).is_err());
    }

    #[test]
    fn completions_and_counters_count() {
        let (mut a, mut b) = (Scoreboard::default(), Scoreboard::default());
        let mut c = TxCompletion::default();
        a.completion(0, &c);
        assert!(a.compare(&b, Ticks(0)).is_err());
        b.completion(0, &c);
        a.counter("X", 1);
        b.counter("X", 1);
        a.compare(&b, Ticks(0)).unwrap();
        c.done.set_segments(1);
        a.completion(0, &c);
        c.done.set_segments(2);
        b.completion(0, &c);
        assert!(a.compare(&b, Ticks(0)).is_err());
    }
}
