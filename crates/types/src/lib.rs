// SPDX-License-Identifier: MIT OR Apache-2.0
//! Identities and units shared by every layer of tsonic.
//!
//! A number that means something has a type here, so that a queue cannot be
//! taken for a flow slot nor a tick for a nanosecond.
#![no_std]
#![forbid(unsafe_code)]

mod seq;
mod time;

pub use seq::SeqNum;
pub use time::{Nanos, TickRate, Ticks};

use core::fmt;

macro_rules! identity {
    ($(#[$doc:meta])* $name:ident($int:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $name {
            /// The identity as an index into a table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

identity! {
    /// A queue pair of the NIC: transmit ring, receive ring and their
    /// completion rings. Counted from 0.
    QueueId(u16)
}
identity! {
    /// A row of the NIC's flow table. Slot 0 is the unpaced one and is shared.
    FlowSlot(u16)
}
identity! {
    /// A core of the host, as XPS counts them.
    CoreId(u16)
}
identity! {
    /// A tenant: one set of tunables.
    TenantId(u16)
}

impl FlowSlot {
    /// The slot of flows that the NIC does not pace.
    pub const UNPACED: FlowSlot = FlowSlot(0);
}

/// Bytes as they stand on the wire: the Ethernet frame without padding, FCS,
/// preamble and inter-frame gap. Budgets, deficit round robin and pacing count
/// these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WireBytes(pub u64);

/// A rate in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(pub u64);

impl ByteRate {
    /// All ones: no limit, as Linux writes it.
    pub const UNLIMITED: ByteRate = ByteRate(u64::MAX);

    /// Whether the rate limits anything.
    pub const fn is_limited(self) -> bool {
        self.0 != u64::MAX
    }
}
