// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host TCP engine, sans-IO.
#![forbid(unsafe_code)]

pub mod arith;
mod congestion;
pub mod pool;
pub mod port;
mod reassembly;
mod scoreboard;
mod send_buffer;
pub mod tunables;
pub mod wire;

pub use congestion::Algorithm;
pub use port::{
    Burst, BurstKind, Checksum, ChunkId, ChunkPool, ChunkRef, PostError, QueueState, RxMeta,
    RxPort, TxCompletion, TxLimits, TxPort,
};
