// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of fetch: RustHDL's simulation against their Verilog.

mod support;

use support::{RngExt, bits_of, lock_step};
use tsonic_hdl::fetch::*;
use tsonic_regs::descriptor::TxDescriptor;
use tsonic_regs::registers::queue;

const CYCLES: u64 = 20_000;

/// A register write that means something more often than not.
fn register(rng: &mut support::Pcg64Mcg) -> (u64, u64) {
    match rng.random_range(0..5) {
        0 => (
            queue::TX_RING_LO.offset as u64,
            rng.random::<u32>() as u64 & !63,
        ),
        1 => (queue::TX_RING_HI.offset as u64, rng.random::<u32>() as u64),
        2 => (queue::TX_RING_SIZE.offset as u64, rng.random_range(4..14)),
        3 => (queue::TX_CONTROL.offset as u64, rng.random_bool(0.8) as u64),
        _ => (rng.random_range(0..128), rng.random::<u32>() as u64),
    }
}

/// Words of a descriptor that is near to a good one.
fn word(rng: &mut support::Pcg64Mcg, n: usize) -> u64 {
    let mut d = TxDescriptor::default();
    d.control.set_kind(rng.random_range(0..5));
    d.control.set_ipv6(rng.random_range(0..2));
    d.control
        .set_l2_len(*[14, 18, 22, 13].get(rng.random_range(0..4)).unwrap_or(&14));
    d.control.set_l3_len(rng.random_range(4..12) * 4);
    d.control.set_l4_len(rng.random_range(1..16) * 4);
    d.control.set_fragments(rng.random_range(0..19));
    d.control.set_mss(rng.random_range(0..2000));
    d.burst.set_payload_len(rng.random_range(0..4000));
    d.burst.set_flow_slot(rng.random_range(0..80));
    d.control.set_launch(rng.random_range(0..2));
    d.launch = rng.random_range(0..2_000);
    d.lengths.set_frag0_len(d.burst.payload_len() / 2);
    d.lengths
        .set_frag1_len(rng.random_range(0..2) * (d.burst.payload_len() - d.lengths.frag0_len()));
    d.frag1_addr = rng.random::<u64>() & !15;
    let mut word = d.to_words()[n];
    if rng.random_bool(0.02) {
        word ^= 1 << rng.random_range(0..64);
    }
    word
}

#[test]
fn check() {
    lock_step(
        Check::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        |b, rng| {
            b.tso.next = rng.random_bool(0.9);
            b.uso.next = rng.random_bool(0.9);
            b.flow_slots.next = 64.into();
            b.max_segment.next = rng.random_range(1000..3000).into();
            b.control.next = word(rng, 0).into();
            b.burst.next = word(rng, 1).into();
            b.rate.next = word(rng, 3).into();
            b.frag1_addr.next = word(rng, 6).into();
            b.lengths.next = word(rng, 7).into();
        },
    );
}

#[test]
fn doorbells() {
    lock_step(
        Doorbells::<5>::default(),
        |b| &mut b.clock,
        CYCLES,
        2,
        |b, rng| {
            let (offset, value) = register(rng);
            b.cfg_valid.next = rng.random_bool(0.3);
            b.cfg_queue.next = rng.random_range(0..6).into();
            b.cfg_offset.next = offset.into();
            b.cfg_value.next = value.into();
            b.bell_valid.next = rng.random_bool(0.3);
            b.bell_queue.next = rng.random_range(0..6).into();
            b.bell_tail.next = (rng.random::<u64>() >> rng.random_range(48..60)).into();
            b.pending_ready.next = rng.random_bool(0.3);
            b.again_valid.next = rng.random_bool(0.2);
            b.again_queue.next = rng.random_range(0..5).into();
            b.flag_queue.next = rng.random_range(0..5).into();
            b.fresh_clear.next = rng.random_bool(0.3);
            b.error_ready.next = rng.random_bool(0.2);
        },
    );
}

#[test]
fn issue() {
    lock_step(
        Issue::<5>::default(),
        |b| &mut b.clock,
        CYCLES,
        3,
        |b, rng| {
            b.enable.next = rng.random_bool(0.95);
            b.pending_valid.next = rng.random_bool(0.7);
            b.pending_queue.next = rng.random_range(0..4).into();
            b.ring.next = Ring {
                base: (rng.random::<u64>() & !63).into(),
                mask: ((1 << rng.random_range(6..12)) - 1).into(),
                tail: rng.random_range(0..64).into(),
            };
            b.enabled.next = rng.random_bool(0.95);
            b.fresh.next = rng.random_bool(0.2);
            b.again_ready.next = rng.random_bool(0.6);
            b.release_valid.next = rng.random_bool(0.1);
            b.release_queue.next = rng.random_range(0..4).into();
            b.rd_req_ready.next = rng.random_bool(0.6);
            b.request_ready.next = rng.random_bool(0.2);
        },
    );
}

#[test]
fn load() {
    let mut n = 0;
    lock_step(
        Load::default(),
        |b| &mut b.clock,
        CYCLES,
        4,
        move |b, rng| {
            b.tso.next = true;
            b.uso.next = true;
            b.flow_slots.next = 64.into();
            b.max_segment.next = 3000.into();
            b.ticks.next = rng.random_range(0..1_000u64).into();
            b.horizon.next = rng.random_range(0..1_000u64).into();
            let valid = rng.random_bool(0.7);
            b.rd_valid.next = valid;
            if valid {
                b.rd_data.next = word(rng, n % 8).into();
                n += 1;
            }
            b.rd_err.next = rng.random_bool(0.002);
            b.request_valid.next = rng.random_bool(0.9);
            b.request.next = Request {
                queue: rng.random_range(0..4).into(),
                count: 3.into(),
                head: bits_of(rng),
            };
            b.free_valid.next = rng.random_bool(0.1);
            b.free_ctx.next = bits_of(rng);
            b.list_req_ready.next = rng.random_bool(0.6);
            b.job_ready.next = rng.random_bool(0.8);
            b.refusal_ready.next = rng.random_bool(0.6);
        },
    );
}

#[test]
fn lists() {
    lock_step(
        Lists::default(),
        |b| &mut b.clock,
        CYCLES,
        5,
        |b, rng| {
            b.job_valid.next = rng.random_bool(0.2);
            b.job.next = Job {
                ctx: bits_of(rng),
                queue: bits_of(rng),
                flow_slot: bits_of(rng),
                cookie: bits_of(rng),
                timestamp: bits_of(rng),
                inv_rate: bits_of(rng),
                payload_len: bits_of(rng),
                segment: bits_of(rng),
                header_len: bits_of(rng),
                launch_valid: bits_of(rng),
                launch: bits_of(rng),
                entries: rng.random_range(0..4).into(),
                split: rng.random_bool(0.3),
                second: rng.random_bool(0.3),
                frag1_addr: bits_of(rng),
                rest: rng.random_range(0..400).into(),
                flow_limit: bits_of(rng),
            };
            b.rd_valid.next = rng.random_bool(0.4);
            b.rd_data.next = rng.random_range(0..200).into();
            b.rd_last.next = rng.random_bool(0.3);
            b.rd_err.next = rng.random_bool(0.05);
            b.accept_ready.next = rng.random_bool(0.6);
            b.enqueue_ready.next = rng.random_bool(0.6);
            b.refusal_ready.next = rng.random_bool(0.6);
        },
    );
}
