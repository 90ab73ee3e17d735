// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the compiled logic runs here: bursts of 45 segments through every queue
//! of a whole NIC, with the wire always busy.
//!
//! `cargo run --release -p tsonic-sim --example rtl_speed`

use std::time::Instant;

use tsonic_regs::descriptor::Kind;
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::model::Layout;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl;
use tsonic_types::Ticks;

/// Bursts of each queue.
const BURSTS: usize = 10;

fn run(queues: u16) -> Result<(), rtl::RtlError> {
    let nic = rtl::build(queues)?;
    let mut bench = Bench::new(nic, RootComplexConfig::default(), 16 << 20);
    let mut header = vec![0u8; 54];
    header[12] = 8;
    header[14] = 0x45;
    header[46] = 0x50;
    let payload = vec![0x5a; 45 * 1_448];
    let d = bench.place(&Post {
        layout: Layout {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            mss: 1448,
        },
        header: &header,
        payload: &payload,
        cuts: &[16_384, 16_384, 16_384],
        flow_slot: 0,
        inv_rate: 0,
        launch: None,
        cookie: 0,
    });
    for q in 0..usize::from(queues) {
        bench.enable_tx(q, 6, 7);
        for _ in 0..BURSTS {
            bench.push(q, &d);
        }
        bench.ring(q);
    }
    let frames = 45 * BURSTS * usize::from(queues);
    let (started, before) = (Instant::now(), bench.nic.cycles());
    while bench.mac.sent.len() < frames {
        let until = bench.nic.now() + Ticks(10_000);
        bench.run_to(until);
    }
    let (wall, cycles) = (started.elapsed().as_secs_f64(), bench.nic.cycles() - before);
    let bytes: usize = bench.mac.sent.iter().map(|(_, f)| f.len()).sum();
    println!(
        "{queues} queues: {frames} frames in {cycles} cycles, {:.1} % of the data path; {:.0} kcycles/s, {:.2} Gb/s of wall time",
        bytes as f64 / 8.0 / cycles as f64 * 100.0,
        cycles as f64 / wall / 1e3,
        bytes as f64 * 8e-9 / wall
    );
    Ok(())
}

fn main() -> Result<(), rtl::RtlError> {
    run(4)?;
    run(32)
}
