// SPDX-License-Identifier: MIT OR Apache-2.0
//! Helpers of the primitives' models and Verilog text.

use rust_hdl::prelude::*;

/// Range of a declaration: empty for one bit, as the generator declares it.
pub(super) fn range(bits: usize) -> String {
    if bits == 1 {
        String::new()
    } else {
        format!("[{}:0]", bits - 1)
    }
}

/// A literal of `bits` bits, all zero.
pub(super) fn zero(bits: usize) -> String {
    format!("{bits}'b0")
}

/// `x` in `M` bits at bit `offset`: what concatenation is made of.
pub(super) fn place<const N: usize, const M: usize>(x: Bits<N>, offset: usize) -> Bits<M> {
    bit_cast::<M, N>(x) << (offset as LiteralType)
}

/// `M` bits of `x` from bit `offset`.
pub(super) fn take<const N: usize, const M: usize>(x: Bits<N>, offset: usize) -> Bits<M> {
    bit_cast::<M, N>(x >> (offset as LiteralType))
}
