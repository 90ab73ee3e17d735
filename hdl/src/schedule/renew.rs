// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues whose rate was written: their pacing starts anew.
//!
//! A gate may be closed for 2^32 ticks by a rate that does not count any more. So
//! what a rate leads to, V and E of the queue and its gate's leaf in the tree, ends
//! with it: the leaf is taken out, which opens the gate, and the first grant under
//! the new rate finds V = E = T. The gate of a grant that is in the pacer has no
//! leaf yet; it is taken out once it has.

use crate::prelude::*;

/// N queues, QB bits of a queue.
#[derive(LogicBlock, Default)]
pub struct Renew<const N: usize, const QB: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Every queue goes on as it is, and no gate has a leaf.
    pub reset: Signal<In, bool>,
    /// A queue's rate is written.
    pub written: Signal<In, bool>,
    /// Queue.
    pub written_queue: Signal<In, Bits<QB>>,

    /// The queue of the next grant ...
    pub look_queue: Signal<In, Bits<QB>>,
    /// ... starts anew with it.
    pub fresh: Signal<Out, bool>,
    /// It is looked at, and its grant counts for its rate.
    pub look: Signal<In, bool>,

    /// The pacer's result of a queue is there ...
    pub result: Signal<In, bool>,
    /// ... and its gate gets a leaf, or else is open.
    pub result_waits: Signal<In, bool>,
    /// Queue.
    pub result_queue: Signal<In, Bits<QB>>,
    /// A gate's time is reached: its leaf is taken out.
    pub pop: Signal<In, bool>,
    /// Its queue.
    pub pop_queue: Signal<In, Bits<QB>>,
    /// The leaf of `open_queue` is to be taken out and its gate opened: done in this
    /// cycle. Never with `result` or `pop`.
    pub open: Signal<Out, bool>,
    /// Queue.
    pub open_queue: Signal<Out, Bits<QB>>,
    /// A gate is going to be opened.
    pub busy: Signal<Out, bool>,

    written_queues: Flags<N, QB>,
    leaves: Flags<N, QB>,
    candidates: FirstOne<N, QB>,
    found: DFF<bool>,
    queue: DFF<Bits<QB>>,
    open_now: Signal<Local, bool>,
}

impl<const N: usize, const QB: usize> Logic for Renew<N, QB> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, found, queue);
        clock!(self, clock, written_queues, leaves);

        // A rate that is written while it is looked at counts from the next time on.
        self.written_queues.reset.next = self.reset.val();
        self.written_queues.set.next = self.written.val();
        self.written_queues.set_index.next = self.written_queue.val();
        self.written_queues.clear.next = self.look.val();
        self.written_queues.clear_index.next = self.look_queue.val();
        self.written_queues.read_index0.next = self.look_queue.val();
        self.written_queues.read_index1.next = self.look_queue.val();
        self.fresh.next = self.written_queues.read0.val();

        // Found in one cycle and done in a later one, if there still is a leaf.
        self.candidates.data.next = self.written_queues.bits.val() & self.leaves.bits.val();
        self.found.d.next = self.candidates.found.val();
        self.queue.d.next = self.candidates.index.val();
        self.leaves.read_index0.next = self.queue.q.val();
        self.leaves.read_index1.next = self.queue.q.val();
        self.open_now.next =
            self.found.q.val() & self.leaves.read0.val() & !self.result.val() & !self.pop.val();
        self.open.next = self.open_now.val();
        self.open_queue.next = self.queue.q.val();
        self.busy.next = self.candidates.found.val();

        self.leaves.reset.next = self.reset.val();
        self.leaves.set.next = self.result.val() & self.result_waits.val();
        self.leaves.set_index.next = self.result_queue.val();
        self.leaves.clear.next = self.pop.val() | self.open_now.val();
        if self.pop.val() {
            self.leaves.clear_index.next = self.pop_queue.val();
        } else {
            self.leaves.clear_index.next = self.queue.q.val();
        }
    }
}
