// SPDX-License-Identifier: MIT OR Apache-2.0
//! Glue between engine and driver: the ports of the one over the queues of the
//! other ([`nic`]), the event loop of one shard ([`shard`]), a meter of how well
//! rates are kept ([`pacing`]), and the control of a running process ([`control`]).
#![forbid(unsafe_code)]

pub mod control;
pub mod nic;
pub mod pacing;
pub mod shard;

pub use nic::{Nic, NicConfig, Pool};
pub use pacing::PacingMeter;
pub use shard::{HostError, PoolConfig, Shard};
