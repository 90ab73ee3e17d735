// SPDX-License-Identifier: MIT OR Apache-2.0
//! Winner tree: the earliest of 2^A keys, each of which can be replaced at any
//! time.
//!
//! Leaf i belongs to identity i. A level stores the entries of its nodes in
//! distributed RAM; an update writes its node, compares it with the sibling and
//! carries the winner one level up, a level a cycle. So updates follow each other
//! every cycle and in order, and the winner at the top is [`LATENCY`] cycles old.
//! Keys are compared modulo 2^34: no two keys may lie 2^33 ticks or more apart.
//! Of equal keys the lower identity wins.
//!
//! Source: the tournament tree of Knuth, TAOCP vol. 3, 5.4.1, updated from the
//! leaf up and pipelined by level.

use crate::prelude::*;
use std::array::from_fn;

/// One level: 2^(level's index bits) nodes. E = A + 35: identity, key, presence.
#[derive(LogicBlock)]
pub struct TreeLevel<const A: usize, const E: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A node changes.
    pub in_valid: Signal<In, bool>,
    /// Which.
    pub in_index: Signal<In, Bits<A>>,
    /// Its identity.
    pub in_id: Signal<In, Bits<A>>,
    /// Its key.
    pub in_key: Signal<In, Bits<34>>,
    /// It holds a key at all.
    pub in_present: Signal<In, bool>,
    /// The parent changes.
    pub out_valid: Signal<Out, bool>,
    /// Which.
    pub out_index: Signal<Out, Bits<A>>,
    /// Winner's identity.
    pub out_id: Signal<Out, Bits<A>>,
    /// Winner's key.
    pub out_key: Signal<Out, Bits<34>>,
    /// There is a winner.
    pub out_present: Signal<Out, bool>,
    nodes: SizedLutRam<Bits<E>, A>,
    pack: Pack3<34, 1, A, E>,
    unpack: Unpack3<34, 1, A, E>,
    valid: DFF<bool>,
    index: DFF<Bits<A>>,
    id: DFF<Bits<A>>,
    key: DFF<Bits<34>>,
    present: DFF<bool>,
    lowest: Zext<A, 1>,
    sibling: Signal<Local, Bits<A>>,
    sibling_present: Signal<Local, bool>,
    mine: Pack2<1, 34, 35>,
    other: Pack2<1, 34, 35>,
    one: Fixed<1, 1>,
    inverse: Signal<Local, Bits<34>>,
    difference: Signal<Local, Bits<35>>,
    wins: Signal<Local, bool>,
}

impl<const A: usize, const E: usize> TreeLevel<A, E> {
    /// A level of 2^`bits` nodes.
    fn new(bits: usize) -> Self {
        Self {
            clock: Default::default(),
            in_valid: Default::default(),
            in_index: Default::default(),
            in_id: Default::default(),
            in_key: Default::default(),
            in_present: Default::default(),
            out_valid: Default::default(),
            out_index: Default::default(),
            out_id: Default::default(),
            out_key: Default::default(),
            out_present: Default::default(),
            nodes: SizedLutRam::new(bits),
            pack: Default::default(),
            unpack: Default::default(),
            valid: Default::default(),
            index: Default::default(),
            id: Default::default(),
            key: Default::default(),
            present: Default::default(),
            lowest: Default::default(),
            sibling: Default::default(),
            sibling_present: Default::default(),
            mine: Default::default(),
            other: Default::default(),
            one: Default::default(),
            inverse: Default::default(),
            difference: Default::default(),
            wins: Default::default(),
        }
    }
}

impl<const A: usize, const E: usize> Logic for TreeLevel<A, E> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(self, clock, valid, index, id, key, present);
        self.nodes.clock.next = self.clock.val();
        self.sibling.next = self.in_index.val() ^ 1;
        self.lowest.data.next = self.in_index.val();
        // The node itself.
        self.pack.i0.next = self.in_key.val();
        self.pack.i1.next = self.in_present.val().into();
        self.pack.i2.next = self.in_id.val();
        self.nodes.write_enable.next = self.in_valid.val();
        self.nodes.write_address.next = self.in_index.val();
        self.nodes.write_data.next = self.pack.out.val();
        // Its sibling.
        self.nodes.read_address.next = self.sibling.val();
        self.unpack.data.next = self.nodes.read_data.val();
        self.sibling_present.next = self.unpack.o1.val().any();
        // Negative when this key is the earlier one, or when they are equal and
        // the node is the even one: a - b - 1 + odd as one sum.
        self.mine.i0.next = self.lowest.out.val();
        self.mine.i1.next = self.in_key.val();
        self.inverse.next = !self.unpack.o0.val();
        self.other.i0.next = self.one.val();
        self.other.i1.next = self.inverse.val();
        self.difference.next = self.mine.out.val() + self.other.out.val();
        self.wins.next = self.in_present.val()
            & (!self.sibling_present.val() | self.difference.val().get_bit(34));
        self.valid.d.next = self.in_valid.val();
        if self.in_valid.val() {
            self.index.d.next = self.in_index.val() >> 1;
            self.present.d.next = self.in_present.val() | self.sibling_present.val();
            if self.wins.val() {
                self.id.d.next = self.in_id.val();
                self.key.d.next = self.in_key.val();
            } else {
                self.id.d.next = self.unpack.o2.val();
                self.key.d.next = self.unpack.o0.val();
            }
        }
        self.out_valid.next = self.valid.q.val();
        self.out_index.next = self.index.q.val();
        self.out_id.next = self.id.q.val();
        self.out_key.next = self.key.q.val();
        self.out_present.next = self.present.q.val();
    }
}

/// The tree, with the watch on its top: it says when the earliest key is reached.
#[derive(LogicBlock)]
pub struct WinnerTree<const A: usize, const E: usize> {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// Now, in ticks, modulo 2^34.
    pub now: Signal<In, Bits<34>>,
    /// A leaf changes. Always taken.
    pub update_valid: Signal<In, bool>,
    /// Which.
    pub update_id: Signal<In, Bits<A>>,
    /// Its key from now on.
    pub update_key: Signal<In, Bits<34>>,
    /// Low: the leaf is emptied.
    pub update_present: Signal<In, bool>,
    /// The leaf that changes may be the winner: report nothing until the top
    /// has seen the change.
    pub update_settle: Signal<In, bool>,
    /// The key of `due_id` is reached; holds until that leaf changes (with
    /// `update_settle`).
    pub due: Signal<Out, bool>,
    /// Identity.
    pub due_id: Signal<Out, Bits<A>>,
    /// There is a key; meaningless while `busy`.
    pub present: Signal<Out, bool>,
    /// The earliest key.
    pub key: Signal<Out, Bits<34>>,
    /// A change is on its way to the top.
    pub busy: Signal<Out, bool>,
    level: [TreeLevel<A, E>; A],
    reached: DFF<bool>,
    reached_id: DFF<Bits<A>>,
    valid: DFF<bool>,
    id: DFF<Bits<A>>,
    update: DFF<Bits<34>>,
    has_key: DFF<bool>,
    settle: DFF<Bits<5>>,
    busy_count: DFF<Bits<5>>,
    settle_cycles: Constant<Bits<5>>,
    difference: Signal<Local, Bits<34>>,
    top_present: Signal<Local, bool>,
    top_key: Signal<Local, Bits<34>>,
}

impl<const A: usize, const E: usize> WinnerTree<A, E> {
    /// Cycles from an update to the top's showing it.
    pub const LATENCY: usize = A + 1;
}

impl<const A: usize, const E: usize> Default for WinnerTree<A, E> {
    /// # Panics
    /// When E is not A + 35 or A is 0 or above 16.
    fn default() -> Self {
        assert!(E == A + 35 && A > 0 && A <= 16, "widths of a winner tree");
        Self {
            clock: Default::default(),
            now: Default::default(),
            update_valid: Default::default(),
            update_id: Default::default(),
            update_key: Default::default(),
            update_present: Default::default(),
            update_settle: Default::default(),
            due: Default::default(),
            due_id: Default::default(),
            present: Default::default(),
            key: Default::default(),
            busy: Default::default(),
            level: from_fn(|n| TreeLevel::new(A - n)),
            reached: Default::default(),
            reached_id: Default::default(),
            valid: Default::default(),
            id: Default::default(),
            update: Default::default(),
            has_key: Default::default(),
            settle: Default::default(),
            busy_count: Default::default(),
            settle_cycles: Constant::new((Self::LATENCY as u64).into()),
            difference: Default::default(),
            top_present: Default::default(),
            top_key: Default::default(),
        }
    }
}

impl<const A: usize, const E: usize> Logic for WinnerTree<A, E> {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self, clock, reached, reached_id, valid, id, update, has_key, settle, busy_count
        );
        for i in 0..A {
            self.level[i].clock.next = self.clock.val();
        }
        self.valid.d.next = self.update_valid.val();
        self.id.d.next = self.update_id.val();
        self.update.d.next = self.update_key.val();
        self.has_key.d.next = self.update_present.val();
        self.level[0].in_valid.next = self.valid.q.val();
        self.level[0].in_index.next = self.id.q.val();
        self.level[0].in_id.next = self.id.q.val();
        self.level[0].in_key.next = self.update.q.val();
        self.level[0].in_present.next = self.has_key.q.val();
        for i in 1..A {
            self.level[i].in_valid.next = self.level[i - 1].out_valid.val();
            self.level[i].in_index.next = self.level[i - 1].out_index.val();
            self.level[i].in_id.next = self.level[i - 1].out_id.val();
            self.level[i].in_key.next = self.level[i - 1].out_key.val();
            self.level[i].in_present.next = self.level[i - 1].out_present.val();
        }
        // The last assignment stays: that of the top level.
        for i in 0..A {
            self.top_present.next = self.level[i].out_present.val();
            self.top_key.next = self.level[i].out_key.val();
            self.reached_id.d.next = self.level[i].out_id.val();
        }
        self.present.next = self.top_present.val();
        self.key.next = self.top_key.val();
        self.difference.next = self.now.val() - self.top_key.val();
        self.reached.d.next = self.top_present.val() & !self.difference.val().get_bit(33);
        if self.update_valid.val() {
            self.busy_count.d.next = self.settle_cycles.val();
        } else if self.busy_count.q.val().any() {
            self.busy_count.d.next = self.busy_count.q.val() - 1;
        }
        if self.update_valid.val() & self.update_settle.val() {
            self.settle.d.next = self.settle_cycles.val();
        } else if self.settle.q.val().any() {
            self.settle.d.next = self.settle.q.val() - 1;
        }
        self.busy.next = self.busy_count.q.val().any();
        self.due.next = self.reached.q.val() & !self.settle.q.val().any();
        self.due_id.next = self.reached_id.q.val();
    }
}
