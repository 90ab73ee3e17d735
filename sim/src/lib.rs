// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands in for the physical world: NIC as model or rtl, memory, wire, peers
//!
//! * [`dql`]: the dynamic queue limit.
//! * [`nic`]: the trait that model and compiled RTL share.

pub mod dql;
pub mod nic;
pub mod rtl;
