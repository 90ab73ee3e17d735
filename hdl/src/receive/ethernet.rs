// SPDX-License-Identifier: MIT OR Apache-2.0
//! First stage of the parser: finds the L3 header behind 0 to 2 VLAN tags and
//! hands on the frame from there, the L3 header's first byte at byte 0 of a
//! beat.
//!
//! Two shifts do that. An Ethernet header is 14 bytes, so a shift by two bytes
//! brings everything behind it to a multiple of four; one VLAN tag costs a
//! shift by four more. A shifted beat appears with the *next* beat of the
//! frame, hence three more *events* follow a frame's last beat, one a cycle,
//! whether or not the next frame is arriving by then: what that one brings in
//! these cycles is Ethernet header, at which no later stage looks.
//!
//! No stage needs to know where the frame ends. The end travels beside the data
//! as a marker of fixed latency with the frame's length, and whether what a
//! stage has captured lies inside the frame is decided there
//! ([`super::verdict`]). So no length field, however wrong, can make a stage
//! wait for anything, and frames may follow each other without a gap.
//!
//! Timing, in cycles after the cycle in which the input register holds the
//! frame's last beat: the last event with bytes of the frame is at `l3_event`
//! +4, and one more at +5 drains the shift of the next stage; the marker is at
//! +3. The next frame's first `l3_start` is at +6 or later.
//!
//! Beats other than a frame's last are full.

use crate::prelude::*;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Ethernet {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A beat arrives.
    pub rx_valid: Signal<In, bool>,
    /// Its bytes, the first at bits 7:0.
    pub rx_data: Signal<In, Bits<64>>,
    /// How many, 1..=8.
    pub rx_bytes: Signal<In, Bits<4>>,
    /// It is the frame's last.
    pub rx_last: Signal<In, bool>,
    /// The frame is damaged (with last).
    pub rx_bad: Signal<In, bool>,

    /// `l3_data` holds the next beat.
    pub l3_event: Signal<Out, bool>,
    /// The frame from the L3 header on.
    pub l3_data: Signal<Out, Bits<64>>,
    /// The beat is the first of an L3 header.
    pub l3_start: Signal<Out, bool>,
    /// With start: the L3 header is IPv6, else IPv4.
    pub l3_ipv6: Signal<Out, bool>,

    /// End marker of a frame.
    pub end_valid: Signal<Out, bool>,
    /// The frame was marked as damaged.
    pub end_bad: Signal<Out, bool>,
    /// Bytes of the frame; 65,535 or more count as 65,528 or more.
    pub end_length: Signal<Out, Bits<16>>,
    /// Bytes from the L3 header on, two's complement: negative when the frame
    /// ends before.
    pub end_l3_length: Signal<Out, Bits<17>>,
    /// Its Ethertype is IPv4's (if the frame has one at all).
    pub end_ipv4: Signal<Out, bool>,
    /// Its Ethertype is IPv6's (if the frame has one at all).
    pub end_ipv6: Signal<Out, bool>,

    // Input register and what stands beside it.
    s0_valid: DFF<bool>,
    s0_data: DFF<Bits<64>>,
    s0_bytes: DFF<Bits<4>>,
    s0_last: DFF<bool>,
    s0_bad: DFF<bool>,
    s0_carry: DFF<Bits<16>>,
    s0_index: DFF<Bits<3>>,
    s0_beats: DFF<Bits<13>>,
    flush1: DFF<bool>,
    flush2: DFF<bool>,
    flush3: DFF<bool>,
    s0_event: Signal<Local, bool>,
    s0_end: Signal<Local, bool>,

    // After the shift by two bytes.
    s1_event: DFF<bool>,
    s1_valid: DFF<bool>,
    s1_index: DFF<Bits<3>>,
    s1_data: DFF<Bits<64>>,
    s1_previous: DFF<Bits<64>>,

    // Kind of the Ethertype behind the addresses.
    first_ipv4: DFF<bool>,
    first_ipv6: DFF<bool>,
    first_vlan: DFF<bool>,
    // What the frame is, once the place of a second tag has passed.
    is_ipv4: DFF<bool>,
    is_ipv6: DFF<bool>,
    one_tag: DFF<bool>,
    two_tags: DFF<bool>,
    type0: Signal<Local, Bits<16>>,
    type1: Signal<Local, Bits<16>>,
    type2: Signal<Local, Bits<16>>,
    type0_vlan: Signal<Local, bool>,
    type1_vlan: Signal<Local, bool>,
    shifted: Signal<Local, Bits<64>>,
    start: Signal<Local, bool>,

    // After the shift by four bytes.
    s2_event: DFF<bool>,
    s2_data: DFF<Bits<64>>,
    s2_start: DFF<bool>,
    s2_ipv6: DFF<bool>,

    // The end marker.
    m1_valid: DFF<bool>,
    m1_bad: DFF<bool>,
    m1_length: DFF<Bits<16>>,
    m2_valid: DFF<bool>,
    m2_bad: DFF<bool>,
    m2_length: DFF<Bits<16>>,
    m3_valid: DFF<bool>,
    m3_bad: DFF<bool>,
    m3_length: DFF<Bits<16>>,
    m3_l3_length: DFF<Bits<17>>,
    m3_ipv4: DFF<bool>,
    m3_ipv6: DFF<bool>,
    wide_length: Signal<Local, Bits<17>>,
    bytes_before: Signal<Local, Bits<16>>,
}

impl Logic for Ethernet {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            s0_valid,
            s0_data,
            s0_bytes,
            s0_last,
            s0_bad,
            s0_carry,
            s0_index,
            s0_beats,
            flush1,
            flush2,
            flush3,
            s1_event,
            s1_valid,
            s1_index,
            s1_data,
            s1_previous,
            first_ipv4,
            first_ipv6,
            first_vlan,
            is_ipv4,
            is_ipv6,
            one_tag,
            two_tags,
            s2_event,
            s2_data,
            s2_start,
            s2_ipv6,
            m1_valid,
            m1_bad,
            m1_length,
            m2_valid,
            m2_bad,
            m2_length,
            m3_valid,
            m3_bad,
            m3_length,
            m3_l3_length,
            m3_ipv4,
            m3_ipv6
        );

        // Input register.
        self.s0_valid.d.next = self.rx_valid.val();
        if self.rx_valid.val() {
            self.s0_data.d.next = self.rx_data.val();
            self.s0_bytes.d.next = self.rx_bytes.val();
            self.s0_last.d.next = self.rx_last.val();
            self.s0_bad.d.next = self.rx_bad.val();
        }
        self.s0_end.next = self.s0_valid.q.val() & self.s0_last.q.val();
        if self.s0_valid.q.val() {
            self.s0_carry.d.next = self.s0_data.q.val().get_bits::<16>(48);
            if self.s0_last.q.val() {
                self.s0_index.d.next = 0.into();
                self.s0_beats.d.next = 0.into();
            } else {
                if self.s0_index.q.val() != 7 {
                    self.s0_index.d.next = self.s0_index.q.val() + 1;
                }
                if self.s0_beats.q.val() != 8190 {
                    self.s0_beats.d.next = self.s0_beats.q.val() + 1;
                }
            }
        }
        self.flush1.d.next = self.s0_end.val();
        self.flush2.d.next = self.flush1.q.val();
        self.flush3.d.next = self.flush2.q.val();
        self.s0_event.next =
            self.s0_valid.q.val() | self.flush1.q.val() | self.flush2.q.val() | self.flush3.q.val();

        // Shift by two bytes: byte 14 comes to byte 0 of the third beat.
        self.s1_event.d.next = self.s0_event.val();
        self.s1_valid.d.next = self.s0_valid.q.val();
        if self.s0_event.val() {
            self.s1_index.d.next = self.s0_index.q.val();
            self.s1_data.d.next = (bit_cast::<64, 48>(self.s0_data.q.val().get_bits::<48>(0))
                << 16)
                | bit_cast::<64, 16>(self.s0_carry.q.val());
            self.s1_previous.d.next = self.s1_data.q.val();
        }

        // Ethertypes: at bytes 6..8 of the second beat, 2..4 and 6..8 of the third.
        // 0x8100 and 0x88a8 announce a tag, 0x0800 IPv4, 0x86dd IPv6; bytes of the
        // wire stand first byte low.
        self.type0.next = self.s1_data.q.val().get_bits::<16>(48);
        self.type1.next = self.s1_data.q.val().get_bits::<16>(16);
        self.type2.next = self.s1_data.q.val().get_bits::<16>(48);
        self.type0_vlan.next = (self.type0.val() == 0x0081) | (self.type0.val() == 0xa888);
        self.type1_vlan.next = (self.type1.val() == 0x0081) | (self.type1.val() == 0xa888);
        if self.s1_valid.q.val() & (self.s1_index.q.val() == 1) {
            self.first_ipv4.d.next = self.type0.val() == 0x0008;
            self.first_ipv6.d.next = self.type0.val() == 0xdd86;
            self.first_vlan.d.next = self.type0_vlan.val();
        }
        if self.s1_valid.q.val() & (self.s1_index.q.val() == 2) {
            self.one_tag.d.next = self.first_vlan.q.val() & !self.type1_vlan.val();
            self.two_tags.d.next = self.first_vlan.q.val() & self.type1_vlan.val();
            if !self.first_vlan.q.val() {
                self.is_ipv4.d.next = self.first_ipv4.q.val();
                self.is_ipv6.d.next = self.first_ipv6.q.val();
            } else if !self.type1_vlan.val() {
                self.is_ipv4.d.next = self.type1.val() == 0x0008;
                self.is_ipv6.d.next = self.type1.val() == 0xdd86;
            } else {
                self.is_ipv4.d.next = self.type2.val() == 0x0008;
                self.is_ipv6.d.next = self.type2.val() == 0xdd86;
            }
        }

        // Shift by four bytes more behind one tag.
        self.shifted.next = self.s1_previous.q.val();
        if self.one_tag.q.val() {
            self.shifted.next = (bit_cast::<64, 32>(self.s1_data.q.val().get_bits::<32>(0)) << 32)
                | bit_cast::<64, 32>(self.s1_previous.q.val().get_bits::<32>(32));
        }
        self.start.next = self.s1_valid.q.val()
            & (self.is_ipv4.q.val() | self.is_ipv6.q.val())
            & (((self.s1_index.q.val() == 3) & !self.two_tags.q.val())
                | ((self.s1_index.q.val() == 4) & self.two_tags.q.val()));
        self.s2_event.d.next = self.s1_event.q.val();
        self.s2_start.d.next = self.start.val();
        self.s2_ipv6.d.next = self.is_ipv6.q.val();
        if self.s1_event.q.val() {
            self.s2_data.d.next = self.shifted.val();
        }
        self.l3_event.next = self.s2_event.q.val();
        self.l3_data.next = self.s2_data.q.val();
        self.l3_start.next = self.s2_start.q.val();
        self.l3_ipv6.next = self.s2_ipv6.q.val();

        // End marker.
        self.bytes_before.next = bit_cast::<16, 13>(self.s0_beats.q.val()) << 3;
        self.m1_valid.d.next = self.s0_end.val();
        self.m1_bad.d.next = self.s0_bad.q.val();
        self.m1_length.d.next = self.bytes_before.val() + bit_cast::<16, 4>(self.s0_bytes.q.val());
        self.m2_valid.d.next = self.m1_valid.q.val();
        self.m2_bad.d.next = self.m1_bad.q.val();
        self.m2_length.d.next = self.m1_length.q.val();
        self.m3_valid.d.next = self.m2_valid.q.val();
        self.m3_bad.d.next = self.m2_bad.q.val();
        self.m3_length.d.next = self.m2_length.q.val();
        self.m3_ipv4.d.next = self.is_ipv4.q.val();
        self.m3_ipv6.d.next = self.is_ipv6.q.val();
        self.wide_length.next = bit_cast::<17, 16>(self.m2_length.q.val());
        if self.two_tags.q.val() {
            self.m3_l3_length.d.next = self.wide_length.val() - 22;
        } else if self.one_tag.q.val() {
            self.m3_l3_length.d.next = self.wide_length.val() - 18;
        } else {
            self.m3_l3_length.d.next = self.wide_length.val() - 14;
        }
        self.end_valid.next = self.m3_valid.q.val();
        self.end_bad.next = self.m3_bad.q.val();
        self.end_length.next = self.m3_length.q.val();
        self.end_l3_length.next = self.m3_l3_length.q.val();
        self.end_ipv4.next = self.m3_ipv4.q.val();
        self.end_ipv6.next = self.m3_ipv6.q.val();
    }
}
