// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory side of transmit as a driver sees it: bursts posted into rings,
//! segments as the segmenter gets them, completions out of rings. Scheduler and
//! segmenter are stand-ins that interleave and delay at random.

mod memory_side;
mod support;
mod transmit_bench;

use transmit_bench::{Bench, Q};
use tsonic_regs::Status;

#[test]
fn every_burst_completes_once_with_what_departed() {
    let mut bench = Bench::new(1, 0.0, 0.8, 2000);
    bench.run();
    for q in &bench.queues {
        assert!(
            q.next > 3 << q.completion_log2,
            "the completion ring did not turn over"
        );
    }
    assert_eq!(bench.aborts, 0);
}

#[test]
fn faults_anywhere() {
    let mut bench = Bench::new(2, 0.02, 0.8, 2000);
    bench.run();
    assert!(bench.aborts > 50);
    for status in [
        Status::Ok,
        Status::AddressFault,
        Status::LengthMismatch,
        Status::BadKind,
        Status::DoorbellOutOfRange,
    ] {
        assert!(bench.seen.contains_key(&status), "{status:?} was not met");
    }
}

#[test]
fn a_queue_enabled_again_starts_over() {
    let mut bench = Bench::new(3, 0.01, 1.0, 300);
    for round in 1..6 {
        bench.limit = 300 * round;
        bench.run();
        for q in 0..Q {
            bench.enable(q);
        }
    }
}
