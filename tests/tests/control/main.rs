// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watching and tuning of a running shard: what requests do to the traffic, in virtual
//! time, and what clients of the socket can do to it, which is nothing.

mod clients;
mod lab;
mod tuning;
