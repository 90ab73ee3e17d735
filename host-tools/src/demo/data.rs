// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a demo sends: a file, or bytes from a seed. Either can be read at any
//! offset, so that several connections can each send a part.

use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

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

    /// SHA-256 over all of it; `None` when `wait`, which is told how far it has come,
    /// says to give up.
    ///
    /// # Errors
    /// As [`Data::read`].
    fn sha256(&self, wait: impl Fn(u64) -> bool) -> io::Result<Option<[u8; 32]>> {
        let mut hash = Sha256::new();
        let mut block = vec![0; BLOCK];
        let mut at = 0;
        while at < self.len() {
            if !wait(at) {
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

/// How far a hash may be ahead of what was sent.
const AHEAD: u64 = 64 << 20;
/// How often a hash that is too far ahead looks, and whoever waits for it.
const LOOK: Duration = Duration::from_millis(5);

/// A SHA-256 that is computed beside the sending, so that nothing waits for it but the
/// report, and not far ahead of it, so that a run that is given up has not hashed what it
/// never sent. Dropping it ends it.
#[derive(Debug)]
pub struct Hashing {
    thread: Option<JoinHandle<io::Result<Option<[u8; 32]>>>>,
    /// Where it may go.
    limit: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

impl Hashing {
    /// Starts it.
    ///
    /// # Errors
    /// When there is no thread.
    pub fn start(data: Arc<Data>) -> io::Result<Hashing> {
        let limit = Arc::new(AtomicU64::new(AHEAD));
        let stop = Arc::new(AtomicBool::new(false));
        let (bound, ended) = (Arc::clone(&limit), Arc::clone(&stop));
        let thread = std::thread::Builder::new().name("tsonic-sha256".into());
        let thread = thread.spawn(move || {
            data.sha256(|at| {
                while at > bound.load(Ordering::Relaxed) && !ended.load(Ordering::Relaxed) {
                    std::thread::sleep(LOOK);
                }
                !ended.load(Ordering::Relaxed)
            })
        })?;
        Ok(Hashing {
            thread: Some(thread),
            limit,
            stop,
        })
    }

    /// So many bytes were sent.
    pub fn sent(&self, bytes: u64) {
        self.limit
            .store(bytes.saturating_add(AHEAD), Ordering::Relaxed);
    }

    /// The hash; `None` when `late` says to give up.
    ///
    /// # Errors
    /// As [`Data::read`].
    pub fn finish(mut self, late: impl Fn() -> bool) -> io::Result<Option<[u8; 32]>> {
        self.limit.store(u64::MAX, Ordering::Relaxed);
        let Some(thread) = self.thread.take() else {
            return Ok(None);
        };
        while !thread.is_finished() {
            if late() {
                self.stop.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
        let panicked = |_| Err(io::Error::other("the hash's thread has panicked"));
        thread.join().unwrap_or_else(panicked)
    }
}

impl Drop for Hashing {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it says is of no interest any more.
            let _ = thread.join();
        }
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
            data.sha256(|_| true).unwrap(),
            Some(<[u8; 32]>::from(Sha256::digest(&all)))
        );
        let other = Data::Random { seed: 8, len: 1000 };
        assert_ne!(
            data.sha256(|_| true).unwrap(),
            other.sha256(|_| true).unwrap()
        );
    }

    #[test]
    fn a_hash_beside_the_sending_is_the_same_and_ends_when_told() {
        let data = Arc::new(Data::Random {
            seed: 1,
            len: 3 << 20,
        });
        let hash = Hashing::start(Arc::clone(&data)).unwrap();
        let whole = data.sha256(|_| true).unwrap();
        assert!(whole.is_some());
        assert_eq!(hash.finish(|| false).unwrap(), whole);
        // One that would take for ever, far beyond what was sent.
        let endless = Arc::new(Data::Random {
            seed: 1,
            len: u64::MAX,
        });
        let hash = Hashing::start(Arc::clone(&endless)).unwrap();
        assert_eq!(hash.finish(|| true).unwrap(), None);
        drop(Hashing::start(endless).unwrap());
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
