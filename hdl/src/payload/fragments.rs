// SPDX-License-Identifier: MIT OR Apache-2.0
//! The store of fragments: 16 for each of 256 contexts.
//!
//! 4,096 words of 82 bits take 21 block RAMs of 18 kbit when a RAM serves 4 bits of
//! every word, its shape of 4,096 words, in which the parity bits are lost. Two
//! halves of 2,048 words by 81 bits take nine each in the shape of 9 bits, and the
//! bit that is left over one.

use crate::fetch::Fragment;
use crate::prelude::*;

/// The store. A read must not hit a write of the same cycle.
#[derive(LogicBlock, Default)]
pub struct Fragments {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes at the next edge.
    pub write_enable: Signal<In, bool>,
    /// Context, and fragment less 1 in the low four bits.
    pub write_address: Signal<In, Bits<12>>,
    /// The fragment.
    pub write_data: Signal<In, Fragment>,
    /// Reads at the next edge.
    pub read_enable: Signal<In, bool>,
    /// Which, like `write_address`.
    pub read_address: Signal<In, Bits<12>>,
    /// Fragment of the last enabled read, from the cycle after it.
    pub read_data: Signal<Out, Fragment>,

    lower: Ram<Bits<81>, 11>,
    upper: Ram<Bits<81>, 11>,
    top: Ram<Bits<1>, 12>,
    from_upper: DFF<Bit>,
    split: Unpack2<17, 1, 18>,
    word_in: Pack2<64, 17, 81>,
    word_out: Unpack2<64, 17, 81>,
    length: Pack2<17, 1, 18>,
}

impl Logic for Fragments {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, from_upper);
        clock!(self, clock, lower, upper, top);
        self.split.data.next = self.write_data.val().length;
        self.word_in.i0.next = self.write_data.val().addr;
        self.word_in.i1.next = self.split.o0.val();
        self.lower.write_enable.next =
            self.write_enable.val() & !self.write_address.val().get_bit(11);
        self.lower.write_address.next = self.write_address.val().get_bits::<11>(0);
        self.lower.write_data.next = self.word_in.out.val();
        self.upper.write_enable.next =
            self.write_enable.val() & self.write_address.val().get_bit(11);
        self.upper.write_address.next = self.write_address.val().get_bits::<11>(0);
        self.upper.write_data.next = self.word_in.out.val();
        self.top.write_enable.next = self.write_enable.val();
        self.top.write_address.next = self.write_address.val();
        self.top.write_data.next = self.split.o1.val();

        self.lower.read_enable.next = self.read_enable.val() & !self.read_address.val().get_bit(11);
        self.lower.read_address.next = self.read_address.val().get_bits::<11>(0);
        self.upper.read_enable.next = self.read_enable.val() & self.read_address.val().get_bit(11);
        self.upper.read_address.next = self.read_address.val().get_bits::<11>(0);
        self.top.read_enable.next = self.read_enable.val();
        self.top.read_address.next = self.read_address.val();
        if self.read_enable.val() {
            self.from_upper.d.next = self.read_address.val().get_bit(11);
        }
        self.word_out.data.next = self.lower.read_data.val();
        if self.from_upper.q.val() {
            self.word_out.data.next = self.upper.read_data.val();
        }
        self.length.i0.next = self.word_out.o1.val();
        self.length.i1.next = self.top.read_data.val();
        self.read_data.next.addr = self.word_out.o0.val();
        self.read_data.next.length = self.length.out.val();
    }
}
