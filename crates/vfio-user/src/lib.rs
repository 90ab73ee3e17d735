// SPDX-License-Identifier: MIT OR Apache-2.0
//! The wire format of vfio-user (QEMU, docs/interop/vfio-user.rst): a PCI device in a
//! process of its own, and its user in another, over a Unix socket.
//!
//! * [`Header`], [`Request`] and the replies: typed messages to bytes and back. Bytes
//!   are untrusted: whatever they are, parsing ends with a message or a [`WireError`],
//!   which also says what error number the other end is told.
//! * [`Version`]: the negotiation, with its capabilities in JSON.
//! * [`socket`]: messages with file descriptors over a stream socket, with time-outs.
//! * [`shared`]: the doorbell area that both ends may map.
//!
//! What the messages mean is the business of the two ends; this crate knows neither.
#![forbid(unsafe_code)]

mod bytes;
mod error;
mod header;
mod message;
mod reply;
pub mod shared;
pub mod socket;
mod version;

pub use error::{Errno, WireError};
pub use header::{Command, HEADER_BYTES, Header, Kind};
pub use message::{
    DmaAccess, DmaMap, DmaUnmap, IRQ_SET_ARGS, IrqAction, IrqData, RegionAccess, Request, SetIrqs,
    WRITE_MULTI_DATA,
};
pub use reply::{
    DeviceInfo, IrqInfo, RegionFlags, RegionInfo, SparseArea, encode_access_reply,
    parse_access_reply,
};
pub use version::{Capabilities, MAJOR, MINOR, Version};

/// Largest payload of a region or DMA access that either end offers and takes.
pub const DATA_MAX: usize = 1 << 20;
/// Longest message: such an access with its fields.
pub const MESSAGE_MAX: usize = HEADER_BYTES + 32 + DATA_MAX;
/// File descriptors of a message.
pub const FDS_MAX: usize = 16;

/// Indices of a PCI device's regions (linux/vfio.h).
pub mod region {
    /// BAR 0; BARs up to 5 follow.
    pub const BAR0: u32 = 0;
    /// Expansion ROM.
    pub const ROM: u32 = 6;
    /// Configuration space.
    pub const CONFIG: u32 = 7;
    /// Regions of a PCI device.
    pub const COUNT: u32 = 9;
}

/// Indices of a PCI device's interrupts (linux/vfio.h).
pub mod irq {
    /// INTx.
    pub const INTX: u32 = 0;
    /// MSI.
    pub const MSI: u32 = 1;
    /// MSI-X.
    pub const MSIX: u32 = 2;
    /// Interrupts of a PCI device.
    pub const COUNT: u32 = 5;
}
