// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte limits of flows: against the rules as they are written, and RustHDL's
//! simulation against their Verilog.

mod memory_side;
mod support;

use memory_side::Rtl;
use std::collections::VecDeque;
use support::{Pcg64Mcg, RngExt, SeedableRng, bits_of, lock_step};
use tsonic_hdl::flow_limit::FlowLimit;

/// A flow by the words of the contract.
#[derive(Clone, Default)]
struct Flow {
    bursts: VecDeque<(u64, u64)>,
    limit: u64,
    throttled: bool,
}

impl Flow {
    fn bytes(&self) -> u64 {
        self.bursts.iter().map(|(_, bytes)| bytes).sum()
    }

    fn above(&self) -> bool {
        self.limit != 0 && self.bytes() > self.limit * 1_024
    }
}

#[test]
fn marks_are_those_of_the_contract() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut rtl = Rtl::new(FlowLimit::<3, 4>::default());
    let mut flows = vec![Flow::default(); 8];
    let (mut throttles, mut wakes, mut both, mut resets) = (0u64, 0u64, 0u64, 0);
    let mut joining: Option<(usize, u64, u64, u64)> = None;
    let mut leaving: Option<(usize, u64, u64)> = None;
    let mut owed: Option<u64> = None;
    let mut ctx = 0;
    for cycle in 0..300_000u64 {
        // A reset at first, and now and then; everything is gone then.
        let resetting = cycle % 100_000 < 40;
        if resetting && cycle % 100_000 == 0 {
            flows = vec![Flow::default(); 8];
            (joining, leaving, owed) = (None, None, None);
            resets += 1;
        }
        rtl.set("resetting", u64::from(resetting));
        let inside: usize = flows.iter().map(|f| f.bursts.len()).sum();
        let fill = if cycle / 5_000 % 2 == 0 { 0.2 } else { 0.05 };
        if !resetting && joining.is_none() && inside < 200 && rng.random_bool(fill) {
            let slot = rng.random_range(0..8);
            let bytes = match rng.random_range(0..4) {
                0 => rng.random_range(0..1 << 18),
                1 => 1_024 * rng.random_range(0..20),
                _ => rng.random_range(0..5_000),
            };
            let limit = match rng.random_range(0..20) {
                0 => 0,
                1 => rng.random_range(0..1 << 14),
                _ if flows[slot].limit == 0 => rng.random_range(0..64),
                _ => flows[slot].limit,
            };
            ctx = (ctx + 1) % 256;
            joining = Some((slot, ctx, bytes, limit));
        }
        if !resetting && leaving.is_none() && rng.random_bool(0.12) {
            let slot = rng.random_range(0..8);
            leaving = flows[slot]
                .bursts
                .front()
                .map(|(ctx, bytes)| (slot, *ctx, *bytes));
        }
        let (slot, join_ctx, bytes, limit) = joining.unwrap_or_default();
        rtl.set("join_valid", u64::from(joining.is_some()));
        rtl.set("join_slot", slot as u64);
        rtl.set("join_ctx", join_ctx);
        rtl.set("join_bytes", bytes);
        rtl.set("join_limit", limit);
        let (slot, _, bytes) = leaving.unwrap_or_default();
        rtl.set("leave_valid", u64::from(leaving.is_some()));
        rtl.set("leave_slot", slot as u64);
        rtl.set("leave_bytes", bytes);
        rtl.set("mark_ready", u64::from(rng.random_bool(0.5)));
        rtl.settle();
        if let (Some((slot, _, _)), true) = (leaving, rtl.high("leave_ready")) {
            leaving = None;
            let f = &mut flows[slot];
            f.bursts.pop_front();
            let wakes_now = slot != 0 && f.throttled && !f.above();
            f.throttled &= !wakes_now;
            assert_eq!(rtl.high("leave_wakes"), wakes_now, "cycle {cycle}");
            wakes += u64::from(wakes_now);
            both += u64::from(wakes_now && f.bursts.is_empty());
        }
        // What joined before must have been told before the next one may join.
        if rtl.high("mark_valid") && rtl.driven("mark_ready") == 1 {
            assert_eq!(owed.take(), Some(rtl.get("mark_ctx")), "cycle {cycle}");
        }
        if let (Some((slot, ctx, bytes, limit)), true) = (joining, rtl.high("join_ready")) {
            joining = None;
            let f = &mut flows[slot];
            f.bursts.push_back((ctx, bytes));
            f.limit = limit;
            if slot != 0 && f.above() && !f.throttled {
                f.throttled = true;
                throttles += 1;
                assert_eq!(owed.replace(ctx), None);
            }
        }
        rtl.edge();
    }
    let open: u64 = flows.iter().map(|f| u64::from(f.throttled)).sum();
    println!(
        "{throttles} throttles, {wakes} wakes, {both} of them the last of a flow, {open} open"
    );
    assert!(wakes > 500 && both > 10 && resets == 3);
    // What a reset forgets has no wake.
    assert!(throttles - wakes <= open + 7 * resets);
}

#[test]
fn whole() {
    lock_step(
        FlowLimit::<3, 4>::default(),
        |b| &mut b.clock,
        20_000,
        2,
        |b, rng| {
            b.resetting.next = rng.random_bool(0.01);
            b.join_valid.next = rng.random_bool(0.3);
            b.join_ctx.next = bits_of(rng);
            b.join_slot.next = rng.random_range(0..8u64).into();
            b.join_bytes.next = bits_of(rng);
            b.join_limit.next = rng.random_range(0..100u64).into();
            b.mark_ready.next = rng.random_bool(0.5);
            b.leave_valid.next = rng.random_bool(0.3);
            b.leave_slot.next = rng.random_range(0..8u64).into();
            b.leave_bytes.next = bits_of(rng);
        },
    );
}
