// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hardware contract between driver, logic, firmware and tools: register
//! blocks, descriptor and completion words, error codes with remedies, limits,
//! and the version of it all.
//!
//! This is the only place where an offset, a bit or a limit is typed. The logic
//! takes its constants from here, so do the driver and the NIC model, and
//! `tsonic regs` prints this crate's tables.
#![no_std]

pub mod check;
pub mod completion;
pub mod descriptor;
mod error;
mod layout;
pub mod limits;
pub mod pci;
pub mod registers;
pub mod tables;

pub use error::Status;
pub use layout::Field;
pub use limits::{CONTRACT_VERSION, MAGIC};
