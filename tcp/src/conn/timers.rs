// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines of a connection and what they do. A time-out and a probe count from
//! the departure of what they guard: while that is in the NIC, they wait.

use super::{CloseReason, Conn, State};
use crate::arith::rtt::backoff;
use crate::port::ChunkPool;
use crate::scoreboard::Departure;
use crate::shared::Core;
use crate::tunables::Tunables;
use tsonic_types::Nanos;

/// Time-out before the first RTT sample (RFC 6298, 2.1), and after the SYN had to
/// be sent again (5.7).
const RTO_INITIAL_US: u64 = 1_000_000;
const RTO_AFTER_LOST_SYN_US: u64 = 3_000_000;
/// What a peer's delayed ACK may take (RFC 8985, 7.2: WCDelAckT).
const WORST_DELAYED_ACK: Nanos = Nanos::from_millis(200);
/// Slack of a probe when several segments are out.
const PROBE_SLACK: Nanos = Nanos::from_millis(2);

/// Deadlines; `None` is off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timers {
    /// Retransmission time-out.
    pub rto: Option<Nanos>,
    /// Tail loss probe.
    pub probe: Option<Nanos>,
    /// RACK's reordering timer.
    pub reorder: Option<Nanos>,
    /// Zero-window probe.
    pub persist: Option<Nanos>,
    /// Delayed ACK.
    pub delack: Option<Nanos>,
    pub keepalive: Option<Nanos>,
    /// End of TIME_WAIT or FIN_WAIT2.
    pub life: Option<Nanos>,
    /// The engine's own pacing.
    pub pace: Option<Nanos>,
}

impl Timers {
    /// The earliest.
    pub fn next(&self) -> Option<Nanos> {
        // Once an acknowledgement: without branches.
        let never = Nanos(u64::MAX);
        let or_never = |t: Option<Nanos>| t.unwrap_or(never);
        let first = or_never(self.rto)
            .min(or_never(self.probe))
            .min(or_never(self.reorder))
            .min(or_never(self.persist))
            .min(or_never(self.delack))
            .min(or_never(self.keepalive))
            .min(or_never(self.life))
            .min(or_never(self.pace));
        (first != never).then_some(first)
    }
}

fn take(timer: &mut Option<Nanos>, now: Nanos) -> bool {
    let due = timer.is_some_and(|t| t <= now);
    if due {
        *timer = None;
    }
    due
}

impl Conn {
    /// The time-out now, back-off included.
    #[inline]
    pub fn rto_now(&self, t: &Tunables) -> Nanos {
        let initial = if self.rec.syn_retransmitted && self.state.is_synchronized() {
            RTO_AFTER_LOST_SYN_US
        } else {
            RTO_INITIAL_US
        };
        let us = self.rtt.rto_us().unwrap_or(initial);
        let max = u64::from(t.rto_max_ms) * 1000;
        Nanos::from_micros(backoff(us, self.rec.backoff, max))
    }

    /// Starts the time-out anew.
    #[inline]
    pub fn arm_rto(&mut self, t: &Tunables, now: Nanos) {
        self.timers.rto = (!self.tx.board.is_empty()).then(|| now + self.rto_now(t));
    }

    /// An acknowledgement brought progress (RFC 6298, 5.3).
    pub fn rearm_after_progress(&mut self, t: &Tunables, now: Nanos) {
        self.arm_rto(t, now);
        self.arm_probe(t, now);
        self.arm_keepalive(t, now);
    }

    /// A burst has departed: what guards it counts from there.
    pub fn departed<P>(&mut self, core: &Core<P>, now: Nanos, d: &Departure) {
        let Some(head) = self.tx.board.first() else {
            return;
        };
        let head_start = head.start;
        let last_end = self.tx.board.last().map_or(0, |r| r.end);
        if d.start <= head_start && head_start < d.end {
            let due = d.last + self.rto_now(core.tunables(self.tenant));
            if self.timers.rto.is_none_or(|t| t < due) {
                self.timers.rto = Some(due);
            }
        }
        if d.end == last_end && self.timers.probe.is_some() {
            self.arm_probe(core.tunables(self.tenant), d.last.min(now));
        }
    }

    /// Arms the tail loss probe (RFC 8985, 7.2), when one makes sense.
    #[inline]
    pub fn arm_probe(&mut self, t: &Tunables, from: Nanos) {
        self.timers.probe = None;
        let counts = self.tx.board.counts();
        if !matches!(t.early_retrans, 3 | 4)
            || !self.agreed.sack
            || !self.may_send()
            || counts.out == 0
            || counts.sacked > 0
            || self.rec.in_recovery_or_loss()
            || self.rec.probe_outstanding()
        {
            return;
        }
        let mut wait = Nanos::from_secs(1);
        if self.rtt.srtt8_us() != 0 {
            let extra = if counts.out == 1 {
                WORST_DELAYED_ACK
            } else {
                PROBE_SLACK
            };
            wait = Nanos(2 * self.srtt().0) + extra;
        }
        let mut due = from + wait;
        if let Some(rto) = self.timers.rto {
            due = due.min(rto);
        }
        self.timers.probe = Some(due);
    }

    /// The peer's window is closed and nothing is out: ask now and then.
    pub fn arm_persist<P>(&mut self, core: &Core<P>, now: Nanos) {
        if self.timers.persist.is_some()
            || self.window_left() >= u64::from(self.tx.mss)
            || !self.may_send()
        {
            return;
        }
        let t = core.tunables(self.tenant);
        let us = self.rtt.rto_us().unwrap_or(RTO_INITIAL_US);
        let max = u64::from(t.rto_max_ms) * 1000;
        let wait = backoff(us, self.rec.backoff, max);
        self.timers.persist = Some(now + Nanos::from_micros(wait));
    }

    pub fn arm_keepalive(&mut self, t: &Tunables, now: Nanos) {
        self.timers.keepalive = None;
        if self.app.keepalive && self.state.is_synchronized() {
            self.timers.keepalive = Some(now + Nanos::from_secs(u64::from(t.keepalive_time)));
        }
    }

    /// Nobody waits for the peer's FIN for ever.
    pub fn arm_fin_wait<P>(&mut self, core: &Core<P>, now: Nanos) {
        if self.app.released {
            let wait = u64::from(core.tunables(self.tenant).fin_timeout);
            self.timers.life = Some(now + Nanos::from_secs(wait));
        }
    }

    /// Does what is due.
    pub fn on_timer<P: ChunkPool>(&mut self, core: &mut Core<P>, now: Nanos) {
        take(&mut self.timers.pace, now);
        if take(&mut self.timers.life, now) {
            self.finish(CloseReason::Normal);
            return;
        }
        if take(&mut self.timers.delack, now) {
            self.rx.ack_now = true;
        }
        if take(&mut self.timers.reorder, now) {
            self.on_reorder_timer(core, now);
        }
        if take(&mut self.timers.probe, now) && !self.rec.in_recovery_or_loss() {
            if self.tx.board.last().is_some_and(|r| r.in_nic()) {
                // The tail has not even left: no reason to suspect anything.
                self.arm_probe(core.tunables(self.tenant), now);
            } else {
                self.rec.probe_due = true;
                // The time-out counts anew from the probe.
                self.arm_rto(core.tunables(self.tenant), now);
            }
        }
        if take(&mut self.timers.rto, now) {
            self.on_rto(core, now);
        }
        if take(&mut self.timers.persist, now) {
            self.on_persist(core, now);
        }
        if take(&mut self.timers.keepalive, now) {
            self.on_keepalive(core, now);
        }
    }

    fn on_reorder_timer<P>(&mut self, core: &mut Core<P>, now: Nanos) {
        let before = self.tx.board.counts().lost;
        let nothing = super::recovery::Delivered::default();
        self.after_ack(core, now, &nothing, false, None, false);
        if self.tx.board.counts().lost > before {
            self.arm_rto(core.tunables(self.tenant), now);
        }
    }

    fn on_rto<P: ChunkPool>(&mut self, core: &mut Core<P>, now: Nanos) {
        let Some(head) = self.tx.board.first().copied() else {
            return;
        };
        if head.in_nic() {
            // It has not left: nothing to conclude.
            self.arm_rto(core.tunables(self.tenant), now);
            return;
        }
        let t = core.tunables(self.tenant);
        let (retries, opening) = match self.state {
            State::SynSent => (t.syn_retries, true),
            State::SynReceived => (t.synack_retries, true),
            _ => (t.retries2, false),
        };
        if self.rec.backoff >= u32::from(retries) {
            if opening {
                self.finish(CloseReason::TimedOut);
            } else {
                self.abort(CloseReason::TimedOut);
            }
            return;
        }
        if opening {
            self.rec.syn_retransmitted = true;
        }
        self.rec.backoff += 1;
        self.begin_loss(core);
        self.update_rate(core.tunables(self.tenant));
        self.tx.wstamp = self.tx.wstamp.min(now);
        // Ask for the neighbour's address anew: it may have changed.
        self.nic.mac = None;
        self.arm_rto(core.tunables(self.tenant), now);
    }

    fn on_persist<P>(&mut self, core: &mut Core<P>, now: Nanos) {
        if self.tx.nxt >= self.tx_end() || !self.tx.board.is_empty() || !self.may_send() {
            return;
        }
        if self.probes_sent >= u32::from(core.tunables(self.tenant).retries2) {
            self.abort(CloseReason::TimedOut);
            return;
        }
        self.tx.window_probe_due = true;
        self.probes_sent += 1;
        self.rec.backoff += 1;
        self.arm_persist(core, now);
    }

    fn on_keepalive<P>(&mut self, core: &mut Core<P>, now: Nanos) {
        let t = core.tunables(self.tenant);
        let (time, gap, probes) = (t.keepalive_time, t.keepalive_intvl, t.keepalive_probes);
        let silent = now.since(self.heard_at);
        let time = Nanos::from_secs(u64::from(time));
        if silent < time {
            self.probes_sent = 0;
            self.timers.keepalive = Some(self.heard_at + time);
            return;
        }
        if !self.tx.board.is_empty() {
            // Retransmission finds out.
            self.timers.keepalive = Some(now + time);
            return;
        }
        if self.probes_sent >= u32::from(probes) {
            self.abort(CloseReason::TimedOut);
            return;
        }
        self.probes_sent += 1;
        self.tx.window_probe_due = true;
        for c in [&mut self.counters, &mut core.counters.total] {
            c.keepalive_probes += 1;
        }
        self.timers.keepalive = Some(now + Nanos::from_secs(u64::from(gap)));
    }
}
