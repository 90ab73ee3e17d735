// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doorbell pages as memory that a client may map ([`tsonic_vfio_user::shared`]).
//!
//! The memory is of the client, too, who may write there whatever it likes: only single
//! atomic words of it are ever looked at. Each client has memory of its own, so that one
//! that kept its mapping cannot ring for the next.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use tsonic_regs::registers::{BAR0_BYTES, DOORBELL_BASE, DOORBELL_STRIDE, doorbell};
use tsonic_types::Ticks;
use tsonic_vfio_user::SparseArea;
use tsonic_vfio_user::shared::{DOZE, NO_DOORBELL};

/// See the module. The file is as long as BAR 0, so that an offset is one in both; only
/// the doorbell pages of it are mapped here and offered.
#[derive(Debug)]
struct Memory {
    file: OwnedFd,
    map: MmapRaw,
}

/// The pages of one NIC.
#[derive(Debug)]
pub struct Doorbells {
    memory: RwLock<Memory>,
    queues: usize,
}

impl Memory {
    fn new(queues: usize) -> io::Result<Memory> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("tsonic-doorbells", flags)?;
        ftruncate(&file, BAR0_BYTES as u64)?;
        fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        let map = MmapOptions::new()
            .offset(DOORBELL_BASE as u64)
            .len(queues * DOORBELL_STRIDE)
            .map_raw(&file)?;
        let memory = Memory { file, map };
        memory.clear(queues);
        Ok(memory)
    }

    fn at(&self, queue: usize, offset: usize) -> *mut u8 {
        let at = queue * DOORBELL_STRIDE + offset;
        assert!(at + 8 <= self.map.len(), "a word of the doorbell pages");
        // SAFETY: inside the mapping, just tested.
        unsafe { self.map.as_mut_ptr().add(at) }
    }

    fn word(&self, queue: usize, offset: usize) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4));
        // SAFETY: inside the mapping (`at`), aligned, alive as long as `self`; an atomic
        // may be changed by anyone at any time.
        unsafe { AtomicU32::from_ptr(self.at(queue, offset).cast()) }
    }

    fn clear(&self, queues: usize) {
        for q in 0..queues {
            for tail in [doorbell::TX_TAIL, doorbell::RX_TAIL] {
                self.word(q, tail.offset)
                    .store(NO_DOORBELL, Ordering::SeqCst);
            }
        }
    }
}

impl Doorbells {
    pub fn new(queues: u16) -> io::Result<Doorbells> {
        let queues = usize::from(queues).max(1);
        Ok(Doorbells {
            memory: RwLock::new(Memory::new(queues)?),
            queues,
        })
    }

    fn memory(&self) -> RwLockReadGuard<'_, Memory> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The part of BAR 0 that can be mapped.
    pub fn area(&self) -> SparseArea {
        SparseArea {
            offset: DOORBELL_BASE as u64,
            bytes: (self.queues * DOORBELL_STRIDE) as u64,
        }
    }

    /// The file behind it.
    pub fn file(&self) -> io::Result<OwnedFd> {
        self.memory().file.try_clone()
    }

    /// Fresh memory for the next client.
    pub fn renew(&self) {
        match Memory::new(self.queues) {
            Ok(fresh) => {
                *self.memory.write().unwrap_or_else(PoisonError::into_inner) = fresh;
            }
            Err(error) => {
                tracing::warn!(%error, "the next client shares the doorbell pages of the last");
                self.clear();
            }
        }
    }

    /// No doorbell is rung.
    pub fn clear(&self) {
        self.memory().clear(self.queues);
    }

    /// Whether a tail was stored that was not taken.
    pub fn is_rung(&self) -> bool {
        let memory = self.memory();
        (0..self.queues).any(|q| {
            [doorbell::TX_TAIL, doorbell::RX_TAIL]
                .iter()
                .any(|t| memory.word(q, t.offset).load(Ordering::Relaxed) != NO_DOORBELL)
        })
    }

    /// Takes the tails that were stored: `each` gets the offset in BAR 0 and the tail.
    pub fn take(&self, mut each: impl FnMut(u64, u32)) {
        let memory = self.memory();
        for q in 0..self.queues {
            for tail in [doorbell::TX_TAIL, doorbell::RX_TAIL] {
                let word = memory.word(q, tail.offset);
                if word.load(Ordering::Relaxed) == NO_DOORBELL {
                    continue;
                }
                // What the client stored before its tail is visible from here on.
                let value = word.swap(NO_DOORBELL, Ordering::AcqRel);
                if value != NO_DOORBELL {
                    let offset = DOORBELL_BASE + q * DOORBELL_STRIDE + tail.offset;
                    each(offset as u64, value);
                }
            }
        }
    }

    /// Stores the clock.
    pub fn publish(&self, now: Ticks) {
        let memory = self.memory();
        for q in 0..self.queues {
            let at = memory.at(q, doorbell::CLOCK_LO.offset);
            // SAFETY: inside the mapping (`at`), at a multiple of 8 of a page, alive as
            // long as the memory.
            let clock = unsafe { AtomicU64::from_ptr(at.cast()) };
            clock.store(now.0.to_le(), Ordering::Release);
        }
    }

    /// Says whether the device sleeps.
    pub fn doze(&self, asleep: bool) {
        let memory = self.memory();
        for q in 0..self.queues {
            memory.word(q, DOZE).store(asleep.into(), Ordering::SeqCst);
        }
    }
}

const _: () = assert!(doorbell::CLOCK_LO.offset.is_multiple_of(8));
