// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device's doorbell pages, mapped ([`tsonic_vfio_user::shared`]).

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat};
use tsonic_regs::registers::{DOORBELL_BASE, DOORBELL_STRIDE, doorbell};
use tsonic_types::Ticks;
use tsonic_vfio_user::shared::DOZE;
use tsonic_vfio_user::{RegionInfo, SparseArea};

/// See the module.
#[derive(Debug)]
pub struct Pages {
    map: MmapRaw,
}

impl Pages {
    /// Maps the doorbell pages, if the device offers them.
    pub fn map(info: &RegionInfo, file: &OwnedFd) -> io::Result<Option<Pages>> {
        let ours = |a: &&SparseArea| {
            a.offset == DOORBELL_BASE as u64
                && a.bytes >= DOORBELL_STRIDE as u64
                && a.bytes.is_multiple_of(DOORBELL_STRIDE as u64)
        };
        let Some(area) = info.areas.iter().find(ours) else {
            return Ok(None);
        };
        let at = info.offset.checked_add(area.offset);
        let end = at.and_then(|at| at.checked_add(area.bytes));
        let (Some(at), Some(end)) = (at, end) else {
            return Ok(None);
        };
        // A file that could be shortened could end this process with an access.
        let sealed = fcntl_get_seals(file).is_ok_and(|s| s.contains(SealFlags::SHRINK));
        if !sealed || u64::try_from(fstat(file)?.st_size).unwrap_or(0) < end {
            return Ok(None);
        }
        let Ok(len) = usize::try_from(area.bytes) else {
            return Ok(None);
        };
        let map = MmapOptions::new().offset(at).len(len).map_raw(file)?;
        Ok(Some(Pages { map }))
    }

    fn word(&self, offset: usize) -> Option<&AtomicU32> {
        if !offset.is_multiple_of(4) || offset > self.map.len() - 4 {
            return None;
        }
        // SAFETY: inside the mapping and aligned, just tested; alive as long as `self`; an
        // atomic may be changed by anyone at any time.
        Some(unsafe { AtomicU32::from_ptr(self.map.as_mut_ptr().add(offset).cast()) })
    }

    /// Whether `offset` in BAR 0 is that of a tail that is mapped.
    #[inline]
    pub fn is_tail(&self, offset: u64) -> bool {
        let at = offset.wrapping_sub(DOORBELL_BASE as u64);
        let register = at % DOORBELL_STRIDE as u64;
        at < self.map.len() as u64
            && (register == doorbell::TX_TAIL.offset as u64
                || register == doorbell::RX_TAIL.offset as u64)
    }

    /// Stores the tail at `offset` in BAR 0. True: the device sleeps, and must be woken.
    #[inline]
    pub fn ring(&self, offset: u64, tail: u32) -> bool {
        let at = offset.wrapping_sub(DOORBELL_BASE as u64) as usize;
        let page = at - at % DOORBELL_STRIDE;
        let (Some(word), Some(doze)) = (self.word(at), self.word(page.wrapping_add(DOZE))) else {
            return false;
        };
        // Descriptors stored before are visible with it.
        word.store(tail, Ordering::Release);
        // The device says that it sleeps before it looks for the last time.
        fence(Ordering::SeqCst);
        doze.load(Ordering::Relaxed) != 0
    }

    /// The clock as the device last told it.
    pub fn clock(&self) -> Ticks {
        // SAFETY: a page is mapped at least (`map`); the offset is a multiple of 8 of it.
        let clock = unsafe {
            let at = self.map.as_mut_ptr().add(doorbell::CLOCK_LO.offset);
            AtomicU64::from_ptr(at.cast())
        };
        Ticks(u64::from_le(clock.load(Ordering::Acquire)))
    }
}

const _: () = assert!(doorbell::CLOCK_LO.offset.is_multiple_of(8));
