// SPDX-License-Identifier: MIT OR Apache-2.0
//! A segment arrives (RFC 9293, 3.10.7, with RFC 5961's defence against blind
//! attacks and RFC 7323's PAWS). Nothing is sent from here: what is due is
//! marked, and `output` sends it.

use super::ack::Verdict;
use super::{CloseReason, Conn, State};
use crate::arith::paws;
use crate::event;
use crate::port::ChunkPool;
use crate::shared::Core;
use crate::wire::tcp::{Flags, Header};
use tsonic_types::{Nanos, SeqNum};

/// A segment for a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming<'a> {
    pub header: &'a Header,
    pub payload: &'a [u8],
    /// ECN field of the IP header.
    pub ecn: u8,
    /// Arrival of the frame.
    pub arrival: Nanos,
}

/// What the engine must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nothing,
    /// Answer with a reset, as if there were no connection.
    Reset,
    /// The connection is in TIME_WAIT and the segment opens a new one: drop the
    /// old one and try again.
    Reopen,
}

impl Conn {
    /// The peer's absolute sequence number for one on the wire.
    fn rx_abs(&self, wire: SeqNum) -> i64 {
        let next = self.rcv_nxt();
        next as i64 + i64::from(wire.distance(self.rx_wire(next)))
    }

    /// Takes in a segment.
    #[inline(always)]
    pub fn on_segment<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        s: &Incoming<'_>,
    ) -> Reply {
        for c in [&mut self.counters, &mut core.counters.total] {
            c.segments_in += 1;
        }
        self.heard_at = now;
        if let Some(ack) = self.predicted(s).filter(|_| core.predicts()) {
            self.on_predicted(core, now, s, ack);
            return Reply::Nothing;
        }
        self.on_unpredicted(core, now, s)
    }

    #[inline(never)]
    fn on_unpredicted<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        s: &Incoming<'_>,
    ) -> Reply {
        match self.state {
            State::Closed => Reply::Reset,
            State::SynSent => self.in_syn_sent(core, now, s),
            State::TimeWait if self.reopens(s) => Reply::Reopen,
            _ => self.in_synchronized(core, now, s),
        }
    }

    fn in_syn_sent<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        s: &Incoming<'_>,
    ) -> Reply {
        let h = s.header;
        let has_ack = h.flags.has(Flags::ACK);
        if has_ack && (self.tx_abs(h.ack) != 1 || self.tx.nxt == 0) {
            return if h.flags.has(Flags::RST) {
                Reply::Nothing
            } else {
                Reply::Reset
            };
        }
        if h.flags.has(Flags::RST) {
            if has_ack {
                self.finish(CloseReason::Refused);
            }
            return Reply::Nothing;
        }
        if !h.flags.has(Flags::SYN) {
            return Reply::Nothing;
        }
        self.take_syn(core, now, h);
        if has_ack {
            self.agreed.ecn &= h.flags.has(Flags::ECE) && !h.flags.has(Flags::CWR);
            self.state = State::Established;
            self.on_ack(core, now, s.arrival, h, 0, 0);
            self.established(core, now);
            self.tell(event::CONNECTED);
            self.rx.ack_now = true;
        } else {
            // Simultaneous open: our SYN goes again, with an acknowledgement.
            self.agreed.ecn = false;
            self.state = State::SynReceived;
            if !self.tx.board.first().is_none_or(|r| r.in_nic()) {
                self.tx.board.mark_lost(0);
            } else {
                self.rx.ack_now = true;
            }
        }
        Reply::Nothing
    }

    fn in_synchronized<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        s: &Incoming<'_>,
    ) -> Reply {
        let h = s.header;
        let len = s.payload.len() as i64
            + i64::from(h.flags.has(Flags::SYN))
            + i64::from(h.flags.has(Flags::FIN));
        let seq = self.rx_abs(h.seq);
        if !self.passes_paws(core, now, h, seq) {
            return Reply::Nothing;
        }
        let next = self.rcv_nxt() as i64;
        let acceptable = seq + len >= self.rx.acked.min(self.rcv_nxt()) as i64
            && seq <= (self.rx.edge as i64).max(next);
        if !acceptable {
            if h.flags.has(Flags::RST) {
                return Reply::Nothing;
            }
            if h.flags.has(Flags::SYN) && self.state == State::SynReceived && seq == 0 {
                self.resend_syn();
            } else {
                self.unacceptable(core, now, seq, s.payload.len());
            }
            return Reply::Nothing;
        }
        if h.flags.has(Flags::RST) {
            if seq == next {
                let reason = if self.state == State::SynReceived {
                    CloseReason::Refused
                } else {
                    CloseReason::Reset
                };
                self.finish(if self.state == State::TimeWait {
                    CloseReason::Normal
                } else {
                    reason
                });
            } else {
                self.challenge(core, now);
            }
            return Reply::Nothing;
        }
        if h.flags.has(Flags::SYN) {
            if self.state == State::SynReceived && seq == 0 {
                self.resend_syn();
            } else {
                self.challenge(core, now);
            }
            return Reply::Nothing;
        }
        if !h.flags.has(Flags::ACK) {
            return Reply::Nothing;
        }
        if self.state == State::SynReceived {
            if self.tx_abs(h.ack) != 1 {
                return Reply::Reset;
            }
            self.state = State::Established;
            if self.app.released {
                self.start_close();
            }
            self.established(core, now);
        }
        self.take_timestamp(now, h, seq);
        let in_order = seq.max(0) as u64;
        if self.on_ack(core, now, s.arrival, h, in_order, s.payload.len()) == Verdict::Drop {
            return Reply::Nothing;
        }
        self.after_our_fin(core, now);
        if matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        ) {
            return self.receive(core, now, s, seq);
        }
        if self.state == State::TimeWait && len > 0 {
            // The peer's FIN again: our last ACK was lost.
            self.rx.ack_now = true;
            self.enter_time_wait(core, now);
        } else if len > 0 {
            self.unacceptable(core, now, seq, s.payload.len());
        }
        Reply::Nothing
    }

    /// RFC 7323, 5.3, R1: the timestamp must not be older than the last one.
    fn passes_paws<P>(&mut self, core: &mut Core<P>, now: Nanos, h: &Header, seq: i64) -> bool {
        if !self.agreed.timestamps || h.flags.has(Flags::RST) {
            return true;
        }
        let Some((value, _)) = h.options.timestamp else {
            // RFC 7323, 3.2: drop what lacks the option.
            return h.flags.has(Flags::SYN);
        };
        let age = now.since(self.rx.ts_recent_at).0 / 1_000_000_000;
        if paws::accept(self.rx.ts_recent, value, age) {
            return true;
        }
        // A duplicate ACK that only came late is no attack and needs no answer.
        if seq as u64 != self.rcv_nxt() || h.flags.has(Flags::SYN) {
            self.challenge(core, now);
        }
        for c in [&mut self.counters, &mut core.counters.total] {
            c.paws_drops += 1;
        }
        false
    }

    /// RFC 7323, 4.3: remembers the timestamp of what the last ACK waits for.
    pub(super) fn take_timestamp(&mut self, now: Nanos, h: &Header, seq: i64) {
        if let Some((value, _)) = h.options.timestamp
            && self.agreed.timestamps
            && seq <= self.rx.acked as i64
            && (value.wrapping_sub(self.rx.ts_recent) as i32) >= 0
        {
            self.rx.ts_recent = value;
            self.rx.ts_recent_at = now;
        }
    }

    /// Outside the window: the peer is told where we are, and what it repeated.
    fn unacceptable<P>(&mut self, core: &mut Core<P>, now: Nanos, seq: i64, payload: usize) {
        let next = self.rcv_nxt() as i64;
        let end = seq + payload as i64;
        if payload > 0 && end <= next && seq > 0 {
            for c in [&mut self.counters, &mut core.counters.total] {
                c.duplicates_in += 1;
            }
            // Data that we have: the ACK for it was lost, so this one is not
            // limited.
            if core.tunables(self.tenant).dsack {
                self.rx.dsack = Some((seq as u64, end as u64));
            }
            self.ack_at_once();
            return;
        }
        if self.state == State::TimeWait {
            self.rx.ack_now = true;
            return;
        }
        self.challenge(core, now);
    }

    /// A challenge ACK (RFC 5961), within its limits.
    pub fn challenge<P>(&mut self, core: &mut Core<P>, now: Nanos) {
        let gap = Nanos::from_millis(u64::from(core.tunables(self.tenant).invalid_ratelimit));
        if self.challenged_at.is_some_and(|t| now.since(t) < gap) {
            return;
        }
        if !core.challenge_allowed(self.tenant, now) {
            return;
        }
        self.challenged_at = Some(now);
        self.rx.ack_now = true;
        for c in [&mut self.counters, &mut core.counters.total] {
            c.challenge_acks += 1;
        }
    }

    /// The peer sent its SYN again: it did not see our answer.
    fn resend_syn(&mut self) {
        if self
            .tx
            .board
            .first()
            .is_some_and(|r| !r.in_nic() && !r.lost)
        {
            self.tx.board.mark_lost(0);
        }
    }

    /// Our FIN may just have been acknowledged.
    fn after_our_fin<P>(&mut self, core: &mut Core<P>, now: Nanos) {
        if !self.tx.fin || self.tx.una < self.tx_end() {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                self.arm_fin_wait(core, now);
            }
            State::Closing => self.enter_time_wait(core, now),
            State::LastAck => self.finish(CloseReason::Normal),
            _ => {}
        }
    }

    /// The peer's FIN was reached.
    pub fn on_fin<P>(&mut self, core: &mut Core<P>, now: Nanos) {
        self.tell(event::PEER_CLOSED | event::READABLE);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(core, now),
            _ => {}
        }
    }

    pub fn enter_time_wait<P>(&mut self, core: &Core<P>, now: Nanos) {
        self.state = State::TimeWait;
        let wait = Nanos::from_secs(u64::from(core.tunables(self.tenant).time_wait));
        self.timers = super::timers::Timers {
            life: Some(now + wait),
            ..Default::default()
        };
    }

    /// RFC 9293, 3.6.1 and RFC 6191: a SYN beyond what we had may open anew.
    fn reopens(&self, s: &Incoming<'_>) -> bool {
        let h = s.header;
        if !h.flags.has(Flags::SYN) || h.flags.has(Flags::RST) || h.flags.has(Flags::ACK) {
            return false;
        }
        let newer = match h.options.timestamp {
            Some((value, _)) if self.agreed.timestamps => {
                (value.wrapping_sub(self.rx.ts_recent) as i32) > 0
            }
            _ => false,
        };
        newer || self.rx_abs(h.seq) > self.rcv_nxt() as i64
    }

    /// The application closes: a FIN follows what it wrote.
    pub fn start_close(&mut self) {
        match self.state {
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => return,
        }
        self.tx.fin = true;
    }

    /// Ends the connection with a reset.
    pub fn abort(&mut self, reason: CloseReason) {
        if self.state.is_synchronized() && self.state != State::TimeWait
            || self.state == State::SynReceived
        {
            self.reset_due = Some(self.tx.nxt);
        }
        self.finish(reason);
    }
}
