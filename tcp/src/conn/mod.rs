// SPDX-License-Identifier: MIT OR Apache-2.0
//! One connection: its state, and what the files of this folder do with it.
//!
//! | file | purpose |
//! |---|---|
//! | `state` | states of RFC 9293 and why a connection ended |
//! | `open` | opening, options of SYNs |
//! | `input` | a segment arrives |
//! | `predict` | the acknowledgement that a bulk sender expects, in short |
//! | `ack` | any acknowledgement: scoreboard, RTT, window growth |
//! | `recovery` | RACK-TLP, fast recovery, time-outs, undo |
//! | `receive` | its data: reassembly, delayed ACK, window |
//! | `output` | the transmit path: sizing, gate, queue, post |
//! | `segment` | header templates and the post itself |
//! | `timers` | deadlines and what they do |
//! | `window` | pacing rate, use of the congestion window |
//!
//! Sequence numbers are absolute in here (`u64`): 0 is the SYN, 1 the first byte
//! of data, and nothing wraps. Only `segment` and `input` know 32-bit numbers.

mod ack;
mod input;
mod open;
mod output;
mod predict;
mod receive;
mod recovery;
mod segment;
mod state;
mod timers;
mod window;

pub(crate) use input::{Incoming, Reply};
pub(crate) use segment::Stop;
pub use state::{CloseReason, State};

use crate::arith::min_rtt::MinFilter;
use crate::arith::rtt::RttEstimator;
use crate::arith::txq::CachedQueue;
use crate::congestion::Congestion;
use crate::reassembly::Reassembly;
use crate::scoreboard::Scoreboard;
use crate::send_buffer::SendBuffer;
use crate::stats::Counters;
use crate::wire::ethernet::Mac;
use core::net::SocketAddr;
use recovery::Recovery;
use timers::Timers;
use tsonic_types::{CoreId, FlowSlot, Nanos, QueueId, SeqNum, TenantId};

/// What the two sides agreed on in their SYNs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreed {
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    /// Shift of windows that we advertise.
    pub our_scale: u8,
    /// Shift of windows that the peer advertises.
    pub peer_scale: u8,
}

/// Sending side.
#[derive(Debug)]
pub(crate) struct Tx {
    pub iss: SeqNum,
    /// First unacknowledged.
    pub una: u64,
    /// First unsent.
    pub nxt: u64,
    /// The peer's window in bytes from `una` on, and the largest it ever was.
    pub wnd: u64,
    pub max_wnd: u64,
    /// Segment (its sequence number and acknowledgement) that set the window.
    pub wl1: u64,
    pub wl2: u64,
    /// Payload bytes of a segment.
    pub mss: u32,
    pub buffer: SendBuffer,
    pub board: Scoreboard,
    /// The application will write no more: a FIN follows the buffer.
    pub fin: bool,
    /// One past the last small segment sent (Minshall's rule).
    pub small: u64,
    pub nodelay: bool,
    /// Earliest departure of the next burst, when the engine paces.
    pub wstamp: Nanos,
    /// Last post of data.
    pub last_sent: Nanos,
    /// Data segments sent so far.
    pub segs_out: u64,
    /// CWR goes on the next new data.
    pub cwr_due: bool,
    /// Pacing rate, payload bytes a second; all ones: none.
    pub rate: u64,
    /// Cap of the application on it.
    pub max_rate: u64,
    pub ip_id: u16,
    /// Window usage: whether the window was what limited us in this round, most
    /// segments out, and where the round ends.
    pub cwnd_limited: bool,
    pub limited_now: bool,
    pub max_out: u32,
    pub usage_end: u64,
    /// An unacknowledged window probe is due.
    pub window_probe_due: bool,
}

/// Receiving side.
#[derive(Debug)]
pub(crate) struct Rx {
    pub irs: SeqNum,
    pub queue: Reassembly,
    /// Right edge of the advertised window; never moves left.
    pub edge: u64,
    /// Receive buffer in bytes, and what it may grow to.
    pub buffer: u64,
    pub buffer_max: u64,
    /// Sequence number of the peer's FIN, and whether it was reached.
    pub fin: Option<u64>,
    pub fin_done: bool,
    /// Acknowledgement number last sent.
    pub acked: u64,
    /// An ACK is due now; how many (without SACK each duplicate counts).
    pub ack_now: bool,
    pub acks_due: u32,
    /// ACKs that are still sent at once.
    pub quick: u32,
    /// Largest segment seen.
    pub mss: u32,
    /// Congestion was experienced: echo it.
    pub ece: bool,
    /// Duplicate range to report.
    pub dsack: Option<(u64, u64)>,
    /// RFC 7323: the timestamp to echo, and when it came.
    pub ts_recent: u32,
    pub ts_recent_at: Nanos,
    /// Buffer sizing: bytes read in this round, where and when the round began.
    pub read_in_round: u64,
    pub round_end: u64,
    pub round_start: Nanos,
}

/// The connection as the NIC sees it.
#[derive(Debug)]
pub(crate) struct Nic {
    pub flow: FlowSlot,
    /// A flow handle was asked for.
    pub asked: bool,
    pub queue: CachedQueue,
    /// Bytes of bursts in the NIC by the measure of small queues.
    pub outstanding: u64,
    /// Segments of those bursts.
    pub segments: u32,
    /// The gate stopped us: a completion calls back.
    pub throttled: bool,
    /// Core of the last write.
    pub core: CoreId,
    /// Hash of the addresses and ports.
    pub hash: u32,
    /// Ethernet address of the next hop, valid for that generation of the cache.
    pub mac: Option<(Mac, u32)>,
    /// No address yet: wake up when the neighbour cache changes.
    pub waits_for_neighbour: bool,
    /// Times in a row that nobody answered for the next hop.
    pub unanswered: u32,
    /// Full queue that we wait for.
    pub waits_for_queue: Option<QueueId>,
}

/// The connection as the application sees it.
#[derive(Debug, Default)]
pub(crate) struct App {
    /// Bits of [`crate::event::Ready`] that were not told yet.
    pub pending: u8,
    /// In the list of connections with events.
    pub listed: bool,
    /// A write was cut short.
    pub wants_write: bool,
    /// In the list of connections whose write found no memory.
    pub starved: bool,
    /// The application let go of the connection.
    pub released: bool,
    /// Why it ended.
    pub reason: Option<CloseReason>,
    pub keepalive: bool,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub index: u32,
    pub generation: u32,
    pub tenant: TenantId,
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Listener that it came by, until accepted.
    pub listener: Option<u32>,
    pub state: State,
    pub agreed: Agreed,
    pub tx: Tx,
    pub rx: Rx,
    pub rtt: RttEstimator,
    /// Windowed minimum of the RTT in ns.
    pub min_rtt: MinFilter,
    /// Where the current round of RTT samples ends.
    pub rtt_round: u64,
    pub cc: Congestion,
    pub rec: Recovery,
    pub timers: Timers,
    pub nic: Nic,
    pub app: App,
    pub counters: Counters,
    /// Offset of our timestamps (RFC 7323, 5.4).
    pub ts_offset: u32,
    /// Reset to send, at this sequence number.
    pub reset_due: Option<u64>,
    /// Time of the last challenge ACK.
    pub challenged_at: Option<Nanos>,
    /// Anything came from the peer last.
    pub heard_at: Nanos,
    pub probes_sent: u32,
    /// In the list of connections to run.
    pub queued: bool,
    /// Segments for it are found.
    pub linked: bool,
    /// Queue whose room it waits for.
    pub waits_in: Option<QueueId>,
    /// Counted among its tenant's in TIME_WAIT.
    pub time_waiting: bool,
    /// Memory is promised to it: it may still write, or holds what it wrote.
    pub reserved: bool,
}

impl Conn {
    /// One past the last sequence number that there is to send.
    pub fn tx_end(&self) -> u64 {
        self.tx.buffer.end() + u64::from(self.tx.fin)
    }

    /// First sequence number that we have not received.
    pub fn rcv_nxt(&self) -> u64 {
        self.rx.queue.next() + u64::from(self.rx.fin_done)
    }

    /// Our sequence number on the wire.
    pub fn tx_wire(&self, abs: u64) -> SeqNum {
        self.tx.iss + abs as u32
    }

    /// The peer's sequence number on the wire.
    pub fn rx_wire(&self, abs: u64) -> SeqNum {
        self.rx.irs + abs as u32
    }

    /// Our timestamp now (1 ms).
    pub fn ts_now(&self, now: Nanos) -> u32 {
        self.ts_offset.wrapping_add(now.as_millis() as u32)
    }

    /// Segments in flight.
    pub fn in_flight(&self) -> u32 {
        let n = self.tx.board.counts().in_flight();
        if self.agreed.sack {
            n
        } else {
            // Each duplicate ACK is a segment that has left.
            n.saturating_sub(self.rec.dup_acks)
        }
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Nanos {
        Nanos(self.rtt.srtt8_us() * 125)
    }

    /// Bytes of the peer's window from `nxt` on.
    pub fn window_left(&self) -> u64 {
        (self.tx.una + self.tx.wnd).saturating_sub(self.tx.nxt)
    }

    /// Whether data and FIN may be sent in this state.
    pub fn may_send(&self) -> bool {
        matches!(
            self.state,
            State::Established
                | State::CloseWait
                | State::FinWait1
                | State::Closing
                | State::LastAck
        )
    }

    /// Tells the application.
    pub fn tell(&mut self, bit: u8) {
        if !self.app.released {
            self.app.pending |= bit;
        }
    }

    /// The connection is over.
    pub fn finish(&mut self, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.state = State::Closed;
        self.app.reason = Some(reason);
        self.timers = Timers::default();
        self.tell(crate::event::CLOSED);
    }
}
