// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parser: golden vectors, random frames against the reference, frames
//! without a gap, and RustHDL's simulation against the Verilog.

mod receive_support;
mod support;

use receive_support::*;
use rust_hdl::prelude::*;
use serde_json::Value;
use std::collections::VecDeque;
use std::net::IpAddr;
use support::{LockStep, Pcg64Mcg, RngExt, SeedableRng, design};
use tsonic_hdl::receive::parse::Parse;
use tsonic_hdl::receive::verdict::LATENCY;
use tsonic_hdl::verilog::generate;
use tsonic_regs::completion::{ChecksumVerdict, HashKind};
use tsonic_verilate::{Input, Model, Optimisation, Output};

/// The parser under Verilator.
struct Bench {
    model: Model,
    clock: Input,
    rx_valid: Input,
    rx_data: Input,
    rx_bytes: Input,
    rx_last: Input,
    rx_bad: Input,
    key: [Input; 3],
    table: [Input; 3],
    out: Vec<Output>,
    cycle: u64,
    ended: VecDeque<u64>,
    verdicts: Vec<(usize, bool, Verdict)>,
}

fn checksum_verdict(code: u64) -> ChecksumVerdict {
    match code {
        0 => ChecksumVerdict::None,
        1 => ChecksumVerdict::Ok,
        2 => ChecksumVerdict::Bad,
        _ => panic!("no verdict has code {code}"),
    }
}

fn hash_kind(code: u64) -> HashKind {
    match code {
        0 => HashKind::None,
        1 => HashKind::L3,
        2 => HashKind::L4,
        _ => panic!("no hash kind has code {code}"),
    }
}

impl Bench {
    fn new() -> Self {
        let mut block = Parse::default();
        block.connect_all();
        let generated = generate(&block).expect("the parser generates");
        let model = Model::build(&design(&generated), Optimisation::Quick)
            .unwrap_or_else(|error| panic!("{error}"));
        let input = |name: &str| model.input(name).expect("an input");
        let outputs = [
            "valid",
            "length",
            "bad",
            "ip_csum",
            "l4_csum",
            "hash_kind",
            "hash",
            "rss_queue",
        ];
        Self {
            clock: input("clock"),
            rx_valid: input("rx_valid"),
            rx_data: input("rx_data"),
            rx_bytes: input("rx_bytes"),
            rx_last: input("rx_last"),
            rx_bad: input("rx_bad"),
            key: ["key_write", "key_index", "key_value"].map(input),
            table: ["table_write", "table_index", "table_value"].map(input),
            out: outputs
                .map(|name| model.output(name).expect("an output"))
                .to_vec(),
            model,
            cycle: 0,
            ended: VecDeque::new(),
            verdicts: Vec::new(),
        }
    }

    fn step(&mut self) {
        self.model.set(self.clock, 0);
        self.model.eval();
        let out: Vec<u64> = self.out.iter().map(|port| self.model.get(*port)).collect();
        if out[0] == 1 {
            let ended = self.ended.pop_front().expect("a verdict without a frame");
            assert_eq!(self.cycle - ended, LATENCY as u64, "latency is fixed");
            self.verdicts.push((
                out[1] as usize,
                out[2] == 1,
                Verdict {
                    ip_csum: checksum_verdict(out[3]),
                    l4_csum: checksum_verdict(out[4]),
                    hash_kind: hash_kind(out[5]),
                    hash: out[6] as u32,
                    queue: out[7] as u8,
                },
            ));
        }
        self.model.set(self.clock, 1);
        self.model.eval();
        self.cycle += 1;
    }

    fn configure(&mut self, key: &[u8; RSS_KEY], table: &[u8; RSS_TABLE]) {
        for (n, word) in key.chunks(4).enumerate() {
            let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
            let [write, index, data] = self.key;
            self.model.set(write, 1);
            self.model.set(index, n as u64);
            self.model.set(data, u64::from(value));
            self.step();
        }
        self.model.set(self.key[0], 0);
        for (n, queue) in table.iter().enumerate() {
            let [write, index, data] = self.table;
            self.model.set(write, 1);
            self.model.set(index, n as u64);
            self.model.set(data, u64::from(*queue));
            self.step();
        }
        self.model.set(self.table[0], 0);
    }

    /// Sends a frame; `gap` is asked before each beat how many cycles to wait.
    fn send(&mut self, frame: &[u8], bad: bool, mut gap: impl FnMut() -> usize) {
        let beats = frame.len().div_ceil(8);
        for (n, chunk) in frame.chunks(8).enumerate() {
            self.model.set(self.rx_valid, 0);
            for _ in 0..gap() {
                self.step();
            }
            let mut beat = [0xa5; 8];
            beat[..chunk.len()].copy_from_slice(chunk);
            self.model.set(self.rx_valid, 1);
            self.model.set(self.rx_data, u64::from_le_bytes(beat));
            self.model.set(self.rx_bytes, chunk.len() as u64);
            self.model.set(self.rx_last, u64::from(n + 1 == beats));
            self.model
                .set(self.rx_bad, u64::from(bad && n + 1 == beats));
            if n + 1 == beats {
                self.ended.push_back(self.cycle);
            }
            self.step();
        }
        self.model.set(self.rx_valid, 0);
    }

    fn drain(&mut self) {
        for _ in 0..LATENCY + 1 {
            self.step();
        }
        assert!(self.ended.is_empty(), "every frame has its verdict");
    }

    fn verdict(&mut self, frame: &[u8]) -> Verdict {
        self.send(frame, false, || 0);
        self.drain();
        let (length, bad, verdict) = self.verdicts.pop().expect("a verdict");
        assert_eq!((length, bad), (frame.len(), false));
        verdict
    }
}

fn vectors(name: &str) -> Vec<Value> {
    let path = format!("{}/../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["vectors"].as_array().expect("a list").clone()
}

fn named(value: &Value) -> Option<ChecksumVerdict> {
    match value.as_str() {
        Some("ok") => Some(ChecksumVerdict::Ok),
        Some("bad") => Some(ChecksumVerdict::Bad),
        Some("none") => Some(ChecksumVerdict::None),
        Some(other) => panic!("what is {other}?"),
        None => None,
    }
}

#[test]
fn checksum_vectors() {
    let mut bench = Bench::new();
    bench.configure(&RSS_KEY_DEFAULT, &round_robin(4));
    let rows = vectors("csum.json");
    assert!(rows.len() > 100);
    for row in rows {
        let frame = hex::decode(row["frame"].as_str().expect("a frame")).expect("hex");
        let verdict = bench.verdict(&frame);
        let id = &row["id"];
        assert_eq!(Some(verdict.ip_csum), named(&row["ip_csum"]), "{id}");
        if let Some(expected) = named(&row["l4_csum"]) {
            assert_eq!(verdict.l4_csum, expected, "{id}");
        }
        assert_eq!(
            verdict,
            classify(&frame, &RSS_KEY_DEFAULT, &round_robin(4)),
            "{id}"
        );
    }
}

#[test]
fn hash_vectors() {
    let mut bench = Bench::new();
    let rows = vectors("rss.json");
    assert!(rows.len() > 30);
    for row in rows {
        let id = &row["id"];
        let text = |name: &str| row[name].as_str().unwrap_or_else(|| panic!("{id}: {name}"));
        let key: [u8; RSS_KEY] = hex::decode(text("key"))
            .expect("hex")
            .try_into()
            .expect("forty bytes");
        bench.configure(&key, &round_robin(4));
        let ports = row["sport"].as_u64().zip(row["dport"].as_u64());
        let protocol = if ports.is_some() { 6 } else { 253 };
        let mut l4 = vec![0; 20];
        if let Some((source, destination)) = ports {
            l4[..2].copy_from_slice(&(source as u16).to_be_bytes());
            l4[2..4].copy_from_slice(&(destination as u16).to_be_bytes());
        }
        let parse = |name: &str| text(name).parse::<IpAddr>().expect("an address");
        for tags in 0..3 {
            let mut frame = vec![0; 12];
            for _ in 0..tags {
                frame.extend([0x81, 0, 0, 5]);
            }
            match (parse("src"), parse("dst")) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, protocol, 0, 0]);
                    frame.extend(source.octets());
                    frame.extend(destination.octets());
                }
                (IpAddr::V6(source), IpAddr::V6(destination)) => {
                    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocol, 64]);
                    frame.extend(source.octets());
                    frame.extend(destination.octets());
                }
                _ => panic!("{id}: addresses of two kinds"),
            }
            frame.extend(&l4);
            let verdict = bench.verdict(&frame);
            assert_eq!(format!("{:08x}", verdict.hash), text("hash"), "{id}");
            assert_eq!(
                u64::from(verdict.queue),
                row["queue4"].as_u64().expect("a queue"),
                "{id}"
            );
            let kind = if ports.is_some() {
                HashKind::L4
            } else {
                HashKind::L3
            };
            assert_eq!(verdict.hash_kind, kind, "{id}");
        }
    }
}

/// Sends frames and compares every verdict with the reference.
fn compare(bench: &mut Bench, rng: &mut Pcg64Mcg, frames: &[Vec<u8>], gaps: bool) {
    let mut key = [0; RSS_KEY];
    key.copy_from_slice(&bytes(rng, RSS_KEY));
    let table: [u8; RSS_TABLE] = std::array::from_fn(|_| rng.random());
    bench.configure(&key, &table);
    bench.verdicts.clear();
    let mut damaged = Vec::new();
    for frame in frames {
        let bad = rng.random_range(0..10) == 0;
        damaged.push(bad);
        bench.send(frame, bad, || {
            if gaps && rng.random_range(0..3) == 0 {
                rng.random_range(0..4)
            } else {
                0
            }
        });
    }
    bench.drain();
    assert_eq!(bench.verdicts.len(), frames.len());
    for ((frame, bad), found) in frames.iter().zip(damaged).zip(&bench.verdicts) {
        let expected = (frame.len(), bad, classify(frame, &key, &table));
        assert_eq!(*found, expected, "{}", hex::encode(frame));
    }
}

#[test]
fn random_frames() {
    let mut bench = Bench::new();
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    for round in 0..20 {
        let frames: Vec<_> = (0..400).map(|_| random_frame(&mut rng, 1_600)).collect();
        compare(&mut bench, &mut rng, &frames, round % 2 == 1);
    }
}

#[test]
fn short_frames_without_a_gap() {
    let mut bench = Bench::new();
    let mut rng = Pcg64Mcg::seed_from_u64(8);
    for _ in 0..20 {
        let frames: Vec<_> = (0..1_000)
            .map(|_| {
                let mut frame = random_frame(&mut rng, 300);
                match rng.random_range(0..3) {
                    0 => frame.truncate(60),
                    1 => frame.truncate(rng.random_range(1..64)),
                    _ => frame.truncate(128),
                }
                frame
            })
            .collect();
        compare(&mut bench, &mut rng, &frames, false);
    }
}

#[test]
fn every_cut_of_a_frame() {
    let mut bench = Bench::new();
    let mut rng = Pcg64Mcg::seed_from_u64(9);
    let mut frames = Vec::new();
    for _ in 0..60 {
        let frame = random_frame(&mut rng, 260);
        frames.extend((1..=frame.len()).map(|length| frame[..length].to_vec()));
    }
    compare(&mut bench, &mut rng, &frames, false);
}

#[test]
fn lengths_of_jumbo_frames() {
    let mut bench = Bench::new();
    let mut rng = Pcg64Mcg::seed_from_u64(10);
    let frames: Vec<_> = (0..40).map(|_| random_frame(&mut rng, 9_400)).collect();
    compare(&mut bench, &mut rng, &frames, false);
}

#[test]
fn model_and_verilog_agree() {
    let mut rng = Pcg64Mcg::seed_from_u64(11);
    let mut pair = LockStep::new(Parse::default(), |b| &mut b.clock);
    let mut beats: VecDeque<(u64, usize, bool)> = VecDeque::new();
    for _ in 0..20_000 {
        if beats.is_empty() {
            let frame = random_frame(&mut rng, 300);
            let count = frame.len().div_ceil(8);
            for (n, chunk) in frame.chunks(8).enumerate() {
                let mut beat = [0; 8];
                beat[..chunk.len()].copy_from_slice(chunk);
                beats.push_back((u64::from_le_bytes(beat), chunk.len(), n + 1 == count));
            }
        }
        let beat = if rng.random_range(0..5) != 0 {
            beats.pop_front()
        } else {
            None
        };
        pair.step(|b| {
            b.rx_valid.next = beat.is_some();
            let (data, count, last) = beat.unwrap_or((0, 0, false));
            b.rx_data.next = data.into();
            b.rx_bytes.next = (count as u64).into();
            b.rx_last.next = last;
            b.rx_bad.next = rng.random_range(0..4) == 0;
            b.key_write.next = rng.random_range(0..50) == 0;
            b.key_index.next = rng.random_range(0..10u64).into();
            b.key_value.next = u64::from(rng.random::<u32>()).into();
            b.table_write.next = rng.random_range(0..9) == 0;
            b.table_index.next = rng.random_range(0..128u64).into();
            b.table_value.next = rng.random_range(0..256u64).into();
        });
    }
}
