// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a range of sequence space to a posted burst: addresses, queue, header
//! template, fragments, bookkeeping. Nothing here allocates.

use super::{Conn, State};
use crate::arith::pacing::{PacingMode, UNPACED_SEGMENTS};
use crate::arith::txq::{self, Pick, QueueRange};
use crate::bursts::{InNic, TOKEN_NONE};
use crate::port::{
    Burst, BurstKind, ChunkPool, ChunkRef, FRAGMENTS_MAX, HEADER_MAX, PostError, TxPort,
};
use crate::scoreboard::segments;
use crate::shared::Core;
use crate::wire::ethernet::{self, Mac};
use crate::wire::ip::{self, Ip};
use crate::wire::tcp::{Flags, Header, Options, SACK_MAX};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, SeqNum};

/// What a burst weighs for the small-queue gate beyond its payload: our
/// "truesize".
pub(crate) const TRUESIZE_OVERHEAD: u32 = 320;
/// Most bytes of TCP options.
const OPTIONS_MAX: usize = 40;
const TTL: u8 = 64;

/// Why nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The next hop's address is not known yet.
    Neighbour,
    /// The queue is full or down.
    Queue(QueueId),
    /// The port refuses such bursts.
    Refused,
}

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing {
    /// Absolute sequence number of the first octet.
    pub start: u64,
    /// Payload bytes.
    pub payload: u32,
    pub flags: Flags,
    /// ECN field of the IP header.
    pub ecn: u8,
    /// It occupies sequence space and will be acknowledged.
    pub tracked: bool,
    /// SACK blocks may be put on it.
    pub with_sack: bool,
}

/// What was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    /// Payload bytes that went (fewer than asked if fragments ran out).
    pub payload: u32,
    /// One past the last sequence number.
    pub end: u64,
    pub segments: u32,
    /// Index of the burst while it is in the NIC.
    pub burst: u32,
}

impl Conn {
    /// Posts one burst. Nothing changes when it answers with a [`Stop`], save
    /// the queue cached for the flow.
    pub fn transmit<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
        out: &Outgoing,
    ) -> Result<Posted, Stop> {
        let mac = self.next_hop_mac(core, now)?;
        let flow = self.flow_for(core, port, out);
        let queue = self.choose_queue(core, now);

        let mut fragments = [ChunkRef::default(); FRAGMENTS_MAX];
        let limit = core.limits.fragments.clamp(1, FRAGMENTS_MAX);
        let (count, payload) =
            self.tx
                .buffer
                .fragments(out.start, out.payload, &mut fragments[..limit]);
        let mss = self.tx.mss.min(core.limits.max_segment).max(1);
        let (mut count, mut payload) = (count, payload);
        let mut flags = out.flags;
        if payload < out.payload {
            // FIN belongs to the end, which does not go now, and so does the PSH of a
            // single segment; and only whole segments do.
            flags = Flags(flags.0 & !(Flags::FIN.0 | Flags::PSH.0));
            if payload > mss {
                let whole = payload - payload % mss;
                (count, payload) =
                    self.tx
                        .buffer
                        .fragments(out.start, whole, &mut fragments[..limit]);
            }
            flags = flags.with_if(payload > mss, Flags::PSH);
        }
        let fragments = &fragments[..count];
        let octets = u64::from(payload)
            + u64::from(flags.has(Flags::SYN))
            + u64::from(flags.has(Flags::FIN));
        let count = segments(u64::from(payload), mss).max(1);

        let mut header = [0u8; HEADER_MAX];
        let lens = self.emit_header(core, now, out, flags, payload, mac, &mut header);
        let header = &header[..usize::from(lens.0) + usize::from(lens.1) + usize::from(lens.2)];

        let token = if out.tracked {
            let burst = InNic {
                owner: Some((self.index, self.generation)),
                start: out.start,
                end: out.start + octets,
                mss,
                segments: count,
                truesize: payload + TRUESIZE_OVERHEAD,
            };
            core.bursts.insert(&mut core.memory.pool, burst, fragments)
        } else {
            (TOKEN_NONE, crate::scoreboard::NO_BURST)
        };
        let burst = Burst {
            queue,
            flow,
            kind: if count > 1 {
                BurstKind::Tso
            } else {
                BurstKind::Csum
            },
            header,
            l2_len: lens.0,
            l3_len: lens.1,
            l4_len: lens.2,
            ipv6: self.remote.is_ipv6(),
            ip_id_fixed: false,
            cwr_all: false,
            mss: if count > 1 { mss as u16 } else { 0 },
            payload_len: payload,
            fragments,
            rate: self.wire_rate(core, flow, header.len()),
            launch: self.launch(core, now, out),
            complete_now: false,
            token: token.0,
        };
        if let Err(e) = port.post(&burst) {
            core.bursts.remove(&mut core.memory.pool, token.0);
            self.counters.backpressure += 1;
            core.counters.total.backpressure += 1;
            return Err(match e {
                PostError::Backpressure(q) | PostError::QueueDown(q) => {
                    self.nic.waits_for_queue = Some(q);
                    Stop::Queue(q)
                }
                PostError::Refused(_) => Stop::Refused,
            });
        }
        self.posted(core, now, out, queue, payload, count, flags);
        Ok(Posted {
            payload,
            end: out.start + octets,
            segments: count,
            burst: token.1,
        })
    }

    /// Bookkeeping of a burst that went.
    #[allow(clippy::too_many_arguments)]
    fn posted<P>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        out: &Outgoing,
        queue: QueueId,
        payload: u32,
        count: u32,
        flags: Flags,
    ) {
        self.tx.ip_id = self.tx.ip_id.wrapping_add(count as u16);
        if out.tracked {
            self.nic.outstanding += u64::from(payload + TRUESIZE_OVERHEAD);
            self.nic.segments += count;
        }
        if payload > 0 {
            for c in [&mut self.counters, &mut core.counters.total] {
                c.count_burst(count, payload);
            }
            let q = queue.index();
            if core.counters.bursts_by_queue.len() <= q {
                core.counters.bursts_by_queue.resize(q + 1, 0);
            }
            core.counters.bursts_by_queue[q] += 1;
            self.tx.last_sent = now;
        }
        if flags.has(Flags::ACK) {
            self.ack_sent(payload > 0);
        }
    }

    fn next_hop_mac<P>(&mut self, core: &mut Core<P>, now: Nanos) -> Result<Mac, Stop> {
        let generation = core.neighbours.generation();
        if let Some((mac, known)) = self.nic.mac
            && known == generation
            && now.since(self.heard_at) < Nanos::from_secs(10)
        {
            return Ok(mac);
        }
        let hop = core.config.interface.next_hop(self.remote.ip());
        match hop.and_then(|hop| core.neighbours.resolve(hop, now)) {
            Some(mac) => {
                self.nic.mac = Some((mac, generation));
                self.nic.waits_for_neighbour = false;
                self.nic.unanswered = 0;
                Ok(mac)
            }
            None => {
                self.nic.waits_for_neighbour = true;
                Err(Stop::Neighbour)
            }
        }
    }

    /// The flow that the burst joins. Acknowledgements do not queue behind paced
    /// data.
    fn flow_for<P, T: TxPort>(&mut self, core: &Core<P>, port: &mut T, out: &Outgoing) -> FlowSlot {
        if !out.tracked || !self.state.is_synchronized() {
            return FlowSlot::UNPACED;
        }
        let t = core.tunables(self.tenant);
        let by_nic = t.pacing && t.pacing_mode != PacingMode::Edt;
        if !self.nic.asked && core.limits.paces && by_nic {
            self.nic.asked = true;
            self.nic.flow = port.allocate_flow().unwrap_or(FlowSlot::UNPACED);
        }
        self.nic.flow
    }

    /// Whether the NIC spaces this flow's segments.
    pub fn paced_by_nic(&self) -> bool {
        self.nic.flow != FlowSlot::UNPACED
    }

    /// Whether bursts wait in the NIC for their launch time, and then leave whole.
    pub fn launched<P>(&self, core: &Core<P>) -> bool {
        let t = core.tunables(self.tenant);
        t.pacing && t.pacing_mode == PacingMode::Line && self.paced_by_nic()
    }

    /// Launch time of a burst, if it has one ahead.
    fn launch<P>(&self, core: &Core<P>, now: Nanos, out: &Outgoing) -> Option<Nanos> {
        (out.tracked && self.launched(core) && self.tx.wstamp > now).then_some(self.tx.wstamp)
    }

    /// Pacing rate as the NIC wants it: wire bytes.
    fn wire_rate<P>(&self, core: &Core<P>, flow: FlowSlot, header: usize) -> Option<ByteRate> {
        if self.launched(core) {
            return None;
        }
        let rate = self.tx.rate;
        if flow == FlowSlot::UNPACED || rate == u64::MAX || self.tx.segs_out < UNPACED_SEGMENTS {
            return None;
        }
        let mss = u64::from(self.tx.mss);
        // The rate, and the headers' share of it; in two parts, so that 64 bits do.
        let header = header as u64;
        let share = (rate / mss).saturating_mul(header) + rate % mss * header / mss;
        Some(ByteRate(rate.saturating_add(share).max(1)))
    }

    /// XPS by the core of the last write, cached as long as a move could reorder.
    fn choose_queue<P>(&mut self, core: &mut Core<P>, now: Nanos) -> QueueId {
        let real = core.limits.queues.max(1);
        let resel = core.tunables(self.tenant).txq_reselection_ms;
        let one = u64::from(1 + TRUESIZE_OVERHEAD);
        let okay = txq::tcp_ooo_okay(self.nic.outstanding + 1, one, self.tx.board.is_empty());
        let (hash, writer) = (self.nic.hash, u32::from(self.nic.core.0));
        let xps = core.config.xps.as_ref();
        let (queue, pick) = self
            .nic
            .queue
            .pick(now.as_millis() as u32, resel, okay, real, || match xps {
                Some(map) => txq::select(map, writer, hash, real),
                None => {
                    let all = QueueRange {
                        offset: 0,
                        count: real,
                    };
                    txq::hash_queue(all, hash, None)
                }
            });
        if pick == Pick::Moved && self.tx.segs_out > 0 {
            for c in [&mut self.counters, &mut core.counters.total] {
                c.queue_moves += 1;
                c.ooo_moves += u64::from(!okay);
            }
        }
        QueueId(queue)
    }

    #[allow(clippy::too_many_arguments)]
    fn emit_header<P>(
        &mut self,
        core: &Core<P>,
        now: Nanos,
        out: &Outgoing,
        flags: Flags,
        payload: u32,
        mac: Mac,
        buf: &mut [u8; HEADER_MAX],
    ) -> (u8, u16, u8) {
        let syn = flags.has(Flags::SYN);
        let options = if syn {
            self.syn_options(core, now)
        } else {
            self.options(now, out.with_sack)
        };
        let tcp = Header {
            src_port: self.local.port(),
            dst_port: self.remote.port(),
            seq: self.tx_wire(out.start),
            ack: if flags.has(Flags::ACK) {
                self.rx_wire(self.rcv_nxt())
            } else {
                SeqNum(0)
            },
            flags,
            window: if flags.has(Flags::RST) {
                0
            } else {
                self.window_field(syn)
            },
            options,
        };
        let ipv6 = self.remote.is_ipv6();
        let interface = &core.config.interface;
        let ethertype = if ipv6 { ethernet::IPV6 } else { ethernet::IPV4 };
        let l2 = interface.ethernet(mac, ethertype).emit(buf);
        let l4 = tcp.emitted_len();
        let ip = Ip {
            src: self.local.ip(),
            dst: self.remote.ip(),
            protocol: ip::TCP,
            ecn: out.ecn,
            ttl: TTL,
        };
        let l3 = ip::emit(&ip, self.tx.ip_id, l4 + payload as usize, &mut buf[l2..]);
        tcp.emit(&mut buf[l2 + l3..]);
        (l2 as u8, l3 as u16, l4 as u8)
    }

    /// Options of a segment that is no SYN.
    fn options(&mut self, now: Nanos, with_sack: bool) -> Options {
        let mut o = Options::default();
        let mut room = OPTIONS_MAX;
        if self.agreed.timestamps {
            o.timestamp = Some((self.ts_now(now), self.rx.ts_recent));
            room -= crate::wire::tcp::TIMESTAMP_BYTES;
        }
        if with_sack && self.agreed.sack {
            let most = ((room - 4) / 8).min(SACK_MAX);
            let mut blocks = [(0u64, 0u64); SACK_MAX];
            let mut n = 0;
            if let Some(d) = self.rx.dsack.take() {
                blocks[0] = d;
                n = 1;
            }
            n += self.rx.queue.blocks(&mut blocks[n..most]);
            for (to, from) in o.sack.iter_mut().zip(&blocks[..n]) {
                *to = (self.rx_wire(from.0), self.rx_wire(from.1));
            }
            o.sack_count = n;
        }
        o
    }

    /// Sends a pure acknowledgement (or, below `nxt`, a probe that asks for one).
    pub fn send_ack<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
        seq: u64,
    ) -> Result<(), Stop> {
        let out = Outgoing {
            start: seq,
            payload: 0,
            flags: Flags::ACK.with_if(self.rx.ece && self.agreed.ecn, Flags::ECE),
            ecn: ip::NOT_ECT,
            tracked: false,
            with_sack: true,
        };
        self.transmit(core, now, port, &out)?;
        self.counters.acks += 1;
        core.counters.total.acks += 1;
        Ok(())
    }

    /// Sends a reset, at most once.
    pub fn send_reset<P: ChunkPool, T: TxPort>(
        &mut self,
        core: &mut Core<P>,
        now: Nanos,
        port: &mut T,
        seq: u64,
    ) -> Result<(), Stop> {
        let acked = self.state != State::SynSent && self.rx.acked > 0;
        let out = Outgoing {
            start: seq,
            payload: 0,
            flags: Flags::RST.with_if(acked, Flags::ACK),
            ecn: ip::NOT_ECT,
            tracked: false,
            with_sack: false,
        };
        self.transmit(core, now, port, &out)?;
        core.counters.resets_out += 1;
        Ok(())
    }
}
