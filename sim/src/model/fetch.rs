// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fetch: from a doorbell to a burst in its flow's list.
//!
//! Descriptors are read in batches of up to a DMA request, never past the tail,
//! by queues in turn, and only as many as there are contexts for. A descriptor
//! that breaks a rule completes at once with its code; one that cannot be read
//! completes with `ADDRESS_FAULT` and no cookie. The header template and the
//! continuation list are read before the burst joins its flow; what is wrong
//! with them shows when the burst's turn comes, so that completions of a flow keep
//! the order of posting. One whose list is not in order does not count in its flow's
//! bytes: a logic refuses it before it joins.

use tsonic_regs::Status;
use tsonic_regs::check::{check_list, list_entries};
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{COOKIE_NONE, FragmentEntry, FragmentLength, TxDescriptor};
use tsonic_regs::limits::{DMA_BOUNDARY, DMA_REQUEST_MAX, FRAGMENTS_MAX, HEADER_MAX};
use tsonic_types::Ticks;

use super::Model;
use super::segment::{Layout, check_burst};
use super::state::{Burst, FlowState, NONE, Read, Rings, UNPACED};
use crate::nic::Env;

/// Reads of descriptors under way at most.
const DESCRIPTOR_READS: usize = 4;
/// Bytes of the longest continuation list.
const LIST_BYTES: usize = (FRAGMENTS_MAX - 1) * FragmentEntry::BYTES;

/// Slots of `bytes` each that one request can read from `rings.fetched` on.
pub(super) fn batch(rings: &Rings, bytes: usize) -> (u64, u32) {
    let at = rings.ring + u64::from(rings.fetched) * bytes as u64;
    let to_boundary = DMA_BOUNDARY - (at % DMA_BOUNDARY as u64) as usize;
    let slots = DMA_REQUEST_MAX.min(to_boundary) / bytes;
    (at, rings.run().min(slots as u32))
}

impl Model {
    /// Whether queue `q` may take one more context.
    fn context_free(&self, q: usize) -> bool {
        let share = self.config.contexts / (2 * self.config.queues);
        self.tx[q].contexts < share
            || self.shared_used < self.config.contexts - share * self.config.queues
    }

    fn take_context(&mut self, q: usize) {
        let share = self.config.contexts / (2 * self.config.queues);
        self.shared_used += usize::from(self.tx[q].contexts >= share);
        self.tx[q].contexts += 1;
    }

    fn give_context(&mut self, q: usize) {
        let share = self.config.contexts / (2 * self.config.queues);
        self.tx[q].contexts -= 1;
        self.shared_used -= usize::from(self.tx[q].contexts >= share);
    }

    /// A transmit doorbell of an enabled queue, inside the ring.
    pub(super) fn tx_doorbell(&mut self, env: &mut Env<'_>, q: usize, tail: u32) {
        self.tx[q].rings.tail = tail;
        self.update_fetchable(q);
        self.fetch(env);
    }

    pub(super) fn update_fetchable(&mut self, q: usize) {
        let r = &self.tx[q].rings;
        let yes = r.enabled && !r.fetching && r.pending() > 0;
        self.fetchable.set(q, yes);
    }

    /// Starts the reads of descriptors that can be started.
    pub(super) fn fetch(&mut self, env: &mut Env<'_>) {
        if !self.registers.enabled() {
            return;
        }
        let queues = self.config.queues;
        let mut tried = 0;
        while self.descriptor_reads < DESCRIPTOR_READS && tried < queues {
            let Some(q) = self.fetchable.next_from(self.fetch_pointer) else {
                return;
            };
            // Queues passed over count as tried, so the loop ends.
            tried += (q + queues - self.fetch_pointer) % queues + 1;
            self.fetch_pointer = (q + 1) % queues;
            let (at, slots) = batch(&self.tx[q].rings, TxDescriptor::BYTES);
            let mut count = 0;
            while count < slots && self.context_free(q) {
                self.take_context(q);
                count += 1;
            }
            if count == 0 {
                continue;
            }
            let r = &mut self.tx[q].rings;
            let index = r.fetched;
            r.fetched = r.after(index, count);
            r.fetching = true;
            let generation = r.generation;
            self.fetchable.set(q, false);
            self.descriptor_reads += 1;
            let due = self.request(env, at, count as usize * TxDescriptor::BYTES);
            let read = Read::Descriptors {
                queue: q as u16,
                generation,
                index,
                count,
            };
            self.reads.push_back((due, read));
        }
    }

    pub(super) fn descriptors_read(
        &mut self,
        env: &mut Env<'_>,
        q: usize,
        generation: u32,
        index: u32,
        count: u32,
    ) {
        self.descriptor_reads -= 1;
        let rings = &self.tx[q].rings;
        if !rings.enabled || rings.generation != generation {
            for _ in 0..count {
                self.give_context(q);
            }
            self.fetch(env);
            return;
        }
        let at = rings.ring + u64::from(index) * TxDescriptor::BYTES as u64;
        let mut bytes = [0u8; DMA_REQUEST_MAX];
        let bytes = &mut bytes[..count as usize * TxDescriptor::BYTES];
        let read = env.memory.read_data(self.now, at, bytes);
        self.tx[q].rings.fetching = false;
        if read.is_err() {
            self.read_fault(env);
        }
        for (i, slot) in bytes.chunks_exact(TxDescriptor::BYTES).enumerate() {
            let rings = &mut self.tx[q].rings;
            rings.head = rings.after(index, i as u32 + 1);
            let mut words = [0u64; TxDescriptor::WORDS];
            for (word, b) in words.iter_mut().zip(slot.chunks_exact(8)) {
                *word = u64::from_le_bytes(b.try_into().unwrap_or_default());
            }
            let mut d = TxDescriptor::from_words(words);
            let mut status = check_burst(&d, &self.limits);
            if read.is_err() {
                d = TxDescriptor::default();
                d.burst.set_cookie(COOKIE_NONE);
                status = Status::AddressFault;
            }
            if status == Status::Ok && self.beyond_horizon(&d) {
                status = Status::BeyondHorizon;
            }
            match Layout::of(&d) {
                Some(layout) if status == Status::Ok => self.accept(env, q, d, layout),
                _ => {
                    self.give_context(q);
                    self.refuse(env, q, &d, status);
                }
            }
        }
        self.update_fetchable(q);
        self.fetch(env);
    }

    /// Whether a paced burst's launch time is too far away.
    fn beyond_horizon(&self, d: &TxDescriptor) -> bool {
        d.control.launch() == 1
            && d.burst.flow_slot() != 0
            && d.launch > (self.now + self.registers.horizon()).0
    }

    /// Completes a descriptor that never became a burst.
    fn refuse(&mut self, env: &mut Env<'_>, q: usize, d: &TxDescriptor, status: Status) {
        let mut c = TxCompletion::default();
        c.status.set_status(status.code());
        c.status.set_cookie(d.burst.cookie());
        c.status.set_flow_slot(d.burst.flow_slot());
        c.first_departure = self.now.0;
        c.last_departure = self.now.0;
        self.registers.counters.tx_bursts += 1;
        self.registers.counters.tx_errors += 1;
        self.complete(env, q, c, true);
    }

    fn accept(&mut self, env: &mut Env<'_>, q: usize, d: TxDescriptor, layout: Layout) {
        let burst = Burst {
            descriptor: d,
            layout,
            header: [0; HEADER_MAX],
            fragments: [(0, 0); FRAGMENTS_MAX],
            fragment_count: 0,
            queue: q as u16,
            generation: self.tx[q].rings.generation,
            status: Status::Ok,
            cn: false,
            throttle: false,
            counted: false,
            listed: false,
            active: true,
            offset: 0,
            index: 0,
            all_granted: false,
            in_flight: 0,
            wire_bytes: 0,
            segments: 0,
            first: None,
            last: self.now,
            next: NONE,
        };
        let id = match self.free_bursts.pop() {
            Some(id) => {
                self.bursts[id as usize] = burst;
                id
            }
            None => {
                self.bursts.push(burst);
                (self.bursts.len() - 1) as u32
            }
        };
        let mut due = self.request(env, d.header_addr, layout.header_len());
        let entries = list_entries(d.control.fragments().into());
        if entries > 0 {
            due = self.request(env, d.frag1_addr, entries * FragmentEntry::BYTES);
        }
        self.reads.push_back((due, Read::Header { burst: id }));
    }

    pub(super) fn header_read(&mut self, env: &mut Env<'_>, id: u32) {
        let b = &mut self.bursts[id as usize];
        if b.status == Status::QueueReset {
            self.finish_burst(env, id);
            return;
        }
        let template = read_template(b, self.now, env);
        let list = read_list(b, self.now, env);
        b.status = if list == Status::Ok { template } else { list };
        if [template, list].contains(&Status::AddressFault) {
            self.read_fault(env);
        }
        let b = &mut self.bursts[id as usize];
        let (q, slot) = (usize::from(b.queue), b.descriptor.burst.flow_slot());
        // Congestion is judged before the burst itself counts.
        let target = self.registers.cn_target();
        let sojourn = self.tx[q].due.front().map(|(_, t)| self.now.since(*t));
        let b = &mut self.bursts[id as usize];
        b.cn = sojourn.is_some_and(|s| s > target);
        b.listed = true;
        if slot == 0 {
            let queue = &mut self.tx[q];
            queue.unpaced.push(&mut self.bursts, id);
            if !queue.unpaced_due {
                queue.unpaced_due = true;
                self.push_due(q, UNPACED);
                self.refresh(q);
            }
            return;
        }
        let slot = usize::from(slot);
        let flow = &mut self.flows[slot];
        if list == Status::Ok {
            let (payload, limit) = (
                b.descriptor.burst.payload_len(),
                b.descriptor.burst.flow_limit(),
            );
            b.counted = true;
            b.throttle = flow.bytes.join(payload, limit);
        }
        flow.bursts.push(&mut self.bursts, id);
        if flow.state == FlowState::Idle {
            flow.pace.start(self.now);
            self.flow_has_head(slot);
        }
    }

    /// A burst has become the first of a flow.
    pub(super) fn flow_has_head(&mut self, slot: usize) {
        let flow = &mut self.flows[slot];
        let d = &self.bursts[flow.bursts.head as usize].descriptor;
        if d.control.launch() == 1 {
            flow.pace.launch(Ticks(d.launch));
        }
        self.schedule_flow(slot);
    }

    /// Puts a flow that has work where its next departure says.
    pub(super) fn schedule_flow(&mut self, slot: usize) {
        let key = self.flows[slot].pace.key();
        if key <= self.now {
            self.flow_due(slot);
        } else {
            self.flows[slot].state = FlowState::Waiting;
            self.waiting.insert(slot, key);
        }
    }

    /// A flow's next segment may leave.
    pub(super) fn flow_due(&mut self, slot: usize) {
        let flow = &mut self.flows[slot];
        let q = self.bursts[flow.bursts.head as usize].queue;
        flow.state = FlowState::Due(q);
        self.push_due(q.into(), slot as u32);
        self.refresh(q.into());
    }

    /// Adds a member to a queue's due list.
    pub(super) fn push_due(&mut self, q: usize, member: u32) {
        self.tx[q].due.push_back((member, self.now));
    }

    /// A burst leaves the device: its context is free.
    pub(super) fn free_burst(&mut self, env: &mut Env<'_>, id: u32) {
        self.bursts[id as usize].active = false;
        let q = usize::from(self.bursts[id as usize].queue);
        self.free_bursts.push(id);
        self.give_context(q);
        if !self.fetchable.is_empty() {
            self.fetch(env);
        }
    }
}

/// Reads the header template of a burst.
fn read_template(b: &mut Burst, now: Ticks, env: &mut Env<'_>) -> Status {
    let header = &mut b.header[..b.layout.header_len()];
    match env.memory.read_data(now, b.descriptor.header_addr, header) {
        Ok(()) => Status::Ok,
        Err(_) => Status::AddressFault,
    }
}

/// Reads the fragments of a burst, and judges its continuation list.
fn read_list(b: &mut Burst, now: Ticks, env: &mut Env<'_>) -> Status {
    let d = &b.descriptor;
    let fragments = usize::from(d.control.fragments());
    let entries = list_entries(fragments);
    b.fragments[0] = (d.frag0_addr, d.lengths.frag0_len());
    b.fragments[1] = (d.frag1_addr, d.lengths.frag1_len());
    b.fragment_count = fragments;
    if entries == 0 {
        return Status::Ok;
    }
    let mut bytes = [0u8; LIST_BYTES];
    let bytes = &mut bytes[..entries * FragmentEntry::BYTES];
    if env.memory.read_data(now, d.frag1_addr, bytes).is_err() {
        return Status::AddressFault;
    }
    let mut list = [FragmentEntry::default(); FRAGMENTS_MAX - 1];
    for (entry, words) in list
        .iter_mut()
        .zip(bytes.chunks_exact(FragmentEntry::BYTES))
    {
        let (addr, length) = words.split_at(8);
        entry.addr = u64::from_le_bytes(addr.try_into().unwrap_or_default());
        entry.length = FragmentLength(u64::from_le_bytes(length.try_into().unwrap_or_default()));
    }
    for (fragment, entry) in b.fragments[1..].iter_mut().zip(&list[..entries]) {
        *fragment = (entry.addr, entry.length.bytes());
    }
    check_list(d, &list[..entries])
}
