// SPDX-License-Identifier: MIT OR Apache-2.0
//! From the threads that speak to clients to the shard, and back.

use super::failure::{Code, Failure};
use super::protocol::{Reply, Request};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::Duration;
use tsonic_types::Nanos;

/// Requests that wait for the shard.
const WAITING_MAX: usize = 32;
/// Longest wait for an answer. A shard that waits for a device looks for requests
/// more often than that by far.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// An answer, with the engine's time at which it was made.
pub type Answer = (Nanos, Result<Reply, Failure>);

/// A request on its way.
pub(crate) struct Message {
    pub request: Request,
    pub answer: SyncSender<Answer>,
}

/// Where requests for a shard are put.
#[derive(Clone, Debug)]
pub struct Mailbox(SyncSender<Message>);

/// Where the shard finds them.
#[derive(Debug)]
pub struct Inbox(Receiver<Message>);

/// A mailbox and its inbox.
pub fn mailbox() -> (Mailbox, Inbox) {
    let (send, receive) = sync_channel(WAITING_MAX);
    (Mailbox(send), Inbox(receive))
}

impl Mailbox {
    /// Asks the shard, and waits for its answer.
    ///
    /// # Errors
    /// [`Code::NoAnswer`] when it is gone or too busy.
    pub fn ask(&self, request: Request) -> Result<Answer, Failure> {
        let (answer, answered) = sync_channel(1);
        let gone = || Failure::new(Code::NoAnswer, "the process is ending: nothing to do");
        match self.0.try_send(Message { request, answer }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                let full = format!("{WAITING_MAX} requests wait already: try again later");
                return Err(Failure::new(Code::NoAnswer, full));
            }
            Err(TrySendError::Disconnected(_)) => return Err(gone()),
        }
        answered.recv_timeout(ANSWER_WAIT).map_err(|e| match e {
            std::sync::mpsc::RecvTimeoutError::Disconnected => gone(),
            std::sync::mpsc::RecvTimeoutError::Timeout => {
                let seconds = ANSWER_WAIT.as_secs();
                let late = format!("no answer within {seconds} s: the shard hangs, or its NIC is very slow; try again");
                Failure::new(Code::NoAnswer, late)
            }
        })
    }
}

impl Inbox {
    /// The next request, if there is one.
    #[inline]
    pub(crate) fn take(&self) -> Option<Message> {
        self.0.try_recv().ok()
    }
}
