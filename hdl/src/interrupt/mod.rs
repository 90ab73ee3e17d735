// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: what wakes software, and when.
//!
//! ```text
//! complete, receive ─written─► Moderation ─vector─┐
//! csr ─────────────events─────────────────────────┴─► request ─► memory (behind its writes) ─► port
//! ```
//!
//! Vector q belongs to both directions of queue pair q, vector Q to the device's events;
//! table, masks and pending bits of MSI-X are the PCI function's. A completion is
//! announced here once its last beat was taken by [`crate::memory::Memory`], which lets
//! a request out only behind all beats that it has taken. While a request
//! stands no further write begins, so at most one more completion comes meanwhile.

mod moderation;

pub use moderation::{Moderation, Told};

use crate::prelude::*;

/// Interrupts of Q queue pairs (2 to 256).
#[derive(LogicBlock)]
pub struct Interrupt<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A reset is under way: nothing is gathered, no event waits.
    pub resetting: Signal<In, bool>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,

    /// A completion of transmit has been taken for memory (never in one cycle with one
    /// of receive).
    pub tx_written: Signal<In, bool>,
    /// Its queue.
    pub tx_queue: Signal<In, Bits<8>>,
    /// The host is to be told at once.
    pub tx_urgent: Signal<In, bool>,
    /// A completion of receive has been taken for memory.
    pub rx_written: Signal<In, bool>,
    /// Its queue.
    pub rx_queue: Signal<In, Bits<8>>,
    /// The host is to be told at once.
    pub rx_urgent: Signal<In, bool>,
    /// An event is to be told.
    pub happened: Signal<In, bool>,

    /// An interrupt is asked for.
    pub irq_valid: Signal<Out, bool>,
    /// It is on its way.
    pub irq_ready: Signal<In, bool>,
    /// Its vector.
    pub irq_vector: Signal<Out, Bits<9>>,

    /// Nothing happens before the next event.
    pub idle: Signal<Out, bool>,
    /// There is a next event.
    pub next_event_valid: Signal<Out, bool>,
    /// Its tick modulo 2^34.
    pub next_event: Signal<Out, Bits<34>>,

    moderation: Moderation<Q>,
    asked: DFF<Bit>,
    vector: DFF<Bits<9>>,
    news: DFF<Bit>,
    free: Signal<Local, Bit>,
    wide: Zext<8, 9>,
    event_vector: Setting<9>,
}

impl<const Q: usize> Default for Interrupt<Q> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            resetting: Default::default(),
            ticks: Default::default(),
            cfg_valid: Default::default(),
            cfg_queue: Default::default(),
            cfg_offset: Default::default(),
            cfg_value: Default::default(),
            tx_written: Default::default(),
            tx_queue: Default::default(),
            tx_urgent: Default::default(),
            rx_written: Default::default(),
            rx_queue: Default::default(),
            rx_urgent: Default::default(),
            happened: Default::default(),
            irq_valid: Default::default(),
            irq_ready: Default::default(),
            irq_vector: Default::default(),
            idle: Default::default(),
            next_event_valid: Default::default(),
            next_event: Default::default(),
            moderation: Default::default(),
            asked: Default::default(),
            vector: Default::default(),
            news: Default::default(),
            free: Default::default(),
            wide: Default::default(),
            event_vector: Setting::new(tsonic_regs::pci::event_vector(Q) as u64),
        }
    }
}

impl<const Q: usize> Logic for Interrupt<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, asked, vector, news);
        clock!(self, clock, moderation);
        self.moderation.reset.next = self.resetting.val();
        self.moderation.now.next = self.ticks.val().get_bits::<34>(0);
        self.moderation.cfg_valid.next = self.cfg_valid.val();
        self.moderation.cfg_queue.next = self.cfg_queue.val();
        self.moderation.cfg_offset.next = self.cfg_offset.val();
        self.moderation.cfg_value.next = self.cfg_value.val();
        self.moderation.told_valid.next = self.tx_written.val() | self.rx_written.val();
        if self.tx_written.val() {
            self.moderation.told.next.vector = self.tx_queue.val();
            self.moderation.told.next.urgent = self.tx_urgent.val();
        } else {
            self.moderation.told.next.vector = self.rx_queue.val();
            self.moderation.told.next.urgent = self.rx_urgent.val();
        }

        // The request, which stands until it is taken; events first.
        self.free.next = !self.asked.q.val() | self.irq_ready.val();
        self.moderation.fire_ready.next = self.free.val() & !self.news.q.val();
        self.wide.data.next = self.moderation.fire_vector.val();
        if self.free.val() {
            self.asked.d.next = self.news.q.val() | self.moderation.fire_valid.val();
            self.vector.d.next = self.wide.out.val();
            if self.news.q.val() {
                self.vector.d.next = self.event_vector.val();
                self.news.d.next = false;
            }
        }
        if self.happened.val() {
            self.news.d.next = true;
        }
        if self.resetting.val() {
            self.news.d.next = false;
        }
        self.irq_valid.next = self.asked.q.val();
        self.irq_vector.next = self.vector.q.val();
        self.idle.next = self.moderation.idle.val() & !self.asked.q.val() & !self.news.q.val();
        self.next_event_valid.next = self.moderation.next_event_valid.val();
        self.next_event.next = self.moderation.next_event.val();
    }
}
