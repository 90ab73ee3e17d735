// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC in RustHDL: one block a file, primitives apart.
//!
//! Constants of the contract (offsets, bits, limits) come from `tsonic-regs`.

// `LogicStruct` and `LogicState` generate public methods without documentation.
#![allow(missing_docs)]

pub mod blocks;
pub mod budget;
pub mod builds;
pub mod complete;
pub mod csr;
pub mod fetch;
pub mod flow_limit;
pub mod interrupt;
pub mod lint;
pub mod memory;
pub mod nic;
pub mod payload;
pub mod primitives;
pub mod receive;
pub mod schedule;
pub mod segment;
pub mod verilog;
pub mod words;

/// What a block's file imports.
pub mod prelude {
    pub use crate::primitives::*;
    pub use rust_hdl::prelude::*;
}
