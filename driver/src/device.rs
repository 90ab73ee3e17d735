// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device as a whole: opened, set up, its queues and memory handed out.

use crate::burst::TxCompletion;
use crate::chunk::{CHUNK_MIN, ChunkPool};
use crate::error::DriverError;
use crate::flow::FlowTable;
use crate::memory::{Carver, DmaRegion};
use crate::open::{DeviceInfo, await_reset, identify, read_info};
use crate::poll::BusyPoll;
use crate::rx::RxQueue;
use crate::tx::TxQueue;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{debug, warn};
use tsonic_pci::{BusError, DmaPermission, PciFunction, Wake};
use tsonic_regs::pci::vectors;
use tsonic_regs::registers::{Access, Control, DeviceStatus, Register, global, queue_offset};
use tsonic_types::{Nanos, QueueId};

/// BAR of the registers.
pub(crate) const BAR: u8 = 0;
/// First I/O virtual address: above 4 GiB, hence clear of the interrupt window.
const IOVA_BASE: u64 = 1 << 32;
/// Regions start at multiples of this, with at least as much unmapped behind each.
const IOVA_STEP: u64 = 1 << 21;
/// Pauses between two looks at the rings.
const SPINS: u32 = 16;
/// Longest wait for a reset or for a queue to drain, on the device's clock.
pub(crate) const WAIT: Nanos = Nanos::from_millis(100);

/// An open device. Dropping it resets the function and unmaps all memory.
#[derive(Debug)]
pub struct Device<F: PciFunction> {
    pub(crate) function: F,
    pub(crate) info: DeviceInfo,
    /// Mapped memory, kept alive until it is unmapped.
    regions: Vec<Arc<DmaRegion>>,
    next_iova: u64,
    pub(crate) tx_taken: Vec<bool>,
    pub(crate) rx_taken: Vec<bool>,
    busy_poll: BusyPoll,
    /// All vectors are masked.
    masked: bool,
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
        function.set_bus_master(true)?;
        if function.vectors() > 0 {
            // One a queue pair, and one for the device's events.
            function.enable_vectors(vectors(usize::from(info.queues)) as u16)?;
        }
        debug!(?info, "opened");
        Ok(Device {
            function,
            regions: Vec::new(),
            next_iova: IOVA_BASE,
            tx_taken: vec![false; usize::from(info.queues)],
            rx_taken: vec![false; usize::from(info.queues)],
            busy_poll: BusyPoll::for_this_machine(),
            masked: false,
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
        self.set_masked(false)?;
        Ok(self.function.wait(deadline)?)
    }

    /// As [`Device::wait`], but looks for completions itself for a while before it
    /// sleeps, where sleeping would take longer (see [`crate::poll`]); `ready` says
    /// whether there are any. In virtual time it does not look: time would stand still.
    ///
    /// Vectors are masked while it looks, and it looks once more after they are not: what
    /// comes later fires.
    ///
    /// # Errors
    /// [`DriverError::Bus`]: the device is gone.
    pub fn wait_for(
        &mut self,
        deadline: Option<Nanos>,
        mut ready: impl FnMut() -> bool,
    ) -> Result<Wake, DriverError> {
        if !self.function.runs_by_itself() || self.function.vectors() == 0 {
            return self.wait(deadline);
        }
        let window = self.busy_poll.window();
        let started = Instant::now();
        if !window.is_zero() {
            self.set_masked(true)?;
            loop {
                if ready() {
                    self.busy_poll.waited(started.elapsed());
                    return Ok(Wake::Completion);
                }
                if started.elapsed() >= window {
                    break;
                }
                for _ in 0..SPINS {
                    std::hint::spin_loop();
                }
            }
        }
        if self.set_masked(false)? && ready() {
            return Ok(Wake::Completion);
        }
        let wake = self.wait(deadline)?;
        self.busy_poll.waited(started.elapsed());
        Ok(wake)
    }

    /// Says whether that changed anything.
    fn set_masked(&mut self, masked: bool) -> Result<bool, DriverError> {
        let change = self.masked != masked;
        if change {
            self.function.mask_all(masked)?;
            self.masked = masked;
        }
        Ok(change)
    }

    /// How long [`Device::wait_for`] may look at most; zero: it always sleeps.
    pub fn set_busy_poll(&mut self, most: Duration) {
        self.busy_poll = BusyPoll::new(most);
    }

    /// Gives up every burst of a queue whose device is gone, after reaping what it had
    /// completed: each burst posted is handed to `each` once, with its own status or with
    /// [`tsonic_regs::Status::QueueReset`]. The queue takes no more.
    pub fn abandon(tx: &mut TxQueue, flows: &mut FlowTable, mut each: impl FnMut(&TxCompletion)) {
        tx.set_enabled(false);
        tx.reap(flows, usize::MAX, &mut each);
        tx.abandon_all(flows, &mut each);
    }

    /// Moves the vectors that fired since the last call to `out`: queue pairs by their
    /// number, and after them that of the device's events. Says whether there were any.
    pub fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        self.function.take_fired(out)
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
        // A reset unmasks.
        self.masked = false;
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
    pub(crate) fn map(
        &mut self,
        slices: &[usize],
        permission: DmaPermission,
    ) -> Result<Carver, DriverError> {
        let bytes = Carver::bytes_for(slices);
        let region = DmaRegion::allocate(bytes, self.next_iova, permission)?;
        // SAFETY: the region is kept in `self.regions` until it is unmapped (or for
        // ever, if that fails), and is touched through raw pointers only.
        unsafe {
            self.function
                .dma_map(region.buffer(), region.iova(), permission)?
        };
        let end = region.iova() + region.bytes() as u64;
        self.next_iova = end.next_multiple_of(IOVA_STEP) + IOVA_STEP;
        let region = Arc::new(region);
        self.regions.push(Arc::clone(&region));
        // SAFETY: the region is new, and this its only carver.
        Ok(unsafe { Carver::new(region) })
    }

    /// Takes memory back from the device. It is freed with its last slice.
    pub(crate) fn unmap(&mut self, iova: u64) -> Result<(), DriverError> {
        let Some(at) = self.regions.iter().position(|r| r.iova() == iova) else {
            return Ok(());
        };
        self.function.dma_unmap(iova, self.regions[at].bytes())?;
        self.regions.swap_remove(at);
        Ok(())
    }

    pub(crate) fn check_queue(&self, q: QueueId) -> Result<(), DriverError> {
        if q.0 < self.info.queues {
            return Ok(());
        }
        Err(DriverError::NoSuchQueue {
            queue: q,
            queues: self.info.queues,
        })
    }

    pub(crate) fn write(&mut self, register: Register, value: u32) -> Result<(), DriverError> {
        self.write_row(register, 0, value)
    }

    pub(crate) fn write_row(
        &mut self,
        register: Register,
        i: usize,
        value: u32,
    ) -> Result<(), DriverError> {
        let offset = register.offset + 4 * i;
        Ok(self.function.write32(BAR, offset as u64, value)?)
    }

    pub(crate) fn write_queue(
        &mut self,
        q: QueueId,
        r: Register,
        value: u32,
    ) -> Result<(), DriverError> {
        let offset = queue_offset(q.index(), r);
        Ok(self.function.write32(BAR, offset as u64, value)?)
    }

    pub(crate) fn read_queue(&mut self, q: QueueId, r: Register) -> Result<u32, DriverError> {
        let offset = queue_offset(q.index(), r);
        Ok(self.function.read32(BAR, offset as u64)?)
    }

    /// Low half first: the value takes effect with the high half.
    pub(crate) fn write_queue64(
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
    pub(crate) fn register_ticks(&self, span: Nanos) -> u32 {
        let ticks = self.info.ticks.to_ticks_ceil(span).0;
        u32::try_from(ticks).unwrap_or(u32::MAX)
    }

    pub(crate) fn write_ticks(
        &mut self,
        r: Register,
        span: Nanos,
        least: u32,
    ) -> Result<(), DriverError> {
        let ticks = self.register_ticks(span).max(least);
        self.write(r, ticks)
    }
}

impl<F: PciFunction> Drop for Device<F> {
    fn drop(&mut self) {
        let off = |f: &mut F| {
            f.reset()?;
            f.disable_vectors()?;
            f.set_bus_master(false)
        };
        if let Err(e) = off(&mut self.function) {
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
