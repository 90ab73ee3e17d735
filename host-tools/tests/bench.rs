// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench`: short forms of the experiments, whose ratios keep their bands.

use serde_json::Value;
use std::process::{Command, Output};

fn bench(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .arg("bench")
        .args(args.split_whitespace())
        .output()
        .unwrap()
}

fn rows(args: &str) -> Vec<Value> {
    let out = bench(&format!("{args} --json"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let text = String::from_utf8(out.stdout).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key]
        .as_f64()
        .unwrap_or_else(|| panic!("no {key} in {row}"))
}

/// The NIC is as even as the ideal server, but for the time of a frame.
#[test]
fn paced_flows_are_as_even_as_they_can_be() {
    // 1,514 bytes, FCS, preamble and gap at 100 Gb/s.
    let frame_ns = 123.04;
    let all = rows("pacing --flows 1,32,256 --time 4ms");
    assert_eq!(all.len(), 3 * 2 * 2 * 3);
    for three in all.chunks(3) {
        let [ideal, nic, software] = three else {
            panic!("three servers a point")
        };
        assert_eq!(
            [&ideal["server"], &nic["server"], &software["server"]],
            ["ideal", "nic", "software"]
        );
        assert!(number(nic, "gaps") > 0.9 * number(ideal, "gaps"), "{nic}");
        let beyond = number(nic, "p99_ns") - number(ideal, "p99_ns");
        assert!(beyond <= frame_ns, "{nic} {ideal}");
        // Bursts at line rate are another thing.
        assert!(number(software, "p99_ns") > number(nic, "p99_ns") + frame_ns);
    }
    assert_eq!(
        rows("pacing --flows 8 --time 1ms"),
        rows("pacing --flows 8 --time 1ms")
    );
}

/// A small limit starves a fast wire and not a slow one, and the plot is there.
#[test]
fn the_knee_of_small_queues() {
    let svg = std::env::temp_dir().join(format!("tsonic-bench-{}.svg", std::process::id()));
    let all = rows(&format!(
        "tsq --rtt 2ms --flush 100us --limit 16384,1048576 --time 10ms --svg {}",
        svg.display()
    ));
    let plot = std::fs::read_to_string(&svg).unwrap();
    std::fs::remove_file(&svg).unwrap();
    assert!(plot.contains("10 Gb/s, RTT 2000 us, flush 100 us"));
    let share: Vec<f64> = all.iter().map(|r| number(r, "wire_share")).collect();
    let [slow_small, slow, slow_bql, fast_small, fast, fast_bql] = share[..] else {
        panic!("{all:?}")
    };
    assert!(slow_small >= 0.8 && fast_small <= 0.45, "{share:?}");
    assert!(slow >= 0.99 && fast >= 0.99, "{share:?}");
    assert!(
        slow_bql >= 0.98 * slow && fast_bql >= 0.98 * fast,
        "{share:?}"
    );
}

fn queues(row: &Value, key: &str) -> Vec<u64> {
    let all = row[key].as_array().unwrap();
    all.iter().map(|w| w["queue"].as_u64().unwrap()).collect()
}

/// Flows on two queues are on fifteen after the reselection time, and stay where they are without.
#[test]
fn busy_flows_follow_their_threads() {
    let all = rows(
        "xps --flows 150 --lists flow --reselection 0,100 --opening 60ms --settle 40ms --watch 300ms",
    );
    let [stays, moves] = &all[..] else {
        panic!("{all:?}")
    };
    for row in &all {
        assert_eq!(queues(row, "before"), [0, 1], "{row}");
        assert_eq!(number(row, "reordered"), 0.0, "{row}");
    }
    assert_eq!(queues(stays, "after"), [0, 1], "{stays}");
    assert_eq!(number(stays, "moves"), 0.0, "{stays}");
    assert_eq!(queues(moves, "after"), (1..=15).collect::<Vec<_>>());
    assert!(number(moves, "deviation") <= 0.15, "{moves}");
    let last = number(moves, "last_ms");
    assert!(
        last <= 101.0 + 2.0 * number(moves, "gap_moving_ms"),
        "{moves}"
    );
}

/// In 2004 the divisor is the size of a burst; today it is not.
#[test]
fn a_share_of_the_window() {
    let all =
        rows("win-divisor --rtt 1ms --form 2004,today --divisor 8 --cwnd 32,128 --time 100ms");
    let segments: Vec<f64> = all
        .iter()
        .map(|r| number(r, "segments_per_burst"))
        .collect();
    let [small, large, today_small, today_large] = segments[..] else {
        panic!("{all:?}")
    };
    assert!((small / 4.0 - 1.0).abs() < 0.03, "{segments:?}");
    assert!((large / 16.0 - 1.0).abs() < 0.03, "{segments:?}");
    assert!(today_small >= small && today_large >= large, "{segments:?}");
    let goodput: Vec<f64> = all.iter().map(|r| number(r, "goodput")).collect();
    assert!(goodput[0] / goodput[2] > 0.9, "{goodput:?}");
    assert!(goodput[1] / goodput[3] > 0.95, "{goodput:?}");
}

/// Whatever it costs here, all that was sent is there, and the row is whole.
#[test]
fn throughput_has_a_row_for_each_stack() {
    let all = rows("throughput --flows 2 --per-ack 2 --connections 3 --rounds 1 --packets 500");
    assert_eq!(all.len(), 8);
    for row in &all {
        assert!(number(row, "packets") >= 500.0, "{row}");
        assert!(row["ns_per_packet"][1].as_f64().unwrap() > 0.0, "{row}");
    }
}

/// All of them, and a report that needs no other file.
#[test]
fn the_report_has_all_experiments() {
    let file = std::env::temp_dir().join(format!("tsonic-report-{}.html", std::process::id()));
    let out = bench(&format!("all --form short {}", file.display()));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let tables = String::from_utf8(out.stdout).unwrap();
    let commands: Vec<&str> = tables
        .lines()
        .filter_map(|l| l.strip_prefix("$ "))
        .collect();
    let report = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(commands.len() >= 6, "{tables}");
    for (n, command) in commands.iter().enumerate() {
        let heading = format!("<h2 id=\"{n}\"><code>{command}</code></h2>");
        assert!(report.contains(&heading), "no {heading}");
    }
    assert_eq!(report.matches("<svg").count(), commands.len());
    assert!(!report.contains("href=\"http") && !report.contains("src="));
}

#[test]
fn what_cannot_be_is_refused() {
    for (args, says) in [
        ("pacing --flows 2000 --time 1ms", "--flows"),
        ("pacing --flows 0", "0"),
        ("pacing --time 0s", "too short"),
        ("tsq --time 0s", "too short"),
        ("tso-rtt --time 1ns", "too short"),
        ("win-divisor --time 0s", "too short"),
        ("tso-rtt --svg /nowhere/x.svg", "/nowhere/x.svg"),
        ("pacing --load 101%", "101%"),
        ("tsq --line fast", "fast"),
        ("tsq --gso-max 100", "100"),
        ("throughput --connections 0", "from 1 to"),
        ("all /nowhere/x.html", "/nowhere/x.html"),
        ("xps --flows 14", "14"),
        ("xps --reselection x", "x"),
        ("win-divisor --cwnd 0", "0"),
        ("win-divisor --form 2005", "2005"),
        (
            "pacing --flows 1 --time 1ms --svg /nowhere/x.svg",
            "/nowhere/x.svg",
        ),
    ] {
        let out = bench(args);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success(), "{args}");
        assert!(said.contains(says), "{args}: {said}");
    }
}
