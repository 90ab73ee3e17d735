// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the compiled logic runs here: bursts of 45 segments through every queue
//! of a whole NIC, with the wire always busy, beside the same shared object in a bare
//! C++ loop (`bare_loop.cc`) that moves nothing but the clock. The two take turns, so
//! that both see the same machine.
//!
//! `cargo run --release -p tsonic-sim --example rtl_speed`

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tsonic_regs::descriptor::Kind;
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::model::Layout;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl;
use tsonic_types::Ticks;

/// Segments posted in a run, in bursts of 45.
const SEGMENTS: usize = 8_640;
/// Cycles of a run of the C++ loop.
const BARE_CYCLES: u64 = 300_000;
/// Turns of each.
const TURNS: usize = 5;

/// The C++ loop, compiled as Verilator's output is.
fn bare_loop() -> Result<PathBuf, Box<dyn Error>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/bare_loop.cc");
    let program = std::env::temp_dir().join(format!("tsonic-bare-loop-{}", std::process::id()));
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let status = Command::new(&compiler)
        .args(["-O3", "-std=c++17", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-ldl")
        .status()?;
    match status.success() {
        true => Ok(program),
        false => Err(format!("{compiler} failed on {}", source.display()).into()),
    }
}

/// Cycles per second of the C++ loop.
fn bare(program: &Path, queues: u16) -> Result<f64, Box<dyn Error>> {
    let design = rtl::design(queues)?;
    let object = tsonic_verilate::compile(&design, tsonic_verilate::Optimisation::Full)?;
    let clock = design.ports.iter().position(|p| p.name == "clock");
    let output = Command::new(program)
        .arg(object)
        .arg(clock.ok_or("no clock")?.to_string())
        .arg(BARE_CYCLES.to_string())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim()
        .parse()
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned().into())
}

/// Cycles per second behind the Rust bench.
fn bench(queues: u16) -> Result<f64, Box<dyn Error>> {
    let nic = rtl::build(queues)?;
    let mut bench = Bench::new(nic, RootComplexConfig::default(), 16 << 20);
    let mut header = vec![0u8; 54];
    header[12] = 8;
    header[14] = 0x45;
    header[46] = 0x50;
    let payload = vec![0x5a; 45 * 1_448];
    let d = bench.place(&Post {
        layout: Layout {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            mss: 1448,
        },
        header: &header,
        payload: &payload,
        cuts: &[16_384, 16_384, 16_384],
        flow_slot: 0,
        inv_rate: 0,
        launch: None,
        cookie: 0,
    });
    for q in 0..usize::from(queues) {
        bench.enable_tx(q, 6, 7);
        for _ in 0..SEGMENTS / 45 / usize::from(queues) {
            bench.push(q, &d);
        }
        bench.ring(q);
    }
    let frames = SEGMENTS / 45 / usize::from(queues) * usize::from(queues) * 45;
    let (started, before) = (Instant::now(), bench.nic.cycles());
    while bench.mac.sent.len() < frames {
        let until = bench.nic.now() + Ticks(10_000);
        bench.run_to(until);
    }
    let (wall, cycles) = (started.elapsed().as_secs_f64(), bench.nic.cycles() - before);
    let bytes: usize = bench.mac.sent.iter().map(|(_, f)| f.len()).sum();
    println!(
        "{queues} queues: {frames} frames in {cycles} cycles, {:.1} % of the data path; {:.0} kcycles/s, {:.2} Gb/s of wall time",
        bytes as f64 / 8.0 / cycles as f64 * 100.0,
        cycles as f64 / wall / 1e3,
        bytes as f64 * 8e-9 / wall
    );
    Ok(cycles as f64 / wall)
}

fn main() -> Result<(), Box<dyn Error>> {
    let program = bare_loop()?;
    for queues in [4, 32] {
        let mut turns = Vec::new();
        for _ in 0..TURNS {
            turns.push((bench(queues)?, bare(&program, queues)?));
        }
        turns.sort_by(|(a, b), (c, d)| (a / b).total_cmp(&(c / d)));
        let (rust, cpp) = turns[TURNS / 2];
        println!(
            "{queues} queues: {:.0} kcycles/s behind the bench, {:.0} in the C++ loop: {:.2} (median of {TURNS})",
            rust / 1e3,
            cpp / 1e3,
            rust / cpp
        );
    }
    std::fs::remove_file(program)?;
    Ok(())
}
