// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC that is served by threads of this process, and drivers for it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

pub use tsonic_driver::{
    ChunkPool, Device, FlowTable, Kind, Status, TxBurst, TxCompletion, TxConfig, TxQueue,
    VfioUserConfig, VfioUserFunction,
};
pub use tsonic_pci::{BusError, PciFunction, Wake};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::vfio_user::{Server, ServerConfig};
use tsonic_sim::world::{LinkConfig, World};
pub use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId};

pub const CHUNK: u32 = 65_536;
pub const MSS: u16 = 1_448;
const HEADER: usize = 54;

pub fn model(queues: u16) -> Box<dyn Nic + Send> {
    Box::new(Model::new(ModelConfig {
        queues: queues.into(),
        flow_slots: 64,
        ..ModelConfig::default()
    }))
}

pub fn link() -> LinkConfig {
    LinkConfig {
        line_rate: 1_000_000_000,
        ..LinkConfig::default()
    }
}

/// One NIC whose frames vanish.
pub fn world(queues: u16) -> World {
    let memory = RootComplexConfig::default();
    World::new(model(queues), memory, link(), None)
}

/// A path that nothing has yet.
pub fn socket() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tsonic-boundary-{}-{n}", std::process::id()))
}

/// Serves a world at fresh paths.
pub fn serve(world: World, map_doorbells: bool) -> (Server, Vec<PathBuf>) {
    let sockets: Vec<PathBuf> = (0..world.nodes()).map(|_| socket()).collect();
    let config = ServerConfig {
        sockets: sockets.clone(),
        map_doorbells,
    };
    (Server::start(world, &config).unwrap(), sockets)
}

/// A driver with one transmit queue, which knows what became of each burst.
pub struct Sender<F: PciFunction> {
    pub device: Device<F>,
    pub tx: Vec<TxQueue>,
    pub flows: FlowTable,
    pool: ChunkPool,
    pub done: Vec<TxCompletion>,
    pub posted: u64,
}

impl<F: PciFunction> Sender<F> {
    pub fn open(function: F, queues: u16) -> Sender<F> {
        let mut device = Device::open(function).unwrap();
        let config = TxConfig {
            ring_log2: 6,
            completion_log2: 7,
            ..TxConfig::default()
        };
        let open = |q| device.open_tx(QueueId(q), config).unwrap();
        let tx = (0..queues).map(open).collect();
        device.start().unwrap();
        let mut pool = device.chunk_pool(1, CHUNK).unwrap();
        let chunk = pool.allocate().unwrap();
        pool.write(chunk, 0, &[0x5a; CHUNK as usize]);
        Sender {
            flows: device.flow_table(),
            device,
            tx,
            pool,
            done: Vec::new(),
            posted: 0,
        }
    }

    /// Posts `bytes` of payload on a queue.
    pub fn post(&mut self, queue: usize, bytes: u32, flow: FlowSlot, rate: Option<ByteRate>) {
        let fragment = self.pool.map().fragment(0, 0, bytes).unwrap();
        let token = self.posted;
        let burst = TxBurst {
            kind: Kind::Tso,
            ipv6: false,
            ip_id_fixed: false,
            cwr_all: false,
            complete_now: false,
            l2_len: 14,
            l3_len: 20,
            l4_len: 20,
            mss: MSS,
            header: &header(),
            fragments: &[fragment],
            flow,
            rate,
            flow_limit: None,
            launch: None,
            token,
        };
        self.tx[queue].post(&mut self.flows, &burst).unwrap();
        self.posted += 1;
    }

    /// Posts without a pace.
    pub fn burst(&mut self, queue: usize, bytes: u32) {
        self.post(queue, bytes, FlowSlot::UNPACED, None);
    }

    pub fn flush(&mut self) -> Result<(), tsonic_driver::DriverError> {
        for q in &mut self.tx {
            q.flush(self.device.function())?;
        }
        Ok(())
    }

    pub fn reap(&mut self) {
        for q in &mut self.tx {
            q.reap(&mut self.flows, usize::MAX, |c| self.done.push(*c));
        }
    }

    /// Waits until all of it is done, a few seconds of the device's clock at most.
    pub fn settle(&mut self) {
        self.flush().unwrap();
        let end = self.device.now() + Nanos::from_secs(20);
        loop {
            self.reap();
            if self.tx.iter().all(|q| q.outstanding() == 0) {
                return;
            }
            assert!(
                self.device.now() < end,
                "{} outstanding",
                self.tx[0].outstanding()
            );
            let tx = &self.tx;
            let ready = || tx.iter().any(TxQueue::has_completion);
            self.device.wait_for(Some(end), ready).unwrap();
        }
    }

    /// What the device left behind when it went.
    pub fn abandon(&mut self) {
        for q in &mut self.tx {
            Device::<F>::abandon(q, &mut self.flows, |c| self.done.push(*c));
        }
    }

    /// Completions with that status.
    pub fn with(&self, status: Status) -> u64 {
        self.done
            .iter()
            .filter(|c| c.status() == Some(status))
            .count() as u64
    }
}

fn header() -> [u8; HEADER] {
    let mut h = [0u8; HEADER];
    h[12..14].copy_from_slice(&[8, 0]);
    h[14] = 0x45;
    h[22..24].copy_from_slice(&[64, 6]);
    h[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    h[46..48].copy_from_slice(&[0x50, 0x10]);
    h
}

pub fn connect(path: &std::path::Path, map_doorbells: bool) -> VfioUserFunction {
    let config = VfioUserConfig {
        map_doorbells,
        ..VfioUserConfig::default()
    };
    VfioUserFunction::connect(path, config).unwrap()
}
