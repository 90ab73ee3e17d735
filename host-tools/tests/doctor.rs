// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic doctor` on the machine that runs the tests, and on one that lacks things.

mod process;

use process::{PATIENCE, Running, Scratch};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn finding<'a>(report: &'a Value, name: &str) -> &'a Value {
    let all = report["findings"].as_array().expect("findings");
    all.iter()
        .find(|f| f["name"] == name)
        .expect("that finding")
}

#[test]
fn every_finding_that_is_not_well_has_a_remedy() {
    let place = Scratch::new("doctor");
    let report = place.json(&["doctor"]);
    assert_eq!(report["ok"], true);
    let all = report["findings"].as_array().expect("findings");
    assert!(all.len() >= 10);
    for f in all {
        let well = f["status"] == "ok";
        assert!(well || f["status"] == "warn", "{f}");
        assert_eq!(f["remedy"].is_null(), well, "{f}");
        assert!(f["found"].as_str().is_some_and(|t| !t.is_empty()));
    }
    let model = finding(&report, "model")["found"]
        .as_str()
        .unwrap_or_default();
    assert!(
        model.starts_with("contract 1.") && model.contains("TSO"),
        "{model}"
    );
    let sockets = finding(&report, "control sockets");
    assert_eq!(
        sockets["found"],
        place.path().join("tsonic").display().to_string()
    );
    let text = place.text(&["doctor"]);
    assert_eq!(
        text.lines()
            .filter(|l| l.starts_with("ok") || l.starts_with("warn"))
            .count(),
        all.len()
    );
}

#[test]
fn what_is_missing_is_found_missing() {
    let place = Scratch::new("doctor-bare");
    std::fs::write(place.path().join("tsonic"), "").expect("a file in its place");
    let mut command = place.command(&["doctor", "--json"]);
    // No programs, and a compiler that is none.
    command
        .env("PATH", place.path())
        .env("CXX", "no-such-compiler");
    let out = command.output().expect("the built binary runs");
    assert_eq!(
        out.status.code(),
        Some(0),
        "the default demo needs none of it"
    );
    let report: Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
    for name in ["verilator", "c++ compiler", "control sockets"] {
        assert_eq!(finding(&report, name)["status"], "warn", "{name}");
    }
    let remedy = finding(&report, "verilator")["remedy"]
        .as_str()
        .unwrap_or_default();
    assert!(remedy.contains("scripts/tools.sh"), "{remedy}");
}

#[test]
fn a_device_in_another_process_tells_its_contract() {
    let place = Scratch::new("doctor-device");
    let socket = place.path().join("nic.sock");
    let at = format!("vfio-user:{}", socket.display());
    let out = place.run(&["doctor", "--json", "--device", &at]);
    assert_eq!(out.status.code(), Some(1), "nobody serves it");
    let report: Value = serde_json::from_slice(&out.stdout).expect("one JSON object");
    assert_eq!(finding(&report, "device")["status"], "fail");
    let path = socket.display().to_string();
    let args = [
        "device", "--wire", "sim", "--queues", "2", "--socket", &path,
    ];
    let mut command = place.command(&args);
    command.stdout(Stdio::null());
    let _device = Running::start(command);
    let started = Instant::now();
    while !socket.exists() {
        assert!(started.elapsed() < PATIENCE, "no device");
        std::thread::sleep(Duration::from_millis(5));
    }
    let report = place.json(&["doctor", "--device", &at]);
    let found = finding(&report, "device")["found"]
        .as_str()
        .unwrap_or_default();
    assert!(
        found.starts_with("contract 1.") && found.contains("2 queue pairs"),
        "{found}"
    );
    place.refusal(2, &["doctor", "--device", "0000:01:00.0"]);
}
