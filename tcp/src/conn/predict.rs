// SPDX-License-Identifier: MIT OR Apache-2.0
//! Header prediction (V. Jacobson, 1990; RFC 1323, 4.2.2): what a bulk sender
//! receives is nearly always a pure acknowledgement of new data, in order, on a
//! connection where nothing is amiss. Few comparisons tell, and then only what
//! such an acknowledgement changes is done. The state afterwards is the one that
//! the whole of `input`, `ack` and `recovery` would have left: a test runs both.

use super::recovery::Delivered;
use super::{Conn, Incoming, State};
use crate::port::ChunkPool;
use crate::shared::Core;
use crate::wire::tcp::Flags;
use tsonic_types::Nanos;

impl Conn {
    /// The acknowledgement number of a segment that was predicted.
    #[inline(always)]
    pub fn predicted(&self, s: &Incoming<'_>) -> Option<u64> {
        let h = s.header;
        let next = self.rcv_nxt();
        let pure = h.flags == Flags::ACK && s.payload.is_empty() && h.options.sack_count == 0;
        let in_order = self.state == State::Established && h.seq == self.rx_wire(next);
        if !(pure && in_order && self.rec.is_quiet() && self.tx.board.counts().is_plain()) {
            return None;
        }
        // A close or a closed window may be what it ends; and a segment beyond a gap
        // may have told of a window that is newer.
        if self.tx.fin || self.timers.persist.is_some() || self.tx.wl1 > next {
            return None;
        }
        if self.agreed.timestamps {
            let (value, _) = h.options.timestamp?;
            if (value.wrapping_sub(self.rx.ts_recent) as i32) < 0 {
                return None;
            }
        }
        let ack = u64::try_from(self.tx_abs(h.ack)).ok()?;
        (self.tx.una < ack && ack <= self.tx.nxt).then_some(ack)
    }

    /// Takes in a segment that was predicted to acknowledge all before `ack`.
    #[inline(always)]
    pub fn on_predicted<P: ChunkPool>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        s: &Incoming<'_>,
        ack: u64,
    ) {
        let h = s.header;
        let seq = self.rcv_nxt();
        self.take_timestamp(now, h, seq as i64);
        let tx = &mut self.tx;
        let wnd = u64::from(h.window) << self.agreed.peer_scale;
        tx.wl1 = seq;
        tx.wl2 = ack;
        // Counted from `una`, which still is the old one here.
        tx.wnd = ack + wnd - tx.una;
        tx.max_wnd = tx.max_wnd.max(wnd);
        let mut d = Delivered::default();
        self.take_cumulative(core, s.arrival, ack, &mut d);
        let t = core.tunables(self.tenant);
        self.take_rtt(t, now, &d);
        if self.agreed.ecn {
            self.cc.on_marks(d.segments, false, ack, self.tx.nxt);
        }
        self.rec.backoff = 0;
        self.timers.reorder = None;
        self.grow_window(t, now, &d);
        self.update_rate(t);
        self.rearm_after_progress(t, now);
        self.offer_write(&core.memory, t);
    }
}
