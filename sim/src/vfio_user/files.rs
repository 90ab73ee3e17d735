// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that a client gave as memory: each is mapped once, whatever parts of it become
//! DMA mappings.
//!
//! A file that its owner could shorten would take the ground from under a mapping, and
//! the next access would end this process. So a file must be sealed against shrinking
//! (memfd_create, F_SEAL_SHRINK; QEMU's memory-backend-memfd does so by itself).

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{OFlags, SealFlags, fcntl_get_seals, fcntl_getfl, fstat};
use tsonic_vfio_user::Errno;

/// Files mapped at once by a client.
const FILES_MAX: usize = 4096;

/// A file as memory.
#[derive(Debug)]
pub struct FileMap {
    map: MmapRaw,
    writable: bool,
}

impl FileMap {
    /// Address of `bytes` bytes at `offset`; `None` when they are not all there.
    pub fn part(&self, offset: u64, bytes: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        if end > self.map.len() as u64 {
            return None;
        }
        // SAFETY: inside the mapping, just tested.
        NonNull::new(unsafe { self.map.as_mut_ptr().add(offset as usize) })
    }

    /// Whether its pages may be written.
    pub const fn is_writable(&self) -> bool {
        self.writable
    }
}

/// The files of a client, by device and inode.
#[derive(Debug, Default)]
pub struct Files {
    maps: HashMap<(u64, u64, bool), Weak<FileMap>>,
}

impl Files {
    /// The map of a file, which reaches to its present end at least.
    pub fn map(&mut self, file: &OwnedFd) -> Result<Arc<FileMap>, Errno> {
        let stat = fstat(file).map_err(|e| Errno::of(&e.into()))?;
        let sealed = fcntl_get_seals(file).is_ok_and(|s| s.contains(SealFlags::SHRINK));
        if !sealed {
            tracing::warn!(
                "a file was offered as memory that is not sealed against shrinking; create it with memfd_create and add F_SEAL_SHRINK"
            );
            return Err(Errno::EACCES);
        }
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        let Ok(len) = usize::try_from(bytes) else {
            return Err(Errno::EINVAL);
        };
        if len == 0 {
            return Err(Errno::EINVAL);
        }
        let mode = fcntl_getfl(file).map_err(|e| Errno::of(&e.into()))?;
        let writable = mode.contains(OFlags::RDWR);
        let key = (stat.st_dev, stat.st_ino, writable);
        let known = self.maps.get(&key).and_then(Weak::upgrade);
        if let Some(map) = known.filter(|m| m.map.len() >= len) {
            return Ok(map);
        }
        self.maps.retain(|_, m| m.strong_count() > 0);
        if self.maps.len() >= FILES_MAX {
            return Err(Errno::ENOMEM);
        }
        let mut options = MmapOptions::new();
        options.len(len);
        let map = match writable {
            true => options.map_raw(file),
            false => options.map_raw_read_only(file),
        };
        let map = map.map_err(|e: io::Error| Errno::of(&e))?;
        let map = Arc::new(FileMap { map, writable });
        self.maps.insert(key, Arc::downgrade(&map));
        Ok(map)
    }
}
