// SPDX-License-Identifier: MIT OR Apache-2.0
//! Engine, glue and driver together allocate nothing per burst, segment or
//! acknowledgement: a counting allocator watches every call of both hosts' loops
//! during a bulk transfer, once connections are up and windows have grown. The
//! doorbells are watched, the device's own work is not.

mod bench;

use bench::{BURST, Host, Lab, Probe};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use tsonic_tcp::ConnId;
use tsonic_types::Nanos;

thread_local! {
    static WATCH: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn note() {
    if WATCH.try_with(Cell::get).unwrap_or(false) {
        let _ = COUNT.try_with(|c| c.set(c.get() + 1));
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting
// touches only constant-initialised thread locals, which do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's duties are the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's duties are the same.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's duties are the same.
        unsafe { System.realloc(p, layout, size) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // A path that frees has allocated before.
        note();
        // SAFETY: the caller's duties are the same.
        unsafe { System.dealloc(p, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn watched<R>(run: impl FnOnce() -> R) -> R {
    WATCH.set(true);
    let r = run();
    WATCH.set(false);
    r
}

/// Counts by the call that allocated or freed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    reap: u64,
    receive: u64,
    poll: u64,
    write: u64,
    read: u64,
}

fn count<R>(into: &mut u64, run: impl FnOnce() -> R) -> R {
    COUNT.set(0);
    let r = watched(run);
    *into += COUNT.get();
    r
}

impl Probe for Counts {
    fn reap(&mut self, h: &mut Host, now: Nanos) -> usize {
        count(&mut self.reap, || bench::reap(h, now))
    }
    fn receive(&mut self, h: &mut Host, now: Nanos, budget: usize) -> usize {
        count(&mut self.receive, || bench::receive(h, now, budget))
    }
    fn poll(&mut self, h: &mut Host, now: Nanos) {
        count(&mut self.poll, || h.engine.poll(now, &mut h.nic));
    }
    fn write(&mut self, h: &mut Host, id: ConnId, bytes: &[u8]) -> usize {
        count(&mut self.write, || bench::write(h, id, bytes))
    }
    fn read(&mut self, h: &mut Host, id: ConnId, out: &mut [u8]) -> usize {
        count(&mut self.read, || h.engine.read(id, out).unwrap_or(0))
    }
}

/// Moves `warm_up` bytes unwatched, then `bytes` watched. Answers what was counted
/// at the sender and the receiver, and bursts and acknowledgements seen.
fn transfer(mut lab: Lab, warm_up: usize, bytes: usize) -> ([Counts; 2], u64, usize) {
    while lab.delivered() < warm_up {
        lab.turn(&mut bench::Unwatched, &mut bench::Unwatched);
    }
    let (bursts, acks) = (lab.bursts().0, lab.acks);
    let (mut sender, mut receiver) = (Counts::default(), Counts::default());
    while lab.delivered() < warm_up + bytes {
        lab.turn(&mut sender, &mut receiver);
    }
    let counts = [sender, receiver];
    (counts, lab.bursts().0 - bursts, lab.acks - acks)
}

fn clean() -> [Counts; 2] {
    [Counts::default(), Counts::default()]
}

#[test]
fn the_count_counts() {
    let mut n = 0;
    count(&mut n, || drop(black_box(Box::new(1))));
    assert_eq!(n, 2, "one allocated, one freed");
    drop(black_box(Box::new(1)));
    let mut n = 0;
    count(&mut n, || black_box(vec![0u8; 100]).push(1));
    assert!(n >= 2, "zeroed and moved: {n}");
}

#[test]
fn a_bulk_transfer_allocates_nothing() {
    let (counts, bursts, acks) = transfer(Lab::new(1, 2, 0), 500 * BURST, 1_000 * BURST);
    assert!(bursts >= 1_000 && acks > 15_000, "{bursts} {acks}");
    assert_eq!(counts, clean());
}

#[test]
fn nor_do_many_connections_with_losses() {
    // Each has a 17th of what is shared: it takes a while until no list grows any more.
    let (counts, bursts, acks) = transfer(Lab::new(16, 64, 997), 10_000 * BURST, 2_000 * BURST);
    assert!(bursts >= 2_000 && acks >= 2_000, "{bursts} {acks}");
    assert_eq!(counts, clean());
}
