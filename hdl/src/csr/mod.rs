// SPDX-License-Identifier: MIT OR Apache-2.0
//! The register space: what the host writes and reads in BAR 0.
//!
//! ```text
//! register bus ─► Decode ─┬─► queue registers: broadcast to the blocks that keep them
//!                         ├─► doorbells, RSS key and table
//!                         ├─► Settings (global registers, reset), EventRegisters
//!                         └─► constants, Counters, TickCounter, copies ─► read data
//! ```
//!
//! A write takes effect one cycle after it stood on the bus. A read is answered
//! three cycles after. Registers that other blocks keep are read back from a copy
//! here. A write to a queue that the build does not have, or to a register that is
//! read-only, does nothing; a read from nowhere gives 0.
//!
//! Writing RESET turns the device off: no further descriptor is fetched,
//! completions are no longer written, and RESET reads 1 until everything inside
//! has ended and all registers have their reset values ([`Clear`]). Power-up is a
//! reset. Writes are not taken until it is over, and registers of queues and RSS
//! read 0. The clock goes on.

mod clear;
mod counter;
mod counters;
mod decode;
mod events;
mod settings;
mod ticks;

pub use clear::Clear;
pub use counter::Recent;
pub use counters::Counters;
pub use decode::Decode;
pub use events::EventRegisters;
pub use settings::Settings;
pub use ticks::TickCounter;

use crate::prelude::*;
use rust_hdl::widgets::prelude::ROM;
use tsonic_regs::limits::{HEADER_MAX, LATENESS_DEBT_FRAMES, PAYLOAD_MAX};
use tsonic_regs::registers::{Features, global};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};

/// Frequency of the clock in Hz.
pub const TICK_HZ: u32 = 125_000_000;
/// Bits of the data path.
pub const WIDTH: u32 = 64;

/// What a build tells of itself.
#[derive(Clone, Copy, Debug)]
pub struct Build {
    /// BUILD_HASH.
    pub hash: u32,
    /// Queue pairs.
    pub queues: u32,
    /// Rows of the flow table.
    pub flow_slots: u32,
    /// Largest payload of a segment.
    pub max_segment: u32,
}

impl Build {
    /// FEATURES of this logic.
    pub fn features() -> Features {
        let mut f = Features(0);
        f.set_tso(1);
        f.set_pacing(1);
        f.set_launch_time(1);
        f.set_bql(1);
        f.set_cn(1);
        f.set_flow_limit(1);
        f.set_rss(1);
        f.set_msix(1);
        f
    }

    /// LATENESS_DEBT after power-up, in ticks.
    pub fn lateness_debt(&self) -> u64 {
        let frame = (self.max_segment as usize + HEADER_MAX).div_ceil(WIDTH as usize / 8);
        (LATENESS_DEBT_FRAMES * frame) as u64
    }

    /// The constants at the start of the register space, by word.
    fn constants(&self) -> impl Iterator<Item = Bits<32>> {
        let mut words = [0u32; 16];
        for (register, value) in [
            (global::MAGIC, MAGIC),
            (global::CONTRACT_VERSION, CONTRACT_VERSION),
            (global::BUILD_HASH, self.hash),
            (global::FEATURES, Build::features().0),
            (global::QUEUES, self.queues),
            (global::FLOW_SLOTS, self.flow_slots),
            (global::MAX_SEGMENT, self.max_segment),
            (global::MAX_PAYLOAD, PAYLOAD_MAX as u32),
            (global::WIDTH, WIDTH),
            (global::TICK_HZ, TICK_HZ),
        ] {
            words[register.offset / 4] = value;
        }
        words.into_iter().map(|w| bits(u64::from(w)))
    }
}

/// The register space; A bits number the registers of all queues (5 and those
/// of a queue's number).
#[derive(LogicBlock)]
pub struct Csr<const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A register is written.
    pub reg_wr_valid: Signal<In, bool>,
    /// A register is read (never in the cycle of a write).
    pub reg_rd_valid: Signal<In, bool>,
    /// Offset in BAR 0, aligned to 4.
    pub reg_addr: Signal<In, Bits<21>>,
    /// Value to write.
    pub reg_wdata: Signal<In, Bits<32>>,
    /// Value read, with `reg_rd_ack`.
    pub reg_rd_data: Signal<Out, Bits<32>>,
    /// A read is answered.
    pub reg_rd_ack: Signal<Out, bool>,

    /// The clock takes `ticks_load_value` at the next edge instead of counting.
    pub ticks_load_valid: Signal<In, bool>,
    /// See `ticks_load_valid`.
    pub ticks_load_value: Signal<In, Bits<64>>,
    /// Now.
    pub ticks: Signal<Out, Bits<64>>,

    /// A queue register is written.
    pub cfg_valid: Signal<Out, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<Out, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<Out, Bits<7>>,
    /// Value written: also of doorbells, key and table.
    pub cfg_value: Signal<Out, Bits<32>>,
    /// A transmit doorbell is rung.
    pub tx_bell: Signal<Out, bool>,
    /// A receive doorbell is rung.
    pub rx_bell: Signal<Out, bool>,
    /// Queue of the doorbell.
    pub bell_queue: Signal<Out, Bits<8>>,
    /// A word of the RSS key is written.
    pub key_write: Signal<Out, bool>,
    /// Number of the word.
    pub key_index: Signal<Out, Bits<4>>,
    /// A row of the RSS table is written.
    pub table_write: Signal<Out, bool>,
    /// Row.
    pub table_index: Signal<Out, Bits<7>>,
    /// LATENESS_DEBT.
    pub lateness_debt: Signal<Out, Bits<32>>,
    /// CREDIT_FLUSH in ticks, at least 1.
    pub credit_flush: Signal<Out, Bits<32>>,
    /// HORIZON in ticks.
    pub horizon: Signal<Out, Bits<32>>,
    /// CN_TARGET in ticks.
    pub cn_target: Signal<Out, Bits<32>>,
    /// The device is on.
    pub enable: Signal<Out, bool>,
    /// A reset is under way.
    pub resetting: Signal<Out, bool>,
    /// Everything but this block is idle.
    pub device_idle: Signal<In, bool>,
    /// Nothing written is still on its way out of this block.
    pub idle: Signal<Out, bool>,

    /// A frame was handed to the MAC.
    pub tx_frame: Signal<In, bool>,
    /// Its wire bytes.
    pub tx_frame_bytes: Signal<In, Bits<17>>,
    /// A burst was completed.
    pub tx_burst: Signal<In, bool>,
    /// With an error.
    pub tx_error: Signal<In, bool>,
    /// A transmit doorbell was refused.
    pub tx_bell_refused: Signal<In, bool>,
    /// A receive doorbell was refused.
    pub rx_bell_refused: Signal<In, bool>,
    /// A frame was received whole.
    pub rx_frame: Signal<In, bool>,
    /// Its bytes.
    pub rx_frame_bytes: Signal<In, Bits<16>>,
    /// A frame found no buffer.
    pub rx_no_buffer: Signal<In, bool>,
    /// A frame was dropped: too long, damaged, or no room.
    pub rx_error: Signal<In, bool>,
    /// A frame has a wrong checksum.
    pub rx_csum_error: Signal<In, bool>,
    /// A queue stalls.
    pub bql_stall: Signal<In, bool>,
    /// A read met an address that is not mapped.
    pub address_fault: Signal<In, bool>,
    /// The vector of events interrupts.
    pub event_fires: Signal<Out, bool>,

    decode: Decode,
    clear: Clear,
    settings: Settings,
    event_registers: EventRegisters,
    counters: Counters,
    clock_ticks: TickCounter,
    constants: ROM<Bits<32>, 4>,
    copies: PairRam<Bits<32>, A>,
    copy_row: Zext<8, A>,
    copy_at: Signal<Local, Bits<A>>,
    row_write: Signal<Local, Bit>,
    ticks_high: DFF<Bits<32>>,
    queue_pack: Pack2<5, 8, 13>,
    queue_number: Signal<Local, Bits<13>>,
    now: Signal<Local, Bits<64>>,
    value_now: Signal<Local, Bits<32>>,
    is_row: Signal<Local, Bit>,
    in_reset: Signal<Local, Bit>,
    queue_write: Signal<Local, Bit>,
    write_value: Signal<Local, Bits<32>>,
    queue_at: Signal<Local, Bits<8>>,
    register_at: Signal<Local, Bits<7>>,
    row_at: Signal<Local, Bits<8>>,
    busy: DFF<Bit>,
    asked: DFF<Bit>,
    from_queue: DFF<Bit>,
    from_row: DFF<Bit>,
    value_then: DFF<Bits<32>>,
    answer: DFF<Bits<32>>,
    answered: DFF<Bit>,
    o_constants_end: Fixed<15, { global::TICKS_LO.offset as u64 }>,
    o_ticks_lo: Fixed<15, { global::TICKS_LO.offset as u64 }>,
    o_ticks_hi: Fixed<15, { global::TICKS_HI.offset as u64 }>,
    o_rows: Fixed<15, { global::RSS_KEY.offset as u64 }>,
    o_rows_end: Fixed<15, { (global::RSS_TABLE.offset + 4 * global::RSS_TABLE.count) as u64 }>,
}

impl<const A: usize> Csr<A> {
    /// The register space of a build.
    ///
    /// # Panics
    /// When A bits do not number the registers of all queues, or the rows of key and
    /// table.
    pub fn new(build: &Build) -> Self {
        assert!(
            (8..=13).contains(&A) && build.queues as usize <= 1 << (A - 5),
            "A numbers queue registers and rows"
        );
        Self {
            clock: Default::default(),
            reg_wr_valid: Default::default(),
            reg_rd_valid: Default::default(),
            reg_addr: Default::default(),
            reg_wdata: Default::default(),
            reg_rd_data: Default::default(),
            reg_rd_ack: Default::default(),
            ticks_load_valid: Default::default(),
            ticks_load_value: Default::default(),
            ticks: Default::default(),
            cfg_valid: Default::default(),
            cfg_queue: Default::default(),
            cfg_offset: Default::default(),
            cfg_value: Default::default(),
            tx_bell: Default::default(),
            rx_bell: Default::default(),
            bell_queue: Default::default(),
            key_write: Default::default(),
            key_index: Default::default(),
            table_write: Default::default(),
            table_index: Default::default(),
            lateness_debt: Default::default(),
            credit_flush: Default::default(),
            horizon: Default::default(),
            cn_target: Default::default(),
            enable: Default::default(),
            resetting: Default::default(),
            device_idle: Default::default(),
            idle: Default::default(),
            tx_frame: Default::default(),
            tx_frame_bytes: Default::default(),
            tx_burst: Default::default(),
            tx_error: Default::default(),
            tx_bell_refused: Default::default(),
            rx_bell_refused: Default::default(),
            rx_frame: Default::default(),
            rx_frame_bytes: Default::default(),
            rx_no_buffer: Default::default(),
            rx_error: Default::default(),
            rx_csum_error: Default::default(),
            bql_stall: Default::default(),
            address_fault: Default::default(),
            event_fires: Default::default(),
            decode: Decode::new(build.queues as usize),
            clear: Clear::new(build.queues as usize),
            settings: Settings::new(build.lateness_debt()),
            event_registers: Default::default(),
            counters: Default::default(),
            clock_ticks: Default::default(),
            constants: build.constants().into(),
            copies: Default::default(),
            copy_row: Default::default(),
            copy_at: Default::default(),
            row_write: Default::default(),
            ticks_high: Default::default(),
            queue_pack: Default::default(),
            queue_number: Default::default(),
            now: Default::default(),
            value_now: Default::default(),
            is_row: Default::default(),
            in_reset: Default::default(),
            queue_write: Default::default(),
            write_value: Default::default(),
            queue_at: Default::default(),
            register_at: Default::default(),
            row_at: Default::default(),
            busy: Default::default(),
            asked: Default::default(),
            from_queue: Default::default(),
            from_row: Default::default(),
            value_then: Default::default(),
            answer: Default::default(),
            answered: Default::default(),
            o_constants_end: Default::default(),
            o_ticks_lo: Default::default(),
            o_ticks_hi: Default::default(),
            o_rows: Default::default(),
            o_rows_end: Default::default(),
        }
    }
}

impl<const A: usize> Logic for Csr<A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, ticks_high, busy, asked, from_queue, from_row, value_then, answer,
            answered
        );
        clock!(
            self,
            clock,
            decode,
            clear,
            settings,
            event_registers,
            counters,
            clock_ticks,
            copies
        );
        self.decode.reg_wr_valid.next = self.reg_wr_valid.val();
        self.decode.reg_rd_valid.next = self.reg_rd_valid.val();
        self.decode.reg_addr.next = self.reg_addr.val();
        self.decode.reg_wdata.next = self.reg_wdata.val();
        self.busy.d.next = self.reg_wr_valid.val();
        self.idle.next = !self.reg_wr_valid.val() & !self.busy.q.val();

        self.clock_ticks.load.next = self.ticks_load_valid.val();
        self.clock_ticks.load_value.next = self.ticks_load_value.val();
        self.now.next = self.clock_ticks.ticks.val();
        self.ticks.next = self.clock_ticks.ticks.val();

        // Writes come from the bus, or in a reset from `clear`.
        self.in_reset.next = self.settings.resetting.val();
        self.clear.active.next = self.in_reset.val();
        self.clear.device_idle.next = self.device_idle.val();
        self.settings.reset_done.next = self.clear.done.val();
        self.queue_at.next = self.decode.queue.val();
        self.register_at.next = self.decode.queue_offset.val();
        self.row_at.next = self.decode.offset.val().get_bits::<8>(2);
        self.queue_write.next = self.decode.write_queue.val();
        self.write_value.next = self.decode.value.val();
        self.key_write.next = self.decode.key_write.val();
        self.key_index.next = self.decode.key_index.val();
        self.table_write.next = self.decode.table_write.val();
        self.table_index.next = self.decode.table_index.val();
        if self.in_reset.val() {
            self.queue_at.next = self.clear.queue.val();
            self.register_at.next = self.clear.offset.val();
            self.row_at.next = self.clear.row.val();
            self.queue_write.next = self.clear.queue_write.val();
            self.write_value.next = self.clear.value.val();
            self.key_write.next = self.clear.key_write.val();
            self.key_index.next = self.clear.row.val().get_bits::<4>(0);
            self.table_write.next = self.clear.table_write.val();
            self.table_index.next = self.clear.table_index.val();
        }
        self.cfg_valid.next = self.queue_write.val();
        self.cfg_queue.next = self.queue_at.val();
        self.cfg_offset.next = self.register_at.val();
        self.cfg_value.next = self.write_value.val();
        self.tx_bell.next = self.decode.tx_bell.val() & !self.in_reset.val();
        self.rx_bell.next = self.decode.rx_bell.val() & !self.in_reset.val();
        self.bell_queue.next = self.decode.bell_queue.val();
        self.settings.write.next = self.decode.write_global.val();
        self.settings.offset.next = self.decode.offset.val();
        self.settings.value.next = self.decode.value.val();
        self.settings.device_idle.next = self.device_idle.val();
        self.lateness_debt.next = self.settings.lateness_debt.val();
        self.credit_flush.next = self.settings.credit_flush.val();
        self.horizon.next = self.settings.horizon_ticks.val();
        self.cn_target.next = self.settings.cn_target.val();
        self.enable.next = self.settings.enable.val();
        self.resetting.next = self.in_reset.val();

        self.event_registers.clear.next = self.in_reset.val();
        self.event_registers.write.next = self.decode.write_global.val();
        self.event_registers.offset.next = self.decode.offset.val();
        self.event_registers.value.next = self.decode.value.val();
        self.event_registers.doorbell.next =
            self.tx_bell_refused.val() | self.rx_bell_refused.val();
        self.event_registers.bql_stall.next = self.bql_stall.val();
        self.event_registers.address_fault.next = self.address_fault.val();
        self.event_fires.next = self.event_registers.fires.val();

        self.counters.clear.next = self.in_reset.val();
        self.counters.offset.next = self.decode.offset.val();
        self.counters.tx_frame.next = self.tx_frame.val();
        self.counters.tx_frame_bytes.next = self.tx_frame_bytes.val();
        self.counters.tx_burst.next = self.tx_burst.val();
        self.counters.tx_error.next = self.tx_error.val();
        self.counters.tx_bell_refused.next = self.tx_bell_refused.val();
        self.counters.rx_bell_refused.next = self.rx_bell_refused.val();
        self.counters.rx_frame.next = self.rx_frame.val();
        self.counters.rx_frame_bytes.next = self.rx_frame_bytes.val();
        self.counters.rx_no_buffer.next = self.rx_no_buffer.val();
        self.counters.rx_error.next = self.rx_error.val();
        self.counters.rx_csum_error.next = self.rx_csum_error.val();

        // Copies of what other blocks keep.
        self.queue_pack.i0.next = self.register_at.val().get_bits::<5>(2);
        self.queue_pack.i1.next = self.queue_at.val();
        self.queue_number.next = self.queue_pack.out.val();
        self.is_row.next = self.decode.in_global.val()
            & (self.decode.offset.val() >= self.o_rows.val())
            & (self.decode.offset.val() < self.o_rows_end.val());
        self.row_write.next = self.decode.write_global.val() & self.is_row.val();
        self.copies.read_second.next = self.is_row.val();
        if self.in_reset.val() {
            self.row_write.next = self.clear.row_write.val();
        }
        // Never both at once: registers of queues are first words, rows are second ones.
        self.copy_row.data.next = self.row_at.val();
        self.copy_at.next = self.queue_number.val().get_bits::<A>(0);
        if self.row_write.val() | self.is_row.val() {
            self.copy_at.next = self.copy_row.out.val();
        }
        self.copies.write_enable.next = self.queue_write.val() | self.row_write.val();
        self.copies.write_address.next = self.copy_at.val();
        self.copies.write_second.next = self.row_write.val();
        self.copies.write_data.next = self.write_value.val();
        self.copies.read_enable.next = self.decode.read.val() & !self.in_reset.val();
        self.copies.read_address.next = self.copy_at.val();

        // Reading: stage 1 chooses among registers, stage 2 between that and copies.
        self.constants.address.next = self.decode.offset.val().get_bits::<4>(2);
        self.value_now.next = 0.into();
        if self.settings.found.val() {
            self.value_now.next = self.settings.read_value.val();
        } else if self.event_registers.found.val() {
            self.value_now.next = self.event_registers.read_value.val();
        } else if self.counters.found.val() {
            self.value_now.next = self.counters.read_value.val();
        } else if self.decode.offset.val() == self.o_ticks_lo.val() {
            self.value_now.next = self.now.val().get_bits::<32>(0);
        } else if self.decode.offset.val() == self.o_ticks_hi.val() {
            self.value_now.next = self.ticks_high.q.val();
        } else if self.decode.offset.val() < self.o_constants_end.val() {
            self.value_now.next = self.constants.data.val();
        }
        self.ticks_high.d.next = self.ticks_high.q.val();
        if self.decode.read.val()
            & self.decode.in_global.val()
            & (self.decode.offset.val() == self.o_ticks_lo.val())
        {
            self.ticks_high.d.next = self.now.val().get_bits::<32>(32);
        }
        self.asked.d.next = self.decode.read.val();
        self.from_queue.d.next = self.decode.in_queue.val() & !self.in_reset.val();
        self.from_row.d.next = self.is_row.val() & !self.in_reset.val();
        self.value_then.d.next = 0.into();
        if self.decode.in_global.val() {
            self.value_then.d.next = self.value_now.val();
        }
        if self.decode.clock_lo.val() {
            self.value_then.d.next = self.now.val().get_bits::<32>(0);
        }
        if self.decode.clock_hi.val() {
            self.value_then.d.next = self.now.val().get_bits::<32>(32);
        }
        self.answer.d.next = self.value_then.q.val();
        if self.from_queue.q.val() | self.from_row.q.val() {
            self.answer.d.next = self.copies.read_data.val();
        }
        self.answered.d.next = self.asked.q.val();
        self.reg_rd_data.next = self.answer.q.val();
        self.reg_rd_ack.next = self.answered.q.val();
    }
}
