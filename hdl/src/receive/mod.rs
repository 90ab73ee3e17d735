// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive path: MAC to host memory.

pub mod ethernet;
pub mod network;
pub mod parse;
pub mod toeplitz;
pub mod transport;
pub mod verdict;
