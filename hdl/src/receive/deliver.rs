// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delivery: writes frames into the buffers of their queue and completions into
//! its completion ring.
//!
//! One frame after the other, buffer by buffer: take a descriptor, write the
//! words, complete. A buffer's completion waits until it is known that the frame
//! has a next one; when there is none, the frame ends there with
//! `RX_NO_BUFFER` and EOP, and what came of it is to be thrown away. A frame that
//! finds no buffer at all leaves no trace but the counter.
//!
//! While descriptors are under way the frame waits, and with it those behind
//! it; error completions go on. That wait is bounded by the memory's answer.
//!
//! A write request ends where memory has a multiple of 512, so none crosses a
//! page. The completion is a request of its own behind the payload's.

use super::ring_fill::{RxBufferRow, RxRefusal};
use super::store::StoredFrame;
use crate::prelude::*;
use crate::primitives::pack_word;
use tsonic_regs::Status;
use tsonic_regs::completion::{COMPLETION_BYTES, rx_done, rx_hash, rx_status};
use tsonic_regs::descriptor::COOKIE_NONE;
use tsonic_regs::limits::DMA_REQUEST_MAX;
use tsonic_regs::registers::queue;

pack_word! {
    /// Word 0 of a receive completion.
    PackRxStatus, 64 {
        status: 8 = rx_status::STATUS,
        sop: 1 = rx_status::SOP,
        eop: 1 = rx_status::EOP,
        ip_csum: 2 = rx_status::IP_CSUM,
        l4_csum: 2 = rx_status::L4_CSUM,
        hash_kind: 2 = rx_status::HASH_KIND,
        rss_queue: 16 = rx_status::QUEUE,
        cookie: 16 = rx_status::COOKIE,
        bytes: 16 = rx_status::BYTES,
    }
}

pack_word! {
    /// Word 2 of a receive completion.
    PackRxHash, 64 {
        hash: 32 = rx_hash::HASH,
        frame_len: 16 = rx_hash::FRAME_LEN,
    }
}

pack_word! {
    /// Word 3 of a receive completion.
    PackRxDone, 64 { phase: 1 = rx_done::PHASE }
}

const _: () = assert!(COMPLETION_BYTES == 32 && DMA_REQUEST_MAX == 512);

/// A beat of a memory write.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct RxWriteBeat {
    /// Data.
    pub data: Bits<64>,
    /// Address in units of 8 bytes.
    pub addr: Bits<61>,
    /// Byte enables.
    pub strb: Bits<8>,
    /// Last of its request.
    pub last: Bit,
    /// And with it of a completion.
    pub done: Bit,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum DeliverState {
    Idle,
    Take,
    TakeWait,
    TakeAnswer,
    Row,
    Size,
    Data,
    Complete,
    CompleteWait,
    CompleteAnswer,
    CompleteAddress,
    Word0,
    Word1,
    Word2,
    Word3,
    After,
    Drop,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum AfterState {
    Nothing,
    NextBuffer,
    EndOfFrame,
    DropRest,
}

/// See the module; for Q queues.
#[derive(LogicBlock, Default)]
pub struct Deliver<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,

    /// A frame is there; see [`super::store::Store`], here and below.
    pub frame_valid: Signal<In, bool>,
    /// It is done with.
    pub frame_ready: Signal<Out, bool>,
    /// The frame.
    pub frame: Signal<In, StoredFrame>,
    /// Reads a word.
    pub read_enable: Signal<Out, bool>,
    /// Which.
    pub read_pointer: Signal<Out, Bits<12>>,
    /// The word.
    pub read_data: Signal<In, Bits<64>>,

    /// A doorbell was refused.
    pub bell_error: Signal<In, bool>,
    /// Its queue.
    pub bell_error_queue: Signal<In, Bits<8>>,
    /// An error completion is asked for.
    pub refusal_valid: Signal<In, bool>,
    /// Taken.
    pub refusal_ready: Signal<Out, bool>,
    /// The completion.
    pub refusal: Signal<In, RxRefusal>,

    /// See [`super::ring_table::RingTable`], here and below.
    pub deliver_valid: Signal<Out, bool>,
    /// Taken.
    pub deliver_ready: Signal<In, bool>,
    /// It is a take.
    pub deliver_take: Signal<Out, bool>,
    /// Queue.
    pub deliver_queue: Signal<Out, Bits<8>>,
    /// Life of the queue.
    pub deliver_epoch: Signal<Out, Bits<4>>,
    /// Any life.
    pub deliver_any: Signal<Out, bool>,
    /// Place in the cache.
    pub place: Signal<In, Bits<4>>,
    /// Life of the queue.
    pub epoch: Signal<In, Bits<4>>,
    /// There is one.
    pub found: Signal<In, bool>,
    /// There will be one.
    pub waiting: Signal<In, bool>,
    /// Entry of the completion ring.
    pub index: Signal<In, Bits<13>>,
    /// Its phase is 0.
    pub turned: Signal<In, bool>,

    /// Reads a descriptor of the cache.
    pub cache_read: Signal<Out, bool>,
    /// Queue.
    pub cache_queue: Signal<Out, Bits<8>>,
    /// Place.
    pub cache_place: Signal<Out, Bits<4>>,
    /// The descriptor, one cycle later.
    pub cache_row: Signal<In, RxBufferRow>,
    /// A frame waits for a descriptor.
    pub want_valid: Signal<Out, bool>,
    /// Of this queue.
    pub want_queue: Signal<Out, Bits<8>>,

    /// A beat of a write.
    pub wr_valid: Signal<Out, bool>,
    /// Taken.
    pub wr_ready: Signal<In, bool>,
    /// Address of the beat.
    pub wr_addr: Signal<Out, Bits<64>>,
    /// Data.
    pub wr_data: Signal<Out, Bits<64>>,
    /// Byte enables.
    pub wr_strb: Signal<Out, Bits<8>>,
    /// Last of its request.
    pub wr_last: Signal<Out, bool>,

    /// A completion's last beat was taken for memory.
    pub written: Signal<Out, bool>,
    /// Its queue.
    pub written_queue: Signal<Out, Bits<8>>,
    /// It is an error.
    pub written_error: Signal<Out, bool>,
    /// A frame was dropped, or cut, for want of a buffer.
    pub no_buffer: Signal<Out, bool>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    bell_errors: Fifo<Bits<8>, 4>,
    refusals: Fifo<RxRefusal, 4>,
    bases: QueueRam<Bits<32>, Q, 9>,
    write_address: Pack2<1, 8, 9>,
    base_address: Pack2<1, 8, 9>,
    base: Pack2<32, 32, 64>,
    beats: Skid<RxWriteBeat>,
    beat: Signal<Local, RxWriteBeat>,
    out_beat: Signal<Local, RxWriteBeat>,
    out_addr: Signal<Local, Bits<61>>,
    status_word: PackRxStatus,
    hash_word: PackRxHash,
    done_word: PackRxDone,

    state: DFF<DeliverState>,
    after: DFF<AfterState>,
    // The frame.
    begun: DFF<bool>,
    first: DFF<bool>,
    left: DFF<Bits<14>>,
    pointer: DFF<Bits<12>>,
    frame_queue: Signal<Local, Bits<8>>,
    frame_length: Signal<Local, Bits<14>>,
    frame_arrival: Signal<Local, Bits<32>>,
    arrival: Signal<Local, Bits<64>>,
    ticks_low: Signal<Local, Bits<32>>,
    ticks_high: Signal<Local, Bits<32>>,
    stamp_high: Signal<Local, Bits<32>>,
    stamp: DFF<Bits<64>>,
    stamp_word: Pack2<32, 32, 64>,
    // The buffer.
    life: DFF<Bits<4>>,
    next_life: DFF<Bits<4>>,
    addr: DFF<Bits<61>>,
    words: DFF<Bits<13>>,
    cookie: DFF<Bits<16>>,
    chunk: DFF<Bits<14>>,
    chunk_words: DFF<Bits<11>>,
    tail_bytes: DFF<Bits<4>>,
    rest: DFF<Bits<14>>,
    left_words: Signal<Local, Bits<11>>,
    left_up: Signal<Local, Bits<14>>,
    left_low: Signal<Local, Bits<3>>,
    words_few: Signal<Local, Bits<11>>,
    words_many: Signal<Local, bool>,
    fits: Signal<Local, bool>,
    buffer_bytes: Signal<Local, Bits<14>>,
    next_addr: Signal<Local, Bits<61>>,
    edge_of_block: Signal<Local, bool>,
    final_word: Signal<Local, bool>,
    // The word that is being read.
    d_valid: DFF<bool>,
    d_addr: DFF<Bits<61>>,
    d_last: DFF<bool>,
    d_bytes: DFF<Bits<4>>,
    mask: ByteMask<4, 8, 64>,
    advance: Signal<Local, bool>,
    // The completion of the last buffer, not yet written.
    held: DFF<bool>,
    held_cookie: DFF<Bits<16>>,
    held_bytes: DFF<Bits<14>>,
    held_first: DFF<bool>,
    // The completion that is being written.
    c_queue: DFF<Bits<8>>,
    c_status: DFF<Bits<8>>,
    c_cookie: DFF<Bits<16>>,
    c_bytes: DFF<Bits<14>>,
    c_first: DFF<bool>,
    c_last: DFF<bool>,
    c_frame: DFF<bool>,
    low: DFF<Bits<32>>,
    high: DFF<Bits<32>>,
    entry: DFF<Bits<13>>,
    phase: DFF<bool>,
    // The completion whose last beat is on its way to memory: the skid buffer has no
    // room for those of two.
    told_queue: DFF<Bits<8>>,
    told_error: DFF<bool>,
    dest: DFF<Bits<61>>,
    base_word: Signal<Local, Bits<64>>,
    refused: Signal<Local, RxRefusal>,
    is_low: Signal<Local, bool>,
    is_high: Signal<Local, bool>,

    reg_lo: Fixed<7, { queue::RX_COMPLETION_LO.offset as u64 }>,
    reg_hi: Fixed<7, { queue::RX_COMPLETION_HI.offset as u64 }>,
    code_bell: Fixed<8, { Status::DoorbellOutOfRange.code() as u64 }>,
    code_no_buffer: Fixed<8, { Status::RxNoBuffer.code() as u64 }>,
    code_ok: Fixed<8, { Status::Ok.code() as u64 }>,
    no_cookie: Fixed<16, { COOKIE_NONE as u64 }>,
}

impl<const Q: usize> Logic for Deliver<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            after,
            begun,
            first,
            left,
            pointer,
            stamp,
            life,
            next_life,
            addr,
            words,
            cookie,
            chunk,
            chunk_words,
            tail_bytes,
            rest,
            d_valid,
            d_addr,
            d_last,
            d_bytes,
            held,
            held_cookie,
            held_bytes,
            held_first,
            c_queue,
            c_status,
            c_cookie,
            c_bytes,
            c_first,
            c_last,
            c_frame,
            low,
            high,
            entry,
            phase,
            told_queue,
            told_error,
            dest
        );
        self.bell_errors.clock.next = self.clock.val();
        self.refusals.clock.next = self.clock.val();
        self.bases.clock.next = self.clock.val();
        self.beats.clock.next = self.clock.val();
        self.bell_errors.flush.next = false;
        self.refusals.flush.next = false;
        self.beats.flush.next = false;

        // Errors to report; doorbells beyond sixteen that wait are only counted.
        self.bell_errors.write_valid.next = self.bell_error.val();
        self.bell_errors.write_data.next = self.bell_error_queue.val();
        self.bell_errors.read_ready.next = false;
        self.refusals.write_valid.next = self.refusal_valid.val();
        self.refusals.write_data.next = self.refusal.val();
        self.refusals.read_ready.next = false;
        self.refusal_ready.next = self.refusals.write_ready.val();
        self.refused.next = self.refusals.read_data.val();

        // Addresses of completion rings.
        self.is_low.next = self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_lo.val());
        self.is_high.next = self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_hi.val());
        self.write_address.i0.next = self.is_high.val().into();
        self.write_address.i1.next = self.cfg_queue.val();
        self.bases.write_enable.next = self.is_low.val() | self.is_high.val();
        self.bases.write_address.next = self.write_address.out.val();
        self.bases.write_data.next = self.cfg_value.val();
        self.base_address.i0.next = 0.into();
        self.base_address.i1.next = self.c_queue.q.val();
        self.base.i0.next = self.low.q.val();
        self.base.i1.next = self.high.q.val();
        self.base_word.next = self.base.out.val();

        // The frame at the head of the list.
        self.frame_queue.next = self.frame.val().queue;
        self.frame_length.next = self.frame.val().length;
        self.frame_arrival.next = self.frame.val().arrival;
        self.ticks_low.next = self.ticks.val().get_bits::<32>(0);
        self.ticks_high.next = self.ticks.val().get_bits::<32>(32);
        self.stamp_high.next = self.ticks_high.val();
        if self.ticks_low.val() < self.frame_arrival.val() {
            self.stamp_high.next = self.ticks_high.val() - 1;
        }
        self.stamp_word.i0.next = self.frame_arrival.val();
        self.stamp_word.i1.next = self.stamp_high.val();
        self.frame_ready.next = false;
        self.no_buffer.next = false;

        // Sizes of the next piece.
        self.left_up.next = self.left.q.val() + 7;
        self.left_words.next = self.left_up.val().get_bits::<11>(3);
        self.left_low.next = self.left.q.val().get_bits::<3>(0);
        self.words_many.next = self.words.q.val().get_bits::<2>(11).any();
        self.words_few.next = self.words.q.val().get_bits::<11>(0);
        self.fits.next = self.words_many.val() | (self.words_few.val() >= self.left_words.val());
        self.buffer_bytes.next = bit_cast::<14, 11>(self.words_few.val()) << 3;

        // Words on their way from the buffer to memory.
        self.advance.next = !self.d_valid.q.val() | self.beats.in_ready.val();
        self.read_enable.next = false;
        self.read_pointer.next = self.pointer.q.val();
        self.next_addr.next = self.addr.q.val() + 1;
        self.edge_of_block.next = self.addr.q.val().get_bits::<6>(0).all();
        self.final_word.next = self.chunk_words.q.val() == 1;
        self.mask.count.next = self.d_bytes.q.val();
        self.mask.data.next = self.read_data.val();
        if self.advance.val() {
            self.d_valid.d.next = false;
        }

        // The completion's words.
        self.status_word.status.next = self.c_status.q.val();
        self.status_word.sop.next = self.c_first.q.val().into();
        self.status_word.eop.next = self.c_last.q.val().into();
        self.status_word.ip_csum.next = 0.into();
        self.status_word.l4_csum.next = 0.into();
        self.status_word.hash_kind.next = 0.into();
        self.status_word.rss_queue.next = bit_cast::<16, 8>(self.c_queue.q.val());
        self.status_word.cookie.next = self.c_cookie.q.val();
        self.status_word.bytes.next = bit_cast::<16, 14>(self.c_bytes.q.val());
        self.hash_word.hash.next = 0.into();
        self.hash_word.frame_len.next = 0.into();
        self.arrival.next = 0.into();
        if self.c_frame.q.val() {
            self.status_word.ip_csum.next = self.frame.val().ip_csum;
            self.status_word.l4_csum.next = self.frame.val().l4_csum;
            self.status_word.hash_kind.next = self.frame.val().hash_kind;
            self.hash_word.hash.next = self.frame.val().hash;
            self.hash_word.frame_len.next = bit_cast::<16, 14>(self.frame_length.val());
            self.arrival.next = self.stamp.q.val();
        }
        self.done_word.phase.next = (!self.phase.q.val()).into();

        self.deliver_valid.next = false;
        self.deliver_take.next = false;
        self.deliver_queue.next = self.c_queue.q.val();
        self.deliver_epoch.next = self.life.q.val();
        self.deliver_any.next = !self.c_frame.q.val();
        self.cache_read.next = false;
        self.cache_queue.next = self.frame_queue.val();
        self.cache_place.next = self.place.val();
        self.want_valid.next = false;
        self.want_queue.next = self.frame_queue.val();

        // What goes to memory: a word of the frame, else one of the completion.
        self.beat.next.data = self.mask.out.val();
        self.beat.next.addr = self.d_addr.q.val();
        self.beat.next.strb = self.mask.strobe.val();
        self.beat.next.last = self.d_last.q.val();
        self.beats.in_valid.next = self.d_valid.q.val();
        if !self.d_valid.q.val() {
            self.beat.next.addr = self.dest.q.val();
            self.beat.next.strb = 0xff.into();
            self.beat.next.last = false;
        }
        self.beat.next.done = false;

        match self.state.q.val() {
            DeliverState::Idle => {
                self.c_status.d.next = self.code_bell.val();
                self.c_cookie.d.next = self.no_cookie.val();
                self.c_bytes.d.next = 0.into();
                self.c_first.d.next = false;
                self.c_last.d.next = false;
                self.c_frame.d.next = false;
                self.after.d.next = AfterState::Nothing;
                if self.bell_errors.read_valid.val() {
                    self.bell_errors.read_ready.next = true;
                    self.c_queue.d.next = self.bell_errors.read_data.val();
                    self.state.d.next = DeliverState::Complete;
                } else if self.refusals.read_valid.val() {
                    self.refusals.read_ready.next = true;
                    self.c_queue.d.next = self.refused.val().queue;
                    self.c_status.d.next = self.refused.val().status;
                    self.c_cookie.d.next = self.refused.val().cookie;
                    self.state.d.next = DeliverState::Complete;
                } else if self.frame_valid.val() {
                    if !self.begun.q.val() {
                        self.begun.d.next = true;
                        self.first.d.next = true;
                        self.left.d.next = self.frame_length.val();
                        self.stamp.d.next = self.stamp_word.out.val();
                    }
                    self.state.d.next = DeliverState::Take;
                }
            }
            DeliverState::Take => {
                self.deliver_valid.next = true;
                self.deliver_take.next = true;
                self.deliver_queue.next = self.frame_queue.val();
                if self.deliver_ready.val() {
                    self.state.d.next = DeliverState::TakeWait;
                }
            }
            DeliverState::TakeWait => {
                self.state.d.next = DeliverState::TakeAnswer;
            }
            DeliverState::TakeAnswer => {
                // The last buffer's completion can be said now.
                self.c_queue.d.next = self.frame_queue.val();
                self.c_cookie.d.next = self.held_cookie.q.val();
                self.c_bytes.d.next = self.held_bytes.q.val();
                self.c_first.d.next = self.held_first.q.val();
                self.c_frame.d.next = true;
                if self.found.val() {
                    self.c_status.d.next = self.code_ok.val();
                    self.c_last.d.next = false;
                    self.after.d.next = AfterState::NextBuffer;
                    self.cache_read.next = true;
                    self.next_life.d.next = self.epoch.val();
                    self.state.d.next = DeliverState::Row;
                } else if self.waiting.val() {
                    self.want_valid.next = true;
                    self.state.d.next = DeliverState::Idle;
                } else {
                    self.c_status.d.next = self.code_no_buffer.val();
                    self.c_last.d.next = true;
                    self.after.d.next = AfterState::DropRest;
                    self.state.d.next = DeliverState::Drop;
                    if self.held.q.val() {
                        self.state.d.next = DeliverState::Complete;
                    }
                }
            }
            DeliverState::Row => {
                self.addr.d.next = self.cache_row.val().addr;
                self.words.d.next = self.cache_row.val().words;
                self.cookie.d.next = self.cache_row.val().cookie;
                self.state.d.next = DeliverState::Size;
                if self.held.q.val() {
                    self.state.d.next = DeliverState::Complete;
                }
            }
            DeliverState::Size => {
                self.held.d.next = false;
                self.life.d.next = self.next_life.q.val();
                if self.fits.val() {
                    self.chunk.d.next = self.left.q.val();
                    self.chunk_words.d.next = self.left_words.val();
                    self.rest.d.next = 0.into();
                    self.tail_bytes.d.next = 8.into();
                    if self.left_low.val() != 0 {
                        self.tail_bytes.d.next = bit_cast::<4, 3>(self.left_low.val());
                    }
                } else {
                    self.chunk.d.next = self.buffer_bytes.val();
                    self.chunk_words.d.next = self.words_few.val();
                    self.rest.d.next = self.left.q.val() - self.buffer_bytes.val();
                    self.tail_bytes.d.next = 8.into();
                }
                self.state.d.next = DeliverState::Data;
            }
            DeliverState::Data => {
                if self.advance.val() {
                    self.read_enable.next = true;
                    self.pointer.d.next = self.pointer.q.val() + 1;
                    self.addr.d.next = self.next_addr.val();
                    self.chunk_words.d.next = self.chunk_words.q.val() - 1;
                    self.d_valid.d.next = true;
                    self.d_addr.d.next = self.addr.q.val();
                    self.d_last.d.next = self.edge_of_block.val() | self.final_word.val();
                    self.d_bytes.d.next = 8.into();
                    if self.final_word.val() {
                        self.d_bytes.d.next = self.tail_bytes.q.val();
                        self.left.d.next = self.rest.q.val();
                        self.first.d.next = false;
                        self.c_queue.d.next = self.frame_queue.val();
                        self.c_status.d.next = self.code_ok.val();
                        self.c_cookie.d.next = self.cookie.q.val();
                        self.c_bytes.d.next = self.chunk.q.val();
                        self.c_first.d.next = self.first.q.val();
                        self.c_last.d.next = true;
                        self.c_frame.d.next = true;
                        self.after.d.next = AfterState::EndOfFrame;
                        self.held_cookie.d.next = self.cookie.q.val();
                        self.held_bytes.d.next = self.chunk.q.val();
                        self.held_first.d.next = self.first.q.val();
                        if self.rest.q.val() == 0 {
                            self.state.d.next = DeliverState::Complete;
                        } else {
                            self.held.d.next = true;
                            self.state.d.next = DeliverState::Take;
                        }
                    }
                }
            }
            DeliverState::Complete => {
                self.deliver_valid.next = true;
                if self.deliver_ready.val() {
                    self.state.d.next = DeliverState::CompleteWait;
                }
            }
            DeliverState::CompleteWait => {
                self.base_address.i0.next = 1.into();
                self.low.d.next = self.bases.read_data.val();
                self.state.d.next = DeliverState::CompleteAnswer;
            }
            DeliverState::CompleteAnswer => {
                self.high.d.next = self.bases.read_data.val();
                self.entry.d.next = self.index.val();
                self.phase.d.next = self.turned.val();
                self.state.d.next = DeliverState::CompleteAddress;
                if !self.found.val() {
                    self.state.d.next = DeliverState::After;
                }
            }
            DeliverState::CompleteAddress => {
                self.dest.d.next = self.base_word.val().get_bits::<61>(3)
                    + (bit_cast::<61, 13>(self.entry.q.val()) << 2);
                self.state.d.next = DeliverState::Word0;
            }
            DeliverState::Word0 => {
                if !self.d_valid.q.val() {
                    self.beats.in_valid.next = true;
                    self.beat.next.data = self.status_word.out.val();
                    if self.beats.in_ready.val() {
                        self.dest.d.next = self.dest.q.val() + 1;
                        self.state.d.next = DeliverState::Word1;
                    }
                }
            }
            DeliverState::Word1 => {
                self.beats.in_valid.next = true;
                self.beat.next.data = self.arrival.val();
                if self.beats.in_ready.val() {
                    self.dest.d.next = self.dest.q.val() + 1;
                    self.state.d.next = DeliverState::Word2;
                }
            }
            DeliverState::Word2 => {
                self.beats.in_valid.next = true;
                self.beat.next.data = self.hash_word.out.val();
                if self.beats.in_ready.val() {
                    self.dest.d.next = self.dest.q.val() + 1;
                    self.state.d.next = DeliverState::Word3;
                }
            }
            DeliverState::Word3 => {
                self.beats.in_valid.next = true;
                self.beat.next.data = self.done_word.out.val();
                self.beat.next.last = true;
                self.beat.next.done = true;
                if self.beats.in_ready.val() {
                    self.told_queue.d.next = self.c_queue.q.val();
                    self.told_error.d.next = self.c_status.q.val() != self.code_ok.val();
                    self.state.d.next = DeliverState::After;
                }
            }
            DeliverState::After => {
                self.state.d.next = DeliverState::Idle;
                match self.after.q.val() {
                    AfterState::Nothing => {
                        self.state.d.next = DeliverState::Idle;
                    }
                    AfterState::NextBuffer => {
                        self.state.d.next = DeliverState::Size;
                    }
                    AfterState::EndOfFrame => {
                        self.frame_ready.next = true;
                        self.begun.d.next = false;
                    }
                    AfterState::DropRest => {
                        self.state.d.next = DeliverState::Drop;
                    }
                }
            }
            DeliverState::Drop => {
                self.pointer.d.next =
                    self.pointer.q.val() + bit_cast::<12, 11>(self.left_words.val());
                self.held.d.next = false;
                self.begun.d.next = false;
                self.frame_ready.next = true;
                self.no_buffer.next = true;
                self.state.d.next = DeliverState::Idle;
            }
        }
        self.bases.read_address.next = self.base_address.out.val();
        self.beats.in_data.next = self.beat.val();
        self.out_beat.next = self.beats.out_data.val();
        self.out_addr.next = self.out_beat.val().addr;
        self.beats.out_ready.next = self.wr_ready.val();
        self.wr_valid.next = self.beats.out_valid.val();
        self.wr_addr.next = bit_cast::<64, 61>(self.out_addr.val()) << 3;
        self.wr_data.next = self.out_beat.val().data;
        self.wr_strb.next = self.out_beat.val().strb;
        self.wr_last.next = self.out_beat.val().last;
        self.written.next =
            self.beats.out_valid.val() & self.wr_ready.val() & self.out_beat.val().done;
        self.written_queue.next = self.told_queue.q.val();
        self.written_error.next = self.told_error.q.val();
        self.idle.next = (self.state.q.val() == DeliverState::Idle)
            & !self.frame_valid.val()
            & !self.d_valid.q.val()
            & !self.beats.out_valid.val()
            & self.bell_errors.empty.val()
            & self.refusals.empty.val();
    }
}
