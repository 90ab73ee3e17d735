// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory side of transmit: [`Fetch`], [`Payload`] and [`Complete`], connected.
//!
//! ```text
//!            csr ──registers, doorbells──┐             ┌── departed ◄── segment
//!                                        ▼             ▼
//! memory ◄─► Fetch ──store, accept, refusal──► Payload, Complete ──► memory
//!              │  ◄──────── release ───────────────────┘ │
//!              ▼ enqueue                         abort   ▼
//!            schedule ── grant ──► Payload ── job, header, body ──► segment
//! ```
//!
//! What a burst is known by in here is its *context*, one of 256: it is given out
//! when the descriptor is accepted and comes back with the completion.

use tsonic_hdl::complete::{Complete, Mark};
use tsonic_hdl::fetch::{Enqueue, Fetch};
use tsonic_hdl::payload::{Gathered, Payload};
use tsonic_hdl::prelude::*;
use tsonic_hdl::segment::SegmentJob;

/// Fetch, payload and completion for Q queues (2 to 256). `body` is the stream of
/// payload beats to the segmenter.
#[derive(LogicBlock, Default)]
pub struct Transmit<const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// New reads of descriptors are allowed.
    pub enable: Signal<In, bool>,
    /// The build segments TCP.
    pub tso: Signal<In, bool>,
    /// The build segments UDP.
    pub uso: Signal<In, bool>,
    /// Rows of the flow table.
    pub flow_slots: Signal<In, Bits<17>>,
    /// Largest payload of a segment.
    pub max_segment: Signal<In, Bits<18>>,
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
    /// A doorbell was refused.
    pub refused: Signal<Out, bool>,
    /// Read request of descriptors.
    pub fetch_rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub fetch_rd_req_ready: Signal<In, bool>,
    /// Address.
    pub fetch_rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub fetch_rd_req_len: Signal<Out, Bits<13>>,
    /// A word of descriptors (always taken).
    pub fetch_rd_valid: Signal<In, bool>,
    /// Data.
    pub fetch_rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub fetch_rd_last: Signal<In, bool>,
    /// The request failed.
    pub fetch_rd_err: Signal<In, bool>,
    /// Read request of continuation lists.
    pub list_req_valid: Signal<Out, bool>,
    /// Taken.
    pub list_req_ready: Signal<In, bool>,
    /// Address.
    pub list_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub list_req_len: Signal<Out, Bits<13>>,
    /// A word of lists (always taken).
    pub list_valid: Signal<In, bool>,
    /// Data.
    pub list_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub list_last: Signal<In, bool>,
    /// The request failed.
    pub list_err: Signal<In, bool>,
    /// A burst joins the scheduler.
    pub enqueue_valid: Signal<Out, bool>,
    /// Taken.
    pub enqueue_ready: Signal<In, bool>,
    /// The burst.
    pub enqueue: Signal<Out, Enqueue>,
    /// Every context is free: no burst is in the device, nor a descriptor on its way.
    pub empty: Signal<Out, bool>,
    /// Every segment is given up, with `QUEUE_RESET`.
    pub discard: Signal<In, bool>,
    /// A segment may be sent.
    pub grant_valid: Signal<In, bool>,
    /// It is taken.
    pub grant_ready: Signal<Out, bool>,
    /// Context.
    pub grant_ctx: Signal<In, Bits<8>>,
    /// Payload offset.
    pub grant_offset: Signal<In, Bits<18>>,
    /// Payload bytes.
    pub grant_len: Signal<In, Bits<16>>,
    /// Segment number.
    pub grant_index: Signal<In, Bits<18>>,
    /// First of the burst.
    pub grant_first: Signal<In, bool>,
    /// Last of the burst.
    pub grant_last: Signal<In, bool>,
    /// No segment, only the burst's end.
    pub grant_aborted: Signal<In, bool>,
    /// Read request.
    pub payload_rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub payload_rd_req_ready: Signal<In, bool>,
    /// Address.
    pub payload_rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub payload_rd_req_len: Signal<Out, Bits<13>>,
    /// A word.
    pub payload_rd_valid: Signal<In, bool>,
    /// It is taken.
    pub payload_rd_ready: Signal<Out, bool>,
    /// Data.
    pub payload_rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub payload_rd_last: Signal<In, bool>,
    /// The request failed.
    pub payload_rd_err: Signal<In, bool>,
    /// A job for the segmenter.
    pub segment_valid: Signal<Out, bool>,
    /// Taken.
    pub segment_ready: Signal<In, bool>,
    /// The job.
    pub segment: Signal<Out, SegmentJob>,
    /// A beat of a header.
    pub header_valid: Signal<Out, bool>,
    /// Taken.
    pub header_ready: Signal<In, bool>,
    /// The beat.
    pub header: Signal<Out, Gathered>,
    /// A beat of a payload.
    pub body_valid: Signal<Out, bool>,
    /// Taken.
    pub body_ready: Signal<In, bool>,
    /// The beat.
    pub body: Signal<Out, Gathered>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// Completions are not written, only accounted for.
    pub mute: Signal<In, bool>,
    /// A frame left, or was dropped behind payload.
    pub departed_valid: Signal<In, bool>,
    /// Context.
    pub departed_ctx: Signal<In, Bits<8>>,
    /// Bytes of the frame.
    pub departed_bytes: Signal<In, Bits<17>>,
    /// It was dropped.
    pub departed_err: Signal<In, bool>,
    /// Last of its burst.
    pub departed_last: Signal<In, bool>,
    /// A burst is marked (always taken; before it is done).
    pub mark_valid: Signal<In, bool>,
    /// How.
    pub mark: Signal<In, Mark>,
    /// The rest of a burst is not wanted.
    pub abort_valid: Signal<Out, bool>,
    /// Context.
    pub abort_ctx: Signal<Out, Bits<8>>,
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
    /// Last beat.
    pub wr_last: Signal<Out, bool>,
    /// A completion was written.
    pub written: Signal<Out, bool>,
    /// The queue.
    pub written_queue: Signal<Out, Bits<8>>,
    /// The host is to be told at once.
    pub written_urgent: Signal<Out, bool>,
    /// It belongs to a burst (or a slot), not to a doorbell.
    pub written_burst: Signal<Out, bool>,
    /// It is an error.
    pub written_error: Signal<Out, bool>,
    /// Nothing is under way in here; bursts may wait in the scheduler.
    pub idle: Signal<Out, bool>,

    fetch: Fetch<Q>,
    payload: Payload,
    complete: Complete<Q>,
}

impl<const Q: usize> Logic for Transmit<Q> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(self, clock, fetch, payload, complete);

        self.fetch.enable.next = self.enable.val();
        self.fetch.tso.next = self.tso.val();
        self.fetch.uso.next = self.uso.val();
        self.fetch.flow_slots.next = self.flow_slots.val();
        self.fetch.max_segment.next = self.max_segment.val();
        self.fetch.ticks.next = self.ticks.val();
        self.fetch.horizon.next = 0.into();
        self.fetch.cfg_valid.next = self.cfg_valid.val();
        self.fetch.cfg_queue.next = self.cfg_queue.val();
        self.fetch.cfg_offset.next = self.cfg_offset.val();
        self.fetch.cfg_value.next = self.cfg_value.val();
        self.fetch.bell_valid.next = self.bell_valid.val();
        self.fetch.bell_queue.next = self.bell_queue.val();
        self.fetch.bell_tail.next = self.bell_tail.val();
        self.refused.next = self.fetch.refused.val();
        self.fetch_rd_req_valid.next = self.fetch.rd_req_valid.val();
        self.fetch.rd_req_ready.next = self.fetch_rd_req_ready.val();
        self.fetch_rd_req_addr.next = self.fetch.rd_req_addr.val();
        self.fetch_rd_req_len.next = self.fetch.rd_req_len.val();
        self.fetch.rd_valid.next = self.fetch_rd_valid.val();
        self.fetch.rd_data.next = self.fetch_rd_data.val();
        self.fetch.rd_last.next = self.fetch_rd_last.val();
        self.fetch.rd_err.next = self.fetch_rd_err.val();
        self.list_req_valid.next = self.fetch.list_req_valid.val();
        self.fetch.list_req_ready.next = self.list_req_ready.val();
        self.list_req_addr.next = self.fetch.list_req_addr.val();
        self.list_req_len.next = self.fetch.list_req_len.val();
        self.fetch.list_valid.next = self.list_valid.val();
        self.fetch.list_data.next = self.list_data.val();
        self.fetch.list_last.next = self.list_last.val();
        self.fetch.list_err.next = self.list_err.val();
        self.enqueue_valid.next = self.fetch.enqueue_valid.val();
        self.fetch.enqueue_ready.next = self.enqueue_ready.val();
        self.enqueue.next = self.fetch.enqueue.val();
        self.empty.next = self.fetch.empty.val();
        self.payload.discard.next = self.discard.val();
        self.payload.grant_valid.next = self.grant_valid.val();
        self.grant_ready.next = self.payload.grant_ready.val();
        self.payload.grant_ctx.next = self.grant_ctx.val();
        self.payload.grant_offset.next = self.grant_offset.val();
        self.payload.grant_len.next = self.grant_len.val();
        self.payload.grant_index.next = self.grant_index.val();
        self.payload.grant_first.next = self.grant_first.val();
        self.payload.grant_last.next = self.grant_last.val();
        self.payload.grant_aborted.next = self.grant_aborted.val();
        self.payload_rd_req_valid.next = self.payload.rd_req_valid.val();
        self.payload.rd_req_ready.next = self.payload_rd_req_ready.val();
        self.payload_rd_req_addr.next = self.payload.rd_req_addr.val();
        self.payload_rd_req_len.next = self.payload.rd_req_len.val();
        self.payload.rd_valid.next = self.payload_rd_valid.val();
        self.payload_rd_ready.next = self.payload.rd_ready.val();
        self.payload.rd_data.next = self.payload_rd_data.val();
        self.payload.rd_last.next = self.payload_rd_last.val();
        self.payload.rd_err.next = self.payload_rd_err.val();
        self.segment_valid.next = self.payload.segment_valid.val();
        self.payload.segment_ready.next = self.segment_ready.val();
        self.segment.next = self.payload.segment.val();
        self.header_valid.next = self.payload.header_valid.val();
        self.payload.header_ready.next = self.header_ready.val();
        self.header.next = self.payload.header.val();
        self.body_valid.next = self.payload.payload_valid.val();
        self.payload.payload_ready.next = self.body_ready.val();
        self.body.next = self.payload.payload.val();
        self.complete.ticks.next = self.ticks.val();
        self.complete.mute.next = self.mute.val();
        self.complete.leave_ready.next = true;
        self.complete.leave_wakes.next = false;
        self.complete.cfg_valid.next = self.cfg_valid.val();
        self.complete.cfg_queue.next = self.cfg_queue.val();
        self.complete.cfg_offset.next = self.cfg_offset.val();
        self.complete.cfg_value.next = self.cfg_value.val();
        self.complete.departed_valid.next = self.departed_valid.val();
        self.complete.departed_ctx.next = self.departed_ctx.val();
        self.complete.departed_bytes.next = self.departed_bytes.val();
        self.complete.departed_err.next = self.departed_err.val();
        self.complete.departed_last.next = self.departed_last.val();
        self.complete.mark_valid.next = self.mark_valid.val();
        self.complete.mark.next = self.mark.val();
        self.abort_valid.next = self.complete.abort_valid.val();
        self.abort_ctx.next = self.complete.abort_ctx.val();
        self.wr_valid.next = self.complete.wr_valid.val();
        self.complete.wr_ready.next = self.wr_ready.val();
        self.wr_addr.next = self.complete.wr_addr.val();
        self.wr_data.next = self.complete.wr_data.val();
        self.wr_strb.next = self.complete.wr_strb.val();
        self.wr_last.next = self.complete.wr_last.val();
        self.written.next = self.complete.written.val();
        self.written_queue.next = self.complete.written_queue.val();
        self.written_urgent.next = self.complete.written_urgent.val();
        self.written_burst.next = self.complete.written_burst.val();
        self.written_error.next = self.complete.written_error.val();

        // Among the three.
        self.fetch.release_valid.next = self.complete.release_valid.val();
        self.fetch.release_queue.next = self.complete.release_queue.val();
        self.fetch.release_has_ctx.next = self.complete.release_has_ctx.val();
        self.fetch.release_ctx.next = self.complete.release_ctx.val();
        self.fetch.accept_ready.next = self.complete.accept_ready.val();
        self.fetch.refusal_ready.next = self.complete.refusal_ready.val();
        self.payload.burst_write.next = self.fetch.burst_write.val();
        self.payload.burst_ctx.next = self.fetch.burst_ctx.val();
        self.payload.burst.next = self.fetch.burst.val();
        self.payload.fragment_write.next = self.fetch.fragment_write.val();
        self.payload.fragment_index.next = self.fetch.fragment_index.val();
        self.payload.fragment.next = self.fetch.fragment.val();
        self.payload.verdict_ready.next = self.complete.verdict_ready.val();
        self.complete.head_valid.next = self.fetch.head_valid.val();
        self.complete.head_queue.next = self.fetch.head_queue.val();
        self.complete.head_index.next = self.fetch.head_index.val();
        self.complete.accept_valid.next = self.fetch.accept_valid.val();
        self.complete.accept_ctx.next = self.fetch.accept_ctx.val();
        self.complete.accept.next = self.fetch.accept.val();
        self.complete.refusal_valid.next = self.fetch.refusal_valid.val();
        self.complete.refusal.next = self.fetch.refusal.val();
        self.complete.verdict_valid.next = self.payload.verdict_valid.val();
        self.complete.verdict.next = self.payload.verdict.val();

        self.idle.next = self.fetch.idle.val() & self.payload.idle.val() & self.complete.idle.val();
    }
}
