// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic explain` as its users run it: JSON lines through the binary.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Runs the command over `input` and gives its lines.
fn explain(input: String) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .arg("explain")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(|l| serde_json::from_str(&l.unwrap()).unwrap())
        .collect();
    writer.join().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    lines
}

fn ask(questions: &[Value]) -> Vec<Value> {
    explain(questions.iter().map(|q| format!("{q}\n")).collect())
}

#[test]
fn every_golden_vector() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/tcp.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let rows = file["vectors"].as_array().unwrap();
    assert!(rows.len() >= 400);
    let asks: Vec<Value> = rows.iter().map(|r| r["ask"].clone()).collect();
    let answers = ask(&asks);
    assert_eq!(answers.len(), rows.len());
    for (row, got) in rows.iter().zip(&answers) {
        assert_eq!(got["id"], row["ask"]["id"]);
        for (key, want) in row["expect"].as_object().unwrap() {
            assert_eq!(&got[key], want, "{} {key}", row["ask"]);
        }
    }
}

/// Functions that the vectors do not cover, and the corners of the others.
#[test]
fn questions_beyond_the_vectors() {
    let open = json!({
        "id": 0, "fn": "should_defer", "in_recovery": false, "now_ns": 1_000_000_000,
        "wstamp_ns": 1_000_000_000, "in_flight": 8, "cwnd": 10, "snd_wnd": 1 << 20,
        "wnd_left": 1 << 20, "mss": 1448, "segs": 45, "len": 65_160, "tail": true,
        "win_divisor": 3, "head_sent_ns": 999_100_000, "srtt8_us": 8_000, "fin_or_eor": false,
    });
    let mut idle = open.clone();
    idle["head_sent_ns"] = Value::Null;
    let ack = |in_flight, newly, lost, una| json!({ "in_flight": in_flight, "newly": newly, "lost": lost, "una_advanced": una });
    for (question, want) in [
        (
            open,
            json!({ "defer": true, "cwnd_limited": true, "rwnd_limited": false }),
        ),
        (
            idle,
            json!({ "defer": false, "cwnd_limited": false, "rwnd_limited": false }),
        ),
        (
            json!({ "fn": "win_divisor_2004", "mss": 1448, "cwnd": 80, "divisor": 8, "header_len": 52 }),
            json!({ "segs": 10 }),
        ),
        (
            json!({ "fn": "prr", "ssthresh": 10, "prior_cwnd": 20, "acks": [
                ack(19, 1, json!(false), false), ack(19, 1, json!(0), false), ack(4, 2, json!(1), true) ] }),
            json!({ "steps": [
                { "sndcnt": 1, "cwnd": 20 }, { "sndcnt": 0, "cwnd": 19 }, { "sndcnt": 3, "cwnd": 7 } ] }),
        ),
        (
            json!({ "fn": "dctcp", "windows": [[100, 0], [100, 0], [100, 50]] }),
            json!({ "alpha": [960, 900, 876] }),
        ),
        (
            json!({ "fn": "paws", "ts_recent": 1000, "tsval": 998, "age_s": 0 }),
            json!({ "accept": false }),
        ),
        (
            json!({ "fn": "codel", "target_ticks": 10, "interval_ticks": 100, "events": [
                ["e", 0, 1500], ["e", 0, 1500], ["e", 0, 1500], ["e", 0, 1500], ["e", 0, 1500],
                ["d", 10], ["d", 111], ["d", 111], ["d", 112], ["d", 113] ] }),
            json!({ "deq": [
                { "drop": 0, "delay": 10 }, { "drop": 1, "delay": 111 }, { "drop": 0, "delay": 111 },
                { "drop": 0, "delay": 112 }, { "drop": 0, "delay": null } ] }),
        ),
        (
            json!({ "fn": "edt_step", "len": 1, "wstamp_ns": u64::MAX, "now_ns": 0, "segs_out": 0 }),
            json!({ "departure_ns": u64::MAX, "wstamp_ns": u64::MAX }),
        ),
        (
            json!({ "fn": "rtt", "samples_us": [100_000] }),
            json!({ "srtt8": [800_000], "rto_us": [300_000] }),
        ),
        (
            json!({ "fn": "dql", "hold": 1000, "events": [["q", 65_160, 0], ["c", 65_160, 0]] }),
            json!({ "steps": [
                { "limit": 0, "avail": -65_160, "inflight": 65_160 },
                { "limit": 65_160, "avail": 65_160, "inflight": 0 } ] }),
        ),
    ] {
        let mut question = question;
        question["id"] = json!(7);
        let mut want = want;
        want["id"] = json!(7);
        assert_eq!(ask(&[question.clone()]), [want], "{question}");
    }
}

#[test]
fn bad_lines_have_codes_and_remedies_and_the_stream_goes_on() {
    let good = json!({ "id": "last", "fn": "cwnd_quota", "cwnd": 10, "in_flight": 4 });
    let size = json!({
        "id": 1, "fn": "tso_autosize", "pacing_rate": 1, "mss": 1, "gso_max": 1,
        "min_rtt_us": null, "rtt_log": 9, "min_segs": 1, "max_segs": 1,
    });
    let with = |key: &str, value: Value| {
        let mut q = size.clone();
        q[key] = value;
        q
    };
    let questions = [
        (json!({ "id": 1, "fn": "cwnd_qouta" }), "UNKNOWN_FUNCTION"),
        (json!({ "id": 1 }), "BAD_INPUT"),
        (json!({ "id": 1, "fn": 3 }), "BAD_INPUT"),
        (with("mss", json!(0)), "MSS_ZERO"),
        (with("rtt_log", json!(32)), "BAD_INPUT"),
        (with("min_segs", json!(0)), "BAD_INPUT"),
        (with("shfit", json!(10)), "BAD_INPUT"),
        (with("pacing_rate", json!(1.5)), "BAD_INPUT"),
        (with("pacing_rate", json!(-1)), "BAD_INPUT"),
        (
            json!({ "id": 1, "fn": "dql", "hold": 1, "events": [["c", 1, 0]] }),
            "BAD_INPUT",
        ),
        (
            json!({ "id": 1, "fn": "dql", "hold": 1, "events": [["x", 1, 0]] }),
            "BAD_INPUT",
        ),
        (
            json!({ "id": 1, "fn": "codel", "target_ticks": 1, "interval_ticks": 1, "events": [["d", 1, 2]] }),
            "BAD_INPUT",
        ),
    ];
    let mut input: Vec<Value> = questions.iter().map(|q| q.0.clone()).collect();
    input.push(good);
    let got = ask(&input);
    for ((question, name), got) in questions.iter().zip(&got) {
        assert_eq!(got["id"], 1);
        assert_eq!(got["error"]["name"], *name, "{question} {got}");
        assert!(got["error"]["code"].is_u64());
        assert!(!got["error"]["remedy"].as_str().unwrap().is_empty());
    }
    assert_eq!(got.last(), Some(&json!({ "id": "last", "segs": 5 })));
}
