// SPDX-License-Identifier: MIT OR Apache-2.0
//! One queue after another: starts budgets, flushes credits, writes back.
//!
//! ```text
//! Clear ─► Idle ─► Choose ─► Load ─► (Setup) ─► Take ─► Work ─► Settle ─► Store ─► Address ─► Word0 ─► Word1
//! ```
//!
//! A queue has 14 words in a memory of its own, and a copy of its registers in
//! another. Who has work, in this order: a queue whose BQL_LIMIT was written, one of
//! those that had credit when the period was over, one with credit and without a
//! budget (it is only accounted for). A queue takes about 55 cycles.

use super::{Limit, Stall, limit, stall};
use crate::prelude::*;
use crate::primitives::pack_word;
use tsonic_regs::completion::{WriteBack, write_back_bytes, write_back_stalls};
use tsonic_regs::limits::BQL_STALL_SHIFT;
use tsonic_regs::registers::queue;

pack_word! {
    /// Word 0 of a budget's write-back.
    PackWriteBackBytes, 64 {
        limit: 32 = write_back_bytes::LIMIT,
        inflight: 32 = write_back_bytes::INFLIGHT,
    }
}

pack_word! {
    /// Word 1 of a budget's write-back.
    PackWriteBackStalls, 64 {
        count: 32 = write_back_stalls::COUNT,
        longest: 32 = write_back_stalls::LONGEST,
    }
}

/// Largest limit.
const LIMIT_MAX: u64 = tsonic_regs::limits::BQL_MAX_LIMIT as u64;
/// Words of a queue.
const WORDS: usize = 14;
/// Cycles from the operands to all results.
const WORK: u64 = limit::STEPS;

const _: () = {
    // Ticks of 48 bits, steps of 31.
    assert!(BQL_STALL_SHIFT == 17 && WORK >= stall::STEPS);
    // The registers of a budget stand in a row.
    assert!(queue::BQL_MIN.offset == queue::BQL_LIMIT.offset + 4);
    assert!(queue::BQL_MAX.offset == queue::BQL_LIMIT.offset + 8);
    assert!(queue::BQL_HOLD.offset == queue::BQL_LIMIT.offset + 12);
    assert!(queue::BQL_STALL.offset == queue::BQL_LIMIT.offset + 16);
    assert!(queue::WRITE_BACK_HI.offset == queue::WRITE_BACK_LO.offset + 4);
    assert!(WriteBack::BYTES == 16);
};

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum EngineState {
    Clear,
    Idle,
    Choose,
    Load,
    Setup,
    Take,
    Work,
    Settle,
    Store,
    Address,
    Word0,
    Word1,
}

/// The engine for N queues (QB bits); A = QB + 5.
#[derive(LogicBlock, Default)]
pub struct Engine<const N: usize, const QB: usize, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Nothing is written back.
    pub mute: Signal<In, bool>,
    /// Now.
    pub now: Signal<In, Bits<48>>,

    /// A queue's register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue.
    pub cfg_queue: Signal<In, Bits<QB>>,
    /// Offset in the queue's block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value.
    pub cfg_value: Signal<In, Bits<32>>,

    /// The period is over: what is `dirty` and `forced` is flushed.
    pub due: Signal<In, bool>,
    /// Queues with credit.
    pub dirty: Signal<In, Bits<N>>,
    /// Queues with a budget in force.
    pub forced: Signal<In, Bits<N>>,

    /// To the ledger: queue.
    pub place: Signal<Out, Bits<QB>>,
    /// Forget it.
    pub clear: Signal<Out, bool>,
    /// The ledger is free, and what follows is of `place`.
    pub free: Signal<In, bool>,
    /// Debt.
    pub debt: Signal<In, Bits<32>>,
    /// Bytes departed.
    pub departed: Signal<In, Bits<32>>,
    /// Bytes of the last segment.
    pub last: Signal<In, Bits<17>>,
    /// Charged since the last completion.
    pub waits: Signal<In, bool>,
    /// First in this step.
    pub first: Signal<In, Bits<31>>,
    /// A budget is in force.
    pub in_force: Signal<In, bool>,
    /// What departed is taken.
    pub take: Signal<Out, bool>,
    /// Something completes, or a budget starts.
    pub completes: Signal<Out, bool>,
    /// The debt changes.
    pub settle: Signal<Out, bool>,
    /// By so much.
    pub delta: Signal<Out, Bits<32>>,
    /// A budget starts or ends.
    pub start: Signal<Out, bool>,
    /// It starts.
    pub on: Signal<Out, bool>,

    /// A beat of a write.
    pub wr_valid: Signal<Out, bool>,
    /// Taken.
    pub wr_ready: Signal<In, bool>,
    /// Address of the beat.
    pub wr_addr: Signal<Out, Bits<64>>,
    /// Data.
    pub wr_data: Signal<Out, Bits<64>>,
    /// Last beat.
    pub wr_last: Signal<Out, bool>,

    /// A stall was found.
    pub stalled: Signal<Out, bool>,
    /// There is nothing to do.
    pub idle: Signal<Out, bool>,

    registers: Ram<Bits<32>, A>,
    kept: Ram<Bits<32>, A>,
    limit: Limit,
    stall: Stall,
    starts: Flags<N, QB>,
    requests: FirstOne<N, QB>,
    write_place: Pack2<5, QB, A>,
    register_place: Pack2<5, QB, A>,
    kept_place: Pack2<5, QB, A>,
    word0: PackWriteBackBytes,
    word1: PackWriteBackStalls,
    words: PackArray<32, WORDS, 448>,
    word: Select<448, 32, 4>,
    slack_word: Pack2<32, 16, 48>,
    base_word: Pack3<6, 26, 32, 64>,

    state: DFF<EngineState>,
    at: DFF<Bits<5>>,
    came: DFF<bool>,
    came_at: DFF<Bits<5>>,
    here: DFF<Bits<QB>>,
    todo: DFF<Bits<N>>,
    starting: DFF<bool>,
    forces: DFF<bool>,
    turned_on: DFF<bool>,
    bytes: DFF<Bits<32>>,
    debt_then: DFF<Bits<32>>,
    last_then: DFF<Bits<17>>,
    waits_then: DFF<bool>,
    first_then: DFF<Bits<31>>,
    now_then: DFF<Bits<48>>,
    start_limit: DFF<Bits<32>>,
    old_limit: DFF<Bits<32>>,
    remained: DFF<Bits<32>>,
    over_before: DFF<Bits<32>>,
    last_before: DFF<Bits<32>>,
    lowest: DFF<Bits<32>>,
    slack_low: DFF<Bits<32>>,
    slack_high: DFF<Bits<16>>,
    least: DFF<Bits<32>>,
    most: DFF<Bits<32>>,
    hold: DFF<Bits<32>>,
    threshold: DFF<Bits<16>>,
    completed: DFF<Bits<31>>,
    count: DFF<Bits<32>>,
    longest: DFF<Bits<31>>,
    base_low: DFF<Bits<26>>,
    base_high: DFF<Bits<32>>,

    loose: Signal<Local, Bits<N>>,
    asked: Signal<Local, Bits<N>>,
    asked_then: DFF<Bits<N>>,
    some_start: Signal<Local, bool>,
    reads: Signal<Local, bool>,
    setting: Signal<Local, bool>,
    came_kept: Signal<Local, bool>,
    data: Signal<Local, Bits<32>>,
    capped: Signal<Local, Bits<32>>,
    steps: Signal<Local, Bits<16>>,
    one: Signal<Local, Bits<16>>,
    folds: Signal<Local, bool>,
    nothing: Signal<Local, bool>,
    step_now: Signal<Local, Bits<31>>,
    slack_start: Signal<Local, Bits<48>>,
    most_now: Signal<Local, Bits<32>>,
    longest_now: Signal<Local, Bits<31>>,
    wide_slack: Zext<16, 32>,
    wide_threshold: Zext<16, 32>,
    wide_completed: Zext<31, 32>,
    wide_longest: Zext<31, 32>,
    long_ticks: Pack2<17, 15, 32>,
    somewhere: Signal<Local, bool>,

    limit_offset: Fixed<7, { queue::BQL_LIMIT.offset as u64 }>,
    limit_word: Fixed<5, { queue::BQL_LIMIT.offset as u64 / 4 }>,
    base_first: Fixed<5, { queue::WRITE_BACK_LO.offset as u64 / 4 }>,
    last_word: Fixed<5, { WORDS as u64 - 1 }>,
    work: Fixed<5, { WORK }>,
    cap: Fixed<32, LIMIT_MAX>,
    saturated: Fixed<32, 0xFFFF_FFFF>,
}

impl<const N: usize, const QB: usize, const A: usize> Logic for Engine<N, QB, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            asked_then,
            state,
            at,
            came,
            came_at,
            here,
            todo,
            starting,
            forces,
            turned_on,
            bytes,
            debt_then,
            last_then,
            waits_then,
            first_then,
            now_then,
            start_limit,
            old_limit,
            remained,
            over_before,
            last_before,
            lowest,
            slack_low,
            slack_high,
            least,
            most,
            hold,
            threshold,
            completed,
            count,
            longest,
            base_low,
            base_high
        );
        clock!(self, clock, registers, kept, limit, stall, starts);

        // The queues' registers. They are not read in a cycle in which one is written.
        self.write_place.i0.next = self.cfg_offset.val().get_bits::<5>(2);
        self.write_place.i1.next = self.cfg_queue.val();
        self.registers.write_enable.next = self.cfg_valid.val();
        self.registers.write_address.next = self.write_place.out.val();
        self.registers.write_data.next = self.cfg_value.val();
        self.starts.reset.next = false;
        self.starts.set.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.limit_offset.val());
        self.starts.set_index.next = self.cfg_queue.val();
        self.starts.clear.next = false;
        self.starts.clear_index.next = self.requests.index.val();
        self.starts.read_index0.next = self.here.q.val();
        self.starts.read_index1.next = self.here.q.val();

        // Who has work.
        self.some_start.next = self.starts.bits.val().any();
        self.loose.next = self.dirty.val() & !self.forced.val();
        self.asked.next = self.todo.q.val() | self.loose.val();
        if self.some_start.val() {
            self.asked.next = self.starts.bits.val();
        }
        // (One step apart from the choice, for the sake of the clock.)
        self.asked_then.d.next = self.asked.val();
        self.requests.data.next = self.asked_then.q.val();
        if self.due.val() {
            self.todo.d.next = self.todo.q.val() | (self.dirty.val() & self.forced.val());
        }
        self.idle.next =
            (self.state.q.val() == EngineState::Idle) & !self.asked.val().any() & !self.due.val();

        // Words that come from the memories.
        self.place.next = self.here.q.val();
        self.kept_place.i0.next = self.at.q.val();
        self.kept_place.i1.next = self.here.q.val();
        self.register_place.i0.next = self.at.q.val() + self.limit_word.val();
        self.register_place.i1.next = self.here.q.val();
        self.kept.read_enable.next = false;
        self.kept.read_address.next = self.kept_place.out.val();
        self.kept.write_enable.next = false;
        self.kept.write_address.next = self.kept_place.out.val();
        self.registers.read_enable.next = false;
        self.registers.read_address.next = self.register_place.out.val();
        self.reads.next = !self.cfg_valid.val();
        self.came.d.next = false;
        self.came_at.d.next = self.at.q.val();
        self.setting.next = self.state.q.val() == EngineState::Setup;
        self.came_kept.next = self.came.q.val() & (self.state.q.val() == EngineState::Load);
        self.data.next = self.registers.read_data.val();
        self.capped.next = self.data.val();
        if self.data.val() > self.cap.val() {
            self.capped.next = self.cap.val();
        }
        self.one.next = 0.into();
        if self.data.val().get_bits::<17>(0).any() {
            self.one.next = 1.into();
        }
        self.steps.next = bit_cast::<16, 15>(self.data.val().get_bits::<15>(17)) + self.one.val();
        if self.came_kept.val() {
            if self.came_at.q.val() == 0 {
                self.old_limit.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 1 {
                self.remained.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 2 {
                self.over_before.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 3 {
                self.last_before.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 4 {
                self.lowest.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 5 {
                self.slack_low.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 6 {
                self.slack_high.d.next = self.kept.read_data.val().get_bits::<16>(0);
            }
            if self.came_at.q.val() == 7 {
                self.least.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 8 {
                self.most.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 9 {
                self.hold.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 10 {
                self.threshold.d.next = self.kept.read_data.val().get_bits::<16>(0);
            }
            if self.came_at.q.val() == 11 {
                self.completed.d.next = self.kept.read_data.val().get_bits::<31>(0);
            }
            if self.came_at.q.val() == 12 {
                self.count.d.next = self.kept.read_data.val();
            }
            if self.came_at.q.val() == 13 {
                self.longest.d.next = self.kept.read_data.val().get_bits::<31>(0);
            }
        }
        self.most_now.next = self.most.q.val();
        if self.came.q.val() & self.setting.val() {
            if self.came_at.q.val() == 0 {
                self.start_limit.d.next = self.capped.val();
            }
            if self.came_at.q.val() == 1 {
                self.least.d.next = self.data.val();
            }
            if self.came_at.q.val() == 2 {
                self.most.d.next = self.capped.val();
                self.turned_on.d.next = self.data.val().any();
            }
            if self.came_at.q.val() == 3 {
                self.hold.d.next = self.data.val();
                if self.least.q.val() > self.most_now.val() {
                    self.least.d.next = self.most_now.val();
                }
            }
            if self.came_at.q.val() == 4 {
                self.threshold.d.next = self.steps.val();
            }
        }

        // Arithmetic.
        self.step_now.next = self.now_then.q.val().get_bits::<31>(17);
        self.slack_word.i0.next = self.slack_low.q.val();
        self.slack_word.i1.next = self.slack_high.q.val();
        self.limit.starting.next = self.starting.q.val();
        self.limit.start_limit.next = self.start_limit.q.val();
        self.limit.in_force.next = self.forces.q.val();
        self.limit.now.next = self.now_then.q.val();
        self.limit.bytes.next = self.bytes.q.val();
        self.limit.debt.next = self.debt_then.q.val();
        self.limit.last.next = self.last_then.q.val();
        self.limit.limit.next = self.old_limit.q.val();
        self.limit.remained.next = self.remained.q.val();
        self.limit.over_before.next = self.over_before.q.val();
        self.limit.last_before.next = self.last_before.q.val();
        self.limit.lowest.next = self.lowest.q.val();
        self.limit.slack_start.next = self.slack_word.out.val();
        self.limit.least.next = self.least.q.val();
        self.limit.most.next = self.most.q.val();
        self.limit.hold.next = self.hold.q.val();
        self.stall.starting.next = self.starting.q.val();
        self.stall.step.next = self.step_now.val();
        self.stall.threshold.next = self.threshold.q.val();
        self.stall.completed.next = self.completed.q.val();
        self.stall.waits.next = self.waits_then.q.val();
        self.stall.first.next = self.first_then.q.val();
        self.stall.count.next = self.count.q.val();
        self.stall.longest.next = self.longest.q.val();
        self.delta.next = self.limit.delta.val();
        self.start.next = self.starting.q.val();
        self.on.next = self.turned_on.q.val();

        // What is kept.
        self.slack_start.next = self.limit.new_slack_start.val();
        self.wide_slack.data.next = self.slack_start.val().get_bits::<16>(32);
        self.wide_threshold.data.next = self.threshold.q.val();
        self.wide_completed.data.next = self.step_now.val();
        self.wide_longest.data.next = self.stall.new_longest.val();
        self.words.i[0].next = self.limit.new_limit.val();
        self.words.i[1].next = self.limit.new_before.val();
        self.words.i[2].next = self.limit.new_over.val();
        self.words.i[3].next = self.limit.new_last.val();
        self.words.i[4].next = self.limit.new_lowest.val();
        self.words.i[5].next = self.slack_start.val().get_bits::<32>(0);
        self.words.i[6].next = self.wide_slack.out.val();
        self.words.i[7].next = self.least.q.val();
        self.words.i[8].next = self.most.q.val();
        self.words.i[9].next = self.hold.q.val();
        self.words.i[10].next = self.wide_threshold.out.val();
        self.words.i[11].next = self.wide_completed.out.val();
        self.words.i[12].next = self.stall.new_count.val();
        self.words.i[13].next = self.wide_longest.out.val();
        self.word.data.next = self.words.out.val();
        self.word.index.next = self.at.q.val().get_bits::<4>(0);
        self.kept.write_data.next = self.word.out.val();

        // What is written back.
        self.word0.limit.next = self.limit.new_limit.val();
        self.word0.inflight.next = self.limit.in_flight.val();
        self.longest_now.next = self.stall.new_longest.val();
        self.long_ticks.i0.next = 0.into();
        self.long_ticks.i1.next = self.longest_now.val().get_bits::<15>(0);
        self.word1.count.next = self.stall.new_count.val();
        self.word1.longest.next = self.long_ticks.out.val();
        if self.longest_now.val().get_bits::<16>(15).any() {
            self.word1.longest.next = self.saturated.val();
        }
        self.base_word.i0.next = 0.into();
        self.base_word.i1.next = self.base_low.q.val();
        self.base_word.i2.next = self.base_high.q.val();
        self.somewhere.next = self.base_low.q.val().any() | self.base_high.q.val().any();
        self.wr_valid.next = false;
        self.wr_addr.next = self.base_word.out.val();
        self.wr_data.next = self.word0.out.val();
        self.wr_last.next = false;

        // Credit of a queue whose budget restarts stays for its next flush.
        self.folds.next = !self.starting.q.val() | !self.in_force.val();
        self.nothing.next = !self.starting.q.val() & !self.departed.val().any();
        self.take.next = false;
        self.completes.next = false;
        self.settle.next = false;
        self.stalled.next = false;
        self.clear.next = false;

        match self.state.q.val() {
            EngineState::Clear => {
                self.clear.next = true;
                self.kept.write_enable.next = true;
                self.kept.write_data.next = 0.into();
                self.here.d.next = self.here.q.val() + 1;
                if self.here.q.val().all() {
                    self.state.d.next = EngineState::Idle;
                }
            }
            EngineState::Idle => {
                self.starting.d.next = self.some_start.val();
                if self.asked.val().any() {
                    self.state.d.next = EngineState::Choose;
                }
            }
            EngineState::Choose => {
                self.at.d.next = 0.into();
                self.here.d.next = self.requests.index.val();
                self.state.d.next = EngineState::Load;
                if self.starting.q.val() {
                    self.starts.clear.next = true;
                } else {
                    self.todo.d.next = self.todo.q.val() & !self.requests.one_hot.val();
                    if self.due.val() {
                        self.todo.d.next = (self.todo.q.val()
                            | (self.dirty.val() & self.forced.val()))
                            & !self.requests.one_hot.val();
                    }
                }
            }
            EngineState::Load => {
                self.kept.read_enable.next = true;
                self.came.d.next = true;
                self.at.d.next = self.at.q.val() + 1;
                if self.came.q.val() & (self.came_at.q.val() == self.last_word.val()) {
                    self.came.d.next = false;
                    self.at.d.next = 0.into();
                    if self.starting.q.val() {
                        self.state.d.next = EngineState::Setup;
                    } else {
                        self.state.d.next = EngineState::Take;
                    }
                }
            }
            EngineState::Setup => {
                if self.came.q.val() & (self.came_at.q.val() == 4) {
                    self.at.d.next = 0.into();
                    self.state.d.next = EngineState::Take;
                } else if self.reads.val() & (self.at.q.val() < 5) {
                    self.registers.read_enable.next = true;
                    self.came.d.next = true;
                    self.at.d.next = self.at.q.val() + 1;
                }
            }
            EngineState::Take => {
                self.debt_then.d.next = self.debt.val();
                self.last_then.d.next = self.last.val();
                self.waits_then.d.next = self.waits.val();
                self.first_then.d.next = self.first.val();
                self.now_then.d.next = self.now.val();
                self.forces.d.next = self.in_force.val();
                self.bytes.d.next = 0.into();
                if self.folds.val() {
                    self.bytes.d.next = self.departed.val();
                }
                if self.free.val() {
                    self.take.next = self.folds.val();
                    self.completes.next =
                        self.starting.q.val() | (self.in_force.val() & self.departed.val().any());
                    self.state.d.next = EngineState::Work;
                    if self.nothing.val() {
                        self.state.d.next = EngineState::Idle;
                    }
                }
            }
            EngineState::Work => {
                self.at.d.next = self.at.q.val() + 1;
                if self.at.q.val() == self.work.val() {
                    self.state.d.next = EngineState::Settle;
                }
            }
            EngineState::Settle => {
                self.at.d.next = 0.into();
                if self.free.val() {
                    self.settle.next = true;
                    self.stalled.next = self.stall.found.val() & self.forces.q.val();
                    self.state.d.next = EngineState::Idle;
                    if self.starting.q.val() | self.forces.q.val() {
                        self.state.d.next = EngineState::Store;
                    }
                }
            }
            EngineState::Store => {
                self.kept.write_enable.next = true;
                self.at.d.next = self.at.q.val() + 1;
                if self.at.q.val() == self.last_word.val() {
                    self.at.d.next = 0.into();
                    self.state.d.next = EngineState::Address;
                    if self.mute.val() | (self.starting.q.val() & !self.turned_on.q.val()) {
                        self.state.d.next = EngineState::Idle;
                    }
                }
            }
            EngineState::Address => {
                self.register_place.i0.next = self.at.q.val() + self.base_first.val();
                if self.came.q.val() & (self.came_at.q.val() == 0) {
                    self.base_low.d.next = self.data.val().get_bits::<26>(6);
                }
                if self.came.q.val() & (self.came_at.q.val() == 1) {
                    self.base_high.d.next = self.data.val();
                }
                if self.reads.val() & (self.at.q.val() < 2) {
                    self.registers.read_enable.next = true;
                    self.came.d.next = true;
                    self.at.d.next = self.at.q.val() + 1;
                } else if (self.at.q.val() == 2) & !self.came.q.val() {
                    self.state.d.next = EngineState::Idle;
                    if self.somewhere.val() {
                        self.state.d.next = EngineState::Word0;
                    }
                }
            }
            EngineState::Word0 => {
                self.wr_valid.next = true;
                if self.wr_ready.val() {
                    self.state.d.next = EngineState::Word1;
                }
            }
            EngineState::Word1 => {
                self.wr_valid.next = true;
                self.base_word.i0.next = 8.into();
                self.wr_addr.next = self.base_word.out.val();
                self.wr_data.next = self.word1.out.val();
                self.wr_last.next = true;
                if self.wr_ready.val() {
                    self.state.d.next = EngineState::Idle;
                }
            }
        }
    }
}
