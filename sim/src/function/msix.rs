// SPDX-License-Identifier: MIT OR Apache-2.0
//! The MSI-X table and the pending bits (PCI Express 5.0, 6.1.4).

use tsonic_pci::config::{MSIX_ENTRY_CTRL_MASKBIT, MSIX_ENTRY_VECTOR_CTRL};
use tsonic_regs::pci::{MSIX_ENTRY_BYTES, MSIX_PBA_OFFSET, MSIX_TABLE_OFFSET};

/// 32-bit words of a table entry.
const ENTRY_WORDS: usize = MSIX_ENTRY_BYTES / 4;
/// The word of an entry that holds its mask.
const CONTROL: usize = MSIX_ENTRY_VECTOR_CTRL / 4;

/// See the module.
#[derive(Debug)]
pub struct Msix {
    table: Vec<[u32; ENTRY_WORDS]>,
    /// A bit a vector.
    pending: Vec<u64>,
}

impl Msix {
    pub fn new(vectors: u16) -> Msix {
        let vectors = usize::from(vectors);
        let mut msix = Msix {
            table: vec![[0; ENTRY_WORDS]; vectors],
            pending: vec![0; vectors.div_ceil(64)],
        };
        msix.reset();
        msix
    }

    /// Every vector masked, none pending.
    pub fn reset(&mut self) {
        let mut entry = [0; ENTRY_WORDS];
        entry[CONTROL] = MSIX_ENTRY_CTRL_MASKBIT;
        self.table.fill(entry);
        self.pending.fill(0);
    }

    pub fn vectors(&self) -> u16 {
        self.table.len() as u16
    }

    fn word(&self, offset: usize) -> u32 {
        if let Some(at) = offset.checked_sub(MSIX_PBA_OFFSET) {
            let pending = self.pending.get(at / 8).copied().unwrap_or(0);
            return (pending >> (8 * (at % 8))) as u32;
        }
        let at = (offset - MSIX_TABLE_OFFSET) / 4;
        self.table
            .get(at / ENTRY_WORDS)
            .map_or(0, |entry| entry[at % ENTRY_WORDS])
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) {
        if !supported(offset, out.len()) {
            out.fill(0xff);
            return;
        }
        for (i, word) in out.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&self.word(offset as usize + 4 * i).to_le_bytes());
        }
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) {
        // The pending bits are read-only.
        if !supported(offset, data.len()) || offset >= MSIX_PBA_OFFSET as u64 {
            return;
        }
        for (i, bytes) in data.as_chunks().0.iter().enumerate() {
            let at = (offset as usize - MSIX_TABLE_OFFSET) / 4 + i;
            let Some(entry) = self.table.get_mut(at / ENTRY_WORDS) else {
                return;
            };
            let value = u32::from_le_bytes(*bytes);
            entry[at % ENTRY_WORDS] = match at % ENTRY_WORDS {
                CONTROL => value & MSIX_ENTRY_CTRL_MASKBIT,
                // Messages are written in 32 bits: their addresses are aligned.
                0 => value & !3,
                _ => value,
            };
        }
    }

    pub fn set_mask(&mut self, vector: u16, masked: bool) -> bool {
        match self.table.get_mut(usize::from(vector)) {
            Some(entry) => {
                entry[CONTROL] = if masked { MSIX_ENTRY_CTRL_MASKBIT } else { 0 };
                true
            }
            None => false,
        }
    }

    pub fn set_pending(&mut self, vector: u16) {
        if let Some(bits) = self.pending.get_mut(usize::from(vector / 64)) {
            *bits |= 1 << (vector % 64);
        }
    }

    pub fn is_pending(&self, vector: u16) -> bool {
        let bits = self.pending.get(usize::from(vector / 64));
        bits.is_some_and(|b| b >> (vector % 64) & 1 == 1)
    }

    /// Calls `each` for the vectors that are pending and not masked; they are pending no
    /// more.
    pub fn fire(&mut self, mut each: impl FnMut(u16)) {
        for (i, bits) in self.pending.iter_mut().enumerate() {
            let mut left = *bits;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                let vector = 64 * i + bit;
                let entry = self.table.get(vector);
                if entry.is_some_and(|e| e[CONTROL] & MSIX_ENTRY_CTRL_MASKBIT == 0) {
                    *bits &= !(1 << bit);
                    each(vector as u16);
                }
            }
        }
    }
}

/// Software uses aligned 32- and 64-bit accesses; the specification leaves any other
/// undefined.
fn supported(offset: u64, bytes: usize) -> bool {
    matches!(bytes, 4 | 8) && offset.is_multiple_of(bytes as u64)
}
