// SPDX-License-Identifier: MIT OR Apache-2.0
//! What passes between the parts of payload.

#![allow(missing_docs)] // The derives write undocumented accessors.

use rust_hdl::prelude::*;

/// A read under way: where its bytes stand and where they belong.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Piece {
    /// First byte's place in the first word.
    pub start: Bits<3>,
    /// Bytes, 1 to 512.
    pub len: Bits<10>,
    /// Places of the buffer kept for it.
    pub places: Bits<7>,
    /// Last piece of a header or of a payload.
    pub stream_end: Bit,
    /// Last piece of a segment.
    pub job_end: Bit,
}

/// A word in the buffer, with what is to be done with it: 72 bits, which is what
/// two block RAMs hold 512 of.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Word {
    /// As it came from memory.
    pub data: Bits<64>,
    /// Bytes to rotate it left by.
    pub rotate: Bits<3>,
    /// Bytes that stand in the hold register before it.
    pub held: Bits<3>,
    /// It completes a beat.
    pub emit: Bit,
    /// The beat is the last one of its header or payload. Without `emit`: the read
    /// failed, the segment ends here with such a beat.
    pub last: Bit,
}

/// A segment whose reads have been asked for: a `SegmentJob` and `dropped`.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Planned {
    pub kind: Bits<2>,
    pub ipv6: Bit,
    pub ip_id_fixed: Bit,
    pub cwr_all: Bit,
    pub l2_len: Bits<8>,
    pub l3_len: Bits<9>,
    pub l4_len: Bits<7>,
    pub len: Bits<16>,
    pub offset: Bits<18>,
    pub index: Bits<18>,
    pub first: Bit,
    pub last: Bit,
    pub ctx: Bits<8>,
    /// Nothing is read and nothing is to be sent.
    pub dropped: Bit,
}

/// A beat towards the segmenter.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Gathered {
    pub data: Bits<64>,
    pub last: Bit,
    pub err: Bit,
}
