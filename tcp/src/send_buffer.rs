// SPDX-License-Identifier: MIT OR Apache-2.0
//! The bytes of a connection's writes from the first unacknowledged one on, in
//! chunks of a pool. Sequence numbers here are absolute: 0 is the SYN, 1 the
//! first byte, and nothing wraps.

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

    /// Appends as much of `bytes` as `room` and the pool allow; answers how much.
    pub fn write<P: ChunkPool>(&mut self, pool: &mut P, bytes: &[u8], room: u64) -> usize {
        let size = pool.chunk_bytes() as u32;
        let mut rest = &bytes[..bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX))];
        let mut taken = 0;
        while !rest.is_empty() {
            let full = self.chunks.back().is_none_or(|c| c.used == size);
            if full {
                let Some(id) = pool.allocate() else { break };
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
            pool.write(tail.id, tail.used, &rest[..n]);
            tail.used += n as u32;
            self.end += n as u64;
            taken += n;
            rest = &rest[n..];
        }
        taken
    }

    /// Bytes before `una` are acknowledged: lets go of the chunks that hold no
    /// others.
    pub fn acknowledge<P: ChunkPool>(&mut self, pool: &mut P, una: u64) {
        self.start = self.start.max(una.min(self.end));
        while let Some(c) = self.chunks.front() {
            if c.base + u64::from(c.used) > self.start {
                break;
            }
            pool.release(c.id);
            self.chunks.pop_front();
        }
    }

    /// Lets go of everything.
    pub fn clear<P: ChunkPool>(&mut self, pool: &mut P) {
        for c in self.chunks.drain(..) {
            pool.release(c.id);
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
        let mut pool = HeapPool::new(16_384, 8);
        let mut b = SendBuffer::new();
        let data: Vec<u8> = (0..50_000u32).map(|i| (i % 251) as u8).collect();
        assert_eq!(b.write(&mut pool, &data, 40_000), 40_000);
        assert_eq!(b.write(&mut pool, &data[40_000..], 1 << 20), 10_000);
        assert_eq!((pool.available(), b.len()), (4, 50_000));
        let mut out = [ChunkRef::default(); 17];
        let (n, got) = b.fragments(1 + 16_000, 20_000, &mut out);
        assert_eq!((n, got), (3, 20_000));
        let mut read = Vec::new();
        for r in &out[..n] {
            let mut part = vec![0; r.len as usize];
            pool.read(*r, &mut part);
            read.extend(part);
        }
        assert_eq!(read, data[16_000..36_000]);
        let (n, got) = b.fragments(1 + 16_000, 20_000, &mut out[..1]);
        assert_eq!((n, got), (1, 384));
        b.acknowledge(&mut pool, 1 + 16_383);
        assert_eq!(pool.available(), 4);
        b.acknowledge(&mut pool, 1 + 16_384);
        assert_eq!(pool.available(), 5);
        b.acknowledge(&mut pool, 1 + 50_000);
        assert_eq!((pool.available(), b.len()), (8, 0));
    }

    #[test]
    fn an_empty_pool_shortens_the_write() {
        let mut pool = HeapPool::new(16_384, 1);
        let mut b = SendBuffer::new();
        assert_eq!(b.write(&mut pool, &[1; 20_000], 1 << 20), 16_384);
        assert_eq!(b.write(&mut pool, &[1; 20_000], 1 << 20), 0);
        b.clear(&mut pool);
        assert_eq!((pool.available(), b.len()), (1, 0));
    }
}
