// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the NIC's thread sleeps, and is woken.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use tsonic_vfio_user::socket::timespec;

use super::doorbells::Doorbells;
use crate::world::Hosts;

/// Waits shorter than this are spun: a sleep takes longer to end.
const SPIN: Duration = Duration::from_micros(100);

/// A flag that wakes a sleeper. Raising it costs a system call only when somebody sleeps.
#[derive(Debug)]
pub struct Alarm {
    raised: AtomicBool,
    sleeping: AtomicBool,
    fd: OwnedFd,
}

impl Alarm {
    pub fn new() -> io::Result<Arc<Alarm>> {
        Ok(Arc::new(Alarm {
            raised: AtomicBool::new(false),
            sleeping: AtomicBool::new(false),
            fd: event()?,
        }))
    }

    /// Wakes the sleeper, or lets the next sleep end at once.
    pub fn raise(&self) {
        // Either this store is seen before the sleep, or the sleeper is seen here.
        self.raised.store(true, Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) {
            signal(&self.fd);
        }
    }

    /// Whether it was raised; it is not any more.
    pub fn take(&self) -> bool {
        self.raised.swap(false, Ordering::SeqCst)
    }

    /// Sleeps until it is raised, one of `others` is readable or closed, or `span` is
    /// over (`None`: never). Says whether one of the others was.
    pub fn sleep(&self, others: &[BorrowedFd<'_>], span: Option<Duration>) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        let mut ready = false;
        if !self.take() {
            let mut fds: Vec<PollFd<'_>> = vec![PollFd::new(&self.fd, PollFlags::IN)];
            fds.extend(others.iter().map(|o| PollFd::new(o, PollFlags::IN)));
            let span = span.map(timespec);
            // A failure is a sleep that ended early.
            if poll(&mut fds, span.as_ref()).is_ok() {
                ready = fds[1..].iter().any(|f| !f.revents().is_empty());
            }
        }
        self.sleeping.store(false, Ordering::SeqCst);
        drain(&self.fd);
        ready
    }
}

/// An event descriptor.
pub fn event() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Signals an event descriptor of this process alone (for a client's there is
/// [`super::signals`]). One that is full has been signalled.
fn signal(fd: impl AsFd) {
    if let Err(error) = rustix::io::write(fd, &1u64.to_ne_bytes()) {
        tracing::debug!(%error, "an event descriptor does not take a signal");
    }
}

fn drain(fd: impl AsFd) {
    // Nothing to be had is what it should be afterwards.
    let _ = rustix::io::read(fd, &mut [0u8; 8]);
}

/// The hosts of a world whose NICs are served over vfio-user.
pub struct Sleeper {
    pub alarm: Arc<Alarm>,
    /// Shared with the thread that owns the world; it is the one that sleeps here.
    pub doorbells: Vec<Arc<Doorbells>>,
}

impl Sleeper {
    fn rung(&self) -> bool {
        self.doorbells.iter().any(|d| d.is_rung())
    }
}

impl Hosts for Sleeper {
    fn wait(&mut self, peer: Option<BorrowedFd<'_>>, at_most: Duration) {
        let started = Instant::now();
        let readable = |fd: BorrowedFd<'_>| {
            let mut fds = [PollFd::new(&fd, PollFlags::IN)];
            let now = timespec(Duration::ZERO);
            poll(&mut fds, Some(&now)).is_ok_and(|n| n > 0)
        };
        let spin = at_most.min(SPIN);
        while started.elapsed() < spin {
            if self.alarm.take() || self.rung() || peer.is_some_and(readable) {
                return;
            }
            std::hint::spin_loop();
        }
        let left = at_most.saturating_sub(started.elapsed());
        if left.is_zero() {
            return;
        }
        for d in &self.doorbells {
            d.doze(true);
        }
        // A client stores its tail before it looks whether we sleep; we say so before we
        // look at the tails.
        std::sync::atomic::fence(Ordering::SeqCst);
        if !self.rung() {
            self.alarm.sleep(peer.as_slice(), Some(left));
        }
        for d in &self.doorbells {
            d.doze(false);
        }
    }
}
