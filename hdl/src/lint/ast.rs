// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lint of a block's syntax tree, and of all blocks inside it.
//!
//! Loops are unrolled as the generator does it, so that names are checked as
//! they will stand in the Verilog. Assignments are followed along every path:
//! what is read must have a value, and at the end everything that a block drives
//! must have one, bit for bit.

use super::width::{bare, dirty, is_comparison, width};
use super::{Finding, Rule};
use crate::verilog::full_name;
use rust_hdl::core::ast::{
    VerilogBlock, VerilogBlockOrConditional as Otherwise, VerilogExpression as Expr, VerilogLink,
    VerilogOp as Op, VerilogOpUnary as Unary, VerilogStatement as Statement,
};
use rust_hdl::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Lints a block, on which `connect_all` need not have been called.
pub fn lint(block: &dyn Block) -> Vec<Finding> {
    let mut lint = Lint::default();
    block.accept(crate::verilog::TOP, &mut lint);
    lint.findings.sort();
    lint.findings.dedup();
    lint.findings
}

/// What a name stands for inside one module.
#[derive(Clone, Copy)]
struct Name {
    bits: usize,
    clock: bool,
    /// The module drives it, so it needs a value on every path.
    driven: bool,
    /// Reading it sees what this evaluation wrote.
    local: bool,
}

#[derive(Default)]
struct Scope {
    names: HashMap<String, Name>,
    variants: HashMap<String, usize>,
    code: Verilog,
}

#[derive(Default)]
struct Lint {
    path: Vec<String>,
    interfaces: Vec<String>,
    scopes: Vec<Scope>,
    loops: Vec<(String, i64)>,
    conditions: usize,
    findings: Vec<Finding>,
}

/// Bits of each signal that have a value.
type Written = BTreeMap<String, Vec<bool>>;

fn both(a: Written, b: &Written) -> Written {
    a.into_iter()
        .filter_map(|(name, mut bits)| {
            let other = b.get(&name)?;
            bits.iter_mut()
                .zip(other)
                .for_each(|(bit, other)| *bit &= other);
            Some((name, bits))
        })
        .collect()
}

/// Precedence in Verilog; more binds tighter (IEEE 1364-2005, table 5-4).
fn precedence(op: &Op) -> u8 {
    match op {
        Op::Mul => 10,
        Op::Add | Op::Sub => 9,
        Op::Shl | Op::Shr => 8,
        Op::Lt | Op::Le | Op::Gt | Op::Ge => 7,
        Op::Eq | Op::Ne => 6,
        Op::BitAnd => 5,
        Op::BitXor => 4,
        Op::BitOr => 3,
        Op::LogicalAnd => 2,
        Op::LogicalOr => 1,
    }
}

fn symbol(op: &Op) -> &'static str {
    match op {
        Op::Mul => "*",
        Op::Add => "+",
        Op::Sub => "-",
        Op::Shl => "<<",
        Op::Shr => ">>",
        Op::Lt => "<",
        Op::Le => "<=",
        Op::Gt => ">",
        Op::Ge => ">=",
        Op::Eq => "==",
        Op::Ne => "!=",
        Op::BitAnd => "&",
        Op::BitXor => "^",
        Op::BitOr => "|",
        Op::LogicalAnd => "&&",
        Op::LogicalOr => "||",
    }
}

fn show(e: &Expr) -> String {
    match e {
        Expr::Signal(name) => name.clone(),
        Expr::Literal(value) => value.to_string(),
        Expr::Paren(i) => format!("({})", show(i)),
        Expr::Binary(l, op, r) => format!("{} {} {}", show(l), symbol(op), show(r)),
        Expr::Unary(op, i) => match op {
            Unary::Not => format!("!{}", show(i)),
            Unary::Neg => format!("-{}", show(i)),
            Unary::All => format!("{}.all()", show(i)),
            Unary::Any => format!("{}.any()", show(i)),
            Unary::Xor => format!("{}.xor()", show(i)),
        },
        Expr::Cast(i, bits) => format!("bit_cast::<{bits}, _>({})", show(i)),
        Expr::Signed(i) | Expr::Unsigned(i) => format!("signed({})", show(i)),
        Expr::Index(i, at) => format!("{}.get_bit({})", show(i), show(at)),
        Expr::Slice(i, bits, at) => format!("{}.get_bits::<{bits}>({})", show(i), show(at)),
        Expr::IndexReplace(i, at, value) => {
            format!("{}.replace_bit({}, {})", show(i), show(at), show(value))
        }
    }
}

/// Value of an index such as `2*i+1`; `None` for what the generator cannot
/// compute either.
fn evaluate(text: &str, loops: &[(String, i64)]) -> Option<i64> {
    let text = text.trim();
    // Left-associative: split at the last operator of the lowest precedence
    // that stands outside parentheses.
    for operators in [&['+', '-'][..], &['*', '/', '%'][..]] {
        let mut depth = 0;
        for (at, c) in text.char_indices().rev() {
            match c {
                ')' => depth += 1,
                '(' => depth -= 1,
                c if depth == 0 && at > 0 && operators.contains(&c) => {
                    let l = evaluate(&text[..at], loops)?;
                    let r = evaluate(&text[at + 1..], loops)?;
                    return match c {
                        '+' => l.checked_add(r),
                        '-' => l.checked_sub(r),
                        '*' => l.checked_mul(r),
                        '/' => l.checked_div(r),
                        _ => l.checked_rem(r),
                    };
                }
                _ => {}
            }
        }
    }
    if let Some(inner) = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
    {
        return evaluate(inner, loops);
    }
    let value = loops
        .iter()
        .rev()
        .find(|(name, _)| name == text)
        .map(|(_, value)| *value);
    value.or_else(|| text.parse().ok())
}

impl Lint {
    fn hit(&mut self, rule: Rule, what: impl Into<String>) {
        self.findings.push(Finding {
            place: self.path.join("."),
            rule,
            what: what.into(),
        });
    }

    /// The name as it will stand in the Verilog.
    fn resolve(&mut self, name: &str) -> Option<String> {
        let name = name.replace("::", "$");
        let name = name.trim_end_matches("$next").trim_start_matches('.');
        match name.matches('[').count() {
            0 => Some(name.to_string()),
            1 => {
                let (head, rest) = name.split_once('[')?;
                let (index, tail) = rest.split_once(']')?;
                match evaluate(index, &self.loops) {
                    Some(value) => Some(format!("{head}${value}{tail}")),
                    None => {
                        self.hit(Rule::UnknownName, name);
                        None
                    }
                }
            }
            _ => {
                self.hit(Rule::TwoIndices, name);
                None
            }
        }
    }

    fn scope(&self) -> Option<&Scope> {
        self.scopes.last()
    }

    fn bits_of(&self, name: &str) -> Option<usize> {
        // Without a finding: `name` reports.
        let text = name.replace("::", "$");
        let text = text.trim_end_matches("$next").trim_start_matches('.');
        let full = match text.split_once('[') {
            None => text.to_string(),
            Some((head, rest)) => {
                let (index, tail) = rest.split_once(']')?;
                format!("{head}${}{tail}", evaluate(index, &self.loops)?)
            }
        };
        self.scope()?.names.get(&full).map(|name| name.bits)
    }

    fn is_dirty(&self, e: &Expr, context: usize) -> bool {
        dirty(e, context, &|name| self.bits_of(name))
    }

    fn verilog_width(&self, e: &Expr) -> usize {
        width(e, &|name| self.bits_of(name)).verilog
    }

    fn rust_width(&self, e: &Expr) -> usize {
        width(e, &|name| self.bits_of(name)).rust
    }

    /// A name that is read.
    fn read(&mut self, name: &str, written: &Written) {
        let Some(full) = self.resolve(name) else {
            return;
        };
        if self.loops.iter().any(|(variable, _)| *variable == full) {
            return;
        }
        let Some(scope) = self.scope() else { return };
        match scope.names.get(&full) {
            Some(name) if name.local => {
                let complete = written
                    .get(&full)
                    .is_some_and(|bits| bits.iter().all(|written| *written));
                if !complete {
                    self.hit(Rule::ReadBeforeWrite, full);
                }
            }
            Some(_) => {}
            None if scope.variants.contains_key(&full) => {}
            None => self.hit(Rule::UnknownName, full),
        }
    }

    /// An expression in a context of its own: a condition, an index, the amount
    /// of a shift.
    fn alone(&mut self, e: &Expr, written: &Written) {
        let context = self.verilog_width(e);
        if self.is_dirty(e, context) {
            self.hit(Rule::WideCondition, show(e));
        }
        self.expression(e, context, written);
    }

    fn selected(&mut self, base: &Expr, bits: usize, at: &Expr, written: &Written, what: &Expr) {
        let Expr::Signal(_) = base else {
            self.hit(Rule::SliceOfExpression, show(what));
            self.expression(base, self.verilog_width(base), written);
            return;
        };
        let available = self.verilog_width(base);
        let variable = match bare(at) {
            Expr::Literal(_) => false,
            Expr::Signal(name) => !self.loops.iter().any(|(variable, _)| variable == name),
            _ => true,
        };
        if variable {
            let index = self.rust_width(at);
            if index >= usize::BITS as usize - 1 || (1 << index) - 1 + bits > available {
                self.hit(Rule::SelectPastEnd, show(what));
            }
            self.alone(at, written);
        }
        self.expression(base, available, written);
    }

    /// Checks an expression that Verilog evaluates with `context` bits.
    fn expression(&mut self, e: &Expr, context: usize, written: &Written) {
        match e {
            Expr::Signal(name) => self.read(name, written),
            Expr::Literal(_) => {}
            Expr::Paren(i) => self.expression(i, context, written),
            Expr::Signed(_) | Expr::Unsigned(_) => self.hit(Rule::Signed, show(e)),
            Expr::Cast(i, bits) => {
                let context = context.max(self.verilog_width(e));
                let from = self.rust_width(i);
                if from != 0 && *bits > from && self.is_dirty(i, context) {
                    self.hit(Rule::WideCast, show(e));
                }
                self.expression(i, context, written);
            }
            Expr::Binary(l, op, r) => self.binary(e, (l, op, r), context, written),
            Expr::Unary(op, i) => {
                if matches!(**i, Expr::Binary(..)) {
                    self.hit(Rule::Precedence, show(e));
                }
                let own = self.verilog_width(i);
                match op {
                    Unary::Not | Unary::Neg => self.expression(i, context, written),
                    Unary::All | Unary::Any | Unary::Xor => {
                        let rust = self.rust_width(i);
                        // Zeros above count for `all` alone.
                        let zeros = matches!(op, Unary::All) && rust != 0 && own > rust;
                        if zeros || self.is_dirty(i, own) {
                            self.hit(Rule::WideReduction, show(e));
                        }
                        self.expression(i, own, written);
                    }
                }
            }
            Expr::Index(i, at) => self.selected(i, 1, at, written, e),
            Expr::Slice(i, bits, at) => self.selected(i, *bits, at, written, e),
            Expr::IndexReplace(i, at, value) => {
                self.expression(i, context, written);
                self.alone(at, written);
                self.alone(value, written);
            }
        }
    }

    fn binary(
        &mut self,
        e: &Expr,
        (l, op, r): (&Expr, &Op, &Expr),
        context: usize,
        written: &Written,
    ) {
        for (side, right) in [(l, false), (r, true)] {
            if let Expr::Binary(_, inner, _) = side {
                let (inner, outer) = (precedence(inner), precedence(op));
                if inner < outer || (right && inner == outer) {
                    self.hit(Rule::Precedence, show(e));
                }
            }
        }
        match op {
            Op::LogicalAnd | Op::LogicalOr => {
                self.alone(l, written);
                self.alone(r, written);
            }
            Op::Shl | Op::Shr => {
                if matches!(op, Op::Shr) && self.is_dirty(l, context) {
                    self.hit(Rule::WideShift, show(e));
                }
                self.expression(l, context, written);
                self.alone(r, written);
            }
            op if is_comparison(op) => {
                let context = self.verilog_width(l).max(self.verilog_width(r));
                if self.is_dirty(l, context) || self.is_dirty(r, context) {
                    self.hit(Rule::WideComparison, show(e));
                }
                self.expression(l, context, written);
                self.expression(r, context, written);
            }
            _ => {
                self.expression(l, context, written);
                self.expression(r, context, written);
            }
        }
    }

    /// A name that is assigned; returns it in full if it is one of the module's.
    fn target(&mut self, e: &Expr) -> Option<(String, Name)> {
        let Expr::Signal(name) = e else {
            self.hit(Rule::SliceOfExpression, show(e));
            return None;
        };
        let full = self.resolve(name)?;
        match self.scope()?.names.get(&full).copied() {
            Some(name) => Some((full, name)),
            None => {
                self.hit(Rule::UnknownName, full);
                None
            }
        }
    }

    fn assignment(&mut self, target: &Expr, value: &Expr, written: &mut Written) {
        let Some((full, name)) = self.target(target) else {
            self.expression(value, self.verilog_width(value), written);
            return;
        };
        self.expression(value, name.bits.max(self.verilog_width(value)), written);
        if name.clock {
            let plain = match value {
                Expr::Signal(source) => self
                    .resolve(source)
                    .and_then(|source| self.scope()?.names.get(&source).copied())
                    .is_some_and(|source| source.clock),
                _ => false,
            };
            if !plain || self.conditions > 0 {
                self.hit(Rule::ClockThroughLogic, format!("{full} = {}", show(value)));
            }
        }
        written.insert(full, vec![true; name.bits]);
    }

    fn statements(&mut self, block: &VerilogBlock, written: &mut Written) {
        for statement in block {
            self.statement(statement, written);
        }
    }

    fn conditional(&mut self, block: &VerilogBlock, before: &Written) -> Written {
        let mut written = before.clone();
        self.conditions += 1;
        self.statements(block, &mut written);
        self.conditions -= 1;
        written
    }

    fn statement(&mut self, statement: &Statement, written: &mut Written) {
        match statement {
            Statement::Assignment(target, value) => self.assignment(target, value, written),
            Statement::SliceAssignment {
                base,
                width,
                offset,
                replacement,
            } => {
                let context = (*width).max(self.verilog_width(replacement));
                self.expression(replacement, context, written);
                let Some((full, name)) = self.target(base) else {
                    return;
                };
                let bits = written
                    .entry(full)
                    .or_insert_with(|| vec![false; name.bits]);
                match bare(offset) {
                    Expr::Literal(at) => {
                        let at = at.as_usize();
                        bits.iter_mut()
                            .skip(at)
                            .take(*width)
                            .for_each(|bit| *bit = true);
                    }
                    other => self.alone(other, &written.clone()),
                }
            }
            Statement::If(c) => {
                self.alone(&c.test, written);
                let then = self.conditional(&c.then, written);
                let other = match &c.otherwise {
                    Otherwise::Block(block) => self.conditional(block, written),
                    Otherwise::Conditional(statement) => {
                        let mut other = written.clone();
                        self.conditions += 1;
                        self.statement(statement, &mut other);
                        self.conditions -= 1;
                        other
                    }
                    Otherwise::None => written.clone(),
                };
                *written = both(then, &other);
            }
            Statement::Match(m) => {
                self.alone(&m.test, written);
                let mut has_default = false;
                let mut outcomes = Vec::new();
                for case in &m.cases {
                    let condition = case.condition.as_str();
                    if condition == "default" {
                        has_default = true;
                    } else if !condition.starts_with(|c: char| c.is_ascii_digit()) {
                        self.read(condition, written);
                    }
                    outcomes.push(self.conditional(&case.block, written));
                }
                let bits = self.verilog_width(&m.test);
                if !has_default && (bits >= 32 || m.cases.len() < 1 << bits) {
                    outcomes.push(written.clone());
                }
                if let Some(outcome) = outcomes.into_iter().reduce(|a, b| both(a, &b)) {
                    *written = outcome;
                }
            }
            Statement::Loop(l) => {
                for value in l.from.as_usize()..l.to.as_usize() {
                    self.loops.push((l.index.clone(), value as i64));
                    self.statements(&l.block, written);
                    self.loops.pop();
                }
            }
            Statement::Macro(block) => self.statements(block, written),
            Statement::Link(links) => {
                for link in links {
                    let (VerilogLink::Forward(link)
                    | VerilogLink::Backward(link)
                    | VerilogLink::Bidirectional(link)) = link;
                    for owner in [&link.owner_name, &link.other_name] {
                        let name = if link.my_name.is_empty() {
                            owner.clone()
                        } else {
                            format!("{owner}${}", link.my_name)
                        };
                        let Some(full) = self.resolve(&name) else {
                            continue;
                        };
                        if let Some(bits) = self.bits_of(&full) {
                            written.insert(full, vec![true; bits]);
                        }
                    }
                }
            }
            Statement::Comment(_) => {}
        }
    }

    fn finish(&mut self) {
        let Some(scope) = self.scopes.last_mut() else {
            return;
        };
        let Verilog::Combinatorial(code) = std::mem::take(&mut scope.code) else {
            return;
        };
        let mut written = Written::new();
        self.statements(&code, &mut written);
        let Some(scope) = self.scope() else { return };
        let open: Vec<String> = scope
            .names
            .iter()
            .filter(|(full, name)| {
                name.driven
                    && !written
                        .get(*full)
                        .is_some_and(|bits| bits.iter().all(|bit| *bit))
            })
            .map(|(full, _)| full.clone())
            .collect();
        for full in open {
            self.hit(Rule::Latch, full);
        }
    }
}

/// Variants of the enums in a type, by their names in Verilog.
fn variants(descriptor: &TypeDescriptor, out: &mut HashMap<String, usize>) {
    match &descriptor.kind {
        TypeKind::Enum(names) => {
            out.extend(
                names
                    .iter()
                    .enumerate()
                    .map(|(n, name)| (name.replace("::", "$"), n)),
            );
        }
        TypeKind::Composite(fields) => {
            fields.iter().for_each(|field| variants(&field.kind, out));
        }
        _ => {}
    }
}

impl Probe for Lint {
    fn visit_start_scope(&mut self, name: &str, block: &dyn Block) {
        self.path.push(name.into());
        self.interfaces.clear();
        self.scopes.push(Scope {
            code: block.hdl(),
            ..Default::default()
        });
    }

    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.interfaces.push(name.into());
    }

    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.interfaces.pop();
    }

    fn visit_atom(&mut self, name: &str, atom: &dyn Atom) {
        let full = full_name(&self.interfaces, name);
        let descriptor = atom.descriptor();
        let clock = descriptor.name == Clock::descriptor().name;
        let kind = atom.kind();
        if KEYWORDS.binary_search(&full.as_str()).is_ok() {
            self.hit(Rule::Keyword, full.clone());
        }
        let Some(module) = self.path.last().cloned() else {
            return;
        };
        let mut scopes = self.scopes.iter_mut().rev();
        if let Some(own) = scopes.next() {
            variants(&descriptor, &mut own.variants);
            let local = kind == AtomKind::LocalSignal;
            let driven = local || kind == AtomKind::OutputParameter;
            let own_name = Name {
                bits: atom.bits(),
                clock,
                driven,
                local: local || kind == AtomKind::OutputParameter,
            };
            own.names.insert(full.clone(), own_name);
        }
        if let Some(parent) = scopes.next() {
            variants(&descriptor, &mut parent.variants);
            if kind.is_parameter() {
                let driven = kind == AtomKind::InputParameter;
                let stub = Name {
                    bits: atom.bits(),
                    clock,
                    driven,
                    local: false,
                };
                parent.names.insert(format!("{module}${full}"), stub);
            }
        }
    }

    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.finish();
        self.scopes.pop();
        self.path.pop();
    }
}

/// Keywords of IEEE 1364-2005 and IEEE 1800-2017, sorted.
const KEYWORDS: &[&str] = &[
    "accept_on",
    "alias",
    "always",
    "always_comb",
    "always_ff",
    "always_latch",
    "and",
    "assert",
    "assign",
    "assume",
    "automatic",
    "before",
    "begin",
    "bind",
    "bins",
    "binsof",
    "bit",
    "break",
    "buf",
    "bufif0",
    "bufif1",
    "byte",
    "case",
    "casex",
    "casez",
    "cell",
    "chandle",
    "checker",
    "class",
    "clocking",
    "cmos",
    "config",
    "const",
    "constraint",
    "context",
    "continue",
    "cover",
    "covergroup",
    "coverpoint",
    "cross",
    "deassign",
    "default",
    "defparam",
    "design",
    "disable",
    "dist",
    "do",
    "edge",
    "else",
    "end",
    "endcase",
    "endchecker",
    "endclass",
    "endclocking",
    "endconfig",
    "endfunction",
    "endgenerate",
    "endgroup",
    "endinterface",
    "endmodule",
    "endpackage",
    "endprimitive",
    "endprogram",
    "endproperty",
    "endsequence",
    "endspecify",
    "endtable",
    "endtask",
    "enum",
    "event",
    "eventually",
    "expect",
    "export",
    "extends",
    "extern",
    "final",
    "first_match",
    "for",
    "force",
    "foreach",
    "forever",
    "fork",
    "forkjoin",
    "function",
    "generate",
    "genvar",
    "global",
    "highz0",
    "highz1",
    "if",
    "iff",
    "ifnone",
    "ignore_bins",
    "illegal_bins",
    "implements",
    "implies",
    "import",
    "incdir",
    "include",
    "initial",
    "inout",
    "input",
    "inside",
    "instance",
    "int",
    "integer",
    "interconnect",
    "interface",
    "intersect",
    "join",
    "join_any",
    "join_none",
    "large",
    "let",
    "liblist",
    "library",
    "local",
    "localparam",
    "logic",
    "longint",
    "macromodule",
    "matches",
    "medium",
    "modport",
    "module",
    "nand",
    "negedge",
    "nettype",
    "new",
    "nexttime",
    "nmos",
    "nor",
    "noshowcancelled",
    "not",
    "notif0",
    "notif1",
    "null",
    "or",
    "output",
    "package",
    "packed",
    "parameter",
    "pmos",
    "posedge",
    "primitive",
    "priority",
    "program",
    "property",
    "protected",
    "pull0",
    "pull1",
    "pulldown",
    "pullup",
    "pulsestyle_ondetect",
    "pulsestyle_onevent",
    "pure",
    "rand",
    "randc",
    "randcase",
    "randsequence",
    "rcmos",
    "real",
    "realtime",
    "ref",
    "reg",
    "reject_on",
    "release",
    "repeat",
    "restrict",
    "return",
    "rnmos",
    "rpmos",
    "rtran",
    "rtranif0",
    "rtranif1",
    "s_always",
    "s_eventually",
    "s_nexttime",
    "s_until",
    "s_until_with",
    "scalared",
    "sequence",
    "shortint",
    "shortreal",
    "showcancelled",
    "signed",
    "small",
    "soft",
    "solve",
    "specify",
    "specparam",
    "static",
    "string",
    "strong",
    "strong0",
    "strong1",
    "struct",
    "super",
    "supply0",
    "supply1",
    "sync_accept_on",
    "sync_reject_on",
    "table",
    "tagged",
    "task",
    "this",
    "throughout",
    "time",
    "timeprecision",
    "timeunit",
    "tran",
    "tranif0",
    "tranif1",
    "tri",
    "tri0",
    "tri1",
    "triand",
    "trior",
    "trireg",
    "type",
    "typedef",
    "union",
    "unique",
    "unique0",
    "unsigned",
    "until",
    "until_with",
    "untyped",
    "use",
    "uwire",
    "var",
    "vectored",
    "virtual",
    "void",
    "wait",
    "wait_order",
    "wand",
    "weak",
    "weak0",
    "weak1",
    "while",
    "wildcard",
    "wire",
    "with",
    "within",
    "wor",
    "xnor",
    "xor",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_computed() {
        let loops = [("i".to_string(), 5), ("j".to_string(), 2)];
        assert_eq!(evaluate("i", &loops), Some(5));
        assert_eq!(evaluate("i-1-j", &loops), Some(2));
        assert_eq!(evaluate("2*i+j", &loops), Some(12));
        assert_eq!(evaluate("(i+1)*(j+1)", &loops), Some(18));
        assert_eq!(evaluate("n+1", &loops), None);
    }

    #[test]
    fn keywords_are_sorted() {
        assert!(KEYWORDS.is_sorted());
    }
}
