// SPDX-License-Identifier: MIT OR Apache-2.0
//! Control of a running process: one Unix socket, over which its shard is watched
//! and tuned.
//!
//! ```text
//! command ── Client ══ socket ══ Server ── Mailbox ──> Inbox ── Shard::turn
//! ```
//!
//! A thread of the server speaks to the clients; what they ask goes to the shard as
//! a message, and the shard answers between two turns. Per burst nothing is done
//! for it: a turn without a message costs one look at an empty queue. The requests
//! and replies of [`protocol`] are used by both ends.

mod client;
mod directory;
mod failure;
mod mailbox;
pub mod mask;
pub mod protocol;
mod server;
mod service;
mod snapshot;

pub use client::{Client, ClientError};
pub use directory::{Directory, DirectoryError, Process};
pub use failure::{Code, Failure, tunable};
pub use mailbox::{Inbox, Mailbox, mailbox};
pub use server::{Limits, Server, ServerError};
pub(crate) use service::serve;
pub(crate) use snapshot::greeting;
