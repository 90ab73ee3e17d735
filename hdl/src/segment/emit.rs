// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a segment out of the RAMs, puts its checksums in, and drops the padding.

use super::types::{Departed, HeaderWord, SegmentPlan};
use super::{OUTPUT_LOG2, OUTPUT_MARGIN, SLOTS_LOG2};
use crate::prelude::*;

/// One beat of a frame.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct FrameBeat {
    data: Bits<64>,
    bytes: Bits<4>,
    last: Bit,
}

/// What the pipeline needs of the segment whose words pass.
#[derive(Copy, Clone, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct Passing {
    pad: Bits<2>,
    spill: Bit,
    udp: Bit,
    tail: Bits<3>,
    ip_csum: Bits<16>,
    l4_csum: Bits<16>,
}

/// The output side. A word takes four cycles from its read to the output FIFO:
/// RAM, choice of RAM, checksums and shift, FIFO. The shift joins a word with the
/// one before it, so a frame's first word yields no beat, and its last word one
/// more where it outlives the padding: that beat leaves beside the next frame's
/// first word. So a frame takes as many cycles as it has words with its padding.
#[derive(LogicBlock)]
pub struct Emit<const A: usize, const P: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A segment is ready.
    pub segment_valid: Signal<In, bool>,
    /// It is taken.
    pub segment_take: Signal<Out, bool>,
    /// The segment.
    pub segment: Signal<In, SegmentPlan>,
    /// Reads a header word.
    pub header_read: Signal<Out, bool>,
    /// Bank and word.
    pub header_address: Signal<Out, Bits<9>>,
    /// The word, one cycle later.
    pub header_word: Signal<In, HeaderWord>,
    /// Reads a payload word.
    pub payload_read: Signal<Out, bool>,
    /// Place in the ring.
    pub payload_address: Signal<Out, Bits<A>>,
    /// The word, one cycle later.
    pub payload_word: Signal<In, Bits<64>>,
    /// Payload words that have been read.
    pub read_pointer: Signal<Out, Bits<P>>,
    /// The segment's last word is being read.
    pub freed: Signal<Out, bool>,
    /// A beat is offered.
    pub frame_valid: Signal<Out, bool>,
    /// It is taken if valid.
    pub frame_ready: Signal<In, bool>,
    /// Frame bytes, byte 0 lowest.
    pub frame_data: Signal<Out, Bits<64>>,
    /// Valid bytes, 1 to 8; 8 except in the last beat.
    pub frame_bytes: Signal<Out, Bits<4>>,
    /// Last beat of the frame.
    pub frame_last: Signal<Out, bool>,
    /// A segment has left, this very cycle, or was dropped.
    pub departed_valid: Signal<Out, bool>,
    /// Which, and how.
    pub departed: Signal<Out, Departed>,
    /// Nothing waits to leave.
    pub empty: Signal<Out, bool>,

    beats: Fifo<FrameBeat, OUTPUT_LOG2>,
    departures: Fifo<Departed, SLOTS_LOG2>,
    reverse: ByteReverse<64>,
    active: DFF<bool>,
    mute: DFF<bool>,
    first: DFF<bool>,
    header_left: DFF<Bits<6>>,
    payload_left: DFF<Bits<14>>,
    bank: DFF<Bits<4>>,
    word: DFF<Bits<5>>,
    pointer: DFF<Bits<P>>,
    passing: DFF<Passing>,

    valid1: DFF<bool>,
    first1: DFF<bool>,
    last1: DFF<bool>,
    payload1: DFF<bool>,

    valid2: DFF<bool>,
    first2: DFF<bool>,
    last2: DFF<bool>,
    word2: DFF<Bits<64>>,
    tags2: DFF<Bits<4>>,
    passing2: DFF<Passing>,

    previous: DFF<Bits<64>>,
    pad: DFF<Bits<2>>,
    tail: DFF<Bits<3>>,
    spill: DFF<bool>,
    valid3: DFF<bool>,
    beat3: DFF<FrameBeat>,

    header_phase: Signal<Local, bool>,
    last_word: Signal<Local, bool>,
    issue: Signal<Local, bool>,
    finishing: Signal<Local, bool>,
    take: Signal<Local, bool>,
    tags: Pack4<1, 1, 1, 1, 4>,
    ip_low: Signal<Local, Bits<16>>,
    ip_high: Signal<Local, Bits<16>>,
    tcp_low: Signal<Local, Bits<16>>,
    tcp_high: Signal<Local, Bits<16>>,
    udp_low: Signal<Local, Bits<16>>,
    udp_high: Signal<Local, Bits<16>>,
    patch: Pack4<16, 16, 16, 16, 64>,
    patched: Signal<Local, Bits<64>>,
    joined: Signal<Local, Bits<64>>,
    ends: Signal<Local, bool>,
    frame: Signal<Local, Bits<17>>,
    held: Signal<Local, bool>,
    sending: Signal<Local, bool>,
}

impl<const A: usize, const P: usize> Default for Emit<A, P> {
    /// # Panics
    /// When P is not A + 1.
    fn default() -> Self {
        assert!(P == A + 1, "size of a payload ring");
        Self {
            clock: Default::default(),
            segment_valid: Default::default(),
            segment_take: Default::default(),
            segment: Default::default(),
            header_read: Default::default(),
            header_address: Default::default(),
            header_word: Default::default(),
            payload_read: Default::default(),
            payload_address: Default::default(),
            payload_word: Default::default(),
            read_pointer: Default::default(),
            freed: Default::default(),
            frame_valid: Default::default(),
            frame_ready: Default::default(),
            frame_data: Default::default(),
            frame_bytes: Default::default(),
            frame_last: Default::default(),
            departed_valid: Default::default(),
            departed: Default::default(),
            empty: Default::default(),
            beats: Fifo::new(OUTPUT_MARGIN),
            departures: Default::default(),
            reverse: Default::default(),
            active: Default::default(),
            mute: Default::default(),
            first: Default::default(),
            header_left: Default::default(),
            payload_left: Default::default(),
            bank: Default::default(),
            word: Default::default(),
            pointer: Default::default(),
            passing: Default::default(),
            valid1: Default::default(),
            first1: Default::default(),
            last1: Default::default(),
            payload1: Default::default(),
            valid2: Default::default(),
            first2: Default::default(),
            last2: Default::default(),
            word2: Default::default(),
            tags2: Default::default(),
            passing2: Default::default(),
            previous: Default::default(),
            pad: Default::default(),
            tail: Default::default(),
            spill: Default::default(),
            valid3: Default::default(),
            beat3: Default::default(),
            header_phase: Default::default(),
            last_word: Default::default(),
            issue: Default::default(),
            finishing: Default::default(),
            take: Default::default(),
            tags: Default::default(),
            ip_low: Default::default(),
            ip_high: Default::default(),
            tcp_low: Default::default(),
            tcp_high: Default::default(),
            udp_low: Default::default(),
            udp_high: Default::default(),
            patch: Default::default(),
            patched: Default::default(),
            joined: Default::default(),
            ends: Default::default(),
            frame: Default::default(),
            held: Default::default(),
            sending: Default::default(),
        }
    }
}

impl<const A: usize, const P: usize> Logic for Emit<A, P> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            active,
            mute,
            first,
            header_left,
            payload_left,
            bank,
            word,
            pointer,
            passing
        );
        dff_setup!(self, clock, valid1, first1, last1, payload1);
        dff_setup!(self, clock, valid2, first2, last2, word2, tags2, passing2);
        dff_setup!(self, clock, previous, pad, tail, spill, valid3, beat3);
        clock!(self, clock, beats, departures);
        self.beats.flush.next = false;
        self.departures.flush.next = false;

        // Issue reads: header words, then payload words, then the next segment.
        self.header_phase.next = self.header_left.q.val() != 0;
        self.last_word.next = ((self.header_left.q.val() == 1) & (self.payload_left.q.val() == 0))
            | (!self.header_phase.val() & (self.payload_left.q.val() == 1));
        self.issue.next = self.active.q.val() & !self.beats.almost_full.val();
        self.finishing.next = self.issue.val() & self.last_word.val();
        self.take.next = self.segment_valid.val()
            & self.departures.write_ready.val()
            & (!self.active.q.val() | self.finishing.val());
        self.segment_take.next = self.take.val();
        self.header_read.next = self.issue.val() & self.header_phase.val();
        self.header_address.next =
            (bit_cast::<9, 4>(self.bank.q.val()) << 5) | bit_cast::<9, 5>(self.word.q.val());
        self.payload_read.next = self.issue.val() & !self.header_phase.val();
        self.payload_address.next = self.pointer.q.val().get_bits::<A>(0);
        self.read_pointer.next = self.pointer.q.val();
        self.freed.next = self.finishing.val();
        if self.issue.val() {
            self.first.d.next = false;
            if self.header_phase.val() {
                self.header_left.d.next = self.header_left.q.val() - 1;
                self.word.d.next = self.word.q.val() + 1;
            } else {
                self.payload_left.d.next = self.payload_left.q.val() - 1;
                self.pointer.d.next = self.pointer.q.val() + 1;
            }
        }
        if self.finishing.val() {
            self.active.d.next = false;
            self.bank.d.next = self.bank.q.val() + 1;
        }
        self.frame.next = self.segment.val().frame;
        if self.take.val() {
            self.active.d.next = true;
            self.first.d.next = true;
            self.mute.d.next = self.segment.val().err;
            self.header_left.d.next = self.segment.val().header_words;
            self.payload_left.d.next = self.segment.val().words;
            self.word.d.next = 0.into();
            self.passing.d.next.pad = self.segment.val().pad;
            self.passing.d.next.spill = self.segment.val().spill;
            self.passing.d.next.udp = self.segment.val().udp;
            self.passing.d.next.tail = self.frame.val().get_bits::<3>(0);
            self.passing.d.next.ip_csum = self.segment.val().ip_csum;
            self.passing.d.next.l4_csum = self.segment.val().l4_csum;
        }
        self.departures.write_valid.next = self.take.val();
        self.departures.write_data.next.ctx = self.segment.val().ctx;
        self.departures.write_data.next.wire_bytes = self.frame.val();
        self.departures.write_data.next.err = self.segment.val().err;
        self.departures.write_data.next.last = self.segment.val().last;

        // Stage 1: the RAMs answer.
        self.valid1.d.next = self.issue.val() & !self.mute.q.val();
        self.first1.d.next = self.first.q.val();
        self.last1.d.next = self.last_word.val();
        self.payload1.d.next = !self.header_phase.val();

        // Stage 2: choose. A frame has at least two words, so `passing` is still
        // that of its first one.
        self.valid2.d.next = self.valid1.q.val();
        self.first2.d.next = self.first1.q.val();
        self.last2.d.next = self.last1.q.val();
        if self.valid1.q.val() & self.first1.q.val() {
            self.passing2.d.next = self.passing.q.val();
        }
        self.tags.i0.next = self.header_word.val().ip_low.into();
        self.tags.i1.next = self.header_word.val().ip_high.into();
        self.tags.i2.next = self.header_word.val().l4_low.into();
        self.tags.i3.next = self.header_word.val().l4_high.into();
        if self.payload1.q.val() {
            self.word2.d.next = self.payload_word.val();
            self.tags2.d.next = 0.into();
        } else {
            self.word2.d.next = self.header_word.val().data;
            self.tags2.d.next = self.tags.out.val();
        }

        // Stage 3: put checksums into their places, which hold zeros, and join
        // with the word before.
        self.ip_low.next = 0.into();
        if self.tags2.q.val().get_bit(0) {
            self.ip_low.next = self.passing2.q.val().ip_csum;
        }
        self.ip_high.next = 0.into();
        if self.tags2.q.val().get_bit(1) {
            self.ip_high.next = self.passing2.q.val().ip_csum;
        }
        self.tcp_low.next = 0.into();
        self.udp_low.next = 0.into();
        if self.tags2.q.val().get_bit(2) {
            if self.passing2.q.val().udp {
                self.udp_low.next = self.passing2.q.val().l4_csum;
            } else {
                self.tcp_low.next = self.passing2.q.val().l4_csum;
            }
        }
        self.tcp_high.next = 0.into();
        self.udp_high.next = 0.into();
        if self.tags2.q.val().get_bit(3) {
            if self.passing2.q.val().udp {
                self.udp_high.next = self.passing2.q.val().l4_csum;
            } else {
                self.tcp_high.next = self.passing2.q.val().l4_csum;
            }
        }
        self.patch.i3.next = self.tcp_low.val();
        self.patch.i2.next = self.ip_low.val() | self.udp_low.val();
        self.patch.i1.next = self.tcp_high.val();
        self.patch.i0.next = self.ip_high.val() | self.udp_high.val();
        self.patched.next = self.word2.q.val() | self.patch.out.val();
        self.spill.d.next = false;
        if self.valid2.q.val() {
            self.previous.d.next = self.patched.val();
            self.pad.d.next = self.passing2.q.val().pad;
            self.tail.d.next = self.passing2.q.val().tail;
            self.spill.d.next = self.last2.q.val() & self.passing2.q.val().spill;
        }
        self.joined.next = self.previous.q.val();
        if self.pad.q.val() == 1 {
            self.joined.next = (self.previous.q.val() << 16) | (self.patched.val() >> 48);
        }
        if self.pad.q.val() == 2 {
            self.joined.next = (self.previous.q.val() << 32) | (self.patched.val() >> 32);
        }
        if self.pad.q.val() == 3 {
            self.joined.next = (self.previous.q.val() << 48) | (self.patched.val() >> 16);
        }
        self.reverse.data.next = self.joined.val();
        self.ends.next = self.spill.q.val() | (self.last2.q.val() & !self.passing2.q.val().spill);
        self.valid3.d.next = self.spill.q.val() | (self.valid2.q.val() & !self.first2.q.val());
        self.beat3.d.next.data = self.reverse.out.val();
        self.beat3.d.next.last = self.ends.val();
        self.beat3.d.next.bytes = 8.into();
        if self.ends.val() & (self.tail.q.val() != 0) {
            self.beat3.d.next.bytes = bit_cast::<4, 3>(self.tail.q.val());
        }
        self.beats.write_valid.next = self.valid3.q.val();
        self.beats.write_data.next = self.beat3.q.val();

        // Out. A dropped segment departs in its turn, between two frames.
        self.held.next = self.departures.read_valid.val() & self.departures.read_data.val().err;
        self.frame_valid.next = self.beats.read_valid.val() & !self.held.val();
        self.frame_data.next = self.beats.read_data.val().data;
        self.frame_bytes.next = self.beats.read_data.val().bytes;
        self.frame_last.next = self.beats.read_data.val().last;
        self.sending.next = self.beats.read_valid.val() & !self.held.val() & self.frame_ready.val();
        self.beats.read_ready.next = self.frame_ready.val() & !self.held.val();
        self.departures.read_ready.next =
            self.held.val() | (self.sending.val() & self.beats.read_data.val().last);
        self.departed_valid.next =
            self.held.val() | (self.sending.val() & self.beats.read_data.val().last);
        self.departed.next = self.departures.read_data.val();
        if self.held.val() {
            self.departed.next.wire_bytes = 0.into();
        }
        self.empty.next = self.departures.empty.val();
    }
}
