// SPDX-License-Identifier: MIT OR Apache-2.0
//! Labels words as they arrive: how far to rotate each, what it completes.
//!
//! Bytes of a stream (a header, or a segment's payload) are packed without gaps,
//! whatever the alignment of its pieces. `held` bytes of the last, incomplete
//! beat stand in a hold register; a word with n bytes from byte s on is rotated so
//! that its first byte gets to lane `held`. If held + n reaches 8, or the stream
//! ends, a beat is complete. If the last word completes one beat and begins
//! another, an extra word follows that empties the hold register.
//!
//! The labels depend on lengths only, so the read side is a pipeline without a
//! stall: see [`super::Assemble`].

use super::types::{Piece, Word};
use crate::fetch::Beat;
use crate::prelude::*;

/// The labeller.
#[derive(LogicBlock, Default)]
pub struct Gather {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A word arrived.
    pub rd_valid: Signal<In, bool>,
    /// It is taken.
    pub rd_ready: Signal<Out, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,
    /// A read is under way.
    pub piece_valid: Signal<In, bool>,
    /// It is used up.
    pub piece_ready: Signal<Out, bool>,
    /// The oldest.
    pub piece: Signal<In, Piece>,
    /// A word goes into the buffer (in which it has a place).
    pub word_valid: Signal<Out, bool>,
    /// The word.
    pub word: Signal<Out, Word>,
    /// Places that a piece did not need.
    pub places_back: Signal<Out, Bits<7>>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    arrived: Skid<Beat>,
    midway: DFF<Bit>,
    left: DFF<Bits<10>>,
    written: DFF<Bits<7>>,
    held: DFF<Bits<3>>,
    empty_hold: DFF<Bit>,
    failed: DFF<Bit>,
    back: DFF<Bits<7>>,
    out_valid: DFF<Bit>,
    out: DFF<Word>,

    take: Signal<Local, Bit>,
    err: Signal<Local, Bit>,
    last: Signal<Local, Bit>,
    start: Signal<Local, Bits<3>>,
    bytes_left: Signal<Local, Bits<10>>,
    in_word: Signal<Local, Bits<4>>,
    count: Signal<Local, Bits<4>>,
    left_after: Signal<Local, Bits<10>>,
    held_wide: Signal<Local, Bits<4>>,
    total: Signal<Local, Bits<4>>,
    complete: Signal<Local, Bit>,
    over: Signal<Local, Bit>,
    stream_end: Signal<Local, Bit>,
    written_before: Signal<Local, Bits<7>>,
    written_after: Signal<Local, Bits<7>>,
    places: Signal<Local, Bits<7>>,
}

impl Logic for Gather {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, midway, left, written, held, empty_hold, failed, back, out_valid, out
        );
        clock!(self, clock, arrived);
        self.arrived.flush.next = false;
        self.arrived.in_valid.next = self.rd_valid.val();
        self.arrived.in_data.next.data = self.rd_data.val();
        self.arrived.in_data.next.last = self.rd_last.val();
        self.arrived.in_data.next.err = self.rd_err.val();
        self.rd_ready.next = self.arrived.in_ready.val();

        self.take.next =
            self.arrived.out_valid.val() & self.piece_valid.val() & !self.empty_hold.q.val();
        self.arrived.out_ready.next = self.piece_valid.val() & !self.empty_hold.q.val();
        self.err.next = self.arrived.out_data.val().err;
        self.last.next = self.arrived.out_data.val().last;

        // Bytes of this word.
        self.start.next = self.piece.val().start;
        self.bytes_left.next = self.piece.val().len;
        self.written_before.next = 0.into();
        if self.midway.q.val() {
            self.start.next = 0.into();
            self.bytes_left.next = self.left.q.val();
            self.written_before.next = self.written.q.val();
        }
        self.in_word.next = 8 - bit_cast::<4, 3>(self.start.val());
        self.count.next = self.in_word.val();
        if !self.bytes_left.val().get_bits::<6>(4).any()
            & (self.bytes_left.val().get_bits::<4>(0) < self.in_word.val())
        {
            self.count.next = self.bytes_left.val().get_bits::<4>(0);
        }
        self.left_after.next = self.bytes_left.val() - bit_cast::<10, 4>(self.count.val());
        self.held_wide.next = bit_cast::<4, 3>(self.held.q.val());
        self.total.next = self.held_wide.val() + self.count.val();
        self.stream_end.next = self.last.val() & self.piece.val().stream_end;
        self.complete.next = self.total.val().get_bit(3) | self.stream_end.val();
        self.over.next = self.stream_end.val()
            & !self.err.val()
            & !self.failed.q.val()
            & self.total.val().get_bit(3)
            & self.total.val().get_bits::<3>(0).any();

        self.out_valid.d.next = false;
        self.out.d.next.data = self.arrived.out_data.val().data;
        self.out.d.next.rotate = self.held.q.val() - self.start.val();
        self.out.d.next.held = self.held.q.val();
        self.out.d.next.emit = self.complete.val();
        self.out.d.next.last = self.stream_end.val() & !self.over.val();
        self.written_after.next = self.written_before.val();
        if !self.failed.q.val() {
            self.written_after.next = self.written_before.val() + 1;
        }
        self.places.next = self.piece.val().places;
        self.back.d.next = 0.into();
        self.piece_ready.next = false;
        if self.take.val() {
            self.midway.d.next = !self.last.val();
            self.left.d.next = self.left_after.val();
            self.written.d.next = self.written_after.val();
            self.held.d.next = self.total.val().get_bits::<3>(0);
            self.out_valid.d.next = !self.failed.q.val();
            self.empty_hold.d.next = self.over.val();
            if self.stream_end.val() & !self.over.val() {
                self.held.d.next = 0.into();
            }
            if self.err.val() {
                self.held.d.next = 0.into();
                self.failed.d.next = true;
                self.out.d.next.emit = false;
                self.out.d.next.last = true;
            }
            if self.last.val() {
                self.piece_ready.next = true;
                self.back.d.next = self.places.val() - self.written_after.val();
                if self.over.val() {
                    self.back.d.next = (self.places.val() - self.written_after.val()) - 1;
                }
                if self.piece.val().job_end {
                    self.failed.d.next = false;
                }
            }
        }
        if self.empty_hold.q.val() {
            self.empty_hold.d.next = false;
            self.held.d.next = 0.into();
            self.out_valid.d.next = true;
            self.out.d.next.emit = true;
            self.out.d.next.last = true;
        }
        self.word_valid.next = self.out_valid.q.val();
        self.word.next = self.out.q.val();
        self.places_back.next = self.back.q.val();
        self.idle.next = !self.arrived.out_valid.val()
            & !self.midway.q.val()
            & !self.empty_hold.q.val()
            & !self.out_valid.q.val();
    }
}
