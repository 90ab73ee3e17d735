// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes the reset values of registers that are memories: queue registers, RSS
//! key and RSS table.
//!
//! A reset passes over all of them twice. The first pass turns every queue off, so
//! what waits in the device can drain; the second begins when the device has been
//! idle for a while, and the reset ends with it.

use crate::prelude::*;
use rust_hdl::widgets::prelude::ROM;
use tsonic_regs::limits::{QUANTUM_RESET, RSS_KEY_DEFAULT, RSS_TABLE};
use tsonic_regs::registers::{global, queue};

/// Rows that hold key and table, by word of the global block.
const ROWS: usize = 256;
const KEY_ROW: usize = global::RSS_KEY.offset / 4;
const TABLE_ROW: usize = global::RSS_TABLE.offset / 4;

// Key and table are found by bits of the row's number.
const _: () = assert!(
    KEY_ROW == 0x20
        && global::RSS_KEY.count <= 16
        && TABLE_ROW == 0x40
        && RSS_TABLE == 128
        && TABLE_ROW + RSS_TABLE <= ROWS
);

/// See the module.
#[derive(LogicBlock)]
pub struct Clear {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A reset is under way.
    pub active: Signal<In, bool>,
    /// Everything else is idle.
    pub device_idle: Signal<In, bool>,
    /// The reset is over.
    pub done: Signal<Out, bool>,
    /// A queue register is written.
    pub queue_write: Signal<Out, bool>,
    /// Its queue.
    pub queue: Signal<Out, Bits<8>>,
    /// Its offset.
    pub offset: Signal<Out, Bits<7>>,
    /// A word of the key or a row of the table is written.
    pub row_write: Signal<Out, bool>,
    /// Its word in the global block.
    pub row: Signal<Out, Bits<8>>,
    /// It is of the key.
    pub key_write: Signal<Out, bool>,
    /// It is of the table.
    pub table_write: Signal<Out, bool>,
    /// Number of the row of the table.
    pub table_index: Signal<Out, Bits<7>>,
    /// Value.
    pub value: Signal<Out, Bits<32>>,

    in_rows: DFF<Bit>,
    at: DFF<Bits<13>>,
    second: DFF<Bit>,
    waiting: DFF<Bit>,
    calm: DFF<Bits<6>>,
    writes: Signal<Local, Bit>,
    spread: DFF<Bits<8>>,
    here: Signal<Local, Bits<13>>,
    word: Signal<Local, Bits<5>>,
    number: Signal<Local, Bits<8>>,
    table_number: Signal<Local, Bits<8>>,
    key_number: Signal<Local, Bits<4>>,
    in_key: Signal<Local, Bit>,
    in_table: Signal<Local, Bit>,
    ends: Signal<Local, Bit>,
    place: Pack2<2, 5, 7>,
    spread_wide: Zext<8, 32>,
    key: ROM<Bits<32>, 4>,
    last_register: Setting<13>,
    last_queue: Setting<8>,
    last_row: Fixed<13, { ROWS as u64 - 1 }>,
    key_row: Fixed<8, { KEY_ROW as u64 }>,
    key_end: Fixed<8, { (KEY_ROW + global::RSS_KEY.count) as u64 }>,
    table_row: Fixed<8, { TABLE_ROW as u64 }>,
    table_end: Fixed<8, { (TABLE_ROW + RSS_TABLE) as u64 }>,
    quantum_word: Fixed<5, { queue::TX_QUANTUM.offset as u64 / 4 }>,
    quantum: Fixed<32, { QUANTUM_RESET as u64 }>,
}

impl Clear {
    /// For queue pairs 0 to `queues` - 1.
    pub fn new(queues: usize) -> Self {
        let key = RSS_KEY_DEFAULT.chunks(4).map(|b| {
            bits(
                b.iter()
                    .rev()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte)),
            )
        });
        Self {
            clock: Default::default(),
            active: Default::default(),
            device_idle: Default::default(),
            done: Default::default(),
            queue_write: Default::default(),
            queue: Default::default(),
            offset: Default::default(),
            row_write: Default::default(),
            row: Default::default(),
            key_write: Default::default(),
            table_write: Default::default(),
            table_index: Default::default(),
            value: Default::default(),
            in_rows: Default::default(),
            at: Default::default(),
            second: Default::default(),
            waiting: Default::default(),
            calm: Default::default(),
            writes: Default::default(),
            spread: Default::default(),
            here: Default::default(),
            word: Default::default(),
            number: Default::default(),
            table_number: Default::default(),
            key_number: Default::default(),
            in_key: Default::default(),
            in_table: Default::default(),
            ends: Default::default(),
            place: Default::default(),
            spread_wide: Default::default(),
            key: key.into(),
            last_register: Setting::new(32 * queues as u64 - 1),
            last_queue: Setting::new(queues as u64 - 1),
            last_row: Default::default(),
            key_row: Default::default(),
            key_end: Default::default(),
            table_row: Default::default(),
            table_end: Default::default(),
            quantum_word: Default::default(),
            quantum: Default::default(),
        }
    }
}

impl Logic for Clear {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, in_rows, at, spread, second, waiting, calm);
        self.writes.next = self.active.val() & !self.waiting.q.val();
        self.here.next = self.at.q.val();
        self.word.next = self.here.val().get_bits::<5>(0);
        self.number.next = self.here.val().get_bits::<8>(0);

        // Where.
        self.queue.next = self.here.val().get_bits::<8>(5);
        self.place.i0.next = 0.into();
        self.place.i1.next = self.word.val();
        self.offset.next = self.place.out.val();
        self.row.next = self.number.val();
        self.key_number.next = self.here.val().get_bits::<4>(0);
        self.table_number.next = self.number.val() - self.table_row.val();
        self.table_index.next = self.table_number.val().get_bits::<7>(0);
        self.in_key.next = self.in_rows.q.val()
            & (self.number.val() >= self.key_row.val())
            & (self.number.val() < self.key_end.val());
        self.in_table.next = self.in_rows.q.val()
            & (self.number.val() >= self.table_row.val())
            & (self.number.val() < self.table_end.val());
        self.queue_write.next = self.writes.val() & !self.in_rows.q.val();
        self.key_write.next = self.writes.val() & self.in_key.val();
        self.table_write.next = self.writes.val() & self.in_table.val();
        self.row_write.next = self.writes.val() & (self.in_key.val() | self.in_table.val());

        // What.
        self.key.address.next = self.key_number.val();
        self.spread_wide.data.next = self.spread.q.val();
        self.value.next = 0.into();
        if self.in_key.val() {
            self.value.next = self.key.data.val();
        } else if self.in_table.val() {
            self.value.next = self.spread_wide.out.val();
        } else if self.word.val() == self.quantum_word.val() {
            self.value.next = self.quantum.val();
        }

        // On.
        self.ends.next = self.in_rows.q.val() & (self.here.val() == self.last_row.val());
        self.done.next = self.ends.val() & self.second.q.val();
        self.calm.d.next = 0.into();
        if !self.active.val() {
            self.at.d.next = 0.into();
            self.in_rows.d.next = false;
            self.second.d.next = false;
            self.waiting.d.next = false;
            self.spread.d.next = 0.into();
        } else if self.waiting.q.val() {
            if self.device_idle.val() {
                self.calm.d.next = self.calm.q.val() + 1;
                if self.calm.q.val().all() {
                    self.waiting.d.next = false;
                    self.second.d.next = true;
                }
            }
        } else {
            self.at.d.next = self.here.val() + 1;
            if !self.in_rows.q.val() & (self.here.val() == self.last_register.val()) {
                self.at.d.next = 0.into();
                self.in_rows.d.next = true;
            }
            if self.ends.val() {
                self.at.d.next = 0.into();
                self.in_rows.d.next = false;
                self.waiting.d.next = !self.second.q.val();
            }
            self.spread.d.next = 0.into();
            if self.in_table.val() & (self.spread.q.val() != self.last_queue.val()) {
                self.spread.d.next = self.spread.q.val() + 1;
            }
        }
    }
}
