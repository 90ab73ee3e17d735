// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data arrives: reassembly, acknowledgement policy (RFC 9293, 3.8.6.3; RFC 5681,
//! 4.2), window (3.8.6.2.2 against silly windows), ECN echo (RFC 3168, 6.1.3).

use super::{Conn, Incoming, Reply, State};
use crate::congestion::Algorithm;
use crate::event;
use crate::shared::Core;
use crate::wire::ip;
use crate::wire::tcp::Flags;
use tsonic_types::Nanos;

/// ACKs sent at once after a gap, so that the peer's recovery is quick.
const QUICK_AFTER_GAP: u32 = 16;

impl Conn {
    /// Takes in data and FIN of an acceptable segment at `seq`.
    pub fn receive<P>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        s: &Incoming<'_>,
        seq: i64,
    ) -> Reply {
        let fin = s.header.flags.has(Flags::FIN);
        if s.payload.is_empty() && !fin {
            return Reply::Nothing;
        }
        let end = seq + s.payload.len() as i64;
        if self.app.released && end > self.rcv_nxt() as i64 && !s.payload.is_empty() {
            // Nobody will read it (RFC 9293, 3.10.7.4... and RFC 2525, 2.17).
            self.abort(super::CloseReason::Aborted);
            self.reset_due = Some(self.tx.nxt);
            return Reply::Nothing;
        }
        self.take_ecn(s);
        if self.rx.fin_done {
            self.ack_at_once();
            return Reply::Nothing;
        }
        self.take_data(core, now, s, seq);
        if fin && end >= 0 && end as u64 <= self.rx.edge.max(self.rx.queue.next()) {
            self.rx.fin = Some(end as u64);
            self.ack_at_once();
        }
        if self.rx.fin == Some(self.rx.queue.next()) {
            self.rx.fin_done = true;
            self.rx.ack_now = true;
            self.on_fin(core, now);
        }
        Reply::Nothing
    }

    fn take_data<P>(&mut self, core: &mut Core<P>, now: Nanos, s: &Incoming<'_>, seq: i64) {
        if s.payload.is_empty() {
            return;
        }
        // What lies before byte 1 can only be an old SYN's place.
        let skip = usize::try_from(1 - seq).unwrap_or(0).min(s.payload.len());
        let data = &s.payload[skip..];
        let at = seq.max(1) as u64;
        let had_gap = self.rx.queue.has_gap();
        let was_readable = self.rx.queue.readable() > 0;
        let r = self.rx.queue.insert(at, data, self.rx.edge);
        let len = s.payload.len() as u32;
        self.rx.mss = self.rx.mss.max(len);
        for c in [&mut self.counters, &mut core.counters.total] {
            c.bytes_in += r.advanced;
            c.out_of_order_in += u64::from(r.out_of_order);
            c.duplicates_in += u64::from(r.advanced == 0 && !r.out_of_order);
        }
        if let Some(d) = r.duplicate
            && core.tunables(self.tenant).dsack
        {
            self.rx.dsack = Some(d);
        }
        if r.out_of_order || r.dropped || r.duplicate.is_some() || had_gap {
            self.rx.quick = self.rx.quick.max(QUICK_AFTER_GAP);
            self.ack_at_once();
        } else if r.advanced > 0 {
            self.ack_in_order(core, now);
        }
        if r.advanced > 0 {
            self.size_buffer(now);
            if !was_readable || self.app.pending & event::READABLE == 0 {
                self.tell(event::READABLE);
            }
        }
    }

    /// In-order data: every second full segment at once, else after a while.
    fn ack_in_order<P>(&mut self, core: &Core<P>, now: Nanos) {
        let waiting = self.rcv_nxt() - self.rx.acked;
        if self.rx.quick > 0 || waiting >= 2 * u64::from(self.rx.mss) {
            self.rx.ack_now = true;
        } else if self.timers.delack.is_none() {
            let t = core.tunables(self.tenant);
            let delay = t.delack_min_us.min(t.delack_max_us);
            self.timers.delack = Some(now + Nanos::from_micros(u64::from(delay)));
        }
    }

    pub fn ack_at_once(&mut self) {
        self.rx.ack_now = true;
        self.rx.acks_due += 1;
    }

    /// An ACK went out, with data or alone.
    pub fn ack_sent(&mut self, with_data: bool) {
        // SACK blocks and duplicates are only told by a segment without data.
        self.rx.acked = self.rcv_nxt();
        if with_data && self.agreed.sack && (self.rx.queue.has_gap() || self.rx.dsack.is_some()) {
            return;
        }
        self.rx.ack_now = false;
        self.rx.acks_due = 0;
        self.rx.quick = self.rx.quick.saturating_sub(1);
        self.timers.delack = None;
    }

    /// RFC 3168: echo congestion until the peer says that it reduced its window.
    /// DCTCP (RFC 8257, 3.2) echoes each change at once.
    fn take_ecn(&mut self, s: &Incoming<'_>) {
        if !self.agreed.ecn || s.payload.is_empty() {
            return;
        }
        let marked = s.ecn == ip::CE;
        if self.cc.algorithm == Algorithm::Dctcp {
            if marked != self.rx.ece {
                self.rx.ece = marked;
                self.rx.ack_now = true;
            }
            return;
        }
        if s.header.flags.has(Flags::CWR) {
            self.rx.ece = false;
        }
        if marked {
            self.rx.ece = true;
            self.rx.ack_now = true;
        }
    }

    /// Window field of a segment; moves the right edge.
    pub fn window_field(&mut self, syn: bool) -> u16 {
        let next = self.rcv_nxt();
        let free = self.rx.buffer.saturating_sub(self.rx.queue.readable());
        let shift = if syn { 0 } else { self.agreed.our_scale };
        let offered = self.rx.edge.saturating_sub(next);
        let step = (self.rx.buffer / 2).min(u64::from(self.rx.mss));
        let mut window = offered;
        // Not by crumbs, and never to the left.
        if free >= offered + step || (free > offered && offered >= u64::from(self.rx.mss)) {
            window = free;
        }
        let field = (window >> shift).min(65_535);
        // A zero window must not be offered by rounding while bytes fit.
        let window = field << shift;
        self.rx.edge = self.rx.edge.max(next + window);
        // Rounded up where the edge would move left otherwise.
        let field = (self.rx.edge.saturating_sub(next))
            .div_ceil(1 << shift)
            .min(65_535);
        self.rx.edge = self.rx.edge.max(next + (field << shift));
        field as u16
    }

    /// The application read `n` bytes: the window may have opened enough to say
    /// so.
    pub fn after_read(&mut self, n: usize) {
        self.rx.read_in_round += n as u64;
        if self.rx.fin_done
            || !matches!(
                self.state,
                State::Established | State::FinWait1 | State::FinWait2
            )
        {
            return;
        }
        let free = self.rx.buffer.saturating_sub(self.rx.queue.readable());
        let offered = self.rx.edge.saturating_sub(self.rcv_nxt());
        let step = (self.rx.buffer / 2).min(2 * u64::from(self.rx.mss));
        if free >= offered + step && (offered < self.rx.buffer / 2 || offered == 0) {
            self.rx.ack_now = true;
        }
    }

    /// Grows the receive buffer to twice what the application reads in a round
    /// trip, which is measured as the time that a window takes to arrive.
    fn size_buffer(&mut self, now: Nanos) {
        let next = self.rx.queue.next();
        if next < self.rx.round_end {
            return;
        }
        let wanted = self.rx.read_in_round * 2;
        if wanted > self.rx.buffer {
            self.rx.buffer = wanted.min(self.rx.buffer_max);
        }
        self.rx.read_in_round = 0;
        self.rx.round_start = now;
        self.rx.round_end = self.rx.edge.max(next + 1);
    }
}
