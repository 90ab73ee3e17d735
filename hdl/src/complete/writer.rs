// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes completions into the queues' rings, one memory write of 32 bytes each.

use super::account::Done;
use crate::fetch::{Identity, Refusal};
use crate::prelude::*;
use crate::words::{PackDone, PackStatus, UnpackQueueControl, UnpackRingSize};
use tsonic_regs::completion::COMPLETION_BYTES;
use tsonic_regs::limits::{RING_LOG2_MAX, RING_LOG2_MIN};
use tsonic_regs::registers::queue;

/// Where the next completion of a queue goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct Place {
    /// Index in the ring.
    pub index: Bits<13>,
    /// The pass over the ring is an even one (the first, third, ..): phase 0 after it.
    pub turned: Bit,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum WriterState {
    Idle,
    Burst,
    Queue,
    Wait,
    Address,
    Word0,
    Word1,
    Word2,
    Word3,
}

/// The writer of completions for Q queues.
#[derive(LogicBlock, Default)]
pub struct Writer<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Completions are not written, only accounted for.
    pub mute: Signal<In, bool>,

    /// A queue register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue of the register.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset of the register in its queue block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value written.
    pub cfg_value: Signal<In, Bits<32>>,
    /// Slots of a descriptor ring are free.
    pub head_valid: Signal<In, bool>,
    /// The queue.
    pub head_queue: Signal<In, Bits<8>>,
    /// Index of the next slot to be fetched.
    pub head_index: Signal<In, Bits<12>>,

    /// A burst begins.
    pub identity_write: Signal<In, bool>,
    /// Context.
    pub identity_ctx: Signal<In, Bits<8>>,
    /// What it is.
    pub identity: Signal<In, Identity>,
    /// The time of a departure is kept.
    pub stamp_write: Signal<In, bool>,
    /// As the latest of its burst; else as the first.
    pub stamp_latest: Signal<In, bool>,
    /// Context.
    pub stamp_ctx: Signal<In, Bits<8>>,
    /// Tick.
    pub stamp: Signal<In, Bits<64>>,

    /// A burst is done (always taken).
    pub done_valid: Signal<In, bool>,
    /// The burst.
    pub done: Signal<In, Done>,
    /// An error completion is asked for.
    pub refusal_valid: Signal<In, bool>,
    /// Taken.
    pub refusal_ready: Signal<Out, bool>,
    /// The refusal.
    pub refusal: Signal<In, Refusal>,

    /// A beat of a write.
    pub wr_valid: Signal<Out, bool>,
    /// Taken.
    pub wr_ready: Signal<In, bool>,
    /// Address of the beat.
    pub wr_addr: Signal<Out, Bits<64>>,
    /// Data.
    pub wr_data: Signal<Out, Bits<64>>,
    /// Last beat.
    pub wr_last: Signal<Out, bool>,

    /// A reservation of a context is free again.
    pub release_valid: Signal<Out, bool>,
    /// The queue.
    pub release_queue: Signal<Out, Bits<8>>,
    /// And this context.
    pub release_has_ctx: Signal<Out, bool>,
    /// The context.
    pub release_ctx: Signal<Out, Bits<8>>,

    /// A burst leaves its flow: asks for the mark of that.
    pub leave_valid: Signal<Out, bool>,
    /// It has left.
    pub leave_ready: Signal<In, bool>,
    /// Row of the flow table.
    pub leave_slot: Signal<Out, Bits<16>>,
    /// Payload bytes.
    pub leave_bytes: Signal<Out, Bits<18>>,
    /// The flow is within its limit again.
    pub leave_wakes: Signal<In, bool>,

    /// A completion's last beat was taken for memory.
    pub posted: Signal<Out, bool>,
    /// A completion was written, or accounted for.
    pub written: Signal<Out, bool>,
    /// The queue.
    pub written_queue: Signal<Out, Bits<8>>,
    /// The host is to be told at once.
    pub written_urgent: Signal<Out, bool>,
    /// It belongs to a burst (or a slot), not to a doorbell.
    pub written_burst: Signal<Out, bool>,
    /// It is an error.
    pub written_error: Signal<Out, bool>,
    /// Nothing waits.
    pub idle: Signal<Out, bool>,

    dones: Fifo<Done, 8>,
    identities: Ram<Identity, 8>,
    // First departures in the lower half, latest ones in the upper: a block RAM has
    // 512 words of this width, and an event writes them one after the other.
    stamps: Ram<Bits<64>, 9>,
    stamp_place: Pack2<8, 1, 9>,
    stamp_wanted: Pack2<8, 1, 9>,
    base_lo: QueueRam<Bits<32>, Q, 8>,
    base_hi: QueueRam<Bits<32>, Q, 8>,
    masks: QueueRam<Bits<13>, Q, 8>,
    heads: QueueRam<Bits<12>, Q, 8>,
    places: QueueRam<Place, Q, 8>,
    enabled: Flags<Q, 8>,
    fresh_place: Flags<Q, 8>,
    fresh_head: Flags<Q, 8>,
    sizes: UnpackRingSize,
    control: UnpackQueueControl,
    status_word: PackStatus,
    done_word: PackDone,
    base_word: Pack2<32, 32, 64>,
    address: Pack2<5, 59, 64>,

    cfg: DFF<Bit>,
    cfg_q: DFF<Bits<8>>,
    cfg_o: DFF<Bits<7>>,
    cfg_v: DFF<Bits<32>>,
    state: DFF<WriterState>,
    queue: DFF<Bits<8>>,
    flow_slot: DFF<Bits<16>>,
    cookie: DFF<Bits<16>>,
    timestamp: DFF<Bit>,
    status: DFF<Bits<8>>,
    marks: DFF<Bits<3>>,
    wire_bytes: DFF<Bits<32>>,
    frames: DFF<Bits<18>>,
    first: DFF<Bits<64>>,
    latest: DFF<Bits<64>>,
    payload: DFF<Bits<18>>,
    asks: DFF<Bit>,
    ctx: DFF<Bits<8>>,
    has_ctx: DFF<Bit>,
    reserved: DFF<Bit>,
    head: DFF<Bits<12>>,
    base: DFF<Bits<64>>,
    mask: DFF<Bits<13>>,
    index: DFF<Bits<13>>,
    turned: DFF<Bit>,
    slot: DFF<Bits<59>>,

    size_log2: Signal<Local, Bits<4>>,
    new_mask: Signal<Local, Bits<13>>,
    turn_on: Signal<Local, Bit>,
    read_queue: Signal<Local, Bits<8>>,
    next_index: Signal<Local, Bits<13>>,
    index_wide: Signal<Local, Bits<59>>,
    finish: Signal<Local, Bit>,
    sending: Signal<Local, Bit>,
    phase: Signal<Local, Bits<1>>,

    reg_lo: Fixed<7, { queue::TX_COMPLETION_LO.offset as u64 }>,
    reg_hi: Fixed<7, { queue::TX_COMPLETION_HI.offset as u64 }>,
    reg_size: Fixed<7, { queue::TX_RING_SIZE.offset as u64 }>,
    reg_control: Fixed<7, { queue::TX_CONTROL.offset as u64 }>,
    ones: Fixed<13, 0x1FFF>,
    mark_wake: Fixed<3, 4>,
    log2_min: Fixed<4, { RING_LOG2_MIN as u64 }>,
    log2_max: Fixed<4, { RING_LOG2_MAX as u64 + 1 }>,
}

const _: () = assert!(COMPLETION_BYTES == 32);

impl<const Q: usize> Logic for Writer<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, cfg, cfg_q, cfg_o, cfg_v, state, queue, flow_slot, cookie, timestamp,
            status, marks, wire_bytes, frames, first, latest, payload, asks, ctx, has_ctx,
            reserved, head, base, mask, index, turned, slot
        );
        clock!(
            self,
            clock,
            dones,
            identities,
            stamps,
            base_lo,
            base_hi,
            masks,
            heads,
            places,
            enabled,
            fresh_place,
            fresh_head
        );
        self.dones.flush.next = false;
        self.enabled.reset.next = false;
        self.fresh_place.reset.next = false;
        self.fresh_head.reset.next = false;

        // Registers, one stage behind the broadcast.
        self.cfg.d.next = self.cfg_valid.val();
        self.cfg_q.d.next = self.cfg_queue.val();
        self.cfg_o.d.next = self.cfg_offset.val();
        self.cfg_v.d.next = self.cfg_value.val();
        self.sizes.data.next = self.cfg_v.q.val();
        self.control.data.next = self.cfg_v.q.val();
        self.size_log2.next = self.sizes.completion.val();
        self.new_mask.next = 0.into();
        if (self.size_log2.val() >= self.log2_min.val())
            & (self.size_log2.val() <= self.log2_max.val())
        {
            self.new_mask.next = !(self.ones.val() << self.size_log2.val());
        }
        self.base_lo.write_enable.next =
            self.cfg.q.val() & (self.cfg_o.q.val() == self.reg_lo.val());
        self.base_lo.write_address.next = self.cfg_q.q.val();
        self.base_lo.write_data.next = self.cfg_v.q.val();
        self.base_hi.write_enable.next =
            self.cfg.q.val() & (self.cfg_o.q.val() == self.reg_hi.val());
        self.base_hi.write_address.next = self.cfg_q.q.val();
        self.base_hi.write_data.next = self.cfg_v.q.val();
        self.masks.write_enable.next =
            self.cfg.q.val() & (self.cfg_o.q.val() == self.reg_size.val());
        self.masks.write_address.next = self.cfg_q.q.val();
        self.masks.write_data.next = self.new_mask.val();
        self.enabled.read_index0.next = self.cfg_q.q.val();
        self.enabled.read_index1.next = self.cfg_q.q.val();
        self.enabled.set_index.next = self.cfg_q.q.val();
        self.enabled.clear_index.next = self.cfg_q.q.val();
        self.enabled.set.next = false;
        self.enabled.clear.next = false;
        self.turn_on.next = false;
        if self.cfg.q.val() & (self.cfg_o.q.val() == self.reg_control.val()) {
            if self.control.enable.val().any() {
                self.enabled.set.next = true;
                self.turn_on.next = !self.enabled.read0.val();
            } else {
                self.enabled.clear.next = true;
            }
        }
        self.fresh_place.set.next = self.turn_on.val();
        self.fresh_place.set_index.next = self.cfg_q.q.val();
        self.fresh_head.set.next = self.turn_on.val();
        self.fresh_head.set_index.next = self.cfg_q.q.val();
        self.fresh_head.clear.next = self.head_valid.val();
        self.fresh_head.clear_index.next = self.head_queue.val();
        self.heads.write_enable.next = self.head_valid.val();
        self.heads.write_address.next = self.head_queue.val();
        self.heads.write_data.next = self.head_index.val();

        // What bursts are, and when they departed.
        self.identities.write_enable.next = self.identity_write.val();
        self.identities.write_address.next = self.identity_ctx.val();
        self.identities.write_data.next = self.identity.val();
        self.identities.read_enable.next = false;
        self.identities.read_address.next = self.dones.read_data.val().ctx;
        self.stamp_place.i0.next = self.stamp_ctx.val();
        self.stamp_place.i1.next = self.stamp_latest.val().into();
        self.stamps.write_enable.next = self.stamp_write.val();
        self.stamps.write_address.next = self.stamp_place.out.val();
        self.stamps.write_data.next = self.stamp.val();
        self.stamp_wanted.i0.next = self.dones.read_data.val().ctx;
        self.stamp_wanted.i1.next = 0.into();
        if self.state.q.val() == WriterState::Burst {
            self.stamp_wanted.i0.next = self.ctx.q.val();
            self.stamp_wanted.i1.next = 1.into();
        }
        self.stamps.read_enable.next = false;
        self.stamps.read_address.next = self.stamp_wanted.out.val();
        self.dones.write_valid.next = self.done_valid.val();
        self.dones.write_data.next = self.done.val();
        self.dones.read_ready.next = false;
        self.refusal_ready.next = false;

        // State of the queue's ring.
        self.read_queue.next = self.queue.q.val();
        self.base_lo.read_address.next = self.read_queue.val();
        self.base_hi.read_address.next = self.read_queue.val();
        self.masks.read_address.next = self.read_queue.val();
        self.heads.read_address.next = self.read_queue.val();
        self.places.read_address.next = self.read_queue.val();
        self.fresh_place.read_index0.next = self.read_queue.val();
        self.fresh_place.read_index1.next = self.read_queue.val();
        self.fresh_head.read_index0.next = self.read_queue.val();
        self.fresh_head.read_index1.next = self.read_queue.val();
        self.fresh_place.clear.next = false;
        self.fresh_place.clear_index.next = self.read_queue.val();
        self.base_word.i0.next = self.base_lo.read_data.val();
        self.base_word.i1.next = self.base_hi.read_data.val();
        self.index_wide.next = bit_cast::<59, 13>(self.index.q.val());
        self.next_index.next = (self.index.q.val() + 1) & self.mask.q.val();
        self.places.write_enable.next = false;
        self.places.write_address.next = self.queue.q.val();
        self.places.write_data.next.index = self.next_index.val();
        self.places.write_data.next.turned =
            self.turned.q.val() ^ (self.index.q.val() == self.mask.q.val());

        // The words.
        self.phase.next = 1.into();
        if self.turned.q.val() {
            self.phase.next = 0.into();
        }
        self.status_word.status.next = self.status.q.val();
        self.status_word.cn.next = self.marks.q.val().get_bits::<1>(0);
        self.status_word.throttle.next = self.marks.q.val().get_bits::<1>(1);
        self.status_word.wake.next = self.marks.q.val().get_bits::<1>(2);
        self.status_word.queue.next = bit_cast::<16, 8>(self.queue.q.val());
        self.status_word.flow_slot.next = self.flow_slot.q.val();
        self.status_word.cookie.next = self.cookie.q.val();
        self.done_word.wire_bytes.next = self.wire_bytes.q.val();
        self.done_word.segments.next = self.frames.q.val();
        self.done_word.head.next = self.head.q.val();
        self.done_word.phase.next = self.phase.val();

        self.sending.next = false;
        self.finish.next = false;
        self.posted.next = false;
        self.address.i0.next = 0.into();
        self.address.i1.next = self.slot.q.val();
        self.wr_addr.next = self.address.out.val();
        self.wr_data.next = self.status_word.out.val();
        self.wr_last.next = false;

        match self.state.q.val() {
            WriterState::Idle => {
                self.latest.d.next = 0.into();
                self.ctx.d.next = self.dones.read_data.val().ctx;
                self.has_ctx.d.next = true;
                self.reserved.d.next = true;
                self.status.d.next = self.dones.read_data.val().status;
                self.marks.d.next = self.dones.read_data.val().marks;
                self.wire_bytes.d.next = self.dones.read_data.val().wire_bytes;
                self.frames.d.next = self.dones.read_data.val().frames;
                if self.dones.read_valid.val() {
                    self.dones.read_ready.next = true;
                    self.identities.read_enable.next = true;
                    self.stamps.read_enable.next = true;
                    self.state.d.next = WriterState::Burst;
                } else if self.refusal_valid.val() {
                    self.refusal_ready.next = true;
                    self.queue.d.next = self.refusal.val().queue;
                    self.flow_slot.d.next = self.refusal.val().flow_slot;
                    self.cookie.d.next = self.refusal.val().cookie;
                    self.timestamp.d.next = false;
                    self.status.d.next = self.refusal.val().status;
                    self.marks.d.next = 0.into();
                    self.wire_bytes.d.next = 0.into();
                    self.frames.d.next = 0.into();
                    self.first.d.next = 0.into();
                    self.ctx.d.next = self.refusal.val().ctx;
                    self.has_ctx.d.next = self.refusal.val().has_ctx;
                    self.reserved.d.next = self.refusal.val().reserved;
                    self.state.d.next = WriterState::Queue;
                }
            }
            WriterState::Burst => {
                self.queue.d.next = self.identities.read_data.val().queue;
                self.flow_slot.d.next = self.identities.read_data.val().flow_slot;
                self.cookie.d.next = self.identities.read_data.val().cookie;
                self.timestamp.d.next = self.identities.read_data.val().timestamp.any();
                self.payload.d.next = self.identities.read_data.val().payload_len;
                self.asks.d.next = true;
                // Nothing departed: the stamps are those of another burst.
                self.first.d.next = 0.into();
                if self.frames.q.val().any() {
                    self.first.d.next = self.stamps.read_data.val();
                }
                self.stamps.read_enable.next = true;
                self.state.d.next = WriterState::Queue;
            }
            WriterState::Queue => {
                if self.frames.q.val().any() {
                    self.latest.d.next = self.stamps.read_data.val();
                }
                self.state.d.next = WriterState::Wait;
            }
            WriterState::Wait => {
                self.base.d.next = self.base_word.out.val();
                self.mask.d.next = self.masks.read_data.val();
                self.head.d.next = self.heads.read_data.val();
                if self.fresh_head.read0.val() {
                    self.head.d.next = 0.into();
                }
                self.index.d.next = self.places.read_data.val().index;
                self.turned.d.next = self.places.read_data.val().turned;
                if self.fresh_place.read0.val() {
                    self.index.d.next = 0.into();
                    self.turned.d.next = false;
                }
                self.fresh_place.clear.next = true;
                self.state.d.next = WriterState::Address;
            }
            WriterState::Address => {
                self.slot.d.next = self.base.q.val().get_bits::<59>(5) + self.index_wide.val();
                if !self.asks.q.val() {
                    self.places.write_enable.next = true;
                    if self.mute.val() | !self.mask.q.val().any() {
                        self.finish.next = true;
                    } else {
                        self.state.d.next = WriterState::Word0;
                    }
                }
            }
            WriterState::Word0 => {
                self.sending.next = true;
                if self.wr_ready.val() {
                    self.state.d.next = WriterState::Word1;
                }
            }
            WriterState::Word1 => {
                self.sending.next = true;
                self.address.i0.next = 8.into();
                self.wr_data.next = self.first.q.val();
                if self.wr_ready.val() {
                    self.state.d.next = WriterState::Word2;
                }
            }
            WriterState::Word2 => {
                self.sending.next = true;
                self.address.i0.next = 16.into();
                self.wr_data.next = self.latest.q.val();
                if self.wr_ready.val() {
                    self.state.d.next = WriterState::Word3;
                }
            }
            WriterState::Word3 => {
                self.sending.next = true;
                self.address.i0.next = 24.into();
                self.wr_data.next = self.done_word.out.val();
                self.wr_last.next = true;
                self.finish.next = self.wr_ready.val();
                self.posted.next = self.wr_ready.val();
            }
        }
        if self.finish.val() {
            self.state.d.next = WriterState::Idle;
        }
        // Asked from Queue on, answered by the end of Address.
        self.leave_valid.next = self.asks.q.val();
        self.leave_slot.next = self.flow_slot.q.val();
        self.leave_bytes.next = self.payload.q.val();
        if self.asks.q.val() & self.leave_ready.val() {
            self.asks.d.next = false;
            if self.leave_wakes.val() {
                self.marks.d.next = self.marks.q.val() | self.mark_wake.val();
            }
        }
        self.wr_valid.next = self.sending.val();
        self.release_valid.next = self.finish.val() & self.reserved.q.val();
        self.release_queue.next = self.queue.q.val();
        self.release_has_ctx.next = self.has_ctx.q.val();
        self.release_ctx.next = self.ctx.q.val();
        self.written.next = self.finish.val();
        self.written_queue.next = self.queue.q.val();
        self.written_urgent.next =
            self.timestamp.q.val() | self.marks.q.val().get_bit(2) | self.status.q.val().any();
        self.written_burst.next = self.reserved.q.val();
        self.written_error.next = self.status.q.val().any();
        self.idle.next = (self.state.q.val() == WriterState::Idle) & self.dones.empty.val();
    }
}
