// SPDX-License-Identifier: MIT OR Apache-2.0
//! Host TCP engine, sans-IO: no clock, no sockets, no threads. Time is an
//! argument, the NIC is a [`TxPort`], payload lies in the chunks of a
//! [`ChunkPool`].
//!
//! A host's loop, a turn at a time: reap completions
//! ([`Engine::on_tx_completion`]), hand over received frames
//! ([`Engine::on_frame`]), let the application react to [`Engine::next_event`],
//! then [`Engine::poll`]. When [`Engine::next_timer`] is `None` and nothing is in
//! the NIC, nothing has to run.
#![forbid(unsafe_code)]

pub mod arith;
mod bursts;
mod congestion;
mod conn;
pub mod engine;
pub mod event;
pub mod interface;
mod neighbour;
pub mod pool;
pub mod port;
mod reassembly;
mod scoreboard;
mod send_buffer;
mod shared;
pub mod stats;
mod timer_queue;
pub mod tunables;
pub mod wire;

pub use congestion::Algorithm;
pub use conn::{CloseReason, State};
pub use engine::{ConnId, ConnInfo, Engine, Error, ListenerId};
pub use event::{Event, Ready};
pub use interface::{Config, Interface};
pub use pool::HeapPool;
pub use port::{
    Burst, BurstKind, Checksum, ChunkId, ChunkPool, ChunkRef, PostError, QueueState, RxMeta,
    RxPort, TxCompletion, TxLimits, TxPort,
};
pub use tunables::Tunables;
pub use wire::ethernet::Mac;
