// SPDX-License-Identifier: MIT OR Apache-2.0
//! The builds of the NIC, by their number of queue pairs.

use crate::nic::{Nic, Nic4, Nic32};
use crate::verilog::{self, Generated};
use rust_hdl::prelude::*;

/// 8 queue pairs, 64 flow slots.
pub type Nic8 = Nic<8, 8, 3, 6, 6, 7, 64, 128, 41, 38, 68, 3, 7, 8, 8>;

/// Rows of the flow table, that of unpaced bursts included, in every build.
pub const FLOW_SLOTS: u32 = 64;

/// Numbers of queue pairs for which there is a build.
pub const BUILDS: &[u16] = &[4, 8, 32];

/// Bytes of stack that building takes at most, code that is not optimised included.
const STACK: usize = 256 << 20;

/// Why there is no Verilog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// No such build.
    #[error("there is no build of the NIC with {0} queue pairs: choose 4, 8 or 32")]
    Queues(u16),
    /// The logic is not connected.
    #[error(transparent)]
    Verilog(#[from] verilog::Error),
    /// There is no thread to build it in.
    #[error("no thread can be started to build the NIC: {0}")]
    Thread(#[from] std::io::Error),
    /// The constructor of a block gave up.
    #[error("the NIC cannot be constructed: its constants do not fit together")]
    Constants,
}

/// Verilog and ports of the NIC with so many queue pairs. Its register BUILD_HASH
/// reads `hash`.
///
/// # Errors
/// [`BuildError`].
pub fn build(queues: u16, hash: u32) -> Result<Generated, BuildError> {
    fn of<B: Block>(mut nic: B) -> Result<Generated, BuildError> {
        nic.connect_all();
        Ok(verilog::generate(&nic)?)
    }
    let make = move || match queues {
        4 => of(Nic4::new(hash)),
        8 => of(Nic8::new(hash)),
        32 => of(Nic32::new(hash)),
        other => Err(BuildError::Queues(other)),
    };
    // Blocks are built on the stack, and this is a large one.
    let builder = std::thread::Builder::new().stack_size(STACK);
    builder
        .spawn(make)?
        .join()
        .map_err(|_| BuildError::Constants)?
}
