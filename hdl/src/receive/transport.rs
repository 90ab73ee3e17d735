// SPDX-License-Identifier: MIT OR Apache-2.0
//! Third stage of the parser: sums the bytes of a TCP segment (RFC 9293) or UDP
//! datagram (RFC 768) and captures what of a UDP header decides about it.
//!
//! How many bytes are summed is what the IP header says, or what the UDP
//! header says for UDP; over IPv6 a UDP length of 0 stands for the former
//! (RFC 2675). So padding behind the datagram does not enter. The first beat is
//! summed whole: datagrams below 8 bytes have no checksum in them.
//!
//! Sums are of halfwords as they stand in beats, first byte low: the one's
//! complement sum does not depend on the order of bytes (RFC 1071, 2.B), so a
//! right sum is 0xffff here too.
//!
//! Timing, in cycles after a beat stands at `l4_data`: `udp_length` and the
//! like +1, `sum` +3, hash request +1.

use crate::prelude::*;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Transport {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// `l4_data` holds the next beat.
    pub l4_event: Signal<In, bool>,
    /// The datagram from the L4 header on.
    pub l4_data: Signal<In, Bits<64>>,
    /// The beat is the first of an L4 header.
    pub l4_start: Signal<In, bool>,
    /// The protocol is UDP.
    pub udp: Signal<In, bool>,
    /// The L3 header is IPv6.
    pub ipv6: Signal<In, bool>,
    /// Bytes from the L4 header on by the IP header, at least 0.
    pub rest: Signal<In, Bits<16>>,

    /// Length field of a UDP header.
    pub udp_length: Signal<Out, Bits<16>>,
    /// Checksum field of a UDP header is 0.
    pub udp_zero: Signal<Out, bool>,
    /// Sum of the halfwords from the L4 header to the datagram's end.
    pub sum: Signal<Out, Bits<32>>,

    /// The ports stand at `hash_data`.
    pub hash_valid: Signal<Out, bool>,
    /// Both ports in the low half, else 0.
    pub hash_data: Signal<Out, Bits<64>>,
    /// Number of the 32-bit word of the hash input.
    pub hash_word: Signal<Out, Bits<4>>,

    length: DFF<Bits<16>>,
    zero: DFF<bool>,
    left: DFF<Bits<16>>,
    field: Signal<Local, Bits<16>>,
    bytes: Signal<Local, Bits<16>>,
    many: Signal<Local, bool>,
    few: Signal<Local, Bits<3>>,
    mask: ByteMask<4, 8, 64>,
    count: Signal<Local, Bits<4>>,
    masked: Signal<Local, Bits<64>>,
    half0: Signal<Local, Bits<17>>,
    half1: Signal<Local, Bits<17>>,
    half2: Signal<Local, Bits<17>>,
    half3: Signal<Local, Bits<17>>,
    pair0: DFF<Bits<17>>,
    pair1: DFF<Bits<17>>,
    valid1: DFF<bool>,
    first1: DFF<bool>,
    first2: DFF<bool>,
    beat: DFF<Bits<18>>,
    total: DFF<Bits<32>>,
    pairs: Signal<Local, Bits<18>>,
    base: Signal<Local, Bits<32>>,
    h_valid: DFF<bool>,
    h_data: DFF<Bits<64>>,
    h_word: DFF<Bits<4>>,
}

impl Logic for Transport {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, length, zero, left, pair0, pair1, valid1, first1, first2, beat, total,
            h_valid, h_data, h_word
        );

        // Bytes that are still to be summed.
        self.field.next = (bit_cast::<16, 8>(self.l4_data.val().get_bits::<8>(32)) << 8)
            | bit_cast::<16, 8>(self.l4_data.val().get_bits::<8>(40));
        self.bytes.next = self.rest.val();
        if self.udp.val() & ((self.field.val() != 0) | !self.ipv6.val()) {
            self.bytes.next = self.field.val();
        }
        self.many.next = self.left.q.val().get_bits::<13>(3).any();
        self.few.next = self.left.q.val().get_bits::<3>(0);
        self.count.next = bit_cast::<4, 3>(self.few.val());
        if self.many.val() | self.l4_start.val() {
            self.count.next = 8.into();
        }
        if self.l4_event.val() {
            if self.l4_start.val() {
                self.length.d.next = self.field.val();
                self.zero.d.next = !self.l4_data.val().get_bits::<16>(48).any();
                self.left.d.next = 0.into();
                if self.bytes.val().get_bits::<13>(3).any() {
                    self.left.d.next = self.bytes.val() - 8;
                }
            } else if self.many.val() {
                self.left.d.next = self.left.q.val() - 8;
            } else {
                self.left.d.next = 0.into();
            }
        }

        self.mask.count.next = self.count.val();
        self.mask.data.next = self.l4_data.val();
        self.masked.next = self.mask.out.val();
        self.half0.next = bit_cast::<17, 16>(self.masked.val().get_bits::<16>(0));
        self.half1.next = bit_cast::<17, 16>(self.masked.val().get_bits::<16>(16));
        self.half2.next = bit_cast::<17, 16>(self.masked.val().get_bits::<16>(32));
        self.half3.next = bit_cast::<17, 16>(self.masked.val().get_bits::<16>(48));
        self.pair0.d.next = self.half0.val() + self.half1.val();
        self.pair1.d.next = self.half2.val() + self.half3.val();
        self.valid1.d.next = self.l4_event.val();
        self.first1.d.next = self.l4_event.val() & self.l4_start.val();
        self.first2.d.next = self.first1.q.val();
        self.pairs.next =
            bit_cast::<18, 17>(self.pair0.q.val()) + bit_cast::<18, 17>(self.pair1.q.val());
        self.beat.d.next = 0.into();
        if self.valid1.q.val() {
            self.beat.d.next = self.pairs.val();
        }
        self.base.next = self.total.q.val();
        if self.first2.q.val() {
            self.base.next = 0.into();
        }
        self.total.d.next = self.base.val() + bit_cast::<32, 18>(self.beat.q.val());

        self.h_valid.d.next = self.l4_event.val() & self.l4_start.val();
        self.h_data.d.next = bit_cast::<64, 32>(self.l4_data.val().get_bits::<32>(0));
        self.h_word.d.next = 2.into();
        if self.ipv6.val() {
            self.h_word.d.next = 8.into();
        }

        self.udp_length.next = self.length.q.val();
        self.udp_zero.next = self.zero.q.val();
        self.sum.next = self.total.q.val();
        self.hash_valid.next = self.h_valid.q.val();
        self.hash_data.next = self.h_data.q.val();
        self.hash_word.next = self.h_word.q.val();
    }
}
