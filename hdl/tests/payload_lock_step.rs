// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of payload: RustHDL's simulation against their Verilog.

mod support;

use support::{Pcg64Mcg, RngExt, bits_of, lock_step};
use tsonic_hdl::fetch::{Burst, Fragment};
use tsonic_hdl::payload::*;

const CYCLES: u64 = 20_000;

fn burst(rng: &mut Pcg64Mcg) -> Burst {
    Burst {
        kind: bits_of(rng),
        ipv6: bits_of(rng),
        ip_id_fixed: bits_of(rng),
        cwr_all: bits_of(rng),
        l2_len: bits_of(rng),
        l3_len: bits_of(rng),
        l4_len: bits_of(rng),
        header_len: rng.random_range(14..100).into(),
        header_addr: bits_of(rng),
        frag0_addr: bits_of(rng),
        frag0_len: rng.random_range(1..600).into(),
    }
}

fn planned(rng: &mut Pcg64Mcg) -> Planned {
    Planned {
        kind: bits_of(rng),
        ipv6: rng.random_bool(0.5),
        ip_id_fixed: rng.random_bool(0.5),
        cwr_all: rng.random_bool(0.5),
        l2_len: bits_of(rng),
        l3_len: bits_of(rng),
        l4_len: bits_of(rng),
        len: rng.random_range(0..3).into(),
        offset: bits_of(rng),
        index: bits_of(rng),
        first: rng.random_bool(0.5),
        last: rng.random_bool(0.3),
        ctx: rng.random_range(0..4).into(),
        dropped: rng.random_bool(0.1),
    }
}

#[test]
fn plan() {
    let mut written = false;
    lock_step(
        Plan::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        move |b, rng| {
            b.grant_valid.next = rng.random_bool(0.5);
            b.grant_ctx.next = rng.random_range(0..4).into();
            b.grant_offset.next = bits_of(rng);
            b.grant_len.next = rng.random_range(0..2000).into();
            b.grant_index.next = bits_of(rng);
            b.grant_first.next = rng.random_bool(0.3);
            b.grant_last.next = rng.random_bool(0.3);
            b.grant_aborted.next = rng.random_bool(0.1);
            // Contexts that are written are not those that are granted, and not in
            // two cycles in a row.
            written = !written && rng.random_bool(0.2);
            b.burst_write.next = written;
            b.burst_ctx.next = rng.random_range(4..8).into();
            b.burst.next = burst(rng);
            b.fragment_write.next = rng.random_bool(0.2);
            b.fragment_index.next = rng.random_range(64..128).into();
            b.fragment.next = Fragment {
                addr: bits_of(rng),
                length: rng.random_range(1..600).into(),
            };
            b.rd_req_ready.next = rng.random_bool(0.7);
            b.piece_ready.next = rng.random_bool(0.8);
            b.job_ready.next = rng.random_bool(0.8);
            b.place_freed.next = rng.random_bool(0.5);
            b.places_back.next = rng.random_range(0..2).into();
        },
    );
}

#[test]
fn gather() {
    lock_step(
        Gather::default(),
        |b| &mut b.clock,
        CYCLES,
        2,
        |b, rng| {
            b.rd_valid.next = rng.random_bool(0.7);
            b.rd_data.next = bits_of(rng);
            b.rd_last.next = rng.random_bool(0.3);
            b.rd_err.next = rng.random_bool(0.05);
            b.piece_valid.next = rng.random_bool(0.8);
            b.piece.next = Piece {
                start: bits_of(rng),
                len: rng.random_range(1..40).into(),
                places: rng.random_range(1..10).into(),
                stream_end: rng.random_bool(0.5),
                job_end: rng.random_bool(0.3),
            };
        },
    );
}

#[test]
fn assemble() {
    let mut job = None;
    lock_step(
        Assemble::default(),
        |b| &mut b.clock,
        CYCLES,
        3,
        move |b, rng| {
            b.discard.next = rng.random_bool(0.01);
            b.word_valid.next = rng.random_bool(0.8);
            let last = rng.random_bool(0.3);
            b.word.next = Word {
                data: bits_of(rng),
                rotate: bits_of(rng),
                held: bits_of(rng),
                emit: rng.random_bool(if last { 0.9 } else { 0.7 }),
                last,
            };
            // A job stays until it is taken.
            if job.is_none() || b.job_ready.val() {
                job = Some(planned(rng));
            }
            b.job_valid.next = rng.random_bool(0.9);
            b.job.next = job.unwrap_or_default();
            b.segment_ready.next = rng.random_bool(0.7);
            b.header_ready.next = rng.random_bool(0.7);
            b.payload_ready.next = rng.random_bool(0.7);
            b.verdict_ready.next = rng.random_bool(0.9);
        },
    );
}

#[test]
fn payload() {
    let mut burst_ctx = 0u64;
    let mut written = false;
    lock_step(
        Payload::default(),
        |b| &mut b.clock,
        CYCLES / 2,
        4,
        move |b, rng| {
            burst_ctx = (burst_ctx + 1) % 64;
            b.grant_valid.next = rng.random_bool(0.2);
            b.grant_ctx.next = rng.random_range(0..4).into();
            b.grant_offset.next = bits_of(rng);
            b.grant_len.next = rng.random_range(0..300).into();
            b.grant_index.next = bits_of(rng);
            b.grant_first.next = rng.random_bool(0.3);
            b.grant_last.next = rng.random_bool(0.3);
            b.grant_aborted.next = rng.random_bool(0.1);
            written = !written && rng.random_bool(0.2);
            b.burst_write.next = written;
            b.burst_ctx.next = (64 + burst_ctx).into();
            b.burst.next = burst(rng);
            b.fragment_write.next = rng.random_bool(0.2);
            b.fragment_index.next = (1024 + burst_ctx).into();
            b.fragment.next = Fragment {
                addr: bits_of(rng),
                length: rng.random_range(1..600).into(),
            };
            b.rd_req_ready.next = rng.random_bool(0.7);
            b.rd_valid.next = rng.random_bool(0.6);
            b.rd_data.next = bits_of(rng);
            b.rd_last.next = rng.random_bool(0.3);
            b.rd_err.next = rng.random_bool(0.02);
            b.segment_ready.next = rng.random_bool(0.7);
            b.header_ready.next = rng.random_bool(0.7);
            b.payload_ready.next = rng.random_bool(0.7);
            b.verdict_ready.next = rng.random_bool(0.9);
        },
    );
}
