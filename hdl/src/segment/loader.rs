// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes header templates: aligns them, patches every field that does not depend
//! on the payload, and sums what checksums cover.

use super::routing::Routing;
use super::types::{HeaderSums, HeaderWord, JobPlan};
use crate::prelude::*;

/// What lives in a word: `a` in its first 32-bit half, `b` in the second.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct Fields {
    total_a: Bit,
    total_b: Bit,
    id_a: Bit,
    id_b: Bit,
    plen_a: Bit,
    plen_b: Bit,
    ipc_a: Bit,
    ipc_b: Bit,
    seq_a: Bit,
    seq_b: Bit,
    udp_a: Bit,
    udp_b: Bit,
    flags_a: Bit,
    flags_b: Bit,
    tcpc_a: Bit,
    tcpc_b: Bit,
    ip_sum_a: Bit,
    ip_sum_b: Bit,
    l4_sum_a: Bit,
    l4_sum_b: Bit,
}

/// What travels with a word.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct Flow {
    valid: Bit,
    first: Bit,
    last: Bit,
    err: Bit,
    ipv6: Bit,
}

/// Which halves of a word are summed.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct Masks {
    ip_a: Bit,
    ip_b: Bit,
    l4_a: Bit,
    l4_b: Bit,
    restart: Bit,
}

/// The header loader; see [`crate::segment`] for the alignment.
///
/// A pipeline of seven stages that never stalls: 1 aligned word and what lives
/// in it; 2 patched; 3 halfwords of each half added; 4 halves added; 5
/// accumulated; 6 folded; 7 result. For IPv6 the accumulator of the IP header
/// checksum holds the sum of the destination address.
#[derive(LogicBlock, Default)]
pub struct Loader {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A plan is offered.
    pub plan_valid: Signal<In, bool>,
    /// It is taken.
    pub plan_take: Signal<Out, bool>,
    /// The plan.
    pub plan: Signal<In, JobPlan>,
    /// A header beat is offered.
    pub header_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub header_ready: Signal<Out, bool>,
    /// Header bytes, byte 0 lowest.
    pub header_data: Signal<In, Bits<64>>,
    /// Last beat of the header.
    pub header_last: Signal<In, bool>,
    /// With the last beat: the header is not to be trusted.
    pub header_err: Signal<In, bool>,
    /// Writes a word.
    pub write_enable: Signal<Out, bool>,
    /// Bank of 32 words, and word.
    pub write_address: Signal<Out, Bits<9>>,
    /// The word.
    pub write_data: Signal<Out, HeaderWord>,
    /// A header has ended.
    pub sums_valid: Signal<Out, bool>,
    /// Its sums.
    pub sums: Signal<Out, HeaderSums>,

    reverse: ByteReverse<64>,
    routing: Routing,
    busy: DFF<bool>,
    first: DFF<bool>,
    active: DFF<JobPlan>,
    pos3: DFF<Bits<8>>,
    pos4: DFF<Bits<8>>,
    left: DFF<Bits<6>>,
    bank: DFF<Bits<4>>,
    word: DFF<Bits<5>>,
    previous: DFF<Bits<64>>,

    flow1: DFF<Flow>,
    fields1: DFF<Fields>,
    plan1: DFF<JobPlan>,
    pos3_1: DFF<Bits<8>>,
    pos4_1: DFF<Bits<8>>,
    write1: DFF<bool>,
    address1: DFF<Bits<9>>,
    word1: DFF<Bits<64>>,

    flow2: DFF<Flow>,
    masks2: DFF<Masks>,
    write2: DFF<bool>,
    address2: DFF<Bits<9>>,
    half2_a: DFF<Bits<32>>,
    half2_b: DFF<Bits<32>>,
    tags2: DFF<Bits<4>>,

    flow3: DFF<Flow>,
    masks3: DFF<Masks>,
    sum3_a: DFF<Bits<17>>,
    sum3_b: DFF<Bits<17>>,

    flow4: DFF<Flow>,
    restart4: DFF<bool>,
    ip4: DFF<Bits<18>>,
    l4_4: DFF<Bits<18>>,

    flow5: DFF<Flow>,
    ip5: DFF<Bits<22>>,
    l4_5: DFF<Bits<22>>,

    flow6: DFF<Flow>,
    ip6: DFF<Bits<17>>,
    l4_6: DFF<Bits<17>>,

    flow7: DFF<bool>,
    out7: DFF<HeaderSums>,

    beat: Signal<Local, bool>,
    finishing: Signal<Local, bool>,
    take: Signal<Local, bool>,
    aligned: Signal<Local, Bits<64>>,
    ipv4: Signal<Local, bool>,
    ipv6: Signal<Local, bool>,
    tcp: Signal<Local, bool>,
    udp: Signal<Local, bool>,
    patched: Signal<Local, bool>,
    in_l4_a: Signal<Local, bool>,
    in_l4_b: Signal<Local, bool>,
    p3: Signal<Local, Bits<8>>,
    p4: Signal<Local, Bits<8>>,
    at3_m1: Signal<Local, bool>,
    at3_0: Signal<Local, bool>,
    at3_1: Signal<Local, bool>,
    at3_2: Signal<Local, bool>,
    at3_3: Signal<Local, bool>,
    at3_4: Signal<Local, bool>,
    at3_5: Signal<Local, bool>,
    at4_m1: Signal<Local, bool>,
    at4_0: Signal<Local, bool>,
    at4_1: Signal<Local, bool>,
    at4_2: Signal<Local, bool>,
    at4_3: Signal<Local, bool>,
    at4_4: Signal<Local, bool>,

    add_a: Signal<Local, Bits<32>>,
    add_b: Signal<Local, Bits<32>>,
    added_a: Signal<Local, Bits<32>>,
    added_b: Signal<Local, Bits<32>>,
    id_add: Signal<Local, Bits<32>>,
    offset: Signal<Local, Bits<32>>,
    keep: Signal<Local, Bits<16>>,
    high_a: Signal<Local, Bits<16>>,
    low_a: Signal<Local, Bits<16>>,
    high_b: Signal<Local, Bits<16>>,
    low_b: Signal<Local, Bits<16>>,
    tags: Pack4<1, 1, 1, 1, 4>,
    tag_l4_a: Signal<Local, bool>,
    tag_l4_b: Signal<Local, bool>,

    ip_a: Signal<Local, Bits<18>>,
    ip_b: Signal<Local, Bits<18>>,
    l4_a: Signal<Local, Bits<18>>,
    l4_b: Signal<Local, Bits<18>>,
    ip_base: Signal<Local, Bits<22>>,
    l4_base: Signal<Local, Bits<22>>,
    ip_folded: Signal<Local, Bits<16>>,
    address_sum: Signal<Local, Bits<18>>,
}

impl Logic for Loader {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, busy, first, active, pos3, pos4, left, bank, word, previous
        );
        dff_setup!(
            self, clock, flow1, fields1, plan1, pos3_1, pos4_1, write1, address1, word1
        );
        dff_setup!(
            self, clock, flow2, masks2, write2, address2, half2_a, half2_b, tags2
        );
        dff_setup!(self, clock, flow3, masks3, sum3_a, sum3_b);
        dff_setup!(self, clock, flow4, restart4, ip4, l4_4);
        dff_setup!(self, clock, flow5, ip5, l4_5);
        dff_setup!(self, clock, flow6, ip6, l4_6, flow7, out7);
        clock!(self, clock, routing);

        // Beats of the active plan; the next one takes over without a gap.
        self.header_ready.next = self.busy.q.val();
        self.beat.next = self.busy.q.val() & self.header_valid.val();
        self.finishing.next = self.beat.val() & self.header_last.val();
        self.take.next = self.plan_valid.val() & (!self.busy.q.val() | self.finishing.val());
        self.plan_take.next = self.take.val();
        if self.beat.val() {
            self.first.d.next = false;
            self.pos3.d.next = self.pos3.q.val() + 2;
            self.pos4.d.next = self.pos4.q.val() + 2;
            self.word.d.next = self.word.q.val() + 1;
            if self.left.q.val() != 0 {
                self.left.d.next = self.left.q.val() - 1;
            }
        }
        if self.finishing.val() {
            self.busy.d.next = false;
            self.bank.d.next = self.bank.q.val() + 1;
        }
        if self.take.val() {
            self.busy.d.next = true;
            self.first.d.next = true;
            self.active.d.next = self.plan.val();
            self.pos3.d.next = self.plan.val().pos3;
            self.pos4.d.next = self.plan.val().pos4;
            self.left.d.next = self.plan.val().header_words;
            self.word.d.next = 0.into();
        }

        // Stage 1: align, and see what lives here.
        self.reverse.data.next = self.header_data.val();
        if self.beat.val() {
            self.previous.d.next = self.reverse.out.val();
        }
        self.aligned.next = self.reverse.out.val();
        if self.active.q.val().pad == 1 {
            self.aligned.next = (self.previous.q.val() << 48) | (self.reverse.out.val() >> 16);
        }
        if self.active.q.val().pad == 2 {
            self.aligned.next = (self.previous.q.val() << 32) | (self.reverse.out.val() >> 32);
        }
        if self.active.q.val().pad == 3 {
            self.aligned.next = (self.previous.q.val() << 16) | (self.reverse.out.val() >> 48);
        }
        self.word1.d.next = self.aligned.val();
        self.flow1.d.next.valid = self.beat.val();
        self.flow1.d.next.first = self.first.q.val();
        self.flow1.d.next.last = self.header_last.val();
        self.flow1.d.next.err = self.header_err.val() | (self.left.q.val() != 1);
        self.flow1.d.next.ipv6 = self.active.q.val().ipv6 & self.active.q.val().patched;
        self.write1.d.next = self.beat.val() & (self.left.q.val() != 0);
        self.address1.d.next =
            (bit_cast::<9, 4>(self.bank.q.val()) << 5) | bit_cast::<9, 5>(self.word.q.val());
        self.pos3_1.d.next = self.pos3.q.val();
        self.pos4_1.d.next = self.pos4.q.val();
        if self.beat.val() & self.first.q.val() {
            self.plan1.d.next = self.active.q.val();
        }
        self.patched.next = self.active.q.val().patched;
        self.ipv6.next = self.patched.val() & self.active.q.val().ipv6;
        self.ipv4.next = self.patched.val() & !self.active.q.val().ipv6;
        self.udp.next = self.patched.val() & self.active.q.val().udp;
        self.tcp.next = self.patched.val() & !self.active.q.val().udp;
        self.p3.next = self.pos3.q.val();
        self.p4.next = self.pos4.q.val();
        self.at3_m1.next = self.p3.val() == 255;
        self.at3_0.next = self.p3.val() == 0;
        self.at3_1.next = self.p3.val() == 1;
        self.at3_2.next = self.p3.val() == 2;
        self.at3_3.next = self.p3.val() == 3;
        self.at3_4.next = self.p3.val() == 4;
        self.at3_5.next = self.p3.val() == 5;
        self.at4_m1.next = self.p4.val() == 255;
        self.at4_0.next = self.p4.val() == 0;
        self.at4_1.next = self.p4.val() == 1;
        self.at4_2.next = self.p4.val() == 2;
        self.at4_3.next = self.p4.val() == 3;
        self.at4_4.next = self.p4.val() == 4;
        self.in_l4_a.next = !self.p4.val().get_bit(7);
        self.in_l4_b.next = self.in_l4_a.val() | self.at4_m1.val();
        self.fields1.d.next.total_a = self.ipv4.val() & self.at3_0.val();
        self.fields1.d.next.total_b = self.ipv4.val() & self.at3_m1.val();
        self.fields1.d.next.id_a = self.ipv4.val() & self.at3_1.val();
        self.fields1.d.next.id_b = self.ipv4.val() & self.at3_0.val();
        self.fields1.d.next.plen_a = self.ipv6.val() & self.at3_1.val();
        self.fields1.d.next.plen_b = self.ipv6.val() & self.at3_0.val();
        self.fields1.d.next.ipc_a = self.ipv4.val() & self.at3_2.val();
        self.fields1.d.next.ipc_b = self.ipv4.val() & self.at3_1.val();
        self.fields1.d.next.seq_a = self.tcp.val() & self.at4_1.val();
        self.fields1.d.next.seq_b = self.tcp.val() & self.at4_0.val();
        self.fields1.d.next.udp_a = self.udp.val() & self.at4_1.val();
        self.fields1.d.next.udp_b = self.udp.val() & self.at4_0.val();
        self.fields1.d.next.flags_a = self.tcp.val() & self.at4_3.val();
        self.fields1.d.next.flags_b = self.tcp.val() & self.at4_2.val();
        self.fields1.d.next.tcpc_a = self.tcp.val() & self.at4_4.val();
        self.fields1.d.next.tcpc_b = self.tcp.val() & self.at4_3.val();
        self.fields1.d.next.ip_sum_a =
            self.ipv4.val() & !self.p3.val().get_bit(7) & !self.in_l4_a.val();
        self.fields1.d.next.ip_sum_b =
            self.ipv4.val() & (!self.p3.val().get_bit(7) | self.at3_m1.val()) & !self.in_l4_b.val();
        // Addresses: all of IPv4, the source of IPv6.
        self.fields1.d.next.l4_sum_a = (self.patched.val() & self.in_l4_a.val())
            | (self.patched.val() & (self.at3_3.val() | self.at3_4.val()))
            | (self.ipv6.val() & (self.at3_2.val() | self.at3_5.val()));
        self.fields1.d.next.l4_sum_b = (self.patched.val() & self.in_l4_b.val())
            | (self.patched.val() & (self.at3_2.val() | self.at3_3.val()))
            | (self.ipv6.val() & (self.at3_1.val() | self.at3_4.val()));

        // Stage 2: patch.
        self.routing.valid.next = self.flow1.q.val().valid;
        self.routing.first.next = self.flow1.q.val().first;
        self.routing.active.next = self.flow1.q.val().ipv6;
        self.routing.data.next = self.word1.q.val();
        self.routing.pos3.next = self.pos3_1.q.val();
        self.routing.pos4.next = self.pos4_1.q.val();
        self.id_add.next = bit_cast::<32, 16>(self.plan1.q.val().id_add) << 16;
        self.offset.next = bit_cast::<32, 18>(self.plan1.q.val().offset);
        self.keep.next = 0xffff.into();
        if self.plan1.q.val().clear_end & self.plan1.q.val().clear_cwr {
            self.keep.next = 0xff76.into();
        } else if self.plan1.q.val().clear_end {
            self.keep.next = 0xfff6.into();
        } else if self.plan1.q.val().clear_cwr {
            self.keep.next = 0xff7f.into();
        }
        self.add_a.next = 0.into();
        if self.fields1.q.val().id_a {
            self.add_a.next = self.id_add.val();
        }
        if self.fields1.q.val().seq_a {
            self.add_a.next = self.offset.val();
        }
        self.add_b.next = 0.into();
        if self.fields1.q.val().id_b {
            self.add_b.next = self.id_add.val();
        }
        if self.fields1.q.val().seq_b {
            self.add_b.next = self.offset.val();
        }
        self.added_a.next = self.word1.q.val().get_bits::<32>(32) + self.add_a.val();
        self.added_b.next = self.word1.q.val().get_bits::<32>(0) + self.add_b.val();
        self.high_a.next = self.added_a.val().get_bits::<16>(16);
        if self.fields1.q.val().flags_a {
            self.high_a.next = self.added_a.val().get_bits::<16>(16) & self.keep.val();
        }
        if self.fields1.q.val().plen_a {
            self.high_a.next = self.plan1.q.val().ip_len;
        }
        if self.fields1.q.val().udp_a {
            self.high_a.next = self.plan1.q.val().l4_bytes;
        }
        if self.fields1.q.val().tcpc_a {
            self.high_a.next = 0.into();
        }
        self.low_a.next = self.added_a.val().get_bits::<16>(0);
        if self.fields1.q.val().total_a {
            self.low_a.next = self.plan1.q.val().ip_len;
        }
        if self.fields1.q.val().ipc_a | self.fields1.q.val().udp_a {
            self.low_a.next = 0.into();
        }
        self.high_b.next = self.added_b.val().get_bits::<16>(16);
        if self.fields1.q.val().flags_b {
            self.high_b.next = self.added_b.val().get_bits::<16>(16) & self.keep.val();
        }
        if self.fields1.q.val().plen_b {
            self.high_b.next = self.plan1.q.val().ip_len;
        }
        if self.fields1.q.val().udp_b {
            self.high_b.next = self.plan1.q.val().l4_bytes;
        }
        if self.fields1.q.val().tcpc_b {
            self.high_b.next = 0.into();
        }
        self.low_b.next = self.added_b.val().get_bits::<16>(0);
        if self.fields1.q.val().total_b {
            self.low_b.next = self.plan1.q.val().ip_len;
        }
        if self.fields1.q.val().ipc_b | self.fields1.q.val().udp_b {
            self.low_b.next = 0.into();
        }
        self.half2_a.d.next =
            (bit_cast::<32, 16>(self.high_a.val()) << 16) | bit_cast::<32, 16>(self.low_a.val());
        self.half2_b.d.next =
            (bit_cast::<32, 16>(self.high_b.val()) << 16) | bit_cast::<32, 16>(self.low_b.val());
        self.tag_l4_a.next = self.fields1.q.val().udp_a | self.fields1.q.val().tcpc_a;
        self.tag_l4_b.next = self.fields1.q.val().udp_b | self.fields1.q.val().tcpc_b;
        self.tags.i0.next = self.fields1.q.val().ipc_a.into();
        self.tags.i1.next = self.fields1.q.val().ipc_b.into();
        self.tags.i2.next = self.tag_l4_a.val().into();
        self.tags.i3.next = self.tag_l4_b.val().into();
        self.tags2.d.next = self.tags.out.val();
        self.masks2.d.next.ip_a = self.fields1.q.val().ip_sum_a | self.routing.final_low.val();
        self.masks2.d.next.ip_b = self.fields1.q.val().ip_sum_b | self.routing.final_high.val();
        self.masks2.d.next.l4_a = self.fields1.q.val().l4_sum_a;
        self.masks2.d.next.l4_b = self.fields1.q.val().l4_sum_b;
        self.masks2.d.next.restart = self.routing.restart.val();
        self.flow2.d.next = self.flow1.q.val();
        self.write2.d.next = self.write1.q.val();
        self.address2.d.next = self.address1.q.val();

        // Into the RAM; stage 3: add the halfwords of each half.
        self.write_enable.next = self.write2.q.val();
        self.write_address.next = self.address2.q.val();
        self.write_data.next.data = (bit_cast::<64, 32>(self.half2_a.q.val()) << 32)
            | bit_cast::<64, 32>(self.half2_b.q.val());
        self.write_data.next.ip_low = self.tags2.q.val().get_bit(0);
        self.write_data.next.ip_high = self.tags2.q.val().get_bit(1);
        self.write_data.next.l4_low = self.tags2.q.val().get_bit(2);
        self.write_data.next.l4_high = self.tags2.q.val().get_bit(3);
        self.sum3_a.d.next = bit_cast::<17, 16>(self.half2_a.q.val().get_bits::<16>(16))
            + bit_cast::<17, 16>(self.half2_a.q.val().get_bits::<16>(0));
        self.sum3_b.d.next = bit_cast::<17, 16>(self.half2_b.q.val().get_bits::<16>(16))
            + bit_cast::<17, 16>(self.half2_b.q.val().get_bits::<16>(0));
        self.masks3.d.next = self.masks2.q.val();
        self.flow3.d.next = self.flow2.q.val();

        // Stage 4: add the halves that count.
        self.ip_a.next = 0.into();
        if self.masks3.q.val().ip_a {
            self.ip_a.next = bit_cast::<18, 17>(self.sum3_a.q.val());
        }
        self.ip_b.next = 0.into();
        if self.masks3.q.val().ip_b {
            self.ip_b.next = bit_cast::<18, 17>(self.sum3_b.q.val());
        }
        self.l4_a.next = 0.into();
        if self.masks3.q.val().l4_a {
            self.l4_a.next = bit_cast::<18, 17>(self.sum3_a.q.val());
        }
        self.l4_b.next = 0.into();
        if self.masks3.q.val().l4_b {
            self.l4_b.next = bit_cast::<18, 17>(self.sum3_b.q.val());
        }
        self.ip4.d.next = self.ip_a.val() + self.ip_b.val();
        self.l4_4.d.next = self.l4_a.val() + self.l4_b.val();
        self.restart4.d.next = self.masks3.q.val().restart;
        self.flow4.d.next = self.flow3.q.val();

        // Stage 5: accumulate. A header that is summed has at least six words, so
        // `plan1` is still its own when its first word is here.
        self.ip_base.next = self.ip5.q.val();
        if self.flow4.q.val().first | self.restart4.q.val() {
            self.ip_base.next = 0.into();
        }
        self.l4_base.next = self.l4_5.q.val();
        if self.flow4.q.val().first {
            self.l4_base.next = bit_cast::<22, 17>(self.plan1.q.val().pseudo);
        }
        if self.flow4.q.val().valid {
            self.ip5.d.next = self.ip_base.val() + bit_cast::<22, 18>(self.ip4.q.val());
            self.l4_5.d.next = self.l4_base.val() + bit_cast::<22, 18>(self.l4_4.q.val());
        }
        self.flow5.d.next = self.flow4.q.val();

        // Stage 6: fold once.
        self.ip6.d.next = bit_cast::<17, 16>(self.ip5.q.val().get_bits::<16>(0))
            + bit_cast::<17, 6>(self.ip5.q.val().get_bits::<6>(16));
        self.l4_6.d.next = bit_cast::<17, 16>(self.l4_5.q.val().get_bits::<16>(0))
            + bit_cast::<17, 6>(self.l4_5.q.val().get_bits::<6>(16));
        self.flow6.d.next = self.flow5.q.val();

        // Stage 7: the second fold, and the destination address of IPv6.
        self.ip_folded.next = self.ip6.q.val().get_bits::<16>(0)
            + bit_cast::<16, 1>(self.ip6.q.val().get_bits::<1>(16));
        self.address_sum.next = 0.into();
        if self.flow6.q.val().ipv6 {
            self.address_sum.next = bit_cast::<18, 17>(self.ip6.q.val());
        }
        self.out7.d.next.ip_csum = !self.ip_folded.val();
        self.out7.d.next.l4_sum = bit_cast::<18, 17>(self.l4_6.q.val()) + self.address_sum.val();
        self.out7.d.next.err = self.flow6.q.val().err;
        self.flow7.d.next = self.flow6.q.val().valid & self.flow6.q.val().last;
        self.sums_valid.next = self.flow7.q.val();
        self.sums.next = self.out7.q.val();
    }
}
