// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss detection and recovery: RACK-TLP (RFC 8985), proportional rate reduction
//! (RFC 9937), retransmission time-out (RFC 6298), and the undoing of what was
//! spurious (RFC 3522 by timestamps, RFC 3708 by DSACK).
//!
//! All times are departures: RACK compares when segments *left* the NIC. A range
//! that is still in the NIC has no departure, is never deemed lost and never sent
//! again.

use super::Conn;
use crate::arith::prr::{Prr, PrrAck};
use crate::congestion::AckInfo;
use crate::scoreboard::Sent;
use crate::shared::Core;
use crate::tunables::Tunables;
use tsonic_types::Nanos;

/// Rounds of DSACK widen the reordering window at most so far (RFC 8985, 7.2.1).
const REO_STEPS_MAX: u32 = 255;
/// Recoveries after which a widened window is narrow again.
const REO_PERSIST: u32 = 16;
/// Retransmissions remembered to tell their duplicates from the network's.
const SENT_AGAIN: usize = 64;

/// Where congestion control stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing is amiss.
    Open,
    /// The window shrinks without a loss (ECN, local congestion).
    Reduction,
    /// Fast recovery.
    Recovery,
    /// After a time-out.
    Loss,
}

/// The most recently sent segment that was delivered, and what follows from it.
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    departed: Nanos,
    end: u64,
    rtt: Nanos,
    /// Highest end delivered.
    fack: u64,
    reordering_seen: bool,
    steps: u32,
    persist: u32,
    /// No further step before this is acknowledged.
    dsack_round: Option<u64>,
}

/// A tail loss probe that is out.
#[derive(Clone, Copy, Debug)]
struct Probe {
    high: u64,
    retransmitted: bool,
}

/// What to restore if the reduction was spurious.
#[derive(Clone, Copy, Debug)]
struct Undo {
    /// First unacknowledged when it began.
    from: u64,
    cwnd: u32,
    ssthresh: u32,
    /// Segments sent again and not reported as duplicates yet; `None` before
    /// the first.
    retransmissions: Option<i64>,
    /// Timestamp of the first retransmission.
    stamp: Option<u32>,
}

/// State of loss recovery of a connection.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub phase: Phase,
    /// The episode ends when this is acknowledged.
    pub high: u64,
    prr: Prr,
    undo: Option<Undo>,
    rack: Rack,
    probe: Option<Probe>,
    /// A tail loss probe is to be sent.
    pub probe_due: bool,
    /// Duplicate ACKs in a row (without SACK).
    pub dup_acks: u32,
    /// Time-outs in a row.
    pub backoff: u32,
    /// The SYN was sent again: the first RTO of data is longer (RFC 6298, 5.7).
    pub syn_retransmitted: bool,
    /// Ranges last sent again, oldest overwritten first: what else the peer
    /// reports as a duplicate was duplicated by the network.
    sent_again: [(u64, u64); SENT_AGAIN],
    next_again: usize,
    /// Bursts in a row that the device failed to send.
    pub failures: u32,
    /// When the last of them was. Bursts that come back together (a queue was
    /// reset) count once.
    pub failed_at: Option<Nanos>,
}

/// What an acknowledgement delivered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// Segments newly delivered.
    pub segments: u32,
    /// RTT of the latest sent burst whose last byte was delivered.
    pub rtt: Option<Nanos>,
    /// The sample may hide a delayed ACK: one short segment.
    pub runt: bool,
    latest: Nanos,
}

impl Recovery {
    pub fn new() -> Recovery {
        Recovery {
            phase: Phase::Open,
            high: 0,
            prr: Prr::new(0, 0),
            undo: None,
            rack: Rack {
                steps: 1,
                ..Rack::default()
            },
            probe: None,
            probe_due: false,
            dup_acks: 0,
            backoff: 0,
            syn_retransmitted: false,
            sent_again: [(0, 0); SENT_AGAIN],
            next_again: 0,
            failures: 0,
            failed_at: None,
        }
    }

    pub fn in_recovery_or_loss(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Loss)
    }

    /// Whether an acknowledgement of new data can neither begin nor end anything.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.phase == Phase::Open
            && self.dup_acks == 0
            && self.probe.is_none()
            && self.undo.is_none_or(|u| u.retransmissions != Some(0))
    }

    /// Whether PRR governs the window.
    fn reducing(&self) -> bool {
        matches!(self.phase, Phase::Recovery | Phase::Reduction)
    }

    pub fn probe_outstanding(&self) -> bool {
        self.probe.is_some()
    }

    pub fn on_sent(&mut self, segments: u32) {
        if self.reducing() {
            self.prr.on_sent(u64::from(segments));
        }
    }

    pub fn on_retransmit(&mut self, segments: u32, stamp: u32, range: (u64, u64)) {
        self.on_sent(segments);
        self.sent_again[self.next_again] = range;
        self.next_again = (self.next_again + 1) % SENT_AGAIN;
        if let Some(u) = &mut self.undo {
            *u.retransmissions.get_or_insert(0) += i64::from(segments);
            u.stamp.get_or_insert(stamp);
        }
    }

    pub fn probe_sent(&mut self, high: u64, retransmitted: bool) {
        self.probe_due = false;
        self.probe = Some(Probe {
            high,
            retransmitted,
        });
    }

    /// Takes in a range that was delivered at `arrival` (RFC 8985, 6.2, steps 1
    /// to 3).
    #[inline]
    pub fn deliver(
        &mut self,
        d: &mut Delivered,
        r: &Sent,
        segments: u32,
        arrival: Nanos,
        min_rtt: Option<u64>,
    ) {
        if r.sacked {
            return;
        }
        d.segments += segments;
        let rack = &mut self.rack;
        if r.end > rack.fack {
            rack.fack = r.end;
        } else if !r.ever_retransmitted {
            rack.reordering_seen = true;
        }
        if r.in_nic() {
            return;
        }
        let rtt = arrival.since(r.last);
        if !r.ever_retransmitted && r.burst_end && r.last >= d.latest {
            d.latest = r.last;
            d.rtt = Some(rtt);
        }
        // Quicker than the path allows: it answers an earlier transmission.
        if r.ever_retransmitted && min_rtt.is_some_and(|m| rtt.0 < m) {
            return;
        }
        if (r.last, r.end) > (rack.departed, rack.end) {
            rack.departed = r.last;
            rack.end = r.end;
            rack.rtt = rtt;
        }
    }

    /// How much later than its time a segment may be delivered before it is
    /// deemed lost (RFC 8985, 6.2, step 4).
    fn reordering_window(
        &self,
        sacked: u32,
        dupthresh: u32,
        flags: u8,
        min_rtt: u64,
        srtt: Nanos,
    ) -> Nanos {
        if !self.rack.reordering_seen
            && (self.in_recovery_or_loss() || (sacked >= dupthresh && flags & 4 == 0))
        {
            return Nanos::ZERO;
        }
        let steps = if flags & 2 == 0 { self.rack.steps } else { 1 };
        Nanos((min_rtt / 4).saturating_mul(u64::from(steps))).min(srtt)
    }
}

impl Conn {
    /// Deems ranges lost. Answers how many segments that was news of; sets the
    /// reordering timer for those that may be lost soon.
    pub fn detect_losses<P>(&mut self, core: &Core<P>, now: Nanos) -> u32 {
        self.timers.reorder = None;
        let counts = self.tx.board.counts();
        if !self.agreed.sack || counts.sacked + counts.retransmitted + counts.lost == 0 {
            return 0;
        }
        let t = core.tunables(self.tenant);
        if t.recovery & 1 == 0 {
            return self.detect_by_count(t.reordering);
        }
        let srtt = self.srtt();
        let window = self.rec.reordering_window(
            counts.sacked,
            t.reordering,
            t.recovery,
            self.min_rtt.get().unwrap_or(0),
            srtt,
        );
        let rack = self.rec.rack;
        let mut timer = None;
        let mut lost = 0;
        for i in 0..self.tx.board.len() {
            let Some(r) = self.tx.board.get(i) else { break };
            // Beyond what was delivered everything was sent later.
            if r.start >= rack.fack.max(rack.end) {
                break;
            }
            if r.sacked
                || r.in_nic()
                || (r.lost && !r.retransmitted)
                || (r.last, r.end) >= (rack.departed, rack.end)
            {
                continue;
            }
            let due = r.last + rack.rtt + window;
            if due <= now {
                lost += self.tx.board.mark_lost(i);
            } else {
                timer = timer.max(Some(due));
            }
        }
        self.timers.reorder = timer;
        lost
    }

    /// Without RACK: lost is what has `threshold` segments sacked above it (RFC
    /// 6675).
    fn detect_by_count(&mut self, threshold: u32) -> u32 {
        let (mut above, mut lost) = (0, 0);
        for i in (0..self.tx.board.len()).rev() {
            let Some(r) = self.tx.board.get(i) else { break };
            if r.sacked {
                above += self.segs(r.end - r.start);
            } else if above >= threshold && !r.lost && !r.in_nic() && !r.retransmitted {
                lost += self.tx.board.mark_lost(i);
            }
        }
        lost
    }

    /// The state machine of an acknowledgement: ends and begins episodes, sets
    /// the window.
    pub fn after_ack<P>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        d: &Delivered,
        advanced: bool,
        echo: Option<u32>,
        ece: bool,
    ) {
        let ece = ece && core.tunables(self.tenant).ecn_react;
        if advanced {
            self.rec.backoff = 0;
        }
        self.process_probe(advanced, d.segments, ece);
        let mut newly_lost = self.detect_losses(core, now) > 0;
        if !self.agreed.sack && self.lost_without_sack(core, advanced) {
            newly_lost = true;
        }
        self.try_undo(core, echo.filter(|_| advanced));
        let over = match self.rec.phase {
            Phase::Open => false,
            // The echo that comes with the last byte of the old window is the same
            // event's: wait for one beyond it.
            Phase::Reduction => self.tx.una > self.rec.high,
            Phase::Recovery | Phase::Loss => self.tx.una >= self.rec.high,
        };
        if over {
            self.end_episode();
        }
        if ece && self.agreed.ecn && self.rec.phase == Phase::Open {
            self.begin_reduction(true);
            for c in [&mut self.counters, &mut core.counters.total] {
                c.ecn_reductions += 1;
            }
        }
        let fast = matches!(self.rec.phase, Phase::Open | Phase::Reduction);
        if fast && self.tx.board.counts().lost > 0 {
            self.begin_recovery(core);
        }
        if self.rec.reducing() {
            if d.segments > 0 || newly_lost {
                self.reduce(d.segments, newly_lost, advanced);
            }
        } else if advanced && !ece {
            self.grow_window(core.tunables(self.tenant), now, d);
        }
        self.update_rate(core.tunables(self.tenant));
    }

    /// Congestion control takes in what an acknowledgement delivered.
    #[inline]
    pub(super) fn grow_window(&mut self, t: &Tunables, now: Nanos, d: &Delivered) {
        if d.segments > 0 && self.is_cwnd_limited() {
            self.cc.on_ack(&AckInfo {
                now,
                acked: d.segments,
                srtt: self.srtt(),
                cwnd_limited: true,
            });
        }
        self.cc.cwnd = self.cc.cwnd.min(t.cwnd_clamp);
    }

    fn reduce(&mut self, newly: u32, lost: bool, advanced: bool) {
        let step = self.rec.prr.on_ack(PrrAck {
            in_flight: u64::from(self.in_flight()),
            newly: u64::from(newly),
            lost,
            una_advanced: advanced,
        });
        self.cc.cwnd = (step.cwnd as u32).max(1);
    }

    /// Duplicate ACKs (RFC 5681) and partial ones (RFC 6582).
    fn lost_without_sack<P>(&mut self, core: &Core<P>, advanced: bool) -> bool {
        if advanced {
            self.rec.dup_acks = 0;
            let partial = self.rec.phase == Phase::Recovery && self.tx.una < self.rec.high;
            return partial && self.tx.board.mark_head_lost();
        }
        let threshold = core.tunables(self.tenant).reordering;
        self.rec.dup_acks >= threshold
            && self.rec.phase == Phase::Open
            && self.tx.board.mark_head_lost()
    }

    fn begin_recovery<P>(&mut self, core: &mut Core<P>) {
        let reducing = self.rec.phase == Phase::Reduction;
        let (cwnd, ssthresh) = (self.cc.cwnd, self.cc.ssthresh);
        if !reducing {
            let target = self.cc.congestion_event(false);
            self.rec.prr = Prr::new(u64::from(target), u64::from(cwnd));
            // RFC 3168, 6.1.2: the peer may stop its echo.
            self.tx.cwr_due = self.agreed.ecn;
        }
        self.rec.undo = Some(Undo {
            from: self.tx.una,
            cwnd,
            ssthresh,
            retransmissions: None,
            stamp: None,
        });
        self.rec.phase = Phase::Recovery;
        self.rec.high = self.tx.nxt;
        self.rec.probe = None;
        self.timers.probe = None;
        for c in [&mut self.counters, &mut core.counters.total] {
            c.recoveries += 1;
        }
    }

    /// The window shrinks once per window of data, without a loss.
    fn begin_reduction(&mut self, by_ecn: bool) {
        let cwnd = self.cc.cwnd;
        let target = self.cc.congestion_event(by_ecn);
        self.rec.prr = Prr::new(u64::from(target), u64::from(cwnd));
        self.tx.cwr_due = self.agreed.ecn;
        self.rec.phase = Phase::Reduction;
        self.rec.high = self.tx.nxt;
        self.rec.undo = None;
    }

    /// The NIC said that the queue was congested when a burst joined it.
    pub fn on_local_congestion<P>(&mut self, core: &mut Core<P>) {
        if self.rec.phase != Phase::Open || !self.may_send() {
            return;
        }
        self.begin_reduction(false);
        for c in [&mut self.counters, &mut core.counters.total] {
            c.local_reductions += 1;
        }
    }

    fn end_episode(&mut self) {
        if self.rec.reducing() {
            self.cc.cwnd = (self.rec.prr.ssthresh() as u32).max(1);
        }
        if self.rec.phase == Phase::Recovery {
            let rack = &mut self.rec.rack;
            if rack.persist > 0 {
                rack.persist -= 1;
                if rack.persist == 0 {
                    rack.steps = 1;
                }
            }
        }
        // What to undo is kept: the last duplicates are reported after the end.
        self.rec.phase = Phase::Open;
        self.rec.dup_acks = 0;
    }

    /// A time-out: everything that has left is deemed lost (RFC 6298, 5.4 to 5.6;
    /// RFC 8985, 6.3).
    pub fn begin_loss<P>(&mut self, core: &mut Core<P>) {
        let fresh = self.rec.phase != Phase::Loss;
        let (cwnd, ssthresh) = (self.cc.cwnd, self.cc.ssthresh);
        if matches!(self.rec.phase, Phase::Open) || (fresh && self.tx.una >= self.rec.high) {
            self.cc.congestion_event(false);
        }
        if fresh {
            self.rec.undo = Some(Undo {
                from: self.tx.una,
                cwnd,
                ssthresh,
                retransmissions: None,
                stamp: None,
            });
        }
        // The peer may have forgotten what it sacked (RFC 2018, 8).
        if self.tx.board.first().is_some_and(|r| r.sacked) {
            self.tx.board.forget_sacks();
        }
        for i in 0..self.tx.board.len() {
            if self
                .tx
                .board
                .get(i)
                .is_some_and(|r| !r.sacked && !r.in_nic())
            {
                self.tx.board.mark_lost(i);
            }
        }
        self.rec.phase = Phase::Loss;
        self.rec.high = self.tx.nxt;
        self.rec.probe = None;
        self.rec.probe_due = false;
        self.rec.dup_acks = 0;
        self.cc.cwnd = self.in_flight() + 1;
        self.tx.cwr_due = self.agreed.ecn;
        self.timers.probe = None;
        self.timers.reorder = None;
        for c in [&mut self.counters, &mut core.counters.total] {
            c.rto_count += 1;
        }
    }

    /// The episode was spurious if the ACK echoes a timestamp from before the
    /// first retransmission, or if all retransmissions were reported as
    /// duplicates.
    fn try_undo<P>(&mut self, core: &mut Core<P>, echo: Option<u32>) {
        let Some(u) = self.rec.undo else { return };
        let by_stamp = match (echo, u.stamp) {
            (Some(echo), Some(stamp)) if self.rec.phase != Phase::Open => {
                (echo.wrapping_sub(stamp) as i32) < 0
            }
            _ => false,
        };
        if !by_stamp && u.retransmissions != Some(0) {
            return;
        }
        if by_stamp {
            self.tx.board.forgive();
        }
        self.cc.undo(u.cwnd, u.ssthresh);
        self.rec.undo = None;
        self.rec.phase = Phase::Open;
        for c in [&mut self.counters, &mut core.counters.total] {
            c.undone += 1;
        }
    }

    /// The peer reported `start..end` as a duplicate (RFC 2883).
    pub fn on_dsack<P>(&mut self, core: &mut Core<P>, start: u64, end: u64) {
        for c in [&mut self.counters, &mut core.counters.total] {
            c.dsacks += 1;
        }
        let segments = self.segs(end.saturating_sub(start)).max(1);
        let nxt = self.tx.nxt;
        let una = self.tx.una;
        let rec = &mut self.rec;
        if let Some(p) = rec.probe
            && p.retransmitted
            && end == p.high
        {
            // The probe was not needed: nothing was lost.
            rec.probe = None;
            return;
        }
        if !rec.sent_again.iter().any(|r| r.0 <= start && end <= r.1) {
            return;
        }
        rec.rack.reordering_seen = true;
        if rec.rack.dsack_round.is_none_or(|r| una >= r) {
            rec.rack.dsack_round = Some(nxt);
            rec.rack.steps = (rec.rack.steps + 1).min(REO_STEPS_MAX);
            rec.rack.persist = REO_PERSIST;
        }
        if let Some(u) = &mut rec.undo
            && start >= u.from
            && let Some(n) = &mut u.retransmissions
        {
            *n -= i64::from(segments);
        }
    }

    /// A tail loss probe was answered (RFC 8985, 7.4.2).
    fn process_probe(&mut self, advanced: bool, delivered: u32, ece: bool) {
        let Some(p) = self.rec.probe else { return };
        if self.tx.una < p.high {
            return;
        }
        if p.retransmitted {
            if self.tx.una == p.high && (advanced || delivered > 0) {
                // Original or probe? The next acknowledgement tells.
                return;
            }
            // Beyond it without a duplicate reported: it repaired a loss, so the
            // window falls once, as if the loss had been detected.
            if self.tx.una > p.high && self.rec.phase == Phase::Open && !ece {
                self.begin_reduction(false);
                self.end_episode();
            }
        }
        self.rec.probe = None;
    }
}
