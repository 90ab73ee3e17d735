// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands and their replies. Every wait ends: with the reply, with the connection, or
//! in time; and the first that ends in time is the last: a device that has not answered
//! once counts as gone, so whoever takes leave of it does not wait for each farewell.

use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tracing::debug;
use tsonic_pci::BusError;
use tsonic_vfio_user::socket::{self, SocketError};
use tsonic_vfio_user::{Errno, Header, Kind, Request, WireError};

/// The connection to a device.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    timeout: Duration,
    next_id: u16,
    message: Vec<u8>,
    body: Vec<u8>,
    /// Why it is of no use any more.
    dead: Option<String>,
    messages: u64,
    /// What was posted may not be done yet.
    posted: bool,
}

impl Connection {
    pub fn new(stream: UnixStream, timeout: Duration) -> Connection {
        Connection {
            stream,
            timeout,
            next_id: 0,
            message: Vec::new(),
            body: Vec::new(),
            dead: None,
            messages: 0,
            posted: false,
        }
    }

    /// Becomes readable when the device says something, and when it dies.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Messages sent so far.
    pub const fn messages(&self) -> u64 {
        self.messages
    }

    /// The device is gone.
    pub fn bury(&mut self, why: &str) -> BusError {
        let why = self.dead.get_or_insert_with(|| why.to_owned());
        BusError::Gone(why.clone())
    }

    /// Whether it is of no use any more.
    pub const fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    fn check(&self) -> Result<(), BusError> {
        match &self.dead {
            Some(why) => Err(BusError::Gone(why.clone())),
            None => Ok(()),
        }
    }

    fn failed(&mut self, error: SocketError, what: &'static str) -> BusError {
        match error {
            SocketError::TimedOut => {
                let millis = self.timeout.as_millis() as u64;
                self.bury(&format!("it did not answer {what} within {millis} ms"));
                // Should it go on, it finds that its client has left.
                if let Err(error) = self.stream.shutdown(Shutdown::Both) {
                    debug!(%error, "shut down");
                }
                BusError::TimedOut { what, millis }
            }
            error => self.bury(&error.to_string()),
        }
    }

    fn send(
        &mut self,
        what: &'static str,
        request: &Request<'_>,
        fds: &[BorrowedFd<'_>],
        reply: bool,
    ) -> Result<Header, BusError> {
        self.check()?;
        self.body.clear();
        request.encode(&mut self.body);
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let header = Header::command(id, request.command(), self.body.len(), reply);
        self.message.clear();
        header.encode(&mut self.message);
        self.message.extend_from_slice(&self.body);
        let deadline = Instant::now() + self.timeout;
        match socket::send(&self.stream, &self.message, fds, Some(deadline)) {
            // A device that turns a client away says why before it closes; that is still
            // to be heard.
            Err(SocketError::Closed) if reply && self.messages == 0 => {}
            sent => sent.map_err(|e| self.failed(e, what))?,
        }
        self.messages += 1;
        Ok(header)
    }

    /// Sends a command that nobody answers.
    pub fn post(&mut self, what: &'static str, request: &Request<'_>) -> Result<(), BusError> {
        self.send(what, request, &[], false).map(drop)
    }

    /// The command just posted must be done before anything that is no message.
    pub const fn posted(&mut self) {
        self.posted = true;
    }

    /// Whether such a command may not be done yet: no reply has come since.
    pub const fn has_posted(&self) -> bool {
        self.posted
    }

    /// Sends a command and waits for its reply: what follows its header, and descriptors.
    pub fn request(
        &mut self,
        what: &'static str,
        request: &Request<'_>,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(&[u8], Vec<OwnedFd>), BusError> {
        let asked = self.send(what, request, fds, true)?;
        let deadline = Instant::now() + self.timeout;
        let fds = loop {
            let received = socket::receive(&self.stream, &mut self.body, Some(deadline));
            let received = received.map_err(|e| self.failed(e, what))?;
            let header = received.header;
            match header.kind {
                Kind::Reply(result) if header.id == asked.id => {
                    // Commands are done in their order.
                    self.posted = false;
                    if header.command != asked.command {
                        return Err(self.bury("it answered another command than was sent"));
                    }
                    if let Err(errno) = result {
                        return Err(BusError::Refused {
                            what,
                            source: errno.to_io(),
                        });
                    }
                    break received.fds;
                }
                Kind::Reply(_) => debug!(id = header.id, "a reply to nothing that was asked"),
                Kind::Command { .. } => self.refuse(&header, deadline)?,
            }
        };
        Ok((&self.body, fds))
    }

    /// The device's own commands are for memory without a file, and it was given none.
    fn refuse(&mut self, header: &Header, deadline: Instant) -> Result<(), BusError> {
        if header.wants_reply() {
            self.message.clear();
            let reply = header.reply(Err(Errno::EOPNOTSUPP), 0);
            reply.encode(&mut self.message);
            let sent = socket::send(&self.stream, &self.message, &[], Some(deadline));
            sent.map_err(|e| self.failed(e, "a reply"))?;
        }
        Ok(())
    }

    /// Takes in what the device says unasked; the descriptor was readable.
    pub fn unasked(&mut self) -> Result<(), BusError> {
        self.check()?;
        let deadline = Instant::now() + self.timeout;
        let received = socket::receive(&self.stream, &mut self.body, Some(deadline));
        let received = received.map_err(|e| self.failed(e, "a message"))?;
        match received.header.kind {
            Kind::Reply(_) => Ok(()),
            Kind::Command { .. } => self.refuse(&received.header, deadline),
        }
    }

    /// A reply that makes no sense: what else it says cannot be trusted either.
    pub fn nonsense(&mut self, error: &WireError) -> BusError {
        self.bury(&format!("it answered nonsense: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough that one that is waited for is told from one that is not.
    const TIMEOUT: Duration = Duration::from_secs(3);

    #[test]
    fn a_device_that_does_not_answer_is_waited_for_once() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut connection = Connection::new(ours, TIMEOUT);
        let asked = connection.request("what it is", &Request::DeviceGetInfo, &[]);
        let error = asked.map(drop).unwrap_err();
        assert!(matches!(error, BusError::TimedOut { .. }), "{error}");
        assert!(connection.is_dead());
        let started = Instant::now();
        for _ in 0..10 {
            let asked = connection.request("a reset", &Request::DeviceReset, &[]);
            let error = asked.map(drop).unwrap_err();
            assert!(matches!(&error, BusError::Gone(why) if why.contains("what it is")));
            let posted = connection.post("a reset", &Request::DeviceReset);
            assert!(matches!(posted, Err(BusError::Gone(_))));
            assert!(matches!(connection.unasked(), Err(BusError::Gone(_))));
        }
        assert!(started.elapsed() < TIMEOUT);
        // What was asked is still there for the device, and then the end.
        let mut body = Vec::new();
        socket::receive(&theirs, &mut body, Some(Instant::now() + TIMEOUT)).unwrap();
        let end = socket::receive(&theirs, &mut body, Some(Instant::now() + TIMEOUT));
        assert!(matches!(end, Err(SocketError::Closed)));
    }
}
