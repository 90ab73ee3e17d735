// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deficit round robin over queues, by wire bytes charged after the choice.
//!
//! The queue at the pointer is served while it may send and its deficit is above
//! zero; a charge may take the deficit below zero, so that no length is needed to
//! decide. Then the pointer moves to the next queue that may send, which starts
//! with its quantum less the debt that it left with. A rest above zero is dropped
//! when the pointer leaves, a debt is kept. A queue that may not send is passed
//! over without cost.
//!
//! The next queue and its deficit are made ready in advance (4 cycles after the
//! pointer moves), so a choice takes one cycle; a queue whose debt is not below
//! its quantum costs four cycles each time it is passed. The least quantum keeps that
//! below the time that the wire takes for the bytes.
//!
//! Source: Shreedhar and Varghese, "Efficient Fair Queuing Using Deficit Round
//! Robin", 1996; with debts instead of a look at the head's length.

use crate::prelude::*;

/// Arbiter of N queues (QB bits).
#[derive(LogicBlock, Default)]
pub struct Drr<const N: usize, const QB: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Start over at queue 0 with deficit 0; debts are cleared by `clear`.
    pub reset: Signal<In, bool>,
    /// Forgets quantum and debt of `clear_queue` (while in reset).
    pub clear: Signal<In, bool>,
    /// Queue.
    pub clear_queue: Signal<In, Bits<QB>>,
    /// Sets a quantum.
    pub quantum_valid: Signal<In, bool>,
    /// Of this queue.
    pub quantum_queue: Signal<In, Bits<QB>>,
    /// Wire bytes; 0 counts as [`DEFAULT_QUANTUM`](super::DEFAULT_QUANTUM),
    /// less than [`LEAST_QUANTUM`](super::LEAST_QUANTUM) as that.
    pub quantum: Signal<In, Bits<16>>,
    /// Queues that may send.
    pub eligible: Signal<In, Bits<N>>,
    /// A choice is wanted.
    pub choose: Signal<In, bool>,
    /// It is made in this cycle.
    pub chosen: Signal<Out, bool>,
    /// The queue.
    pub choice: Signal<Out, Bits<QB>>,
    /// Charges the queue that was chosen last.
    pub charge: Signal<In, bool>,
    /// Wire bytes.
    pub wire_bytes: Signal<In, Bits<17>>,
    /// With a charge: the queue's turn ends, and neither a rest nor a debt stays.
    pub end_turn: Signal<In, bool>,
    current: DFF<Bits<QB>>,
    deficit: DFF<Bits<18>>,
    candidate: DFF<Bits<QB>>,
    candidate_valid: DFF<bool>,
    offer: DFF<Bits<QB>>,
    offer_valid: DFF<bool>,
    offer_deficit: DFF<Bits<18>>,
    offer_quantum: DFF<Bits<16>>,
    age: DFF<Bits<2>>,
    eligible_then: DFF<Bits<N>>,
    eligible_above: DFF<Bits<N>>,
    above: Above<N, QB>,
    first_above: FirstOne<N, QB>,
    first_of_all: FirstOne<N, QB>,
    quanta: LutRam<Bits<16>, QB>,
    debts: LutRam<Bits<18>, QB>,
    current_hot: DFF<Bits<N>>,
    candidate_hot: DFF<Bits<N>>,
    offer_hot: DFF<Bits<N>>,
    current_eligible: Signal<Local, Bits<N>>,
    offer_eligible: Signal<Local, Bits<N>>,
    wide_charge: Zext<17, 18>,
    wide_offer: Zext<16, 18>,
    wide_again: Zext<16, 18>,
    default_quantum: Fixed<16, { super::DEFAULT_QUANTUM }>,
    least_quantum: Fixed<16, { super::LEAST_QUANTUM }>,
    quantum_read: Signal<Local, Bits<16>>,
    credit: Signal<Local, Bits<16>>,
    after_charge: Signal<Local, Bits<18>>,
    after_credit: Signal<Local, Bits<18>>,
    stored: Signal<Local, Bits<18>>,
    positive: Signal<Local, bool>,
    offer_positive: Signal<Local, bool>,
    serve_current: Signal<Local, bool>,
    move_on: Signal<Local, bool>,
    again: Signal<Local, bool>,
    alone: Signal<Local, bool>,
    offer_usable: Signal<Local, bool>,
    offer_wins: Signal<Local, bool>,
    current_wins: Signal<Local, bool>,
}

impl<const N: usize, const QB: usize> Logic for Drr<N, QB> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            current,
            deficit,
            candidate,
            candidate_valid,
            offer,
            offer_valid,
            offer_deficit,
            offer_quantum,
            age,
            eligible_then,
            eligible_above,
            current_hot,
            candidate_hot,
            offer_hot
        );
        clock!(self, clock, quanta, debts);
        // The next queue after the pointer: those above it, else the first of all.
        self.above.index.next = self.current.q.val();
        self.eligible_then.d.next = self.eligible.val();
        self.eligible_above.d.next = self.eligible.val() & self.above.out.val();
        // (Both are looked for, so that whether there is one above comes last.)
        self.first_above.data.next = self.eligible_above.q.val();
        self.first_of_all.data.next = self.eligible_then.q.val();
        if self.first_above.found.val() {
            self.candidate.d.next = self.first_above.index.val();
            self.candidate_hot.d.next = self.first_above.one_hot.val();
        } else {
            self.candidate.d.next = self.first_of_all.index.val();
            self.candidate_hot.d.next = self.first_of_all.one_hot.val();
        }
        self.candidate_valid.d.next = self.first_of_all.found.val();
        // What it would start with.
        self.quanta.read_address.next = self.candidate.q.val();
        self.debts.read_address.next = self.candidate.q.val();
        self.quantum_read.next = self.quanta.read_data.val();
        if !self.quantum_read.val().any() {
            self.credit.next = self.default_quantum.val();
        } else if self.quantum_read.val() < self.least_quantum.val() {
            self.credit.next = self.least_quantum.val();
        } else {
            self.credit.next = self.quantum_read.val();
        }
        self.wide_offer.data.next = self.credit.val();
        self.offer.d.next = self.candidate.q.val();
        self.offer_hot.d.next = self.candidate_hot.q.val();
        self.offer_valid.d.next = self.candidate_valid.q.val();
        self.offer_deficit.d.next = self.debts.read_data.val() + self.wide_offer.out.val();
        self.offer_quantum.d.next = self.credit.val();
        // Deficits are two's complement: above zero is neither negative nor zero.
        self.positive.next = !self.deficit.q.val().get_bit(17) & self.deficit.q.val().any();
        self.offer_positive.next =
            !self.offer_deficit.q.val().get_bit(17) & self.offer_deficit.q.val().any();
        // One-hot places: a mask and an OR, no decoding.
        self.current_eligible.next = self.eligible.val() & self.current_hot.q.val();
        self.offer_eligible.next = self.eligible.val() & self.offer_hot.q.val();
        self.serve_current.next = self.current_eligible.val().any() & self.positive.val();
        // The offer stands on the pointer's present place three cycles after a move.
        // (What is known early is gathered first: who may send comes last.)
        self.offer_usable.next = self.choose.val()
            & self.offer_valid.q.val()
            & (self.age.q.val() == 3)
            & (self.offer.q.val() != self.current.q.val());
        self.offer_wins.next = self.offer_usable.val() & self.offer_positive.val();
        self.current_wins.next = self.choose.val() & self.positive.val();
        self.chosen.next = (self.current_wins.val() & self.current_eligible.val().any())
            | (self.offer_wins.val() & self.offer_eligible.val().any());
        self.move_on.next =
            self.offer_usable.val() & self.offer_eligible.val().any() & !self.serve_current.val();
        // Alone: credit, and decide in the next cycle.
        self.alone.next = self.choose.val()
            & !self.positive.val()
            & self.offer_valid.q.val()
            & (self.age.q.val() == 3)
            & (self.offer.q.val() == self.current.q.val());
        self.again.next = self.alone.val() & self.current_eligible.val().any();
        if self.serve_current.val() {
            self.choice.next = self.current.q.val();
        } else {
            self.choice.next = self.offer.q.val();
        }
        self.wide_charge.data.next = self.wire_bytes.val();
        self.wide_again.data.next = self.offer_quantum.q.val();
        self.after_charge.next = self.deficit.q.val() - self.wide_charge.out.val();
        self.after_credit.next = self.deficit.q.val() + self.wide_again.out.val();
        if self.charge.val() & self.end_turn.val() {
            self.deficit.d.next = 0.into();
        } else if self.charge.val() {
            self.deficit.d.next = self.after_charge.val();
        } else if self.again.val() {
            self.deficit.d.next = self.after_credit.val();
        }
        if self.age.q.val() != 3 {
            self.age.d.next = self.age.q.val() + 1;
        }
        if self.move_on.val() {
            self.current.d.next = self.offer.q.val();
            self.current_hot.d.next = self.offer_hot.q.val();
            self.deficit.d.next = self.offer_deficit.q.val();
            self.age.d.next = 0.into();
        }
        // Leaving: a debt stays, a rest does not.
        if self.deficit.q.val().get_bit(17) {
            self.stored.next = self.deficit.q.val();
        } else {
            self.stored.next = 0.into();
        }
        self.debts.write_enable.next = self.move_on.val() | self.clear.val();
        self.quanta.write_enable.next = self.quantum_valid.val() | self.clear.val();
        if self.clear.val() {
            self.debts.write_address.next = self.clear_queue.val();
            self.debts.write_data.next = 0.into();
            self.quanta.write_address.next = self.clear_queue.val();
            self.quanta.write_data.next = 0.into();
        } else {
            self.debts.write_address.next = self.current.q.val();
            self.debts.write_data.next = self.stored.val();
            self.quanta.write_address.next = self.quantum_queue.val();
            self.quanta.write_data.next = self.quantum.val();
        }
        if self.reset.val() {
            self.current.d.next = 0.into();
            self.current_hot.d.next = 1.into();
            self.deficit.d.next = 0.into();
            self.age.d.next = 0.into();
        }
    }
}
