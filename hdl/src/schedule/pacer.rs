// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rate arithmetic: virtual time and earliest departure of flows and queues.
//!
//! An operation takes one flow or queue through the rule of bounded lateness:
//!
//! ```text
//! gap = min(wire_bytes * inverse rate, 2^32 ticks)
//! V'  = max(V, T - D) + gap
//! E'  = max(V', T + floor(gap / 2))          (gap / 2 in units of 2^-28 tick)
//! ```
//!
//! and, when the burst now at the head is new there and has a launch time,
//! `V' = max(V', launch)`, `E' = max(E', launch)`, with launch at most T + 2^32.
//! The key is `ceil(E')` modulo 2^34. `fresh` starts from V' = E' = T instead, and
//! `keep` leaves V and E as they are unless the key is reached: then it is fresh.
//!
//! V is stored as 64.28 fixed point, so that it never wraps; everything else is
//! computed relative to T, where 34 bits before the point are enough.
//!
//! Two stages of seven and five cycles work on two operations at once, and a
//! result stands in a register of its own until it is taken: one operation every
//! seven cycles, thirteen from taking it to its result.

use crate::prelude::*;

/// IB bits of identity, QB of a queue, LB = IB + 1, Q = 65 + QB.
#[derive(LogicBlock, Default)]
pub struct Pacer<const IB: usize, const QB: usize, const LB: usize, const Q: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Drops what is in work.
    pub reset: Signal<In, bool>,
    /// Zeroes the state of `clear_address` (while in reset).
    pub clear: Signal<In, bool>,
    /// Identity, with the bit that says "queue" on top.
    pub clear_address: Signal<In, Bits<LB>>,
    /// The second half of its state, not the first.
    pub clear_second: Signal<In, bool>,
    /// Now, modulo 2^34.
    pub now: Signal<In, Bits<34>>,
    /// D in ticks.
    pub lateness_debt: Signal<In, Bits<32>>,
    /// Remembers the launch time of a burst.
    pub store: Signal<In, bool>,
    /// Burst.
    pub store_ctx: Signal<In, Bits<8>>,
    /// Its queue.
    pub store_queue: Signal<In, Bits<QB>>,
    /// It has a launch time.
    pub store_launch_valid: Signal<In, bool>,
    /// Ticks.
    pub store_launch: Signal<In, Bits<64>>,
    /// An operation is offered.
    pub op_valid: Signal<In, bool>,
    /// It is taken if valid.
    pub op_ready: Signal<Out, bool>,
    /// On a queue, not on a flow.
    pub op_is_queue: Signal<In, bool>,
    /// Flow slot or queue.
    pub op_id: Signal<In, Bits<IB>>,
    /// V = E = T.
    pub op_fresh: Signal<In, bool>,
    /// V and E stay.
    pub op_keep: Signal<In, bool>,
    /// The burst at the head is new there.
    pub op_joins: Signal<In, bool>,
    /// The flow has work.
    pub op_work: Signal<In, bool>,
    /// Burst at the head, when there is work.
    pub op_ctx: Signal<In, Bits<8>>,
    /// T: tick of the grant, or of the arrival.
    pub op_ticks: Signal<In, Bits<64>>,
    /// Wire bytes of the segment; 0 with `fresh` and `keep`.
    pub op_wire_bytes: Signal<In, Bits<17>>,
    /// Inverse rate.
    pub op_inv_rate: Signal<In, Bits<48>>,
    /// A result is there.
    pub result_valid: Signal<Out, bool>,
    /// It is taken if valid.
    pub result_ready: Signal<In, bool>,
    /// Of a queue, not of a flow.
    pub result_is_queue: Signal<Out, bool>,
    /// Flow slot or queue.
    pub result_id: Signal<Out, Bits<IB>>,
    /// The operation was `keep`.
    pub result_keep: Signal<Out, bool>,
    /// The flow has work.
    pub result_work: Signal<Out, bool>,
    /// Queue of the burst at the head.
    pub result_queue: Signal<Out, Bits<QB>>,
    /// ceil(E').
    pub result_key: Signal<Out, Bits<34>>,
    /// The flow has work and its key was reached.
    pub result_to_due: Signal<Out, bool>,
    /// The flow's key lies ahead, or the flow stands in the tree and stays there.
    pub result_to_tree: Signal<Out, bool>,
    /// The key was reached when the result was made.
    pub result_due: Signal<Out, bool>,
    /// Nothing is in work.
    pub empty: Signal<Out, bool>,

    // V's ticks, then its fraction and E.
    times: PairRam<Bits<64>, LB>,
    times_in: Pack3<28, 34, 2, 64>,
    times_out: Unpack3<28, 34, 2, 64>,
    times_address: Pack2<IB, 1, LB>,
    times_write: Pack2<IB, 1, LB>,
    launches: Ram<Bits<Q>, 8>,
    launches_in: Pack3<64, 1, QB, Q>,
    launches_out: Unpack3<64, 1, QB, Q>,
    product: Multiplier<17, 48, 65>,

    // First stage.
    a_busy: DFF<bool>,
    a_step: DFF<Bits<3>>,
    a_is_queue: DFF<bool>,
    a_id: DFF<Bits<IB>>,
    a_fresh: DFF<bool>,
    a_keep: DFF<bool>,
    a_joins: DFF<bool>,
    a_work: DFF<bool>,
    a_ctx: DFF<Bits<8>>,
    a_ticks: DFF<Bits<64>>,
    a_wire_bytes: DFF<Bits<17>>,
    a_inv_rate: DFF<Bits<48>>,
    times_ticks: DFF<Bits<64>>,
    times_rest: DFF<Bits<64>>,
    launch_word: DFF<Bits<Q>>,
    lead: DFF<Bits<64>>,
    launch_lead: DFF<Bits<65>>,
    key_lead: DFF<Bits<34>>,
    has_launch: DFF<bool>,
    late: DFF<bool>,
    starts: DFF<bool>,
    launch: DFF<Bits<34>>,
    launch_counts: DFF<bool>,
    start: DFF<Bits<62>>,
    gap: DFF<Bits<62>>,

    // Second stage: V, E and launch relative to T.
    b_busy: DFF<bool>,
    b_step: DFF<Bits<3>>,
    b_is_queue: DFF<bool>,
    b_id: DFF<Bits<IB>>,
    b_keep: DFF<bool>,
    b_work: DFF<bool>,
    b_queue: DFF<Bits<QB>>,
    b_ticks: DFF<Bits<64>>,
    b_launch: DFF<Bits<34>>,
    b_launch_counts: DFF<bool>,
    b_virtual: DFF<Bits<62>>,
    b_floor: DFF<Bits<62>>,
    floor_wins: DFF<bool>,
    launch_wins: DFF<bool>,
    earliest: DFF<Bits<34>>,
    new_virtual: DFF<Bits<62>>,
    departure: DFF<Bits<34>>,
    virtual_ticks: DFF<Bits<64>>,
    virtual_fraction: DFF<Bits<28>>,
    key: DFF<Bits<34>>,
    reached: DFF<bool>,

    // The result.
    r_valid: DFF<bool>,
    r_is_queue: DFF<bool>,
    r_id: DFF<Bits<IB>>,
    r_keep: DFF<bool>,
    r_work: DFF<bool>,
    r_to_due: DFF<bool>,
    r_to_tree: DFF<bool>,
    r_queue: DFF<Bits<QB>>,
    r_key: DFF<Bits<34>>,

    no_ticks: Fixed<34, 0>,
    no_fraction: Fixed<28, 0>,
    longest: Fixed<34, { super::LONGEST_GAP }>,
    longest_gap: Fixed<62, { super::LONGEST_GAP << 28 }>,
    all_ones: Fixed<30, 0x3fff_ffff>,
    wide_launch: Zext<64, 65>,
    wide_ticks: Zext<64, 65>,
    debt34: Zext<32, 34>,
    debt64: Zext<32, 64>,
    gap_bits: Zext<60, 62>,
    start_pack: Pack2<28, 34, 62>,
    late_pack: Pack2<28, 34, 62>,
    key_pack: Pack2<28, 34, 62>,
    launch_pack: Pack2<28, 34, 62>,
    sign_pack: Pack2<34, 30, 64>,
    a_done: Signal<Local, bool>,
    b_done: Signal<Local, bool>,
    b_free: Signal<Local, bool>,
    take: Signal<Local, bool>,
    hand_over: Signal<Local, bool>,
    a_now: Signal<Local, Bits<34>>,
    a_ticks_now: Signal<Local, Bits<64>>,
    b_ticks_now: Signal<Local, Bits<64>>,
    b_now: Signal<Local, Bits<34>>,
    lead_now: Signal<Local, Bits<64>>,
    from_debt: Signal<Local, Bits<64>>,
    minus_debt: Signal<Local, Bits<34>>,
    launch_now: Signal<Local, Bits<65>>,
    launch_low: Signal<Local, Bits<34>>,
    launch_high: Signal<Local, Bits<32>>,
    launch_32: Signal<Local, Bits<32>>,
    launch_over: Signal<Local, bool>,
    lead_low: Signal<Local, Bits<34>>,
    product_now: Signal<Local, Bits<65>>,
    product_low: Signal<Local, Bits<60>>,
    product_high: Signal<Local, Bits<5>>,
    half: Signal<Local, Bits<62>>,
    over_floor: Signal<Local, Bits<62>>,
    over_launch: Signal<Local, Bits<62>>,
    chosen: Signal<Local, Bits<62>>,
    chosen_ticks: Signal<Local, Bits<34>>,
    chosen_fraction: Signal<Local, Bits<28>>,
    new_virtual_now: Signal<Local, Bits<62>>,
    new_virtual_ticks: Signal<Local, Bits<34>>,
    to_launch: Signal<Local, Bits<34>>,
    to_key: Signal<Local, Bits<34>>,
    sign: Signal<Local, Bits<30>>,
}

impl<const IB: usize, const QB: usize, const LB: usize, const Q: usize> Logic
    for Pacer<IB, QB, LB, Q>
{
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            a_busy,
            a_step,
            a_is_queue,
            a_id,
            a_fresh,
            a_keep,
            a_joins,
            a_work,
            a_ctx,
            a_ticks,
            a_wire_bytes,
            a_inv_rate,
            lead,
            launch_lead,
            key_lead,
            has_launch,
            late,
            starts,
            launch,
            launch_counts,
            start,
            gap,
            times_ticks,
            times_rest,
            launch_word
        );
        dff_setup!(
            self,
            clock,
            b_busy,
            b_step,
            b_is_queue,
            b_id,
            b_keep,
            b_work,
            b_queue,
            b_ticks,
            b_launch,
            b_launch_counts,
            b_virtual,
            b_floor,
            floor_wins,
            launch_wins,
            earliest,
            new_virtual,
            departure,
            virtual_ticks,
            virtual_fraction,
            key,
            reached,
            r_valid,
            r_is_queue,
            r_id,
            r_keep,
            r_work,
            r_to_due,
            r_to_tree,
            r_queue,
            r_key
        );
        clock!(self, clock, times, launches, product);

        // Who moves.
        self.a_done.next = self.a_busy.q.val() & (self.a_step.q.val() == 6);
        self.b_done.next = self.b_busy.q.val() & (self.b_step.q.val() == 4) & !self.r_valid.q.val();
        self.b_free.next = !self.b_busy.q.val() | self.b_done.val();
        self.hand_over.next = self.a_done.val() & self.b_free.val();
        self.op_ready.next = !self.a_busy.q.val() | self.hand_over.val();
        self.take.next = self.op_valid.val() & (!self.a_busy.q.val() | self.hand_over.val());
        self.empty.next = !self.a_busy.q.val() & !self.b_busy.q.val() & !self.r_valid.q.val();
        if self.take.val() {
            self.a_busy.d.next = true;
            self.a_step.d.next = 0.into();
            self.a_is_queue.d.next = self.op_is_queue.val();
            self.a_id.d.next = self.op_id.val();
            self.a_fresh.d.next = self.op_fresh.val();
            self.a_keep.d.next = self.op_keep.val();
            self.a_joins.d.next = self.op_joins.val();
            self.a_work.d.next = self.op_work.val();
            self.a_ctx.d.next = self.op_ctx.val();
            self.a_ticks.d.next = self.op_ticks.val();
            self.a_wire_bytes.d.next = self.op_wire_bytes.val();
            self.a_inv_rate.d.next = self.op_inv_rate.val();
        } else if self.hand_over.val() {
            self.a_busy.d.next = false;
        } else if self.a_step.q.val() != 6 {
            self.a_step.d.next = self.a_step.q.val() + 1;
        }
        self.a_ticks_now.next = self.a_ticks.q.val();
        self.a_now.next = self.a_ticks_now.val().get_bits::<34>(0);

        // Launch times.
        self.launches_in.i0.next = self.store_launch.val();
        self.launches_in.i1.next = self.store_launch_valid.val().into();
        self.launches_in.i2.next = self.store_queue.val();
        self.launches.write_enable.next = self.store.val();
        self.launches.write_address.next = self.store_ctx.val();
        self.launches.write_data.next = self.launches_in.out.val();
        self.launches.read_enable.next =
            self.a_busy.q.val() & (self.a_step.q.val() == 0) & self.a_work.q.val();
        self.launches.read_address.next = self.a_ctx.q.val();
        self.launch_word.d.next = self.launches.read_data.val();
        self.launches_out.data.next = self.launch_word.q.val();

        // Steps 0 and 1: reads. The registers below follow each other and stand still
        // once their inputs do; step n holds what n registers in a row give.
        self.times_address.i0.next = self.a_id.q.val();
        self.times_address.i1.next = self.a_is_queue.q.val().into();
        self.times.read_enable.next =
            self.a_busy.q.val() & ((self.a_step.q.val() == 0) | (self.a_step.q.val() == 1));
        self.times.read_address.next = self.times_address.out.val();
        self.times.read_second.next = self.a_step.q.val() == 1;
        if self.a_step.q.val() == 1 {
            self.times_ticks.d.next = self.times.read_data.val();
        }
        if self.a_step.q.val() == 2 {
            self.times_rest.d.next = self.times.read_data.val();
        }
        self.times_out.data.next = self.times_rest.q.val();
        self.product.a.next = self.a_wire_bytes.q.val();
        self.product.b.next = self.a_inv_rate.q.val();

        // Step 2: V and launch relative to T; E follows one step behind, as does what
        // comes from it.
        self.lead.d.next = self.times_ticks.q.val() - self.a_ticks.q.val();
        self.key_lead.d.next = self.times_out.o1.val() - self.a_now.val();
        self.wide_launch.data.next = self.launches_out.o0.val();
        self.wide_ticks.data.next = self.a_ticks.q.val();
        self.launch_lead.d.next = self.wide_launch.out.val() - self.wide_ticks.out.val();
        self.has_launch.d.next =
            self.a_joins.q.val() & self.a_work.q.val() & self.launches_out.o1.val().any();

        // Step 3: what counts.
        self.debt64.data.next = self.lateness_debt.val();
        self.debt34.data.next = self.lateness_debt.val();
        self.lead_now.next = self.lead.q.val();
        self.from_debt.next = self.lead_now.val() + self.debt64.out.val();
        self.minus_debt.next = self.no_ticks.val() - self.debt34.out.val();
        self.late.d.next = self.from_debt.val().get_bit(63);
        self.starts.d.next = self.a_fresh.q.val()
            | (self.a_keep.q.val()
                & (self.key_lead.q.val().get_bit(33) | !self.key_lead.q.val().any()));
        // A launch time that is over may still lie ahead of V, unless it is 2^32
        // ticks old or more: V is not older than D, which has 32 bits.
        self.launch_now.next = self.launch_lead.q.val();
        self.launch_low.next = self.launch_now.val().get_bits::<34>(0);
        self.launch_32.next = self.launch_now.val().get_bits::<32>(0);
        self.launch_high.next = self.launch_now.val().get_bits::<32>(32);
        self.launch_over.next = self.launch_now.val().get_bit(64);
        self.launch_counts.d.next = self.has_launch.q.val()
            & (!self.launch_over.val()
                | (self.launch_high.val().all() & self.launch_32.val().any()));
        if !self.launch_over.val() & self.launch_high.val().any() {
            self.launch.d.next = self.longest.val();
        } else {
            self.launch.d.next = self.launch_low.val();
        }

        // Step 4 or 5: max(V, T - D).
        self.lead_low.next = self.lead_now.val().get_bits::<34>(0);
        self.start_pack.i0.next = self.times_out.o0.val();
        self.start_pack.i1.next = self.lead_low.val();
        self.late_pack.i0.next = self.no_fraction.val();
        self.late_pack.i1.next = self.minus_debt.val();
        if self.starts.q.val() {
            self.start.d.next = 0.into();
        } else if self.late.q.val() {
            self.start.d.next = self.late_pack.out.val();
        } else {
            self.start.d.next = self.start_pack.out.val();
        }

        // Step 4 or 5: the gap.
        self.product_now.next = self.product.product.val();
        self.product_low.next = self.product_now.val().get_bits::<60>(0);
        self.product_high.next = self.product_now.val().get_bits::<5>(60);
        self.gap_bits.data.next = self.product_low.val();
        if self.product_high.val().any() {
            self.gap.d.next = self.longest_gap.val();
        } else {
            self.gap.d.next = self.gap_bits.out.val();
        }

        // Step 6: V' and the least E', over to the second stage.
        self.key_pack.i0.next = self.no_fraction.val();
        self.key_pack.i1.next = self.key_lead.q.val();
        self.half.next = self.gap.q.val() >> 1;
        if self.hand_over.val() {
            self.b_busy.d.next = true;
            self.b_step.d.next = 0.into();
            self.b_is_queue.d.next = self.a_is_queue.q.val();
            self.b_id.d.next = self.a_id.q.val();
            self.b_keep.d.next = self.a_keep.q.val();
            self.b_work.d.next = self.a_work.q.val();
            self.b_queue.d.next = self.launches_out.o2.val();
            self.b_ticks.d.next = self.a_ticks.q.val();
            self.b_launch.d.next = self.launch.q.val();
            self.b_launch_counts.d.next = self.launch_counts.q.val();
            self.b_virtual.d.next = self.start.q.val() + self.gap.q.val();
            if self.a_keep.q.val() & !self.starts.q.val() {
                self.b_floor.d.next = self.key_pack.out.val();
            } else {
                self.b_floor.d.next = self.half.val();
            }
        } else if self.b_done.val() {
            self.b_busy.d.next = false;
        } else if self.b_step.q.val() != 4 {
            self.b_step.d.next = self.b_step.q.val() + 1;
        }
        self.b_ticks_now.next = self.b_ticks.q.val();
        self.b_now.next = self.b_ticks_now.val().get_bits::<34>(0);

        // Step 0: comparisons.
        self.launch_pack.i0.next = self.no_fraction.val();
        self.launch_pack.i1.next = self.b_launch.q.val();
        self.over_floor.next = self.b_virtual.q.val() - self.b_floor.q.val();
        self.over_launch.next = self.b_virtual.q.val() - self.launch_pack.out.val();
        self.floor_wins.d.next = self.over_floor.val().get_bit(61);
        self.launch_wins.d.next = self.over_launch.val().get_bit(61) & self.b_launch_counts.q.val();

        // Step 1: ceil(E'), and V' with the launch time.
        if self.floor_wins.q.val() {
            self.chosen.next = self.b_floor.q.val();
        } else {
            self.chosen.next = self.b_virtual.q.val();
        }
        self.chosen_ticks.next = self.chosen.val().get_bits::<34>(28);
        self.chosen_fraction.next = self.chosen.val().get_bits::<28>(0);
        if self.chosen_fraction.val().any() {
            self.earliest.d.next = self.chosen_ticks.val() + 1;
        } else {
            self.earliest.d.next = self.chosen_ticks.val();
        }
        if self.launch_wins.q.val() {
            self.new_virtual.d.next = self.launch_pack.out.val();
        } else {
            self.new_virtual.d.next = self.b_virtual.q.val();
        }

        // Step 2: E' with the launch time, V' in ticks of the clock.
        self.to_launch.next = self.earliest.q.val() - self.b_launch.q.val();
        if self.b_launch_counts.q.val() & self.to_launch.val().get_bit(33) {
            self.departure.d.next = self.b_launch.q.val();
        } else {
            self.departure.d.next = self.earliest.q.val();
        }
        self.new_virtual_now.next = self.new_virtual.q.val();
        self.new_virtual_ticks.next = self.new_virtual_now.val().get_bits::<34>(28);
        if self.new_virtual_now.val().get_bit(61) {
            self.sign.next = self.all_ones.val();
        } else {
            self.sign.next = 0.into();
        }
        self.sign_pack.i0.next = self.new_virtual_ticks.val();
        self.sign_pack.i1.next = self.sign.val();
        self.virtual_ticks.d.next = self.b_ticks.q.val() + self.sign_pack.out.val();
        self.virtual_fraction.d.next = self.new_virtual_now.val().get_bits::<28>(0);

        // Step 3: the key, and V' back. Step 4: E' back, and is it reached?
        self.key.d.next = self.b_now.val() + self.departure.q.val();
        self.to_key.next = self.now.val() - self.key.q.val();
        self.times_in.i0.next = self.virtual_fraction.q.val();
        self.times_in.i1.next = self.key.q.val();
        self.times_in.i2.next = 0.into();
        self.times_write.i0.next = self.b_id.q.val();
        self.times_write.i1.next = self.b_is_queue.q.val().into();
        self.times.write_enable.next =
            (self.b_busy.q.val() & (self.b_step.q.val() == 3)) | self.b_done.val();
        self.times.write_address.next = self.times_write.out.val();
        self.times.write_second.next = self.b_step.q.val() == 4;
        self.times.write_data.next = self.virtual_ticks.q.val();
        if self.b_step.q.val() == 4 {
            self.times.write_data.next = self.times_in.out.val();
        }
        if self.clear.val() {
            self.times.write_enable.next = true;
            self.times.write_address.next = self.clear_address.val();
            self.times.write_second.next = self.clear_second.val();
            self.times.write_data.next = 0.into();
        }
        if self.b_done.val() {
            self.r_valid.d.next = true;
            self.r_is_queue.d.next = self.b_is_queue.q.val();
            self.r_id.d.next = self.b_id.q.val();
            self.r_keep.d.next = self.b_keep.q.val();
            self.r_work.d.next = self.b_work.q.val();
            self.r_queue.d.next = self.b_queue.q.val();
            self.r_key.d.next = self.key.q.val();
            self.reached.d.next = !self.to_key.val().get_bit(33);
            self.r_to_due.d.next = !self.b_is_queue.q.val()
                & !self.b_keep.q.val()
                & self.b_work.q.val()
                & !self.to_key.val().get_bit(33);
            self.r_to_tree.d.next =
                !self.b_is_queue.q.val() & (self.b_keep.q.val() | self.to_key.val().get_bit(33));
        } else if self.result_ready.val() {
            self.r_valid.d.next = false;
            self.r_to_due.d.next = false;
            self.r_to_tree.d.next = false;
        }
        self.result_to_due.next = self.r_to_due.q.val();
        self.result_to_tree.next = self.r_to_tree.q.val();
        self.result_valid.next = self.r_valid.q.val();
        self.result_is_queue.next = self.r_is_queue.q.val();
        self.result_id.next = self.r_id.q.val();
        self.result_keep.next = self.r_keep.q.val();
        self.result_work.next = self.r_work.q.val();
        self.result_queue.next = self.r_queue.q.val();
        self.result_key.next = self.r_key.q.val();
        self.result_due.next = self.reached.q.val();
        if self.reset.val() {
            self.a_busy.d.next = false;
            self.b_busy.d.next = false;
            self.r_valid.d.next = false;
            self.r_to_due.d.next = false;
            self.r_to_tree.d.next = false;
        }
    }
}
