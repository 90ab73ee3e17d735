// SPDX-License-Identifier: MIT OR Apache-2.0
//! Skid buffer.

use super::bits::{range, zero};
use rust_hdl::prelude::*;

/// Two-word buffer of a valid/ready stream; data, valid and ready come straight
/// from registers, so a path is cut in both directions. Full throughput.
#[derive(LogicBlock, Default)]
pub struct Skid<D: Synth> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Empties the buffer at the next edge; a word offered in that cycle is lost.
    pub flush: Signal<In, bool>,
    /// A word is offered.
    pub in_valid: Signal<In, bool>,
    /// The word is taken if valid.
    pub in_ready: Signal<Out, bool>,
    /// Word offered.
    pub in_data: Signal<In, D>,
    /// A word is there.
    pub out_valid: Signal<Out, bool>,
    /// It is taken if valid.
    pub out_ready: Signal<In, bool>,
    /// The word.
    pub out_data: Signal<Out, D>,
    _valid: bool,
    _word: D,
    _skid_valid: bool,
    _skid: D,
}

impl<D: Synth> Logic for Skid<D> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let push = self.in_valid.val() && !self._skid_valid;
            let space = !self._valid || self.out_ready.val();
            if self.flush.val() {
                self._valid = false;
                self._skid_valid = false;
            } else if space {
                self._word = if self._skid_valid {
                    self._skid
                } else {
                    self.in_data.val()
                };
                self._valid = self._skid_valid || push;
                self._skid_valid = false;
            } else if push {
                self._skid = self.in_data.val();
                self._skid_valid = true;
            }
        }
        self.in_ready.next = !self._skid_valid;
        self.out_valid.next = self._valid;
        self.out_data.next = self._word;
    }
    fn connect(&mut self) {
        self.in_ready.connect();
        self.out_valid.connect();
        self.out_data.connect();
    }
    fn hdl(&self) -> Verilog {
        Verilog::Custom(format!(
            "\
reg word_valid;
reg skid_valid;
reg {range} word;
reg {range} skid;
initial begin
  word_valid = 1'b0;
  skid_valid = 1'b0;
  word = {zero};
  skid = {zero};
end
wire push = in_valid & ~skid_valid;
wire space = ~word_valid | out_ready;
always @(posedge clock) begin
  if (flush) begin
    word_valid <= 1'b0;
    skid_valid <= 1'b0;
  end else if (space) begin
    word <= skid_valid ? skid : in_data;
    word_valid <= skid_valid | push;
    skid_valid <= 1'b0;
  end else if (push) begin
    skid <= in_data;
    skid_valid <= 1'b1;
  end
end
always @(*) begin
  in_ready = ~skid_valid;
  out_valid = word_valid;
  out_data = word;
end
",
            range = range(D::BITS),
            zero = zero(D::BITS)
        ))
    }
}
