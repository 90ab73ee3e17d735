// SPDX-License-Identifier: MIT OR Apache-2.0
//! Accounts of the bursts in the device: what of each has departed, when, and
//! when it is done.
//!
//! Events of a burst come on two ways: frames through the segmenter, and
//! segments that were given up straight from payload. The latter may overtake
//! the former, so a burst whose last segment was given up is done when as many
//! segments have been accounted for as it was granted.

use crate::prelude::*;
use tsonic_regs::Status;

/// What payload says of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Verdict {
    /// Context.
    pub ctx: Bits<8>,
    /// Why the burst fails; 0: no news.
    pub status: Bits<8>,
    /// The segment was given up: no `departed` follows.
    pub dropped: Bit,
    /// It was the last of its burst (with `dropped`).
    pub last: Bit,
    /// Its number.
    pub index: Bits<18>,
    /// Wire bytes that its queue was charged for it, and that do not depart.
    pub bytes: Bits<17>,
}

/// A departure with its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Departure {
    /// Context.
    pub ctx: Bits<8>,
    /// Bytes of the frame.
    pub wire_bytes: Bits<17>,
    /// The segment was dropped.
    pub err: Bit,
    /// Last of the burst.
    pub last: Bit,
    /// Tick of the departure.
    pub tick: Bits<64>,
}

/// Marks of a burst from the scheduler.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Mark {
    /// Context.
    pub ctx: Bits<8>,
    /// CN, throttle, wake (bits 0 to 2).
    pub bits: Bits<3>,
}

/// Account of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Account {
    /// Wire bytes that departed.
    pub wire_bytes: Bits<32>,
    /// Frames that departed.
    pub frames: Bits<18>,
    /// Segments accounted for, less those given up at the end.
    pub segments: Bits<19>,
    /// Segments to account for, if `known`.
    pub total: Bits<19>,
    /// `total` counts.
    pub known: Bit,
    /// Code of the first error.
    pub status: Bits<8>,
    /// Marks.
    pub marks: Bits<3>,
    /// Queue: with it the account fills three block RAMs.
    pub queue: Bits<8>,
}

/// A burst that is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Done {
    /// Context.
    pub ctx: Bits<8>,
    /// Wire bytes that departed.
    pub wire_bytes: Bits<32>,
    /// Frames that departed.
    pub frames: Bits<18>,
    /// Code of the status.
    pub status: Bits<8>,
    /// Marks.
    pub marks: Bits<3>,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum AccountState {
    Idle,
    Open,
    Wait,
    Update,
    Store,
}

/// log2 of the departures that may wait. The segmenter lets one go every six
/// cycles at most (the scheduler's pace) but for what it holds, 16.
const DEPARTURES_LOG2: usize = 5;

/// The accounts.
#[derive(LogicBlock, Default)]
pub struct Accounts {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// A burst begins.
    pub open_valid: Signal<In, bool>,
    /// Taken.
    pub open_ready: Signal<Out, bool>,
    /// Its context.
    pub open_ctx: Signal<In, Bits<8>>,
    /// Its queue.
    pub open_queue: Signal<In, Bits<8>>,
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
    /// Payload says something.
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
    /// The time of a departure is kept.
    pub stamp_write: Signal<Out, bool>,
    /// As the latest of its burst; else as the first.
    pub stamp_latest: Signal<Out, bool>,
    /// Context.
    pub stamp_ctx: Signal<Out, Bits<8>>,
    /// Tick.
    pub stamp: Signal<Out, Bits<64>>,
    /// A segment that was granted has left the device, or was dropped.
    pub credit_valid: Signal<Out, bool>,
    /// Its queue.
    pub credit_queue: Signal<Out, Bits<8>>,
    /// Wire bytes that the queue was charged for it.
    pub credit_bytes: Signal<Out, Bits<17>>,
    /// A burst is done (always taken).
    pub done_valid: Signal<Out, bool>,
    /// The burst.
    pub done: Signal<Out, Done>,
    /// No event waits.
    pub idle: Signal<Out, bool>,

    accounts: Ram<Account, 8>,
    departures: Fifo<Departure, DEPARTURES_LOG2>,
    verdicts: Fifo<Verdict, 4>,
    marks: Fifo<Mark, 4>,
    state: DFF<AccountState>,
    ctx: DFF<Bits<8>>,
    is_frame: DFF<Bit>,
    is_drop: DFF<Bit>,
    bytes: DFF<Bits<17>>,
    last: DFF<Bit>,
    index: DFF<Bits<18>>,
    code: DFF<Bits<8>>,
    mark_bits: DFF<Bits<3>>,
    tick: DFF<Bits<64>>,
    old: DFF<Account>,
    updated: DFF<Account>,
    fresh_error: DFF<Bit>,

    next_ctx: Signal<Local, Bits<8>>,
    some: Signal<Local, Bit>,
    one: Signal<Local, Bits<19>>,
    frame_one: Signal<Local, Bits<18>>,
    byte_count: Signal<Local, Bits<32>>,
    segments: Signal<Local, Bits<19>>,
    old_segments: Signal<Local, Bits<19>>,
    total: Signal<Local, Bits<19>>,
    known: Signal<Local, Bit>,
    counts: Signal<Local, Bit>,

    s_dropped: Fixed<8, { Status::LengthMismatch as u64 }>,
}

impl Logic for Accounts {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            ctx,
            is_frame,
            is_drop,
            bytes,
            last,
            index,
            code,
            mark_bits,
            tick,
            old,
            updated,
            fresh_error
        );
        clock!(self, clock, accounts, departures, verdicts, marks);
        self.departures.flush.next = false;
        self.verdicts.flush.next = false;
        self.marks.flush.next = false;
        self.departures.write_valid.next = self.departed_valid.val();
        self.departures.write_data.next.ctx = self.departed_ctx.val();
        self.departures.write_data.next.wire_bytes = self.departed_bytes.val();
        self.departures.write_data.next.err = self.departed_err.val();
        self.departures.write_data.next.last = self.departed_last.val();
        self.departures.write_data.next.tick = self.ticks.val();
        self.verdicts.write_valid.next = self.verdict_valid.val();
        self.verdicts.write_data.next = self.verdict.val();
        self.verdict_ready.next = self.verdicts.write_ready.val();
        self.marks.write_valid.next = self.mark_valid.val();
        self.marks.write_data.next = self.mark.val();
        self.departures.read_ready.next = false;
        self.verdicts.read_ready.next = false;
        self.marks.read_ready.next = false;
        self.open_ready.next = false;

        // Next event: a mark precedes all else of its burst, and what payload
        // says of a segment precedes the segmenter's dropping it.
        self.some.next = true;
        if self.marks.read_valid.val() {
            self.next_ctx.next = self.marks.read_data.val().ctx;
        } else if self.verdicts.read_valid.val() {
            self.next_ctx.next = self.verdicts.read_data.val().ctx;
        } else {
            self.next_ctx.next = self.departures.read_data.val().ctx;
            self.some.next = self.departures.read_valid.val();
        }
        self.accounts.read_enable.next = false;
        self.accounts.read_address.next = self.next_ctx.val();
        self.accounts.write_enable.next = false;
        self.accounts.write_address.next = self.ctx.q.val();
        self.accounts.write_data.next = self.updated.q.val();

        self.counts.next = self.is_frame.q.val() & !self.code.q.val().any();
        self.one.next = 0.into();
        if self.is_frame.q.val() | self.is_drop.q.val() {
            self.one.next = 1.into();
        }
        self.old_segments.next = self.old.q.val().segments;
        self.segments.next = self.old_segments.val() + self.one.val();
        self.frame_one.next = 0.into();
        self.byte_count.next = 0.into();
        if self.counts.val() {
            self.frame_one.next = 1.into();
            self.byte_count.next = bit_cast::<32, 17>(self.bytes.q.val());
        }
        self.known.next = self.old.q.val().known;
        self.total.next = self.old.q.val().total;
        if self.last.q.val() {
            self.known.next = true;
            self.total.next = self.segments.val();
            if self.is_drop.q.val() {
                self.total.next = bit_cast::<19, 18>(self.index.q.val()) + 1;
            }
        }

        self.abort_valid.next = false;
        self.abort_ctx.next = self.ctx.q.val();
        self.stamp_write.next = false;
        self.stamp_latest.next = false;
        self.stamp_ctx.next = self.ctx.q.val();
        self.stamp.next = self.tick.q.val();
        // A drop is credited with payload's word of it, for the segmenter may know
        // nothing of its length.
        self.credit_valid.next = false;
        self.credit_queue.next = self.updated.q.val().queue;
        self.credit_bytes.next = self.bytes.q.val();
        self.done_valid.next = false;
        self.done.next.ctx = self.ctx.q.val();
        self.done.next.wire_bytes = self.updated.q.val().wire_bytes;
        self.done.next.frames = self.updated.q.val().frames;
        self.done.next.status = self.updated.q.val().status;
        self.done.next.marks = self.updated.q.val().marks;

        match self.state.q.val() {
            AccountState::Idle => {
                self.is_frame.d.next = false;
                self.is_drop.d.next = false;
                self.last.d.next = false;
                self.code.d.next = 0.into();
                self.mark_bits.d.next = 0.into();
                self.fresh_error.d.next = false;
                self.index.d.next = self.verdicts.read_data.val().index;
                self.bytes.d.next = self.departures.read_data.val().wire_bytes;
                self.tick.d.next = self.departures.read_data.val().tick;
                self.ctx.d.next = self.next_ctx.val();
                if self.some.val() {
                    self.accounts.read_enable.next = true;
                    self.state.d.next = AccountState::Wait;
                    if self.marks.read_valid.val() {
                        self.marks.read_ready.next = true;
                        self.mark_bits.d.next = self.marks.read_data.val().bits;
                        self.bytes.d.next = 0.into();
                    } else if self.verdicts.read_valid.val() {
                        self.verdicts.read_ready.next = true;
                        self.is_drop.d.next = self.verdicts.read_data.val().dropped;
                        self.last.d.next = self.verdicts.read_data.val().dropped
                            & self.verdicts.read_data.val().last;
                        self.code.d.next = self.verdicts.read_data.val().status;
                        self.bytes.d.next = self.verdicts.read_data.val().bytes;
                    } else {
                        self.departures.read_ready.next = true;
                        self.is_frame.d.next = true;
                        self.last.d.next = self.departures.read_data.val().last;
                        if self.departures.read_data.val().err {
                            self.code.d.next = self.s_dropped.val();
                            self.bytes.d.next = 0.into();
                        }
                    }
                } else if self.open_valid.val() {
                    self.open_ready.next = true;
                    self.ctx.d.next = self.open_ctx.val();
                    self.updated.d.next.wire_bytes = 0.into();
                    self.updated.d.next.frames = 0.into();
                    self.updated.d.next.segments = 0.into();
                    self.updated.d.next.total = 0.into();
                    self.updated.d.next.known = false;
                    self.updated.d.next.status = 0.into();
                    self.updated.d.next.marks = 0.into();
                    self.updated.d.next.queue = self.open_queue.val();
                    self.state.d.next = AccountState::Open;
                }
            }
            AccountState::Open => {
                self.accounts.write_enable.next = true;
                self.state.d.next = AccountState::Idle;
            }
            AccountState::Wait => {
                self.old.d.next = self.accounts.read_data.val();
                self.state.d.next = AccountState::Update;
            }
            AccountState::Update => {
                self.updated.d.next.wire_bytes =
                    self.old.q.val().wire_bytes + self.byte_count.val();
                self.updated.d.next.frames = self.old.q.val().frames + self.frame_one.val();
                self.updated.d.next.segments = self.segments.val();
                self.updated.d.next.total = self.total.val();
                self.updated.d.next.known = self.known.val();
                self.updated.d.next.status = self.old.q.val().status;
                self.updated.d.next.marks = self.old.q.val().marks | self.mark_bits.q.val();
                self.updated.d.next.queue = self.old.q.val().queue;
                if self.code.q.val().any() & !self.old.q.val().status.any() {
                    self.updated.d.next.status = self.code.q.val();
                    self.fresh_error.d.next = true;
                }
                self.stamp_write.next = self.counts.val() & !self.old.q.val().frames.any();
                self.state.d.next = AccountState::Store;
            }
            AccountState::Store => {
                self.accounts.write_enable.next = true;
                self.stamp_write.next = self.counts.val();
                self.stamp_latest.next = true;
                self.abort_valid.next = self.fresh_error.q.val();
                self.credit_valid.next = self.bytes.q.val().any();
                self.done_valid.next = (self.is_frame.q.val() | self.is_drop.q.val())
                    & self.updated.q.val().known
                    & (self.updated.q.val().segments == self.updated.q.val().total);
                self.state.d.next = AccountState::Idle;
            }
        }
        self.idle.next = (self.state.q.val() == AccountState::Idle)
            & self.departures.empty.val()
            & self.verdicts.empty.val()
            & self.marks.empty.val();
    }
}
