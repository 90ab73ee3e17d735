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
//!
//! | done | by |
//! |---|---|
//! | state machine, window, probes, keepalive | RFC 9293, 5961, 7323, 1122 |
//! | selective acknowledgement, duplicates | RFC 2018, 2883 |
//! | loss recovery | RFC 8985 (RACK-TLP), 9937 (PRR), 6298, 6582 without SACK |
//! | undoing spurious reductions | RFC 3522 (timestamps), 3708 (DSACK) |
//! | congestion control | RFC 9438 (CUBIC), 9406 (HyStart++), 5681, 8257 (DCTCP) |
//! | congestion marks | RFC 3168, and the NIC's own notification |
//! | transmit path | `tcp_tso_rtt_log`, small queues, XPS, pacing by NIC or engine |
//! | below | Ethernet with one VLAN tag, ARP, neighbour discovery, echo, IPv4, IPv6 |
//!
//! Not done: IP fragments, ICMP errors (path MTU discovery, unreachable), urgent
//! data, SYN cookies, Fast Open, accurate ECN, BBR, router and duplicate-address
//! discovery, more than one interface.
#![forbid(unsafe_code)]

pub mod arith;
mod bursts;
mod congestion;
mod conn;
pub mod engine;
pub mod event;
pub mod interface;
mod memory;
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
