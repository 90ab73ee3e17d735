// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues that stand still, and interrupts that get lost.
//!
//! # Stalls
//! Progress of a transmit queue is a completion. A queue with bursts in the device that
//! has made none for [`WatchdogConfig::stall`] is taken for stalled, unless its bursts
//! may still be waiting for their departure: what a flow has in the device takes as long
//! as its rates say, and a launch time is waited for. The first completion is due when
//! the fastest of the queue's flows is through; a rate of the whole queue counts for all
//! of its bytes. (A flow that was slow and has just become fast may wait for one more
//! segment at the old rate; [`WatchdogConfig::stall`] has to cover that.) Only the
//! stalled queue is reset.
//!
//! # Lost interrupts
//! A driver that sleeps while bursts are in the device wakes after
//! [`WatchdogConfig::period`] at the latest, and reaps what it finds. A completion that is
//! older than [`WatchdogConfig::grace`] then should have been announced: its interrupt
//! was lost, and is counted.

use crate::burst::TxCompletion;
use crate::device::Device;
use crate::error::DriverError;
use crate::flow::FlowTable;
use crate::rx::RxQueue;
use crate::stats::WatchStats;
use crate::tx::{TxQueue, span_at};
use std::collections::HashMap;
use tracing::warn;
use tsonic_pci::PciFunction;
use tsonic_types::{FlowSlot, Nanos};

/// How patient a watchdog is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Longest sleep while something may be waiting.
    pub period: Nanos,
    /// Age of a completion that must have been announced; longer than any moderation.
    pub grace: Nanos,
    /// Time without progress after which a queue is stalled (Linux's netdev watchdog
    /// waits as long).
    pub stall: Nanos,
}

impl Default for WatchdogConfig {
    fn default() -> WatchdogConfig {
        WatchdogConfig {
            period: Nanos::from_secs(1),
            grace: Nanos::from_millis(100),
            stall: Nanos::from_secs(5),
        }
    }
}

/// A queue pair, as it was when it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Watched {
    completions: u64,
    /// Last time that it made progress, or had nothing to do.
    moved: Nanos,
    stats: WatchStats,
}

/// See the module.
#[derive(Debug)]
pub struct Watchdog {
    config: WatchdogConfig,
    queues: Vec<Watched>,
    looked: Nanos,
}

impl Watchdog {
    /// For `queues` queue pairs, which have nothing to do at `now`.
    pub fn new(config: WatchdogConfig, queues: usize, now: Nanos) -> Watchdog {
        let watched = Watched {
            moved: now,
            ..Watched::default()
        };
        Watchdog {
            config,
            queues: vec![watched; queues],
            looked: now,
        }
    }

    /// What it has done for a queue pair.
    pub fn stats(&self, queue: usize) -> WatchStats {
        self.queues
            .get(queue)
            .map_or_else(WatchStats::default, |q| q.stats)
    }

    /// When to look at the latest; `None`: nothing can be waiting. Where interrupts come
    /// from outside (`runs_by_itself`), received frames may be waiting at any time.
    pub fn next(&self, tx: &[TxQueue], runs_by_itself: bool) -> Option<Nanos> {
        let busy = tx.iter().any(|q| q.outstanding() > 0);
        (busy || runs_by_itself).then(|| self.looked + self.config.period)
    }

    /// Looks, before anything is reaped. `unannounced`: no interrupt is the reason.
    #[inline]
    pub fn look(&mut self, now: Nanos, tx: &[TxQueue], rx: &[RxQueue], unannounced: bool) {
        self.looked = now;
        for (watched, q) in self.queues.iter_mut().zip(tx) {
            let completions = q.stats().tx_completions;
            if q.outstanding() == 0 || completions != watched.completions {
                watched.completions = completions;
                watched.moved = now;
            }
        }
        if unannounced {
            self.find_lost(now, tx, rx);
        }
    }

    #[cold]
    fn find_lost(&mut self, now: Nanos, tx: &[TxQueue], rx: &[RxQueue]) {
        let late = |at: Option<Nanos>| at.is_some_and(|at| now.since(at) > self.config.grace);
        for (i, watched) in self.queues.iter_mut().enumerate() {
            // They share a vector: one interrupt would have announced both.
            let sent = tx.get(i).is_some_and(|q| late(q.completed_at()));
            let received = rx.get(i).is_some_and(|q| late(q.completed_at()));
            if sent || received {
                watched.stats.lost_interrupts += 1;
            }
        }
    }

    /// A queue that is stalled, after everything was reaped.
    pub fn stalled(&self, now: Nanos, tx: &[TxQueue]) -> Option<usize> {
        self.queues.iter().zip(tx).position(|(watched, q)| {
            let waited = now.since(watched.moved);
            waited > self.config.stall
                && q.outstanding() > 0
                && q.stats().tx_completions == watched.completions
                && waited > self.config.stall + allowance(q, tx, watched.moved)
        })
    }

    /// Resets a stalled queue; its bursts go to `each` with
    /// [`tsonic_regs::Status::QueueReset`]. Other queues go on.
    ///
    /// # Errors
    /// As [`Device::reset_tx`].
    pub fn reset<F: PciFunction>(
        &mut self,
        device: &mut Device<F>,
        tx: &mut TxQueue,
        flows: &mut FlowTable,
        each: impl FnMut(&TxCompletion),
    ) -> Result<(), DriverError> {
        let id = tx.id();
        warn!(
            queue = %id, outstanding = tx.outstanding(),
            "the queue has made no progress for {} ms; it is reset", self.config.stall.as_millis()
        );
        let result = device.reset_tx(tx, flows, each);
        let now = device.now();
        if let Some(watched) = self.queues.get_mut(id.index()) {
            watched.stats.tx_timeouts += 1;
            watched.moved = now;
            watched.completions = tx.stats().tx_completions;
        }
        result
    }
}

/// How long after `from` the next burst of `q` may leave without anything being wrong.
#[cold]
fn allowance(q: &TxQueue, all: &[TxQueue], from: Nanos) -> Nanos {
    let mut first: Option<Nanos> = None;
    let mut flows: HashMap<FlowSlot, Nanos> = HashMap::new();
    for b in all.iter().flat_map(|q| q.in_device()) {
        let total = flows.entry(b.flow).or_default();
        *total = add(add(*total, b.span), b.launch.since(from));
    }
    let mut bytes = 0u64;
    for b in q.in_device() {
        bytes = bytes.saturating_add(b.bytes);
        // Bursts of slot 0 wait for nothing but their own launch time.
        let due = match b.flow {
            FlowSlot::UNPACED => b.launch.since(from),
            flow => flows.get(&flow).copied().unwrap_or(Nanos::ZERO),
        };
        first = Some(first.map_or(due, |f| f.min(due)));
    }
    let queue = q.config().rate.filter(|r| r.is_limited());
    let queue = queue.map_or(Nanos::ZERO, |rate| span_at(bytes, rate));
    add(first.unwrap_or(Nanos::ZERO), queue)
}

fn add(a: Nanos, b: Nanos) -> Nanos {
    Nanos(a.0.saturating_add(b.0))
}
