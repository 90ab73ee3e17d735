// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whoever waits for a compilation is told of it, and nobody else is. A test of its own, as
//! the notice is the process's.

use std::sync::atomic::{AtomicU32, Ordering};
use tsonic_verilate::{Design, Model, Optimisation, PortSpec, before_compiling};

static TOLD: AtomicU32 = AtomicU32::new(0);

#[test]
fn a_compilation_is_announced_and_the_cache_is_not() {
    before_compiling(|| {
        TOLD.fetch_add(1, Ordering::Relaxed);
    });
    // Another design each time: its name is in the text.
    let name = format!("notice_{}", std::process::id());
    let design = Design {
        verilog: format!("module {name}(input wire d, output wire q);\nassign q = d;\nendmodule\n"),
        top: name,
        ports: vec![PortSpec::input("d", 1), PortSpec::output("q", 1)],
    };
    for _ in 0..2 {
        Model::build(&design, Optimisation::Quick).unwrap();
        assert_eq!(TOLD.load(Ordering::Relaxed), 1);
    }
}
