// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames as bytes and as meaning. A `parse` takes any bytes and never panics:
//! it answers with a typed header and where the payload lies, or `None` when the
//! bytes are no valid header. An `emit` writes a header into a buffer that is
//! long enough (a caller's duty, checked by slicing).
//!
//! All multi-byte fields on the wire are big endian. Checksums are those of RFC
//! 1071; a parse does not check them unless it says so.

pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ip;
pub mod ndp;
pub mod tcp;

/// Big-endian `u16` at `at`; `None` beyond the end.
pub(crate) fn be16(b: &[u8], at: usize) -> Option<u16> {
    let s = b.get(at..at + 2)?;
    Some(u16::from_be_bytes([s[0], s[1]]))
}

/// Big-endian `u32` at `at`; `None` beyond the end.
pub(crate) fn be32(b: &[u8], at: usize) -> Option<u32> {
    let s = b.get(at..at + 4)?;
    Some(u32::from_be_bytes([s[0], s[1], s[2], s[3]]))
}

#[inline]
pub(crate) fn put16(b: &mut [u8], at: usize, v: u16) {
    b[at..at + 2].copy_from_slice(&v.to_be_bytes());
}

#[inline]
pub(crate) fn put32(b: &mut [u8], at: usize, v: u32) {
    b[at..at + 4].copy_from_slice(&v.to_be_bytes());
}
