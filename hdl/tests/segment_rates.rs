// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cycles: the output is busy, and no margin is too small.

mod segmenter;
mod support;

use segmenter::bench::{Bench, Pattern};
use segmenter::golden::{Burst, Kind, Segment};
use segmenter::random;
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::segment::Segmenter;

fn tcp(ipv6: bool, l2_len: usize, options: usize, mss: usize, payload: usize) -> Burst {
    let l3_len = if ipv6 { 40 } else { 20 };
    let l4_len = 20 + options;
    let mut rng = Pcg64Mcg::seed_from_u64(payload as u64);
    let mut header = random::bytes(&mut rng, l2_len + l3_len + l4_len);
    header[l2_len] = if ipv6 { 0x60 } else { 0x45 };
    header[l2_len + 6] = 6;
    Burst {
        kind: Kind::Tso,
        ipv6,
        ip_id_fixed: false,
        cwr_all: false,
        l2_len,
        l3_len,
        l4_len,
        mss,
        header,
        payload: random::bytes(&mut rng, payload),
        ctx: options as u8,
    }
}

/// Share of busy cycles from the first beat to the last, and the longest gap
/// between two frames.
fn busy(bench: &Bench) -> (f64, u64) {
    let begin = bench.frames[0].begin;
    let end = bench.frames[bench.frames.len() - 1].end;
    let gap = bench
        .frames
        .windows(2)
        .map(|pair| pair[1].begin - pair[0].end - 1)
        .max()
        .unwrap_or(0);
    (bench.beats as f64 / (end - begin + 1) as f64, gap)
}

fn flood(segments: &[Segment]) -> (f64, u64) {
    let mut bench = Bench::new(Pattern::FULL, 1);
    bench.check(segments);
    bench.drain();
    let within = bench
        .frames
        .iter()
        .all(|frame| frame.end - frame.begin + 1 == frame.bytes.len().div_ceil(8) as u64);
    assert!(within, "a gap within a frame");
    busy(&bench)
}

#[test]
fn forty_five_segments_of_1448_keep_the_output_busy() {
    let one = tcp(false, 14, 12, 1448, 45 * 1448);
    let segments: Vec<_> = (0..6).flat_map(|_| one.segments()).collect();
    assert_eq!(segments.len(), 270);
    let (share, gap) = flood(&segments);
    println!(
        "45 x 1448, six bursts: {:.2} % busy, gap {gap}",
        100.0 * share
    );
    assert!(share >= 0.97, "{share}");
    assert!(gap <= 2);
}

#[test]
fn every_shape_leaves_at_most_two_idle_cycles_between_segments() {
    for (ipv6, l2_len, options, mss) in [
        (false, 14, 0, 1460),
        (false, 14, 12, 1448),
        (true, 14, 12, 1428),
        (false, 18, 12, 1448),
        (true, 22, 0, 1440),
        (false, 14, 0, 8960),
        (false, 14, 40, 536),
        (false, 14, 0, 64),
        (false, 14, 0, 1),
        (true, 14, 12, 7),
        (false, 16, 0, 2),
    ] {
        let one = tcp(
            ipv6,
            l2_len,
            options,
            mss,
            mss * if mss > 4000 { 25 } else { 60 },
        );
        let segments: Vec<_> = (0..3).flat_map(|_| one.segments()).collect();
        let (share, gap) = flood(&segments);
        println!(
            "ipv6 {ipv6}, l2 {l2_len}, options {options}, mss {mss}: {:.2} % busy, gap {gap}",
            100.0 * share
        );
        assert!(gap <= 2, "mss {mss}: {gap} idle cycles");
    }
}

/// Short segments between long ones: the payload of the next long one must have
/// been taken while the one before left.
#[test]
fn long_and_short_segments_of_several_flows_keep_the_output_busy() {
    let long = tcp(false, 14, 12, 1448, 45 * 1448).segments();
    let short = tcp(true, 14, 0, 1, 300).segments();
    let mut segments = Vec::new();
    for (n, segment) in long.iter().enumerate() {
        segments.push(segment.clone());
        segments.extend_from_slice(&short[6 * n..6 * n + 6]);
    }
    let (share, gap) = flood(&segments);
    println!(
        "one long, six short: {:.2} % busy, gap {gap}",
        100.0 * share
    );
    assert!(gap <= 2, "{gap}");
}

#[test]
fn the_largest_segments_pass_a_full_ring() {
    for (n, pattern) in Pattern::ALL.into_iter().enumerate() {
        let mut bench = Bench::new(pattern, n as u64);
        let mut segments = tcp(false, 14, 12, 16_000, 48_001).segments();
        segments.extend(tcp(true, 18, 0, 15_999, 32_000).segments());
        segments.extend(tcp(true, 22, 0, 1, 40).segments());
        segments.extend(tcp(false, 14, 0, 16_000, 32_000).segments());
        bench.check(&segments);
        bench.drain();
    }
    let (_, gap) = flood(&tcp(false, 14, 12, 16_000, 80_000).segments());
    assert!(gap <= 2, "{gap}");
}

/// A ring of 32 words, so that it is full, and its pointers wrap, all the time.
#[test]
fn no_margin_is_too_small() {
    for (n, pattern) in Pattern::ALL.into_iter().enumerate() {
        let mut rng = Pcg64Mcg::seed_from_u64(n as u64);
        let most = Segmenter::<5, 6>::MAX_SEGMENT;
        let block = Segmenter::<5, 6>::new(most as u16);
        let mut bench = Bench::of(block, pattern, n as u64);
        for _ in 0..30 {
            // Long stops: everything fills up.
            for _ in 0..rng.random_range(0..300) {
                bench.step();
            }
            let mss = if rng.random_bool(0.5) { most } else { 20 };
            let segments: Vec<_> = (0..12)
                .flat_map(|_| random::burst(&mut rng, 4 * mss, mss).segments())
                .collect();
            let stop = Pattern {
                ready: 0.0,
                ..pattern
            };
            let expected = bench.departures.len() + segments.len();
            let from = bench.frames.len();
            for segment in &segments {
                bench.post(segment);
            }
            bench.set_pattern(stop);
            for _ in 0..400 {
                bench.step();
            }
            bench.set_pattern(pattern);
            bench.run(expected);
            for (segment, frame) in segments.iter().zip(&bench.frames[from..]) {
                assert!(segment.frame() == frame.bytes);
            }
        }
        bench.drain();
    }
}

#[test]
#[should_panic(expected = "must hold the largest segment")]
fn a_ring_that_is_too_small_is_refused() {
    let _ = Segmenter::<5, 6>::new(Segmenter::<5, 6>::MAX_SEGMENT as u16 + 1);
}
