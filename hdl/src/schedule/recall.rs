// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues that are off: what waits of them is to be given up at once.
//!
//! A paced burst may wait for seconds, in the tree or behind a closed gate. When a
//! queue is turned off this block goes through the flows and gives each that waits
//! in the tree, and whose first burst is of a queue that is off, the key *now*; a
//! flow that gets such a first burst later is given it with its result. The rest is
//! the scheduler's: a queue that is off has no gate, and what is looked up of it is
//! given up.

use crate::prelude::*;
use crate::words::UnpackQueueControl;
use tsonic_regs::registers::queue;

/// Which of N queues (QB bits) are off, and the walk over 2^SB flows.
#[derive(LogicBlock, Default)]
pub struct Recall<const N: usize, const QB: usize, const SB: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// No queue counts as off any more.
    pub reset: Signal<In, bool>,
    /// Queue to be cleared, all of them in turn (while in reset).
    pub clear_queue: Signal<In, Bits<QB>>,
    /// A queue's register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue.
    pub cfg_queue: Signal<In, Bits<QB>>,
    /// Offset in the queue's block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value.
    pub cfg_value: Signal<In, Bits<32>>,
    /// The queues that are off.
    pub off_queues: Signal<Out, Bits<N>>,

    /// A queue ...
    pub look_queue: Signal<In, Bits<QB>>,
    /// ... is off.
    pub look_off: Signal<Out, bool>,
    /// The queue of a result ...
    pub result_queue: Signal<In, Bits<QB>>,
    /// ... is off.
    pub result_off: Signal<Out, bool>,
    /// The result of a flow is taken.
    pub result_taken: Signal<In, bool>,
    /// Flow.
    pub result_slot: Signal<In, Bits<SB>>,
    /// It has work: a burst of `result_queue` is its first.
    pub result_work: Signal<In, bool>,

    /// Flow that is looked at ...
    pub walk_slot: Signal<Out, Bits<SB>>,
    /// ... stands in the tree.
    pub planted: Signal<In, bool>,
    /// Another leaf of the tree changes in this cycle, or that one.
    pub moving: Signal<In, bool>,
    /// `walk_slot` is to have the key *now*: done in this cycle unless `moving`.
    pub hasten: Signal<Out, bool>,
    /// The walk goes on.
    pub busy: Signal<Out, bool>,

    flags: Flags<N, QB>,
    copy: LutRam2<Bits<1>, QB>,
    head_queue: LutRam<Bits<QB>, SB>,
    has_work: LutRam<Bits<1>, SB>,
    control: UnpackQueueControl,
    control_offset: Fixed<7, { queue::TX_CONTROL.offset as u64 }>,
    running: DFF<bool>,
    found: DFF<bool>,
    at: DFF<Bits<SB>>,
    write: Signal<Local, bool>,
    turn_off: Signal<Local, bool>,
    waits: Signal<Local, bool>,
    step_on: Signal<Local, bool>,
    place: Signal<Local, Bits<SB>>,
}

impl<const N: usize, const QB: usize, const SB: usize> Logic for Recall<N, QB, SB> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, running, found, at);
        clock!(self, clock, flags, copy, head_queue, has_work);

        // Which queues are off.
        self.control.data.next = self.cfg_value.val();
        self.write.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.control_offset.val());
        self.turn_off.next = self.write.val() & !self.control.enable.val().any();
        self.flags.reset.next = self.reset.val();
        self.flags.set.next = self.turn_off.val();
        self.flags.set_index.next = self.cfg_queue.val();
        self.flags.clear.next = self.write.val() & !self.turn_off.val();
        self.flags.clear_index.next = self.cfg_queue.val();
        self.flags.read_index0.next = self.look_queue.val();
        self.flags.read_index1.next = self.look_queue.val();
        self.off_queues.next = self.flags.bits.val();
        self.look_off.next = self.flags.read0.val();
        self.copy.write_enable.next = self.write.val() | self.reset.val();
        if self.reset.val() {
            self.copy.write_address.next = self.clear_queue.val();
            self.copy.write_data.next = 0.into();
        } else {
            self.copy.write_address.next = self.cfg_queue.val();
            self.copy.write_data.next = self.turn_off.val().into();
        }
        self.copy.read_address0.next = self.result_queue.val();
        self.result_off.next = self.copy.read_data0.val().any();

        // What each flow's last result said.
        self.head_queue.write_enable.next = self.result_taken.val();
        self.head_queue.write_address.next = self.result_slot.val();
        self.head_queue.write_data.next = self.result_queue.val();
        self.has_work.write_enable.next = self.result_taken.val();
        self.has_work.write_address.next = self.result_slot.val();
        self.has_work.write_data.next = self.result_work.val().into();

        // The walk: looked at in one cycle, done in the next, unless the tree
        // changes in one of them; then once more.
        self.place.next = self.at.q.val();
        self.walk_slot.next = self.at.q.val();
        self.head_queue.read_address.next = self.at.q.val();
        self.has_work.read_address.next = self.at.q.val();
        self.copy.read_address1.next = self.head_queue.read_data.val();
        self.waits.next = self.planted.val()
            & self.has_work.read_data.val().any()
            & self.copy.read_data1.val().any();
        self.hasten.next = self.found.q.val();
        self.found.d.next =
            self.running.q.val() & !self.found.q.val() & self.waits.val() & !self.moving.val();
        if self.found.q.val() {
            self.step_on.next = !self.moving.val();
        } else {
            self.step_on.next = self.running.q.val() & !self.waits.val();
        }
        if self.step_on.val() {
            self.at.d.next = self.at.q.val() + 1;
            if self.place.val().all() {
                self.running.d.next = false;
            }
        }
        if self.turn_off.val() {
            self.running.d.next = true;
            self.found.d.next = false;
            self.at.d.next = 0.into();
        }
        if self.reset.val() {
            self.running.d.next = false;
            self.found.d.next = false;
        }
        self.busy.next = self.running.q.val();
    }
}
