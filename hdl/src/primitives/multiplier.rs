// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pipelined multiplier.

use rust_hdl::prelude::*;
use std::collections::VecDeque;

/// Bits of one hardware multiplier's operands (ECP5: MULT18X18D).
const CHUNK: usize = 18;

/// Unsigned product of A and B bits in P = A + B bits, a new one every cycle,
/// [`LATENCY`](Self::LATENCY) cycles after its operands.
///
/// Operands wider than 18 bits are cut into 18-bit limbs; each pair of limbs is
/// one MULT18X18D between registers, and the partial products are added in a
/// tree with a register per level.
#[derive(LogicBlock)]
pub struct Multiplier<const A: usize, const B: usize, const P: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// First operand.
    pub a: Signal<In, Bits<A>>,
    /// Second operand.
    pub b: Signal<In, Bits<B>>,
    /// The product of the operands of `LATENCY` cycles ago.
    pub product: Signal<Out, Bits<P>>,
    _line: VecDeque<Bits<P>>,
}

impl<const A: usize, const B: usize, const P: usize> Multiplier<A, B, P> {
    /// Hardware multipliers used.
    pub const MULTIPLIERS: usize = A.div_ceil(CHUNK) * B.div_ceil(CHUNK);
    /// Cycles from the operands to their product.
    pub const LATENCY: usize = 2 + clog2(Self::MULTIPLIERS);
}

impl<const A: usize, const B: usize, const P: usize> Default for Multiplier<A, B, P> {
    /// # Panics
    /// When P is not A + B or above 128.
    fn default() -> Self {
        assert!(P == A + B && P <= 128, "widths of a multiplier");
        Self {
            clock: Default::default(),
            a: Default::default(),
            b: Default::default(),
            product: Default::default(),
            _line: vec![Bits::default(); Self::LATENCY].into(),
        }
    }
}

impl<const A: usize, const B: usize, const P: usize> Logic for Multiplier<A, B, P> {
    fn update(&mut self) {
        if self.clock.pos_edge() {
            let product = self.a.val().to_u128() * self.b.val().to_u128();
            self._line.pop_back();
            self._line.push_front(product.to_bits());
        }
        self.product.next = self._line[Self::LATENCY - 1];
    }
    fn connect(&mut self) {
        self.product.connect();
    }
    fn hdl(&self) -> Verilog {
        let limbs = |name: &str, bits: usize| -> (String, String, Vec<(String, usize, usize)>) {
            let mut declare = String::new();
            let mut load = String::new();
            let mut list = Vec::new();
            for n in 0..bits.div_ceil(CHUNK) {
                let low = n * CHUNK;
                let width = CHUNK.min(bits - low);
                let part = if bits == 1 {
                    name.to_string()
                } else {
                    format!("{name}[{}:{low}]", low + width - 1)
                };
                declare += &format!(
                    "reg [{top}:0] {name}{n};\ninitial {name}{n} = {width}'d0;\n",
                    top = width - 1
                );
                load += &format!("  {name}{n} <= {part};\n");
                list.push((format!("{name}{n}"), low, width));
            }
            (declare, load, list)
        };
        let (mut declare, mut clocked, a) = limbs("a", A);
        let (more, load, b) = limbs("b", B);
        declare += &more;
        clocked += &load;
        // Partial products: name, shift, width.
        let mut level: Vec<(String, usize, usize)> = Vec::new();
        for (x, x_low, x_width) in &a {
            for (y, y_low, y_width) in &b {
                let (name, width) = (format!("p_{x}_{y}"), x_width + y_width);
                declare += &format!(
                    "reg [{}:0] {name};\ninitial {name} = {width}'d0;\n",
                    width - 1
                );
                clocked += &format!("  {name} <= {x} * {y};\n");
                level.push((name, x_low + y_low, width));
            }
        }
        level.sort_by_key(|x| x.1);
        let mut depth = 0;
        while level.len() > 1 {
            let mut next = Vec::new();
            for (n, pair) in level.chunks(2).enumerate() {
                let shift = pair[0].1;
                let width = pair.iter().map(|x| x.1 + x.2).max().unwrap_or(1) - shift;
                let width = if pair.len() == 2 {
                    (width + 1).min(P - shift)
                } else {
                    width
                };
                let name = format!("s{depth}_{n}");
                let terms: Vec<_> = pair
                    .iter()
                    .map(|(term, at, bits)| {
                        let mut parts = Vec::new();
                        let pad = width.saturating_sub(at - shift + bits);
                        if pad > 0 {
                            parts.push(format!("{pad}'d0"));
                        }
                        parts.push(term.clone());
                        if at > &shift {
                            parts.push(format!("{}'d0", at - shift));
                        }
                        format!("{{{}}}", parts.join(", "))
                    })
                    .collect();
                declare += &format!(
                    "reg [{}:0] {name};\ninitial {name} = {width}'d0;\n",
                    width - 1
                );
                clocked += &format!("  {name} <= {};\n", terms.join(" + "));
                next.push((name, shift, width));
            }
            level = next;
            depth += 1;
        }
        let (name, _, width) = &level[0];
        let value = if *width < P {
            format!("{{{}'d0, {name}}}", P - width)
        } else {
            name.clone()
        };
        Verilog::Custom(format!(
            "{declare}always @(posedge clock) begin\n{clocked}end\nalways @(*) product = {value};\n"
        ))
    }
}
