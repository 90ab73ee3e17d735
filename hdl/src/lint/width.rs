// SPDX-License-Identifier: MIT OR Apache-2.0
//! Widths of expressions, in Rust and in Verilog.

use rust_hdl::core::ast::{
    VerilogExpression as Expr, VerilogLiteral, VerilogOp as Op, VerilogOpUnary as Unary,
};

/// Bits of a number that the generator writes without a width.
const INTEGER: usize = 32;

/// Width of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Width {
    /// In Verilog, by itself.
    pub verilog: usize,
    /// In Rust; 0 for what takes the width of its surroundings.
    pub rust: usize,
}

impl Width {
    const fn exact(bits: usize) -> Self {
        Self {
            verilog: bits,
            rust: bits,
        }
    }
    const BIT: Self = Self::exact(1);
    const NUMBER: Self = Self {
        verilog: INTEGER,
        rust: 0,
    };
    fn max(self, other: Self) -> Self {
        Self {
            verilog: self.verilog.max(other.verilog),
            rust: self.rust.max(other.rust),
        }
    }
}

/// Strips parentheses.
pub(super) fn bare(e: &Expr) -> &Expr {
    if let Expr::Paren(inner) = e {
        bare(inner)
    } else {
        e
    }
}

/// Bits of a literal, which prints as `32'h1`.
fn literal_bits(literal: &VerilogLiteral) -> usize {
    let text = literal.to_string();
    text.split_once('\'')
        .and_then(|(bits, _)| bits.parse().ok())
        .unwrap_or(INTEGER)
}

/// A literal of a bool keeps its width in Rust; one of a number adapts.
pub(super) fn literal(literal: &VerilogLiteral) -> Width {
    match literal_bits(literal) {
        1 => Width::BIT,
        bits => Width {
            verilog: bits,
            rust: 0,
        },
    }
}

pub(super) fn is_comparison(op: &Op) -> bool {
    matches!(op, Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge)
}

/// Width of `e`; `signal` gives the width of a name.
pub(super) fn width(e: &Expr, signal: &dyn Fn(&str) -> Option<usize>) -> Width {
    match e {
        Expr::Signal(name) => signal(name).map_or(Width::NUMBER, Width::exact),
        Expr::Literal(value) => literal(value),
        Expr::Paren(i) | Expr::Signed(i) | Expr::Unsigned(i) => width(i, signal),
        Expr::Cast(i, bits) => Width {
            verilog: width(i, signal).verilog.max(*bits),
            rust: *bits,
        },
        Expr::Binary(l, op, r) => match op {
            op if is_comparison(op) => Width::BIT,
            Op::LogicalAnd | Op::LogicalOr => Width::BIT,
            Op::Shl | Op::Shr => width(l, signal),
            Op::Mul => {
                let (l, r) = (width(l, signal), width(r, signal));
                Width {
                    verilog: l.max(r).verilog,
                    rust: l.rust + r.rust,
                }
            }
            _ => width(l, signal).max(width(r, signal)),
        },
        Expr::Unary(Unary::All | Unary::Any | Unary::Xor, _) => Width::BIT,
        Expr::Unary(_, i) => width(i, signal),
        Expr::Index(..) => Width::BIT,
        Expr::Slice(_, bits, _) => Width::exact(*bits),
        Expr::IndexReplace(i, ..) => width(i, signal).max(Width::NUMBER),
    }
}

/// Whether bits above the Rust width of `e` can be 1 when Verilog evaluates it
/// with `context` bits.
pub(super) fn dirty(e: &Expr, context: usize, signal: &dyn Fn(&str) -> Option<usize>) -> bool {
    let wide = || {
        let rust = width(e, signal).rust;
        rust != 0 && context > rust
    };
    match e {
        Expr::Paren(i) | Expr::Signed(i) | Expr::Unsigned(i) => dirty(i, context, signal),
        Expr::Binary(l, op, r) => match op {
            Op::Add | Op::Sub | Op::Mul | Op::Shl => wide(),
            Op::BitAnd => dirty(l, context, signal) && dirty(r, context, signal),
            Op::BitOr | Op::BitXor => dirty(l, context, signal) || dirty(r, context, signal),
            Op::Shr => dirty(l, context, signal),
            _ => false,
        },
        Expr::Unary(Unary::Not | Unary::Neg, _) => wide(),
        _ => false,
    }
}
