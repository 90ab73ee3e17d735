// SPDX-License-Identifier: MIT OR Apache-2.0
//! The golden vectors: frames as a Linux kernel made them, verdicts as it gave
//! them, hashes as Microsoft published them.

use serde_json::Value;
use sha2::{Digest, Sha256};
use tsonic_regs::Status;
use tsonic_regs::completion::{ChecksumVerdict, HashKind};
use tsonic_regs::descriptor::Kind;
use tsonic_regs::registers::global;
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::model::Layout;
use tsonic_sim::nic::Nic;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{ip_frame, payload};

fn load(name: &str) -> Vec<Value> {
    let path = format!("{}/../tests/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the vectors are in the repository");
    let all: Value = serde_json::from_str(&text).expect("JSON");
    all["vectors"].as_array().expect("an array").clone()
}

fn number(v: &Value, key: &str) -> usize {
    v[key].as_u64().expect(key) as usize
}

fn bytes(v: &Value) -> Vec<u8> {
    hex::decode(v.as_str().expect("hex")).expect("hex")
}

fn layout(v: &Value) -> Layout {
    let kind = match v["gso"].as_str().expect("gso") {
        "tcpv4" | "tcpv6" => Kind::Tso,
        "udp_l4" => Kind::Uso,
        _ => Kind::Csum,
    };
    Layout {
        kind,
        ipv6: number(v, "ipver") == 6,
        ip_id_fixed: v["id_mode"] == "fixed",
        cwr_all: false,
        l2_len: number(v, "l2_len"),
        l3_len: number(v, "l3_len"),
        l4_len: number(v, "l4_len"),
        mss: v["mss"].as_u64().unwrap_or(0) as usize,
    }
}

/// Zeroes a TCP checksum of 0xffff: it is the same as 0x0000.
fn normal(frame: &[u8], l: &Layout) -> Vec<u8> {
    let mut f = frame.to_vec();
    let at = l.l2_len + l.l3_len + 16;
    if l.l4_len != 8 && f[at..at + 2] == [0xff, 0xff] {
        f[at..at + 2].fill(0);
    }
    f
}

fn check_frames(v: &Value, l: &Layout, frames: &[Vec<u8>]) {
    let id = v["id"].as_str().expect("id");
    assert_eq!(frames.len(), number(v, "nseg"), "{id}: segments");
    if let Some(headers) = v["out_hdr"].as_array() {
        let header_len = l.header_len();
        for (i, frame) in frames.iter().enumerate() {
            let expected = bytes(&headers[i]);
            let got = normal(&frame[..header_len], l);
            assert_eq!(
                hex::encode(got),
                hex::encode(normal(&expected, l)),
                "{id}: header {i}"
            );
            let len = v["out_len"][i].as_u64().expect("out_len") as usize;
            assert_eq!(frame.len() - header_len, len, "{id}: length {i}");
        }
    }
    let expected = v["out_sha256"].as_str().expect("digest");
    let mut digest = Sha256::new();
    for frame in frames {
        digest.update((frame.len() as u32).to_be_bytes());
        digest.update(frame);
    }
    // This row differs from Linux in the sign of zero, and has headers.
    if id != "c4-tcp-csum-zero" {
        assert_eq!(hex::encode(digest.finalize()), expected, "{id}: digest");
    }
}

/// Every row that `take` takes, through a whole NIC. Rows with a segment above the
/// build's limit are refused with the code. Returns how many rows there were.
pub fn gso<N: Nic>(mut make: impl FnMut() -> N, take: impl Fn(&Value) -> bool) -> usize {
    let rows: Vec<Value> = load("gso.json").into_iter().filter(|v| take(v)).collect();
    let mut b = bench(make());
    b.enable_tx(0, 6, 8);
    let limit = b.read(global::MAX_SEGMENT.offset) as usize;
    let mark = b.alloc(0, 64);
    for (i, v) in rows.iter().enumerate() {
        let id = v["id"].as_str().expect("id");
        let l = layout(v);
        let header = bytes(&v["in_hdr"]);
        let data = payload(number(v, "payload_seed") as u32, number(v, "payload_len"));
        // Fragments of all kinds: one, two, a list.
        let third = data.len() / 3;
        let cuts: &[usize] = match i % 3 {
            0 => &[],
            1 => &[third],
            _ => &[1, third, third / 2, 7],
        };
        b.free_to(mark);
        let d = b.place(&Post {
            layout: l,
            header: &header,
            payload: &data,
            cuts,
            flow_slot: 0,
            inv_rate: 0,
            launch: None,
            cookie: i as u16,
        });
        b.mac.sent.clear();
        b.push(0, &d);
        b.ring(0);
        assert!(b.drain(10_000_000), "{id}: does not end");
        let c = b.completions(0);
        assert_eq!(c.len(), 1, "{id}: completions");
        let c = c[0];
        assert_eq!(c.status.cookie(), i as u16, "{id}");
        let status = Status::from_code(c.status.status());
        if number(v, "max_payload") > limit {
            assert_eq!(status, Some(Status::SegmentTooLarge), "{id}");
            assert!(b.mac.sent.is_empty(), "{id}");
            continue;
        }
        assert_eq!(status, Some(Status::Ok), "{id}");
        let frames: Vec<Vec<u8>> = b.mac.sent.iter().map(|(_, f)| f.clone()).collect();
        check_frames(v, &l, &frames);
        let wire: usize = frames.iter().map(Vec::len).sum();
        assert_eq!(c.done.wire_bytes() as usize, wire, "{id}");
        assert_eq!(c.done.segments() as usize, frames.len(), "{id}");
        assert_eq!(c.first_departure, b.mac.sent[0].0.0, "{id}");
        assert_eq!(c.last_departure, b.mac.sent[frames.len() - 1].0.0, "{id}");
    }
    rows.len()
}

fn receive_bench<N: Nic>(nic: N) -> Bench<N> {
    let mut b = bench(nic);
    for q in 0..b.read(global::QUEUES.offset).min(4) as usize {
        b.enable_rx(q, 6, 6);
        let buffer = b.alloc(2048, 64);
        for _ in 0..16 {
            b.push_buffer(q, buffer, 2048, q as u16);
        }
        b.ring_rx(q);
    }
    for i in 0..128 {
        b.write(global::RSS_TABLE.offset + 4 * i, i as u32 % 4);
    }
    assert!(b.drain(1_000_000));
    b
}

/// Verdicts on received checksums. Returns how many rows there were.
pub fn csum<N: Nic>(mut make: impl FnMut() -> N) -> usize {
    let rows = load("csum.json");
    let mut b = receive_bench(make());
    let verdict = |v: &Value| match v.as_str() {
        Some("ok") => Some(ChecksumVerdict::Ok as u8),
        Some("bad") => Some(ChecksumVerdict::Bad as u8),
        Some("none") => Some(ChecksumVerdict::None as u8),
        _ => None,
    };
    for v in &rows {
        let id = v["id"].as_str().expect("id");
        let frame = bytes(&v["frame"]);
        let at = b.nic.now() + Ticks(10);
        b.arrive(at, &frame, false);
        b.run_to(at + Ticks(4_000));
        let c: Vec<_> = (0..4).flat_map(|q| b.rx_completions(q)).collect();
        assert_eq!(c.len(), 1, "{id}");
        let s = c[0].status;
        assert_eq!(s.status(), 0, "{id}");
        assert_eq!(Some(s.ip_csum()), verdict(&v["ip_csum"]), "{id}: ip");
        if let Some(expected) = verdict(&v["l4_csum"]) {
            assert_eq!(s.l4_csum(), expected, "{id}: l4");
        }
        assert_eq!(usize::from(s.bytes()), frame.len(), "{id}");
        let q = usize::from(s.queue());
        let buffer = b.alloc(2048, 64);
        b.push_buffer(q, buffer, 2048, 0);
        b.ring_rx(q);
    }
    rows.len()
}

/// Hashes and queues. Returns how many rows there were.
pub fn rss<N: Nic>(mut make: impl FnMut() -> N) -> usize {
    let rows = load("rss.json");
    let mut b = receive_bench(make());
    for v in &rows {
        let id = v["id"].as_str().expect("id");
        let key = bytes(&v["key"]);
        for (i, word) in key.chunks_exact(4).enumerate() {
            let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
            b.write(global::RSS_KEY.offset + 4 * i, value);
        }
        let address = |k: &str| v[k].as_str().expect(k).parse().expect("an address");
        let (protocol, l4) = match v["sport"].as_u64() {
            Some(sport) => {
                let mut l4 = vec![0u8; 20];
                l4[..2].copy_from_slice(&(sport as u16).to_be_bytes());
                let dport = v["dport"].as_u64().expect("dport") as u16;
                l4[2..4].copy_from_slice(&dport.to_be_bytes());
                l4[12] = 0x50;
                (6, l4)
            }
            None => (253, vec![0u8; 20]),
        };
        let frame = ip_frame(address("src"), address("dst"), protocol, &l4);
        let at = b.nic.now() + Ticks(10);
        b.arrive(at, &frame, false);
        b.run_to(at + Ticks(4_000));
        let c: Vec<_> = (0..4).flat_map(|q| b.rx_completions(q)).collect();
        assert_eq!(c.len(), 1, "{id}");
        let c = c[0];
        let expected = u32::from_str_radix(v["hash"].as_str().expect("hash"), 16).expect("hex");
        assert_eq!(c.hash.hash(), expected, "{id}: hash");
        assert_eq!(
            usize::from(c.status.queue()),
            number(v, "queue4"),
            "{id}: queue"
        );
        let kind = if protocol == 6 {
            HashKind::L4
        } else {
            HashKind::L3
        };
        assert_eq!(c.status.hash_kind(), kind as u8, "{id}: kind");
        let q = usize::from(c.status.queue());
        let buffer = b.alloc(2048, 64);
        b.push_buffer(q, buffer, 2048, 0);
        b.ring_rx(q);
    }
    rows.len()
}
