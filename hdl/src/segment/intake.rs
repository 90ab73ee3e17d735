// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a job to a plan: lengths, positions, and whether the job is sound.

use super::SLOTS_LOG2;
use super::types::{JobPlan, SegmentJob};
use crate::prelude::*;
use tsonic_regs::check::{
    IPV4_HEADER_MAX, IPV4_HEADER_MIN, IPV6_HEADER, TCP_HEADER_MAX, TCP_HEADER_MIN, UDP_HEADER,
};
use tsonic_regs::limits::{HEADER_MAX, L2_LEN_MIN};

/// A job with its first sums.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct JobSums {
    ctx: Bits<8>,
    last: Bit,
    bad: Bit,
    header: Bits<10>,
    l34: Bits<10>,
    l4: Bits<7>,
    l4_bytes: Bits<17>,
    l3_counted: Bits<9>,
    len: Bits<16>,
    patched: Bit,
    udp: Bit,
    ipv6: Bit,
    no_zero: Bit,
    id_add: Bits<16>,
    offset: Bits<18>,
    clear_end: Bit,
    clear_cwr: Bit,
}

/// Takes jobs and offers each plan to the loader and to the slicer, which take
/// it when they are ready for it; the next plan follows when both have.
///
/// At most 2^[`SLOTS_LOG2`] jobs are between here and `freed`.
#[derive(LogicBlock)]
pub struct Intake {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A job is offered.
    pub job_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub job_ready: Signal<Out, bool>,
    /// The job.
    pub job: Signal<In, SegmentJob>,
    /// The plan is new to the loader.
    pub loader_valid: Signal<Out, bool>,
    /// The loader takes it.
    pub loader_take: Signal<In, bool>,
    /// The plan is new to the slicer.
    pub slicer_valid: Signal<Out, bool>,
    /// The slicer takes it.
    pub slicer_take: Signal<In, bool>,
    /// The plan.
    pub plan: Signal<Out, JobPlan>,
    /// A segment has left the RAMs.
    pub freed: Signal<In, bool>,
    /// No job is between here and `freed`.
    pub empty: Signal<Out, bool>,
    max_segment: Constant<Bits<16>>,
    l2_min: Constant<Bits<8>>,
    ipv4_min: Constant<Bits<9>>,
    ipv4_max: Constant<Bits<9>>,
    ipv6_header: Constant<Bits<9>>,
    tcp_min: Constant<Bits<7>>,
    tcp_max: Constant<Bits<7>>,
    udp_header: Constant<Bits<7>>,
    header_max: Constant<Bits<10>>,
    raw: DFF<SegmentJob>,
    raw_valid: DFF<bool>,
    sums: DFF<JobSums>,
    sums_valid: DFF<bool>,
    out: DFF<JobPlan>,
    out_valid: DFF<bool>,
    loader_has: DFF<bool>,
    slicer_has: DFF<bool>,
    slots: DFF<Bits<5>>,
    l2: Signal<Local, Bits<8>>,
    l3: Signal<Local, Bits<9>>,
    l4: Signal<Local, Bits<7>>,
    len: Signal<Local, Bits<16>>,
    index: Signal<Local, Bits<18>>,
    segmented: Signal<Local, bool>,
    patched: Signal<Local, bool>,
    udp: Signal<Local, bool>,
    bad_even: Signal<Local, bool>,
    bad_l3: Signal<Local, bool>,
    bad_l4: Signal<Local, bool>,
    l34: Signal<Local, Bits<10>>,
    header: Signal<Local, Bits<10>>,
    l34_2: Signal<Local, Bits<10>>,
    l4_2: Signal<Local, Bits<7>>,
    l4_bytes_2: Signal<Local, Bits<17>>,
    len_2: Signal<Local, Bits<16>>,
    header_up: Signal<Local, Bits<11>>,
    header_words: Signal<Local, Bits<6>>,
    granules: Signal<Local, Bits<8>>,
    header_low: Signal<Local, Bits<2>>,
    pad: Signal<Local, Bits<2>>,
    pad_bytes: Signal<Local, Bits<3>>,
    words_up: Signal<Local, Bits<17>>,
    tail: Signal<Local, Bits<3>>,
    ip_len: Signal<Local, Bits<17>>,
    protocol: Signal<Local, Bits<17>>,
    bad_2: Signal<Local, bool>,
    load_sums: Signal<Local, bool>,
    load_out: Signal<Local, bool>,
    loader_done: Signal<Local, bool>,
    slicer_done: Signal<Local, bool>,
}

impl Intake {
    /// An intake that refuses segments with more than `max_segment` payload bytes.
    pub fn new(max_segment: u16) -> Self {
        const { assert!(SLOTS_LOG2 == 4) } // `slots` has 5 bits
        fn constant<const N: usize>(x: usize) -> Constant<Bits<N>> {
            Constant::new((x as u64).into())
        }
        Self {
            clock: Default::default(),
            job_valid: Default::default(),
            job_ready: Default::default(),
            job: Default::default(),
            loader_valid: Default::default(),
            loader_take: Default::default(),
            slicer_valid: Default::default(),
            slicer_take: Default::default(),
            plan: Default::default(),
            freed: Default::default(),
            empty: Default::default(),
            max_segment: constant(usize::from(max_segment)),
            l2_min: constant(L2_LEN_MIN),
            ipv4_min: constant(IPV4_HEADER_MIN),
            ipv4_max: constant(IPV4_HEADER_MAX),
            ipv6_header: constant(IPV6_HEADER),
            tcp_min: constant(TCP_HEADER_MIN),
            tcp_max: constant(TCP_HEADER_MAX),
            udp_header: constant(UDP_HEADER),
            header_max: constant(HEADER_MAX),
            raw: Default::default(),
            raw_valid: Default::default(),
            sums: Default::default(),
            sums_valid: Default::default(),
            out: Default::default(),
            out_valid: Default::default(),
            loader_has: Default::default(),
            slicer_has: Default::default(),
            slots: Default::default(),
            l2: Default::default(),
            l3: Default::default(),
            l4: Default::default(),
            len: Default::default(),
            index: Default::default(),
            segmented: Default::default(),
            patched: Default::default(),
            udp: Default::default(),
            bad_even: Default::default(),
            bad_l3: Default::default(),
            bad_l4: Default::default(),
            l34: Default::default(),
            header: Default::default(),
            l34_2: Default::default(),
            l4_2: Default::default(),
            l4_bytes_2: Default::default(),
            len_2: Default::default(),
            header_up: Default::default(),
            header_words: Default::default(),
            granules: Default::default(),
            header_low: Default::default(),
            pad: Default::default(),
            pad_bytes: Default::default(),
            words_up: Default::default(),
            tail: Default::default(),
            ip_len: Default::default(),
            protocol: Default::default(),
            bad_2: Default::default(),
            load_sums: Default::default(),
            load_out: Default::default(),
            loader_done: Default::default(),
            slicer_done: Default::default(),
        }
    }
}

impl Logic for Intake {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, raw, raw_valid, sums, sums_valid, out, out_valid, loader_has, slicer_has,
            slots
        );
        // Each stage is filled when it is empty: no ready runs through, and two
        // cycles a job are enough.
        self.job_ready.next = !self.raw_valid.q.val();
        if self.job_valid.val() & !self.raw_valid.q.val() {
            self.raw.d.next = self.job.val();
            self.raw_valid.d.next = true;
        }

        // Stage 1: sums of two, and the rules.
        self.l2.next = self.raw.q.val().l2_len;
        self.l3.next = self.raw.q.val().l3_len;
        self.l4.next = self.raw.q.val().l4_len;
        self.len.next = self.raw.q.val().len;
        self.index.next = self.raw.q.val().index;
        self.segmented.next = (self.raw.q.val().kind == 2) | (self.raw.q.val().kind == 3);
        self.patched.next = self.raw.q.val().kind != 0;
        self.udp.next = self.l4.val() == self.udp_header.val();
        self.bad_even.next = self.l2.val().get_bit(0)
            | self.l3.val().get_bit(0)
            | self.l4.val().get_bit(0)
            | (self.l2.val() < self.l2_min.val());
        if self.raw.q.val().ipv6 {
            self.bad_l3.next = (self.l3.val() < self.ipv6_header.val())
                | self.l3.val().get_bit(1)
                | self.l3.val().get_bit(2);
        } else {
            self.bad_l3.next = (self.l3.val() < self.ipv4_min.val())
                | (self.l3.val() > self.ipv4_max.val())
                | self.l3.val().get_bit(1);
        }
        if self.udp.val() {
            self.bad_l4.next = self.raw.q.val().kind == 2;
        } else {
            self.bad_l4.next = (self.l4.val() < self.tcp_min.val())
                | (self.l4.val() > self.tcp_max.val())
                | self.l4.val().get_bit(1)
                | (self.raw.q.val().kind == 3);
        }
        self.l34.next = bit_cast::<10, 9>(self.l3.val()) + bit_cast::<10, 7>(self.l4.val());
        self.header.next = self.l34.val() + bit_cast::<10, 8>(self.l2.val());
        self.load_sums.next = self.raw_valid.q.val() & !self.sums_valid.q.val();
        if self.load_sums.val() {
            self.raw_valid.d.next = false;
            self.sums_valid.d.next = true;
            self.sums.d.next.ctx = self.raw.q.val().ctx;
            self.sums.d.next.last = self.raw.q.val().last;
            self.sums.d.next.bad = self.bad_even.val()
                | (self.patched.val() & (self.bad_l3.val() | self.bad_l4.val()))
                | (self.len.val() > self.max_segment.val());
            self.sums.d.next.header = self.header.val();
            self.sums.d.next.l34 = self.l34.val();
            self.sums.d.next.l4 = self.l4.val();
            self.sums.d.next.l4_bytes =
                bit_cast::<17, 16>(self.len.val()) + bit_cast::<17, 7>(self.l4.val());
            if self.raw.q.val().ipv6 {
                self.sums.d.next.l3_counted = self.l3.val() - self.ipv6_header.val();
            } else {
                self.sums.d.next.l3_counted = self.l3.val();
            }
            self.sums.d.next.len = self.len.val();
            self.sums.d.next.patched = self.patched.val();
            self.sums.d.next.udp = self.udp.val();
            self.sums.d.next.ipv6 = self.raw.q.val().ipv6;
            self.sums.d.next.no_zero = self.udp.val() | !self.segmented.val();
            if self.raw.q.val().ip_id_fixed {
                self.sums.d.next.id_add = 0.into();
            } else {
                self.sums.d.next.id_add = self.index.val().get_bits::<16>(0);
            }
            self.sums.d.next.offset = self.raw.q.val().offset;
            self.sums.d.next.clear_end = !self.raw.q.val().last;
            self.sums.d.next.clear_cwr = !self.raw.q.val().first & !self.raw.q.val().cwr_all;
        }

        // Stage 2: the rest.
        self.l34_2.next = self.sums.q.val().l34;
        self.l4_2.next = self.sums.q.val().l4;
        self.l4_bytes_2.next = self.sums.q.val().l4_bytes;
        self.len_2.next = self.sums.q.val().len;
        self.header_up.next = bit_cast::<11, 10>(self.sums.q.val().header) + 7;
        self.bad_2.next =
            self.sums.q.val().bad | (self.sums.q.val().header > self.header_max.val());
        if self.bad_2.val() {
            self.header_words.next = 1.into();
        } else {
            self.header_words.next = self.header_up.val().get_bits::<6>(3);
        }
        self.granules.next = bit_cast::<8, 6>(self.header_words.val()) << 1;
        // -header mod 8, halved; header + 7 is the complement's low bits.
        self.header_low.next = self.header_up.val().get_bits::<2>(1);
        self.pad.next = self.header_low.val() ^ 3;
        self.pad_bytes.next = bit_cast::<3, 2>(self.pad.val()) << 1;
        self.words_up.next = bit_cast::<17, 16>(self.len_2.val()) + 7;
        self.tail.next = self.len_2.val().get_bits::<3>(0);
        self.ip_len.next = self.l4_bytes_2.val() + bit_cast::<17, 9>(self.sums.q.val().l3_counted);
        if self.sums.q.val().udp {
            self.protocol.next = 17.into();
        } else {
            self.protocol.next = 6.into();
        }
        self.load_out.next =
            self.sums_valid.q.val() & !self.out_valid.q.val() & !self.slots.q.val().get_bit(4);
        if self.load_out.val() {
            self.sums_valid.d.next = false;
            self.out.d.next.ctx = self.sums.q.val().ctx;
            self.out.d.next.last = self.sums.q.val().last;
            self.out.d.next.bad = self.bad_2.val();
            self.out.d.next.frame =
                bit_cast::<17, 16>(self.len_2.val()) + bit_cast::<17, 10>(self.sums.q.val().header);
            self.out.d.next.header_words = self.header_words.val();
            self.out.d.next.pad = self.pad.val();
            self.out.d.next.words = self.words_up.val().get_bits::<14>(3);
            self.out.d.next.tail = self.tail.val();
            self.out.d.next.spill =
                (self.tail.val() == 0) | (self.tail.val() > self.pad_bytes.val());
            self.out.d.next.patched = self.sums.q.val().patched;
            self.out.d.next.udp = self.sums.q.val().udp;
            self.out.d.next.ipv6 = self.sums.q.val().ipv6;
            self.out.d.next.no_zero = self.sums.q.val().no_zero;
            self.out.d.next.pos3 = self.l34_2.val().get_bits::<8>(2) - self.granules.val();
            self.out.d.next.pos4 = bit_cast::<8, 7>(self.l4_2.val() >> 2) - self.granules.val();
            self.out.d.next.id_add = self.sums.q.val().id_add;
            self.out.d.next.offset = self.sums.q.val().offset;
            self.out.d.next.ip_len = self.ip_len.val().get_bits::<16>(0);
            self.out.d.next.l4_bytes = self.l4_bytes_2.val().get_bits::<16>(0);
            self.out.d.next.pseudo =
                bit_cast::<17, 16>(self.l4_bytes_2.val().get_bits::<16>(0)) + self.protocol.val();
            self.out.d.next.clear_end = self.sums.q.val().clear_end;
            self.out.d.next.clear_cwr = self.sums.q.val().clear_cwr;
        }

        // Hand out.
        self.plan.next = self.out.q.val();
        self.loader_valid.next = self.out_valid.q.val() & !self.loader_has.q.val();
        self.slicer_valid.next = self.out_valid.q.val() & !self.slicer_has.q.val();
        self.loader_done.next = self.loader_has.q.val() | self.loader_take.val();
        self.slicer_done.next = self.slicer_has.q.val() | self.slicer_take.val();
        if self.out_valid.q.val() & self.loader_done.val() & self.slicer_done.val() {
            self.out_valid.d.next = false;
            self.loader_has.d.next = false;
            self.slicer_has.d.next = false;
        } else {
            self.loader_has.d.next = self.loader_done.val();
            self.slicer_has.d.next = self.slicer_done.val();
        }
        if self.load_out.val() {
            self.out_valid.d.next = true;
        }
        if self.load_out.val() & !self.freed.val() {
            self.slots.d.next = self.slots.q.val() + 1;
        } else if self.freed.val() & !self.load_out.val() {
            self.slots.d.next = self.slots.q.val() - 1;
        }
        self.empty.next =
            !self.raw_valid.q.val() & !self.sums_valid.q.val() & (self.slots.q.val() == 0);
    }
}
