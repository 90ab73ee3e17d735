// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the destination address for the pseudo header stands (RFC 8200, 8.1):
//! in the IPv6 header, or behind it in a routing header with segments left.

use crate::prelude::*;

/// Follows the extension headers of an IPv6 header as its words pass.
///
/// Extension headers are made of 8-byte units that keep the IPv6 header's
/// alignment: a unit lies in one word, or (`pos3` odd) in the second half of one
/// and the first half of the next. Types 0 (RFC 5095: deprecated) and 2 (RFC
/// 6275) end with the final address, type 4 (RFC 8754) starts with it.
#[derive(LogicBlock, Default)]
pub struct Routing {
    /// Clock.
    pub clock: Signal<In, Clock>,
    /// A word passes.
    pub valid: Signal<In, bool>,
    /// It is the header's first.
    pub first: Signal<In, bool>,
    /// The header is IPv6 and is to be summed.
    pub active: Signal<In, bool>,
    /// The word, byte 0 most significant.
    pub data: Signal<In, Bits<64>>,
    /// Number of the word's first granule (32 bits), L3 starting at 0.
    pub pos3: Signal<In, Bits<8>>,
    /// The same with L4 starting at 0.
    pub pos4: Signal<In, Bits<8>>,
    /// The first granule belongs to the final destination.
    pub final_low: Signal<Out, bool>,
    /// The second granule does.
    pub final_high: Signal<Out, bool>,
    /// What was marked before this word is not the final destination.
    pub restart: Signal<Out, bool>,
    next_is_route: DFF<bool>,
    left: DFF<Bits<8>>,
    count: DFF<Bits<2>>,
    route: DFF<bool>,
    segment_routing: DFF<bool>,
    previous: DFF<bool>,
    odd: Signal<Local, bool>,
    unit: Signal<Local, Bits<7>>,
    start: Signal<Local, Bits<32>>,
    next_header: Signal<Local, Bits<8>>,
    length: Signal<Local, Bits<8>>,
    kind: Signal<Local, Bits<8>>,
    segments: Signal<Local, Bits<8>>,
    before_l4: Signal<Local, bool>,
    extension: Signal<Local, bool>,
    marked: Signal<Local, bool>,
}

impl Logic for Routing {
    #[hdl_gen]
    fn update(&mut self) {
        dff_setup!(
            self,
            clock,
            next_is_route,
            left,
            count,
            route,
            segment_routing,
            previous
        );
        self.odd.next = self.pos3.val().get_bit(0);
        self.unit.next = self.pos3.val().get_bits::<7>(1);
        self.start.next = self.data.val().get_bits::<32>(32);
        self.before_l4.next = self.pos4.val().get_bit(7);
        if self.odd.val() {
            self.unit.next = self.pos3.val().get_bits::<7>(1) + 1;
            self.start.next = self.data.val().get_bits::<32>(0);
            self.before_l4.next = self.pos4.val().get_bit(7) & (self.pos4.val() != 255);
        }
        self.next_header.next = self.start.val().get_bits::<8>(24);
        self.length.next = self.start.val().get_bits::<8>(16);
        self.kind.next = self.start.val().get_bits::<8>(8);
        self.segments.next = self.start.val().get_bits::<8>(0);
        self.extension.next =
            self.before_l4.val() & !self.unit.val().get_bit(6) & (self.unit.val() > 4);
        // Destination of the IPv6 header: bytes 24..40.
        self.marked.next = (self.unit.val() == 3) | (self.unit.val() == 4);
        self.restart.next = false;
        if self.extension.val() & (self.left.q.val() != 0) & self.route.q.val() {
            if self.segment_routing.q.val() {
                self.marked.next = self.count.q.val() < 2;
                self.restart.next = self.active.val() & (self.count.q.val() == 0);
            } else {
                self.marked.next = self.left.q.val() < 3;
                self.restart.next = self.active.val() & (self.left.q.val() == 2);
            }
        }
        if self.valid.val() {
            self.previous.d.next = self.marked.val() & self.active.val();
            if !self.odd.val() & (self.unit.val() == 0) {
                self.next_is_route.d.next = self.data.val().get_bits::<8>(8) == 43;
            }
            if self.odd.val() & (self.unit.val() == 1) {
                self.next_is_route.d.next = self.data.val().get_bits::<8>(40) == 43;
            }
            if self.first.val() {
                self.left.d.next = 0.into();
            } else if self.extension.val() {
                if self.left.q.val() == 0 {
                    self.next_is_route.d.next = self.next_header.val() == 43;
                    self.left.d.next = self.length.val();
                    self.count.d.next = 0.into();
                    self.segment_routing.d.next = self.kind.val() == 4;
                    self.route.d.next = self.next_is_route.q.val()
                        & (self.segments.val() != 0)
                        & (self.length.val() > 1)
                        & ((self.kind.val() == 0)
                            | (self.kind.val() == 2)
                            | (self.kind.val() == 4));
                } else {
                    self.left.d.next = self.left.q.val() - 1;
                    if self.count.q.val() != 3 {
                        self.count.d.next = self.count.q.val() + 1;
                    }
                }
            }
        }
        self.final_high.next = self.marked.val() & self.active.val();
        self.final_low.next = self.marked.val() & self.active.val();
        if self.odd.val() {
            // The header before may have broken off within its address.
            self.final_low.next = self.previous.q.val() & self.active.val() & !self.first.val();
        }
    }
}
