// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening a connection: the block of state, and the options of SYNs.

use super::recovery::Recovery;
use super::timers::Timers;
use super::{Agreed, App, Conn, Nic, Rx, State, Tx};
use crate::arith::min_rtt::MinFilter;
use crate::arith::rtt::RttEstimator;
use crate::arith::txq::CachedQueue;
use crate::congestion::Congestion;
use crate::reassembly::Reassembly;
use crate::scoreboard::Scoreboard;
use crate::send_buffer::SendBuffer;
use crate::shared::{Core, Keyed};
use crate::stats::Counters;
use crate::wire::tcp::{Flags, Header, Options, TIMESTAMP_BYTES};
use core::hash::{BuildHasher, Hash, Hasher};
use core::net::SocketAddr;
use tsonic_types::{CoreId, FlowSlot, Nanos, SeqNum, TenantId};

/// Largest window scale (RFC 7323, 2.2).
const SCALE_MAX: u8 = 14;
/// Segment size of a peer that does not say (RFC 9293, 3.7.1).
const MSS_DEFAULT: u16 = 536;
/// ACKs at the start that are not delayed (slow start of the peer).
const QUICK_ACKS: u32 = 16;

/// Smallest shift by which a window of `space` bytes fits 16 bits.
pub(crate) fn scale_for(space: u64) -> u8 {
    (0..=SCALE_MAX)
        .find(|w| (65_535u64 << w) >= space)
        .unwrap_or(SCALE_MAX)
}

impl Conn {
    /// A connection in SYN_SENT, nothing sent yet, that was promised its memory.
    pub fn new<P>(
        core: &mut Core<P>,
        index: u32,
        generation: u32,
        tenant: TenantId,
        (local, remote): (SocketAddr, SocketAddr),
        now: Nanos,
    ) -> Conn {
        let hasher = |salt: u64| {
            let mut h = Keyed(core.config.seed ^ salt).build_hasher();
            (local, remote).hash(&mut h);
            h
        };
        // RFC 6528: a keyed hash of the addresses plus a clock of 4 us.
        let iss = SeqNum((hasher(1).finish() as u32).wrapping_add((now.0 / 4000) as u32));
        let ts_offset = hasher(2).finish() as u32;
        let hash = (hasher(3).finish() >> 32) as u32;
        let t = core.tenants[tenant.index()].tunables.clone();
        let mss = u32::from(core.config.interface.mss(remote.ip()));
        Conn {
            index,
            generation,
            tenant,
            local,
            remote,
            listener: None,
            state: State::SynSent,
            agreed: Agreed {
                timestamps: t.timestamps,
                sack: t.sack,
                ecn: t.ecn == 1,
                our_scale: if t.window_scaling {
                    scale_for(u64::from(t.rmem.max))
                } else {
                    0
                },
                peer_scale: 0,
            },
            tx: Tx {
                iss,
                una: 0,
                nxt: 0,
                wnd: 0,
                max_wnd: 0,
                wl1: 0,
                wl2: 0,
                mss,
                buffer: SendBuffer::new(),
                board: Scoreboard::new(mss),
                fin: false,
                small: 0,
                nodelay: false,
                wstamp: Nanos::ZERO,
                last_sent: Nanos::ZERO,
                segs_out: 0,
                cwr_due: false,
                rate: t.max_pacing_rate,
                max_rate: u64::MAX,
                ip_id: core.random.next() as u16,
                cwnd_limited: false,
                limited_now: false,
                max_out: 0,
                usage_end: 0,
                window_probe_due: false,
            },
            rx: Rx {
                irs: SeqNum(0),
                queue: Reassembly::new(),
                edge: 0,
                buffer: u64::from(t.rmem.default),
                buffer_max: u64::from(t.rmem.max),
                fin: None,
                fin_done: false,
                acked: 0,
                ack_now: false,
                acks_due: 0,
                quick: QUICK_ACKS,
                mss: u32::from(MSS_DEFAULT),
                ece: false,
                dsack: None,
                ts_recent: 0,
                ts_recent_at: Nanos::ZERO,
                read_in_round: 0,
                round_end: 1,
                round_start: now,
            },
            rtt: RttEstimator::new(u64::from(t.rto_min_us), u64::from(t.rto_max_ms) * 1000),
            min_rtt: MinFilter::new(u64::from(t.min_rtt_wlen) * 1_000_000_000),
            rtt_round: 0,
            cc: Congestion::new(
                t.congestion_control,
                t.initial_cwnd.min(t.cwnd_clamp),
                t.hystart,
            ),
            rec: Recovery::new(),
            timers: Timers::default(),
            nic: Nic {
                flow: FlowSlot::UNPACED,
                asked: false,
                queue: CachedQueue::new(),
                outstanding: 0,
                segments: 0,
                throttled: false,
                core: CoreId(0),
                hash,
                mac: None,
                waits_for_neighbour: false,
                unanswered: 0,
                waits_for_queue: None,
            },
            app: App::default(),
            counters: Counters::default(),
            ts_offset,
            reset_due: None,
            challenged_at: None,
            heard_at: now,
            probes_sent: 0,
            queued: false,
            waits_in: None,
            linked: true,
            time_waiting: false,
            reserved: true,
        }
    }

    /// Turns a new connection into the answer to a SYN.
    pub fn answer<P>(&mut self, core: &Core<P>, now: Nanos, h: &Header) {
        self.take_syn(core, now, h);
        let asked = h.flags.has(Flags::ECE) && h.flags.has(Flags::CWR);
        self.agreed.ecn = asked && core.tunables(self.tenant).ecn > 0;
        self.state = State::SynReceived;
    }

    /// The peer's SYN: its sequence number and options.
    pub fn take_syn<P>(&mut self, core: &Core<P>, now: Nanos, h: &Header) {
        let t = core.tunables(self.tenant);
        let o = &h.options;
        self.rx.irs = h.seq;
        self.agreed.timestamps = t.timestamps && o.timestamp.is_some();
        self.agreed.sack = t.sack && o.sack_permitted;
        match o.window_scale {
            Some(shift) if t.window_scaling => self.agreed.peer_scale = shift.min(SCALE_MAX),
            _ => {
                self.agreed.our_scale = 0;
                self.agreed.peer_scale = 0;
            }
        }
        if let Some((value, _)) = o.timestamp {
            self.rx.ts_recent = value;
            self.rx.ts_recent_at = now;
        }
        let ours = core.config.interface.mss(self.remote.ip());
        let options = if self.agreed.timestamps {
            TIMESTAMP_BYTES as u16
        } else {
            0
        };
        let mss = u32::from(o.mss.unwrap_or(MSS_DEFAULT).min(ours).max(88) - options);
        self.tx.mss = mss;
        self.tx.board.set_mss(mss);
        self.rx.mss = mss.min(u32::from(MSS_DEFAULT));
        // The window of a SYN is not scaled.
        self.tx.wnd = u64::from(h.window);
        self.tx.max_wnd = self.tx.wnd;
        self.tx.wl1 = 0;
        self.tx.wl2 = self.tx.una;
        self.rx.edge = 1 + self.rx.buffer.min(65_535);
        // A SYN occupies sequence number 0; `acked` is what our SYN-ACK says.
        self.rx.acked = 1;
    }

    /// Both SYNs are acknowledged.
    pub fn established<P>(&mut self, core: &Core<P>, now: Nanos) {
        // The window counts from `una`, behind our SYN.
        self.rec.backoff = 0;
        self.rx.round_start = now;
        self.arm_keepalive(core.tunables(self.tenant), now);
        self.update_rate(core.tunables(self.tenant));
    }

    /// Options of our SYN or SYN-ACK.
    pub fn syn_options<P>(&self, core: &Core<P>, now: Nanos) -> Options {
        let t = core.tunables(self.tenant);
        let answering = self.state == State::SynReceived;
        let scale = t.window_scaling && (!answering || self.agreed.our_scale > 0 || self.scaled());
        Options {
            mss: Some(core.config.interface.mss(self.remote.ip())),
            window_scale: scale.then_some(self.agreed.our_scale),
            sack_permitted: self.agreed.sack,
            timestamp: self
                .agreed
                .timestamps
                .then(|| (self.ts_now(now), self.rx.ts_recent)),
            ..Options::default()
        }
    }

    fn scaled(&self) -> bool {
        self.agreed.peer_scale > 0
    }
}

#[cfg(test)]
mod tests {
    use super::scale_for;

    #[test]
    fn window_scales() {
        for (space, scale) in [
            (65_535, 0),
            (65_536, 1),
            (131_072, 2),
            (4_194_304, 7),
            (6_291_456, 7),
            (16_777_216, 9),
            (1_073_741_824, 14),
        ] {
            assert_eq!(scale_for(space), scale);
        }
    }
}
