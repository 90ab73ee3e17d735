// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fields in the order in which they stand. Numbers are in the byte order of the
//! machine: both ends run on it.

use crate::error::WireError;

/// Takes fields from the front of untrusted bytes.
pub struct Fields<'a> {
    what: &'static str,
    all: usize,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub const fn new(what: &'static str, bytes: &'a [u8]) -> Fields<'a> {
        Fields {
            what,
            all: bytes.len(),
            rest: bytes,
        }
    }

    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], WireError> {
        match self.rest.split_at_checked(n) {
            Some((front, rest)) => {
                self.rest = rest;
                Ok(front)
            }
            None => Err(WireError::Short {
                what: self.what,
                has: self.all,
                needs: (self.all - self.rest.len()).saturating_add(n),
            }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut out = [0; N];
        out.copy_from_slice(self.bytes(N)?);
        Ok(out)
    }

    pub fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_ne_bytes)
    }

    /// All that is left.
    pub const fn rest(&mut self) -> &'a [u8] {
        let rest = self.rest;
        self.rest = &[];
        rest
    }

    /// Nothing may be left.
    pub const fn end(self) -> Result<(), WireError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(WireError::Trailing {
                what: self.what,
                bytes: self.rest.len(),
            })
        }
    }
}

/// A bit, or none.
pub const fn flag(on: bool, bit: u32) -> u32 {
    if on { bit } else { 0 }
}

/// Appends fields.
pub trait Put {
    fn u16(&mut self, v: u16);
    fn u32(&mut self, v: u32);
    fn u64(&mut self, v: u64);
}

impl Put for Vec<u8> {
    fn u16(&mut self, v: u16) {
        self.extend_from_slice(&v.to_ne_bytes());
    }
    fn u32(&mut self, v: u32) {
        self.extend_from_slice(&v.to_ne_bytes());
    }
    fn u64(&mut self, v: u64) {
        self.extend_from_slice(&v.to_ne_bytes());
    }
}
