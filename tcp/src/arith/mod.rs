// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arithmetic of the transmit path as pure functions and small state
//! machines: no clock, no allocation on any path, no panic for any input.
//!
//! The engine and `tsonic explain` both run this code. Integers only. Rates are
//! bytes of payload per second, times are nanoseconds, microseconds or
//! milliseconds as the names say, sizes are bytes of payload unless said
//! otherwise. Where Linux would wrap a 64-bit product, these functions saturate.

pub mod codel;
pub mod dctcp;
pub mod min_rtt;
pub mod pacing;
pub mod paws;
pub mod prr;
pub mod rtt;
pub mod tso;
pub mod tsq;
pub mod txq;
