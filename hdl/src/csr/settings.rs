// SPDX-License-Identifier: MIT OR Apache-2.0
//! The global registers that software sets, and the reset of the device.

use super::TICK_HZ;
use crate::prelude::*;
use crate::primitives::{pack_word, unpack_word};
use tsonic_regs::limits::{CN_TARGET_RESET_US, CREDIT_FLUSH_RESET_US, HORIZON_RESET_US};
use tsonic_regs::registers::{control, device_status, global};

const TICKS_PER_US: u64 = TICK_HZ as u64 / 1_000_000;
const CREDIT_FLUSH: u64 = TICKS_PER_US * CREDIT_FLUSH_RESET_US;
const CN_TARGET: u64 = TICKS_PER_US * CN_TARGET_RESET_US;
const HORIZON: u64 = TICKS_PER_US * HORIZON_RESET_US;

unpack_word! {
    /// CONTROL as written.
    UnpackDeviceControl, 32 { enable: 1 = control::ENABLE, reset: 1 = control::RESET }
}

pack_word! {
    /// CONTROL as read.
    PackDeviceControl, 32 { enable: 1 = control::ENABLE, reset: 1 = control::RESET }
}

pack_word! {
    /// STATUS.
    PackDeviceStatus, 32 { idle: 1 = device_status::IDLE }
}

/// See the module.
#[derive(LogicBlock)]
pub struct Settings {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A register of the global block is written.
    pub write: Signal<In, bool>,
    /// Its offset; also of the register to read.
    pub offset: Signal<In, Bits<15>>,
    /// Value.
    pub value: Signal<In, Bits<32>>,
    /// Everything else is idle.
    pub device_idle: Signal<In, bool>,
    /// The reset is over.
    pub reset_done: Signal<In, bool>,

    /// The register at `offset` is one of these.
    pub found: Signal<Out, bool>,
    /// Its value.
    pub read_value: Signal<Out, Bits<32>>,
    /// LATENESS_DEBT.
    pub lateness_debt: Signal<Out, Bits<32>>,
    /// CREDIT_FLUSH.
    pub credit_flush: Signal<Out, Bits<32>>,
    /// HORIZON.
    pub horizon_ticks: Signal<Out, Bits<32>>,
    /// CN_TARGET.
    pub cn_target: Signal<Out, Bits<32>>,
    /// The device is on.
    pub enable: Signal<Out, bool>,
    /// A reset is under way.
    pub resetting: Signal<Out, bool>,

    debt: Reg<Bits<32>>,
    flush: Reg<Bits<32>>,
    target: Reg<Bits<32>>,
    horizon: Reg<Bits<32>>,
    on: DFF<Bit>,
    reset: Reg<Bit>,
    written: UnpackDeviceControl,
    control_word: PackDeviceControl,
    status_word: PackDeviceStatus,
    on_bit: Signal<Local, Bits<1>>,
    reset_bit: Signal<Local, Bits<1>>,
    idle_bit: Signal<Local, Bits<1>>,
    o_control: Fixed<15, { global::CONTROL.offset as u64 }>,
    o_status: Fixed<15, { global::STATUS.offset as u64 }>,
    o_debt: Fixed<15, { global::LATENESS_DEBT.offset as u64 }>,
    o_flush: Fixed<15, { global::CREDIT_FLUSH.offset as u64 }>,
    o_target: Fixed<15, { global::CN_TARGET.offset as u64 }>,
    o_horizon: Fixed<15, { global::HORIZON.offset as u64 }>,
}

impl Settings {
    /// With a lateness debt of `debt` ticks after power-up.
    pub fn new(debt: u64) -> Self {
        Self {
            clock: Default::default(),
            write: Default::default(),
            offset: Default::default(),
            value: Default::default(),
            device_idle: Default::default(),
            reset_done: Default::default(),
            found: Default::default(),
            read_value: Default::default(),
            lateness_debt: Default::default(),
            credit_flush: Default::default(),
            horizon_ticks: Default::default(),
            cn_target: Default::default(),
            enable: Default::default(),
            resetting: Default::default(),
            debt: Reg::new(bits(debt)),
            flush: Reg::new(bits(CREDIT_FLUSH)),
            target: Reg::new(bits(CN_TARGET)),
            horizon: Reg::new(bits(HORIZON)),
            on: Default::default(),
            // Power-up is a reset.
            reset: Reg::new(true),
            written: Default::default(),
            control_word: Default::default(),
            status_word: Default::default(),
            on_bit: Default::default(),
            reset_bit: Default::default(),
            idle_bit: Default::default(),
            o_control: Default::default(),
            o_status: Default::default(),
            o_debt: Default::default(),
            o_flush: Default::default(),
            o_target: Default::default(),
            o_horizon: Default::default(),
        }
    }
}

impl Logic for Settings {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, on);
        clock!(self, clock, reset, debt, flush, target, horizon);
        self.debt.reset.next = self.reset.q.val();
        self.flush.reset.next = self.reset.q.val();
        self.target.reset.next = self.reset.q.val();
        self.horizon.reset.next = self.reset.q.val();
        self.debt.d.next = self.value.val();
        self.flush.d.next = self.value.val();
        self.target.d.next = self.value.val();
        self.horizon.d.next = self.value.val();
        self.debt.enable.next = self.write.val() & (self.offset.val() == self.o_debt.val());
        // A period of 0 would credit never: it counts as 1.
        self.flush.enable.next = self.write.val() & (self.offset.val() == self.o_flush.val());
        if self.value.val() == 0 {
            self.flush.d.next = 1.into();
        }
        self.target.enable.next = self.write.val() & (self.offset.val() == self.o_target.val());
        self.horizon.enable.next = self.write.val() & (self.offset.val() == self.o_horizon.val());

        // On, off, reset. While a reset lasts nothing else is taken.
        self.written.data.next = self.value.val();
        self.on.d.next = self.on.q.val();
        self.reset.reset.next = false;
        self.reset.enable.next = false;
        self.reset.d.next = false;
        if self.reset.q.val() {
            self.on.d.next = false;
            self.reset.enable.next = self.reset_done.val();
        } else if self.write.val() & (self.offset.val() == self.o_control.val()) {
            self.on.d.next = self.written.enable.val().any() & !self.written.reset.val().any();
            self.reset.enable.next = self.written.reset.val().any();
            self.reset.d.next = true;
        }
        self.enable.next = self.on.q.val();
        self.resetting.next = self.reset.q.val();
        self.lateness_debt.next = self.debt.q.val();
        self.credit_flush.next = self.flush.q.val();
        self.horizon_ticks.next = self.horizon.q.val();
        self.cn_target.next = self.target.q.val();

        // Reading.
        self.on_bit.next = 0.into();
        if self.on.q.val() {
            self.on_bit.next = 1.into();
        }
        self.reset_bit.next = 0.into();
        if self.reset.q.val() {
            self.reset_bit.next = 1.into();
        }
        self.idle_bit.next = 0.into();
        if self.device_idle.val() {
            self.idle_bit.next = 1.into();
        }
        self.control_word.enable.next = self.on_bit.val();
        self.control_word.reset.next = self.reset_bit.val();
        self.status_word.idle.next = self.idle_bit.val();
        self.found.next = true;
        self.read_value.next = 0.into();
        if self.offset.val() == self.o_control.val() {
            self.read_value.next = self.control_word.out.val();
        } else if self.offset.val() == self.o_status.val() {
            self.read_value.next = self.status_word.out.val();
        } else if self.offset.val() == self.o_debt.val() {
            self.read_value.next = self.debt.q.val();
        } else if self.offset.val() == self.o_flush.val() {
            self.read_value.next = self.flush.q.val();
        } else if self.offset.val() == self.o_target.val() {
            self.read_value.next = self.target.q.val();
        } else if self.offset.val() == self.o_horizon.val() {
            self.read_value.next = self.horizon.q.val();
        } else {
            self.found.next = false;
        }
    }
}
