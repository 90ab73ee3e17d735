// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bits above an index.

use rust_hdl::prelude::*;

/// Bit i of N is set when i is above `index`; L is log2 N rounded up or more.
#[derive(LogicBlock, Default)]
pub struct Above<const N: usize, const L: usize> {
    /// Index.
    pub index: Signal<In, Bits<L>>,
    /// Bits above it.
    pub out: Signal<Out, Bits<N>>,
}

impl<const N: usize, const L: usize> Logic for Above<N, L> {
    fn update(&mut self) {
        let index = self.index.val().index();
        let mut out = Bits::<N>::default();
        for i in index + 1..N {
            out = out.replace_bit(i, true);
        }
        self.out.next = out;
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let bits: Vec<_> = (0..N)
            .rev()
            .map(|i| format!("({L}'d{i} > index)"))
            .collect();
        Verilog::Custom(format!("always @(*) out = {{{}}};\n", bits.join(", ")))
    }
}
