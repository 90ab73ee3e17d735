// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte budgets: the dynamic queue limit of each queue, in wire bytes.
//!
//! ```text
//! schedule ──charge──►┌────────┐◄──credit── complete
//!          ◄──open────│ Ledger │
//!                     └─┬────▲─┘
//!        dirty, debt, sums   │ debt changes
//!   Period ──due──►┌────▼────┴─┐
//!                  │  Engine   │──write-back──► memory
//!    registers ───►│ Limit,    │
//!                  │ Stall     │
//!                  └───────────┘
//! ```
//!
//! A segment is charged to its queue when it is granted, which needs a budget of 0 or
//! more, so one segment may overshoot. It is credited when it has departed or was
//! dropped, together with all others of a period: crediting one at a time would leave
//! the limit at a fraction of what the queue needs. The charge takes effect for the
//! next decision of the scheduler; a flush takes about 55 cycles for each queue that
//! had credit.
//!
//! A budget is in force from the write of BQL_LIMIT on, with BQL_MAX not 0. Charges
//! and credits are counted always, so what is in flight stays on the books then.
//!
//! Time has 48 bits here: 26 days at 125 MHz, which is the longest pause after which
//! a hold time is still told from a shorter one. Steps of the stall detector have 31.

mod engine;
mod ledger;
mod limit;
mod period;
mod stall;

pub use engine::Engine;
pub use ledger::Ledger;
pub use limit::Limit;
pub use period::Period;
pub use stall::Stall;

use crate::prelude::*;

/// Budgets of N queues (QB bits); A = QB + 5.
#[derive(LogicBlock, Default)]
pub struct Budget<const N: usize, const QB: usize, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// The clock is set at the next edge.
    pub ticks_set: Signal<In, bool>,
    /// A reset is under way: no budget is in force, nothing is written.
    pub resetting: Signal<In, bool>,
    /// Period of the flush in ticks, at least 1.
    pub credit_flush: Signal<In, Bits<32>>,

    /// A queue's register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset in the queue's block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value.
    pub cfg_value: Signal<In, Bits<32>>,

    /// A segment was granted.
    pub charge_valid: Signal<In, bool>,
    /// Its queue.
    pub charge_queue: Signal<In, Bits<8>>,
    /// Its wire bytes.
    pub charge_bytes: Signal<In, Bits<17>>,
    /// A granted segment left or was dropped.
    pub credit_valid: Signal<In, bool>,
    /// Its queue.
    pub credit_queue: Signal<In, Bits<8>>,
    /// Its wire bytes.
    pub credit_bytes: Signal<In, Bits<17>>,
    /// Queues that may be granted a segment, from the cycle after a charge on.
    pub open: Signal<Out, Bits<N>>,

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

    /// A queue's stall detector found a stall (one cycle).
    pub stalled: Signal<Out, bool>,
    /// Nothing happens before the next event.
    pub idle: Signal<Out, bool>,
    /// There is a next event: a flush.
    pub next_event_valid: Signal<Out, bool>,
    /// Its tick modulo 2^34.
    pub next_event: Signal<Out, Bits<34>>,

    ledger: Ledger<N, QB>,
    period: Period,
    engine: Engine<N, QB, A>,
    cfg_place: Zext<8, QB>,
    charge_place: Zext<8, QB>,
    credit_place: Zext<8, QB>,
    now: Signal<Local, Bits<48>>,
    waiting: Signal<Local, Bits<N>>,
}

impl<const N: usize, const QB: usize, const A: usize> Logic for Budget<N, QB, A> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, ledger, period, engine);
        self.now.next = self.ticks.val().get_bits::<48>(0);
        self.cfg_place.data.next = self.cfg_queue.val();
        self.charge_place.data.next = self.charge_queue.val();
        self.credit_place.data.next = self.credit_queue.val();

        self.ledger.end_all.next = self.resetting.val();
        self.ledger.clear.next = self.engine.clear.val();
        self.ledger.step.next = self.now.val().get_bits::<31>(17);
        self.ledger.charge_valid.next = self.charge_valid.val();
        self.ledger.charge_queue.next = self.charge_place.out.val();
        self.ledger.charge_bytes.next = self.charge_bytes.val();
        self.ledger.credit_valid.next = self.credit_valid.val();
        self.ledger.credit_queue.next = self.credit_place.out.val();
        self.ledger.credit_bytes.next = self.credit_bytes.val();
        self.ledger.place.next = self.engine.place.val();
        self.ledger.take.next = self.engine.take.val();
        self.ledger.completes.next = self.engine.completes.val();
        self.ledger.settle.next = self.engine.settle.val();
        self.ledger.delta.next = self.engine.delta.val();
        self.ledger.start.next = self.engine.start.val();
        self.ledger.on.next = self.engine.on.val();
        self.open.next = self.ledger.open.val();

        self.waiting.next = self.ledger.dirty.val() & self.ledger.forced.val();
        self.period.now.next = self.now.val();
        self.period.moved.next = self.ticks_set.val();
        self.period.period.next = self.credit_flush.val();
        self.period.wanted.next = self.waiting.val().any();
        self.next_event_valid.next = self.period.upcoming_valid.val();
        self.next_event.next = self.period.upcoming.val();

        self.engine.mute.next = self.resetting.val();
        self.engine.now.next = self.now.val();
        self.engine.cfg_valid.next = self.cfg_valid.val();
        self.engine.cfg_queue.next = self.cfg_place.out.val();
        self.engine.cfg_offset.next = self.cfg_offset.val();
        self.engine.cfg_value.next = self.cfg_value.val();
        self.engine.due.next = self.period.due.val();
        self.engine.dirty.next = self.ledger.dirty.val();
        self.engine.forced.next = self.ledger.forced.val();
        self.engine.free.next = self.ledger.free.val();
        self.engine.debt.next = self.ledger.debt.val();
        self.engine.departed.next = self.ledger.departed.val();
        self.engine.last.next = self.ledger.last.val();
        self.engine.waits.next = self.ledger.waits.val();
        self.engine.first.next = self.ledger.first.val();
        self.engine.in_force.next = self.ledger.in_force.val();
        self.wr_valid.next = self.engine.wr_valid.val();
        self.engine.wr_ready.next = self.wr_ready.val();
        self.wr_addr.next = self.engine.wr_addr.val();
        self.wr_data.next = self.engine.wr_data.val();
        self.wr_strb.next = 0xFF.into();
        self.wr_last.next = self.engine.wr_last.val();
        self.stalled.next = self.engine.stalled.val();
        self.idle.next = self.engine.idle.val() & !self.period.busy.val();
    }
}
