// SPDX-License-Identifier: MIT OR Apache-2.0
//! What crossing the boundary costs, in wall time: `cargo run --release -p tsonic-tests
//! --example boundary_cost`. The model serves from a thread of this process, over a real
//! socket. Medians, for comparison only.

use std::path::Path;
use std::time::{Duration, Instant};

use tsonic_driver::{Device, Fragment, Kind, TxBurst, TxConfig, VfioUserConfig, VfioUserFunction};
use tsonic_pci::PciFunction;
use tsonic_regs::registers::{doorbell, doorbell_offset, global, queue, queue_offset};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::vfio_user::{Server, ServerConfig};
use tsonic_sim::world::{LinkConfig, World};
use tsonic_types::{FlowSlot, Nanos, QueueId};

const TURNS: usize = 2_000;

/// Median of what a turn of `f` takes, in microseconds.
fn median(mut f: impl FnMut()) -> f64 {
    let mut took: Vec<Duration> = (0..TURNS)
        .map(|_| {
            let started = Instant::now();
            f();
            started.elapsed()
        })
        .collect();
    took.sort_unstable();
    took[TURNS / 2].as_nanos() as f64 / 1e3
}

fn connect(path: &Path, map_doorbells: bool) -> VfioUserFunction {
    let config = VfioUserConfig {
        map_doorbells,
        ..VfioUserConfig::default()
    };
    VfioUserFunction::connect(path, config).expect("a device")
}

/// One burst of one segment, doorbell to completion.
fn round(f: VfioUserFunction, busy_poll: Duration) -> f64 {
    let mut device = Device::open(f).expect("open");
    device.set_busy_poll(busy_poll);
    let mut tx = device
        .open_tx(QueueId(0), TxConfig::default())
        .expect("queue");
    let mut flows = device.flow_table();
    let mut pool = device.chunk_pool(1, 65_536).expect("pool");
    device.start().expect("start");
    let chunk = pool.allocate().expect("chunk");
    let fragment: Fragment = pool.map().fragment(chunk, 0, 1_000).expect("inside");
    let mut header = [0; 54];
    header[12..15].copy_from_slice(&[8, 0, 0x45]);
    header[23] = 6;
    header[46] = 0x50;
    median(|| {
        let burst = TxBurst {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            complete_now: true,
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            mss: 1_448,
            header: &header,
            fragments: &[fragment],
            flow: FlowSlot::UNPACED,
            rate: None,
            flow_limit: None,
            launch: None,
            token: 0,
        };
        tx.post(&mut flows, &burst).expect("room");
        tx.flush(device.function()).expect("doorbell");
        while tx.reap(&mut flows, 1, |_| {}) == 0 {
            let end = device.now() + Nanos::from_secs(1);
            device
                .wait_for(Some(end), || tx.has_completion())
                .expect("wait");
        }
    })
}

fn main() {
    let path = std::env::temp_dir().join(format!("tsonic-cost-{}", std::process::id()));
    let nic = Box::new(Model::new(ModelConfig::default()));
    let world = World::new(
        nic,
        RootComplexConfig::default(),
        LinkConfig::default(),
        None,
    );
    let config = ServerConfig {
        sockets: vec![path.clone()],
        map_doorbells: true,
    };
    let server = Server::start(world, &config).expect("serve");
    for map in [false, true] {
        let name = if map { "mapped" } else { "trapped" };
        let mut f = connect(&path, map);
        let magic = global::MAGIC.offset as u64;
        let read = median(|| {
            let _ = f.read32(0, magic).expect("read");
        });
        // A register that does nothing until a queue is turned on.
        let quiet = queue_offset(0, queue::TX_RING_LO) as u64;
        let write = median(|| f.write32(0, quiet, 64).expect("write"));
        let _ = f.read32(0, magic);
        let bell = doorbell_offset(0, doorbell::TX_TAIL) as u64;
        let ring = median(|| f.write32(0, bell, 0).expect("doorbell"));
        let _ = f.read32(0, magic);
        let clock = median(|| {
            let _ = f.now();
        });
        println!(
            "{name}: register read {read:.1} us, register write {write:.1} us, doorbell {ring:.2} us, clock of an idle device {clock:.1} us"
        );
        drop(f);
        let slept = round(connect(&path, map), Duration::ZERO);
        let polled = round(connect(&path, map), Duration::from_micros(100));
        println!("{name}: doorbell to completion {slept:.1} us asleep, {polled:.1} us looking");
    }
    drop(server);
}
