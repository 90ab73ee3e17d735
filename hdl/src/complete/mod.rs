// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit, last part: from departures to completions.
//!
//! ```text
//! fetch ──accept──►┐                      ┌─────────► abort (schedule)
//! payload ─verdict─► Accounts ──done────► Writer ──► memory write (32 bytes)
//! segment ─departed┘   └─first, latest──►│   └─────► release (fetch), counters
//! fetch ──refusal, head──────────────────┘  ▲ flow limits: does the flow wake?
//! ```
//!
//! A burst is done when all its granted segments have departed or were given up;
//! its completion holds what did depart. The last word of a completion, with the
//! phase bit, is the last beat of the write. The ring is never checked for room:
//! a driver keeps at most as many bursts in the device as the ring has entries,
//! less `COMPLETION_SLACK`.
//!
//! At the end of a burst its context and its reservation go back to fetch. A
//! queue that is enabled again starts at index 0 and phase 1 with the next
//! completion; bursts of its former life must have completed by then.

mod account;
mod writer;

pub use account::{Account, Accounts, Departure, Done, Mark, Verdict};
pub use writer::{Place, Writer};

use crate::fetch::{Identity, Refusal};
use crate::prelude::*;

/// Completion for Q queues (2 to 256).
#[derive(LogicBlock, Default)]
pub struct Complete<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// Completions are not written, only accounted for.
    pub mute: Signal<In, bool>,
    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,

    /// Slots of a descriptor ring are free.
    pub head_valid: Signal<In, bool>,
    /// The queue.
    pub head_queue: Signal<In, Bits<8>>,
    /// Index of the next slot to be fetched.
    pub head_index: Signal<In, Bits<12>>,
    /// A burst begins.
    pub accept_valid: Signal<In, bool>,
    /// Taken.
    pub accept_ready: Signal<Out, bool>,
    /// Its context.
    pub accept_ctx: Signal<In, Bits<8>>,
    /// What it is.
    pub accept: Signal<In, Identity>,
    /// An error completion is asked for.
    pub refusal_valid: Signal<In, bool>,
    /// Taken.
    pub refusal_ready: Signal<Out, bool>,
    /// The refusal.
    pub refusal: Signal<In, Refusal>,

    /// A frame left, or was dropped behind payload.
    pub departed_valid: Signal<In, bool>,
    /// Context.
    pub departed_ctx: Signal<In, Bits<8>>,
    /// Bytes of the frame.
    pub departed_bytes: Signal<In, Bits<17>>,
    /// It was dropped.
    pub departed_err: Signal<In, bool>,
    /// Last of its burst.
    pub departed_last: Signal<In, bool>,
    /// Payload says something of a segment.
    pub verdict_valid: Signal<In, bool>,
    /// Taken.
    pub verdict_ready: Signal<Out, bool>,
    /// What.
    pub verdict: Signal<In, Verdict>,
    /// A burst is marked (always taken; before it is done).
    pub mark_valid: Signal<In, bool>,
    /// How.
    pub mark: Signal<In, Mark>,
    /// The rest of a burst is not wanted.
    pub abort_valid: Signal<Out, bool>,
    /// Context.
    pub abort_ctx: Signal<Out, Bits<8>>,

    /// A segment that was granted has left the device, or was dropped.
    pub credit_valid: Signal<Out, bool>,
    /// Its queue.
    pub credit_queue: Signal<Out, Bits<8>>,
    /// Wire bytes that the queue was charged for it.
    pub credit_bytes: Signal<Out, Bits<17>>,

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
    /// Last beat.
    pub wr_last: Signal<Out, bool>,

    /// A reservation of a context is free again.
    pub release_valid: Signal<Out, bool>,
    /// The queue.
    pub release_queue: Signal<Out, Bits<8>>,
    /// And this context.
    pub release_has_ctx: Signal<Out, bool>,
    /// The context.
    pub release_ctx: Signal<Out, Bits<8>>,

    /// A burst leaves its flow: see [`Writer`], here and below.
    pub leave_valid: Signal<Out, bool>,
    /// It has left.
    pub leave_ready: Signal<In, bool>,
    /// Row of the flow table.
    pub leave_slot: Signal<Out, Bits<16>>,
    /// Payload bytes.
    pub leave_bytes: Signal<Out, Bits<18>>,
    /// The flow is within its limit again.
    pub leave_wakes: Signal<In, bool>,

    /// A completion's last beat was taken for memory.
    pub posted: Signal<Out, bool>,
    /// A completion was written, or accounted for.
    pub written: Signal<Out, bool>,
    /// The queue.
    pub written_queue: Signal<Out, Bits<8>>,
    /// The host is to be told at once.
    pub written_urgent: Signal<Out, bool>,
    /// It belongs to a burst (or a slot), not to a doorbell.
    pub written_burst: Signal<Out, bool>,
    /// It is an error.
    pub written_error: Signal<Out, bool>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    accounts: Accounts,
    writer: Writer<Q>,
}

impl<const Q: usize> Logic for Complete<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, accounts, writer);
        self.accounts.ticks.next = self.ticks.val();
        self.accounts.open_valid.next = self.accept_valid.val();
        self.accounts.open_ctx.next = self.accept_ctx.val();
        self.accounts.open_queue.next = self.accept.val().queue;
        self.accept_ready.next = self.accounts.open_ready.val();
        self.accounts.departed_valid.next = self.departed_valid.val();
        self.accounts.departed_ctx.next = self.departed_ctx.val();
        self.accounts.departed_bytes.next = self.departed_bytes.val();
        self.accounts.departed_err.next = self.departed_err.val();
        self.accounts.departed_last.next = self.departed_last.val();
        self.accounts.verdict_valid.next = self.verdict_valid.val();
        self.accounts.verdict.next = self.verdict.val();
        self.verdict_ready.next = self.accounts.verdict_ready.val();
        self.accounts.mark_valid.next = self.mark_valid.val();
        self.accounts.mark.next = self.mark.val();
        self.abort_valid.next = self.accounts.abort_valid.val();
        self.abort_ctx.next = self.accounts.abort_ctx.val();
        self.credit_valid.next = self.accounts.credit_valid.val();
        self.credit_queue.next = self.accounts.credit_queue.val();
        self.credit_bytes.next = self.accounts.credit_bytes.val();

        self.writer.mute.next = self.mute.val();
        self.writer.cfg_valid.next = self.cfg_valid.val();
        self.writer.cfg_queue.next = self.cfg_queue.val();
        self.writer.cfg_offset.next = self.cfg_offset.val();
        self.writer.cfg_value.next = self.cfg_value.val();
        self.writer.head_valid.next = self.head_valid.val();
        self.writer.head_queue.next = self.head_queue.val();
        self.writer.head_index.next = self.head_index.val();
        self.writer.identity_write.next = self.accept_valid.val() & self.accounts.open_ready.val();
        self.writer.identity_ctx.next = self.accept_ctx.val();
        self.writer.identity.next = self.accept.val();
        self.writer.stamp_write.next = self.accounts.stamp_write.val();
        self.writer.stamp_latest.next = self.accounts.stamp_latest.val();
        self.writer.stamp_ctx.next = self.accounts.stamp_ctx.val();
        self.writer.stamp.next = self.accounts.stamp.val();
        self.writer.done_valid.next = self.accounts.done_valid.val();
        self.writer.done.next = self.accounts.done.val();
        self.writer.refusal_valid.next = self.refusal_valid.val();
        self.writer.refusal.next = self.refusal.val();
        self.refusal_ready.next = self.writer.refusal_ready.val();

        self.wr_valid.next = self.writer.wr_valid.val();
        self.wr_addr.next = self.writer.wr_addr.val();
        self.wr_data.next = self.writer.wr_data.val();
        self.wr_strb.next = 0xFF.into();
        self.wr_last.next = self.writer.wr_last.val();
        self.writer.wr_ready.next = self.wr_ready.val();
        self.release_valid.next = self.writer.release_valid.val();
        self.release_queue.next = self.writer.release_queue.val();
        self.release_has_ctx.next = self.writer.release_has_ctx.val();
        self.release_ctx.next = self.writer.release_ctx.val();
        self.leave_valid.next = self.writer.leave_valid.val();
        self.writer.leave_ready.next = self.leave_ready.val();
        self.leave_slot.next = self.writer.leave_slot.val();
        self.leave_bytes.next = self.writer.leave_bytes.val();
        self.writer.leave_wakes.next = self.leave_wakes.val();
        self.posted.next = self.writer.posted.val();
        self.written.next = self.writer.written.val();
        self.written_queue.next = self.writer.written_queue.val();
        self.written_urgent.next = self.writer.written_urgent.val();
        self.written_burst.next = self.writer.written_burst.val();
        self.written_error.next = self.writer.written_error.val();
        self.idle.next = self.accounts.idle.val() & self.writer.idle.val();
    }
}
