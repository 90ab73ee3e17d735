// SPDX-License-Identifier: MIT OR Apache-2.0
//! One suite for every NIC: golden vectors, errors, rings, pacing, fairness,
//! conservation. A test binary gives a maker of NICs.
#![allow(dead_code)]

pub mod arrivals;
pub mod budget;
pub mod errors;
pub mod frames;
pub mod interrupts;
pub mod load;
pub mod marks;
pub mod pair;
pub mod rates;
pub mod reset;
pub mod vectors;

use tsonic_sim::harness::Bench;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;

/// A bench with 64 MiB of memory.
pub fn bench<N: Nic>(nic: N) -> Bench<N> {
    Bench::new(nic, RootComplexConfig::default(), 64 << 20)
}
