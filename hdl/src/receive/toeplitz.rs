// SPDX-License-Identifier: MIT OR Apache-2.0
//! Toeplitz hash of addresses and ports (Microsoft, "RSS Hashing Functions"),
//! 64 bits of input a cycle.
//!
//! Each set bit of the input, counted from the most significant bit of its
//! first byte, adds (exclusive or) the 32 bits of the key that start at the
//! bit's own number. So the hash of a 64-bit piece at word j is a product of the
//! piece with 95 bits of the key, that is with words j to j+2, and pieces add.
//!
//! The key stands in three copies of a small memory, which are read at j, j+1
//! and j+2; words beyond the key read as anything and meet zeros only.
//!
//! Timing: a request at cycle 0 shows at the outputs at +2.

use crate::prelude::*;

/// See the module.
#[derive(LogicBlock, Default)]
pub struct Toeplitz {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes a word of the key.
    pub key_write: Signal<In, bool>,
    /// Number of the word, 0 to 9.
    pub key_index: Signal<In, Bits<4>>,
    /// Four bytes of the key, the first at bits 7:0.
    pub key_value: Signal<In, Bits<32>>,

    /// Addresses are offered.
    pub l3_valid: Signal<In, bool>,
    /// They are the frame's first.
    pub l3_first: Signal<In, bool>,
    /// Input, first byte at bits 7:0.
    pub l3_data: Signal<In, Bits<64>>,
    /// Word number of the first half; 15 is -1.
    pub l3_word: Signal<In, Bits<4>>,
    /// Ports are offered; never together with addresses.
    pub l4_valid: Signal<In, bool>,
    /// Input, first byte at bits 7:0.
    pub l4_data: Signal<In, Bits<64>>,
    /// Word number of the first half.
    pub l4_word: Signal<In, Bits<4>>,

    /// Hash of the addresses.
    pub l3_hash: Signal<Out, Bits<32>>,
    /// The ports' part: what it adds to the hash.
    pub l4_part: Signal<Out, Bits<32>>,

    key0: LutRam<Bits<32>, 4>,
    key1: LutRam<Bits<32>, 4>,
    key2: LutRam<Bits<32>, 4>,
    swap_key: ByteReverse<32>,
    swap_data: ByteReverse<64>,
    window_pack: Pack3<32, 32, 32, 96>,
    word: Signal<Local, Bits<4>>,
    data: DFF<Bits<64>>,
    window: DFF<Bits<96>>,
    valid3: DFF<bool>,
    first3: DFF<bool>,
    valid4: DFF<bool>,
    rows: PackArray<1, 32, 32>,
    product: Signal<Local, Bits<32>>,
    base: Signal<Local, Bits<32>>,
    hash: DFF<Bits<32>>,
    part: DFF<Bits<32>>,
}

impl Logic for Toeplitz {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, data, window, valid3, first3, valid4, hash, part
        );
        self.key0.clock.next = self.clock.val();
        self.key1.clock.next = self.clock.val();
        self.key2.clock.next = self.clock.val();
        self.swap_key.data.next = self.key_value.val();
        self.key0.write_enable.next = self.key_write.val();
        self.key1.write_enable.next = self.key_write.val();
        self.key2.write_enable.next = self.key_write.val();
        self.key0.write_address.next = self.key_index.val();
        self.key1.write_address.next = self.key_index.val();
        self.key2.write_address.next = self.key_index.val();
        self.key0.write_data.next = self.swap_key.out.val();
        self.key1.write_data.next = self.swap_key.out.val();
        self.key2.write_data.next = self.swap_key.out.val();

        // One product serves both: their requests cannot meet.
        self.word.next = self.l3_word.val();
        self.swap_data.data.next = self.l3_data.val();
        if self.l4_valid.val() {
            self.word.next = self.l4_word.val();
            self.swap_data.data.next = self.l4_data.val();
        }
        self.key0.read_address.next = self.word.val();
        self.key1.read_address.next = self.word.val() + 1;
        self.key2.read_address.next = self.word.val() + 2;
        self.window_pack.i0.next = self.key2.read_data.val();
        self.window_pack.i1.next = self.key1.read_data.val();
        self.window_pack.i2.next = self.key0.read_data.val();
        self.window.d.next = self.window_pack.out.val();
        self.data.d.next = self.swap_data.out.val();
        self.valid3.d.next = self.l3_valid.val();
        self.first3.d.next = self.l3_first.val();
        self.valid4.d.next = self.l4_valid.val();

        // Row b: hash bit b sees key bits b+1.. of the window, whose lowest bit is
        // the one that no row needs.
        for b in 0..32 {
            self.rows.i[b].next =
                ((self.data.q.val() & self.window.q.val().get_bits::<64>(b + 1)).xor()).into();
        }
        self.product.next = self.rows.out.val();
        self.base.next = self.hash.q.val();
        if self.first3.q.val() {
            self.base.next = 0.into();
        }
        if self.valid3.q.val() {
            self.hash.d.next = self.base.val() ^ self.product.val();
        }
        if self.valid4.q.val() {
            self.part.d.next = self.product.val();
        }
        self.l3_hash.next = self.hash.q.val();
        self.l4_part.next = self.part.q.val();
    }
}
