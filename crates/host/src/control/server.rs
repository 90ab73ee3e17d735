// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket's own side: accepts clients, reads their requests, puts them into the
//! shard's mailbox, and writes what comes back.
//!
//! Everything that a client can use up is bounded: their number, the length of a
//! request and the time it may take, the time to take a reply, the time without
//! any request. None of it touches the shard, which sees whole requests only.

use super::directory::{Directory, DirectoryError};
use super::failure::{Code, Failure};
use super::mailbox::Mailbox;
use super::protocol::{Greeting, REQUEST_MAX, ReplyLine, RequestLine};
use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How often a waiting thread looks whether the server ends.
const LOOK: Duration = Duration::from_millis(250);

/// What clients may use up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients at once.
    pub clients: usize,
    /// How long a request may take from its first byte to its last.
    pub request: Duration,
    /// How long a client may be silent between requests.
    pub idle: Duration,
    /// How long a client may take to make room for a part of a reply.
    pub write: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 16,
            request: Duration::from_secs(5),
            idle: Duration::from_secs(120),
            write: Duration::from_secs(5),
        }
    }
}

/// Why there is no server.
#[derive(Debug, Error)]
pub enum ServerError {
    /// No directory.
    #[error("no control socket: {0}")]
    Directory(#[from] DirectoryError),
    /// The socket cannot be made.
    #[error("no control socket at {}: {source}; --no-control runs without one", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// A server. Dropping it takes the socket away and ends its thread; clients find
/// theirs closed.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What a client's thread needs.
struct Desk {
    greeting: Greeting,
    mailbox: Mailbox,
    stop: Arc<AtomicBool>,
    limits: Limits,
    clients: AtomicUsize,
}

impl Server {
    /// Listens in `directory` under this process's number. Sockets that dead
    /// processes left there are removed.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(
        directory: &Directory,
        greeting: Greeting,
        mailbox: Mailbox,
        limits: Limits,
    ) -> Result<Server, ServerError> {
        directory.create()?;
        directory.processes()?;
        let path = directory.socket(greeting.pid);
        let failed = |source| ServerError::Socket {
            path: path.clone(),
            source,
        };
        // Nobody but us can enter the directory between these two.
        let listener = UnixListener::bind(&path).map_err(failed)?;
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let desk = Arc::new(Desk {
            greeting,
            mailbox,
            stop: Arc::clone(&stop),
            limits,
            clients: AtomicUsize::new(0),
        });
        let thread = std::thread::Builder::new()
            .name("tsonic-control".into())
            .spawn(move || accept(&listener, &desk))
            .map_err(failed)?;
        Ok(Server {
            path,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread from its wait for a client.
        let woken = UnixStream::connect(&self.path).is_ok();
        // Gone already is as good.
        let _ = fs::remove_file(&self.path);
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // It holds nothing that could be lost.
            let _ = thread.join();
        }
    }
}

fn accept(listener: &UnixListener, desk: &Arc<Desk>) {
    loop {
        let client = listener.accept();
        if desk.stop.load(Ordering::Relaxed) {
            return;
        }
        match client {
            Ok((stream, _)) => admit(stream, desk),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                // No descriptors, for one: let others end first.
                tracing::debug!(error = %e, "accept");
                std::thread::sleep(LOOK);
            }
        }
    }
}

/// Gives a client a thread, if it may have one.
fn admit(stream: UnixStream, desk: &Arc<Desk>) {
    // The directory keeps other users out; a descriptor could be handed on all the same.
    let who = socket_peercred(&stream).map(|c| c.uid);
    if who.is_ok_and(|uid| uid != geteuid() && !uid.is_root()) {
        return;
    }
    let prepared = stream
        .set_read_timeout(Some(LOOK))
        .and_then(|()| stream.set_write_timeout(Some(desk.limits.write)));
    if prepared.is_err() {
        return;
    }
    let most = desk.limits.clients;
    if desk.clients.fetch_add(1, Ordering::Relaxed) >= most {
        let full = format!("{most} clients are connected: close one");
        // It is sent away either way.
        let _ = refuse(&stream, None, Failure::new(Code::TooManyClients, full));
        desk.clients.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let own = Arc::clone(desk);
    let started = std::thread::Builder::new()
        .name("tsonic-client".into())
        .spawn(move || {
            if let Err(error) = converse(&stream, &own) {
                tracing::debug!(%error, "a control client is gone");
            }
            own.clients.fetch_sub(1, Ordering::Relaxed);
        });
    if started.is_err() {
        desk.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

fn send(mut stream: &UnixStream, line: &impl serde::Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn refuse(stream: &UnixStream, id: Option<u64>, error: Failure) -> io::Result<()> {
    let line = ReplyLine {
        id,
        engine_time_ns: None,
        reply: None,
        error: Some(error),
    };
    send(stream, &line)
}

fn converse(stream: &UnixStream, desk: &Desk) -> io::Result<()> {
    send(stream, &desk.greeting)?;
    let mut lines = Lines::default();
    loop {
        let line = match lines.next(stream, desk)? {
            Next::Line(line) => line,
            Next::End => return Ok(()),
            Next::TooLong => {
                let long =
                    format!("a request has at most {REQUEST_MAX} bytes: ask for less at once");
                return refuse(stream, None, Failure::new(Code::RequestTooLong, long));
            }
            Next::TooSlow => {
                let ms = desk.limits.request.as_millis();
                let slow = format!("a request must arrive within {ms} ms: send it at once");
                return refuse(stream, None, Failure::new(Code::TooSlow, slow));
            }
        };
        match serde_json::from_slice::<RequestLine>(&line) {
            Ok(RequestLine { id, request }) => match desk.mailbox.ask(request) {
                Ok((at, done)) => {
                    let (reply, error) = match done {
                        Ok(reply) => (Some(reply), None),
                        Err(error) => (None, Some(error)),
                    };
                    let line = ReplyLine {
                        id: Some(id),
                        engine_time_ns: Some(at.0),
                        reply,
                        error,
                    };
                    send(stream, &line)?;
                }
                Err(error) => refuse(stream, Some(id), error)?,
            },
            Err(e) => {
                let bad =
                    format!("{e}: send one JSON object a line, as the greeting's protocol has it");
                refuse(stream, id(&line), Failure::new(Code::BadRequest, bad))?;
            }
        }
    }
}

/// The number of a request that is none otherwise, so that its sender finds the answer.
fn id(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        id: u64,
    }
    let numbered = serde_json::from_slice::<Numbered>(line);
    numbered.ok().map(|n| n.id)
}

enum Next {
    Line(Vec<u8>),
    End,
    TooLong,
    TooSlow,
}

/// Lines out of a stream.
#[derive(Default)]
struct Lines {
    buffer: Vec<u8>,
    /// Bytes of it that hold no line's end.
    searched: usize,
}

impl Lines {
    fn next(&mut self, mut stream: &UnixStream, desk: &Desk) -> io::Result<Next> {
        let mut since = Instant::now();
        loop {
            let rest = &self.buffer[self.searched..];
            if let Some(at) = rest.iter().position(|b| *b == b'\n') {
                let behind = self.buffer.split_off(self.searched + at + 1);
                let mut line = std::mem::replace(&mut self.buffer, behind);
                self.searched = 0;
                line.pop();
                if line.len() > REQUEST_MAX {
                    return Ok(Next::TooLong);
                }
                return Ok(Next::Line(line));
            }
            self.searched = self.buffer.len();
            if self.searched > REQUEST_MAX {
                return Ok(Next::TooLong);
            }
            if self.searched > 0 && since.elapsed() > desk.limits.request {
                return Ok(Next::TooSlow);
            }
            if desk.stop.load(Ordering::Relaxed) || since.elapsed() > desk.limits.idle {
                return Ok(Next::End);
            }
            let mut block = [0; 4096];
            match stream.read(&mut block) {
                Ok(0) => return Ok(Next::End),
                Ok(n) => {
                    if self.buffer.is_empty() {
                        since = Instant::now();
                    }
                    self.buffer.extend_from_slice(&block[..n]);
                }
                Err(e) if waits(&e) => {}
                Err(e) => return Err(e),
            }
        }
    }
}

fn waits(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
