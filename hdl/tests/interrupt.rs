// SPDX-License-Identifier: MIT OR Apache-2.0
//! Moderation and requests of interrupts: against the rules of `tsonic_regs::pci`, and
//! RustHDL's simulation against their Verilog.

mod memory_side;
mod support;

use memory_side::Rtl;
use std::collections::VecDeque;
use support::{Pcg64Mcg, RngExt, SeedableRng, bits_of, lock_step};
use tsonic_hdl::interrupt::Interrupt;
use tsonic_regs::pci::event_vector;
use tsonic_regs::registers::queue::{COALESCE_COUNT, COALESCE_TICKS};

const QUEUES: usize = 4;
/// Cycles that a rule may be late by: the round of visits, completions in between,
/// and what the request takes.
const LATE: u64 = 4 * QUEUES as u64 + 16;

/// What the rules say of one vector.
#[derive(Clone, Copy, Default)]
struct Vector {
    count: u64,
    ticks: u64,
    gathered: u64,
    since: Option<u64>,
    /// It is to interrupt since that cycle.
    owes: Option<u64>,
}

impl Vector {
    fn told(&mut self, cycle: u64, urgent: bool) {
        self.gathered += 1;
        if urgent || self.ticks == 0 || self.gathered >= self.count.min(65_535) {
            (self.gathered, self.since) = (0, None);
            self.owes.get_or_insert(cycle);
        } else {
            self.since.get_or_insert(cycle);
        }
    }

    fn interrupted(&mut self, cycle: u64) {
        let since = match (self.owes.take(), self.since) {
            (Some(since), _) => since,
            (None, Some(since)) => {
                (self.gathered, self.since) = (0, None);
                since + self.ticks
            }
            (None, None) => panic!("an interrupt for nothing"),
        };
        assert!(
            (since..since + LATE).contains(&cycle),
            "at {cycle}, due at {since}"
        );
    }

    /// A completion now would race with the time rule.
    fn near(&self, cycle: u64) -> bool {
        self.owes.is_some()
            || self
                .since
                .is_some_and(|since| cycle + LATE > since + self.ticks)
    }
}

fn configure(rtl: &mut Rtl, cycle: &mut u64, q: usize, offset: usize, value: u64) {
    rtl.set("cfg_valid", 1);
    rtl.set("cfg_queue", q as u64);
    rtl.set("cfg_offset", offset as u64);
    rtl.set("cfg_value", value);
    rtl.set("ticks", *cycle);
    rtl.settle();
    rtl.edge();
    *cycle += 1;
    rtl.set("cfg_valid", 0);
}

#[test]
fn every_rule_is_kept() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut rtl = Rtl::new(Interrupt::<QUEUES>::default());
    rtl.set("irq_ready", 1);
    // The clock passes 2^34 on the way.
    let mut cycle = (1u64 << 34) - 100_000;
    let mut interrupts = 0;
    for settings in [
        [(0, 0), (3, 0), (0, 700), (1, 700)],
        [(2, 700), (8, 400), (100_000, 150), (5, 3_000)],
        [(u32::MAX as u64, 1_000), (2, 60_000), (65_536, 90), (3, 1)],
    ] {
        let mut vectors = [Vector::default(); QUEUES];
        for (q, (count, ticks)) in settings.into_iter().enumerate() {
            configure(&mut rtl, &mut cycle, q, COALESCE_COUNT.offset, count);
            configure(&mut rtl, &mut cycle, q, COALESCE_TICKS.offset, ticks);
            (vectors[q].count, vectors[q].ticks) = (count, ticks);
        }
        let (end, mut events, mut last) = (cycle + 80_000, 0u64, 0);
        while cycle < end + 61_000 {
            let vector = rng.random_range(0..QUEUES);
            let (urgent, tx) = (rng.random_bool(0.03), rng.random_bool(0.5));
            let told = cycle < end
                && cycle >= last + 5
                && rng.random_bool(0.05)
                && !vectors[vector].near(cycle);
            if told {
                last = cycle;
                vectors[vector].told(cycle, urgent);
            }
            for (side, is) in [("tx", told && tx), ("rx", told && !tx)] {
                rtl.set(&format!("{side}_written"), u64::from(is));
                rtl.set(&format!("{side}_queue"), vector as u64);
                rtl.set(&format!("{side}_urgent"), u64::from(urgent));
            }
            let happened = cycle < end && rng.random_bool(0.001) && events == 0;
            rtl.set("happened", u64::from(happened));
            events += u64::from(happened);
            rtl.set("ticks", cycle);
            rtl.settle();
            if rtl.high("irq_valid") {
                interrupts += 1;
                let vector = rtl.get("irq_vector") as usize;
                if vector == event_vector(QUEUES) {
                    events -= 1;
                } else {
                    vectors[vector].interrupted(cycle);
                }
            }
            rtl.edge();
            for v in &vectors {
                let due = v.owes.or(v.since.map(|since| since + v.ticks));
                assert!(due.is_none_or(|due| cycle < due + LATE), "late");
            }
            // Idle means that the clock may go on to the next event.
            if rtl.high("idle") && cycle >= last + LATE {
                let next = vectors
                    .iter()
                    .filter_map(|v| v.since.map(|s| s + v.ticks))
                    .min();
                assert_eq!(rtl.high("next_event_valid"), next.is_some());
                if let Some(next) = next {
                    let key = rtl.get("next_event");
                    let behind = key.wrapping_sub(next) & ((1 << 34) - 1);
                    assert!(behind < LATE, "next event {key}, deadline {next}");
                }
            }
            cycle += 1;
        }
        assert_eq!(events, 0);
        assert!(rtl.high("idle"));
    }
    println!("{interrupts} interrupts");
    assert!(interrupts > 5_000, "{interrupts} interrupts");
}

#[test]
fn none_is_lost_while_requests_wait() {
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    let mut rtl = Rtl::new(Interrupt::<QUEUES>::default());
    // Cycle of the last completion that no interrupt followed, by vector.
    let mut open: [VecDeque<u64>; QUEUES] = Default::default();
    let (mut last, mut during, mut told_in_all) = (0, 0, 0);
    for cycle in 0..100_000u64 {
        let standing = rtl.high("irq_valid");
        if !standing {
            during = 0;
        }
        // While a request stands, one write may still end.
        let vector = rng.random_range(0..QUEUES);
        let told = cycle < 99_000
            && cycle >= last + 5
            && (!standing || during == 0)
            && rng.random_bool(0.3);
        if told {
            last = cycle;
            during += u64::from(standing);
            told_in_all += 1;
            open[vector].push_back(cycle);
        }
        rtl.set("tx_written", u64::from(told));
        rtl.set("tx_queue", vector as u64);
        rtl.set("ticks", cycle);
        rtl.set(
            "irq_ready",
            u64::from(rng.random_bool(0.1) || cycle >= 99_000),
        );
        rtl.settle();
        if rtl.high("irq_valid") && rtl.driven("irq_ready") == 1 {
            let vector = rtl.get("irq_vector") as usize;
            assert!(open[vector].pop_front().is_some(), "for nothing");
            during = 0;
        }
        rtl.edge();
    }
    assert!(open.iter().all(VecDeque::is_empty), "{open:?}");
    assert!(told_in_all > 3_000, "{told_in_all} completions");
}

#[test]
fn whole() {
    let mut ticks = 0u64;
    lock_step(
        Interrupt::<5>::default(),
        |b| &mut b.clock,
        20_000,
        3,
        move |b, rng| {
            b.resetting.next = rng.random_bool(0.001);
            ticks += 1;
            b.ticks.next = ticks.into();
            b.cfg_valid.next = rng.random_bool(0.01);
            b.cfg_queue.next = rng.random_range(0..5u64).into();
            let (offset, most) = match rng.random_range(0..2) {
                0 => (COALESCE_COUNT.offset, 8),
                _ => (COALESCE_TICKS.offset, 200),
            };
            b.cfg_offset.next = (offset as u64).into();
            b.cfg_value.next = if rng.random_bool(0.1) {
                bits_of(rng)
            } else {
                rng.random_range(0..most).into()
            };
            b.tx_written.next = rng.random_bool(0.1);
            b.tx_queue.next = rng.random_range(0..5u64).into();
            b.tx_urgent.next = rng.random_bool(0.1);
            b.rx_written.next = rng.random_bool(0.1);
            b.rx_queue.next = rng.random_range(0..5u64).into();
            b.rx_urgent.next = rng.random_bool(0.1);
            b.happened.next = rng.random_bool(0.01);
            b.irq_ready.next = rng.random_bool(0.5);
        },
    );
}
