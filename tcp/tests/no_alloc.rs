// SPDX-License-Identifier: MIT OR Apache-2.0
//! The engine allocates nothing per burst, segment or acknowledgement: a counting
//! allocator watches a bulk transfer after a warm-up.

mod common;
use common::*;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use tsonic_tcp::*;
use tsonic_types::{CoreId, FlowSlot, Nanos, QueueId};

thread_local! {
    static WATCH: Cell<bool> = const { Cell::new(false) };
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn note() {
    let _ = WATCH.try_with(|w| {
        if w.get() {
            let _ = COUNT.try_with(|c| c.set(c.get() + 1));
        }
    });
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting
// touches only constant-initialised thread locals, which do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: the caller's duties are the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's duties are the same.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: the caller's duties are the same.
        unsafe { System.realloc(p, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The NIC under test may allocate; the engine may not.
struct Unwatched<'a>(&'a mut Nic);

fn unwatched<R>(f: impl FnOnce() -> R) -> R {
    let was = WATCH.replace(false);
    let r = f();
    WATCH.set(was);
    r
}

impl TxPort for Unwatched<'_> {
    fn limits(&self) -> TxLimits {
        self.0.limits()
    }
    fn queue_state(&self, q: QueueId) -> QueueState {
        unwatched(|| self.0.queue_state(q))
    }
    fn allocate_flow(&mut self) -> Option<FlowSlot> {
        unwatched(|| self.0.allocate_flow())
    }
    fn free_flow(&mut self, f: FlowSlot) {
        unwatched(|| self.0.free_flow(f));
    }
    fn post(&mut self, b: &Burst<'_>) -> Result<(), PostError> {
        unwatched(|| self.0.post(b))
    }
    fn flush(&mut self) {
        unwatched(|| self.0.flush());
    }
}

fn watched_transfer(link: Link, warm_up: u64, total: u64) -> (u64, u64) {
    let mut w = World::new(7, link);
    let (a, b) = w.connect();
    let data = vec![9u8; 65_536];
    let mut buf = vec![0u8; 65_536];
    let mut got = 0;
    let mut bursts_before = 0;
    COUNT.set(0);
    while got < total {
        let watching = got >= warm_up;
        if watching && bursts_before == 0 {
            bursts_before = w.hosts[0].engine.counters().total.bursts;
        }
        w.watch = if watching {
            Some(|on| WATCH.set(on))
        } else {
            None
        };
        WATCH.set(watching);
        while w.hosts[0].engine.write(a, CoreId(0), &data).is_ok() {}
        while let Ok(n) = w.hosts[1].engine.read(b, &mut buf) {
            got += n as u64;
        }
        WATCH.set(false);
        let now = w.now;
        for h in &mut w.hosts {
            h.nic.now = now;
            WATCH.set(watching);
            h.engine.poll(now, &mut Unwatched(&mut h.nic));
            WATCH.set(false);
        }
        assert!(w.step());
    }
    let bursts = w.hosts[0].engine.counters().total.bursts - bursts_before;
    (COUNT.get(), bursts)
}

#[test]
fn a_clean_bulk_transfer_allocates_nothing() {
    let (n, bursts) = watched_transfer(Link::clean(100), 32 << 20, 64 << 20);
    assert!(bursts > 500, "{bursts}");
    assert_eq!(n, 0, "{n} allocations for {bursts} bursts");
}

#[test]
fn nor_does_one_with_losses() {
    let link = Link {
        loss: 0.01,
        late: 0.01,
        late_by: Nanos::from_micros(200),
        duplicate: 0.001,
        ..Link::clean(100)
    };
    let (n, bursts) = watched_transfer(link, 32 << 20, 64 << 20);
    assert!(bursts > 500, "{bursts}");
    assert_eq!(n, 0, "{n} allocations for {bursts} bursts");
}
