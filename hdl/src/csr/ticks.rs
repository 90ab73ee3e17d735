// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device's clock.

use crate::prelude::*;

/// Counts every cycle from 0, or takes a value instead.
#[derive(LogicBlock, Default)]
pub struct TickCounter {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Takes `load_value` at the next edge.
    pub load: Signal<In, bool>,
    /// See `load`.
    pub load_value: Signal<In, Bits<64>>,
    /// Now.
    pub ticks: Signal<Out, Bits<64>>,
    count: DFF<Bits<64>>,
}

impl Logic for TickCounter {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, count);
        self.count.d.next = self.count.q.val() + 1;
        if self.load.val() {
            self.count.d.next = self.load_value.val();
        }
        self.ticks.next = self.count.q.val();
    }
}
