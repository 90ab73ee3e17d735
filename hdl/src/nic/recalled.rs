// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reason of bursts that are given up because their queue was turned off.
//!
//! The scheduler knows the reason and payload tells of the end, in the order of
//! grants but later: this block remembers it by context in between.

use crate::complete::Verdict;
use crate::prelude::*;
use tsonic_regs::Status;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Recalled {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A grant is taken by payload.
    pub grant: Signal<In, bool>,
    /// Its context.
    pub grant_ctx: Signal<In, Bits<8>>,
    /// Its burst ends with it, because its queue is off.
    pub grant_revoked: Signal<In, bool>,
    /// What payload says of a segment.
    pub verdict: Signal<In, Verdict>,
    /// The same, with the reason of such a burst's end.
    pub told: Signal<Out, Verdict>,
    revoked: LutRam<Bits<1>, 8>,
    s_reset: Fixed<8, { Status::QueueReset as u64 }>,
}

impl Logic for Recalled {
    #[hdl_gen]
    fn update(&mut self) {
        self.revoked.clock.next = self.clock.val();
        self.revoked.write_enable.next = self.grant.val();
        self.revoked.write_address.next = self.grant_ctx.val();
        self.revoked.write_data.next = self.grant_revoked.val().into();
        self.revoked.read_address.next = self.verdict.val().ctx;
        self.told.next = self.verdict.val();
        if self.verdict.val().dropped
            & self.verdict.val().last
            & !self.verdict.val().status.any()
            & self.revoked.read_data.val().any()
        {
            self.told.next.status = self.s_reset.val();
        }
    }
}
