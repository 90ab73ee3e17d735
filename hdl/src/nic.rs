// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC: all blocks joined.
//!
//! ```text
//!            register bus
//!                 │
//!                csr ── registers, doorbells, ticks ──► all
//!                 ▲ counters, idle
//!                 │
//!  ┌─► fetch ─bursts─► Drain ─► schedule ─grants─► Drain ─► payload ─► segment ─► MAC
//!  │     │ accept, refusals                          verdicts │          │ departed
//!  │     └──────────────────────► complete ◄──────────────────┴──────────┘
//!  │                                 │
//!  └──── memory ◄────────────────────┴──── receive ◄── MAC
//!          │                  interrupt requests of `Interrupt` go the same way
//!       memory port
//! ```
//!
//! *Idle* is high while no burst is inside that the scheduler does not merely
//! hold until `next_event`, no request is under way and no frame is inside. The
//! clock may then be put forward, not beyond `next_event`.
//!
//! *Reset* (`CONTROL.RESET`): fetch reads no further descriptors, [`Drain`] hands
//! all waiting bursts back as aborted, payload gives up every segment, nothing is
//! written by `complete` any more; once all is idle the register space is cleared.
//!
//! *A queue that is turned off*: its bursts are aborted by `schedule`, at once and
//! with `QUEUE_RESET` ([`Recalled`]); what was granted still departs, and what fetch
//! had read of it by then follows.
//!
//! *Budgets* are charged at a grant and credited by `complete` ([`crate::budget`]).
//!
//! *Interrupts* ([`crate::interrupt`]) go out behind the writes that they announce.

mod drain;
mod recalled;

pub use drain::Drain;
pub use recalled::Recalled;

use crate::budget::Budget;
use crate::complete::Complete;
use crate::csr::{Build, Csr};
use crate::fetch::Fetch;
use crate::flow_limit::FlowLimit;
use crate::interrupt::Interrupt;
use crate::memory::Memory;
use crate::payload::Payload;
use crate::prelude::*;
use crate::receive::Receive;
use crate::schedule::Schedule;
use crate::segment::Segmenter;
use tsonic_regs::limits::MAX_SEGMENT_DEFAULT;

/// 4 queue pairs, 64 flow slots.
pub type Nic4 = Nic<4, 4, 2, 6, 6, 7, 64, 128, 41, 37, 67, 2, 6, 8, 7>;
/// 32 queue pairs, 64 flow slots.
pub type Nic32 = Nic<32, 32, 5, 6, 6, 7, 64, 128, 41, 40, 70, 5, 9, 10, 10>;

/// log2 of the words of the segmenter's payload ring, and that plus 1.
const RING: usize = 11;
const RING_POINTER: usize = RING + 1;

/// The NIC with Q queue pairs. N to W are those of [`Schedule`], RA and RC of
/// [`Receive`], CA of [`Csr`], BA of [`Budget`].
#[derive(LogicBlock)]
pub struct Nic<
    const Q: usize,
    const N: usize,
    const QB: usize,
    const SB: usize,
    const IB: usize,
    const LB: usize,
    const F: usize,
    const M: usize,
    const FE: usize,
    const GE: usize,
    const W: usize,
    const RA: usize,
    const RC: usize,
    const CA: usize,
    const BA: usize,
> {
    /// Clock.
    pub clock: Signal<In, Clock>,

    /// Register bus: a register is written.
    pub reg_wr_valid: Signal<In, bool>,
    /// A register is read.
    pub reg_rd_valid: Signal<In, bool>,
    /// Offset in BAR 0.
    pub reg_addr: Signal<In, Bits<21>>,
    /// Value to write.
    pub reg_wdata: Signal<In, Bits<32>>,
    /// Value read.
    pub reg_rd_data: Signal<Out, Bits<32>>,
    /// The value is there.
    pub reg_rd_ack: Signal<Out, bool>,

    /// The clock is put forward at the next edge.
    pub ticks_load_valid: Signal<In, bool>,
    /// To this tick.
    pub ticks_load_value: Signal<In, Bits<64>>,
    /// Nothing happens before `next_event` unless something arrives.
    pub idle: Signal<Out, bool>,
    /// There is a next event.
    pub next_event_valid: Signal<Out, bool>,
    /// Its tick modulo 2^34.
    pub next_event: Signal<Out, Bits<34>>,

    /// Memory port: read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,
    /// A word of a read.
    pub rd_valid: Signal<In, bool>,
    /// Taken.
    pub rd_ready: Signal<Out, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last of its request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,
    /// A beat of a write.
    pub wr_valid: Signal<Out, bool>,
    /// Taken.
    pub wr_ready: Signal<In, bool>,
    /// Address of the beat.
    pub wr_addr: Signal<Out, Bits<64>>,
    /// Data.
    pub wr_data: Signal<Out, Bits<64>>,
    /// Byte enables.
    pub wr_strb: Signal<Out, Bits<8>>,
    /// Last of its request.
    pub wr_last: Signal<Out, bool>,
    /// An interrupt, behind all beats before it.
    pub irq_valid: Signal<Out, bool>,
    /// Taken.
    pub irq_ready: Signal<In, bool>,
    /// Its vector: that of a queue pair, or the one behind them for events.
    pub irq_vector: Signal<Out, Bits<9>>,

    /// MAC transmit: a beat of a frame.
    pub tx_valid: Signal<Out, bool>,
    /// Taken.
    pub tx_ready: Signal<In, bool>,
    /// Bytes, the first at bits 7:0.
    pub tx_data: Signal<Out, Bits<64>>,
    /// How many, 1 to 8.
    pub tx_bytes: Signal<Out, Bits<4>>,
    /// Last of the frame.
    pub tx_last: Signal<Out, bool>,
    /// MAC receive: a beat of a frame.
    pub rx_valid: Signal<In, bool>,
    /// Bytes, the first at bits 7:0.
    pub rx_data: Signal<In, Bits<64>>,
    /// How many, 1 to 8.
    pub rx_bytes: Signal<In, Bits<4>>,
    /// Last of the frame.
    pub rx_last: Signal<In, bool>,
    /// The frame is damaged (with last).
    pub rx_bad: Signal<In, bool>,

    csr: Csr<CA>,
    fetch: Fetch<Q>,
    drain: Drain,
    recalled: Recalled,
    schedule: Schedule<N, QB, SB, IB, LB, F, M, FE, GE, W>,
    payload: Payload,
    segment: Segmenter<RING, RING_POINTER>,
    complete: Complete<Q>,
    flow_limit: FlowLimit<SB, LB>,
    interrupt: Interrupt<Q>,
    receive: Receive<Q, RA, RC>,
    budget: Budget<N, QB, BA>,
    memory: Memory,

    max_segment: Setting<18>,
    flow_slots: Setting<17>,
    tso: Setting<1>,
    uso: Setting<1>,
    key_difference: Signal<Local, Bits<34>>,
    resetting: Signal<Local, bool>,
    quiet: Signal<Local, bool>,
    some_event: Signal<Local, bool>,
    scheduled: Signal<Local, Bits<34>>,
    moderated: Signal<Local, Bits<34>>,
    apart: Signal<Local, Bits<34>>,
}

impl<
    const Q: usize,
    const N: usize,
    const QB: usize,
    const SB: usize,
    const IB: usize,
    const LB: usize,
    const F: usize,
    const M: usize,
    const FE: usize,
    const GE: usize,
    const W: usize,
    const RA: usize,
    const RC: usize,
    const CA: usize,
    const BA: usize,
> Nic<Q, N, QB, SB, IB, LB, F, M, FE, GE, W, RA, RC, CA, BA>
{
    /// A NIC whose register BUILD_HASH reads `hash`.
    ///
    /// # Panics
    /// When the const parameters do not fit together.
    pub fn new(hash: u32) -> Self {
        let build = Build {
            hash,
            queues: Q as u32,
            flow_slots: F as u32,
            max_segment: MAX_SEGMENT_DEFAULT as u32,
        };
        let features = Build::features();
        Self {
            clock: Default::default(),
            reg_wr_valid: Default::default(),
            reg_rd_valid: Default::default(),
            reg_addr: Default::default(),
            reg_wdata: Default::default(),
            reg_rd_data: Default::default(),
            reg_rd_ack: Default::default(),
            ticks_load_valid: Default::default(),
            ticks_load_value: Default::default(),
            idle: Default::default(),
            next_event_valid: Default::default(),
            next_event: Default::default(),
            rd_req_valid: Default::default(),
            rd_req_ready: Default::default(),
            rd_req_addr: Default::default(),
            rd_req_len: Default::default(),
            rd_valid: Default::default(),
            rd_ready: Default::default(),
            rd_data: Default::default(),
            rd_last: Default::default(),
            rd_err: Default::default(),
            wr_valid: Default::default(),
            wr_ready: Default::default(),
            wr_addr: Default::default(),
            wr_data: Default::default(),
            wr_strb: Default::default(),
            wr_last: Default::default(),
            irq_valid: Default::default(),
            irq_ready: Default::default(),
            irq_vector: Default::default(),
            tx_valid: Default::default(),
            tx_ready: Default::default(),
            tx_data: Default::default(),
            tx_bytes: Default::default(),
            tx_last: Default::default(),
            rx_valid: Default::default(),
            rx_data: Default::default(),
            rx_bytes: Default::default(),
            rx_last: Default::default(),
            rx_bad: Default::default(),
            csr: Csr::new(&build),
            fetch: Default::default(),
            drain: Default::default(),
            recalled: Default::default(),
            schedule: Default::default(),
            payload: Default::default(),
            segment: Segmenter::new(MAX_SEGMENT_DEFAULT as u16),
            complete: Default::default(),
            flow_limit: Default::default(),
            interrupt: Default::default(),
            receive: Default::default(),
            budget: Default::default(),
            memory: Default::default(),
            max_segment: Setting::new(build.max_segment.into()),
            flow_slots: Setting::new(build.flow_slots.into()),
            tso: Setting::new(features.tso().into()),
            uso: Setting::new(features.uso().into()),
            key_difference: Default::default(),
            resetting: Default::default(),
            quiet: Default::default(),
            some_event: Default::default(),
            scheduled: Default::default(),
            moderated: Default::default(),
            apart: Default::default(),
        }
    }
}

impl<
    const Q: usize,
    const N: usize,
    const QB: usize,
    const SB: usize,
    const IB: usize,
    const LB: usize,
    const F: usize,
    const M: usize,
    const FE: usize,
    const GE: usize,
    const W: usize,
    const RA: usize,
    const RC: usize,
    const CA: usize,
    const BA: usize,
> Logic for Nic<Q, N, QB, SB, IB, LB, F, M, FE, GE, W, RA, RC, CA, BA>
{
    #[hdl_gen]
    fn update(&mut self) {
        clock!(
            self, clock, csr, fetch, drain, recalled, schedule, payload, segment, complete,
            flow_limit, interrupt, receive, budget, memory
        );

        // Register bus, clock, configuration.
        self.csr.reg_wr_valid.next = self.reg_wr_valid.val();
        self.csr.reg_rd_valid.next = self.reg_rd_valid.val();
        self.csr.reg_addr.next = self.reg_addr.val();
        self.csr.reg_wdata.next = self.reg_wdata.val();
        self.reg_rd_data.next = self.csr.reg_rd_data.val();
        self.reg_rd_ack.next = self.csr.reg_rd_ack.val();
        self.csr.ticks_load_valid.next = self.ticks_load_valid.val();
        self.csr.ticks_load_value.next = self.ticks_load_value.val();
        self.schedule.ticks.next = self.csr.ticks.val();
        self.complete.ticks.next = self.csr.ticks.val();
        self.receive.ticks.next = self.csr.ticks.val();
        self.interrupt.ticks.next = self.csr.ticks.val();
        self.schedule.lateness_debt.next = self.csr.lateness_debt.val();
        self.schedule.cn_target.next = self.csr.cn_target.val();
        self.resetting.next = self.csr.resetting.val();
        // In a reset fetch goes on, to drop the doorbells of queues that are off by then.
        self.fetch.enable.next = self.csr.enable.val() | self.resetting.val();
        self.receive.enable.next = self.csr.enable.val() & !self.resetting.val();

        self.fetch.cfg_valid.next = self.csr.cfg_valid.val();
        self.fetch.cfg_queue.next = self.csr.cfg_queue.val();
        self.fetch.cfg_offset.next = self.csr.cfg_offset.val();
        self.fetch.cfg_value.next = self.csr.cfg_value.val();
        self.complete.cfg_valid.next = self.csr.cfg_valid.val();
        self.complete.cfg_queue.next = self.csr.cfg_queue.val();
        self.complete.cfg_offset.next = self.csr.cfg_offset.val();
        self.complete.cfg_value.next = self.csr.cfg_value.val();
        self.schedule.cfg_valid.next = self.csr.cfg_valid.val();
        self.schedule.cfg_queue.next = self.csr.cfg_queue.val();
        self.schedule.cfg_offset.next = self.csr.cfg_offset.val();
        self.schedule.cfg_value.next = self.csr.cfg_value.val();
        self.receive.cfg_valid.next = self.csr.cfg_valid.val();
        self.receive.cfg_queue.next = self.csr.cfg_queue.val();
        self.receive.cfg_offset.next = self.csr.cfg_offset.val();
        self.receive.cfg_value.next = self.csr.cfg_value.val();
        self.interrupt.cfg_valid.next = self.csr.cfg_valid.val();
        self.interrupt.cfg_queue.next = self.csr.cfg_queue.val();
        self.interrupt.cfg_offset.next = self.csr.cfg_offset.val();
        self.interrupt.cfg_value.next = self.csr.cfg_value.val();
        self.fetch.bell_valid.next = self.csr.tx_bell.val();
        self.fetch.bell_queue.next = self.csr.bell_queue.val();
        self.fetch.bell_tail.next = self.csr.cfg_value.val();
        self.receive.bell_valid.next = self.csr.rx_bell.val();
        self.receive.bell_queue.next = self.csr.bell_queue.val();
        self.receive.bell_tail.next = self.csr.cfg_value.val();
        self.receive.key_write.next = self.csr.key_write.val();
        self.receive.key_index.next = self.csr.key_index.val();
        self.receive.key_value.next = self.csr.cfg_value.val();
        self.receive.table_write.next = self.csr.table_write.val();
        self.receive.table_index.next = self.csr.table_index.val();
        self.receive.table_value.next = bit_cast::<8, 32>(self.csr.cfg_value.val());
        self.fetch.tso.next = self.tso.val().any();
        self.fetch.uso.next = self.uso.val().any();
        self.fetch.flow_slots.next = self.flow_slots.val();
        self.fetch.max_segment.next = self.max_segment.val();
        self.fetch.ticks.next = self.csr.ticks.val();
        self.fetch.horizon.next = self.csr.horizon.val();

        // Fetch: stores of payload, announcements to complete, bursts to schedule.
        self.payload.burst_write.next = self.fetch.burst_write.val();
        self.payload.burst_ctx.next = self.fetch.burst_ctx.val();
        self.payload.burst.next = self.fetch.burst.val();
        self.payload.fragment_write.next = self.fetch.fragment_write.val();
        self.payload.fragment_index.next = self.fetch.fragment_index.val();
        self.payload.fragment.next = self.fetch.fragment.val();
        self.complete.head_valid.next = self.fetch.head_valid.val();
        self.complete.head_queue.next = self.fetch.head_queue.val();
        self.complete.head_index.next = self.fetch.head_index.val();
        self.complete.accept_valid.next = self.fetch.accept_valid.val();
        self.complete.accept_ctx.next = self.fetch.accept_ctx.val();
        self.complete.accept.next = self.fetch.accept.val();
        self.fetch.accept_ready.next = self.complete.accept_ready.val();
        self.complete.refusal_valid.next = self.fetch.refusal_valid.val();
        self.complete.refusal.next = self.fetch.refusal.val();
        self.fetch.refusal_ready.next = self.complete.refusal_ready.val();
        self.fetch.release_valid.next = self.complete.release_valid.val();
        self.fetch.release_queue.next = self.complete.release_queue.val();
        self.fetch.release_has_ctx.next = self.complete.release_has_ctx.val();
        self.fetch.release_ctx.next = self.complete.release_ctx.val();
        self.drain.resetting.next = self.resetting.val();
        // A burst joins its flow's limit and the scheduler in one cycle.
        self.flow_limit.resetting.next = self.resetting.val();
        self.flow_limit.join_valid.next =
            self.fetch.enqueue_valid.val() & self.drain.enqueue_ready.val();
        self.flow_limit.join_ctx.next = self.fetch.enqueue.val().ctx;
        self.flow_limit.join_slot.next = self.fetch.enqueue.val().flow_slot;
        self.flow_limit.join_bytes.next = self.fetch.enqueue.val().payload_len;
        self.flow_limit.join_limit.next = self.fetch.enqueue.val().flow_limit;
        self.flow_limit.leave_valid.next = self.complete.leave_valid.val();
        self.flow_limit.leave_slot.next = self.complete.leave_slot.val();
        self.flow_limit.leave_bytes.next = self.complete.leave_bytes.val();
        self.complete.leave_ready.next = self.flow_limit.leave_ready.val();
        self.complete.leave_wakes.next = self.flow_limit.leave_wakes.val();
        self.drain.enqueue_valid.next =
            self.fetch.enqueue_valid.val() & self.flow_limit.join_ready.val();
        self.drain.enqueue_ctx.next = self.fetch.enqueue.val().ctx;
        self.fetch.enqueue_ready.next =
            self.drain.enqueue_ready.val() & self.flow_limit.join_ready.val();
        self.schedule.enqueue_valid.next = self.drain.schedule_valid.val();
        self.drain.schedule_ready.next = self.schedule.enqueue_ready.val();
        self.schedule.enqueue_ctx.next = self.fetch.enqueue.val().ctx;
        self.schedule.enqueue_queue.next = self.fetch.enqueue.val().queue;
        self.schedule.enqueue_flow_slot.next = self.fetch.enqueue.val().flow_slot;
        self.schedule.enqueue_inv_rate.next = self.fetch.enqueue.val().inv_rate;
        self.schedule.enqueue_payload_len.next = self.fetch.enqueue.val().payload_len;
        self.schedule.enqueue_mss.next = self.fetch.enqueue.val().mss;
        self.schedule.enqueue_header_len.next = self.fetch.enqueue.val().header_len;
        self.schedule.enqueue_launch_valid.next = self.fetch.enqueue.val().launch_valid.into();
        self.schedule.enqueue_launch.next = self.fetch.enqueue.val().launch;
        self.schedule.reset.next = self.drain.schedule_reset.val();
        self.schedule.abort_valid.next = self.complete.abort_valid.val();
        self.schedule.abort_ctx.next = self.complete.abort_ctx.val();

        // Grants.
        self.drain.grant_valid.next = self.schedule.grant_valid.val();
        self.drain.grant_ctx.next = self.schedule.grant_ctx.val();
        self.drain.grant_last.next = self.schedule.grant_last.val();
        self.schedule.grant_ready.next = self.drain.grant_ready.val();
        self.payload.grant_valid.next = self.drain.payload_valid.val();
        self.payload.grant_ctx.next = self.drain.payload_ctx.val();
        self.payload.grant_last.next = self.drain.payload_last.val();
        self.drain.payload_ready.next = self.payload.grant_ready.val();
        self.payload.grant_offset.next = self.schedule.grant_offset.val();
        self.payload.grant_len.next = self.schedule.grant_len.val();
        self.drain.grant_index.next = self.schedule.grant_index.val();
        self.payload.grant_index.next = self.drain.payload_index.val();
        self.payload.grant_first.next = self.schedule.grant_first.val() & !self.drain.ours.val();
        self.payload.grant_aborted.next = self.schedule.grant_aborted.val() | self.drain.ours.val();
        self.payload.discard.next = self.resetting.val();
        self.recalled.grant.next = self.drain.payload_valid.val() & self.payload.grant_ready.val();
        self.recalled.grant_ctx.next = self.drain.payload_ctx.val();
        self.recalled.grant_revoked.next =
            self.schedule.grant_revoked.val() & !self.drain.ours.val();

        // Budgets.
        self.budget.ticks.next = self.csr.ticks.val();
        self.budget.ticks_set.next = self.ticks_load_valid.val();
        self.budget.resetting.next = self.resetting.val();
        self.budget.credit_flush.next = self.csr.credit_flush.val();
        self.budget.cfg_valid.next = self.csr.cfg_valid.val();
        self.budget.cfg_queue.next = self.csr.cfg_queue.val();
        self.budget.cfg_offset.next = self.csr.cfg_offset.val();
        self.budget.cfg_value.next = self.csr.cfg_value.val();
        self.budget.charge_valid.next = self.schedule.charge_valid.val();
        self.budget.charge_queue.next = self.schedule.charge_queue.val();
        self.budget.charge_bytes.next = self.schedule.charge_bytes.val();
        self.budget.credit_valid.next = self.complete.credit_valid.val();
        self.budget.credit_queue.next = self.complete.credit_queue.val();
        self.budget.credit_bytes.next = self.complete.credit_bytes.val();
        self.schedule.budget_ok.next = self.budget.open.val();

        // Segments.
        self.segment.job_valid.next = self.payload.segment_valid.val();
        self.segment.job.next = self.payload.segment.val();
        self.payload.segment_ready.next = self.segment.job_ready.val();
        self.segment.header_valid.next = self.payload.header_valid.val();
        self.segment.header_data.next = self.payload.header.val().data;
        self.segment.header_last.next = self.payload.header.val().last;
        self.segment.header_err.next = self.payload.header.val().err;
        self.payload.header_ready.next = self.segment.header_ready.val();
        self.segment.payload_valid.next = self.payload.payload_valid.val();
        self.segment.payload_data.next = self.payload.payload.val().data;
        self.segment.payload_last.next = self.payload.payload.val().last;
        self.segment.payload_err.next = self.payload.payload.val().err;
        self.payload.payload_ready.next = self.segment.payload_ready.val();
        self.tx_valid.next = self.segment.frame_valid.val();
        self.tx_data.next = self.segment.frame_data.val();
        self.tx_bytes.next = self.segment.frame_bytes.val();
        self.tx_last.next = self.segment.frame_last.val();
        self.segment.frame_ready.next = self.tx_ready.val();

        // Completions.
        self.complete.mute.next = self.resetting.val();
        self.complete.departed_valid.next = self.segment.departed_valid.val();
        self.complete.departed_ctx.next = self.segment.departed.val().ctx;
        self.complete.departed_bytes.next = self.segment.departed.val().wire_bytes;
        self.complete.departed_err.next = self.segment.departed.val().err;
        self.complete.departed_last.next = self.segment.departed.val().last;
        self.complete.verdict_valid.next = self.payload.verdict_valid.val();
        self.recalled.verdict.next = self.payload.verdict.val();
        self.complete.verdict.next = self.recalled.told.val();
        self.payload.verdict_ready.next = self.complete.verdict_ready.val();
        // Marks: CN of the scheduler, throttle behind it.
        self.complete.mark_valid.next =
            self.schedule.mark_valid.val() | self.flow_limit.mark_valid.val();
        self.flow_limit.mark_ready.next = !self.schedule.mark_valid.val();
        if self.schedule.mark_valid.val() {
            self.complete.mark.next.ctx = self.schedule.mark_ctx.val();
            self.complete.mark.next.bits = 1.into();
        } else {
            self.complete.mark.next.ctx = self.flow_limit.mark_ctx.val();
            self.complete.mark.next.bits = 2.into();
        }

        // Interrupts.
        self.interrupt.resetting.next = self.resetting.val();
        self.interrupt.tx_written.next = self.complete.posted.val();
        self.interrupt.tx_queue.next = self.complete.written_queue.val();
        self.interrupt.tx_urgent.next = self.complete.written_urgent.val();
        self.interrupt.rx_written.next = self.receive.written.val();
        self.interrupt.rx_queue.next = self.receive.written_queue.val();
        self.interrupt.rx_urgent.next = self.receive.written_error.val();
        self.interrupt.happened.next = self.csr.event_fires.val();
        self.memory.interrupt_valid.next = self.interrupt.irq_valid.val();
        self.interrupt.irq_ready.next = self.memory.interrupt_ready.val();
        self.irq_valid.next = self.memory.irq_valid.val();
        self.memory.irq_ready.next = self.irq_ready.val();
        self.irq_vector.next = self.interrupt.irq_vector.val();

        // Receive.
        self.receive.resetting.next = self.resetting.val();
        self.receive.rx_valid.next = self.rx_valid.val();
        self.receive.rx_data.next = self.rx_data.val();
        self.receive.rx_bytes.next = self.rx_bytes.val();
        self.receive.rx_last.next = self.rx_last.val();
        self.receive.rx_bad.next = self.rx_bad.val();

        // Memory: readers 0 descriptors, 1 lists, 2 payload, 3 receive.
        self.memory.req_valid[0].next = self.fetch.rd_req_valid.val();
        self.memory.req_addr[0].next = self.fetch.rd_req_addr.val();
        self.memory.req_len[0].next = self.fetch.rd_req_len.val();
        self.fetch.rd_req_ready.next = self.memory.req_ready[0].val();
        self.fetch.rd_valid.next = self.memory.data_valid[0].val();
        self.memory.data_ready[0].next = true;
        self.fetch.rd_data.next = self.memory.data.val();
        self.fetch.rd_last.next = self.memory.data_last.val();
        self.fetch.rd_err.next = self.memory.data_err.val();
        self.memory.req_valid[1].next = self.fetch.list_req_valid.val();
        self.memory.req_addr[1].next = self.fetch.list_req_addr.val();
        self.memory.req_len[1].next = self.fetch.list_req_len.val();
        self.fetch.list_req_ready.next = self.memory.req_ready[1].val();
        self.fetch.list_valid.next = self.memory.data_valid[1].val();
        self.memory.data_ready[1].next = true;
        self.fetch.list_data.next = self.memory.data.val();
        self.fetch.list_last.next = self.memory.data_last.val();
        self.fetch.list_err.next = self.memory.data_err.val();
        self.memory.req_valid[2].next = self.payload.rd_req_valid.val();
        self.memory.req_addr[2].next = self.payload.rd_req_addr.val();
        self.memory.req_len[2].next = self.payload.rd_req_len.val();
        self.payload.rd_req_ready.next = self.memory.req_ready[2].val();
        self.payload.rd_valid.next = self.memory.data_valid[2].val();
        self.memory.data_ready[2].next = self.payload.rd_ready.val();
        self.payload.rd_data.next = self.memory.data.val();
        self.payload.rd_last.next = self.memory.data_last.val();
        self.payload.rd_err.next = self.memory.data_err.val();
        self.memory.req_valid[3].next = self.receive.rd_req_valid.val();
        self.memory.req_addr[3].next = self.receive.rd_req_addr.val();
        self.memory.req_len[3].next = self.receive.rd_req_len.val();
        self.receive.rd_req_ready.next = self.memory.req_ready[3].val();
        self.receive.rd_valid.next = self.memory.data_valid[3].val();
        self.memory.data_ready[3].next = self.receive.rd_ready.val();
        self.receive.rd_data.next = self.memory.data.val();
        self.receive.rd_last.next = self.memory.data_last.val();
        self.receive.rd_err.next = self.memory.data_err.val();
        // Writers: 0 transmit completions, 1 receive, 2 budgets.
        self.memory.write_valid[0].next = self.complete.wr_valid.val();
        self.memory.write_addr[0].next = self.complete.wr_addr.val();
        self.memory.write_data[0].next = self.complete.wr_data.val();
        self.memory.write_strb[0].next = self.complete.wr_strb.val();
        self.memory.write_last[0].next = self.complete.wr_last.val();
        self.complete.wr_ready.next = self.memory.write_ready[0].val();
        self.memory.write_valid[1].next = self.receive.wr_valid.val();
        self.memory.write_addr[1].next = self.receive.wr_addr.val();
        self.memory.write_data[1].next = self.receive.wr_data.val();
        self.memory.write_strb[1].next = self.receive.wr_strb.val();
        self.memory.write_last[1].next = self.receive.wr_last.val();
        self.receive.wr_ready.next = self.memory.write_ready[1].val();
        self.memory.write_valid[2].next = self.budget.wr_valid.val();
        self.memory.write_addr[2].next = self.budget.wr_addr.val();
        self.memory.write_data[2].next = self.budget.wr_data.val();
        self.memory.write_strb[2].next = self.budget.wr_strb.val();
        self.memory.write_last[2].next = self.budget.wr_last.val();
        self.budget.wr_ready.next = self.memory.write_ready[2].val();
        self.rd_req_valid.next = self.memory.rd_req_valid.val();
        self.rd_req_addr.next = self.memory.rd_req_addr.val();
        self.rd_req_len.next = self.memory.rd_req_len.val();
        self.memory.rd_req_ready.next = self.rd_req_ready.val();
        self.memory.rd_valid.next = self.rd_valid.val();
        self.memory.rd_data.next = self.rd_data.val();
        self.memory.rd_last.next = self.rd_last.val();
        self.memory.rd_err.next = self.rd_err.val();
        self.rd_ready.next = self.memory.rd_ready.val();
        self.wr_valid.next = self.memory.wr_valid.val();
        self.wr_addr.next = self.memory.wr_addr.val();
        self.wr_data.next = self.memory.wr_data.val();
        self.wr_strb.next = self.memory.wr_strb.val();
        self.wr_last.next = self.memory.wr_last.val();
        self.memory.wr_ready.next = self.wr_ready.val();

        // Counters.
        self.csr.tx_frame.next =
            self.segment.departed_valid.val() & !self.segment.departed.val().err;
        self.csr.tx_frame_bytes.next = self.segment.departed.val().wire_bytes;
        self.csr.tx_burst.next = self.complete.written.val() & self.complete.written_burst.val();
        self.csr.tx_error.next = self.complete.written.val()
            & self.complete.written_burst.val()
            & self.complete.written_error.val();
        self.csr.tx_bell_refused.next = self.fetch.refused.val();
        self.csr.rx_bell_refused.next = self.receive.count_refused.val();
        self.csr.rx_frame.next = self.receive.count_frame.val();
        self.csr.rx_frame_bytes.next = self.receive.count_bytes.val();
        self.csr.rx_no_buffer.next = self.receive.count_no_buffer.val();
        self.csr.rx_error.next = self.receive.count_error.val();
        self.csr.rx_csum_error.next = self.receive.count_csum_error.val();
        self.csr.bql_stall.next = self.budget.stalled.val();
        self.csr.address_fault.next = self.rd_valid.val()
            & self.memory.rd_ready.val()
            & self.rd_last.val()
            & self.rd_err.val();

        // Idleness. The scheduler may hold bursts while the clock is put forward, not
        // at the end of a reset nor for the status register.
        self.quiet.next = self.fetch.idle.val()
            & self.schedule.idle.val()
            & !self.schedule.resetting.val()
            & self.payload.idle.val()
            & self.segment.idle.val()
            & self.complete.idle.val()
            & self.flow_limit.idle.val()
            & self.interrupt.idle.val()
            & self.receive.idle.val()
            & self.budget.idle.val()
            & self.memory.idle.val();
        self.csr.device_idle.next =
            self.quiet.val() & self.fetch.empty.val() & self.drain.empty.val();
        self.idle.next = self.quiet.val() & self.csr.idle.val() & !self.resetting.val();
        self.scheduled.next = self.schedule.next_event.val();
        self.key_difference.next = self.budget.next_event.val() - self.schedule.next_event.val();
        if self.budget.next_event_valid.val()
            & (!self.schedule.next_event_valid.val() | self.key_difference.val().get_bit(33))
        {
            self.scheduled.next = self.budget.next_event.val();
        }
        self.some_event.next =
            self.schedule.next_event_valid.val() | self.budget.next_event_valid.val();
        self.next_event_valid.next = self.some_event.val() | self.interrupt.next_event_valid.val();
        self.moderated.next = self.interrupt.next_event.val();
        self.apart.next = self.moderated.val() - self.scheduled.val();
        self.next_event.next = self.scheduled.val();
        if self.interrupt.next_event_valid.val()
            & (!self.some_event.val() | self.apart.val().get_bit(33))
        {
            self.next_event.next = self.moderated.val();
        }
    }
}
