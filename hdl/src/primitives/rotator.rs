// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barrel rotator of bytes.

use super::bits::{place, take};
use rust_hdl::prelude::*;

/// Rotates W/8 bytes (a power of two) by `amount` bytes, combinationally.
/// Right: byte i of the output is byte (i + amount) mod W/8 of the input, which
/// brings byte `amount` down to byte 0. S = log2(W/8).
#[derive(LogicBlock)]
pub struct Rotator<const W: usize, const S: usize> {
    /// Input.
    pub data: Signal<In, Bits<W>>,
    /// Bytes to rotate by.
    pub amount: Signal<In, Bits<S>>,
    /// Output.
    pub out: Signal<Out, Bits<W>>,
    _left: bool,
}

impl<const W: usize, const S: usize> Default for Rotator<W, S> {
    /// Rotates right.
    fn default() -> Self {
        Self::right()
    }
}

impl<const W: usize, const S: usize> Rotator<W, S> {
    fn new(left: bool) -> Self {
        assert!(W == 8 << S && S > 0, "widths of a rotator");
        Self {
            data: Default::default(),
            amount: Default::default(),
            out: Default::default(),
            _left: left,
        }
    }

    /// Rotates towards byte 0.
    ///
    /// # Panics
    /// When W is not 8 x 2^S.
    pub fn right() -> Self {
        Self::new(false)
    }

    /// Rotates away from byte 0.
    ///
    /// # Panics
    /// When W is not 8 x 2^S.
    pub fn left() -> Self {
        Self::new(true)
    }
}

impl<const W: usize, const S: usize> Logic for Rotator<W, S> {
    fn update(&mut self) {
        let data = self.data.val();
        let bytes = self.amount.val().index();
        let right = if self._left {
            (W / 8 - bytes) % (W / 8)
        } else {
            bytes
        };
        self.out.next = if right == 0 {
            data
        } else {
            take::<W, W>(data, 8 * right) | place::<W, W>(data, W - 8 * right)
        };
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let mut code = format!("wire [{}:0] stage0 = data;\n", W - 1);
        for s in 0..S {
            let bits = 8 << s;
            let cut = if self._left { W - bits } else { bits };
            code += &format!(
                "wire [{top}:0] stage{next} = amount{bit} ? {{stage{s}[{low}:0], stage{s}[{top}:{cut}]}} : stage{s};\n",
                top = W - 1,
                next = s + 1,
                bit = if S == 1 {
                    String::new()
                } else {
                    format!("[{s}]")
                },
                low = cut - 1,
            );
        }
        code += &format!("always @(*) out = stage{S};\n");
        Verilog::Custom(code)
    }
}
