// SPDX-License-Identifier: MIT OR Apache-2.0
//! The segmenter's parts, connected.

use super::types::{Departed, HeaderWord, SegmentJob};
use super::{Emit, Finish, Intake, Loader, RING_MARGIN, Slicer};
use crate::prelude::*;
use tsonic_regs::limits::MAX_SEGMENT_DEFAULT;

/// The default build: segments of up to 16,000 payload bytes.
pub type DefaultSegmenter = Segmenter<11, 12>;

/// The segmenter with a payload ring of 2^A words (P = A + 1); see
/// [`crate::segment`].
///
/// Each job is one segment. Its header beats (the whole template, every time) and
/// payload beats (none when `len` is 0) follow on their own streams in the order
/// of the jobs; each stream may run ahead of the jobs as far as `ready` lets it.
/// All beats but a stream's last are full.
#[derive(LogicBlock)]
pub struct Segmenter<const A: usize, const P: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A job is offered.
    pub job_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub job_ready: Signal<Out, bool>,
    /// The job.
    pub job: Signal<In, SegmentJob>,
    /// A header beat is offered.
    pub header_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub header_ready: Signal<Out, bool>,
    /// Header bytes, byte 0 lowest.
    pub header_data: Signal<In, Bits<64>>,
    /// Last beat of the header.
    pub header_last: Signal<In, bool>,
    /// With the last beat: drop the segment.
    pub header_err: Signal<In, bool>,
    /// A payload beat is offered.
    pub payload_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub payload_ready: Signal<Out, bool>,
    /// Payload bytes, byte 0 lowest; bytes above the length are ignored.
    pub payload_data: Signal<In, Bits<64>>,
    /// Last beat of the payload.
    pub payload_last: Signal<In, bool>,
    /// With the last beat: drop the segment.
    pub payload_err: Signal<In, bool>,
    /// A beat of a frame is offered.
    pub frame_valid: Signal<Out, bool>,
    /// It is taken if valid.
    pub frame_ready: Signal<In, bool>,
    /// Frame bytes, byte 0 lowest.
    pub frame_data: Signal<Out, Bits<64>>,
    /// Valid bytes, 1 to 8; 8 except in the last beat.
    pub frame_bytes: Signal<Out, Bits<4>>,
    /// Last beat of the frame.
    pub frame_last: Signal<Out, bool>,
    /// A frame's last byte is being handed over, or a segment was dropped. One
    /// for each job, in the order of the jobs.
    pub departed_valid: Signal<Out, bool>,
    /// Which, and how.
    pub departed: Signal<Out, Departed>,
    /// No job is inside.
    pub idle: Signal<Out, bool>,
    intake: Intake,
    loader: Loader,
    slicer: Slicer<A, P>,
    finish: Finish,
    emit: Emit<A, P>,
    headers: Ram<HeaderWord, 9>,
    ring: Ram<Bits<64>, A>,
}

impl<const A: usize, const P: usize> Segmenter<A, P> {
    /// Most payload bytes of a segment that the ring can hold.
    pub const MAX_SEGMENT: usize = 8 * ((1 << A) - RING_MARGIN);

    /// A segmenter that drops segments of more than `max_segment` payload bytes.
    ///
    /// # Panics
    /// When the ring cannot hold such a segment, or the size of the ring is wrong.
    pub fn new(max_segment: u16) -> Self {
        assert!(
            usize::from(max_segment) <= Self::MAX_SEGMENT,
            "the payload ring must hold the largest segment"
        );
        Self {
            clock: Default::default(),
            job_valid: Default::default(),
            job_ready: Default::default(),
            job: Default::default(),
            header_valid: Default::default(),
            header_ready: Default::default(),
            header_data: Default::default(),
            header_last: Default::default(),
            header_err: Default::default(),
            payload_valid: Default::default(),
            payload_ready: Default::default(),
            payload_data: Default::default(),
            payload_last: Default::default(),
            payload_err: Default::default(),
            frame_valid: Default::default(),
            frame_ready: Default::default(),
            frame_data: Default::default(),
            frame_bytes: Default::default(),
            frame_last: Default::default(),
            departed_valid: Default::default(),
            departed: Default::default(),
            idle: Default::default(),
            intake: Intake::new(max_segment),
            loader: Default::default(),
            slicer: Default::default(),
            finish: Default::default(),
            emit: Default::default(),
            headers: Default::default(),
            ring: Default::default(),
        }
    }
}

impl Default for DefaultSegmenter {
    fn default() -> Self {
        const { assert!(MAX_SEGMENT_DEFAULT <= Self::MAX_SEGMENT) }
        Self::new(MAX_SEGMENT_DEFAULT as u16)
    }
}

impl<const A: usize, const P: usize> Logic for Segmenter<A, P> {
    #[hdl_gen]
    fn update(&mut self) {
        clock!(
            self, clock, intake, loader, slicer, finish, emit, headers, ring
        );
        self.intake.job_valid.next = self.job_valid.val();
        self.intake.job.next = self.job.val();
        self.job_ready.next = self.intake.job_ready.val();

        self.loader.plan_valid.next = self.intake.loader_valid.val();
        self.loader.plan.next = self.intake.plan.val();
        self.intake.loader_take.next = self.loader.plan_take.val();
        self.loader.header_valid.next = self.header_valid.val();
        self.loader.header_data.next = self.header_data.val();
        self.loader.header_last.next = self.header_last.val();
        self.loader.header_err.next = self.header_err.val();
        self.header_ready.next = self.loader.header_ready.val();

        self.slicer.plan_valid.next = self.intake.slicer_valid.val();
        self.slicer.plan.next = self.intake.plan.val();
        self.intake.slicer_take.next = self.slicer.plan_take.val();
        self.slicer.payload_valid.next = self.payload_valid.val();
        self.slicer.payload_data.next = self.payload_data.val();
        self.slicer.payload_last.next = self.payload_last.val();
        self.slicer.payload_err.next = self.payload_err.val();
        self.slicer.read_pointer.next = self.emit.read_pointer.val();
        self.payload_ready.next = self.slicer.payload_ready.val();

        self.headers.write_enable.next = self.loader.write_enable.val();
        self.headers.write_address.next = self.loader.write_address.val();
        self.headers.write_data.next = self.loader.write_data.val();
        self.headers.read_enable.next = self.emit.header_read.val();
        self.headers.read_address.next = self.emit.header_address.val();
        self.emit.header_word.next = self.headers.read_data.val();
        self.ring.write_enable.next = self.slicer.write_enable.val();
        self.ring.write_address.next = self.slicer.write_address.val();
        self.ring.write_data.next = self.slicer.write_data.val();
        self.ring.read_enable.next = self.emit.payload_read.val();
        self.ring.read_address.next = self.emit.payload_address.val();
        self.emit.payload_word.next = self.ring.read_data.val();

        self.finish.plan_valid.next = self.loader.plan_take.val();
        self.finish.plan.next = self.intake.plan.val();
        self.finish.header_valid.next = self.loader.sums_valid.val();
        self.finish.header.next = self.loader.sums.val();
        self.finish.payload_valid.next = self.slicer.sum_valid.val();
        self.finish.payload.next = self.slicer.sum.val();

        self.emit.segment_valid.next = self.finish.segment_valid.val();
        self.emit.segment.next = self.finish.segment.val();
        self.finish.segment_take.next = self.emit.segment_take.val();
        self.intake.freed.next = self.emit.freed.val();

        self.emit.frame_ready.next = self.frame_ready.val();
        self.frame_valid.next = self.emit.frame_valid.val();
        self.frame_data.next = self.emit.frame_data.val();
        self.frame_bytes.next = self.emit.frame_bytes.val();
        self.frame_last.next = self.emit.frame_last.val();
        self.departed_valid.next = self.emit.departed_valid.val();
        self.departed.next = self.emit.departed.val();
        self.idle.next = self.intake.empty.val() & self.emit.empty.val();
    }
}
