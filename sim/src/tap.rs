// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TAP port: frames of the wire's far end go to a Linux kernel, in a network
//! namespace of their own, and its frames come back. See [`crate::netns`] for what
//! that needs, and [`crate::peer`] for the kernel's sockets.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
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
    /// Why nothing comes from it any more.
    lost: Option<io::Error>,
}

/// Whether a read that failed so may succeed later. The interface is there then, if
/// down: one that was deleted answers EBADFD for ever, and its descriptor stays readable.
fn passes(e: &io::Error) -> bool {
    e.kind() == ErrorKind::WouldBlock
        || matches!(e.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

/// Whether a write that failed so means that nobody is there any more, rather than a full
/// queue, an interface that is down, or a frame that it does not take.
fn ends(e: &io::Error) -> bool {
    let gone = [
        libc::EBADFD,
        libc::ENODEV,
        libc::EPIPE,
        libc::ECONNRESET,
        libc::ECONNREFUSED,
        libc::ENOTCONN,
    ];
    e.raw_os_error().is_some_and(|n| gone.contains(&n))
}

impl TapPort {
    /// A port over a TAP descriptor (non-blocking, without packet information).
    pub fn new(tap: OwnedFd) -> TapPort {
        TapPort {
            tap: File::from(tap),
            buffer: vec![0; FRAME_MAX],
            pending: None,
            stats: TapStats::default(),
            lost: None,
        }
    }

    /// What was counted.
    pub fn stats(&self) -> TapStats {
        self.stats
    }

    /// Reads a frame, unless one is pending; whether one is.
    fn fill(&mut self) -> bool {
        while self.pending.is_none() && self.lost.is_none() {
            match self.tap.read(&mut self.buffer) {
                // The end of a socket that keeps packets apart, or an empty packet.
                Ok(0) if self.hung_up() => self.lost = Some(ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.pending = (n > 0).then_some(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) if passes(&e) => {}
                Err(e) => self.lost = Some(e),
            }
            break;
        }
        self.pending.is_some()
    }

    /// Whether the other end of the descriptor is closed.
    fn hung_up(&self) -> bool {
        self.ready(0, Duration::ZERO) & (libc::POLLHUP | libc::POLLERR) != 0
    }

    /// Waits for `events`, for `at_most`; what there is.
    fn ready(&self, events: libc::c_short, at_most: Duration) -> libc::c_short {
        let mut poll = libc::pollfd {
            fd: self.tap.as_raw_fd(),
            events,
            revents: 0,
        };
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs() as libc::time_t,
            tv_nsec: at_most.subsec_nanos().into(),
        };
        // SAFETY: one live pollfd, a live timespec, no signal mask. A failure is
        // a wait that ended early, which the caller expects.
        unsafe { libc::ppoll(&mut poll, 1, &timeout, std::ptr::null()) };
        poll.revents
    }
}

impl Peer for TapPort {
    fn receive(&mut self, _now: Ticks, frame: &[u8]) {
        loop {
            match self.tap.write(frame) {
                Ok(_) => self.stats.to_kernel += 1,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                // As a wire to a busy host: the frame is lost, TCP sends it again.
                Err(e) => {
                    self.stats.refused += 1;
                    if ends(&e) {
                        self.lost = Some(e);
                    }
                }
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
        // One that is lost stays readable, which would end every wait at once.
        self.lost.is_none().then(|| self.tap.as_fd())
    }

    fn lost(&self) -> Option<&io::Error> {
        self.lost.as_ref()
    }

    fn refused(&self) -> u64 {
        self.stats.refused
    }

    fn wait(&mut self, at_most: Duration) {
        if self.lost.is_some() {
            std::thread::sleep(at_most);
            return;
        }
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
        self.ready(libc::POLLIN, at_most);
    }
}
