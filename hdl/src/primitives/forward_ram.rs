// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory whose read may hit a write of the same cycle.

use rust_hdl::prelude::*;

/// Simple dual-port block RAM of 2^A words like [`super::Ram`], whose read of a
/// word that is being written returns the new word.
#[derive(LogicBlock)]
pub struct ForwardRam<D: Synth, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes at the next edge.
    pub write_enable: Signal<In, bool>,
    /// Word to write.
    pub write_address: Signal<In, Bits<A>>,
    /// Data to write.
    pub write_data: Signal<In, D>,
    /// Word to read at the next edge.
    pub read_address: Signal<In, Bits<A>>,
    /// Data of the address of one cycle ago.
    pub read_data: Signal<Out, D>,
    _mem: Vec<D>,
}

impl<D: Synth, const A: usize> Default for ForwardRam<D, A> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            write_enable: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            _mem: vec![D::default(); 1 << A],
        }
    }
}

impl<D: Synth, const A: usize> Logic for ForwardRam<D, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            if self.write_enable.val() {
                self._mem[self.write_address.val().index()] = self.write_data.val();
            }
            self.read_data.next = self._mem[self.read_address.val().index()];
        }
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        let range = super::bits::range(D::BITS);
        let bits = D::BITS;
        Verilog::Custom(format!(
            "\
(* no_rw_check *) reg {range} mem [0:{last}];
reg {range} word;
reg {range} forwarded;
reg forward;
initial begin
  word = {bits}'b0;
  forwarded = {bits}'b0;
  forward = 1'b0;
end
always @(posedge clock) begin
  if (write_enable) mem[write_address] <= write_data;
end
always @(posedge clock) begin
  word <= mem[read_address];
  forwarded <= write_data;
  forward <= write_enable && (write_address == read_address);
end
always @(*) read_data = forward ? forwarded : word;
",
            last = (1usize << A) - 1
        ))
    }
}
