// SPDX-License-Identifier: MIT OR Apache-2.0
//! A burst as the caller gives it, as a descriptor, and as it comes back.

use crate::rate::inverse_rate;
use tsonic_regs::Status;
use tsonic_regs::check::{BuildLimits, check};
use tsonic_regs::descriptor::{Kind, TxDescriptor, tx_burst, tx_control};
use tsonic_regs::limits::{FLOW_LIMIT_UNIT, FRAGMENTS_MAX, HEADER_MAX};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, TickRate, WireBytes};

/// A range of mapped memory as part of a burst's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// First byte for the device.
    pub iova: u64,
    /// Bytes, at least 1.
    pub len: u32,
}

/// A burst to post. Its payload stays where it is until the completion; the
/// header is copied.
#[derive(Clone, Copy, Debug)]
pub struct TxBurst<'a> {
    /// What the device does with it.
    pub kind: Kind,
    /// L3 is IPv6.
    pub ipv6: bool,
    /// Every segment keeps the template's IPv4 identification.
    pub ip_id_fixed: bool,
    /// CWR stays on all segments.
    pub cwr_all: bool,
    /// Complete at once, whatever moderation says.
    pub complete_now: bool,
    /// Bytes of the L2 header with VLAN tags.
    pub l2_len: u8,
    /// Bytes of the L3 header with extension headers.
    pub l3_len: u16,
    /// Bytes of the L4 header with options.
    pub l4_len: u8,
    /// Payload bytes of a segment (TSO, USO), else 0.
    pub mss: u16,
    /// Header template of `l2_len + l3_len + l4_len` bytes.
    pub header: &'a [u8],
    /// Payload in order, at most 17 fragments.
    pub fragments: &'a [Fragment],
    /// Row of the flow table.
    pub flow: FlowSlot,
    /// Rate of the flow in wire bytes per second from this burst on; `None`: not
    /// paced.
    pub rate: Option<ByteRate>,
    /// Payload bytes of the flow in the device above which its bursts are marked, from this
    /// burst on; `None`: no limit. Nothing is held back. Without effect in a device that
    /// has no such limits, and for row 0 of the flow table.
    pub flow_limit: Option<u32>,
    /// Earliest departure of the first segment.
    pub launch: Option<Nanos>,
    /// The caller's name for the burst; the completion returns it.
    pub token: u64,
}

/// What became of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxCompletion {
    /// The caller's name for the burst.
    pub token: u64,
    /// Its queue.
    pub queue: QueueId,
    /// Its row of the flow table.
    pub flow: FlowSlot,
    /// Rate that it was posted with, wire bytes per second.
    pub rate: Option<ByteRate>,
    /// Status code; see [`TxCompletion::status`].
    pub status_code: u8,
    /// Departure of the first frame.
    pub first_departure: Nanos,
    /// Departure of the last frame.
    pub last_departure: Nanos,
    /// Wire bytes that departed.
    pub wire_bytes: WireBytes,
    /// Frames that departed.
    pub segments: u32,
    /// The queue was congested when the burst joined it.
    pub congested: bool,
    /// The flow passed its byte limit in the device.
    pub throttled: bool,
    /// The flow fell below its byte limit again.
    pub wake: bool,
}

impl TxCompletion {
    /// The status; `None` for a code that this driver does not know (a failure).
    pub const fn status(&self) -> Option<Status> {
        Status::from_code(self.status_code)
    }
}

/// What a queue needs of its device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TxBuild {
    pub limits: BuildLimits,
    pub max_payload: u32,
    pub ticks: TickRate,
}

/// A limit in the units of a descriptor, rounded up; the largest stands for all above.
#[inline]
fn flow_limit_units(bytes: u32) -> u16 {
    let units = u64::from(bytes).div_ceil(FLOW_LIMIT_UNIT as u64);
    // 0 would be no limit.
    units.clamp(1, tx_burst::FLOW_LIMIT.max()) as u16
}

/// The descriptor of a burst without cookie and header address, if the device
/// takes it.
#[inline]
pub(crate) fn describe(
    build: &TxBuild,
    b: &TxBurst<'_>,
    list_iova: u64,
) -> Result<TxDescriptor, Status> {
    let header_len = usize::from(b.l2_len) + usize::from(b.l3_len) + usize::from(b.l4_len);
    // Also keeps every length within its field.
    if header_len != b.header.len()
        || header_len > HEADER_MAX
        || u64::from(b.l4_len) > tx_control::L4_LEN.max()
    {
        return Err(Status::BadHeaderLength);
    }
    if b.fragments.len() > FRAGMENTS_MAX {
        return Err(Status::TooManyFragments);
    }
    let (mut payload, mut empty) = (0, false);
    for f in b.fragments {
        payload += u64::from(f.len);
        empty |= f.len == 0;
    }
    if empty || payload > u64::from(build.max_payload) {
        return Err(Status::LengthMismatch);
    }
    let mut d = TxDescriptor::default();
    d.control.set_kind(b.kind as u8);
    d.control.set_ipv6(b.ipv6.into());
    d.control.set_ip_id_fixed(b.ip_id_fixed.into());
    d.control.set_cwr_all(b.cwr_all.into());
    d.control.set_timestamp(b.complete_now.into());
    d.control.set_l2_len(b.l2_len);
    d.control.set_l3_len(b.l3_len);
    d.control.set_l4_len(b.l4_len);
    d.control.set_mss(b.mss);
    d.control.set_fragments(b.fragments.len() as u8);
    d.burst.set_payload_len(payload as u32);
    d.burst.set_flow_slot(b.flow.0);
    if let Some(rate) = b.rate {
        d.rate.set_inv_rate(inverse_rate(rate, build.ticks));
    }
    if let Some(bytes) = b.flow_limit
        && build.limits.features.flow_limit() == 1
    {
        d.burst.set_flow_limit(flow_limit_units(bytes));
    }
    if let Some(launch) = b.launch {
        d.control.set_launch(1);
        d.launch = build.ticks.to_ticks_ceil(launch).0;
    }
    if let Some(f) = b.fragments.first() {
        d.frag0_addr = f.iova;
        d.lengths.set_frag0_len(f.len);
    }
    match b.fragments {
        [_, second] => {
            d.frag1_addr = second.iova;
            d.lengths.set_frag1_len(second.len);
        }
        [_, _, ..] => d.frag1_addr = list_iova,
        _ => {}
    }
    match check(&d, &build.limits) {
        Status::Ok => Ok(d),
        status => Err(status),
    }
}
