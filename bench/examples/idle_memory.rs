// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an idle connection takes of the heap: the same connections as in `throughput`, opened and
//! left alone, once few and once many; the difference is divided by that of the numbers.
//!
//!     cargo run --release -p tsonic-bench --example idle_memory [FEW MANY]
//!
//! The allocator is this program's own, so that nothing else pays for the count. What
//! the experiment itself keeps for a connection (the receiver's state, an id, a count) is shown, and
//! in the figures.
#![allow(missing_docs, reason = "a program")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use tsonic_bench::throughput::{Case, OWN_BYTES, Open, SMOLTCP_BUFFERS, Stack, Traffic};

struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all is left to `System`; the count touches no memory that was handed out.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the heap that `connections` connections hold, with all around them.
fn held(stack: Stack, connections: usize) -> Result<usize, String> {
    let before = HELD.load(Ordering::Relaxed);
    let open = Open::new(Case {
        stack,
        traffic: Traffic::Messages,
        connections,
        bursts: true,
        per_ack: 2,
    });
    let open = open.map_err(|e| e.to_string())?;
    let bytes = HELD.load(Ordering::Relaxed) - before;
    if open.connections() != connections {
        return Err(format!("only {} are open", open.connections()));
    }
    Ok(bytes)
}

fn main() -> ExitCode {
    let numbers: Vec<Option<usize>> = std::env::args().skip(1).map(|a| a.parse().ok()).collect();
    let (few, many) = match numbers[..] {
        [] => (1_000, 100_000),
        [Some(few), Some(many)] if 0 < few && few < many => (few, many),
        _ => {
            eprintln!("usage: idle_memory [FEW MANY] (integers, the second larger)");
            return ExitCode::from(2);
        }
    };
    for (stack, few, many, buffers) in [
        (Stack::Tsonic, few, many, 0),
        // It looks at every socket at every turn.
        (
            Stack::Smoltcp,
            few.min(500),
            many.min(2_000),
            SMOLTCP_BUFFERS,
        ),
    ] {
        match (held(stack, few), held(stack, many)) {
            (Ok(a), Ok(b)) => println!(
                "{stack}: {:.0} bytes of the heap a connection ({few} to {many}), of which the experiment's own {OWN_BYTES}, buffers {buffers}",
                (b as f64 - a as f64) / (many - few) as f64
            ),
            (a, b) => {
                for e in [a.err(), b.err()].into_iter().flatten() {
                    eprintln!("idle_memory: {stack}: {e}");
                }
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
