// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is kept for every queue: memory that is as deep as there are queues.

use super::bits::range;
use rust_hdl::prelude::*;

/// Deepest memory that is built from distributed RAM: a block RAM holds no fewer
/// words however few are needed.
const LUT_WORDS: usize = 32;

/// Words of Q queues; a read of a word that is being written returns the new
/// word. An address of L bits names the queue in its upper eight bits and the
/// queue's word in those below, so there are Q (rounded up to a power of two)
/// times 2^(L-8) words. The user keeps the queue below Q.
///
/// Up to 32 words stand in distributed RAM, more in block RAM; the timing is the
/// same.
#[derive(LogicBlock)]
pub struct QueueRam<D: Synth, const Q: usize, const L: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Writes at the next edge.
    pub write_enable: Signal<In, bool>,
    /// Word to write.
    pub write_address: Signal<In, Bits<L>>,
    /// Data to write.
    pub write_data: Signal<In, D>,
    /// Word to read at the next edge.
    pub read_address: Signal<In, Bits<L>>,
    /// Data of the address of one cycle ago.
    pub read_data: Signal<Out, D>,
    _mem: Vec<D>,
}

impl<D: Synth, const Q: usize, const L: usize> Default for QueueRam<D, Q, L> {
    /// # Panics
    /// When Q is not in 2..=256 or L is not in 8..=12.
    fn default() -> Self {
        assert!(
            (2..=256).contains(&Q) && (8..=12).contains(&L),
            "size of a memory of queues"
        );
        Self {
            clock: Default::default(),
            write_enable: Default::default(),
            write_address: Default::default(),
            write_data: Default::default(),
            read_address: Default::default(),
            read_data: Default::default(),
            _mem: vec![D::default(); Q.next_power_of_two() << (L - 8)],
        }
    }
}

impl<D: Synth, const Q: usize, const L: usize> Logic for QueueRam<D, Q, L> {
    fn update(&mut self) {
        let last = self._mem.len() - 1;
        if self.clock.pos_edge() {
            if self.write_enable.val() {
                self._mem[self.write_address.val().index() & last] = self.write_data.val();
            }
            self.read_data.next = self._mem[self.read_address.val().index() & last];
        }
    }
    fn connect(&mut self) {
        self.read_data.connect();
    }
    fn hdl(&self) -> Verilog {
        let words = self._mem.len();
        let range = range(D::BITS);
        let (bits, last, top) = (D::BITS, words - 1, words.trailing_zeros() - 1);
        let ports = format!(
            "\
wire [{top}:0] written = write_address[{top}:0];
wire [{top}:0] wanted = read_address[{top}:0];
wire hit = write_enable && (written == wanted);
always @(posedge clock) begin
  if (write_enable) mem[written] <= write_data;
end
"
        );
        Verilog::Custom(if words <= LUT_WORDS {
            format!(
                "\
(* ram_style = \"distributed\" *) reg {range} mem [0:{last}];
{ports}wire {range} stored = mem[wanted];
initial read_data = {bits}'b0;
always @(posedge clock) begin
  read_data <= hit ? write_data : stored;
end
"
            )
        } else {
            format!(
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
{ports}always @(posedge clock) begin
  word <= mem[wanted];
  forwarded <= write_data;
  forward <= hit;
end
always @(*) read_data = forward ? forwarded : word;
"
            )
        })
    }
}
