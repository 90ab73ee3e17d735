// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segmentation: one template and a long payload in, frames that stand alone
//! out, as the kernel's GSO engine would make them.
//!
//! Per segment: the IPv4 identification counts (or stays), lengths are made
//! anew, the sequence number moves on, FIN and PSH stay on the last segment only,
//! CWR on the first only (or on all: accurate ECN), all else is copied; both
//! checksums are computed from nothing the template says about them. A UDP
//! checksum of 0 is sent as 0xffff, and so is a TCP one in checksum-only mode.
//!
//! Lengths are bytes. Header lengths are those that [`tsonic_regs::check`] lets
//! through; a frame shorter than its header lengths is left as it stands.

use tsonic_regs::Status;
use tsonic_regs::check::{BuildLimits, UDP_HEADER, check};
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::limits::PAYLOAD_MAX;

use super::checksum::{IPV6_HEADER, TCP, UDP, fold, pseudo_sum, sum};

const TCP_FIN: u8 = 0x01;
const TCP_PSH: u8 = 0x08;
const TCP_CWR: u8 = 0x80;
/// Offset of the flags in a TCP header.
const TCP_FLAGS: usize = 13;
/// Offset of the checksum in a TCP header, and in a UDP header.
const TCP_CHECKSUM: usize = 16;
const UDP_CHECKSUM: usize = 6;

/// How a burst's frames are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What to do.
    pub kind: Kind,
    /// IPv6, not IPv4.
    pub ipv6: bool,
    /// The IPv4 identification does not count.
    pub ip_id_fixed: bool,
    /// CWR stays on all segments.
    pub cwr_all: bool,
    /// Bytes of the L2 header.
    pub l2_len: usize,
    /// Bytes of the L3 header with extension headers.
    pub l3_len: usize,
    /// Bytes of the L4 header; 8 is UDP, any other TCP.
    pub l4_len: usize,
    /// Payload bytes of one segment; not used for raw and checksum-only bursts.
    pub mss: usize,
}

/// Which segment of a burst a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Segment number.
    pub index: u32,
    /// Payload bytes before it.
    pub offset: u32,
    /// It is the first.
    pub first: bool,
    /// It is the last.
    pub last: bool,
}

impl Layout {
    /// The layout that a descriptor asks for; `None` for an unknown kind.
    pub fn of(d: &TxDescriptor) -> Option<Layout> {
        Some(Layout {
            kind: Kind::from_code(d.control.kind())?,
            ipv6: d.control.ipv6() == 1,
            ip_id_fixed: d.control.ip_id_fixed() == 1,
            cwr_all: d.control.cwr_all() == 1,
            l2_len: d.control.l2_len().into(),
            l3_len: d.control.l3_len().into(),
            l4_len: d.control.l4_len().into(),
            mss: d.control.mss().into(),
        })
    }

    /// Bytes of the template.
    pub const fn header_len(&self) -> usize {
        self.l2_len + self.l3_len + self.l4_len
    }

    /// Whether the payload is cut.
    pub const fn segmented(&self) -> bool {
        matches!(self.kind, Kind::Tso | Kind::Uso)
    }

    /// Payload bytes of the segment that starts at `offset` of `payload_len`.
    pub fn segment_len(&self, payload_len: usize, offset: usize) -> usize {
        let rest = payload_len.saturating_sub(offset);
        if self.segmented() {
            rest.min(self.mss)
        } else {
            rest
        }
    }
}

/// [`check`], and besides: a segment fits the length field of its IP packet. Only
/// a build with a `max_segment` far above the default can be asked for one that
/// does not.
pub fn check_burst(d: &TxDescriptor, build: &BuildLimits) -> Status {
    let status = check(d, build);
    let Some(layout) = Layout::of(d).filter(|l| status == Status::Ok && l.kind != Kind::Raw) else {
        return status;
    };
    let counted = layout.l3_len - if layout.ipv6 { IPV6_HEADER } else { 0 };
    let payload = layout.segment_len(d.burst.payload_len() as usize, 0);
    if counted + layout.l4_len + payload > usize::from(u16::MAX) {
        return Status::SegmentTooLarge;
    }
    Status::Ok
}

/// Makes a copy of the template with a segment's payload behind it into that
/// segment. `frame` is the whole frame.
pub fn finish(frame: &mut [u8], layout: &Layout, place: Place) {
    if layout.kind == Kind::Raw || frame.len() < layout.header_len() {
        return;
    }
    let from_l3 = frame.len() - layout.l2_len;
    let (_, packet) = frame.split_at_mut(layout.l2_len);
    let (l3, l4) = packet.split_at_mut(layout.l3_len);
    if layout.ipv6 {
        put16(l3, 4, (from_l3 - IPV6_HEADER) as u16);
    } else {
        put16(l3, 2, from_l3 as u16);
        if layout.segmented() && !layout.ip_id_fixed {
            let id = get16(l3, 4).wrapping_add(place.index as u16);
            put16(l3, 4, id);
        }
        put16(l3, 10, 0);
        put16(l3, 10, !fold(sum(l3)));
    }
    let udp = layout.l4_len == UDP_HEADER;
    let at = if udp { UDP_CHECKSUM } else { TCP_CHECKSUM };
    if udp {
        put16(l4, 4, l4.len() as u16);
    } else if layout.kind == Kind::Tso {
        let seq = u32::from_be_bytes([l4[4], l4[5], l4[6], l4[7]]).wrapping_add(place.offset);
        l4[4..8].copy_from_slice(&seq.to_be_bytes());
        if !place.last {
            l4[TCP_FLAGS] &= !(TCP_FIN | TCP_PSH);
        }
        if !place.first && !layout.cwr_all {
            l4[TCP_FLAGS] &= !TCP_CWR;
        }
    }
    put16(l4, at, 0);
    let protocol = if udp { UDP } else { TCP };
    let value = !fold(pseudo_sum(l3, layout.ipv6, protocol, l4.len()) + sum(l4));
    let zero_is_ones = udp || layout.kind == Kind::Csum;
    put16(
        l4,
        at,
        if value == 0 && zero_is_ones {
            0xffff
        } else {
            value
        },
    );
}

/// Cuts one super-frame, as the NIC would from a descriptor with these lengths.
///
/// # Errors
/// The status that the NIC would complete the burst with.
pub fn segment_frame(
    layout: &Layout,
    frame: &[u8],
    build: &BuildLimits,
) -> Result<Vec<Vec<u8>>, Status> {
    let mut d = TxDescriptor::default();
    d.control.set_kind(layout.kind as u8);
    d.control.set_ipv6(layout.ipv6.into());
    for (value, max) in [
        (layout.l2_len, 0xff),
        (layout.l3_len, 0x1ff),
        (layout.l4_len, 0x7f),
    ] {
        if value > max {
            return Err(Status::BadHeaderLength);
        }
    }
    d.control.set_l2_len(layout.l2_len as u8);
    d.control.set_l3_len(layout.l3_len as u16);
    d.control.set_l4_len(layout.l4_len as u8);
    // An mss beyond the field is above any payload of a single frame, too.
    d.control.set_mss(layout.mss.min(0xffff) as u16);
    let Some(payload) = frame.get(layout.header_len()..) else {
        return Err(Status::BadHeaderLength);
    };
    if payload.len() > PAYLOAD_MAX {
        return Err(Status::LengthMismatch);
    }
    d.burst.set_payload_len(payload.len() as u32);
    if !payload.is_empty() {
        d.control.set_fragments(1);
        d.lengths.set_frag0_len(payload.len() as u32);
    }
    match check_burst(&d, build) {
        Status::Ok => {}
        status => return Err(status),
    }
    let header = &frame[..layout.header_len()];
    let mut frames = Vec::new();
    let (mut offset, mut index) = (0, 0);
    loop {
        let len = layout.segment_len(payload.len(), offset);
        let last = offset + len >= payload.len();
        let mut out = Vec::with_capacity(header.len() + len);
        out.extend_from_slice(header);
        out.extend_from_slice(&payload[offset..offset + len]);
        let place = Place {
            index,
            offset: offset as u32,
            first: index == 0,
            last,
        };
        finish(&mut out, layout, place);
        frames.push(out);
        if last {
            return Ok(frames);
        }
        offset += len;
        index += 1;
    }
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsonic_regs::registers::Features;

    fn build(max_segment: u32) -> BuildLimits {
        let mut features = Features(0);
        features.set_tso(1);
        features.set_uso(1);
        BuildLimits {
            features,
            flow_slots: 1,
            max_segment,
        }
    }

    fn tcp4() -> (Layout, Vec<u8>) {
        let mut frame = vec![0u8; 54];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[23] = TCP;
        frame[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        frame[46] = 0x50;
        frame[47] = 0xff;
        let layout = Layout {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            mss: 100,
        };
        (layout, frame)
    }

    #[test]
    fn flags_stand_where_they_belong() {
        let (mut layout, mut frame) = tcp4();
        frame.resize(54 + 250, 1);
        let flags = |f: &Vec<Vec<u8>>| f.iter().map(|f| f[47]).collect::<Vec<_>>();
        let frames = segment_frame(&layout, &frame, &build(16_000)).unwrap();
        assert_eq!(flags(&frames), [0xf6, 0x76, 0x7f]);
        layout.cwr_all = true;
        let frames = segment_frame(&layout, &frame, &build(16_000)).unwrap();
        assert_eq!(flags(&frames), [0xf6, 0xf6, 0xff]);
    }

    #[test]
    fn faults_have_codes() {
        let (mut layout, mut frame) = tcp4();
        frame.resize(54 + 250, 1);
        assert_eq!(
            segment_frame(&layout, &frame, &build(99)),
            Err(Status::SegmentTooLarge)
        );
        layout.mss = 0;
        assert_eq!(
            segment_frame(&layout, &frame, &build(99)),
            Err(Status::MssZero)
        );
        layout.l4_len = 300;
        assert_eq!(
            segment_frame(&layout, &frame, &build(99)),
            Err(Status::BadHeaderLength)
        );
    }

    #[test]
    fn no_segment_exceeds_an_ip_packet() {
        let (mut layout, mut frame) = tcp4();
        layout.mss = 65_535;
        frame.resize(54 + 65_495, 1);
        let frames = segment_frame(&layout, &frame, &build(65_535)).unwrap();
        assert_eq!(frames[0][16..18], [0xff, 0xff]);
        frame.push(1);
        assert_eq!(
            segment_frame(&layout, &frame, &build(65_535)),
            Err(Status::SegmentTooLarge)
        );
        layout.mss = 65_495;
        let frames = segment_frame(&layout, &frame, &build(65_535)).unwrap();
        assert_eq!(frames.len(), 2);
    }

    #[test]
    fn no_payload_is_one_frame() {
        let (layout, frame) = tcp4();
        let frames = segment_frame(&layout, &frame, &build(16_000)).unwrap();
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0][47], 0xff);
    }
}
