// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the connections of an engine share.

use crate::bursts::BurstTable;
use crate::interface::Config;
use crate::memory::Memory;
use crate::neighbour::Neighbours;
use crate::port::TxLimits;
use crate::stats::{Counters, EngineCounters};
use crate::tunables::Tunables;
use core::hash::{BuildHasher, Hasher};
use std::hash::DefaultHasher;
use tsonic_types::{FlowSlot, Nanos, TenantId};

/// Challenge ACKs of a tenant in the second that began at `since`.
#[derive(Clone, Copy, Debug, Default)]
struct ChallengeLimit {
    since: Nanos,
    left: u32,
}

/// A tenant: tunables, and limiters that no other tenant can observe.
#[derive(Debug, Default)]
pub(crate) struct Tenant {
    pub tunables: Tunables,
    /// Connections in TIME_WAIT.
    pub time_wait: u32,
    /// Counters of connections that are gone.
    pub gone: Counters,
    challenge: ChallengeLimit,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Core<P> {
    pub config: Config,
    pub memory: Memory<P>,
    pub tenants: Vec<Tenant>,
    pub bursts: BurstTable,
    pub neighbours: Neighbours,
    pub counters: EngineCounters,
    /// Limits of the port at the last poll.
    pub limits: TxLimits,
    /// Flow handles of connections that are gone.
    pub freed_flows: Vec<FlowSlot>,
    pub random: Random,
    /// Header prediction is off, to compare with.
    #[cfg(test)]
    pub unpredicted: bool,
}

impl<P> Core<P> {
    /// Whether headers are predicted: always, but in a test that compares.
    #[inline]
    pub const fn predicts(&self) -> bool {
        #[cfg(test)]
        return !self.unpredicted;
        #[cfg(not(test))]
        true
    }

    /// Tunables of a tenant. Connections are only made for tenants that exist.
    pub fn tunables(&self, tenant: TenantId) -> &Tunables {
        &self.tenants[tenant.index()].tunables
    }

    /// Whether the tenant's limit allows one more challenge ACK now (RFC 5961,
    /// 7): a random share of the limit each second, so that the counter tells an
    /// attacker nothing.
    pub fn challenge_allowed(&mut self, tenant: TenantId, now: Nanos) -> bool {
        let t = &mut self.tenants[tenant.index()];
        let limit = t.tunables.challenge_ack_limit;
        if limit == i32::MAX as u32 {
            return true;
        }
        let c = &mut t.challenge;
        if c.since == Nanos::ZERO || now.since(c.since) >= Nanos::from_secs(1) {
            c.since = now.max(Nanos(1));
            c.left = limit.div_ceil(2) + self.random.below(limit);
        }
        let allowed = c.left > 0;
        c.left = c.left.saturating_sub(1);
        allowed
    }
}

/// Deterministic pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub(crate) struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 for 0.
    pub fn below(&mut self, n: u32) -> u32 {
        (((self.next() >> 32) * u64::from(n)) >> 32) as u32
    }
}

/// Hash of the connection table: folded multiplications from a secret start. A
/// peer neither knows the start nor sees a hash, hence cannot choose what
/// collides; what goes onto the wire takes [`Keyed`].
#[derive(Clone, Debug)]
pub(crate) struct Folded(pub u64);

impl BuildHasher for Folded {
    type Hasher = FoldedHasher;
    fn build_hasher(&self) -> FoldedHasher {
        FoldedHasher(self.0)
    }
}

/// See [`Folded`].
pub(crate) struct FoldedHasher(u64);

impl FoldedHasher {
    #[inline]
    fn mix(&mut self, word: u64) {
        // An odd constant with bits well spread: the golden ratio.
        let product = u128::from(self.0 ^ word) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product as u64 ^ (product >> 64) as u64).rotate_left(23);
    }
}

impl Hasher for FoldedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }
    #[inline]
    fn write_u8(&mut self, v: u8) {
        self.mix(v.into());
    }
    #[inline]
    fn write_u16(&mut self, v: u16) {
        self.mix(v.into());
    }
    #[inline]
    fn write_u32(&mut self, v: u32) {
        self.mix(v.into());
    }
    #[inline]
    fn write_u64(&mut self, v: u64) {
        self.mix(v);
    }
    #[inline]
    fn write_usize(&mut self, v: usize) {
        self.mix(v as u64);
    }
    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// SipHash with a secret key: a peer cannot choose what collides.
#[derive(Clone, Debug)]
pub(crate) struct Keyed(pub u64);

impl BuildHasher for Keyed {
    type Hasher = DefaultHasher;
    fn build_hasher(&self) -> DefaultHasher {
        let mut h = DefaultHasher::new();
        h.write_u64(self.0);
        h
    }
}
