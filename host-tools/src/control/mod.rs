// SPDX-License-Identifier: MIT OR Apache-2.0
//! Commands that watch and tune a running process over its control socket, and the
//! other side of them: what `demo` and `echo` start to be watched and tuned.

pub mod bql;
pub mod coalesce;
pub mod features;
pub mod prometheus;
pub mod queue;
pub mod rate;
pub mod serve;
pub mod stats;
pub mod sysctl;
pub mod target;
pub mod xps;

use serde::Serialize;
use std::io::{self, Write};
use target::{Target, TargetError};
use thiserror::Error;
use tsonic_host::control::protocol::{Reply, Request};
use tsonic_host::control::{Client, ClientError};
use tsonic_types::Nanos;

/// Why a command on a running process failed.
#[derive(Debug, Error)]
pub enum ControlError {
    /// No process.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// It refused, or went away.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An assignment without a value.
    #[error("'{0}' is no assignment: write NAME=VALUE")]
    Assignment(String),
    /// An assignment of nothing.
    #[error("'{0}' assigns nothing: write NAME=VALUE; `tsonic sysctl -a` shows values")]
    NoValue(String),
    /// No setting of moderation.
    #[error("'{0}' is no setting: write tx-usecs N, tx-frames N, or both, each once")]
    Coalesce(String),
    /// Writing.
    #[error("{0}; check where standard output goes")]
    Output(#[from] io::Error),
}

impl ControlError {
    /// Whether the command line is wrong.
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            ControlError::Assignment(_) | ControlError::NoValue(_) | ControlError::Coalesce(_)
        )
    }
}

/// A reply of another kind than was asked for.
fn unexpected() -> ControlError {
    ClientError::Malformed("a reply to something else".into()).into()
}

/// Asks the process that is meant.
///
/// # Errors
/// [`ControlError`].
fn ask(target: &Target, request: Request) -> Result<(u32, Nanos, Reply), ControlError> {
    let mut client = target.connect()?;
    let (at, reply) = client.ask(request)?;
    Ok((client.greeting().pid, at, reply))
}

/// What stands around a reply in JSON.
#[derive(Serialize)]
struct Envelope<T: Serialize> {
    pid: u32,
    engine_time_ns: u64,
    #[serde(flatten)]
    reply: T,
}

/// Prints a reply as one line of JSON, or what `text` makes of it.
///
/// # Errors
/// Those of the output.
fn print<T: Serialize>(
    target: &Target,
    (pid, at): (u32, Nanos),
    reply: &T,
    text: impl FnOnce(&mut dyn Write, &T) -> io::Result<()>,
) -> Result<(), ControlError> {
    let engine_time_ns = at.0;
    let envelope = Envelope {
        pid,
        engine_time_ns,
        reply,
    };
    print_line(target, &envelope, |out, e| text(out, e.reply))
}

/// Prints an object as one line of JSON, or what `text` makes of it.
///
/// # Errors
/// Those of the output.
fn print_line<T: Serialize>(
    target: &Target,
    line: &T,
    text: impl FnOnce(&mut dyn Write, &T) -> io::Result<()>,
) -> Result<(), ControlError> {
    let mut out = io::stdout().lock();
    if target.json {
        serde_json::to_writer(&mut out, line).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        text(&mut out, line)?;
    }
    Ok(out.flush()?)
}

/// The connection of a command that asks again and again.
fn open(target: &Target) -> Result<Client, ControlError> {
    Ok(target.connect()?)
}

/// A queue as people write it: `tx-3`, or its number.
///
/// # Errors
/// A sentence that says what is taken.
pub fn queue_name(text: &str) -> Result<u16, String> {
    let number = text.strip_prefix("tx-").unwrap_or(text);
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    match number.parse() {
        Ok(queue) if digits => Ok(queue),
        _ => Err(format!(
            "'{text}' is no transmit queue: write tx-0, tx-1, ..."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::queue_name;

    #[test]
    fn queues_are_named_as_in_sysfs() {
        assert_eq!(queue_name("tx-0"), Ok(0));
        assert_eq!(queue_name("tx-255"), Ok(255));
        assert_eq!(queue_name("7"), Ok(7));
        for bad in ["", "tx-", "rx-1", "tx--1", "tx-+1", "tx-65536", "tx-1 "] {
            assert!(queue_name(bad).is_err(), "{bad}");
        }
    }
}
