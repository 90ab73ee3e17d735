// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gates that every block of the list passes. A missing tool fails a gate.

use rust_hdl::prelude::{Atom, Block, Probe};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use tsonic_hdl::blocks::{BLOCKS, Entry, NIC_8, find};
use tsonic_hdl::builds::Nic8;
use tsonic_hdl::{lint, verilog};

/// Warnings of Verilator that the generator's style causes and the lint or the
/// lock-step simulation covers. All others are fatal.
const PERMITTED: &[&str] = &[
    // Context widths: `lint::ast` decides which of them matter.
    "WIDTH",
    // Names with `$`, enum constants and stubs that a module does not use.
    "UNUSED",
    "DECLFILENAME",
    "PINCONNECTEMPTY",
    // A sub-block called as one of its own ports.
    "VARHIDDEN",
    // A generic comparison with a constant at the end of its range.
    "UNSIGNED",
    "CMPCONST",
    // One `always @(*)` a module: a path through several modules looks circular.
    "UNOPTFLAT",
    "UNOPTTHREADS",
];

/// Runs `check` on every block on as many threads as there are processors, and
/// fails with all that it found.
fn every_block(check: impl Fn(&Entry, &Path) -> Result<(), String> + Sync) {
    let scratch = std::env::temp_dir().join(format!(
        "tsonic-gates-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    ));
    let failures = Mutex::new(Vec::new());
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(entry) = BLOCKS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let dir = scratch.join(entry.name);
                    fs::create_dir_all(&dir).expect("a scratch folder");
                    if let Err(text) = check(entry, &dir) {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{}:\n{text}", entry.name));
                    }
                }
            });
        }
    });
    fs::remove_dir_all(&scratch).expect("the scratch folder goes");
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn write_verilog(entry: &Entry, dir: &Path) -> Result<PathBuf, String> {
    let generated = verilog::generate((entry.build)().as_ref()).map_err(|e| e.to_string())?;
    let path = dir.join("top.v");
    fs::write(&path, generated.text).map_err(|e| e.to_string())?;
    Ok(path)
}

fn run(command: &mut Command, install: &str) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .output()
        .map_err(|error| format!("`{program}`: {error}; install the package `{install}`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    if output.status.success() {
        Ok(text)
    } else {
        Err(text)
    }
}

#[test]
fn names_are_unique() {
    for (n, entry) in BLOCKS.iter().enumerate() {
        assert!(
            BLOCKS[..n].iter().all(|other| other.name != entry.name),
            "{}",
            entry.name
        );
    }
}

/// Blocks right within the outermost one that have a clock.
#[derive(Default)]
struct Children {
    path: Vec<String>,
    clocked: Vec<String>,
}

impl Probe for Children {
    fn visit_start_scope(&mut self, name: &str, _: &dyn Block) {
        self.path.push(name.into());
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.path.pop();
    }
    fn visit_atom(&mut self, name: &str, _: &dyn Atom) {
        if let ([_, block], "clock") = (self.path.as_slice(), name) {
            self.clocked.push(block.clone());
        }
    }
}

#[test]
fn the_sum_has_every_block_of_the_nic() {
    let walk = || {
        let mut children = Children::default();
        Nic8::new(0).accept("nic", &mut children);
        children.clocked
    };
    // Blocks are built on the stack, and this is a large one.
    let walker = std::thread::Builder::new().stack_size(256 << 20);
    let mut built = walker
        .spawn(walk)
        .unwrap_or_else(|error| panic!("{error}"))
        .join()
        .unwrap_or_else(|_| panic!("the NIC cannot be walked"));
    let mut summed: Vec<String> = NIC_8
        .iter()
        .map(|name| name.trim_end_matches("_8").to_string())
        .collect();
    built.sort();
    summed.sort();
    assert_eq!(built, summed);
    for name in NIC_8 {
        assert!(find(name).is_some_and(|entry| entry.synthesise), "{name}");
    }
}

#[test]
fn sources_pass_the_lint() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let findings = lint::source::check_tree(&src).unwrap_or_else(|error| panic!("{error}"));
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}

#[test]
fn blocks_pass_the_lint() {
    every_block(|entry, _| {
        let findings = lint::ast::lint((entry.build)().as_ref());
        let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
        if text.is_empty() {
            Ok(())
        } else {
            Err(text.join("\n"))
        }
    });
}

#[test]
fn blocks_pass_verilator() {
    every_block(|entry, dir| {
        let path = write_verilog(entry, dir)?;
        let mut command = Command::new("verilator");
        command.args(["--lint-only", "-Wall", "--top-module", verilog::TOP]);
        command.args(PERMITTED.iter().map(|warning| format!("-Wno-{warning}")));
        run(command.arg(&path), "verilator").map(drop)
    });
}

#[test]
fn blocks_pass_icarus() {
    every_block(|entry, dir| {
        let path = write_verilog(entry, dir)?;
        let mut command = Command::new("iverilog");
        command.args([
            "-g2005",
            "-Wall",
            "-Wno-timescale",
            "-t",
            "null",
            "-s",
            verilog::TOP,
        ]);
        let text = run(command.arg(&path), "iverilog")?;
        // Not an error for Icarus, but a name that nobody declared for us.
        let implicit: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("implicit"))
            .collect();
        if implicit.is_empty() {
            Ok(())
        } else {
            Err(implicit.join("\n"))
        }
    });
}
