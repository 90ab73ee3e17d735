// SPDX-License-Identifier: MIT OR Apache-2.0
//! Glue between engine and driver: the ports of the one over the queues of the
//! other ([`nic`]), and the event loop of one shard ([`shard`]).
#![forbid(unsafe_code)]

pub mod nic;
pub mod shard;

pub use nic::{Nic, NicConfig, Pool};
pub use shard::{HostError, PoolConfig, Shard};
