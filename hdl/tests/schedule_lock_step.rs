// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler and its parts in RustHDL's simulation against their Verilog.

mod support;

use rust_hdl::prelude::*;
use std::collections::VecDeque;
use support::{LockStep, Pcg64Mcg, RngExt, SeedableRng, bits_of, lock_step};
use tsonic_hdl::primitives::{Flags, SizedLutRam};
use tsonic_hdl::schedule::{Drr, DueLists, Recall, Renew, Schedule4, WinnerTree};
use tsonic_regs::registers::queue::{TX_CONTROL, TX_QUANTUM, TX_RATE_HI, TX_RATE_LO};

/// [`Flags`] with ports whose names mean nothing in C++.
#[derive(LogicBlock, Default)]
struct FlagsBench {
    pub clock: Signal<In, Clock>,
    pub reset: Signal<In, bool>,
    pub set_valid: Signal<In, bool>,
    pub set_index: Signal<In, Bits<3>>,
    pub clear_valid: Signal<In, bool>,
    pub clear_index: Signal<In, Bits<3>>,
    pub index0: Signal<In, Bits<3>>,
    pub index1: Signal<In, Bits<3>>,
    pub read0: Signal<Out, bool>,
    pub read1: Signal<Out, bool>,
    pub all: Signal<Out, Bits<5>>,
    flags: Flags<5, 3>,
}

impl Logic for FlagsBench {
    #[hdl_gen]
    fn update(&mut self) {
        self.flags.clock.next = self.clock.val();
        self.flags.reset.next = self.reset.val();
        self.flags.set.next = self.set_valid.val();
        self.flags.set_index.next = self.set_index.val();
        self.flags.clear.next = self.clear_valid.val();
        self.flags.clear_index.next = self.clear_index.val();
        self.flags.read_index0.next = self.index0.val();
        self.flags.read_index1.next = self.index1.val();
        self.read0.next = self.flags.read0.val();
        self.read1.next = self.flags.read1.val();
        self.all.next = self.flags.bits.val();
    }
}

#[test]
fn flags() {
    lock_step(
        FlagsBench::default(),
        |b| &mut b.clock,
        20_000,
        1,
        |b, rng| {
            b.reset.next = rng.random_bool(0.02);
            b.set_valid.next = rng.random_bool(0.5);
            b.set_index.next = bits_of(rng);
            b.clear_valid.next = rng.random_bool(0.5);
            b.clear_index.next = bits_of(rng);
            b.index0.next = bits_of(rng);
            b.index1.next = bits_of(rng);
        },
    );
}

#[test]
fn sized_ram() {
    lock_step(
        SizedLutRam::<Bits<9>, 5>::new(3),
        |b| &mut b.clock,
        20_000,
        2,
        |b, rng| {
            b.write_enable.next = rng.random_bool(0.5);
            b.write_address.next = rng.random_range(0..8u64).into();
            b.write_data.next = bits_of(rng);
            b.read_address.next = rng.random_range(0..8u64).into();
        },
    );
}

#[test]
fn winner_tree() {
    let mut now = 0u64;
    lock_step(
        WinnerTree::<4, 39>::default(),
        |b| &mut b.clock,
        20_000,
        3,
        move |b, rng| {
            now += rng.random_range(0..20u64);
            b.now.next = (now & ((1 << 34) - 1)).into();
            b.update_valid.next = rng.random_bool(0.3);
            b.update_id.next = bits_of(rng);
            b.update_key.next = ((now + rng.random_range(0..2000u64)) & ((1 << 34) - 1)).into();
            b.update_present.next = rng.random_bool(0.7);
            b.update_settle.next = rng.random_bool(0.2);
        },
    );
}

#[test]
fn drr() {
    let mut first = true;
    lock_step(
        Drr::<5, 3>::default(),
        |b| &mut b.clock,
        20_000,
        4,
        move |b, rng| {
            b.reset.next = rng.random_bool(0.001) || first;
            first = false;
            b.clear.next = rng.random_bool(0.001);
            b.clear_queue.next = rng.random_range(0..5u64).into();
            b.quantum_valid.next = rng.random_bool(0.01);
            b.quantum_queue.next = rng.random_range(0..5u64).into();
            b.quantum.next = rng.random_range(0..3_000u64).into();
            if rng.random_bool(0.1) {
                b.eligible.next = bits_of(rng);
            }
            b.choose.next = rng.random_bool(0.5);
            b.end_turn.next = rng.random_bool(0.1);
            b.charge.next = rng.random_bool(0.2);
            b.wire_bytes.next = rng.random_range(0..2_000u64).into();
        },
    );
}

#[test]
fn due_lists() {
    // What stands in a list: an identity stands in one at most, and an empty
    // list is not taken from.
    let mut held: [VecDeque<u64>; 4] = Default::default();
    let mut offers: [Option<(u64, u64)>; 4] = [None; 4];
    let mut pair = LockStep::new(DueLists::<4, 2, 5>::default(), |b| &mut b.clock);
    let mut rng = Pcg64Mcg::seed_from_u64(5);
    let mut since = [0u64; 32];
    let mut answers = 0;
    for cycle in 0..20_000u64 {
        let ask = rng.random_range(0..4usize);
        let asked = held[ask].front().map(|list| since[*list as usize]);
        let queue = rng.random_range(0..4usize);
        let take = rng.random_bool(0.4) && !held[queue].is_empty();
        for port in 0..4 {
            if offers[port].is_none() && rng.random_bool(0.2) {
                let list = rng.random_range(0..32u64);
                let used = held.iter().flatten().any(|&l| l == list)
                    || offers.iter().flatten().any(|&(l, _)| l == list);
                if !used {
                    offers[port] = Some((list, rng.random_range(0..4u64)));
                }
            }
        }
        pair.step(|b| {
            b.take.next = take;
            b.take_queue.next = (queue as u64).into();
            let offer = |n: usize| offers[n].unwrap_or((0, 0));
            b.valid0.next = offers[0].is_some();
            b.list0.next = offer(0).0.into();
            b.queue0.next = offer(0).1.into();
            b.valid1.next = offers[1].is_some();
            b.list1.next = offer(1).0.into();
            b.queue1.next = offer(1).1.into();
            b.valid2.next = offers[2].is_some();
            b.list2.next = offer(2).0.into();
            b.queue2.next = offer(2).1.into();
            b.valid3.next = offers[3].is_some();
            b.list3.next = offer(3).0.into();
            b.queue3.next = offer(3).1.into();
            b.now.next = cycle.into();
            b.ask_queue.next = (ask as u64).into();
        });
        assert_eq!(pair.block.asked_holds.val(), asked.is_some());
        if let Some(since) = asked {
            assert_eq!(pair.block.asked_since.val(), since);
            answers += 1;
        }
        if take {
            held[queue].pop_front();
        } else if let Some(port) = (0..4).find(|&n| offers[n].is_some())
            && let Some((list, queue)) = offers[port].take()
        {
            held[queue as usize].push_back(list);
            since[list as usize] = cycle;
        }
        let waiting = pair.block.waiting.val();
        for (n, list) in held.iter().enumerate() {
            assert_eq!(waiting.get_bit(n), !list.is_empty());
        }
    }
    assert!(held.iter().any(|list| !list.is_empty()));
    assert!(answers > 5_000, "{answers} answers");
}

#[test]
fn recall() {
    let mut clear = 0u64;
    lock_step(
        Recall::<5, 3, 4>::default(),
        |b| &mut b.clock,
        20_000,
        7,
        move |b, rng| {
            // Until each queue was cleared, and now and then later.
            if clear > 8 && rng.random_bool(0.001) {
                clear = 0;
            }
            b.reset.next = clear < 8;
            b.clear_queue.next = (clear % 8).into();
            clear += 1;
            b.cfg_valid.next = rng.random_bool(0.02);
            b.cfg_queue.next = rng.random_range(0..5u64).into();
            b.cfg_offset.next = if rng.random_bool(0.7) {
                (TX_CONTROL.offset as u64).into()
            } else {
                bits_of(rng)
            };
            b.cfg_value.next = rng.random_range(0..2u64).into();
            b.look_queue.next = rng.random_range(0..5u64).into();
            b.result_queue.next = rng.random_range(0..5u64).into();
            b.result_taken.next = rng.random_bool(0.3);
            b.result_slot.next = bits_of(rng);
            b.result_work.next = rng.random_bool(0.7);
            b.planted.next = rng.random_bool(0.6);
            b.moving.next = rng.random_bool(0.3);
        },
    );
}

#[test]
fn renew() {
    lock_step(
        Renew::<5, 3>::default(),
        |b| &mut b.clock,
        20_000,
        8,
        |b, rng| {
            b.reset.next = rng.random_bool(0.002);
            b.written.next = rng.random_bool(0.1);
            b.written_queue.next = rng.random_range(0..5u64).into();
            b.look.next = rng.random_bool(0.1);
            b.look_queue.next = rng.random_range(0..5u64).into();
            b.result.next = rng.random_bool(0.2);
            b.result_waits.next = rng.random_bool(0.7);
            b.result_queue.next = rng.random_range(0..5u64).into();
            b.pop.next = rng.random_bool(0.05);
            b.pop_queue.next = rng.random_range(0..5u64).into();
        },
    );
}

/// The whole scheduler, fed as its neighbours feed it.
#[test]
fn whole() {
    let mut free: VecDeque<u64> = (0..40).collect();
    let mut offered: Option<u64> = None;
    let mut ticks = 5u64;
    let mut rng = Pcg64Mcg::seed_from_u64(6);
    let mut pair = LockStep::new(Schedule4::default(), |b| &mut b.clock);
    let (mut grants, mut config, mut marks) = (0, 0, 0);
    while pair.cycle < 20_000 {
        let b = &mut pair.block;
        b.ticks.next = ticks.into();
        b.lateness_debt.next = 1_000u64.into();
        b.cn_target.next = 100u64.into();
        b.reset.next = pair.cycle == 12_000;
        b.budget_ok.next = if rng.random_bool(0.9) {
            15u64.into()
        } else {
            bits_of(&mut rng)
        };
        b.cfg_valid.next = false;
        if rng.random_bool(0.01) {
            let register = [TX_RATE_LO, TX_RATE_HI, TX_QUANTUM, TX_CONTROL][config % 4];
            config += 1;
            b.cfg_valid.next = true;
            b.cfg_queue.next = rng.random_range(0..4u64).into();
            b.cfg_offset.next = (register.offset as u64).into();
            b.cfg_value.next = match register {
                TX_RATE_HI => 0u64.into(),
                TX_QUANTUM => rng.random_range(0..5_000u64).into(),
                TX_CONTROL => u64::from(rng.random_bool(0.7)).into(),
                _ => rng.random_range(0..1u64 << 26).into(),
            };
        }
        b.abort_valid.next = rng.random_bool(0.005);
        b.abort_ctx.next = rng.random_range(0..40u64).into();
        let ready = rng.random_bool(0.5);
        b.grant_ready.next = ready;
        if offered.is_none() && rng.random_bool(0.05) {
            offered = free.pop_front();
            let mss = rng.random_range(1..2_000u64);
            b.enqueue_ctx.next = offered.unwrap_or(0).into();
            b.enqueue_queue.next = rng.random_range(0..4u64).into();
            b.enqueue_flow_slot.next = rng.random_range(0..12u64).into();
            b.enqueue_inv_rate.next = rng.random_range(0..1u64 << 27).into();
            b.enqueue_mss.next = mss.into();
            b.enqueue_payload_len.next = (mss * rng.random_range(0..6u64)).into();
            b.enqueue_header_len.next = rng.random_range(14..257u64).into();
            b.enqueue_launch_valid.next = rng.random_bool(0.2);
            b.enqueue_launch.next = (ticks + rng.random_range(0..500u64)).into();
        }
        b.enqueue_valid.next = offered.is_some();
        let taken = ready && b.grant_valid.val();
        let ended = (taken && b.grant_last.val()).then(|| b.grant_ctx.val().index() as u64);
        let accepted = offered.is_some() && b.enqueue_ready.val();
        pair.step(|_| ());
        grants += u64::from(taken);
        marks += u64::from(pair.block.mark_valid.val());
        free.extend(ended);
        if accepted {
            offered = None;
        }
        if pair.cycle == 12_001 {
            free = (0..40).collect();
            offered = None;
        }
        ticks += 1;
    }
    assert!(grants > 500, "{grants} grants");
    assert!(marks > 10, "{marks} marks");
}
