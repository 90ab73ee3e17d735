// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a demo sends: a file, or bytes from a seed. Either can be read at any
//! offset, so that several connections can each send a part.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes read at a time.
pub const BLOCK: usize = 256 * 1024;

/// See the module.
#[derive(Debug)]
pub enum Data {
    /// A file of so many bytes.
    File(File, u64),
    /// So many bytes from a seed.
    Random {
        /// The seed.
        seed: u64,
        /// Bytes.
        len: u64,
    },
}

impl Data {
    /// Opens a file.
    ///
    /// # Errors
    /// The operating system's.
    pub fn open(path: &Path) -> io::Result<Data> {
        // Looked at before it is opened: opening a FIFO waits for a writer.
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        Ok(Data::File(file, len))
    }

    /// Bytes in all.
    pub const fn len(&self) -> u64 {
        match self {
            Data::File(_, len) | Data::Random { len, .. } => *len,
        }
    }

    /// Fills `out` from `offset` on; both lie inside.
    ///
    /// # Errors
    /// The operating system's, or a file that became shorter.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self {
            Data::File(file, _) => file.read_exact_at(out, offset),
            Data::Random { seed, .. } => {
                let (mut at, mut filled) = (offset, 0);
                while filled < out.len() {
                    let word = mix(seed ^ (at / 8)).to_le_bytes();
                    let rest = &word[(at % 8) as usize..];
                    let n = rest.len().min(out.len() - filled);
                    out[filled..filled + n].copy_from_slice(&rest[..n]);
                    filled += n;
                    at += n as u64;
                }
                Ok(())
            }
        }
    }

    /// Whether `path` is the file that is read.
    pub fn is_at(&self, path: &Path) -> bool {
        let Data::File(file, _) = self else {
            return false;
        };
        let place = |m: std::fs::Metadata| (m.dev(), m.ino());
        let ours = file.metadata().map(place).ok();
        ours.is_some() && ours == std::fs::metadata(path).map(place).ok()
    }

    /// SHA-256 over all of it; `None` when `late` says to give up.
    ///
    /// # Errors
    /// As [`Data::read`].
    pub fn sha256(&self, late: impl Fn() -> bool) -> io::Result<Option<[u8; 32]>> {
        let mut hash = Sha256::new();
        let mut block = vec![0; BLOCK];
        let mut at = 0;
        while at < self.len() {
            if late() {
                return Ok(None);
            }
            let n = (self.len() - at).min(BLOCK as u64) as usize;
            self.read(at, &mut block[..n])?;
            hash.update(&block[..n]);
            at += n as u64;
        }
        Ok(Some(hash.finalize().into()))
    }

    /// The part of connection `flow` of `flows`; the parts follow each other.
    pub fn part(&self, flow: u16, flows: u16) -> Range<u64> {
        let cut = |i: u16| (u128::from(self.len()) * u128::from(i) / u128::from(flows)) as u64;
        cut(flow)..cut(flow + 1)
    }
}

/// SplitMix64's finalizer: every input gives another output.
const fn mix(n: u64) -> u64 {
    let z = n
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_are_the_same_wherever_reading_begins() {
        let data = Data::Random { seed: 7, len: 1000 };
        let mut all = vec![0; 1000];
        data.read(0, &mut all).unwrap();
        for (offset, len) in [(0, 1), (1, 7), (3, 20), (995, 5), (8, 8)] {
            let mut some = vec![0; len];
            data.read(offset as u64, &mut some).unwrap();
            assert_eq!(some, all[offset..offset + len]);
        }
        assert_eq!(
            data.sha256(|| false).unwrap(),
            Some(<[u8; 32]>::from(Sha256::digest(&all)))
        );
        let other = Data::Random { seed: 8, len: 1000 };
        assert_ne!(
            data.sha256(|| false).unwrap(),
            other.sha256(|| false).unwrap()
        );
    }

    #[test]
    fn parts_cover_everything_once() {
        for (len, flows) in [(0, 3), (1, 2), (1000, 7), (10, 256)] {
            let data = Data::Random { seed: 0, len };
            let mut at = 0;
            for flow in 0..flows {
                let part = data.part(flow, flows);
                assert_eq!(part.start, at);
                at = part.end;
            }
            assert_eq!(at, len);
        }
    }
}
