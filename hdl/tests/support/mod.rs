// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lock-step simulation: a block in RustHDL's simulation (`update_all`) against
//! its Verilog under Verilator, same inputs, outputs compared before and after
//! every edge.
//!
//! ```ignore
//! mod support;
//! use support::{bits_of, lock_step};
//!
//! #[test]
//! fn my_block_is_its_verilog() {
//!     lock_step(MyBlock::default(), |b| &mut b.clock, 20_000, 1, |b, rng| {
//!         b.valid.next = rng.random_bool(0.5);
//!         b.data.next = bits_of(rng);
//!     });
//! }
//! ```
//! The closure sets `.next` of inputs (every one that it does not set keeps its
//! value) and may read outputs with `.val()`: they are those after the last
//! edge, so a driver can keep to a protocol. [`LockStep`] is the same by hand,
//! for scenarios: `step` once a cycle, look at `block` in between.

#![allow(dead_code)] // Every test file takes what it needs.

#[allow(unused_imports)]
pub use rand::{Rng, RngExt, SeedableRng};
pub use rand_pcg::Pcg64Mcg;
use rust_hdl::prelude::*;
use tsonic_hdl::verilog::{self, Generated};
use tsonic_verilate::{Design, Input, Model, Optimisation, Output, PortSpec};

/// Rounds of `update_all` until a block must have settled.
const SETTLE: usize = 400;

/// Random bits of any width.
pub fn bits_of<const N: usize>(rng: &mut impl Rng) -> Bits<N> {
    let mut bits = Bits::<N>::default();
    let mut at = 0;
    while at < N {
        let width = (N - at).min(32);
        let word = rng.next_u32() & (u32::MAX >> (32 - width));
        for bit in 0..width {
            if word >> bit & 1 == 1 {
                bits = bits.replace_bit(at + bit, true);
            }
        }
        at += width;
    }
    bits
}

/// The design that Verilator compiles for a generated block.
pub fn design(generated: &Generated) -> Design {
    Design {
        top: verilog::TOP.into(),
        verilog: generated.text.clone(),
        ports: generated
            .ports
            .iter()
            .map(|port| {
                if port.input {
                    PortSpec::input(&port.name, port.width)
                } else {
                    PortSpec::output(&port.name, port.width)
                }
            })
            .collect(),
    }
}

/// Values of the ports of a block, in the order of `Generated::ports`.
#[derive(Default)]
struct Values {
    depth: usize,
    values: Vec<Vec<u32>>,
}

/// 32-bit words, lowest first, of a value that prints as `16'hbeef`.
fn words(literal: &VerilogLiteral, width: usize) -> Vec<u32> {
    let text = format!("{literal:x}");
    let digits = text
        .split_once('h')
        .map_or("", |(_, digits)| digits)
        .as_bytes();
    let mut words: Vec<u32> = digits
        .rchunks(8)
        .map(|chunk| {
            chunk.iter().fold(0, |word, &digit| {
                word << 4 | (digit as char).to_digit(16).expect("a hex digit")
            })
        })
        .collect();
    words.resize(width.div_ceil(32), 0);
    words
}

impl Probe for Values {
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth += 1;
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth -= 1;
    }
    fn visit_atom(&mut self, _: &str, atom: &dyn Atom) {
        let port = matches!(
            atom.kind(),
            AtomKind::InputParameter | AtomKind::OutputParameter
        );
        if self.depth == 1 && port {
            self.values.push(words(&atom.verilog(), atom.bits()));
        }
    }
}

/// The clock of a block.
pub type ClockOf<B> = fn(&mut B) -> &mut Signal<In, Clock>;

enum Side {
    In(Input),
    Out(Output),
}

/// A block and its Verilog, cycle by cycle.
pub struct LockStep<B: Block> {
    /// The block in RustHDL's simulation.
    pub block: B,
    /// Cycles run.
    pub cycle: u64,
    model: Model,
    ports: Vec<(verilog::Port, Side)>,
    clock: ClockOf<B>,
}

impl<B: Block> LockStep<B> {
    /// Connects, generates, compiles.
    pub fn new(mut block: B, clock: ClockOf<B>) -> Self {
        block.connect_all();
        let generated = verilog::generate(&block).expect("a block that generates");
        let model = Model::build(&design(&generated), Optimisation::Quick)
            .unwrap_or_else(|error| panic!("{error}"));
        let ports = generated
            .ports
            .into_iter()
            .map(|port| {
                let side = if port.input {
                    Side::In(model.input(&port.name).expect("an input"))
                } else {
                    Side::Out(model.output(&port.name).expect("an output"))
                };
                (port, side)
            })
            .collect();
        Self {
            block,
            cycle: 0,
            model,
            ports,
            clock,
        }
    }

    /// Lets both settle on the block's inputs and compares.
    fn settle(&mut self, when: &str) {
        assert!(
            simulate(&mut self.block, SETTLE),
            "cycle {}, {when}: the block does not settle",
            self.cycle
        );
        let mut values = Values::default();
        self.block.accept(verilog::TOP, &mut values);
        for ((_, side), value) in self.ports.iter().zip(&values.values) {
            if let Side::In(input) = side {
                self.model.set_words(*input, value);
            }
        }
        self.model.eval();
        for ((port, side), value) in self.ports.iter().zip(&values.values) {
            if let Side::Out(output) = side {
                let verilog = self.model.words(*output);
                if verilog != *value {
                    let inputs: Vec<_> = self
                        .ports
                        .iter()
                        .zip(&values.values)
                        .filter(|((port, _), _)| port.input)
                        .map(|((port, _), value)| format!("{} = {value:x?}", port.name))
                        .collect();
                    panic!(
                        "cycle {}, {when}: {} is {value:x?} in Rust and {verilog:x?} in Verilog; {}",
                        self.cycle,
                        port.name,
                        inputs.join(", ")
                    );
                }
            }
        }
    }

    /// One cycle: the clock falls, `drive` sets inputs, the clock rises.
    pub fn step(&mut self, drive: impl FnOnce(&mut B)) {
        (self.clock)(&mut self.block).next = false.into();
        drive(&mut self.block);
        self.settle("before the edge");
        (self.clock)(&mut self.block).next = true.into();
        self.settle("after the edge");
        self.cycle += 1;
    }
}

/// Runs a block in lock-step for `cycles` cycles of inputs that `drive` draws.
pub fn lock_step<B: Block>(
    block: B,
    clock: ClockOf<B>,
    cycles: u64,
    seed: u64,
    mut drive: impl FnMut(&mut B, &mut Pcg64Mcg),
) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut pair = LockStep::new(block, clock);
    for _ in 0..cycles {
        pair.step(|block| drive(block, &mut rng));
    }
}

/// Gives a block that has no clock one that does nothing.
#[derive(Default)]
pub struct Unclocked<B: Block> {
    /// The block.
    pub block: B,
    clock: Signal<In, Clock>,
}

impl<B: Block> Unclocked<B> {
    /// Wraps a block.
    pub fn new(block: B) -> Self {
        Self {
            block,
            clock: Default::default(),
        }
    }
}

impl<B: Block> Logic for Unclocked<B> {
    fn update(&mut self) {}
}

impl<B: Block> Block for Unclocked<B> {
    fn connect_all(&mut self) {
        self.block.connect_all();
    }
    fn update_all(&mut self) {
        self.block.update_all();
        self.clock.update_all();
    }
    fn has_changed(&self) -> bool {
        self.block.has_changed()
    }
    fn accept(&self, name: &str, probe: &mut dyn Probe) {
        self.block.accept(name, probe);
    }
}

/// [`lock_step`] of a block without a clock.
pub fn lock_step_comb<B: Block>(
    block: B,
    cycles: u64,
    seed: u64,
    mut drive: impl FnMut(&mut B, &mut Pcg64Mcg),
) {
    lock_step(
        Unclocked::new(block),
        |b| &mut b.clock,
        cycles,
        seed,
        |b, rng| drive(&mut b.block, rng),
    );
}
