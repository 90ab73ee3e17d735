// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TAP port: frames of the wire's far end go to a Linux kernel, in a network
//! namespace of their own, and its frames come back. See [`crate::netns`] for what
//! that needs, and [`crate::peer`] for the kernel's sockets.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use tsonic_types::Ticks;

use crate::world::Peer;

/// Longest frame that is read.
const FRAME_MAX: usize = 65_536 + 64;
/// Waits shorter than this are spun: a sleep takes longer to end.
const SPIN: Duration = Duration::from_micros(100);

/// What a port has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TapStats {
    /// Frames given to the kernel.
    pub to_kernel: u64,
    /// Frames that it refused (its queue was full).
    pub refused: u64,
    /// Frames taken from it.
    pub from_kernel: u64,
}

/// The port.
pub struct TapPort {
    tap: File,
    buffer: Vec<u8>,
    /// Bytes of a frame in `buffer` that was read while waiting.
    pending: Option<usize>,
    stats: TapStats,
}

impl TapPort {
    /// A port over a TAP descriptor (non-blocking, without packet information).
    pub fn new(tap: OwnedFd) -> TapPort {
        TapPort {
            tap: File::from(tap),
            buffer: vec![0; FRAME_MAX],
            pending: None,
            stats: TapStats::default(),
        }
    }

    /// What was counted.
    pub fn stats(&self) -> TapStats {
        self.stats
    }

    /// Reads a frame, unless one is pending; whether one is.
    fn fill(&mut self) -> bool {
        while self.pending.is_none() {
            match self.tap.read(&mut self.buffer) {
                Ok(n) => self.pending = (n > 0).then_some(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => {
                    if e.kind() != ErrorKind::WouldBlock {
                        tracing::debug!(error = %e, "TAP read");
                    }
                }
            }
            break;
        }
        self.pending.is_some()
    }
}

impl Peer for TapPort {
    fn receive(&mut self, _now: Ticks, frame: &[u8]) {
        loop {
            match self.tap.write(frame) {
                Ok(_) => self.stats.to_kernel += 1,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // As a wire to a busy host: the frame is lost, TCP sends it again.
                Err(_) => self.stats.refused += 1,
            }
            return;
        }
    }

    fn next_event(&self) -> Option<Ticks> {
        None
    }

    fn poll(&mut self, _now: Ticks, send: &mut dyn FnMut(&[u8])) {
        while self.fill() {
            if let Some(n) = self.pending.take() {
                self.stats.from_kernel += 1;
                send(&self.buffer[..n]);
            }
        }
    }

    fn real_time(&self) -> bool {
        true
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.tap.as_fd())
    }

    fn wait(&mut self, at_most: Duration) {
        if at_most <= SPIN {
            let started = Instant::now();
            while !self.fill() && started.elapsed() < at_most {
                std::hint::spin_loop();
            }
            return;
        }
        if self.pending.is_some() {
            return;
        }
        let mut poll = libc::pollfd {
            fd: self.tap.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: one live pollfd, a live timespec, no signal mask. A failure is
        // a wait that ended early, which the caller expects.
        unsafe { libc::ppoll(&mut poll, 1, &timeout, std::ptr::null()) };
    }
}
