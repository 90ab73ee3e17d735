// SPDX-License-Identifier: MIT OR Apache-2.0
//! The counters of the global block.
//!
//! Totals of 64 bits stand in distributed RAM, which has one adder. It comes to each
//! of 16 places in turn and adds what the place's counter counted since. So a total
//! is up to date 18 cycles after the last event.

use super::Recent;
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

    // 16 cycles of events fit.
    frames_out: Recent<1, 5>,
    bytes_out: Recent<17, 21>,
    bursts_out: Recent<1, 5>,
    errors_out: Recent<1, 5>,
    bells_refused: Recent<2, 6>,
    frames_in: Recent<1, 5>,
    bytes_in: Recent<16, 20>,
    no_buffer_in: Recent<1, 5>,
    errors_in: Recent<1, 5>,
    csum_errors_in: Recent<1, 5>,
    totals: LutRam2<Bits<64>, 4>,
    wiped: DFF<Bits<5>>,
    ready: Signal<Local, bool>,
    place: DFF<Bits<4>>,
    place_hot: OneHot<4, 16>,
    recent: Signal<Local, Bits<21>>,
    // One cycle later: what is added to what, and where.
    old: DFF<Bits<64>>,
    gain: DFF<Bits<21>>,
    gain_wide: Zext<21, 64>,
    written: DFF<Bits<4>>,
    refusals: Signal<Local, Bits<2>>,
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
        dff_setup!(self, clock, wiped, place, old, gain, written);
        clock!(self, clock, totals);
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
        // After a clear, and at power-up, a round writes zeros.
        self.ready.next = self.wiped.q.val().get_bit(4);
        if self.clear.val() {
            self.wiped.d.next = 0.into();
        } else if !self.ready.val() {
            self.wiped.d.next = self.wiped.q.val() + 1;
        }

        // The place whose turn it is.
        self.place.d.next = self.place.q.val() + 1;
        self.place_hot.index.next = self.place.q.val();
        self.place_hot.enable.next = self.ready.val();
        self.frames_out.take.next = self.place_hot.out.val().get_bit(0);
        self.bytes_out.take.next = self.place_hot.out.val().get_bit(1);
        self.bursts_out.take.next = self.place_hot.out.val().get_bit(2);
        self.errors_out.take.next = self.place_hot.out.val().get_bit(3);
        self.bells_refused.take.next = self.place_hot.out.val().get_bit(4);
        self.frames_in.take.next = self.place_hot.out.val().get_bit(8);
        self.bytes_in.take.next = self.place_hot.out.val().get_bit(9);
        self.no_buffer_in.take.next = self.place_hot.out.val().get_bit(10);
        self.errors_in.take.next = self.place_hot.out.val().get_bit(11);
        self.csum_errors_in.take.next = self.place_hot.out.val().get_bit(12);
        self.recent.next = 0.into();
        if self.place.q.val() == 0 {
            self.recent.next = self.frames_out.sum.val();
        } else if self.place.q.val() == 1 {
            self.recent.next = self.bytes_out.sum.val();
        } else if self.place.q.val() == 2 {
            self.recent.next = self.bursts_out.sum.val();
        } else if self.place.q.val() == 3 {
            self.recent.next = self.errors_out.sum.val();
        } else if self.place.q.val() == 4 {
            self.recent.next = self.bells_refused.sum.val();
        } else if self.place.q.val() == 8 {
            self.recent.next = self.frames_in.sum.val();
        } else if self.place.q.val() == 9 {
            self.recent.next = self.bytes_in.sum.val();
        } else if self.place.q.val() == 10 {
            self.recent.next = self.no_buffer_in.sum.val();
        } else if self.place.q.val() == 11 {
            self.recent.next = self.errors_in.sum.val();
        } else if self.place.q.val() == 12 {
            self.recent.next = self.csum_errors_in.sum.val();
        }
        self.totals.read_address0.next = self.place.q.val();
        self.written.d.next = self.place.q.val();
        self.old.d.next = 0.into();
        self.gain.d.next = 0.into();
        if self.ready.val() {
            self.old.d.next = self.totals.read_data0.val();
            self.gain.d.next = self.recent.val();
        }
        self.gain_wide.data.next = self.gain.q.val();
        self.totals.write_enable.next = true;
        self.totals.write_address.next = self.written.q.val();
        self.totals.write_data.next = self.old.q.val() + self.gain_wide.out.val();

        self.totals.read_address1.next = self.offset.val().get_bits::<4>(3);
        self.read_value.next = self.totals.read_data1.val().get_bits::<32>(0);
        if self.offset.val().get_bit(2) {
            self.read_value.next = self.totals.read_data1.val().get_bits::<32>(32);
        }
    }
}
