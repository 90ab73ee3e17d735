// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbiter of the memory port: who reads, who writes.
//!
//! Reads: round robin over the clients, one request every two cycles; a FIFO of
//! who asked leads each word back, in order. A client's `ready` back-presses the port, so a
//! client that is not always ready must not wait for another one's read.
//!
//! Writes: round robin over the writers, a whole request at a time: once chosen, a
//! writer keeps the port until its last beat is taken. A choice costs a cycle: it
//! stands in a register, or else synthesis repeats it for every bit of the data.
//! A client whose `valid` is up keeps it up until it is served.
//!
//! Interrupts: a request to interrupt goes out behind every beat that was taken before
//! it. While it stands no write begins; the one that has begun ends first.
//!
//! Requests and beats pass through a register (skid buffer) each way, so the
//! port's paths begin and end in registers.

use crate::prelude::*;

/// Clients that read.
pub const READERS: usize = 4;
/// Clients that write.
pub const WRITERS: usize = 3;
/// log2 of the read requests under way.
pub const READS_LOG2: usize = 7;

/// A word of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
#[allow(missing_docs)]
pub struct ReadWord {
    data: Bits<64>,
    last: Bit,
    err: Bit,
}

/// The arbiter. Readers by number: 0 descriptors, 1 continuation lists, 2
/// payload, 3 receive. Writers: 0 transmit completions, 1 receive, 2 budgets.
#[derive(LogicBlock, Default)]
pub struct Memory {
    /// Clock.
    pub clock: Signal<In, Clock>,

    /// Clients' read requests.
    pub req_valid: [Signal<In, bool>; READERS],
    /// Taken.
    pub req_ready: [Signal<Out, bool>; READERS],
    /// Address.
    pub req_addr: [Signal<In, Bits<64>>; READERS],
    /// Bytes.
    pub req_len: [Signal<In, Bits<13>>; READERS],
    /// A word for a client.
    pub data_valid: [Signal<Out, bool>; READERS],
    /// It takes it.
    pub data_ready: [Signal<In, bool>; READERS],
    /// The word, for whomever it is.
    pub data: Signal<Out, Bits<64>>,
    /// Last of its request.
    pub data_last: Signal<Out, bool>,
    /// The request failed.
    pub data_err: Signal<Out, bool>,

    /// Clients' write beats.
    pub write_valid: [Signal<In, bool>; WRITERS],
    /// Taken.
    pub write_ready: [Signal<Out, bool>; WRITERS],
    /// Address.
    pub write_addr: [Signal<In, Bits<64>>; WRITERS],
    /// Data.
    pub write_data: [Signal<In, Bits<64>>; WRITERS],
    /// Byte enables.
    pub write_strb: [Signal<In, Bits<8>>; WRITERS],
    /// Last beat of the request.
    pub write_last: [Signal<In, bool>; WRITERS],

    /// Port: read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,
    /// Port: word of a read.
    pub rd_valid: Signal<In, bool>,
    /// Taken.
    pub rd_ready: Signal<Out, bool>,
    /// Data.
    pub rd_data: Signal<In, Bits<64>>,
    /// Last of its request.
    pub rd_last: Signal<In, bool>,
    /// The request failed.
    pub rd_err: Signal<In, bool>,
    /// Port: beat of a write.
    pub wr_valid: Signal<Out, bool>,
    /// Taken.
    pub wr_ready: Signal<In, bool>,
    /// Address.
    pub wr_addr: Signal<Out, Bits<64>>,
    /// Data.
    pub wr_data: Signal<Out, Bits<64>>,
    /// Byte enables.
    pub wr_strb: Signal<Out, Bits<8>>,
    /// Last beat of the request.
    pub wr_last: Signal<Out, bool>,
    /// An interrupt is asked for.
    pub interrupt_valid: Signal<In, bool>,
    /// It is on its way.
    pub interrupt_ready: Signal<Out, bool>,
    /// Port: an interrupt, behind all beats.
    pub irq_valid: Signal<Out, bool>,
    /// Taken.
    pub irq_ready: Signal<In, bool>,
    /// No request is under way.
    pub idle: Signal<Out, bool>,

    requests: Skid<Bits<77>>,
    words: Skid<ReadWord>,
    beats: Skid<Bits<137>>,
    owners: Fifo<Bits<2>, READS_LOG2>,
    owner: Fifo<Bits<2>, 1>,
    reader: RoundRobin<READERS, 2>,
    writer: RoundRobin<WRITERS, 2>,
    last_reader: DFF<Bits<2>>,
    last_writer: DFF<Bits<2>>,
    reading: DFF<Bit>,
    writing: DFF<Bit>,
    asking: PackArray<1, READERS, READERS>,
    offering: PackArray<1, WRITERS, WRITERS>,

    request: [Pack2<64, 13, 77>; READERS],
    all_requests: PackArray<77, READERS, 308>,
    chosen_request: Select<308, 77, 2>,
    request_fields: Unpack2<64, 13, 77>,
    beat: [Pack4<64, 64, 8, 1, 137>; WRITERS],
    all_beats: PackArray<137, WRITERS, 411>,
    chosen_beat: Select<411, 137, 2>,
    beat_fields: Unpack4<64, 64, 8, 1, 137>,
    owner_ready: PackArray<1, READERS, READERS>,
    chosen_ready: Select<READERS, 1, 2>,
    chosen_ask: Select<READERS, 1, 2>,
    chosen_offer: Select<WRITERS, 1, 2>,

    ask: Signal<Local, Bit>,
    asked: Signal<Local, Bit>,
    who: Signal<Local, Bits<2>>,
    whose: Signal<Local, Bits<2>>,
    write_who: Signal<Local, Bits<2>>,
    write_some: Signal<Local, Bit>,
    word_taken: Signal<Local, Bit>,
    word_there: Signal<Local, Bit>,
    last_word: Signal<Local, Bit>,
    last_beat: Signal<Local, Bit>,
    behind: Signal<Local, Bit>,
}

impl Logic for Memory {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, last_reader, last_writer, reading, writing);
        clock!(self, clock, requests, words, beats, owners, owner);
        self.requests.flush.next = false;
        self.words.flush.next = false;
        self.beats.flush.next = false;
        self.owners.flush.next = false;
        self.owner.flush.next = false;

        // Read requests.
        for i in 0..READERS {
            self.asking.i[i].next = 0.into();
            if self.req_valid[i].val() {
                self.asking.i[i].next = 1.into();
            }
        }
        self.reader.requests.next = self.asking.out.val();
        self.reader.last.next = self.last_reader.q.val();
        self.who.next = self.last_reader.q.val();
        self.chosen_ask.data.next = self.asking.out.val();
        self.chosen_ask.index.next = self.who.val();
        self.ask.next =
            self.reading.q.val() & self.chosen_ask.out.val().any() & self.owners.write_ready.val();
        self.asked.next = self.ask.val() & self.requests.in_ready.val();
        self.requests.in_valid.next = self.ask.val();
        if !self.reading.q.val() {
            self.reading.d.next = self.reader.found.val();
            self.last_reader.d.next = self.reader.index.val();
        } else if self.asked.val() {
            self.reading.d.next = false;
        }
        for i in 0..READERS {
            self.request[i].i0.next = self.req_addr[i].val();
            self.request[i].i1.next = self.req_len[i].val();
            self.all_requests.i[i].next = self.request[i].out.val();
            self.req_ready[i].next = self.asked.val() & (self.who.val().index() == i);
        }
        self.chosen_request.data.next = self.all_requests.out.val();
        self.chosen_request.index.next = self.who.val();
        self.requests.in_data.next = self.chosen_request.out.val();
        self.owners.write_valid.next = self.asked.val();
        self.owners.write_data.next = self.who.val();
        self.rd_req_valid.next = self.requests.out_valid.val();
        self.request_fields.data.next = self.requests.out_data.val();
        self.rd_req_addr.next = self.request_fields.o0.val();
        self.rd_req_len.next = self.request_fields.o1.val();
        self.requests.out_ready.next = self.rd_req_ready.val();

        // Words that come back.
        self.owner.write_valid.next = self.owners.read_valid.val();
        self.owner.write_data.next = self.owners.read_data.val();
        self.owners.read_ready.next = self.owner.write_ready.val();
        self.words.in_valid.next = self.rd_valid.val();
        self.words.in_data.next.data = self.rd_data.val();
        self.words.in_data.next.last = self.rd_last.val();
        self.words.in_data.next.err = self.rd_err.val();
        self.rd_ready.next = self.words.in_ready.val();
        self.whose.next = self.owner.read_data.val();
        self.word_there.next = self.words.out_valid.val() & self.owner.read_valid.val();
        for i in 0..READERS {
            self.data_valid[i].next = self.word_there.val() & (self.whose.val().index() == i);
            self.owner_ready.i[i].next = 0.into();
            if self.data_ready[i].val() {
                self.owner_ready.i[i].next = 1.into();
            }
        }
        self.chosen_ready.data.next = self.owner_ready.out.val();
        self.chosen_ready.index.next = self.whose.val();
        self.word_taken.next = self.word_there.val() & self.chosen_ready.out.val().any();
        self.data.next = self.words.out_data.val().data;
        self.last_word.next = self.words.out_data.val().last;
        self.data_last.next = self.last_word.val();
        self.data_err.next = self.words.out_data.val().err;
        self.words.out_ready.next = self.word_taken.val();
        self.owner.read_ready.next = self.word_taken.val() & self.last_word.val();

        // Writes.
        for i in 0..WRITERS {
            self.offering.i[i].next = 0.into();
            if self.write_valid[i].val() {
                self.offering.i[i].next = 1.into();
            }
        }
        self.writer.requests.next = self.offering.out.val();
        self.writer.last.next = self.last_writer.q.val();
        self.write_who.next = self.last_writer.q.val();
        self.write_some.next = self.writing.q.val();
        for i in 0..WRITERS {
            self.beat[i].i0.next = self.write_addr[i].val();
            self.beat[i].i1.next = self.write_data[i].val();
            self.beat[i].i2.next = self.write_strb[i].val();
            self.beat[i].i3.next = 0.into();
            if self.write_last[i].val() {
                self.beat[i].i3.next = 1.into();
            }
            self.all_beats.i[i].next = self.beat[i].out.val();
            self.write_ready[i].next = self.write_some.val()
                & self.beats.in_ready.val()
                & (self.write_who.val().index() == i);
        }
        self.chosen_beat.data.next = self.all_beats.out.val();
        self.chosen_beat.index.next = self.write_who.val();
        self.chosen_offer.data.next = self.offering.out.val();
        self.chosen_offer.index.next = self.write_who.val();
        self.beats.in_valid.next = self.write_some.val() & self.chosen_offer.out.val().any();
        self.beats.in_data.next = self.chosen_beat.out.val();
        self.last_beat.next = self.chosen_beat.out.val().get_bit(136);
        if !self.writing.q.val() {
            if !self.interrupt_valid.val() {
                self.writing.d.next = self.writer.found.val();
                self.last_writer.d.next = self.writer.index.val();
            }
        } else if self.chosen_offer.out.val().any()
            & self.beats.in_ready.val()
            & self.last_beat.val()
        {
            self.writing.d.next = false;
        }
        self.wr_valid.next = self.beats.out_valid.val();
        self.beat_fields.data.next = self.beats.out_data.val();
        self.wr_addr.next = self.beat_fields.o0.val();
        self.wr_data.next = self.beat_fields.o1.val();
        self.wr_strb.next = self.beat_fields.o2.val();
        self.wr_last.next = self.beat_fields.o3.val().any();
        self.beats.out_ready.next = self.wr_ready.val();

        // Interrupts.
        self.behind.next = !self.writing.q.val() & !self.beats.out_valid.val();
        self.irq_valid.next = self.interrupt_valid.val() & self.behind.val();
        self.interrupt_ready.next = self.irq_ready.val() & self.behind.val();

        self.idle.next = !self.reading.q.val()
            & !self.writing.q.val()
            & !self.requests.out_valid.val()
            & !self.words.out_valid.val()
            & !self.beats.out_valid.val()
            & self.owners.empty.val()
            & self.owner.empty.val();
    }
}
