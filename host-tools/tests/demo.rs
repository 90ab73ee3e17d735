// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic demo` as a user runs it, with our own engine as the receiver, so that
//! it needs no permission and repeats bit by bit.

use serde_json::Value;
use std::process::{Command, Output};

fn tsonic(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .args(args)
        .output()
        .expect("the built binary runs")
}

/// The report of a run that must end well.
fn demo(args: &[&str]) -> Value {
    let all = [
        &["demo", "--json", "--peer", "sim", "--timeout", "120s"],
        args,
    ]
    .concat();
    let out = tsonic(&all);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&out.stdout).expect("one JSON object")
}

/// The reason of a run that must fail, with the exit code.
fn refusal(args: &[&str]) -> (i32, String) {
    let out = tsonic(args);
    assert!(out.stdout.is_empty(), "{args:?} printed a result");
    (
        out.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&out.stderr).into_owned(),
    )
}

#[test]
fn what_arrives_is_what_was_sent() {
    for args in [
        &["--size", "4MiB"][..],
        &["--size", "4MiB", "--ipv6"],
        &["--size", "3000001", "--flows", "7", "--rate", "10MB/s"],
        &["--size", "1"],
        &["--size", "0"],
    ] {
        let r = demo(args);
        assert_eq!(r["ok"], true, "{args:?}");
        assert_eq!(r["sha256_sent"], r["sha256_received"]);
        assert_eq!(r["bytes"], r["bytes_received"]);
        assert_eq!(r["retransmitted"], 0, "a clean wire: {args:?}");
    }
}

#[test]
fn a_lossy_wire_is_repaired_and_a_run_repeats() {
    let args = [
        "--size",
        "8MiB",
        "--loss",
        "1%",
        "--dup",
        "0.1%",
        "--reorder",
        "1%",
        "--seed",
        "5",
    ];
    let (mut first, mut second) = (demo(&args), demo(&args));
    assert_eq!(first["ok"], true);
    let dropped = first["wire_dropped_payload_bytes"]
        .as_u64()
        .unwrap_or_default();
    let again = first["retransmitted_bytes"].as_u64().unwrap_or_default();
    assert!(
        dropped > 0 && again <= dropped * 3 / 2,
        "{again} sent again, {dropped} dropped"
    );
    for r in [&mut first, &mut second] {
        let object = r.as_object_mut().expect("an object");
        object.remove("wall_seconds");
        object.remove("dilation");
    }
    assert_eq!(first, second, "same seed, same run");
}

#[test]
fn a_held_rate_is_kept_by_the_nic() {
    let r = demo(&["--size", "8MiB", "--rate", "20MB/s"]);
    let goodput = r["goodput"].as_f64().unwrap_or_default();
    assert!((15e6..20.2e6).contains(&goodput), "{goodput}");
    assert!(r["paced_gaps"].as_u64() > Some(1_000));
    // Two ticks of the clock.
    assert!(r["pacing_error_p99_ns"].as_u64() <= Some(16), "{r}");
}

#[test]
fn a_file_is_sent_and_captured() {
    let folder = std::env::temp_dir().join(format!("tsonic-demo-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the test");
    let (file, capture) = (folder.join("file"), folder.join("capture.pcapng"));
    std::fs::write(&file, vec![0x5a; 100_000]).expect("a file to send");
    let (file, capture) = (file.to_string_lossy(), capture.to_string_lossy());
    let r = demo(&[&*file, "--pcap", &*capture]);
    assert_eq!(
        (&r["ok"], &r["bytes"]),
        (&Value::from(true), &Value::from(100_000))
    );
    let frames = r["captured"].as_u64().unwrap_or_default();
    let bytes = std::fs::metadata(&*capture)
        .map(|m| m.len())
        .unwrap_or_default();
    assert!(
        frames > 70 && bytes > 100_000,
        "{frames} frames, {bytes} bytes"
    );
    std::fs::remove_dir_all(&folder).expect("the folder goes");
}

#[test]
fn bad_input_gets_one_clear_sentence() {
    for (args, code, says) in [
        (
            &["demo", "/nonexistent/file"][..],
            1,
            "cannot send /nonexistent/file",
        ),
        (&["demo", "/"], 1, "not a regular file"),
        (
            &[
                "demo",
                "--peer",
                "sim",
                "--sysctl",
                "net.ipv4.tcp_tso_rtt_log=99",
            ],
            2,
            "0..=31",
        ),
        (
            &["demo", "--peer", "sim", "--sysctl", "net.ipv4.nothing=1"],
            2,
            "no tunable",
        ),
        (
            &["demo", "--peer", "sim", "--sysctl", "nothing"],
            2,
            "NAME=VALUE",
        ),
        (&["demo", "--loss", "2"], 2, "no share"),
        (&["demo", "--size", "lots"], 2, "no size"),
        (&["demo", "--rate", "0MB/s"], 2, "no rate"),
        (&["demo", "--rate", "100B/s"], 2, "choose 200 B/s"),
        (&["demo", "--size", "99999999999EiB"], 2, "no size"),
        (&["demo", "--delay", "18446744074s"], 2, "a day at most"),
        (&["demo", "--delay", "5"], 2, "a delay of 5 s"),
        (&["demo", "--rate", "20"], 2, "no unit"),
        (
            &["demo", "--size", "1EiB", "--timeout", "1s"],
            1,
            "not done after 1 s",
        ),
        (
            &["demo", "--peer", "sim", "--ipv6", "--mtu", "600"],
            2,
            "1280",
        ),
        (
            &["demo", "--peer", "sim", "--pcap", "/nonexistent/x"],
            1,
            "/nonexistent/x: No such file",
        ),
        (&["demo", "--flows", "0"], 2, "1..=256"),
        (&["demo", "--gso-max", "1GiB"], 2, "choose 1 to"),
        (
            &["demo", "--nic", "rtl", "--queues", "5", "--peer", "sim"],
            2,
            "choose 4, 8 or 32",
        ),
    ] {
        let (got, stderr) = refusal(args);
        assert_eq!(got, code, "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn a_capture_does_not_empty_the_file_that_is_sent() {
    let path = std::env::temp_dir().join(format!("tsonic-own-{}", std::process::id()));
    std::fs::write(&path, [7; 1_000]).expect("a file to send");
    let name = path.to_string_lossy();
    let (code, stderr) = refusal(&["demo", "--peer", "sim", &*name, "--pcap", &*name]);
    assert_eq!(code, 2);
    assert!(stderr.contains("choose another"), "{stderr}");
    let left = std::fs::read(&path).expect("it is still there");
    assert_eq!(left, [7; 1_000]);
    std::fs::remove_file(&path).expect("it goes");
}

#[test]
fn a_connection_that_is_given_up_says_so() {
    let (code, stderr) = refusal(&[
        "demo", "--peer", "sim", "--size", "100KiB", "--loss", "60%", "--seed", "2",
    ]);
    assert_eq!(code, 1);
    assert!(stderr.contains("timed out"), "{stderr}");
}

#[test]
fn a_report_that_cannot_be_written_is_an_error_without_a_panic() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .expect("/dev/full");
    let out = Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .args(["demo", "--peer", "sim", "--size", "1KiB", "--json"])
        .stdout(full)
        .output()
        .expect("the built binary runs");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("standard output"), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}
