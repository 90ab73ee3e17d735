// SPDX-License-Identifier: MIT OR Apache-2.0
//! Page-aligned memory that a device may be given: owned by this process, touched
//! through raw pointers only.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use crate::root_complex::PAGE;

/// Zeroed whole pages.
pub struct Pages {
    memory: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned, and reached only through copies made under a
// reference to this value or by a device to which it was mapped.
unsafe impl Send for Pages {}

impl Pages {
    /// At least `bytes` bytes; `None` when that is nothing or more than there can be.
    pub fn new(bytes: usize) -> Option<Pages> {
        let page = PAGE as usize;
        let bytes = bytes.checked_next_multiple_of(page)?;
        let layout = Layout::from_size_align(bytes, page).ok()?;
        if bytes == 0 {
            return None;
        }
        // SAFETY: the layout is not of size 0.
        let memory = unsafe { alloc_zeroed(layout) };
        match NonNull::new(memory) {
            Some(memory) => Some(Pages { memory, layout }),
            None => handle_alloc_error(layout),
        }
    }

    /// Start of the memory.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.memory
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.layout.size()
    }

    /// Never.
    pub fn is_empty(&self) -> bool {
        self.layout.size() == 0
    }

    /// Copies out `out.len()` bytes from `offset`. `false` when they are not inside.
    #[must_use]
    pub fn read(&self, offset: usize, out: &mut [u8]) -> bool {
        if !self.inside(offset, out.len()) {
            return false;
        }
        // SAFETY: the range is inside the allocation, `out` is not part of it.
        unsafe {
            std::ptr::copy(
                self.memory.as_ptr().add(offset),
                out.as_mut_ptr(),
                out.len(),
            );
        }
        true
    }

    /// Copies `data` to `offset`. `false` when it does not fit there.
    #[must_use]
    pub fn write(&self, offset: usize, data: &[u8]) -> bool {
        if !self.inside(offset, data.len()) {
            return false;
        }
        // SAFETY: the range is inside the allocation, `data` is not part of it.
        unsafe { std::ptr::copy(data.as_ptr(), self.memory.as_ptr().add(offset), data.len()) }
        true
    }

    fn inside(&self, offset: usize, bytes: usize) -> bool {
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= self.len())
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout. Whoever mapped it to
        // a device has vouched that the mapping does not outlive it.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold() {
        let p = Pages::new(1).unwrap();
        assert_eq!(p.len(), 4096);
        assert!(p.write(4090, &[1; 6]));
        assert!(!p.write(4091, &[1; 6]));
        let mut out = [0; 6];
        assert!(p.read(4090, &mut out));
        assert_eq!(out, [1; 6]);
        assert!(!p.read(usize::MAX, &mut out));
        assert!(Pages::new(0).is_none() && Pages::new(usize::MAX).is_none());
    }
}
