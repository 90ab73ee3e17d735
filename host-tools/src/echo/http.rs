// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files over HTTP/1.1 (RFC 9110, 9112): GET and HEAD, one range, keep-alive.
//!
//! A connection holds the head of a request or of an answer, never a body: that goes
//! from the file into the engine as the window takes it. Requests behind one that is being
//! answered wait unread.

use super::files::{Folder, media_type};
use super::request::{HEAD_MAX, Parsed, Request, Status, parse};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use tsonic_host::Pool;
use tsonic_tcp::{ConnId, Engine, Error};
use tsonic_types::{CoreId, Nanos};

/// How long a peer may take for a request, or to take a part of an answer.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// How long a peer may take to end its side after an answer that ends the connection.
const LINGER: Nanos = Nanos::from_secs(5);

/// What is served.
#[derive(Debug)]
pub struct Server {
    folder: Folder,
}

impl Server {
    /// Serves a folder.
    ///
    /// # Errors
    /// As [`Folder::open`].
    pub fn open(folder: &Path) -> io::Result<Server> {
        let folder = Folder::open(folder)?;
        Ok(Server { folder })
    }
}

/// The part of a file that is still to be sent.
#[derive(Debug)]
struct Body {
    file: File,
    at: u64,
    left: u64,
}

#[derive(Debug)]
enum Stage {
    /// A head is being read.
    Reading,
    /// An answer is being written.
    Writing {
        head: Vec<u8>,
        body: Option<Body>,
        keep_alive: bool,
    },
    /// All was written and the stream ended; what still comes is thrown away. Closing
    /// at once would reset the connection, and the answer with it.
    Lingering,
}

/// A connection.
#[derive(Debug)]
pub struct Http {
    core: CoreId,
    stage: Stage,
    /// Bytes of requests, up to [`HEAD_MAX`].
    input: Vec<u8>,
    /// When something last moved.
    moved: Nanos,
}

/// What a step came to.
enum Step {
    On,
    Wait,
    Over,
}

impl Http {
    /// One whose writes come from `core`.
    pub const fn new(core: CoreId, now: Nanos) -> Http {
        Http {
            core,
            stage: Stage::Reading,
            input: Vec::new(),
            moved: now,
        }
    }

    /// Does what can be done; false when the connection is done with and was closed.
    pub fn run(
        &mut self,
        server: &Server,
        engine: &mut Engine<Pool>,
        now: Nanos,
        conn: ConnId,
        block: &mut [u8],
    ) -> bool {
        loop {
            let step = match self.stage {
                Stage::Reading => self.read(server, engine, conn, block),
                Stage::Writing { .. } => self.write(engine, conn, block),
                Stage::Lingering => linger(engine, conn, block),
            };
            match step {
                Step::On => self.moved = now,
                Step::Wait => return true,
                Step::Over => {
                    engine.close(now, conn);
                    return false;
                }
            }
        }
    }

    /// False when it has waited for its peer for too long, and was reset.
    pub fn may_wait(&mut self, engine: &mut Engine<Pool>, now: Nanos, conn: ConnId) -> bool {
        let patience = match self.stage {
            Stage::Lingering => LINGER,
            _ => PATIENCE,
        };
        if now.since(self.moved) < patience {
            return true;
        }
        engine.abort(conn);
        false
    }

    fn read(
        &mut self,
        server: &Server,
        engine: &mut Engine<Pool>,
        conn: ConnId,
        block: &mut [u8],
    ) -> Step {
        match parse(&self.input) {
            Parsed::Request(request, len) => {
                self.input.drain(..len);
                self.stage = answer(server, &request);
                return Step::On;
            }
            Parsed::Wrong(status) => {
                self.stage = refusal(status, false);
                return Step::On;
            }
            Parsed::Partial => {}
        }
        // Never more than one head may have, so that the rest waits in the window.
        let room = HEAD_MAX.saturating_sub(self.input.len()).min(block.len());
        match engine.read(conn, &mut block[..room]) {
            // In the middle of a head or before one: nobody waits for an answer.
            Ok(0) => Step::Over,
            Ok(n) => {
                self.input.extend_from_slice(&block[..n]);
                Step::On
            }
            Err(Error::WouldBlock) => Step::Wait,
            Err(_) => Step::Over,
        }
    }

    fn write(&mut self, engine: &mut Engine<Pool>, conn: ConnId, block: &mut [u8]) -> Step {
        let Stage::Writing {
            head,
            body,
            keep_alive,
        } = &mut self.stage
        else {
            return Step::On;
        };
        if !head.is_empty() {
            return match engine.write(conn, self.core, head) {
                Ok(n) => {
                    head.drain(..n);
                    Step::On
                }
                Err(Error::WouldBlock) => Step::Wait,
                Err(_) => Step::Over,
            };
        }
        if let Some(b) = body.as_mut().filter(|b| b.left > 0) {
            let room = engine.room(conn).map_or(0, |(write, _)| write);
            // At least a byte: a write that is refused asks to be told of room.
            let n = b.left.min(room.max(1)).min(block.len() as u64) as usize;
            if b.file.read_exact_at(&mut block[..n], b.at).is_err() {
                // Shorter than it was: what was promised cannot be kept.
                engine.abort(conn);
                return Step::Over;
            }
            return match engine.write(conn, self.core, &block[..n]) {
                Ok(n) => {
                    b.at += n as u64;
                    b.left -= n as u64;
                    Step::On
                }
                Err(Error::WouldBlock) => Step::Wait,
                Err(_) => Step::Over,
            };
        }
        if *keep_alive {
            self.stage = Stage::Reading;
            return Step::On;
        }
        self.stage = Stage::Lingering;
        match engine.shutdown(conn) {
            Ok(()) => Step::On,
            Err(_) => Step::Over,
        }
    }
}

fn linger(engine: &mut Engine<Pool>, conn: ConnId, block: &mut [u8]) -> Step {
    match engine.read(conn, block) {
        Ok(n) if n > 0 => Step::On,
        Err(Error::WouldBlock) => Step::Wait,
        Ok(_) | Err(_) => Step::Over,
    }
}

fn connection(keep_alive: bool) -> &'static str {
    if keep_alive { "keep-alive" } else { "close" }
}

/// An answer without a file.
fn refusal((code, phrase): Status, keep_alive: bool) -> Stage {
    let text = format!("{code} {phrase}\n");
    let allow = if code == 405 {
        "Allow: GET, HEAD\r\n"
    } else {
        ""
    };
    let head = format!(
        "HTTP/1.1 {code} {phrase}\r\n{allow}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: {}\r\n\r\n{text}",
        text.len(),
        connection(keep_alive)
    );
    Stage::Writing {
        head: head.into_bytes(),
        body: None,
        keep_alive,
    }
}

fn answer(server: &Server, request: &Request) -> Stage {
    let keep_alive = request.keep_alive;
    let Some((file, len)) = server.folder.file(&request.path) else {
        let stage = refusal((404, "Not Found"), keep_alive);
        return without_body(stage, request.head_only);
    };
    let (status, range, (at, left)) = match request.range.map(|r| r.within(len)) {
        None => ("200 OK", String::new(), (0, len)),
        Some(Some((at, left))) => {
            let range = format!("Content-Range: bytes {at}-{}/{len}\r\n", at + left - 1);
            ("206 Partial Content", range, (at, left))
        }
        Some(None) => {
            let range = format!("Content-Range: bytes */{len}\r\n");
            ("416 Range Not Satisfiable", range, (0, 0))
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {left}\r\nAccept-Ranges: bytes\r\n{range}Connection: {}\r\n\r\n",
        media_type(&request.path),
        connection(keep_alive)
    );
    Stage::Writing {
        head: head.into_bytes(),
        body: (!request.head_only).then_some(Body { file, at, left }),
        keep_alive,
    }
}

/// An answer to HEAD has the head only.
fn without_body(stage: Stage, head_only: bool) -> Stage {
    match stage {
        Stage::Writing {
            mut head,
            body,
            keep_alive,
        } if head_only => {
            if let Some(at) = head.windows(4).position(|w| w == b"\r\n\r\n") {
                head.truncate(at + 4);
            }
            Stage::Writing {
                head,
                body,
                keep_alive,
            }
        }
        other => other,
    }
}
