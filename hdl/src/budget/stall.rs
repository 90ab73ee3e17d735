// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stall detector's arithmetic when bytes complete: right [`STEPS`] cycles after
//! the operands. Times are steps of 2^BQL_STALL_SHIFT ticks.

use crate::prelude::*;

/// Cycles from operands to results.
pub const STEPS: u64 = 4;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Stall {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The detector starts: no stall yet.
    pub starting: Signal<In, bool>,
    /// The present step.
    pub step: Signal<In, Bits<31>>,
    /// Threshold; 0 is off.
    pub threshold: Signal<In, Bits<16>>,
    /// Step of the last completion.
    pub completed: Signal<In, Bits<31>>,
    /// Something was charged since, ...
    pub waits: Signal<In, bool>,
    /// ... first in this step.
    pub first: Signal<In, Bits<31>>,
    /// Stalls so far.
    pub count: Signal<In, Bits<32>>,
    /// The longest of them.
    pub longest: Signal<In, Bits<31>>,
    /// A stall ends here.
    pub found: Signal<Out, bool>,
    /// The next `count`.
    pub new_count: Signal<Out, Bits<32>>,
    /// The next `longest`.
    pub new_longest: Signal<Out, Bits<31>>,

    passed: DFF<Bits<31>>,
    length: DFF<Bits<31>>,
    long_enough: DFF<bool>,
    late_enough: DFF<bool>,
    hit: DFF<bool>,
    longer: DFF<bool>,
    more: DFF<Bits<32>>,
    wide_threshold: Zext<16, 31>,
    wide_half: Zext<15, 31>,
}

impl Logic for Stall {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            passed,
            length,
            long_enough,
            late_enough,
            hit,
            longer,
            more
        );
        self.wide_threshold.data.next = self.threshold.val();
        self.wide_half.data.next = self.threshold.val().get_bits::<15>(1);
        self.passed.d.next = self.step.val() - self.completed.val();
        self.length.d.next = self.step.val() - self.first.val();
        self.late_enough.d.next = self.passed.q.val() >= self.wide_threshold.out.val();
        self.long_enough.d.next = self.length.q.val() >= self.wide_half.out.val();
        self.longer.d.next = self.length.q.val() > self.longest.val();
        self.hit.d.next = self.threshold.val().any()
            & self.waits.val()
            & self.late_enough.q.val()
            & self.long_enough.q.val()
            & !self.starting.val();
        self.more.d.next = self.count.val();
        if self.hit.q.val() & !self.count.val().all() {
            self.more.d.next = self.count.val() + 1;
        }
        self.found.next = self.hit.q.val();
        self.new_count.next = self.more.q.val();
        self.new_longest.next = self.longest.val();
        if self.hit.q.val() & self.longer.q.val() {
            self.new_longest.next = self.length.q.val();
        }
        if self.starting.val() {
            self.new_count.next = 0.into();
            self.new_longest.next = 0.into();
        }
    }
}
