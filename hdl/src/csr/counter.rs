// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a counter counted since its total was last brought up to date.

use crate::prelude::*;

/// Adds N bits at a time into M bits; the user takes the sum before it overflows.
#[derive(LogicBlock, Default)]
pub struct Recent<const N: usize, const M: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Back to 0, whatever is added.
    pub clear: Signal<In, bool>,
    /// Adds `amount` at the next edge.
    pub add: Signal<In, bool>,
    /// How much.
    pub amount: Signal<In, Bits<N>>,
    /// `sum` is taken: the next one begins with what is added in this cycle.
    pub take: Signal<In, bool>,
    /// What was added since then, extended to the width of the widest counter.
    pub sum: Signal<Out, Bits<21>>,
    total: DFF<Bits<M>>,
    base: Signal<Local, Bits<M>>,
    wide: Zext<N, M>,
    out: Zext<M, 21>,
}

impl<const N: usize, const M: usize> Logic for Recent<N, M> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, total);
        self.wide.data.next = self.amount.val();
        self.base.next = self.total.q.val();
        if self.take.val() {
            self.base.next = 0.into();
        }
        self.total.d.next = self.base.val();
        if self.add.val() {
            self.total.d.next = self.base.val() + self.wide.out.val();
        }
        if self.clear.val() {
            self.total.d.next = 0.into();
        }
        self.out.data.next = self.total.q.val();
        self.sum.next = self.out.out.val();
    }
}
