// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts: the rules of moderation, their order behind completions, vectors, and
//! the device's events.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_regs::Status;
use tsonic_regs::completion::COMPLETION_BYTES;
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::pci::event_vector;
use tsonic_regs::registers::{
    DOORBELL_BASE, DOORBELL_STRIDE, Events, doorbell, doorbell_offset, global, queue,
};
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::Recorded;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, tcp4_header, tcp4_layout};

/// Ticks from a completion to its interrupt, without moderation, at most.
const AT_ONCE: u64 = 24;
/// An address that is never mapped.
const NOWHERE: u64 = 0xdead_0000_0000;

/// A burst of one segment.
fn burst<N: Nic>(b: &mut Bench<N>, cookie: u16) -> TxDescriptor {
    let (header, data) = (tcp4_header(cookie), payload(cookie.into(), 400));
    b.place(&Post {
        layout: tcp4_layout(Kind::Tso, 1_000),
        header: &header,
        payload: &data,
        cuts: &[],
        flow_slot: 0,
        inv_rate: 0,
        launch: None,
        cookie,
    })
}

fn moderate<N: Nic>(b: &mut Bench<N>, q: usize, count: u32, ticks: u32) {
    b.write_queue(q, queue::COALESCE_COUNT, count);
    b.write_queue(q, queue::COALESCE_TICKS, ticks);
}

/// A completion's write, or an interrupt: its tick, and the vector that it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    Written(u64, u16),
    Interrupt(u64, u16),
}

/// What was posted since the last call, frames' data left out.
fn told<N: Nic>(b: &mut Bench<N>) -> Vec<Told> {
    let record = b.memory.record();
    let of = |(at, what): (Ticks, Recorded)| match what {
        Recorded::Write { iova, bytes } if bytes == COMPLETION_BYTES => b
            .completion_queue(iova)
            .map(|q| Told::Written(at.0, q as u16)),
        Recorded::Write { .. } => None,
        Recorded::Interrupt(vector) => Some(Told::Interrupt(at.0, vector)),
    };
    record.into_iter().filter_map(of).collect()
}

/// Posts bursts one after the other, some time apart.
fn post<N: Nic>(b: &mut Bench<N>, q: usize, bursts: usize) {
    for cookie in 0..bursts {
        let d = burst(b, cookie as u16);
        b.push(q, &d);
        b.ring(q);
        b.run_to(b.nic.now() + Ticks(700));
    }
}

/// Ticks by which the time rule may be late.
fn late<N: Nic>(b: &mut Bench<N>) -> u64 {
    AT_ONCE + 4 * u64::from(b.read(global::QUEUES.offset))
}

/// Without a time each completion interrupts, behind its write and at once.
pub fn at_once<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(2, 6, 7);
    for (count, ticks) in [(0, 0), (9, 0), (0, 90_000), (1, 90_000)] {
        moderate(&mut b, 2, count, ticks);
        b.memory.record();
        post(&mut b, 2, 5);
        let all = told(&mut b);
        assert_eq!(all.len(), 10, "{all:?}");
        for pair in all.as_chunks::<2>().0 {
            let [Told::Written(written, 2), Told::Interrupt(at, 2)] = pair else {
                panic!("{all:?}");
            };
            assert!((*written..=written + AT_ONCE).contains(at), "{pair:?}");
        }
    }
}

/// Completions of both directions are gathered by count, and by time from the first on.
pub fn count_and_time<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(1, 6, 7);
    b.enable_rx(1, 6, 7);
    b.write(global::RSS_TABLE.offset, 1);
    for i in 1..128 {
        b.write(global::RSS_TABLE.offset + 4 * i, 1);
    }
    let slack = late(&mut b);
    // By count: at the fourth and at the eighth.
    moderate(&mut b, 1, 4, 100_000);
    b.memory.record();
    post(&mut b, 1, 10);
    let all = told(&mut b);
    let places: Vec<usize> = (0..all.len())
        .filter(|i| matches!(all[*i], Told::Interrupt(_, 1)))
        .collect();
    assert_eq!(places, [4, 9], "{all:?}");
    // By time: the two that are left, counted from the first of them.
    assert!(b.drain(200_000));
    let Told::Written(first, 1) = all[10] else {
        panic!("{all:?}");
    };
    let all = told(&mut b);
    let [Told::Interrupt(at, 1)] = all[..] else {
        panic!("{all:?}");
    };
    let due = first + 100_000;
    assert!((due..=due + slack).contains(&at), "{at} instead of {due}");
    // Receive counts with transmit.
    moderate(&mut b, 1, 2, 100_000);
    let buffer = b.alloc(2_048, 64);
    b.push_buffer(1, buffer, 2_048, 0);
    b.ring_rx(1);
    b.run_to(b.nic.now() + Ticks(2_000));
    post(&mut b, 1, 1);
    assert_eq!(told(&mut b).len(), 1);
    let frame = [0x5a; 100];
    b.arrive(b.nic.now() + Ticks(10), &frame, false);
    b.run_to(b.nic.now() + Ticks(2_000));
    let all = told(&mut b);
    let [Told::Written(at, 1), Told::Interrupt(then, 1)] = all[..] else {
        panic!("{all:?}");
    };
    assert!(then <= at + AT_ONCE, "{all:?}");
    // Nothing is owed.
    assert!(b.drain(300_000));
    assert_eq!(told(&mut b), []);
    // The time rule alone, at several times.
    for ticks in [1, 40, 1_000, 60_000] {
        moderate(&mut b, 1, 100, ticks);
        post(&mut b, 1, 1);
        assert!(b.drain(200_000));
        let all = told(&mut b);
        let [Told::Written(at, 1), Told::Interrupt(then, 1)] = all[..] else {
            panic!("{all:?}");
        };
        let due = at + u64::from(ticks);
        assert!((due..=due + slack).contains(&then), "{all:?} for {ticks}");
    }
}

/// A completion that is wanted at once takes all that are gathered with it: for its
/// flag, for an error, of a receive descriptor or a doorbell too.
pub fn flags<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    b.enable_rx(0, 6, 7);
    moderate(&mut b, 0, 1_000, 200_000);
    for urgent in 0..4 {
        b.memory.record();
        post(&mut b, 0, 2);
        assert_eq!(told(&mut b).len(), 2);
        let mut d = burst(&mut b, 7);
        match urgent {
            0 => d.control.set_timestamp(1),
            1 => d.control.set_kind(9),
            2 => d.frag0_addr = NOWHERE,
            _ => {}
        }
        if urgent < 3 {
            b.push(0, &d);
            b.ring(0);
        } else {
            b.write(doorbell_offset(0, doorbell::TX_TAIL), 0xffff);
        }
        b.run_to(b.nic.now() + Ticks(2_000));
        let all = told(&mut b);
        let [Told::Written(at, 0), Told::Interrupt(then, 0)] = all[..] else {
            panic!("{urgent}: {all:?}");
        };
        assert!(then <= at + AT_ONCE, "{urgent}: {all:?}");
        assert!(b.drain(400_000));
        assert_eq!(told(&mut b), [], "nothing is owed");
    }
    // A buffer that is none.
    let buffer = b.alloc(64, 8);
    b.push_buffer(0, buffer, 8, 1);
    b.ring_rx(0);
    b.run_to(b.nic.now() + Ticks(2_000));
    let all = told(&mut b);
    assert!(
        matches!(all[..], [Told::Written(..), Told::Interrupt(_, 0)]),
        "{all:?}"
    );
    assert_eq!(
        b.rx_completions(0)[0].status.status(),
        Status::LengthMismatch.code()
    );
}

/// Completions of a vector that were written, seen by the interrupts for them.
#[derive(Clone, Copy, Default)]
struct Open {
    /// That no interrupt has followed, and when the last was written.
    untold: u64,
    last: u64,
    /// That the last interrupt found beside its own, written while it was on its way: they
    /// may have an interrupt of their own, as moderation says.
    beside: u64,
}

impl Open {
    fn interrupted(&mut self, at: u64, wait: u64) {
        if self.untold > 0 {
            self.beside = std::mem::take(&mut self.untold) - 1;
            return;
        }
        assert!(
            self.beside > 0 && at <= self.last + wait,
            "an interrupt for nothing at {at}"
        );
        self.beside -= 1;
    }
}

/// Step of the random moderation's times in ticks.
const STEP: u64 = 300;

/// Random traffic in both directions on queues with random moderation: no interrupt is
/// for nothing, none comes before the write that it is for, and none is owed at the end.
pub fn order<N: Nic>(nic: N, rounds: usize) {
    let mut b = bench(nic);
    let mut rng = Pcg64Mcg::seed_from_u64(4);
    let queues = b.read(global::QUEUES.offset) as usize;
    let mark = b.alloc(0, 64);
    for q in 0..queues {
        b.enable_tx(q, 6, 7);
        b.enable_rx(q, 6, 7);
    }
    let bursts: Vec<TxDescriptor> = (0..8).map(|i| burst(&mut b, i)).collect();
    let buffers: Vec<u64> = (0..queues).map(|_| b.alloc(2_048, 64)).collect();
    let mut open = vec![Open::default(); queues];
    let mut given = vec![0; queues];
    let (mut written, mut interrupts) = (0u64, 0u64);
    let wait = 3 * STEP + late(&mut b);
    b.memory.record();
    for round in 0..rounds {
        for (q, buffer) in buffers.iter().enumerate() {
            let (count, ticks) = (rng.random_range(0..6), rng.random_range(0..4) * STEP);
            moderate(&mut b, q, count, ticks as u32);
            for _ in 0..rng.random_range(0..10) {
                let mut d = bursts[rng.random_range(0..bursts.len())];
                d.control.set_timestamp(rng.random_bool(0.1).into());
                b.push(q, &d);
                if given[q] < 60 {
                    b.push_buffer(q, *buffer, 2_048, 0);
                    given[q] += 1;
                }
            }
            b.ring(q);
            b.ring_rx(q);
        }
        let mut at = b.nic.now();
        for n in 0..rng.random_range(0..4 * queues) {
            at += Ticks(rng.random_range(60..400));
            let mut frame = tcp4_header((round + n) as u16);
            frame[31] = rng.random();
            b.arrive(at, &frame, false);
        }
        if rng.random_bool(0.2) {
            assert!(b.drain(1_000_000));
        } else {
            b.run_to(b.nic.now() + Ticks(3_000));
        }
        if round + 1 == rounds {
            assert!(b.drain(1_000_000));
        }
        for t in told(&mut b) {
            match t {
                Told::Written(at, q) => {
                    written += 1;
                    let open = &mut open[usize::from(q)];
                    open.untold += 1;
                    open.last = at;
                }
                Told::Interrupt(at, vector) => {
                    interrupts += 1;
                    open[usize::from(vector)].interrupted(at, wait);
                }
            }
        }
        for (q, given) in given.iter_mut().enumerate() {
            b.completions(q);
            *given -= b.rx_completions(q).len();
        }
    }
    assert!(open.iter().all(|open| open.untold == 0), "not told");
    println!("{written} completions, {interrupts} interrupts");
    assert!(written as usize > 10 * rounds && interrupts as usize > 3 * rounds);
    b.free_to(mark);
}

/// Every queue pair has its vector, and events the one behind them.
pub fn vectors<N: Nic>(nic: N) -> usize {
    let mut b = bench(nic);
    let queues = b.read(global::QUEUES.offset) as usize;
    b.write(global::EVENT_MASK.offset, u32::MAX);
    let mut seen = Vec::new();
    for q in 0..queues {
        b.enable_tx(q, 6, 7);
        b.memory.record();
        post(&mut b, q, 1);
        let interrupts = told(&mut b).into_iter().filter_map(|t| match t {
            Told::Interrupt(_, vector) => Some(usize::from(vector)),
            Told::Written(..) => None,
        });
        seen.extend(interrupts);
    }
    b.write(doorbell_offset(0, doorbell::RX_TAIL), 0);
    b.run_to(b.nic.now() + Ticks(500));
    let [Told::Interrupt(_, vector)] = told(&mut b)[..] else {
        panic!("no event");
    };
    seen.push(vector.into());
    let expected: Vec<usize> = (0..=queues).collect();
    assert_eq!(seen, expected);
    assert_eq!(event_vector(queues), queues);
    seen.len()
}

/// Events set their bit whether masked or not, and interrupt when a bit appears that
/// the mask has: once until it is cleared, and when the mask gets it later.
pub fn events<N: Nic>(nic: N) {
    let mut b = bench(nic);
    let queues = b.read(global::QUEUES.offset) as u16;
    b.enable_tx(0, 6, 7);
    let interrupts = |b: &mut Bench<N>| {
        b.run_to(b.nic.now() + Ticks(3_000));
        let of_events = |t: &Told| matches!(t, Told::Interrupt(_, v) if *v == queues);
        told(b).iter().filter(|t| of_events(t)).count()
    };
    b.memory.record();
    let (mut bell, mut fault) = (Events(0), Events(0));
    bell.set_doorbell(1);
    fault.set_address_fault(1);
    let (status, mask) = (global::EVENT_STATUS.offset, global::EVENT_MASK.offset);
    let refuse = |b: &mut Bench<N>| b.write(doorbell_offset(1, doorbell::TX_TAIL), 0);
    assert_eq!((b.read(status), b.read(mask)), (0, 0));
    // Masked: the bit, and no interrupt.
    refuse(&mut b);
    assert_eq!(interrupts(&mut b), 0);
    assert_eq!(b.read(status), bell.0);
    // The mask gets it.
    b.write(mask, fault.0);
    assert_eq!(interrupts(&mut b), 0);
    b.write(mask, bell.0);
    assert_eq!(interrupts(&mut b), 1);
    b.write(mask, bell.0);
    refuse(&mut b);
    assert_eq!(interrupts(&mut b), 0, "it stands already");
    // Ones clear, zeros do not.
    b.write(status, fault.0);
    assert_eq!(b.read(status), bell.0);
    b.write(status, bell.0 | 1 << 31);
    assert_eq!(b.read(status), 0);
    refuse(&mut b);
    refuse(&mut b);
    assert_eq!(interrupts(&mut b), 1);
    assert_eq!(b.counter(global::DOORBELL_ERRORS), 4);
    // Another event beside the one that stands: of a descriptor, a header, payload.
    b.write(mask, u32::MAX);
    assert_eq!(b.read(mask), 7, "reserved bits stay 0");
    assert_eq!(interrupts(&mut b), 0);
    let good = burst(&mut b, 1);
    let mut spoilt = [good; 2];
    spoilt[0].header_addr = NOWHERE;
    spoilt[1].frag0_addr = NOWHERE;
    for d in spoilt {
        b.push(0, &d);
        b.ring(0);
        assert_eq!(interrupts(&mut b), 1);
        assert_eq!(b.read(status), bell.0 | fault.0);
        b.write(status, fault.0);
    }
    assert_eq!(b.completions(0).len(), 2);
    b.enable_rx(0, 6, 7);
    b.push_buffer(0, NOWHERE, 2_048, 0);
    b.ring_rx(0);
    b.write(mask, 0);
    assert_eq!(interrupts(&mut b), 0, "a buffer is written, not read");
    assert_eq!(b.read(status), bell.0);
    // A reset clears both.
    b.write(mask, 7);
    assert_eq!(interrupts(&mut b), 1);
    b.write(global::CONTROL.offset, 2);
    for _ in 0..100 {
        b.run_to(b.nic.now() + Ticks(1_000));
    }
    assert_eq!((b.read(status), b.read(mask)), (0, 0));
}

/// The clock stands in every doorbell page.
pub fn clock<N: Nic>(nic: N) {
    let mut b = bench(nic);
    let queues = b.read(global::QUEUES.offset) as usize;
    let halves = [doorbell::CLOCK_LO, doorbell::CLOCK_HI];
    for (now, high) in [(1_000u64, 0), (3 << 32 | 500, 3)] {
        b.run_to(Ticks(now));
        for q in [0, queues - 1] {
            let before = b.nic.now().0;
            let [low, at] = halves.map(|r| b.read(doorbell_offset(q, r)));
            assert_eq!(at, high);
            let read = u64::from(high) << 32 | u64::from(low);
            assert!((before..=b.nic.now().0).contains(&read));
        }
    }
    let beyond = DOORBELL_BASE + queues * DOORBELL_STRIDE;
    assert_eq!(b.read(beyond + doorbell::CLOCK_LO.offset), 0);
    assert_eq!(b.read(beyond + doorbell::CLOCK_HI.offset), 0);
    assert_eq!(b.read(doorbell_offset(0, doorbell::TX_TAIL)), 0);
}
