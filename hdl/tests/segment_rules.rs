// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rules of segmentation that the kernel's vectors do not reach.

mod segmenter;
mod support;

use segmenter::bench::{Bench, Pattern};
use segmenter::golden::{Burst, Kind, Segment};
use segmenter::random;
use support::{Pcg64Mcg, RngExt, SeedableRng};

/// TCP over IPv4 with a timestamp option: `id`, `seq` and flags as given.
fn tcp4(id: u16, seq: u32, flags: u8, mss: usize, payload: Vec<u8>) -> Burst {
    let mut header = hex::decode(concat!(
        "020000000001020000000002",
        "0800",
        "4500000000004000400600",
        "00c0000201c6336402",
        "01bbc350000000000000000080002000",
        "000000000101080a1122334455667788"
    ))
    .expect("hex");
    header[18..20].copy_from_slice(&id.to_be_bytes());
    header[38..42].copy_from_slice(&seq.to_be_bytes());
    header[42..46].copy_from_slice(&0x0102_0304u32.to_be_bytes());
    header[47] = flags;
    Burst {
        kind: Kind::Tso,
        ipv6: false,
        ip_id_fixed: false,
        cwr_all: false,
        l2_len: 14,
        l3_len: 20,
        l4_len: 32,
        mss,
        header,
        payload,
        ctx: 7,
    }
}

fn counting(len: usize) -> Vec<u8> {
    (0..len).map(|i| i as u8).collect()
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Runs a burst and returns its frames, which the reference has confirmed.
fn frames(bench: &mut Bench, burst: &Burst) -> Vec<Vec<u8>> {
    let at = bench.frames.len();
    bench.check(&burst.segments());
    bench.frames[at..].iter().map(|f| f.bytes.clone()).collect()
}

fn flags(frames: &[Vec<u8>]) -> Vec<u8> {
    frames.iter().map(|frame| frame[47]).collect()
}

#[test]
fn sequence_and_id_wrap_and_flags_move_as_published() {
    let mut bench = Bench::new(Pattern::FULL, 1);
    // FIN PSH ACK CWR, sequence wraps: checksums computed by an independent program.
    let out = frames(
        &mut bench,
        &tcp4(0x1234, 0xffff_fa00, 0x99, 1448, counting(3000)),
    );
    assert_eq!(flags(&out), [0x90, 0x10, 0x19]);
    let seen: Vec<_> = out
        .iter()
        .map(|f| (be16(f, 24), be16(f, 50), f.len()))
        .collect();
    assert_eq!(
        seen,
        [
            (0x36b1, 0x770c, 1514),
            (0x36b0, 0x42b5, 1514),
            (0x3bef, 0xd373, 170)
        ]
    );
    // The identification wraps.
    let out = frames(&mut bench, &tcp4(0xfffe, 1000, 0x18, 1448, counting(4344)));
    let ids: Vec<_> = out.iter().map(|f| be16(f, 18)).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0]);
    assert_eq!(flags(&out), [0x10, 0x10, 0x18]);
    // It is fixed on demand.
    let mut burst = tcp4(0x7777, 1000, 0x18, 1448, counting(4344));
    burst.ip_id_fixed = true;
    let ids: Vec<_> = frames(&mut bench, &burst)
        .iter()
        .map(|f| be16(f, 18))
        .collect();
    assert_eq!(ids, [0x7777; 3]);
    // Accurate ECN: CWR on every segment.
    let mut burst = tcp4(1, 1000, 0x98, 1448, counting(3000));
    burst.cwr_all = true;
    assert_eq!(flags(&frames(&mut bench, &burst)), [0x90, 0x90, 0x98]);
    // RST, SYN, URG, ECE are copied; reserved bits too.
    let mut burst = tcp4(1, 1000, 0x7e & !0x08, 1448, counting(3000));
    burst.header[46] |= 0x0f;
    let out = frames(&mut bench, &burst);
    assert_eq!(flags(&out), [0x76; 3]);
    assert!(out.iter().all(|f| f[46] == 0x8f));
    // One segment is first and last: nothing is cleared.
    assert_eq!(
        flags(&frames(&mut bench, &tcp4(1, 1, 0xff, 1448, counting(9)))),
        [0xff]
    );
    // A burst without payload is one frame of a header.
    let out = frames(&mut bench, &tcp4(1, 1, 0x11, 1448, Vec::new()));
    assert_eq!((out.len(), out[0].len(), out[0][47]), (1, 66, 0x11));
}

#[test]
fn offset_and_index_are_taken_from_the_job_alone() {
    // The 200,000th one-byte segment of a burst.
    let burst = tcp4(0x8000, 0xffff_0000, 0x10, 1, vec![0x5a]);
    let segment = Segment {
        burst,
        index: 200_000,
        offset: 200_000,
        len: 1,
        first: false,
        last: false,
    };
    let mut bench = Bench::new(Pattern::FULL, 1);
    bench.check(std::slice::from_ref(&segment));
    let frame = &bench.frames[0].bytes;
    assert_eq!(
        be16(frame, 18),
        0x8000u16.wrapping_add((200_000 & 0xffff) as u16)
    );
    assert_eq!(
        frame[38..42],
        0xffff_0000u32.wrapping_add(200_000).to_be_bytes()
    );
}

/// Makes the L4 checksum of a burst's first segment come out as 0 by changing
/// the first payload halfword.
fn zero_checksum(mut burst: Burst) -> Burst {
    let at = burst.l2_len + burst.l3_len + if burst.l4_len == 8 { 6 } else { 16 };
    let frame = burst.segments()[0].frame();
    let csum = u32::from(be16(&frame, at));
    // `fold` of the whole must become 0xffff: add what is missing.
    let word = u32::from(be16(&burst.payload, 0)) + csum;
    let word = (word & 0xffff) + (word >> 16);
    burst.payload[..2].copy_from_slice(&(word as u16).to_be_bytes());
    burst
}

#[test]
fn a_checksum_of_zero_is_mapped_where_it_must_be() {
    let mut bench = Bench::new(Pattern::FULL, 1);
    let tso = zero_checksum(tcp4(1, 1, 0x10, 100, counting(100)));
    assert_eq!(be16(&frames(&mut bench, &tso)[0], 50), 0);
    let mut csum = tso.clone();
    csum.kind = Kind::Csum;
    assert_eq!(be16(&frames(&mut bench, &csum)[0], 50), 0xffff);
    for kind in [Kind::Csum, Kind::Uso] {
        let mut udp = tso.clone();
        udp.kind = kind;
        udp.header.truncate(42);
        udp.header[23] = 17;
        udp.l4_len = 8;
        let udp = zero_checksum(udp);
        assert_eq!(be16(&frames(&mut bench, &udp)[0], 40), 0xffff);
    }
}

/// A sum whose first fold carries out again: the second fold counts.
#[test]
fn the_second_carry_counts() {
    let mut bench = Bench::new(Pattern::FULL, 1);
    // All payload words but the first are 0xffff, and the first runs through
    // all values around those at which the folded sum passes 0xffff.
    let base = tcp4(0, 0, 0x10, 1448, vec![0xff; 1448]);
    let mut segments = Vec::new();
    let frame = base.segments()[0].frame();
    let csum = be16(&frame, 50);
    for delta in -8i32..=8 {
        let mut burst = base.clone();
        let word = (i32::from(csum) + delta).rem_euclid(0x1_0000) as u16;
        burst.payload[..2].copy_from_slice(&word.to_be_bytes());
        segments.extend(burst.segments());
    }
    // The same for the IPv4 header: the identification runs.
    let csum = be16(&frame, 24);
    for delta in -8i32..=8 {
        let id = (i32::from(csum) + delta).rem_euclid(0x1_0000) as u16;
        let mut burst = tcp4(id, 0, 0x10, 1448, counting(10));
        burst.header[26..34].fill(0xff);
        segments.extend(burst.segments());
        let burst = tcp4(id, 0, 0x10, 1448, vec![0xff; 1448]);
        segments.extend(burst.segments());
    }
    bench.check(&segments);
    bench.drain();
}

#[test]
fn the_pseudo_header_has_the_final_destination_of_a_route() {
    let mut bench = Bench::new(Pattern::FULL, 1);
    let address = |n: u8| [vec![0x20, 0x01], vec![0xb8; 13], vec![n]].concat();
    for l2_len in [14, 18] {
        for (kind, left, end) in [
            (0u8, 2u8, 32),
            (0, 0, 32),
            (2, 1, 16),
            (4, 1, 40),
            (4, 0, 40),
        ] {
            let mut route = vec![6, (end / 8) as u8, kind, left, 0, 0, 0, 0];
            route.extend((0..end).map(|i| (37 * i) as u8));
            let mut header = vec![0xee; l2_len];
            header.extend([0x60, 0, 0, 0, 0, 0, 60, 64]);
            header.extend(address(1));
            header.extend(address(2));
            header.extend([43, 0, 1, 4, 0, 0, 0, 0]); // destination options
            header.extend(&route);
            let l3_len = header.len() - l2_len;
            header.extend(&tcp4(0, 5, 0x18, 0, Vec::new()).header[34..]);
            let burst = Burst {
                ipv6: true,
                l2_len,
                l3_len,
                header,
                ..tcp4(0, 5, 0x18, 100, counting(250))
            };
            // The reference follows the route; say here what it must find.
            let last = match (kind, left) {
                (_, 0) => address(2),
                (4, _) => route[8..24].to_vec(),
                _ => route[route.len() - 16..].to_vec(),
            };
            let mut direct = burst.clone();
            direct.header[l2_len + 24..l2_len + 40].copy_from_slice(&last);
            direct.header[l2_len + 48 + 3] = 0; // no segments left
            let csum = l2_len + l3_len + 16;
            let out = frames(&mut bench, &burst);
            for (frame, same) in out.iter().zip(direct.frames()) {
                assert_eq!(frame[csum..csum + 2], same[csum..csum + 2]);
            }
        }
    }
}

/// Every shape, segments of several bursts interleaved, under every pattern.
#[test]
fn random_bursts() {
    for (n, pattern) in Pattern::ALL.into_iter().enumerate() {
        let mut rng = Pcg64Mcg::seed_from_u64(100 + n as u64);
        let mut bench = Bench::new(pattern, n as u64);
        for _ in 0..40 {
            let mss = *[9, 80, 600, 3000].get(rng.random_range(0..4)).unwrap_or(&9);
            let mut queues: Vec<_> = (0..8)
                .map(|_| random::burst(&mut rng, 4 * mss, mss).segments())
                .collect();
            queues.iter_mut().for_each(|queue| queue.reverse());
            let mut segments = Vec::new();
            while !queues.is_empty() {
                let pick = rng.random_range(0..queues.len());
                segments.extend(queues[pick].pop());
                queues.retain(|queue| !queue.is_empty());
            }
            bench.check(&segments);
        }
        bench.drain();
    }
}
