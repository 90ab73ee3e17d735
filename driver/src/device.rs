// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device as a whole: opened, set up, its queues and memory handed out.

use crate::chunk::{CHUNK_MIN, ChunkPool};
use crate::error::DriverError;
use crate::flow::FlowTable;
use crate::memory::{Carver, DmaRegion};
use crate::rate::inverse_rate;
use crate::rx::{BUFFER_MIN, RxConfig, RxMemory, RxQueue};
use crate::tx::{
    BqlConfig, ENTRY_BYTES, TxBuild, TxCompletion, TxConfig, TxMemory, TxQueue, bursts_max,
};
use std::mem;
use std::sync::Arc;
use tracing::{debug, warn};
use tsonic_pci::{BusError, DmaPermission, PciFunction, Wake};
use tsonic_regs::check::BuildLimits;
use tsonic_regs::completion::COMPLETION_BYTES;
use tsonic_regs::descriptor::{RxDescriptor, TxDescriptor};
use tsonic_regs::limits::{
    FLOW_SLOTS_MAX, PAYLOAD_MAX, QUEUES_MAX, RING_LOG2_MAX, RING_LOG2_MIN, RSS_KEY, RSS_TABLE,
};
use tsonic_regs::registers::{
    Access, Control, DeviceStatus, Features, QueueControl, Register, RingSize, global, queue,
    queue_offset,
};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_types::{ByteRate, Nanos, QueueId, TickRate};

/// BAR of the registers.
const BAR: u8 = 0;
/// What a read of a device that is not there gives.
const ALL_ONES: u32 = u32::MAX;
/// First I/O virtual address: above 4 GiB, hence clear of the interrupt window.
const IOVA_BASE: u64 = 1 << 32;
/// Regions start at multiples of this, with at least as much unmapped behind each.
const IOVA_STEP: u64 = 1 << 21;
/// log2 of the largest completion ring.
const COMPLETION_LOG2_MAX: usize = 13;
/// Longest wait for a reset or for a queue to drain, on the device's clock.
const WAIT: Nanos = Nanos::from_millis(100);
/// What a queue that is turned off needs to end its fetches and frames.
const SETTLE: Nanos = Nanos::from_millis(1);
/// Steps in which it is waited.
const WAIT_STEPS: u64 = 1_000;

/// What the device says about itself. Does not change.
#[derive(Clone, Copy, Debug)]
pub struct DeviceInfo {
    /// Contract version: major in the upper 16 bits.
    pub contract_version: u32,
    /// First 32 bits of the build's hash.
    pub build_hash: u32,
    /// What the build can do.
    pub features: Features,
    /// Queue pairs.
    pub queues: u16,
    /// Rows of the flow table, slot 0 included.
    pub flow_slots: u32,
    /// Largest payload of a segment.
    pub max_segment: u32,
    /// Largest payload of a burst.
    pub max_payload: u32,
    /// Bits of the data path.
    pub width: u32,
    /// Frequency of the device's clock.
    pub ticks: TickRate,
}

/// An open device. Dropping it resets the function and unmaps all memory.
#[derive(Debug)]
pub struct Device<F: PciFunction> {
    function: F,
    info: DeviceInfo,
    /// Mapped memory, kept alive until it is unmapped.
    regions: Vec<Arc<DmaRegion>>,
    next_iova: u64,
    tx_taken: Vec<bool>,
    rx_taken: Vec<bool>,
}

impl<F: PciFunction> Device<F> {
    /// Opens a function: checks that it is a tsonic NIC of a contract that this
    /// driver speaks, resets it, and reads its limits. Nothing moves before
    /// [`Device::start`].
    ///
    /// # Errors
    /// [`DriverError`], each with what to do about it.
    pub fn open(mut function: F) -> Result<Device<F>, DriverError> {
        identify(&mut function)?;
        function.reset()?;
        await_reset(&mut function)?;
        let info = read_info(&mut function)?;
        debug!(?info, "opened");
        Ok(Device {
            function,
            regions: Vec::new(),
            next_iova: IOVA_BASE,
            tx_taken: vec![false; usize::from(info.queues)],
            rx_taken: vec![false; usize::from(info.queues)],
            info,
        })
    }

    /// What the device says about itself.
    pub const fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The function, to flush queues with.
    pub const fn function(&mut self) -> &mut F {
        &mut self.function
    }

    /// The device's clock.
    pub fn now(&mut self) -> Nanos {
        let now = self.function.now();
        self.info.ticks.to_nanos(now)
    }

    /// Waits for completions, or until the device's clock reads `deadline`.
    ///
    /// # Errors
    /// [`DriverError::Bus`]: the device is gone.
    pub fn wait(&mut self, deadline: Option<Nanos>) -> Result<Wake, DriverError> {
        let deadline = deadline.map(|d| self.info.ticks.to_ticks_ceil(d));
        Ok(self.function.wait(deadline)?)
    }

    /// The device fetches, sends and receives from now on.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn start(&mut self) -> Result<(), DriverError> {
        self.set_running(true)
    }

    /// The device stops fetching and receiving; what it has fetched departs.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn stop(&mut self) -> Result<(), DriverError> {
        self.set_running(false)
    }

    fn set_running(&mut self, running: bool) -> Result<(), DriverError> {
        let mut control = Control(0);
        control.set_enable(running.into());
        self.write(global::CONTROL, control.0)
    }

    /// Whether no burst is in the device, no request outstanding and the wire
    /// port empty.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn is_idle(&mut self) -> Result<bool, DriverError> {
        let status = DeviceStatus(self.function.read32(BAR, global::STATUS.offset as u64)?);
        Ok(status.idle() == 1)
    }

    /// All rows of the device's flow table. Take it once, or split the rows by
    /// [`FlowTable::new`] among shards.
    pub fn flow_table(&self) -> FlowTable {
        FlowTable::new(0..self.info.flow_slots)
    }

    /// RSS key, and the queue of each row of the indirection table.
    ///
    /// # Errors
    /// [`DriverError::NotSupported`], [`DriverError::NoSuchQueue`],
    /// [`DriverError::Bus`].
    pub fn set_rss(
        &mut self,
        key: &[u8; RSS_KEY],
        table: &[QueueId; RSS_TABLE],
    ) -> Result<(), DriverError> {
        if self.info.features.rss() == 0 {
            return Err(DriverError::NotSupported("receive-side scaling"));
        }
        for q in table {
            self.check_queue(*q)?;
        }
        for (i, word) in key.as_chunks().0.iter().enumerate() {
            self.write_row(global::RSS_KEY, i, u32::from_le_bytes(*word))?;
        }
        for (i, q) in table.iter().enumerate() {
            self.write_row(global::RSS_TABLE, i, u32::from(q.0))?;
        }
        Ok(())
    }

    /// Indirection table that spreads its rows over the first `queues` queues in
    /// turn (0 counts as 1).
    pub fn rss_round_robin(queues: u16) -> [QueueId; RSS_TABLE] {
        std::array::from_fn(|row| QueueId((row % usize::from(queues.max(1))) as u16))
    }

    /// Lateness debt D of the pacer: how much lateness a flow may make up for.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn set_lateness_debt(&mut self, debt: Nanos) -> Result<(), DriverError> {
        self.write_ticks(global::LATENESS_DEBT, debt, 0)
    }

    /// Period of the budgets' credit flush; at least one tick.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn set_credit_flush(&mut self, period: Nanos) -> Result<(), DriverError> {
        self.write_ticks(global::CREDIT_FLUSH, period, 1)
    }

    /// Sojourn above which a new burst is told of congestion.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn set_congestion_target(&mut self, target: Nanos) -> Result<(), DriverError> {
        self.write_ticks(global::CN_TARGET, target, 0)
    }

    /// How far ahead launch times may lie.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn set_horizon(&mut self, horizon: Nanos) -> Result<(), DriverError> {
        self.write_ticks(global::HORIZON, horizon, 0)
    }

    /// Interrupt moderation of a queue pair: completions that are gathered
    /// before one interrupt, and how long one waits for others (0 in either: off).
    ///
    /// # Errors
    /// [`DriverError::NoSuchQueue`], [`DriverError::Bus`].
    pub fn set_moderation(
        &mut self,
        q: QueueId,
        count: u32,
        wait: Nanos,
    ) -> Result<(), DriverError> {
        self.check_queue(q)?;
        let ticks = self.register_ticks(wait);
        self.write_queue(q, queue::COALESCE_COUNT, count)?;
        self.write_queue(q, queue::COALESCE_TICKS, ticks)
    }

    /// Rate of a whole queue in wire bytes per second.
    ///
    /// # Errors
    /// [`DriverError::NoSuchQueue`], [`DriverError::Bus`].
    pub fn set_queue_rate(&mut self, q: QueueId, rate: ByteRate) -> Result<(), DriverError> {
        self.check_queue(q)?;
        let inv = inverse_rate(rate, self.info.ticks);
        self.write_queue64(q, queue::TX_RATE_LO, queue::TX_RATE_HI, inv)
    }

    /// Share of a queue in deficit round robin, in wire bytes a round.
    ///
    /// # Errors
    /// [`DriverError::NoSuchQueue`], [`DriverError::BadSetting`],
    /// [`DriverError::Bus`].
    pub fn set_quantum(&mut self, q: QueueId, quantum: u32) -> Result<(), DriverError> {
        self.check_queue(q)?;
        if !(1..=65_535).contains(&quantum) {
            return Err(DriverError::BadSetting {
                name: "quantum",
                value: quantum.into(),
                range: "1 to 65,535",
            });
        }
        self.write_queue(q, queue::TX_QUANTUM, quantum)
    }

    /// Byte budget of a queue.
    ///
    /// # Errors
    /// [`DriverError::NoSuchQueue`], [`DriverError::Bus`].
    pub fn set_bql(&mut self, q: QueueId, bql: &BqlConfig) -> Result<(), DriverError> {
        self.check_queue(q)?;
        let (hold, stall) = (
            self.register_ticks(bql.hold),
            self.register_ticks(bql.stall),
        );
        self.write_queue(q, queue::BQL_MIN, bql.min)?;
        self.write_queue(q, queue::BQL_MAX, bql.max)?;
        self.write_queue(q, queue::BQL_HOLD, hold)?;
        self.write_queue(q, queue::BQL_STALL, stall)?;
        self.write_queue(q, queue::BQL_LIMIT, bql.limit)
    }

    /// Sets up and enables the transmit side of a queue pair.
    ///
    /// # Errors
    /// [`DriverError`]; the queue is as before then.
    pub fn open_tx(&mut self, q: QueueId, config: TxConfig) -> Result<TxQueue, DriverError> {
        self.check_queue(q)?;
        check_log2("transmit ring", config.ring_log2, RING_LOG2_MAX)?;
        check_log2(
            "transmit completion ring",
            config.completion_log2,
            COMPLETION_LOG2_MAX,
        )?;
        if self.tx_taken[q.index()] {
            return Err(DriverError::QueueInUse(q));
        }
        let ring = TxDescriptor::BYTES << config.ring_log2;
        let entries = ENTRY_BYTES * bursts_max(config.completion_log2);
        let mut read = self.map(&[ring, entries], DmaPermission::Read)?;
        let completions = COMPLETION_BYTES << config.completion_log2;
        let mut written = self.map(&[completions], DmaPermission::ReadWrite)?;
        let memory = TxMemory {
            descriptors: read.take(ring),
            entries: read.take(entries),
            completions: written.take(completions),
        };
        let build = TxBuild {
            limits: BuildLimits {
                features: self.info.features,
                flow_slots: self.info.flow_slots,
                max_segment: self.info.max_segment,
            },
            max_payload: self.info.max_payload,
            ticks: self.info.ticks,
        };
        let mut tx = TxQueue::new(q, config, build, memory);
        self.enable_tx(&mut tx)?;
        self.tx_taken[q.index()] = true;
        Ok(tx)
    }

    fn enable_tx(&mut self, tx: &mut TxQueue) -> Result<(), DriverError> {
        let (q, config) = (tx.id(), *tx.config());
        let (ring, completions) = tx.ring_iovas();
        self.write_queue64(q, queue::TX_RING_LO, queue::TX_RING_HI, ring)?;
        let (lo, hi) = (queue::TX_COMPLETION_LO, queue::TX_COMPLETION_HI);
        self.write_queue64(q, lo, hi, completions)?;
        let size = ring_size(config.ring_log2, config.completion_log2);
        self.write_queue(q, queue::TX_RING_SIZE, size)?;
        if let Some(quantum) = config.quantum {
            self.set_quantum(q, quantum)?;
        }
        if let Some(rate) = config.rate {
            self.set_queue_rate(q, rate)?;
        }
        if let Some(bql) = &config.bql {
            self.set_bql(q, bql)?;
        }
        self.write_queue(q, queue::TX_CONTROL, enabled(true))?;
        tx.set_enabled(true);
        Ok(())
    }

    /// Waits until every burst of a queue has completed. No more bursts are taken
    /// meanwhile; completions go to `each`.
    ///
    /// # Errors
    /// [`DriverError::NotDrained`] when `timeout` has passed on the device's
    /// clock (bursts of slow flows may wait for long); [`DriverError::Bus`].
    pub fn drain_tx(
        &mut self,
        tx: &mut TxQueue,
        flows: &mut FlowTable,
        timeout: Nanos,
        mut each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        tx.flush(&mut self.function)?;
        let was_enabled = tx.is_enabled();
        tx.set_enabled(false);
        let drained = self.await_empty(tx, flows, timeout, &mut each)?;
        tx.set_enabled(was_enabled);
        if drained {
            return Ok(());
        }
        Err(not_drained(tx, timeout))
    }

    /// Takes every burst of a queue out of the device: what is on its way to the
    /// wire still departs, the rest completes with
    /// [`tsonic_regs::Status::QueueReset`], as do bursts that were not fetched yet.
    /// Then the queue starts again with empty rings. Other queues go on.
    ///
    /// # Errors
    /// [`DriverError::NotDrained`] when the device keeps bursts for 100 ms: reset
    /// it as a whole; [`DriverError::Bus`].
    pub fn reset_tx(
        &mut self,
        tx: &mut TxQueue,
        flows: &mut FlowTable,
        mut each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        self.disable_tx(tx, flows, &mut each)?;
        self.restart_tx(tx)
    }

    /// Turns a queue off for good, takes its bursts out of the device as
    /// [`Device::reset_tx`] does, and frees its memory.
    ///
    /// # Errors
    /// As [`Device::reset_tx`]; the memory then stays until the device is closed.
    pub fn close_tx(
        &mut self,
        mut tx: TxQueue,
        flows: &mut FlowTable,
        mut each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        self.disable_tx(&mut tx, flows, &mut each)?;
        let (ring, completions) = tx.ring_iovas();
        self.tx_taken[tx.id().index()] = false;
        self.unmap(ring)?;
        self.unmap(completions)
    }

    fn disable_tx(
        &mut self,
        tx: &mut TxQueue,
        flows: &mut FlowTable,
        each: &mut impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        // Staged bursts become published ones, which is what is accounted for.
        tx.flush(&mut self.function)?;
        tx.set_enabled(false);
        self.write_queue(tx.id(), queue::TX_CONTROL, enabled(false))?;
        // What the device has fetched it completes; what it has not, never. Long
        // enough for any fetch that was under way and any frame being sent.
        if !self.await_empty(tx, flows, SETTLE, each)? {
            tx.abandon_unfetched(flows, &mut *each);
        }
        if tx.outstanding() > 0 && !self.await_empty(tx, flows, WAIT, each)? {
            return Err(not_drained(tx, WAIT));
        }
        Ok(())
    }

    /// Reaps until nothing is outstanding; false when `timeout` has passed.
    fn await_empty(
        &mut self,
        tx: &mut TxQueue,
        flows: &mut FlowTable,
        timeout: Nanos,
        each: &mut impl FnMut(&TxCompletion),
    ) -> Result<bool, DriverError> {
        let start = self.now();
        let step = Nanos((timeout.0 / WAIT_STEPS).max(1));
        let mut due = start;
        for _ in 0..=WAIT_STEPS {
            tx.reap(flows, usize::MAX, &mut *each);
            if tx.outstanding() == 0 {
                return Ok(true);
            }
            due += step;
            self.wait(Some(due))?;
        }
        tx.reap(flows, usize::MAX, &mut *each);
        Ok(tx.outstanding() == 0)
    }

    /// Turns an empty transmit queue on again, with its rings at their start.
    ///
    /// # Errors
    /// [`DriverError::NotDrained`] when bursts of it are in the device;
    /// [`DriverError::Bus`].
    pub fn restart_tx(&mut self, tx: &mut TxQueue) -> Result<(), DriverError> {
        if tx.outstanding() > 0 {
            return Err(not_drained(tx, Nanos::ZERO));
        }
        self.write_queue(tx.id(), queue::TX_CONTROL, enabled(false))?;
        tx.rewind();
        self.enable_tx(tx)
    }

    /// Sets up and enables the receive side of a queue pair, all buffers posted.
    ///
    /// # Errors
    /// [`DriverError`]; the queue is as before then.
    pub fn open_rx(&mut self, q: QueueId, config: RxConfig) -> Result<RxQueue, DriverError> {
        self.check_queue(q)?;
        check_log2("receive ring", config.ring_log2, RING_LOG2_MAX)?;
        check_log2(
            "receive completion ring",
            config.completion_log2,
            COMPLETION_LOG2_MAX,
        )?;
        if config.buffer_bytes < BUFFER_MIN || !config.buffer_bytes.is_multiple_of(8) {
            return Err(DriverError::BadSetting {
                name: "buffer_bytes",
                value: config.buffer_bytes.into(),
                range: "a multiple of 8 from 64 to 65,528",
            });
        }
        if self.rx_taken[q.index()] {
            return Err(DriverError::QueueInUse(q));
        }
        let ring = RxDescriptor::BYTES << config.ring_log2;
        let mut read = self.map(&[ring], DmaPermission::Read)?;
        let completions = COMPLETION_BYTES << config.completion_log2;
        let buffers = usize::from(config.buffer_bytes) * config.buffers();
        let mut written = self.map(&[completions, buffers], DmaPermission::ReadWrite)?;
        let memory = RxMemory {
            descriptors: read.take(ring),
            completions: written.take(completions),
            buffers: written.take(buffers),
        };
        let mut rx = RxQueue::new(q, config, self.info.ticks, memory);
        rx.post_all();
        self.enable_rx(&mut rx)?;
        self.rx_taken[q.index()] = true;
        Ok(rx)
    }

    fn enable_rx(&mut self, rx: &mut RxQueue) -> Result<(), DriverError> {
        let (q, config) = (rx.id(), *rx.config());
        let (ring, completions) = rx.ring_iovas();
        self.write_queue64(q, queue::RX_RING_LO, queue::RX_RING_HI, ring)?;
        let (lo, hi) = (queue::RX_COMPLETION_LO, queue::RX_COMPLETION_HI);
        self.write_queue64(q, lo, hi, completions)?;
        let size = ring_size(config.ring_log2, config.completion_log2);
        self.write_queue(q, queue::RX_RING_SIZE, size)?;
        self.write_queue(q, queue::RX_CONTROL, enabled(true))?;
        rx.flush(&mut self.function)?;
        Ok(())
    }

    /// Turns the receive side of a queue pair off and frees its memory. Frames for
    /// it are dropped from now on.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn close_rx(&mut self, rx: RxQueue) -> Result<(), DriverError> {
        self.write_queue(rx.id(), queue::RX_CONTROL, enabled(false))?;
        self.rx_taken[rx.id().index()] = false;
        let (ring, completions) = rx.ring_iovas();
        self.unmap(ring)?;
        self.unmap(completions)
    }

    /// Resets the whole device. Every burst in it is given to `each` with
    /// [`tsonic_regs::Status::QueueReset`]; the queues are set up again with empty
    /// rings, and so are the receive buffers. RSS, moderation and the global
    /// settings are as after power-on; call [`Device::start`] after setting them.
    ///
    /// Queues that are not given stay off for good.
    ///
    /// # Errors
    /// [`DriverError::ResetTimedOut`], [`DriverError::Bus`].
    pub fn reset(
        &mut self,
        tx: &mut [TxQueue],
        rx: &mut [RxQueue],
        flows: &mut FlowTable,
        mut each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        self.function.reset()?;
        await_reset(&mut self.function)?;
        for q in tx {
            // What completed before the reset did so with its own status.
            q.reap(flows, usize::MAX, &mut each);
            q.abandon_all(flows, &mut each);
            q.rewind();
            self.enable_tx(q)?;
        }
        for q in rx {
            q.rewind();
            self.enable_rx(q)?;
        }
        Ok(())
    }

    /// A pool of `chunks` chunks of `chunk_bytes` bytes (a multiple of 64, at
    /// least 16 KiB) that the device may read.
    ///
    /// # Errors
    /// [`DriverError::BadSetting`], [`DriverError::Memory`], [`DriverError::Bus`].
    pub fn chunk_pool(&mut self, chunks: u32, chunk_bytes: u32) -> Result<ChunkPool, DriverError> {
        if (chunk_bytes as usize) < CHUNK_MIN || !chunk_bytes.is_multiple_of(64) {
            return Err(DriverError::BadSetting {
                name: "chunk_bytes",
                value: chunk_bytes.into(),
                range: "a multiple of 64 from 16,384",
            });
        }
        let bytes = u64::from(chunks) * u64::from(chunk_bytes);
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if bytes == 0 || bytes > isize::MAX as usize {
            return Err(DriverError::BadSetting {
                name: "chunks",
                value: chunks.into(),
                range: "at least 1, and what fits into memory",
            });
        }
        let memory = self.map(&[bytes], DmaPermission::Read)?.take(bytes);
        Ok(ChunkPool::new(memory, chunk_bytes, chunks))
    }

    /// The device's own counters, by register name.
    ///
    /// # Errors
    /// [`DriverError::Bus`].
    pub fn counters(&mut self) -> Result<Vec<(&'static str, u64)>, DriverError> {
        const FIRST: usize = global::TX_FRAMES.offset;
        let is_counter =
            |r: &&Register| r.offset >= FIRST && r.count == 2 && matches!(r.access, Access::Ro);
        global::REGISTERS
            .iter()
            .filter(is_counter)
            .map(|r| Ok((r.name, read64(&mut self.function, *r)?)))
            .collect()
    }

    /// Memory for slices of those sizes, mapped for the device.
    fn map(&mut self, slices: &[usize], permission: DmaPermission) -> Result<Carver, DriverError> {
        let bytes = Carver::bytes_for(slices);
        let region = DmaRegion::allocate(bytes, self.next_iova, permission)?;
        let (memory, bytes) = (region.memory(), region.bytes());
        // SAFETY: the region is kept in `self.regions` until it is unmapped (or for
        // ever, if that fails), and is touched through raw pointers only.
        unsafe {
            self.function
                .dma_map(memory, bytes, region.iova(), permission)?
        };
        let end = region.iova() + bytes as u64;
        self.next_iova = end.next_multiple_of(IOVA_STEP) + IOVA_STEP;
        let region = Arc::new(region);
        self.regions.push(Arc::clone(&region));
        // SAFETY: the region is new, and this its only carver.
        Ok(unsafe { Carver::new(region) })
    }

    /// Takes memory back from the device. It is freed with its last slice.
    fn unmap(&mut self, iova: u64) -> Result<(), DriverError> {
        let Some(at) = self.regions.iter().position(|r| r.iova() == iova) else {
            return Ok(());
        };
        self.function.dma_unmap(iova, self.regions[at].bytes())?;
        self.regions.swap_remove(at);
        Ok(())
    }

    fn check_queue(&self, q: QueueId) -> Result<(), DriverError> {
        if q.0 < self.info.queues {
            return Ok(());
        }
        Err(DriverError::NoSuchQueue {
            queue: q,
            queues: self.info.queues,
        })
    }

    fn write(&mut self, register: Register, value: u32) -> Result<(), DriverError> {
        self.write_row(register, 0, value)
    }

    fn write_row(&mut self, register: Register, i: usize, value: u32) -> Result<(), DriverError> {
        let offset = register.offset + 4 * i;
        Ok(self.function.write32(BAR, offset as u64, value)?)
    }

    fn write_queue(&mut self, q: QueueId, r: Register, value: u32) -> Result<(), DriverError> {
        let offset = queue_offset(q.index(), r);
        Ok(self.function.write32(BAR, offset as u64, value)?)
    }

    /// Low half first: the value takes effect with the high half.
    fn write_queue64(
        &mut self,
        q: QueueId,
        lo: Register,
        hi: Register,
        value: u64,
    ) -> Result<(), DriverError> {
        self.write_queue(q, lo, value as u32)?;
        self.write_queue(q, hi, (value >> 32) as u32)
    }

    /// A span in ticks, rounded up, as much of it as a register holds.
    fn register_ticks(&self, span: Nanos) -> u32 {
        let ticks = self.info.ticks.to_ticks_ceil(span).0;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    fn write_ticks(&mut self, r: Register, span: Nanos, least: u32) -> Result<(), DriverError> {
        let ticks = self.register_ticks(span).max(least);
        self.write(r, ticks)
    }
}

impl<F: PciFunction> Drop for Device<F> {
    fn drop(&mut self) {
        if let Err(e) = self.function.reset() {
            warn!("the device was not reset when it was closed: {e}");
        }
        for region in mem::take(&mut self.regions) {
            match self.function.dma_unmap(region.iova(), region.bytes()) {
                // The device touches none of it any more.
                Ok(()) | Err(BusError::NotMapped { .. }) => drop(region),
                Err(e) => {
                    // It might: better lose the memory than have it written to.
                    warn!("{} bytes of DMA memory are leaked: {e}", region.bytes());
                    mem::forget(region);
                }
            }
        }
    }
}

fn not_drained(tx: &TxQueue, waited: Nanos) -> DriverError {
    DriverError::NotDrained {
        queue: tx.id(),
        outstanding: tx.outstanding(),
        millis: waited.as_millis(),
    }
}

fn enabled(on: bool) -> u32 {
    let mut control = QueueControl(0);
    control.set_enable(on.into());
    control.0
}

fn ring_size(ring_log2: u8, completion_log2: u8) -> u32 {
    let mut size = RingSize(0);
    size.set_ring_log2(ring_log2);
    size.set_completion_log2(completion_log2);
    size.0
}

fn check_log2(what: &'static str, log2: u8, max: usize) -> Result<(), DriverError> {
    if (RING_LOG2_MIN..=max).contains(&usize::from(log2)) {
        return Ok(());
    }
    Err(DriverError::RingSize {
        what,
        log2,
        min: RING_LOG2_MIN,
        max,
    })
}

fn read<F: PciFunction>(function: &mut F, register: Register) -> Result<u32, DriverError> {
    Ok(function.read32(BAR, register.offset as u64)?)
}

/// A counter in two halves: the high half is read again until it stood still. It
/// turns once in 2^32 counts, so a second turn in a row means a broken device.
fn read64<F: PciFunction>(function: &mut F, register: Register) -> Result<u64, DriverError> {
    let (lo_at, hi_at) = (register.offset as u64, register.offset as u64 + 4);
    let mut hi = function.read32(BAR, hi_at)?;
    for _ in 0..3 {
        let lo = function.read32(BAR, lo_at)?;
        let before = mem::replace(&mut hi, function.read32(BAR, hi_at)?);
        if before == hi {
            return Ok(u64::from(hi) << 32 | u64::from(lo));
        }
    }
    Err(DriverError::NotResponding)
}

fn identify<F: PciFunction>(function: &mut F) -> Result<(), DriverError> {
    match read(function, global::MAGIC)? {
        MAGIC => {}
        ALL_ONES => return Err(DriverError::NotResponding),
        found => return Err(DriverError::WrongMagic { found }),
    }
    check_version(read(function, global::CONTRACT_VERSION)?, CONTRACT_VERSION)
}

/// The same major number, and a minor one that has all this driver uses.
fn check_version(device: u32, driver: u32) -> Result<(), DriverError> {
    if device >> 16 != driver >> 16 {
        return Err(DriverError::ContractMajor { device, driver });
    }
    if device & 0xffff < driver & 0xffff {
        return Err(DriverError::ContractMinor { device, driver });
    }
    Ok(())
}

fn await_reset<F: PciFunction>(function: &mut F) -> Result<(), DriverError> {
    let rate = read_tick_rate(function)?;
    let start = rate.to_nanos(function.now());
    for step in 0..=WAIT_STEPS {
        if Control(read(function, global::CONTROL)?).reset() == 0 {
            return Ok(());
        }
        let due = start + Nanos(WAIT.0 / WAIT_STEPS * (step + 1));
        function.wait(Some(rate.to_ticks_ceil(due)))?;
    }
    Err(DriverError::ResetTimedOut {
        millis: WAIT.as_millis(),
    })
}

fn read_tick_rate<F: PciFunction>(function: &mut F) -> Result<TickRate, DriverError> {
    let value = read(function, global::TICK_HZ)?;
    let register = global::TICK_HZ.name;
    TickRate::new(value).ok_or(DriverError::BadLimit { register, value })
}

fn read_info<F: PciFunction>(function: &mut F) -> Result<DeviceInfo, DriverError> {
    let mut limit = |register: Register, max: usize| {
        let value = read(function, register)?;
        if (1..=max).contains(&(value as usize)) {
            Ok(value)
        } else {
            Err(DriverError::BadLimit {
                register: register.name,
                value,
            })
        }
    };
    let queues = limit(global::QUEUES, QUEUES_MAX)?;
    let flow_slots = limit(global::FLOW_SLOTS, FLOW_SLOTS_MAX)?;
    let max_segment = limit(global::MAX_SEGMENT, PAYLOAD_MAX)?;
    let max_payload = limit(global::MAX_PAYLOAD, PAYLOAD_MAX)?;
    Ok(DeviceInfo {
        contract_version: read(function, global::CONTRACT_VERSION)?,
        build_hash: read(function, global::BUILD_HASH)?,
        features: Features(read(function, global::FEATURES)?),
        // At most QUEUES_MAX.
        queues: queues as u16,
        flow_slots,
        max_segment,
        max_payload,
        width: read(function, global::WIDTH)?,
        ticks: read_tick_rate(function)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(check_version(0x0001_0003, 0x0001_0003).is_ok());
        assert!(check_version(0x0001_0004, 0x0001_0003).is_ok());
        let refusal = |device| check_version(device, 0x0001_0003).unwrap_err().to_string();
        assert_eq!(
            refusal(0x0002_0003),
            "the device speaks contract 2.3, this driver 1.3: load a bitstream built for \
             contract 1.x, or use the driver that came with the bitstream"
        );
        assert_eq!(
            refusal(0x0001_0002),
            "the device speaks contract 1.2, older than this driver's 1.3: load a newer \
             bitstream, or use an older driver"
        );
    }
}
