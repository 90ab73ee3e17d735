// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings of an open device, in units that people use.

use crate::device::Device;
use crate::error::DriverError;
use crate::rate::inverse_rate;
use crate::tx::BqlConfig;
use tsonic_pci::PciFunction;
use tsonic_regs::limits::{RSS_KEY, RSS_TABLE};
use tsonic_regs::registers::{global, queue};
use tsonic_types::{ByteRate, Nanos, QueueId};

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
}
