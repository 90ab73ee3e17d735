// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt moderation of the queue pairs' vectors: `tsonic_regs::pci` in logic.
//!
//! One engine visits a vector every three cycles: one whose completion waits, else
//! the next one of a round that looks for deadlines. So the time rule is late by three
//! cycles a vector at most, and three for each completion meanwhile. The round also finds
//! the earliest deadline, to which the clock may be put forward.

use crate::prelude::*;
use tsonic_regs::limits::COALESCE_COUNT_MAX;
use tsonic_regs::registers::queue;

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum VisitState {
    Pick,
    Look,
    Act,
}

/// A completion that was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Told {
    /// Its vector.
    pub vector: Bits<8>,
    /// The host is to be told at once.
    pub urgent: Bit,
}

/// Moderation of Q vectors (2 to 256).
#[derive(LogicBlock)]
pub struct Moderation<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Nothing is gathered any more.
    pub reset: Signal<In, bool>,
    /// Now, modulo 2^34.
    pub now: Signal<In, Bits<34>>,
    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,

    /// A completion has left for memory; at most every third cycle in the long run, and
    /// no more than two while a vector waits to be taken.
    pub told_valid: Signal<In, bool>,
    /// The completion.
    pub told: Signal<In, Told>,

    /// A vector interrupts.
    pub fire_valid: Signal<Out, bool>,
    /// Taken.
    pub fire_ready: Signal<In, bool>,
    /// The vector.
    pub fire_vector: Signal<Out, Bits<8>>,

    /// Nothing happens before the next event.
    pub idle: Signal<Out, bool>,
    /// There is a next event.
    pub next_event_valid: Signal<Out, bool>,
    /// Its tick modulo 2^34.
    pub next_event: Signal<Out, Bits<34>>,

    waiting: Fifo<Told, 2>,
    counts: SizedLutRam<Bits<16>, 8>,
    periods: SizedLutRam<Bits<32>, 8>,
    gathered: SizedLutRam<Bits<16>, 8>,
    deadlines: SizedLutRam<Bits<34>, 8>,
    gathering: Flags<Q, 8>,

    state: DFF<VisitState>,
    round: DFF<Bits<8>>,
    at: DFF<Bits<8>>,
    counts_one: DFF<Bit>,
    urgent: DFF<Bit>,
    held: DFF<Bit>,
    off: DFF<Bit>,
    more: DFF<Bits<16>>,
    count: DFF<Bits<16>>,
    deadline: DFF<Bits<34>>,
    fresh: DFF<Bits<34>>,
    left: DFF<Bits<34>>,

    // The earliest deadline of a round.
    best_valid: DFF<Bit>,
    best: DFF<Bits<34>>,
    soonest_valid: DFF<Bit>,
    soonest: DFF<Bits<34>>,
    stale: DFF<Bit>,
    settled: DFF<Bit>,

    at_once: Signal<Local, Bit>,
    due: Signal<Local, Bit>,
    fires: Signal<Local, Bit>,
    acts: Signal<Local, Bit>,
    is_first: Signal<Local, Bit>,
    is_last: Signal<Local, Bit>,
    counts_here: Signal<Local, Bit>,
    earlier: Signal<Local, Bit>,
    apart: Signal<Local, Bits<34>>,
    here: Signal<Local, Bits<34>>,
    clock_now: Signal<Local, Bits<34>>,
    period: Zext<32, 34>,
    new_count: Signal<Local, Bits<16>>,
    new_value: Signal<Local, Bits<32>>,
    last_vector: Setting<8>,
    reg_count: Fixed<7, { queue::COALESCE_COUNT.offset as u64 }>,
    reg_ticks: Fixed<7, { queue::COALESCE_TICKS.offset as u64 }>,
    most: Fixed<16, { COALESCE_COUNT_MAX as u64 }>,
}

const _: () = assert!(COALESCE_COUNT_MAX == u16::MAX as u32);

impl<const Q: usize> Default for Moderation<Q> {
    /// # Panics
    /// When Q is not in 2..=256.
    fn default() -> Self {
        assert!((2..=256).contains(&Q), "2 to 256 vectors");
        let bits = clog2(Q);
        Self {
            clock: Default::default(),
            reset: Default::default(),
            now: Default::default(),
            cfg_valid: Default::default(),
            cfg_queue: Default::default(),
            cfg_offset: Default::default(),
            cfg_value: Default::default(),
            told_valid: Default::default(),
            told: Default::default(),
            fire_valid: Default::default(),
            fire_ready: Default::default(),
            fire_vector: Default::default(),
            idle: Default::default(),
            next_event_valid: Default::default(),
            next_event: Default::default(),
            waiting: Default::default(),
            counts: SizedLutRam::new(bits),
            periods: SizedLutRam::new(bits),
            gathered: SizedLutRam::new(bits),
            deadlines: SizedLutRam::new(bits),
            gathering: Default::default(),
            state: Default::default(),
            round: Default::default(),
            at: Default::default(),
            counts_one: Default::default(),
            urgent: Default::default(),
            held: Default::default(),
            off: Default::default(),
            more: Default::default(),
            count: Default::default(),
            deadline: Default::default(),
            fresh: Default::default(),
            left: Default::default(),
            best_valid: Default::default(),
            best: Default::default(),
            soonest_valid: Default::default(),
            soonest: Default::default(),
            stale: Default::default(),
            settled: Default::default(),
            at_once: Default::default(),
            due: Default::default(),
            fires: Default::default(),
            acts: Default::default(),
            is_first: Default::default(),
            is_last: Default::default(),
            counts_here: Default::default(),
            earlier: Default::default(),
            apart: Default::default(),
            here: Default::default(),
            clock_now: Default::default(),
            period: Default::default(),
            new_count: Default::default(),
            new_value: Default::default(),
            last_vector: Setting::new(Q as u64 - 1),
            reg_count: Default::default(),
            reg_ticks: Default::default(),
            most: Default::default(),
        }
    }
}

impl<const Q: usize> Logic for Moderation<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            round,
            at,
            counts_one,
            urgent,
            held,
            off,
            more,
            count,
            deadline,
            fresh,
            left,
            best_valid,
            best,
            soonest_valid,
            soonest,
            stale,
            settled
        );
        clock!(
            self, clock, waiting, counts, periods, gathered, deadlines, gathering
        );
        self.clock_now.next = self.now.val();

        // Registers.
        self.new_value.next = self.cfg_value.val();
        self.new_count.next = self.new_value.val().get_bits::<16>(0);
        if self.new_value.val().get_bits::<16>(16).any() {
            self.new_count.next = self.most.val();
        }
        self.counts.write_enable.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_count.val());
        self.counts.write_address.next = self.cfg_queue.val();
        self.counts.write_data.next = self.new_count.val();
        self.periods.write_enable.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_ticks.val());
        self.periods.write_address.next = self.cfg_queue.val();
        self.periods.write_data.next = self.cfg_value.val();

        self.waiting.flush.next = self.reset.val();
        self.waiting.write_valid.next = self.told_valid.val();
        self.waiting.write_data.next = self.told.val();
        self.waiting.read_ready.next = false;

        // What is known of the vector that is visited.
        self.counts.read_address.next = self.at.q.val();
        self.periods.read_address.next = self.at.q.val();
        self.gathered.read_address.next = self.at.q.val();
        self.deadlines.read_address.next = self.at.q.val();
        self.gathering.read_index0.next = self.at.q.val();
        self.gathering.read_index1.next = self.at.q.val();
        self.period.data.next = self.periods.read_data.val();

        // What follows from it. (A count is below the largest while it is gathered.)
        self.at_once.next =
            self.urgent.q.val() | self.off.q.val() | (self.more.q.val() >= self.count.q.val());
        self.due.next =
            self.held.q.val() & (self.left.q.val().get_bit(33) | !self.left.q.val().any());
        self.fires.next = false;
        self.acts.next = false;
        self.gathered.write_enable.next = false;
        self.gathered.write_address.next = self.at.q.val();
        self.gathered.write_data.next = self.more.q.val();
        self.deadlines.write_enable.next = false;
        self.deadlines.write_address.next = self.at.q.val();
        self.deadlines.write_data.next = self.fresh.q.val();
        self.gathering.set.next = false;
        self.gathering.set_index.next = self.at.q.val();
        self.gathering.clear.next = false;
        self.gathering.clear_index.next = self.at.q.val();
        self.gathering.reset.next = self.reset.val();

        // The round's earliest deadline.
        self.is_first.next = !self.at.q.val().any();
        self.is_last.next = self.at.q.val() == self.last_vector.val();
        self.apart.next = self.deadline.q.val() - self.best.q.val();
        self.earlier.next =
            self.is_first.val() | !self.best_valid.q.val() | self.apart.val().get_bit(33);
        self.counts_here.next =
            self.held.q.val() | (self.best_valid.q.val() & !self.is_first.val());
        self.here.next = self.best.q.val();
        if self.held.q.val() & self.earlier.val() {
            self.here.next = self.deadline.q.val();
        }

        match self.state.q.val() {
            VisitState::Pick => {
                self.state.d.next = VisitState::Look;
                if self.waiting.read_valid.val() {
                    self.waiting.read_ready.next = true;
                    self.at.d.next = self.waiting.read_data.val().vector;
                    self.urgent.d.next = self.waiting.read_data.val().urgent;
                    self.counts_one.d.next = true;
                } else {
                    self.at.d.next = self.round.q.val();
                    self.counts_one.d.next = false;
                    self.round.d.next = self.round.q.val() + 1;
                    if self.round.q.val() == self.last_vector.val() {
                        self.round.d.next = 0.into();
                    }
                }
            }
            VisitState::Look => {
                self.held.d.next = self.gathering.read0.val();
                self.off.d.next = !self.periods.read_data.val().any();
                self.count.d.next = self.counts.read_data.val();
                self.more.d.next = 1.into();
                if self.gathering.read0.val() {
                    self.more.d.next = self.gathered.read_data.val() + 1;
                }
                self.deadline.d.next = self.deadlines.read_data.val();
                self.fresh.d.next = self.clock_now.val() + self.period.out.val();
                self.left.d.next = self.deadlines.read_data.val() - self.clock_now.val();
                self.state.d.next = VisitState::Act;
            }
            VisitState::Act => {
                if self.counts_one.q.val() {
                    self.fires.next = self.at_once.val();
                } else {
                    self.fires.next = self.due.val();
                }
                self.acts.next = !self.fires.val() | self.fire_ready.val();
                if self.acts.val() {
                    self.state.d.next = VisitState::Pick;
                }
                if self.counts_one.q.val() & !self.fires.val() {
                    self.gathered.write_enable.next = true;
                    self.deadlines.write_enable.next = !self.held.q.val();
                    self.gathering.set.next = true;
                }
                self.gathering.clear.next = self.fires.val() & self.fire_ready.val();
                if self.counts_one.q.val() | self.fires.val() {
                    self.stale.d.next = true;
                    self.settled.d.next = false;
                } else {
                    self.best.d.next = self.here.val();
                    self.best_valid.d.next = self.counts_here.val();
                    if self.is_first.val() {
                        self.stale.d.next = false;
                    }
                    if self.is_last.val() {
                        self.soonest.d.next = self.here.val();
                        self.soonest_valid.d.next = self.counts_here.val();
                        self.settled.d.next = !self.stale.q.val();
                    }
                }
            }
        }
        self.fire_valid.next = self.fires.val();
        self.fire_vector.next = self.at.q.val();
        if self.reset.val() {
            self.state.d.next = VisitState::Pick;
            self.settled.d.next = false;
            self.stale.d.next = true;
        }

        self.idle.next = self.waiting.empty.val()
            & !(self.counts_one.q.val() & (self.state.q.val() != VisitState::Pick))
            & (self.settled.q.val() | !self.gathering.bits.val().any());
        self.next_event_valid.next = self.soonest_valid.q.val() & self.gathering.bits.val().any();
        self.next_event.next = self.soonest.q.val();
    }
}
