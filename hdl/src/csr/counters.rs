// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of the global block.

use super::Counter;
use crate::prelude::*;
use tsonic_regs::registers::global;

/// Two blocks of eight counters: transmit, then receive.
const _: () = {
    assert!(global::TX_FRAMES.offset == 0x400 && global::TX_BYTES.offset == 0x408);
    assert!(global::TX_BURSTS.offset == 0x410 && global::TX_ERRORS.offset == 0x418);
    assert!(global::DOORBELL_ERRORS.offset == 0x420);
    assert!(global::RX_FRAMES.offset == 0x440 && global::RX_BYTES.offset == 0x448);
    assert!(global::RX_NO_BUFFER.offset == 0x450 && global::RX_ERRORS.offset == 0x458);
    assert!(global::RX_CSUM_ERRORS.offset == 0x460);
};

/// Every event input is high for one cycle an event.
#[derive(LogicBlock, Default)]
pub struct Counters {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// All back to 0.
    pub clear: Signal<In, bool>,
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

    /// Offset in the global block.
    pub offset: Signal<In, Bits<15>>,
    /// The register at `offset` is a counter's.
    pub found: Signal<Out, bool>,
    /// Its value.
    pub read_value: Signal<Out, Bits<32>>,

    frames_out: Counter<1>,
    bytes_out: Counter<17>,
    bursts_out: Counter<1>,
    errors_out: Counter<1>,
    bells_refused: Counter<2>,
    frames_in: Counter<1>,
    bytes_in: Counter<16>,
    no_buffer_in: Counter<1>,
    errors_in: Counter<1>,
    csum_errors_in: Counter<1>,
    refusals: Signal<Local, Bits<2>>,
    number: Signal<Local, Bits<4>>,
    chosen: Signal<Local, Bits<64>>,
    first: Fixed<15, { global::TX_FRAMES.offset as u64 }>,
    past: Fixed<15, 0x480>,
}

impl Logic for Counters {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(
            self,
            clock,
            frames_out,
            bytes_out,
            bursts_out,
            errors_out,
            bells_refused,
            frames_in,
            bytes_in,
            no_buffer_in,
            errors_in,
            csum_errors_in
        );
        self.frames_out.clear.next = self.clear.val();
        self.bytes_out.clear.next = self.clear.val();
        self.bursts_out.clear.next = self.clear.val();
        self.errors_out.clear.next = self.clear.val();
        self.bells_refused.clear.next = self.clear.val();
        self.frames_in.clear.next = self.clear.val();
        self.bytes_in.clear.next = self.clear.val();
        self.no_buffer_in.clear.next = self.clear.val();
        self.errors_in.clear.next = self.clear.val();
        self.csum_errors_in.clear.next = self.clear.val();
        self.frames_out.add.next = self.tx_frame.val();
        self.frames_out.amount.next = 1.into();
        self.bytes_out.add.next = self.tx_frame.val();
        self.bytes_out.amount.next = self.tx_frame_bytes.val();
        self.bursts_out.add.next = self.tx_burst.val();
        self.bursts_out.amount.next = 1.into();
        self.errors_out.add.next = self.tx_error.val();
        self.errors_out.amount.next = 1.into();
        self.refusals.next = 1.into();
        if self.tx_bell_refused.val() & self.rx_bell_refused.val() {
            self.refusals.next = 2.into();
        }
        self.bells_refused.add.next = self.tx_bell_refused.val() | self.rx_bell_refused.val();
        self.bells_refused.amount.next = self.refusals.val();
        self.frames_in.add.next = self.rx_frame.val();
        self.frames_in.amount.next = 1.into();
        self.bytes_in.add.next = self.rx_frame.val();
        self.bytes_in.amount.next = self.rx_frame_bytes.val();
        self.no_buffer_in.add.next = self.rx_no_buffer.val();
        self.no_buffer_in.amount.next = 1.into();
        self.errors_in.add.next = self.rx_error.val();
        self.errors_in.amount.next = 1.into();
        self.csum_errors_in.add.next = self.rx_csum_error.val();
        self.csum_errors_in.amount.next = 1.into();

        self.found.next =
            (self.offset.val() >= self.first.val()) & (self.offset.val() < self.past.val());
        self.number.next = self.offset.val().get_bits::<4>(3);
        self.chosen.next = 0.into();
        if self.number.val() == 0 {
            self.chosen.next = self.frames_out.count.val();
        } else if self.number.val() == 1 {
            self.chosen.next = self.bytes_out.count.val();
        } else if self.number.val() == 2 {
            self.chosen.next = self.bursts_out.count.val();
        } else if self.number.val() == 3 {
            self.chosen.next = self.errors_out.count.val();
        } else if self.number.val() == 4 {
            self.chosen.next = self.bells_refused.count.val();
        } else if self.number.val() == 8 {
            self.chosen.next = self.frames_in.count.val();
        } else if self.number.val() == 9 {
            self.chosen.next = self.bytes_in.count.val();
        } else if self.number.val() == 10 {
            self.chosen.next = self.no_buffer_in.count.val();
        } else if self.number.val() == 11 {
            self.chosen.next = self.errors_in.count.val();
        } else if self.number.val() == 12 {
            self.chosen.next = self.csum_errors_in.count.val();
        }
        self.read_value.next = self.chosen.val().get_bits::<32>(0);
        if self.offset.val().get_bit(2) {
            self.read_value.next = self.chosen.val().get_bits::<32>(32);
        }
    }
}
