// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's view of a PCI function.

use core::ptr::NonNull;
use thiserror::Error;
use tsonic_types::Ticks;

/// What a mapping lets the device do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaPermission {
    /// Read only (headers, payload, transmit descriptors).
    Read,
    /// Read and write (completions, receive buffers).
    ReadWrite,
}

impl DmaPermission {
    /// Whether the device may write.
    pub const fn writes(self) -> bool {
        matches!(self, DmaPermission::ReadWrite)
    }
}

/// Why a function did not do what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BusError {
    /// The access lies outside the BAR, or is not aligned.
    #[error("access of {bytes} bytes at {offset:#x} of BAR {bar} is outside it or not aligned")]
    BadAccess {
        /// BAR number.
        bar: u8,
        /// Offset in bytes.
        offset: u64,
        /// Size in bytes.
        bytes: usize,
    },
    /// The range overlaps a mapping, is empty, or is not aligned to a page.
    #[error(
        "DMA range {iova:#x}+{bytes:#x} overlaps a mapping, is empty, or is not page-aligned; unmap first or choose another"
    )]
    BadMapping {
        /// First I/O virtual address.
        iova: u64,
        /// Size in bytes.
        bytes: usize,
    },
    /// No mapping is at that address.
    #[error("no DMA mapping at {iova:#x}")]
    NotMapped {
        /// First I/O virtual address.
        iova: u64,
    },
    /// The device went away.
    #[error("the device is gone ({0}); restart it and open it again")]
    Gone(String),
    /// The device did not answer in time.
    #[error("the device did not answer {what} within {millis} ms")]
    TimedOut {
        /// What was asked.
        what: &'static str,
        /// How long was waited.
        millis: u64,
    },
    /// The operating system refused.
    #[error("{what}: {source}")]
    Os {
        /// What was asked of it.
        what: &'static str,
        /// Its answer.
        source: std::io::Error,
    },
}

/// Why [`PciFunction::wait`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// The device may have written completions.
    Completion,
    /// The deadline is reached.
    Deadline,
    /// Neither will ever happen: nothing is under way and no deadline was given.
    Idle,
}

/// A PCI function, as its driver sees it.
///
/// Addresses that the device uses are I/O virtual addresses (IOVAs), chosen by
/// the driver. Errors leave the function as it was.
pub trait PciFunction {
    /// Reads a 32-bit register.
    ///
    /// # Errors
    /// [`BusError::BadAccess`] outside the BAR; [`BusError::Gone`] when the
    /// device died.
    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError>;

    /// Writes a 32-bit register.
    ///
    /// # Errors
    /// As [`PciFunction::read32`].
    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError>;

    /// Lets the device use `bytes` bytes at `memory` under address `iova`. All
    /// three are multiples of 4096.
    ///
    /// # Errors
    /// [`BusError::BadMapping`] when the range overlaps another or is not aligned.
    ///
    /// # Safety
    /// The memory stays valid until [`PciFunction::dma_unmap`] of it returns, and
    /// the caller touches it only through raw pointers meanwhile: the device
    /// reads and, if permitted, writes it at any time.
    unsafe fn dma_map(
        &mut self,
        memory: NonNull<u8>,
        bytes: usize,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError>;

    /// Takes back a range given by one [`PciFunction::dma_map`]; once this
    /// returns, the device touches none of it.
    ///
    /// # Errors
    /// [`BusError::NotMapped`] when no mapping starts at `iova`.
    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError>;

    /// Resets the function (FLR): outstanding requests end, registers are as
    /// after power-on, mappings stay.
    ///
    /// # Errors
    /// [`BusError::Gone`], [`BusError::TimedOut`].
    fn reset(&mut self) -> Result<(), BusError>;

    /// The device's clock. Never goes back.
    fn now(&mut self) -> Ticks;

    /// Waits until the device may have written completions or its clock reads
    /// `deadline`, whichever comes first; with no deadline, for a completion.
    /// In virtual time this is what makes the clock advance.
    ///
    /// # Errors
    /// [`BusError::Gone`].
    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError>;
}
