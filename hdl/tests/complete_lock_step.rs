// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of completion: RustHDL's simulation against their Verilog.

mod support;

use support::{RngExt, bits_of, lock_step};
use tsonic_hdl::complete::*;
use tsonic_hdl::fetch::{Identity, Refusal};
use tsonic_regs::registers::queue;

const CYCLES: u64 = 20_000;

fn verdict(rng: &mut support::Pcg64Mcg) -> Verdict {
    Verdict {
        ctx: rng.random_range(0..8).into(),
        status: if rng.random_bool(0.3) {
            bits_of(rng)
        } else {
            0.into()
        },
        dropped: rng.random_bool(0.5),
        last: rng.random_bool(0.2),
        index: rng.random_range(0..6).into(),
        bytes: bits_of(rng),
    }
}

#[test]
fn accounts() {
    lock_step(
        Accounts::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            b.ticks.next = bits_of(rng);
            b.open_valid.next = rng.random_bool(0.1);
            b.open_ctx.next = rng.random_range(0..8).into();
            b.open_queue.next = bits_of(rng);
            b.departed_valid.next = rng.random_bool(0.15);
            b.departed_ctx.next = rng.random_range(0..8).into();
            b.departed_bytes.next = bits_of(rng);
            b.departed_err.next = rng.random_bool(0.1);
            b.departed_last.next = rng.random_bool(0.2);
            b.verdict_valid.next = rng.random_bool(0.1);
            b.verdict.next = verdict(rng);
            b.mark_valid.next = rng.random_bool(0.05);
            b.mark.next = Mark {
                ctx: rng.random_range(0..8).into(),
                bits: bits_of(rng),
            };
        },
    );
}

#[test]
fn complete() {
    let mut ctx = 0u64;
    lock_step(
        Complete::<5>::default(),
        |b| &mut b.clock,
        CYCLES,
        2,
        move |b, rng| {
            // A context is not opened while its completion is being written.
            ctx = (ctx + 1) % 256;
            b.ticks.next = bits_of(rng);
            b.mute.next = rng.random_bool(0.05);
            b.cfg_valid.next = rng.random_bool(0.1);
            b.cfg_queue.next = rng.random_range(0..6).into();
            let (offset, value) = match rng.random_range(0..4) {
                0 => (queue::TX_COMPLETION_LO.offset, rng.random::<u32>() as u64),
                1 => (queue::TX_COMPLETION_HI.offset, rng.random::<u32>() as u64),
                2 => (queue::TX_RING_SIZE.offset, rng.random::<u32>() as u64),
                _ => (queue::TX_CONTROL.offset, rng.random_bool(0.7) as u64),
            };
            b.cfg_offset.next = (offset as u64).into();
            b.cfg_value.next = value.into();
            b.head_valid.next = rng.random_bool(0.1);
            b.head_queue.next = rng.random_range(0..5).into();
            b.head_index.next = bits_of(rng);
            b.accept_valid.next = rng.random_bool(0.1);
            b.accept_ctx.next = ctx.into();
            b.accept.next = Identity {
                queue: rng.random_range(0..5).into(),
                flow_slot: bits_of(rng),
                cookie: bits_of(rng),
                timestamp: bits_of(rng),
                payload_len: bits_of(rng),
            };
            b.refusal_valid.next = rng.random_bool(0.05);
            b.refusal.next = Refusal {
                queue: rng.random_range(0..5).into(),
                flow_slot: bits_of(rng),
                cookie: bits_of(rng),
                status: bits_of(rng),
                reserved: rng.random_bool(0.5),
                has_ctx: rng.random_bool(0.5),
                ctx: bits_of(rng),
            };
            b.departed_valid.next = rng.random_bool(0.05);
            b.departed_ctx.next = ((ctx + 128) % 256).into();
            b.departed_bytes.next = bits_of(rng);
            b.departed_err.next = rng.random_bool(0.1);
            b.departed_last.next = rng.random_bool(0.4);
            b.verdict_valid.next = rng.random_bool(0.05);
            b.verdict.next = Verdict {
                ctx: ((ctx + 128) % 256).into(),
                ..verdict(rng)
            };
            b.mark_valid.next = false;
            b.wr_ready.next = rng.random_bool(0.8);
            b.leave_ready.next = rng.random_bool(0.4);
            b.leave_wakes.next = rng.random_bool(0.5);
        },
    );
}
