// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes the descriptors that were read, judges them and puts the good ones into
//! the queue's cache.
//!
//! A descriptor with a reserved bit gets an error completion with
//! `RESERVED_BITS`, one of less than 64 bytes `LENGTH_MISMATCH`, one whose
//! buffer is not aligned to 8 `ADDRESS_FAULT`, the first of these that holds, all
//! with its cookie; a slot that could not be read gets `ADDRESS_FAULT` without a
//! cookie. The queue goes on behind it.
//!
//! Of a buffer, whole words of 8 bytes are used.

use super::ring_fetch::RingRequest;
use crate::prelude::*;
use crate::primitives::unpack_word;
use tsonic_regs::Status;
use tsonic_regs::descriptor::{COOKIE_NONE, rx_buffer};

/// A buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct RxBufferRow {
    /// Address in units of 8 bytes.
    pub addr: Bits<61>,
    /// Size in units of 8 bytes.
    pub words: Bits<13>,
    /// The driver's number.
    pub cookie: Bits<16>,
}

/// An error completion that is to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct RxRefusal {
    /// Queue.
    pub queue: Bits<8>,
    /// A `Status`.
    pub status: Bits<8>,
    /// Cookie of the buffer.
    pub cookie: Bits<16>,
}

unpack_word! {
    /// Word 1 of a receive buffer descriptor.
    UnpackBuffer, 64 {
        bytes: 16 = rx_buffer::BYTES,
        cookie: 16 = rx_buffer::COOKIE,
    }
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum FillState {
    Peek,
    Wait,
    Answer,
    Address,
    Buffer,
    Lost,
    Fill,
}

/// See the module.
#[derive(LogicBlock, Default)]
pub struct RingFill {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The oldest read under way.
    pub request_valid: Signal<In, bool>,
    /// It is done.
    pub request_ready: Signal<Out, bool>,
    /// The read.
    pub request: Signal<In, RingRequest>,
    /// A word arrives.
    pub rd_valid: Signal<In, bool>,
    /// Taken.
    pub rd_ready: Signal<Out, bool>,
    /// The word.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last of its read.
    pub rd_last: Signal<In, bool>,
    /// The read failed.
    pub rd_err: Signal<In, bool>,

    /// See [`super::ring_table::RingTable`], here and below.
    pub fill_valid: Signal<Out, bool>,
    /// Taken.
    pub fill_ready: Signal<In, bool>,
    /// It is a peek.
    pub fill_peek: Signal<Out, bool>,
    /// Queue.
    pub fill_queue: Signal<Out, Bits<8>>,
    /// Descriptors that were asked for.
    pub fill_taken: Signal<Out, Bits<3>>,
    /// Those that are in the cache.
    pub fill_good: Signal<Out, Bits<3>>,
    /// Life of the queue.
    pub fill_epoch: Signal<Out, Bits<4>>,
    /// Place in the cache.
    pub place: Signal<In, Bits<4>>,
    /// Life of the queue.
    pub epoch: Signal<In, Bits<4>>,

    /// Writes a descriptor into the cache.
    pub cache_write: Signal<Out, bool>,
    /// Queue.
    pub cache_queue: Signal<Out, Bits<8>>,
    /// Place.
    pub cache_place: Signal<Out, Bits<4>>,
    /// The buffer.
    pub cache_row: Signal<Out, RxBufferRow>,

    /// An error completion is asked for.
    pub refusal_valid: Signal<Out, bool>,
    /// Taken.
    pub refusal_ready: Signal<In, bool>,
    /// The completion.
    pub refusal: Signal<Out, RxRefusal>,

    state: DFF<FillState>,
    stale: DFF<bool>,
    at: DFF<Bits<4>>,
    seen: DFF<Bits<3>>,
    good: DFF<Bits<3>>,
    addr: DFF<Bits<64>>,
    word: UnpackBuffer,
    bytes: Signal<Local, Bits<16>>,
    reserved: Signal<Local, bool>,
    short: Signal<Local, bool>,
    crooked: Signal<Local, bool>,
    wrong: Signal<Local, bool>,
    beat: Signal<Local, bool>,
    ask: Signal<Local, RingRequest>,
    ask_count: Signal<Local, Bits<3>>,
    ask_epoch: Signal<Local, Bits<4>>,
    status: Signal<Local, Bits<8>>,
    code_reserved: Fixed<8, { Status::ReservedBits.code() as u64 }>,
    code_length: Fixed<8, { Status::LengthMismatch.code() as u64 }>,
    code_address: Fixed<8, { Status::AddressFault.code() as u64 }>,
    no_cookie: Fixed<16, { COOKIE_NONE as u64 }>,
}

impl Logic for RingFill {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, state, stale, at, seen, good, addr);
        self.ask.next = self.request.val();
        self.ask_count.next = self.ask.val().count;
        self.ask_epoch.next = self.ask.val().epoch;
        self.word.data.next = self.rd_data.val();
        self.bytes.next = self.word.bytes.val();
        self.reserved.next = self.rd_data.val().get_bits::<32>(32).any();
        self.short.next = !self.bytes.val().get_bits::<10>(6).any();
        self.crooked.next = self.addr.q.val().get_bits::<3>(0).any();
        self.wrong.next = self.reserved.val() | self.short.val() | self.crooked.val();
        self.status.next = self.code_address.val();
        if self.reserved.val() {
            self.status.next = self.code_reserved.val();
        } else if self.short.val() {
            self.status.next = self.code_length.val();
        }

        self.request_ready.next = false;
        self.rd_ready.next = false;
        self.beat.next = false;
        self.fill_valid.next = false;
        self.fill_peek.next = false;
        self.fill_queue.next = self.ask.val().queue;
        self.fill_taken.next = self.ask_count.val();
        self.fill_good.next = self.good.q.val();
        self.fill_epoch.next = self.ask_epoch.val();
        self.cache_write.next = false;
        self.cache_queue.next = self.ask.val().queue;
        self.cache_place.next = self.at.q.val();
        self.cache_row.next.addr = self.addr.q.val().get_bits::<61>(3);
        self.cache_row.next.words = self.bytes.val().get_bits::<13>(3);
        self.cache_row.next.cookie = self.word.cookie.val();
        self.refusal_valid.next = false;
        self.refusal.next.queue = self.ask.val().queue;
        self.refusal.next.status = self.status.val();
        self.refusal.next.cookie = self.word.cookie.val();
        match self.state.q.val() {
            FillState::Peek => {
                self.fill_peek.next = true;
                self.fill_valid.next = self.request_valid.val();
                self.seen.d.next = 0.into();
                self.good.d.next = 0.into();
                if self.request_valid.val() & self.fill_ready.val() {
                    self.state.d.next = FillState::Wait;
                }
            }
            FillState::Wait => {
                self.state.d.next = FillState::Answer;
            }
            FillState::Answer => {
                self.at.d.next = self.place.val();
                self.stale.d.next = self.epoch.val() != self.ask_epoch.val();
                self.state.d.next = FillState::Address;
            }
            FillState::Address => {
                self.rd_ready.next = true;
                self.addr.d.next = self.rd_data.val();
                if self.rd_valid.val() {
                    self.state.d.next = FillState::Buffer;
                    if self.rd_last.val() | self.rd_err.val() {
                        self.state.d.next = FillState::Lost;
                    }
                }
            }
            FillState::Buffer => {
                self.rd_ready.next = self.refusal_ready.val();
                self.beat.next = self.rd_valid.val() & self.refusal_ready.val();
                if self.beat.val() {
                    self.state.d.next = FillState::Address;
                    if self.rd_last.val() | self.rd_err.val() {
                        self.state.d.next = FillState::Lost;
                    }
                    if !self.rd_err.val() & (self.seen.q.val() < self.ask_count.val()) {
                        self.seen.d.next = self.seen.q.val() + 1;
                        if !self.stale.q.val() {
                            self.refusal_valid.next = self.wrong.val();
                            if !self.wrong.val() {
                                self.cache_write.next = true;
                                self.at.d.next = self.at.q.val() + 1;
                                self.good.d.next = self.good.q.val() + 1;
                            }
                        }
                    }
                }
            }
            FillState::Lost => {
                if self.seen.q.val() == self.ask_count.val() {
                    self.state.d.next = FillState::Fill;
                } else if self.refusal_ready.val() {
                    self.seen.d.next = self.seen.q.val() + 1;
                    self.refusal_valid.next = !self.stale.q.val();
                    self.refusal.next.status = self.code_address.val();
                    self.refusal.next.cookie = self.no_cookie.val();
                }
            }
            FillState::Fill => {
                self.fill_valid.next = true;
                if self.fill_ready.val() {
                    self.request_ready.next = true;
                    self.state.d.next = FillState::Peek;
                }
            }
        }
    }
}
