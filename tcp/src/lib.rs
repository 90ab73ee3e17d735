// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host TCP engine, sans-IO.
#![forbid(unsafe_code)]

pub mod arith;
pub mod port;
pub mod wire;

pub use port::{
    Burst, BurstKind, Checksum, ChunkId, ChunkPool, ChunkRef, PostError, QueueState, RxMeta,
    RxPort, TxCompletion, TxLimits, TxPort,
};
