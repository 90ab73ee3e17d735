// SPDX-License-Identifier: MIT OR Apache-2.0
//! When credits are flushed: at multiples of the period.
//!
//! The next multiple is kept and moved on by a period when it is reached. After the
//! clock was set, or the period, it is found by a division of 48 cycles, as soon as
//! something waits for it. While something does, the clock is not put forward beyond
//! it (`upcoming`), so it stays right then.

use crate::prelude::*;

/// The timer of the flush.
#[derive(LogicBlock, Default)]
pub struct Period {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now.
    pub now: Signal<In, Bits<48>>,
    /// The clock is set at the next edge.
    pub moved: Signal<In, bool>,
    /// Period in ticks, at least 1.
    pub period: Signal<In, Bits<32>>,
    /// Something waits for the flush.
    pub wanted: Signal<In, bool>,
    /// A multiple of the period is reached, and something waits for it.
    pub due: Signal<Out, bool>,
    /// `upcoming` is right, and something waits for it.
    pub upcoming_valid: Signal<Out, bool>,
    /// The next multiple, modulo 2^34.
    pub upcoming: Signal<Out, Bits<34>>,
    /// Something waits, and the next multiple is being found.
    pub busy: Signal<Out, bool>,

    known: DFF<bool>,
    dividing: DFF<bool>,
    count: DFF<Bits<6>>,
    base: DFF<Bits<48>>,
    digits: DFF<Bits<48>>,
    rest: DFF<Bits<32>>,
    adding: DFF<bool>,
    multiple: DFF<Bits<48>>,
    period_then: DFF<Bits<32>>,
    lag: DFF<Bits<48>>,
    fresh: DFF<bool>,
    changed: Signal<Local, bool>,
    digit: Signal<Local, Bits<33>>,
    doubled: Signal<Local, Bits<33>>,
    reduced: Signal<Local, Bits<33>>,
    wide_rest: Zext<32, 33>,
    wide_period: Zext<32, 33>,
    long_rest: Zext<32, 48>,
    long_period: Zext<32, 48>,
    reached: Signal<Local, bool>,
}

impl Logic for Period {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            known,
            dividing,
            count,
            base,
            digits,
            rest,
            adding,
            multiple,
            period_then,
            lag,
            fresh
        );
        self.period_then.d.next = self.period.val();
        self.changed.next = self.period.val() != self.period_then.q.val();
        self.long_rest.data.next = self.rest.q.val();
        self.long_period.data.next = self.period_then.q.val();

        // now modulo period, a binary digit a cycle.
        self.wide_rest.data.next = self.rest.q.val();
        self.wide_period.data.next = self.period_then.q.val();
        self.digit.next = 0.into();
        if self.digits.q.val().get_bit(47) {
            self.digit.next = 1.into();
        }
        self.doubled.next = (self.wide_rest.out.val() << 1) | self.digit.val();
        self.reduced.next = self.doubled.val() - self.wide_period.out.val();
        if self.dividing.q.val() {
            self.digits.d.next = self.digits.q.val() << 1;
            self.rest.d.next = self.reduced.val().get_bits::<32>(0);
            if self.doubled.val() < self.wide_period.out.val() {
                self.rest.d.next = self.doubled.val().get_bits::<32>(0);
            }
            self.count.d.next = self.count.q.val() + 1;
            if self.count.q.val() == 47 {
                self.dividing.d.next = false;
                self.adding.d.next = true;
            }
        } else if self.adding.q.val() {
            // To the multiple that is past, then to the one that comes.
            self.multiple.d.next = self.base.q.val() - self.long_rest.out.val();
            self.adding.d.next = false;
            self.known.d.next = true;
            self.fresh.d.next = false;
        } else if !self.known.q.val() & self.wanted.val() {
            self.dividing.d.next = true;
            self.count.d.next = 0.into();
            self.base.d.next = self.now.val();
            self.digits.d.next = self.now.val();
            self.rest.d.next = 0.into();
        }

        // `multiple` is the one that was reached last: the next is a period later.
        self.lag.d.next = self.now.val() - self.multiple.q.val();
        self.reached.next = self.known.q.val()
            & self.fresh.q.val()
            & !self.lag.q.val().get_bit(47)
            & (self.lag.q.val() >= self.long_period.out.val());
        self.due.next = self.reached.val() & self.wanted.val();
        if self.known.q.val() {
            self.fresh.d.next = true;
        }
        if self.reached.val() {
            self.multiple.d.next = self.multiple.q.val() + self.long_period.out.val();
            self.fresh.d.next = false;
        }
        self.upcoming.next =
            self.multiple.q.val().get_bits::<34>(0) + self.long_period.out.val().get_bits::<34>(0);
        self.upcoming_valid.next = self.known.q.val() & self.wanted.val();
        self.busy.next = self.wanted.val() & !self.known.q.val();

        // A clock that was set back starts over, too.
        if self.fresh.q.val() & self.lag.q.val().get_bit(47) {
            self.known.d.next = false;
        }
        // The clock is set while nothing waits: start over. Else it goes to `upcoming` at most.
        if (self.moved.val() & (!self.known.q.val() | !self.wanted.val())) | self.changed.val() {
            self.known.d.next = false;
            self.dividing.d.next = false;
            self.adding.d.next = false;
        }
    }
}
