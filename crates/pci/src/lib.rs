// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a PCI function can do, seen from both of its ends, and no
//! implementation of it.
//!
//! * [`PciFunction`] is the driver's view: registers, DMA mappings, interrupts,
//!   and the device's clock to wait on. Kernel VFIO, vfio-user and the simulator's
//!   in-process function implement it.
//! * [`PciDevice`] is the device's view: what an incoming access does. The
//!   NIC model and the compiled RTL implement it, behind a bus that carries it.
//! * [`DmaMemory`] is what a device may do with host memory.
//! * [`config`] names the configuration space.

pub mod config;
mod device;
mod function;

pub use device::{DmaFault, DmaMemory, PciDevice};
pub use function::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
