// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte budgets: the dynamic queue limit of each queue ([`crate::dql`]).
//!
//! A segment is charged to its queue at the arbiter's grant, which needs a budget
//! of 0 or more, so one segment may overshoot. It is credited once it has departed
//! (or was dropped), together with all others of the credit flush: crediting one at
//! a time would leave the limit at a fraction of what the queue needs.
//!
//! A budget is in force once BQL_LIMIT is written with BQL_MAX not 0. At each
//! flush that changed a queue, its limit (low half) and bytes in flight (high half)
//! are written as one 64-bit word to the write-back address, if there is one.

use tsonic_regs::registers::queue;
use tsonic_types::Ticks;

use super::Model;
use crate::dql::{Dql, StallDetector};
use crate::nic::Env;

/// Budget of one queue.
#[derive(Default)]
pub(super) struct Budget {
    dql: Option<Dql>,
    stall: StallDetector,
    /// Bytes departed and not credited.
    credit: u32,
}

impl Budget {
    /// Whether a segment may be granted.
    pub fn is_open(&self) -> bool {
        self.dql.as_ref().is_none_or(Dql::is_open)
    }

    /// Limit and bytes in flight, when a budget is in force.
    pub fn state(&self) -> Option<(u32, u32)> {
        self.dql.as_ref().map(|d| (d.limit(), d.inflight()))
    }
}

impl Model {
    /// BQL_LIMIT was written: the budget starts, or ends. What is in flight stays
    /// on the books.
    pub(super) fn start_budget(&mut self, q: usize) {
        let r = |register| self.registers.queue(q, register);
        let now = self.now.0;
        let max = r(queue::BQL_MAX);
        let mut dql = (max != 0).then(|| {
            let hold = u64::from(r(queue::BQL_HOLD));
            Dql::new(r(queue::BQL_LIMIT), r(queue::BQL_MIN), max, hold, now)
        });
        let stall = StallDetector::new(r(queue::BQL_STALL).into(), now);
        let old = self.tx[q].budget.dql.as_ref().map_or(0, Dql::inflight);
        if let Some(dql) = &mut dql
            && let Err(error) = dql.queue(old)
        {
            tracing::debug!(%error, q, "the budget starts afresh");
        }
        let budget = &mut self.tx[q].budget;
        budget.dql = dql;
        budget.stall = stall;
        self.refresh(q);
    }

    /// A segment was granted.
    pub(super) fn charge_budget(&mut self, q: usize, wire_bytes: usize) {
        let now = self.now.0;
        let budget = &mut self.tx[q].budget;
        let Some(dql) = &mut budget.dql else {
            return;
        };
        // A frame is far below the largest object.
        if let Err(error) = dql.queue(wire_bytes as u32) {
            tracing::debug!(%error, q, "not charged");
        }
        budget.stall.queue(now);
    }

    /// A granted segment has left the device.
    pub(super) fn credit_budget(&mut self, q: usize, wire_bytes: usize) {
        let budget = &mut self.tx[q].budget;
        if budget.dql.is_none() || wire_bytes == 0 {
            return;
        }
        budget.credit = budget.credit.saturating_add(wire_bytes as u32);
        if self.flush_at.is_none() {
            let period = self.registers.credit_flush();
            self.flush_at = Some(Ticks((self.now.0 / period + 1) * period));
        }
    }

    /// Credits what departed since the last flush.
    pub(super) fn flush_credits(&mut self, env: &mut Env<'_>) {
        self.flush_at = None;
        for q in 0..self.tx.len() {
            let budget = &mut self.tx[q].budget;
            let credit = std::mem::take(&mut budget.credit);
            let Some(dql) = budget.dql.as_mut().filter(|_| credit > 0) else {
                continue;
            };
            // More than is in flight: granted before the budget was in force.
            let credit = credit.min(dql.inflight());
            if let Err(error) = dql.complete(credit, self.now.0) {
                tracing::debug!(%error, q, "not credited");
            }
            budget.stall.complete(self.now.0);
            let (limit, inflight) = (dql.limit(), dql.inflight());
            self.refresh(q);
            let at = self
                .registers
                .pair(q, queue::WRITE_BACK_LO, queue::WRITE_BACK_HI)
                & !63;
            if at != 0 {
                let word = u64::from(inflight) << 32 | u64::from(limit);
                self.post_write(env, at, &word.to_le_bytes());
            }
        }
    }

    /// Limit and bytes in flight of a queue's budget, when one is in force.
    pub fn budget(&self, q: usize) -> Option<(u32, u32)> {
        self.tx.get(q).and_then(|queue| queue.budget.state())
    }
}
