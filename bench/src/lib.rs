// SPDX-License-Identifier: MIT OR Apache-2.0
//! Experiments: what the mechanisms of the NIC and the engine are for, measured.
//!
//! Each experiment is a module with its settings, its rows, and `run`, which gives the
//! rows one by one as they are there. Times are virtual and draws seeded, so that a run
//! repeats exactly, except in [`throughput`], which measures what a host spends.

pub mod hosts;
mod meter;
mod metered;
pub mod pacing;
pub mod rig;
pub mod stats;
pub mod throughput;
pub mod tso_rtt;
pub mod tsq;
pub mod win_divisor;
pub mod xps;
