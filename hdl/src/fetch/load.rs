// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes descriptors as they arrive: checks each, gives it a context, stores
//! what payload needs of it, and asks for its continuation list.

use super::check::Check;
use super::horizon::Horizon;
use super::issue::Request;
use crate::prelude::*;
use crate::words::{UnpackBurst, UnpackControl, UnpackLengths, UnpackRate};
use tsonic_regs::Status;
use tsonic_regs::descriptor::{COOKIE_NONE, FragmentEntry};
use tsonic_regs::limits::{DMA_BOUNDARY, INLINE_FRAGMENTS};

/// A word of memory as it arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Beat {
    /// Data.
    pub data: Bits<64>,
    /// Last of its request.
    pub last: Bit,
    /// The request failed; the word is not data.
    pub err: Bit,
}

/// What payload keeps of a burst, by context.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Burst {
    /// Code of the kind.
    pub kind: Bits<4>,
    /// IPv6.
    pub ipv6: Bits<1>,
    /// The IPv4 identification stays.
    pub ip_id_fixed: Bits<1>,
    /// CWR stays on all segments.
    pub cwr_all: Bits<1>,
    /// Bytes of L2 header.
    pub l2_len: Bits<8>,
    /// Bytes of L3 header.
    pub l3_len: Bits<9>,
    /// Bytes of L4 header.
    pub l4_len: Bits<7>,
    /// Sum of the three, at most 256.
    pub header_len: Bits<9>,
    /// Address of the template.
    pub header_addr: Bits<64>,
    /// Address of fragment 0.
    pub frag0_addr: Bits<64>,
    /// Bytes of fragment 0.
    pub frag0_len: Bits<18>,
}

/// A burst that the check took, on its way to the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Job {
    /// Context.
    pub ctx: Bits<8>,
    /// Queue.
    pub queue: Bits<8>,
    /// Row of the flow table.
    pub flow_slot: Bits<16>,
    /// The driver's number.
    pub cookie: Bits<16>,
    /// Complete at once.
    pub timestamp: Bits<1>,
    /// Ticks per byte, 20.28.
    pub inv_rate: Bits<48>,
    /// Payload bytes.
    pub payload_len: Bits<18>,
    /// Payload bytes of one segment.
    pub segment: Bits<16>,
    /// Bytes of the template.
    pub header_len: Bits<9>,
    /// `launch` counts.
    pub launch_valid: Bits<1>,
    /// Launch time in ticks.
    pub launch: Bits<64>,
    /// Entries of the continuation list; 0: none.
    pub entries: Bits<5>,
    /// The list is read in two requests.
    pub split: Bit,
    /// Fragment 1 stands in the descriptor.
    pub second: Bit,
    /// Address of fragment 1 (when `second`).
    pub frag1_addr: Bits<64>,
    /// Bytes after fragment 0.
    pub rest: Bits<18>,
    /// Limit of the flow in units; 0: none.
    pub flow_limit: Bits<14>,
}

/// An error completion asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Refusal {
    /// Queue.
    pub queue: Bits<8>,
    /// Row of the flow table.
    pub flow_slot: Bits<16>,
    /// The driver's number.
    pub cookie: Bits<16>,
    /// Code of the status.
    pub status: Bits<8>,
    /// A reservation of a context goes back to the pool.
    pub reserved: Bit,
    /// And this context.
    pub has_ctx: Bit,
    /// The context.
    pub ctx: Bits<8>,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum LoadState {
    Words,
    Wait,
    Decide,
    List,
    Second,
    Push,
    Fault,
}

/// From words to checked bursts.
#[derive(LogicBlock, Default)]
pub struct Load {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The build segments TCP.
    pub tso: Signal<In, bool>,
    /// The build segments UDP.
    pub uso: Signal<In, bool>,
    /// Rows of the flow table.
    pub flow_slots: Signal<In, Bits<17>>,
    /// Largest payload of a segment.
    pub max_segment: Signal<In, Bits<18>>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// A paced burst may be launched this many ticks ahead.
    pub horizon: Signal<In, Bits<32>>,

    /// A word arrived (there is always room).
    pub rd_valid: Signal<In, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,
    /// A read is under way.
    pub request_valid: Signal<In, bool>,
    /// It is used up.
    pub request_ready: Signal<Out, bool>,
    /// The read.
    pub request: Signal<In, Request>,

    /// Slots up to here are free again.
    pub head_valid: Signal<Out, bool>,
    /// The queue.
    pub head_queue: Signal<Out, Bits<8>>,
    /// Index of the next slot to be fetched.
    pub head_index: Signal<Out, Bits<12>>,

    /// A context comes back.
    pub free_valid: Signal<In, bool>,
    /// The context.
    pub free_ctx: Signal<In, Bits<8>>,

    /// Writes the burst store.
    pub burst_write: Signal<Out, bool>,
    /// Context.
    pub burst_ctx: Signal<Out, Bits<8>>,
    /// The burst.
    pub burst: Signal<Out, Burst>,

    /// Read request of a continuation list.
    pub list_req_valid: Signal<Out, bool>,
    /// Taken.
    pub list_req_ready: Signal<In, bool>,
    /// Address.
    pub list_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub list_req_len: Signal<Out, Bits<13>>,

    /// A burst goes on to the lists.
    pub job_valid: Signal<Out, bool>,
    /// Taken. High before a list is asked for: then it stays high until the job comes.
    pub job_ready: Signal<In, bool>,
    /// The burst.
    pub job: Signal<Out, Job>,

    /// A descriptor is refused.
    pub refusal_valid: Signal<Out, bool>,
    /// Taken.
    pub refusal_ready: Signal<In, bool>,
    /// The refusal.
    pub refusal: Signal<Out, Refusal>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    beats: Fifo<Beat, 9>,
    check: Check,
    far: Horizon,
    free_list: Fifo<Bits<8>, 8>,
    unused: DFF<Bits<9>>,
    state: DFF<LoadState>,
    word: DFF<Bits<3>>,
    slot: DFF<Bits<3>>,
    control: DFF<Bits<64>>,
    burst_word: DFF<Bits<64>>,
    header_addr: DFF<Bits<64>>,
    rate: DFF<Bits<64>>,
    launch: DFF<Bits<64>>,
    frag0_addr: DFF<Bits<64>>,
    frag1_addr: DFF<Bits<64>>,
    lengths: DFF<Bits<64>>,
    ctx: DFF<Bits<8>>,
    split: DFF<Bit>,
    first_len: DFF<Bits<13>>,
    second_len: DFF<Bits<13>>,

    control_fields: UnpackControl,
    burst_fields: UnpackBurst,
    rate_fields: UnpackRate,
    length_fields: UnpackLengths,
    list_bytes: Pack3<4, 5, 4, 13>,
    page: Pack2<12, 52, 64>,

    data: Signal<Local, Bits<64>>,
    request_word: Signal<Local, Request>,
    next_slot: Signal<Local, Bits<3>>,
    slots: Signal<Local, Bits<3>>,
    slot_done: Signal<Local, Bit>,
    read_done: Signal<Local, Bit>,
    ctx_valid: Signal<Local, Bit>,
    new_ctx: Signal<Local, Bits<8>>,
    take_ctx: Signal<Local, Bit>,
    listed: Signal<Local, Bit>,
    entries: Signal<Local, Bits<5>>,
    page_offset: Signal<Local, Bits<13>>,
    to_page: Signal<Local, Bits<13>>,
    remainder: Signal<Local, Bits<13>>,
    next_page: Signal<Local, Bits<52>>,
    unused_next: Signal<Local, Bits<9>>,
    status: Signal<Local, Bits<8>>,
    word_next: Signal<Local, Bits<3>>,

    inline_max: Fixed<5, { INLINE_FRAGMENTS as u64 }>,
    page_bytes: Fixed<13, { DMA_BOUNDARY as u64 }>,
    no_cookie: Fixed<16, { COOKIE_NONE as u64 }>,
    s_ok: Fixed<8, { Status::Ok as u64 }>,
    s_fault: Fixed<8, { Status::AddressFault as u64 }>,
    s_horizon: Fixed<8, { Status::BeyondHorizon as u64 }>,
}

const _: () = assert!(FragmentEntry::BYTES == 16);

impl Logic for Load {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            unused,
            state,
            word,
            slot,
            control,
            burst_word,
            header_addr,
            rate,
            launch,
            frag0_addr,
            frag1_addr,
            lengths,
            ctx,
            split,
            first_len,
            second_len
        );
        self.beats.clock.next = self.clock.val();
        self.check.clock.next = self.clock.val();
        self.far.clock.next = self.clock.val();
        self.free_list.clock.next = self.clock.val();
        self.beats.flush.next = false;
        self.free_list.flush.next = false;

        self.beats.write_valid.next = self.rd_valid.val();
        self.beats.write_data.next.data = self.rd_data.val();
        self.beats.write_data.next.last = self.rd_last.val();
        self.beats.write_data.next.err = self.rd_err.val();
        self.beats.read_ready.next = false;
        self.data.next = self.beats.read_data.val().data;

        self.check.tso.next = self.tso.val();
        self.check.uso.next = self.uso.val();
        self.check.flow_slots.next = self.flow_slots.val();
        self.check.max_segment.next = self.max_segment.val();
        // Judged by the last cycle of Wait: what is refused does not change its mind.
        self.far.ticks.next = self.ticks.val();
        self.far.horizon.next = self.horizon.val();
        self.far.launch.next = self.launch.q.val();
        self.far.counts.next =
            self.control_fields.launch.val().any() & self.burst_fields.flow_slot.val().any();
        self.far.look.next = self.state.q.val() == LoadState::Wait;
        self.check.control.next = self.control.q.val();
        self.check.burst.next = self.burst_word.q.val();
        self.check.rate.next = self.rate.q.val();
        self.check.frag1_addr.next = self.frag1_addr.q.val();
        self.check.lengths.next = self.lengths.q.val();
        self.control_fields.data.next = self.control.q.val();
        self.burst_fields.data.next = self.burst_word.q.val();
        self.rate_fields.data.next = self.rate.q.val();
        self.length_fields.data.next = self.lengths.q.val();

        // The pool: contexts that were never used, then those that came back.
        self.free_list.write_valid.next = self.free_valid.val();
        self.free_list.write_data.next = self.free_ctx.val();
        self.take_ctx.next = false;
        self.ctx_valid.next = true;
        self.new_ctx.next = self.unused.q.val().get_bits::<8>(0);
        if self.unused.q.val().get_bit(8) {
            self.ctx_valid.next = self.free_list.read_valid.val();
            self.new_ctx.next = self.free_list.read_data.val();
        }
        self.unused_next.next = self.unused.q.val() + 1;

        self.request_word.next = self.request.val();
        self.slots.next = self.request.val().count;
        self.head_queue.next = self.request.val().queue;
        self.head_index.next = self.request.val().head;
        self.next_slot.next = self.slot.q.val() + 1;
        self.word_next.next = self.word.q.val() + 1;
        self.slot_done.next = false;
        self.read_done.next = self.next_slot.val() == self.slots.val();

        self.entries.next = self.control_fields.fragments.val() - 1;
        self.listed.next = self.control_fields.fragments.val() > self.inline_max.val();
        self.list_bytes.i0.next = 0.into();
        self.list_bytes.i1.next = self.entries.val();
        self.list_bytes.i2.next = 0.into();
        self.page_offset.next = bit_cast::<13, 12>(self.frag1_addr.q.val().get_bits::<12>(0));
        self.to_page.next = self.page_bytes.val() - self.page_offset.val();
        self.remainder.next = self.list_bytes.out.val() - self.to_page.val();
        self.next_page.next = self.frag1_addr.q.val().get_bits::<52>(12) + 1;
        self.page.i0.next = 0.into();
        self.page.i1.next = self.next_page.val();

        self.burst_write.next = false;
        self.burst_ctx.next = self.ctx.q.val();
        self.burst.next.kind = self.control_fields.kind.val();
        self.burst.next.ipv6 = self.control_fields.ipv6.val();
        self.burst.next.ip_id_fixed = self.control_fields.ip_id_fixed.val();
        self.burst.next.cwr_all = self.control_fields.cwr_all.val();
        self.burst.next.l2_len = self.control_fields.l2_len.val();
        self.burst.next.l3_len = self.control_fields.l3_len.val();
        self.burst.next.l4_len = self.control_fields.l4_len.val();
        self.burst.next.header_len = self.check.header_len.val();
        self.burst.next.header_addr = self.header_addr.q.val();
        self.burst.next.frag0_addr = self.frag0_addr.q.val();
        self.burst.next.frag0_len = self.length_fields.frag0_len.val();

        self.job_valid.next = false;
        self.job.next.ctx = self.ctx.q.val();
        self.job.next.queue = self.request.val().queue;
        self.job.next.flow_slot = self.burst_fields.flow_slot.val();
        self.job.next.cookie = self.burst_fields.cookie.val();
        self.job.next.timestamp = self.control_fields.timestamp.val();
        self.job.next.inv_rate = self.rate_fields.inv_rate.val();
        self.job.next.payload_len = self.burst_fields.payload_len.val();
        self.job.next.flow_limit = self.burst_fields.flow_limit.val();
        self.job.next.segment = self.check.segment.val();
        self.job.next.header_len = self.check.header_len.val();
        self.job.next.launch_valid = self.control_fields.launch.val();
        self.job.next.launch = self.launch.q.val();
        self.job.next.entries = 0.into();
        if self.listed.val() {
            self.job.next.entries = self.entries.val();
        }
        self.job.next.split = self.split.q.val() & self.listed.val();
        self.job.next.second = self.control_fields.fragments.val() == self.inline_max.val();
        self.job.next.frag1_addr = self.frag1_addr.q.val();
        self.job.next.rest =
            self.burst_fields.payload_len.val() - self.length_fields.frag0_len.val();

        self.list_req_valid.next = false;
        self.list_req_addr.next = self.frag1_addr.q.val();
        self.list_req_len.next = self.first_len.q.val();

        self.status.next = self.check.status.val();
        self.refusal_valid.next = false;
        self.refusal.next.queue = self.request.val().queue;
        self.refusal.next.flow_slot = self.burst_fields.flow_slot.val();
        self.refusal.next.cookie = self.burst_fields.cookie.val();
        self.refusal.next.status = self.status.val();
        if self.status.val() == self.s_ok.val() {
            self.refusal.next.status = self.s_horizon.val();
        }
        self.refusal.next.reserved = true;
        self.refusal.next.has_ctx = false;
        self.refusal.next.ctx = 0.into();

        match self.state.q.val() {
            LoadState::Words => {
                if self.beats.read_valid.val() & self.request_valid.val() {
                    self.beats.read_ready.next = true;
                    if self.beats.read_data.val().err {
                        self.state.d.next = LoadState::Fault;
                    } else {
                        self.word.d.next = self.word_next.val();
                        if self.word.q.val() == 0 {
                            self.control.d.next = self.data.val();
                        } else if self.word.q.val() == 1 {
                            self.burst_word.d.next = self.data.val();
                        } else if self.word.q.val() == 2 {
                            self.header_addr.d.next = self.data.val();
                        } else if self.word.q.val() == 3 {
                            self.rate.d.next = self.data.val();
                        } else if self.word.q.val() == 4 {
                            self.launch.d.next = self.data.val();
                        } else if self.word.q.val() == 5 {
                            self.frag0_addr.d.next = self.data.val();
                        } else if self.word.q.val() == 6 {
                            self.frag1_addr.d.next = self.data.val();
                        } else {
                            self.lengths.d.next = self.data.val();
                            self.state.d.next = LoadState::Wait;
                        }
                    }
                }
            }
            LoadState::Wait => {
                self.split.d.next = self.list_bytes.out.val() > self.to_page.val();
                self.first_len.d.next = self.list_bytes.out.val();
                if self.list_bytes.out.val() > self.to_page.val() {
                    self.first_len.d.next = self.to_page.val();
                }
                self.second_len.d.next = self.remainder.val();
                self.ctx.d.next = self.new_ctx.val();
                if self.ctx_valid.val() {
                    self.state.d.next = LoadState::Decide;
                }
            }
            LoadState::Decide => {
                if (self.status.val() != self.s_ok.val()) | self.far.beyond.val() {
                    self.refusal_valid.next = true;
                    self.slot_done.next = self.refusal_ready.val();
                } else if self.job_ready.val() {
                    self.take_ctx.next = true;
                    self.burst_write.next = true;
                    if self.listed.val() {
                        self.state.d.next = LoadState::List;
                    } else {
                        self.job_valid.next = true;
                        self.slot_done.next = true;
                    }
                }
            }
            LoadState::List => {
                self.list_req_valid.next = true;
                if self.list_req_ready.val() {
                    if self.split.q.val() {
                        self.state.d.next = LoadState::Second;
                    } else {
                        self.state.d.next = LoadState::Push;
                    }
                }
            }
            LoadState::Second => {
                self.list_req_valid.next = true;
                self.list_req_addr.next = self.page.out.val();
                self.list_req_len.next = self.second_len.q.val();
                if self.list_req_ready.val() {
                    self.state.d.next = LoadState::Push;
                }
            }
            LoadState::Push => {
                self.job_valid.next = true;
                self.slot_done.next = true;
            }
            LoadState::Fault => {
                self.refusal_valid.next = true;
                self.refusal.next.flow_slot = 0.into();
                self.refusal.next.cookie = self.no_cookie.val();
                self.refusal.next.status = self.s_fault.val();
                self.slot_done.next = self.refusal_ready.val();
            }
        }

        self.free_list.read_ready.next = self.take_ctx.val() & self.unused.q.val().get_bit(8);
        if self.take_ctx.val() & !self.unused.q.val().get_bit(8) {
            self.unused.d.next = self.unused_next.val();
        }

        self.request_ready.next = false;
        self.head_valid.next = false;
        if self.slot_done.val() {
            self.slot.d.next = self.next_slot.val();
            if self.state.q.val() != LoadState::Fault {
                self.state.d.next = LoadState::Words;
            }
            if self.read_done.val() {
                self.slot.d.next = 0.into();
                self.word.d.next = 0.into();
                self.state.d.next = LoadState::Words;
                self.request_ready.next = true;
                self.head_valid.next = true;
            }
        }
        self.idle.next = self.beats.empty.val() & (self.state.q.val() == LoadState::Words);
    }
}
