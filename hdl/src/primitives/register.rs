// SPDX-License-Identifier: MIT OR Apache-2.0
//! Registers.

use super::bits::{range, zero};
use rust_hdl::prelude::*;

/// Register with enable, synchronous reset (which wins over enable) and a
/// value that it has after reset and at power-up.
#[derive(LogicBlock, Default)]
pub struct Reg<D: Synth> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Takes the reset value at the next edge.
    pub reset: Signal<In, bool>,
    /// Takes `d` at the next edge.
    pub enable: Signal<In, bool>,
    /// Next value.
    pub d: Signal<In, D>,
    /// Value.
    pub q: Signal<Out, D>,
    _reset_value: D,
}

impl<D: Synth> Reg<D> {
    /// A register that resets to `value`.
    pub fn new(value: D) -> Self {
        Self {
            q: Signal::<Out, D>::new_with_default(value),
            _reset_value: value,
            ..Default::default()
        }
    }
}

impl<D: Synth> Logic for Reg<D> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            if self.reset.val() {
                self.q.next = self._reset_value;
            } else if self.enable.val() {
                self.q.next = self.d.val();
            }
        }
    }
    fn connect(&mut self) {
        self.q.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "initial q = {value:x};\n\
             always @(posedge clock) begin\n\
             \x20 if (reset) q <= {value:x};\n\
             \x20 else if (enable) q <= d;\n\
             end\n",
            value = self._reset_value.verilog()
        ))
    }
}

/// N registers in a row; all move when `enable` is high.
#[derive(LogicBlock)]
pub struct Delay<D: Synth, const N: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Moves every register by one at the next edge.
    pub enable: Signal<In, bool>,
    /// Input.
    pub d: Signal<In, D>,
    /// The input of N enabled cycles ago.
    pub q: Signal<Out, D>,
    _line: [D; N],
}

impl<D: Synth, const N: usize> Default for Delay<D, N> {
    /// # Panics
    /// When N is 0.
    fn default() -> Self {
        assert!(N > 0, "length of a delay");
        Self {
            clock: Default::default(),
            enable: Default::default(),
            d: Default::default(),
            q: Default::default(),
            _line: [D::default(); N],
        }
    }
}

impl<D: Synth, const N: usize> Logic for Delay<D, N> {
    fn update(&mut self) {
        if self.clock.pos_edge() && self.enable.val() {
            self._line.rotate_right(1);
            self._line[0] = self.d.val();
        }
        self.q.next = self._line[N - 1];
    }
    fn connect(&mut self) {
        self.q.connect();
    }
    fn hdl(&self) -> Verilog {
        let range = range(D::BITS);
        let zero = zero(D::BITS);
        let mut code = String::new();
        for n in 0..N {
            code += &format!("reg {range} line{n};\ninitial line{n} = {zero};\n");
        }
        code += "always @(posedge clock) begin\n  if (enable) begin\n    line0 <= d;\n";
        for n in 1..N {
            code += &format!("    line{n} <= line{};\n", n - 1);
        }
        code += &format!("  end\nend\nalways @(*) q = line{};\n", N - 1);
        Verilog::Custom(code)
    }
}
