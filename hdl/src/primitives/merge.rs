// SPDX-License-Identifier: MIT OR Apache-2.0
//! Choice between two words byte by byte.

use rust_hdl::prelude::*;

/// Byte i of `out` is that of `a` where bit i of `take_a` is set, else that of
/// `b`. Combinational; W = 8 B.
#[derive(LogicBlock)]
pub struct ByteMerge<const B: usize, const W: usize> {
    /// Bytes to take from `a`.
    pub take_a: Signal<In, Bits<B>>,
    /// A word.
    pub a: Signal<In, Bits<W>>,
    /// Another.
    pub b: Signal<In, Bits<W>>,
    /// The mixture.
    pub out: Signal<Out, Bits<W>>,
}

impl<const B: usize, const W: usize> Default for ByteMerge<B, W> {
    /// # Panics
    /// When W is not 8 B.
    fn default() -> Self {
        assert!(W == 8 * B && B > 1, "widths of a merge");
        Self {
            take_a: Default::default(),
            a: Default::default(),
            b: Default::default(),
            out: Default::default(),
        }
    }
}

impl<const B: usize, const W: usize> Logic for ByteMerge<B, W> {
    fn update(&mut self) {
        let (take_a, a) = (self.take_a.val(), self.a.val());
        let mut out = self.b.val();
        for byte in 0..B {
            if take_a.get_bit(byte) {
                out.set_bits::<8>(8 * byte, a.get_bits::<8>(8 * byte));
            }
        }
        self.out.next = out;
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let bytes: Vec<_> = (0..B)
            .rev()
            .map(|n| {
                let (high, low) = (8 * n + 7, 8 * n);
                format!("take_a[{n}] ? a[{high}:{low}] : b[{high}:{low}]")
            })
            .collect();
        Verilog::Custom(format!("always @(*) out = {{{}}};\n", bytes.join(", ")))
    }
}
