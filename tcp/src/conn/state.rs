// SPDX-License-Identifier: MIT OR Apache-2.0
//! States of a connection (RFC 9293, 3.3.2) and why it ended.

use core::fmt;

/// State of a connection. LISTEN is a listener's, not a connection's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Active open: SYN sent.
    SynSent,
    /// Passive (or simultaneous) open: SYN received and sent.
    SynReceived,
    /// Both sides may send.
    Established,
    /// We closed, our FIN is not acknowledged.
    FinWait1,
    /// We closed, the peer has not.
    FinWait2,
    /// The peer closed, we have not.
    CloseWait,
    /// Both closed at once, our FIN is not acknowledged.
    Closing,
    /// The peer closed, then we; our FIN is not acknowledged.
    LastAck,
    /// Both closed; waits until old segments have died.
    TimeWait,
    /// Over.
    Closed,
}

impl State {
    /// Whether both SYNs are acknowledged.
    pub const fn is_synchronized(self) -> bool {
        !matches!(self, State::SynSent | State::SynReceived | State::Closed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::SynSent => "SYN_SENT",
            State::SynReceived => "SYN_RECEIVED",
            State::Established => "ESTABLISHED",
            State::FinWait1 => "FIN_WAIT1",
            State::FinWait2 => "FIN_WAIT2",
            State::CloseWait => "CLOSE_WAIT",
            State::Closing => "CLOSING",
            State::LastAck => "LAST_ACK",
            State::TimeWait => "TIME_WAIT",
            State::Closed => "CLOSED",
        })
    }
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// Both sides closed.
    Normal,
    /// The peer refused the open.
    Refused,
    /// The peer reset it.
    Reset,
    /// No answer after all retries.
    TimedOut,
    /// Nobody on the link answers for the peer or its router.
    Unreachable,
    /// We reset it.
    Aborted,
    /// The NIC failed to send time and again.
    Device,
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CloseReason::Normal => "closed",
            CloseReason::Refused => "connection refused",
            CloseReason::Reset => "connection reset by peer",
            CloseReason::TimedOut => "connection timed out",
            CloseReason::Unreachable => "no neighbour answers for the peer",
            CloseReason::Aborted => "connection aborted",
            CloseReason::Device => "the device failed to send",
        })
    }
}
