// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts in the NIC: what the engine must know when their completions come, and
//! the references to their chunks. A slab; a token is an index and a generation,
//! so that a completion of a burst that is gone finds nothing.

use crate::port::{ChunkId, ChunkPool, ChunkRef, FRAGMENTS_MAX};
use crate::scoreboard::NO_BURST;

/// Token of bursts that nobody waits for (acknowledgements, resets).
pub(crate) const TOKEN_NONE: u64 = u64::MAX;

/// A burst in the NIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InNic {
    /// Index of the connection, and its generation; `None`: a frame of the
    /// engine itself.
    pub owner: Option<(u32, u32)>,
    /// Range of sequence space, SYN and FIN included.
    pub start: u64,
    pub end: u64,
    /// Payload bytes of a segment.
    pub mss: u32,
    /// Segments.
    pub segments: u32,
    /// Bytes by the measure of small queues.
    pub truesize: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    generation: u32,
    burst: Option<InNic>,
    /// Chunks that the burst points into; the first `chunk_count` count.
    chunks: [ChunkId; FRAGMENTS_MAX],
    chunk_count: u8,
}

/// The slab.
#[derive(Debug, Default)]
pub(crate) struct BurstTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl BurstTable {
    /// Bursts in the NIC.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes references to the chunks of `fragments` and enters the burst.
    /// Answers its token and its index.
    pub fn insert<P: ChunkPool>(
        &mut self,
        pool: &mut P,
        burst: InNic,
        fragments: &[ChunkRef],
    ) -> (u64, u32) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                generation: 0,
                burst: None,
                chunks: [ChunkId(0); FRAGMENTS_MAX],
                chunk_count: 0,
            });
            // Room to free them all: a completion allocates nothing.
            self.free.reserve(self.slots.capacity());
            (self.slots.len() - 1) as u32
        });
        debug_assert_ne!(index, NO_BURST);
        let slot = &mut self.slots[index as usize];
        slot.burst = Some(burst);
        slot.chunk_count = 0;
        for (place, f) in slot.chunks.iter_mut().zip(fragments) {
            pool.retain(f.chunk);
            *place = f.chunk;
            slot.chunk_count += 1;
        }
        (u64::from(slot.generation) << 32 | u64::from(index), index)
    }

    /// Takes the burst of `token` out and lets go of its chunks.
    pub fn remove<P: ChunkPool>(&mut self, pool: &mut P, token: u64) -> Option<(u32, InNic)> {
        let index = token as u32;
        let slot = self.slots.get_mut(index as usize)?;
        if u64::from(slot.generation) != token >> 32 {
            return None;
        }
        let burst = slot.burst.take()?;
        // Never all ones, so that no token is TOKEN_NONE.
        slot.generation += 1;
        if slot.generation == u32::MAX - 1 {
            slot.generation = 0;
        }
        self.free.push(index);
        for chunk in slot.chunks.iter().take(usize::from(slot.chunk_count)) {
            pool.release(*chunk);
        }
        Some((index, burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::HeapPool;

    #[test]
    fn chunks_are_held_until_the_completion_and_tokens_serve_once() {
        let mut pool = HeapPool::new(16_384, 2);
        let chunk = pool.allocate().unwrap();
        let mut t = BurstTable::default();
        let b = InNic {
            owner: Some((1, 0)),
            start: 1,
            end: 101,
            mss: 100,
            segments: 1,
            truesize: 420,
        };
        let f = [ChunkRef {
            chunk,
            offset: 0,
            len: 100,
        }];
        let (token, index) = t.insert(&mut pool, b, &f);
        pool.release(chunk);
        assert_eq!((pool.available(), t.len()), (1, 1));
        assert_eq!(t.remove(&mut pool, token).unwrap().0, index);
        assert_eq!((pool.available(), t.len()), (2, 0));
        assert!(t.remove(&mut pool, token).is_none());
        assert!(t.remove(&mut pool, TOKEN_NONE).is_none());
        let (second, _) = t.insert(&mut pool, b, &[]);
        assert_ne!(second, token);
    }
}
