// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive queue: frames out, buffers recycled.
//!
//! The queue owns its buffers and keeps all of them in the device. A completed
//! buffer's bytes are copied out before the frame is handed over (the device may
//! write the memory, so no reference to it exists), and the buffer is posted
//! again at once; `flush` rings one doorbell for all of them, `refill` only once a
//! batch has gathered. A frame longer than
//! a buffer spans several and is handed over whole.

use crate::error::DriverError;
use crate::memory::DmaSlice;
use crate::ring::{Consumer, Producer};
use crate::stats::RxStats;
use std::sync::atomic::{Ordering, fence};
use tsonic_pci::PciFunction;
use tsonic_regs::Status;
use tsonic_regs::completion::{
    COMPLETION_BYTES, COMPLETION_SLACK, ChecksumVerdict, HashKind, RxCompletion as RawCompletion,
    RxDone,
};
use tsonic_regs::descriptor::{COOKIE_NONE, RxBuffer, RxDescriptor};
use tsonic_regs::registers::{doorbell, doorbell_offset};
use tsonic_types::{Nanos, QueueId, TickRate, Ticks};

/// Longest frame in bytes: `frame_len` has 16 bits.
const FRAME_BYTES: usize = 1 << 16;
/// Buffers are copied out by words of so many bytes.
const WORD: usize = 8;
/// Smallest buffer in bytes.
pub(crate) const BUFFER_MIN: u16 = 64;

/// Buffers that are given back with one doorbell while frames trickle in. The
/// smallest queue has more than three times as many.
const REFILL_BATCH: usize = 16;

/// How a receive queue is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxConfig {
    /// log2 of the descriptor ring's slots, 6 to 12.
    pub ring_log2: u8,
    /// log2 of the completion ring's entries, 6 to 13.
    pub completion_log2: u8,
    /// Bytes of a buffer: a multiple of 8, 64 to 65,528.
    pub buffer_bytes: u16,
}

impl Default for RxConfig {
    /// 511 buffers of 2 KiB: one frame each at an MTU of 1,500.
    fn default() -> RxConfig {
        RxConfig {
            ring_log2: 9,
            completion_log2: 10,
            buffer_bytes: 2_048,
        }
    }
}

impl RxConfig {
    /// Buffers in the device: what both rings have room for.
    pub(crate) const fn buffers(&self) -> usize {
        let ring = (1usize << self.ring_log2) - 1;
        let completions = (1usize << self.completion_log2) - COMPLETION_SLACK;
        if ring < completions {
            ring
        } else {
            completions
        }
    }
}

/// What the device says about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxMeta {
    /// Queue it came on.
    pub queue: QueueId,
    /// Arrival of its first byte.
    pub arrival: Nanos,
    /// IPv4 header checksum.
    pub ip_checksum: ChecksumVerdict,
    /// TCP or UDP checksum.
    pub l4_checksum: ChecksumVerdict,
    /// RSS hash; `None` for what is not IP.
    pub hash: Option<u32>,
    /// What the hash covers.
    pub hash_kind: HashKind,
}

/// The memory of a queue.
pub(crate) struct RxMemory {
    /// Descriptor ring.
    pub descriptors: DmaSlice,
    /// Completion ring.
    pub completions: DmaSlice,
    /// Buffers.
    pub buffers: DmaSlice,
}

/// A receive queue.
#[derive(Debug)]
pub struct RxQueue {
    id: QueueId,
    ticks: TickRate,
    config: RxConfig,
    ring: Producer,
    reaped: Consumer,
    descriptors: DmaSlice,
    completions: DmaSlice,
    buffers: DmaSlice,
    /// Whether a buffer is in the device.
    posted: Vec<bool>,
    /// The frame under way.
    frame: Box<[u8]>,
    frame_len: usize,
    /// Buffers of the frame under way; 0 between frames.
    frame_buffers: u32,
    /// The frame under way is not to be handed over.
    frame_bad: bool,
    last_error: Option<u8>,
    stats: RxStats,
}

impl RxQueue {
    pub(crate) fn new(id: QueueId, config: RxConfig, ticks: TickRate, memory: RxMemory) -> RxQueue {
        RxQueue {
            id,
            ticks,
            ring: Producer::new(config.ring_log2),
            reaped: Consumer::new(config.completion_log2),
            descriptors: memory.descriptors,
            completions: memory.completions,
            buffers: memory.buffers,
            posted: vec![false; config.buffers()],
            frame: vec![0; FRAME_BYTES + WORD].into(),
            frame_len: 0,
            frame_buffers: 0,
            frame_bad: false,
            last_error: None,
            stats: RxStats::default(),
            config,
        }
    }

    /// Its number.
    pub const fn id(&self) -> QueueId {
        self.id
    }

    /// How it was set up.
    pub const fn config(&self) -> &RxConfig {
        &self.config
    }

    /// Its counters.
    pub const fn stats(&self) -> &RxStats {
        &self.stats
    }

    /// Code of the last error of the queue itself, that is, of no frame.
    pub const fn last_error(&self) -> Option<u8> {
        self.last_error
    }

    /// Posts every buffer that is not in the device.
    pub(crate) fn post_all(&mut self) {
        for cookie in 0..self.posted.len() {
            if !std::mem::replace(&mut self.posted[cookie], true) {
                self.post(cookie);
            }
        }
    }

    /// Puts a buffer that is with us into the ring.
    #[inline]
    fn post(&mut self, cookie: usize) {
        let bytes = usize::from(self.config.buffer_bytes);
        let mut buffer = RxBuffer::default();
        buffer.set_bytes(self.config.buffer_bytes);
        buffer.set_cookie(cookie as u16);
        let slot = self.ring.next();
        // Never full: no more buffers than slots, less one.
        if self.ring.stage() {
            let iova = self.buffers.iova() + (cookie * bytes) as u64;
            let at = slot * RxDescriptor::BYTES;
            self.descriptors.store(at, &[iova, buffer.0]);
            self.stats.rx_buffers_posted += 1;
        } else {
            self.posted[cookie] = false;
        }
    }

    /// Tells the device of the buffers posted again, if there are any, and says
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
        // Descriptors are visible before the register write.
        fence(Ordering::Release);
        let offset = doorbell_offset(self.id.index(), doorbell::RX_TAIL);
        function.write32(0, offset as u64, u32::from(tail))?;
        self.stats.rx_doorbells += 1;
        Ok(true)
    }

    /// As [`RxQueue::flush`], once enough buffers have gathered to be worth a
    /// register write. The device has all others meanwhile.
    ///
    /// # Errors
    /// [`DriverError::Bus`]: the device is gone.
    #[inline]
    pub fn refill<F: PciFunction + ?Sized>(
        &mut self,
        function: &mut F,
    ) -> Result<bool, DriverError> {
        if self.ring.unpublished() < REFILL_BATCH {
            return Ok(false);
        }
        self.flush(function)
    }

    /// Hands at most `budget` frames (without FCS) to `each`, oldest first, and
    /// says how many. Less than `budget` means that no whole frame is left.
    #[inline]
    pub fn receive(&mut self, budget: usize, mut each: impl FnMut(&[u8], &RxMeta)) -> usize {
        let mut handed = 0;
        // A device that writes rubbish must not hold us here for ever.
        let mut entries = self.completions.len() / COMPLETION_BYTES;
        while handed < budget && entries > 0 {
            let Some(raw) = self.next_completion() else {
                break;
            };
            entries -= 1;
            if let Some(meta) = self.take(&raw) {
                handed += 1;
                each(&self.frame[..self.frame_len], &meta);
            }
        }
        handed
    }

    /// Whether [`RxQueue::receive`] has anything to do.
    #[inline]
    pub fn has_completion(&self) -> bool {
        self.peek().is_some()
    }

    /// When the frame of the next completion arrived, if there is one.
    pub(crate) fn completed_at(&self) -> Option<Nanos> {
        Some(self.ticks.to_nanos(Ticks(self.peek()?.arrival)))
    }

    #[inline]
    fn peek(&self) -> Option<RawCompletion> {
        let at = self.reaped.index() * COMPLETION_BYTES;
        let phase = self.reaped.phase();
        let words = self
            .completions
            .load_if(at, |last| RxDone(last).phase() == phase)?;
        Some(RawCompletion::from_words(words))
    }

    #[inline]
    fn next_completion(&mut self) -> Option<RawCompletion> {
        let at = self.reaped.index() * COMPLETION_BYTES;
        let phase = self.reaped.phase();
        // The device writes the word with the phase last, so it is read first.
        let words = self
            .completions
            .load_if(at, |last| RxDone(last).phase() == phase)?;
        self.reaped.advance();
        Some(RawCompletion::from_words(words))
    }

    /// Takes one buffer; the frame's facts when that was its last and it is good.
    #[inline]
    fn take(&mut self, raw: &RawCompletion) -> Option<RxMeta> {
        let cookie = usize::from(raw.status.cookie());
        if !self.posted.get(cookie).is_some_and(|p| *p) {
            self.stray(raw);
            return None;
        }
        if !self.ring.fetched_one() {
            self.stats.rx_malformed_completions += 1;
        }
        let first = raw.status.sop() == 1;
        if first != (self.frame_buffers == 0) {
            self.out_of_step();
        } else if first {
            self.begin();
        }
        self.frame_buffers += 1;
        self.append(cookie, usize::from(raw.status.bytes()));
        self.post(cookie);
        if raw.status.eop() == 1 {
            self.finish(raw)
        } else {
            None
        }
    }

    /// A completion of no buffer that is in the device.
    #[cold]
    fn stray(&mut self, raw: &RawCompletion) {
        if raw.status.cookie() == COOKIE_NONE {
            self.stats.rx_queue_errors += 1;
            self.last_error = Some(raw.status.status());
        } else {
            self.stats.rx_unknown_completions += 1;
        }
    }

    /// Nothing of the next frame has come yet.
    const fn begin(&mut self) {
        self.frame_len = 0;
        self.frame_buffers = 0;
        self.frame_bad = false;
    }

    /// A frame begins while another is under way, which thus never ended; or one
    /// goes on that never began.
    #[cold]
    fn out_of_step(&mut self) {
        if self.frame_buffers > 0 {
            self.stats.rx_malformed_completions += 1;
            self.begin();
        } else {
            self.begin();
            self.malformed();
        }
    }

    #[inline]
    fn append(&mut self, cookie: usize, bytes: usize) {
        let buffer_bytes = usize::from(self.config.buffer_bytes);
        let end = self.frame_len + bytes;
        if bytes > buffer_bytes || end > FRAME_BYTES {
            self.malformed();
            return;
        }
        // To the end of the last word: both sides have room.
        let to = &mut self.frame[self.frame_len..][..bytes.next_multiple_of(WORD)];
        self.buffers.copy_out(cookie * buffer_bytes, to);
        self.frame_len = end;
    }

    /// Drops the frame under way; counted once a frame.
    #[cold]
    fn malformed(&mut self) {
        if !self.frame_bad {
            self.frame_bad = true;
            self.stats.rx_malformed_completions += 1;
        }
    }

    #[inline]
    fn finish(&mut self, raw: &RawCompletion) -> Option<RxMeta> {
        let buffers = std::mem::take(&mut self.frame_buffers);
        if raw.status.status() != Status::Ok.code() {
            self.stats.rx_errors += 1;
            return None;
        }
        if usize::from(raw.hash.frame_len()) != self.frame_len || raw.status.queue() != self.id.0 {
            self.malformed();
        }
        if self.frame_bad {
            return None;
        }
        let meta = RxMeta {
            queue: self.id,
            arrival: self.ticks.to_nanos(Ticks(raw.arrival)),
            ip_checksum: verdict(raw.status.ip_csum()),
            l4_checksum: verdict(raw.status.l4_csum()),
            hash: (raw.status.hash_kind() != HashKind::None as u8).then_some(raw.hash.hash()),
            hash_kind: match raw.status.hash_kind() {
                1 => HashKind::L3,
                2 => HashKind::L4,
                _ => HashKind::None,
            },
        };
        let bad = [meta.ip_checksum, meta.l4_checksum].contains(&ChecksumVerdict::Bad);
        let s = &mut self.stats;
        s.rx_packets += 1;
        s.rx_bytes += self.frame_len as u64;
        s.rx_multi_buffer += u64::from(buffers > 1);
        s.rx_csum_errors += u64::from(bad);
        Some(meta)
    }

    /// Rings and frame as after power-on, every buffer staged. Call while the
    /// queue is off.
    pub(crate) fn rewind(&mut self) {
        self.ring = Producer::new(self.config.ring_log2);
        self.reaped = Consumer::new(self.config.completion_log2);
        self.completions.clear();
        self.posted.fill(false);
        self.begin();
        self.post_all();
    }

    pub(crate) const fn ring_iovas(&self) -> (u64, u64) {
        (self.descriptors.iova(), self.completions.iova())
    }
}

/// A code that the contract does not have means that nothing was checked.
#[inline]
const fn verdict(code: u8) -> ChecksumVerdict {
    match code {
        1 => ChecksumVerdict::Ok,
        2 => ChecksumVerdict::Bad,
        _ => ChecksumVerdict::None,
    }
}
