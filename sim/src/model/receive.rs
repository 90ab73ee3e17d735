// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive: MAC -> parse, checksums, RSS -> buffers of the queue's ring ->
//! completion.
//!
//! A frame is stored while it arrives, and classified when it is whole. Frames
//! wait in order for buffers that are still being fetched; a frame for which the
//! ring cannot have enough is dropped whole and counted, unless the world waits for
//! its host ([`crate::nic::Nic::wait_for_buffers`]). A buffer descriptor
//! that breaks the contract is handed back with its code and no data.

use std::collections::VecDeque;

use tsonic_regs::Status;
use tsonic_regs::completion::{ChecksumVerdict, RxCompletion};
use tsonic_regs::descriptor::{COOKIE_NONE, RxBuffer, RxDescriptor};
use tsonic_regs::limits::{DMA_REQUEST_MAX, RSS_KEY, RSS_KEY_DEFAULT, RSS_TABLE};
use tsonic_types::Ticks;

use super::classify::{Classified, Toeplitz, classify};
use super::fetch::batch;
use super::registers::Registers;
use super::state::Read;
use super::{Model, ModelConfig};
use crate::nic::{Arrival, Env};

/// Smallest buffer.
const BUFFER_MIN: u16 = 64;
/// Buffers that a queue keeps fetched ahead.
const BUFFERS_AHEAD: usize = 32;

/// A whole frame that waits for its buffers.
struct Stored {
    frame: Vec<u8>,
    at: Ticks,
    queue: usize,
    class: Classified,
}

/// State of the receive side beside its queues.
pub(super) struct Receiver {
    toeplitz: Toeplitz,
    /// The frame that is arriving, and when its last byte does.
    arriving: Option<(Ticks, Arrival, Vec<u8>)>,
    stored: VecDeque<Stored>,
    stored_bytes: usize,
    /// When the write port has taken all that was written.
    write_free: Ticks,
    queues: usize,
    pool: Vec<Vec<u8>>,
    frame_max: usize,
    store: usize,
    /// A frame waits for buffers that were not posted yet.
    patient: bool,
}

impl Receiver {
    pub fn new(config: &ModelConfig) -> Receiver {
        Receiver {
            toeplitz: Toeplitz::new(&RSS_KEY_DEFAULT),
            arriving: None,
            stored: VecDeque::new(),
            stored_bytes: 0,
            write_free: Ticks::ZERO,
            queues: config.queues,
            pool: Vec::new(),
            frame_max: config.rx_frame_max,
            store: config.rx_store,
            patient: false,
        }
    }

    pub fn reset(&mut self, registers: &Registers, queues: usize) {
        self.arriving = None;
        self.stored.clear();
        self.stored_bytes = 0;
        self.write_free = Ticks::ZERO;
        self.queues = queues;
        self.set_key(&registers.rss_key);
    }

    pub fn set_key(&mut self, key: &[u8; RSS_KEY]) {
        self.toeplitz = Toeplitz::new(key);
    }

    /// Looks again at the frame that waits for buffers.
    pub fn wake(&mut self, now: Ticks) {
        self.write_free = self.write_free.min(now);
    }

    pub fn set_patient(&mut self, patient: bool, now: Ticks) {
        if !patient {
            // What has waited for buffers is dropped now.
            self.wake(now);
        }
        self.patient = patient;
    }

    /// A frame is arriving.
    pub fn busy(&self) -> bool {
        self.arriving.is_some()
    }

    pub fn is_idle(&self) -> bool {
        self.arriving.is_none() && self.stored.is_empty()
    }

    pub fn next_event(&self) -> Option<Ticks> {
        let arrived = self.arriving.as_ref().map(|(end, ..)| *end);
        let waiting = self.stored.front().map(|_| self.write_free);
        match (arrived, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}

impl Model {
    /// Does what is due at the MAC and in the store.
    pub(super) fn receive(&mut self, env: &mut Env<'_>) {
        if self
            .receiver
            .arriving
            .as_ref()
            .is_some_and(|(end, ..)| *end <= self.now)
            && let Some((_, arrival, frame)) = self.receiver.arriving.take()
        {
            self.arrived(arrival, frame);
        }
        if self.receiver.arriving.is_none() && env.mac.rx_next().is_some_and(|t| t <= self.now) {
            let mut frame = self.receiver.pool.pop().unwrap_or_default();
            match env.mac.rx_take(&mut frame) {
                Some(arrival) => {
                    let end = arrival.at.max(self.now) + Ticks(self.config.beats(frame.len()));
                    self.receiver.arriving = Some((end, arrival, frame));
                }
                None => self.receiver.pool.push(frame),
            }
        }
        self.deliver(env);
    }

    /// A frame is whole.
    fn arrived(&mut self, arrival: Arrival, frame: Vec<u8>) {
        let r = &mut self.receiver;
        if !self.registers.enabled() {
            r.pool.push(frame);
            return;
        }
        let c = &mut self.registers.counters;
        c.rx_frames += 1;
        c.rx_bytes += frame.len() as u64;
        if arrival.bad || frame.is_empty() || frame.len() > r.frame_max {
            c.rx_errors += 1;
            r.pool.push(frame);
            return;
        }
        let class = classify(&frame, &r.toeplitz);
        let bad = ChecksumVerdict::Bad;
        if class.ip_csum == bad || class.l4_csum == bad {
            c.rx_csum_errors += 1;
        }
        let row = class.hash as usize % RSS_TABLE;
        let queue = self.registers.rss_table[row] as usize;
        let queue = if queue < r.queues { queue } else { 0 };
        if r.stored_bytes + frame.len() > r.store {
            c.rx_no_buffer += 1;
            r.pool.push(frame);
            return;
        }
        r.stored_bytes += frame.len();
        r.stored.push_back(Stored {
            frame,
            at: arrival.at,
            queue,
            class,
        });
    }

    /// Writes stored frames to their buffers, in order, as far as buffers and the
    /// write port allow.
    fn deliver(&mut self, env: &mut Env<'_>) {
        while self.receiver.write_free <= self.now {
            let Some(stored) = self.receiver.stored.front() else {
                return;
            };
            let queue = &self.rx[stored.queue];
            let len = stored.frame.len();
            let room: usize = queue
                .buffers
                .iter()
                .map(|b| usize::from(b.buffer.bytes()))
                .sum();
            let rings = &queue.rings;
            let coming = rings.fetching || rings.pending() > 0;
            if room < len && rings.enabled && (coming || self.receiver.patient) {
                // More buffers are coming, or will be; `buffers_read` comes back here.
                let q = stored.queue;
                self.receiver.write_free = Ticks(u64::MAX);
                self.fetch_buffers_of(env, q, usize::MAX);
                return;
            }
            let Some(stored) = self.receiver.stored.pop_front() else {
                return;
            };
            self.receiver.stored_bytes -= len;
            if room < len {
                self.registers.counters.rx_no_buffer += 1;
            } else {
                self.write_frame(env, &stored);
                self.receiver.write_free = self.now + Ticks(self.config.beats(len));
            }
            self.receiver.pool.push(stored.frame);
            self.fetch_buffers_of(env, stored.queue, BUFFERS_AHEAD);
        }
    }

    /// The queue whose ring is empty, if the first stored frame waits for it.
    pub(super) fn starving_queue(&self) -> Option<usize> {
        let r = &self.receiver;
        let queue = r.stored.front()?.queue;
        let rings = &self.rx[queue].rings;
        let coming = rings.fetching || rings.pending() > 0;
        let waits = r.patient && r.write_free == Ticks(u64::MAX);
        (waits && rings.enabled && !coming).then_some(queue)
    }

    fn write_frame(&mut self, env: &mut Env<'_>, stored: &Stored) {
        let mut rest = &stored.frame[..];
        let mut first = true;
        while !rest.is_empty() {
            let Some(buffer) = self.rx[stored.queue].buffers.pop_front() else {
                return;
            };
            let n = rest.len().min(buffer.buffer.bytes().into());
            let (now, later) = rest.split_at(n);
            self.post_write(env, buffer.addr, now);
            rest = later;
            let mut c = RxCompletion::default();
            c.status.set_sop(first.into());
            c.status.set_eop(rest.is_empty().into());
            c.status.set_ip_csum(stored.class.ip_csum as u8);
            c.status.set_l4_csum(stored.class.l4_csum as u8);
            c.status.set_hash_kind(stored.class.hash_kind as u8);
            c.status.set_cookie(buffer.buffer.cookie());
            c.status.set_bytes(n as u16);
            c.arrival = stored.at.0;
            c.hash.set_hash(stored.class.hash);
            c.hash.set_frame_len(stored.frame.len() as u16);
            self.complete_rx(env, stored.queue, c);
            first = false;
        }
    }

    /// Writes a receive completion.
    pub(super) fn complete_rx(&mut self, env: &mut Env<'_>, q: usize, mut c: RxCompletion) {
        let (at, phase) = self.rx[q].rings.complete();
        c.status.set_queue(q as u16);
        c.done.set_phase(phase);
        let mut bytes = [0u8; 32];
        for (b, word) in bytes.chunks_exact_mut(8).zip(c.to_words()) {
            b.copy_from_slice(&word.to_le_bytes());
        }
        self.post_write(env, at, &bytes);
        let at_once = c.status.status() != Status::Ok.code();
        self.signal(env, q, at_once);
    }

    /// Fetches buffers ahead, for every queue.
    pub(super) fn fetch_buffers(&mut self, env: &mut Env<'_>) {
        for q in 0..self.rx.len() {
            self.fetch_buffers_of(env, q, BUFFERS_AHEAD);
        }
    }

    /// Fetches buffers of queue `q` until `ahead` are there.
    fn fetch_buffers_of(&mut self, env: &mut Env<'_>, q: usize, ahead: usize) {
        let queue = &self.rx[q];
        let r = &queue.rings;
        if !r.enabled
            || r.fetching
            || r.pending() == 0
            || queue.buffers.len() >= ahead
            || !self.registers.enabled()
        {
            return;
        }
        let (at, count) = batch(r, RxDescriptor::BYTES);
        let r = &mut self.rx[q].rings;
        let read = Read::Buffers {
            queue: q as u16,
            generation: r.generation,
            index: r.fetched,
            count,
        };
        r.fetched = r.after(r.fetched, count);
        r.fetching = true;
        let due = self.request(env, at, count as usize * RxDescriptor::BYTES);
        self.reads.push_back((due, read));
    }

    pub(super) fn buffers_read(
        &mut self,
        env: &mut Env<'_>,
        q: usize,
        generation: u32,
        index: u32,
        count: u32,
    ) {
        self.receiver.wake(self.now);
        let rings = &self.rx[q].rings;
        if !rings.enabled || rings.generation != generation {
            return;
        }
        let at = rings.ring + u64::from(index) * RxDescriptor::BYTES as u64;
        let mut bytes = [0u8; DMA_REQUEST_MAX];
        let bytes = &mut bytes[..count as usize * RxDescriptor::BYTES];
        let read = env.memory.read_data(self.now, at, bytes);
        self.rx[q].rings.fetching = false;
        if read.is_err() {
            self.read_fault(env);
        }
        for slot in bytes.chunks_exact(RxDescriptor::BYTES) {
            let (addr, buffer) = slot.split_at(8);
            let mut d = RxDescriptor {
                addr: u64::from_le_bytes(addr.try_into().unwrap_or_default()),
                buffer: RxBuffer(u64::from_le_bytes(buffer.try_into().unwrap_or_default())),
            };
            let status = if read.is_err() {
                d.buffer.set_cookie(COOKIE_NONE);
                Status::AddressFault
            } else {
                check_buffer(&d)
            };
            if status == Status::Ok {
                self.rx[q].buffers.push_back(d);
                continue;
            }
            let mut c = RxCompletion::default();
            c.status.set_status(status.code());
            c.status.set_cookie(d.buffer.cookie());
            c.arrival = self.now.0;
            self.complete_rx(env, q, c);
        }
        self.fetch_buffers_of(env, q, BUFFERS_AHEAD);
    }
}

/// The status of a buffer descriptor.
fn check_buffer(d: &RxDescriptor) -> Status {
    if d.buffer.0 >> 32 != 0 {
        Status::ReservedBits
    } else if d.buffer.bytes() < BUFFER_MIN {
        Status::LengthMismatch
    } else if !d.addr.is_multiple_of(8) {
        Status::AddressFault
    } else {
        Status::Ok
    }
}
