// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals to event descriptors that a client has, too.
//!
//! A write to an event descriptor whose counter is full waits, unless the descriptor is
//! non-blocking. That is a property of the open file, and so the client can take it away
//! at any time; a poll before the write leaves it the moment between the two, event
//! descriptors refuse `RWF_NOWAIT`, and they cannot be opened anew. What never waits is a
//! signal from inside the kernel: it adds one, and nothing to a counter that is full. One
//! goes to the event descriptor that a request of asynchronous I/O (`io_submit`) names,
//! when the request completes. A read of nothing from `/dev/null` has completed when it
//! is submitted, so the signal is there when the call returns, as with a write; no thread
//! stands between, and the descriptor's flags are left alone.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Requests whose results may wait to be collected. They say nothing.
const UNCOLLECTED_MAX: usize = 32;

/// `struct iocb`.
#[repr(C)]
#[derive(Default)]
struct Request {
    data: u64,
    /// Key and flags, in an order that depends on the machine's; both are zero.
    key_and_flags: [u32; 2],
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `IOCB_CMD_PREAD`.
const READ: u16 = 0;
/// `IOCB_FLAG_RESFD`: the event descriptor counts.
const SIGNALS: u32 = 1;

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Outcome {
    data: u64,
    request: u64,
    results: [i64; 2],
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Outcome>() == 32);

/// A way to signal event descriptors that does not wait whatever a client does to them.
pub struct Signals {
    /// `aio_context_t`.
    context: libc::c_ulong,
    null: File,
    uncollected: usize,
}

fn result(n: libc::c_long) -> io::Result<libc::c_long> {
    match n {
        ..0 => Err(io::Error::last_os_error()),
        n => Ok(n),
    }
}

impl Signals {
    /// # Errors
    /// What the system says: it has no asynchronous I/O, or others have all of it.
    pub fn new() -> io::Result<Signals> {
        let null = File::open("/dev/null")?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel stores one number, to a place of that size.
        result(unsafe { libc::syscall(libc::SYS_io_setup, UNCOLLECTED_MAX, &raw mut context) })?;
        Ok(Signals {
            context,
            null,
            uncollected: 0,
        })
    }

    /// Signals an event descriptor. One that is full has been signalled.
    ///
    /// # Errors
    /// What the system says; for one, that it is no event descriptor.
    pub fn signal(&mut self, event: BorrowedFd<'_>) -> io::Result<()> {
        if self.uncollected == UNCOLLECTED_MAX {
            self.collect()?;
        }
        let mut request = Request {
            opcode: READ,
            // Descriptors are not negative.
            file: self.null.as_raw_fd() as u32,
            flags: SIGNALS,
            event: event.as_raw_fd() as u32,
            ..Request::default()
        };
        let mut list = [&raw mut request];
        // SAFETY: a list of one request, which the kernel reads, and marks, before the
        // call returns; the request is for no bytes, so no buffer is touched. Both
        // descriptors are open.
        result(unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, 1usize, list.as_mut_ptr())
        })?;
        self.uncollected += 1;
        Ok(())
    }

    /// Makes room for the results of more requests.
    fn collect(&mut self) -> io::Result<()> {
        let mut outcomes = [Outcome::default(); UNCOLLECTED_MAX];
        let most = outcomes.len();
        let out = outcomes.as_mut_ptr();
        let no_span = std::ptr::null::<libc::timespec>();
        // SAFETY: the kernel stores at most as many outcomes as there is room for. It is
        // to wait for none of them.
        let n = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                self.context,
                0usize,
                most,
                out,
                no_span,
            )
        };
        self.uncollected -= result(n)?.unsigned_abs() as usize;
        Ok(())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: it was made in `new`, and nobody uses it any more. No request is under
        // way that could touch memory.
        if let Err(error) = result(unsafe { libc::syscall(libc::SYS_io_destroy, self.context) }) {
            tracing::debug!(%error, "asynchronous I/O stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::os::fd::AsFd;

    fn count(event: BorrowedFd<'_>) -> u64 {
        let mut count = [0; 8];
        rustix::io::read(event, &mut count).unwrap();
        u64::from_ne_bytes(count)
    }

    #[test]
    fn each_signal_counts_once_and_is_there_at_once() {
        let mut signals = Signals::new().unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
        for n in 1..=5 * UNCOLLECTED_MAX as u64 {
            for _ in 0..n {
                signals.signal(event.as_fd()).unwrap();
            }
            assert_eq!(count(event.as_fd()), n);
        }
    }

    #[test]
    fn one_that_is_full_and_blocks_is_not_waited_for() {
        let mut signals = Signals::new().unwrap();
        let event = eventfd(0, EventfdFlags::CLOEXEC).unwrap();
        rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        for _ in 0..3 * UNCOLLECTED_MAX {
            signals.signal(event.as_fd()).unwrap();
        }
        assert!(count(event.as_fd()) >= u64::MAX - 1);
    }

    #[test]
    fn what_is_no_event_descriptor_is_an_error() {
        let mut signals = Signals::new().unwrap();
        let null = File::open("/dev/null").unwrap();
        let error = signals.signal(null.as_fd()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(signals.uncollected, 0);
    }
}
