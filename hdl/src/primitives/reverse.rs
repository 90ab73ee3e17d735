// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte order.

use super::bits::{place, take};
use rust_hdl::prelude::*;

/// Reverses the order of the W/8 bytes of a word: from byte 0 at the low bits
/// to network order (byte 0 at the high bits), and back.
#[derive(LogicBlock)]
pub struct ByteReverse<const W: usize> {
    /// Input.
    pub data: Signal<In, Bits<W>>,
    /// Output.
    pub out: Signal<Out, Bits<W>>,
}

impl<const W: usize> Default for ByteReverse<W> {
    /// # Panics
    /// When W is not a multiple of 8.
    fn default() -> Self {
        assert!(W.is_multiple_of(8) && W > 0, "width of a byte reversal");
        Self {
            data: Default::default(),
            out: Default::default(),
        }
    }
}

impl<const W: usize> Logic for ByteReverse<W> {
    fn update(&mut self) {
        let data = self.data.val();
        let mut out = Bits::<W>::default();
        for byte in 0..W / 8 {
            out = out | place::<8, W>(take::<W, 8>(data, 8 * byte), W - 8 - 8 * byte);
        }
        self.out.next = out;
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let bytes: Vec<_> = (0..W / 8)
            .map(|byte| format!("data[{}:{}]", 8 * byte + 7, 8 * byte))
            .collect();
        Verilog::Custom(format!("always @(*) out = {{{}}};\n", bytes.join(", ")))
    }
}
