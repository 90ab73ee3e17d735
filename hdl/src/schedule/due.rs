// SPDX-License-Identifier: MIT OR Apache-2.0
//! Due lists: for every queue a first-in first-out list of the lists that may
//! send now. A list stands in at most one of them, and once.
//!
//! One operation a cycle: taking the head of a queue's list (`take`, always
//! done) or else one append, the lowest port first.
//!
//! With each list the tick is kept at which it was appended: the head's is that since
//! when a segment of the queue has been due for longest.

use crate::prelude::*;

/// Due lists of N queues (QB bits) over identities of LB bits. M = 2^LB is not
/// stored per queue: the lists are chained through one memory.
#[derive(LogicBlock, Default)]
pub struct DueLists<const N: usize, const QB: usize, const LB: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Empties every list.
    pub reset: Signal<In, bool>,
    /// Takes the head of `take_queue`, which has one.
    pub take: Signal<In, bool>,
    /// Queue.
    pub take_queue: Signal<In, Bits<QB>>,
    /// The head.
    pub taken: Signal<Out, Bits<LB>>,
    /// An append of port 0 is offered.
    pub valid0: Signal<In, bool>,
    /// Identity.
    pub list0: Signal<In, Bits<LB>>,
    /// Queue.
    pub queue0: Signal<In, Bits<QB>>,
    /// It is done if valid.
    pub ready0: Signal<Out, bool>,
    /// An append of port 1 is offered.
    pub valid1: Signal<In, bool>,
    /// Identity.
    pub list1: Signal<In, Bits<LB>>,
    /// Queue.
    pub queue1: Signal<In, Bits<QB>>,
    /// It is done if valid.
    pub ready1: Signal<Out, bool>,
    /// An append of port 2 is offered.
    pub valid2: Signal<In, bool>,
    /// Identity.
    pub list2: Signal<In, Bits<LB>>,
    /// Queue.
    pub queue2: Signal<In, Bits<QB>>,
    /// It is done if valid.
    pub ready2: Signal<Out, bool>,
    /// An append of port 3 is offered.
    pub valid3: Signal<In, bool>,
    /// Identity.
    pub list3: Signal<In, Bits<LB>>,
    /// Queue.
    pub queue3: Signal<In, Bits<QB>>,
    /// It is done if valid.
    pub ready3: Signal<Out, bool>,
    /// Queues whose list holds something.
    pub waiting: Signal<Out, Bits<N>>,
    /// Now, modulo 2^34.
    pub now: Signal<In, Bits<34>>,
    /// A queue to ask about.
    pub ask_queue: Signal<In, Bits<QB>>,
    /// In the next cycle: its list held something.
    pub asked_holds: Signal<Out, bool>,
    /// And its head was appended at this tick.
    pub asked_since: Signal<Out, Bits<34>>,
    head: LutRam2<Bits<LB>, QB>,
    since: Ram<Bits<34>, LB>,
    asked: Select<N, 1, QB>,
    asked_filled: DFF<bool>,
    tail: LutRam2<Bits<LB>, QB>,
    chain: LutRam<Bits<LB>, LB>,
    filled: Flags<N, QB>,
    append: Signal<Local, bool>,
    append_list: Signal<Local, Bits<LB>>,
    append_queue: Signal<Local, Bits<QB>>,
    other_queue: Signal<Local, Bits<QB>>,
    append_filled: Signal<Local, bool>,
    queue: Signal<Local, Bits<QB>>,
    only: Signal<Local, bool>,
}

impl<const N: usize, const QB: usize, const LB: usize> Logic for DueLists<N, QB, LB> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, asked_filled);
        clock!(self, clock, head, tail, chain, filled, since);
        self.ready0.next = !self.take.val();
        self.ready1.next = !self.take.val() & !self.valid0.val();
        self.ready2.next = !self.take.val() & !self.valid0.val() & !self.valid1.val();
        self.ready3.next =
            !self.take.val() & !self.valid0.val() & !self.valid1.val() & !self.valid2.val();
        self.append.next = !self.take.val()
            & (self.valid0.val() | self.valid1.val() | self.valid2.val() | self.valid3.val());
        if self.valid0.val() {
            self.append_list.next = self.list0.val();
        } else if self.valid1.val() {
            self.append_list.next = self.list1.val();
        } else if self.valid2.val() {
            self.append_list.next = self.list2.val();
        } else {
            self.append_list.next = self.list3.val();
        }
        if self.valid1.val() {
            self.other_queue.next = self.queue1.val();
        } else if self.valid2.val() {
            self.other_queue.next = self.queue2.val();
        } else {
            self.other_queue.next = self.queue3.val();
        }
        // Port 0 is known last, so its flag is looked up beside that of the others.
        self.filled.read_index0.next = self.queue0.val();
        self.filled.read_index1.next = self.other_queue.val();
        if self.valid0.val() {
            self.append_queue.next = self.queue0.val();
            self.append_filled.next = self.filled.read0.val();
        } else {
            self.append_queue.next = self.other_queue.val();
            self.append_filled.next = self.filled.read1.val();
        }
        if self.take.val() {
            self.queue.next = self.take_queue.val();
        } else {
            self.queue.next = self.append_queue.val();
        }
        self.filled.reset.next = self.reset.val();
        self.waiting.next = self.filled.bits.val();
        // Taking: the head, and its successor becomes the head.
        self.head.read_address0.next = self.take_queue.val();
        self.taken.next = self.head.read_data0.val();
        self.chain.read_address.next = self.head.read_data0.val();
        self.tail.read_address0.next = self.take_queue.val();
        self.tail.read_address1.next = self.append_queue.val();
        self.only.next = self.head.read_data0.val() == self.tail.read_data0.val();
        self.filled.clear.next = self.take.val() & self.only.val();
        self.filled.clear_index.next = self.take_queue.val();
        // Appending: behind the tail, or as the head of an empty list.
        self.filled.set.next = self.append.val();
        self.filled.set_index.next = self.append_queue.val();
        self.tail.write_enable.next = self.append.val();
        self.tail.write_address.next = self.append_queue.val();
        self.tail.write_data.next = self.append_list.val();
        // (The tail of an empty list is stale, and may stand in another list.)
        self.chain.write_enable.next = self.append.val() & self.append_filled.val();
        self.chain.write_address.next = self.tail.read_data1.val();
        self.chain.write_data.next = self.append_list.val();
        self.head.write_address.next = self.queue.val();
        if self.take.val() {
            self.head.write_enable.next = true;
            self.head.write_data.next = self.chain.read_data.val();
        } else {
            self.head.write_enable.next = self.append.val() & !self.append_filled.val();
            self.head.write_data.next = self.append_list.val();
        }

        // Since when. The head of a list that holds something is not being appended.
        self.since.write_enable.next = self.append.val();
        self.since.write_address.next = self.append_list.val();
        self.since.write_data.next = self.now.val();
        self.asked.data.next = self.filled.bits.val();
        self.asked.index.next = self.ask_queue.val();
        self.head.read_address1.next = self.ask_queue.val();
        self.since.read_enable.next = self.asked.out.val().any();
        self.since.read_address.next = self.head.read_data1.val();
        self.asked_filled.d.next = self.asked.out.val().any();
        self.asked_holds.next = self.asked_filled.q.val();
        self.asked_since.next = self.since.read_data.val();
    }
}
