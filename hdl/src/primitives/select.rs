// SPDX-License-Identifier: MIT OR Apache-2.0
//! Selection by a varying index, and masking of a beat's bytes.

use super::bits::take;
use rust_hdl::prelude::*;

/// Word `index` of W bits out of T; zero when `index` is past the last word.
/// T is a multiple of W.
#[derive(LogicBlock)]
pub struct Select<const T: usize, const W: usize, const L: usize> {
    /// Words, word 0 at the low bits.
    pub data: Signal<In, Bits<T>>,
    /// Index of the word.
    pub index: Signal<In, Bits<L>>,
    /// The word.
    pub out: Signal<Out, Bits<W>>,
}

impl<const T: usize, const W: usize, const L: usize> Default for Select<T, W, L> {
    /// # Panics
    /// When T is not a multiple of W.
    fn default() -> Self {
        assert!(T.is_multiple_of(W) && L <= 16, "widths of a select");
        Self {
            data: Default::default(),
            index: Default::default(),
            out: Default::default(),
        }
    }
}

impl<const T: usize, const W: usize, const L: usize> Logic for Select<T, W, L> {
    fn update(&mut self) {
        let n = self.index.val().index();
        self.out.next = if n < T / W {
            take::<T, W>(self.data.val(), n * W)
        } else {
            0.into()
        };
    }
    fn connect(&mut self) {
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        if T == W {
            return Verilog::Custom(format!(
                "always @(*) out = (index == {L}'d0) ? data : {W}'b0;\n"
            ));
        }
        let mut code = String::from("always @(*) begin\n  case (index)\n");
        for n in 0..(T / W).min(1 << L) {
            code += &format!("    {L}'d{n}: out = data[{}:{}];\n", n * W + W - 1, n * W);
        }
        code += &format!("    default: out = {W}'b0;\n  endcase\nend\n");
        Verilog::Custom(code)
    }
}

/// `count` valid bytes (0..=B, more counts as B) to byte enables, and the data
/// with the bytes that are not valid cleared. W = 8 B.
#[derive(LogicBlock)]
pub struct ByteMask<const C: usize, const B: usize, const W: usize> {
    /// Number of valid bytes, from byte 0 on.
    pub count: Signal<In, Bits<C>>,
    /// Data to mask.
    pub data: Signal<In, Bits<W>>,
    /// Byte enables.
    pub strobe: Signal<Out, Bits<B>>,
    /// Masked data.
    pub out: Signal<Out, Bits<W>>,
}

impl<const C: usize, const B: usize, const W: usize> Default for ByteMask<C, B, W> {
    /// # Panics
    /// When W is not 8 B.
    fn default() -> Self {
        assert!(W == 8 * B && C <= 16, "widths of a byte mask");
        Self {
            count: Default::default(),
            data: Default::default(),
            strobe: Default::default(),
            out: Default::default(),
        }
    }
}

impl<const C: usize, const B: usize, const W: usize> Logic for ByteMask<C, B, W> {
    fn update(&mut self) {
        let n = self.count.val().index();
        let mut strobe = Bits::<B>::default();
        let mut out = self.data.val();
        for byte in 0..B {
            if byte < n {
                strobe = strobe.replace_bit(byte, true);
            } else {
                out.set_bits::<8>(8 * byte, 0.into());
            }
        }
        self.strobe.next = strobe;
        self.out.next = out;
    }
    fn connect(&mut self) {
        self.strobe.connect();
        self.out.connect();
    }
    fn hdl(&self) -> Verilog {
        let bits: Vec<_> = (0..B)
            .rev()
            .map(|byte| format!("(count > {byte})"))
            .collect();
        let mask: Vec<_> = (0..B)
            .rev()
            .map(|byte| format!("{{8{{valid[{byte}]}}}}"))
            .collect();
        let (valid, mask) = if B == 1 {
            (
                "wire valid = (count > 0);\n".to_string(),
                "{8{valid}}".to_string(),
            )
        } else {
            (
                format!("wire [{}:0] valid = {{{}}};\n", B - 1, bits.join(", ")),
                format!("{{{}}}", mask.join(", ")),
            )
        };
        Verilog::Custom(format!(
            "{valid}always @(*) begin\n  strobe = valid;\n  out = data & {mask};\nend\n"
        ))
    }
}
