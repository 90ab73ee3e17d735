// SPDX-License-Identifier: MIT OR Apache-2.0
//! Burst lists: the bursts of every flow and the unpaced bursts of every queue,
//! in posting order, with the progress of each list's first burst.
//!
//! A list's identity is `{unpaced, index}`: flow slot or queue. Bursts are
//! chained by context. Three users share the block by time: an enqueue appends
//! (`append`), the scheduler looks up the next segment of a list (`look`, then
//! its answer three cycles later) and reports a grant (`advance`); no append is
//! done in the cycle of `advance` and the one after it.

use crate::prelude::*;

/// LB bits of identity, M = 2^LB lists, W = 91 bits of a burst.
#[derive(LogicBlock, Default)]
pub struct BurstLists<const LB: usize, const M: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Empties every list.
    pub reset: Signal<In, bool>,

    /// Appends the burst below to `list`; only while `blocked` is low.
    pub append: Signal<In, bool>,
    /// The list is empty: `list_empty` of the cycle before.
    pub append_first: Signal<In, bool>,
    /// List.
    pub list: Signal<In, Bits<LB>>,
    /// The list is empty.
    pub list_empty: Signal<Out, bool>,
    /// Burst.
    pub ctx: Signal<In, Bits<8>>,
    /// Payload bytes.
    pub payload_len: Signal<In, Bits<18>>,
    /// Payload bytes of a segment.
    pub mss: Signal<In, Bits<16>>,
    /// Header bytes of a segment.
    pub header_len: Signal<In, Bits<9>>,
    /// Inverse rate.
    pub inv_rate: Signal<In, Bits<48>>,
    /// No append in this cycle.
    pub blocked: Signal<Out, bool>,

    /// The rest of `abort_ctx` is not wanted.
    pub abort: Signal<In, bool>,
    /// Burst.
    pub abort_ctx: Signal<In, Bits<8>>,
    /// The burst that was looked up is aborted with this look; stands from the cycle
    /// after `look` on.
    pub revoke: Signal<In, bool>,

    /// Looks up the first burst of `look_list`; the answer stands from the next
    /// cycle on, the segment's fields two cycles after that, until the next look.
    pub look: Signal<In, bool>,
    /// List.
    pub look_list: Signal<In, Bits<LB>>,
    /// Burst.
    pub head_ctx: Signal<Out, Bits<8>>,
    /// Payload offset of the segment.
    pub offset: Signal<Out, Bits<18>>,
    /// Its number.
    pub segment: Signal<Out, Bits<18>>,
    /// Its payload bytes.
    pub len: Signal<Out, Bits<16>>,
    /// It is the burst's first.
    pub first: Signal<Out, bool>,
    /// It is the burst's last.
    pub last: Signal<Out, bool>,
    /// The burst was aborted: no payload, and the last.
    pub aborted: Signal<Out, bool>,
    /// Wire bytes: one cycle later than the other fields.
    pub wire_bytes: Signal<Out, Bits<17>>,
    /// Inverse rate of the burst.
    pub head_inv_rate: Signal<Out, Bits<48>>,

    /// The segment that was looked up was granted.
    pub advance: Signal<In, bool>,
    /// With it the list got empty (comb., with `advance`).
    pub exhausted: Signal<Out, bool>,
    /// From the cycle after `advance`: first burst of that list, if any.
    pub next_ctx: Signal<Out, Bits<8>>,

    /// A list to ask about.
    pub ask: Signal<In, Bits<LB>>,
    /// It holds a burst.
    pub holds: Signal<Out, bool>,
    /// Lists that hold a burst.
    pub holding: Signal<Out, Bits<M>>,

    head: LutRam<Bits<8>, LB>,
    tail: LutRam2<Bits<8>, LB>,
    chain: Ram<Bits<8>, 8>,
    progress: Ram<Bits<36>, LB>,
    progress_in: Pack2<18, 18, 36>,
    progress_out: Unpack2<18, 18, 36>,
    bursts: Ram<Bits<91>, 8>,
    burst_in: Pack4<18, 16, 9, 48, 91>,
    burst_out: Unpack4<18, 16, 9, 48, 91>,
    aborts: LutRam<Bits<1>, 8>,
    filled: Flags<M, LB>,

    granted_list: DFF<Bits<LB>>,
    granted_ctx: DFF<Bits<8>>,
    looked: DFF<bool>,
    read: DFF<bool>,
    rest: DFF<Bits<18>>,
    burst_mss: DFF<Bits<16>>,
    segment_offset: DFF<Bits<18>>,
    segment_number: DFF<Bits<18>>,
    segment_len: DFF<Bits<16>>,
    segment_last: DFF<bool>,
    segment_first: DFF<bool>,
    segment_aborted: DFF<bool>,
    segment_inv_rate: DFF<Bits<48>>,
    segment_header: DFF<Bits<9>>,
    wire_sum: DFF<Bits<17>>,
    replace_head: DFF<bool>,
    only: DFF<bool>,
    advanced: DFF<bool>,
    wide_mss: Zext<16, 18>,
    narrow_rest: Zext<18, 16>,
    wide_len: Zext<16, 17>,
    wide_len18: Zext<16, 18>,
    wide_header: Zext<9, 17>,

    is_aborted: Signal<Local, bool>,
    empties: Signal<Local, bool>,
    next_offset: Signal<Local, Bits<18>>,
    next_segment: Signal<Local, Bits<18>>,
    chained: Signal<Local, bool>,
}

impl<const LB: usize, const M: usize> Logic for BurstLists<LB, M> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            granted_list,
            granted_ctx,
            looked,
            read,
            rest,
            burst_mss,
            segment_offset,
            segment_number,
            segment_len,
            segment_last,
            segment_first,
            segment_aborted,
            segment_inv_rate,
            segment_header,
            wire_sum,
            replace_head,
            only,
            advanced
        );
        clock!(
            self, clock, head, tail, chain, progress, bursts, aborts, filled
        );
        self.filled.reset.next = self.reset.val();
        self.filled.read_index0.next = self.list.val();
        self.filled.read_index1.next = self.ask.val();
        self.list_empty.next = !self.filled.read0.val();
        self.holds.next = self.filled.read1.val();
        self.holding.next = self.filled.bits.val();
        self.advanced.d.next = self.advance.val();
        self.blocked.next = self.advance.val() | self.advanced.q.val() | self.abort.val();

        // Append: the burst's fields, then behind the tail or as the head.
        self.burst_in.i0.next = self.payload_len.val();
        self.burst_in.i1.next = self.mss.val();
        self.burst_in.i2.next = self.header_len.val();
        self.burst_in.i3.next = self.inv_rate.val();
        self.bursts.write_enable.next = self.append.val();
        self.bursts.write_address.next = self.ctx.val();
        self.bursts.write_data.next = self.burst_in.out.val();
        self.filled.set.next = self.append.val();
        self.filled.set_index.next = self.list.val();
        self.tail.write_enable.next = self.append.val();
        self.tail.write_address.next = self.list.val();
        self.tail.write_data.next = self.ctx.val();
        self.tail.read_address0.next = self.list.val();
        self.chained.next = self.append.val() & !self.append_first.val();
        self.chain.write_enable.next = self.chained.val();
        self.chain.write_address.next = self.tail.read_data0.val();
        self.chain.write_data.next = self.ctx.val();
        self.aborts.write_enable.next = self.append.val() | self.abort.val();
        if self.abort.val() {
            self.aborts.write_address.next = self.abort_ctx.val();
            self.aborts.write_data.next = 1.into();
        } else {
            self.aborts.write_address.next = self.ctx.val();
            self.aborts.write_data.next = 0.into();
        }

        // Look: head, its burst and the progress ...
        self.head.read_address.next = self.look_list.val();
        self.looked.d.next = self.look.val();
        if self.look.val() {
            self.granted_list.d.next = self.look_list.val();
            self.granted_ctx.d.next = self.head.read_data.val();
        }
        self.bursts.read_enable.next = self.look.val();
        self.bursts.read_address.next = self.head.read_data.val();
        self.progress.read_enable.next = self.look.val();
        self.progress.read_address.next = self.look_list.val();
        self.burst_out.data.next = self.bursts.read_data.val();
        self.progress_out.data.next = self.progress.read_data.val();
        // ... then the segment ...
        self.read.d.next = self.looked.q.val();
        self.rest.d.next = self.burst_out.o0.val() - self.progress_out.o0.val();
        self.burst_mss.d.next = self.burst_out.o1.val();
        self.wide_mss.data.next = self.burst_mss.q.val();
        self.narrow_rest.data.next = self.rest.q.val();
        self.aborts.read_address.next = self.granted_ctx.q.val();
        self.is_aborted.next = self.aborts.read_data.val().any() | self.revoke.val();
        if self.looked.q.val() {
            self.segment_offset.d.next = self.progress_out.o0.val();
            self.segment_number.d.next = self.progress_out.o1.val();
            self.segment_inv_rate.d.next = self.burst_out.o3.val();
            self.segment_header.d.next = self.burst_out.o2.val();
        }
        if self.read.q.val() {
            self.segment_first.d.next = !self.segment_number.q.val().any();
            self.segment_aborted.d.next = self.is_aborted.val();
            if self.is_aborted.val() {
                self.segment_len.d.next = 0.into();
                self.segment_header.d.next = 0.into();
                self.segment_last.d.next = true;
            } else if self.rest.q.val() <= self.wide_mss.out.val() {
                self.segment_len.d.next = self.narrow_rest.out.val();
                self.segment_last.d.next = true;
            } else {
                self.segment_len.d.next = self.burst_mss.q.val();
                self.segment_last.d.next = false;
            }
        }
        // ... then its wire bytes.
        self.wide_len.data.next = self.segment_len.q.val();
        self.wide_header.data.next = self.segment_header.q.val();
        self.wire_sum.d.next = self.wide_len.out.val() + self.wide_header.out.val();
        self.head_ctx.next = self.granted_ctx.q.val();
        self.offset.next = self.segment_offset.q.val();
        self.segment.next = self.segment_number.q.val();
        self.len.next = self.segment_len.q.val();
        self.first.next = self.segment_first.q.val();
        self.last.next = self.segment_last.q.val();
        self.aborted.next = self.segment_aborted.q.val();
        self.wire_bytes.next = self.wire_sum.q.val();
        self.head_inv_rate.next = self.segment_inv_rate.q.val();

        // Advance: progress, or the next burst (its context comes a cycle later).
        // Known from the cycle before, with what joined the list in it.
        self.tail.read_address1.next = self.granted_list.q.val();
        self.only.d.next = (self.granted_ctx.q.val() == self.tail.read_data1.val())
            & !(self.append.val() & (self.list.val() == self.granted_list.q.val()));
        self.empties.next = self.segment_last.q.val() & self.only.q.val();
        self.exhausted.next = self.empties.val();
        self.filled.clear.next = self.advance.val() & self.empties.val();
        self.filled.clear_index.next = self.granted_list.q.val();
        self.chain.read_enable.next = self.advance.val() & self.segment_last.q.val();
        self.chain.read_address.next = self.granted_ctx.q.val();
        self.replace_head.d.next =
            self.advance.val() & self.segment_last.q.val() & !self.empties.val();
        if self.segment_last.q.val() {
            self.next_ctx.next = self.chain.read_data.val();
        } else {
            self.next_ctx.next = self.granted_ctx.q.val();
        }
        if self.replace_head.q.val() {
            self.head.write_enable.next = true;
            self.head.write_address.next = self.granted_list.q.val();
            self.head.write_data.next = self.chain.read_data.val();
        } else {
            self.head.write_enable.next = self.append.val() & self.append_first.val();
            self.head.write_address.next = self.list.val();
            self.head.write_data.next = self.ctx.val();
        }
        self.wide_len18.data.next = self.segment_len.q.val();
        self.next_offset.next = self.segment_offset.q.val() + self.wide_len18.out.val();
        self.next_segment.next = self.segment_number.q.val() + 1;
        if self.advance.val() {
            self.progress.write_enable.next = true;
            self.progress.write_address.next = self.granted_list.q.val();
        } else {
            self.progress.write_enable.next = self.append.val() & self.append_first.val();
            self.progress.write_address.next = self.list.val();
        }
        if self.advance.val() & !self.segment_last.q.val() {
            self.progress_in.i0.next = self.next_offset.val();
            self.progress_in.i1.next = self.next_segment.val();
        } else {
            self.progress_in.i0.next = 0.into();
            self.progress_in.i1.next = 0.into();
        }
        self.progress.write_data.next = self.progress_in.out.val();
    }
}
