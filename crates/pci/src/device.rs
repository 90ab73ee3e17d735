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

/// What incoming accesses to a PCI function do.
pub trait PciDevice {
    /// A 32-bit read of BAR `bar`. `offset` is aligned and inside the BAR.
    fn bar_read32(&mut self, bar: u8, offset: u64) -> u32;
    /// A 32-bit write of BAR `bar`. `offset` is aligned and inside the BAR.
    fn bar_write32(&mut self, bar: u8, offset: u64, value: u32);
    /// Function-level reset.
    fn reset(&mut self);
}
