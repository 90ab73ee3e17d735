// SPDX-License-Identifier: MIT OR Apache-2.0
//! The small blocks of the NIC itself against their Verilog.

mod support;

use support::{RngExt, bits_of, lock_step};
use tsonic_hdl::complete::Verdict;
use tsonic_hdl::nic::{Drain, Recalled};

#[test]
fn drain() {
    let mut resetting = false;
    lock_step(
        Drain::default(),
        |b| &mut b.clock,
        20_000,
        1,
        |b, rng| {
            // Long phases of each, so that the sweep comes around.
            if rng.random_bool(0.002) {
                resetting = !resetting;
            }
            b.resetting.next = resetting;
            b.enqueue_valid.next = rng.random_bool(0.3);
            b.enqueue_ctx.next = bits_of(rng);
            b.schedule_ready.next = rng.random_bool(0.8);
            b.grant_valid.next = rng.random_bool(0.5);
            b.grant_ctx.next = bits_of(rng);
            b.grant_index.next = bits_of(rng);
            b.grant_last.next = rng.random_bool(0.5);
            b.payload_ready.next = rng.random_bool(0.7);
        },
    );
}

#[test]
fn recalled() {
    lock_step(
        Recalled::default(),
        |b| &mut b.clock,
        20_000,
        2,
        |b, rng| {
            // Few contexts, so that what was written is read.
            b.grant.next = rng.random_bool(0.5);
            b.grant_ctx.next = rng.random_range(0..4u64).into();
            b.grant_revoked.next = rng.random_bool(0.5);
            b.verdict.next = Verdict {
                ctx: rng.random_range(0..4u64).into(),
                status: if rng.random_bool(0.6) {
                    0.into()
                } else {
                    bits_of(rng)
                },
                dropped: rng.random_bool(0.7),
                last: rng.random_bool(0.7),
                index: bits_of(rng),
                bytes: bits_of(rng),
            };
        },
    );
}
