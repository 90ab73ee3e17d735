// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connections whose write found no memory: they are told when it is there.
//!
//! What a connection's own acknowledgements free it is told of as they come. Here it
//! is about what others free. A look costs a step a connection, so there is one only
//! when more is free than at the last, and no more are told than could take some.

use super::{Engine, Slot, conn_at};
use crate::conn::Conn;
use crate::memory::Memory;
use crate::port::ChunkPool;
use std::collections::VecDeque;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Starved {
    /// By index and generation, longest waiting first.
    list: VecDeque<(u32, u32)>,
    /// Measure of what was free at the last look, or when one was added.
    seen: usize,
}

/// Grows with what is free for anybody in the list: first chunks, then shares.
fn measure<P: ChunkPool>(memory: &Memory<P>) -> usize {
    memory.shared() + usize::from(memory.may_take(0))
}

impl Starved {
    /// The write of `c` was cut short.
    pub fn add<P: ChunkPool>(&mut self, c: &mut Conn, memory: &Memory<P>) {
        // What is free now was not enough: more must be.
        self.seen = self.seen.min(measure(memory));
        if !c.app.starved {
            c.app.starved = true;
            self.list.push_back((c.index, c.generation));
        }
    }
}

impl<P: ChunkPool> Engine<P> {
    /// Tells those that may go on.
    pub(super) fn feed_the_starved(&mut self) {
        if self.starved.list.is_empty() {
            return;
        }
        let slots = &mut self.slots;
        if self.starved.list.len() > 2 * slots.len() {
            // Whoever comes, starves and goes leaves no trace for ever.
            let live = |entry: &(u32, u32)| waiting(slots, *entry).is_some();
            self.starved.list.retain(live);
        }
        let free = measure(&self.core.memory);
        let had = core::mem::replace(&mut self.starved.seen, free);
        if free <= had {
            return;
        }
        let mut shared = self.core.memory.shared();
        for _ in 0..self.starved.list.len() {
            let Some(entry) = self.starved.list.pop_front() else {
                return;
            };
            let Some(c) = waiting(&mut self.slots, entry) else {
                continue;
            };
            let held = c.tx.buffer.chunks();
            if !c.tx.buffer.can_grow(&self.core.memory) || (held > 0 && shared == 0) {
                self.starved.list.push_back(entry);
                continue;
            }
            // Who holds none takes what is set aside.
            shared -= usize::from(held > 0);
            c.app.starved = false;
            c.app.wants_write = false;
            c.tell(crate::event::WRITABLE);
            self.settle(entry.0);
        }
    }
}

/// The connection of an entry, if it is still there: another may have its number.
fn waiting(slots: &mut [Slot], (index, generation): (u32, u32)) -> Option<&mut Conn> {
    conn_at(slots, index).filter(|c| c.generation == generation && c.app.starved)
}
