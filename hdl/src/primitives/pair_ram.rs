// SPDX-License-Identifier: MIT OR Apache-2.0
//! Block RAM that is deeper rather than wider.

use super::bits::range;
use rust_hdl::prelude::*;

/// Simple dual-port memory of 2^A pairs of words in block RAM, one word of a pair a
/// cycle: a state that is read and written over two cycles takes half the block RAMs
/// as long as it is shallow. Otherwise as [`Ram`](super::Ram): a read must not hit a
/// write of the same word in the same cycle, and `read_data` holds while
/// `read_enable` is low.
#[derive(LogicBlock)]
pub struct PairRam<D: Synth, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes at the next edge.
    pub write_enable: Signal<In, bool>,
    /// Pair to write.
    pub write_address: Signal<In, Bits<A>>,
    /// Its second word, not its first.
    pub write_second: Signal<In, bool>,
    /// Data to write.
    pub write_data: Signal<In, D>,
    /// Reads at the next edge.
    pub read_enable: Signal<In, bool>,
    /// Pair to read.
    pub read_address: Signal<In, Bits<A>>,
    /// Its second word, not its first.
    pub read_second: Signal<In, bool>,
    /// Data read by the last enabled read, from the cycle after it.
    pub read_data: Signal<Out, D>,
    _mem: Vec<D>,
}

impl<D: Synth, const A: usize> Default for PairRam<D, A> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            write_enable: Default::default(),
            write_address: Default::default(),
            write_second: Default::default(),
            write_data: Default::default(),
            read_enable: Default::default(),
            read_address: Default::default(),
            read_second: Default::default(),
            read_data: Default::default(),
            _mem: vec![D::default(); 2 << A],
        }
    }
}

impl<D: Synth, const A: usize> Logic for PairRam<D, A> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let (write, read) = (self.write_enable.val(), self.read_enable.val());
            let place = |pair: Bits<A>, second: bool| pair.index() | usize::from(second) << A;
            let written = place(self.write_address.val(), self.write_second.val());
            let wanted = place(self.read_address.val(), self.read_second.val());
            assert!(
                !(write && read && written == wanted),
                "PairRam: a read hits the write of word {written} in the same cycle"
            );
            if read {
                self.read_data.next = self._mem[wanted];
            }
            if write {
                self._mem[written] = self.write_data.val();
            }
        }
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "\
(* no_rw_check *) reg {range} mem [0:{last}];
initial read_data = {bits}'b0;
wire [{A}:0] written = {{write_second, write_address}};
wire [{A}:0] wanted = {{read_second, read_address}};
always @(posedge clock) begin
  if (write_enable) mem[written] <= write_data;
end
always @(posedge clock) begin
  if (read_enable) begin
`ifdef VERILATOR
    read_data <= (write_enable && (written == wanted)) ? ~mem[wanted] : mem[wanted];
`else
    read_data <= mem[wanted];
`endif
  end
end
",
            range = range(D::BITS),
            bits = D::BITS,
            last = (2usize << A) - 1
        ))
    }
}
