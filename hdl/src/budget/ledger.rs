// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every queue has in flight, and whether its budget is open.
//!
//! Of each queue stands here its *debt*: bytes in flight less the limit less 1, so
//! that the budget is open while the debt is negative. A charge adds to it in one
//! cycle, and the flag of the queue is right for the scheduler's next decision; the
//! engine takes from it what was credited, and what the limit grew by. Bytes are
//! charged and credited whether a budget is in force or not, so that one that starts
//! knows what is in flight.
//!
//! What departs is only added up here until the engine takes it.
//!
//! For the stall detector it keeps the step of each queue's first charge after its
//! last completion, and not in the step of that one: what Linux finds in a bitmap of
//! the last 256 ticks.

use crate::prelude::*;

/// Ledger of N queues (QB bits).
#[derive(LogicBlock, Default)]
pub struct Ledger<const N: usize, const QB: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Every budget ends; what is in flight stays.
    pub end_all: Signal<In, bool>,
    /// Forgets all of `place` (at power-up, one after another).
    pub clear: Signal<In, bool>,
    /// Step of the stall detector.
    pub step: Signal<In, Bits<31>>,

    /// A segment was granted.
    pub charge_valid: Signal<In, bool>,
    /// Its queue.
    pub charge_queue: Signal<In, Bits<QB>>,
    /// Its wire bytes; 0 changes nothing.
    pub charge_bytes: Signal<In, Bits<17>>,
    /// A granted segment left, or was dropped.
    pub credit_valid: Signal<In, bool>,
    /// Its queue.
    pub credit_queue: Signal<In, Bits<QB>>,
    /// Its wire bytes.
    pub credit_bytes: Signal<In, Bits<17>>,

    /// The engine's queue.
    pub place: Signal<In, Bits<QB>>,
    /// The engine may act in this cycle, and what follows is of its queue.
    pub free: Signal<Out, bool>,
    /// Bytes in flight less the limit less 1.
    pub debt: Signal<Out, Bits<32>>,
    /// Bytes departed since they were taken last.
    pub departed: Signal<Out, Bits<32>>,
    /// Bytes of the last segment charged.
    pub last: Signal<Out, Bits<17>>,
    /// Something was charged since the last completion ...
    pub waits: Signal<Out, bool>,
    /// ... first in this step.
    pub first: Signal<Out, Bits<31>>,
    /// A budget is in force.
    pub in_force: Signal<Out, bool>,

    /// Takes what departed: the sum starts over. Only while `free`.
    pub take: Signal<In, bool>,
    /// Something completes: the wait starts over. Only while `free`.
    pub completes: Signal<In, bool>,
    /// Adds `delta` to the debt. Only while `free`.
    pub settle: Signal<In, bool>,
    /// See `settle`.
    pub delta: Signal<In, Bits<32>>,
    /// With it a budget starts, or ends.
    pub start: Signal<In, bool>,
    /// It starts.
    pub on: Signal<In, bool>,

    /// Queues that may be granted a segment.
    pub open: Signal<Out, Bits<N>>,
    /// Queues of which something departed.
    pub dirty: Signal<Out, Bits<N>>,
    /// Queues with a budget in force.
    pub forced: Signal<Out, Bits<N>>,

    debts: LutRam<Bits<32>, QB>,
    sums: LutRam<Bits<32>, QB>,
    lasts: LutRam<Bits<17>, QB>,
    firsts: LutRam<Bits<31>, QB>,
    closed_flags: Flags<N, QB>,
    forced_flags: Flags<N, QB>,
    dirty_flags: Flags<N, QB>,
    /// Charged since the last completion.
    wait_flags: Flags<N, QB>,
    /// Completed in the present step.
    recent_flags: Flags<N, QB>,
    step_before: DFF<Bits<31>>,

    charges: Signal<Local, bool>,
    same_step: Signal<Local, bool>,
    begins: Signal<Local, bool>,
    wide_charge: Zext<17, 32>,
    wide_credit: Zext<17, 32>,
    debt_place: Signal<Local, Bits<QB>>,
    debt_change: Signal<Local, Bits<32>>,
    debt_after: Signal<Local, Bits<32>>,
    sum_place: Signal<Local, Bits<QB>>,
    sum_after: Signal<Local, Bits<32>>,
    closes: Signal<Local, bool>,
    bound: Signal<Local, bool>,
    nothing: Fixed<32, 0xFFFF_FFFF>,
}

impl<const N: usize, const QB: usize> Logic for Ledger<N, QB> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, step_before);
        clock!(
            self,
            clock,
            debts,
            sums,
            lasts,
            firsts,
            closed_flags,
            forced_flags,
            dirty_flags,
            wait_flags,
            recent_flags
        );
        self.step_before.d.next = self.step.val();
        self.same_step.next = self.step.val() == self.step_before.q.val();
        self.charges.next = self.charge_valid.val() & self.charge_bytes.val().any();
        self.free.next = !self.charge_valid.val()
            & !self.credit_valid.val()
            & !self.clear.val()
            & self.same_step.val();

        // Debts: charges come first.
        self.wide_charge.data.next = self.charge_bytes.val();
        self.debt_place.next = self.place.val();
        self.debt_change.next = self.delta.val();
        if self.charge_valid.val() {
            self.debt_place.next = self.charge_queue.val();
            self.debt_change.next = self.wide_charge.out.val();
        }
        self.debts.read_address.next = self.debt_place.val();
        self.debts.write_address.next = self.debt_place.val();
        self.debt_after.next = self.debts.read_data.val() + self.debt_change.val();
        self.debts.write_enable.next = self.charge_valid.val() | self.settle.val();
        self.debts.write_data.next = self.debt_after.val();
        self.debt.next = self.debts.read_data.val();

        // Flags: a budget that is not in force is open.
        self.forced_flags.reset.next = self.end_all.val();
        self.forced_flags.set.next = self.settle.val() & self.start.val() & self.on.val();
        self.forced_flags.set_index.next = self.place.val();
        self.forced_flags.clear.next = self.settle.val() & self.start.val() & !self.on.val();
        self.forced_flags.clear_index.next = self.place.val();
        self.forced_flags.read_index0.next = self.charge_queue.val();
        self.forced_flags.read_index1.next = self.place.val();
        self.in_force.next = self.forced_flags.read1.val();
        self.forced.next = self.forced_flags.bits.val();
        self.bound.next = self.forced_flags.read1.val();
        if self.start.val() {
            self.bound.next = self.on.val();
        }
        self.closes.next = !self.debt_after.val().get_bit(31);
        self.closed_flags.reset.next = self.end_all.val();
        self.closed_flags.set.next = self.closes.val()
            & ((self.charge_valid.val() & self.forced_flags.read0.val())
                | (self.settle.val() & self.bound.val()));
        self.closed_flags.set_index.next = self.debt_place.val();
        self.closed_flags.clear.next = self.settle.val();
        self.closed_flags.clear_index.next = self.place.val();
        self.closed_flags.read_index0.next = self.place.val();
        self.closed_flags.read_index1.next = self.place.val();
        self.open.next = !self.closed_flags.bits.val();

        // What departed.
        self.wide_credit.data.next = self.credit_bytes.val();
        self.sum_place.next = self.place.val();
        if self.credit_valid.val() {
            self.sum_place.next = self.credit_queue.val();
        }
        self.sums.read_address.next = self.sum_place.val();
        self.sums.write_address.next = self.sum_place.val();
        self.sum_after.next = self.sums.read_data.val() + self.wide_credit.out.val();
        self.sums.write_enable.next = self.credit_valid.val() | self.take.val();
        self.sums.write_data.next = 0.into();
        if self.credit_valid.val() {
            self.sums.write_data.next = self.sum_after.val();
        }
        self.departed.next = self.sums.read_data.val();
        self.dirty_flags.reset.next = false;
        self.dirty_flags.set.next = self.credit_valid.val();
        self.dirty_flags.set_index.next = self.credit_queue.val();
        self.dirty_flags.clear.next = self.take.val();
        self.dirty_flags.clear_index.next = self.place.val();
        self.dirty_flags.read_index0.next = self.place.val();
        self.dirty_flags.read_index1.next = self.place.val();
        self.dirty.next = self.dirty_flags.bits.val();

        // Sizes and steps of charges.
        self.lasts.write_enable.next = self.charges.val();
        self.lasts.write_address.next = self.charge_queue.val();
        self.lasts.write_data.next = self.charge_bytes.val();
        self.lasts.read_address.next = self.place.val();
        self.last.next = self.lasts.read_data.val();
        self.recent_flags.reset.next = !self.same_step.val();
        self.recent_flags.set.next = self.completes.val();
        self.recent_flags.set_index.next = self.place.val();
        self.recent_flags.clear.next = false;
        self.recent_flags.clear_index.next = self.place.val();
        self.recent_flags.read_index0.next = self.charge_queue.val();
        self.recent_flags.read_index1.next = self.place.val();
        self.wait_flags.read_index0.next = self.charge_queue.val();
        self.wait_flags.read_index1.next = self.place.val();
        self.begins.next = self.charges.val()
            & !self.wait_flags.read0.val()
            & (!self.recent_flags.read0.val() | !self.same_step.val());
        self.wait_flags.reset.next = false;
        self.wait_flags.set.next = self.begins.val();
        self.wait_flags.set_index.next = self.charge_queue.val();
        self.wait_flags.clear.next = self.completes.val();
        self.wait_flags.clear_index.next = self.place.val();
        self.waits.next = self.wait_flags.read1.val();
        self.firsts.write_enable.next = self.begins.val();
        self.firsts.write_address.next = self.charge_queue.val();
        self.firsts.write_data.next = self.step.val();
        self.firsts.read_address.next = self.place.val();
        self.first.next = self.firsts.read_data.val();

        if self.clear.val() {
            self.debts.write_enable.next = true;
            self.debts.write_address.next = self.place.val();
            self.debts.write_data.next = self.nothing.val();
            self.sums.write_enable.next = true;
            self.sums.write_address.next = self.place.val();
            self.sums.write_data.next = 0.into();
        }
    }
}
