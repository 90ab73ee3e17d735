// SPDX-License-Identifier: MIT OR Apache-2.0
//! The other end: what a command uses.

use super::failure::Failure;
use super::protocol::{Greeting, PROTOCOL, REPLY_MAX, Reply, ReplyLine, Request, RequestLine};
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;
use tsonic_types::Nanos;

/// Longest wait for a line. The server waits less for its shard.
const WAIT: Duration = Duration::from_secs(15);

/// Why a request has no reply.
#[derive(Debug, Error)]
pub enum ClientError {
    /// The socket.
    #[error("the control socket: {0}; is the process still running?")]
    Io(#[from] io::Error),
    /// Another version.
    #[error(
        "the process speaks version {found} of the control protocol, this command {PROTOCOL}: use the tsonic that it was started from"
    )]
    Version {
        /// What it speaks.
        found: u32,
    },
    /// No line of the protocol.
    #[error(
        "the process answers what this command does not understand ({0}): use the tsonic that it was started from"
    )]
    Malformed(String),
    /// The request was not done.
    #[error("{0}")]
    Failed(Failure),
}

/// A connection to a process.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    greeting: Greeting,
    next_id: u64,
}

impl Client {
    /// Connects to a socket, and checks that both speak the same protocol.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(socket: &Path) -> Result<Client, ClientError> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(WAIT))?;
        stream.set_write_timeout(Some(WAIT))?;
        let mut stream = BufReader::new(stream);
        let line = read_line(&mut stream)?;
        // The version is read alone: a greeting of another one may have other keys.
        let any: serde_json::Value = parse(&line)?;
        if let Some(failure) = any.get("error").cloned() {
            return Err(match serde_json::from_value(failure) {
                Ok(failure) => ClientError::Failed(failure),
                Err(e) => ClientError::Malformed(e.to_string()),
            });
        }
        let version = any.get("protocol").and_then(serde_json::Value::as_u64);
        match version {
            Some(v) if v == u64::from(PROTOCOL) => {}
            Some(v) => {
                let found = u32::try_from(v).unwrap_or(u32::MAX);
                return Err(ClientError::Version { found });
            }
            None => return Err(ClientError::Malformed("no version".into())),
        }
        Ok(Client {
            greeting: parse(&line)?,
            stream,
            next_id: 1,
        })
    }

    /// What the process says about itself.
    pub const fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Asks, and waits for the answer: the engine's time, and the reply.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn ask(&mut self, request: Request) -> Result<(Nanos, Reply), ClientError> {
        let id = self.next_id;
        self.next_id += 1;
        let mut text = serde_json::to_vec(&RequestLine { id, request }).map_err(io::Error::from)?;
        text.push(b'\n');
        self.stream.get_mut().write_all(&text)?;
        let line: ReplyLine = parse(&read_line(&mut self.stream)?)?;
        match line {
            ReplyLine {
                error: Some(failure),
                ..
            } => Err(ClientError::Failed(failure)),
            ReplyLine {
                id: Some(n),
                engine_time_ns: Some(at),
                reply: Some(reply),
                ..
            } if n == id => Ok((Nanos(at), reply)),
            _ => Err(ClientError::Malformed(
                "neither a reply nor an error".into(),
            )),
        }
    }
}

fn read_line(stream: &mut BufReader<UnixStream>) -> Result<Vec<u8>, ClientError> {
    let mut line = Vec::new();
    stream.take(REPLY_MAX as u64).read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        Some(_) if line.len() + 1 >= REPLY_MAX => {
            Err(ClientError::Malformed("a line without an end".into()))
        }
        _ => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}

fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(line).map_err(|e| ClientError::Malformed(e.to_string()))
}
