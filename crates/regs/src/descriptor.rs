// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors: what the driver writes into rings. Little endian.
//!
//! A transmit ring slot is one burst descriptor of 64 bytes. It holds two
//! fragments itself; a burst with more keeps fragments 1.. in a *continuation
//! list* elsewhere in host memory, 16 bytes each, to which `frag1_addr` points.
//! So a slot is always one burst, and is free again as soon as it is fetched.
//! The memory that a descriptor points to (header template, list, payload)
//! belongs to the device until the burst's completion.

use crate::layout::word;

/// What the device does with a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Send as it stands, one frame.
    Raw = 0,
    /// One frame; finish the L4 checksum (and the IPv4 header checksum).
    Csum = 1,
    /// TCP segmentation.
    Tso = 2,
    /// UDP segmentation.
    Uso = 3,
}

impl Kind {
    /// The kind of a code.
    pub const fn from_code(code: u8) -> Option<Kind> {
        match code {
            0 => Some(Kind::Raw),
            1 => Some(Kind::Csum),
            2 => Some(Kind::Tso),
            3 => Some(Kind::Uso),
            _ => None,
        }
    }
}

word! {
    /// Word 0 of a burst descriptor: what to do and how the header is laid out.
    TxControl(u64) / tx_control {
        /// What to do: 0 raw, 1 checksum only, 2 TSO, 3 USO.
        kind, set_kind, KIND: u8 = 3..0;
        /// 1: the L3 header is IPv6, 0: IPv4.
        ipv6, set_ipv6, IPV6: u8 = 4..4;
        /// 1: every segment keeps the template's IPv4 identification, 0: it increments.
        ip_id_fixed, set_ip_id_fixed, IP_ID_FIXED: u8 = 5..5;
        /// 1: CWR stays on all segments (accurate ECN), 0: on the first only.
        cwr_all, set_cwr_all, CWR_ALL: u8 = 6..6;
        /// 1: complete at once, whatever moderation says.
        timestamp, set_timestamp, TIMESTAMP: u8 = 7..7;
        /// 1: word 4 is a launch time.
        launch, set_launch, LAUNCH: u8 = 8..8;
        /// Bytes of the L2 header with VLAN tags (14, 18, 22).
        l2_len, set_l2_len, L2_LEN: u8 = 23..16;
        /// Bytes of the L3 header with IPv6 extension headers.
        l3_len, set_l3_len, L3_LEN: u16 = 32..24;
        /// Bytes of the L4 header with options. The template's length is l2_len + l3_len + l4_len.
        l4_len, set_l4_len, L4_LEN: u8 = 39..33;
        /// Payload fragments, 0 to 17.
        fragments, set_fragments, FRAGMENTS: u8 = 44..40;
        /// Payload bytes of one segment (TSO, USO).
        mss, set_mss, MSS: u16 = 63..48;
    }
}

word! {
    /// Word 1: sizes and identities.
    TxBurst(u64) / tx_burst {
        /// Payload bytes of the burst.
        payload_len, set_payload_len, PAYLOAD_LEN: u32 = 17..0;
        /// Row of the flow table; 0 is unpaced.
        flow_slot, set_flow_slot, FLOW_SLOT: u16 = 33..18;
        /// The driver's own number for the burst; the completion returns it. Never `COOKIE_NONE`.
        cookie, set_cookie, COOKIE: u16 = 49..34;
        /// Payload of the flow in the device above which it is told to throttle, in KiB; 0: no limit. Never blocks; of no effect with slot 0 or without FLOW_LIMIT.
        flow_limit, set_flow_limit, FLOW_LIMIT: u16 = 63..50;
    }
}

word! {
    /// Word 3: the flow's rate from this burst on.
    TxRate(u64) / tx_rate {
        /// Ticks per wire byte, 20.28 fixed point, rounded up; 0: launch time only.
        inv_rate, set_inv_rate, INV_RATE: u64 = 47..0;
    }
}

word! {
    /// Word 7: lengths of the inline fragments.
    TxLengths(u64) / tx_lengths {
        /// Bytes of fragment 0.
        frag0_len, set_frag0_len, FRAG0_LEN: u32 = 17..0;
        /// Bytes of fragment 1; 0 when word 6 points to a continuation list.
        frag1_len, set_frag1_len, FRAG1_LEN: u32 = 49..32;
    }
}

/// `TxBurst::cookie` of completions that belong to no burst.
pub const COOKIE_NONE: u16 = 0xffff;

/// A burst descriptor: one slot of a transmit ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TxDescriptor {
    /// Word 0.
    pub control: TxControl,
    /// Word 1.
    pub burst: TxBurst,
    /// Word 2: address of the header template.
    pub header_addr: u64,
    /// Word 3.
    pub rate: TxRate,
    /// Word 4: launch time in ticks, when `control.launch` says so.
    pub launch: u64,
    /// Word 5: address of fragment 0.
    pub frag0_addr: u64,
    /// Word 6: address of fragment 1 or, with more than two fragments, of the
    /// continuation list with fragments 1.., aligned to 16.
    pub frag1_addr: u64,
    /// Word 7.
    pub lengths: TxLengths,
}

impl TxDescriptor {
    /// Bytes of a slot.
    pub const BYTES: usize = 64;
    /// 64-bit words of a slot.
    pub const WORDS: usize = Self::BYTES / 8;
    /// Reserved bits of words 0, 3 and 7; word 1 has none.
    pub const RESERVED: [(usize, u64); 3] = [
        (0, !mask(tx_control::FIELDS)),
        (3, !mask(tx_rate::FIELDS)),
        (7, !mask(tx_lengths::FIELDS)),
    ];

    /// The slot as words.
    pub const fn to_words(self) -> [u64; Self::WORDS] {
        [
            self.control.0,
            self.burst.0,
            self.header_addr,
            self.rate.0,
            self.launch,
            self.frag0_addr,
            self.frag1_addr,
            self.lengths.0,
        ]
    }

    /// Words as a slot; any words are one.
    pub const fn from_words(w: [u64; Self::WORDS]) -> TxDescriptor {
        TxDescriptor {
            control: TxControl(w[0]),
            burst: TxBurst(w[1]),
            header_addr: w[2],
            rate: TxRate(w[3]),
            launch: w[4],
            frag0_addr: w[5],
            frag1_addr: w[6],
            lengths: TxLengths(w[7]),
        }
    }

    /// Bytes of the header template.
    pub fn header_len(&self) -> usize {
        usize::from(self.control.l2_len())
            + usize::from(self.control.l3_len())
            + usize::from(self.control.l4_len())
    }
}

word! {
    /// Word 1 of a continuation entry.
    FragmentLength(u64) / fragment_length {
        /// Bytes of the fragment, at least 1.
        bytes, set_bytes, BYTES: u32 = 17..0;
    }
}

/// One entry of a continuation list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct FragmentEntry {
    /// Word 0: address.
    pub addr: u64,
    /// Word 1.
    pub length: FragmentLength,
}

impl FragmentEntry {
    /// Bytes of an entry.
    pub const BYTES: usize = 16;
}

word! {
    /// Word 1 of a receive buffer descriptor.
    RxBuffer(u64) / rx_buffer {
        /// Bytes of the buffer, at least 64; a frame that is longer goes on in the next buffer.
        bytes, set_bytes, BYTES: u16 = 15..0;
        /// The driver's own number for the buffer; the completion returns it.
        cookie, set_cookie, COOKIE: u16 = 31..16;
    }
}

/// A receive buffer descriptor: one slot of a receive ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct RxDescriptor {
    /// Word 0: address of the buffer, aligned to 8.
    pub addr: u64,
    /// Word 1.
    pub buffer: RxBuffer,
}

impl RxDescriptor {
    /// Bytes of a slot.
    pub const BYTES: usize = 16;
}

const fn mask(fields: &[crate::layout::Field]) -> u64 {
    let mut m = 0;
    let mut i = 0;
    while i < fields.len() {
        m |= fields[i].mask();
        i += 1;
    }
    m
}

const _: () = assert!(size_of::<TxDescriptor>() == TxDescriptor::BYTES);
const _: () = assert!(mask(tx_burst::FIELDS) == u64::MAX);
const _: () = assert!(size_of::<FragmentEntry>() == FragmentEntry::BYTES);
const _: () = assert!(size_of::<RxDescriptor>() == RxDescriptor::BYTES);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_every_field_through_its_words() {
        let mut d = TxDescriptor::default();
        d.control.set_kind(Kind::Tso as u8);
        d.control.set_l2_len(14);
        d.control.set_l3_len(20);
        d.control.set_l4_len(32);
        d.control.set_mss(1448);
        d.burst.set_payload_len(65_160);
        d.burst.set_cookie(0x1234);
        d.rate.set_inv_rate((1 << 48) - 1);
        d.lengths.set_frag1_len(0x3_ffff);
        let back = TxDescriptor::from_words(d.to_words());
        assert_eq!(back, d);
        assert_eq!(back.header_len(), 66);
        assert_eq!(back.control.mss(), 1448);
        assert_eq!(back.lengths.frag1_len(), 0x3_ffff);
        for (word, reserved) in TxDescriptor::RESERVED {
            assert_eq!(back.to_words()[word] & reserved, 0);
        }
    }
}
