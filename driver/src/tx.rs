// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit queue: bursts in, completions out.
//!
//! A burst takes one slot of the descriptor ring until the device has fetched it,
//! and one entry of the burst table until its completion: the entry holds the
//! header template, the continuation list and the caller's token. At most as many
//! bursts are in the device as the completion ring has entries, less
//! [`COMPLETION_SLACK`], so the device never overruns that ring.
//!
//! `post` stages, `flush` makes everything staged visible with one doorbell.

use crate::burst::{TxBuild, TxBurst, TxCompletion, describe};
use crate::error::{DriverError, PostError};
use crate::flow::FlowTable;
use crate::memory::DmaSlice;
use crate::ring::{Consumer, Producer};
use crate::stats::TxStats;
use std::sync::atomic::{Ordering, fence};
use tsonic_pci::PciFunction;
use tsonic_regs::Status;
use tsonic_regs::check::list_entries;
use tsonic_regs::completion::{
    COMPLETION_BYTES, COMPLETION_SLACK, TxCompletion as RawCompletion, TxDone, WriteBack,
};
use tsonic_regs::descriptor::{COOKIE_NONE, FragmentEntry, FragmentLength, TxDescriptor};
use tsonic_regs::limits::{FRAGMENTS_MAX, HEADER_MAX, INLINE_FRAGMENTS};
use tsonic_regs::registers::{doorbell, doorbell_offset};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, Ticks, WireBytes};

/// Bytes of a burst table entry: the template, then the continuation list.
pub(crate) const ENTRY_BYTES: usize = HEADER_MAX + LIST_BYTES;
const LIST_BYTES: usize = list_entries(FRAGMENTS_MAX) * FragmentEntry::BYTES;

/// How a transmit queue is set up. `None` leaves what the device has after reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxConfig {
    /// log2 of the descriptor ring's slots, 6 to 12.
    pub ring_log2: u8,
    /// log2 of the completion ring's entries, 6 to 13: bounds the bursts in the
    /// device.
    pub completion_log2: u8,
    /// Quantum of deficit round robin in wire bytes, 1 to 65,535.
    pub quantum: Option<u32>,
    /// Rate of the whole queue in wire bytes per second.
    pub rate: Option<ByteRate>,
    /// Byte budget.
    pub bql: Option<BqlConfig>,
}

impl Default for TxConfig {
    /// 512 slots, 2,040 bursts in the device: 1 MiB of burst table.
    fn default() -> TxConfig {
        TxConfig {
            ring_log2: 9,
            completion_log2: 11,
            quantum: None,
            rate: None,
            bql: None,
        }
    }
}

/// Byte budget of a queue: the dynamic queue limit in the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BqlConfig {
    /// Limit to start from, wire bytes.
    pub limit: u32,
    /// Least limit.
    pub min: u32,
    /// Largest limit.
    pub max: u32,
    /// Time over which slack must last before the limit falls.
    pub hold: Nanos,
    /// Age of bytes in flight that counts as a stall; zero: off.
    pub stall: Nanos,
}

/// A queue's budget as the device wrote it back last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BqlState {
    /// Limit.
    pub limit: WireBytes,
    /// Bytes granted to the wire and not credited.
    pub inflight: WireBytes,
    /// Stalls found since the budget was started.
    pub stalls: u32,
    /// The longest of them, in ticks; `u32::MAX` stands for that and more.
    pub longest_stall: u32,
}

/// Words of a write-back that the device has not written: no limit is that large.
const NOT_WRITTEN: [u64; 2] = [u64::MAX; 2];

/// Entry of the burst table on the host's side.
#[derive(Clone, Copy, Debug, Default)]
struct Outstanding {
    token: u64,
    flow: FlowSlot,
    rate: Option<ByteRate>,
    in_device: bool,
    /// What the burst is to the pacer: payload, and a header for each mss of it.
    payload: u32,
    mss: u16,
    header: u16,
    /// Launch time; zero: none.
    launch: Nanos,
}

impl Outstanding {
    /// Wire bytes of the burst.
    fn wire_bytes(&self) -> u64 {
        let payload = u64::from(self.payload);
        let segments = match self.mss {
            0 => 1,
            mss => payload.div_ceil(mss.into()).max(1),
        };
        payload + segments * u64::from(self.header)
    }
}

/// A burst in the device, as far as its pace says when it may leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paced {
    pub flow: FlowSlot,
    /// Time that it takes at its rate; zero: it has none.
    pub span: Nanos,
    /// Wire bytes.
    pub bytes: u64,
    /// Earliest departure; zero: none given.
    pub launch: Nanos,
}

/// The memory of a queue.
pub(crate) struct TxMemory {
    /// Descriptor ring.
    pub descriptors: DmaSlice,
    /// Burst table.
    pub entries: DmaSlice,
    /// Completion ring.
    pub completions: DmaSlice,
    /// Write-back of the budget.
    pub write_back: DmaSlice,
}

/// Bursts that may be in the device at once with a completion ring of that size.
pub(crate) const fn bursts_max(completion_log2: u8) -> usize {
    (1usize << completion_log2) - COMPLETION_SLACK
}

/// Time that so many bytes take at a rate.
pub(crate) fn span_at(bytes: u64, rate: ByteRate) -> Nanos {
    let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.0.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A transmit queue.
#[derive(Debug)]
pub struct TxQueue {
    id: QueueId,
    build: TxBuild,
    config: TxConfig,
    ring: Producer,
    reaped: Consumer,
    descriptors: DmaSlice,
    entries: DmaSlice,
    completions: DmaSlice,
    write_back: DmaSlice,
    bursts: Vec<Outstanding>,
    /// Cookie of each slot of the descriptor ring.
    slots: Vec<u16>,
    /// Entries without a burst; the last one freed is the next one used (its
    /// cache lines are still warm).
    free: Vec<u16>,
    enabled: bool,
    last_error: Option<u8>,
    stats: TxStats,
}

impl TxQueue {
    pub(crate) fn new(id: QueueId, config: TxConfig, build: TxBuild, memory: TxMemory) -> TxQueue {
        let bursts = bursts_max(config.completion_log2);
        TxQueue {
            id,
            build,
            ring: Producer::new(config.ring_log2),
            reaped: Consumer::new(config.completion_log2),
            descriptors: memory.descriptors,
            entries: memory.entries,
            completions: memory.completions,
            write_back: memory.write_back,
            bursts: vec![Outstanding::default(); bursts],
            slots: vec![COOKIE_NONE; 1 << config.ring_log2],
            free: (0..bursts as u16).rev().collect(),
            enabled: false,
            last_error: None,
            stats: TxStats::default(),
            config,
        }
    }

    /// Its number.
    pub const fn id(&self) -> QueueId {
        self.id
    }

    /// How it was set up.
    pub const fn config(&self) -> &TxConfig {
        &self.config
    }

    /// Bursts that can be posted now.
    pub fn room(&self) -> usize {
        if self.enabled {
            self.ring.room().min(self.free.len())
        } else {
            0
        }
    }

    /// Bursts posted and not completed.
    pub fn outstanding(&self) -> usize {
        self.bursts.len() - self.free.len()
    }

    /// Wire bytes of the bursts posted and not completed. Looks at each of them.
    pub fn outstanding_bytes(&self) -> u64 {
        self.in_device().map(|b| b.bytes).sum()
    }

    /// The bursts in the device.
    pub(crate) fn in_device(&self) -> impl Iterator<Item = Paced> + '_ {
        self.bursts.iter().filter(|b| b.in_device).map(|b| {
            let bytes = b.wire_bytes();
            let rate = b.rate.filter(|r| r.is_limited());
            Paced {
                flow: b.flow,
                span: rate.map_or(Nanos::ZERO, |r| span_at(bytes, r)),
                bytes,
                launch: b.launch,
            }
        })
    }

    /// Whether it takes bursts.
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Its budget as the device wrote it back last; `None` before one was started.
    pub fn bql_state(&self) -> Option<BqlState> {
        // Each word is whole, and the device writes both at once.
        let word = |i: usize| self.write_back.load(8 * i, Ordering::Relaxed);
        let words = [word(0), word(1)];
        if words[0] == NOT_WRITTEN[0] {
            return None;
        }
        let back = WriteBack::from_words(words);
        Some(BqlState {
            limit: WireBytes(back.bytes.limit().into()),
            inflight: WireBytes(back.bytes.inflight().into()),
            stalls: back.stalls.count(),
            longest_stall: back.stalls.longest(),
        })
    }

    /// Where the device writes the budget back, made as before any write.
    pub(crate) fn fresh_write_back(&mut self) -> u64 {
        self.write_back.store(0, &NOT_WRITTEN);
        self.write_back.iova()
    }

    /// Its counters.
    pub const fn stats(&self) -> &TxStats {
        &self.stats
    }

    /// Code of the last error of the queue itself, that is, of no burst.
    pub const fn last_error(&self) -> Option<u8> {
        self.last_error
    }

    /// A slot and a table entry for one burst; dropped unused, nothing happened.
    ///
    /// # Errors
    /// [`PostError::QueueDown`], [`PostError::Backpressure`].
    #[inline]
    pub fn reserve(&mut self) -> Result<Reservation<'_>, PostError> {
        if !self.enabled {
            return Err(PostError::QueueDown(self.id));
        }
        match self.free.last() {
            Some(cookie) if self.ring.room() > 0 => Ok(Reservation {
                cookie: *cookie,
                queue: self,
            }),
            _ => {
                self.stats.tx_busy += 1;
                Err(PostError::Backpressure(self.id))
            }
        }
    }

    /// Puts a burst into the ring. The device does not see it before
    /// [`TxQueue::flush`].
    ///
    /// # Errors
    /// [`PostError`]; nothing was posted then.
    #[inline]
    pub fn post(&mut self, flows: &mut FlowTable, burst: &TxBurst<'_>) -> Result<(), PostError> {
        self.reserve()?.commit(flows, burst)
    }

    /// Posts bursts in order up to the first that cannot be, and says how many
    /// were; the rest stay with the caller.
    ///
    /// # Errors
    /// Why the next one was not posted stands beside the count.
    pub fn post_batch(
        &mut self,
        flows: &mut FlowTable,
        bursts: &[TxBurst<'_>],
    ) -> (usize, Result<(), PostError>) {
        for (i, burst) in bursts.iter().enumerate() {
            if let Err(e) = self.post(flows, burst) {
                return (i, Err(e));
            }
        }
        (bursts.len(), Ok(()))
    }

    /// Rings the doorbell if anything was posted since the last time, and says
    /// whether it did.
    ///
    /// # Errors
    /// [`DriverError::Bus`]: the device is gone.
    #[inline]
    pub fn flush<F: PciFunction + ?Sized>(
        &mut self,
        function: &mut F,
    ) -> Result<bool, DriverError> {
        let Some(tail) = self.ring.publish() else {
            return Ok(false);
        };
        // Everything stored up to here is visible before the register write; it
        // pairs with the device's reading of the ring after the doorbell.
        fence(Ordering::Release);
        let offset = doorbell_offset(self.id.index(), doorbell::TX_TAIL);
        function.write32(0, offset as u64, u32::from(tail))?;
        self.stats.tx_doorbells += 1;
        Ok(true)
    }

    /// Hands at most `budget` completions to `each`, oldest first, and says how
    /// many. Less than `budget` means that none is left.
    pub fn reap(
        &mut self,
        flows: &mut FlowTable,
        budget: usize,
        mut each: impl FnMut(&TxCompletion),
    ) -> usize {
        let mut handed = 0;
        // A device that writes rubbish must not hold us here for ever.
        let mut entries = self.completions.len() / COMPLETION_BYTES;
        while handed < budget && entries > 0 {
            let Some(raw) = self.next_completion() else {
                break;
            };
            entries -= 1;
            if let Some(done) = self.complete(flows, &raw) {
                handed += 1;
                each(&done);
            }
        }
        handed
    }

    /// Whether [`TxQueue::reap`] has anything to do.
    #[inline]
    pub fn has_completion(&self) -> bool {
        self.peek().is_some()
    }

    /// When the burst of the next completion departed, if there is one.
    pub(crate) fn completed_at(&self) -> Option<Nanos> {
        let departed = self.peek()?.last_departure;
        Some(self.build.ticks.to_nanos(Ticks(departed)))
    }

    #[inline]
    fn peek(&self) -> Option<RawCompletion> {
        let at = self.reaped.index() * COMPLETION_BYTES;
        let phase = self.reaped.phase();
        let words = self
            .completions
            .load_if(at, |last| TxDone(last).phase() == phase)?;
        Some(RawCompletion::from_words(words))
    }

    #[inline]
    fn next_completion(&mut self) -> Option<RawCompletion> {
        let at = self.reaped.index() * COMPLETION_BYTES;
        let phase = self.reaped.phase();
        // The device writes the word with the phase last, so it is read first.
        let words = self
            .completions
            .load_if(at, |last| TxDone(last).phase() == phase)?;
        self.reaped.advance();
        Some(RawCompletion::from_words(words))
    }

    /// Checks a completion against the burst table; `None` when it names no burst.
    #[inline]
    fn complete(&mut self, flows: &mut FlowTable, raw: &RawCompletion) -> Option<TxCompletion> {
        if !self.ring.fetched_up_to(raw.done.head()) {
            self.stats.tx_malformed_completions += 1;
        }
        let cookie = raw.status.cookie();
        if cookie == COOKIE_NONE {
            self.stats.tx_queue_errors += 1;
            self.last_error = Some(raw.status.status());
            return None;
        }
        let known = self.bursts.get_mut(usize::from(cookie));
        let Some(burst) = known.filter(|b| b.in_device) else {
            self.stats.tx_unknown_completions += 1;
            return None;
        };
        if raw.status.queue() != self.id.0 {
            self.stats.tx_malformed_completions += 1;
        }
        burst.in_device = false;
        let done = TxCompletion {
            token: burst.token,
            queue: self.id,
            flow: burst.flow,
            rate: burst.rate,
            status_code: raw.status.status(),
            first_departure: self.build.ticks.to_nanos(Ticks(raw.first_departure)),
            last_departure: self.build.ticks.to_nanos(Ticks(raw.last_departure)),
            wire_bytes: WireBytes(u64::from(raw.done.wire_bytes())),
            segments: raw.done.segments(),
            congested: raw.status.cn() == 1,
            throttled: raw.status.throttle() == 1,
            wake: raw.status.wake() == 1,
        };
        self.free.push(cookie);
        flows.completed(done.flow);
        self.count(&done);
        Some(done)
    }

    #[inline]
    fn count(&mut self, done: &TxCompletion) {
        let s = &mut self.stats;
        s.tx_completions += 1;
        s.tx_errors += u64::from(done.status_code != Status::Ok.code());
        s.tx_packets += u64::from(done.segments);
        s.tx_bytes += done.wire_bytes.0;
        s.tx_congested += u64::from(done.congested);
        s.tx_throttled += u64::from(done.throttled);
        s.tx_wakes += u64::from(done.wake);
    }

    /// The device takes doorbells from now on.
    pub(crate) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Gives up every burst in the table after the device was reset.
    pub(crate) fn abandon_all(
        &mut self,
        flows: &mut FlowTable,
        mut each: impl FnMut(&TxCompletion),
    ) {
        for cookie in 0..self.bursts.len() {
            self.abandon(cookie, flows, &mut each);
        }
    }

    /// Gives up the bursts that the device has not fetched and, as the queue is
    /// off, never will.
    pub(crate) fn abandon_unfetched(
        &mut self,
        flows: &mut FlowTable,
        mut each: impl FnMut(&TxCompletion),
    ) {
        while let Some(slot) = self.ring.oldest_published() {
            let cookie = self.slots[slot];
            self.abandon(usize::from(cookie), flows, &mut each);
            self.ring.fetched_one();
        }
    }

    /// Completes a burst, if it is in the device, with [`Status::QueueReset`].
    fn abandon(
        &mut self,
        cookie: usize,
        flows: &mut FlowTable,
        each: &mut impl FnMut(&TxCompletion),
    ) {
        let known = self.bursts.get_mut(cookie);
        let Some(burst) = known.filter(|b| b.in_device) else {
            return;
        };
        burst.in_device = false;
        let done = TxCompletion {
            token: burst.token,
            queue: self.id,
            flow: burst.flow,
            rate: burst.rate,
            status_code: Status::QueueReset.code(),
            first_departure: Nanos::ZERO,
            last_departure: Nanos::ZERO,
            wire_bytes: WireBytes(0),
            segments: 0,
            congested: false,
            throttled: false,
            wake: false,
        };
        // Below the number of bursts, hence 16 bits.
        self.free.push(cookie as u16);
        flows.completed(done.flow);
        self.count(&done);
        each(&done);
    }

    /// Keeps what the device was told, for the next time that it is set up.
    pub(crate) fn retuned(&mut self, to: &TxConfig) {
        let config = &mut self.config;
        config.quantum = to.quantum.or(config.quantum);
        config.rate = to.rate.or(config.rate);
        config.bql = to.bql.or(config.bql);
    }

    /// Both rings as after power-on. Call while the queue is off and empty.
    pub(crate) fn rewind(&mut self) {
        self.ring = Producer::new(self.config.ring_log2);
        self.reaped = Consumer::new(self.config.completion_log2);
        self.completions.clear();
    }

    pub(crate) const fn ring_iovas(&self) -> (u64, u64) {
        (self.descriptors.iova(), self.completions.iova())
    }
}

/// Room for one burst.
#[derive(Debug)]
pub struct Reservation<'q> {
    queue: &'q mut TxQueue,
    cookie: u16,
}

impl Reservation<'_> {
    /// Fills the slot and the table entry.
    ///
    /// # Errors
    /// [`PostError::Refused`]; nothing was posted then.
    #[inline]
    pub fn commit(self, flows: &mut FlowTable, burst: &TxBurst<'_>) -> Result<(), PostError> {
        let Reservation { queue, cookie } = self;
        let entry = usize::from(cookie) * ENTRY_BYTES;
        let list_iova = queue.entries.iova() + (entry + HEADER_MAX) as u64;
        let mut d = match describe(&queue.build, burst, list_iova) {
            Ok(_) if !flows.may_post(burst.flow) => Err(Status::BadFlowSlot),
            described => described,
        }
        .map_err(|status| {
            queue.stats.tx_refused += 1;
            PostError::Refused(status)
        })?;
        d.burst.set_cookie(cookie);
        d.header_addr = queue.entries.iova() + entry as u64;

        queue.entries.copy_in(entry, burst.header);
        if burst.fragments.len() > INLINE_FRAGMENTS {
            for (i, f) in burst.fragments[1..].iter().enumerate() {
                let mut length = FragmentLength::default();
                length.set_bytes(f.len);
                let at = entry + HEADER_MAX + i * FragmentEntry::BYTES;
                queue.entries.store(at, &[f.iova, length.0]);
            }
        }
        let slot = queue.ring.next() * TxDescriptor::BYTES;
        queue.descriptors.store(slot, &d.to_words());

        queue.slots[queue.ring.next()] = cookie;
        queue.ring.stage();
        queue.free.pop();
        queue.bursts[usize::from(cookie)] = Outstanding {
            token: burst.token,
            flow: burst.flow,
            rate: burst.rate,
            in_device: true,
            payload: d.burst.payload_len(),
            mss: burst.mss,
            // At most HEADER_MAX.
            header: burst.header.len() as u16,
            launch: burst.launch.unwrap_or(Nanos::ZERO),
        };
        flows.posted(burst.flow);
        queue.stats.tx_bursts += 1;
        Ok(())
    }
}

const _: () = assert!(ENTRY_BYTES == 512);
// Every cookie is below the one that means none.
const _: () = assert!(bursts_max(13) < COOKIE_NONE as usize);
