// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completions: what the device writes into completion rings, 32 bytes each.
//! Little endian.
//!
//! The phase bit stands in the last word, which is written last: it is 1 on the
//! first pass over the ring, and turns over with each pass. The device never
//! overruns a completion ring of a driver that keeps at most as many bursts (or
//! buffers) in the device as the ring has entries, less [`COMPLETION_SLACK`].

use crate::layout::word;

/// Entries of a completion ring that a driver leaves free for completions that
/// belong to no burst (doorbell errors).
pub const COMPLETION_SLACK: usize = 8;
/// Bytes of a completion.
pub const COMPLETION_BYTES: usize = 32;
/// 64-bit words of a completion.
pub const COMPLETION_WORDS: usize = COMPLETION_BYTES / 8;

word! {
    /// Word 0 of a transmit completion.
    TxStatus(u64) / tx_status {
        /// [`crate::Status`] of the burst.
        status, set_status, STATUS: u8 = 7..0;
        /// 1: the queue was congested when the burst joined it; see the module.
        cn, set_cn, CN: u8 = 8..8;
        /// 1: the flow passed its byte limit when the burst joined it.
        throttle, set_throttle, THROTTLE: u8 = 9..9;
        /// 1: the flow is within its byte limit again.
        wake, set_wake, WAKE: u8 = 10..10;
        /// Queue of the burst.
        queue, set_queue, QUEUE: u16 = 31..16;
        /// Flow slot of the burst.
        flow_slot, set_flow_slot, FLOW_SLOT: u16 = 47..32;
        /// Cookie of the burst.
        cookie, set_cookie, COOKIE: u16 = 63..48;
    }
}

word! {
    /// Word 3 of a transmit completion.
    TxDone(u64) / tx_done {
        /// Wire bytes of the burst that departed.
        wire_bytes, set_wire_bytes, WIRE_BYTES: u32 = 31..0;
        /// Frames of the burst that departed.
        segments, set_segments, SEGMENTS: u32 = 49..32;
        /// Ring index of the next descriptor to be fetched: slots before it are free.
        head, set_head, HEAD: u16 = 61..50;
        /// Phase; see the module.
        phase, set_phase, PHASE: u8 = 63..63;
    }
}

word! {
    /// Word 0 of a budget's write-back.
    WriteBackBytes(u64) / write_back_bytes {
        /// Limit in wire bytes.
        limit, set_limit, LIMIT: u32 = 31..0;
        /// Wire bytes charged and not credited.
        inflight, set_inflight, INFLIGHT: u32 = 63..32;
    }
}

word! {
    /// Word 1 of a budget's write-back.
    WriteBackStalls(u64) / write_back_stalls {
        /// Stalls found since the budget was started.
        count, set_count, COUNT: u32 = 31..0;
        /// Longest of them in ticks, a multiple of 2^[`crate::limits::BQL_STALL_SHIFT`], saturating.
        longest, set_longest, LONGEST: u32 = 63..32;
    }
}

/// A queue's budget as the device writes it back, in one write, after each credit
/// flush that credited the queue, and when the budget is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct WriteBack {
    /// Word 0.
    pub bytes: WriteBackBytes,
    /// Word 1.
    pub stalls: WriteBackStalls,
}

impl WriteBack {
    /// Bytes of a write-back.
    pub const BYTES: usize = 16;

    /// As words.
    pub const fn to_words(self) -> [u64; 2] {
        [self.bytes.0, self.stalls.0]
    }

    /// Words as a write-back; any words are one.
    pub const fn from_words(w: [u64; 2]) -> WriteBack {
        WriteBack {
            bytes: WriteBackBytes(w[0]),
            stalls: WriteBackStalls(w[1]),
        }
    }
}

/// A transmit completion, written when the burst's last frame has departed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct TxCompletion {
    /// Word 0.
    pub status: TxStatus,
    /// Word 1: departure of the first frame in ticks (its last byte handed to the MAC).
    pub first_departure: u64,
    /// Word 2: departure of the last frame in ticks.
    pub last_departure: u64,
    /// Word 3.
    pub done: TxDone,
}

/// Verdict on a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ChecksumVerdict {
    /// There is none to check.
    None = 0,
    /// Right.
    Ok = 1,
    /// Wrong.
    Bad = 2,
}

/// What the RSS hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum HashKind {
    /// Not IP: no hash.
    None = 0,
    /// Addresses.
    L3 = 1,
    /// Addresses and ports.
    L4 = 2,
}

word! {
    /// Word 0 of a receive completion.
    RxStatus(u64) / rx_status {
        /// [`crate::Status`] of the frame.
        status, set_status, STATUS: u8 = 7..0;
        /// 1: the buffer holds the frame's first byte.
        sop, set_sop, SOP: u8 = 8..8;
        /// 1: the buffer holds the frame's last byte.
        eop, set_eop, EOP: u8 = 9..9;
        /// IPv4 header checksum: 0 none, 1 ok, 2 bad.
        ip_csum, set_ip_csum, IP_CSUM: u8 = 11..10;
        /// L4 checksum: 0 none, 1 ok, 2 bad.
        l4_csum, set_l4_csum, L4_CSUM: u8 = 13..12;
        /// RSS hash over: 0 nothing, 1 addresses, 2 addresses and ports.
        hash_kind, set_hash_kind, HASH_KIND: u8 = 15..14;
        /// Queue that RSS chose.
        queue, set_queue, QUEUE: u16 = 31..16;
        /// Cookie of the buffer.
        cookie, set_cookie, COOKIE: u16 = 47..32;
        /// Bytes in this buffer.
        bytes, set_bytes, BYTES: u16 = 63..48;
    }
}

word! {
    /// Word 2 of a receive completion.
    RxHash(u64) / rx_hash {
        /// Toeplitz hash.
        hash, set_hash, HASH: u32 = 31..0;
        /// Bytes of the whole frame without FCS (valid with EOP).
        frame_len, set_frame_len, FRAME_LEN: u16 = 47..32;
    }
}

word! {
    /// Word 3 of a receive completion.
    RxDone(u64) / rx_done {
        /// Phase; see the module.
        phase, set_phase, PHASE: u8 = 63..63;
    }
}

/// A receive completion: one a buffer used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct RxCompletion {
    /// Word 0.
    pub status: RxStatus,
    /// Word 1: arrival of the frame's first byte in ticks.
    pub arrival: u64,
    /// Word 2.
    pub hash: RxHash,
    /// Word 3.
    pub done: RxDone,
}

impl TxCompletion {
    /// The completion as words.
    pub const fn to_words(self) -> [u64; COMPLETION_WORDS] {
        [
            self.status.0,
            self.first_departure,
            self.last_departure,
            self.done.0,
        ]
    }

    /// Words as a completion; any words are one.
    pub const fn from_words(w: [u64; COMPLETION_WORDS]) -> TxCompletion {
        TxCompletion {
            status: TxStatus(w[0]),
            first_departure: w[1],
            last_departure: w[2],
            done: TxDone(w[3]),
        }
    }
}

impl RxCompletion {
    /// The completion as words.
    pub const fn to_words(self) -> [u64; COMPLETION_WORDS] {
        [self.status.0, self.arrival, self.hash.0, self.done.0]
    }

    /// Words as a completion; any words are one.
    pub const fn from_words(w: [u64; COMPLETION_WORDS]) -> RxCompletion {
        RxCompletion {
            status: RxStatus(w[0]),
            arrival: w[1],
            hash: RxHash(w[2]),
            done: RxDone(w[3]),
        }
    }
}

const _: () = assert!(size_of::<TxCompletion>() == COMPLETION_BYTES);
const _: () = assert!(size_of::<RxCompletion>() == COMPLETION_BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_keep_every_field_through_their_words() {
        let mut c = TxCompletion::default();
        c.status.set_status(3);
        c.status.set_cookie(0xfffe);
        c.done.set_wire_bytes(68_130);
        c.done.set_segments(45);
        c.done.set_head(4095);
        c.done.set_phase(1);
        assert_eq!(TxCompletion::from_words(c.to_words()), c);
        assert_eq!(
            (c.done.head(), c.done.phase(), c.done.segments()),
            (4095, 1, 45)
        );
        let mut r = RxCompletion::default();
        r.status.set_l4_csum(ChecksumVerdict::Bad as u8);
        r.status.set_bytes(1514);
        r.hash.set_frame_len(9014);
        assert_eq!(RxCompletion::from_words(r.to_words()), r);
        assert_eq!(r.status.l4_csum(), 2);
    }
}
