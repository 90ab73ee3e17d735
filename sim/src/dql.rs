// SPDX-License-Identifier: MIT OR Apache-2.0
//! Byte queue limit: the dynamic limit on the bytes that one queue may have in
//! flight, which finds the least that keeps the queue busy between completions;
//! and the detector of stalls. The NIC's budget block and its model follow these
//! rules (those of Linux' dynamic queue limits, with `>=` in the all-completed
//! test).
//!
//! Bytes are wire bytes and counted modulo 2^32. Time is in ticks of the caller's
//! choice and never goes back.

use thiserror::Error;

pub use tsonic_regs::limits::{BQL_MAX_LIMIT as MAX_LIMIT, BQL_MAX_OBJECT as MAX_OBJECT};

/// Misuse of the counters. Nothing was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DqlError {
    /// Larger than [`MAX_OBJECT`].
    #[error("an object of {0} bytes is queued; the most is {MAX_OBJECT}: split it")]
    ObjectTooLarge(u32),
    /// More completed than are in flight.
    #[error(
        "{bytes} bytes complete while {inflight} are in flight: count the same bytes at both ends"
    )]
    NotInFlight {
        /// Bytes said to be completed.
        bytes: u32,
        /// Bytes in flight.
        inflight: u32,
    },
}

/// `a - b` if that is positive as a signed number, else 0.
const fn ahead(a: u32, b: u32) -> u32 {
    let d = a.wrapping_sub(b);
    if (d as i32) > 0 { d } else { 0 }
}

/// A queue's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dql {
    limit: u32,
    min: u32,
    max: u32,
    hold: u64,
    queued: u32,
    completed: u32,
    last_object: u32,
    /// Bytes over the limit at the last completion.
    over_before: u32,
    /// `queued` at the last completion.
    queued_before: u32,
    last_object_before: u32,
    lowest_slack: u32,
    slack_start: u64,
}

impl Dql {
    /// An empty queue. `hold`: ticks over which slack must last before the limit
    /// falls by it. `min` and `max` bind from the first completion on; `max` is
    /// at most [`MAX_LIMIT`] and wins.
    pub const fn new(limit: u32, min: u32, max: u32, hold: u64, now: u64) -> Dql {
        let max = if max < MAX_LIMIT { max } else { MAX_LIMIT };
        Dql {
            limit: if limit < MAX_LIMIT { limit } else { MAX_LIMIT },
            min: if min < max { min } else { max },
            max,
            hold,
            queued: 0,
            completed: 0,
            last_object: 0,
            over_before: 0,
            queued_before: 0,
            last_object_before: 0,
            lowest_slack: u32::MAX,
            slack_start: now,
        }
    }

    /// Takes what is in flight already on its books, the last object of it of so many
    /// bytes. For an empty queue.
    pub const fn carry(&mut self, inflight: u32, last_object: u32) {
        self.queued = inflight;
        self.last_object = last_object;
    }

    /// The limit in bytes.
    pub const fn limit(&self) -> u32 {
        self.limit
    }

    /// Bytes queued and not completed.
    pub const fn inflight(&self) -> u32 {
        self.queued.wrapping_sub(self.completed)
    }

    /// Bytes that may still be queued. An object is accepted whole while this is
    /// not negative, and may make it so: then the queue stops until a completion
    /// brings it back to 0 or more.
    pub const fn avail(&self) -> i64 {
        let room = self.limit.wrapping_add(self.completed);
        room.wrapping_sub(self.queued) as i32 as i64
    }

    /// Whether another object may be queued.
    pub const fn is_open(&self) -> bool {
        self.avail() >= 0
    }

    /// An object of that many bytes was queued.
    ///
    /// # Errors
    /// [`DqlError::ObjectTooLarge`].
    pub fn queue(&mut self, bytes: u32) -> Result<(), DqlError> {
        if bytes > MAX_OBJECT {
            return Err(DqlError::ObjectTooLarge(bytes));
        }
        self.last_object = bytes;
        self.queued = self.queued.wrapping_add(bytes);
        Ok(())
    }

    /// That many bytes left the queue, since the last call; 0 changes nothing.
    ///
    /// # Errors
    /// [`DqlError::NotInFlight`].
    pub fn complete(&mut self, bytes: u32, now: u64) -> Result<(), DqlError> {
        if bytes == 0 {
            return Ok(());
        }
        let inflight = self.inflight();
        if bytes > inflight {
            return Err(DqlError::NotInFlight { bytes, inflight });
        }
        let completed = self.completed.wrapping_add(bytes);
        let mut over = ahead(inflight, self.limit);
        let in_progress = self.queued.wrapping_sub(completed);
        let in_progress_before = self.queued_before.wrapping_sub(self.completed);
        // All that was in flight at the last completion is done.
        let all_before = (completed.wrapping_sub(self.queued_before) as i32) >= 0;

        let mut limit = self.limit;
        let starved = (over > 0 && in_progress == 0) || (self.over_before > 0 && all_before);
        if starved {
            // The queue ran dry while bytes were held back: they would have fitted.
            limit = limit
                .saturating_add(ahead(completed, self.queued_before))
                .saturating_add(self.over_before);
            self.restart_slack(now);
        } else if in_progress > 0 && in_progress_before > 0 && !all_before {
            // Busy all the while: what was never needed is slack.
            let unneeded = ahead(limit.wrapping_add(self.over_before), bytes.wrapping_mul(2));
            let from_last_object = if self.over_before > 0 {
                ahead(self.last_object_before, self.over_before)
            } else {
                0
            };
            self.lowest_slack = self.lowest_slack.min(unneeded.max(from_last_object));
            if now > self.slack_start.saturating_add(self.hold) {
                limit = ahead(limit, self.lowest_slack);
                self.restart_slack(now);
            }
        }
        limit = limit.max(self.min).min(self.max);
        if limit != self.limit {
            self.limit = limit;
            over = 0;
        }
        self.over_before = over;
        self.last_object_before = self.last_object;
        self.completed = completed;
        self.queued_before = self.queued;
        Ok(())
    }

    const fn restart_slack(&mut self, now: u64) {
        self.slack_start = now;
        self.lowest_slack = u32::MAX;
    }
}

/// Finds out when a queue held bytes for longer than a threshold without any
/// completion. Every stall longer than the threshold is found; one longer than
/// half of it may be. A stall's length counts from the first tick after the last
/// completion's in which something was queued. (Linux looks for that tick in a
/// bitmap of the last 256; it is remembered here, so a longer stall keeps its
/// beginning.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallDetector {
    threshold: u64,
    last_completion: u64,
    /// First queueing since.
    first: Option<u64>,
    count: u64,
    longest: u64,
}

impl StallDetector {
    /// A detector for stalls beyond `threshold` ticks; 0: off.
    pub fn new(threshold: u64, now: u64) -> StallDetector {
        StallDetector {
            threshold,
            last_completion: now,
            ..StallDetector::default()
        }
    }

    /// Stalls found.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Ticks of the longest stall found.
    pub const fn longest(&self) -> u64 {
        self.longest
    }

    /// Forgets the stalls found.
    pub const fn clear(&mut self) {
        self.count = 0;
        self.longest = 0;
    }

    /// Something was queued.
    pub const fn queue(&mut self, now: u64) {
        if self.first.is_none() && now > self.last_completion {
            self.first = Some(now);
        }
    }

    /// Something completed. The stall that ended with it, if any, in ticks.
    pub fn complete(&mut self, now: u64) -> Option<u64> {
        let since = std::mem::replace(&mut self.last_completion, now);
        let first = self.first.take();
        if self.threshold == 0 || now < since.saturating_add(self.threshold) {
            return None;
        }
        let stall = now.checked_sub(first?)?;
        if stall < self.threshold / 2 {
            return None;
        }
        self.count = self.count.saturating_add(1);
        self.longest = self.longest.max(stall);
        Some(stall)
    }
}

#[cfg(test)]
#[path = "dql_tests.rs"]
mod tests;
