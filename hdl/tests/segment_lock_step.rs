// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segmenter in RustHDL's simulation against its Verilog.

mod segmenter;
mod support;

use rust_hdl::prelude::*;
use segmenter::bench::{Beat, beats};
use segmenter::random;
use std::collections::VecDeque;
use support::{LockStep, Pcg64Mcg, RngExt, SeedableRng, bits_of, lock_step};
use tsonic_hdl::primitives::ByteReverse;
use tsonic_hdl::segment::{SegmentJob, Segmenter};

#[test]
fn byte_reverse() {
    support::lock_step_comb(ByteReverse::<64>::default(), 2_000, 1, |b, rng| {
        b.data.next = bits_of(rng);
    });
    support::lock_step_comb(ByteReverse::<24>::default(), 2_000, 2, |b, rng| {
        b.data.next = bits_of(rng);
    });
}

/// Sound bursts, some of them spoilt, with gaps on all sides; a small ring, so
/// that every limit is met often.
#[test]
fn the_segmenter_is_its_verilog_in_traffic() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut pair = LockStep::new(Segmenter::<6, 7>::new(400), |b| &mut b.clock);
    let mut jobs: VecDeque<SegmentJob> = VecDeque::new();
    let mut header: VecDeque<Beat> = VecDeque::new();
    let mut payload: VecDeque<Beat> = VecDeque::new();
    let mut chance = 1.0;
    let mut frames = 0;
    for cycle in 0..20_000 {
        if cycle % 500 == 0 {
            chance = *[1.0, 0.5, 0.1].get(rng.random_range(0..3)).unwrap_or(&1.0);
        }
        while jobs.len() < 4 {
            let mss = *[9, 80, 400].get(rng.random_range(0..3)).unwrap_or(&9);
            for segment in random::burst(&mut rng, 3 * mss, mss).segments() {
                let mut job = segment.job();
                if rng.random_bool(0.05) {
                    job.l3_len = bits_of(&mut rng);
                }
                jobs.push_back(job);
                let bad = rng.random_bool(0.05);
                header.extend(beats(&segment.burst.header, bad));
                let bad = rng.random_bool(0.05);
                payload.extend(beats(&segment.burst.payload, bad));
            }
        }
        pair.step(|b| {
            // A stream that was taken at the last edge moves on.
            if b.job_valid.val() && b.job_ready.val() {
                b.job_valid.next = false;
            }
            if !b.job_valid.next
                && rng.random_bool(chance)
                && let Some(job) = jobs.pop_front()
            {
                b.job_valid.next = true;
                b.job.next = job;
            }
            b.frame_ready.next = rng.random_bool(chance);
        });
        // The others by the outputs before the edge that comes: what `step` let
        // settle after this one.
        let b = &mut pair.block;
        drive(
            &mut rng,
            chance,
            &mut header,
            b.header_ready.val(),
            &mut b.header_valid,
            &mut b.header_data,
            &mut b.header_last,
            &mut b.header_err,
        );
        drive(
            &mut rng,
            chance,
            &mut payload,
            b.payload_ready.val(),
            &mut b.payload_valid,
            &mut b.payload_data,
            &mut b.payload_last,
            &mut b.payload_err,
        );
        frames += u32::from(b.departed_valid.val());
    }
    assert!(frames > 100, "only {frames} segments departed");
}

/// Offers a beat in the coming cycle if one is due; `ready` depends on registers
/// only, so it is known before the edge.
#[allow(clippy::too_many_arguments)]
fn drive(
    rng: &mut Pcg64Mcg,
    chance: f64,
    queue: &mut VecDeque<Beat>,
    ready: bool,
    valid: &mut Signal<In, bool>,
    data: &mut Signal<In, Bits<64>>,
    last: &mut Signal<In, bool>,
    err: &mut Signal<In, bool>,
) {
    valid.next = false;
    if ready
        && rng.random_bool(chance)
        && let Some(beat) = queue.pop_front()
    {
        valid.next = true;
        data.next = beat.data.into();
        last.next = beat.last;
        err.next = beat.err;
    }
}

/// Any bits on any input.
#[test]
fn the_segmenter_is_its_verilog_in_noise() {
    lock_step(
        Segmenter::<5, 6>::new(200),
        |b| &mut b.clock,
        20_000,
        2,
        |b, rng| {
            let sane = rng.random_bool(0.7);
            b.job_valid.next = rng.random_bool(0.5);
            let mut job = SegmentJob {
                kind: bits_of(rng),
                ipv6: rng.random_bool(0.5),
                ip_id_fixed: rng.random_bool(0.5),
                cwr_all: rng.random_bool(0.5),
                l2_len: bits_of(rng),
                l3_len: bits_of(rng),
                l4_len: bits_of(rng),
                len: bits_of(rng),
                offset: bits_of(rng),
                index: bits_of(rng),
                first: rng.random_bool(0.5),
                last: rng.random_bool(0.5),
                ctx: bits_of(rng),
            };
            if sane {
                job.l2_len = (14 + 2 * rng.random_range(0..4u64)).into();
                job.l3_len = (40 * (1 + rng.random_range(0..3u64)) / 2).into();
                job.l4_len = (8 + 12 * rng.random_range(0..4u64)).into();
                job.len = rng.random_range(0..200u64).into();
            }
            b.job.next = job;
            b.header_valid.next = rng.random_bool(0.8);
            b.header_data.next = bits_of(rng);
            b.header_last.next = rng.random_bool(0.12);
            b.header_err.next = rng.random_bool(0.1);
            b.payload_valid.next = rng.random_bool(0.8);
            b.payload_data.next = bits_of(rng);
            b.payload_last.next = rng.random_bool(0.1);
            b.payload_err.next = rng.random_bool(0.1);
            b.frame_ready.next = rng.random_bool(0.7);
        },
    );
}
