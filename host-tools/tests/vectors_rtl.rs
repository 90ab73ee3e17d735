// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden vectors through the compiled logic. Needs Verilator: without it these
//! tests fail.

mod golden;

use golden::Build;
use serde_json::{Value, json};

const RTL: Build = Build {
    nic: "rtl",
    max_segment: 16_000,
    uso: false,
};

#[test]
fn tcp_is_segmented_as_the_kernel_does() {
    assert_eq!(golden::gso(RTL, 6), 96);
}

#[test]
fn udp_is_not_segmented_and_its_checksums_are_finished() {
    assert_eq!(golden::gso(RTL, 17), 22);
}

#[test]
fn checksums_are_judged_as_the_kernel_does() {
    assert!(golden::csum("rtl") >= 100);
}

#[test]
fn hashes_and_queues_are_those_published() {
    assert!(golden::rss("rtl") >= 20);
}

#[test]
fn errors_have_codes_and_the_stream_goes_on() {
    let mut burst = json!({ "id": 1, "frame": "00".repeat(17_000), "kind": "tso", "mss": 1_000,
                            "l2_len": 14, "l3_len": 20, "l4_len": 20 });
    let mut frame = vec!["00"; 17_000];
    frame[14] = "45";
    burst["frame"] = frame.concat().into();
    let mut large = burst.clone();
    large["mss"] = json!(16_001);
    let mut zero = burst.clone();
    zero["mss"] = json!(0);
    let answers = golden::ask(
        &["segment", "--nic", "rtl"],
        &[burst.clone(), large, burst.clone(), zero, burst],
    );
    assert_eq!(
        answers[0]["frames"].as_array().map(Vec::<Value>::len),
        Some(17)
    );
    assert_eq!(answers[1]["error"]["name"], "SEGMENT_TOO_LARGE");
    assert_eq!(answers[2], answers[0]);
    assert_eq!(answers[3]["error"]["name"], "MSS_ZERO");
    assert_eq!(answers[4], answers[0]);
    let frame = |n: usize| json!({ "id": n, "frame": "02".repeat(n) });
    let lengths = [60, 9_216, 9_217, 60, 14, 60];
    let answers = golden::ask(&["classify", "--nic", "rtl"], &lengths.map(frame));
    for (n, answer) in lengths.iter().zip(&answers) {
        if *n > 9_216 {
            assert_eq!(answer["error"]["name"], "RX_TOO_LONG", "{answer}");
        } else {
            assert_eq!(answer["hash_kind"], "none", "{answer}");
        }
    }
}
