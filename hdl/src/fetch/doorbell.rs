// SPDX-License-Identifier: MIT OR Apache-2.0
//! Doorbells and the registers of the transmit rings: what software last said
//! of each queue.
//!
//! One write a cycle, of either kind, goes through two stages: stage 0 reads
//! the ring's mask, stage 1 judges and stores. A queue with news is put into the
//! list of pending queues, in which it stands once at most; reading that list in
//! order is the round robin over queues.

use crate::prelude::*;
use crate::words::{UnpackQueueControl, UnpackRingSize};
use tsonic_regs::limits::{RING_LOG2_MAX, RING_LOG2_MIN};
use tsonic_regs::registers::queue;

/// What is known of a queue's ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Ring {
    /// Address of slot 0.
    pub base: Bits<64>,
    /// Slots less 1; 0 when the size register holds no valid size.
    pub mask: Bits<12>,
    /// Slot after the last one filled.
    pub tail: Bits<12>,
}

/// State of the rings of Q queues.
#[derive(LogicBlock)]
pub struct Doorbells<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,
    /// A transmit doorbell is rung (never in the cycle of a register write).
    pub bell_valid: Signal<In, bool>,
    /// Queue of the doorbell.
    pub bell_queue: Signal<In, Bits<8>>,
    /// New tail.
    pub bell_tail: Signal<In, Bits<32>>,

    /// A queue has news.
    pub pending_valid: Signal<Out, bool>,
    /// It is taken.
    pub pending_ready: Signal<In, bool>,
    /// The queue.
    pub pending_queue: Signal<Out, Bits<8>>,
    /// A queue has more to fetch.
    pub again_valid: Signal<In, bool>,
    /// That is noted.
    pub again_ready: Signal<Out, bool>,
    /// The queue.
    pub again_queue: Signal<In, Bits<8>>,

    /// Ring of the pending queue, one cycle after it was taken.
    pub ring: Signal<Out, Ring>,
    /// Queue of which the flags are read.
    pub flag_queue: Signal<In, Bits<8>>,
    /// It is enabled.
    pub enabled: Signal<Out, bool>,
    /// It was enabled since `fresh_clear`: its head is 0.
    pub fresh: Signal<Out, bool>,
    /// Forgets `fresh` of `flag_queue`.
    pub fresh_clear: Signal<In, bool>,

    /// A doorbell was refused.
    pub refused: Signal<Out, bool>,
    /// A doorbell beyond the ring of an enabled queue is to be completed.
    pub error_valid: Signal<Out, bool>,
    /// That is done.
    pub error_ready: Signal<In, bool>,
    /// The queue.
    pub error_queue: Signal<Out, Bits<8>>,
    /// No queue is pending and no error waits.
    pub idle: Signal<Out, bool>,

    base_lo: QueueRam<Bits<32>, Q, 8>,
    base_hi: QueueRam<Bits<32>, Q, 8>,
    mask: QueueRam<Bits<12>, Q, 8>,
    mask_copy: QueueRam<Bits<12>, Q, 8>,
    tail: QueueRam<Bits<12>, Q, 8>,
    base_word: Pack2<32, 32, 64>,
    enabled_flags: Flags<Q, 8>,
    fresh_flags: Flags<Q, 8>,
    listed: Flags<Q, 8>,
    pending: Fifo<Bits<8>, 8>,
    errors: Fifo<Bits<8>, 4>,
    sizes: UnpackRingSize,
    control: UnpackQueueControl,

    is_cfg: DFF<Bit>,
    is_bell: DFF<Bit>,
    queue: DFF<Bits<8>>,
    offset: DFF<Bits<7>>,
    value: DFF<Bits<32>>,

    in_queue: Signal<Local, Bits<8>>,
    size_log2: Signal<Local, Bits<4>>,
    completion_log2: Signal<Local, Bits<4>>,
    new_mask: Signal<Local, Bits<12>>,
    beyond: Signal<Local, Bits<12>>,
    in_ring: Signal<Local, Bit>,
    accept: Signal<Local, Bit>,
    turn_on: Signal<Local, Bit>,
    list_bell: Signal<Local, Bit>,
    list_again: Signal<Local, Bit>,
    list_queue: Signal<Local, Bits<8>>,

    reg_ring_lo: Fixed<7, { queue::TX_RING_LO.offset as u64 }>,
    reg_ring_hi: Fixed<7, { queue::TX_RING_HI.offset as u64 }>,
    reg_size: Fixed<7, { queue::TX_RING_SIZE.offset as u64 }>,
    reg_control: Fixed<7, { queue::TX_CONTROL.offset as u64 }>,
    ones: Fixed<12, 0xFFF>,
    log2_min: Fixed<4, { RING_LOG2_MIN as u64 }>,
    log2_max: Fixed<4, { RING_LOG2_MAX as u64 }>,
    completion_max: Fixed<4, { RING_LOG2_MAX as u64 + 1 }>,
}

impl<const Q: usize> Default for Doorbells<Q> {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            cfg_valid: Default::default(),
            cfg_queue: Default::default(),
            cfg_offset: Default::default(),
            cfg_value: Default::default(),
            bell_valid: Default::default(),
            bell_queue: Default::default(),
            bell_tail: Default::default(),
            pending_valid: Default::default(),
            pending_ready: Default::default(),
            pending_queue: Default::default(),
            again_valid: Default::default(),
            again_ready: Default::default(),
            again_queue: Default::default(),
            ring: Default::default(),
            flag_queue: Default::default(),
            enabled: Default::default(),
            fresh: Default::default(),
            fresh_clear: Default::default(),
            refused: Default::default(),
            error_valid: Default::default(),
            error_ready: Default::default(),
            error_queue: Default::default(),
            idle: Default::default(),
            base_lo: Default::default(),
            base_hi: Default::default(),
            mask: Default::default(),
            mask_copy: Default::default(),
            tail: Default::default(),
            base_word: Default::default(),
            enabled_flags: Default::default(),
            fresh_flags: Default::default(),
            listed: Default::default(),
            // A queue stands in it once at most.
            pending: Fifo::of(Q),
            errors: Default::default(),
            sizes: Default::default(),
            control: Default::default(),
            is_cfg: Default::default(),
            is_bell: Default::default(),
            queue: Default::default(),
            offset: Default::default(),
            value: Default::default(),
            in_queue: Default::default(),
            size_log2: Default::default(),
            completion_log2: Default::default(),
            new_mask: Default::default(),
            beyond: Default::default(),
            in_ring: Default::default(),
            accept: Default::default(),
            turn_on: Default::default(),
            list_bell: Default::default(),
            list_again: Default::default(),
            list_queue: Default::default(),
            reg_ring_lo: Default::default(),
            reg_ring_hi: Default::default(),
            reg_size: Default::default(),
            reg_control: Default::default(),
            ones: Default::default(),
            log2_min: Default::default(),
            log2_max: Default::default(),
            completion_max: Default::default(),
        }
    }
}

impl<const Q: usize> Logic for Doorbells<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, is_cfg, is_bell, queue, offset, value);
        self.base_lo.clock.next = self.clock.val();
        self.base_hi.clock.next = self.clock.val();
        self.mask.clock.next = self.clock.val();
        self.mask_copy.clock.next = self.clock.val();
        self.tail.clock.next = self.clock.val();
        self.enabled_flags.clock.next = self.clock.val();
        self.fresh_flags.clock.next = self.clock.val();
        self.listed.clock.next = self.clock.val();
        self.pending.clock.next = self.clock.val();
        self.errors.clock.next = self.clock.val();
        self.enabled_flags.reset.next = false;
        self.fresh_flags.reset.next = false;
        self.listed.reset.next = false;
        self.pending.flush.next = false;
        self.errors.flush.next = false;

        // Stage 0.
        self.is_cfg.d.next = self.cfg_valid.val();
        self.is_bell.d.next = self.bell_valid.val() & !self.cfg_valid.val();
        self.in_queue.next = self.bell_queue.val();
        self.value.d.next = self.bell_tail.val();
        if self.cfg_valid.val() {
            self.in_queue.next = self.cfg_queue.val();
            self.value.d.next = self.cfg_value.val();
        }
        self.queue.d.next = self.in_queue.val();
        self.offset.d.next = self.cfg_offset.val();
        self.mask.read_address.next = self.in_queue.val();

        // Stage 1: registers.
        self.sizes.data.next = self.value.q.val();
        self.control.data.next = self.value.q.val();
        self.size_log2.next = self.sizes.ring.val();
        self.completion_log2.next = self.sizes.completion.val();
        self.new_mask.next = 0.into();
        // A ring whose completions would go nowhere has no valid size, either.
        if (self.size_log2.val() >= self.log2_min.val())
            & (self.size_log2.val() <= self.log2_max.val())
            & (self.completion_log2.val() >= self.log2_min.val())
            & (self.completion_log2.val() <= self.completion_max.val())
        {
            self.new_mask.next = !(self.ones.val() << self.size_log2.val());
        }
        self.base_lo.write_enable.next =
            self.is_cfg.q.val() & (self.offset.q.val() == self.reg_ring_lo.val());
        self.base_lo.write_address.next = self.queue.q.val();
        self.base_lo.write_data.next = self.value.q.val();
        self.base_hi.write_enable.next =
            self.is_cfg.q.val() & (self.offset.q.val() == self.reg_ring_hi.val());
        self.base_hi.write_address.next = self.queue.q.val();
        self.base_hi.write_data.next = self.value.q.val();
        self.mask.write_enable.next =
            self.is_cfg.q.val() & (self.offset.q.val() == self.reg_size.val());
        self.mask.write_address.next = self.queue.q.val();
        self.mask.write_data.next = self.new_mask.val();
        self.mask_copy.write_enable.next =
            self.is_cfg.q.val() & (self.offset.q.val() == self.reg_size.val());
        self.mask_copy.write_address.next = self.queue.q.val();
        self.mask_copy.write_data.next = self.new_mask.val();

        self.enabled_flags.read_index0.next = self.queue.q.val();
        self.enabled_flags.set_index.next = self.queue.q.val();
        self.enabled_flags.clear_index.next = self.queue.q.val();
        self.enabled_flags.set.next = false;
        self.enabled_flags.clear.next = false;
        self.turn_on.next = false;
        if self.is_cfg.q.val() & (self.offset.q.val() == self.reg_control.val()) {
            if self.control.enable.val().any() {
                self.turn_on.next =
                    !self.enabled_flags.read0.val() & self.mask.read_data.val().any();
                self.enabled_flags.set.next = self.mask.read_data.val().any();
            } else {
                self.enabled_flags.clear.next = true;
            }
        }
        self.fresh_flags.set.next = self.turn_on.val();
        self.fresh_flags.set_index.next = self.queue.q.val();

        // Stage 1: doorbells.
        self.beyond.next = self.value.q.val().get_bits::<12>(0) & !self.mask.read_data.val();
        self.in_ring.next = !self.beyond.val().any() & !self.value.q.val().get_bits::<20>(12).any();
        self.accept.next =
            self.is_bell.q.val() & self.enabled_flags.read0.val() & self.in_ring.val();
        self.refused.next = self.is_bell.q.val() & !self.accept.val();
        self.errors.write_valid.next =
            self.is_bell.q.val() & self.enabled_flags.read0.val() & !self.in_ring.val();
        self.errors.write_data.next = self.queue.q.val();
        self.error_valid.next = self.errors.read_valid.val();
        self.error_queue.next = self.errors.read_data.val();
        self.errors.read_ready.next = self.error_ready.val();

        self.tail.write_enable.next = self.accept.val() | self.turn_on.val();
        self.tail.write_address.next = self.queue.q.val();
        self.tail.write_data.next = 0.into();
        if self.accept.val() {
            self.tail.write_data.next = self.value.q.val().get_bits::<12>(0);
        }

        // The list of pending queues.
        self.listed.read_index0.next = self.queue.q.val();
        self.listed.read_index1.next = self.again_queue.val();
        self.list_bell.next = self.accept.val() & !self.listed.read0.val();
        self.again_ready.next = !self.list_bell.val();
        self.list_again.next =
            self.again_valid.val() & !self.list_bell.val() & !self.listed.read1.val();
        self.list_queue.next = self.again_queue.val();
        if self.list_bell.val() {
            self.list_queue.next = self.queue.q.val();
        }
        self.pending.write_valid.next = self.list_bell.val() | self.list_again.val();
        self.pending.write_data.next = self.list_queue.val();
        self.listed.set.next = self.list_bell.val() | self.list_again.val();
        self.listed.set_index.next = self.list_queue.val();
        self.pending_valid.next = self.pending.read_valid.val();
        self.pending_queue.next = self.pending.read_data.val();
        self.pending.read_ready.next = self.pending_ready.val();
        self.listed.clear.next = self.pending_ready.val() & self.pending.read_valid.val();
        self.listed.clear_index.next = self.pending.read_data.val();

        // The ring of the queue at the list's head.
        self.base_lo.read_address.next = self.pending.read_data.val();
        self.base_hi.read_address.next = self.pending.read_data.val();
        self.mask_copy.read_address.next = self.pending.read_data.val();
        self.tail.read_address.next = self.pending.read_data.val();
        self.base_word.i0.next = self.base_lo.read_data.val();
        self.base_word.i1.next = self.base_hi.read_data.val();
        self.ring.next.base = self.base_word.out.val();
        self.ring.next.mask = self.mask_copy.read_data.val();
        self.ring.next.tail = self.tail.read_data.val();
        self.enabled_flags.read_index1.next = self.flag_queue.val();
        self.enabled.next = self.enabled_flags.read1.val();
        self.fresh_flags.read_index0.next = self.flag_queue.val();
        self.fresh_flags.read_index1.next = self.flag_queue.val();
        self.fresh_flags.clear.next = self.fresh_clear.val();
        self.fresh_flags.clear_index.next = self.flag_queue.val();
        self.fresh.next = self.fresh_flags.read0.val();
        self.idle.next = self.pending.empty.val()
            & self.errors.empty.val()
            & !self.is_cfg.q.val()
            & !self.is_bell.q.val();
    }
}
