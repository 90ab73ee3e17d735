// SPDX-License-Identifier: MIT OR Apache-2.0
//! A frame between two hosts, without what nobody looks at.

/// Time in picoseconds since the clock's start: a byte at 100 Gb/s is 80 of them.
pub type Picos = u64;

/// Bytes of a frame that are kept: Ethernet, IPv4 and TCP headers, with all options.
const HEAD: usize = 96;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    /// Where it is now, its last byte arrives.
    pub at: Picos,
    /// Bytes, without FCS.
    pub bytes: u32,
    kept: u8,
    head: [u8; HEAD],
}

impl Frame {
    /// Of all its bytes.
    pub fn new(at: Picos, frame: &[u8]) -> Frame {
        let kept = frame.len().min(HEAD);
        let mut head = [0; HEAD];
        head[..kept].copy_from_slice(&frame[..kept]);
        Frame {
            at,
            bytes: frame.len() as u32,
            kept: kept as u8,
            head,
        }
    }

    /// Its first bytes.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.kept)]
    }

    /// Its first bytes, to change.
    pub fn head_mut(&mut self) -> &mut [u8] {
        &mut self.head[..usize::from(self.kept)]
    }
}
