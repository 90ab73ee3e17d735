// SPDX-License-Identifier: MIT OR Apache-2.0
//! A row of bits that are set and cleared one at a time.

use super::bits::range;
use rust_hdl::prelude::*;

/// N flags in registers: one is set and one is cleared a cycle (setting wins
/// when both name the same flag), two are read, and all stand at `bits`. An index
/// of N or more changes nothing and reads as low. L is log2 N rounded up or more.
#[derive(LogicBlock)]
pub struct Flags<const N: usize, const L: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Clears every flag at the next edge, whatever else is asked for.
    pub reset: Signal<In, bool>,
    /// Sets flag `set_index` at the next edge.
    pub set: Signal<In, bool>,
    /// Flag to set.
    pub set_index: Signal<In, Bits<L>>,
    /// Clears flag `clear_index` at the next edge.
    pub clear: Signal<In, bool>,
    /// Flag to clear.
    pub clear_index: Signal<In, Bits<L>>,
    /// Flag to read.
    pub read_index0: Signal<In, Bits<L>>,
    /// Its value, in the same cycle.
    pub read0: Signal<Out, bool>,
    /// Another flag to read.
    pub read_index1: Signal<In, Bits<L>>,
    /// Its value, in the same cycle.
    pub read1: Signal<Out, bool>,
    /// All flags.
    pub bits: Signal<Out, Bits<N>>,
    _flags: Vec<bool>,
}

impl<const N: usize, const L: usize> Default for Flags<N, L> {
    /// # Panics
    /// When N is below 2 or L bits do not hold an index.
    fn default() -> Self {
        assert!(N > 1 && L >= clog2(N) && L < 16, "widths of flags");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            set: Default::default(),
            set_index: Default::default(),
            clear: Default::default(),
            clear_index: Default::default(),
            read_index0: Default::default(),
            read0: Default::default(),
            read_index1: Default::default(),
            read1: Default::default(),
            bits: Default::default(),
            _flags: vec![false; N],
        }
    }
}

impl<const N: usize, const L: usize> Logic for Flags<N, L> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            if self.clear.val()
                && let Some(flag) = self._flags.get_mut(self.clear_index.val().index())
            {
                *flag = false;
            }
            if self.set.val()
                && let Some(flag) = self._flags.get_mut(self.set_index.val().index())
            {
                *flag = true;
            }
            if self.reset.val() {
                self._flags.fill(false);
            }
            let mut bits = Bits::<N>::default();
            for (i, flag) in self._flags.iter().enumerate() {
                if *flag {
                    bits = bits.replace_bit(i, true);
                }
            }
            self.bits.next = bits;
        }
        let read = |index: usize| self._flags.get(index).copied().unwrap_or(false);
        self.read0.next = read(self.read_index0.val().index());
        self.read1.next = read(self.read_index1.val().index());
    }
    fn connect(&mut self) {
        self.read0.connect();
        self.read1.connect();
        self.bits.connect();
    }
    fn hdl(&self) -> Verilog {
        let mut code = format!("initial bits = {N}'b0;\nalways @(posedge clock) begin\n");
        for i in 0..N {
            code += &format!(
                "  if (reset) bits[{i}] <= 1'b0;\n\
                 \x20 else if (set && (set_index == {L}'d{i})) bits[{i}] <= 1'b1;\n\
                 \x20 else if (clear && (clear_index == {L}'d{i})) bits[{i}] <= 1'b0;\n"
            );
        }
        code += "end\n";
        // A power of two of bits, so that no index leaves the vector.
        let full = 1usize << L;
        let pad = if full > N {
            format!("{{{}'b0, bits}}", full - N)
        } else {
            "bits".into()
        };
        code += &format!(
            "wire {} every = {pad};\nalways @(*) begin\n  read0 = every[read_index0];\n  read1 = every[read_index1];\nend\n",
            range(full)
        );
        Verilog::Custom(code)
    }
}
