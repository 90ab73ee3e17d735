// SPDX-License-Identifier: MIT OR Apache-2.0
//! The last step of fetch: continuation lists are read, checked and stored;
//! then the burst is announced to completion and joins the scheduler.
//!
//! Lists are asked for by [`super::load::Load`] ahead of time, so they arrive
//! one behind the other; bursts leave here in the order of their descriptors.

use super::load::{Beat, Job, Refusal};
use crate::prelude::*;
use crate::words::UnpackFragment;
use tsonic_regs::Status;
use tsonic_regs::descriptor::fragment_length;

/// A fragment as payload reads it.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Fragment {
    /// Address.
    pub addr: Bits<64>,
    /// Bytes.
    pub length: Bits<18>,
}

/// What completion has to know of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Identity {
    /// Queue.
    pub queue: Bits<8>,
    /// Row of the flow table.
    pub flow_slot: Bits<16>,
    /// The driver's number.
    pub cookie: Bits<16>,
    /// Complete at once.
    pub timestamp: Bits<1>,
    /// Payload bytes.
    pub payload_len: Bits<18>,
}

/// What the scheduler gets of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Enqueue {
    /// Context.
    pub ctx: Bits<8>,
    /// Queue.
    pub queue: Bits<8>,
    /// Row of the flow table.
    pub flow_slot: Bits<16>,
    /// Ticks per byte, 20.28.
    pub inv_rate: Bits<48>,
    /// Payload bytes.
    pub payload_len: Bits<18>,
    /// Payload bytes of one segment.
    pub mss: Bits<16>,
    /// Bytes of the template.
    pub header_len: Bits<9>,
    /// `launch` counts.
    pub launch_valid: Bits<1>,
    /// Launch time in ticks.
    pub launch: Bits<64>,
    /// Limit of the flow in units; 0: none.
    pub flow_limit: Bits<14>,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum ListState {
    Take,
    Words,
    Judge,
    Refuse,
    Accept,
    Enqueue,
}

/// log2 of the bursts between load and the scheduler.
pub const JOBS_LOG2: usize = 4;

/// Continuation lists, in order.
#[derive(LogicBlock, Default)]
pub struct Lists {
    /// Clock.
    pub clock: Signal<In, Clock>,

    /// A burst comes.
    pub job_valid: Signal<In, bool>,
    /// There is room for it, and for its list.
    pub job_ready: Signal<Out, bool>,
    /// The burst.
    pub job: Signal<In, Job>,

    /// A word of a list arrived (there is always room).
    pub rd_valid: Signal<In, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,

    /// Writes the fragment store.
    pub fragment_write: Signal<Out, bool>,
    /// Context, and fragment less 1 in the low four bits.
    pub fragment_index: Signal<Out, Bits<12>>,
    /// The fragment.
    pub fragment: Signal<Out, Fragment>,

    /// A burst is announced to completion.
    pub accept_valid: Signal<Out, bool>,
    /// Taken.
    pub accept_ready: Signal<In, bool>,
    /// Its context.
    pub accept_ctx: Signal<Out, Bits<8>>,
    /// The burst.
    pub accept: Signal<Out, Identity>,

    /// A burst joins the scheduler.
    pub enqueue_valid: Signal<Out, bool>,
    /// Taken.
    pub enqueue_ready: Signal<In, bool>,
    /// The burst.
    pub enqueue: Signal<Out, Enqueue>,

    /// A burst is refused.
    pub refusal_valid: Signal<Out, bool>,
    /// Taken.
    pub refusal_ready: Signal<In, bool>,
    /// The refusal.
    pub refusal: Signal<Out, Refusal>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    jobs: Fifo<Job, JOBS_LOG2>,
    beats: Fifo<Beat, 9>,
    state: DFF<ListState>,
    index: DFF<Bits<4>>,
    parts: DFF<Bits<2>>,
    odd: DFF<Bit>,
    fault: DFF<Bit>,
    addr: DFF<Bits<64>>,
    sum: DFF<Bits<22>>,
    status: DFF<Bits<8>>,
    fields: UnpackFragment,
    place: Pack2<4, 8, 12>,
    wide: Zext<18, 22>,
    rest: Zext<18, 22>,

    data: Signal<Local, Bits<64>>,
    last: Signal<Local, Bit>,
    err: Signal<Local, Bit>,
    reserved_bits: Signal<Local, Bits<64>>,
    length: Signal<Local, Bits<18>>,
    entries: Signal<Local, Bits<5>>,
    parts_less: Signal<Local, Bits<2>>,
    index_next: Signal<Local, Bits<4>>,
    take: Signal<Local, Bit>,
    new_sum: Signal<Local, Bits<22>>,

    reserved: Fixed<64, { !fragment_length::BYTES.mask() }>,
    s_ok: Fixed<8, { Status::Ok as u64 }>,
    s_reserved: Fixed<8, { Status::ReservedBits as u64 }>,
    s_mismatch: Fixed<8, { Status::LengthMismatch as u64 }>,
    s_fault: Fixed<8, { Status::AddressFault as u64 }>,
}

impl Logic for Lists {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, index, parts, odd, fault, addr, sum, status
        );
        self.jobs.clock.next = self.clock.val();
        self.beats.clock.next = self.clock.val();
        self.jobs.flush.next = false;
        self.beats.flush.next = false;
        self.jobs.write_valid.next = self.job_valid.val();
        self.jobs.write_data.next = self.job.val();
        self.job_ready.next = self.jobs.write_ready.val();
        self.beats.write_valid.next = self.rd_valid.val();
        self.beats.write_data.next.data = self.rd_data.val();
        self.beats.write_data.next.last = self.rd_last.val();
        self.beats.write_data.next.err = self.rd_err.val();
        self.beats.read_ready.next = false;
        self.data.next = self.beats.read_data.val().data;
        self.last.next = self.beats.read_data.val().last;
        self.err.next = self.beats.read_data.val().err;
        self.entries.next = self.jobs.read_data.val().entries;

        self.fields.data.next = self.data.val();
        self.length.next = self.fields.length.val();
        self.reserved_bits.next = self.data.val() & self.reserved.val();
        self.wide.data.next = self.length.val();
        self.rest.data.next = self.jobs.read_data.val().rest;
        self.new_sum.next = self.sum.q.val() + self.wide.out.val();
        self.parts_less.next = self.parts.q.val() - 1;
        self.index_next.next = self.index.q.val() + 1;

        self.fragment_write.next = false;
        self.place.i0.next = self.index.q.val();
        self.place.i1.next = self.jobs.read_data.val().ctx;
        self.fragment_index.next = self.place.out.val();
        self.fragment.next.addr = self.addr.q.val();
        self.fragment.next.length = self.length.val();

        self.accept_valid.next = false;
        self.accept_ctx.next = self.jobs.read_data.val().ctx;
        self.accept.next.queue = self.jobs.read_data.val().queue;
        self.accept.next.flow_slot = self.jobs.read_data.val().flow_slot;
        self.accept.next.cookie = self.jobs.read_data.val().cookie;
        self.accept.next.timestamp = self.jobs.read_data.val().timestamp;
        self.accept.next.payload_len = self.jobs.read_data.val().payload_len;
        self.enqueue_valid.next = false;
        self.enqueue.next.ctx = self.jobs.read_data.val().ctx;
        self.enqueue.next.queue = self.jobs.read_data.val().queue;
        self.enqueue.next.flow_slot = self.jobs.read_data.val().flow_slot;
        self.enqueue.next.inv_rate = self.jobs.read_data.val().inv_rate;
        self.enqueue.next.payload_len = self.jobs.read_data.val().payload_len;
        self.enqueue.next.mss = self.jobs.read_data.val().segment;
        self.enqueue.next.header_len = self.jobs.read_data.val().header_len;
        self.enqueue.next.launch_valid = self.jobs.read_data.val().launch_valid;
        self.enqueue.next.launch = self.jobs.read_data.val().launch;
        self.enqueue.next.flow_limit = self.jobs.read_data.val().flow_limit;
        self.refusal_valid.next = false;
        self.refusal.next.queue = self.jobs.read_data.val().queue;
        self.refusal.next.flow_slot = self.jobs.read_data.val().flow_slot;
        self.refusal.next.cookie = self.jobs.read_data.val().cookie;
        self.refusal.next.status = self.status.q.val();
        self.refusal.next.reserved = true;
        self.refusal.next.has_ctx = true;
        self.refusal.next.ctx = self.jobs.read_data.val().ctx;
        self.take.next = false;

        match self.state.q.val() {
            ListState::Take => {
                self.parts.d.next = 1.into();
                if self.jobs.read_data.val().split {
                    self.parts.d.next = 2.into();
                }
                if self.jobs.read_valid.val() {
                    if self.entries.val().any() {
                        self.state.d.next = ListState::Words;
                    } else {
                        self.fragment_write.next = self.jobs.read_data.val().second;
                        self.fragment.next.addr = self.jobs.read_data.val().frag1_addr;
                        self.fragment.next.length = self.jobs.read_data.val().rest;
                        self.state.d.next = ListState::Accept;
                    }
                }
            }
            ListState::Words => {
                self.beats.read_ready.next = true;
                if self.beats.read_valid.val() {
                    self.odd.d.next = !self.odd.q.val();
                    if self.err.val() {
                        self.fault.d.next = true;
                    } else if !self.odd.q.val() {
                        self.addr.d.next = self.data.val();
                    } else {
                        self.fragment_write.next = true;
                        self.index.d.next = self.index_next.val();
                        self.sum.d.next = self.new_sum.val();
                        if self.status.q.val() == self.s_ok.val() {
                            if self.reserved_bits.val().any() {
                                self.status.d.next = self.s_reserved.val();
                            } else if !self.length.val().any() {
                                self.status.d.next = self.s_mismatch.val();
                            }
                        }
                    }
                    if self.last.val() {
                        self.parts.d.next = self.parts_less.val();
                        if self.parts.q.val() == 1 {
                            self.state.d.next = ListState::Judge;
                        }
                    }
                }
            }
            ListState::Judge => {
                self.state.d.next = ListState::Refuse;
                if self.fault.q.val() {
                    self.status.d.next = self.s_fault.val();
                } else if self.status.q.val() == self.s_ok.val() {
                    if self.sum.q.val() == self.rest.out.val() {
                        self.state.d.next = ListState::Accept;
                    } else {
                        self.status.d.next = self.s_mismatch.val();
                    }
                }
            }
            ListState::Refuse => {
                self.refusal_valid.next = true;
                self.take.next = self.refusal_ready.val();
            }
            ListState::Accept => {
                self.accept_valid.next = true;
                if self.accept_ready.val() {
                    self.state.d.next = ListState::Enqueue;
                }
            }
            ListState::Enqueue => {
                self.enqueue_valid.next = true;
                self.take.next = self.enqueue_ready.val();
            }
        }
        self.jobs.read_ready.next = self.take.val();
        if self.take.val() {
            self.state.d.next = ListState::Take;
            self.index.d.next = 0.into();
            self.odd.d.next = false;
            self.fault.d.next = false;
            self.sum.d.next = 0.into();
            self.status.d.next = self.s_ok.val();
        }
        self.idle.next = self.jobs.empty.val();
    }
}
