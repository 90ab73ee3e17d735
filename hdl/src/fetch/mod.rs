// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit, first part: from doorbells to checked bursts.
//!
//! ```text
//! csr ─► Doorbells ─pending─► Issue ─read requests─► memory
//!             ▲──── again ──────┘ │ requests in order
//!                                 ▼
//!        memory ─words─► Load (check, context, burst store) ─job─► Lists ─► complete, schedule
//!                          └─ read requests of continuation lists ─►│◄─ words
//! ```
//!
//! * A queue stands in the list of pending queues once; a visit reads up to four
//!   slots and puts the queue back if it has more: round robin over queues.
//! * Up to 16 reads of descriptors and 16 of lists are under way, each with
//!   room kept for what it returns, so both read ports are always ready.
//! * Every context is reserved before its descriptor is read ([`Issue`]), so no
//!   queue waits behind another one's lack of contexts.
//! * A descriptor that breaks a rule, a list that does not add up and a slot that
//!   cannot be read give an error completion; the queue goes on behind it. A list
//!   is judged before its burst joins the scheduler, so nothing of such a burst
//!   departs.
//! * The slots of a failed read from the failed word on are completed with
//!   `ADDRESS_FAULT` and no cookie: what they held is not known.

mod check;
mod doorbell;
mod horizon;
mod issue;
mod lists;
mod load;

pub use check::Check;
pub use doorbell::{Doorbells, Ring};
pub use horizon::Horizon;
pub use issue::{BATCH, CONTEXTS, Issue, Request};
pub use lists::{Enqueue, Fragment, Identity, Lists};
pub use load::{Beat, Burst, Job, Load, Refusal};

use crate::prelude::*;
use tsonic_regs::Status;
use tsonic_regs::descriptor::COOKIE_NONE;

/// Fetch for Q queues (2 to 256).
#[derive(LogicBlock, Default)]
pub struct Fetch<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// New reads of descriptors are allowed.
    pub enable: Signal<In, bool>,
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

    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,
    /// A transmit doorbell is rung (never in the cycle of a register write).
    pub bell_valid: Signal<In, bool>,
    /// Queue of the doorbell.
    pub bell_queue: Signal<In, Bits<8>>,
    /// New tail.
    pub bell_tail: Signal<In, Bits<32>>,
    /// A doorbell was refused.
    pub refused: Signal<Out, bool>,

    /// Read request of descriptors.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,
    /// A word of descriptors (always taken).
    pub rd_valid: Signal<In, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,

    /// Read request of continuation lists.
    pub list_req_valid: Signal<Out, bool>,
    /// Taken.
    pub list_req_ready: Signal<In, bool>,
    /// Address.
    pub list_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub list_req_len: Signal<Out, Bits<13>>,
    /// A word of lists (always taken).
    pub list_valid: Signal<In, bool>,
    /// Data.
    pub list_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub list_last: Signal<In, bool>,
    /// The request failed.
    pub list_err: Signal<In, bool>,

    /// A reservation of a context comes back.
    pub release_valid: Signal<In, bool>,
    /// Of this queue.
    pub release_queue: Signal<In, Bits<8>>,
    /// And this context with it.
    pub release_has_ctx: Signal<In, bool>,
    /// The context.
    pub release_ctx: Signal<In, Bits<8>>,

    /// Slots up to here are free again.
    pub head_valid: Signal<Out, bool>,
    /// The queue.
    pub head_queue: Signal<Out, Bits<8>>,
    /// Index of the next slot to be fetched.
    pub head_index: Signal<Out, Bits<12>>,

    /// Writes the burst store.
    pub burst_write: Signal<Out, bool>,
    /// Context.
    pub burst_ctx: Signal<Out, Bits<8>>,
    /// The burst.
    pub burst: Signal<Out, Burst>,
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
    /// An error completion is asked for.
    pub refusal_valid: Signal<Out, bool>,
    /// Taken.
    pub refusal_ready: Signal<In, bool>,
    /// The refusal.
    pub refusal: Signal<Out, Refusal>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,
    /// Every context is free: no burst is in the device, nor a descriptor on its way.
    pub empty: Signal<Out, bool>,

    doorbells: Doorbells<Q>,
    issue: Issue<Q>,
    load: Load,
    lists: Lists,
    no_cookie: Fixed<16, { COOKIE_NONE as u64 }>,
    s_range: Fixed<8, { Status::DoorbellOutOfRange as u64 }>,
}

impl<const Q: usize> Logic for Fetch<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, doorbells, issue, load, lists);
        self.doorbells.cfg_valid.next = self.cfg_valid.val();
        self.doorbells.cfg_queue.next = self.cfg_queue.val();
        self.doorbells.cfg_offset.next = self.cfg_offset.val();
        self.doorbells.cfg_value.next = self.cfg_value.val();
        self.doorbells.bell_valid.next = self.bell_valid.val();
        self.doorbells.bell_queue.next = self.bell_queue.val();
        self.doorbells.bell_tail.next = self.bell_tail.val();
        self.refused.next = self.doorbells.refused.val();

        self.issue.enable.next = self.enable.val();
        self.issue.pending_valid.next = self.doorbells.pending_valid.val();
        self.issue.pending_queue.next = self.doorbells.pending_queue.val();
        self.doorbells.pending_ready.next = self.issue.pending_ready.val();
        self.issue.ring.next = self.doorbells.ring.val();
        self.doorbells.flag_queue.next = self.issue.flag_queue.val();
        self.issue.enabled.next = self.doorbells.enabled.val();
        self.issue.fresh.next = self.doorbells.fresh.val();
        self.doorbells.fresh_clear.next = self.issue.fresh_clear.val();
        self.doorbells.again_valid.next = self.issue.again_valid.val();
        self.doorbells.again_queue.next = self.issue.flag_queue.val();
        self.issue.again_ready.next = self.doorbells.again_ready.val();
        self.issue.release_valid.next = self.release_valid.val();
        self.issue.release_queue.next = self.release_queue.val();
        self.rd_req_valid.next = self.issue.rd_req_valid.val();
        self.rd_req_addr.next = self.issue.rd_req_addr.val();
        self.rd_req_len.next = self.issue.rd_req_len.val();
        self.issue.rd_req_ready.next = self.rd_req_ready.val();

        self.load.tso.next = self.tso.val();
        self.load.uso.next = self.uso.val();
        self.load.flow_slots.next = self.flow_slots.val();
        self.load.max_segment.next = self.max_segment.val();
        self.load.ticks.next = self.ticks.val();
        self.load.horizon.next = self.horizon.val();
        self.load.rd_valid.next = self.rd_valid.val();
        self.load.rd_data.next = self.rd_data.val();
        self.load.rd_last.next = self.rd_last.val();
        self.load.rd_err.next = self.rd_err.val();
        self.load.request_valid.next = self.issue.request_valid.val();
        self.load.request.next = self.issue.request.val();
        self.issue.request_ready.next = self.load.request_ready.val();
        self.head_valid.next = self.load.head_valid.val();
        self.head_queue.next = self.load.head_queue.val();
        self.head_index.next = self.load.head_index.val();
        self.load.free_valid.next = self.release_valid.val() & self.release_has_ctx.val();
        self.load.free_ctx.next = self.release_ctx.val();
        self.burst_write.next = self.load.burst_write.val();
        self.burst_ctx.next = self.load.burst_ctx.val();
        self.burst.next = self.load.burst.val();
        self.list_req_valid.next = self.load.list_req_valid.val();
        self.list_req_addr.next = self.load.list_req_addr.val();
        self.list_req_len.next = self.load.list_req_len.val();
        self.load.list_req_ready.next = self.list_req_ready.val();
        self.lists.job_valid.next = self.load.job_valid.val();
        self.lists.job.next = self.load.job.val();
        self.load.job_ready.next = self.lists.job_ready.val();

        self.lists.rd_valid.next = self.list_valid.val();
        self.lists.rd_data.next = self.list_data.val();
        self.lists.rd_last.next = self.list_last.val();
        self.lists.rd_err.next = self.list_err.val();
        self.fragment_write.next = self.lists.fragment_write.val();
        self.fragment_index.next = self.lists.fragment_index.val();
        self.fragment.next = self.lists.fragment.val();
        self.accept_valid.next = self.lists.accept_valid.val();
        self.accept_ctx.next = self.lists.accept_ctx.val();
        self.accept.next = self.lists.accept.val();
        self.lists.accept_ready.next = self.accept_ready.val();
        self.enqueue_valid.next = self.lists.enqueue_valid.val();
        self.enqueue.next = self.lists.enqueue.val();
        self.lists.enqueue_ready.next = self.enqueue_ready.val();

        // Refusals: lists before descriptors before doorbells.
        self.lists.refusal_ready.next = self.refusal_ready.val();
        self.load.refusal_ready.next = false;
        self.doorbells.error_ready.next = false;
        self.refusal_valid.next = self.lists.refusal_valid.val()
            | self.load.refusal_valid.val()
            | self.doorbells.error_valid.val();
        self.refusal.next = self.lists.refusal.val();
        if !self.lists.refusal_valid.val() {
            if self.load.refusal_valid.val() {
                self.refusal.next = self.load.refusal.val();
                self.load.refusal_ready.next = self.refusal_ready.val();
            } else {
                self.refusal.next.queue = self.doorbells.error_queue.val();
                self.refusal.next.flow_slot = 0.into();
                self.refusal.next.cookie = self.no_cookie.val();
                self.refusal.next.status = self.s_range.val();
                self.refusal.next.reserved = false;
                self.refusal.next.has_ctx = false;
                self.refusal.next.ctx = 0.into();
                self.doorbells.error_ready.next = self.refusal_ready.val();
            }
        }

        self.empty.next = self.issue.empty.val();
        self.idle.next = self.doorbells.idle.val()
            & self.issue.idle.val()
            & self.load.idle.val()
            & self.lists.idle.val();
    }
}
