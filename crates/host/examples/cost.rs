// SPDX-License-Identifier: MIT OR Apache-2.0
//! The workload whose instructions `scripts/cost.sh` counts: a bulk flow in bursts
//! of 45 segments of 1,448 bytes between two hosts over a minimal wire.
//!
//!     cost SEGMENTS_PER_ACK BURSTS
//!
//! After a warm-up, the sender's calls go through the functions `cost_*` below,
//! whose names are what callgrind is told to collect. One burst departs a turn of
//! the loop, so what a turn costs once is counted in full with every burst.
#![allow(missing_docs, reason = "a program")]

#[path = "../tests/bench/mod.rs"]
mod bench;

use bench::{BURST, Host, Lab, Probe, Unwatched};
use std::process::ExitCode;
use tsonic_tcp::ConnId;
use tsonic_types::Nanos;

/// Bursts of the warm-up: far beyond slow start.
const WARM_UP: usize = 300;

/// Completions: driver's reaping, engine's taking in.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn cost_reap(h: &mut Host, now: Nanos) -> usize {
    bench::reap(h, now)
}

/// Acknowledgements: driver's receive and refill, engine's taking in.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn cost_receive(h: &mut Host, now: Nanos, budget: usize) -> usize {
    bench::receive(h, now, budget)
}

/// Bursts: engine's choice and header, driver's post, doorbell.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn cost_poll(h: &mut Host, now: Nanos) {
    h.engine.poll(now, &mut h.nic);
}

/// The application's write: mostly the copy.
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn cost_write(h: &mut Host, id: ConnId, bytes: &[u8]) -> usize {
    bench::write(h, id, bytes)
}

struct Measured;

impl Probe for Measured {
    fn reap(&mut self, h: &mut Host, now: Nanos) -> usize {
        cost_reap(h, now)
    }
    fn receive(&mut self, h: &mut Host, now: Nanos, budget: usize) -> usize {
        cost_receive(h, now, budget)
    }
    fn poll(&mut self, h: &mut Host, now: Nanos) {
        cost_poll(h, now);
    }
    fn write(&mut self, h: &mut Host, id: ConnId, bytes: &[u8]) -> usize {
        cost_write(h, id, bytes)
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<usize>());
    let (Some(Ok(per_ack @ 1..)), Some(Ok(bursts @ 1..)), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: cost SEGMENTS_PER_ACK BURSTS (integers from 1)");
        return ExitCode::from(2);
    };
    let mut lab = Lab::new(1, per_ack, 0);
    while lab.delivered() < WARM_UP * BURST {
        lab.turn(&mut Unwatched, &mut Unwatched);
    }
    let (before, acks) = (lab.bursts(), lab.acks);
    while lab.bursts().0 - before.0 < bursts as u64 {
        lab.turn(&mut Measured, &mut Unwatched);
    }
    let (after, acks) = (lab.bursts(), lab.acks - acks);
    let (n, segments) = (after.0 - before.0, after.1 - before.1);
    println!("{n} {segments} {acks}");
    ExitCode::SUCCESS
}
