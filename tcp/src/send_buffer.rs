// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a connection's writes from the first unacknowledged one on, in
//! chunks of a pool. Sequence numbers here are absolute: 0 is the SYN, 1 the
//! first byte, and nothing wraps.

use crate::memory::Memory;
use crate::port::{ChunkId, ChunkPool, ChunkRef};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Chunk {
    id: ChunkId,
    /// Absolute sequence number of the chunk's first byte.
    base: u64,
    /// Bytes written.
    used: u32,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    chunks: VecDeque<Chunk>,
    start: u64,
    end: u64,
}

impl SendBuffer {
    pub fn new() -> SendBuffer {
        SendBuffer {
            chunks: VecDeque::new(),
            start: 1,
            end: 1,
        }
    }

    /// One past the last byte written.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes held.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Appends as much of `bytes` as `room` and the memory allow; answers how much.
    pub fn write<P: ChunkPool>(
        &mut self,
        memory: &mut Memory<P>,
        bytes: &[u8],
        room: u64,
    ) -> usize {
        let size = memory.pool.chunk_bytes() as u32;
        let mut rest = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let mut taken = 0;
        while !rest.is_empty() {
            let full = self.chunks.back().is_none_or(|c| c.used == size);
            if full {
                let Some(id) = memory.take(self.chunks.len()) else {
                    break;
                };
                self.chunks.push_back(Chunk {
                    id,
                    base: self.end,
                    used: 0,
                });
            }
            let Some(tail) = self.chunks.back_mut() else {
                break;
            };
            let n = rest.len().min((size - tail.used) as usize);
            memory.pool.write(tail.id, tail.used, &rest[..n]);
            tail.used += n as u32;
            self.end += n as u64;
            taken += n;
            rest = &rest[n..];
        }
        taken
    }

    /// Chunks held.
    pub fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// Free bytes of the last chunk.
    fn tail<P: ChunkPool>(&self, memory: &Memory<P>) -> u64 {
        let used = self.chunks.back().map(|c| u64::from(c.used));
        used.map_or(0, |used| memory.pool.chunk_bytes() as u64 - used)
    }

    /// Whether memory permits a write of a byte.
    pub fn can_grow<P: ChunkPool>(&self, memory: &Memory<P>) -> bool {
        memory.may_take(self.chunks.len()) || self.tail(memory) > 0
    }

    /// Bytes that memory permits to write.
    pub fn growth<P: ChunkPool>(&self, memory: &Memory<P>) -> u64 {
        let chunks = memory.takes(self.chunks.len()) as u64;
        self.tail(memory) + chunks * memory.pool.chunk_bytes() as u64
    }

    /// Bytes before `una` are acknowledged: lets go of the chunks that hold no
    /// others.
    pub fn acknowledge<P: ChunkPool>(&mut self, memory: &mut Memory<P>, una: u64) {
        self.start = self.start.max(una.min(self.end));
        while let Some(c) = self.chunks.front() {
            if c.base + u64::from(c.used) > self.start {
                break;
            }
            memory.pool.release(c.id);
            self.chunks.pop_front();
            if self.chunks.is_empty() {
                memory.emptied();
            }
        }
    }

    /// Lets go of everything.
    pub fn clear<P: ChunkPool>(&mut self, memory: &mut Memory<P>) {
        if !self.chunks.is_empty() {
            memory.emptied();
        }
        for c in self.chunks.drain(..) {
            memory.pool.release(c.id);
        }
        self.start = self.end;
    }

    /// The ranges that hold `len` bytes from `from` on, in order; fewer bytes if
    /// `out` is too short. Answers fragments and bytes. The range lies within
    /// what is held.
    pub fn fragments(&self, from: u64, len: u32, out: &mut [ChunkRef]) -> (usize, u32) {
        // Every chunk but the last is full, and all are of one size.
        let mut i = self.chunks.front().map_or(0, |c| {
            (from.saturating_sub(c.base) / u64::from(c.used)) as usize
        });
        let (mut n, mut got) = (0, 0);
        while got < len && n < out.len() {
            let Some(c) = self.chunks.get(i) else { break };
            let offset = (from + u64::from(got) - c.base) as u32;
            let take = (len - got).min(c.used - offset);
            out[n] = ChunkRef {
                chunk: c.id,
                offset,
                len: take,
            };
            got += take;
            n += 1;
            i += 1;
        }
        (n, got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::HeapPool;

    #[test]
    fn bytes_lie_where_the_fragments_say_and_chunks_go_when_acked() {
        let mut m = Memory::new(HeapPool::new(16_384, 16));
        let mut b = SendBuffer::new();
        let data: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(b.write(&mut m, &data, 40_000), 40_000);
        assert_eq!(b.write(&mut m, &data[40_000..], 1 << 20), 10_000);
        assert_eq!((m.pool.available(), b.len()), (12, 50_000));
        let mut out = [ChunkRef::default(); 17];
        let (n, got) = b.fragments(1 + 16_000, 20_000, &mut out);
        assert_eq!((n, got), (3, 20_000));
        let mut read = Vec::new();
        for r in &out[..n] {
            let mut part = vec![0; r.len as usize];
            m.pool.read(*r, &mut part);
            read.extend(part);
        }
        assert_eq!(read, data[16_000..36_000]);
        let (n, got) = b.fragments(1 + 16_000, 20_000, &mut out[..1]);
        assert_eq!((n, got), (1, 384));
        b.acknowledge(&mut m, 1 + 16_383);
        assert_eq!(m.pool.available(), 12);
        b.acknowledge(&mut m, 1 + 16_384);
        assert_eq!(m.pool.available(), 13);
        b.acknowledge(&mut m, 1 + 50_000);
        assert_eq!((m.pool.available(), b.len()), (16, 0));
    }

    #[test]
    fn an_empty_pool_shortens_the_write() {
        let mut m = Memory::new(HeapPool::new(16_384, 1));
        let mut b = SendBuffer::new();
        assert_eq!(b.write(&mut m, &[1; 20_000], 1 << 20), 16_384);
        assert_eq!(b.write(&mut m, &[1; 20_000], 1 << 20), 0);
        b.clear(&mut m);
        assert_eq!((m.pool.available(), b.len()), (1, 0));
    }
}
