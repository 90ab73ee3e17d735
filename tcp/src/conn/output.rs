// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmit path, in this order: burst sizing (autosize, quota, split point,
//! deferral), small-queue gate, queue selection, post. Retransmissions go first
//! and are bursts too.

use super::segment::{Outgoing, Posted, Stop, TRUESIZE_OVERHEAD};
use super::{Conn, State};
use crate::arith::pacing::edt_step;
use crate::arith::tso::{
    Autosize, DeferInput, Split, TsoSizing, autosize, cwnd_quota, should_defer, split_point,
    win_divisor_2004,
};
use crate::arith::tsq;
use crate::port::{ChunkPool, TxPort};
use crate::scoreboard::{NO_BURST, segments};
use crate::shared::Core;
use crate::wire::ip;
use crate::wire::tcp::{Flags, HEADER, TIMESTAMP_BYTES};
use tsonic_types::{Nanos, QueueId};

/// What to send of new data next.
enum Next {
    /// Payload bytes of a burst, and whether the FIN goes with it.
    Burst(u32, bool),
    Nothing,
}

impl Conn {
    /// Sends what may be sent now.
    pub fn output<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
    ) -> Result<(), Stop> {
        self.nic.waits_for_queue = None;
        if let Some(seq) = self.reset_due {
            self.send_reset(core, now, port, seq)?;
            self.reset_due = None;
        }
        match self.state {
            State::Closed => return Ok(()),
            State::SynSent | State::SynReceived => {
                if self.tx.nxt == 0 {
                    self.send_syn(core, now, port)?;
                } else {
                    self.retransmit_lost(core, now, port)?;
                }
            }
            _ if self.may_send() => {
                self.retransmit_lost(core, now, port)?;
                let probing = self.rec.probe_due;
                self.send_new(core, now, port, probing)?;
                if self.rec.probe_due {
                    self.send_probe(core, now, port)?;
                }
                if self.tx.window_probe_due {
                    self.send_window_probe(core, now, port)?;
                }
            }
            _ => {}
        }
        while self.rx.ack_now && self.state != State::SynSent {
            let left = self.rx.acks_due.saturating_sub(1);
            self.send_ack(core, now, port, self.tx.nxt)?;
            if left > 0 && !self.agreed.sack {
                self.rx.ack_now = true;
                self.rx.acks_due = left;
            }
        }
        Ok(())
    }

    fn send_syn<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
    ) -> Result<(), Stop> {
        let p = self.transmit(core, now, port, &self.syn_segment(core))?;
        self.tx.nxt = 1;
        self.tx.board.push(0, p.end, p.burst, now);
        self.arm_rto(core.tunables(self.tenant), now);
        Ok(())
    }

    fn syn_segment<P>(&self, core: &Core<P>) -> Outgoing {
        let mut flags = Flags::SYN;
        if self.state == State::SynReceived {
            flags = flags.with(Flags::ACK).with_if(self.agreed.ecn, Flags::ECE);
        } else if core.tunables(self.tenant).ecn == 1 {
            flags = flags.with(Flags::ECE).with(Flags::CWR);
        }
        Outgoing {
            start: 0,
            payload: 0,
            flags,
            ecn: ip::NOT_ECT,
            tracked: true,
            with_sack: false,
        }
    }

    /// Sends lost ranges again, lowest first, as far as the window allows.
    fn retransmit_lost<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
    ) -> Result<(), Stop> {
        if self.tx.board.counts().lost == 0 {
            return Ok(());
        }
        let size = self.burst_size(core);
        while let Some(r) = self.tx.board.next_lost().copied() {
            let room = self.cc.cwnd.saturating_sub(self.in_flight());
            if room == 0 {
                break;
            }
            if self.paced_out(core, now) {
                break;
            }
            let most = u64::from(room.min(size)) * u64::from(self.tx.mss);
            let octets = (r.end - r.start).min(most);
            if !self.gate(core, port, octets as u32, 1) {
                break;
            }
            self.retransmit(core, now, port, r.start, r.start + octets)?;
        }
        Ok(())
    }

    /// Sends `start..end`, which was sent before and lies in one range, again.
    fn retransmit<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
        start: u64,
        end: u64,
    ) -> Result<(), Stop> {
        let again = (start, end);
        let posted = if start == 0 {
            self.transmit(core, now, port, &self.syn_segment(core))?
        } else {
            // Retransmissions are not ECN capable (RFC 3168, 6.1.5).
            let out = self.data_segment(start, end, ip::NOT_ECT, false);
            self.transmit(core, now, port, &out)?
        };
        self.tx
            .board
            .retransmit(start, posted.end, posted.burst, now);
        self.rec
            .on_retransmit(posted.segments, self.ts_now(now), again);
        for c in [&mut self.counters, &mut core.counters.total] {
            c.retransmitted_segments += u64::from(posted.segments);
            c.retransmitted_bytes += u64::from(posted.payload);
        }
        self.spaced(core, now, &posted);
        if self.timers.rto.is_none() {
            self.arm_rto(core.tunables(self.tenant), now);
        }
        Ok(())
    }

    /// The segment(s) for a range of sequence space behind the SYN.
    fn data_segment(&self, start: u64, end: u64, ecn: u8, cwr: bool) -> Outgoing {
        let data_end = self.tx.buffer.end();
        let fin = self.tx.fin && end > data_end;
        let payload = end.min(data_end).saturating_sub(start) as u32;
        // A burst's last segment pushes, as Linux has it: the receiver need not wait for
        // more to aggregate.
        let pushes = end >= data_end || payload > self.tx.mss;
        let flags = Flags::ACK
            .with_if(pushes, Flags::PSH)
            .with_if(fin, Flags::FIN)
            .with_if(self.rx.ece && self.agreed.ecn, Flags::ECE)
            .with_if(cwr, Flags::CWR);
        Outgoing {
            start,
            payload,
            flags,
            ecn,
            tracked: true,
            with_sack: false,
        }
    }

    /// Sends new data; `push_one`: at most one segment, whatever the window says.
    fn send_new<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
        push_one: bool,
    ) -> Result<(), Stop> {
        if self.tx.nxt >= self.tx_end() {
            return Ok(());
        }
        if self.tx.board.is_empty() {
            self.restart_after_idle(core, now);
        }
        let size = self.burst_size(core);
        self.tx.limited_now = false;
        let mut sent = false;
        while self.tx.nxt < self.tx_end() && !self.paced_out(core, now) {
            let Next::Burst(payload, fin) = self.next_burst(core, now, size, push_one) else {
                break;
            };
            if !push_one && !self.gate(core, port, payload, 0) {
                break;
            }
            let start = self.tx.nxt;
            let end = start + u64::from(payload) + u64::from(fin);
            let ecn = if self.agreed.ecn {
                ip::ECT0
            } else {
                ip::NOT_ECT
            };
            let cwr = self.tx.cwr_due && payload > 0;
            let out = self.data_segment(start, end, ecn, cwr);
            let posted = self.transmit(core, now, port, &out)?;
            self.tx.cwr_due &= !cwr;
            self.sent_new(core, now, &posted, start);
            sent = true;
            if push_one {
                self.probe_sent(core, now, false);
                break;
            }
        }
        if sent || self.tx.limited_now {
            self.note_window_use(size);
        }
        if sent {
            if !self.rec.probe_outstanding() {
                self.arm_probe(core.tunables(self.tenant), now);
            }
        } else if self.tx.nxt < self.tx_end() && self.tx.board.is_empty() {
            self.arm_persist(core, now);
        }
        Ok(())
    }

    fn sent_new<P>(&mut self, core: &mut Core<P>, now: Nanos, posted: &Posted, start: u64) {
        let tx = &mut self.tx;
        tx.nxt = posted.end;
        tx.board.push(start, posted.end, posted.burst, now);
        if !posted.payload.is_multiple_of(tx.mss) {
            tx.small = posted.end;
        }
        if posted.payload > 0 {
            tx.segs_out += u64::from(posted.segments);
        }
        self.rec.on_sent(posted.segments);
        self.spaced(core, now, posted);
        if self.timers.rto.is_none() {
            self.arm_rto(core.tunables(self.tenant), now);
        }
        self.timers.persist = None;
    }

    /// Segments of a full burst now.
    fn burst_size<P>(&self, core: &Core<P>) -> u32 {
        let t = core.tunables(self.tenant);
        let l = &core.limits;
        if !l.tso || !core.config.tso {
            return 1;
        }
        let gso_max = core.config.gso_max.map_or(l.gso_max, |m| m.min(l.gso_max));
        if t.tso_sizing == TsoSizing::Window {
            let n = win_divisor_2004(
                u64::from(self.tx.mss),
                u64::from(self.cc.cwnd),
                u64::from(t.tso_win_divisor),
                self.header_bytes(),
            );
            // Below 2^16: a packet has no more bytes.
            let most = l.gso_max_segs.min(gso_max / self.tx.mss);
            return (n as u32).min(most).max(1);
        }
        let n = autosize(&Autosize {
            pacing_rate: self.tx.rate,
            mss: u64::from(self.tx.mss),
            gso_max: u64::from(gso_max),
            min_rtt_us: self.min_rtt.get().map(|ns| ns / 1000),
            rtt_log: t.tso_rtt_log,
            min_segs: u64::from(t.min_tso_segs),
            max_segs: u64::from(l.gso_max_segs),
            shift: u32::from(t.pacing_shift),
        });
        // `min_segs` must not beat the device's size either.
        (n as u32).min((gso_max / self.tx.mss).max(1))
    }

    /// Bytes of IP and TCP header of a segment.
    fn header_bytes(&self) -> u64 {
        let ip = if self.remote.is_ipv6() { 40 } else { 20 };
        let timestamp = if self.agreed.timestamps {
            TIMESTAMP_BYTES
        } else {
            0
        };
        (ip + HEADER + timestamp) as u64
    }

    /// Quota, split point, small-packet rule and deferral.
    fn next_burst<P>(&mut self, core: &mut Core<P>, now: Nanos, size: u32, push_one: bool) -> Next {
        let mss = u64::from(self.tx.mss);
        let in_flight = self.in_flight();
        let cwnd = self.cc.cwnd;
        let whole = core.tunables(self.tenant).tso_sizing == TsoSizing::Window;
        let mut quota = if whole {
            u64::from(cwnd.saturating_sub(in_flight))
        } else {
            cwnd_quota(u64::from(cwnd), u64::from(in_flight))
        };
        if quota == 0 {
            if !push_one {
                self.tx.limited_now = true;
                return Next::Nothing;
            }
            quota = 1;
        }
        let data = self.tx.buffer.end() - self.tx.nxt.min(self.tx.buffer.end());
        let window = self.window_left();
        if data == 0 {
            // The FIN alone; it needs no window to be understood, but waits for one.
            return if window > 0 || self.tx.board.is_empty() {
                Next::Burst(0, true)
            } else {
                Next::Nothing
            };
        }
        if window == 0 {
            return Next::Nothing;
        }
        let segs = if push_one {
            1
        } else {
            quota.min(u64::from(size))
        };
        let buffer = u64::from(size) * mss;
        let len = data.min(buffer.max(mss));
        let tail = data == len;
        let partial_blocked = !self.tx.nodelay && !self.tx.fin && self.tx.small > self.tx.una;
        let bytes = split_point(&Split {
            len,
            mss,
            segs,
            window,
            tail,
            partial_blocked,
        });
        if bytes == 0 {
            return Next::Nothing;
        }
        let fin = self.tx.fin && bytes == data && window > bytes;
        if bytes < mss && tail && !fin && self.nagle_blocks(bytes) {
            return Next::Nothing;
        }
        let waits = !push_one
            && len > mss
            && if whole {
                // With nothing in flight nothing more would open the windows.
                self.tx.limited_now |= quota * mss < len;
                in_flight > 0 && len > window.min(quota * mss)
            } else {
                self.defer(core, now, size, len, tail, window, fin)
            };
        if waits {
            for c in [&mut self.counters, &mut core.counters.total] {
                c.deferred += 1;
            }
            return Next::Nothing;
        }
        Next::Burst(bytes as u32, fin)
    }

    /// Nagle's rule with Minshall's refinement: one small segment at a time.
    fn nagle_blocks(&self, bytes: u64) -> bool {
        bytes < u64::from(self.tx.mss)
            && !self.tx.nodelay
            && !self.tx.fin
            && self.tx.small > self.tx.una
    }

    #[allow(clippy::too_many_arguments)]
    fn defer<P>(
        &mut self,
        core: &Core<P>,
        now: Nanos,
        size: u32,
        len: u64,
        tail: bool,
        window: u64,
        fin: bool,
    ) -> bool {
        let head = self.tx.board.first().map(|r| r.last.0);
        let d = should_defer(&DeferInput {
            in_recovery: self.rec.in_recovery_or_loss(),
            now_ns: now.0,
            wstamp_ns: self.tx.last_sent.max(self.tx.wstamp).0,
            in_flight: u64::from(self.in_flight()),
            cwnd: u64::from(self.cc.cwnd),
            snd_wnd: self.tx.wnd,
            wnd_left: window,
            mss: u64::from(self.tx.mss),
            segs: u64::from(size),
            len,
            tail,
            win_divisor: u64::from(core.tunables(self.tenant).tso_win_divisor),
            head_sent_ns: head,
            srtt8_us: self.rtt.srtt8_us(),
            fin_or_eor: fin,
        });
        self.tx.limited_now |= d.cwnd_limited;
        d.defer
    }

    /// The small-queue gate; `factor` 1 for retransmissions. Marks the flow when
    /// it stops it: a completion calls back.
    fn gate<P, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        port: &T,
        payload: u32,
        factor: u32,
    ) -> bool {
        let t = core.tunables(self.tenant);
        let truesize = u64::from(payload + TRUESIZE_OVERHEAD);
        let mut limit = tsq::limit(&tsq::LimitInput {
            truesize,
            pacing_rate: self.tx.rate,
            cap: u64::from(t.limit_output_bytes),
            shift: u32::from(t.pacing_shift),
            factor,
            tx_delay_us: 0,
        });
        if t.tsq_bql {
            let queue = QueueId(self.nic.queue.get(0, 0).unwrap_or(0));
            if let Some((bql, _)) = port.queue_state(queue).bql {
                limit = tsq::bql_limit(bql.0, truesize);
            }
        }
        let outstanding = self.nic.outstanding + 1;
        let waiting = self.tx.board.len() as u64;
        // Completions are reaped between calls, so a second look sees the same.
        let g = tsq::gate(outstanding, limit, waiting, outstanding);
        if g.blocked {
            self.nic.throttled = true;
            for c in [&mut self.counters, &mut core.counters.total] {
                c.tsq_stops += 1;
            }
        }
        !g.blocked
    }

    /// Whether the engine's own pacing says wait; then its timer is set.
    fn paced_out<P>(&mut self, core: &Core<P>, now: Nanos) -> bool {
        if self.paced_by_nic() || !core.tunables(self.tenant).pacing || self.tx.wstamp <= now {
            return false;
        }
        self.timers.pace = Some(self.tx.wstamp);
        true
    }

    /// Spaces the next burst from this one, when the engine paces or gives launch times.
    fn spaced<P>(&mut self, core: &Core<P>, now: Nanos, posted: &Posted) {
        let by_rate = self.paced_by_nic() && !self.launched(core);
        if by_rate || !core.tunables(self.tenant).pacing {
            return;
        }
        let step = edt_step(
            u64::from(posted.payload),
            Some(self.tx.rate),
            self.tx.wstamp.0,
            now.0,
            self.tx.segs_out,
        );
        self.tx.wstamp = Nanos(step.wstamp_ns);
    }

    /// Tail loss probe: new data was not possible, so the last segment again.
    fn send_probe<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
    ) -> Result<(), Stop> {
        let Some(r) = self.tx.board.last().copied() else {
            self.rec.probe_due = false;
            return Ok(());
        };
        if r.in_nic() {
            self.rec.probe_due = false;
            return Ok(());
        }
        let mss = u64::from(self.tx.mss);
        let start = r.start + (r.end - r.start - 1) / mss * mss;
        self.retransmit(core, now, port, start, r.end)?;
        self.probe_sent(core, now, true);
        Ok(())
    }

    fn probe_sent<P>(&mut self, core: &mut Core<P>, now: Nanos, again: bool) {
        self.rec.probe_sent(self.tx.nxt, again);
        for c in [&mut self.counters, &mut core.counters.total] {
            c.tlp_probes += 1;
        }
        self.timers.probe = None;
        self.arm_rto(core.tunables(self.tenant), now);
    }

    /// Zero-window probe: a segment that the peer must answer.
    fn send_window_probe<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
    ) -> Result<(), Stop> {
        self.send_ack(core, now, port, self.tx.una.saturating_sub(1))?;
        self.tx.window_probe_due = false;
        for c in [&mut self.counters, &mut core.counters.total] {
            c.window_probes += 1;
        }
        Ok(())
    }

    /// A burst of this connection completed.
    pub fn on_completion<P>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        index: u32,
        burst: &crate::bursts::InNic,
        c: &crate::port::TxCompletion,
    ) {
        debug_assert_ne!(index, NO_BURST);
        self.nic.outstanding = self
            .nic
            .outstanding
            .saturating_sub(u64::from(burst.truesize));
        self.nic.segments = self.nic.segments.saturating_sub(burst.segments);
        let d = crate::scoreboard::Departure {
            start: burst.start,
            end: burst.end,
            mss: burst.mss,
            first: c.first_departure,
            last: c.last_departure,
        };
        if c.status == 0 {
            self.tx.board.complete(index, &d);
            self.rec.failures = 0;
            self.departed(core, now, &d);
        } else {
            self.tx.board.fail(index);
            if self.rec.failed_at.replace(now) != Some(now) {
                self.rec.failures += 1;
            }
            for c in [&mut self.counters, &mut core.counters.total] {
                c.failed_bursts += 1;
            }
            if self.rec.failures > u32::from(core.tunables(self.tenant).retries2) {
                self.abort(super::CloseReason::Device);
                return;
            }
        }
        if c.congested {
            self.on_local_congestion(core);
        }
        if self.timers.rto.is_none() && self.state != State::Closed {
            self.arm_rto(core.tunables(self.tenant), now);
        }
        self.nic.throttled = false;
    }

    /// Segments of `bytes` bytes here.
    pub fn segs(&self, bytes: u64) -> u32 {
        segments(bytes, self.tx.mss)
    }
}
