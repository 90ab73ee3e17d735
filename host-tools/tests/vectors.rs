// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden vectors through the NIC's model, and what the commands do with lines
//! and arguments that are no use.

mod golden;

use golden::{Build, ask, run};
use serde_json::{Value, json};
use std::process::{Command, Output, Stdio};

const MODEL: Build = Build {
    nic: "model",
    max_segment: 65_535,
    uso: true,
};
const SEGMENT: &[&str] = &["segment", "--nic", "model"];
const CLASSIFY: &[&str] = &["classify", "--nic", "model"];

#[test]
fn tcp_is_segmented_as_the_kernel_does() {
    assert_eq!(golden::gso(MODEL, 6), 96);
}

#[test]
fn udp_is_segmented_as_the_kernel_does() {
    assert_eq!(golden::gso(MODEL, 17), 22);
}

#[test]
fn checksums_are_judged_as_the_kernel_does() {
    assert!(golden::csum("model") >= 100);
}

#[test]
fn hashes_and_queues_are_those_published() {
    assert!(golden::rss("model") >= 20);
}

fn frames(answer: &Value) -> Vec<Vec<u8>> {
    let frames = answer["frames"].as_array();
    frames
        .unwrap_or_else(|| panic!("{answer}"))
        .iter()
        .map(|f| hex::decode(f.as_str().unwrap()).unwrap())
        .collect()
}

#[test]
fn frames_are_neither_padded_nor_limited_by_one_fragment() {
    let longest = 262_143;
    let answers = ask(
        SEGMENT,
        &[
            tso("one", 1, 1448),
            tso("none", 0, 1448),
            tso("long", longest, 1448),
            tso("short", 3_000, 1),
        ],
    );
    assert_eq!(frames(&answers[0])[0].len(), 55);
    assert_eq!(frames(&answers[1])[0].len(), 54);
    for (answer, payload, mss) in [(&answers[2], longest, 1448), (&answers[3], 3_000, 1)] {
        let got = frames(answer);
        assert_eq!(got.len(), payload.div_ceil(mss));
        let sent: Vec<u8> = got.iter().flat_map(|f| &f[54..]).copied().collect();
        assert!(sent == tcp4(payload)[54..]);
    }
}

#[test]
fn cwr_and_identification_follow_their_keys() {
    let q = tso(1, 3_000, 1_000);
    let answers = ask(
        SEGMENT,
        &[
            q.clone(),
            with(&q, "cwr", json!("all")),
            with(&q, "ip_id", json!("fixed")),
            with(&with(&q, "ip_id", json!("inc")), "cwr", json!("first")),
        ],
    );
    let flags = |a: &Value| frames(a).iter().map(|f| f[47]).collect::<Vec<_>>();
    let ids = |a: &Value| frames(a).iter().map(|f| f[19]).collect::<Vec<_>>();
    assert_eq!(flags(&answers[0]), [0x90, 0x10, 0x18]);
    assert_eq!(flags(&answers[1]), [0x90, 0x90, 0x98]);
    assert_eq!(ids(&answers[0]), [0, 1, 2]);
    assert_eq!(ids(&answers[2]), [0, 0, 0]);
    assert_eq!(answers[3]["frames"], answers[0]["frames"], "the defaults");
}

#[test]
fn mss_may_be_anything_above_the_payload_and_absent_without_cutting() {
    let q = tso(1, 3_000, 3_000);
    let big = tso(1, 70_000, 70_000);
    let csum = with(&q, "kind", json!("csum"));
    let answers = ask(
        SEGMENT,
        &[
            q.clone(),
            with(&q, "mss", json!(u64::MAX)),
            with(&csum, "mss", Value::Null),
            with(&csum, "mss", json!(0)),
            with(&csum, "mss", json!(1_000_000)),
            big.clone(),
            // An IP packet has at most 65,535 bytes.
            tso(1, 65_495, 65_535),
            tso(1, 65_496, 65_535),
        ],
    );
    for answer in &answers[1..5] {
        assert_eq!(answer["frames"], answers[0]["frames"]);
    }
    assert_eq!(answers[5]["error"]["name"], "SEGMENT_TOO_LARGE");
    assert_eq!(frames(&answers[6])[0].len(), 65_549);
    assert_eq!(answers[7]["error"]["name"], "SEGMENT_TOO_LARGE");
}

/// Asks each question; every one gives the error of that name, and one good question
/// after each an answer.
fn refused(args: &[&str], good: &Value, bad: &[(Value, &str)]) {
    let mut questions = Vec::new();
    for (question, _) in bad {
        questions.extend([question.clone(), good.clone()]);
    }
    let answers = ask(args, &questions);
    for ((question, name), pair) in bad.iter().zip(answers.chunks(2)) {
        let error = &pair[0]["error"];
        assert_eq!(error["name"], *name, "{question}: {}", pair[0]);
        assert!(error["code"].as_u64().unwrap() > 0);
        assert!(!error["remedy"].as_str().unwrap().is_empty());
        assert!(pair[1]["error"].is_null(), "{}", pair[1]);
    }
}

#[test]
fn bursts_that_are_refused_have_codes_and_the_stream_goes_on() {
    let q = tso(7, 3_000, 1_448);
    let not_ip = {
        let mut f = tcp4(3_000);
        f[14] = 0;
        hex::encode(f)
    };
    refused(
        SEGMENT,
        &q,
        &[
            (with(&q, "mss", json!(0)), "MSS_ZERO"),
            (with(&q, "mss", Value::Null), "BAD_INPUT"),
            (with(&q, "mss", json!(-1)), "BAD_INPUT"),
            (with(&q, "mss", json!(1448.0)), "BAD_INPUT"),
            (with(&q, "kind", json!("raw")), "BAD_INPUT"),
            (with(&q, "kind", json!("TSO")), "BAD_INPUT"),
            (with(&q, "kind", json!("uso")), "BAD_HEADER_LENGTH"),
            (with(&q, "ip_id", json!("random")), "BAD_INPUT"),
            (with(&q, "cwr", json!("none")), "BAD_INPUT"),
            (with(&q, "cwrr", json!("all")), "BAD_INPUT"),
            (with(&q, "frame", json!("0")), "BAD_INPUT"),
            (with(&q, "frame", json!("0g")), "BAD_INPUT"),
            (with(&q, "frame", json!(12)), "BAD_INPUT"),
            (with(&q, "frame", json!("")), "BAD_HEADER_LENGTH"),
            (with(&q, "frame", json!(not_ip)), "BAD_INPUT"),
            (with(&q, "l2_len", json!(13)), "BAD_HEADER_LENGTH"),
            (with(&q, "l2_len", json!(12)), "BAD_HEADER_LENGTH"),
            (with(&q, "l2_len", json!(1_000)), "BAD_HEADER_LENGTH"),
            (with(&q, "l3_len", json!(22)), "BAD_HEADER_LENGTH"),
            (with(&q, "l3_len", json!(400)), "BAD_HEADER_LENGTH"),
            (with(&q, "l3_len", json!(u64::MAX)), "BAD_HEADER_LENGTH"),
            (with(&q, "l4_len", json!(8)), "BAD_HEADER_LENGTH"),
            (with(&q, "l4_len", json!(64)), "BAD_HEADER_LENGTH"),
            (with(&q, "l4_len", Value::Null), "BAD_INPUT"),
            (tso(7, 262_144, 1_448), "LENGTH_MISMATCH"),
        ],
    );
}

#[test]
fn lines_that_are_no_objects_have_codes_and_the_stream_goes_on() {
    for args in [SEGMENT, CLASSIFY] {
        let answers = run(
            args,
            "nonsense\n\n[1]\n{\"frame\":\"00\"}\n{\"id\":1}".into(),
        );
        assert_eq!(answers.len(), 5);
        for answer in &answers {
            assert_eq!(answer["error"]["name"], "BAD_INPUT", "{answer}");
        }
        assert_eq!(answers[4]["id"], 1);
        assert!(run(args, String::new()).is_empty());
    }
}

#[test]
fn frames_that_are_dropped_have_codes_and_the_stream_goes_on() {
    let q = json!({ "id": 7, "frame": hex::encode(tcp4(10)) });
    let long = |n: usize| json!({ "id": 7, "frame": hex::encode(tcp4(n - 54)) });
    refused(
        CLASSIFY,
        &q,
        &[
            (with(&q, "frame", json!("")), "BAD_INPUT"),
            (with(&q, "frame", Value::Null), "BAD_INPUT"),
            (with(&q, "frame", json!("xx")), "BAD_INPUT"),
            (with(&q, "key", json!("00")), "BAD_INPUT"),
            (with(&q, "key", json!("0".repeat(82))), "BAD_INPUT"),
            (with(&q, "key", json!(0)), "BAD_INPUT"),
            (with(&q, "kye", json!("00")), "BAD_INPUT"),
            (long(9_217), "RX_TOO_LONG"),
            (long(65_536), "RX_TOO_LONG"),
            (long(100_000), "RX_TOO_LONG"),
        ],
    );
    let answers = ask(CLASSIFY, &[long(9_216), long(2_049)]);
    assert!(
        answers.iter().all(|a| a["hash_kind"] == "l4"),
        "{answers:?}"
    );
}

#[test]
fn frames_come_as_short_as_they_are() {
    let frame = |n: usize| json!({ "id": n, "frame": hex::encode(&tcp4(0)[..n]) });
    // Padding would stand for the bytes that are cut off.
    let lengths = [54, 38, 37, 34, 33, 14, 1];
    let answers = ask(CLASSIFY, &lengths.map(frame));
    let what = |a: &Value| {
        ["hash_kind", "l4_csum", "ip_csum"].map(|k| a[k].as_str().unwrap_or("?").to_owned())
    };
    for (n, answer) in lengths.iter().zip(&answers) {
        let want = match n {
            38.. => ["l4", "bad", "bad"],
            34.. => ["l3", "bad", "bad"],
            _ => ["none", "none", "none"],
        };
        assert_eq!(what(answer), want, "{n}: {answer}");
        if *n < 34 {
            assert_eq!(
                (&answer["hash"], &answer["queue"]),
                (&Value::Null, &json!(0))
            );
        }
    }
}

#[test]
fn the_key_holds_for_its_line_only_and_queues_are_dealt_out() {
    let frame = hex::encode(tcp4(10));
    let plain = json!({ "id": 1, "frame": frame });
    let keyed = json!({ "id": 1, "frame": frame, "key": "11".repeat(40) });
    let answers = ask(CLASSIFY, &[plain.clone(), keyed, plain.clone()]);
    assert_eq!(answers[0], answers[2]);
    assert_ne!(answers[0]["hash"], answers[1]["hash"]);
    for queues in [1, 3, 256] {
        let args = [
            "classify",
            "--nic",
            "model",
            "--queues",
            &queues.to_string(),
        ];
        let answer = &ask(&args, std::slice::from_ref(&plain))[0];
        let hash = u32::from_str_radix(answer["hash"].as_str().unwrap(), 16).unwrap();
        assert_eq!(answer["queue"], hash % 128 % queues);
    }
}

fn tsonic(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tsonic"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn impossible_arguments_are_told_in_a_sentence() {
    for (args, word) in [
        (&["segment"][..], "--nic"),
        (&["segment", "--nic", "asic"], "model"),
        (&["segment", "--nic", "model", "--width", "512"], "64 bits"),
        (&["segment", "--nic", "model", "extra"], "extra"),
        (&["classify"], "--nic"),
        (&["classify", "--nic", "model", "--queues", "0"], "1..=256"),
        (
            &["classify", "--nic", "model", "--queues", "257"],
            "1..=256",
        ),
        (&["verilog", "--block", "nothing"], "segment"),
        (&["verilog", "--queues", "5"], "4 or 8 or 32"),
        (
            &["classify", "--nic", "rtl", "--queues", "33"],
            "choose 4, 8 or 32",
        ),
        (
            &["verilog", "--block", "fetch_4", "--queues", "4"],
            "--queues",
        ),
    ] {
        let out = tsonic(args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        let words = String::from_utf8(out.stderr).unwrap();
        assert!(words.contains(word), "{args:?}: {words}");
    }
}

#[test]
fn the_nic_and_its_blocks_are_written_as_verilog() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("verilog");
    let place = folder.to_str().unwrap();
    for (args, name, port) in [
        (&["--queues", "4"][..], "tsonic_nic.v", "next_event_valid"),
        (&["--block", "memory"], "tsonic_memory.v", "rd_req_valid"),
    ] {
        let out = tsonic(&[&["verilog", "--out", place], args].concat());
        assert!(out.status.success(), "{out:?}");
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(
            said.contains(name) && said.contains("top module top"),
            "{said}"
        );
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let top = text.lines().find(|l| l.starts_with("module top("));
        assert!(top.unwrap().contains(port));
        let printed = tsonic(&[&["verilog"], args].concat());
        assert!(printed.stdout == text.as_bytes(), "{name}");
    }
    for args in [["--queues", "5"], ["--flows", "1024"]] {
        let out = tsonic(&[&["verilog"], &args[..]].concat());
        assert_eq!(out.status.code(), Some(2));
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains("there is one with 64 flow slots"), "{said}");
    }
}

#[test]
fn input_that_cannot_be_read_is_an_error() {
    // A folder can be opened, and not read.
    let folder = std::fs::File::open(env!("CARGO_MANIFEST_DIR")).unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .args(SEGMENT)
        .stdin(folder)
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(
        String::from_utf8(out.stderr)
            .unwrap()
            .starts_with("tsonic: ")
    );
}

/// A TCP/IPv4 frame with `payload` bytes behind 54 of headers.
fn tcp4(payload: usize) -> Vec<u8> {
    let mut f = vec![0u8; 54];
    f[12] = 8;
    f[14] = 0x45;
    f[16..18].copy_from_slice(&((payload + 40) as u16).to_be_bytes());
    f[20..24].copy_from_slice(&[0x40, 0, 64, 6]);
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    f[46..48].copy_from_slice(&[0x50, 0x98]);
    f.extend((0..payload).map(|i| (i * 31 + (i >> 8) * 7) as u8));
    f
}

/// A TSO question about [`tcp4`].
fn tso(id: impl Into<Value>, payload: usize, mss: u64) -> Value {
    json!({ "id": id.into(), "frame": hex::encode(tcp4(payload)), "kind": "tso", "mss": mss,
            "l2_len": 14, "l3_len": 20, "l4_len": 20 })
}

/// `question` with `key` as `value`; null takes it out.
fn with(question: &Value, key: &str, value: Value) -> Value {
    let mut q = question.clone();
    match value {
        Value::Null => {
            q.as_object_mut().unwrap().remove(key);
        }
        value => q[key] = value,
    }
    q
}
