// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit, second part: from grants to the bytes of segments.
//!
//! ```text
//! fetch ─burst, fragments─► stores
//!                             │        ┌──── places ─────┐
//! schedule ─grant──────────► Plan ─reads─► memory ─words─► Gather ─labelled words─► buffer
//!                             │ └─pieces────────────────►┘                            │
//!                             └─jobs────────────────────────────────────────────► Assemble
//!                                         segment ◄─ job, header beats, payload beats ┘ │
//!                                         complete ◄─ verdicts (faults, given up) ──────┘
//! ```
//!
//! * For every segment the template is read again, then the segment's bytes.
//!   Reads are asked for up to 32 segments ahead, as far as the buffer of 512
//!   words (4 KiB) has places: at one word a cycle that covers a memory latency
//!   of over 400 cycles.
//! * A read's words have their places before it is asked for, so the memory port
//!   never waits for the segmenter; it waits a cycle where a stream ends in the
//!   middle of a word behind a gap.
//! * A segment's payload costs as many cycles as it has words in memory, plus one
//!   a segment.
//! * Template and payload stay in memory until the burst completes; a template is
//!   not kept here.

mod assemble;
mod fragments;
mod gather;
mod plan;
mod types;

pub use assemble::Assemble;
pub use fragments::Fragments;
pub use gather::Gather;
pub use plan::{BUFFER_LOG2, Plan};
pub use types::{Gathered, Piece, Planned, Word};

use crate::complete::Verdict;
use crate::fetch::{Burst, Fragment};
use crate::prelude::*;
use crate::segment::SegmentJob;

/// log2 of the reads under way.
const PIECES_LOG2: usize = 6;
/// log2 of the segments under way.
const JOBS_LOG2: usize = 5;

/// Payload.
#[derive(LogicBlock, Default)]
pub struct Payload {
    /// Clock.
    pub clock: Signal<In, Clock>,
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

    /// Writes the burst store; not in two cycles in a row.
    pub burst_write: Signal<In, bool>,
    /// Context.
    pub burst_ctx: Signal<In, Bits<8>>,
    /// The burst.
    pub burst: Signal<In, Burst>,
    /// Writes the fragment store.
    pub fragment_write: Signal<In, bool>,
    /// Context, and fragment less 1 in the low four bits.
    pub fragment_index: Signal<In, Bits<12>>,
    /// The fragment.
    pub fragment: Signal<In, Fragment>,

    /// Read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,
    /// A word.
    pub rd_valid: Signal<In, bool>,
    /// It is taken.
    pub rd_ready: Signal<Out, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last word of the request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,

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
    pub payload_valid: Signal<Out, bool>,
    /// Taken.
    pub payload_ready: Signal<In, bool>,
    /// The beat.
    pub payload: Signal<Out, Gathered>,
    /// News for completion.
    pub verdict_valid: Signal<Out, bool>,
    /// Taken.
    pub verdict_ready: Signal<In, bool>,
    /// The news.
    pub verdict: Signal<Out, Verdict>,
    /// Nothing is under way.
    pub idle: Signal<Out, bool>,

    plan: Plan,
    pieces: Fifo<Piece, PIECES_LOG2>,
    next_piece: Fifo<Piece, 1>,
    jobs: Fifo<Planned, JOBS_LOG2>,
    gather: Gather,
    buffer: Fifo<Word, BUFFER_LOG2>,
    assemble: Assemble,
}

impl Logic for Payload {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(
            self, clock, plan, pieces, next_piece, jobs, gather, buffer, assemble
        );
        self.pieces.flush.next = false;
        self.next_piece.flush.next = false;
        self.jobs.flush.next = false;
        self.buffer.flush.next = false;

        self.plan.grant_valid.next = self.grant_valid.val();
        self.grant_ready.next = self.plan.grant_ready.val();
        self.plan.grant_ctx.next = self.grant_ctx.val();
        self.plan.grant_offset.next = self.grant_offset.val();
        self.plan.grant_len.next = self.grant_len.val();
        self.plan.grant_index.next = self.grant_index.val();
        self.plan.grant_first.next = self.grant_first.val();
        self.plan.grant_last.next = self.grant_last.val();
        self.plan.grant_aborted.next = self.grant_aborted.val();
        self.plan.burst_write.next = self.burst_write.val();
        self.plan.burst_ctx.next = self.burst_ctx.val();
        self.plan.burst.next = self.burst.val();
        self.plan.fragment_write.next = self.fragment_write.val();
        self.plan.fragment_index.next = self.fragment_index.val();
        self.plan.fragment.next = self.fragment.val();
        self.rd_req_valid.next = self.plan.rd_req_valid.val();
        self.rd_req_addr.next = self.plan.rd_req_addr.val();
        self.rd_req_len.next = self.plan.rd_req_len.val();
        self.plan.rd_req_ready.next = self.rd_req_ready.val();

        self.pieces.write_valid.next = self.plan.piece_valid.val();
        self.pieces.write_data.next = self.plan.piece.val();
        self.plan.piece_ready.next = self.pieces.write_ready.val();
        self.next_piece.write_valid.next = self.pieces.read_valid.val();
        self.next_piece.write_data.next = self.pieces.read_data.val();
        self.pieces.read_ready.next = self.next_piece.write_ready.val();
        self.jobs.write_valid.next = self.plan.job_valid.val();
        self.jobs.write_data.next = self.plan.job.val();
        self.plan.job_ready.next = self.jobs.write_ready.val();

        self.gather.rd_valid.next = self.rd_valid.val();
        self.gather.rd_data.next = self.rd_data.val();
        self.gather.rd_last.next = self.rd_last.val();
        self.gather.rd_err.next = self.rd_err.val();
        self.rd_ready.next = self.gather.rd_ready.val();
        self.gather.piece_valid.next = self.next_piece.read_valid.val();
        self.gather.piece.next = self.next_piece.read_data.val();
        self.next_piece.read_ready.next = self.gather.piece_ready.val();
        self.plan.places_back.next = self.gather.places_back.val();

        self.buffer.write_valid.next = self.gather.word_valid.val();
        self.buffer.write_data.next = self.gather.word.val();
        self.plan.place_freed.next = self.buffer.read_valid.val() & self.assemble.word_ready.val();
        self.assemble.discard.next = self.discard.val();
        self.assemble.word_valid.next = self.buffer.read_valid.val();
        self.assemble.word.next = self.buffer.read_data.val();
        self.buffer.read_ready.next = self.assemble.word_ready.val();
        self.assemble.job_valid.next = self.jobs.read_valid.val();
        self.assemble.job.next = self.jobs.read_data.val();
        self.jobs.read_ready.next = self.assemble.job_ready.val();

        self.segment_valid.next = self.assemble.segment_valid.val();
        self.segment.next = self.assemble.segment.val();
        self.assemble.segment_ready.next = self.segment_ready.val();
        self.header_valid.next = self.assemble.header_valid.val();
        self.header.next = self.assemble.header.val();
        self.assemble.header_ready.next = self.header_ready.val();
        self.payload_valid.next = self.assemble.payload_valid.val();
        self.payload.next = self.assemble.payload.val();
        self.assemble.payload_ready.next = self.payload_ready.val();
        self.verdict_valid.next = self.assemble.verdict_valid.val();
        self.verdict.next = self.assemble.verdict.val();
        self.assemble.verdict_ready.next = self.verdict_ready.val();
        self.idle.next = self.plan.idle.val()
            & self.gather.idle.val()
            & self.assemble.idle.val()
            & self.jobs.empty.val()
            & self.buffer.empty.val();
    }
}
