// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues of an open device: set up, drained, reset alone, closed.

use crate::burst::{TxBuild, TxCompletion};
use crate::device::{Device, WAIT};
use crate::error::DriverError;
use crate::flow::FlowTable;
use crate::open::poll;
use crate::rx::{BUFFER_MIN, RxConfig, RxMemory, RxQueue};
use crate::tx::{ENTRY_BYTES, TxConfig, TxMemory, TxQueue, bursts_max};
use tsonic_pci::{DmaPermission, PciFunction};
use tsonic_regs::check::BuildLimits;
use tsonic_regs::completion::{COMPLETION_BYTES, WriteBack};
use tsonic_regs::descriptor::{RxDescriptor, TxDescriptor};
use tsonic_regs::limits::{RING_LOG2_MAX, RING_LOG2_MIN};
use tsonic_regs::registers::{QueueControl, RingSize, queue};
use tsonic_types::{Nanos, QueueId};

/// log2 of the largest completion ring.
const COMPLETION_LOG2_MAX: usize = 13;
/// What a queue that is turned off needs to end its fetches and frames.
const SETTLE: Nanos = Nanos::from_millis(1);

impl<F: PciFunction> Device<F> {
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
        let mut written = self.map(&[completions, WriteBack::BYTES], DmaPermission::ReadWrite)?;
        let memory = TxMemory {
            descriptors: read.take(ring),
            entries: read.take(entries),
            completions: written.take(completions),
            write_back: written.take(WriteBack::BYTES),
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

    pub(crate) fn enable_tx(&mut self, tx: &mut TxQueue) -> Result<(), DriverError> {
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
        let write_back = tx.fresh_write_back();
        self.set_write_back(q, write_back)?;
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
        // Its memory goes: nothing of its budget is written there any more.
        self.set_write_back(tx.id(), 0)?;
        self.disable_tx(&mut tx, flows, &mut each)?;
        let (ring, completions) = tx.ring_iovas();
        self.tx_taken[tx.id().index()] = false;
        self.unmap(ring)?;
        self.unmap(completions)
    }

    fn set_write_back(&mut self, q: QueueId, iova: u64) -> Result<(), DriverError> {
        self.write_queue64(q, queue::WRITE_BACK_LO, queue::WRITE_BACK_HI, iova)
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
        let ready = |_: &mut F| {
            tx.reap(flows, usize::MAX, &mut *each);
            Ok(tx.outstanding() == 0)
        };
        poll(&mut self.function, self.info.ticks, timeout, ready)
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

    pub(crate) fn enable_rx(&mut self, rx: &mut RxQueue) -> Result<(), DriverError> {
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
