// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the compiled NIC (`--nic rtl`) is made with.

use super::Finding;
use std::process::Command;

/// Oldest Verilator that the bindings are written for.
const VERILATOR_MIN: (u32, u32) = (5, 6);
const FOR_RTL: &str = "only --nic rtl needs it";

/// First line that a program prints about itself.
fn version(program: &str) -> Option<String> {
    let out = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout);
    let line = text.lines().next()?.trim().to_owned();
    out.status.success().then_some(line)
}

/// The version in `Verilator 5.006 2023-01-22 rev ...`.
fn number(line: &str) -> Option<(u32, u32)> {
    let (major, minor) = line.split_whitespace().nth(1)?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// All of them.
pub fn findings() -> [Finding; 2] {
    let install = |what: &str| format!("install {what} ({FOR_RTL}): scripts/tools.sh packages");
    let verilator = match version("verilator") {
        None => Finding::warn(
            "verilator",
            "not found",
            install("Verilator 5.006 or newer"),
        ),
        Some(line) => match number(&line) {
            Some(v) if v >= VERILATOR_MIN => Finding::ok("verilator", line),
            _ => Finding::warn("verilator", line, install("Verilator 5.006 or newer")),
        },
    };
    let program = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
    let compiler = match version(&program) {
        Some(line) => Finding::ok("c++ compiler", line),
        None => Finding::warn(
            "c++ compiler",
            format!("{program} does not run"),
            install("a C++17 compiler, or name it in CXX"),
        ),
    };
    [verilator, compiler]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(
            number("Verilator 5.006 2023-01-22 rev (Debian 5.006-3)"),
            Some((5, 6))
        );
        assert_eq!(number("Verilator 5.020"), Some((5, 20)));
        assert!(number("Verilator 4.228 2022").is_some_and(|v| v < VERILATOR_MIN));
        assert_eq!(number("Verilator"), None);
    }
}
