// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptor check: `tsonic_regs::check::check` in logic, with the same
//! order of codes.

use crate::prelude::*;
use crate::words::{UnpackBurst, UnpackControl, UnpackLengths};
use tsonic_regs::Status;
use tsonic_regs::check::{
    IPV4_HEADER_MAX, IPV4_HEADER_MIN, IPV6_HEADER, TCP_HEADER_MAX, TCP_HEADER_MIN, UDP_HEADER,
};
use tsonic_regs::descriptor::{FragmentEntry, Kind, TxDescriptor};
use tsonic_regs::limits::{FRAGMENTS_MAX, HEADER_MAX, INLINE_FRAGMENTS, L2_LEN_MIN};

const fn reserved(n: usize) -> u64 {
    TxDescriptor::RESERVED[n].1
}

/// Status of a descriptor by the first rule it breaks, one cycle after its
/// words are there. The words stay until the answer has been used.
#[derive(LogicBlock, Default)]
pub struct Check {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The build segments TCP.
    pub tso: Signal<In, bool>,
    /// The build segments UDP.
    pub uso: Signal<In, bool>,
    /// Rows of the flow table.
    pub flow_slots: Signal<In, Bits<17>>,
    /// Largest payload of a segment.
    pub max_segment: Signal<In, Bits<18>>,
    /// Word 0.
    pub control: Signal<In, Bits<64>>,
    /// Word 1.
    pub burst: Signal<In, Bits<64>>,
    /// Word 3.
    pub rate: Signal<In, Bits<64>>,
    /// Word 6.
    pub frag1_addr: Signal<In, Bits<64>>,
    /// Word 7.
    pub lengths: Signal<In, Bits<64>>,
    /// Code of [`Status`].
    pub status: Signal<Out, Bits<8>>,
    /// Payload bytes of one segment: mss, or the payload where it is less or
    /// the burst is not segmented.
    pub segment: Signal<Out, Bits<16>>,
    /// Bytes of the header template.
    pub header_len: Signal<Out, Bits<9>>,

    control_fields: UnpackControl,
    burst_fields: UnpackBurst,
    length_fields: UnpackLengths,

    is_reserved: DFF<Bit>,
    is_bad_kind: DFF<Bit>,
    is_bad_slot: DFF<Bit>,
    is_too_many: DFF<Bit>,
    is_bad_header: DFF<Bit>,
    is_mismatch: DFF<Bit>,
    is_mss_zero: DFF<Bit>,
    is_too_large: DFF<Bit>,
    segment_len: DFF<Bits<16>>,
    header: DFF<Bits<10>>,

    control_word: Signal<Local, Bits<64>>,
    rate_word: Signal<Local, Bits<64>>,
    length_word: Signal<Local, Bits<64>>,
    kind: Signal<Local, Bits<4>>,
    l2: Signal<Local, Bits<10>>,
    l3: Signal<Local, Bits<10>>,
    l4: Signal<Local, Bits<10>>,
    header_sum: Signal<Local, Bits<10>>,
    f0: Signal<Local, Bits<19>>,
    f1: Signal<Local, Bits<19>>,
    frag_sum: Signal<Local, Bits<19>>,
    payload: Signal<Local, Bits<18>>,
    payload_wide: Signal<Local, Bits<19>>,
    mss_wide: Signal<Local, Bits<18>>,
    fragments: Signal<Local, Bits<5>>,
    list_addr: Signal<Local, Bits<64>>,
    list_low: Signal<Local, Bits<64>>,
    segmented: Signal<Local, Bit>,
    l3_ok: Signal<Local, Bit>,
    tcp_ok: Signal<Local, Bit>,
    udp_ok: Signal<Local, Bit>,
    lengths_ok: Signal<Local, Bit>,
    f0_any: Signal<Local, Bit>,
    f1_any: Signal<Local, Bit>,
    kind_code: Signal<Local, Bits<4>>,
    slot_wide: Signal<Local, Bits<17>>,

    reserved0: Fixed<64, { reserved(0) }>,
    reserved3: Fixed<64, { reserved(1) }>,
    reserved7: Fixed<64, { reserved(2) }>,
    list_align: Fixed<64, { FragmentEntry::BYTES as u64 - 1 }>,
    kind_raw: Fixed<4, { Kind::Raw as u64 }>,
    kind_csum: Fixed<4, { Kind::Csum as u64 }>,
    kind_tso: Fixed<4, { Kind::Tso as u64 }>,
    kind_uso: Fixed<4, { Kind::Uso as u64 }>,
    fragments_max: Fixed<5, { FRAGMENTS_MAX as u64 }>,
    inline_max: Fixed<5, { INLINE_FRAGMENTS as u64 }>,
    header_max: Fixed<10, { HEADER_MAX as u64 }>,
    l2_min: Fixed<10, { L2_LEN_MIN as u64 }>,
    ipv4_min: Fixed<10, { IPV4_HEADER_MIN as u64 }>,
    ipv4_max: Fixed<10, { IPV4_HEADER_MAX as u64 }>,
    ipv6_min: Fixed<10, { IPV6_HEADER as u64 }>,
    tcp_min: Fixed<10, { TCP_HEADER_MIN as u64 }>,
    tcp_max: Fixed<10, { TCP_HEADER_MAX as u64 }>,
    udp_len: Fixed<10, { UDP_HEADER as u64 }>,
    s_ok: Fixed<8, { Status::Ok as u64 }>,
    s_reserved: Fixed<8, { Status::ReservedBits as u64 }>,
    s_kind: Fixed<8, { Status::BadKind as u64 }>,
    s_slot: Fixed<8, { Status::BadFlowSlot as u64 }>,
    s_many: Fixed<8, { Status::TooManyFragments as u64 }>,
    s_header: Fixed<8, { Status::BadHeaderLength as u64 }>,
    s_mismatch: Fixed<8, { Status::LengthMismatch as u64 }>,
    s_mss: Fixed<8, { Status::MssZero as u64 }>,
    s_large: Fixed<8, { Status::SegmentTooLarge as u64 }>,
}

const _: () = assert!(
    TxDescriptor::RESERVED[0].0 == 0
        && TxDescriptor::RESERVED[1].0 == 3
        && TxDescriptor::RESERVED[2].0 == 7
        && INLINE_FRAGMENTS == 2
);

impl Logic for Check {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            is_reserved,
            is_bad_kind,
            is_bad_slot,
            is_too_many,
            is_bad_header,
            is_mismatch,
            is_mss_zero,
            is_too_large,
            segment_len,
            header
        );
        self.control_fields.data.next = self.control.val();
        self.burst_fields.data.next = self.burst.val();
        self.length_fields.data.next = self.lengths.val();

        self.control_word.next = self.control.val() & self.reserved0.val();
        self.rate_word.next = self.rate.val() & self.reserved3.val();
        self.length_word.next = self.lengths.val() & self.reserved7.val();
        self.is_reserved.d.next = self.control_word.val().any()
            | self.rate_word.val().any()
            | self.length_word.val().any();

        self.kind.next = self.control_fields.kind.val();
        self.kind_code.next = self.kind.val();
        self.segmented.next =
            (self.kind.val() == self.kind_tso.val()) | (self.kind.val() == self.kind_uso.val());
        self.is_bad_kind.d.next = (self.kind.val() > self.kind_uso.val())
            | ((self.kind.val() == self.kind_tso.val()) & !self.tso.val())
            | ((self.kind.val() == self.kind_uso.val()) & !self.uso.val());

        self.slot_wide.next = bit_cast::<17, 16>(self.burst_fields.flow_slot.val());
        self.is_bad_slot.d.next = self.slot_wide.val() >= self.flow_slots.val();

        self.fragments.next = self.control_fields.fragments.val();
        self.is_too_many.d.next = self.fragments.val() > self.fragments_max.val();

        self.l2.next = bit_cast::<10, 8>(self.control_fields.l2_len.val());
        self.l3.next = bit_cast::<10, 9>(self.control_fields.l3_len.val());
        self.l4.next = bit_cast::<10, 7>(self.control_fields.l4_len.val());
        self.header_sum.next = self.l2.val() + self.l3.val() + self.l4.val();
        self.header.d.next = self.header_sum.val();
        if self.control_fields.ipv6.val().any() {
            self.l3_ok.next =
                (self.l3.val() >= self.ipv6_min.val()) & !self.l3.val().get_bits::<3>(0).any();
        } else {
            self.l3_ok.next = (self.l3.val() >= self.ipv4_min.val())
                & (self.l3.val() <= self.ipv4_max.val())
                & !self.l3.val().get_bits::<2>(0).any();
        }
        self.tcp_ok.next = (self.l4.val() >= self.tcp_min.val())
            & (self.l4.val() <= self.tcp_max.val())
            & !self.l4.val().get_bits::<2>(0).any();
        self.udp_ok.next = self.l4.val() == self.udp_len.val();
        self.is_bad_header.d.next = (self.l2.val() < self.l2_min.val())
            | self.l2.val().get_bit(0)
            | (self.header_sum.val() > self.header_max.val());
        if self.kind.val() == self.kind_raw.val() {
            if self.l3.val().get_bit(0) | self.l4.val().get_bit(0) {
                self.is_bad_header.d.next = true;
            }
        } else if self.kind.val() == self.kind_csum.val() {
            if !self.l3_ok.val() | !(self.tcp_ok.val() | self.udp_ok.val()) {
                self.is_bad_header.d.next = true;
            }
        } else if self.kind.val() == self.kind_tso.val() {
            if !self.l3_ok.val() | !self.tcp_ok.val() {
                self.is_bad_header.d.next = true;
            }
        } else {
            if !self.l3_ok.val() | !self.udp_ok.val() {
                self.is_bad_header.d.next = true;
            }
        }

        self.f0.next = bit_cast::<19, 18>(self.length_fields.frag0_len.val());
        self.f1.next = bit_cast::<19, 18>(self.length_fields.frag1_len.val());
        self.frag_sum.next = self.f0.val() + self.f1.val();
        self.payload.next = self.burst_fields.payload_len.val();
        self.payload_wide.next = bit_cast::<19, 18>(self.payload.val());
        self.f0_any.next = self.f0.val().any();
        self.f1_any.next = self.f1.val().any();
        self.list_addr.next = self.frag1_addr.val();
        self.list_low.next = self.list_addr.val() & self.list_align.val();
        // With at most one fragment the other lengths are 0, so one sum serves.
        if self.fragments.val() > self.inline_max.val() {
            self.lengths_ok.next = self.f0_any.val()
                & !self.f1_any.val()
                & (self.f0.val() < self.payload_wide.val())
                & !self.list_low.val().any();
        } else {
            self.lengths_ok.next = (self.frag_sum.val() == self.payload_wide.val())
                & (self.f0_any.val() == self.fragments.val().any())
                & (self.f1_any.val() == (self.fragments.val() == self.inline_max.val()));
        }
        self.is_mismatch.d.next = !self.lengths_ok.val();

        self.mss_wide.next = bit_cast::<18, 16>(self.control_fields.mss.val());
        self.is_mss_zero.d.next = self.segmented.val() & !self.mss_wide.val().any();
        self.is_too_large.d.next = (self.payload.val() > self.max_segment.val())
            & (!self.segmented.val() | (self.mss_wide.val() > self.max_segment.val()));
        if self.segmented.val() & (self.mss_wide.val() < self.payload.val()) {
            self.segment_len.d.next = self.control_fields.mss.val();
        } else {
            self.segment_len.d.next = self.payload.val().get_bits::<16>(0);
        }

        self.segment.next = self.segment_len.q.val();
        self.header_len.next = self.header.q.val().get_bits::<9>(0);
        self.status.next = self.s_ok.val();
        if self.is_reserved.q.val() {
            self.status.next = self.s_reserved.val();
        } else if self.is_bad_kind.q.val() {
            self.status.next = self.s_kind.val();
        } else if self.is_bad_slot.q.val() {
            self.status.next = self.s_slot.val();
        } else if self.is_too_many.q.val() {
            self.status.next = self.s_many.val();
        } else if self.is_bad_header.q.val() {
            self.status.next = self.s_header.val();
        } else if self.is_mismatch.q.val() {
            self.status.next = self.s_mismatch.val();
        } else if self.is_mss_zero.q.val() {
            self.status.next = self.s_mss.val();
        } else if self.is_too_large.q.val() {
            self.status.next = self.s_large.val();
        }
    }
}
