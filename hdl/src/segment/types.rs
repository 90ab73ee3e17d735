// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes between the parts of the segmenter.

#![allow(missing_docs)] // The derives write undocumented accessors.

use rust_hdl::prelude::*;

/// One segment to be made (91 bits, `kind` lowest). Lengths in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SegmentJob {
    /// `tsonic_regs::descriptor::Kind`: 0 raw, 1 checksum only, 2 TSO, 3 USO.
    pub kind: Bits<2>,
    /// The L3 header is IPv6.
    pub ipv6: Bit,
    /// The IPv4 identification stays that of the template.
    pub ip_id_fixed: Bit,
    /// CWR stays on every segment.
    pub cwr_all: Bit,
    /// Bytes of the L2 header.
    pub l2_len: Bits<8>,
    /// Bytes of the L3 header with extension headers.
    pub l3_len: Bits<9>,
    /// Bytes of the L4 header; 8 means UDP.
    pub l4_len: Bits<7>,
    /// Payload bytes of this segment; 0 has no payload beat.
    pub len: Bits<16>,
    /// Payload bytes of the burst before this segment.
    pub offset: Bits<18>,
    /// Number of the segment in its burst.
    pub index: Bits<18>,
    /// First segment of the burst.
    pub first: Bit,
    /// Last segment of the burst.
    pub last: Bit,
    /// Comes back with `departed`.
    pub ctx: Bits<8>,
}

/// A job with everything that follows from its lengths.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct JobPlan {
    /// Comes back with `departed`.
    pub ctx: Bits<8>,
    /// Last segment of the burst.
    pub last: Bit,
    /// The job breaks a rule: consume its beats, send nothing.
    pub bad: Bit,
    /// Bytes of the frame.
    pub frame: Bits<17>,
    /// Words of the header, padded in front; at least 1.
    pub header_words: Bits<6>,
    /// Half the bytes of padding in front of the header.
    pub pad: Bits<2>,
    /// Words of the payload.
    pub words: Bits<14>,
    /// Payload bytes modulo 8.
    pub tail: Bits<3>,
    /// The frame's last word outlives the shift by the padding.
    pub spill: Bit,
    /// Checksums and fields are patched.
    pub patched: Bit,
    /// L4 is UDP.
    pub udp: Bit,
    /// L3 is IPv6.
    pub ipv6: Bit,
    /// An L4 checksum of 0 becomes 0xffff.
    pub no_zero: Bit,
    /// L3 starts at minus this many 32-bit granules (two's complement).
    pub pos3: Bits<8>,
    /// L4 starts at minus this many granules.
    pub pos4: Bits<8>,
    /// Added to the IPv4 identification.
    pub id_add: Bits<16>,
    /// Added to the sequence number.
    pub offset: Bits<18>,
    /// IPv4 total length or IPv6 payload length.
    pub ip_len: Bits<16>,
    /// Bytes of L4 header and payload.
    pub l4_bytes: Bits<16>,
    /// `l4_bytes` + protocol number: the pseudo header without addresses.
    pub pseudo: Bits<17>,
    /// Clear FIN and PSH.
    pub clear_end: Bit,
    /// Clear CWR.
    pub clear_cwr: Bit,
}

/// A word of the header RAM: data, byte 0 most significant, and where checksums
/// go (the places hold zeros).
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct HeaderWord {
    /// Header bytes.
    pub data: Bits<64>,
    /// The IPv4 header checksum goes into bytes 2..4.
    pub ip_low: Bit,
    /// The IPv4 header checksum goes into bytes 6..8.
    pub ip_high: Bit,
    /// The L4 checksum goes into the first half (TCP: bytes 0..2, UDP: 2..4).
    pub l4_low: Bit,
    /// The L4 checksum goes into the second half.
    pub l4_high: Bit,
}

/// What the loader knows at a header's end.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct HeaderSums {
    /// IPv4 header checksum.
    pub ip_csum: Bits<16>,
    /// Sum of pseudo header and L4 header, partly folded.
    pub l4_sum: Bits<18>,
    /// The header had the wrong length or `err`.
    pub err: Bit,
}

/// What the slicer knows at a payload's end.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct PayloadSum {
    /// Sum of the payload's halfwords, partly folded.
    pub sum: Bits<17>,
    /// The payload had the wrong length or `err`, or the job is bad; the ring
    /// holds nothing of it.
    pub err: Bit,
}

/// A segment that is ready to leave.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct SegmentPlan {
    /// Comes back with `departed`.
    pub ctx: Bits<8>,
    /// Last segment of the burst.
    pub last: Bit,
    /// Read the words of header and payload, but send nothing.
    pub err: Bit,
    /// Bytes of the frame.
    pub frame: Bits<17>,
    /// Words of the header.
    pub header_words: Bits<6>,
    /// Words of the payload in the ring.
    pub words: Bits<14>,
    /// Half the bytes of padding.
    pub pad: Bits<2>,
    /// The frame's last word outlives the shift by the padding.
    pub spill: Bit,
    /// L4 is UDP.
    pub udp: Bit,
    /// IPv4 header checksum.
    pub ip_csum: Bits<16>,
    /// L4 checksum.
    pub l4_csum: Bits<16>,
}

/// A frame that has left, or a segment that was dropped.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
pub struct Departed {
    /// Of the job.
    pub ctx: Bits<8>,
    /// Bytes of the frame without FCS; 0 when dropped.
    pub wire_bytes: Bits<17>,
    /// The segment was dropped.
    pub err: Bit,
    /// It was the last of its burst.
    pub last: Bit,
}
