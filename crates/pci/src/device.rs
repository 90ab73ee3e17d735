// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device's view of a PCI function.

use thiserror::Error;

/// The device met an address that is not mapped for what it tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("device {} of {bytes} bytes at {iova:#x}, which is not mapped for it", if *.write { "write" } else { "read" })]
pub struct DmaFault {
    /// Address that failed.
    pub iova: u64,
    /// Bytes asked for.
    pub bytes: usize,
    /// Whether it was a write.
    pub write: bool,
}

/// Host memory as the device reaches it. A request that fails touches nothing.
pub trait DmaMemory {
    /// Reads `out.len()` bytes at `iova`; the range may span mappings.
    ///
    /// # Errors
    /// [`DmaFault`] when any byte is not mapped.
    fn read(&self, iova: u64, out: &mut [u8]) -> Result<(), DmaFault>;

    /// Writes `data` at `iova` in ascending order of address; the range may span
    /// mappings.
    ///
    /// # Errors
    /// [`DmaFault`] when any byte is not mapped for writing.
    fn write(&self, iova: u64, data: &[u8]) -> Result<(), DmaFault>;
}

/// What incoming accesses to a PCI function do. An access that the function does not
/// support reads all ones or writes nothing, as on a bus.
pub trait PciDevice {
    /// Reads configuration space.
    fn config_read(&mut self, offset: u16, out: &mut [u8]);
    /// Writes configuration space.
    fn config_write(&mut self, offset: u16, data: &[u8]);
    /// Reads BAR `bar`: 4 or 8 bytes at an offset that is a multiple of as many.
    fn bar_read(&mut self, bar: u8, offset: u64, out: &mut [u8]);
    /// Writes BAR `bar`: 4 or 8 bytes at an offset that is a multiple of as many.
    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8]);
    /// Function-level reset.
    fn reset(&mut self);
}
