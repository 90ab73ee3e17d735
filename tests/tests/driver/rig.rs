// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver on a NIC in a simulated world whose far end sends every frame back.

use std::collections::VecDeque;
use std::time::Duration;
pub use tsonic_driver::{
    ChecksumVerdict, ChunkPool, Device, FlowTable, Fragment, Kind, RSS_KEY_DEFAULT, RxConfig,
    RxQueue, Status, TxBurst, TxCompletion, TxConfig, TxQueue,
};
use tsonic_pci::{BusError, DmaBuffer, DmaPermission};
pub use tsonic_pci::{PciFunction, Wake};
use tsonic_regs::registers::global;
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl;
use tsonic_sim::world::{LinkConfig, Peer, World};
pub use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, Ticks};

/// Sends every frame back as it is.
#[derive(Default)]
struct Echo {
    frames: VecDeque<Vec<u8>>,
    due: Ticks,
}

impl Peer for Echo {
    fn receive(&mut self, now: Ticks, frame: &[u8]) {
        self.frames.push_back(frame.to_vec());
        self.due = now;
    }

    fn next_event(&self) -> Option<Ticks> {
        (!self.frames.is_empty()).then_some(self.due)
    }

    fn poll(&mut self, _: Ticks, send: &mut dyn FnMut(&[u8])) {
        for f in self.frames.drain(..) {
            send(&f);
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Duration) {}
}

pub const CHUNK: u32 = 65_536;
pub const MSS: u16 = 1_448;
pub const HEADER: usize = 54;

/// Queue pairs and flow slots of both NICs.
const QUEUES: u16 = 4;
const FLOW_SLOTS: usize = 64;

/// Which NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    Model,
    Rtl,
}

impl On {
    /// The bare function, with every frame coming back.
    pub fn function(self) -> Function {
        let nic: Box<dyn Nic + Send> = match self {
            On::Model => Box::new(Model::new(ModelConfig {
                queues: QUEUES.into(),
                flow_slots: FLOW_SLOTS,
                ..ModelConfig::default()
            })),
            On::Rtl => Box::new(rtl::build(QUEUES).unwrap_or_else(|e| panic!("{e}"))),
        };
        let world = World::new(
            nic,
            RootComplexConfig::default(),
            LinkConfig {
                line_rate: 1_000_000_000,
                ..LinkConfig::default()
            },
            Some(Box::new(Echo::default())),
        );
        Function {
            inner: InprocFunction::new(world),
            version: None,
        }
    }
}

/// The NIC's function with two additions: what the driver maps for reading may be
/// written, too, so that a test can spoil it; and it may speak another contract.
#[derive(Clone, Debug)]
pub struct Function {
    pub inner: InprocFunction,
    pub version: Option<u32>,
}

impl PciFunction for Function {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError> {
        self.inner.config_read(offset, out)
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError> {
        self.inner.config_write(offset, data)
    }

    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        let value = self.inner.read32(bar, offset)?;
        let version = offset == global::CONTRACT_VERSION.offset as u64;
        Ok(self.version.filter(|_| version).unwrap_or(value))
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        self.inner.write32(bar, offset, value)
    }

    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        _: DmaPermission,
    ) -> Result<(), BusError> {
        let both = DmaPermission::ReadWrite;
        // SAFETY: the memory is the caller's as it says, and all regions of this driver
        // are memory that it may itself write.
        unsafe { self.inner.dma_map(buffer, iova, both) }
    }

    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        self.inner.dma_unmap(iova, bytes)
    }

    fn reset(&mut self) -> Result<(), BusError> {
        self.inner.reset()
    }

    fn vectors(&self) -> u16 {
        self.inner.vectors()
    }

    fn enable_vectors(&mut self, vectors: u16) -> Result<(), BusError> {
        self.inner.enable_vectors(vectors)
    }

    fn disable_vectors(&mut self) -> Result<(), BusError> {
        self.inner.disable_vectors()
    }

    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError> {
        self.inner.mask_vector(vector, masked)
    }

    fn mask_all(&mut self, masked: bool) -> Result<(), BusError> {
        self.inner.mask_all(masked)
    }

    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        self.inner.take_fired(out)
    }

    fn runs_by_itself(&self) -> bool {
        self.inner.runs_by_itself()
    }

    fn now(&mut self) -> Ticks {
        self.inner.now()
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        self.inner.wait(deadline)
    }
}

pub struct Rig {
    pub on: On,
    pub device: Device<Function>,
    pub tx: Vec<TxQueue>,
    pub rx: Vec<RxQueue>,
    pub flows: FlowTable,
    pub pool: ChunkPool,
    pub done: Vec<TxCompletion>,
    pub frames: Vec<Vec<u8>>,
}

/// Two queue pairs with small rings, so that they wrap.
pub fn rig(on: On) -> Rig {
    let mut device = Device::open(on.function()).unwrap();
    let table = Device::<Function>::rss_round_robin(2);
    device.set_rss(&RSS_KEY_DEFAULT, &table).unwrap();
    let tx_config = TxConfig {
        ring_log2: 6,
        completion_log2: 7,
        ..TxConfig::default()
    };
    let queues = [QueueId(0), QueueId(1)];
    let tx = queues.map(|q| device.open_tx(q, tx_config).unwrap());
    let rx = queues.map(|q| device.open_rx(q, RxConfig::default()).unwrap());
    device.start().unwrap();
    let pool = device.chunk_pool(4, CHUNK).unwrap();
    Rig {
        on,
        flows: device.flow_table(),
        device,
        tx: tx.into(),
        rx: rx.into(),
        pool,
        done: Vec::new(),
        frames: Vec::new(),
    }
}

/// Ethernet, IPv4, TCP; checksums and lengths hold rubbish.
pub fn header(seq: u32, port: u16) -> [u8; HEADER] {
    let mut h = [0u8; HEADER];
    h[12..14].copy_from_slice(&[8, 0]);
    h[14] = 0x45;
    h[20] = 0x40;
    h[22..24].copy_from_slice(&[64, 6]);
    h[24..26].copy_from_slice(&[0xde, 0xad]);
    h[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    h[34..36].copy_from_slice(&port.to_be_bytes());
    h[36..38].copy_from_slice(&443u16.to_be_bytes());
    h[38..42].copy_from_slice(&seq.to_be_bytes());
    h[46..48].copy_from_slice(&[0x50, 0x10]);
    h[50..52].copy_from_slice(&[0xbe, 0xef]);
    h
}

pub fn burst<'a>(token: u64, header: &'a [u8], fragments: &'a [Fragment]) -> TxBurst<'a> {
    TxBurst {
        kind: Kind::Tso,
        ipv6: false,
        ip_id_fixed: false,
        cwr_all: false,
        complete_now: false,
        l2_len: 14,
        l3_len: 20,
        l4_len: 20,
        mss: MSS,
        header,
        fragments,
        flow: FlowSlot::UNPACED,
        rate: None,
        flow_limit: None,
        launch: None,
        token,
    }
}

/// The byte at position `i` of a stream.
pub fn payload(i: usize) -> u8 {
    (i * 31 + (i >> 8) * 7) as u8
}

impl Rig {
    /// Fills a chunk with the stream from `at` on.
    pub fn fill(&mut self, at: usize) -> u32 {
        let chunk = self.pool.allocate().unwrap();
        let bytes: Vec<u8> = (at..at + CHUNK as usize).map(payload).collect();
        self.pool.write(chunk, 0, &bytes);
        chunk
    }

    pub fn flush(&mut self) {
        for q in &mut self.tx {
            q.flush(self.device.function()).unwrap();
        }
        for q in &mut self.rx {
            q.flush(self.device.function()).unwrap();
        }
    }

    pub fn reap(&mut self) {
        for q in &mut self.tx {
            q.reap(&mut self.flows, usize::MAX, |c| self.done.push(*c));
        }
        for q in &mut self.rx {
            q.receive(usize::MAX, |f, meta| {
                assert_eq!(meta.ip_checksum, ChecksumVerdict::Ok);
                assert_eq!(meta.l4_checksum, ChecksumVerdict::Ok);
                self.frames.push(f.to_vec());
            });
        }
    }

    /// Runs until nothing is under way.
    pub fn settle(&mut self) {
        self.flush();
        loop {
            self.reap();
            self.flush();
            if self.device.wait(None).unwrap() == Wake::Idle {
                self.reap();
                return;
            }
        }
    }

    /// A device counter by its name.
    pub fn counter(&mut self, name: &str) -> u64 {
        let counters = self.device.counters().unwrap();
        counters.into_iter().find(|(n, _)| *n == name).unwrap().1
    }

    /// Tokens and ends of the completions so far.
    pub fn ends(&self) -> Vec<(u64, Option<Status>)> {
        self.done.iter().map(|c| (c.token, c.status())).collect()
    }
}
