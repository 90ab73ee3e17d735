// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands in for the physical world: NIC as model or rtl, memory, wire, peers
//!
//! * [`nic`]: the trait that model and compiled RTL share.
//! * [`model`]: the NIC in plain Rust; [`dql`]: the dynamic queue limit.
//! * [`rtl`]: the compiled logic behind the same trait.
//! * [`function`]: the PCI function around a NIC: configuration space, MSI-X.
//! * [`root_complex`]: host memory with latency, bandwidth and faults; [`pages`]: memory.
//! * [`wire`], [`pcapng`]: rate, delay, loss, ECN marking; captures.
//! * [`world`]: all of that on one clock; [`inproc`]: the PCI function over it.
//! * [`vfio_user`]: the NICs of a world as devices of other processes.
//! * [`tap`], [`netns`], [`peer`]: a Linux kernel at the far end, in a network namespace
//!   made for the run.
//! * [`checkers`], [`scoreboard`]: what must hold of any NIC, and of two.
//! * [`harness`]: a bench for any NIC, with a small driver of its own.

pub mod checkers;
pub mod dql;
pub mod function;
pub mod harness;
pub mod inproc;
pub mod model;
pub mod netns;
pub mod nic;
pub mod pages;
pub mod pcapng;
pub mod peer;
pub mod root_complex;
pub mod rtl;
pub mod scoreboard;
mod slot;
pub mod tap;
pub mod vfio_user;
pub mod wire;
pub mod world;
