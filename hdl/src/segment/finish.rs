// SPDX-License-Identifier: MIT OR Apache-2.0
//! Brings plan, header sums and payload sum of a segment together.

use super::SLOTS_LOG2;
use super::types::{HeaderSums, JobPlan, PayloadSum, SegmentPlan};
use crate::prelude::*;

/// What of a plan is needed after the payload.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct Kept {
    ctx: Bits<8>,
    last: Bit,
    frame: Bits<17>,
    header_words: Bits<6>,
    words: Bits<14>,
    pad: Bits<2>,
    spill: Bit,
    udp: Bit,
    no_zero: Bit,
}

/// Finishes the L4 checksum: five cycles a segment, while others load and leave.
///
/// The three FIFOs hold as many words as there are jobs inside the segmenter, so
/// none of them can be full when it is written.
#[derive(LogicBlock, Default)]
pub struct Finish {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The loader takes this plan.
    pub plan_valid: Signal<In, bool>,
    /// The plan.
    pub plan: Signal<In, JobPlan>,
    /// A header has ended.
    pub header_valid: Signal<In, bool>,
    /// Its sums.
    pub header: Signal<In, HeaderSums>,
    /// A payload has ended.
    pub payload_valid: Signal<In, bool>,
    /// Its sum.
    pub payload: Signal<In, PayloadSum>,
    /// A segment can leave.
    pub segment_valid: Signal<Out, bool>,
    /// It is taken.
    pub segment_take: Signal<In, bool>,
    /// The segment.
    pub segment: Signal<Out, SegmentPlan>,
    plans: Fifo<Kept, SLOTS_LOG2>,
    headers: Fifo<HeaderSums, SLOTS_LOG2>,
    payloads: Fifo<PayloadSum, SLOTS_LOG2>,
    /// One bit a step: added, folded, folded again; then it waits.
    step: DFF<Bits<3>>,
    kept: DFF<Kept>,
    err: DFF<bool>,
    words: DFF<Bits<14>>,
    ip_csum: DFF<Bits<16>>,
    added: DFF<Bits<19>>,
    folded: DFF<Bits<17>>,
    csum: DFF<Bits<16>>,
    all: Signal<Local, bool>,
    twice: Signal<Local, Bits<16>>,
}

impl Logic for Finish {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, step, kept, err, words, ip_csum, added, folded, csum
        );
        clock!(self, clock, plans, headers, payloads);
        self.plans.flush.next = false;
        self.headers.flush.next = false;
        self.payloads.flush.next = false;
        self.plans.write_valid.next = self.plan_valid.val();
        self.plans.write_data.next.ctx = self.plan.val().ctx;
        self.plans.write_data.next.last = self.plan.val().last;
        self.plans.write_data.next.frame = self.plan.val().frame;
        self.plans.write_data.next.header_words = self.plan.val().header_words;
        self.plans.write_data.next.words = self.plan.val().words;
        self.plans.write_data.next.pad = self.plan.val().pad;
        self.plans.write_data.next.spill = self.plan.val().spill;
        self.plans.write_data.next.udp = self.plan.val().udp;
        self.plans.write_data.next.no_zero = self.plan.val().no_zero;
        self.headers.write_valid.next = self.header_valid.val();
        self.headers.write_data.next = self.header.val();
        self.payloads.write_valid.next = self.payload_valid.val();
        self.payloads.write_data.next = self.payload.val();

        self.all.next = self.plans.read_valid.val()
            & self.headers.read_valid.val()
            & self.payloads.read_valid.val()
            & (self.step.q.val() == 0);
        self.plans.read_ready.next = self.all.val();
        self.headers.read_ready.next = self.all.val();
        self.payloads.read_ready.next = self.all.val();
        if self.all.val() {
            self.kept.d.next = self.plans.read_data.val();
            self.err.d.next = self.headers.read_data.val().err | self.payloads.read_data.val().err;
            self.ip_csum.d.next = self.headers.read_data.val().ip_csum;
            self.added.d.next = bit_cast::<19, 18>(self.headers.read_data.val().l4_sum)
                + bit_cast::<19, 17>(self.payloads.read_data.val().sum);
            // What the slicer took back is not in the ring.
            self.words.d.next = self.plans.read_data.val().words;
            if self.payloads.read_data.val().err {
                self.words.d.next = 0.into();
            }
            self.step.d.next = 1.into();
        }
        self.folded.d.next = bit_cast::<17, 16>(self.added.q.val().get_bits::<16>(0))
            + bit_cast::<17, 3>(self.added.q.val().get_bits::<3>(16));
        self.twice.next = self.folded.q.val().get_bits::<16>(0)
            + bit_cast::<16, 1>(self.folded.q.val().get_bits::<1>(16));
        self.csum.d.next = !self.twice.val();
        if (self.twice.val() == 0xffff) & self.kept.q.val().no_zero {
            self.csum.d.next = 0xffff.into();
        }
        if self.step.q.val().get_bit(0) {
            self.step.d.next = 2.into();
        }
        if self.step.q.val().get_bit(1) {
            self.step.d.next = 4.into();
        }
        if self.step.q.val().get_bit(2) & self.segment_take.val() {
            self.step.d.next = 0.into();
        }
        self.segment_valid.next = self.step.q.val().get_bit(2);
        self.segment.next.ctx = self.kept.q.val().ctx;
        self.segment.next.last = self.kept.q.val().last;
        self.segment.next.err = self.err.q.val();
        self.segment.next.frame = self.kept.q.val().frame;
        self.segment.next.header_words = self.kept.q.val().header_words;
        self.segment.next.words = self.words.q.val();
        self.segment.next.pad = self.kept.q.val().pad;
        self.segment.next.spill = self.kept.q.val().spill;
        self.segment.next.udp = self.kept.q.val().udp;
        self.segment.next.ip_csum = self.ip_csum.q.val();
        self.segment.next.l4_csum = self.csum.q.val();
    }
}
