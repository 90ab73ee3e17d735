// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dynamic queue limit's arithmetic when bytes complete.
//!
//! A line of registers without control: the results are right [`STEPS`] cycles after
//! the operands, which stand until then. One sum or comparison a cycle.
//!
//! Counters of queued and completed bytes appear in the rules only in differences,
//! so three are kept instead: the debt (in flight less limit less 1), what was still
//! in flight after the last completion, and what completes now.
//!
//! Source: Linux, `lib/dynamic_queue_limits.c`.

use crate::prelude::*;

/// Cycles from operands to results.
pub const STEPS: u64 = 14;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Limit {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A budget starts: with `start_limit`, and without a past.
    pub starting: Signal<In, bool>,
    /// See `starting`.
    pub start_limit: Signal<In, Bits<32>>,
    /// A budget is in force; else only the debt changes.
    pub in_force: Signal<In, bool>,
    /// Now.
    pub now: Signal<In, Bits<48>>,
    /// Bytes that complete.
    pub bytes: Signal<In, Bits<32>>,
    /// Bytes in flight less the limit less 1.
    pub debt: Signal<In, Bits<32>>,
    /// Bytes of the last object.
    pub last: Signal<In, Bits<17>>,
    /// The limit.
    pub limit: Signal<In, Bits<32>>,
    /// In flight after the last completion.
    pub remained: Signal<In, Bits<32>>,
    /// Bytes over the limit at the last completion.
    pub over_before: Signal<In, Bits<32>>,
    /// Bytes of the last object at the last completion.
    pub last_before: Signal<In, Bits<32>>,
    /// Least slack since `slack_start`.
    pub lowest: Signal<In, Bits<32>>,
    /// Tick.
    pub slack_start: Signal<In, Bits<48>>,
    /// Least limit.
    pub least: Signal<In, Bits<32>>,
    /// Largest limit.
    pub most: Signal<In, Bits<32>>,
    /// Ticks that slack must last.
    pub hold: Signal<In, Bits<32>>,

    /// The new limit.
    pub new_limit: Signal<Out, Bits<32>>,
    /// To be added to the debt.
    pub delta: Signal<Out, Bits<32>>,
    /// Bytes in flight, after.
    pub in_flight: Signal<Out, Bits<32>>,
    /// The next `remained`.
    pub new_before: Signal<Out, Bits<32>>,
    /// The next `over_before`.
    pub new_over: Signal<Out, Bits<32>>,
    /// The next `last_before`.
    pub new_last: Signal<Out, Bits<32>>,
    /// The next `lowest`.
    pub new_lowest: Signal<Out, Bits<32>>,
    /// The next `slack_start`.
    pub new_slack_start: Signal<Out, Bits<48>>,

    level: DFF<Bits<32>>,
    excess: DFF<Bits<32>>,
    ahead: DFF<Bits<32>>,
    flying: DFF<Bits<32>>,
    over: DFF<Bits<32>>,
    rest: DFF<Bits<32>>,
    grown: DFF<Bits<34>>,
    room: DFF<Bits<32>>,
    raised: DFF<Bits<34>>,
    spare: DFF<Bits<32>>,
    beyond: DFF<Bits<32>>,
    starved: DFF<bool>,
    busy: DFF<bool>,
    unneeded: DFF<Bits<32>>,
    object_slack: DFF<Bits<32>>,
    slack: DFF<Bits<32>>,
    elapsed: DFF<Bits<48>>,
    low: DFF<Bits<32>>,
    expired: DFF<bool>,
    lessened: DFF<Bits<32>>,
    candidate: DFF<Bits<34>>,
    floored: DFF<Bits<34>>,
    chosen: DFF<Bits<32>>,
    fall: DFF<Bits<32>>,
    change: DFF<Bits<32>>,
    restarts: DFF<bool>,

    wide_limit: Zext<32, 34>,
    wide_ahead: Zext<32, 34>,
    wide_over: Zext<32, 34>,
    wide_lessened: Zext<32, 34>,
    wide_least: Zext<32, 34>,
    wide_most: Zext<32, 34>,
    wide_hold: Zext<32, 48>,
    wide_last: Zext<17, 32>,
    ones: Fixed<32, 0xFFFF_FFFF>,
}

impl Logic for Limit {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            level,
            excess,
            ahead,
            flying,
            over,
            rest,
            grown,
            room,
            raised,
            spare,
            beyond,
            starved,
            busy,
            unneeded,
            object_slack,
            slack,
            elapsed,
            low,
            expired,
            lessened,
            candidate,
            floored,
            chosen,
            fall,
            change,
            restarts
        );
        self.wide_limit.data.next = self.limit.val();
        self.wide_over.data.next = self.over_before.val();
        self.wide_least.data.next = self.least.val();
        self.wide_most.data.next = self.most.val();
        self.wide_hold.data.next = self.hold.val();
        self.wide_last.data.next = self.last.val();

        // 1: how far this completion reaches beyond what was in flight at the last.
        self.level.d.next = self.debt.val() + self.limit.val();
        self.excess.d.next = self.debt.val() + 1;
        self.ahead.d.next = self.bytes.val() - self.remained.val();
        self.room.d.next = self.limit.val() + self.over_before.val();
        self.beyond.d.next = self.last_before.val() - self.over_before.val();
        self.elapsed.d.next = self.now.val() - self.slack_start.val();
        // 2
        self.flying.d.next = self.level.q.val() + 1;
        self.over.d.next = 0.into();
        if !self.debt.val().get_bit(31) {
            self.over.d.next = self.excess.q.val();
        }
        self.wide_ahead.data.next = 0.into();
        if !self.ahead.q.val().get_bit(31) {
            self.wide_ahead.data.next = self.ahead.q.val();
        }
        self.grown.d.next = self.wide_limit.out.val() + self.wide_ahead.out.val();
        self.spare.d.next = self.room.q.val() - (self.bytes.val() << 1);
        self.expired.d.next = self.elapsed.q.val() > self.wide_hold.out.val();
        // 3
        self.rest.d.next = self.flying.q.val() - self.bytes.val();
        self.raised.d.next = self.grown.q.val() + self.wide_over.out.val();
        self.unneeded.d.next = 0.into();
        if !self.spare.q.val().get_bit(31) {
            self.unneeded.d.next = self.spare.q.val();
        }
        self.object_slack.d.next = 0.into();
        if self.over_before.val().any() & !self.beyond.q.val().get_bit(31) {
            self.object_slack.d.next = self.beyond.q.val();
        }
        // 4: ran dry while bytes were held back, or was busy all the while.
        self.starved.d.next = (self.over.q.val().any() & !self.rest.q.val().any())
            | (self.over_before.val().any() & !self.ahead.q.val().get_bit(31));
        self.busy.d.next =
            self.rest.q.val().any() & self.remained.val().any() & self.ahead.q.val().get_bit(31);
        self.slack.d.next = self.object_slack.q.val();
        if self.unneeded.q.val() > self.object_slack.q.val() {
            self.slack.d.next = self.unneeded.q.val();
        }
        // 5
        self.low.d.next = self.lowest.val();
        if self.slack.q.val() < self.lowest.val() {
            self.low.d.next = self.slack.q.val();
        }
        // 6
        self.lessened.d.next = self.limit.val() - self.low.q.val();
        self.restarts.d.next = self.starved.q.val() | (self.busy.q.val() & self.expired.q.val());
        // 7
        self.wide_lessened.data.next = 0.into();
        if !self.lessened.q.val().get_bit(31) {
            self.wide_lessened.data.next = self.lessened.q.val();
        }
        self.candidate.d.next = self.wide_limit.out.val();
        if self.starved.q.val() {
            self.candidate.d.next = self.raised.q.val();
        } else if self.restarts.q.val() {
            self.candidate.d.next = self.wide_lessened.out.val();
        }
        // 8, 9: most wins over least.
        self.floored.d.next = self.candidate.q.val();
        if self.candidate.q.val() < self.wide_least.out.val() {
            self.floored.d.next = self.wide_least.out.val();
        }
        self.chosen.d.next = self.floored.q.val().get_bits::<32>(0);
        if self.floored.q.val() > self.wide_most.out.val() {
            self.chosen.d.next = self.most.val();
        }
        if !self.in_force.val() {
            self.chosen.d.next = self.limit.val();
        }
        if self.starting.val() {
            self.chosen.d.next = self.start_limit.val();
        }
        // 10, 11
        self.fall.d.next = self.limit.val() - self.chosen.q.val();
        self.change.d.next = self.fall.q.val() - self.bytes.val();

        self.new_limit.next = self.chosen.q.val();
        self.delta.next = self.change.q.val();
        self.in_flight.next = self.rest.q.val();
        self.new_before.next = self.rest.q.val();
        self.new_over.next = self.over.q.val();
        self.new_last.next = self.wide_last.out.val();
        self.new_lowest.next = self.lowest.val();
        self.new_slack_start.next = self.slack_start.val();
        if self.busy.q.val() {
            self.new_lowest.next = self.low.q.val();
        }
        if self.restarts.q.val() | self.starting.val() {
            self.new_lowest.next = self.ones.val();
            self.new_slack_start.next = self.now.val();
        }
        // A limit that changed forgives what was over it.
        if self.fall.q.val().any() {
            self.new_over.next = 0.into();
        }
        if self.starting.val() {
            self.new_before.next = 0.into();
            self.new_over.next = 0.into();
            self.new_last.next = 0.into();
        }
    }
}
