// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segmenter under Verilator against the kernel's frames.

mod segmenter;
mod support;

use segmenter::bench::{Bench, Pattern};
use segmenter::golden::{Burst, Kind, Segment};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tsonic_hdl::segment::Segmenter;
use tsonic_regs::limits::MAX_SEGMENT_DEFAULT;

struct Row {
    id: String,
    burst: Burst,
    row: Value,
}

fn number(row: &Value, key: &str) -> usize {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}")) as usize
}

/// The rows of `gso.json` with at most `most` payload bytes in a segment.
fn rows(most: usize) -> Vec<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/gso.json");
    let text = std::fs::read_to_string(path).expect("the golden vectors");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let rows = json["vectors"].as_array().expect("rows");
    rows.iter()
        .filter(|row| number(row, "max_payload") <= most)
        .map(|row| {
            let mut x = number(row, "payload_seed") as u32;
            let payload = (0..number(row, "payload_len"))
                .map(|_| {
                    x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (x >> 24) as u8
                })
                .collect();
            Row {
                id: row["id"].as_str().expect("an id").into(),
                burst: Burst {
                    kind: match row["gso"].as_str().expect("a kind") {
                        "tcpv4" | "tcpv6" => Kind::Tso,
                        "udp_l4" => Kind::Uso,
                        _ => Kind::Csum,
                    },
                    ipv6: number(row, "ipver") == 6,
                    ip_id_fixed: row["id_mode"] == "fixed",
                    cwr_all: false,
                    l2_len: number(row, "l2_len"),
                    l3_len: number(row, "l3_len"),
                    l4_len: number(row, "l4_len"),
                    mss: number(row, "mss"),
                    header: hex::decode(row["in_hdr"].as_str().expect("hex")).expect("hex"),
                    payload,
                    ctx: number(row, "payload_seed") as u8,
                },
                row: row.clone(),
            }
        })
        .collect()
}

/// A TCP checksum of 0x0000 and 0xffff are equal; so make every 0 the latter.
fn normalise(burst: &Burst, header: &mut [u8]) {
    let at = burst.l2_len + burst.l3_len + if burst.l4_len == 8 { 6 } else { 16 };
    if burst.l4_len != 8 && header[at..at + 2] == [0, 0] {
        header[at..at + 2].fill(0xff);
    }
}

fn compare(row: &Row, frames: &[Vec<u8>]) {
    let Row { id, burst, row } = row;
    assert_eq!(frames.len(), number(row, "nseg"), "{id}: segments");
    if let Some(headers) = row["out_hdr"].as_array() {
        let lengths = row["out_len"].as_array().expect("lengths");
        let mut offset = 0;
        for (n, frame) in frames.iter().enumerate() {
            let mut want = hex::decode(headers[n].as_str().expect("hex")).expect("hex");
            let (mut got, payload) = (frame[..want.len()].to_vec(), &frame[want.len()..]);
            normalise(burst, &mut want);
            normalise(burst, &mut got);
            assert_eq!(hex::encode(&got), hex::encode(&want), "{id}: header {n}");
            let len = lengths[n].as_u64().expect("a length") as usize;
            assert!(
                payload == &burst.payload[offset..offset + len],
                "{id}: payload {n}"
            );
            offset += len;
        }
        assert_eq!(offset, burst.payload.len(), "{id}: payload");
    } else {
        let mut hash = Sha256::new();
        for frame in frames {
            hash.update((frame.len() as u32).to_be_bytes());
            hash.update(frame);
        }
        assert_eq!(
            hex::encode(hash.finalize()),
            row["out_sha256"],
            "{id}: digest"
        );
    }
}

fn run(mut bench: Bench, rows: &[Row]) {
    let segments: Vec<Vec<Segment>> = rows.iter().map(|row| row.burst.segments()).collect();
    for segment in segments.iter().flatten() {
        bench.post(segment);
    }
    bench.run(segments.iter().map(Vec::len).sum());
    bench.drain();
    let mut at = 0;
    for (row, segments) in rows.iter().zip(&segments) {
        let frames: Vec<_> = bench.frames[at..at + segments.len()]
            .iter()
            .map(|frame| frame.bytes.clone())
            .collect();
        compare(row, &frames);
        for (n, departure) in bench.departures[at..at + segments.len()].iter().enumerate() {
            assert_eq!(departure.ctx, row.burst.ctx, "{}", row.id);
            assert_eq!(departure.last, n + 1 == segments.len(), "{}", row.id);
        }
        at += segments.len();
    }
}

#[test]
fn the_reference_makes_the_kernels_frames() {
    let rows = rows(MAX_SEGMENT_DEFAULT);
    for row in &rows {
        compare(row, &row.burst.frames());
    }
    let tcp = rows
        .iter()
        .filter(|row| number(&row.row, "proto") == 6)
        .count();
    assert_eq!((tcp, rows.len()), (94, 116), "rows of the sample");
}

#[test]
fn the_logic_makes_the_kernels_frames_under_every_pattern() {
    let rows = rows(MAX_SEGMENT_DEFAULT);
    for (n, pattern) in Pattern::ALL.into_iter().enumerate() {
        run(Bench::new(pattern, n as u64), &rows);
    }
}

#[test]
fn lengths_and_checksums_of_the_template_do_not_matter() {
    let mut rows = rows(MAX_SEGMENT_DEFAULT);
    for row in &mut rows {
        let b = &mut row.burst;
        let (l3, l4) = (b.l2_len, b.l2_len + b.l3_len);
        if b.ipv6 {
            b.header[l3 + 4..l3 + 6].fill(0xe7);
        } else {
            b.header[l3 + 2..l3 + 4].fill(0x5a);
            b.header[l3 + 10..l3 + 12].fill(0xc3);
        }
        let at = if b.l4_len == 8 {
            l4 + 4..l4 + 8
        } else {
            l4 + 16..l4 + 18
        };
        b.header[at].fill(0x99);
    }
    run(Bench::new(Pattern::FULL, 1), &rows);
}

#[test]
fn a_build_with_a_larger_ring_takes_every_row() {
    let rows = rows(usize::from(u16::MAX));
    let tcp = rows
        .iter()
        .filter(|row| number(&row.row, "proto") == 6)
        .count();
    assert_eq!((tcp, rows.len()), (96, 118), "rows of the sample");
    let block = Segmenter::<14, 15>::new(u16::MAX);
    run(Bench::of(block, Pattern::FULL, 1), &rows);
}
