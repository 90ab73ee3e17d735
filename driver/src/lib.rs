// SPDX-License-Identifier: MIT OR Apache-2.0
//! User-space driver of the tsonic NIC over any [`tsonic_pci::PciFunction`].
//!
//! * [`Device`]: opens the function (magic, contract version, limits), gives
//!   queues, sets up RSS and the device's registers, reads its counters.
//! * [`TxQueue`]: bursts in, typed completions out. Batch first: any number of
//!   posts, then one doorbell; what does not fit stays with the caller.
//! * [`RxQueue`]: frames out, buffers recycled, one doorbell a batch.
//! * [`FlowTable`]: rows of the NIC's flow table, reused when nothing of theirs
//!   is in the NIC.
//! * [`vfio_user`]: the function of a NIC in another process.
//! * [`watchdog`]: queues that stall, interrupts that get lost; [`poll`]: how long to
//!   look before sleeping.
//! * [`ChunkPool`]: registered, reference-counted payload memory.
//!
//! # Safety rules
//!
//! There is never a Rust reference to memory that the device may write, other than
//! to one atomic word for the moment of an access ([`memory`]). Memory is unmapped from the device before it is freed, and
//! leaked when that fails. What a device writes is not trusted: a cookie, a
//! length or an index is checked before use, counted when it makes no sense, and
//! can at worst stop its own queue.
//!
//! Nothing on the path of a burst or a frame allocates, locks, or makes a system
//! call of its own; only a doorbell may, when the function's back-end traps it.

pub mod burst;
pub mod chunk;
pub mod device;
pub mod error;
pub mod flow;
pub mod memory;
mod open;
pub mod poll;
mod queues;
pub mod rate;
pub mod ring;
pub mod rx;
mod settings;
pub mod stats;
pub mod tx;
pub mod vfio_user;
pub mod watchdog;

pub use burst::{Fragment, TxBurst, TxCompletion};
pub use chunk::{ChunkMap, ChunkPool};
pub use device::Device;
pub use error::{DriverError, PostError};
pub use flow::FlowTable;
pub use open::DeviceInfo;
pub use rate::slowest_rate;
pub use rx::{RxConfig, RxMeta, RxQueue};
pub use tsonic_regs::Status;
pub use tsonic_regs::completion::{ChecksumVerdict, HashKind};
pub use tsonic_regs::descriptor::Kind;
pub use tsonic_regs::limits::{BQL_MAX_LIMIT, COALESCE_COUNT_MAX, RSS_KEY_DEFAULT};
pub use tx::{BqlConfig, BqlState, TxConfig, TxQueue};
pub use vfio_user::{VfioUserConfig, VfioUserFunction};
pub use watchdog::{Watchdog, WatchdogConfig};
