// SPDX-License-Identifier: MIT OR Apache-2.0
//! How fast the model runs here: 64 MiB of TCP payload in bursts of 65,160 bytes
//! through a whole NIC, unpaced and paced over 1,023 flows.
//!
//! `cargo run --release -p tsonic-sim --example model_speed`

use std::time::Instant;

use tsonic_regs::descriptor::Kind;
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::model::{Layout, Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_types::Ticks;

fn run(name: &str, flows: u16, inv_rate: u64) {
    let nic = Model::new(ModelConfig::default());
    let mut bench = Bench::new(nic, RootComplexConfig::default(), 16 << 20);
    bench.enable_tx(0, 12, 12);
    let mut header = vec![0u8; 66];
    header[12] = 8;
    header[14] = 0x45;
    header[46] = 0x80;
    let payload = vec![0x5a; 65_160];
    let mut d = bench.place(&Post {
        layout: Layout {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            l2_len: 14,
            l3_len: 20,
            l4_len: 32,
            mss: 1448,
        },
        header: &header,
        payload: &payload,
        cuts: &[16_384, 16_384, 16_384],
        flow_slot: 0,
        inv_rate,
        launch: None,
        cookie: 0,
    });
    let bursts = (64usize << 20).div_ceil(payload.len());
    let started = Instant::now();
    let (mut frames, mut bytes) = (0, 0);
    for i in 0..bursts {
        d.burst
            .set_flow_slot(if flows == 0 { 0 } else { 1 + i as u16 % flows });
        bench.push(0, &d);
    }
    bench.ring(0);
    while bench.nic.bursts_held() > 0 || bench.nic.now() == Ticks(0) {
        let until = bench.nic.now() + Ticks(100_000);
        bench.run_to(until);
        frames += bench.mac.sent.len();
        bytes += bench.mac.sent.iter().map(|(_, f)| f.len()).sum::<usize>();
        bench.mac.sent.clear();
    }
    let wall = started.elapsed().as_secs_f64();
    let simulated = bench.nic.now().0 as f64 / 125e6;
    println!(
        "{name}: {frames} frames, {:.1} MiB in {wall:.3} s of wall time ({:.1} Gb/s), {simulated:.4} s simulated",
        bytes as f64 / f64::from(1 << 20),
        bytes as f64 * 8e-9 / wall,
    );
}

fn main() {
    run("unpaced", 0, 0);
    run("1 flow at 1 byte a tick", 1, 1 << 28);
    run("1023 flows at 1 byte in 1000 ticks each", 1023, 1000 << 28);
}
