// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bytes as a client of the vfio-user server would send them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::vfio_user::talk::talk;
use tsonic_sim::world::{LinkConfig, World};

fuzz_target!(|bytes: &[u8]| {
    let nic = Box::new(Model::new(ModelConfig {
        queues: 4,
        flow_slots: 16,
        ..ModelConfig::default()
    }));
    let memory = RootComplexConfig::default();
    talk(World::new(nic, memory, LinkConfig::default(), None), bytes);
});
