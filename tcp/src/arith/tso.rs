// SPDX-License-Identifier: MIT OR Apache-2.0
//! Burst sizing: how many segments of one flow go to the NIC as one burst, where
//! a queued buffer is cut, and whether a burst had better wait for more data.
//!
//! The size grows with the pacing rate (about a millisecond's worth) and, near
//! the peer, with the closeness itself: near losses are cheap to repair. The
//! rules are those of Linux 5.18 and later (`tcp_tso_rtt_log`); the size by
//! share of the congestion window is the older one of 2004.

/// What the size of a burst follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TsoSizing {
    /// The pacing rate, and the closeness of the peer ([`autosize`]); a burst that the
    /// window would cut short may be deferred ([`should_defer`]).
    #[default]
    Rate,
    /// The congestion window, as in 2004 ([`win_divisor_2004`]); a burst leaves whole, as soon
    /// as there is room for all of it.
    Window,
}

impl TsoSizing {
    /// Names of the values.
    pub const NAMES: &[&str] = &["rate", "window"];

    /// The one called `name`.
    pub fn from_name(name: &str) -> Option<TsoSizing> {
        match name {
            "rate" => Some(TsoSizing::Rate),
            "window" => Some(TsoSizing::Window),
            _ => None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            TsoSizing::Rate => "rate",
            TsoSizing::Window => "window",
        }
    }
}

/// Largest `rtt_log`: a shift by the width of a 32-bit RTT or more means nothing.
pub const RTT_LOG_MAX: u8 = 31;

/// Bits of the burst's size limit; an allowance shifted by more is none.
const ALLOWANCE_BITS: u64 = 32;

/// What [`autosize`] depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Autosize {
    /// Pacing rate in B/s; `u64::MAX` is unlimited.
    pub pacing_rate: u64,
    /// Payload bytes of a segment; 0 counts as 1.
    pub mss: u64,
    /// Most payload bytes of a burst.
    pub gso_max: u64,
    /// Windowed minimum of the round-trip time in µs; `None` before the first
    /// sample, which gives no allowance for closeness.
    pub min_rtt_us: Option<u64>,
    /// log2 of the µs of `min_rtt` that halve the allowance, 0 to 31 (larger
    /// counts as 31); `None`: no allowance. 0 is not "off": it still gives
    /// `gso_max >> min_rtt` below 32 µs.
    pub rtt_log: Option<u8>,
    /// Least segments (congestion control's or tenant's), at least 1.
    pub min_segs: u64,
    /// Most segments (device's), at least 1; beats `min_segs`.
    pub max_segs: u64,
    /// log2 of the share of a second whose bytes a burst takes (10: 1/1024 s).
    pub shift: u32,
}

/// Segments of a burst: at least 1, at most `max_segs`. Falls with `min_rtt`,
/// rises with the rate.
#[inline]
pub fn autosize(a: &Autosize) -> u64 {
    let mut bytes = a.pacing_rate.checked_shr(a.shift).unwrap_or(0);
    if let (Some(rtt), Some(log)) = (a.min_rtt_us, a.rtt_log) {
        let halvings = rtt >> log.min(RTT_LOG_MAX);
        if halvings < ALLOWANCE_BITS {
            bytes = bytes.saturating_add(a.gso_max >> halvings);
        }
    }
    let by_bytes = bytes.min(a.gso_max) / a.mss.max(1);
    by_bytes.max(a.min_segs).min(a.max_segs).max(1)
}

/// Segments that the congestion window lets go as one burst: what is left of
/// it, but never more than half of it, so that at least two bursts are in
/// flight. 0 when it is full.
#[inline]
pub fn cwnd_quota(cwnd: u64, in_flight: u64) -> u64 {
    (cwnd / 2).max(1).min(cwnd.saturating_sub(in_flight))
}

/// What [`split_point`] depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Bytes of the buffer at the head of the send queue.
    pub len: u64,
    /// Payload bytes of a segment; 0 counts as 1.
    pub mss: u64,
    /// Segments that may go (size and quota).
    pub segs: u64,
    /// Bytes of the peer's window from the buffer's first byte on.
    pub window: u64,
    /// Whether nothing is queued behind the buffer.
    pub tail: bool,
    /// Whether the small-packet rule (Nagle, Minshall) forbids a last partial
    /// segment now.
    pub partial_blocked: bool,
}

/// Bytes of the buffer that go now, at most `len`.
#[inline]
pub fn split_point(s: &Split) -> u64 {
    let mss = s.mss.max(1);
    let most = s.segs.saturating_mul(mss);
    let need = s.len.min(s.window);
    if !s.tail && most <= s.window {
        return most.min(s.len);
    }
    if most <= need {
        return most;
    }
    if s.partial_blocked {
        need - need % mss
    } else {
        need
    }
}

/// What [`should_defer`] depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeferInput {
    /// In fast recovery or after a time-out.
    pub in_recovery: bool,
    /// Now, ns.
    pub now_ns: u64,
    /// Departure time of the last transmission, ns; may lie in the future.
    pub wstamp_ns: u64,
    /// Segments in flight.
    pub in_flight: u64,
    /// Congestion window in segments.
    pub cwnd: u64,
    /// The peer's window in bytes.
    pub snd_wnd: u64,
    /// Bytes of the peer's window from the buffer's first byte on.
    pub wnd_left: u64,
    /// Payload bytes of a segment.
    pub mss: u64,
    /// Segments of a full burst.
    pub segs: u64,
    /// Bytes of the buffer.
    pub len: u64,
    /// Whether nothing is queued behind the buffer.
    pub tail: bool,
    /// Share of the window that is worth sending at once, as its divisor;
    /// 0: more than three segments are.
    pub win_divisor: u64,
    /// When the oldest unacknowledged buffer was sent, ns; `None` when nothing
    /// is in flight.
    pub head_sent_ns: Option<u64>,
    /// Eight times the smoothed round-trip time, µs.
    pub srtt8_us: u64,
    /// The buffer ends with FIN or an end of record: it will not grow.
    pub fin_or_eor: bool,
}

/// Whether to wait, and what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deferral {
    /// Wait for more window or data.
    pub defer: bool,
    /// The congestion window is what holds the burst back.
    pub cwnd_limited: bool,
    /// The peer's window is.
    pub rwnd_limited: bool,
}

const NS_PER_MS: i128 = 1_000_000;
/// Nanoseconds of an eighth of a microsecond.
const NS_PER_EIGHTH_US: i128 = 125;
/// Segments of open window beyond which a burst goes at once without a divisor.
const DEFER_MSS_MAX: u64 = 3;

/// Whether a burst of more than one segment had better wait.
#[inline]
pub fn should_defer(d: &DeferInput) -> Deferral {
    let send_now = Deferral::default();
    // First what nearly every burst passes by.
    let congestion = d.cwnd.saturating_sub(d.in_flight).saturating_mul(d.mss);
    let limit = d.wnd_left.min(congestion);
    if limit >= d.segs.saturating_mul(d.mss) || (!d.tail && limit >= d.len) {
        return send_now;
    }
    let now = i128::from(d.now_ns);
    if d.in_recovery || now - i128::from(d.wstamp_ns) > NS_PER_MS {
        return send_now;
    }
    let enough = match d
        .snd_wnd
        .min(d.cwnd.saturating_mul(d.mss))
        .checked_div(d.win_divisor)
    {
        Some(share) => limit >= share,
        None => limit > DEFER_MSS_MAX.saturating_mul(d.mss),
    };
    if enough {
        return send_now;
    }
    let Some(head_sent) = d.head_sent_ns else {
        return send_now;
    };
    let srtt = i128::from(d.srtt8_us) * NS_PER_EIGHTH_US;
    let ack_in = i128::from(head_sent) + srtt - now;
    if ack_in > (srtt / 2).min(NS_PER_MS) {
        return send_now;
    }
    let cwnd_limited = congestion < d.wnd_left && congestion <= d.len;
    let rwnd_limited = d.wnd_left <= congestion && d.wnd_left <= d.len;
    if !cwnd_limited && !rwnd_limited && d.fin_or_eor {
        return send_now;
    }
    Deferral {
        defer: true,
        cwnd_limited,
        rwnd_limited,
    }
}

/// Largest IPv4 packet.
const IP_MAX: u64 = 65_535;

/// Segments of a burst by the rule of 2004: the share `1/divisor` of the
/// congestion window (`divisor` 0: all of it), at least one, and what fits one
/// IPv4 packet with `header_len` bytes of IP and TCP header (0 when not even
/// one segment does).
pub fn win_divisor_2004(mss: u64, cwnd: u64, divisor: u64, header_len: u64) -> u64 {
    let fits = IP_MAX.saturating_sub(header_len) / mss.max(1);
    fits.min(cwnd.checked_div(divisor).unwrap_or(cwnd).max(1))
}

#[cfg(test)]
#[path = "tso_tests.rs"]
mod tests;
