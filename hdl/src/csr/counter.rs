// SPDX-License-Identifier: MIT OR Apache-2.0
//! A counter of 64 bits.

use crate::prelude::*;

/// Adds N bits at a time; the sum follows two cycles later.
#[derive(LogicBlock, Default)]
pub struct Counter<const N: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Back to 0, whatever is added.
    pub clear: Signal<In, bool>,
    /// Adds `amount` at the next edge but one.
    pub add: Signal<In, bool>,
    /// How much.
    pub amount: Signal<In, Bits<N>>,
    /// The sum modulo 2^64.
    pub count: Signal<Out, Bits<64>>,
    pending: DFF<Bits<64>>,
    total: DFF<Bits<64>>,
    wide: Zext<N, 64>,
}

impl<const N: usize> Logic for Counter<N> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, pending, total);
        self.wide.data.next = self.amount.val();
        self.pending.d.next = 0.into();
        if self.add.val() {
            self.pending.d.next = self.wide.out.val();
        }
        self.total.d.next = self.total.q.val() + self.pending.q.val();
        if self.clear.val() {
            self.pending.d.next = 0.into();
            self.total.d.next = 0.into();
        }
        self.count.next = self.total.q.val();
    }
}
