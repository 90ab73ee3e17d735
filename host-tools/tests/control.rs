// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that watch and tune a running `tsonic demo`, as a user runs them. The
//! receiver is our own engine, so that it needs no permission; the clock is the engine's.

mod process;

use process::{PATIENCE, Running, Scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

/// A demo whose one flow keeps to 20 MB/s, with segments of 4,044 bytes, to a peer near
/// enough for bursts of 64 KiB. It would take minutes.
const DEMO: [&str; 16] = [
    "demo",
    "--peer",
    "sim",
    "--size",
    "512MiB",
    "--rate",
    "20MB/s",
    "--mtu",
    "4096",
    "--gso-max",
    "64KiB",
    "--delay",
    "50us",
    "--timeout",
    "600s",
    "--json",
];
/// What the engine must have done after a change.
const SOON_NS: u64 = 100_000_000;

fn demo(place: &Scratch, more: &[&str]) -> Running {
    let mut command = place.command(&[&DEMO, more].concat());
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    let running = Running::start(command);
    place.await_sockets(1, PATIENCE);
    running
}

fn number(v: &Value, key: &str) -> u64 {
    v[key]
        .as_u64()
        .unwrap_or_else(|| panic!("no number {key} in {v}"))
}

/// Statistics at the engine's time `at` or later.
fn stats_at(place: &Scratch, at: u64) -> Value {
    let started = Instant::now();
    loop {
        let s = place.json(&["stats"]);
        if number(&s, "engine_time_ns") >= at {
            return s;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "the engine's time stands"
        );
    }
}

/// Mean of segments per burst over at least 100 bursts that were posted later than
/// 100 ms of the engine's time after `set`.
fn mean_after(place: &Scratch, set: u64) -> f64 {
    let first = stats_at(place, set + SOON_NS);
    let before = (
        number(&first["total"], "bursts"),
        number(&first["total"], "segments"),
    );
    let mut at = number(&first, "engine_time_ns");
    loop {
        at += SOON_NS;
        let s = stats_at(place, at);
        let bursts = number(&s["total"], "bursts") - before.0;
        if bursts >= 100 {
            return (number(&s["total"], "segments") - before.1) as f64 / bursts as f64;
        }
    }
}

fn write(place: &Scratch, assignment: &str) -> u64 {
    let v = place.json(&["sysctl", "-w", assignment]);
    number(&v, "engine_time_ns")
}

#[test]
fn bursts_shrink_and_grow_as_the_tunable_is_written() {
    let place = Scratch::new("rtt-log");
    let _demo = demo(&place, &[]);
    // Out of slow start, with a minimal RTT.
    stats_at(&place, 500_000_000);
    let name = "net.ipv4.tcp_tso_rtt_log";
    for (value, segments) in [
        ("9", 16.0),
        ("null", 4.0),
        ("31", 16.0),
        ("off", 4.0),
        ("9", 16.0),
    ] {
        let set = write(&place, &format!("{name}={value}"));
        let mean = mean_after(&place, set);
        println!("{name}={value}: {mean:.3} segments a burst");
        assert!((mean - segments).abs() < 0.5, "{value}: {mean}");
        let shown = place.text(&["sysctl", name]);
        let value = if value == "null" { "off" } else { value };
        assert_eq!(shown, format!("{name} = {value}\n"));
    }
    let refused = place.refusal(1, &["sysctl", "-w", &format!("{name}=32")]);
    assert!(
        refused.contains("an integer 0..=31 or off, not 32"),
        "{refused}"
    );
    let refused = place.refusal(1, &["sysctl", "net.ipv4.tcp_rtt_log"]);
    assert!(
        refused.contains("no tunable") && refused.contains(name),
        "{refused}"
    );
    let refused = place.refusal(2, &["sysctl", "-w", name]);
    assert!(refused.contains("NAME=VALUE"), "{refused}");
    let all = place.text(&["sysctl", "-a"]);
    assert!(all.lines().count() > 30 && all.contains("net.core.txq_reselection_ms = 1000"));
}

#[test]
fn every_command_shows_what_it_sets() {
    let place = Scratch::new("commands");
    let mut running = demo(&place, &[]);
    stats_at(&place, 100_000_000);
    let xps = place.json(&["xps", "set", "tx-1", "00000000,00000009"]);
    assert_eq!(xps["xps_cpus"][1]["cpus"], "9");
    assert!(place.text(&["xps", "show"]).contains("tx-1 9\n"));
    // Core 0 now has two queues; with its own taken away it has the other.
    let moved = place.json(&["xps", "set", "tx-0", "0"]);
    let s = stats_at(&place, number(&moved, "engine_time_ns") + 1_200_000_000);
    let bursts = |s: &Value, q: usize| number(&s["queues"][q], "bursts");
    assert!(bursts(&s, 1) > 0, "moved when the queue was a second old");
    let t = stats_at(&place, number(&s, "engine_time_ns") + SOON_NS);
    assert_eq!(bursts(&t, 0), bursts(&s, 0));
    assert!(bursts(&t, 1) > bursts(&s, 1));
    let rate = place.json(&["rate", "set", "tx-1", "5MB/s"]);
    assert_eq!(rate["rates"][1]["rate"], 5_000_000);
    assert!(place.text(&["rate", "show"]).contains("tx-1 5000000 B/s\n"));
    place.text(&["rate", "set", "tx-1", "off"]);
    assert!(place.text(&["rate", "show"]).contains("tx-1 off\n"));
    let bql = place.json(&["bql", "set", "tx-1", "limit_max", "30000"]);
    assert_eq!(bql["byte_queue_limits"][1]["limit_max"], 30_000);
    let shown = place.text(&["bql", "show"]);
    assert!(
        shown.contains("tx-0 off\n") && shown.contains("limit_max 30000 hold_time 1000"),
        "{shown}"
    );
    let features = place.text(&["features", "set", "tso", "off"]);
    assert!(features.contains("tcp-segmentation-offload: off\n\ttx-tcp-segmentation: off\n"));
    assert!(
        place
            .text(&["features", "show"])
            .contains("tx-checksumming: on [fixed]\n")
    );
    place.text(&["features", "set", "tso", "on"]);
    let reset = place.text(&["queue", "reset", "tx-1"]);
    assert!(reset.starts_with("tx-1 was reset; "), "{reset}");
    assert!(place.text(&["coalesce", "show"]).contains("tx-0 tx-usecs "));
    let text = place.text(&["stats"]);
    for word in [
        "engine time",
        "segments",
        "tx-0",
        "tx-packets",
        "flows 1 of",
        "ESTABLISHED",
    ] {
        assert!(text.contains(word), "{word} in {text}");
    }
    for bad in [
        &["xps", "set", "tx-9", "1"][..],
        &["rate", "set", "tx-9", "1MB/s"],
        &["bql", "set", "tx-9", "limit", "1"],
        &["queue", "reset", "tx-9"],
    ] {
        let refused = place.refusal(1, bad);
        assert!(refused.contains("queues 0 to 3"), "{refused}");
    }
    for bad in [
        &["xps", "set", "tx-0", "xyz"][..],
        &["rate", "set", "tx-0", "fast"],
        &["bql", "set", "tx-0", "limits", "1"],
        &["bql", "set", "tx-0", "limit", "-1"],
        &["features", "set", "tso", "maybe"],
        &["queue", "reset", "rx-0"],
        &["sysctl"],
        &["sysctl", "net.ipv4.tcp_tso_rtt_log="],
        &["coalesce", "set", "tx-0", "rx-usecs", "5"],
        &["rate", "set", "tx-0", "1"],
        &["stats", "--watch", "1ms"],
    ] {
        place.refusal(2, bad);
    }
    // Two samples, and the socket goes when the demo is told to end.
    let watch = place
        .command(&["stats", "--watch", "50ms", "--json"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the built binary runs");
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(running.end(libc::SIGTERM), Some(1));
    let watched = watch.wait_with_output().expect("it ends with the demo");
    assert!(watched.status.success());
    let lines: Vec<Value> = watched
        .stdout
        .split(|b| *b == b'\n')
        .filter(|l| !l.is_empty())
        .map(|l| serde_json::from_slice(l).expect("an object a line"))
        .collect();
    assert!(lines.len() >= 2);
    let times: Vec<u64> = lines.iter().map(|l| number(l, "engine_time_ns")).collect();
    assert!(times.is_sorted());
    assert_eq!(place.sockets().len(), 0);
}

#[test]
fn the_process_is_found_or_asked_for() {
    let place = Scratch::new("found");
    let refused = place.refusal(1, &["stats"]);
    assert!(refused.contains("no tsonic process"), "{refused}");
    let (one, two) = (demo(&place, &[]), demo(&place, &[]));
    place.await_sockets(2, PATIENCE);
    let refused = place.refusal(1, &["stats"]);
    for pid in [one.pid(), two.pid()] {
        assert!(
            refused.contains(&format!("{pid} (demo with the model NIC)")),
            "{refused}"
        );
        let s = place.json(&["stats", "--pid", &pid.to_string()]);
        assert_eq!(number(&s, "pid"), u64::from(pid));
    }
    let refused = place.refusal(1, &["stats", "--pid", "1"]);
    assert!(
        refused.contains("process 1 has no control socket"),
        "{refused}"
    );
    // What a killed process leaves is cleared away.
    let pid = one.pid();
    drop(one);
    assert_eq!(place.sockets().len(), 2);
    let s = place.json(&["stats"]);
    assert_eq!(number(&s, "pid"), u64::from(two.pid()));
    assert!(
        !place
            .sockets()
            .iter()
            .any(|p| p.ends_with(format!("{pid}.sock")))
    );
}

#[test]
fn a_demo_without_control_has_no_socket_and_others_end_well() {
    let place = Scratch::new("no-control");
    let run = |more: &[&str]| {
        let all = [&["demo", "--peer", "sim", "--size", "100kB"], more].concat();
        place.json(&all)
    };
    assert_eq!(run(&["--no-control"])["ok"], true);
    assert!(!place.path().join("tsonic").exists());
    assert_eq!(run(&[])["ok"], true);
    assert_eq!(place.sockets().len(), 0);
    // A directory that is not private is told of, and the demo goes on.
    let directory = place.path().join("tsonic");
    std::fs::remove_dir_all(&directory).expect("it was made");
    std::fs::write(&directory, "").expect("a file in its place");
    assert_eq!(run(&[])["ok"], true);
    let out = place.run(&["demo", "--peer", "sim", "--size", "1"]);
    assert!(String::from_utf8_lossy(&out.stderr).contains("mode 0700"));
    let refused = place.refusal(1, &["stats"]);
    assert!(!refused.is_empty());
}

#[test]
fn a_process_of_another_version_is_told_from_ours() {
    let place = Scratch::new("version");
    let directory = place.path().join("tsonic");
    std::fs::create_dir(&directory).expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&directory, mode).expect("closed to others");
    let socket = directory.join(format!("{}.sock", std::process::id()));
    let listener = UnixListener::bind(socket).expect("a socket");
    let greetings = ["{\"protocol\":99,\"new\":true}\n", "hello\n", ""];
    let server = std::thread::spawn(move || {
        for greeting in greetings {
            // The first connection of each only looks whether anybody listens.
            drop(listener.accept());
            let (mut stream, _) = listener.accept().expect("a client");
            stream.write_all(greeting.as_bytes()).expect("it listens");
        }
    });
    for expected in ["version 99", "does not understand", "still running?"] {
        let refused = place.refusal(1, &["stats"]);
        assert!(refused.contains(expected), "{refused}");
    }
    server.join().expect("all came");
}

/// Samples by name and labels; every line must be of the text format.
fn scrape(at: std::net::SocketAddr) -> BTreeMap<String, f64> {
    let (head, body) = http(at, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("text/plain; version=0.0.4"));
    let (mut samples, mut family, mut types) = (BTreeMap::new(), String::new(), BTreeMap::new());
    let mut helped = String::new();
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a help");
            assert!(!help.is_empty());
            helped = name.into();
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            assert_eq!(name, helped, "HELP before TYPE");
            assert!(
                types.insert(name.to_string(), kind.to_string()).is_none(),
                "{name} twice"
            );
            assert!(["counter", "gauge", "histogram"].contains(&kind));
            assert_eq!(
                kind == "counter",
                name.ends_with("_total"),
                "{name} is a {kind}"
            );
            family = name.into();
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a sample");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        assert!(name.starts_with("tsonic_"), "{name}");
        let valid = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        assert!(name.bytes().all(valid), "{name}");
        assert!(name.starts_with(&family), "{name} in {family}");
        // Queues are labels and no part of a name.
        assert!(!name.contains("tx_0") && labels.ends_with('}'));
        for label in labels
            .trim_end_matches('}')
            .split(',')
            .filter(|l| !l.is_empty())
        {
            let (key, text) = label.split_once('=').expect("a label");
            assert!(key.bytes().all(valid) && text.starts_with('"') && text.ends_with('"'));
        }
        let value: f64 = value.parse().expect("a number");
        assert!(
            samples.insert(series.to_string(), value).is_none(),
            "{series} twice"
        );
    }
    samples
}

/// Head and body of an answer to a connection of its own.
fn http(at: std::net::SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(at).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a time-out");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.into(), body.into())
}

#[test]
fn prometheus_finds_what_stats_shows() {
    let place = Scratch::new("prometheus");
    // A port that is free now.
    let at = TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .expect("a free port");
    let _demo = demo(&place, &["--prometheus", &at.to_string()]);
    let before = stats_at(&place, 200_000_000);
    let first = scrape(at);
    let after = place.json(&["stats"]);
    let second = scrape(at);
    for (series, counter) in [
        ("tsonic_tcp_bursts_total{tenant=\"0\"}", "bursts"),
        ("tsonic_tcp_segments_total{tenant=\"0\"}", "segments"),
        ("tsonic_tcp_rto_count_total{tenant=\"0\"}", "rto_count"),
        ("tsonic_tcp_burst_segments_count{tenant=\"0\"}", "bursts"),
        (
            "tsonic_tcp_burst_segments_bucket{tenant=\"0\",le=\"+Inf\"}",
            "bursts",
        ),
    ] {
        let (low, high) = (
            number(&before["total"], counter),
            number(&after["total"], counter),
        );
        let found = first[series] as u64;
        assert!(
            (low..=high).contains(&found),
            "{series}: {low} <= {found} <= {high}"
        );
        assert!(second[series] >= first[series]);
    }
    let packets = "tsonic_tx_packets_total{queue=\"tx-0\"}";
    assert!(first[packets] >= number(&before["queues"][0]["tx"], "tx-packets") as f64);
    assert!(second[packets] > 0.0 && first.contains_key("tsonic_tx_packets_total{queue=\"tx-3\"}"));
    assert!(first.contains_key("tsonic_rx_packets_total{queue=\"rx-0\"}"));
    assert!(first.contains_key("tsonic_device_tx_frames_total"));
    assert!(first.keys().any(|k| k.starts_with("tsonic_info{version=")));
    // No budget is in force, so there is nothing to tell of one.
    assert!(!first.keys().any(|k| k.starts_with("tsonic_bql")));
    let mut last = 0.0;
    for le in ["1", "2", "4", "8", "16", "32", "64", "128", "+Inf"] {
        let n = first[&format!("tsonic_tcp_burst_segments_bucket{{tenant=\"0\",le=\"{le}\"}}")];
        assert!(n >= last, "buckets add up");
        last = n;
    }
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"),
        ("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"),
        ("nonsense\r\n\r\n", "400"),
    ] {
        assert!(
            http(at, request)
                .0
                .starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}"
        );
    }
    let (head, body) = http(at, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && body.is_empty());
    let huge = format!("GET /metrics HTTP/1.1\r\nX: {}", "y".repeat(20_000));
    let mut stream = TcpStream::connect(at).expect("it listens");
    // It answers before it has read all, so either side may see a reset.
    let _ = stream.write_all(huge.as_bytes());
    // Clients that say nothing do not keep others away.
    let silent: Vec<_> = (0..4)
        .map(|_| TcpStream::connect(at).expect("it listens"))
        .collect();
    scrape(at);
    drop(silent);
    let refused = place.refusal(1, &[&DEMO[..], &["--prometheus", &at.to_string()]].concat());
    assert!(refused.contains("choose another address"), "{refused}");
}
