// SPDX-License-Identifier: MIT OR Apache-2.0
//! Empties the transmit side for a reset.
//!
//! A paced burst may wait for seconds, and the scheduler forgets all at once on
//! reset, so nobody would give its context back. This block stands between fetch,
//! scheduler and payload and remembers which contexts the scheduler holds. During
//! a reset it takes the scheduler's place: what fetch still enqueues is only
//! remembered, and each context that is remembered is granted to payload as
//! aborted, the end of its burst, so that it completes (unwritten) and returns.
//! The number of that grant tells how many segments were granted before it.
//!
//! A context has one row of block RAM: whether it is held, and how many segments of
//! its burst were granted. An enqueue writes it, and so does a grant, one cycle after
//! it passed: in that cycle no enqueue is taken. The sweep of a reset reads row after
//! row, as often around as contexts come and go.

use crate::prelude::*;

/// Contexts.
const CONTEXTS: usize = 256;
/// Phases of the sweep at a context: read its row, look at it, offer its grant.
const READ: u64 = 0;
const LOOK: u64 = 1;
const OFFER: u64 = 2;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Drain {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A reset is under way.
    pub resetting: Signal<In, bool>,

    /// Fetch enqueues a burst.
    pub enqueue_valid: Signal<In, bool>,
    /// It is taken.
    pub enqueue_ready: Signal<Out, bool>,
    /// Its context.
    pub enqueue_ctx: Signal<In, Bits<8>>,
    /// The burst goes to the scheduler.
    pub schedule_valid: Signal<Out, bool>,
    /// Which takes it.
    pub schedule_ready: Signal<In, bool>,
    /// The scheduler forgets everything.
    pub schedule_reset: Signal<Out, bool>,

    /// The scheduler grants a segment.
    pub grant_valid: Signal<In, bool>,
    /// It is taken.
    pub grant_ready: Signal<Out, bool>,
    /// Context.
    pub grant_ctx: Signal<In, Bits<8>>,
    /// Segment number.
    pub grant_index: Signal<In, Bits<18>>,
    /// Last of its burst.
    pub grant_last: Signal<In, bool>,
    /// The grant goes to payload.
    pub payload_valid: Signal<Out, bool>,
    /// Which takes it.
    pub payload_ready: Signal<In, bool>,
    /// Context.
    pub payload_ctx: Signal<Out, Bits<8>>,
    /// Segment number.
    pub payload_index: Signal<Out, Bits<18>>,
    /// Last of its burst.
    pub payload_last: Signal<Out, bool>,
    /// The grant is this block's own: aborted.
    pub ours: Signal<Out, bool>,
    /// The scheduler, or this block in its place, holds no context.
    pub empty: Signal<Out, bool>,

    rows: Ram<Bits<19>, 8>,
    row_pack: Pack2<18, 1, 19>,
    write: Signal<Local, bool>,
    write_ctx: Signal<Local, Bits<8>>,
    write_held: Signal<Local, bool>,
    write_count: Signal<Local, Bits<18>>,
    cleared: DFF<Bits<9>>,
    usable: Signal<Local, bool>,
    held: DFF<Bits<9>>,
    none: DFF<bool>,
    was_resetting: DFF<bool>,
    sweep: DFF<Bits<8>>,
    phase: DFF<Bits<2>>,
    note: DFF<bool>,
    note_ctx: DFF<Bits<8>>,
    note_held: DFF<bool>,
    note_count: DFF<Bits<18>>,
    took: Signal<Local, bool>,
    passed: Signal<Local, bool>,
    gave: Signal<Local, bool>,
    active: Signal<Local, bool>,
    most: Fixed<9, { CONTEXTS as u64 }>,
    read: Fixed<2, READ>,
    look: Fixed<2, LOOK>,
    offer: Fixed<2, OFFER>,
}

impl Logic for Drain {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            cleared,
            held,
            none,
            was_resetting,
            sweep,
            phase,
            note,
            note_ctx,
            note_held,
            note_count
        );
        clock!(self, clock, rows);
        self.active.next = self.resetting.val();
        self.was_resetting.d.next = self.resetting.val();
        self.schedule_reset.next = self.resetting.val() & !self.was_resetting.q.val();

        // Block RAM holds anything at power-up: no context is held.
        self.usable.next = self.cleared.q.val() == self.most.val();
        if !self.usable.val() {
            self.cleared.d.next = self.cleared.q.val() + 1;
        }

        // Enqueue.
        self.schedule_valid.next =
            self.enqueue_valid.val() & self.usable.val() & !self.note.q.val() & !self.active.val();
        self.enqueue_ready.next = (self.schedule_ready.val() | self.active.val())
            & self.usable.val()
            & !self.note.q.val();
        self.took.next = self.enqueue_valid.val() & self.enqueue_ready.val();

        // Grant. A context that the sweep meets is offered until payload takes it.
        self.ours.next = self.active.val();
        self.grant_ready.next = false;
        if self.active.val() {
            self.payload_valid.next = self.phase.q.val() == self.offer.val();
            self.payload_ctx.next = self.sweep.q.val();
            self.payload_last.next = true;
            self.payload_index.next = self.rows.read_data.val().get_bits::<18>(0);
        } else {
            self.payload_valid.next = self.grant_valid.val();
            self.payload_ctx.next = self.grant_ctx.val();
            self.payload_last.next = self.grant_last.val();
            self.payload_index.next = self.grant_index.val();
            self.grant_ready.next = self.payload_ready.val();
        }
        self.passed.next = self.payload_valid.val() & self.payload_ready.val();
        self.gave.next = self.passed.val() & self.payload_last.val();
        self.note.d.next = self.passed.val();
        self.note_ctx.d.next = self.payload_ctx.val();
        self.note_held.d.next = !self.payload_last.val();
        self.note_count.d.next = self.grant_index.val() + 1;

        // Rows.
        self.write_held.next = false;
        self.write_count.next = 0.into();
        if !self.usable.val() {
            self.write.next = true;
            self.write_ctx.next = self.cleared.q.val().get_bits::<8>(0);
        } else if self.note.q.val() {
            self.write.next = true;
            self.write_ctx.next = self.note_ctx.q.val();
            self.write_held.next = self.note_held.q.val();
            self.write_count.next = self.note_count.q.val();
        } else {
            self.write.next = self.took.val();
            self.write_ctx.next = self.enqueue_ctx.val();
            self.write_held.next = true;
        }
        self.row_pack.i0.next = self.write_count.val();
        self.row_pack.i1.next = self.write_held.val().into();
        self.rows.write_enable.next = self.write.val();
        self.rows.write_address.next = self.write_ctx.val();
        self.rows.write_data.next = self.row_pack.out.val();

        // The sweep. A row that is being written is read a cycle later.
        self.rows.read_address.next = self.sweep.q.val();
        self.rows.read_enable.next = false;
        if !self.active.val() {
            self.phase.d.next = self.read.val();
        } else if self.phase.q.val() == self.read.val() {
            if !self.write.val() {
                self.rows.read_enable.next = true;
                self.phase.d.next = self.look.val();
            }
        } else if self.phase.q.val() == self.look.val() {
            if self.rows.read_data.val().get_bit(18) {
                self.phase.d.next = self.offer.val();
            } else {
                self.sweep.d.next = self.sweep.q.val() + 1;
                self.phase.d.next = self.read.val();
            }
        } else if self.payload_ready.val() {
            self.sweep.d.next = self.sweep.q.val() + 1;
            self.phase.d.next = self.read.val();
        }

        if self.took.val() & !self.gave.val() {
            self.held.d.next = self.held.q.val() + 1;
        } else if self.gave.val() & !self.took.val() {
            self.held.d.next = self.held.q.val() - 1;
        }
        self.none.d.next = !self.held.q.val().any();
        self.empty.next = self.none.q.val();
    }
}
