// SPDX-License-Identifier: MIT OR Apache-2.0
//! Payload memory: chunks of equal size that the device may read, counted by
//! reference. Chunks are numbered from 0; a number and an offset become an
//! address by arithmetic, so that whoever posts bursts needs only a [`ChunkMap`].

use crate::burst::Fragment;
use crate::memory::DmaSlice;

/// Smallest chunk in bytes.
pub const CHUNK_MIN: usize = 16 * 1024;

/// Where the chunks of a pool lie for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkMap {
    iova: u64,
    chunk_bytes: u32,
    chunks: u32,
}

impl ChunkMap {
    /// A range of a chunk as a payload fragment; `None` when it is empty or not
    /// inside the chunk.
    #[inline]
    pub const fn fragment(&self, chunk: u32, offset: u32, len: u32) -> Option<Fragment> {
        let inside = offset <= self.chunk_bytes && len <= self.chunk_bytes - offset;
        if chunk >= self.chunks || len == 0 || !inside {
            return None;
        }
        let at = chunk as u64 * self.chunk_bytes as u64 + offset as u64;
        Some(Fragment {
            iova: self.iova + at,
            len,
        })
    }
}

/// A pool of chunks.
#[derive(Debug)]
pub struct ChunkPool {
    memory: DmaSlice,
    map: ChunkMap,
    references: Vec<u32>,
    /// Chunks without reference; the last one freed is the next one given.
    free: Vec<u32>,
}

impl ChunkPool {
    /// `chunk_bytes * chunks` is the length of `memory`.
    pub(crate) fn new(memory: DmaSlice, chunk_bytes: u32, chunks: u32) -> ChunkPool {
        ChunkPool {
            map: ChunkMap {
                iova: memory.iova(),
                chunk_bytes,
                chunks,
            },
            memory,
            references: vec![0; chunks as usize],
            free: (0..chunks).rev().collect(),
        }
    }

    /// Where the chunks lie.
    pub const fn map(&self) -> ChunkMap {
        self.map
    }

    /// Bytes of every chunk.
    pub const fn chunk_bytes(&self) -> usize {
        self.map.chunk_bytes as usize
    }

    /// Chunks that [`ChunkPool::allocate`] could still give.
    pub fn available(&self) -> usize {
        self.free.len()
    }

    /// A chunk with one reference; `None` when there is none left.
    pub fn allocate(&mut self) -> Option<u32> {
        let chunk = self.free.pop()?;
        self.references[chunk as usize] = 1;
        Some(chunk)
    }

    /// One more reference.
    ///
    /// # Panics
    /// When the chunk has none: it belongs to nobody.
    #[inline]
    pub fn retain(&mut self, chunk: u32) {
        let n = &mut self.references[chunk as usize];
        assert!(*n > 0, "chunk {chunk} is retained while free");
        *n += 1;
    }

    /// One reference less; the last one frees the chunk.
    ///
    /// # Panics
    /// When the chunk has none.
    #[inline]
    pub fn release(&mut self, chunk: u32) {
        let n = &mut self.references[chunk as usize];
        assert!(*n > 0, "chunk {chunk} is released while free");
        *n -= 1;
        if *n == 0 {
            self.free.push(chunk);
        }
    }

    fn offset(&self, chunk: u32, offset: u32, len: usize) -> usize {
        let inside = offset as usize <= self.chunk_bytes()
            && len <= self.chunk_bytes() - offset as usize
            && chunk < self.map.chunks;
        assert!(inside, "{len} bytes at {offset} of chunk {chunk}");
        chunk as usize * self.chunk_bytes() + offset as usize
    }

    /// Copies `bytes` to `offset` of a chunk.
    ///
    /// # Panics
    /// When the range is not inside the chunk.
    pub fn write(&mut self, chunk: u32, offset: u32, bytes: &[u8]) {
        let at = self.offset(chunk, offset, bytes.len());
        self.memory.copy_in(at, bytes);
    }

    /// Copies from `offset` of a chunk to all of `out`.
    ///
    /// # Panics
    /// When the range is not inside the chunk.
    pub fn read(&self, chunk: u32, offset: u32, out: &mut [u8]) {
        let at = self.offset(chunk, offset, out.len());
        self.memory.copy_out(at, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Carver, DmaRegion};
    use std::sync::Arc;
    use tsonic_pci::DmaPermission;

    fn pool(chunks: u32) -> ChunkPool {
        let bytes = CHUNK_MIN * chunks as usize;
        let region = DmaRegion::allocate(bytes, 1 << 32, DmaPermission::Read).unwrap();
        // SAFETY: the only carver of a region of our own.
        let memory = unsafe { Carver::new(Arc::new(region)) }.take(bytes);
        ChunkPool::new(memory, CHUNK_MIN as u32, chunks)
    }

    #[test]
    fn the_last_reference_frees() {
        let mut p = pool(2);
        let (a, b) = (p.allocate().unwrap(), p.allocate().unwrap());
        assert_eq!((p.allocate(), p.available()), (None, 0));
        p.retain(a);
        p.release(a);
        assert_eq!(p.available(), 0);
        p.release(a);
        assert_eq!(p.allocate(), Some(a));
        p.write(b, 5, b"hello");
        let mut out = [0; 5];
        p.read(b, 5, &mut out);
        assert_eq!(&out, b"hello");
    }

    #[test]
    fn fragments_lie_inside_their_chunk() {
        let map = pool(2).map();
        let size = CHUNK_MIN as u32;
        let f = map.fragment(1, 16, 100).unwrap();
        assert_eq!((f.iova, f.len), ((1 << 32) + 16_384 + 16, 100));
        assert!(map.fragment(1, 0, size).is_some());
        for (chunk, offset, len) in [
            (2, 0, 1),
            (0, 0, 0),
            (0, 1, size),
            (0, size + 1, 1),
            (0, u32::MAX, u32::MAX),
        ] {
            assert_eq!(map.fragment(chunk, offset, len), None);
        }
    }

    #[test]
    #[should_panic(expected = "released while free")]
    fn a_free_chunk_cannot_be_released() {
        pool(1).release(0);
    }

    #[test]
    #[should_panic(expected = "of chunk 0")]
    fn a_write_stays_in_its_chunk() {
        pool(2).write(0, CHUNK_MIN as u32 - 1, &[1, 2]);
    }
}
