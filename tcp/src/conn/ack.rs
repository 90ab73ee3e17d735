// SPDX-License-Identifier: MIT OR Apache-2.0
//! An acknowledgement arrives (RFC 9293, 3.10.7.4, fifth; RFC 2018, 2883 SACK).

use super::Conn;
use super::recovery::Delivered;
use crate::memory::Memory;
use crate::port::ChunkPool;
use crate::scoreboard::segments;
use crate::shared::Core;
use crate::tunables::Tunables;
use crate::wire::tcp::{Flags, Header};
use tsonic_types::{Nanos, SeqNum};

/// What to do with the segment that the acknowledgement came on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Go,
    Drop,
}

impl Conn {
    /// Our absolute sequence number for one on the wire; below 0 if it lies
    /// before the SYN.
    pub fn tx_abs(&self, wire: SeqNum) -> i64 {
        self.tx.una as i64 + i64::from(wire.distance(self.tx_wire(self.tx.una)))
    }

    /// Takes in acknowledgement, SACK blocks and window of a segment.
    pub fn on_ack<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        arrival: Nanos,
        h: &Header,
        seq: u64,
        payload: usize,
    ) -> Verdict {
        let ack = self.tx_abs(h.ack);
        if ack > self.tx.nxt as i64 {
            // It acknowledges what was never sent (RFC 5961, 5).
            self.challenge(core, now);
            return Verdict::Drop;
        }
        if ack < self.tx.una as i64 - self.tx.max_wnd as i64 {
            self.challenge(core, now);
            return Verdict::Drop;
        }
        let old = ack < self.tx.una as i64;
        let ack = (ack.max(0) as u64).max(self.tx.una);
        let advanced = ack > self.tx.una;
        let was_out = !self.tx.board.is_empty();

        let mut d = Delivered::default();
        if self.agreed.sack {
            self.take_blocks(core, arrival, h, ack, &mut d);
        }
        let window_changed = !old && self.update_window(h, seq, ack);
        if advanced {
            self.take_cumulative(core, arrival, ack, &mut d);
            if !self.agreed.sack {
                // Those that duplicate ACKs told of were counted then.
                d.segments = d.segments.saturating_sub(self.rec.dup_acks).max(1);
            }
        } else if !old && was_out && payload == 0 && !window_changed && !h.flags.has(Flags::FIN) {
            self.rec.dup_acks =
                (self.rec.dup_acks + 1).min(self.tx.board.counts().out.saturating_sub(1));
            if !self.agreed.sack {
                // A segment has arrived, whichever.
                d.segments += 1;
            }
        }
        self.take_rtt(core.tunables(self.tenant), now, &d);
        // On a SYN-ACK the flag only answers the question whether ECN is known.
        let ece = h.flags.has(Flags::ECE) && !h.flags.has(Flags::SYN);
        if self.agreed.ecn {
            self.cc.on_marks(d.segments, ece, self.tx.una, self.tx.nxt);
        }
        let echo = h
            .options
            .timestamp
            .filter(|_| self.agreed.timestamps)
            .map(|t| t.1);
        if was_out {
            self.after_ack(core, now, &d, advanced, echo, ece);
        }
        if advanced {
            let t = core.tunables(self.tenant);
            self.rearm_after_progress(t, now);
            self.offer_write(&core.memory, t);
        }
        if self.timers.persist.is_some() {
            // Any answer shows that the peer lives.
            self.probes_sent = 0;
            if self.window_left() > 0 {
                self.timers.persist = None;
                self.rec.backoff = 0;
            }
        }
        Verdict::Go
    }

    fn take_blocks<P>(
        &mut self,
        core: &mut Core<P>,
        arrival: Nanos,
        h: &Header,
        ack: u64,
        d: &mut Delivered,
    ) {
        let blocks = h.options.blocks();
        if blocks.is_empty() {
            return;
        }
        let abs = |c: &Conn, i: usize| -> Option<(u64, u64)> {
            let (l, r) = blocks.get(i)?;
            let (l, r) = (c.tx_abs(*l), c.tx_abs(*r));
            (0 <= l && l < r && r <= c.tx.nxt as i64).then_some((l as u64, r as u64))
        };
        let mut from = 0;
        if let Some(first) = abs(self, 0) {
            let within_second = abs(self, 1).is_some_and(|s| s.0 <= first.0 && first.1 <= s.1);
            if first.1 <= ack || within_second {
                self.on_dsack(core, first.0, first.1);
                from = 1;
            }
        }
        let min_rtt = self.min_rtt.get();
        let mss = self.tx.mss;
        for i in from..blocks.len() {
            let Some((l, r)) = abs(self, i) else { continue };
            let l = l.max(ack);
            if l >= r {
                continue;
            }
            let Conn { tx, rec, .. } = self;
            tx.board.sack(l, r, |s| {
                let n = segments(s.end - s.start, mss);
                rec.deliver(d, s, n, arrival, min_rtt);
            });
        }
    }

    pub(super) fn take_cumulative<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        arrival: Nanos,
        ack: u64,
        d: &mut Delivered,
    ) {
        let min_rtt = self.min_rtt.get();
        let mss = self.tx.mss;
        let before = self.tx.una;
        let Conn { tx, rec, .. } = self;
        tx.board
            .acknowledge(ack, |s, n| rec.deliver(d, s, n, arrival, min_rtt));
        tx.wnd = (tx.una + tx.wnd).saturating_sub(ack);
        tx.una = ack;
        tx.buffer.acknowledge(&mut core.memory, ack);
        d.runt = ack - before < u64::from(mss);
    }

    /// RFC 9293: the window of the newest segment counts. Answers whether the
    /// right edge moved.
    fn update_window(&mut self, h: &Header, seq: u64, ack: u64) -> bool {
        let tx = &mut self.tx;
        let newer = tx.wl1 < seq || (tx.wl1 == seq && tx.wl2 <= ack);
        if !newer {
            return false;
        }
        let scale = if h.flags.has(Flags::SYN) {
            0
        } else {
            self.agreed.peer_scale
        };
        let wnd = u64::from(h.window) << scale;
        let edge = tx.una + tx.wnd;
        tx.wl1 = seq;
        tx.wl2 = ack;
        // Counted from `una`, which still is the old one here.
        tx.wnd = ack + wnd - tx.una;
        tx.max_wnd = tx.max_wnd.max(wnd);
        tx.una + tx.wnd != edge
    }

    pub(super) fn take_rtt(&mut self, t: &Tunables, now: Nanos, d: &Delivered) {
        let Some(rtt) = d.rtt else { return };
        let rtt = rtt.max(Nanos(1));
        let round_end = self.tx.una > self.rtt_round;
        if round_end {
            self.rtt_round = self.tx.nxt;
        }
        self.rtt.sample(rtt.as_micros().max(1), round_end);
        let suspect = d.runt && self.min_rtt.get().is_some_and(|m| rtt.0 > m);
        if !suspect {
            let window = u64::from(t.min_rtt_wlen);
            self.min_rtt.set_window(window * 1_000_000_000);
            self.min_rtt.update(now.0, rtt.0);
        }
        self.cc.on_rtt(rtt, self.tx.una, self.tx.nxt);
    }

    /// Tells a writer that was cut short when a third of the buffer is free, and the
    /// connection's share of the memory has room.
    pub(super) fn offer_write<P: ChunkPool>(&mut self, memory: &Memory<P>, t: &Tunables) {
        if !self.app.wants_write {
            return;
        }
        let limit = self.write_limit(t);
        let room = limit.saturating_sub(self.tx.buffer.len());
        if room >= limit / 3 && self.tx.buffer.can_grow(memory) {
            self.app.wants_write = false;
            self.tell(crate::event::WRITABLE);
        }
    }

    /// Bytes that the send buffer may hold: it follows the window.
    pub fn write_limit(&self, t: &Tunables) -> u64 {
        let w = t.wmem;
        let window = 3 * u64::from(self.cc.cwnd) * u64::from(self.tx.mss);
        window.max(u64::from(w.default)).min(u64::from(w.max))
    }

    /// Bytes that a write would take now, as far as memory permits.
    pub fn write_room(&self, t: &Tunables) -> u64 {
        self.write_limit(t).saturating_sub(self.tx.buffer.len())
    }
}
