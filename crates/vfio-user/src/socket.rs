// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages over a stream socket. Whatever waits has a deadline, unless it is told
//! that it has none.

use crate::error::WireError;
use crate::header::{HEADER_BYTES, Header};
use crate::{FDS_MAX, MESSAGE_MAX};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recv, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Why no message was sent or received.
#[derive(Debug, Error)]
pub enum SocketError {
    /// The other end has closed the connection, or has died.
    #[error("the other end has closed the connection")]
    Closed,
    /// The deadline is reached, and nothing has been sent or received: the connection is
    /// as it was.
    #[error("the other end did not answer in time")]
    TimedOut,
    /// The deadline is reached in the middle of a message.
    #[error("the other end stopped in the middle of a message")]
    Unfinished,
    /// What came is no message; the stream cannot be followed any further.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The operating system failed.
    #[error("socket: {0}")]
    Os(#[source] io::Error),
}

impl From<Errno> for SocketError {
    fn from(e: Errno) -> SocketError {
        match e {
            Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN | Errno::SHUTDOWN => {
                SocketError::Closed
            }
            e => SocketError::Os(e.into()),
        }
    }
}

/// A message as it came.
#[derive(Debug)]
pub struct Message {
    /// Its header.
    pub header: Header,
    /// What came beside it.
    pub fds: Vec<OwnedFd>,
}

/// What is left until `deadline`; `None`: it is over.
fn left(deadline: Option<Instant>) -> Option<Option<Duration>> {
    match deadline {
        None => Some(None),
        Some(d) => d
            .checked_duration_since(Instant::now())
            .filter(|l| !l.is_zero())
            .map(Some),
    }
}

/// A span for `poll`.
pub fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: span.subsec_nanos().into(),
    }
}

/// Waits until `stream` can be used as `what` says, or is closed.
fn ready(
    stream: &UnixStream,
    what: PollFlags,
    deadline: Option<Instant>,
) -> Result<(), SocketError> {
    loop {
        let Some(left) = left(deadline) else {
            return Err(SocketError::TimedOut);
        };
        let span = left.map(timespec);
        match poll(&mut [PollFd::new(stream, what)], span.as_ref()) {
            Ok(0) => {}
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Sends a message, header and all, with descriptors beside its first byte.
///
/// # Errors
/// [`SocketError`]; after any but [`SocketError::TimedOut`] the connection is of no use
/// any more.
pub fn send(
    stream: &UnixStream,
    message: &[u8],
    fds: &[BorrowedFd<'_>],
    deadline: Option<Instant>,
) -> Result<(), SocketError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut sent = 0;
    while sent < message.len() {
        let mut control = SendAncillaryBuffer::new(&mut space);
        let fits = fds.len() <= FDS_MAX
            && (sent > 0 || fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
        if !fits {
            return Err(WireError::Descriptors {
                what: "a message",
                fds: fds.len(),
            }
            .into());
        }
        let rest = [IoSlice::new(&message[sent..])];
        match sendmsg(stream, &rest, &mut control, flags) {
            Ok(n) => sent += n,
            Err(Errno::AGAIN) => {
                ready(stream, PollFlags::OUT, deadline).map_err(begun(sent > 0))?;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(())
}

/// A time-out after a message was begun is another matter.
fn begun(begun: bool) -> impl Fn(SocketError) -> SocketError {
    move |e| match e {
        SocketError::TimedOut if begun => SocketError::Unfinished,
        e => e,
    }
}

/// Receives a message; what follows its header goes to `body`. The deadline counts from
/// the first byte on, too: a message that does not end is as bad as none.
///
/// # Errors
/// [`SocketError`]; after any but [`SocketError::TimedOut`] the connection is of no use
/// any more.
pub fn receive(
    stream: &UnixStream,
    body: &mut Vec<u8>,
    deadline: Option<Instant>,
) -> Result<Message, SocketError> {
    let mut header = [0; HEADER_BYTES];
    let mut fds = Vec::new();
    let mut got = 0;
    while got < HEADER_BYTES {
        match receive_some(stream, &mut header[got..], &mut fds) {
            Ok(n) => got += n,
            Err(SocketError::TimedOut) => {
                ready(stream, PollFlags::IN, deadline).map_err(begun(got > 0))?;
            }
            Err(e) => return Err(e),
        }
    }
    let header = Header::parse(&header)?;
    debug_assert!(header.body() <= MESSAGE_MAX);
    body.resize(header.body(), 0);
    let mut got = 0;
    while got < body.len() {
        match recv(stream, &mut body[got..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Err(SocketError::Closed),
            Ok((n, _)) => got += n,
            Err(Errno::AGAIN) => {
                ready(stream, PollFlags::IN, deadline).map_err(begun(true))?;
            }
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Ok(Message { header, fds })
}

/// Receives at least a byte, and descriptors; [`SocketError::TimedOut`]: there is
/// nothing yet.
fn receive_some(
    stream: &UnixStream,
    out: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<usize, SocketError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match recvmsg(
        stream.as_fd(),
        &mut [IoSliceMut::new(out)],
        &mut control,
        flags,
    ) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Err(SocketError::TimedOut),
        Err(e) => return Err(e.into()),
    };
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    // What did not fit is gone, so the message is not what its sender meant.
    if got.flags.contains(ReturnFlags::CTRUNC) || fds.len() > FDS_MAX {
        return Err(WireError::Descriptors {
            what: "a message",
            fds: FDS_MAX + 1,
        }
        .into());
    }
    if got.bytes == 0 {
        return Err(SocketError::Closed);
    }
    Ok(got.bytes)
}
