// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte budgets: the dynamic queue limit of each queue ([`crate::dql`]).
//!
//! A segment is charged to its queue at the arbiter's grant, which needs a budget
//! of 0 or more, so one segment may overshoot. It is credited once it has departed
//! (or was dropped), together with all others of the credit flush: crediting one at
//! a time would leave the limit at a fraction of what the queue needs.
//!
//! A budget is in force once BQL_LIMIT is written with BQL_MAX not 0. What is in
//! flight is counted always, so it is on the books then. When the budget starts, and
//! at each flush that credited the queue, the state is written back
//! ([`WriteBack`]), if there is an address for it.

use tsonic_regs::completion::WriteBack;
use tsonic_regs::limits::BQL_STALL_SHIFT;
use tsonic_regs::registers::{Events, queue};
use tsonic_types::Ticks;

use super::Model;
use crate::dql::{Dql, StallDetector};
use crate::nic::Env;

/// Budget of one queue.
#[derive(Default)]
pub(super) struct Budget {
    dql: Option<Dql>,
    /// Counts in steps of 2^BQL_STALL_SHIFT ticks.
    stall: StallDetector,
    /// Bytes charged and not credited.
    inflight: u32,
    /// Bytes departed and not credited.
    credit: u32,
    /// Bytes of the last segment that was charged.
    last: u32,
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

    /// What is written back of it.
    fn write_back(&self) -> WriteBack {
        let mut back = WriteBack::default();
        let (limit, inflight) = self.state().unwrap_or_default();
        back.bytes.set_limit(limit);
        back.bytes.set_inflight(inflight);
        back.stalls
            .set_count(self.stall.count().min(u32::MAX.into()) as u32);
        let longest = self.stall.longest();
        let ticks = if longest < 1 << (u32::BITS as usize - BQL_STALL_SHIFT) {
            (longest << BQL_STALL_SHIFT) as u32
        } else {
            u32::MAX
        };
        back.stalls.set_longest(ticks);
        back
    }
}

impl Model {
    /// BQL_LIMIT was written: the budget starts, or ends. What is in flight stays
    /// on the books.
    pub(super) fn start_budget(&mut self, q: usize, env: &mut Env<'_>) {
        let r = |register| self.registers.queue(q, register);
        let now = self.now.0;
        let max = r(queue::BQL_MAX);
        let mut dql = (max != 0).then(|| {
            let hold = u64::from(r(queue::BQL_HOLD));
            Dql::new(r(queue::BQL_LIMIT), r(queue::BQL_MIN), max, hold, now)
        });
        let threshold = r(queue::BQL_STALL).div_ceil(1 << BQL_STALL_SHIFT);
        let stall = StallDetector::new(threshold.into(), now >> BQL_STALL_SHIFT);
        let budget = &mut self.tx[q].budget;
        if let Some(dql) = &mut dql {
            dql.carry(budget.inflight, budget.last);
        } else {
            // Credits wait for a flush only under a budget.
            budget.inflight -= std::mem::take(&mut budget.credit);
        }
        budget.dql = dql;
        budget.stall = stall;
        if budget.dql.is_some() {
            self.write_budget(q, env);
        }
        self.refresh(q);
    }

    /// A segment was granted.
    pub(super) fn charge_budget(&mut self, q: usize, wire_bytes: usize) {
        let now = self.now.0;
        let budget = &mut self.tx[q].budget;
        // A frame is far below the largest object.
        let bytes = wire_bytes as u32;
        budget.inflight = budget.inflight.wrapping_add(bytes);
        budget.last = bytes;
        budget.stall.queue(now >> BQL_STALL_SHIFT);
        if let Some(dql) = &mut budget.dql
            && let Err(error) = dql.queue(bytes)
        {
            tracing::debug!(%error, q, "not charged");
        }
    }

    /// A granted segment has left the device.
    pub(super) fn credit_budget(&mut self, q: usize, wire_bytes: usize) {
        let budget = &mut self.tx[q].budget;
        let bytes = wire_bytes as u32;
        if budget.dql.is_none() {
            budget.inflight = budget.inflight.wrapping_sub(bytes);
            return;
        }
        if bytes == 0 {
            return;
        }
        budget.credit = budget.credit.wrapping_add(bytes);
        if self.flush_at.is_none() {
            self.plan_flush();
        }
    }

    /// The next flush is at the next multiple of the period.
    fn plan_flush(&mut self) {
        let period = self.registers.credit_flush();
        self.flush_at = Some(Ticks((self.now.0 / period + 1) * period));
    }

    /// The period changed.
    pub(super) fn plan_flush_again(&mut self) {
        if self.flush_at.is_some() {
            self.plan_flush();
        }
    }

    /// Credits what departed since the last flush.
    pub(super) fn flush_credits(&mut self, env: &mut Env<'_>) {
        self.flush_at = None;
        let now = self.now.0;
        for q in 0..self.tx.len() {
            let budget = &mut self.tx[q].budget;
            let Some(dql) = budget.dql.as_mut().filter(|_| budget.credit > 0) else {
                continue;
            };
            let credit = std::mem::take(&mut budget.credit);
            if let Err(error) = dql.complete(credit, now) {
                tracing::debug!(%error, q, "not credited");
            }
            budget.inflight = budget.inflight.wrapping_sub(credit);
            let stalled = budget.stall.complete(now >> BQL_STALL_SHIFT).is_some();
            self.refresh(q);
            self.write_budget(q, env);
            if stalled {
                let mut events = Events(0);
                events.set_bql_stall(1);
                self.raise(env, events);
            }
        }
    }

    /// Writes a budget's state to memory, if there is a place for it.
    fn write_budget(&mut self, q: usize, env: &mut Env<'_>) {
        let at = self
            .registers
            .pair(q, queue::WRITE_BACK_LO, queue::WRITE_BACK_HI)
            & !63;
        if at == 0 {
            return;
        }
        let mut bytes = [0; WriteBack::BYTES];
        let words = self.tx[q].budget.write_back().to_words();
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        self.post_write(env, at, &bytes);
    }

    /// Limit and bytes in flight of a queue's budget, when one is in force.
    pub fn budget(&self, q: usize) -> Option<(u32, u32)> {
        self.tx.get(q).and_then(|queue| queue.budget.state())
    }
}
