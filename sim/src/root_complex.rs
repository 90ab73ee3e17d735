// SPDX-License-Identifier: MIT OR Apache-2.0
//! Root complex and host memory: what a device's requests meet.
//!
//! [`HostMemory`] is the table of mappings, I/O virtual address to memory of
//! this process. [`RootComplex`] puts latency, bandwidth, a limit of outstanding
//! requests, ordering, faults and statistics in front of it.
//!
//! # Memory
//! Memory that a device may touch is never borrowed: all access is through raw
//! pointers, and a copy is made at once. No byte outside a mapping is touched, and
//! none of a mapping once [`RootComplex::unmap`] has returned: writes that are
//! under way land before it does.
//!
//! # Ordering (PCI Express 2.4, as far as it matters here)
//! Posted writes land in order, and so does an interrupt behind them. Reads
//! complete in order, and never pass a write posted before them. The 64-bit words
//! of a small aligned write (a completion) become visible in ascending order.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_pci::{BusError, DmaFault, DmaMemory, DmaPermission};
use tsonic_types::Ticks;

use crate::nic::MemoryPort;

/// Bytes of a page: mappings are made of whole ones.
pub const PAGE: u64 = 4096;
/// Writes of up to this many bytes, if aligned, are made word by word.
const WORDWISE_MAX: usize = 64;
/// Fraction bits of times inside the root complex.
const FRACTION: u32 = 32;

/// Memory that this process can only ask for.
pub trait FarMemory: Send + Sync {
    /// Reads `out.len()` bytes at `iova`. Whether it could.
    fn read(&self, iova: u64, out: &mut [u8]) -> bool;
    /// Writes `data` at `iova`. Whether it could.
    fn write(&self, iova: u64, data: &[u8]) -> bool;
}

enum Backing {
    /// Mapped memory of this process.
    Near(NonNull<u8>),
    Far(Arc<dyn FarMemory>),
}

/// What a device may do with a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// It may read.
    pub read: bool,
    /// It may write.
    pub write: bool,
}

impl From<DmaPermission> for Access {
    fn from(permission: DmaPermission) -> Access {
        Access {
            read: true,
            write: permission.writes(),
        }
    }
}

struct Mapping {
    iova: u64,
    bytes: u64,
    backing: Backing,
    access: Access,
}

/// A part of a range that lies in one mapping.
enum Piece<'a> {
    Near(NonNull<u8>),
    Far(&'a dyn FarMemory, u64),
}

/// The table of mappings.
#[derive(Default)]
pub struct HostMemory {
    /// Sorted by address; disjoint.
    mappings: Vec<Mapping>,
}

// SAFETY: the pointers are used for copies only, under `&self` or `&mut self` of
// whoever owns the table, and `map` makes its caller promise that the memory
// stays valid for any thread until it is unmapped.
unsafe impl Send for HostMemory {}

impl HostMemory {
    /// Adds a mapping.
    ///
    /// # Errors
    /// [`BusError::BadMapping`] when the range is empty, not made of whole pages,
    /// wraps, or overlaps another.
    ///
    /// # Safety
    /// `memory` is valid for reads (and writes, if permitted) of `bytes` bytes by
    /// any thread until [`HostMemory::unmap`] of it returns, and is touched by
    /// others through raw pointers only.
    pub unsafe fn map(
        &mut self,
        memory: NonNull<u8>,
        bytes: u64,
        iova: u64,
        access: impl Into<Access>,
    ) -> Result<(), BusError> {
        self.insert(Backing::Near(memory), bytes, iova, access.into())
    }

    /// Adds a mapping of memory that is asked for. A write that `memory` fails to do may
    /// have been done in part.
    ///
    /// # Errors
    /// As [`HostMemory::map`].
    pub fn map_far(
        &mut self,
        memory: Arc<dyn FarMemory>,
        bytes: u64,
        iova: u64,
        access: Access,
    ) -> Result<(), BusError> {
        self.insert(Backing::Far(memory), bytes, iova, access)
    }

    fn insert(
        &mut self,
        backing: Backing,
        bytes: u64,
        iova: u64,
        access: Access,
    ) -> Result<(), BusError> {
        let bad = BusError::BadMapping {
            iova,
            bytes: bytes as usize,
        };
        let Some(end) = iova.checked_add(bytes) else {
            return Err(bad);
        };
        if bytes == 0 || !iova.is_multiple_of(PAGE) || !bytes.is_multiple_of(PAGE) {
            return Err(bad);
        }
        let at = self.mappings.partition_point(|m| m.iova < iova);
        let overlaps_next = self.mappings.get(at).is_some_and(|m| m.iova < end);
        let overlaps_prev = at > 0 && {
            let p = &self.mappings[at - 1];
            p.iova + p.bytes > iova
        };
        if overlaps_next || overlaps_prev {
            return Err(bad);
        }
        self.mappings.insert(
            at,
            Mapping {
                iova,
                bytes,
                backing,
                access,
            },
        );
        Ok(())
    }

    /// Removes the mapping of exactly this range.
    ///
    /// # Errors
    /// [`BusError::NotMapped`] when there is none.
    pub fn unmap(&mut self, iova: u64, bytes: u64) -> Result<(), BusError> {
        match self.mappings.binary_search_by_key(&iova, |m| m.iova) {
            Ok(i) if self.mappings[i].bytes == bytes => {
                self.mappings.remove(i);
                Ok(())
            }
            _ => Err(BusError::NotMapped { iova }),
        }
    }

    /// Whether an end of the range lies inside a mapping, which it would cut in two.
    pub fn cuts(&self, iova: u64, bytes: u64) -> bool {
        let inside = |at: u64| {
            let next = self.mappings.partition_point(|m| m.iova < at);
            next > 0 && {
                let m = &self.mappings[next - 1];
                m.iova + m.bytes > at
            }
        };
        inside(iova) || iova.checked_add(bytes).is_some_and(inside)
    }

    /// Mappings.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }

    /// Removes every mapping that lies inside the range, and says how many there were.
    pub fn unmap_inside(&mut self, iova: u64, bytes: u64) -> usize {
        let end = iova.saturating_add(bytes);
        let before = self.mappings.len();
        self.mappings
            .retain(|m| m.iova < iova || m.iova + m.bytes > end);
        before - self.mappings.len()
    }

    /// Bytes mapped.
    pub fn mapped_bytes(&self) -> u64 {
        self.mappings.iter().map(|m| m.bytes).sum()
    }

    /// Calls `piece(where, offset in the range, bytes)` for each piece of the range, after
    /// all of it was found to be mapped for what is asked; it says whether it could.
    fn pieces(
        &self,
        iova: u64,
        bytes: usize,
        write: bool,
        mut piece: impl FnMut(Piece<'_>, usize, usize) -> bool,
    ) -> Result<(), DmaFault> {
        let fault = DmaFault { iova, bytes, write };
        let end = iova.checked_add(bytes as u64).ok_or(fault)?;
        let first = self
            .mappings
            .partition_point(|m| m.iova + (m.bytes - 1) < iova);
        let mut next = iova;
        for m in &self.mappings[first..] {
            if next >= end {
                break;
            }
            let may = if write { m.access.write } else { m.access.read };
            if m.iova > next || !may {
                return Err(fault);
            }
            next = m.iova + m.bytes;
        }
        if next < end {
            return Err(fault);
        }
        let mut done = 0;
        for m in &self.mappings[first..] {
            if done == bytes {
                break;
            }
            let skip = (iova + done as u64 - m.iova) as usize;
            let n = (bytes - done).min(m.bytes as usize - skip);
            let part = match &m.backing {
                // SAFETY: `skip < m.bytes`, so the pointer stays inside the mapping,
                // which `map`'s caller keeps valid.
                Backing::Near(memory) => Piece::Near(unsafe { memory.add(skip) }),
                Backing::Far(memory) => Piece::Far(&**memory, m.iova + skip as u64),
            };
            if !piece(part, done, n) {
                return Err(fault);
            }
            done += n;
        }
        Ok(())
    }
}

impl DmaMemory for HostMemory {
    fn read(&self, iova: u64, out: &mut [u8]) -> Result<(), DmaFault> {
        let bytes = out.len();
        self.pieces(iova, bytes, false, |from, offset, n| {
            let to = &mut out[offset..offset + n];
            match from {
                Piece::Near(from) => {
                    // SAFETY: `from` is valid for `n` bytes (`pieces`); a buffer of
                    // ours never lies in mapped memory.
                    unsafe { std::ptr::copy(from.as_ptr(), to.as_mut_ptr(), n) };
                    true
                }
                Piece::Far(memory, iova) => memory.read(iova, to),
            }
        })
    }

    fn write(&self, iova: u64, data: &[u8]) -> Result<(), DmaFault> {
        self.pieces(iova, data.len(), true, |to, offset, n| {
            let from = &data[offset..offset + n];
            match to {
                Piece::Near(to) => {
                    // SAFETY: `to` is valid for `n` bytes (`pieces`), `from` has `n`.
                    unsafe { copy_in(to, from) };
                    true
                }
                Piece::Far(memory, iova) => memory.write(iova, from),
            }
        })
    }
}

/// Copies to mapped memory, small aligned pieces word by word.
///
/// # Safety
/// `to` is valid for writes of as many bytes, and others touch it through raw pointers
/// only.
unsafe fn copy_in(to: NonNull<u8>, from: &[u8]) {
    let n = from.len();
    if n <= WORDWISE_MAX && n.is_multiple_of(8) && to.addr().get().is_multiple_of(8) {
        for (i, word) in from.chunks_exact(8).enumerate() {
            let value = u64::from_ne_bytes(word.try_into().unwrap_or_default());
            // SAFETY: valid for `n` bytes, says the caller, and aligned to 8, just tested.
            let target = unsafe { AtomicU64::from_ptr(to.as_ptr().cast::<u64>().add(i)) };
            // The words before this one are visible with it: the phase
            // bit stands in the last word of a completion.
            target.store(value, Ordering::Release);
        }
    } else {
        // SAFETY: as the caller says; `from` has `n` bytes.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), n) }
    }
}

/// Timing of a root complex. The reset values are those of PCI Express 3.0 x2
/// behind a server's memory, at a clock of 125 MHz.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RootComplexConfig {
    /// Ticks from a read request to its data, unloaded.
    pub read_latency: Ticks,
    /// Ticks from a posted write to its landing; at most `read_latency`.
    pub write_latency: Ticks,
    /// Bytes per tick in each direction.
    pub bytes_per_tick: f64,
    /// Bytes a packet costs beside its data.
    pub packet_overhead: u32,
    /// Read requests outstanding at most.
    pub outstanding: usize,
    /// Reads that fail although mapped, per million (fault injection).
    pub read_faults_per_million: u32,
    /// Seed of the fault injection.
    pub seed: u64,
}

impl Default for RootComplexConfig {
    fn default() -> Self {
        RootComplexConfig {
            read_latency: Ticks(60),
            write_latency: Ticks(30),
            bytes_per_tick: 15.75,
            packet_overhead: 20,
            outstanding: 64,
            read_faults_per_million: 0,
            seed: 1,
        }
    }
}

/// What a root complex has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RootComplexStats {
    /// Read requests.
    pub read_requests: u64,
    /// Bytes asked for by them.
    pub read_bytes: u64,
    /// Write requests.
    pub write_requests: u64,
    /// Bytes they carried.
    pub write_bytes: u64,
    /// Reads that met an unmapped address, or were made to fail.
    pub read_faults: u64,
    /// Writes that met an address not mapped for writing; dropped.
    pub write_faults: u64,
    /// Interrupts that landed.
    pub interrupts: u64,
    /// Requests of a device that may not be bus master; they came to nothing.
    pub not_master: u64,
}

/// What a device posted, as [`RootComplex::record`] keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// A write.
    Write {
        /// First byte.
        iova: u64,
        /// Bytes.
        bytes: usize,
    },
    /// An interrupt.
    Interrupt(u16),
}

enum Posted {
    Write { iova: u64, data: Vec<u8> },
    Interrupt(u16),
}

/// Host memory with latency and bandwidth.
pub struct RootComplex {
    memory: HostMemory,
    config: RootComplexConfig,
    stats: RootComplexStats,
    /// Ticks a byte takes, with [`FRACTION`] fraction bits.
    ticks_per_byte: u64,
    /// When the read (write) direction is free again, with fraction bits.
    read_free: u128,
    write_free: u128,
    /// When the data of the last `outstanding` requests arrived.
    outstanding: VecDeque<u64>,
    posted: VecDeque<(Ticks, Posted)>,
    /// Buffers of landed writes, for the next ones.
    pool: Vec<Vec<u8>>,
    /// Vectors that interrupted and were not taken yet, each once.
    interrupts: Vec<u16>,
    last_fault: Option<DmaFault>,
    /// Whether the device may issue requests.
    bus_master: bool,
    /// Interrupts that will vanish (fault injection).
    lose_interrupts: u32,
    record: Option<Vec<(Ticks, Recorded)>>,
    rng: Pcg64Mcg,
}

impl RootComplex {
    /// A root complex without mappings.
    pub fn new(config: RootComplexConfig) -> RootComplex {
        let ticks_per_byte = if config.bytes_per_tick > 0.0 {
            ((1u64 << FRACTION) as f64 / config.bytes_per_tick) as u64
        } else {
            0
        };
        RootComplex {
            memory: HostMemory::default(),
            stats: RootComplexStats::default(),
            ticks_per_byte,
            read_free: 0,
            write_free: 0,
            outstanding: VecDeque::new(),
            posted: VecDeque::new(),
            pool: Vec::new(),
            interrupts: Vec::new(),
            last_fault: None,
            bus_master: true,
            lose_interrupts: 0,
            record: None,
            rng: Pcg64Mcg::seed_from_u64(config.seed),
            config,
        }
    }

    /// The mappings.
    pub fn memory(&self) -> &HostMemory {
        &self.memory
    }

    /// See [`HostMemory::map`].
    ///
    /// # Errors
    /// As [`HostMemory::map`].
    ///
    /// # Safety
    /// As [`HostMemory::map`].
    pub unsafe fn map(
        &mut self,
        memory: NonNull<u8>,
        bytes: u64,
        iova: u64,
        access: impl Into<Access>,
    ) -> Result<(), BusError> {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { self.memory.map(memory, bytes, iova, access) }
    }

    /// See [`HostMemory::map_far`].
    ///
    /// # Errors
    /// As [`HostMemory::map`].
    pub fn map_far(
        &mut self,
        memory: Arc<dyn FarMemory>,
        bytes: u64,
        iova: u64,
        access: Access,
    ) -> Result<(), BusError> {
        self.memory.map_far(memory, bytes, iova, access)
    }

    /// Removes a mapping. Writes under way land first.
    ///
    /// # Errors
    /// As [`HostMemory::unmap`].
    pub fn unmap(&mut self, iova: u64, bytes: u64) -> Result<(), BusError> {
        self.land_all();
        self.memory.unmap(iova, bytes)
    }

    /// Removes every mapping inside the range. Writes under way land first.
    pub fn unmap_inside(&mut self, iova: u64, bytes: u64) -> usize {
        self.land_all();
        self.memory.unmap_inside(iova, bytes)
    }

    /// Whether the device may issue requests from now on (it may at first). Reads of one
    /// that may not fail, its writes vanish; what it had posted before lands.
    pub fn set_bus_master(&mut self, on: bool) {
        self.bus_master = on;
    }

    /// The next `count` interrupts vanish on their way (fault injection).
    pub fn lose_interrupts(&mut self, count: u32) {
        self.lose_interrupts = count;
    }

    /// What was counted.
    pub fn stats(&self) -> RootComplexStats {
        self.stats
    }

    /// From now on what is posted is recorded, with the ticks of posting and in order.
    /// Returns what was recorded since the last call.
    pub fn record(&mut self) -> Vec<(Ticks, Recorded)> {
        self.record.replace(Vec::new()).unwrap_or_default()
    }

    /// The last fault.
    pub fn last_fault(&self) -> Option<DmaFault> {
        self.last_fault
    }

    /// When the next posted write or interrupt lands.
    pub fn next_event(&self) -> Option<Ticks> {
        self.posted.front().map(|(due, _)| *due)
    }

    /// Lands what is due at `now`.
    pub fn settle(&mut self, now: Ticks) {
        while self.posted.front().is_some_and(|(due, _)| *due <= now) {
            self.land_one();
        }
    }

    /// Lands everything that is under way.
    pub fn land_all(&mut self) {
        while !self.posted.is_empty() {
            self.land_one();
        }
    }

    /// Vectors that interrupted since the last call, each once, moved to `out`.
    /// Returns whether there were any.
    pub fn take_interrupts(&mut self, out: &mut Vec<u16>) -> bool {
        let any = !self.interrupts.is_empty();
        out.append(&mut self.interrupts);
        any
    }

    /// Whether an interrupt landed that was not taken.
    pub fn interrupt_pending(&self) -> bool {
        !self.interrupts.is_empty()
    }

    fn land_one(&mut self) {
        match self.posted.pop_front() {
            Some((_, Posted::Write { iova, data })) => {
                if let Err(fault) = self.memory.write(iova, &data) {
                    self.stats.write_faults += 1;
                    self.last_fault = Some(fault);
                }
                self.pool.push(data);
            }
            Some((_, Posted::Interrupt(_))) if self.lose_interrupts > 0 => {
                self.lose_interrupts -= 1;
            }
            Some((_, Posted::Interrupt(vector))) => {
                self.stats.interrupts += 1;
                if !self.interrupts.contains(&vector) {
                    self.interrupts.push(vector);
                }
            }
            None => {}
        }
    }

    /// Moves `free` on by one packet of `bytes` that may start at `start`;
    /// returns the tick at which it is over, rounded up.
    fn occupy(&self, free: u128, start: u64, bytes: usize) -> (u128, Ticks) {
        let bytes = bytes as u128 + u128::from(self.config.packet_overhead);
        let free =
            free.max(u128::from(start) << FRACTION) + bytes * u128::from(self.ticks_per_byte);
        let tick = (free + ((1 << FRACTION) - 1)) >> FRACTION;
        (free, Ticks(tick as u64))
    }

    fn post(&mut self, now: Ticks, bytes: usize, what: Posted) {
        let start = now.0 + self.config.write_latency.0;
        let (free, due) = self.occupy(self.write_free, start, bytes);
        self.write_free = free;
        self.posted.push_back((due, what));
    }
}

impl MemoryPort for RootComplex {
    fn read_request(&mut self, now: Ticks, _iova: u64, bytes: usize) -> Ticks {
        self.stats.read_requests += 1;
        self.stats.read_bytes += bytes as u64;
        let mut issue = now.0;
        if self.outstanding.len() >= self.config.outstanding.max(1)
            && let Some(freed) = self.outstanding.pop_front()
        {
            issue = issue.max(freed);
        }
        let start = issue + self.config.read_latency.0;
        let (free, due) = self.occupy(self.read_free, start, bytes);
        self.read_free = free;
        self.outstanding.push_back(due.0);
        due
    }

    fn read_data(&mut self, now: Ticks, iova: u64, out: &mut [u8]) -> Result<(), DmaFault> {
        // Writes posted at least a write latency before the request have landed
        // by now; those posted later were not passed by it.
        self.settle(now);
        let injected = self.config.read_faults_per_million > 0
            && self.rng.random_range(0..1_000_000) < self.config.read_faults_per_million;
        self.stats.not_master += u64::from(!self.bus_master);
        let result = if injected || !self.bus_master {
            Err(DmaFault {
                iova,
                bytes: out.len(),
                write: false,
            })
        } else {
            self.memory.read(iova, out)
        };
        if let Err(fault) = result {
            self.stats.read_faults += 1;
            self.last_fault = Some(fault);
        }
        result
    }

    fn write(&mut self, now: Ticks, iova: u64, data: &[u8]) {
        if !self.bus_master {
            self.stats.not_master += 1;
            return;
        }
        self.stats.write_requests += 1;
        self.stats.write_bytes += data.len() as u64;
        if let Some(record) = &mut self.record {
            let bytes = data.len();
            record.push((now, Recorded::Write { iova, bytes }));
        }
        let mut buffer = self.pool.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(data);
        self.post(now, data.len(), Posted::Write { iova, data: buffer });
    }

    fn interrupt(&mut self, now: Ticks, vector: u16) {
        if let Some(record) = &mut self.record {
            record.push((now, Recorded::Interrupt(vector)));
        }
        self.post(now, 4, Posted::Interrupt(vector));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page-aligned memory of `pages` pages for tests.
    fn pages(pages: usize) -> (Vec<u64>, NonNull<u8>) {
        let mut v = vec![0u64; pages * 512];
        let p = NonNull::new(v.as_mut_ptr().cast::<u8>()).unwrap();
        (v, p)
    }

    #[test]
    fn ranges_span_mappings_and_faults_touch_nothing() {
        let (_keep_a, a) = pages(1);
        let (_keep_b, b) = pages(1);
        let mut m = HostMemory::default();
        // SAFETY: both outlive `m`.
        unsafe {
            m.map(b, PAGE, 0x2000, DmaPermission::ReadWrite).unwrap();
            m.map(a, PAGE, 0x1000, DmaPermission::ReadWrite).unwrap();
            assert!(m.map(a, PAGE, 0x1000, DmaPermission::Read).is_err());
            assert!(m.map(a, 2 * PAGE, 0x0, DmaPermission::Read).is_err());
            assert!(m.map(a, 100, 0x8000, DmaPermission::Read).is_err());
        }
        let data: Vec<u8> = (0..100).collect();
        m.write(0x2000 - 50, &data).unwrap();
        let mut out = [0; 100];
        m.read(0x2000 - 50, &mut out).unwrap();
        assert_eq!(&out[..], &data[..]);
        assert!(m.write(0x3000 - 8, &[0xff; 16]).is_err());
        m.read(0x3000 - 8, &mut out[..8]).unwrap();
        assert_eq!(out[..8], [0; 8], "a write that fails touches nothing");
        assert!(m.read(u64::MAX - 4, &mut out[..16]).is_err());
        assert!(m.read(0xfff, &mut out[..2]).is_err());
        m.unmap(0x1000, PAGE).unwrap();
        assert!(m.unmap(0x1000, PAGE).is_err());
        assert!(m.read(0x1ff8, &mut out[..8]).is_err());
    }

    #[test]
    fn read_only_memory_is_not_written() {
        let (keep, a) = pages(1);
        let mut m = HostMemory::default();
        // SAFETY: `keep` outlives `m`.
        unsafe { m.map(a, PAGE, 0, DmaPermission::Read).unwrap() };
        assert!(m.write(0, &[1; 8]).is_err());
        assert!(m.read(0, &mut [0; 8]).is_ok());
        drop(keep);
    }

    #[test]
    fn reads_take_their_time_and_writes_land_before_unmap() {
        let (_keep, a) = pages(1);
        let mut rc = RootComplex::new(RootComplexConfig {
            read_latency: Ticks(100),
            write_latency: Ticks(50),
            bytes_per_tick: 8.0,
            packet_overhead: 0,
            outstanding: 2,
            ..RootComplexConfig::default()
        });
        // SAFETY: `_keep` outlives `rc`.
        unsafe { rc.map(a, PAGE, 0, DmaPermission::ReadWrite).unwrap() };
        assert_eq!(rc.read_request(Ticks(0), 0, 512), Ticks(164));
        assert_eq!(rc.read_request(Ticks(0), 512, 512), Ticks(228));
        // The third waits for the first one's tag.
        assert_eq!(rc.read_request(Ticks(0), 1024, 512), Ticks(328));
        rc.write(Ticks(0), 8, &[7; 8]);
        rc.interrupt(Ticks(0), 3);
        assert_eq!(rc.next_event(), Some(Ticks(51)));
        rc.settle(Ticks(51));
        let mut out = [0; 8];
        rc.memory().read(8, &mut out).unwrap();
        assert_eq!(out, [7; 8]);
        assert!(!rc.interrupt_pending());
        rc.write(Ticks(60), 16, &[9; 8]);
        rc.unmap(0, PAGE).unwrap();
        // SAFETY: `_keep` is alive.
        assert_eq!(unsafe { a.add(16).read_volatile() }, 9);
        assert!(rc.interrupt_pending());
        rc.write(Ticks(70), 16, &[1; 8]);
        rc.land_all();
        assert_eq!(rc.stats().write_faults, 1);
        // SAFETY: as above.
        assert_eq!(unsafe { a.add(16).read_volatile() }, 9);
    }

    #[test]
    fn a_device_that_is_no_bus_master_reads_and_writes_nothing() {
        let (_keep, a) = pages(1);
        let mut rc = RootComplex::new(RootComplexConfig::default());
        // SAFETY: `_keep` outlives `rc`.
        unsafe { rc.map(a, PAGE, 0, DmaPermission::ReadWrite).unwrap() };
        rc.write(Ticks(0), 0, &[1; 8]);
        rc.set_bus_master(false);
        rc.write(Ticks(0), 0, &[2; 8]);
        rc.land_all();
        // SAFETY: `_keep` is alive.
        assert_eq!(unsafe { a.read_volatile() }, 1, "what was posted lands");
        let due = rc.read_request(Ticks(0), 0, 8);
        assert!(rc.read_data(due, 0, &mut [0; 8]).is_err());
        assert_eq!(rc.stats().not_master, 2);
        rc.set_bus_master(true);
        assert!(rc.read_data(due, 0, &mut [0; 8]).is_ok());
    }
}
