// SPDX-License-Identifier: MIT OR Apache-2.0
//! Each rule of the lint catches a bad block, and lets the good one pass.

// Bad on purpose: each block below breaks a rule.
#![allow(clippy::if_same_then_else)]

use rust_hdl::prelude::*;
use tsonic_hdl::lint::{self, Rule};

/// A block of two 8-bit inputs, some outputs, and the body given.
macro_rules! block {
    ($name:ident { $($field:ident : $ty:ty),* } $($update:tt)+) => {
        #[derive(LogicBlock, Default)]
        struct $name {
            pub a: Signal<In, Bits<8>>,
            pub b: Signal<In, Bits<8>>,
            pub flag: Signal<Out, bool>,
            $($field: $ty,)*
        }
        impl Logic for $name {
            $($update)+
        }
    };
}

fn rules<B: Block>(block: &B) -> Vec<Rule> {
    let mut rules: Vec<Rule> = lint::ast::lint(block)
        .into_iter()
        .map(|finding| finding.rule)
        .collect();
    rules.dedup();
    rules
}

macro_rules! check {
    ($test:ident, $rules:expr, { $($field:ident : $ty:ty),* } $($update:tt)+) => {
        #[test]
        fn $test() {
            block!(Bad { $($field : $ty),* } $($update)+);
            let expected: &[Rule] = &$rules;
            assert_eq!(rules(&Bad::default()), expected, "{:#?}", lint::ast::lint(&Bad::default()));
        }
    };
}

check!(
    sum_with_a_literal_compared,
    [Rule::WideComparison],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = (self.a.val() + 1) == self.b.val();
    }
);
check!(
    difference_with_a_literal_compared,
    [Rule::WideComparison],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = (self.a.val() - 3) < self.b.val();
    }
);
check!(
    inverse_compared_with_a_literal,
    [Rule::WideComparison],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = !self.a.val() == 0xFE;
    }
);
check!(
    sum_compared_with_a_literal,
    [Rule::WideComparison],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = (self.a.val() + self.b.val()) == 3;
    }
);
check!(
    sum_of_exact_widths_may_be_compared,
    [],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = (self.a.val() + self.b.val()) == self.a.val();
    }
);
check!(narrowed_operand_in_a_compared_sum, [Rule::WideComparison],
    { c: Signal<In, Bits<4>>, s: Signal<In, Bits<4>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = (bit_cast::<4, 8>(self.a.val()) + self.c.val()) == self.s.val();
});
check!(sum_with_a_literal_shifted_right, [Rule::WideShift],
    { o: Signal<Out, Bits<8>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.o.next = (self.a.val() + 1) >> 1;
});
check!(sum_widened, [Rule::WideCast], { o: Signal<Out, Bits<16>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.o.next = bit_cast::<16, 8>(self.a.val() + self.b.val());
});
check!(sum_narrowed_is_fine, [], { o: Signal<Out, Bits<4>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.o.next = bit_cast::<4, 8>(self.a.val() + self.b.val());
});
check!(
    sum_with_a_literal_reduced,
    [Rule::WideReduction],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = (self.a.val() + 1).any();
    }
);
check!(
    all_of_a_narrowed_value,
    [Rule::WideReduction],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = bit_cast::<4, 8>(self.a.val()).all();
    }
);
check!(sum_as_the_amount_of_a_shift, [Rule::WideCondition],
    { o: Signal<Out, Bits<8>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.o.next = self.a.val() << (self.b.val() + 1);
});
check!(
    and_beside_a_comparison,
    [Rule::Precedence],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = self.a.val() & self.b.val() == self.b.val();
    }
);
check!(
    parentheses_make_it_right,
    [],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = (self.a.val() & self.b.val()) == self.b.val();
    }
);
const LIMIT: u64 = 5;
check!(
    a_constant_by_name,
    [Rule::UnknownName],
    {} #[hdl_gen] fn update(&mut self) {
        self.flag.next = self.a.val() == LIMIT;
    }
);
check!(slice_of_an_expression, [Rule::SliceOfExpression],
    { o: Signal<Out, Bits<4>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.o.next = (self.a.val() ^ self.b.val()).get_bits::<4>(2);
});
check!(select_that_runs_past_the_end, [Rule::SelectPastEnd],
    { i: Signal<In, Bits<4>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = self.a.val().get_bit(self.i.val().index());
});
check!(select_that_cannot_run_past_the_end, [],
    { i: Signal<In, Bits<3>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = self.a.val().get_bit(self.i.val().index());
});
check!(local_read_before_it_is_written, [Rule::ReadBeforeWrite],
    { t: Signal<Local, Bits<8>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = self.t.val() == self.b.val();
    self.t.next = self.a.val();
});
check!(local_array_written_in_order_is_fine, [], { t: [Signal<Local, Bits<8>>; 3] } #[hdl_gen] fn update(&mut self) {
    self.t[0].next = self.a.val();
    for i in 0..2 {
        self.t[i + 1].next = self.t[i].val() + 1;
    }
    self.flag.next = self.t[2].val() == self.b.val();
});
check!(local_array_read_before_it_is_written, [Rule::ReadBeforeWrite],
    { t: [Signal<Local, Bits<8>>; 3] } #[hdl_gen] fn update(&mut self) {
    for i in 0..2 {
        self.t[i].next = self.t[i + 1].val();
    }
    self.t[2].next = self.a.val();
    self.flag.next = self.t[0].val() == self.b.val();
});
check!(latch, [Rule::Latch], { o: Signal<Out, Bits<8>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    if self.a.val() == self.b.val() {
        self.o.next = self.a.val();
    }
});
check!(latch_of_a_register_input, [Rule::Latch],
    { clock: Signal<In, Clock>, r: DFF<Bits<8>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = self.r.q.val() == self.b.val();
    self.r.clock.next = self.clock.val();
    if self.a.val() == self.b.val() {
        self.r.d.next = self.a.val();
    }
});
check!(clock_through_logic, [Rule::ClockThroughLogic],
    { clock: Signal<In, Clock>, r: DFF<Bits<8>> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = self.r.q.val() == self.b.val();
    self.r.d.next = self.a.val();
    if self.a.val() == self.b.val() {
        self.r.clock.next = self.clock.val();
    } else {
        self.r.clock.next = self.clock.val();
    }
});
check!(keyword_as_a_name, [Rule::Keyword], { bit: Signal<In, bool> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = self.bit.val();
});

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum State {
    Idle,
    Run,
    Stop,
}

check!(match_that_leaves_a_state_out, [Rule::Latch],
    { clock: Signal<In, Clock>, s: DFF<State> } #[hdl_gen] fn update(&mut self) {
    self.s.clock.next = self.clock.val();
    self.s.d.next = self.s.q.val();
    match self.s.q.val() {
        State::Idle => { self.flag.next = true; }
        State::Run => { self.flag.next = false; }
        State::Stop => { self.flag.next = true; }
    }
});
check!(match_with_a_default_is_fine, [],
    { clock: Signal<In, Clock>, s: DFF<State> } #[hdl_gen] fn update(&mut self) {
    self.s.clock.next = self.clock.val();
    self.s.d.next = State::Run;
        if self.a.val() == self.b.val() {
            self.s.d.next = State::Stop;
        }
    match self.s.q.val() {
        State::Idle => { self.flag.next = true; }
        State::Run => { self.flag.next = false; }
        _ => { self.flag.next = true; }
    }
});

#[derive(Copy, Clone, PartialEq, Debug, Default, LogicStruct)]
struct Pair {
    low: Bits<4>,
    high: Bits<6>,
}

check!(struct_with_a_field_left_out, [Rule::Latch], { p: Signal<Out, Pair> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.p.next.low = bit_cast::<4, 8>(self.a.val());
});
check!(struct_with_every_field_is_fine, [], { p: Signal<Out, Pair> } #[hdl_gen] fn update(&mut self) {
    self.flag.next = false;
    self.p.next.low = bit_cast::<4, 8>(self.a.val());
    self.p.next.high = bit_cast::<6, 8>(self.b.val());
});

#[derive(LogicBlock, Default)]
struct Grid {
    pub o: Signal<Out, bool>,
    cells: [Cell; 2],
}
#[derive(LogicBlock, Default)]
struct Cell {
    pub d: [Signal<In, bool>; 2],
    pub q: Signal<Out, bool>,
}
impl Logic for Cell {
    #[hdl_gen]
    fn update(&mut self) {
        self.q.next = self.d[0].val() & self.d[1].val();
    }
}
impl Logic for Grid {
    #[hdl_gen]
    fn update(&mut self) {
        for i in 0..2 {
            for j in 0..2 {
                self.cells[i].d[j].next = true;
            }
        }
        self.o.next = self.cells[0].q.val();
    }
}

#[test]
fn two_indices() {
    assert!(rules(&Grid::default()).contains(&Rule::TwoIndices));
}

#[test]
fn a_finding_inside_a_sub_block_names_its_path() {
    block!(
        Inner {} #[hdl_gen] fn update(&mut self) {
            self.flag.next = (self.a.val() + 1) == self.b.val();
        }
    );
    #[derive(LogicBlock, Default)]
    struct Outer {
        pub o: Signal<Out, bool>,
        pub i: Signal<In, Bits<8>>,
        inner: Inner,
    }
    impl Logic for Outer {
        #[hdl_gen]
        fn update(&mut self) {
            self.inner.a.next = self.i.val();
            self.inner.b.next = self.i.val();
            self.o.next = self.inner.flag.val();
        }
    }
    let findings = lint::ast::lint(&Outer::default());
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].place, "top.inner");
    let text = findings[0].to_string();
    assert!(text.contains("Local of the exact width"), "{text}");
}

fn found(body: &str) -> Vec<(String, Rule)> {
    let text = format!(
        "impl Logic for X {{\n#[hdl_gen]\nfn update(&mut self) {{\n{body}\n}}\nfn other() {{ for i in 0..=2 {{}} }}\n}}"
    );
    lint::source::check_text("x.rs", &text, false)
        .expect("Rust")
        .into_iter()
        .map(|finding| (finding.place, finding.rule))
        .collect()
}

#[test]
fn source_rules() {
    let at = |rule| vec![("x.rs:4".to_string(), rule)];
    assert_eq!(found("for i in 0..=2 {}"), at(Rule::InclusiveRange));
    assert_eq!(
        found("match s { S::A if t => {} _ => {} }"),
        at(Rule::MatchGuard)
    );
    let bools = found("match s { true => {} false => {} }");
    assert_eq!(bools, [at(Rule::MatchBool), at(Rule::MatchBool)].concat());
    assert_eq!(found("match s { A => {} _ => {} }"), at(Rule::BarePattern));
    assert_eq!(
        found("match s { S::A => {} 3 => {} _ => {} }\nfor i in 0..2 {}"),
        []
    );
}

#[test]
fn hand_written_verilog_stays_with_the_primitives() {
    let text = "fn hdl(&self) -> Verilog { Verilog::Custom(String::new()) }";
    let rules = |custom| {
        lint::source::check_text("x.rs", text, custom)
            .expect("Rust")
            .into_iter()
            .map(|finding| finding.rule)
            .collect::<Vec<_>>()
    };
    assert_eq!(rules(false), [Rule::CustomVerilog]);
    assert_eq!(rules(true), []);
}
