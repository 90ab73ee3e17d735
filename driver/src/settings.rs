// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of an open device, in units that people use.

use crate::device::Device;
use crate::error::DriverError;
use crate::rate::inverse_rate;
use crate::tx::{BqlConfig, TxConfig, TxQueue};
use tsonic_pci::PciFunction;
use tsonic_regs::limits::{RSS_KEY, RSS_TABLE};
use tsonic_regs::registers::{global, queue};
use tsonic_types::{ByteRate, Nanos, QueueId, Ticks};

impl<F: PciFunction> Device<F> {
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

    /// Interrupt moderation of a queue pair as the device holds it: completions,
    /// and the wait rounded up to the clock.
    ///
    /// # Errors
    /// [`DriverError::NoSuchQueue`], [`DriverError::Bus`].
    pub fn moderation(&mut self, q: QueueId) -> Result<(u32, Nanos), DriverError> {
        self.check_queue(q)?;
        let count = self.read_queue(q, queue::COALESCE_COUNT)?;
        let ticks = self.read_queue(q, queue::COALESCE_TICKS)?;
        Ok((count, self.register_nanos(ticks)))
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

    /// Changes quantum, rate and byte budget of an open queue to those of `config`,
    /// where they are given and differ, and keeps them over a reset of the queue.
    /// The device takes them with its next decision; the rings stay as they are.
    ///
    /// # Errors
    /// [`DriverError::NotSupported`], [`DriverError::BadSetting`],
    /// [`DriverError::Bus`].
    pub fn retune_tx(&mut self, tx: &mut TxQueue, config: &TxConfig) -> Result<(), DriverError> {
        let (q, old) = (tx.id(), *tx.config());
        if let Some(bql) = config.bql.filter(|b| old.bql != Some(*b)) {
            if self.info.features.bql() == 0 {
                return Err(DriverError::NotSupported("byte budget per queue"));
            }
            self.set_bql(q, &bql)?;
        }
        if let Some(quantum) = config.quantum.filter(|n| old.quantum != Some(*n)) {
            self.set_quantum(q, quantum)?;
        }
        if let Some(rate) = config.rate.filter(|r| old.rate != Some(*r)) {
            self.set_queue_rate(q, rate)?;
        }
        tx.retuned(config);
        Ok(())
    }

    /// Byte budget of a queue as its registers hold it: what was set, not where the
    /// limit stands now. A largest limit of 0: none is in force.
    ///
    /// # Errors
    /// [`DriverError::NotSupported`], [`DriverError::NoSuchQueue`],
    /// [`DriverError::Bus`].
    pub fn bql(&mut self, q: QueueId) -> Result<BqlConfig, DriverError> {
        self.check_queue(q)?;
        if self.info.features.bql() == 0 {
            return Err(DriverError::NotSupported("byte budget per queue"));
        }
        let hold = self.read_queue(q, queue::BQL_HOLD)?;
        let stall = self.read_queue(q, queue::BQL_STALL)?;
        Ok(BqlConfig {
            limit: self.read_queue(q, queue::BQL_LIMIT)?,
            min: self.read_queue(q, queue::BQL_MIN)?,
            max: self.read_queue(q, queue::BQL_MAX)?,
            hold: self.register_nanos(hold),
            stall: self.register_nanos(stall),
        })
    }

    fn register_nanos(&self, ticks: u32) -> Nanos {
        self.info.ticks.to_nanos(Ticks(u64::from(ticks)))
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
}
