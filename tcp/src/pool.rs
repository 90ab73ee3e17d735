// SPDX-License-Identifier: MIT OR Apache-2.0
//! A chunk pool on the heap: for tests, and for hosts whose port copies.

use crate::port::{CHUNK_MIN, ChunkId, ChunkPool, ChunkRef};

/// `chunks` chunks of `chunk_bytes` bytes in one allocation.
#[derive(Debug)]
pub struct HeapPool {
    chunk_bytes: usize,
    memory: Vec<u8>,
    references: Vec<u32>,
    free: Vec<u32>,
}

impl HeapPool {
    /// A pool; chunks of at least [`CHUNK_MIN`] bytes.
    pub fn new(chunk_bytes: usize, chunks: u32) -> HeapPool {
        let chunk_bytes = chunk_bytes.max(CHUNK_MIN);
        HeapPool {
            chunk_bytes,
            memory: vec![0; chunk_bytes * chunks as usize],
            references: vec![0; chunks as usize],
            free: (0..chunks).rev().collect(),
        }
    }

    fn range(&self, chunk: ChunkId, offset: u32, len: usize) -> core::ops::Range<usize> {
        assert!(
            offset as usize + len <= self.chunk_bytes,
            "beyond the chunk"
        );
        let at = chunk.0 as usize * self.chunk_bytes + offset as usize;
        at..at + len
    }

    /// The bytes of a range.
    pub fn bytes(&self, range: ChunkRef) -> &[u8] {
        &self.memory[self.range(range.chunk, range.offset, range.len as usize)]
    }
}

impl ChunkPool for HeapPool {
    fn chunk_bytes(&self) -> usize {
        self.chunk_bytes
    }

    fn allocate(&mut self) -> Option<ChunkId> {
        let id = self.free.pop()?;
        self.references[id as usize] = 1;
        Some(ChunkId(id))
    }

    fn write(&mut self, chunk: ChunkId, offset: u32, bytes: &[u8]) {
        let range = self.range(chunk, offset, bytes.len());
        self.memory[range].copy_from_slice(bytes);
    }

    fn read(&self, range: ChunkRef, out: &mut [u8]) {
        out.copy_from_slice(self.bytes(range));
    }

    fn retain(&mut self, chunk: ChunkId) {
        let r = &mut self.references[chunk.0 as usize];
        assert!(*r > 0, "retain of a free chunk");
        *r += 1;
    }

    fn release(&mut self, chunk: ChunkId) {
        let r = &mut self.references[chunk.0 as usize];
        assert!(*r > 0, "release of a free chunk");
        *r -= 1;
        if *r == 0 {
            self.free.push(chunk.0);
        }
    }

    fn available(&self) -> usize {
        self.free.len()
    }
}
