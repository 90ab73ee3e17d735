// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deadlines of connections: a binary heap that knows where each connection
//! stands, so that a deadline moves without a search. One deadline a connection.

use tsonic_types::Nanos;

const ABSENT: u32 = u32::MAX;

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    /// Heap of (deadline, connection).
    heap: Vec<(Nanos, u32)>,
    /// Place of each connection in the heap.
    place: Vec<u32>,
}

impl TimerQueue {
    /// Sets, moves or (with `None`) clears the deadline of connection `id`.
    pub fn set(&mut self, id: u32, at: Option<Nanos>) {
        let known = self.place.get(id as usize).copied().unwrap_or(ABSENT);
        match (known, at) {
            (ABSENT, None) => {}
            (ABSENT, Some(at)) => {
                if self.place.len() <= id as usize {
                    self.place.resize(id as usize + 1, ABSENT);
                }
                self.heap.push((at, id));
                self.up(self.heap.len() - 1);
            }
            (i, None) => {
                let i = i as usize;
                self.heap.swap_remove(i);
                self.place[id as usize] = ABSENT;
                if i < self.heap.len() {
                    self.up(i);
                    self.down(self.place[self.heap[i].1 as usize] as usize);
                }
            }
            (i, Some(at)) => {
                let i = i as usize;
                if at == self.heap[i].0 {
                    return;
                }
                let earlier = at < self.heap[i].0;
                self.heap[i].0 = at;
                if earlier {
                    self.up(i);
                } else {
                    self.down(i);
                }
            }
        }
    }

    /// The earliest deadline.
    pub fn first(&self) -> Option<Nanos> {
        self.heap.first().map(|x| x.0)
    }

    /// A connection whose deadline is not after `now`; its deadline is cleared.
    pub fn pop(&mut self, now: Nanos) -> Option<u32> {
        let (at, id) = *self.heap.first()?;
        if at > now {
            return None;
        }
        self.set(id, None);
        Some(id)
    }

    fn up(&mut self, mut i: usize) {
        while i > 0 {
            let parent = (i - 1) / 2;
            if self.heap[parent] <= self.heap[i] {
                break;
            }
            self.heap.swap(i, parent);
            self.place[self.heap[i].1 as usize] = i as u32;
            i = parent;
        }
        self.place[self.heap[i].1 as usize] = i as u32;
    }

    fn down(&mut self, mut i: usize) {
        loop {
            let mut least = i;
            for child in [2 * i + 1, 2 * i + 2] {
                if child < self.heap.len() && self.heap[child] < self.heap[least] {
                    least = child;
                }
            }
            if least == i {
                break;
            }
            self.heap.swap(i, least);
            self.place[self.heap[i].1 as usize] = i as u32;
            i = least;
        }
        self.place[self.heap[i].1 as usize] = i as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn deadlines_come_in_order(ops in proptest::collection::vec((0u32..20, proptest::option::of(0u64..100)), 1..200)) {
            let mut q = TimerQueue::default();
            let mut model = BTreeMap::new();
            for (id, at) in ops {
                q.set(id, at.map(Nanos));
                match at {
                    Some(at) => { model.insert(id, at); }
                    None => { model.remove(&id); }
                }
                prop_assert_eq!(q.first().map(|t| t.0), model.values().min().copied());
            }
            for now in 0..100 {
                while let Some(id) = q.pop(Nanos(now)) {
                    prop_assert_eq!(model.remove(&id), Some(now));
                }
            }
            prop_assert!(model.is_empty());
        }
    }
}
