// SPDX-License-Identifier: MIT OR Apache-2.0
//! Distributed RAM whose number of words is a value, so that an array of equal
//! blocks can hold memories of different sizes.

use super::bits::range;
use rust_hdl::prelude::*;

/// [`LutRam`](super::LutRam) of `words` words behind addresses of A bits; the
/// user keeps every address below `words`.
#[derive(LogicBlock)]
pub struct SizedLutRam<D: Synth, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes at the next edge.
    pub write_enable: Signal<In, bool>,
    /// Word to write.
    pub write_address: Signal<In, Bits<A>>,
    /// Data to write.
    pub write_data: Signal<In, D>,
    /// Word to read.
    pub read_address: Signal<In, Bits<A>>,
    /// Its data, in the same cycle; a write shows in the cycle after it.
    pub read_data: Signal<Out, D>,
    _mem: Vec<D>,
}

impl<D: Synth, const A: usize> SizedLutRam<D, A> {
    /// A memory of 2^`bits` words.
    ///
    /// # Panics
    /// When `bits` is 0 or above A.
    pub fn new(bits: usize) -> Self {
        assert!(bits > 0 && bits <= A, "size of a memory");
        Self {
            clock: Default::default(),
            write_enable: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            _mem: vec![D::default(); 1 << bits],
        }
    }
}

impl<D: Synth, const A: usize> Logic for SizedLutRam<D, A> {
    fn update(&mut self) {
        let last = self._mem.len() - 1;
        if self.clock.pos_edge() && self.write_enable.val() {
            self._mem[self.write_address.val().index() & last] = self.write_data.val();
        }
        self.read_data.next = self._mem[self.read_address.val().index() & last];
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        let last = self._mem.len() - 1;
        let range = range(D::BITS);
        let select = |name: &str| {
            if A == 1 {
                name.to_string()
            } else {
                format!("{name}[{}:0]", last.count_ones() - 1)
            }
        };
        Verilog::Custom(format!(
            "\
(* ram_style = \"distributed\" *) reg {range} mem [0:{last}];
always @(posedge clock) begin
  if (write_enable) mem[{write}] <= write_data;
end
wire {range} word = mem[{read}];
always @(*) read_data = word;
",
            write = select("write_address"),
            read = select("read_address"),
        ))
    }
}
