// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which descriptors are read next, and accounts for contexts.
//!
//! A request reads up to four slots of one ring, never past the tail, the
//! ring's end or a 4 KiB boundary, and no more than the queue may have contexts
//! for. Contexts are reserved here, before the read, so a descriptor that has
//! been read never waits for one.
//!
//! Share of a queue: it may take a context while it holds fewer than are free
//! (dynamic threshold, Choudhury and Hahne 1998). One greedy queue gets half of
//! the pool, k greedy queues 1/(k+1) of it each, and a queue that holds none
//! always finds one, with up to 255 others greedy.

use super::doorbell::Ring;
use crate::prelude::*;
use tsonic_regs::descriptor::TxDescriptor;

/// Contexts of the pool.
pub const CONTEXTS: usize = 256;
/// Most slots of one read.
pub const BATCH: usize = 4;
/// log2 of the reads that may be under way at once.
pub const REQUESTS_LOG2: usize = 4;

/// A read of descriptors under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Request {
    /// Queue.
    pub queue: Bits<8>,
    /// Slots, 1 to 4.
    pub count: Bits<3>,
    /// Index of the slot after the last one.
    pub head: Bits<12>,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum IssueState {
    Idle,
    Release,
    Read,
    Size,
    Least,
    Ask,
    Again,
}

/// The read requests of descriptors of Q queues.
#[derive(LogicBlock)]
pub struct Issue<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// New reads are allowed.
    pub enable: Signal<In, bool>,

    /// A queue has news.
    pub pending_valid: Signal<In, bool>,
    /// It is taken.
    pub pending_ready: Signal<Out, bool>,
    /// The queue.
    pub pending_queue: Signal<In, Bits<8>>,
    /// Its ring, one cycle later.
    pub ring: Signal<In, Ring>,
    /// Queue under work.
    pub flag_queue: Signal<Out, Bits<8>>,
    /// It is enabled.
    pub enabled: Signal<In, bool>,
    /// Its head is 0.
    pub fresh: Signal<In, bool>,
    /// `fresh` was seen.
    pub fresh_clear: Signal<Out, bool>,
    /// A queue has more to fetch.
    pub again_valid: Signal<Out, bool>,
    /// That is noted.
    pub again_ready: Signal<In, bool>,

    /// A context, or a reservation, of a queue is free again.
    pub release_valid: Signal<In, bool>,
    /// The queue.
    pub release_queue: Signal<In, Bits<8>>,

    /// Read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,

    /// Reads under way, oldest first.
    pub request_valid: Signal<Out, bool>,
    /// The oldest has been used up.
    pub request_ready: Signal<In, bool>,
    /// The oldest.
    pub request: Signal<Out, Request>,
    /// No read is under way and no queue under work.
    pub idle: Signal<Out, bool>,
    /// Every context is free.
    pub empty: Signal<Out, bool>,

    state: DFF<IssueState>,
    head_ram: QueueRam<Bits<12>, Q, 8>,
    used_ram: QueueRam<Bits<9>, Q, 8>,
    free: Reg<Bits<9>>,
    releases: Fifo<Bits<8>, 6>,
    requests: Fifo<Request, REQUESTS_LOG2>,

    queue: DFF<Bits<8>>,
    head: DFF<Bits<12>>,
    used: DFF<Bits<9>>,
    base: DFF<Bits<58>>,
    mask: DFF<Bits<12>>,
    waiting: DFF<Bits<12>>,
    to_end: DFF<Bits<12>>,
    to_page: DFF<Bits<6>>,
    allowed: DFF<Bits<3>>,
    waiting_few: DFF<Bits<3>>,
    end_few: DFF<Bits<3>>,
    page_few: DFF<Bits<3>>,
    count: DFF<Bits<3>>,
    slot: DFF<Bits<58>>,
    address: Pack2<6, 58, 64>,
    bytes: Pack3<6, 3, 4, 13>,

    start: Signal<Local, Bits<12>>,
    distance: Signal<Local, Bits<12>>,
    in_page: Signal<Local, Bits<6>>,
    slack: Signal<Local, Bits<10>>,
    least_ring: Signal<Local, Bits<3>>,
    least_limit: Signal<Local, Bits<3>>,
    end_low: Signal<Local, Bits<3>>,
    page_low: Signal<Local, Bits<3>>,
    step: Signal<Local, Bits<12>>,
    advanced: Signal<Local, Bits<12>>,
    next_head: Signal<Local, Bits<12>>,
    count_wide: Signal<Local, Bits<9>>,
    used_more: Signal<Local, Bits<9>>,
    used_less: Signal<Local, Bits<9>>,
    free_more: Signal<Local, Bits<9>>,
    free_less: Signal<Local, Bits<9>>,
    read_queue: Signal<Local, Bits<8>>,
    head_wide: Signal<Local, Bits<58>>,
    ring_base: Signal<Local, Bits<64>>,
    ring_mask: Signal<Local, Bits<12>>,
    ring_tail: Signal<Local, Bits<12>>,
    batch: Fixed<3, { BATCH as u64 }>,
    contexts: Fixed<9, { CONTEXTS as u64 }>,
}

const _: () = assert!(BATCH == 4 && TxDescriptor::BYTES == 64);

impl<const Q: usize> Default for Issue<Q> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            enable: Default::default(),
            pending_valid: Default::default(),
            pending_ready: Default::default(),
            pending_queue: Default::default(),
            ring: Default::default(),
            flag_queue: Default::default(),
            enabled: Default::default(),
            fresh: Default::default(),
            fresh_clear: Default::default(),
            again_valid: Default::default(),
            again_ready: Default::default(),
            release_valid: Default::default(),
            release_queue: Default::default(),
            rd_req_valid: Default::default(),
            rd_req_ready: Default::default(),
            rd_req_addr: Default::default(),
            rd_req_len: Default::default(),
            request_valid: Default::default(),
            request_ready: Default::default(),
            request: Default::default(),
            idle: Default::default(),
            empty: Default::default(),
            contexts: Default::default(),
            state: Default::default(),
            head_ram: Default::default(),
            used_ram: Default::default(),
            free: Reg::new(bits(CONTEXTS as u64)),
            releases: Default::default(),
            requests: Default::default(),
            queue: Default::default(),
            head: Default::default(),
            used: Default::default(),
            base: Default::default(),
            mask: Default::default(),
            waiting: Default::default(),
            to_end: Default::default(),
            to_page: Default::default(),
            allowed: Default::default(),
            waiting_few: Default::default(),
            end_few: Default::default(),
            page_few: Default::default(),
            count: Default::default(),
            slot: Default::default(),
            address: Default::default(),
            bytes: Default::default(),
            start: Default::default(),
            distance: Default::default(),
            in_page: Default::default(),
            slack: Default::default(),
            least_ring: Default::default(),
            least_limit: Default::default(),
            end_low: Default::default(),
            page_low: Default::default(),
            step: Default::default(),
            advanced: Default::default(),
            next_head: Default::default(),
            count_wide: Default::default(),
            used_more: Default::default(),
            used_less: Default::default(),
            free_more: Default::default(),
            free_less: Default::default(),
            read_queue: Default::default(),
            head_wide: Default::default(),
            ring_base: Default::default(),
            ring_mask: Default::default(),
            ring_tail: Default::default(),
            batch: Default::default(),
        }
    }
}

impl<const Q: usize> Logic for Issue<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            queue,
            head,
            used,
            base,
            mask,
            waiting,
            to_end,
            to_page,
            allowed,
            waiting_few,
            end_few,
            page_few,
            count,
            slot
        );
        self.head_ram.clock.next = self.clock.val();
        self.used_ram.clock.next = self.clock.val();
        self.free.clock.next = self.clock.val();
        self.releases.clock.next = self.clock.val();
        self.requests.clock.next = self.clock.val();
        self.releases.flush.next = false;
        self.requests.flush.next = false;
        self.releases.write_valid.next = self.release_valid.val();
        self.releases.write_data.next = self.release_queue.val();
        self.releases.read_ready.next = false;
        self.request_valid.next = self.requests.read_valid.val();
        self.request.next = self.requests.read_data.val();
        self.requests.read_ready.next = self.request_ready.val();
        self.requests.write_valid.next = false;
        self.requests.write_data.next.queue = self.queue.q.val();
        self.requests.write_data.next.count = self.count.q.val();
        self.pending_ready.next = false;
        self.flag_queue.next = self.queue.q.val();
        self.fresh_clear.next = false;
        self.again_valid.next = false;

        self.read_queue.next = self.pending_queue.val();
        if self.releases.read_valid.val() {
            self.read_queue.next = self.releases.read_data.val();
        }
        self.head_ram.read_address.next = self.read_queue.val();
        self.head_ram.write_enable.next = false;
        self.head_ram.write_address.next = self.queue.q.val();
        self.used_ram.read_address.next = self.read_queue.val();
        self.used_ram.write_enable.next = false;
        self.used_ram.write_address.next = self.queue.q.val();
        self.count_wide.next = bit_cast::<9, 3>(self.count.q.val());
        self.used_more.next = self.used.q.val() + self.count_wide.val();
        self.used_less.next = self.used_ram.read_data.val() - 1;
        self.free_more.next = self.free.q.val() + 1;
        self.free_less.next = self.free.q.val() - self.count_wide.val();
        self.used_ram.write_data.next = self.used_more.val();
        self.free.reset.next = false;
        self.free.enable.next = false;
        self.free.d.next = self.free_less.val();

        // What the ring holds, as of the cycle after it was taken.
        self.ring_base.next = self.ring.val().base;
        self.ring_mask.next = self.ring.val().mask;
        self.ring_tail.next = self.ring.val().tail;
        self.start.next = self.head_ram.read_data.val();
        if self.fresh.val() {
            self.start.next = 0.into();
        }
        self.distance.next = self.ring_tail.val() - self.start.val();
        self.in_page.next =
            self.ring_base.val().get_bits::<6>(6) + self.start.val().get_bits::<6>(0);
        self.slack.next =
            bit_cast::<10, 9>(self.free.q.val()) - bit_cast::<10, 9>(self.used_ram.read_data.val());

        // The batch: the least of what is there, what may be, and four.
        self.end_low.next = self.to_end.q.val().get_bits::<3>(0);
        self.page_low.next = self.to_page.q.val().get_bits::<3>(0);
        self.least_ring.next = self.waiting_few.q.val();
        if self.end_few.q.val() < self.waiting_few.q.val() {
            self.least_ring.next = self.end_few.q.val();
        }
        self.least_limit.next = self.allowed.q.val();
        if self.page_few.q.val() < self.allowed.q.val() {
            self.least_limit.next = self.page_few.q.val();
        }
        self.step.next = bit_cast::<12, 3>(self.count.q.val());
        self.advanced.next = self.head.q.val() + self.step.val();
        self.next_head.next = self.advanced.val() & self.mask.q.val();
        self.requests.write_data.next.head = self.next_head.val();
        self.head_ram.write_data.next = self.next_head.val();
        self.head_wide.next = bit_cast::<58, 12>(self.head.q.val());

        self.address.i0.next = 0.into();
        self.address.i1.next = self.slot.q.val();
        self.bytes.i0.next = 0.into();
        self.bytes.i1.next = self.count.q.val();
        self.bytes.i2.next = 0.into();
        self.rd_req_valid.next = false;
        self.rd_req_addr.next = self.address.out.val();
        self.rd_req_len.next = self.bytes.out.val();

        self.empty.next = self.free.q.val() == self.contexts.val();
        self.idle.next = (self.state.q.val() == IssueState::Idle)
            & self.releases.empty.val()
            & self.requests.empty.val();

        match self.state.q.val() {
            IssueState::Idle => {
                if self.releases.read_valid.val() {
                    self.queue.d.next = self.releases.read_data.val();
                    self.releases.read_ready.next = true;
                    self.state.d.next = IssueState::Release;
                } else if self.pending_valid.val()
                    & self.enable.val()
                    & self.requests.write_ready.val()
                {
                    self.queue.d.next = self.pending_queue.val();
                    self.pending_ready.next = true;
                    self.state.d.next = IssueState::Read;
                }
            }
            IssueState::Release => {
                self.used_ram.write_enable.next = true;
                self.used_ram.write_data.next = self.used_less.val();
                self.free.enable.next = true;
                self.free.d.next = self.free_more.val();
                self.state.d.next = IssueState::Idle;
            }
            IssueState::Read => {
                // A ring that was turned on since starts at 0, which is kept even when
                // nothing is to be read yet.
                self.fresh_clear.next = true;
                self.head_ram.write_enable.next = true;
                self.head_ram.write_data.next = self.start.val();
                self.head.d.next = self.start.val();
                self.used.d.next = self.used_ram.read_data.val();
                self.base.d.next = self.ring_base.val().get_bits::<58>(6);
                self.mask.d.next = self.ring_mask.val();
                self.waiting.d.next = self.distance.val() & self.ring_mask.val();
                self.to_end.d.next = self.ring_mask.val() - self.start.val();
                self.to_page.d.next = !self.in_page.val();
                self.allowed.d.next = self.batch.val();
                if self.slack.val().get_bit(9) | !self.slack.val().any() {
                    self.allowed.d.next = 0.into();
                } else if self.slack.val() < 7 {
                    if self.slack.val() < 3 {
                        self.allowed.d.next = 1.into();
                    } else if self.slack.val() < 5 {
                        self.allowed.d.next = 2.into();
                    } else {
                        self.allowed.d.next = 3.into();
                    }
                }
                if self.enabled.val() {
                    self.state.d.next = IssueState::Size;
                } else {
                    self.state.d.next = IssueState::Idle;
                }
            }
            IssueState::Size => {
                // Distances to the ring's end and the page's end count the slots
                // after this one.
                self.waiting_few.d.next = self.batch.val();
                if !self.waiting.q.val().get_bits::<10>(2).any() {
                    self.waiting_few.d.next = self.waiting.q.val().get_bits::<3>(0);
                }
                self.end_few.d.next = self.batch.val();
                if !self.to_end.q.val().get_bits::<10>(2).any() {
                    self.end_few.d.next = self.end_low.val() + 1;
                }
                self.page_few.d.next = self.batch.val();
                if !self.to_page.q.val().get_bits::<4>(2).any() {
                    self.page_few.d.next = self.page_low.val() + 1;
                }
                self.slot.d.next = self.base.q.val() + self.head_wide.val();
                if !self.waiting.q.val().any() {
                    self.state.d.next = IssueState::Idle;
                } else if !self.allowed.q.val().any() {
                    self.state.d.next = IssueState::Again;
                } else {
                    self.state.d.next = IssueState::Least;
                }
            }
            IssueState::Least => {
                self.count.d.next = self.least_limit.val();
                if self.least_ring.val() < self.least_limit.val() {
                    self.count.d.next = self.least_ring.val();
                }
                self.state.d.next = IssueState::Ask;
            }
            IssueState::Ask => {
                self.rd_req_valid.next = true;
                if self.rd_req_ready.val() {
                    self.head_ram.write_enable.next = true;
                    self.used_ram.write_enable.next = true;
                    self.free.enable.next = true;
                    self.requests.write_valid.next = true;
                    if self.waiting.q.val() > self.step.val() {
                        self.state.d.next = IssueState::Again;
                    } else {
                        self.state.d.next = IssueState::Idle;
                    }
                }
            }
            IssueState::Again => {
                self.again_valid.next = true;
                if self.again_ready.val() {
                    self.state.d.next = IssueState::Idle;
                }
            }
        }
    }
}
