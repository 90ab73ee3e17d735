// SPDX-License-Identifier: MIT OR Apache-2.0
//! Events of the device: EVENT_STATUS, EVENT_MASK, and the vector for them.

use tsonic_regs::pci::event_vector;
use tsonic_regs::registers::Events;

use super::Model;
use crate::nic::Env;

/// The two registers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventRegisters {
    pub status: u32,
    pub mask: u32,
}

/// Every event.
const ALL: u32 = {
    use tsonic_regs::registers::events::FIELDS;
    let (mut all, mut i) = (0, 0);
    while i < FIELDS.len() {
        all |= FIELDS[i].mask() as u32;
        i += 1;
    }
    all
};

impl Model {
    /// Changes the registers; the vector interrupts when a bit that is set in both
    /// was not.
    fn change_events(&mut self, env: &mut Env<'_>, change: impl FnOnce(&mut EventRegisters)) {
        let events = &mut self.registers.events;
        let before = events.status & events.mask;
        change(events);
        if events.status & events.mask & !before != 0 {
            self.visible = true;
            let vector = event_vector(self.config.queues) as u16;
            env.memory.interrupt(self.now, vector);
        }
    }

    /// These events occurred.
    pub(super) fn raise(&mut self, env: &mut Env<'_>, events: Events) {
        self.change_events(env, |e| e.status |= events.0);
    }

    /// A read met an address that is not mapped.
    pub(super) fn read_fault(&mut self, env: &mut Env<'_>) {
        let mut events = Events(0);
        events.set_address_fault(1);
        self.raise(env, events);
    }

    /// EVENT_STATUS is written: ones clear.
    pub(super) fn clear_events(&mut self, env: &mut Env<'_>, ones: u32) {
        self.change_events(env, |e| e.status &= !ones);
    }

    /// EVENT_MASK is written.
    pub(super) fn mask_events(&mut self, env: &mut Env<'_>, mask: u32) {
        self.change_events(env, |e| e.mask = mask & ALL);
    }
}
