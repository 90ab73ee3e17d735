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

use crate::prelude::*;

/// Contexts.
const CONTEXTS: usize = 256;

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

    held: Flags<CONTEXTS, 8>,
    started: Flags<CONTEXTS, 8>,
    granted: Ram<Bits<18>, 8>,
    none: DFF<bool>,
    was_resetting: DFF<bool>,
    sweep: DFF<Bits<8>>,
    offering: DFF<bool>,
    took: Signal<Local, bool>,
    passed: Signal<Local, bool>,
    gave: Signal<Local, bool>,
    active: Signal<Local, bool>,
}

impl Logic for Drain {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, none, was_resetting, sweep, offering);
        clock!(self, clock, held, started, granted);
        self.active.next = self.resetting.val();
        self.was_resetting.d.next = self.resetting.val();
        self.schedule_reset.next = self.resetting.val() & !self.was_resetting.q.val();

        // Enqueue.
        self.schedule_valid.next = self.enqueue_valid.val() & !self.active.val();
        self.took.next = self.enqueue_valid.val() & (self.schedule_ready.val() | self.active.val());
        self.enqueue_ready.next = self.schedule_ready.val() | self.active.val();
        self.held.reset.next = false;
        self.held.set.next = self.took.val();
        self.held.set_index.next = self.enqueue_ctx.val();

        // How many segments of a burst were granted.
        self.passed.next = self.grant_valid.val() & self.payload_ready.val() & !self.active.val();
        self.started.reset.next = false;
        self.started.clear.next = self.took.val();
        self.started.clear_index.next = self.enqueue_ctx.val();
        self.started.set.next = self.passed.val();
        self.started.set_index.next = self.grant_ctx.val();
        self.started.read_index0.next = self.sweep.q.val();
        self.started.read_index1.next = 0.into();
        self.granted.write_enable.next = self.passed.val();
        self.granted.write_address.next = self.grant_ctx.val();
        self.granted.write_data.next = self.grant_index.val() + 1;
        self.granted.read_enable.next = self.active.val();
        self.granted.read_address.next = self.sweep.q.val();

        // Grant. A context that the sweep meets is offered until payload takes it.
        self.held.read_index0.next = self.sweep.q.val();
        self.held.read_index1.next = 0.into();
        self.ours.next = self.active.val();
        self.grant_ready.next = false;
        if self.active.val() {
            self.payload_valid.next = self.offering.q.val();
            self.payload_ctx.next = self.sweep.q.val();
            self.payload_last.next = true;
            self.payload_index.next = 0.into();
            if self.started.read0.val() {
                self.payload_index.next = self.granted.read_data.val();
            }
            self.gave.next = self.offering.q.val() & self.payload_ready.val();
            self.offering.d.next = false;
            if self.held.read0.val() & !self.gave.val() {
                self.offering.d.next = true;
            } else {
                self.sweep.d.next = self.sweep.q.val() + 1;
            }
        } else {
            self.payload_valid.next = self.grant_valid.val();
            self.payload_ctx.next = self.grant_ctx.val();
            self.payload_last.next = self.grant_last.val();
            self.payload_index.next = self.grant_index.val();
            self.grant_ready.next = self.payload_ready.val();
            self.gave.next =
                self.grant_valid.val() & self.payload_ready.val() & self.grant_last.val();
            self.offering.d.next = false;
        }
        self.held.clear.next = self.gave.val();
        self.held.clear_index.next = self.payload_ctx.val();

        self.none.d.next = !self.held.bits.val().any();
        self.empty.next = self.none.q.val();
    }
}
