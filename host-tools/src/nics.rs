// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NICs that commands can ask for.

use clap::ValueEnum;
use serde::Serialize;
use tsonic_hdl::builds::{BUILDS, BuildError};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::rtl::{self, RtlError};

/// Which NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NicKind {
    /// The NIC in plain Rust, from event to event.
    Model,
    /// The generated Verilog, compiled by Verilator, cycle by cycle.
    Rtl,
}

/// Whether a NIC was asked for that there is no build of.
pub const fn no_such(error: &RtlError) -> bool {
    matches!(error, RtlError::Build(BuildError::Queues(_)))
}

impl NicKind {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            NicKind::Model => "model",
            NicKind::Rtl => "rtl",
        }
    }

    /// A NIC with `queues` queue pairs.
    ///
    /// # Errors
    /// Whatever keeps the RTL from being compiled; the model always comes.
    pub fn build(self, queues: u16) -> Result<Box<dyn Nic + Send>, RtlError> {
        Ok(match self {
            NicKind::Model => Box::new(Model::new(ModelConfig {
                queues: usize::from(queues),
                ..ModelConfig::default()
            })),
            NicKind::Rtl => Box::new(rtl::build(queues)?),
        })
    }

    /// A NIC with `queues` queue pairs, or with more when there is no such build.
    ///
    /// # Errors
    /// As [`NicKind::build`].
    pub fn build_at_least(self, queues: u16) -> Result<Box<dyn Nic + Send>, RtlError> {
        let enough = |b: &&u16| **b >= queues;
        match (self, BUILDS.iter().filter(enough).min()) {
            (NicKind::Rtl, Some(build)) => self.build(*build),
            _ => self.build(queues),
        }
    }

    /// A NIC with `queues` queue pairs that takes segments as large as it can have.
    ///
    /// # Errors
    /// As [`NicKind::build`].
    pub fn build_for_frames(self, queues: u16) -> Result<Box<dyn Nic + Send>, RtlError> {
        match self {
            NicKind::Model => Ok(Box::new(Model::new(ModelConfig {
                queues: usize::from(queues),
                max_segment: u32::from(u16::MAX),
                ..ModelConfig::default()
            }))),
            NicKind::Rtl => self.build(queues),
        }
    }
}
