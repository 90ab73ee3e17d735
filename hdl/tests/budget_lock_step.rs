// SPDX-License-Identifier: MIT OR Apache-2.0
//! The blocks of byte budgets: RustHDL's simulation against their Verilog.

mod support;

use support::{Pcg64Mcg, RngExt, bits_of, lock_step};
use tsonic_hdl::budget::*;
use tsonic_regs::registers::queue;

const CYCLES: u64 = 20_000;

/// A number of bytes as budgets meet them: mostly small, at times anything.
fn amount<const N: usize>(rng: &mut Pcg64Mcg) -> rust_hdl::prelude::Bits<N> {
    if rng.random_bool(0.1) {
        bits_of(rng)
    } else if rng.random_bool(0.2) {
        0.into()
    } else {
        rng.random_range(0..4_000u64).into()
    }
}

#[test]
fn ledger() {
    let mut step = 0u64;
    lock_step(
        Ledger::<5, 3>::default(),
        |b| &mut b.clock,
        CYCLES,
        1,
        move |b, rng| {
            if rng.random_bool(0.05) {
                step += rng.random_range(1..3);
            }
            b.step.next = step.into();
            b.end_all.next = rng.random_bool(0.002);
            b.clear.next = rng.random_bool(0.01);
            b.charge_valid.next = rng.random_bool(0.2);
            b.charge_queue.next = rng.random_range(0..5u64).into();
            b.charge_bytes.next = amount(rng);
            b.credit_valid.next = rng.random_bool(0.2);
            b.credit_queue.next = rng.random_range(0..5u64).into();
            b.credit_bytes.next = amount(rng);
            b.place.next = rng.random_range(0..5u64).into();
            b.take.next = rng.random_bool(0.1);
            b.completes.next = rng.random_bool(0.1);
            b.settle.next = rng.random_bool(0.1);
            b.delta.next = if rng.random_bool(0.5) {
                bits_of(rng)
            } else {
                (u64::from(u32::MAX) - rng.random_range(0..20_000u64)).into()
            };
            b.start.next = rng.random_bool(0.3);
            b.on.next = rng.random_bool(0.8);
        },
    );
}

#[test]
fn period() {
    let (mut now, mut every) = (0u64, 400u64);
    lock_step(
        Period::default(),
        |b| &mut b.clock,
        CYCLES,
        2,
        move |b, rng| {
            b.moved.next = false;
            now += 1;
            if rng.random_bool(0.002) {
                b.moved.next = true;
                now = rng.random_range(0..1 << 40);
            }
            if rng.random_bool(0.001) {
                every = [1, 2, 77, 4_000, 0xffff_ffff][rng.random_range(0..5)];
            }
            b.now.next = now.into();
            b.period.next = every.into();
            b.wanted.next = rng.random_bool(0.7);
        },
    );
}

#[test]
fn limit() {
    lock_step(
        Limit::default(),
        |b| &mut b.clock,
        CYCLES,
        3,
        |b, rng| {
            b.starting.next = rng.random_bool(0.1);
            b.in_force.next = rng.random_bool(0.9);
            b.start_limit.next = amount(rng);
            b.now.next = amount(rng);
            b.bytes.next = amount(rng);
            b.debt.next = amount(rng);
            b.last.next = amount(rng);
            b.limit.next = amount(rng);
            b.remained.next = amount(rng);
            b.over_before.next = amount(rng);
            b.last_before.next = amount(rng);
            b.lowest.next = amount(rng);
            b.slack_start.next = amount(rng);
            b.least.next = amount(rng);
            b.most.next = amount(rng);
            b.hold.next = amount(rng);
        },
    );
}

#[test]
fn stall() {
    lock_step(
        Stall::default(),
        |b| &mut b.clock,
        CYCLES,
        4,
        |b, rng| {
            b.starting.next = rng.random_bool(0.1);
            b.step.next = amount(rng);
            b.threshold.next = rng.random_range(0..200u64).into();
            b.completed.next = amount(rng);
            b.waits.next = rng.random_bool(0.8);
            b.first.next = amount(rng);
            b.count.next = if rng.random_bool(0.1) {
                u64::from(u32::MAX).into()
            } else {
                amount(rng)
            };
            b.longest.next = amount(rng);
        },
    );
}

#[test]
fn budget() {
    let mut ticks = 0u64;
    lock_step(
        Budget::<5, 3, 8>::default(),
        |b| &mut b.clock,
        CYCLES,
        5,
        move |b, rng| {
            b.ticks_set.next = false;
            ticks += 1;
            if rng.random_bool(0.001) {
                b.ticks_set.next = true;
                ticks += rng.random_range(0..1 << 20);
            }
            b.ticks.next = ticks.into();
            b.resetting.next = rng.random_bool(0.0005);
            b.credit_flush.next = 300u64.into();
            b.cfg_valid.next = rng.random_bool(0.01);
            b.cfg_queue.next = rng.random_range(0..5u64).into();
            let (register, value): (_, u64) = match rng.random_range(0..7) {
                0 => (queue::BQL_LIMIT, rng.random_range(0..50_000)),
                1 => (queue::BQL_MIN, rng.random_range(0..10_000)),
                2 => (queue::BQL_MAX, rng.random_range(0..4) * 30_000),
                3 => (queue::BQL_HOLD, rng.random_range(0..10_000)),
                4 => (queue::BQL_STALL, rng.random_range(0..1 << 19)),
                5 => (queue::WRITE_BACK_LO, rng.random::<u32>().into()),
                _ => (queue::WRITE_BACK_HI, rng.random_range(0..4)),
            };
            b.cfg_offset.next = (register.offset as u64).into();
            b.cfg_value.next = value.into();
            b.charge_valid.next = rng.random_bool(0.1);
            b.charge_queue.next = rng.random_range(0..5u64).into();
            b.charge_bytes.next = rng.random_range(0..1_600u64).into();
            b.credit_valid.next = rng.random_bool(0.1);
            b.credit_queue.next = rng.random_range(0..5u64).into();
            b.credit_bytes.next = rng.random_range(1..1_600u64).into();
            b.wr_ready.next = rng.random_bool(0.7);
        },
    );
}
