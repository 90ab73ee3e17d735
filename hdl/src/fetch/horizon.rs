// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is a launch time too far away?

use crate::prelude::*;

/// Whether a launch time lies more than `horizon` ticks ahead: two cycles after its
/// inputs, for which `launch` must have stood.
#[derive(LogicBlock, Default)]
pub struct Horizon {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// HORIZON in ticks.
    pub horizon: Signal<In, Bits<32>>,
    /// Launch time.
    pub launch: Signal<In, Bits<64>>,
    /// It counts: there is one, and the burst is paced.
    pub counts: Signal<In, bool>,
    /// `beyond` follows the clock; low: it stays.
    pub look: Signal<In, bool>,
    /// The launch time is too far away.
    pub beyond: Signal<Out, bool>,
    limit: DFF<Bits<65>>,
    is_beyond: DFF<bool>,
    wide_ticks: Zext<64, 65>,
    wide_horizon: Zext<32, 65>,
    wide_launch: Zext<64, 65>,
}

impl Logic for Horizon {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, limit, is_beyond);
        self.wide_ticks.data.next = self.ticks.val();
        self.wide_horizon.data.next = self.horizon.val();
        self.wide_launch.data.next = self.launch.val();
        self.limit.d.next = self.wide_ticks.out.val() + self.wide_horizon.out.val();
        if self.look.val() {
            self.is_beyond.d.next =
                self.counts.val() & (self.wide_launch.out.val() > self.limit.q.val());
        }
        self.beyond.next = self.is_beyond.q.val();
    }
}
