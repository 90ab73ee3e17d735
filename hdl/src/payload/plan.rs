// SPDX-License-Identifier: MIT OR Apache-2.0
//! From grants to reads: the template, then the bytes of the segment fragment
//! by fragment, in pieces that end at multiples of 512 bytes.
//!
//! Of each burst the store holds two words: what its segments have in common, and
//! where its payload goes on. They share a memory, since a block RAM is deeper than
//! there are contexts. Fetch writes both, and the second is written again after
//! every segment, in a cycle in which fetch does not.
//!
//! A grant is taken and its burst's words are read while the one before it is
//! being planned. A piece takes three cycles, a further fragment two more, so a
//! segment of two pieces takes seven.

use super::fragments::Fragments;
use super::types::{Piece, Planned};
use crate::fetch::{Burst, Fragment};
use crate::prelude::*;
use tsonic_regs::limits::DMA_REQUEST_MAX;

/// log2 of the words of the buffer (4 KiB).
pub const BUFFER_LOG2: usize = 9;
/// Places of the buffer that may be spoken for when a piece is asked for: the
/// largest piece, 512 bytes that do not begin at a word, takes 65, and the end of
/// a stream one more.
const ROOM: u64 = (1 << BUFFER_LOG2) - 66;

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum TakeState {
    Empty,
    Reading,
    Loaded,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum PlanState {
    Idle,
    Fragment,
    Load,
    Measure,
    Cut,
    Ask,
}

/// The planner.
#[derive(LogicBlock, Default)]
pub struct Plan {
    /// Clock.
    pub clock: Signal<In, Clock>,

    /// A segment may be sent.
    pub grant_valid: Signal<In, bool>,
    /// It is taken.
    pub grant_ready: Signal<Out, bool>,
    /// Context.
    pub grant_ctx: Signal<In, Bits<8>>,
    /// Payload offset.
    pub grant_offset: Signal<In, Bits<18>>,
    /// Payload bytes.
    pub grant_len: Signal<In, Bits<16>>,
    /// Segment number.
    pub grant_index: Signal<In, Bits<18>>,
    /// First of the burst.
    pub grant_first: Signal<In, bool>,
    /// Last of the burst.
    pub grant_last: Signal<In, bool>,
    /// No segment, only the burst's end.
    pub grant_aborted: Signal<In, bool>,

    /// Writes the burst store; not in two cycles in a row.
    pub burst_write: Signal<In, bool>,
    /// Context.
    pub burst_ctx: Signal<In, Bits<8>>,
    /// The burst.
    pub burst: Signal<In, Burst>,
    /// Writes the fragment store.
    pub fragment_write: Signal<In, bool>,
    /// Context, and fragment less 1 in the low four bits.
    pub fragment_index: Signal<In, Bits<12>>,
    /// The fragment.
    pub fragment: Signal<In, Fragment>,

    /// Read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,

    /// The read goes with this piece (in the cycle in which it is taken).
    pub piece_valid: Signal<Out, bool>,
    /// There is room for it.
    pub piece_ready: Signal<In, bool>,
    /// The piece.
    pub piece: Signal<Out, Piece>,
    /// A planned segment.
    pub job_valid: Signal<Out, bool>,
    /// There is room for it.
    pub job_ready: Signal<In, bool>,
    /// The segment.
    pub job: Signal<Out, Planned>,
    /// A place of the buffer is free again.
    pub place_freed: Signal<In, bool>,
    /// Places that a piece did not need.
    pub places_back: Signal<In, Bits<7>>,
    /// Nothing is being planned and no place of the buffer is kept.
    pub idle: Signal<Out, bool>,

    bursts: Ram<Bits<102>, 9>,
    write_place: Pack2<8, 1, 9>,
    read_place: Pack2<8, 1, 9>,
    burst_flags: Pack3<1, 1, 1, 3>,
    burst_common: Pack7<2, 3, 8, 9, 7, 9, 64, 102>,
    cursor_in: Pack4<64, 18, 4, 16, 102>,
    fragments: Fragments,
    place: Pack2<4, 8, 12>,
    // Fragment 0 of the burst that was written in the last cycle.
    second: DFF<Bit>,
    second_ctx: DFF<Bits<8>>,
    second_addr: DFF<Bits<64>>,
    second_left: DFF<Bits<18>>,
    common: DFF<Bits<102>>,
    template: Unpack7<2, 3, 8, 9, 7, 9, 64, 102>,
    flags: Unpack3<1, 1, 1, 3>,
    cursor: Unpack4<64, 18, 4, 16, 102>,
    take: DFF<TakeState>,
    t_ctx: DFF<Bits<8>>,
    t_offset: DFF<Bits<18>>,
    t_len: DFF<Bits<16>>,
    t_index: DFF<Bits<18>>,
    t_first: DFF<Bit>,
    t_last: DFF<Bit>,
    t_aborted: DFF<Bit>,

    state: DFF<PlanState>,
    ctx: DFF<Bits<8>>,
    header: DFF<Bit>,
    payload_len: DFF<Bits<16>>,
    next_addr: DFF<Bits<64>>,
    next_left: DFF<Bits<18>>,
    entry: DFF<Bits<4>>,
    addr: DFF<Bits<64>>,
    left: DFF<Bits<18>>,
    wanted: DFF<Bits<16>>,
    save: DFF<Bit>,
    least: DFF<Bits<18>>,
    to_cut: DFF<Bits<10>>,
    chunk: DFF<Bits<10>>,
    used: DFF<Bits<10>>,
    plus: DFF<Bits<10>>,
    room: DFF<Bit>,
    back: DFF<Bits<7>>,
    freed: DFF<Bit>,

    save_now: Signal<Local, Bit>,
    saved: Signal<Local, Bit>,
    has_cursor: Signal<Local, Bit>,
    start_job: Signal<Local, Bit>,
    low: Signal<Local, Bits<10>>,
    wanted_wide: Signal<Local, Bits<18>>,
    chunk_wide: Signal<Local, Bits<18>>,
    chunk_short: Signal<Local, Bits<16>>,
    left_after: Signal<Local, Bits<18>>,
    wanted_after: Signal<Local, Bits<16>>,
    at_cut: Signal<Local, Bit>,
    high_after: Signal<Local, Bits<55>>,
    low_after: Signal<Local, Bits<9>>,
    addr_after: Pack2<9, 55, 64>,
    offset_in_word: Signal<Local, Bits<10>>,
    span: Signal<Local, Bits<10>>,
    words: Signal<Local, Bits<7>>,
    places: Signal<Local, Bits<7>>,
    stream_end: Signal<Local, Bit>,
    fragment_end: Signal<Local, Bit>,
    asked: Signal<Local, Bit>,
    minus: Signal<Local, Bits<10>>,
    freed_one: Signal<Local, Bits<10>>,
    back_wide: Signal<Local, Bits<10>>,
    entry_next: Signal<Local, Bits<4>>,
    burst_kind: Signal<Local, Bits<4>>,
    header_len: Signal<Local, Bits<9>>,
    cut: Fixed<10, { DMA_REQUEST_MAX as u64 }>,
    enough: Fixed<10, { ROOM }>,
}

const _: () = assert!(DMA_REQUEST_MAX == 512);

impl Logic for Plan {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            second,
            second_ctx,
            second_addr,
            second_left,
            common,
            take,
            t_ctx,
            t_offset,
            t_len,
            t_index,
            t_first,
            t_last,
            t_aborted,
            state,
            ctx,
            header,
            payload_len,
            next_addr,
            next_left,
            entry,
            addr,
            left,
            wanted,
            save,
            least,
            to_cut,
            chunk,
            used,
            plus,
            room,
            back,
            freed
        );
        clock!(self, clock, bursts, fragments);

        // The stores.
        self.burst_kind.next = self.burst.val().kind;
        self.burst_flags.i0.next = self.burst.val().ipv6;
        self.burst_flags.i1.next = self.burst.val().ip_id_fixed;
        self.burst_flags.i2.next = self.burst.val().cwr_all;
        self.burst_common.i0.next = self.burst_kind.val().get_bits::<2>(0);
        self.burst_common.i1.next = self.burst_flags.out.val();
        self.burst_common.i2.next = self.burst.val().l2_len;
        self.burst_common.i3.next = self.burst.val().l3_len;
        self.burst_common.i4.next = self.burst.val().l4_len;
        self.burst_common.i5.next = self.burst.val().header_len;
        self.burst_common.i6.next = self.burst.val().header_addr;
        self.second.d.next = self.burst_write.val();
        self.second_ctx.d.next = self.burst_ctx.val();
        self.second_addr.d.next = self.burst.val().frag0_addr;
        self.second_left.d.next = self.burst.val().frag0_len;
        self.cursor_in.i0.next = self.addr.q.val();
        self.cursor_in.i1.next = self.left.q.val();
        self.cursor_in.i2.next = self.entry.q.val();
        self.cursor_in.i3.next = 0.into();
        self.save_now.next = self.save.q.val() & !self.burst_write.val() & !self.second.q.val();
        self.saved.next = !self.save.q.val() | self.save_now.val();
        self.bursts.write_enable.next =
            self.burst_write.val() | self.second.q.val() | self.save.q.val();
        self.write_place.i0.next = self.ctx.q.val();
        self.write_place.i1.next = 1.into();
        if self.second.q.val() {
            self.write_place.i0.next = self.second_ctx.q.val();
            self.cursor_in.i0.next = self.second_addr.q.val();
            self.cursor_in.i1.next = self.second_left.q.val();
            self.cursor_in.i2.next = 0.into();
        }
        self.bursts.write_data.next = self.cursor_in.out.val();
        if self.burst_write.val() {
            self.write_place.i0.next = self.burst_ctx.val();
            self.write_place.i1.next = 0.into();
            self.bursts.write_data.next = self.burst_common.out.val();
        }
        self.bursts.write_address.next = self.write_place.out.val();
        self.bursts.read_enable.next = false;
        self.read_place.i0.next = self.grant_ctx.val();
        self.read_place.i1.next = 0.into();
        self.fragments.write_enable.next = self.fragment_write.val();
        self.fragments.write_address.next = self.fragment_index.val();
        self.fragments.write_data.next = self.fragment.val();
        self.fragments.read_enable.next = false;
        self.place.i0.next = self.entry.q.val();
        self.place.i1.next = self.ctx.q.val();
        self.fragments.read_address.next = self.place.out.val();
        self.save.d.next = self.save.q.val() & !self.save_now.val();

        // The grant that is planned next.
        self.start_job.next = (self.take.q.val() == TakeState::Loaded)
            & (self.state.q.val() == PlanState::Idle)
            & self.saved.val()
            & self.job_ready.val();
        // The planner's own context: its registers have the cursor.
        self.has_cursor.next = (self.t_ctx.q.val() == self.ctx.q.val()) & !self.t_first.q.val();
        self.grant_ready.next = false;
        match self.take.q.val() {
            TakeState::Empty => {
                self.grant_ready.next = true;
                self.t_ctx.d.next = self.grant_ctx.val();
                self.t_offset.d.next = self.grant_offset.val();
                self.t_len.d.next = self.grant_len.val();
                self.t_index.d.next = self.grant_index.val();
                self.t_first.d.next = self.grant_first.val();
                self.t_last.d.next = self.grant_last.val();
                self.t_aborted.d.next = self.grant_aborted.val();
                if self.grant_valid.val() {
                    self.bursts.read_enable.next = true;
                    self.take.d.next = TakeState::Reading;
                }
            }
            TakeState::Reading => {
                self.common.d.next = self.bursts.read_data.val();
                self.read_place.i0.next = self.t_ctx.q.val();
                self.read_place.i1.next = 1.into();
                if !self.save.q.val() {
                    self.bursts.read_enable.next = !self.has_cursor.val();
                    self.take.d.next = TakeState::Loaded;
                }
            }
            TakeState::Loaded => {
                if self.start_job.val() {
                    self.take.d.next = TakeState::Empty;
                }
            }
        }

        self.bursts.read_address.next = self.read_place.out.val();
        self.template.data.next = self.common.q.val();
        self.flags.data.next = self.template.o1.val();
        self.header_len.next = self.template.o5.val();
        self.cursor.data.next = self.bursts.read_data.val();
        self.job_valid.next = self.start_job.val();
        self.job.next.kind = self.template.o0.val();
        self.job.next.ipv6 = self.flags.o0.val().any();
        self.job.next.ip_id_fixed = self.flags.o1.val().any();
        self.job.next.cwr_all = self.flags.o2.val().any();
        self.job.next.l2_len = self.template.o2.val();
        self.job.next.l3_len = self.template.o3.val();
        self.job.next.l4_len = self.template.o4.val();
        self.job.next.len = self.t_len.q.val();
        self.job.next.offset = self.t_offset.q.val();
        self.job.next.index = self.t_index.q.val();
        self.job.next.first = self.t_first.q.val();
        self.job.next.last = self.t_last.q.val();
        self.job.next.ctx = self.t_ctx.q.val();
        self.job.next.dropped = self.t_aborted.q.val();

        // A piece: what is wanted, what the fragment has, up to the cut.
        self.low.next = bit_cast::<10, 9>(self.addr.q.val().get_bits::<9>(0));
        self.wanted_wide.next = bit_cast::<18, 16>(self.wanted.q.val());
        self.chunk_wide.next = bit_cast::<18, 10>(self.chunk.q.val());
        self.chunk_short.next = bit_cast::<16, 10>(self.chunk.q.val());
        self.left_after.next = self.left.q.val() - self.chunk_wide.val();
        self.wanted_after.next = self.wanted.q.val() - self.chunk_short.val();
        self.stream_end.next = self.wanted.q.val() == self.chunk_short.val();
        self.fragment_end.next = self.left.q.val() == self.chunk_wide.val();
        self.at_cut.next = self.chunk.q.val() == self.to_cut.q.val();
        self.low_after.next =
            self.addr.q.val().get_bits::<9>(0) + self.chunk.q.val().get_bits::<9>(0);
        self.high_after.next = self.addr.q.val().get_bits::<55>(9);
        if self.at_cut.val() {
            self.high_after.next = self.addr.q.val().get_bits::<55>(9) + 1;
        }
        self.addr_after.i0.next = self.low_after.val();
        self.addr_after.i1.next = self.high_after.val();
        self.offset_in_word.next = bit_cast::<10, 3>(self.addr.q.val().get_bits::<3>(0));
        self.span.next = self.chunk.q.val() + self.offset_in_word.val() + 7;
        self.words.next = self.span.val().get_bits::<7>(3);
        // The end of a stream may need one more place, to empty the hold register.
        self.places.next = self.words.val();
        if self.stream_end.val() {
            self.places.next = self.words.val() + 1;
        }

        self.rd_req_valid.next = false;
        self.rd_req_addr.next = self.addr.q.val();
        self.rd_req_len.next = bit_cast::<13, 10>(self.chunk.q.val());
        self.asked.next = false;
        self.entry_next.next = self.entry.q.val() + 1;

        match self.state.q.val() {
            PlanState::Idle => {
                if self.start_job.val() {
                    self.ctx.d.next = self.t_ctx.q.val();
                    self.header.d.next = true;
                    self.payload_len.d.next = self.t_len.q.val();
                    self.addr.d.next = self.template.o6.val();
                    self.left.d.next = bit_cast::<18, 9>(self.header_len.val());
                    self.wanted.d.next = bit_cast::<16, 9>(self.header_len.val());
                    if self.has_cursor.val() {
                        self.next_addr.d.next = self.addr.q.val();
                        self.next_left.d.next = self.left.q.val();
                    } else {
                        self.next_addr.d.next = self.cursor.o0.val();
                        self.next_left.d.next = self.cursor.o1.val();
                        self.entry.d.next = self.cursor.o2.val();
                    }
                    if !self.t_aborted.q.val() {
                        self.state.d.next = PlanState::Measure;
                    }
                }
            }
            PlanState::Fragment => {
                self.fragments.read_enable.next = true;
                self.state.d.next = PlanState::Load;
            }
            PlanState::Load => {
                self.addr.d.next = self.fragments.read_data.val().addr;
                self.left.d.next = self.fragments.read_data.val().length;
                self.entry.d.next = self.entry_next.val();
                self.state.d.next = PlanState::Measure;
            }
            PlanState::Measure => {
                self.least.d.next = self.wanted_wide.val();
                if self.left.q.val() < self.wanted_wide.val() {
                    self.least.d.next = self.left.q.val();
                }
                self.to_cut.d.next = self.cut.val() - self.low.val();
                self.state.d.next = PlanState::Cut;
            }
            PlanState::Cut => {
                self.chunk.d.next = self.to_cut.q.val();
                if !self.least.q.val().get_bits::<8>(10).any()
                    & (self.least.q.val().get_bits::<10>(0) < self.to_cut.q.val())
                {
                    self.chunk.d.next = self.least.q.val().get_bits::<10>(0);
                }
                self.state.d.next = PlanState::Ask;
            }
            PlanState::Ask => {
                self.rd_req_valid.next = self.room.q.val() & self.piece_ready.val();
                self.asked.next =
                    self.room.q.val() & self.piece_ready.val() & self.rd_req_ready.val();
                if self.asked.val() {
                    self.addr.d.next = self.addr_after.out.val();
                    self.left.d.next = self.left_after.val();
                    self.wanted.d.next = self.wanted_after.val();
                    self.state.d.next = PlanState::Measure;
                    if self.stream_end.val() {
                        if self.header.q.val() & self.payload_len.q.val().any() {
                            self.header.d.next = false;
                            self.addr.d.next = self.next_addr.q.val();
                            self.left.d.next = self.next_left.q.val();
                            self.wanted.d.next = self.payload_len.q.val();
                            if !self.next_left.q.val().any() {
                                self.state.d.next = PlanState::Fragment;
                            }
                        } else {
                            self.save.d.next = true;
                            self.state.d.next = PlanState::Idle;
                        }
                    } else if self.fragment_end.val() {
                        self.state.d.next = PlanState::Fragment;
                    }
                }
            }
        }
        self.piece_valid.next = self.asked.val();
        self.piece.next.start = self.addr.q.val().get_bits::<3>(0);
        self.piece.next.len = self.chunk.q.val();
        self.piece.next.places = self.places.val();
        self.piece.next.stream_end = self.stream_end.val();
        self.piece.next.job_end =
            self.stream_end.val() & (!self.header.q.val() | !self.payload_len.q.val().any());

        // Places of the buffer that are spoken for.
        self.freed.d.next = self.place_freed.val();
        self.back.d.next = self.places_back.val();
        self.freed_one.next = 0.into();
        if self.freed.q.val() {
            self.freed_one.next = 1.into();
        }
        self.back_wide.next = bit_cast::<10, 7>(self.back.q.val());
        self.minus.next = self.freed_one.val() + self.back_wide.val();
        self.plus.d.next = 0.into();
        if self.asked.val() {
            self.plus.d.next = bit_cast::<10, 7>(self.places.val());
        }
        self.used.d.next = (self.used.q.val() + self.plus.q.val()) - self.minus.val();
        // A piece's places are in `room` when the next one can be asked for, three
        // cycles later.
        self.room.d.next = self.used.q.val() <= self.enough.val();
        self.idle.next = (self.take.q.val() == TakeState::Empty)
            & (self.state.q.val() == PlanState::Idle)
            & !self.used.q.val().any()
            & !self.plus.q.val().any()
            & !self.freed.q.val()
            & !self.back.q.val().any();
    }
}
