// SPDX-License-Identifier: MIT OR Apache-2.0
//! Nothing on the path of a burst or a frame allocates memory.

mod fake;

use fake::Fake;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use tsonic_driver::{Device, Fragment, RxConfig, TxBurst, TxConfig};
use tsonic_regs::completion::{RxCompletion, TxCompletion};
use tsonic_regs::descriptor::Kind;
use tsonic_types::{ByteRate, QueueId};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static GLOBAL: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn bursts_and_frames_allocate_nothing() {
    assert_eq!(
        allocations(|| drop(black_box(Box::new(1)))),
        1,
        "the count counts"
    );
    let fake = Fake::new();
    let mut device = Device::open(fake.clone()).unwrap();
    let mut tx = device.open_tx(QueueId(0), TxConfig::default()).unwrap();
    let mut rx = device.open_rx(QueueId(0), RxConfig::default()).unwrap();
    let mut flows = device.flow_table();
    let mut pool = device.chunk_pool(8, 16_384).unwrap();
    let mut total = 0;
    for round in 0..500u64 {
        let spent = allocations(|| {
            let flow = flows.allocate().unwrap();
            let chunk = pool.allocate().unwrap();
            pool.write(chunk, 0, &[7; 3_000]);
            let map = pool.map();
            let fragments: [Fragment; 3] =
                std::array::from_fn(|i| map.fragment(chunk, i as u32 * 1_000, 1_000).unwrap());
            for token in 0..4 {
                let burst = TxBurst {
                    kind: Kind::Tso,
                    ipv6: false,
                    ip_id_fixed: false,
                    cwr_all: false,
                    complete_now: false,
                    l2_len: 14,
                    l3_len: 20,
                    l4_len: 20,
                    mss: 1_460,
                    header: &[0; 54],
                    fragments: &fragments,
                    flow,
                    rate: Some(ByteRate(1_000_000)),
                    flow_limit: None,
                    launch: None,
                    token: round * 4 + token,
                };
                tx.post(&mut flows, &burst).unwrap();
            }
            pool.release(chunk);
            flows.release(flow);
        });
        tx.flush(device.function()).unwrap();
        for d in fake.fetch(0) {
            let mut c = TxCompletion::default();
            c.status.set_cookie(d.burst.cookie());
            fake.complete(0, c);
        }
        fake.deliver(0, &[3; 5_000], &RxCompletion::default());
        let mut reaped = 0;
        let mut received = 0;
        let spent_back = allocations(|| {
            reaped = tx.reap(&mut flows, 64, |_| ());
            received = rx.receive(64, |f, _| assert_eq!(f.len(), 5_000));
        });
        rx.flush(device.function()).unwrap();
        assert_eq!((reaped, received), (4, 1));
        total += spent + spent_back;
    }
    assert_eq!(total, 0);
}
