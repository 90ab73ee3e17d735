// SPDX-License-Identifier: MIT OR Apache-2.0
//! The registers of events, and when they interrupt.

use crate::prelude::*;
use tsonic_regs::registers::{events, global};

/// Events of this logic.
const EVENTS: usize = 3;

// The order in which they are put together.
const _: () = assert!(
    events::DOORBELL.lsb == 0
        && events::BQL_STALL.lsb == 1
        && events::ADDRESS_FAULT.lsb == 2
        && events::FIELDS.len() == EVENTS
);

/// EVENT_STATUS and EVENT_MASK. Every event input is high for one cycle an event.
#[derive(LogicBlock, Default)]
pub struct EventRegisters {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Both back to 0.
    pub clear: Signal<In, bool>,
    /// A register of the global block is written.
    pub write: Signal<In, bool>,
    /// Its offset; also of the register to read.
    pub offset: Signal<In, Bits<15>>,
    /// Value.
    pub value: Signal<In, Bits<32>>,
    /// The register at `offset` is one of these.
    pub found: Signal<Out, bool>,
    /// Its value.
    pub read_value: Signal<Out, Bits<32>>,

    /// A doorbell was refused.
    pub doorbell: Signal<In, bool>,
    /// A queue stalls.
    pub bql_stall: Signal<In, bool>,
    /// A read met an address that is not mapped.
    pub address_fault: Signal<In, bool>,
    /// The vector of events interrupts.
    pub fires: Signal<Out, bool>,

    status: DFF<Bits<3>>,
    mask: DFF<Bits<3>>,
    fired: DFF<Bit>,
    happened: Pack3<1, 1, 1, 3>,
    wide_status: Zext<3, 32>,
    wide_mask: Zext<3, 32>,
    low: Zext<32, 3>,
    at_status: Signal<Local, Bit>,
    at_mask: Signal<Local, Bit>,
    kept: Signal<Local, Bits<3>>,
    after: Signal<Local, Bits<3>>,
    mask_after: Signal<Local, Bits<3>>,
    told: Signal<Local, Bits<3>>,
    telling: Signal<Local, Bits<3>>,
    gained: Signal<Local, Bits<3>>,
    o_status: Fixed<15, { global::EVENT_STATUS.offset as u64 }>,
    o_mask: Fixed<15, { global::EVENT_MASK.offset as u64 }>,
}

impl Logic for EventRegisters {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, status, mask, fired);
        self.at_status.next = self.offset.val() == self.o_status.val();
        self.at_mask.next = self.offset.val() == self.o_mask.val();
        self.low.data.next = self.value.val();
        self.happened.i0.next = self.doorbell.val().into();
        self.happened.i1.next = self.bql_stall.val().into();
        self.happened.i2.next = self.address_fault.val().into();

        // An event comes behind the clearing of its bit.
        self.kept.next = self.status.q.val();
        if self.write.val() & self.at_status.val() {
            self.kept.next = self.status.q.val() & !self.low.out.val();
        }
        self.mask_after.next = self.mask.q.val();
        if self.write.val() & self.at_mask.val() {
            self.mask_after.next = self.low.out.val();
        }
        self.after.next = self.kept.val() | self.happened.out.val();
        self.told.next = self.kept.val() & self.mask.q.val();
        self.telling.next = self.after.val() & self.mask_after.val();
        self.gained.next = self.telling.val() & !self.told.val();
        self.status.d.next = self.after.val();
        self.mask.d.next = self.mask_after.val();
        self.fired.d.next = self.gained.val().any();
        if self.clear.val() {
            self.status.d.next = 0.into();
            self.mask.d.next = 0.into();
            self.fired.d.next = false;
        }
        self.fires.next = self.fired.q.val();

        self.wide_status.data.next = self.status.q.val();
        self.wide_mask.data.next = self.mask.q.val();
        self.found.next = self.at_status.val() | self.at_mask.val();
        self.read_value.next = self.wide_status.out.val();
        if self.at_mask.val() {
            self.read_value.next = self.wide_mask.out.val();
        }
    }
}
