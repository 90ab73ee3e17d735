// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binds a Verilog design, compiled by Verilator, to Rust.
//!
//! A [`Design`] is Verilog text, the name of its top module and its ports.
//! [`Model::build`] has Verilator turn it into C++, has the C++ compiler turn
//! that into a shared object, keeps the object in a cache, and loads it. Ports
//! are then plain memory: a read or write costs a few instructions.
//!
//! ```no_run
//! use tsonic_verilate::{Design, Model, Optimisation, PortSpec};
//! let design = Design {
//!     top: "top".into(),
//!     verilog: "module top(input wire clock, input wire [7:0] d, output reg [7:0] q);
//!               always @(posedge clock) q <= d; endmodule".into(),
//!     ports: vec![PortSpec::input("clock", 1), PortSpec::input("d", 8), PortSpec::output("q", 8)],
//! };
//! let mut model = Model::build(&design, Optimisation::Quick)?;
//! let (clock, d, q) = (model.input("clock")?, model.input("d")?, model.output("q")?);
//! model.set(d, 42);
//! model.set(clock, 0);
//! model.eval();
//! model.set(clock, 1);
//! model.eval();
//! assert_eq!(model.get(q), 42);
//! # Ok::<(), tsonic_verilate::Error>(())
//! ```
//!
//! # Needs
//! `verilator` 5.006 or newer and a C++17 compiler (`$CXX`, else `g++`).
//!
//! # Cache
//! `$TSONIC_CACHE`, else `$XDG_CACHE_HOME/tsonic`, else `~/.cache/tsonic`, in
//! the folder `verilated`. An object's name is a hash of all it is made from,
//! so nothing there is ever stale and all of it may be deleted. Two processes
//! that want the same object at once: one builds, the other waits.
//!
//! # Safety
//! The crate loads and runs code that it had compiled from the design, so a
//! design is as trusted as the program itself. See [`Model`] for the argument
//! why its methods are safe.

use std::sync::OnceLock;

mod build;
mod cache;
mod error;
mod model;

pub use cache::cache_dir;
pub use error::Error;
pub use model::{Input, Model, Output, compile};

/// What is called before a design is compiled.
static NOTICE: OnceLock<fn()> = OnceLock::new();

/// Has `notice` called whenever a design is about to be compiled in this process, so that
/// whoever waits a minute knows for what. The first one that is given stays; a design
/// from the cache gives no notice.
pub fn before_compiling(notice: fn()) {
    // There is one already: a second has nothing to add.
    let _ = NOTICE.set(notice);
}

/// A design to compile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Design {
    /// Name of the top module.
    pub top: String,
    /// Verilog text of all modules.
    pub verilog: String,
    /// Ports of the top module that Rust may touch.
    pub ports: Vec<PortSpec>,
}

/// A port of the top module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PortSpec {
    /// Name in Verilog; `$` is allowed.
    pub name: String,
    /// Width in bits, at least 1.
    pub width: usize,
    /// Direction.
    pub direction: Direction,
}

impl PortSpec {
    /// An input.
    pub fn input(name: impl Into<String>, width: usize) -> Self {
        Self {
            name: name.into(),
            width,
            direction: Direction::Input,
        }
    }

    /// An output.
    pub fn output(name: impl Into<String>, width: usize) -> Self {
        Self {
            name: name.into(),
            width,
            direction: Direction::Output,
        }
    }
}

/// Direction of a port, seen from the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Rust drives it.
    Input,
    /// The design drives it.
    Output,
}

/// How hard the C++ compiler works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Optimisation {
    /// `-O1`: compiles quickly; for tests of some ten thousand cycles.
    #[default]
    Quick,
    /// `-O3`: for long runs.
    Full,
}
