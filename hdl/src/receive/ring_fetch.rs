// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prefetch of buffer descriptors: goes round the queues, asks the table for
//! posted descriptors and reads them, up to four with a read, up to eight reads
//! under way. A queue on which a frame waits, or whose doorbell was rung, is
//! looked at out of turn.

use crate::prelude::*;
use tsonic_regs::descriptor::RxDescriptor;
use tsonic_regs::registers::queue;

/// A read under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, LogicStruct)]
pub struct RingRequest {
    /// Queue.
    pub queue: Bits<8>,
    /// Descriptors.
    pub count: Bits<3>,
    /// Life of the queue.
    pub epoch: Bits<4>,
}

#[derive(Copy, Clone, PartialEq, Debug, LogicState)]
enum FetchState {
    Ask,
    Wait,
    Answer,
    Claim,
    ClaimWait,
    ClaimAnswer,
    Request,
}

/// Reads for Q queues, 2^A at most.
#[derive(LogicBlock, Default)]
pub struct RingFetch<const Q: usize, const A: usize> {
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
    /// A doorbell is rung.
    pub bell_valid: Signal<In, bool>,
    /// Its queue.
    pub bell_queue: Signal<In, Bits<8>>,
    /// A frame waits for a descriptor.
    pub want_valid: Signal<In, bool>,
    /// Of this queue.
    pub want_queue: Signal<In, Bits<8>>,

    /// See [`super::ring_table::RingTable`], here and below.
    pub fetch_valid: Signal<Out, bool>,
    /// Taken.
    pub fetch_ready: Signal<In, bool>,
    /// Queue.
    pub fetch_queue: Signal<Out, Bits<8>>,
    /// It is a claim.
    pub fetch_claim: Signal<Out, bool>,
    /// Descriptors claimed.
    pub fetch_count: Signal<Out, Bits<3>>,
    /// Life of the queue.
    pub fetch_epoch: Signal<Out, Bits<4>>,
    /// The claim holds.
    pub found: Signal<In, bool>,
    /// Descriptors to read.
    pub count: Signal<In, Bits<3>>,
    /// First slot.
    pub slot: Signal<In, Bits<12>>,
    /// Life of the queue.
    pub epoch: Signal<In, Bits<4>>,

    /// Read request.
    pub rd_req_valid: Signal<Out, bool>,
    /// Taken.
    pub rd_req_ready: Signal<In, bool>,
    /// Address.
    pub rd_req_addr: Signal<Out, Bits<64>>,
    /// Bytes.
    pub rd_req_len: Signal<Out, Bits<13>>,

    /// The oldest read under way.
    pub request_valid: Signal<Out, bool>,
    /// It is done.
    pub request_ready: Signal<In, bool>,
    /// The read.
    pub request: Signal<Out, RingRequest>,
    /// No read is under way.
    pub idle: Signal<Out, bool>,

    bases: QueueRam<Bits<32>, Q, 9>,
    write_address: Pack2<1, 8, 9>,
    read_address: Pack2<1, 8, 9>,
    base: Pack2<32, 32, 64>,
    requests: Fifo<RingRequest, 3>,
    state: DFF<FetchState>,
    queue: DFF<Bits<8>>,
    turn: DFF<Bits<A>>,
    wanted: DFF<bool>,
    wanted_queue: DFF<Bits<8>>,
    rung: DFF<bool>,
    rung_queue: DFF<Bits<8>>,
    low: DFF<Bits<32>>,
    high: DFF<Bits<32>>,
    batch: DFF<Bits<3>>,
    first: DFF<Bits<12>>,
    life: DFF<Bits<4>>,
    address: DFF<Bits<64>>,
    is_low: Signal<Local, bool>,
    is_high: Signal<Local, bool>,
    distance: Signal<Local, Bits<64>>,
    next: Signal<Local, bool>,
    reg_lo: Fixed<7, { queue::RX_RING_LO.offset as u64 }>,
    reg_hi: Fixed<7, { queue::RX_RING_HI.offset as u64 }>,
}

const _: () = assert!(RxDescriptor::BYTES == 16);

impl<const Q: usize, const A: usize> Logic for RingFetch<Q, A> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            state,
            queue,
            turn,
            wanted,
            wanted_queue,
            rung,
            rung_queue,
            low,
            high,
            batch,
            first,
            life,
            address
        );
        self.bases.clock.next = self.clock.val();
        self.requests.clock.next = self.clock.val();
        self.requests.flush.next = false;

        self.is_low.next = self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_lo.val());
        self.is_high.next = self.cfg_valid.val() & (self.cfg_offset.val() == self.reg_hi.val());
        self.write_address.i0.next = self.is_high.val().into();
        self.write_address.i1.next = self.cfg_queue.val();
        self.bases.write_enable.next = self.is_low.val() | self.is_high.val();
        self.bases.write_address.next = self.write_address.out.val();
        self.bases.write_data.next = self.cfg_value.val();
        self.read_address.i0.next = 0.into();
        self.read_address.i1.next = self.queue.q.val();
        self.base.i0.next = self.low.q.val();
        self.base.i1.next = self.high.q.val();
        self.distance.next = bit_cast::<64, 12>(self.first.q.val()) << 4;

        self.fetch_valid.next = false;
        self.fetch_claim.next = false;
        self.fetch_count.next = self.batch.q.val();
        self.fetch_epoch.next = self.life.q.val();
        self.fetch_queue.next = self.queue.q.val();
        self.rd_req_valid.next = false;
        self.rd_req_addr.next = self.address.q.val();
        self.rd_req_len.next = bit_cast::<13, 3>(self.batch.q.val()) << 4;
        self.requests.write_valid.next = false;
        self.requests.write_data.next.queue = self.queue.q.val();
        self.requests.write_data.next.count = self.batch.q.val();
        self.requests.write_data.next.epoch = self.life.q.val();
        self.next.next = false;
        match self.state.q.val() {
            FetchState::Ask => {
                self.fetch_valid.next = self.requests.write_ready.val();
                if self.requests.write_ready.val() & self.fetch_ready.val() {
                    self.state.d.next = FetchState::Wait;
                }
            }
            FetchState::Wait => {
                self.read_address.i0.next = 1.into();
                self.low.d.next = self.bases.read_data.val();
                self.state.d.next = FetchState::Answer;
            }
            FetchState::Answer => {
                self.high.d.next = self.bases.read_data.val();
                self.batch.d.next = self.count.val();
                self.first.d.next = self.slot.val();
                self.life.d.next = self.epoch.val();
                if self.count.val() == 0 {
                    self.next.next = true;
                } else {
                    self.state.d.next = FetchState::Claim;
                }
            }
            FetchState::Claim => {
                self.fetch_valid.next = true;
                self.fetch_claim.next = true;
                self.address.d.next = self.base.out.val() + self.distance.val();
                if self.fetch_ready.val() {
                    self.state.d.next = FetchState::ClaimWait;
                }
            }
            FetchState::ClaimWait => {
                self.state.d.next = FetchState::ClaimAnswer;
            }
            FetchState::ClaimAnswer => {
                if self.found.val() {
                    self.state.d.next = FetchState::Request;
                } else {
                    self.next.next = true;
                }
            }
            FetchState::Request => {
                self.rd_req_valid.next = true;
                self.requests.write_valid.next = self.rd_req_ready.val();
                self.next.next = self.rd_req_ready.val();
            }
        }
        if self.want_valid.val() {
            self.wanted.d.next = true;
            self.wanted_queue.d.next = self.want_queue.val();
        }
        if self.bell_valid.val() {
            self.rung.d.next = true;
            self.rung_queue.d.next = self.bell_queue.val();
        }
        if self.next.val() {
            self.state.d.next = FetchState::Ask;
            if self.wanted.q.val() {
                self.queue.d.next = self.wanted_queue.q.val();
                self.wanted.d.next = self.want_valid.val();
            } else if self.rung.q.val() {
                self.queue.d.next = self.rung_queue.q.val();
                self.rung.d.next = self.bell_valid.val();
            } else {
                self.turn.d.next = self.turn.q.val() + 1;
                self.queue.d.next = bit_cast::<8, A>(self.turn.q.val());
            }
        }
        self.bases.read_address.next = self.read_address.out.val();
        self.requests.read_ready.next = self.request_ready.val();
        self.request_valid.next = self.requests.read_valid.val();
        self.request.next = self.requests.read_data.val();
        self.idle.next = self.requests.empty.val();
    }
}
