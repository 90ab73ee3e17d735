// SPDX-License-Identifier: MIT OR Apache-2.0
//! Memory that driver and device share.
//!
//! A [`DmaRegion`] owns a mapping of whole pages (huge ones when there are any) of a
//! memory file, so that a device in another process can be given it. The file is
//! sealed: it can neither shrink under that process nor grow. A region is carved into [`DmaSlice`]s, exclusive handles to disjoint
//! ranges; slices keep their region alive.
//!
//! # Rules
//!
//! * No Rust reference into a region exists, but for the moment of an access to
//!   one atomic word; all else is by raw pointer.
//! * Words go by atomic loads and stores of 8 bytes, little endian. The device is
//!   an agent outside of the program: relaxed atomics make each word whole and
//!   keep the compiler from caching, repeating or tearing it. Order comes from one
//!   acquire load (the word with the phase bit, which the device writes last) on
//!   the way in, and from one release fence before the doorbell's register write
//!   on the way out.
//! * Bulk copies in are plain copies, and allowed only into memory that the device
//!   may not write. Copies out of memory that the device may write go by words.

use crate::error::DriverError;
use memmap2::{Advice, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::debug;
use tsonic_pci::{DmaBuffer, DmaPermission};

/// Bytes of a page; mappings are multiples of it.
pub const PAGE: usize = 4_096;
/// Bytes of a huge page.
const HUGE_PAGE: usize = 1 << 21;
/// Bytes of a word.
const WORD: usize = 8;

/// A mapping of a memory file that the device may use under `iova`.
#[derive(Debug)]
pub struct DmaRegion {
    map: MmapRaw,
    file: OwnedFd,
    iova: u64,
    permission: DmaPermission,
}

impl DmaRegion {
    /// Zeroed memory of at least `bytes` bytes, in huge pages if it is large
    /// enough and there are any. Not yet mapped for the device.
    ///
    /// # Errors
    /// [`DriverError::Memory`].
    pub fn allocate(
        bytes: usize,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<DmaRegion, DriverError> {
        let (map, file) =
            map_pages(bytes.max(1)).map_err(|source| DriverError::Memory { bytes, source })?;
        // A child's write must not move our pages away from under the device.
        if let Err(e) = map.advise(Advice::DontFork) {
            debug!("DMA memory stays in forked children: {e}");
        }
        Ok(DmaRegion {
            map,
            file,
            iova,
            permission,
        })
    }

    /// What a function is given to map.
    pub fn buffer(&self) -> DmaBuffer<'_> {
        DmaBuffer {
            memory: self.memory(),
            bytes: self.bytes(),
            file: Some((self.file.as_fd(), 0)),
        }
    }

    /// First byte.
    pub fn memory(&self) -> NonNull<u8> {
        // A mapping is never at null.
        NonNull::new(self.map.as_mut_ptr()).unwrap_or(NonNull::dangling())
    }

    /// Bytes, a multiple of [`PAGE`].
    pub fn bytes(&self) -> usize {
        self.map.len()
    }

    /// First I/O virtual address.
    pub const fn iova(&self) -> u64 {
        self.iova
    }

    /// What the device may do.
    pub const fn permission(&self) -> DmaPermission {
        self.permission
    }
}

fn map_pages(bytes: usize) -> io::Result<(MmapRaw, OwnedFd)> {
    if bytes >= HUGE_PAGE {
        match map_file(bytes, HUGE_PAGE, MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB) {
            Ok(both) => return Ok(both),
            Err(e) => debug!("no huge pages for {bytes} bytes: {e}"),
        }
    }
    let (map, file) = map_file(bytes, PAGE, MemfdFlags::empty())?;
    if bytes >= HUGE_PAGE
        && let Err(e) = map.advise(Advice::HugePage)
    {
        debug!("no transparent huge pages: {e}");
    }
    Ok((map, file))
}

/// A memory file of whole pages of `page` bytes, mapped.
fn map_file(bytes: usize, page: usize, flags: MemfdFlags) -> io::Result<(MmapRaw, OwnedFd)> {
    let len = bytes
        .checked_next_multiple_of(page)
        .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("tsonic-dma", flags)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let mut options = MmapOptions::new();
    // Huge pages that are not there would be missed only at the first touch, which
    // then kills the process: touch them now, while it is an error.
    if page == HUGE_PAGE {
        options.populate();
    }
    let map = options.len(len).map_raw(&file)?;
    Ok((map, file))
}

/// Hands out disjoint ranges of a region.
#[derive(Debug)]
pub struct Carver {
    region: Arc<DmaRegion>,
    next: usize,
}

impl Carver {
    /// Ranges of `region`, from its start on.
    ///
    /// # Safety
    /// This is the only carver that the region ever has, and nobody else reaches
    /// its memory.
    pub(crate) unsafe fn new(region: Arc<DmaRegion>) -> Carver {
        Carver { region, next: 0 }
    }

    /// The next `bytes` bytes, aligned to a cache line.
    ///
    /// # Panics
    /// When the region is too small.
    pub(crate) fn take(&mut self, bytes: usize) -> DmaSlice {
        let start = self.next;
        let end = start + bytes;
        assert!(end <= self.region.bytes(), "carved beyond the region");
        self.next = end.next_multiple_of(Carver::ALIGN);
        DmaSlice {
            // SAFETY: `start <= end <= bytes` of the mapping.
            memory: unsafe { self.region.memory().add(start) },
            iova: self.region.iova() + start as u64,
            bytes,
            region: Arc::clone(&self.region),
        }
    }

    /// Alignment of slices.
    const ALIGN: usize = 64;

    /// Bytes of a region for slices of those sizes.
    pub(crate) fn bytes_for(slices: &[usize]) -> usize {
        slices
            .iter()
            .map(|b| b.next_multiple_of(Carver::ALIGN))
            .sum()
    }
}

/// An exclusive handle to a range of a region. Offsets are bytes from its start.
///
/// # Panics
/// Every access beyond the range, or of a word that is not aligned, panics: the
/// driver computes offsets itself and masks or checks whatever a device said.
#[derive(Debug)]
pub struct DmaSlice {
    memory: NonNull<u8>,
    iova: u64,
    bytes: usize,
    region: Arc<DmaRegion>,
}

// SAFETY: the slice is the only handle to its range, and the region that it keeps
// alive is a plain mapping, tied to no thread. `&DmaSlice` only loads atomically,
// or copies from memory that nobody writes while the slice is borrowed.
unsafe impl Send for DmaSlice {}
// SAFETY: as above.
unsafe impl Sync for DmaSlice {}

impl DmaSlice {
    /// Address of the first byte for the device.
    pub const fn iova(&self) -> u64 {
        self.iova
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Whether it has no bytes.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    #[inline]
    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let fits = offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.bytes);
        assert!(
            fits,
            "{bytes} bytes at {offset} of a slice of {}",
            self.bytes
        );
        // SAFETY: `offset` lies within the slice, hence within its mapping.
        unsafe { self.memory.as_ptr().add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(WORD), "word at {offset}");
        // SAFETY: in bounds (`at`), aligned (slices start at multiples of 64), and
        // alive as long as the slice. Only atomics and copies under `&mut self`
        // touch it from this program; an `AtomicU64` may change at any time, which
        // is what the device does. So this reference makes no promise that the
        // device could break.
        unsafe { AtomicU64::from_ptr(self.at(offset, WORD).cast()) }
    }

    /// `n` words from `offset` on.
    #[inline]
    fn words(&self, offset: usize, n: usize) -> &[AtomicU64] {
        assert!(offset.is_multiple_of(WORD), "word at {offset}");
        // SAFETY: as for `word`; all of them are in bounds (`at`).
        unsafe { std::slice::from_raw_parts(self.at(offset, n * WORD).cast(), n) }
    }

    /// Loads a word.
    pub fn load(&self, offset: usize, order: Ordering) -> u64 {
        u64::from_le(self.word(offset).load(order))
    }

    /// Loads the `N` words from `offset` on if `wanted` says so of the last one,
    /// which is loaded with acquire ordering and before the others.
    #[inline]
    pub fn load_if<const N: usize>(
        &self,
        offset: usize,
        wanted: impl FnOnce(u64) -> bool,
    ) -> Option<[u64; N]> {
        let (last, others) = self.words(offset, N).split_last()?;
        let last = u64::from_le(last.load(Ordering::Acquire));
        if !wanted(last) {
            return None;
        }
        let mut out = [last; N];
        for (to, at) in out.iter_mut().zip(others) {
            *to = u64::from_le(at.load(Ordering::Relaxed));
        }
        Some(out)
    }

    /// Stores words one after another, without order among them.
    #[inline]
    pub fn store<const N: usize>(&mut self, offset: usize, words: &[u64; N]) {
        for (to, w) in self.words(offset, N).iter().zip(words) {
            to.store(w.to_le(), Ordering::Relaxed);
        }
    }

    /// Zeroes the range by words (a rest of less than a word stays).
    pub fn clear(&mut self) {
        for i in 0..self.bytes / WORD {
            self.word(i * WORD).store(0, Ordering::Relaxed);
        }
    }

    /// Copies `from` to `offset`.
    ///
    /// # Panics
    /// Also when the device may write the memory.
    #[inline]
    pub fn copy_in(&mut self, offset: usize, from: &[u8]) {
        assert!(
            !self.region.permission().writes(),
            "plain copy into memory of the device"
        );
        let to = self.at(offset, from.len());
        // SAFETY: `to` has room for `from` (`at`); `from` is a Rust slice, and no
        // reference into regions exists, so they do not overlap. The device only
        // reads; should it read early it sees a mixture, which harms nobody here.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }

    /// Copies from `offset`, which is a multiple of 8, to all of `to`.
    #[inline]
    pub fn copy_out(&self, offset: usize, to: &mut [u8]) {
        if !self.region.permission().writes() {
            let from = self.at(offset, to.len());
            // SAFETY: `from` has as many bytes as `to` (`at`), they cannot overlap
            // (as in `copy_in`), and neither the device (permission) nor this
            // program (`&self` excludes `copy_in` and `store`) writes meanwhile.
            unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
            return;
        }
        // Slices are carved in multiples of a cache line, buffers in multiples of a
        // word: the rest of the last word is there.
        let from = self.words(offset, to.len().div_ceil(WORD));
        let (whole, rest) = to.as_chunks_mut::<WORD>();
        let words = whole.len();
        // By fours: a loop of atomics is not unrolled by the compiler.
        let (fours, ones) = whole.as_chunks_mut::<4>();
        let (from_fours, from_ones) = from[..words].as_chunks::<4>();
        let copy = |w: &mut [u8; WORD], at: &AtomicU64| {
            *w = at.load(Ordering::Relaxed).to_ne_bytes();
        };
        for ([a, b, c, d], [from_a, from_b, from_c, from_d]) in fours.iter_mut().zip(from_fours) {
            copy(a, from_a);
            copy(b, from_b);
            copy(c, from_c);
            copy(d, from_d);
        }
        for (w, at) in ones.iter_mut().zip(from_ones) {
            copy(w, at);
        }
        if let Some(at) = from.last()
            && !rest.is_empty()
        {
            let n = rest.len();
            rest.copy_from_slice(&at.load(Ordering::Relaxed).to_ne_bytes()[..n]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(bytes: usize, permission: DmaPermission) -> DmaSlice {
        let region = DmaRegion::allocate(bytes, 0x1000, permission).unwrap();
        // SAFETY: the only carver of a region of our own.
        unsafe { Carver::new(Arc::new(region)) }.take(bytes)
    }

    #[test]
    fn slices_are_disjoint_and_aligned() {
        let region = Arc::new(DmaRegion::allocate(1, 0x8000, DmaPermission::Read).unwrap());
        assert_eq!(region.bytes(), PAGE);
        // SAFETY: the only carver of a region of our own.
        let mut c = unsafe { Carver::new(region) };
        let mut a = c.take(100);
        let mut b = c.take(8);
        assert_eq!((a.iova(), b.iova()), (0x8000, 0x8080));
        a.copy_in(0, &[0xff; 100]);
        b.store(0, &[0x0102_0304_0506_0708]);
        let mut out = [0; 8];
        b.copy_out(0, &mut out);
        assert_eq!(out, [8, 7, 6, 5, 4, 3, 2, 1], "little endian");
        drop(a);
        assert_eq!(b.load(0, Ordering::Acquire), 0x0102_0304_0506_0708);
    }

    #[test]
    fn copies_out_of_device_memory_have_any_length() {
        let mut s = slice(64, DmaPermission::ReadWrite);
        for word in 0..8 {
            let bytes = std::array::from_fn(|i| 8 * word as u8 + i as u8);
            s.store(8 * word, &[u64::from_ne_bytes(bytes)]);
        }
        for n in 0..=64 {
            let mut out = vec![0; n];
            s.copy_out(0, &mut out);
            assert!(out.iter().enumerate().all(|(i, b)| *b == i as u8));
        }
        s.clear();
        assert_eq!(s.load(8, Ordering::Relaxed), 0);
    }

    #[test]
    fn memory_beyond_a_huge_page_is_had_with_or_without_them() {
        let mut s = slice(3 << 20, DmaPermission::Read);
        s.copy_in((3 << 20) - 1, &[9]);
        assert_eq!(s.len(), 3 << 20);
    }

    #[test]
    #[should_panic(expected = "of a slice of 64")]
    fn the_range_ends_where_it_ends() {
        slice(64, DmaPermission::ReadWrite).load(64, Ordering::Relaxed);
    }

    #[test]
    #[should_panic(expected = "memory of the device")]
    fn plain_copies_into_device_memory_are_refused() {
        slice(64, DmaPermission::ReadWrite).copy_in(0, &[1]);
    }
}
