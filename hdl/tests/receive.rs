// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive path as a whole, with host memory behind it.

mod receive_support;
mod support;

use receive_support::bench::{Bench, Mood};
use receive_support::*;
use support::{LockStep, Pcg64Mcg, RngExt, SeedableRng, bits_of};
use tsonic_hdl::receive::Receive;
use tsonic_regs::Status;
use tsonic_regs::completion::ChecksumVerdict;
use tsonic_regs::descriptor::COOKIE_NONE;
use tsonic_regs::limits::RX_FRAME_MAX;
use tsonic_regs::registers::queue;

/// Queues 4 and 32, and a number that is no power of two.
fn four(seed: u64) -> Bench {
    Bench::new::<4, 2, 6>(seed)
}

/// What a frame of the sender must come out as.
struct Sent {
    frame: Vec<u8>,
    verdict: Verdict,
    start: u64,
}

/// Frames that were sent, by queue, with the tick of their first beat.
fn sent_by_queue(frames: &[Vec<u8>], starts: &[u64], queues: usize) -> Vec<Vec<Sent>> {
    let mut sent: Vec<Vec<Sent>> = (0..queues).map(|_| Vec::new()).collect();
    assert_eq!(frames.len(), starts.len());
    for (frame, start) in frames.iter().zip(starts) {
        let verdict = classify(frame, &RSS_KEY_DEFAULT, &round_robin(queues));
        sent[usize::from(verdict.queue)].push(Sent {
            frame: frame.clone(),
            verdict,
            start: *start,
        });
    }
    sent
}

/// Compares what a queue got with what was sent to it; in order, and with
/// nothing missing but `dropped` frames.
fn compare(bench: &Bench, frames: &[Vec<u8>], mut dropped: usize) {
    let sent = sent_by_queue(frames, &bench.starts, bench.queues.len());
    for (queue, sent) in bench.queues.iter().zip(sent) {
        let mut sent = sent.into_iter();
        for received in &queue.frames {
            let expected = loop {
                let next = sent.next().expect("a frame that was never sent");
                if next.frame == received.data && next.start == received.last.arrival {
                    break next;
                }
                dropped = dropped
                    .checked_sub(1)
                    .expect("a frame is missing or damaged");
            };
            let (status, hash) = (received.last.status, received.last.hash);
            assert_eq!(status.ip_csum(), expected.verdict.ip_csum as u8);
            assert_eq!(status.l4_csum(), expected.verdict.l4_csum as u8);
            assert_eq!(status.hash_kind(), expected.verdict.hash_kind as u8);
            assert_eq!(hash.hash(), expected.verdict.hash);
        }
        dropped = dropped
            .checked_sub(sent.count())
            .expect("frames are missing");
    }
    assert_eq!(dropped, 0, "fewer frames dropped than said");
}

/// Runs until the wire is empty and all is at rest, while a driver keeps the
/// rings stocked with buffers of random sizes.
fn run(bench: &mut Bench, sizes: std::ops::Range<u16>) {
    while !bench.wire.is_empty() {
        for q in 0..bench.queues.len() {
            let room = bench.room(q);
            if room > 0 {
                let count = bench.rng.random_range(1..=room);
                let sizes: Vec<u16> = (0..count)
                    .map(|_| bench.rng.random_range(sizes.clone()))
                    .collect();
                bench.post(q, &sizes);
            }
        }
        let steps = bench.rng.random_range(1..60);
        bench.steps(steps);
        bench.reap();
    }
    bench.drain();
    bench.reap();
}

fn frames(bench: &mut Bench, count: usize, longest: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| random_frame(&mut bench.rng, longest))
        .collect()
}

/// Puts frames on the wire with so much room that none is lost.
fn send_slowly(bench: &mut Bench, frames: &[Vec<u8>], slower: usize) {
    for frame in frames {
        let gap = 60 + frame.len() / 8 * slower + bench.rng.random_range(0..40usize);
        bench.send(frame, false, gap);
    }
}

fn wrong_checksums(frames: &[Vec<u8>]) -> u64 {
    let bad = |frame: &&Vec<u8>| {
        let verdict = classify(frame, &RSS_KEY_DEFAULT, &round_robin(4));
        verdict.ip_csum == ChecksumVerdict::Bad || verdict.l4_csum == ChecksumVerdict::Bad
    };
    frames.iter().filter(bad).count() as u64
}

#[test]
fn frames_reach_their_queues() {
    let mut bench = four(1);
    bench.rss(&RSS_KEY_DEFAULT, &round_robin(4));
    for q in 0..4 {
        bench.open(q, 8, 8, 0);
        bench.post(q, &[2048; 200]);
    }
    bench.steps(400);
    let frames = frames(&mut bench, 300, 1_600);
    send_slowly(&mut bench, &frames, 1);
    run(&mut bench, 2048..2049);
    compare(&bench, &frames, 0);
    let counters = bench.counters;
    assert_eq!(counters.frames, 300);
    assert_eq!(
        counters.bytes,
        frames.iter().map(|f| f.len() as u64).sum::<u64>()
    );
    assert_eq!(
        (counters.no_buffer, counters.errors, counters.refused),
        (0, 0, 0)
    );
    assert_eq!(counters.csum_errors, wrong_checksums(&frames));
    assert_eq!(counters.written, 300);
}

#[test]
fn frames_span_buffers_and_rings_wrap() {
    let mut bench = four(2);
    bench.rss(&RSS_KEY_DEFAULT, &round_robin(4));
    bench.mood = Mood {
        ready: 70,
        latency: 60,
    };
    for q in 0..4 {
        bench.open(q, 6, 6 + q as u32 % 2, q as u64);
        bench.post(q, &[200; 63]);
    }
    bench.steps(1_000);
    let frames = frames(&mut bench, 500, 1_200);
    send_slowly(&mut bench, &frames, 12);
    run(&mut bench, 64..900);
    compare(&bench, &frames, 0);
    let most = bench
        .queues
        .iter()
        .flat_map(|q| &q.frames)
        .map(|f| f.buffers)
        .max();
    assert!(most >= Some(5), "frames of many buffers");
    let passes = bench.queues.iter().map(|q| q.passes);
    assert!(
        passes.clone().min() >= Some(1) && passes.max() >= Some(3),
        "completion rings wrap"
    );
    assert!(bench.most_reads >= 3, "reads overlap");
}

#[test]
fn the_longest_frame_is_kept_and_a_longer_one_is_not() {
    let mut bench = four(3);
    bench.rss(&RSS_KEY_DEFAULT, &round_robin(4));
    for q in 0..4 {
        bench.open(q, 6, 6, 0);
        bench.post(q, &[2048; 60]);
    }
    bench.steps(400);
    let mut kept = Vec::new();
    for length in [
        RX_FRAME_MAX,
        RX_FRAME_MAX + 1,
        RX_FRAME_MAX - 7,
        60,
        RX_FRAME_MAX + 500,
        61,
        1,
    ] {
        let frame = bytes(&mut bench.rng, length);
        bench.send(&frame, false, 2_000);
        if length <= RX_FRAME_MAX {
            kept.push(frame);
        }
    }
    let damaged = bytes(&mut bench.rng, 100);
    bench.send(&damaged, true, 100);
    bench.send(&kept[3], false, 0);
    kept.push(kept[3].clone());
    bench.wire.extend([None; 300]);
    run(&mut bench, 2048..2049);
    let got: Vec<Vec<u8>> = bench.queues[0]
        .frames
        .iter()
        .map(|f| f.data.clone())
        .collect();
    let mut want = kept.clone();
    want.sort();
    let mut all: Vec<Vec<u8>> = bench
        .queues
        .iter()
        .flat_map(|q| &q.frames)
        .map(|f| f.data.clone())
        .collect();
    all.sort();
    assert_eq!(all, want);
    assert!(!got.is_empty());
    assert_eq!(bench.counters.errors, 3);
    assert_eq!(bench.counters.frames, kept.len() as u64);
}

#[test]
fn line_rate_is_taken_or_dropped_whole() {
    for (seed, mood, longest) in [
        (
            4,
            Mood {
                ready: 100,
                latency: 30,
            },
            300,
        ),
        (
            5,
            Mood {
                ready: 40,
                latency: 200,
            },
            1_600,
        ),
        (
            6,
            Mood {
                ready: 10,
                latency: 400,
            },
            9_000,
        ),
    ] {
        let mut bench = four(seed);
        bench.rss(&RSS_KEY_DEFAULT, &round_robin(4));
        bench.mood = mood;
        for q in 0..4 {
            bench.open(q, 7, 8, 1);
        }
        let mut sent = frames(&mut bench, 600, longest);
        for frame in &mut sent {
            if bench.rng.random_range(0..3) == 0 {
                frame.truncate(60);
            }
        }
        let mut damaged = 0;
        let mut whole = Vec::new();
        for frame in &sent {
            let bad = bench.rng.random_range(0..20) == 0;
            bench.send(frame, bad, 0);
            damaged += u64::from(bad);
            whole.push(!bad);
        }
        run(&mut bench, 64..3_000);
        // Starts are of all frames; those of damaged ones go.
        let mut keep = whole.iter();
        bench
            .starts
            .retain(|_| *keep.next().expect("a start a frame"));
        let sent: Vec<_> = sent
            .into_iter()
            .zip(whole)
            .filter(|(_, whole)| *whole)
            .map(|(f, _)| f)
            .collect();
        let counters = bench.counters;
        assert_eq!(counters.errors, damaged);
        assert_eq!(counters.frames, sent.len() as u64);
        assert!(
            counters.no_buffer > 0,
            "this wire is faster than the memory"
        );
        let delivered: usize = bench.queues.iter().map(|q| q.frames.len()).sum();
        assert!(delivered > 20);
        assert_eq!(delivered as u64 + counters.no_buffer, counters.frames);
        compare(&bench, &sent, counters.no_buffer as usize);
    }
}

#[test]
fn without_a_buffer_a_frame_is_dropped_and_others_pass() {
    let mut bench = four(7);
    bench.rss(&RSS_KEY_DEFAULT, &round_robin(4));
    bench.open(1, 6, 6, 0);
    bench.open(2, 6, 6, 0);
    bench.post(1, &[2048; 50]);
    // Queue 2 has two buffers, queues 0 and 3 are off.
    bench.post(2, &[256; 2]);
    bench.steps(300);
    let frames = frames(&mut bench, 120, 700);
    send_slowly(&mut bench, &frames, 3);
    while !bench.wire.is_empty() {
        bench.step();
        bench.reap();
        if bench.room(1) > 20 {
            bench.post(1, &[2048; 20]);
        }
    }
    bench.drain();
    bench.reap();
    let sent = sent_by_queue(&frames, &bench.starts, 4);
    assert!(sent.iter().all(|queue| queue.len() > 5));
    assert_eq!(bench.queues[1].frames.len(), sent[1].len());
    assert_eq!(bench.queues[0].completed + bench.queues[3].completed, 0);
    let delivered: usize = bench.queues.iter().map(|q| q.frames.len()).sum();
    assert_eq!(bench.counters.no_buffer, (frames.len() - delivered) as u64);
    assert!(bench.queues[2].posted.is_empty(), "both were used");
    // A frame that began and found no second buffer says so.
    let cut: usize = bench.queues[2].errors.len();
    for error in &bench.queues[2].errors {
        assert_eq!(error.status.status(), Status::RxNoBuffer.code());
        assert_eq!(error.status.eop(), 1);
    }
    assert_eq!(
        bench.queues[2]
            .frames
            .iter()
            .map(|f| f.buffers)
            .sum::<usize>()
            + cut,
        2
    );
}

#[test]
fn a_frame_that_runs_out_of_buffers_is_cut() {
    let mut bench = four(8);
    bench.rss(&RSS_KEY_DEFAULT, &[2; RSS_TABLE]);
    bench.open(2, 6, 6, 0);
    bench.post(2, &[256; 2]);
    bench.steps(300);
    let frame = bytes(&mut bench.rng, 1_000);
    bench.send(&frame, false, 0);
    bench.drain();
    bench.reap();
    // The first buffer is complete and good as such; the second ends the frame.
    assert_eq!(bench.queues[2].completed, 2);
    let [error] = &bench.queues[2].errors[..] else {
        panic!("one error")
    };
    assert_eq!(error.status.status(), Status::RxNoBuffer.code());
    assert_eq!((error.status.sop(), error.status.eop()), (0, 1));
    assert_eq!(error.status.bytes(), 256);
    assert_eq!(bench.counters.no_buffer, 1);
    bench.post(2, &[2048]);
    let frame = bytes(&mut bench.rng, 90);
    bench.send(&frame, false, 60);
    bench.wire.extend([None; 200]);
    bench.drain();
    bench.reap();
    assert_eq!(bench.queues[2].frames.len(), 1);
    assert_eq!(bench.queues[2].frames[0].data, frame);
}

#[test]
fn a_ring_that_cannot_be_read_gives_errors_and_the_queue_goes_on() {
    let mut bench = four(9);
    bench.rss(&RSS_KEY_DEFAULT, &[1; RSS_TABLE]);
    bench.open(1, 9, 9, 0);
    // 512 slots are two pages; the first cannot be read.
    let ring = bench.queues[1].ring;
    bench.post(1, &[512; 280]);
    bench.memory.unmap(ring);
    let lost: Vec<_> = bench.queues[1].posted.drain(..256).collect();
    bench.steps(6_000);
    bench.reap();
    assert_eq!(bench.queues[1].errors.len(), lost.len());
    for error in &bench.queues[1].errors {
        assert_eq!(error.status.status(), Status::AddressFault.code());
        assert_eq!(error.status.cookie(), COOKIE_NONE);
        assert_eq!((error.status.sop(), error.status.eop()), (0, 0));
    }
    let frame = bytes(&mut bench.rng, 400);
    bench.send(&frame, false, 0);
    bench.drain();
    bench.reap();
    assert_eq!(bench.queues[1].frames[0].data, frame);
    assert_eq!(bench.counters.no_buffer, 0);
}

#[test]
fn descriptors_that_break_a_rule_are_completed_with_its_code() {
    let mut bench = four(10);
    bench.rss(&RSS_KEY_DEFAULT, &[3; RSS_TABLE]);
    bench.open(3, 6, 6, 2);
    let word = |bytes: u64, cookie: u64| bytes | cookie << 16;
    bench.memory.map(0x5000, 4096);
    bench.put(3, 0x5000, word(63, 11));
    bench.put(3, 0x5004, word(64, 12));
    bench.put(3, 0x5001, word(0, 13) | 1 << 32);
    bench.put(3, 0x5001, word(63, 14));
    bench.put(3, 0x5000, word(64, 15) | 1 << 63);
    bench.post(3, &[64]);
    bench.steps(200);
    // Five bad ones complete without a frame; `reap` knows only good cookies.
    let good = bench.queues[3].posted.clone();
    for cookie in 11..16 {
        let at = bench.queues[3].posted.len() - 1;
        bench.queues[3].posted.insert(at, (0x5000, 0, cookie));
    }
    bench.reap();
    let codes: Vec<u8> = bench.queues[3]
        .errors
        .iter()
        .map(|e| e.status.status())
        .collect();
    let expected = [
        Status::LengthMismatch,
        Status::AddressFault,
        Status::ReservedBits,
        Status::LengthMismatch,
        Status::ReservedBits,
    ];
    assert_eq!(codes, expected.map(Status::code));
    assert_eq!(bench.queues[3].posted, good);
    let frame = bytes(&mut bench.rng, 64);
    bench.send(&frame, false, 0);
    bench.drain();
    bench.reap();
    assert_eq!(bench.queues[3].frames[0].data, frame);
}

#[test]
fn doorbells_beyond_the_ring_are_refused() {
    let mut bench = four(11);
    bench.rss(&RSS_KEY_DEFAULT, &[0; RSS_TABLE]);
    bench.bell(0, 5); // not enabled
    bench.open(0, 6, 6, 0);
    bench.bell(0, 64);
    bench.bell(0, 1 << 20);
    bench.bell(7, 3); // no such queue
    bench.bell(0, u32::MAX);
    bench.steps(100);
    bench.reap();
    assert_eq!(bench.counters.refused, 5);
    assert_eq!(bench.queues[0].errors.len(), 3);
    for error in &bench.queues[0].errors {
        assert_eq!(error.status.status(), Status::DoorbellOutOfRange.code());
        assert_eq!(error.status.cookie(), COOKIE_NONE);
        assert_eq!(error.arrival, 0);
    }
    bench.post(0, &[512]);
    let frame = bytes(&mut bench.rng, 200);
    bench.send(&frame, false, 50);
    bench.steps(200);
    bench.drain();
    bench.reap();
    assert_eq!(bench.queues[0].frames[0].data, frame);
}

#[test]
fn a_queue_turned_on_again_starts_anew() {
    let mut bench = four(12);
    bench.rss(&RSS_KEY_DEFAULT, &[1; RSS_TABLE]);
    bench.mood.latency = 300;
    for round in 0..12 {
        bench.open(1, 6, 6, round % 4);
        bench.post(1, &[512; 40]);
        let wait = bench.rng.random_range(0..700);
        bench.steps(wait);
        if round % 2 == 1 {
            let frame = bytes(&mut bench.rng, 100);
            bench.send(&frame, false, 0);
            bench.drain();
            bench.reap();
            let got = bench.queues[1].frames.pop_back().expect("the frame");
            assert_eq!(got.data, frame);
            assert_eq!(bench.queues[1].posted.len(), 39);
        }
        // Off with reads under way.
        if round % 3 == 0 {
            bench.post(1, &[512; 3]);
        }
        bench.register(1, queue::RX_CONTROL, 0);
    }
}

#[test]
fn while_disabled_frames_leave_no_trace() {
    let mut bench = four(13);
    bench.rss(&RSS_KEY_DEFAULT, &[0; RSS_TABLE]);
    bench.open(0, 6, 6, 0);
    bench.post(0, &[512; 10]);
    bench.steps(100);
    bench.set("enable", 0);
    let frame = bytes(&mut bench.rng, 200);
    bench.send(&frame, false, 0);
    bench.send(&frame, true, 0);
    bench.drain();
    bench.set("enable", 1);
    let frame = bytes(&mut bench.rng, 210);
    bench.send(&frame, false, 0);
    bench.drain();
    bench.reap();
    assert_eq!(bench.queues[0].frames.len(), 1);
    assert_eq!(bench.queues[0].frames[0].data, frame);
    assert_eq!((bench.counters.frames, bench.counters.errors), (1, 0));
}

#[test]
fn a_reset_leaves_nothing_inside() {
    let mut bench = four(17);
    bench.rss(&RSS_KEY_DEFAULT, &[2; RSS_TABLE]);
    bench.mood = Mood {
        ready: 30,
        latency: 200,
    };
    for round in 0..8 {
        bench.set("enable", 1);
        bench.open(2, 6, 6, round);
        bench.post(2, &[256; 50]);
        for _ in 0..6 {
            let frame = bytes(&mut bench.rng, 600);
            bench.send(&frame, false, 0);
        }
        let wait = bench.rng.random_range(0..1_500);
        bench.steps(wait);
        bench.set("enable", 0);
        bench.set("resetting", 1);
        let counted = bench.counters.no_buffer;
        bench.drain();
        assert_eq!(bench.counters.no_buffer, counted);
        bench.set("resetting", 0);
        let written = bench.counters.written;
        bench.steps(1_000);
        assert_eq!(
            bench.counters.written, written,
            "nothing is written after a reset"
        );
    }
    bench.set("enable", 1);
    bench.open(2, 6, 6, 0);
    bench.post(2, &[256; 50]);
    bench.steps(1_000);
    let frame = bytes(&mut bench.rng, 600);
    bench.send(&frame, false, 0);
    bench.drain();
    bench.reap();
    assert_eq!(bench.queues[2].frames.len(), 1);
    assert_eq!(bench.queues[2].frames[0].data, frame);
}

#[test]
fn thirty_two_queues() {
    many_queues(Bench::new::<32, 5, 9>(14), 32);
}

#[test]
fn five_queues() {
    many_queues(Bench::new::<5, 3, 7>(15), 5);
}

fn many_queues(mut bench: Bench, queues: usize) {
    bench.rss(&RSS_KEY_DEFAULT, &round_robin(queues));
    bench.mood = Mood {
        ready: 80,
        latency: 100,
    };
    for q in 0..queues {
        bench.open(q, 6 + q as u32 % 3, 7, q as u64);
        bench.post(q, &[700; 30]);
    }
    bench.steps(3_000);
    let frames = frames(&mut bench, 400, 1_600);
    send_slowly(&mut bench, &frames, 4);
    run(&mut bench, 300..2_000);
    compare(&bench, &frames, 0);
    assert!(bench.queues.iter().all(|q| q.completed > 0));
}

#[test]
fn model_and_verilog_agree() {
    let mut rng = Pcg64Mcg::seed_from_u64(16);
    let mut pair = LockStep::new(Receive::<3, 2, 6>::default(), |b| &mut b.clock);
    let mut beats: std::collections::VecDeque<(u64, usize, bool)> = Default::default();
    let mut reads: std::collections::VecDeque<u64> = Default::default();
    let registers = [
        queue::RX_RING_LO,
        queue::RX_RING_HI,
        queue::RX_COMPLETION_LO,
        queue::RX_COMPLETION_HI,
        queue::RX_RING_SIZE,
        queue::RX_CONTROL,
    ];
    for cycle in 0..20_000u64 {
        if beats.is_empty() {
            let frame = random_frame(&mut rng, 400);
            let count = frame.len().div_ceil(8);
            for (n, chunk) in frame.chunks(8).enumerate() {
                let mut beat = [0; 8];
                beat[..chunk.len()].copy_from_slice(chunk);
                beats.push_back((u64::from_le_bytes(beat), chunk.len(), n + 1 == count));
            }
        }
        // Hardly less than line rate for a while, then slowly.
        let pause = if cycle / 2_000 % 2 == 0 { 0.1 } else { 0.7 };
        let beat = if rng.random_bool(pause) {
            None
        } else {
            beats.pop_front()
        };
        let mut asked = None;
        let mut taken = None;
        pair.step(|b| {
            b.enable.next = cycle % 5_000 > 20;
            b.resetting.next = (12_000..12_200).contains(&cycle);
            b.ticks.next = (0xffff_f000 + cycle).into();
            b.rx_valid.next = beat.is_some();
            let (data, count, last) = beat.unwrap_or((0, 0, false));
            b.rx_data.next = data.into();
            b.rx_bytes.next = (count as u64).into();
            b.rx_last.next = last;
            b.rx_bad.next = rng.random_range(0..10) == 0;
            // The first cycles set the queues up, later ones disturb.
            let phase = cycle % 12_300;
            let setup = phase < 40;
            let register = registers[if setup {
                phase as usize / 3 % 6
            } else {
                rng.random_range(0..6)
            }];
            b.cfg_valid.next = setup && phase >= 20 || rng.random_range(0..1_500) == 0;
            b.cfg_queue.next = if setup {
                cycle % 3
            } else {
                rng.random_range(0..4)
            }
            .into();
            b.cfg_offset.next = (register.offset as u64).into();
            b.cfg_value.next = match register.name {
                "RX_RING_SIZE" => 0x0706u64,
                "RX_CONTROL" => u64::from(setup || rng.random_bool(0.7)),
                _ => u64::from(rng.random::<u32>()) & !31,
            }
            .into();
            b.bell_valid.next = !b.cfg_valid.next && rng.random_range(0..20) == 0;
            b.bell_queue.next = rng.random_range(0..4u64).into();
            b.bell_tail.next = rng.random_range(0..66u64).into();
            b.key_write.next = rng.random_range(0..300) == 0;
            b.key_index.next = rng.random_range(0..10u64).into();
            b.key_value.next = u64::from(rng.random::<u32>()).into();
            b.table_write.next = rng.random_range(0..20) == 0;
            b.table_index.next = rng.random_range(0..128u64).into();
            b.table_value.next = rng.random_range(0..4u64).into();
            b.rd_req_ready.next = rng.random_bool(0.7);
            b.wr_ready.next = rng.random_bool(if cycle / 3_000 % 2 == 0 { 0.95 } else { 0.3 });
            // Outputs are those after the last edge; the read port's depend on
            // registers only, so they hold in this cycle.
            if b.rd_req_valid.val() && b.rd_req_ready.next {
                asked = Some(b.rd_req_len.val().to_u64() / 8);
            }
            if let Some(left) = reads.front().copied() {
                b.rd_valid.next = true;
                let even = left % 2 == 0;
                b.rd_data.next = if even {
                    bits_of::<64>(&mut rng) & 0xffff_ffff_fff8_u64
                } else {
                    rng.random_range(50..2_000u64).into()
                };
                b.rd_err.next = rng.random_range(0..40) == 0;
                b.rd_last.next = left == 1 || b.rd_err.next;
                if b.rd_ready.val() {
                    taken = Some(b.rd_last.next);
                }
            } else {
                b.rd_valid.next = false;
            }
        });
        if let Some(last) = taken {
            *reads.front_mut().expect("a read") -= 1;
            if last {
                reads.pop_front();
            }
        }
        reads.extend(asked);
    }
}
