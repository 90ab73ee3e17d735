// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong on the way in: nothing of it leaves, nothing hangs, and the
//! segments around it are untouched.

mod segmenter;
mod support;

use segmenter::bench::{Beat, Bench, Pattern, beats};
use segmenter::golden::{Burst, Kind, Segment, job_words};
use segmenter::random;
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::segment::SegmentJob;

/// Spoils a segment and says whether it can still leave.
fn spoil(
    rng: &mut Pcg64Mcg,
    job: &mut SegmentJob,
    header: &mut Vec<Beat>,
    payload: &mut Vec<Beat>,
) {
    let junk = |rng: &mut Pcg64Mcg| Beat {
        data: rng.random(),
        last: false,
        err: false,
    };
    match rng.random_range(0..9) {
        // A fault of the payload's read, at its end or cutting it short.
        0 | 1 if !payload.is_empty() => {
            payload.truncate(rng.random_range(1..=payload.len()));
            if let Some(beat) = payload.last_mut() {
                (beat.last, beat.err) = (true, true);
            }
        }
        // Short without a word of warning; too long.
        2 if payload.len() > 1 => {
            payload.truncate(rng.random_range(1..payload.len()));
            if let Some(beat) = payload.last_mut() {
                beat.last = true;
            }
        }
        3 if !payload.is_empty() => {
            for _ in 0..rng.random_range(1..30) {
                let beat = junk(rng);
                payload.insert(0, beat);
            }
        }
        // The same for the header.
        4 => {
            if let Some(beat) = header.last_mut() {
                beat.err = true;
            }
        }
        5 => {
            header.truncate(rng.random_range(1..header.len()));
            if let Some(beat) = header.last_mut() {
                beat.last = true;
            }
        }
        6 => {
            for _ in 0..rng.random_range(1..60) {
                let beat = junk(rng);
                header.insert(0, beat);
            }
        }
        // A job that breaks a rule.
        7 => job.l2_len = (u64::from(rng.random_bool(0.5)) * 2 + 11).into(),
        _ => {
            job.len = 16_001u64.into();
            if payload.is_empty() {
                payload.extend(beats(&[1, 2, 3], false));
            }
        }
    }
}

#[test]
fn a_spoilt_segment_is_dropped_whole_and_in_its_turn() {
    for (n, pattern) in Pattern::ALL.into_iter().enumerate() {
        let mut rng = Pcg64Mcg::seed_from_u64(7 + n as u64);
        let mut bench = Bench::new(pattern, n as u64);
        let mut expected = Vec::new(); // ctx, last, frame if it leaves
        for _ in 0..150 {
            let mss = *[9, 80, 2000].get(rng.random_range(0..3)).unwrap_or(&9);
            for segment in random::burst(&mut rng, 3 * mss, mss).segments() {
                let mut job = segment.job();
                let mut header = beats(&segment.burst.header, false);
                let mut payload = beats(&segment.burst.payload, false);
                let bad = rng.random_bool(0.4);
                if bad {
                    spoil(&mut rng, &mut job, &mut header, &mut payload);
                }
                bench.post_raw(job_words(job), header, payload);
                let frame = (!bad).then(|| segment.frame());
                expected.push((segment.burst.ctx, segment.last, frame));
            }
        }
        bench.run(expected.len());
        bench.drain();
        let mut frames = bench.frames.iter();
        for (n, (departure, (ctx, last, frame))) in
            bench.departures.iter().zip(&expected).enumerate()
        {
            assert_eq!(
                (departure.ctx, departure.last),
                (*ctx, *last),
                "segment {n}"
            );
            assert_eq!(departure.err, frame.is_none(), "segment {n}");
            if let Some(frame) = frame {
                let got = frames.next().expect("as many frames as departures");
                assert!(
                    got.bytes == *frame,
                    "segment {n}:\n got {}\nwant {}",
                    hex::encode(&got.bytes[..got.bytes.len().min(400)]),
                    hex::encode(&frame[..frame.len().min(400)])
                );
            }
        }
        assert!(frames.next().is_none());
    }
}

fn good(kind: Kind, ipv6: bool, l4_len: usize) -> Segment {
    let l3_len = if ipv6 { 40 } else { 20 };
    let mut header = vec![0x11; 14 + l3_len + l4_len];
    header[14] = if ipv6 { 0x60 } else { 0x45 };
    Burst {
        kind,
        ipv6,
        ip_id_fixed: false,
        cwr_all: false,
        l2_len: 14,
        l3_len,
        l4_len,
        mss: 100,
        header,
        payload: vec![0x22; 64],
        ctx: 3,
    }
    .segments()
    .remove(0)
}

#[test]
fn every_rule_of_the_job_is_checked() {
    type Fault = fn(&mut SegmentJob);
    let tcp4 = good(Kind::Tso, false, 20);
    let tcp6 = good(Kind::Csum, true, 20);
    let udp = good(Kind::Uso, false, 8);
    let raw = good(Kind::Raw, false, 20);
    let faults: &[(&Segment, Fault)] = &[
        (&tcp4, |j| j.l2_len = 12u64.into()),
        (&tcp4, |j| j.l2_len = 15u64.into()),
        (&tcp4, |j| j.l3_len = 16u64.into()),
        (&tcp4, |j| j.l3_len = 22u64.into()),
        (&tcp4, |j| j.l3_len = 64u64.into()),
        (&tcp4, |j| j.l4_len = 16u64.into()),
        (&tcp4, |j| j.l4_len = 22u64.into()),
        (&tcp4, |j| j.l4_len = 64u64.into()),
        (&tcp4, |j| j.l4_len = 8u64.into()),
        (&tcp4, |j| j.len = 16_001u64.into()),
        (&tcp4, |j| j.len = 65_535u64.into()),
        (&tcp6, |j| j.l3_len = 36u64.into()),
        (&tcp6, |j| j.l3_len = 44u64.into()),
        (&tcp6, |j| j.l3_len = 248u64.into()),
        (&tcp6, |j| j.l3_len = 504u64.into()),
        (&udp, |j| j.l4_len = 20u64.into()),
        (&raw, |j| j.l2_len = 0u64.into()),
        (&raw, |j| j.l3_len = 1u64.into()),
        (&raw, |j| j.l4_len = 3u64.into()),
        (&raw, |j| j.l3_len = 500u64.into()),
        (&raw, |j| {
            j.l2_len = 0u64.into();
            j.l3_len = 0u64.into();
            j.l4_len = 0u64.into();
        }),
    ];
    let mut bench = Bench::new(Pattern::FULL, 1);
    for (n, (segment, fault)) in faults.iter().enumerate() {
        let mut job = segment.job();
        fault(&mut job);
        bench.post_raw(
            job_words(job),
            beats(&segment.burst.header, false),
            beats(&segment.burst.payload, false),
        );
        bench.post(segment);
        bench.run(2 * n + 2);
        assert!(bench.departures[2 * n].err, "fault {n} was let through");
        assert_eq!(bench.frames.len(), n + 1);
        assert!(bench.frames[n].bytes == segment.frame(), "after fault {n}");
    }
    bench.drain();
}

#[test]
fn many_drops_in_a_row_do_not_stop_it() {
    let mut bench = Bench::new(
        Pattern {
            ready: 0.5,
            ..Pattern::FULL
        },
        1,
    );
    let segment = good(Kind::Tso, false, 20);
    for n in 0..600 {
        let payload = beats(&segment.burst.payload, n % 60 != 59);
        bench.post_raw(
            job_words(segment.job()),
            beats(&segment.burst.header, false),
            payload,
        );
    }
    bench.run(600);
    bench.drain();
    assert_eq!(bench.frames.len(), 10);
}
