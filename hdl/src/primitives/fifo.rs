// SPDX-License-Identifier: MIT OR Apache-2.0
//! Synchronous FIFO.

use super::bits::{range, zero};
use rust_hdl::prelude::*;
use std::collections::VecDeque;

/// log2 of the most words that are built from distributed RAM.
const LUT_LOG2: usize = 5;

/// First-word-fall-through FIFO of 2^A words, or fewer (see [`Fifo::of`]).
///
/// Up to 32 words stand in distributed RAM: `read_data` is an
/// asynchronous read, and a word can be read in the cycle after its write.
/// Above, they stand in block RAM, whose output register is one more place: a
/// word can be read two cycles after its write. `write_ready` and `almost_full`
/// depend on registers only.
#[derive(LogicBlock)]
pub struct Fifo<D: Synth, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Empties the FIFO at the next edge; a word offered in that cycle is lost.
    pub flush: Signal<In, bool>,
    /// A word is offered.
    pub write_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub write_ready: Signal<Out, bool>,
    /// Word offered.
    pub write_data: Signal<In, D>,
    /// A word is there.
    pub read_valid: Signal<Out, bool>,
    /// It is taken if valid.
    pub read_ready: Signal<In, bool>,
    /// The word; meaningless while not valid.
    pub read_data: Signal<Out, D>,
    /// At most `margin` more words fit for sure.
    pub almost_full: Signal<Out, bool>,
    /// No word is inside.
    pub empty: Signal<Out, bool>,
    _log2: usize,
    _margin: usize,
    _mem: VecDeque<D>,
    _cells: Vec<D>,
    _write: usize,
    _read: usize,
    _word: D,
    _valid: bool,
}

impl<D: Synth, const A: usize> Default for Fifo<D, A> {
    /// A FIFO whose `almost_full` is its being full.
    fn default() -> Self {
        Self::new(0)
    }
}

impl<D: Synth, const A: usize> Fifo<D, A> {
    /// A FIFO that is almost full when at most `margin` words are free.
    ///
    /// # Panics
    /// When A is 0 or above 20, or the margin is not below 2^A.
    pub fn new(margin: usize) -> Self {
        Self::sized(A, margin)
    }

    /// A FIFO of `words` words, rounded up to a power of two: for a number that the
    /// type cannot say.
    ///
    /// # Panics
    /// When `words` is below 2 or above 2^A.
    pub fn of(words: usize) -> Self {
        Self::sized(words.next_power_of_two().trailing_zeros() as usize, 0)
    }

    fn sized(log2: usize, margin: usize) -> Self {
        assert!(
            A <= 20 && (1..=A).contains(&log2) && margin < 1 << log2,
            "size of a FIFO"
        );
        Self {
            clock: Default::default(),
            flush: Default::default(),
            write_valid: Default::default(),
            write_ready: Default::default(),
            write_data: Default::default(),
            read_valid: Default::default(),
            read_ready: Default::default(),
            read_data: Default::default(),
            almost_full: Default::default(),
            empty: Default::default(),
            _log2: log2,
            _margin: margin,
            _mem: VecDeque::new(),
            _cells: vec![D::default(); if log2 <= LUT_LOG2 { 1 << log2 } else { 0 }],
            _write: 0,
            _read: 0,
            _word: D::default(),
            _valid: false,
        }
    }

    fn lut_edge(&mut self) {
        let push = self.write_valid.val() && self._mem.len() < 1 << self._log2;
        let pop = self.read_ready.val() && !self._mem.is_empty();
        if push {
            self._cells[self._write] = self.write_data.val();
        }
        if self.flush.val() {
            self._mem.clear();
            (self._write, self._read) = (0, 0);
            return;
        }
        if pop {
            self._mem.pop_front();
            self._read = (self._read + 1) % (1 << self._log2);
        }
        if push {
            self._mem.push_back(self.write_data.val());
            self._write = (self._write + 1) % (1 << self._log2);
        }
    }

    fn block_edge(&mut self) {
        let push = self.write_valid.val() && self._mem.len() < 1 << self._log2;
        let space = !self._valid || self.read_ready.val();
        if space {
            if let Some(word) = self._mem.pop_front() {
                self._word = word;
                self._valid = true;
            } else {
                self._valid = false;
            }
        }
        if push {
            self._mem.push_back(self.write_data.val());
        }
        if self.flush.val() {
            self._mem.clear();
            self._valid = false;
        }
    }
}

impl<D: Synth, const A: usize> Logic for Fifo<D, A> {
    fn update(&mut self) {
        let edge = self.clock.pos_edge();
        if self._log2 <= LUT_LOG2 {
            if edge {
                self.lut_edge();
            }
            self.read_valid.next = !self._mem.is_empty();
            self.read_data.next = self._cells[self._read];
            self.empty.next = self._mem.is_empty();
        } else {
            if edge {
                self.block_edge();
            }
            self.read_valid.next = self._valid;
            self.read_data.next = self._word;
            self.empty.next = self._mem.is_empty() && !self._valid;
        }
        self.write_ready.next = self._mem.len() < 1 << self._log2;
        self.almost_full.next = self._mem.len() + self._margin >= 1 << self._log2;
    }
    fn connect(&mut self) {
        self.write_ready.connect();
        self.read_valid.connect();
        self.read_data.connect();
        self.almost_full.connect();
        self.empty.connect();
    }
    fn hdl(&self) -> Verilog {
        let log2 = self._log2;
        let range = range(D::BITS);
        let depth = 1usize << log2;
        let pointer = if log2 == 1 {
            String::new()
        } else {
            format!("[{}:0]", log2 - 1)
        };
        let count_bits = log2 + 1;
        let threshold = depth - self._margin;
        let style = if log2 <= LUT_LOG2 {
            "ram_style = \"distributed\""
        } else {
            "no_rw_check"
        };
        let storage = format!(
            "\
(* {style} *) reg {range} mem [0:{last}];
reg {pointer} write_pointer;
reg {pointer} read_pointer;
reg [{log2}:0] count;
initial begin
  write_pointer = {log2}'d0;
  read_pointer = {log2}'d0;
  count = {count_bits}'d0;
end
wire stored = (count != {count_bits}'d0);
wire push = write_valid & ~count[{log2}];
always @(posedge clock) begin
  if (push) mem[write_pointer] <= write_data;
end
always @(posedge clock) begin
  if (flush) begin
    write_pointer <= {log2}'d0;
    read_pointer <= {log2}'d0;
    count <= {count_bits}'d0;
  end else begin
    if (push) write_pointer <= write_pointer + {log2}'d1;
    if (pop) read_pointer <= read_pointer + {log2}'d1;
    if (push & ~pop) count <= count + {count_bits}'d1;
    else if (pop & ~push) count <= count - {count_bits}'d1;
  end
end
",
            last = depth - 1
        );
        let code = if log2 <= LUT_LOG2 {
            format!(
                "\
wire pop;
{storage}
wire {range} head = mem[read_pointer];
assign pop = read_ready & stored;
always @(*) begin
  read_valid = stored;
  read_data = head;
  empty = ~stored;
end
"
            )
        } else {
            format!(
                "\
wire pop;
{storage}
reg {range} word;
reg word_valid;
initial begin
  word = {zero};
  word_valid = 1'b0;
end
wire space = ~word_valid | read_ready;
assign pop = space & stored;
always @(posedge clock) begin
  if (pop) word <= mem[read_pointer];
end
always @(posedge clock) begin
  if (flush) word_valid <= 1'b0;
  else if (space) word_valid <= stored;
end
always @(*) begin
  read_valid = word_valid;
  read_data = word;
  empty = ~stored & ~word_valid;
end
",
                zero = zero(D::BITS)
            )
        };
        Verilog::Custom(format!(
            "{code}always @(*) begin
  write_ready = ~count[{log2}];
  almost_full = (count >= {count_bits}'d{threshold});
end
"
        ))
    }
}
