// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of every queue's receive rings, in one place.
//!
//! One operation a cycle reads a queue's row, works on it and writes it back:
//! cycle 0 chooses among those who ask, cycle 1 does it, and from cycle 2 on,
//! for one cycle, the results stand at the outputs. Registers and doorbells come
//! first and are never refused; then delivery, filling, fetching.
//!
//! | operation | asked by | does | answers |
//! |---|---|---|---|
//! | register | csr | sizes, enable; turning a queue on resets its row | |
//! | doorbell | csr | new tail, if inside the ring of an enabled queue | `refused`, `bell_error` |
//! | look | fetch | | `count` of posted descriptors that may be read, 0 to 4: in one aligned 64-byte block, before the ring's end, none unless the cache has room for four; `slot` (of the ring), `epoch` |
//! | claim | fetch | takes as many | `found`, unless the queue has begun another life |
//! | peek | fill | | `place` (of the cache) where arriving descriptors go, `epoch` |
//! | fill | fill | `good` of `taken` descriptors are in the cache now | |
//! | take | delivery | takes the oldest descriptor from the cache | `found`, `place`, `epoch`; `waiting` when one is under way |
//! | complete | delivery | takes the next entry of the completion ring | `found`, `index`, `turned` |
//!
//! The *epoch* counts how often a queue was turned on: what belongs to a former
//! life of the queue (reads under way, a frame in delivery) carries another one
//! and is ignored.

use crate::prelude::*;
use crate::words::{UnpackQueueControl, UnpackRingSize};
use tsonic_regs::limits::{RING_LOG2_MAX, RING_LOG2_MIN};
use tsonic_regs::registers::queue;

/// log2 of the descriptors that the cache holds of each queue.
pub const CACHE_LOG2: usize = 4;

/// What is known of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct RingRow {
    /// Bits 5:4 of the ring's address.
    pub lean: Bits<2>,
    /// Slots less 1; 0: no valid size.
    pub mask: Bits<12>,
    /// Entries of the completion ring less 1; 0: no valid size.
    pub completion_mask: Bits<13>,
    /// Slot after the last one posted.
    pub tail: Bits<12>,
    /// Next slot to be fetched.
    pub head: Bits<12>,
    /// Descriptors that are being read.
    pub coming: Bits<5>,
    /// Descriptors in the cache.
    pub cached: Bits<5>,
    /// Place of the oldest of them.
    pub oldest: Bits<4>,
    /// Next entry of the completion ring.
    pub index: Bits<13>,
    /// The pass over the completion ring is an even one: phase 0.
    pub turned: Bit,
    /// Life of the queue.
    pub epoch: Bits<4>,
}

/// State of Q queues; 2^A is Q or more.
#[derive(LogicBlock, Default)]
pub struct RingTable<const Q: usize, const A: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The device is enabled: descriptors may be fetched.
    pub enable: Signal<In, bool>,
    /// A reset is under way: every queue is turned off.
    pub resetting: Signal<In, bool>,
    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,
    /// A doorbell is rung (never in the cycle of a register write).
    pub bell_valid: Signal<In, bool>,
    /// Its queue.
    pub bell_queue: Signal<In, Bits<8>>,
    /// New tail.
    pub bell_tail: Signal<In, Bits<32>>,

    /// A look or a claim is asked for.
    pub fetch_valid: Signal<In, bool>,
    /// Taken.
    pub fetch_ready: Signal<Out, bool>,
    /// Queue.
    pub fetch_queue: Signal<In, Bits<8>>,
    /// It is a claim.
    pub fetch_claim: Signal<In, bool>,
    /// Descriptors claimed.
    pub fetch_count: Signal<In, Bits<3>>,
    /// Life of the queue.
    pub fetch_epoch: Signal<In, Bits<4>>,
    /// A peek or a fill is asked for.
    pub fill_valid: Signal<In, bool>,
    /// Taken.
    pub fill_ready: Signal<Out, bool>,
    /// It is a peek.
    pub fill_peek: Signal<In, bool>,
    /// Queue.
    pub fill_queue: Signal<In, Bits<8>>,
    /// Descriptors that were asked for.
    pub fill_taken: Signal<In, Bits<3>>,
    /// Those that are in the cache.
    pub fill_good: Signal<In, Bits<3>>,
    /// Life of the queue.
    pub fill_epoch: Signal<In, Bits<4>>,
    /// A take or a complete is asked for.
    pub deliver_valid: Signal<In, bool>,
    /// Taken.
    pub deliver_ready: Signal<Out, bool>,
    /// It is a take.
    pub deliver_take: Signal<In, bool>,
    /// Queue.
    pub deliver_queue: Signal<In, Bits<8>>,
    /// Life of the queue (complete).
    pub deliver_epoch: Signal<In, Bits<4>>,
    /// The life does not matter.
    pub deliver_any: Signal<In, bool>,

    /// See the module, here and below.
    pub count: Signal<Out, Bits<3>>,
    /// Slot of the ring.
    pub slot: Signal<Out, Bits<12>>,
    /// Place in the cache.
    pub place: Signal<Out, Bits<4>>,
    /// Life of the queue.
    pub epoch: Signal<Out, Bits<4>>,
    /// There is one.
    pub found: Signal<Out, bool>,
    /// There will be one, or an end to waiting.
    pub waiting: Signal<Out, bool>,
    /// Entry of the completion ring.
    pub index: Signal<Out, Bits<13>>,
    /// Its phase is 0.
    pub turned: Signal<Out, bool>,
    /// A doorbell was refused.
    pub refused: Signal<Out, bool>,
    /// It was that of an enabled queue.
    pub bell_error: Signal<Out, bool>,
    /// Queue of that doorbell.
    pub bell_error_queue: Signal<Out, Bits<8>>,

    rows: LutRam<RingRow, A>,
    enabled: Flags<Q, 8>,
    sizes: UnpackRingSize,
    control: UnpackQueueControl,

    // The operation that was chosen.
    op_lean: DFF<bool>,
    op_size: DFF<bool>,
    op_control: DFF<bool>,
    op_bell: DFF<bool>,
    op_claim: DFF<bool>,
    op_peek: DFF<bool>,
    op_fill: DFF<bool>,
    op_take: DFF<bool>,
    op_complete: DFF<bool>,
    op_any: DFF<bool>,
    op_queue: DFF<Bits<8>>,
    op_value: DFF<Bits<32>>,
    op_epoch: DFF<Bits<4>>,
    op_taken: DFF<Bits<3>>,
    op_good: DFF<Bits<3>>,
    outside: Signal<Local, bool>,
    busy2: Signal<Local, bool>,
    busy3: Signal<Local, bool>,

    // Its work.
    address: Signal<Local, Bits<A>>,
    address_wide: Signal<Local, Bits<8>>,
    known: Signal<Local, bool>,
    row: Signal<Local, RingRow>,
    updated: Signal<Local, RingRow>,
    write: Signal<Local, bool>,
    on: Signal<Local, bool>,
    lean: Signal<Local, Bits<2>>,
    mask: Signal<Local, Bits<12>>,
    completion_mask: Signal<Local, Bits<13>>,
    tail: Signal<Local, Bits<12>>,
    head: Signal<Local, Bits<12>>,
    coming: Signal<Local, Bits<5>>,
    cached: Signal<Local, Bits<5>>,
    oldest: Signal<Local, Bits<4>>,
    entry: Signal<Local, Bits<13>>,
    turn: Signal<Local, bool>,
    life: Signal<Local, Bits<4>>,
    same_life: Signal<Local, bool>,
    value_tail: Signal<Local, Bits<12>>,
    tail_over: Signal<Local, Bits<12>>,
    in_ring: Signal<Local, bool>,
    posted: Signal<Local, Bits<12>>,
    posted_few: Signal<Local, Bits<3>>,
    head_low: Signal<Local, Bits<2>>,
    place_low: Signal<Local, Bits<2>>,
    least: Signal<Local, Bits<2>>,
    room: Signal<Local, Bits<3>>,
    batch: Signal<Local, Bits<3>>,
    used: Signal<Local, Bits<5>>,
    next_head: Signal<Local, Bits<12>>,
    coming_more: Signal<Local, Bits<5>>,
    coming_less: Signal<Local, Bits<5>>,
    cached_more: Signal<Local, Bits<5>>,
    next_entry: Signal<Local, Bits<13>>,
    ring_log2: Signal<Local, Bits<4>>,
    completion_log2: Signal<Local, Bits<4>>,
    new_mask: Signal<Local, Bits<12>>,
    new_completion_mask: Signal<Local, Bits<13>>,

    r_count: DFF<Bits<3>>,
    r_slot: DFF<Bits<12>>,
    r_place: DFF<Bits<4>>,
    r_epoch: DFF<Bits<4>>,
    r_found: DFF<bool>,
    r_waiting: DFF<bool>,
    r_index: DFF<Bits<13>>,
    r_turned: DFF<bool>,
    r_refused: DFF<bool>,
    r_error: DFF<bool>,
    r_error_queue: DFF<Bits<8>>,

    reg_ring_lo: Fixed<7, { queue::RX_RING_LO.offset as u64 }>,
    reg_size: Fixed<7, { queue::RX_RING_SIZE.offset as u64 }>,
    reg_control: Fixed<7, { queue::RX_CONTROL.offset as u64 }>,
    ones: Fixed<12, 0xFFF>,
    completion_ones: Fixed<13, 0x1FFF>,
    log2_min: Fixed<4, { RING_LOG2_MIN as u64 }>,
    log2_max: Fixed<4, { RING_LOG2_MAX as u64 }>,
    completion_log2_max: Fixed<4, { RING_LOG2_MAX as u64 + 1 }>,
}

impl<const Q: usize, const A: usize> Logic for RingTable<Q, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            op_lean,
            op_size,
            op_control,
            op_bell,
            op_claim,
            op_peek,
            op_fill,
            op_take,
            op_complete,
            op_any,
            op_queue,
            op_value,
            op_epoch,
            op_taken,
            op_good,
            r_count,
            r_slot,
            r_place,
            r_epoch,
            r_found,
            r_waiting,
            r_index,
            r_turned,
            r_refused,
            r_error,
            r_error_queue
        );
        self.rows.clock.next = self.clock.val();
        self.enabled.clock.next = self.clock.val();

        // Cycle 0: who goes first.
        self.outside.next = self.cfg_valid.val() | self.bell_valid.val();
        self.busy2.next = self.outside.val() | self.deliver_valid.val();
        self.busy3.next = self.busy2.val() | self.fill_valid.val();
        self.deliver_ready.next = !self.outside.val();
        self.fill_ready.next = !self.busy2.val();
        self.fetch_ready.next = !self.busy3.val();
        self.op_lean.d.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_ring_lo.val());
        self.op_size.d.next = self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_size.val());
        self.op_control.d.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_control.val());
        self.op_bell.d.next = self.bell_valid.val() & !self.cfg_valid.val();
        self.op_take.d.next =
            self.deliver_valid.val() & self.deliver_take.val() & !self.outside.val();
        self.op_complete.d.next =
            self.deliver_valid.val() & !self.deliver_take.val() & !self.outside.val();
        self.op_peek.d.next = self.fill_valid.val() & self.fill_peek.val() & !self.busy2.val();
        self.op_fill.d.next = self.fill_valid.val() & !self.fill_peek.val() & !self.busy2.val();
        self.op_claim.d.next = self.fetch_valid.val() & self.fetch_claim.val() & !self.busy3.val();
        self.op_any.d.next = self.deliver_any.val();
        self.op_taken.d.next = self.fetch_count.val();
        self.op_good.d.next = self.fill_good.val();
        self.op_value.d.next = self.cfg_value.val();
        if self.bell_valid.val() {
            self.op_value.d.next = self.bell_tail.val();
        }
        self.op_epoch.d.next = self.fetch_epoch.val();
        self.op_queue.d.next = self.fetch_queue.val();
        if self.cfg_valid.val() {
            self.op_queue.d.next = self.cfg_queue.val();
        } else if self.bell_valid.val() {
            self.op_queue.d.next = self.bell_queue.val();
        } else if self.deliver_valid.val() {
            self.op_queue.d.next = self.deliver_queue.val();
            self.op_epoch.d.next = self.deliver_epoch.val();
        } else if self.fill_valid.val() {
            self.op_queue.d.next = self.fill_queue.val();
            self.op_epoch.d.next = self.fill_epoch.val();
            self.op_taken.d.next = self.fill_taken.val();
        }

        // Cycle 1: the row.
        self.address.next = bit_cast::<A, 8>(self.op_queue.q.val());
        self.address_wide.next = bit_cast::<8, A>(self.address.val());
        self.known.next = self.address_wide.val() == self.op_queue.q.val();
        self.rows.read_address.next = self.address.val();
        self.rows.write_address.next = self.address.val();
        self.enabled.read_index0.next = self.op_queue.q.val();
        self.enabled.read_index1.next = self.op_queue.q.val();
        self.enabled.set_index.next = self.op_queue.q.val();
        self.enabled.clear_index.next = self.op_queue.q.val();
        self.enabled.reset.next = self.resetting.val();
        self.enabled.set.next = false;
        self.enabled.clear.next = false;
        self.on.next = self.enabled.read0.val();
        self.row.next = self.rows.read_data.val();
        self.updated.next = self.row.val();
        self.write.next = false;
        self.lean.next = self.row.val().lean;
        self.mask.next = self.row.val().mask;
        self.completion_mask.next = self.row.val().completion_mask;
        self.tail.next = self.row.val().tail;
        self.head.next = self.row.val().head;
        self.coming.next = self.row.val().coming;
        self.cached.next = self.row.val().cached;
        self.oldest.next = self.row.val().oldest;
        self.entry.next = self.row.val().index;
        self.turn.next = self.row.val().turned;
        self.life.next = self.row.val().epoch;
        self.same_life.next = self.life.val() == self.op_epoch.q.val();

        // Registers.
        self.sizes.data.next = self.op_value.q.val();
        self.control.data.next = self.op_value.q.val();
        self.ring_log2.next = self.sizes.ring.val();
        self.completion_log2.next = self.sizes.completion.val();
        self.new_mask.next = 0.into();
        if (self.ring_log2.val() >= self.log2_min.val())
            & (self.ring_log2.val() <= self.log2_max.val())
        {
            self.new_mask.next = !(self.ones.val() << self.ring_log2.val());
        }
        self.new_completion_mask.next = 0.into();
        if (self.completion_log2.val() >= self.log2_min.val())
            & (self.completion_log2.val() <= self.completion_log2_max.val())
        {
            self.new_completion_mask.next =
                !(self.completion_ones.val() << self.completion_log2.val());
        }
        if self.op_lean.q.val() {
            self.updated.next.lean = self.op_value.q.val().get_bits::<2>(4);
            self.write.next = true;
        }
        if self.op_size.q.val() {
            self.updated.next.mask = self.new_mask.val();
            self.updated.next.completion_mask = self.new_completion_mask.val();
            self.write.next = true;
        }
        if self.op_control.q.val() {
            if self.control.enable.val().any() {
                self.enabled.set.next = true;
                if !self.on.val() {
                    self.updated.next.tail = 0.into();
                    self.updated.next.head = 0.into();
                    self.updated.next.coming = 0.into();
                    self.updated.next.cached = 0.into();
                    self.updated.next.oldest = 0.into();
                    self.updated.next.index = 0.into();
                    self.updated.next.turned = false;
                    self.updated.next.epoch = self.life.val() + 1;
                    self.write.next = true;
                }
            } else {
                self.enabled.clear.next = true;
            }
        }

        // Doorbell: a ring without a size takes none.
        self.value_tail.next = self.op_value.q.val().get_bits::<12>(0);
        self.tail_over.next = self.value_tail.val() & !self.mask.val();
        self.in_ring.next = !self.op_value.q.val().get_bits::<20>(12).any()
            & !self.tail_over.val().any()
            & self.mask.val().any();
        self.r_refused.d.next = false;
        self.r_error.d.next = false;
        self.r_error_queue.d.next = self.op_queue.q.val();
        if self.op_bell.q.val() {
            if self.on.val() & self.in_ring.val() {
                self.updated.next.tail = self.value_tail.val();
                self.write.next = true;
            } else {
                self.r_refused.d.next = true;
                self.r_error.d.next = self.on.val();
            }
        }

        // Look: up to the next multiple of four in the ring and in memory.
        self.posted.next = (self.tail.val() - self.head.val()) & self.mask.val();
        self.posted_few.next = self.posted.val().get_bits::<3>(0);
        if self.posted.val().get_bits::<10>(2).any() {
            self.posted_few.next = 4.into();
        }
        self.head_low.next = self.head.val().get_bits::<2>(0);
        self.place_low.next = self.head_low.val() + self.lean.val();
        self.least.next = self.head_low.val();
        if self.place_low.val() > self.head_low.val() {
            self.least.next = self.place_low.val();
        }
        self.room.next = 4 - bit_cast::<3, 2>(self.least.val());
        self.batch.next = self.room.val();
        if self.posted_few.val() < self.room.val() {
            self.batch.next = self.posted_few.val();
        }
        self.used.next = self.coming.val() + self.cached.val();
        if !self.on.val() | !self.enable.val() | (self.used.val() > 12) {
            self.batch.next = 0.into();
        }
        // Claim.
        self.next_head.next =
            (self.head.val() + bit_cast::<12, 3>(self.op_taken.q.val())) & self.mask.val();
        self.coming_more.next = self.coming.val() + bit_cast::<5, 3>(self.op_taken.q.val());
        self.r_found.d.next = false;
        if self.op_claim.q.val() & self.on.val() & self.same_life.val() {
            self.updated.next.head = self.next_head.val();
            self.updated.next.coming = self.coming_more.val();
            self.write.next = true;
            self.r_found.d.next = true;
        }

        // Fill.
        self.coming_less.next = self.coming.val() - bit_cast::<5, 3>(self.op_taken.q.val());
        self.cached_more.next = self.cached.val() + bit_cast::<5, 3>(self.op_good.q.val());
        if self.op_fill.q.val() & self.same_life.val() {
            self.updated.next.coming = self.coming_less.val();
            self.updated.next.cached = self.cached_more.val();
            self.write.next = true;
        }

        // Take.
        self.r_count.d.next = self.batch.val();
        self.r_slot.d.next = self.head.val();
        self.r_epoch.d.next = self.life.val();
        self.r_place.d.next = self.oldest.val();
        if self.op_peek.q.val() {
            self.r_place.d.next = self.oldest.val() + self.cached.val().get_bits::<4>(0);
        }
        self.r_waiting.d.next = false;
        if self.op_take.q.val() & self.on.val() {
            if self.cached.val() != 0 {
                self.r_found.d.next = true;
                self.updated.next.oldest = self.oldest.val() + 1;
                self.updated.next.cached = self.cached.val() - 1;
                self.write.next = true;
            } else {
                self.r_waiting.d.next =
                    (self.coming.val() != 0) | (self.posted.val().any() & self.enable.val());
            }
        }

        // Complete.
        self.r_index.d.next = self.entry.val();
        self.r_turned.d.next = self.turn.val();
        self.next_entry.next = (self.entry.val() + 1) & self.completion_mask.val();
        if self.op_complete.q.val()
            & self.on.val()
            & self.completion_mask.val().any()
            & (self.same_life.val() | self.op_any.q.val())
        {
            self.r_found.d.next = true;
            self.updated.next.index = self.next_entry.val();
            self.updated.next.turned =
                self.turn.val() ^ (self.entry.val() == self.completion_mask.val());
            self.write.next = true;
        }
        self.rows.write_enable.next = self.write.val() & self.known.val();
        self.rows.write_data.next = self.updated.val();

        self.count.next = self.r_count.q.val();
        self.slot.next = self.r_slot.q.val();
        self.place.next = self.r_place.q.val();
        self.epoch.next = self.r_epoch.q.val();
        self.found.next = self.r_found.q.val();
        self.waiting.next = self.r_waiting.q.val();
        self.index.next = self.r_index.q.val();
        self.turned.next = self.r_turned.q.val();
        self.refused.next = self.r_refused.q.val();
        self.bell_error.next = self.r_error.q.val();
        self.bell_error_queue.next = self.r_error_queue.q.val();
    }
}

const _: () = assert!(CACHE_LOG2 == 4 && RING_LOG2_MIN >= 2);
