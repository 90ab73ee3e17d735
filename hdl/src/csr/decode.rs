// SPDX-License-Identifier: MIT OR Apache-2.0
//! Stage 1 of the register bus: where an access goes.

use crate::prelude::*;
use tsonic_regs::registers::{
    DOORBELL_BASE, DOORBELL_STRIDE, QUEUE_BLOCK_BASE, QUEUE_BLOCK_STRIDE, doorbell, global,
};

// The decoder takes fixed bits of the address.
const _: () = {
    assert!(QUEUE_BLOCK_BASE == 1 << 15 && QUEUE_BLOCK_STRIDE == 1 << 7);
    assert!(DOORBELL_BASE == 1 << 20 && DOORBELL_STRIDE == 1 << 12);
};

/// Decodes accesses for `queues` queue pairs. Outputs hold in the cycle after
/// the access stood on the bus.
#[derive(LogicBlock)]
pub struct Decode {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A register is written.
    pub reg_wr_valid: Signal<In, bool>,
    /// A register is read.
    pub reg_rd_valid: Signal<In, bool>,
    /// Offset in BAR 0, aligned to 4.
    pub reg_addr: Signal<In, Bits<21>>,
    /// Value to write.
    pub reg_wdata: Signal<In, Bits<32>>,

    /// A read.
    pub read: Signal<Out, bool>,
    /// Value to write.
    pub value: Signal<Out, Bits<32>>,
    /// The access is to a register of the global block.
    pub in_global: Signal<Out, bool>,
    /// A write to it.
    pub write_global: Signal<Out, bool>,
    /// Offset in the global block.
    pub offset: Signal<Out, Bits<15>>,
    /// The access is to a register of a queue that exists.
    pub in_queue: Signal<Out, bool>,
    /// A write to it.
    pub write_queue: Signal<Out, bool>,
    /// The queue.
    pub queue: Signal<Out, Bits<8>>,
    /// Offset in the queue's block.
    pub queue_offset: Signal<Out, Bits<7>>,
    /// A transmit doorbell of a queue that exists is rung.
    pub tx_bell: Signal<Out, bool>,
    /// A receive doorbell of a queue that exists is rung.
    pub rx_bell: Signal<Out, bool>,
    /// Queue of the doorbell.
    pub bell_queue: Signal<Out, Bits<8>>,
    /// The access is to the low half of a doorbell page's clock ...
    pub clock_lo: Signal<Out, bool>,
    /// ... or to its high half.
    pub clock_hi: Signal<Out, bool>,
    /// A word of the RSS key is written.
    pub key_write: Signal<Out, bool>,
    /// Number of the word.
    pub key_index: Signal<Out, Bits<4>>,
    /// A row of the RSS table is written.
    pub table_write: Signal<Out, bool>,
    /// Row.
    pub table_index: Signal<Out, Bits<7>>,

    write_now: DFF<Bit>,
    read_now: DFF<Bit>,
    address: DFF<Bits<21>>,
    data: DFF<Bits<32>>,
    at_bell: Signal<Local, Bit>,
    at_global: Signal<Local, Bit>,
    at_queue: Signal<Local, Bit>,
    page_offset: Signal<Local, Bits<12>>,
    block_offset: Signal<Local, Bits<15>>,
    queue_number: Signal<Local, Bits<8>>,
    bell_number: Signal<Local, Bits<8>>,
    last_queue: Constant<Bits<8>>,
    key_word: Signal<Local, Bits<8>>,
    table_word: Signal<Local, Bits<8>>,
    o_key: Fixed<15, { global::RSS_KEY.offset as u64 }>,
    o_key_end: Fixed<15, { (global::RSS_KEY.offset + 4 * global::RSS_KEY.count) as u64 }>,
    o_table: Fixed<15, { global::RSS_TABLE.offset as u64 }>,
    o_table_end: Fixed<15, { (global::RSS_TABLE.offset + 4 * global::RSS_TABLE.count) as u64 }>,
    key_first: Fixed<8, { (global::RSS_KEY.offset / 4) as u64 }>,
    table_first: Fixed<8, { (global::RSS_TABLE.offset / 4) as u64 }>,
    tx_tail: Fixed<12, { doorbell::TX_TAIL.offset as u64 }>,
    rx_tail: Fixed<12, { doorbell::RX_TAIL.offset as u64 }>,
    o_clock_lo: Fixed<12, { doorbell::CLOCK_LO.offset as u64 }>,
    o_clock_hi: Fixed<12, { doorbell::CLOCK_HI.offset as u64 }>,
    at_page: Signal<Local, Bit>,
}

impl Decode {
    /// For queue pairs 0 to `queues` - 1.
    ///
    /// # Panics
    /// When `queues` is not in 1..=256.
    pub fn new(queues: usize) -> Self {
        assert!((1..=256).contains(&queues), "1 to 256 queue pairs");
        Self {
            clock: Default::default(),
            reg_wr_valid: Default::default(),
            reg_rd_valid: Default::default(),
            reg_addr: Default::default(),
            reg_wdata: Default::default(),
            read: Default::default(),
            value: Default::default(),
            in_global: Default::default(),
            write_global: Default::default(),
            offset: Default::default(),
            in_queue: Default::default(),
            write_queue: Default::default(),
            queue: Default::default(),
            queue_offset: Default::default(),
            tx_bell: Default::default(),
            rx_bell: Default::default(),
            bell_queue: Default::default(),
            clock_lo: Default::default(),
            clock_hi: Default::default(),
            key_write: Default::default(),
            key_index: Default::default(),
            table_write: Default::default(),
            table_index: Default::default(),
            write_now: Default::default(),
            read_now: Default::default(),
            address: Default::default(),
            data: Default::default(),
            at_bell: Default::default(),
            at_global: Default::default(),
            at_queue: Default::default(),
            page_offset: Default::default(),
            block_offset: Default::default(),
            queue_number: Default::default(),
            bell_number: Default::default(),
            last_queue: Constant::new(bits(queues as u64 - 1)),
            key_word: Default::default(),
            table_word: Default::default(),
            o_key: Default::default(),
            o_key_end: Default::default(),
            o_table: Default::default(),
            o_table_end: Default::default(),
            key_first: Default::default(),
            table_first: Default::default(),
            tx_tail: Default::default(),
            rx_tail: Default::default(),
            o_clock_lo: Default::default(),
            o_clock_hi: Default::default(),
            at_page: Default::default(),
        }
    }
}

impl Logic for Decode {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, write_now, read_now, address, data);
        self.write_now.d.next = self.reg_wr_valid.val();
        self.read_now.d.next = self.reg_rd_valid.val() & !self.reg_wr_valid.val();
        self.address.d.next = self.reg_addr.val();
        self.data.d.next = self.reg_wdata.val();

        self.read.next = self.read_now.q.val();
        self.value.next = self.data.q.val();
        self.at_bell.next = self.address.q.val().get_bit(20);
        self.at_queue.next = self.address.q.val().get_bits::<6>(15) == 1;
        self.at_global.next = self.address.q.val().get_bits::<6>(15) == 0;

        self.block_offset.next = self.address.q.val().get_bits::<15>(0);
        self.offset.next = self.block_offset.val();
        self.in_global.next = self.at_global.val();
        self.write_global.next = self.at_global.val() & self.write_now.q.val();
        self.key_word.next = self.block_offset.val().get_bits::<8>(2) - self.key_first.val();
        self.key_index.next = self.key_word.val().get_bits::<4>(0);
        self.key_write.next = self.at_global.val()
            & self.write_now.q.val()
            & (self.block_offset.val() >= self.o_key.val())
            & (self.block_offset.val() < self.o_key_end.val());
        self.table_word.next = self.block_offset.val().get_bits::<8>(2) - self.table_first.val();
        self.table_index.next = self.table_word.val().get_bits::<7>(0);
        self.table_write.next = self.at_global.val()
            & self.write_now.q.val()
            & (self.block_offset.val() >= self.o_table.val())
            & (self.block_offset.val() < self.o_table_end.val());

        self.queue_number.next = self.address.q.val().get_bits::<8>(7);
        self.queue.next = self.queue_number.val();
        self.queue_offset.next = self.address.q.val().get_bits::<7>(0);
        self.in_queue.next =
            self.at_queue.val() & (self.queue_number.val() <= self.last_queue.val());
        self.write_queue.next = self.at_queue.val()
            & (self.queue_number.val() <= self.last_queue.val())
            & self.write_now.q.val();

        self.bell_number.next = self.address.q.val().get_bits::<8>(12);
        self.bell_queue.next = self.bell_number.val();
        self.page_offset.next = self.address.q.val().get_bits::<12>(0);
        self.at_page.next = self.at_bell.val() & (self.bell_number.val() <= self.last_queue.val());
        self.tx_bell.next = self.at_page.val()
            & self.write_now.q.val()
            & (self.page_offset.val() == self.tx_tail.val());
        self.rx_bell.next = self.at_page.val()
            & self.write_now.q.val()
            & (self.page_offset.val() == self.rx_tail.val());
        self.clock_lo.next = self.at_page.val() & (self.page_offset.val() == self.o_clock_lo.val());
        self.clock_hi.next = self.at_page.val() & (self.page_offset.val() == self.o_clock_hi.val());
    }
}
