// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps frames until they are delivered.
//!
//! Words go into a ring of [`BUFFER_WORDS`]. A frame that turns out damaged, longer
//! than `RX_FRAME_MAX`, or that does not fit, is taken back as a whole. The
//! others wait in a list together with their verdict, in order of arrival; the
//! reader frees their words as it reads them.
//!
//! Frames that begin while the device is not enabled leave no trace.

use crate::prelude::*;
use tsonic_regs::limits::RX_FRAME_MAX;

/// Words of 64 bits in the buffer.
pub const BUFFER_WORDS: usize = 1 << 11;

/// A frame in the buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct StoredFrame {
    /// Bytes.
    pub length: Bits<14>,
    /// A `ChecksumVerdict`.
    pub ip_csum: Bits<2>,
    /// A `ChecksumVerdict`.
    pub l4_csum: Bits<2>,
    /// A `HashKind`.
    pub hash_kind: Bits<2>,
    /// Hash.
    pub hash: Bits<32>,
    /// Queue that RSS chose.
    pub queue: Bits<8>,
    /// Arrival of the first byte, low half of the clock.
    pub arrival: Bits<32>,
}

/// A frame that waits for its verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct ArrivedFrame {
    /// It is in the buffer.
    pub kept: Bit,
    /// It is longer than the device stores.
    pub long: Bit,
    /// The device was not enabled.
    pub ignored: Bit,
    /// Arrival of the first byte.
    pub arrival: Bits<32>,
}

/// See the module.
#[derive(LogicBlock)]
pub struct Store {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// The device is enabled.
    pub enable: Signal<In, bool>,
    /// Now, low half.
    pub now: Signal<In, Bits<32>>,
    /// A beat arrives.
    pub rx_valid: Signal<In, bool>,
    /// Its bytes.
    pub rx_data: Signal<In, Bits<64>>,
    /// It is the frame's last.
    pub rx_last: Signal<In, bool>,
    /// The frame is damaged (with last).
    pub rx_bad: Signal<In, bool>,

    /// The verdict on the oldest frame that has none; see [`super::parse::Parse`].
    pub verdict_valid: Signal<In, bool>,
    /// It was damaged.
    pub verdict_bad: Signal<In, bool>,
    /// Bytes.
    pub verdict_length: Signal<In, Bits<16>>,
    /// A `ChecksumVerdict`.
    pub verdict_ip_csum: Signal<In, Bits<2>>,
    /// A `ChecksumVerdict`.
    pub verdict_l4_csum: Signal<In, Bits<2>>,
    /// A `HashKind`.
    pub verdict_hash_kind: Signal<In, Bits<2>>,
    /// Hash.
    pub verdict_hash: Signal<In, Bits<32>>,
    /// Queue.
    pub verdict_queue: Signal<In, Bits<8>>,

    /// A frame is there.
    pub frame_valid: Signal<Out, bool>,
    /// It is done with.
    pub frame_ready: Signal<In, bool>,
    /// The frame.
    pub frame: Signal<Out, StoredFrame>,
    /// Reads a word.
    pub read_enable: Signal<In, bool>,
    /// Which; words before it are free, but for the one being read.
    pub read_pointer: Signal<In, Bits<12>>,
    /// The word, from the next cycle on.
    pub read_data: Signal<Out, Bits<64>>,

    /// A frame came in whole; with its bytes.
    pub counted: Signal<Out, bool>,
    /// Bytes of that frame.
    pub counted_bytes: Signal<Out, Bits<16>>,
    /// A frame was damaged or too long.
    pub error: Signal<Out, bool>,
    /// A frame did not fit the buffer.
    pub overflow: Signal<Out, bool>,
    /// A frame that was kept has a wrong checksum.
    pub csum_error: Signal<Out, bool>,
    /// Nothing is inside.
    pub idle: Signal<Out, bool>,

    buffer: Ram<Bits<64>, 11>,
    arrived: Fifo<ArrivedFrame, 5>,
    frames: Fifo<StoredFrame, 8>,
    s_valid: DFF<bool>,
    s_data: DFF<Bits<64>>,
    s_last: DFF<bool>,
    s_bad: DFF<bool>,
    s_now: DFF<Bits<32>>,
    s_enable: DFF<bool>,
    tail: DFF<Bits<12>>,
    start: DFF<Bits<12>>,
    middle: DFF<bool>,
    beats: DFF<Bits<11>>,
    dropping: DFF<bool>,
    ignoring: DFF<bool>,
    arrival: DFF<Bits<32>>,
    used: Signal<Local, Bits<12>>,
    freed: DFF<Bits<12>>,
    full: Signal<Local, bool>,
    count: Signal<Local, Bits<11>>,
    long: Signal<Local, bool>,
    ignored: Signal<Local, bool>,
    dropped: Signal<Local, bool>,
    stamp: Signal<Local, Bits<32>>,
    keep: Signal<Local, bool>,
    tail_next: Signal<Local, Bits<12>>,
    v_valid: DFF<bool>,
    v_bad: DFF<bool>,
    v_length: DFF<Bits<16>>,
    v_ip: DFF<Bits<2>>,
    v_l4: DFF<Bits<2>>,
    v_kind: DFF<Bits<2>>,
    v_hash: DFF<Bits<32>>,
    v_queue: DFF<Bits<8>>,
    entry: Signal<Local, ArrivedFrame>,
    whole: Signal<Local, bool>,
    wrong: Signal<Local, bool>,
    most_beats: Fixed<11, { (RX_FRAME_MAX / 8) as u64 }>,
}

const _: () = assert!(RX_FRAME_MAX.is_multiple_of(8) && RX_FRAME_MAX / 8 < BUFFER_WORDS);
const _: () = assert!(RX_FRAME_MAX < 1 << 14);
/// Frames between the buffer and their verdict, and some more.
const VERDICT_MARGIN: usize = 32;
const _: () = assert!(super::verdict::LATENCY + 4 < VERDICT_MARGIN);

impl Default for Store {
    fn default() -> Self {
        Self {
            clock: Default::default(),
            enable: Default::default(),
            now: Default::default(),
            rx_valid: Default::default(),
            rx_data: Default::default(),
            rx_last: Default::default(),
            rx_bad: Default::default(),
            verdict_valid: Default::default(),
            verdict_bad: Default::default(),
            verdict_length: Default::default(),
            verdict_ip_csum: Default::default(),
            verdict_l4_csum: Default::default(),
            verdict_hash_kind: Default::default(),
            verdict_hash: Default::default(),
            verdict_queue: Default::default(),
            frame_valid: Default::default(),
            frame_ready: Default::default(),
            frame: Default::default(),
            read_enable: Default::default(),
            read_pointer: Default::default(),
            read_data: Default::default(),
            counted: Default::default(),
            counted_bytes: Default::default(),
            error: Default::default(),
            overflow: Default::default(),
            csum_error: Default::default(),
            idle: Default::default(),
            buffer: Default::default(),
            arrived: Default::default(),
            frames: Fifo::new(VERDICT_MARGIN),
            s_valid: Default::default(),
            s_data: Default::default(),
            s_last: Default::default(),
            s_bad: Default::default(),
            s_now: Default::default(),
            s_enable: Default::default(),
            tail: Default::default(),
            start: Default::default(),
            middle: Default::default(),
            beats: Default::default(),
            dropping: Default::default(),
            ignoring: Default::default(),
            arrival: Default::default(),
            used: Default::default(),
            freed: Default::default(),
            full: Default::default(),
            count: Default::default(),
            long: Default::default(),
            ignored: Default::default(),
            dropped: Default::default(),
            stamp: Default::default(),
            keep: Default::default(),
            tail_next: Default::default(),
            v_valid: Default::default(),
            v_bad: Default::default(),
            v_length: Default::default(),
            v_ip: Default::default(),
            v_l4: Default::default(),
            v_kind: Default::default(),
            v_hash: Default::default(),
            v_queue: Default::default(),
            entry: Default::default(),
            whole: Default::default(),
            wrong: Default::default(),
            most_beats: Default::default(),
        }
    }
}

impl Logic for Store {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, s_valid, s_data, s_last, s_bad, s_now, s_enable, tail, start, middle,
            beats, dropping, ignoring, arrival, freed, v_valid, v_bad, v_length, v_ip, v_l4,
            v_kind, v_hash, v_queue
        );
        self.buffer.clock.next = self.clock.val();
        self.arrived.clock.next = self.clock.val();
        self.frames.clock.next = self.clock.val();
        self.arrived.flush.next = false;
        self.frames.flush.next = false;

        // Arrival.
        self.s_valid.d.next = self.rx_valid.val();
        self.s_data.d.next = self.rx_data.val();
        self.s_last.d.next = self.rx_last.val();
        self.s_bad.d.next = self.rx_bad.val();
        self.s_now.d.next = self.now.val();
        self.s_enable.d.next = self.enable.val();
        self.freed.d.next = self.read_pointer.val();
        self.used.next = self.tail.q.val() - self.freed.q.val();
        self.full.next = self.used.val().get_bit(11);
        self.count.next = self.beats.q.val();
        self.ignored.next = self.ignoring.q.val();
        self.dropped.next = self.dropping.q.val() | self.full.val();
        self.stamp.next = self.arrival.q.val();
        if !self.middle.q.val() {
            self.count.next = 0.into();
            self.ignored.next = !self.s_enable.q.val();
            self.dropped.next = self.full.val() | self.frames.almost_full.val();
            self.stamp.next = self.s_now.q.val();
        }
        self.long.next = self.count.val() == self.most_beats.val();
        self.keep.next =
            self.s_valid.q.val() & !self.long.val() & !self.dropped.val() & !self.ignored.val();
        self.tail_next.next = self.tail.q.val() + 1;
        self.buffer.write_enable.next = self.keep.val();
        self.buffer.write_address.next = self.tail.q.val().get_bits::<11>(0);
        self.buffer.write_data.next = self.s_data.q.val();
        self.arrived.write_valid.next = false;
        self.arrived.write_data.next.kept = self.keep.val() & !self.s_bad.q.val();
        self.arrived.write_data.next.long = self.long.val();
        self.arrived.write_data.next.ignored = self.ignored.val();
        self.arrived.write_data.next.arrival = self.stamp.val();
        if self.s_valid.q.val() {
            self.middle.d.next = !self.s_last.q.val();
            self.ignoring.d.next = self.ignored.val();
            self.dropping.d.next = self.dropped.val();
            self.arrival.d.next = self.stamp.val();
            if !self.long.val() {
                self.beats.d.next = self.count.val() + 1;
            } else {
                self.beats.d.next = self.count.val();
            }
            if self.keep.val() {
                self.tail.d.next = self.tail_next.val();
            }
            if self.s_last.q.val() {
                self.arrived.write_valid.next = true;
                if self.keep.val() & !self.s_bad.q.val() {
                    self.start.d.next = self.tail_next.val();
                } else {
                    self.tail.d.next = self.start.q.val();
                }
            }
        }

        // Verdict.
        self.v_valid.d.next = self.verdict_valid.val();
        self.v_bad.d.next = self.verdict_bad.val();
        self.v_length.d.next = self.verdict_length.val();
        self.v_ip.d.next = self.verdict_ip_csum.val();
        self.v_l4.d.next = self.verdict_l4_csum.val();
        self.v_kind.d.next = self.verdict_hash_kind.val();
        self.v_hash.d.next = self.verdict_hash.val();
        self.v_queue.d.next = self.verdict_queue.val();
        self.entry.next = self.arrived.read_data.val();
        self.arrived.read_ready.next = self.v_valid.q.val();
        self.frames.write_valid.next = self.v_valid.q.val() & self.entry.val().kept;
        self.frames.write_data.next.length = self.v_length.q.val().get_bits::<14>(0);
        self.frames.write_data.next.ip_csum = self.v_ip.q.val();
        self.frames.write_data.next.l4_csum = self.v_l4.q.val();
        self.frames.write_data.next.hash_kind = self.v_kind.q.val();
        self.frames.write_data.next.hash = self.v_hash.q.val();
        self.frames.write_data.next.queue = self.v_queue.q.val();
        self.frames.write_data.next.arrival = self.entry.val().arrival;
        self.whole.next = !self.v_bad.q.val() & !self.entry.val().long & !self.entry.val().ignored;
        self.wrong.next = (self.v_ip.q.val() == 2) | (self.v_l4.q.val() == 2);
        self.counted.next = self.v_valid.q.val() & self.whole.val();
        self.counted_bytes.next = self.v_length.q.val();
        self.error.next = self.v_valid.q.val()
            & !self.entry.val().ignored
            & (self.v_bad.q.val() | self.entry.val().long);
        self.overflow.next = self.v_valid.q.val() & self.whole.val() & !self.entry.val().kept;
        self.csum_error.next = self.v_valid.q.val() & self.entry.val().kept & self.wrong.val();

        self.frame_valid.next = self.frames.read_valid.val();
        self.frame.next = self.frames.read_data.val();
        self.frames.read_ready.next = self.frame_ready.val();
        self.buffer.read_enable.next = self.read_enable.val();
        self.buffer.read_address.next = self.read_pointer.val().get_bits::<11>(0);
        self.read_data.next = self.buffer.read_data.val();
        self.idle.next = self.frames.empty.val()
            & self.arrived.empty.val()
            & !self.middle.q.val()
            & !self.s_valid.q.val()
            & !self.v_valid.q.val();
    }
}
