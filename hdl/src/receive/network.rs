// SPDX-License-Identifier: MIT OR Apache-2.0
//! Second stage of the parser: captures what matters of an IPv4 (RFC 791) or
//! IPv6 (RFC 8200) header, walks IPv6 extension headers, sums the IPv4 header
//! and the addresses, and hands on the datagram from the L4 header on.
//!
//! Hop-by-hop options (0), routing (43), fragment (44) and destination options
//! (60) are walked, in any order and number; behind any other type stands the
//! upper layer. A fragment header with offset 0 and no more fragments is no
//! fragment (RFC 6946).
//!
//! The walk goes on with whatever follows when a frame ends early. Harmless:
//! each header that it takes moves `off_l4` on, and [`super::verdict`]
//! compares that with the frame's length.
//!
//! Timing, in cycles after a beat stands at `l3_data`: what is captured from it
//! is at the outputs at +1, sums at +3, `l4_data` at +1.

use crate::prelude::*;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Network {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// `l3_data` holds the next beat.
    pub l3_event: Signal<In, bool>,
    /// The frame from the L3 header on.
    pub l3_data: Signal<In, Bits<64>>,
    /// The beat is the first of an L3 header.
    pub l3_start: Signal<In, bool>,
    /// With start: the L3 header is IPv6, else IPv4.
    pub l3_ipv6: Signal<In, bool>,

    /// `l4_data` holds the next beat.
    pub l4_event: Signal<Out, bool>,
    /// The datagram from the L4 header on.
    pub l4_data: Signal<Out, Bits<64>>,
    /// The beat is the first of an L4 header.
    pub l4_start: Signal<Out, bool>,

    /// The header is IPv6.
    pub ipv6: Signal<Out, bool>,
    /// Version and length fields are what they must be.
    pub well_formed: Signal<Out, bool>,
    /// Bytes of IPv4 header, or of IPv6 header and extension headers.
    pub off_l4: Signal<Out, Bits<16>>,
    /// Bytes of the datagram behind those by its length field, two's complement.
    pub rest: Signal<Out, Bits<18>>,
    /// Protocol (next header) behind the headers walked so far.
    pub protocol: Signal<Out, Bits<8>>,
    /// No extension header is half walked.
    pub whole: Signal<Out, bool>,
    /// A fragment, first ones included.
    pub fragment: Signal<Out, bool>,
    /// Sum of the IPv4 header's halfwords as they stand in beats.
    pub header_sum: Signal<Out, Bits<22>>,
    /// Sum of the addresses' halfwords as they stand in beats.
    pub address_sum: Signal<Out, Bits<22>>,

    /// `hash_data` is to be hashed at word `hash_word` of the hash input.
    pub hash_valid: Signal<Out, bool>,
    /// It is the frame's first.
    pub hash_first: Signal<Out, bool>,
    /// Addresses; what is none is 0.
    pub hash_data: Signal<Out, Bits<64>>,
    /// Number of the first of its two 32-bit words; 15 stands for -1.
    pub hash_word: Signal<Out, Bits<4>>,

    previous: DFF<Bits<64>>,
    index: DFF<Bits<4>>,
    is_ipv6: DFF<bool>,
    at: Signal<Local, Bits<4>>,
    six: Signal<Local, bool>,
    version: DFF<Bits<4>>,
    words: DFF<Bits<4>>,
    length: DFF<Bits<16>>,
    proto: DFF<Bits<8>>,
    frag: DFF<bool>,
    skip: DFF<Bits<8>>,
    offset: DFF<Bits<13>>,
    remaining: DFF<Bits<18>>,
    found: DFF<bool>,
    gone: DFF<bool>,
    walking: Signal<Local, bool>,
    type_walked: Signal<Local, bool>,
    type_fragment: Signal<Local, bool>,
    fragment_bits: Signal<Local, bool>,
    swapped_length: Signal<Local, Bits<16>>,
    header_bytes: Signal<Local, Bits<18>>,
    take_step: Signal<Local, bool>,
    low_word: Signal<Local, Bits<5>>,
    high_word: Signal<Local, Bits<5>>,
    word_count: Signal<Local, Bits<5>>,
    start_at: Signal<Local, Bits<4>>,
    aligned: Signal<Local, Bits<64>>,
    starts: Signal<Local, bool>,

    o_event: DFF<bool>,
    o_data: DFF<Bits<64>>,
    o_start: DFF<bool>,

    // Sums: pairs of halfwords, beats, total.
    half0: Signal<Local, Bits<17>>,
    half1: Signal<Local, Bits<17>>,
    half2: Signal<Local, Bits<17>>,
    half3: Signal<Local, Bits<17>>,
    pair0: DFF<Bits<17>>,
    pair1: DFF<Bits<17>>,
    header0: DFF<bool>,
    header1: DFF<bool>,
    address0: DFF<bool>,
    address1: DFF<bool>,
    first1: DFF<bool>,
    first2: DFF<bool>,
    header_beat: DFF<Bits<18>>,
    address_beat: DFF<Bits<18>>,
    header_total: DFF<Bits<22>>,
    address_total: DFF<Bits<22>>,
    mask_h0: Signal<Local, Bits<18>>,
    mask_h1: Signal<Local, Bits<18>>,
    mask_a0: Signal<Local, Bits<18>>,
    mask_a1: Signal<Local, Bits<18>>,
    header_base: Signal<Local, Bits<22>>,
    address_base: Signal<Local, Bits<22>>,

    h_valid: DFF<bool>,
    h_first: DFF<bool>,
    h_data: DFF<Bits<64>>,
    h_word: DFF<Bits<4>>,
}

impl Logic for Network {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            previous,
            index,
            is_ipv6,
            version,
            words,
            length,
            proto,
            frag,
            skip,
            offset,
            remaining,
            found,
            gone,
            o_event,
            o_data,
            o_start,
            pair0,
            pair1,
            header0,
            header1,
            address0,
            address1,
            first1,
            first2,
            header_beat,
            address_beat,
            header_total,
            address_total,
            h_valid,
            h_first,
            h_data,
            h_word
        );

        // Place in the header: 0 at its first beat, then counting up to 15.
        self.six.next = self.is_ipv6.q.val();
        self.at.next = self.index.q.val();
        if self.l3_start.val() {
            self.six.next = self.l3_ipv6.val();
            self.at.next = 0.into();
        }
        if self.l3_event.val() {
            self.previous.d.next = self.l3_data.val();
            self.is_ipv6.d.next = self.six.val();
            if self.at.val() != 15 {
                self.index.d.next = self.at.val() + 1;
            }
        }

        // Fields of the fixed headers.
        self.swapped_length.next = (bit_cast::<16, 8>(self.l3_data.val().get_bits::<8>(16)) << 8)
            | bit_cast::<16, 8>(self.l3_data.val().get_bits::<8>(24));
        if self.six.val() {
            self.swapped_length.next = (bit_cast::<16, 8>(self.l3_data.val().get_bits::<8>(32))
                << 8)
                | bit_cast::<16, 8>(self.l3_data.val().get_bits::<8>(40));
        }
        self.header_bytes.next = bit_cast::<18, 4>(self.words.q.val()) << 2;
        if self.l3_event.val() & (self.at.val() == 0) {
            self.version.d.next = self.l3_data.val().get_bits::<4>(4);
            self.words.d.next = self.l3_data.val().get_bits::<4>(0);
            self.length.d.next = self.swapped_length.val();
            self.skip.d.next = 0.into();
            self.offset.d.next = 5.into();
            self.found.d.next = false;
            self.gone.d.next = false;
            // IPv4: more fragments, or an offset. IPv6: none so far.
            self.frag.d.next = (self.l3_data.val().get_bits::<6>(48).any()
                | self.l3_data.val().get_bits::<8>(56).any())
                & !self.six.val();
            self.proto.d.next = self.l3_data.val().get_bits::<8>(48);
        }
        if self.l3_event.val() & (self.at.val() == 1) {
            self.remaining.d.next = bit_cast::<18, 16>(self.length.q.val());
            if !self.six.val() {
                self.remaining.d.next =
                    bit_cast::<18, 16>(self.length.q.val()) - self.header_bytes.val();
                self.proto.d.next = self.l3_data.val().get_bits::<8>(8);
            }
        }

        // Extension headers: beat by beat, since their lengths are multiples of 8.
        self.type_fragment.next = self.proto.q.val() == 44;
        self.type_walked.next = (self.proto.q.val() == 0)
            | (self.proto.q.val() == 43)
            | (self.proto.q.val() == 60)
            | self.type_fragment.val();
        self.fragment_bits.next = self.l3_data.val().get_bits::<8>(16).any()
            | self.l3_data.val().get_bits::<5>(27).any()
            | self.l3_data.val().get_bit(24);
        self.walking.next =
            self.l3_event.val() & self.six.val() & (self.at.val() > 4) & !self.found.q.val();
        self.take_step.next = false;
        if self.walking.val() {
            if self.skip.q.val() != 0 {
                self.skip.d.next = self.skip.q.val() - 1;
                self.take_step.next = true;
            } else if self.type_walked.val() & !self.frag.q.val() {
                self.proto.d.next = self.l3_data.val().get_bits::<8>(0);
                self.take_step.next = true;
                if self.type_fragment.val() {
                    self.frag.d.next = self.fragment_bits.val();
                } else {
                    self.skip.d.next = self.l3_data.val().get_bits::<8>(8);
                }
            } else {
                self.found.d.next = true;
            }
        }
        if self.take_step.val() {
            self.remaining.d.next = self.remaining.q.val() - 8;
            self.offset.d.next = self.offset.q.val() + 1;
        }

        // Shift by four bytes more behind an IPv4 header of an odd number of words.
        self.aligned.next = self.previous.q.val();
        if !self.six.val() & self.words.q.val().get_bit(0) {
            self.aligned.next = (bit_cast::<64, 32>(self.l3_data.val().get_bits::<32>(0)) << 32)
                | bit_cast::<64, 32>(self.previous.q.val().get_bits::<32>(32));
        }
        self.start_at.next = bit_cast::<4, 3>(self.words.q.val().get_bits::<3>(1)) + 1;
        self.starts.next = self.found.q.val() & !self.gone.q.val() & (self.at.val() != 0);
        if !self.six.val() {
            self.starts.next = (self.at.val() == self.start_at.val()) & (self.at.val() > 2);
        }
        self.o_event.d.next = self.l3_event.val();
        self.o_start.d.next = self.l3_event.val() & self.starts.val();
        if self.l3_event.val() {
            self.o_data.d.next = self.aligned.val();
            if self.at.val() != 0 {
                self.gone.d.next = self.found.q.val();
            }
        }
        self.l4_event.next = self.o_event.q.val();
        self.l4_data.next = self.o_data.q.val();
        self.l4_start.next = self.o_start.q.val();

        // Sums. IPv4 addresses: the second half of beat 1, the first of beat 2; IPv6:
        // beats 1 to 4.
        self.half0.next = bit_cast::<17, 16>(self.l3_data.val().get_bits::<16>(0));
        self.half1.next = bit_cast::<17, 16>(self.l3_data.val().get_bits::<16>(16));
        self.half2.next = bit_cast::<17, 16>(self.l3_data.val().get_bits::<16>(32));
        self.half3.next = bit_cast::<17, 16>(self.l3_data.val().get_bits::<16>(48));
        self.low_word.next = bit_cast::<5, 4>(self.at.val()) << 1;
        self.high_word.next = (bit_cast::<5, 4>(self.at.val()) << 1) | 1;
        self.word_count.next = bit_cast::<5, 4>(self.words.q.val());
        self.pair0.d.next = self.half0.val() + self.half1.val();
        self.pair1.d.next = self.half2.val() + self.half3.val();
        self.first1.d.next = self.l3_event.val() & (self.at.val() == 0);
        self.header0.d.next = self.l3_event.val()
            & !self.six.val()
            & ((self.at.val() == 0) | (self.low_word.val() < self.word_count.val()));
        self.header1.d.next = self.l3_event.val()
            & !self.six.val()
            & ((self.at.val() == 0) | (self.high_word.val() < self.word_count.val()));
        self.address0.d.next = self.l3_event.val()
            & ((self.at.val() == 2)
                | (self.six.val()
                    & ((self.at.val() == 1) | (self.at.val() == 3) | (self.at.val() == 4))));
        self.address1.d.next = self.l3_event.val()
            & ((self.at.val() == 1)
                | (self.six.val()
                    & ((self.at.val() == 2) | (self.at.val() == 3) | (self.at.val() == 4))));
        self.mask_h0.next = 0.into();
        self.mask_h1.next = 0.into();
        self.mask_a0.next = 0.into();
        self.mask_a1.next = 0.into();
        if self.header0.q.val() {
            self.mask_h0.next = bit_cast::<18, 17>(self.pair0.q.val());
        }
        if self.header1.q.val() {
            self.mask_h1.next = bit_cast::<18, 17>(self.pair1.q.val());
        }
        if self.address0.q.val() {
            self.mask_a0.next = bit_cast::<18, 17>(self.pair0.q.val());
        }
        if self.address1.q.val() {
            self.mask_a1.next = bit_cast::<18, 17>(self.pair1.q.val());
        }
        self.header_beat.d.next = self.mask_h0.val() + self.mask_h1.val();
        self.address_beat.d.next = self.mask_a0.val() + self.mask_a1.val();
        self.first2.d.next = self.first1.q.val();
        self.header_base.next = self.header_total.q.val();
        self.address_base.next = self.address_total.q.val();
        if self.first2.q.val() {
            self.header_base.next = 0.into();
            self.address_base.next = 0.into();
        }
        self.header_total.d.next =
            self.header_base.val() + bit_cast::<22, 18>(self.header_beat.q.val());
        self.address_total.d.next =
            self.address_base.val() + bit_cast::<22, 18>(self.address_beat.q.val());

        // Addresses for the hash: words 0 and 1 (IPv4) or 0 to 7 of its input.
        self.h_valid.d.next = self.l3_event.val()
            & ((self.at.val() == 1)
                | (self.at.val() == 2)
                | (self.six.val() & ((self.at.val() == 3) | (self.at.val() == 4))));
        self.h_first.d.next = self.at.val() == 1;
        self.h_data.d.next = self.l3_data.val();
        self.h_word.d.next = (self.at.val() - 1) << 1;
        if !self.six.val() {
            if self.at.val() == 1 {
                self.h_data.d.next =
                    bit_cast::<64, 32>(self.l3_data.val().get_bits::<32>(32)) << 32;
                self.h_word.d.next = 15.into();
            } else {
                self.h_data.d.next = bit_cast::<64, 32>(self.l3_data.val().get_bits::<32>(0));
                self.h_word.d.next = 1.into();
            }
        }
        self.hash_valid.next = self.h_valid.q.val();
        self.hash_first.next = self.h_first.q.val();
        self.hash_data.next = self.h_data.q.val();
        self.hash_word.next = self.h_word.q.val();

        // What was captured.
        self.ipv6.next = self.is_ipv6.q.val();
        self.well_formed.next = self.version.q.val() == 6;
        self.off_l4.next = bit_cast::<16, 13>(self.offset.q.val()) << 3;
        if !self.is_ipv6.q.val() {
            self.well_formed.next = (self.version.q.val() == 4) & (self.words.q.val() > 4);
            self.off_l4.next = bit_cast::<16, 4>(self.words.q.val()) << 2;
        }
        self.rest.next = self.remaining.q.val();
        self.protocol.next = self.proto.q.val();
        self.whole.next = self.skip.q.val() == 0;
        self.fragment.next = self.frag.q.val();
        self.header_sum.next = self.header_total.q.val();
        self.address_sum.next = self.address_total.q.val();
    }
}
