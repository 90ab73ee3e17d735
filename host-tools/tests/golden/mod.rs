// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden vectors through `tsonic segment` and `tsonic classify`, as their
//! users run them: JSON lines through the binary. `nic` is what `--nic` says.

#![allow(dead_code)] // Every test file takes what it needs.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{BufRead, BufReader, Write};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Runs the binary over `input`; its lines.
pub fn run(args: &[&str], input: String) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .args(args)
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
    assert!(child.wait().unwrap().success(), "{args:?}");
    lines
}

/// Runs the binary over one line a question.
pub fn ask(args: &[&str], questions: &[Value]) -> Vec<Value> {
    let answers = run(args, questions.iter().map(|q| format!("{q}\n")).collect());
    assert_eq!(answers.len(), questions.len());
    for (question, answer) in questions.iter().zip(&answers) {
        assert_eq!(answer["id"], question["id"]);
    }
    answers
}

/// Rows of a file of vectors.
pub fn rows(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors");
    let text = std::fs::read(path.join(file)).unwrap();
    let all: Value = serde_json::from_slice(&text).unwrap();
    all["vectors"].as_array().unwrap().clone()
}

/// The payload generator of the vectors.
fn payload(row: &Value) -> Vec<u8> {
    let mut x = row["payload_seed"].as_u64().unwrap() as u32;
    (0..row["payload_len"].as_u64().unwrap())
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .collect()
}

/// The question to `segment` that a row of `gso.json` is.
fn gso_question(row: &Value) -> Value {
    let kind = match row["gso"].as_str().unwrap() {
        "tcpv4" | "tcpv6" => "tso",
        "udp_l4" => "uso",
        "none" => "csum",
        other => panic!("{other}"),
    };
    let header = row["in_hdr"].as_str().unwrap();
    json!({
        "id": row["id"], "frame": format!("{header}{}", hex::encode(payload(row))),
        "kind": kind, "mss": row["mss"], "ip_id": row["id_mode"],
        "l2_len": row["l2_len"], "l3_len": row["l3_len"], "l4_len": row["l4_len"],
    })
}

/// A header with a TCP checksum of 0xffff made the equal 0x0000.
fn normal(header: &[u8], row: &Value) -> String {
    let mut h = header.to_vec();
    let at = (row["l2_len"].as_u64().unwrap() + row["l3_len"].as_u64().unwrap()) as usize + 16;
    if row["proto"] == 6 && h[at..at + 2] == [0xff, 0xff] {
        h[at..at + 2].fill(0);
    }
    hex::encode(h)
}

fn check_gso(row: &Value, answer: &Value) {
    let id = &row["id"];
    let frames: Vec<Vec<u8>> = answer["frames"]
        .as_array()
        .unwrap_or_else(|| panic!("{id}: {answer}"))
        .iter()
        .map(|f| hex::decode(f.as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(frames.len() as u64, row["nseg"].as_u64().unwrap(), "{id}");
    if let Some(headers) = row["out_hdr"].as_array() {
        for (i, (frame, header)) in frames.iter().zip(headers).enumerate() {
            let want = hex::decode(header.as_str().unwrap()).unwrap();
            let (header, rest) = frame.split_at(want.len());
            assert_eq!(normal(header, row), normal(&want, row), "{id}: {i}");
            assert_eq!(rest.len() as u64, row["out_len"][i].as_u64().unwrap());
        }
        // The payload as a whole.
        let header_len = headers[0].as_str().unwrap().len() / 2;
        let sent: Vec<u8> = frames
            .iter()
            .flat_map(|f| &f[header_len..])
            .copied()
            .collect();
        assert!(sent == payload(row), "{id}: payload");
    }
    // One row has another sign of zero than the kernel; its headers are above.
    if id != "c4-tcp-csum-zero" {
        let mut digest = Sha256::new();
        for f in &frames {
            digest.update((f.len() as u32).to_be_bytes());
            digest.update(f);
        }
        assert_eq!(hex::encode(digest.finalize()), row["out_sha256"], "{id}");
    }
}

/// What a build can do.
#[derive(Clone, Copy)]
pub struct Build {
    /// Its `--nic`.
    pub nic: &'static str,
    /// Largest payload of a segment.
    pub max_segment: u64,
    /// It segments UDP.
    pub uso: bool,
}

/// Rows of protocol `proto` of `gso.json`; how many there were. What the build cannot do
/// is refused.
pub fn gso(build: Build, proto: u8) -> usize {
    let mut rows = rows("gso.json");
    rows.retain(|r| r["proto"] == proto);
    let questions: Vec<Value> = rows.iter().map(gso_question).collect();
    let answers = ask(&["segment", "--nic", build.nic], &questions);
    for (row, answer) in rows.iter().zip(&answers) {
        if row["gso"] == "udp_l4" && !build.uso {
            assert_eq!(answer["error"]["name"], "BAD_KIND", "{}", row["id"]);
        } else if row["max_payload"].as_u64().unwrap() > build.max_segment {
            assert_eq!(
                answer["error"]["name"], "SEGMENT_TOO_LARGE",
                "{}",
                row["id"]
            );
        } else {
            check_gso(row, answer);
        }
    }
    rows.len()
}

/// All rows of `csum.json`; how many there were.
pub fn csum(nic: &str) -> usize {
    let rows = rows("csum.json");
    let question = |r: &Value| json!({ "id": r["id"], "frame": r["frame"] });
    let questions: Vec<Value> = rows.iter().map(question).collect();
    let answers = ask(&["classify", "--nic", nic], &questions);
    for (row, answer) in rows.iter().zip(&answers) {
        for key in ["ip_csum", "l4_csum"] {
            if !row[key].is_null() {
                assert_eq!(answer[key], row[key], "{} {key}: {answer}", row["id"]);
            }
        }
    }
    rows.len()
}

/// The frame of a row of `rss.json`: TCP where it has ports, else protocol 253.
fn rss_frame(row: &Value) -> Vec<u8> {
    let address = |key: &str| row[key].as_str().unwrap().parse::<IpAddr>().unwrap();
    let mut l4 = [0u8; 20];
    let protocol = match (row["sport"].as_u64(), row["dport"].as_u64()) {
        (Some(source), Some(destination)) => {
            l4[..2].copy_from_slice(&(source as u16).to_be_bytes());
            l4[2..4].copy_from_slice(&(destination as u16).to_be_bytes());
            l4[12] = 0x50;
            6
        }
        _ => 253,
    };
    let mut f = vec![2u8; 12];
    match (address("src"), address("dst")) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            f.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
            f.extend(s.octets());
            f.extend(d.octets());
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 64]);
            f.extend(s.octets());
            f.extend(d.octets());
        }
        other => panic!("{other:?}"),
    }
    f.extend(l4);
    f
}

/// All rows of `rss.json`; how many there were.
pub fn rss(nic: &str) -> usize {
    let rows = rows("rss.json");
    let question =
        |r: &Value| json!({ "id": r["id"], "frame": hex::encode(rss_frame(r)), "key": r["key"] });
    let questions: Vec<Value> = rows.iter().map(question).collect();
    let answers = ask(&["classify", "--nic", nic], &questions);
    for (row, answer) in rows.iter().zip(&answers) {
        let id = &row["id"];
        assert_eq!(answer["hash"], row["hash"], "{id}: {answer}");
        assert_eq!(answer["queue"], row["queue4"], "{id}");
        let kind = if row["sport"].is_null() { "l3" } else { "l4" };
        assert_eq!(answer["hash_kind"], kind, "{id}");
    }
    rows.len()
}
