// SPDX-License-Identifier: MIT OR Apache-2.0
//! Send memory, shared out among connections: a pool of chunks, of which a part is
//! set aside, a chunk for each of as many connections as that makes ([`Memory::admit`]);
//! no more are admitted. So a connection always gets its first chunk, whatever
//! others hold, and one chunk is enough to go on: it comes back with the
//! acknowledgement of its bytes, and the next bytes take it.
//!
//! The rest is for who asks, by dynamic thresholds (Choudhury, Hahne: Dynamic queue
//! length thresholds for shared-memory packet switches, 1998): beyond its first
//! chunk a connection may hold as many as are free. One alone can have half of the
//! rest, n have an n+1-th each, and a bit always stays for who comes next.
//!
//! Chunks that a burst in the NIC still points to after their bytes were
//! acknowledged count as taken, by nobody. For as long as that a first chunk may
//! have to wait; completions bring it.

use crate::port::{ChunkId, ChunkPool};

/// Of a pool, this part is set aside. With the 1,024 chunks of 32 KiB that a host has
/// by default, 640 connections have their reserve, and one alone finds 5.8 MiB: more
/// than the largest send buffer takes.
const ASIDE: (usize, usize) = (5, 8);
/// One in so many chunks is for frames of the engine itself (echo replies).
const OWN: usize = 64;

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory<P> {
    pub pool: P,
    /// First chunks that are set aside: most connections.
    reserves: usize,
    /// Connections that have one.
    admitted: usize,
    /// Of those, how many have taken it.
    met: usize,
    own: usize,
}

impl<P: ChunkPool> Memory<P> {
    /// Shares out all that `pool` has.
    pub fn new(pool: P) -> Memory<P> {
        let chunks = pool.available();
        Memory {
            pool,
            reserves: (chunks * ASIDE.0 / ASIDE.1).max(1),
            admitted: 0,
            met: 0,
            own: chunks / OWN,
        }
    }

    /// Promises a connection its first chunk; false when all are promised.
    pub fn admit(&mut self) -> bool {
        let room = self.admitted < self.reserves;
        self.admitted += usize::from(room);
        room
    }

    /// Takes a promise back: the connection holds nothing and will write no more.
    pub fn leave(&mut self) {
        self.admitted = self.admitted.saturating_sub(1);
    }

    /// Connections that could still be admitted.
    pub fn reserves_left(&self) -> usize {
        self.reserves - self.admitted
    }

    /// Free chunks that are not set aside.
    pub fn shared(&self) -> usize {
        self.beyond_reserves().saturating_sub(self.own)
    }

    fn beyond_reserves(&self) -> usize {
        let set_aside = self.reserves.saturating_sub(self.met);
        self.pool.available().saturating_sub(set_aside)
    }

    /// Whether a connection that holds `held` chunks may have one more.
    pub fn may_take(&self, held: usize) -> bool {
        match held.checked_sub(1) {
            None => self.pool.available() > 0,
            Some(beyond) => beyond < self.shared(),
        }
    }

    /// How many more it may have if nobody else takes any.
    pub fn takes(&self, held: usize) -> usize {
        let first = usize::from(held == 0 && self.may_take(0));
        let beyond = held.saturating_sub(1);
        // Each one taken is one more held, and one less free.
        first + self.shared().saturating_sub(beyond).div_ceil(2)
    }

    /// One more chunk for a connection that holds `held`. It goes back to the pool; see
    /// [`Memory::emptied`].
    pub fn take(&mut self, held: usize) -> Option<ChunkId> {
        if !self.may_take(held) {
            return None;
        }
        let id = self.pool.allocate()?;
        self.met += usize::from(held == 0);
        Some(id)
    }

    /// A connection has let go of its last chunk, to the pool.
    #[inline]
    pub fn emptied(&mut self) {
        self.met -= 1;
    }

    /// A chunk for a frame of the engine itself; released to the pool.
    pub fn take_own(&mut self) -> Option<ChunkId> {
        if self.beyond_reserves() == 0 {
            return None;
        }
        self.pool.allocate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::HeapPool;

    /// Takes what `held` chunks leave to it.
    fn fill(m: &mut Memory<HeapPool>, held: &mut Vec<ChunkId>) -> usize {
        let foretold = m.takes(held.len());
        let before = held.len();
        while let Some(id) = m.take(held.len()) {
            held.push(id);
        }
        assert_eq!(held.len() - before, foretold);
        foretold
    }

    fn empty(m: &mut Memory<HeapPool>, held: &mut Vec<ChunkId>) {
        for id in held.drain(..) {
            m.pool.release(id);
        }
        m.emptied();
    }

    #[test]
    fn shares_shrink_and_the_first_chunk_is_always_there() {
        // 80 are set aside, 2 for the engine, 46 are shared.
        let mut m = Memory::new(HeapPool::new(16_384, 128));
        let mut held: Vec<Vec<ChunkId>> = vec![Vec::new(); 80];
        let got: Vec<usize> = held
            .iter_mut()
            .map(|held| {
                assert!(m.admit());
                fill(&mut m, held)
            })
            .collect();
        assert!(!m.admit() && m.reserves_left() == 0);
        // Half of what is shared, then half of the rest, and so on.
        assert_eq!(got[..7], [24, 13, 7, 4, 2, 2, 1]);
        assert!(got[7..].iter().all(|n| *n == 1));
        assert_eq!((m.pool.available(), m.shared()), (2, 0));
        // Those are for the engine.
        assert!(m.take_own().is_some() && m.take_own().is_some());
        assert_eq!((m.take_own(), m.pool.available()), (None, 0));
        // Who has read everything gets its own chunk again, before anybody else.
        empty(&mut m, &mut held[40]);
        assert_eq!(m.take_own(), None);
        assert!(m.take(1).is_none() && m.may_take(0));
        assert_eq!(fill(&mut m, &mut held[40]), 1);
    }

    #[test]
    fn what_is_given_back_is_shared_again() {
        let mut m = Memory::new(HeapPool::new(16_384, 128));
        let (mut a, mut b) = (Vec::new(), Vec::new());
        assert!(m.admit() && m.admit());
        assert_eq!((fill(&mut m, &mut a), fill(&mut m, &mut b)), (24, 13));
        empty(&mut m, &mut a);
        assert_eq!(fill(&mut m, &mut b), 11);
        assert_eq!(b.len(), 24);
        empty(&mut m, &mut b);
        m.leave();
        m.leave();
        assert_eq!((m.pool.available(), m.reserves_left()), (128, 80));
        assert_eq!(m.shared(), 46);
    }

    #[test]
    fn the_smallest_pool_serves_one() {
        let mut m = Memory::new(HeapPool::new(16_384, 1));
        assert!(m.admit() && !m.admit());
        let mut held = Vec::new();
        assert_eq!((fill(&mut m, &mut held), m.takes(1)), (1, 0));
        empty(&mut m, &mut held);
        assert_eq!(m.takes(0), 1);
    }
}
