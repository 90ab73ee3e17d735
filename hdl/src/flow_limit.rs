// SPDX-License-Identifier: MIT OR Apache-2.0
//! The byte limit of flows: marks when a flow's payload in the device passes it, and
//! when it is within it again. The rules are those of `tsonic_regs::completion`.
//!
//! One engine, six cycles a burst that joins and six for one that leaves, over a
//! memory of two rows a flow: its bytes and whether it is throttled, and its limit.
//! Bursts of slot 0 pass at once. While a reset lasts all is passed at once, and the
//! memory is cleared: that takes 2^A cycles, and a reset longer.

use crate::prelude::*;
use tsonic_regs::limits::FLOW_LIMIT_UNIT;

/// Bits of the bytes of a flow: all contexts with bursts of the largest size.
const BYTES: usize = 26;

const _: () = assert!(FLOW_LIMIT_UNIT == 1 << 10);
const _: () = assert!(crate::fetch::CONTEXTS * tsonic_regs::limits::PAYLOAD_MAX < 1 << BYTES);

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum LimitState {
    Idle,
    Wait,
    Row,
    Sum,
    Judge,
    Limit,
    Tell,
    Answer,
}

/// Limits of 2^SB flows; A = SB + 1.
#[derive(LogicBlock)]
pub struct FlowLimit<const SB: usize, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A reset is under way.
    pub resetting: Signal<In, bool>,

    /// A burst joins.
    pub join_valid: Signal<In, bool>,
    /// Taken; whether or not valid.
    pub join_ready: Signal<Out, bool>,
    /// Context.
    pub join_ctx: Signal<In, Bits<8>>,
    /// Row of the flow table.
    pub join_slot: Signal<In, Bits<16>>,
    /// Payload bytes.
    pub join_bytes: Signal<In, Bits<18>>,
    /// Limit in units; 0: none.
    pub join_limit: Signal<In, Bits<14>>,
    /// A burst passed its flow's limit.
    pub mark_valid: Signal<Out, bool>,
    /// Taken.
    pub mark_ready: Signal<In, bool>,
    /// Its context.
    pub mark_ctx: Signal<Out, Bits<8>>,

    /// A burst leaves.
    pub leave_valid: Signal<In, bool>,
    /// It has left.
    pub leave_ready: Signal<Out, bool>,
    /// Row of the flow table.
    pub leave_slot: Signal<In, Bits<16>>,
    /// Payload bytes.
    pub leave_bytes: Signal<In, Bits<18>>,
    /// With `leave_ready`: the flow is within its limit again.
    pub leave_wakes: Signal<Out, bool>,

    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    rows: Ram<Bits<27>, A>,
    row_in: Pack2<26, 1, 27>,
    row_out: Unpack2<26, 1, 27>,
    row_at: Pack2<1, SB, A>,
    state: DFF<LimitState>,
    leaving: DFF<Bit>,
    slot: DFF<Bits<SB>>,
    amount: DFF<Bits<18>>,
    limit: DFF<Bits<14>>,
    ctx: DFF<Bits<8>>,
    old: DFF<Bits<26>>,
    throttled: DFF<Bit>,
    total: DFF<Bits<26>>,
    marked: DFF<Bit>,
    sweep: DFF<Bits<A>>,

    join_index: Zext<16, SB>,
    leave_index: Zext<16, SB>,
    wide: Zext<18, 26>,
    threshold: Pack2<10, 14, 24>,
    wide_threshold: Zext<24, 26>,
    wide_limit: Zext<14, 27>,
    short_limit: Signal<Local, Bits<14>>,
    stored: Signal<Local, Bits<27>>,
    above: Signal<Local, Bit>,
    unlimited: Signal<Local, Bit>,
    crosses: Signal<Local, Bit>,
    wakes: Signal<Local, Bit>,
    throttles: Signal<Local, Bit>,
    leave_now: Signal<Local, Bit>,
    second: Signal<Local, Bits<1>>,
}

impl<const SB: usize, const A: usize> Default for FlowLimit<SB, A> {
    /// # Panics
    /// When A is not SB + 1.
    fn default() -> Self {
        assert!(A == SB + 1, "two rows a flow");
        Self {
            clock: Default::default(),
            resetting: Default::default(),
            join_valid: Default::default(),
            join_ready: Default::default(),
            join_ctx: Default::default(),
            join_slot: Default::default(),
            join_bytes: Default::default(),
            join_limit: Default::default(),
            mark_valid: Default::default(),
            mark_ready: Default::default(),
            mark_ctx: Default::default(),
            leave_valid: Default::default(),
            leave_ready: Default::default(),
            leave_slot: Default::default(),
            leave_bytes: Default::default(),
            leave_wakes: Default::default(),
            idle: Default::default(),
            rows: Default::default(),
            row_in: Default::default(),
            row_out: Default::default(),
            row_at: Default::default(),
            state: Default::default(),
            leaving: Default::default(),
            slot: Default::default(),
            amount: Default::default(),
            limit: Default::default(),
            ctx: Default::default(),
            old: Default::default(),
            throttled: Default::default(),
            total: Default::default(),
            marked: Default::default(),
            sweep: Default::default(),
            join_index: Default::default(),
            leave_index: Default::default(),
            wide: Default::default(),
            threshold: Default::default(),
            wide_threshold: Default::default(),
            wide_limit: Default::default(),
            short_limit: Default::default(),
            stored: Default::default(),
            above: Default::default(),
            unlimited: Default::default(),
            crosses: Default::default(),
            wakes: Default::default(),
            throttles: Default::default(),
            leave_now: Default::default(),
            second: Default::default(),
        }
    }
}

impl<const SB: usize, const A: usize> Logic for FlowLimit<SB, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, leaving, slot, amount, limit, ctx, old, throttled, total, marked,
            sweep
        );
        clock!(self, clock, rows);
        self.join_index.data.next = self.join_slot.val();
        self.leave_index.data.next = self.leave_slot.val();

        // Bursts of slot 0, and all in a reset, pass at once; else who leaves goes first.
        self.leave_now.next = self.resetting.val() | !self.leave_slot.val().any();
        self.leave_ready.next = self.leave_now.val() | (self.state.q.val() == LimitState::Answer);
        self.leave_wakes.next = !self.leave_now.val() & self.marked.q.val();
        self.join_ready.next = self.resetting.val()
            | !self.join_slot.val().any()
            | ((self.state.q.val() == LimitState::Idle)
                & !(self.leave_valid.val() & !self.leave_now.val()));
        self.mark_valid.next = self.state.q.val() == LimitState::Tell;
        self.mark_ctx.next = self.ctx.q.val();

        // The memory: a flow's first row, or its second one.
        self.second.next = 0.into();
        self.rows.read_enable.next = false;
        self.rows.write_enable.next = false;
        self.row_in.i0.next = self.total.q.val();
        self.rows.write_data.next = self.row_in.out.val();
        self.stored.next = self.rows.read_data.val();
        self.row_out.data.next = self.rows.read_data.val();
        self.short_limit.next = self.stored.val().get_bits::<14>(0);

        // The rule.
        self.wide.data.next = self.amount.q.val();
        self.wide_limit.data.next = self.limit.q.val();
        self.threshold.i0.next = 0.into();
        self.threshold.i1.next = self.limit.q.val();
        self.wide_threshold.data.next = self.threshold.out.val();
        self.above.next = self.total.q.val() > self.wide_threshold.out.val();
        self.unlimited.next = !self.limit.q.val().any();
        self.crosses.next = !self.leaving.q.val()
            & !self.throttled.q.val()
            & !self.unlimited.val()
            & self.above.val();
        self.wakes.next = self.leaving.q.val()
            & self.throttled.q.val()
            & (self.unlimited.val() | !self.above.val());
        self.throttles.next = (self.throttled.q.val() | self.crosses.val()) & !self.wakes.val();
        self.row_in.i1.next = self.throttles.val().into();

        match self.state.q.val() {
            LimitState::Idle => {
                self.leaving.d.next = false;
                self.limit.d.next = self.join_limit.val();
                self.ctx.d.next = self.join_ctx.val();
                self.slot.d.next = self.join_index.out.val();
                self.amount.d.next = self.join_bytes.val();
                if self.leave_valid.val() & !self.leave_now.val() {
                    self.leaving.d.next = true;
                    self.slot.d.next = self.leave_index.out.val();
                    self.amount.d.next = self.leave_bytes.val();
                    self.state.d.next = LimitState::Wait;
                } else if self.join_valid.val() & self.join_slot.val().any() {
                    self.state.d.next = LimitState::Wait;
                }
            }
            LimitState::Wait => {
                self.rows.read_enable.next = true;
                self.state.d.next = LimitState::Row;
            }
            LimitState::Row => {
                self.old.d.next = self.row_out.o0.val();
                self.throttled.d.next = self.row_out.o1.val().any();
                self.second.next = 1.into();
                self.rows.read_enable.next = self.leaving.q.val();
                self.state.d.next = LimitState::Sum;
            }
            LimitState::Sum => {
                self.total.d.next = self.old.q.val() + self.wide.out.val();
                if self.leaving.q.val() {
                    self.total.d.next = self.old.q.val() - self.wide.out.val();
                    self.limit.d.next = self.short_limit.val();
                }
                self.state.d.next = LimitState::Judge;
            }
            LimitState::Judge => {
                self.rows.write_enable.next = true;
                self.marked.d.next = self.crosses.val() | self.wakes.val();
                self.state.d.next = LimitState::Limit;
                if self.leaving.q.val() {
                    self.state.d.next = LimitState::Answer;
                }
            }
            LimitState::Limit => {
                self.second.next = 1.into();
                self.rows.write_enable.next = true;
                self.rows.write_data.next = self.wide_limit.out.val();
                self.state.d.next = LimitState::Idle;
                if self.marked.q.val() {
                    self.state.d.next = LimitState::Tell;
                }
            }
            LimitState::Tell => {
                if self.mark_ready.val() {
                    self.state.d.next = LimitState::Idle;
                }
            }
            LimitState::Answer => {
                self.state.d.next = LimitState::Idle;
            }
        }
        self.row_at.i0.next = self.second.val();
        self.row_at.i1.next = self.slot.q.val();
        self.rows.read_address.next = self.row_at.out.val();
        self.rows.write_address.next = self.row_at.out.val();
        self.idle.next = self.state.q.val() == LimitState::Idle;

        if self.resetting.val() {
            self.state.d.next = LimitState::Idle;
            self.sweep.d.next = self.sweep.q.val() + 1;
            self.rows.read_enable.next = false;
            self.rows.write_enable.next = true;
            self.rows.write_address.next = self.sweep.q.val();
            self.rows.write_data.next = 0.into();
        }
    }
}
