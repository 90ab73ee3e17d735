// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the engine tells the application.

use crate::engine::{ConnId, ListenerId};

pub(crate) const CONNECTED: u8 = 1;
pub(crate) const READABLE: u8 = 2;
pub(crate) const WRITABLE: u8 = 4;
pub(crate) const PEER_CLOSED: u8 = 8;
pub(crate) const CLOSED: u8 = 16;

/// What a connection is ready for: edges, several in one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(pub(crate) u8);

impl Ready {
    /// The active open succeeded.
    pub const fn connected(self) -> bool {
        self.0 & CONNECTED != 0
    }
    /// New data can be read.
    pub const fn readable(self) -> bool {
        self.0 & READABLE != 0
    }
    /// A write that was cut short can go on.
    pub const fn writable(self) -> bool {
        self.0 & WRITABLE != 0
    }
    /// The peer will send no more (read on to the end).
    pub const fn peer_closed(self) -> bool {
        self.0 & PEER_CLOSED != 0
    }
    /// The connection is over; [`crate::Engine::close_reason`] says why.
    pub const fn closed(self) -> bool {
        self.0 & CLOSED != 0
    }
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection waits to be accepted.
    Incoming(ListenerId),
    /// A connection is ready for something.
    Ready(ConnId, Ready),
}
