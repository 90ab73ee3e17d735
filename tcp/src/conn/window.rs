// SPDX-License-Identifier: MIT OR Apache-2.0
//! What follows from the congestion window: the pacing rate, whether the window
//! is used, and what it is worth after an idle time.

use super::Conn;
use crate::arith::pacing::{PacingInput, pacing_rate};
use crate::shared::Core;
use crate::tunables::Tunables;
use tsonic_types::Nanos;

impl Conn {
    /// Pacing rate from window and round-trip time.
    #[inline]
    pub fn update_rate(&mut self, t: &Tunables) {
        let max = t.max_pacing_rate.min(self.tx.max_rate);
        if self.rtt.srtt8_us() == 0 {
            self.tx.rate = max;
            return;
        }
        self.tx.rate = pacing_rate(&PacingInput {
            mss: u64::from(self.tx.mss),
            cwnd: u64::from(self.cc.cwnd),
            packets_out: u64::from(self.tx.board.counts().out),
            ssthresh: u64::from(self.cc.ssthresh),
            srtt8_us: self.rtt.srtt8_us(),
            ss_ratio: u64::from(t.pacing_ss_ratio),
            ca_ratio: u64::from(t.pacing_ca_ratio),
            max,
        })
        .max(1);
    }

    /// Remembers whether the window was what limited us in this round: an unused
    /// window must not grow. What waits in the NIC is no use of it: the RTT counts
    /// from the departure, so a window that only fills the NIC would make the
    /// pacing rate, and with it the small-queue limit, grow without end. But a window
    /// that does not hold the two bursts of `size` segments that small queues allow, and one on
    /// its way, cuts bursts short whatever waits: up to there it grows.
    pub fn note_window_use(&mut self, size: u32) {
        let waiting = self.nic.segments;
        let full = self.tx.limited_now || self.in_flight() >= self.cc.cwnd;
        let limited = full && (2 * waiting <= self.cc.cwnd || self.cc.cwnd < 3 * size);
        let out = self.tx.board.counts().out.saturating_sub(waiting);
        let tx = &mut self.tx;
        if tx.una >= tx.usage_end || limited || (!tx.cwnd_limited && out > tx.max_out) {
            tx.cwnd_limited = limited;
            tx.max_out = out;
            tx.usage_end = tx.nxt;
        }
    }

    /// Whether the window limits the sender, so that it may grow.
    pub fn is_cwnd_limited(&self) -> bool {
        self.tx.cwnd_limited
            || (self.cc.in_slow_start() && u64::from(self.cc.cwnd) < 2 * u64::from(self.tx.max_out))
    }

    /// After idling for an RTO the window is worth half (RFC 5681, 4.1, as Linux
    /// softens it).
    pub fn restart_after_idle<P>(&mut self, core: &Core<P>, now: Nanos) {
        if self.tx.last_sent == Nanos::ZERO {
            return;
        }
        let idle = now.since(self.tx.last_sent);
        self.cc.on_restart(idle);
        let t = core.tunables(self.tenant);
        if !t.slow_start_after_idle || self.rec.in_recovery_or_loss() {
            return;
        }
        let rto = self.rto_now(t);
        let floor = t.initial_cwnd.min(self.cc.cwnd);
        if idle > rto {
            self.cc.ssthresh = self.cc.ssthresh.max(self.cc.cwnd / 4 * 3);
        }
        let mut left = idle;
        while left > rto && self.cc.cwnd > floor {
            self.cc.cwnd = (self.cc.cwnd / 2).max(floor);
            left = left - rto;
        }
    }
}
