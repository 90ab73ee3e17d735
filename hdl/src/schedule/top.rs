// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler's top: what its parts do for each other.

use super::{BurstLists, Drr, DueLists, Pacer, Recall, Renew, WinnerTree};
use crate::prelude::*;
use tsonic_regs::registers::queue;

/// Steps of a decision.
#[derive(Clone, Copy, Debug, PartialEq, LogicState)]
pub enum Step {
    /// Which queue?
    Choose,
    /// Which list of it?
    Take,
    /// Which burst of that?
    Look,
    /// Its data come.
    Read,
    /// Which segment of that?
    Calculate,
    /// The grant stands.
    Grant,
    /// It was taken: charges, progress.
    Advance,
}

/// The scheduler for N queues (QB bits) and 2^SB flow slots. IB = max(SB, QB),
/// LB = IB + 1, F = 2^IB, M = 2^LB, FE = SB + 35, GE = QB + 35, W = 65 + QB.
#[derive(LogicBlock)]
pub struct Schedule<
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
> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Forgets everything, at any moment.
    pub reset: Signal<In, bool>,
    /// Memories are being cleared.
    pub resetting: Signal<Out, bool>,
    /// Now.
    pub ticks: Signal<In, Bits<64>>,
    /// D in ticks.
    pub lateness_debt: Signal<In, Bits<32>>,
    /// Ticks for which a segment may be due before a burst that joins is marked.
    pub cn_target: Signal<In, Bits<32>>,

    /// A queue's register is written.
    pub cfg_valid: Signal<In, bool>,
    /// Queue.
    pub cfg_queue: Signal<In, Bits<8>>,
    /// Offset in the queue's block.
    pub cfg_offset: Signal<In, Bits<7>>,
    /// Value.
    pub cfg_value: Signal<In, Bits<32>>,

    /// A burst is offered.
    pub enqueue_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub enqueue_ready: Signal<Out, bool>,
    /// Context.
    pub enqueue_ctx: Signal<In, Bits<8>>,
    /// Queue.
    pub enqueue_queue: Signal<In, Bits<8>>,
    /// Flow slot; 0 is unpaced.
    pub enqueue_flow_slot: Signal<In, Bits<16>>,
    /// Ticks per wire byte, 20.28.
    pub enqueue_inv_rate: Signal<In, Bits<48>>,
    /// Payload bytes.
    pub enqueue_payload_len: Signal<In, Bits<18>>,
    /// Payload bytes of a segment; not 0 unless there is no payload.
    pub enqueue_mss: Signal<In, Bits<16>>,
    /// Header bytes.
    pub enqueue_header_len: Signal<In, Bits<9>>,
    /// There is a launch time.
    pub enqueue_launch_valid: Signal<In, bool>,
    /// Launch time in ticks.
    pub enqueue_launch: Signal<In, Bits<64>>,

    /// A burst found its queue congested.
    pub mark_valid: Signal<Out, bool>,
    /// Its context.
    pub mark_ctx: Signal<Out, Bits<8>>,

    /// The rest of a burst is not wanted. Always taken.
    pub abort_valid: Signal<In, bool>,
    /// Context.
    pub abort_ctx: Signal<In, Bits<8>>,

    /// Budgets: the queue may send.
    pub budget_ok: Signal<In, Bits<N>>,
    /// A grant was taken in the cycle before.
    pub charge_valid: Signal<Out, bool>,
    /// Its queue.
    pub charge_queue: Signal<Out, Bits<8>>,
    /// Its wire bytes.
    pub charge_bytes: Signal<Out, Bits<17>>,

    /// A segment may be sent.
    pub grant_valid: Signal<Out, bool>,
    /// It is taken.
    pub grant_ready: Signal<In, bool>,
    /// Context.
    pub grant_ctx: Signal<Out, Bits<8>>,
    /// Queue.
    pub grant_queue: Signal<Out, Bits<8>>,
    /// Payload offset.
    pub grant_offset: Signal<Out, Bits<18>>,
    /// Payload bytes.
    pub grant_len: Signal<Out, Bits<16>>,
    /// Segment number.
    pub grant_index: Signal<Out, Bits<18>>,
    /// First of the burst.
    pub grant_first: Signal<Out, bool>,
    /// Last of the burst.
    pub grant_last: Signal<Out, bool>,
    /// The burst was aborted: no segment, only its end.
    pub grant_aborted: Signal<Out, bool>,
    /// That is so because its queue is off.
    pub grant_revoked: Signal<Out, bool>,

    /// Nothing happens before the next event.
    pub idle: Signal<Out, bool>,
    /// There is a next event.
    pub next_event_valid: Signal<Out, bool>,
    /// Its tick modulo 2^34.
    pub next_event: Signal<Out, Bits<34>>,

    lists: BurstLists<LB, M>,
    pacer: Pacer<IB, QB, LB, W>,
    flows: WinnerTree<SB, FE>,
    gates: WinnerTree<QB, GE>,
    due: DueLists<N, QB, LB>,
    drr: Drr<N, QB>,
    recall: Recall<N, QB, SB>,
    renew: Renew<N, QB>,

    // Reset.
    cleared: DFF<bool>,
    clear_count: DFF<Bits<LB>>,
    clear_second: DFF<bool>,
    in_reset: Signal<Local, bool>,
    clear_now: Signal<Local, Bits<LB>>,
    clear_queue: Zext<LB, QB>,
    clear_slot: Zext<LB, SB>,

    // Configuration.
    rate_low: LutRam<Bits<32>, QB>,
    rates: LutRam<Bits<48>, QB>,
    rate_written: Signal<Local, bool>,
    rate_pack: Pack2<32, 16, 48>,
    rate_lo_offset: Fixed<7, { queue::TX_RATE_LO.offset as u64 }>,
    rate_hi_offset: Fixed<7, { queue::TX_RATE_HI.offset as u64 }>,
    quantum_offset: Fixed<7, { queue::TX_QUANTUM.offset as u64 }>,
    cfg_queue_index: Zext<8, QB>,
    cfg_high: Zext<32, 16>,

    // The burst that came in.
    e_valid: DFF<bool>,
    e_ctx: DFF<Bits<8>>,
    e_queue: DFF<Bits<QB>>,
    e_paced: DFF<bool>,
    e_index: DFF<Bits<IB>>,
    e_inv_rate: DFF<Bits<48>>,
    e_payload_len: DFF<Bits<18>>,
    e_mss: DFF<Bits<16>>,
    e_header_len: DFF<Bits<9>>,
    e_launch_valid: DFF<bool>,
    e_launch: DFF<Bits<64>>,
    e_queue_index: Zext<8, QB>,
    e_queue_id: Zext<8, IB>,
    e_slot_id: Zext<16, IB>,
    e_looked: DFF<bool>,
    e_empty: DFF<bool>,
    e_busy: DFF<bool>,
    e_planted: DFF<bool>,
    e_list: Pack2<IB, 1, LB>,
    e_starts: Signal<Local, bool>,
    e_wait: Signal<Local, bool>,
    e_offer: Signal<Local, bool>,
    append: Signal<Local, bool>,

    // Congestion, one stage a cycle behind the joining.
    joined: DFF<bool>,
    joined_ctx: DFF<Bits<8>>,
    age: DFF<Bits<34>>,
    marked: DFF<bool>,
    marked_ctx: DFF<Bits<8>>,
    wide_target: Zext<32, 34>,
    asked_since: Signal<Local, Bits<34>>,

    // An unpaced list that got work.
    unpaced_pending: DFF<bool>,
    unpaced_list: DFF<Bits<LB>>,
    unpaced_queue: DFF<Bits<QB>>,

    // A flow that got work.
    work_pending: DFF<bool>,
    work_turn: DFF<bool>,
    work_id: DFF<Bits<IB>>,
    work_ctx: DFF<Bits<8>>,
    work_keep: DFF<bool>,
    work_ticks: DFF<Bits<64>>,

    // Flows: an operation in the pacer; a leaf in the tree; queue of the head.
    busy: Flags<F, IB>,
    busy_set: DFF<bool>,
    busy_index: DFF<Bits<IB>>,
    planted: Flags<F, IB>,
    flow_queue: LutRam<Bits<QB>, SB>,

    // Queues.
    closed: Flags<N, QB>,
    eligible: Signal<Local, Bits<N>>,

    // The decision.
    step: DFF<Step>,
    queue: DFF<Bits<QB>>,
    list: DFF<Bits<LB>>,
    granted_list: DFF<Bits<LB>>,
    granted_queue: DFF<Bits<QB>>,
    queue_rate: DFF<Bits<48>>,
    queue_fresh: DFF<bool>,
    granted_at: DFF<Bits<64>>,
    flow_pending: DFF<bool>,
    queue_pending: DFF<bool>,
    more: DFF<bool>,
    revoked: DFF<bool>,
    hasten: Signal<Local, bool>,
    hasten_flow: Zext<SB, IB>,
    at_once: Signal<Local, bool>,
    list_unpack: Unpack2<IB, 1, LB>,
    list_paced: Signal<Local, bool>,
    queue_id: Zext<QB, IB>,
    queue_out: Zext<QB, 8>,
    looks: Signal<Local, bool>,
    advances: Signal<Local, bool>,

    // The pacer's operations and results.
    op_work: Signal<Local, bool>,
    op_flow: Signal<Local, bool>,
    op_queue: Signal<Local, bool>,
    op_taken: Signal<Local, bool>,
    plant: Signal<Local, bool>,
    result_done: Signal<Local, bool>,
    result_slot: Zext<IB, SB>,
    result_queue: Zext<IB, QB>,
    result_list: Pack2<IB, 1, LB>,
    open_now: Signal<Local, bool>,

    // A flow whose key is reached.
    due_flow: Zext<SB, IB>,
    due_list: Pack2<IB, 1, LB>,
    looked_due: DFF<bool>,
    looked_id: DFF<Bits<SB>>,
    looked_list: DFF<Bits<LB>>,
    looked_holds: DFF<bool>,
    looked_queue: DFF<Bits<QB>>,
    popped_flow: Zext<SB, IB>,
    pop_pending: DFF<bool>,
    pop_list: DFF<Bits<LB>>,
    pop_queue: DFF<Bits<QB>>,
    pop: Signal<Local, bool>,
    gate_pop: Signal<Local, bool>,
    paced_bit: Fixed<1, 0>,
    unpaced_bit: Fixed<1, 1>,

    ticks_now: Signal<Local, Bits<64>>,
    now: Signal<Local, Bits<34>>,

    // Idleness.
    quiet: DFF<bool>,
    upcoming_valid: DFF<bool>,
    upcoming: DFF<Bits<34>>,
    flow_key: Signal<Local, Bits<34>>,
    gate_key: Signal<Local, Bits<34>>,
    key_difference: Signal<Local, Bits<34>>,
}

impl<
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
> Logic for Schedule<N, QB, SB, IB, LB, F, M, FE, GE, W>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            cleared,
            clear_count,
            clear_second,
            e_valid,
            e_ctx,
            e_queue,
            e_paced,
            e_index,
            e_inv_rate,
            e_payload_len,
            e_mss,
            e_header_len,
            e_launch_valid,
            e_launch,
            work_pending,
            work_turn,
            work_id,
            work_ctx,
            work_keep,
            work_ticks,
            unpaced_pending,
            unpaced_list,
            unpaced_queue,
            pop_pending,
            pop_list,
            pop_queue,
            busy_set,
            busy_index,
            looked_due,
            looked_id,
            looked_list,
            looked_holds,
            looked_queue,
            e_looked,
            e_empty,
            e_busy,
            e_planted,
            joined,
            joined_ctx,
            age,
            marked,
            marked_ctx
        );
        dff_setup!(
            self,
            clock,
            step,
            queue,
            list,
            granted_list,
            granted_queue,
            queue_rate,
            queue_fresh,
            granted_at,
            flow_pending,
            queue_pending,
            more,
            revoked,
            quiet,
            upcoming_valid,
            upcoming
        );
        clock!(
            self, clock, lists, pacer, flows, gates, due, drr, recall, renew, rate_low, rates,
            busy, planted, flow_queue, closed
        );
        self.ticks_now.next = self.ticks.val();
        self.now.next = self.ticks_now.val().get_bits::<34>(0);

        // Reset: flags and registers at once, memories one word in two cycles, which is
        // one word a cycle where they hold two.
        self.in_reset.next = self.reset.val() | !self.cleared.q.val();
        self.resetting.next = !self.cleared.q.val();
        self.clear_now.next = self.clear_count.q.val();
        if !self.cleared.q.val() {
            self.clear_second.d.next = !self.clear_second.q.val();
            if self.clear_second.q.val() {
                self.clear_count.d.next = self.clear_count.q.val() + 1;
                self.cleared.d.next = self.clear_now.val().all();
            }
        }
        self.clear_queue.data.next = self.clear_count.q.val();
        self.clear_slot.data.next = self.clear_count.q.val();
        self.lists.reset.next = self.in_reset.val();
        self.pacer.reset.next = self.in_reset.val();
        self.pacer.clear.next = self.in_reset.val();
        self.pacer.clear_address.next = self.clear_count.q.val();
        self.pacer.clear_second.next = self.clear_second.q.val();
        self.due.reset.next = self.in_reset.val();
        self.drr.reset.next = self.in_reset.val();
        self.drr.clear.next = self.in_reset.val();
        self.drr.clear_queue.next = self.clear_queue.out.val();
        self.busy.reset.next = self.in_reset.val();
        self.planted.reset.next = self.in_reset.val();
        self.closed.reset.next = self.in_reset.val();

        // Configuration.
        self.cfg_queue_index.data.next = self.cfg_queue.val();
        self.cfg_high.data.next = self.cfg_value.val();
        self.rate_low.write_enable.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.rate_lo_offset.val());
        self.rate_low.write_address.next = self.cfg_queue_index.out.val();
        self.rate_low.write_data.next = self.cfg_value.val();
        self.rate_low.read_address.next = self.cfg_queue_index.out.val();
        self.rate_pack.i0.next = self.rate_low.read_data.val();
        self.rate_pack.i1.next = self.cfg_high.out.val();
        self.rate_written.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.rate_hi_offset.val());
        if self.in_reset.val() {
            self.rates.write_enable.next = true;
            self.rates.write_address.next = self.clear_queue.out.val();
            self.rates.write_data.next = 0.into();
        } else {
            self.rates.write_enable.next = self.rate_written.val();
            self.rates.write_address.next = self.cfg_queue_index.out.val();
            self.rates.write_data.next = self.rate_pack.out.val();
        }
        self.drr.quantum_valid.next =
            self.cfg_valid.val() & (self.cfg_offset.val() == self.quantum_offset.val());
        self.drr.quantum_queue.next = self.cfg_queue_index.out.val();
        self.drr.quantum.next = self.cfg_high.out.val();
        self.recall.reset.next = self.in_reset.val();
        self.recall.clear_queue.next = self.clear_queue.out.val();
        self.recall.cfg_valid.next = self.cfg_valid.val();
        self.recall.cfg_queue.next = self.cfg_queue_index.out.val();
        self.recall.cfg_offset.next = self.cfg_offset.val();
        self.recall.cfg_value.next = self.cfg_value.val();
        self.renew.reset.next = self.in_reset.val();
        self.renew.written.next = self.rate_written.val();
        self.renew.written_queue.next = self.cfg_queue_index.out.val();

        // A burst comes in ...
        self.e_queue_index.data.next = self.enqueue_queue.val();
        self.e_queue_id.data.next = self.enqueue_queue.val();
        self.e_slot_id.data.next = self.enqueue_flow_slot.val();
        self.enqueue_ready.next = !self.e_valid.q.val() & self.cleared.q.val();
        if !self.e_valid.q.val() {
            self.e_valid.d.next = self.enqueue_valid.val() & self.cleared.q.val();
            self.e_ctx.d.next = self.enqueue_ctx.val();
            self.e_queue.d.next = self.e_queue_index.out.val();
            self.e_paced.d.next = self.enqueue_flow_slot.val().any();
            if self.enqueue_flow_slot.val().any() {
                self.e_index.d.next = self.e_slot_id.out.val();
            } else {
                self.e_index.d.next = self.e_queue_id.out.val();
            }
            self.e_inv_rate.d.next = self.enqueue_inv_rate.val();
            self.e_payload_len.d.next = self.enqueue_payload_len.val();
            self.e_mss.d.next = self.enqueue_mss.val();
            self.e_header_len.d.next = self.enqueue_header_len.val();
            self.e_launch_valid.d.next = self.enqueue_launch_valid.val();
            self.e_launch.d.next = self.enqueue_launch.val();
        }
        // ... and joins its list. The first of a flow waits while the pacer works
        // on that flow, the first of an unpaced list goes to the due list with it.
        self.e_list.i0.next = self.e_index.q.val();
        if self.e_paced.q.val() {
            self.e_list.i1.next = self.paced_bit.val();
        } else {
            self.e_list.i1.next = self.unpaced_bit.val();
        }
        self.busy.read_index0.next = self.e_index.q.val();
        self.planted.read_index0.next = self.e_index.q.val();
        self.lists.list.next = self.e_list.out.val();
        self.lists.ctx.next = self.e_ctx.q.val();
        self.lists.payload_len.next = self.e_payload_len.q.val();
        self.lists.mss.next = self.e_mss.q.val();
        self.lists.header_len.next = self.e_header_len.q.val();
        self.lists.inv_rate.next = self.e_inv_rate.q.val();
        self.lists.abort.next = self.abort_valid.val();
        self.lists.abort_ctx.next = self.abort_ctx.val();
        // Looked at in one cycle, acted on in the next: what an advance of that
        // cycle changed blocks, a flow that was let go of waits once more, and one
        // that left the tree goes back there.
        self.e_looked.d.next = self.e_valid.q.val();
        self.e_empty.d.next = self.lists.list_empty.val();
        self.e_busy.d.next = self.busy.read0.val() | self.busy_set.q.val();
        self.e_planted.d.next = self.planted.read0.val();
        self.lists.append_first.next = self.e_empty.q.val();
        self.e_starts.next = self.e_paced.q.val() & self.e_empty.q.val();
        self.e_offer.next =
            self.e_valid.q.val() & self.e_looked.q.val() & !self.lists.blocked.val();
        self.e_wait.next = self.e_starts.val() & (self.e_busy.q.val() | self.work_pending.q.val());
        self.due.valid3.next = self.unpaced_pending.q.val();
        self.due.list3.next = self.unpaced_list.q.val();
        self.due.queue3.next = self.unpaced_queue.q.val();
        if self.due.ready3.val() {
            self.unpaced_pending.d.next = false;
        }
        self.append.next = self.e_offer.val()
            & !self.e_wait.val()
            & (self.e_paced.q.val() | !self.unpaced_pending.q.val());
        self.lists.append.next = self.append.val();
        self.pacer.store.next = self.append.val();
        self.pacer.store_ctx.next = self.e_ctx.q.val();
        self.pacer.store_queue.next = self.e_queue.q.val();
        self.pacer.store_launch_valid.next = self.e_launch_valid.q.val();
        self.pacer.store_launch.next = self.e_launch.q.val();
        if self.append.val() {
            self.e_valid.d.next = false;
        }
        if self.append.val() & !self.e_paced.q.val() & self.e_empty.q.val() {
            self.unpaced_pending.d.next = true;
            self.unpaced_list.d.next = self.e_list.out.val();
            self.unpaced_queue.d.next = self.e_queue.q.val();
        }
        if self.append.val() & self.e_starts.val() {
            self.work_pending.d.next = true;
            self.work_id.d.next = self.e_index.q.val();
            self.work_ctx.d.next = self.e_ctx.q.val();
            self.work_keep.d.next = self.e_planted.q.val();
            self.work_ticks.d.next = self.ticks.val();
        }

        // What it found: looked at in the tick before, when now was one less.
        self.due.now.next = self.now.val();
        self.due.ask_queue.next = self.e_queue.q.val();
        self.asked_since.next = self.due.asked_since.val();
        self.age.d.next = self.now.val() + !self.asked_since.val();
        self.joined.d.next = self.append.val() & self.due.asked_holds.val();
        self.joined_ctx.d.next = self.e_ctx.q.val();
        self.wide_target.data.next = self.cn_target.val();
        self.marked.d.next = self.joined.q.val() & (self.age.q.val() > self.wide_target.out.val());
        self.marked_ctx.d.next = self.joined_ctx.q.val();
        self.mark_valid.next = self.marked.q.val();
        self.mark_ctx.next = self.marked_ctx.q.val();

        // The decision. What a queue that is off still holds costs neither its rate
        // nor its budget.
        self.eligible.next = self.due.waiting.val()
            & (self.recall.off_queues.val() | (!self.closed.bits.val() & self.budget_ok.val()));
        self.drr.eligible.next = self.eligible.val();
        self.drr.choose.next =
            (self.step.q.val() == Step::Choose) & self.grant_ready.val() & !self.in_reset.val();
        self.due.take.next = self.step.q.val() == Step::Take;
        self.due.take_queue.next = self.queue.q.val();
        self.rates.read_address.next = self.queue.q.val();
        self.looks.next = (self.step.q.val() == Step::Look)
            & !self.flow_pending.q.val()
            & !self.queue_pending.q.val();
        self.lists.look.next = self.looks.val();
        self.lists.look_list.next = self.list.q.val();
        self.lists.revoke.next = self.revoked.q.val();
        self.recall.look_queue.next = self.queue.q.val();
        self.renew.look.next = self.looks.val() & !self.recall.look_off.val();
        self.renew.look_queue.next = self.queue.q.val();
        self.list_unpack.data.next = self.granted_list.q.val();
        self.list_paced.next = !self.list_unpack.o1.val().any();
        self.advances.next = self.step.q.val() == Step::Advance;
        self.lists.advance.next = self.advances.val();
        self.drr.charge.next = self.advances.val();
        self.drr.end_turn.next = self.revoked.q.val();
        self.drr.wire_bytes.next = self.lists.wire_bytes.val();
        self.due.valid0.next =
            self.advances.val() & !self.list_paced.val() & !self.lists.exhausted.val();
        self.due.list0.next = self.granted_list.q.val();
        self.due.queue0.next = self.granted_queue.q.val();
        self.closed.set.next =
            self.advances.val() & self.queue_rate.q.val().any() & !self.revoked.q.val();
        self.closed.set_index.next = self.granted_queue.q.val();
        self.closed.read_index0.next = self.queue.q.val();
        self.closed.read_index1.next = self.queue.q.val();
        match self.step.q.val() {
            Step::Choose => {
                if self.drr.chosen.val() {
                    self.queue.d.next = self.drr.choice.val();
                    self.step.d.next = Step::Take;
                }
            }
            Step::Take => {
                self.list.d.next = self.due.taken.val();
                self.step.d.next = Step::Look;
            }
            Step::Look => {
                if self.looks.val() {
                    self.granted_list.d.next = self.list.q.val();
                    self.granted_queue.d.next = self.queue.q.val();
                    self.queue_rate.d.next = self.rates.read_data.val();
                    self.queue_fresh.d.next = self.renew.fresh.val();
                    self.revoked.d.next = self.recall.look_off.val();
                    self.step.d.next = Step::Read;
                }
            }
            Step::Read => {
                self.step.d.next = Step::Calculate;
            }
            Step::Calculate => {
                self.step.d.next = Step::Grant;
            }
            Step::Grant => {
                self.granted_at.d.next = self.ticks.val();
                if self.grant_ready.val() {
                    self.step.d.next = Step::Advance;
                }
            }
            Step::Advance => {
                self.more.d.next = !self.lists.exhausted.val();
                self.step.d.next = Step::Choose;
            }
        }
        self.queue_out.data.next = self.granted_queue.q.val();
        self.charge_valid.next = self.advances.val();
        self.charge_queue.next = self.queue_out.out.val();
        self.charge_bytes.next = self.lists.wire_bytes.val();
        self.grant_valid.next = self.step.q.val() == Step::Grant;
        self.grant_ctx.next = self.lists.head_ctx.val();
        self.grant_queue.next = self.queue_out.out.val();
        self.grant_offset.next = self.lists.offset.val();
        self.grant_len.next = self.lists.len.val();
        self.grant_index.next = self.lists.segment.val();
        self.grant_first.next = self.lists.first.val();
        self.grant_last.next = self.lists.last.val();
        self.grant_aborted.next = self.lists.aborted.val();
        self.grant_revoked.next = self.revoked.q.val();

        // Operations of the pacer: grants first, but a flow that got work is not
        // passed over twice.
        self.op_work.next = self.work_pending.q.val()
            & (self.work_turn.q.val() | (!self.flow_pending.q.val() & !self.queue_pending.q.val()));
        self.op_flow.next = !self.op_work.val() & self.flow_pending.q.val();
        self.op_queue.next =
            !self.op_work.val() & !self.flow_pending.q.val() & self.queue_pending.q.val();
        self.pacer.now.next = self.now.val();
        self.pacer.lateness_debt.next = self.lateness_debt.val();
        self.pacer.op_valid.next = self.op_work.val() | self.op_flow.val() | self.op_queue.val();
        self.op_taken.next = self.pacer.op_ready.val();
        self.queue_id.data.next = self.granted_queue.q.val();
        self.pacer.op_inv_rate.next = self.lists.head_inv_rate.val();
        self.pacer.op_wire_bytes.next = self.lists.wire_bytes.val();
        self.pacer.op_ticks.next = self.granted_at.q.val();
        self.pacer.op_is_queue.next = self.op_queue.val();
        self.pacer.op_ctx.next = self.lists.next_ctx.val();
        self.pacer.op_id.next = self.list_unpack.o0.val();
        self.pacer.op_fresh.next = self.op_queue.val() & self.queue_fresh.q.val();
        // What is given up for its queue's sake leaves V and E as they are.
        self.pacer.op_keep.next = self.revoked.q.val() & !self.op_queue.val();
        self.pacer.op_joins.next = self.lists.last.val() & !self.op_queue.val();
        self.pacer.op_work.next = self.more.q.val() & !self.op_queue.val();
        if self.op_queue.val() {
            self.pacer.op_id.next = self.queue_id.out.val();
            self.pacer.op_inv_rate.next = self.queue_rate.q.val();
        }
        if self.op_work.val() {
            self.pacer.op_inv_rate.next = 0.into();
            self.pacer.op_wire_bytes.next = 0.into();
            self.pacer.op_ticks.next = self.work_ticks.q.val();
            self.pacer.op_ctx.next = self.work_ctx.q.val();
            self.pacer.op_id.next = self.work_id.q.val();
            self.pacer.op_fresh.next = !self.work_keep.q.val();
            self.pacer.op_keep.next = self.work_keep.q.val();
            self.pacer.op_joins.next = true;
            self.pacer.op_work.next = true;
        }
        if self.op_taken.val() {
            if self.op_work.val() {
                self.work_pending.d.next = false;
                self.work_turn.d.next = false;
            }
            if self.op_flow.val() {
                self.flow_pending.d.next = false;
                self.work_turn.d.next = self.work_pending.q.val();
            }
            if self.op_queue.val() {
                self.queue_pending.d.next = false;
                self.work_turn.d.next = self.work_pending.q.val();
            }
        }
        if self.advances.val() {
            self.flow_pending.d.next = self.list_paced.val();
            self.queue_pending.d.next = self.queue_rate.q.val().any() & !self.revoked.q.val();
        }
        // A flow's being busy shows two cycles later; who looks in between waits.
        self.busy_set.d.next = (self.advances.val() & self.list_paced.val())
            | (self.append.val() & self.e_starts.val());
        if self.advances.val() {
            self.busy_index.d.next = self.list_unpack.o0.val();
        } else {
            self.busy_index.d.next = self.e_index.q.val();
        }
        self.busy.set.next = self.busy_set.q.val();
        self.busy.set_index.next = self.busy_index.q.val();

        // Results: into a tree, to the due list, or, without work and with its key
        // reached, nowhere. A flow that stands in the tree stays there.
        self.result_slot.data.next = self.pacer.result_id.val();
        self.result_queue.data.next = self.pacer.result_id.val();
        self.result_list.i0.next = self.pacer.result_id.val();
        self.result_list.i1.next = self.paced_bit.val();
        self.plant.next = self.pacer.result_to_tree.val();
        self.due.valid1.next = self.pacer.result_to_due.val();
        self.due.list1.next = self.result_list.out.val();
        self.due.queue1.next = self.pacer.result_queue.val();
        self.pacer.result_ready.next = !self.pacer.result_to_due.val() | self.due.ready1.val();
        self.result_done.next = self.pacer.result_valid.val()
            & !self.pacer.result_is_queue.val()
            & (!self.pacer.result_to_due.val() | self.due.ready1.val());
        self.busy.clear.next = self.result_done.val();
        self.busy.clear_index.next = self.pacer.result_id.val();
        self.planted.set.next = self.plant.val();
        self.planted.set_index.next = self.pacer.result_id.val();
        self.flow_queue.write_enable.next = self.result_done.val() & self.pacer.result_work.val();
        self.flow_queue.write_address.next = self.result_slot.out.val();
        self.flow_queue.write_data.next = self.pacer.result_queue.val();
        self.recall.result_taken.next = self.result_done.val();
        self.recall.result_slot.next = self.result_slot.out.val();
        self.recall.result_work.next = self.pacer.result_work.val();
        self.recall.result_queue.next = self.pacer.result_queue.val();
        self.at_once.next = self.recall.result_off.val() & self.pacer.result_work.val();
        self.open_now.next = self.pacer.result_valid.val()
            & self.pacer.result_is_queue.val()
            & self.pacer.result_due.val();

        // A flow's key is reached: to its queue's due list, if it has work.
        self.flows.now.next = self.now.val();
        self.due_flow.data.next = self.flows.due_id.val();
        self.due_list.i0.next = self.due_flow.out.val();
        self.due_list.i1.next = self.paced_bit.val();
        self.busy.read_index1.next = self.due_flow.out.val();
        self.lists.ask.next = self.due_list.out.val();
        self.flow_queue.read_address.next = self.flows.due_id.val();
        // Looked at in one cycle, taken in the next. A flow that gets work in
        // between is taken as one without: its operation puts it back.
        self.looked_id.d.next = self.flows.due_id.val();
        self.looked_list.d.next = self.due_list.out.val();
        self.looked_holds.d.next = self.lists.holds.val();
        self.looked_queue.d.next = self.flow_queue.read_data.val();
        self.pop.next = self.looked_due.q.val() & !self.plant.val() & !self.pop_pending.q.val();
        self.looked_due.d.next = self.flows.due.val()
            & !self.busy.read1.val()
            & !self.busy_set.q.val()
            & !self.pop.val();
        self.popped_flow.data.next = self.looked_id.q.val();
        self.due.valid2.next = self.pop_pending.q.val();
        self.due.list2.next = self.pop_list.q.val();
        self.due.queue2.next = self.pop_queue.q.val();
        if self.pop.val() {
            self.pop_pending.d.next = self.looked_holds.q.val();
            self.pop_list.d.next = self.looked_list.q.val();
            self.pop_queue.d.next = self.looked_queue.q.val();
        } else if self.due.ready2.val() {
            self.pop_pending.d.next = false;
        }
        self.planted.clear.next = self.pop.val();
        self.planted.clear_index.next = self.popped_flow.out.val();
        // Flows whose first burst's queue is off are due now, whatever their key.
        self.recall.moving.next = self.plant.val() | self.pop.val();
        self.hasten.next = self.recall.hasten.val() & !self.plant.val() & !self.pop.val();
        self.hasten_flow.data.next = self.recall.walk_slot.val();
        self.planted.read_index1.next = self.hasten_flow.out.val();
        self.recall.planted.next = self.planted.read1.val();
        self.flows.update_valid.next =
            self.plant.val() | self.pop.val() | self.hasten.val() | self.in_reset.val();
        if self.plant.val() & !self.at_once.val() {
            self.flows.update_key.next = self.pacer.result_key.val();
        } else {
            self.flows.update_key.next = self.now.val();
        }
        self.flows.update_present.next =
            (self.plant.val() | self.hasten.val()) & !self.in_reset.val();
        self.flows.update_settle.next =
            (self.plant.val() & self.pacer.result_keep.val()) | self.pop.val();
        if self.in_reset.val() {
            self.flows.update_id.next = self.clear_slot.out.val();
        } else if self.plant.val() {
            self.flows.update_id.next = self.result_slot.out.val();
        } else if self.pop.val() {
            self.flows.update_id.next = self.looked_id.q.val();
        } else {
            self.flows.update_id.next = self.recall.walk_slot.val();
        }

        // A gate's time is reached.
        self.gates.now.next = self.now.val();
        self.gate_pop.next = self.gates.due.val()
            & !(self.pacer.result_valid.val() & self.pacer.result_is_queue.val());
        self.renew.result.next = self.pacer.result_valid.val() & self.pacer.result_is_queue.val();
        self.renew.result_waits.next = !self.pacer.result_due.val();
        self.renew.result_queue.next = self.result_queue.out.val();
        self.renew.pop.next = self.gate_pop.val();
        self.renew.pop_queue.next = self.gates.due_id.val();
        self.closed.clear.next = self.open_now.val() | self.gate_pop.val() | self.renew.open.val();
        if self.gate_pop.val() {
            self.closed.clear_index.next = self.gates.due_id.val();
        } else if self.renew.open.val() {
            self.closed.clear_index.next = self.renew.open_queue.val();
        } else {
            self.closed.clear_index.next = self.result_queue.out.val();
        }
        self.gates.update_key.next = self.pacer.result_key.val();
        self.gates.update_settle.next = self.gate_pop.val() | self.renew.open.val();
        if self.in_reset.val() {
            self.gates.update_valid.next = true;
            self.gates.update_present.next = false;
            self.gates.update_id.next = self.clear_queue.out.val();
        } else if self.gate_pop.val() {
            self.gates.update_valid.next = true;
            self.gates.update_present.next = false;
            self.gates.update_id.next = self.gates.due_id.val();
        } else if self.renew.open.val() {
            self.gates.update_valid.next = true;
            self.gates.update_present.next = false;
            self.gates.update_id.next = self.renew.open_queue.val();
        } else {
            self.gates.update_valid.next = self.pacer.result_valid.val()
                & self.pacer.result_is_queue.val()
                & !self.pacer.result_due.val();
            self.gates.update_present.next = true;
            self.gates.update_id.next = self.result_queue.out.val();
        }

        // Idleness and the next event, of the same cycle.
        self.flow_key.next = self.flows.key.val();
        self.gate_key.next = self.gates.key.val();
        self.key_difference.next = self.flow_key.val() - self.gate_key.val();
        self.quiet.d.next = !self.in_reset.val()
            & !self.e_valid.q.val()
            & (self.step.q.val() == Step::Choose)
            & !self.eligible.val().any()
            & !self.flow_pending.q.val()
            & !self.queue_pending.q.val()
            & !self.work_pending.q.val()
            & !self.joined.q.val()
            & !self.marked.q.val()
            & !self.unpaced_pending.q.val()
            & !self.pop_pending.q.val()
            & self.pacer.empty.val()
            & !self.recall.busy.val()
            & !self.renew.busy.val()
            & !self.flows.busy.val()
            & !self.gates.busy.val()
            & !self.flows.due.val()
            & !self.gates.due.val();
        self.upcoming_valid.d.next = self.flows.present.val() | self.gates.present.val();
        if self.flows.present.val()
            & (!self.gates.present.val() | self.key_difference.val().get_bit(33))
        {
            self.upcoming.d.next = self.flow_key.val();
        } else {
            self.upcoming.d.next = self.gate_key.val();
        }
        self.idle.next = self.quiet.q.val() & !self.enqueue_valid.val();
        self.next_event_valid.next = self.upcoming_valid.q.val();
        self.next_event.next = self.upcoming.q.val();

        if self.reset.val() {
            self.cleared.d.next = false;
            self.clear_count.d.next = 0.into();
            self.clear_second.d.next = false;
        }
        if self.in_reset.val() {
            self.e_valid.d.next = false;
            self.joined.d.next = false;
            self.marked.d.next = false;
            self.work_pending.d.next = false;
            self.work_turn.d.next = false;
            self.unpaced_pending.d.next = false;
            self.pop_pending.d.next = false;
            self.busy_set.d.next = false;
            self.looked_due.d.next = false;
            self.flow_pending.d.next = false;
            self.queue_pending.d.next = false;
            self.revoked.d.next = false;
            self.step.d.next = Step::Choose;
        }
    }
}

impl<
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
> Default for Schedule<N, QB, SB, IB, LB, F, M, FE, GE, W>
{
    /// # Panics
    /// When the parameters do not fit each other.
    fn default() -> Self {
        assert!(QB == clog2(N) && N > 1 && N <= 256 && SB <= 8, "sizes");
        assert!(IB == SB.max(QB) && LB == IB + 1, "widths of identities");
        assert!(F == 1 << IB && M == 1 << LB, "numbers of flags");
        assert!(FE == SB + 35 && GE == QB + 35 && W == QB + 65, "widths");
        Self {
            clock: Default::default(),
            reset: Default::default(),
            resetting: Default::default(),
            ticks: Default::default(),
            lateness_debt: Default::default(),
            cn_target: Default::default(),
            cfg_valid: Default::default(),
            cfg_queue: Default::default(),
            cfg_offset: Default::default(),
            cfg_value: Default::default(),
            enqueue_valid: Default::default(),
            enqueue_ready: Default::default(),
            enqueue_ctx: Default::default(),
            enqueue_queue: Default::default(),
            enqueue_flow_slot: Default::default(),
            enqueue_inv_rate: Default::default(),
            enqueue_payload_len: Default::default(),
            enqueue_mss: Default::default(),
            enqueue_header_len: Default::default(),
            enqueue_launch_valid: Default::default(),
            enqueue_launch: Default::default(),
            mark_valid: Default::default(),
            mark_ctx: Default::default(),
            abort_valid: Default::default(),
            abort_ctx: Default::default(),
            budget_ok: Default::default(),
            charge_valid: Default::default(),
            charge_queue: Default::default(),
            charge_bytes: Default::default(),
            grant_valid: Default::default(),
            grant_ready: Default::default(),
            grant_ctx: Default::default(),
            grant_queue: Default::default(),
            grant_offset: Default::default(),
            grant_len: Default::default(),
            grant_index: Default::default(),
            grant_first: Default::default(),
            grant_last: Default::default(),
            grant_aborted: Default::default(),
            grant_revoked: Default::default(),
            idle: Default::default(),
            next_event_valid: Default::default(),
            next_event: Default::default(),
            unpaced_pending: Default::default(),
            unpaced_list: Default::default(),
            unpaced_queue: Default::default(),
            looked_due: Default::default(),
            looked_id: Default::default(),
            looked_list: Default::default(),
            looked_holds: Default::default(),
            looked_queue: Default::default(),
            popped_flow: Default::default(),
            pop_pending: Default::default(),
            pop_list: Default::default(),
            pop_queue: Default::default(),
            lists: Default::default(),
            pacer: Default::default(),
            flows: Default::default(),
            gates: Default::default(),
            due: Default::default(),
            drr: Default::default(),
            recall: Default::default(),
            renew: Default::default(),
            cleared: Default::default(),
            clear_count: Default::default(),
            clear_second: Default::default(),
            in_reset: Default::default(),
            clear_now: Default::default(),
            clear_queue: Default::default(),
            clear_slot: Default::default(),
            rate_low: Default::default(),
            rates: Default::default(),
            rate_written: Default::default(),
            rate_pack: Default::default(),
            rate_lo_offset: Default::default(),
            rate_hi_offset: Default::default(),
            quantum_offset: Default::default(),
            cfg_queue_index: Default::default(),
            cfg_high: Default::default(),
            e_valid: Default::default(),
            e_ctx: Default::default(),
            e_queue: Default::default(),
            e_paced: Default::default(),
            e_index: Default::default(),
            e_inv_rate: Default::default(),
            e_payload_len: Default::default(),
            e_mss: Default::default(),
            e_header_len: Default::default(),
            e_launch_valid: Default::default(),
            e_launch: Default::default(),
            e_queue_index: Default::default(),
            e_queue_id: Default::default(),
            e_slot_id: Default::default(),
            e_looked: Default::default(),
            e_empty: Default::default(),
            e_busy: Default::default(),
            e_planted: Default::default(),
            e_list: Default::default(),
            e_starts: Default::default(),
            e_wait: Default::default(),
            e_offer: Default::default(),
            append: Default::default(),
            joined: Default::default(),
            joined_ctx: Default::default(),
            age: Default::default(),
            marked: Default::default(),
            marked_ctx: Default::default(),
            wide_target: Default::default(),
            asked_since: Default::default(),
            work_pending: Default::default(),
            work_turn: Default::default(),
            work_id: Default::default(),
            work_ctx: Default::default(),
            work_keep: Default::default(),
            work_ticks: Default::default(),
            busy: Default::default(),
            busy_set: Default::default(),
            busy_index: Default::default(),
            planted: Default::default(),
            flow_queue: Default::default(),
            closed: Default::default(),
            eligible: Default::default(),
            step: Default::default(),
            queue: Default::default(),
            list: Default::default(),
            granted_list: Default::default(),
            granted_queue: Default::default(),
            queue_rate: Default::default(),
            queue_fresh: Default::default(),
            granted_at: Default::default(),
            flow_pending: Default::default(),
            queue_pending: Default::default(),
            more: Default::default(),
            revoked: Default::default(),
            hasten: Default::default(),
            hasten_flow: Default::default(),
            at_once: Default::default(),
            list_unpack: Default::default(),
            list_paced: Default::default(),
            queue_id: Default::default(),
            queue_out: Default::default(),
            looks: Default::default(),
            advances: Default::default(),
            op_work: Default::default(),
            op_flow: Default::default(),
            op_queue: Default::default(),
            op_taken: Default::default(),
            plant: Default::default(),
            result_done: Default::default(),
            result_slot: Default::default(),
            result_queue: Default::default(),
            result_list: Default::default(),
            open_now: Default::default(),
            due_flow: Default::default(),
            due_list: Default::default(),
            pop: Default::default(),
            gate_pop: Default::default(),
            paced_bit: Default::default(),
            unpaced_bit: Default::default(),
            ticks_now: Default::default(),
            now: Default::default(),
            quiet: Default::default(),
            upcoming_valid: Default::default(),
            upcoming: Default::default(),
            flow_key: Default::default(),
            gate_key: Default::default(),
            key_difference: Default::default(),
        }
    }
}
