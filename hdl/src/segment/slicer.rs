// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes payload beats: counts, masks, stores and sums them.

use super::RING_MARGIN;
use super::types::{JobPlan, PayloadSum};
use crate::prelude::*;

/// The payload side of the segmenter. The ring has 2^A words; its pointers have
/// P = A + 1 bits.
///
/// A payload that ends wrongly is taken back: the write pointer returns to where
/// it began, which no reader has passed, as a segment is read only after its sum.
#[derive(LogicBlock)]
pub struct Slicer<const A: usize, const P: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A plan is offered.
    pub plan_valid: Signal<In, bool>,
    /// It is taken.
    pub plan_take: Signal<Out, bool>,
    /// The plan.
    pub plan: Signal<In, JobPlan>,
    /// A payload beat is offered.
    pub payload_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub payload_ready: Signal<Out, bool>,
    /// Payload bytes, byte 0 lowest; bytes above the length are ignored.
    pub payload_data: Signal<In, Bits<64>>,
    /// Last beat of the payload.
    pub payload_last: Signal<In, bool>,
    /// With the last beat: the payload is not to be trusted.
    pub payload_err: Signal<In, bool>,
    /// Words that have been read.
    pub read_pointer: Signal<In, Bits<P>>,
    /// Writes a word.
    pub write_enable: Signal<Out, bool>,
    /// Place in the ring.
    pub write_address: Signal<Out, Bits<A>>,
    /// The word, byte 0 most significant, zero above the payload.
    pub write_data: Signal<Out, Bits<64>>,
    /// A payload has ended.
    pub sum_valid: Signal<Out, bool>,
    /// Its sum.
    pub sum: Signal<Out, PayloadSum>,

    full_level: Constant<Bits<P>>,
    mask: ByteMask<4, 8, 64>,
    reverse: ByteReverse<64>,
    busy: DFF<bool>,
    bad: DFF<bool>,
    first: DFF<bool>,
    none: DFF<bool>,
    none_err: DFF<bool>,
    left: DFF<Bits<14>>,
    tail: DFF<Bits<3>>,
    pointer: DFF<Bits<P>>,
    start: DFF<Bits<P>>,
    room: DFF<bool>,

    valid1: DFF<bool>,
    first1: DFF<bool>,
    last1: DFF<bool>,
    err1: DFF<bool>,
    write1: DFF<bool>,
    address1: DFF<Bits<A>>,
    word1: DFF<Bits<64>>,
    valid2: DFF<bool>,
    first2: DFF<bool>,
    last2: DFF<bool>,
    err2: DFF<bool>,
    sum2_a: DFF<Bits<17>>,
    sum2_b: DFF<Bits<17>>,
    valid3: DFF<bool>,
    first3: DFF<bool>,
    last3: DFF<bool>,
    err3: DFF<bool>,
    sum3: DFF<Bits<18>>,
    last4: DFF<bool>,
    err4: DFF<bool>,
    sum4: DFF<Bits<32>>,
    last5: DFF<bool>,
    out5: DFF<PayloadSum>,

    beat: Signal<Local, bool>,
    finishing: Signal<Local, bool>,
    take: Signal<Local, bool>,
    final_word: Signal<Local, bool>,
    wrong: Signal<Local, bool>,
    store: Signal<Local, bool>,
    level: Signal<Local, Bits<P>>,
    sum_base: Signal<Local, Bits<32>>,
}

impl<const A: usize, const P: usize> Default for Slicer<A, P> {
    /// # Panics
    /// When P is not A + 1 or A is not in 3..=14.
    fn default() -> Self {
        assert!(
            P == A + 1 && (3..=14).contains(&A),
            "size of a payload ring"
        );
        Self {
            clock: Default::default(),
            plan_valid: Default::default(),
            plan_take: Default::default(),
            plan: Default::default(),
            payload_valid: Default::default(),
            payload_ready: Default::default(),
            payload_data: Default::default(),
            payload_last: Default::default(),
            payload_err: Default::default(),
            read_pointer: Default::default(),
            write_enable: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            sum_valid: Default::default(),
            sum: Default::default(),
            full_level: Constant::new((((1 << A) - RING_MARGIN) as u64).into()),
            mask: Default::default(),
            reverse: Default::default(),
            busy: Default::default(),
            bad: Default::default(),
            first: Default::default(),
            none: Default::default(),
            none_err: Default::default(),
            left: Default::default(),
            tail: Default::default(),
            pointer: Default::default(),
            start: Default::default(),
            room: Default::default(),
            valid1: Default::default(),
            first1: Default::default(),
            last1: Default::default(),
            err1: Default::default(),
            write1: Default::default(),
            address1: Default::default(),
            word1: Default::default(),
            valid2: Default::default(),
            first2: Default::default(),
            last2: Default::default(),
            err2: Default::default(),
            sum2_a: Default::default(),
            sum2_b: Default::default(),
            valid3: Default::default(),
            first3: Default::default(),
            last3: Default::default(),
            err3: Default::default(),
            sum3: Default::default(),
            last4: Default::default(),
            err4: Default::default(),
            sum4: Default::default(),
            last5: Default::default(),
            out5: Default::default(),
            beat: Default::default(),
            finishing: Default::default(),
            take: Default::default(),
            final_word: Default::default(),
            wrong: Default::default(),
            store: Default::default(),
            level: Default::default(),
            sum_base: Default::default(),
        }
    }
}

impl<const A: usize, const P: usize> Logic for Slicer<A, P> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, busy, bad, first, none, none_err, left, tail, pointer, start, room
        );
        dff_setup!(
            self, clock, valid1, first1, last1, err1, write1, address1, word1
        );
        dff_setup!(self, clock, valid2, first2, last2, err2, sum2_a, sum2_b);
        dff_setup!(self, clock, valid3, first3, last3, err3, sum3);
        dff_setup!(self, clock, last4, err4, sum4, last5, out5);

        // Beats of the plan; the next one takes over without a gap. A payload of
        // no bytes takes one cycle and no beat.
        self.level.next = self.pointer.q.val() - self.read_pointer.val();
        self.room.d.next = self.level.val() < self.full_level.val();
        self.payload_ready.next = self.busy.q.val() & self.room.q.val();
        self.beat.next = self.busy.q.val() & self.room.q.val() & self.payload_valid.val();
        self.finishing.next = self.beat.val() & self.payload_last.val();
        self.take.next = self.plan_valid.val() & (!self.busy.q.val() | self.finishing.val());
        self.plan_take.next = self.take.val();
        self.final_word.next = self.left.q.val() == 1;
        self.store.next = self.beat.val() & (self.left.q.val() != 0) & !self.bad.q.val();
        self.wrong.next = self.payload_err.val() | self.bad.q.val() | !self.final_word.val();
        if self.beat.val() {
            self.first.d.next = false;
            if self.left.q.val() != 0 {
                self.left.d.next = self.left.q.val() - 1;
            }
        }
        if self.store.val() {
            self.pointer.d.next = self.pointer.q.val() + 1;
        }
        if self.finishing.val() {
            self.busy.d.next = false;
            if self.wrong.val() {
                self.pointer.d.next = self.start.q.val();
            } else {
                self.start.d.next = self.pointer.q.val() + 1;
            }
        }
        self.none.d.next = false;
        if self.take.val() {
            self.busy.d.next = self.plan.val().words != 0;
            self.none.d.next = self.plan.val().words == 0;
            self.none_err.d.next = self.plan.val().bad;
            self.bad.d.next = self.plan.val().bad;
            self.first.d.next = true;
            self.left.d.next = self.plan.val().words;
            self.tail.d.next = self.plan.val().tail;
        }

        // Stage 1: mask.
        self.mask.data.next = self.payload_data.val();
        self.mask.count.next = 8.into();
        if self.final_word.val() & (self.tail.q.val() != 0) {
            self.mask.count.next = bit_cast::<4, 3>(self.tail.q.val());
        }
        self.reverse.data.next = self.mask.out.val();
        self.word1.d.next = self.reverse.out.val();
        self.valid1.d.next = self.beat.val() | self.none.q.val();
        self.first1.d.next = self.first.q.val();
        self.last1.d.next = self.payload_last.val() | self.none.q.val();
        self.err1.d.next = self.wrong.val();
        self.write1.d.next = self.store.val();
        self.address1.d.next = self.pointer.q.val().get_bits::<A>(0);
        if self.none.q.val() {
            self.word1.d.next = 0.into();
            self.first1.d.next = true;
            self.err1.d.next = self.none_err.q.val();
        }

        // Into the ring; stages 2 and 3: add four halfwords.
        self.write_enable.next = self.write1.q.val();
        self.write_address.next = self.address1.q.val();
        self.write_data.next = self.word1.q.val();
        self.sum2_a.d.next = bit_cast::<17, 16>(self.word1.q.val().get_bits::<16>(48))
            + bit_cast::<17, 16>(self.word1.q.val().get_bits::<16>(32));
        self.sum2_b.d.next = bit_cast::<17, 16>(self.word1.q.val().get_bits::<16>(16))
            + bit_cast::<17, 16>(self.word1.q.val().get_bits::<16>(0));
        self.valid2.d.next = self.valid1.q.val();
        self.first2.d.next = self.first1.q.val();
        self.last2.d.next = self.last1.q.val();
        self.err2.d.next = self.err1.q.val();
        self.sum3.d.next =
            bit_cast::<18, 17>(self.sum2_a.q.val()) + bit_cast::<18, 17>(self.sum2_b.q.val());
        self.valid3.d.next = self.valid2.q.val();
        self.first3.d.next = self.first2.q.val();
        self.last3.d.next = self.last2.q.val() & self.valid2.q.val();
        self.err3.d.next = self.err2.q.val();

        // Stage 4: accumulate; 2^15 halfwords fit 32 bits. Stage 5: fold once.
        self.sum_base.next = self.sum4.q.val();
        if self.first3.q.val() {
            self.sum_base.next = 0.into();
        }
        if self.valid3.q.val() {
            self.sum4.d.next = self.sum_base.val() + bit_cast::<32, 18>(self.sum3.q.val());
        }
        self.last4.d.next = self.last3.q.val();
        self.err4.d.next = self.err3.q.val();
        self.out5.d.next.sum = bit_cast::<17, 16>(self.sum4.q.val().get_bits::<16>(0))
            + bit_cast::<17, 16>(self.sum4.q.val().get_bits::<16>(16));
        self.out5.d.next.err = self.err4.q.val();
        self.last5.d.next = self.last4.q.val();
        self.sum_valid.next = self.last5.q.val();
        self.sum.next = self.out5.q.val();
    }
}
