// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lint of blocks: what RustHDL 0.46 accepts but turns into Verilog that means
//! something else than the Rust it came from.
//!
//! Two gates. [`source`] reads Rust files for constructs that the generator
//! drops silently (guards, inclusive ranges). [`ast`] walks the syntax tree that
//! `#[hdl_gen]` built of a block and all blocks inside it, with the widths of
//! its signals, and finds expressions whose bits above their Rust width reach
//! the result in Verilog, where the width of an expression is that of its
//! widest operand (IEEE 1364-2005, 5.4) and a plain literal has 32 bits.

pub mod ast;
pub mod source;
mod width;

use std::fmt;

/// What is wrong, and what to write instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// A `match` arm has a guard; the generator drops it.
    MatchGuard,
    /// `a..=b`; the generator takes it as `a..b`.
    InclusiveRange,
    /// `match` on a bool; the arms become the names `true` and `false`.
    MatchBool,
    /// A bare name as a pattern; it catches everything in Rust or names no
    /// constant in Verilog.
    BarePattern,
    /// Hand-written Verilog outside the primitives.
    CustomVerilog,
    /// A comparison sees bits above the operand's Rust width.
    WideComparison,
    /// A shift right moves bits from above the operand's Rust width into it.
    WideShift,
    /// A widening cast keeps bits that Rust drops.
    WideCast,
    /// A reduction sees bits above the operand's Rust width.
    WideReduction,
    /// A condition, shift amount or index has bits above its Rust width.
    WideCondition,
    /// Verilog's precedence differs from Rust's.
    Precedence,
    /// A name that is no signal, constant field, loop variable or enum variant.
    UnknownName,
    /// Two indices in one name.
    TwoIndices,
    /// A slice or bit select of something else than a signal.
    SliceOfExpression,
    /// A select whose varying index can run past the last bit.
    SelectPastEnd,
    /// Signed arithmetic, whose mixing rules differ.
    Signed,
    /// A clock that passes through logic; it races in simulation.
    ClockThroughLogic,
    /// A signal is read before it has a value in this evaluation.
    ReadBeforeWrite,
    /// A signal has no value on some path: a latch.
    Latch,
    /// A name that is a keyword of Verilog or SystemVerilog.
    Keyword,
}

impl Rule {
    /// What to write instead.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::MatchGuard => "put an `if` inside the arm",
            Self::InclusiveRange => "write `a..b` with the end exclusive",
            Self::MatchBool => "use `if`",
            Self::BarePattern => "write `Enum::Variant`, a literal or `_`",
            Self::CustomVerilog => "use or add a primitive",
            Self::WideComparison
            | Self::WideShift
            | Self::WideCast
            | Self::WideReduction
            | Self::WideCondition => {
                "put the arithmetic into a Local of the exact width first, then use that"
            }
            Self::Precedence => "add parentheses",
            Self::UnknownName => {
                "make it a field: `Constant`, `Fixed` or a Local; name an enum variant in full"
            }
            Self::TwoIndices => "flatten the array",
            Self::SliceOfExpression => "put the expression into a Local first",
            Self::SelectPastEnd => "use the primitive `Select`, or a signal of 2^n bits",
            Self::Signed => "use unsigned arithmetic",
            Self::ClockThroughLogic => {
                "write `sub.clock.next = self.clock.val()` outside any condition"
            }
            Self::ReadBeforeWrite => "write it above the place where it is read",
            Self::Latch => "give it a default at the top of `update`",
            Self::Keyword => "choose another name",
        }
    }
}

/// One place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File and line, or path of the block from the top.
    pub place: String,
    /// The rule.
    pub rule: Rule,
    /// The construct.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:?}: `{}`: {}",
            self.place,
            self.rule,
            self.what,
            self.rule.remedy()
        )
    }
}
