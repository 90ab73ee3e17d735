// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the buffer to the segmenter: headers, payloads and jobs, and the
//! segments that are given up.
//!
//! Words leave the buffer one a cycle while the FIFOs towards the segmenter have
//! room for what the pipeline holds. A job is offered once its header is whole. A
//! segment whose header cannot be read is offered without payload, and its header
//! ends with `err`; if its payload cannot be read, that does. The segmenter drops
//! both. After that, what is left of the burst is swallowed and told to completion
//! segment by segment.

use super::types::{Gathered, Planned, Word};
use crate::complete::Verdict;
use crate::prelude::*;
use crate::segment::SegmentJob;
use tsonic_regs::Status;

/// Places of the output FIFOs at which no more words are taken: two words are in
/// the pipeline, one is being taken, and the level is one cycle old.
pub const MARGIN: usize = 5;

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum AssembleState {
    Start,
    Header,
    Payload,
}

/// The read side.
#[derive(LogicBlock)]
pub struct Assemble {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Every segment is given up, with `QUEUE_RESET`.
    pub discard: Signal<In, bool>,
    /// A word of the buffer.
    pub word_valid: Signal<In, bool>,
    /// It is taken.
    pub word_ready: Signal<Out, bool>,
    /// The word.
    pub word: Signal<In, Word>,
    /// A planned segment.
    pub job_valid: Signal<In, bool>,
    /// It is used up.
    pub job_ready: Signal<Out, bool>,
    /// The oldest.
    pub job: Signal<In, Planned>,

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

    feed: Skid<Word>,
    dead: LutRam<Bits<1>, 8>,
    jobs: Fifo<SegmentJob, 2>,
    headers: Fifo<Gathered, 6>,
    payloads: Fifo<Gathered, 5>,
    rotator: Rotator<64, 3>,
    mask: ByteMask<3, 8, 64>,
    merge: ByteMerge<8, 64>,
    state: DFF<AssembleState>,
    alive: DFF<Bit>,
    room: DFF<Bit>,

    // Pipeline: rotated word, then merged beat.
    a_valid: DFF<Bit>,
    a_header: DFF<Bit>,
    a_data: DFF<Bits<64>>,
    a_keep: DFF<Bits<8>>,
    a_emit: DFF<Bit>,
    a_last: DFF<Bit>,
    a_err: DFF<Bit>,
    hold: DFF<Bits<64>>,
    b_header: DFF<Bit>,
    b_payload: DFF<Bit>,
    b_beat: DFF<Gathered>,

    can: Signal<Local, Bit>,
    take: Signal<Local, Bit>,
    is_dead: Signal<Local, Bit>,
    last: Signal<Local, Bit>,
    emit: Signal<Local, Bit>,
    err: Signal<Local, Bit>,
    pass: Signal<Local, Bit>,
    job_done: Signal<Local, Bit>,
    kill: Signal<Local, Bit>,
    tell: Signal<Local, Bit>,
    empty: Signal<Local, Bit>,
    job_len: Zext<16, 17>,
    job_l2: Zext<8, 17>,
    job_l3: Zext<9, 17>,
    job_l4: Zext<7, 17>,
    header_bytes: Signal<Local, Bits<17>>,
    upper_bytes: Signal<Local, Bits<17>>,
    s_fault: Fixed<8, { Status::AddressFault as u64 }>,
    s_reset: Fixed<8, { Status::QueueReset as u64 }>,
}

impl Default for Assemble {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            discard: Default::default(),
            word_valid: Default::default(),
            word_ready: Default::default(),
            word: Default::default(),
            job_valid: Default::default(),
            job_ready: Default::default(),
            job: Default::default(),
            segment_valid: Default::default(),
            segment_ready: Default::default(),
            segment: Default::default(),
            header_valid: Default::default(),
            header_ready: Default::default(),
            header: Default::default(),
            payload_valid: Default::default(),
            payload_ready: Default::default(),
            payload: Default::default(),
            verdict_valid: Default::default(),
            verdict_ready: Default::default(),
            verdict: Default::default(),
            idle: Default::default(),
            feed: Default::default(),
            dead: Default::default(),
            jobs: Default::default(),
            headers: Fifo::new(MARGIN),
            payloads: Fifo::new(MARGIN),
            rotator: Rotator::left(),
            mask: Default::default(),
            merge: Default::default(),
            state: Default::default(),
            alive: Default::default(),
            room: Default::default(),
            a_valid: Default::default(),
            a_header: Default::default(),
            a_data: Default::default(),
            a_keep: Default::default(),
            a_emit: Default::default(),
            a_last: Default::default(),
            a_err: Default::default(),
            hold: Default::default(),
            b_header: Default::default(),
            b_payload: Default::default(),
            b_beat: Default::default(),
            can: Default::default(),
            take: Default::default(),
            is_dead: Default::default(),
            last: Default::default(),
            emit: Default::default(),
            err: Default::default(),
            pass: Default::default(),
            job_done: Default::default(),
            kill: Default::default(),
            tell: Default::default(),
            empty: Default::default(),
            job_len: Default::default(),
            job_l2: Default::default(),
            job_l3: Default::default(),
            job_l4: Default::default(),
            header_bytes: Default::default(),
            upper_bytes: Default::default(),
            s_fault: Default::default(),
            s_reset: Default::default(),
        }
    }
}

impl Logic for Assemble {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, state, alive, room, a_valid, a_header, a_data, a_keep, a_emit, a_last,
            a_err, hold, b_header, b_payload, b_beat
        );
        clock!(self, clock, feed, dead, jobs, headers, payloads);
        self.feed.flush.next = false;
        self.jobs.flush.next = false;
        self.headers.flush.next = false;
        self.payloads.flush.next = false;
        self.feed.in_valid.next = self.word_valid.val();
        self.feed.in_data.next = self.word.val();
        self.word_ready.next = self.feed.in_ready.val();
        self.last.next = self.feed.out_data.val().last;
        self.emit.next = self.feed.out_data.val().emit;
        self.err.next = self.last.val() & !self.emit.val();
        self.room.d.next = !self.headers.almost_full.val() & !self.payloads.almost_full.val();

        self.dead.read_address.next = self.job.val().ctx;
        self.is_dead.next = self.dead.read_data.val().any();
        self.dead.write_enable.next = false;
        self.dead.write_address.next = self.job.val().ctx;
        self.dead.write_data.next = 0.into();

        self.jobs.write_valid.next = false;
        self.jobs.write_data.next.kind = self.job.val().kind;
        self.jobs.write_data.next.ipv6 = self.job.val().ipv6;
        self.jobs.write_data.next.ip_id_fixed = self.job.val().ip_id_fixed;
        self.jobs.write_data.next.cwr_all = self.job.val().cwr_all;
        self.jobs.write_data.next.l2_len = self.job.val().l2_len;
        self.jobs.write_data.next.l3_len = self.job.val().l3_len;
        self.jobs.write_data.next.l4_len = self.job.val().l4_len;
        self.jobs.write_data.next.len = self.job.val().len;
        self.jobs.write_data.next.offset = self.job.val().offset;
        self.jobs.write_data.next.index = self.job.val().index;
        self.jobs.write_data.next.first = self.job.val().first;
        self.jobs.write_data.next.last = self.job.val().last;
        self.jobs.write_data.next.ctx = self.job.val().ctx;

        self.verdict.next.ctx = self.job.val().ctx;
        self.verdict.next.status = 0.into();
        self.verdict.next.dropped = true;
        self.verdict.next.last = self.job.val().last;
        self.verdict.next.index = self.job.val().index;
        self.job_len.data.next = self.job.val().len;
        self.job_l2.data.next = self.job.val().l2_len;
        self.job_l3.data.next = self.job.val().l3_len;
        self.job_l4.data.next = self.job.val().l4_len;
        self.header_bytes.next = self.job_l2.out.val() + self.job_l3.out.val();
        self.upper_bytes.next = self.job_l4.out.val() + self.job_len.out.val();
        self.verdict.next.bytes = self.header_bytes.val() + self.upper_bytes.val();

        // A word is taken when whatever it may lead to can be done at once.
        self.can.next = self.room.q.val() & self.jobs.write_ready.val() & self.verdict_ready.val();
        self.take.next = false;
        self.pass.next = false;
        self.job_done.next = false;
        self.kill.next = false;
        self.tell.next = false;
        match self.state.q.val() {
            AssembleState::Start => {
                self.alive.d.next = !self.is_dead.val() & !self.discard.val();
                if self.job_valid.val() {
                    if self.job.val().dropped {
                        self.verdict.next.bytes = 0.into();
                        self.tell.next = true;
                        self.job_done.next = self.verdict_ready.val();
                    } else {
                        self.state.d.next = AssembleState::Header;
                    }
                }
            }
            AssembleState::Header => {
                self.take.next = self.can.val() & self.feed.out_valid.val();
                if self.take.val() {
                    self.pass.next = self.alive.q.val();
                    if self.err.val() {
                        // The segmenter drops it; it must not wait for payload.
                        self.jobs.write_valid.next = self.alive.q.val();
                        self.jobs.write_data.next.len = 0.into();
                        self.tell.next = true;
                        self.verdict.next.dropped = !self.alive.q.val();
                        self.job_done.next = true;
                        self.kill.next = self.alive.q.val();
                    } else if self.last.val() {
                        self.jobs.write_valid.next = self.alive.q.val();
                        if self.job.val().len.any() {
                            self.state.d.next = AssembleState::Payload;
                        } else {
                            self.tell.next = !self.alive.q.val();
                            self.job_done.next = true;
                        }
                    }
                }
            }
            AssembleState::Payload => {
                self.take.next = self.can.val() & self.feed.out_valid.val();
                if self.take.val() {
                    self.pass.next = self.alive.q.val();
                    if self.last.val() {
                        self.job_done.next = true;
                        self.tell.next = !self.alive.q.val() | self.err.val();
                        self.kill.next = self.alive.q.val() & self.err.val();
                        self.verdict.next.dropped = !self.alive.q.val();
                    }
                }
            }
        }
        self.feed.out_ready.next = self.take.val();
        self.job_ready.next = self.job_done.val();
        if self.job_done.val() {
            self.state.d.next = AssembleState::Start;
        }
        if self.kill.val() {
            self.verdict.next.status = self.s_fault.val();
            self.dead.write_data.next = 1.into();
        } else if self.discard.val() {
            self.verdict.next.status = self.s_reset.val();
        }
        // The context's last segment leaves the mark clear for its next burst.
        if self.job_done.val() & self.job.val().last {
            self.dead.write_enable.next = true;
            self.dead.write_data.next = 0.into();
        } else if self.kill.val() {
            self.dead.write_enable.next = true;
        }
        self.verdict_valid.next = self.tell.val();

        // Rotate.
        self.rotator.data.next = self.feed.out_data.val().data;
        self.rotator.amount.next = self.feed.out_data.val().rotate;
        self.mask.count.next = self.feed.out_data.val().held;
        self.mask.data.next = 0.into();
        self.a_valid.d.next = self.pass.val();
        self.a_header.d.next = self.state.q.val() == AssembleState::Header;
        self.a_data.d.next = self.rotator.out.val();
        self.a_keep.d.next = self.mask.strobe.val();
        self.a_emit.d.next = self.emit.val() | self.last.val();
        self.a_last.d.next = self.last.val();
        self.a_err.d.next = self.err.val();

        // Merge with what was held; hold the rest.
        self.merge.take_a.next = self.a_keep.q.val();
        self.merge.a.next = self.hold.q.val();
        self.merge.b.next = self.a_data.q.val();
        if self.a_valid.q.val() {
            self.hold.d.next = self.merge.out.val();
            if self.a_emit.q.val() {
                self.hold.d.next = self.a_data.q.val();
            }
        }
        self.b_header.d.next = self.a_valid.q.val() & self.a_emit.q.val() & self.a_header.q.val();
        self.b_payload.d.next = self.a_valid.q.val() & self.a_emit.q.val() & !self.a_header.q.val();
        self.b_beat.d.next.data = self.merge.out.val();
        self.b_beat.d.next.last = self.a_last.q.val();
        self.b_beat.d.next.err = self.a_err.q.val();
        self.headers.write_valid.next = self.b_header.q.val();
        self.headers.write_data.next = self.b_beat.q.val();
        self.payloads.write_valid.next = self.b_payload.q.val();
        self.payloads.write_data.next = self.b_beat.q.val();

        self.segment_valid.next = self.jobs.read_valid.val();
        self.segment.next = self.jobs.read_data.val();
        self.jobs.read_ready.next = self.segment_ready.val();
        self.header_valid.next = self.headers.read_valid.val();
        self.header.next = self.headers.read_data.val();
        self.headers.read_ready.next = self.header_ready.val();
        self.payload_valid.next = self.payloads.read_valid.val();
        self.payload.next = self.payloads.read_data.val();
        self.payloads.read_ready.next = self.payload_ready.val();
        self.empty.next =
            self.jobs.empty.val() & self.headers.empty.val() & self.payloads.empty.val();
        self.idle.next = self.empty.val()
            & !self.job_valid.val()
            & !self.feed.out_valid.val()
            & !self.a_valid.q.val()
            & !self.b_header.q.val()
            & !self.b_payload.q.val();
    }
}
