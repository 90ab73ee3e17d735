// SPDX-License-Identifier: MIT OR Apache-2.0
//! The drain block against its Verilog.

mod support;

use support::{RngExt, bits_of, lock_step};
use tsonic_hdl::nic::Drain;

#[test]
fn the_block_is_its_verilog() {
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
