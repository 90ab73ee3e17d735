// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's view of a PCI function.

use crate::config::{COMMAND, COMMAND_MASTER, COMMAND_MEMORY};
use core::ptr::NonNull;
use std::os::fd::BorrowedFd;
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

/// Memory that a driver lets its device use.
#[derive(Clone, Copy, Debug)]
pub struct DmaBuffer<'a> {
    /// First byte, at a multiple of 4096.
    pub memory: NonNull<u8>,
    /// Bytes, a multiple of 4096.
    pub bytes: usize,
    /// The file that the memory is a shared mapping of, and the offset of its first
    /// byte in it: what a device in another process maps. `None`: anonymous memory.
    pub file: Option<(BorrowedFd<'a>, u64)>,
}

impl DmaBuffer<'_> {
    /// Memory that only this process can reach.
    pub const fn private(memory: NonNull<u8>, bytes: usize) -> DmaBuffer<'static> {
        DmaBuffer {
            memory,
            bytes,
            file: None,
        }
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
    /// The access lies outside configuration space.
    #[error("access of {bytes} bytes at {offset:#x} is outside configuration space")]
    BadConfigAccess {
        /// Offset in bytes.
        offset: u16,
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
    /// The device has another driver.
    #[error("another client uses the device; end that one, or use another device")]
    Busy,
    /// The device did not answer in time.
    #[error("the device did not answer {what} within {millis} ms")]
    TimedOut {
        /// What was asked.
        what: &'static str,
        /// How long was waited.
        millis: u64,
    },
    /// The device refused.
    #[error("the device refused {what}: {source}")]
    Refused {
        /// What was asked.
        what: &'static str,
        /// The error number of its answer.
        source: std::io::Error,
    },
    /// The function has fewer vectors.
    #[error("{wanted} interrupt vectors, of which the function has {has}; use fewer queues")]
    TooFewVectors {
        /// What was asked for.
        wanted: u16,
        /// What there is.
        has: u16,
    },
    /// The memory cannot be shared with another process.
    #[error(
        "DMA memory at {iova:#x} is private to this process, and the device is another one; allocate it as a file (memfd_create)"
    )]
    PrivateMemory {
        /// First I/O virtual address.
        iova: u64,
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
    /// The device interrupted: it may have written completions.
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
///
/// A function is handed over as an operating system hands it to a driver: memory BARs
/// assigned and decoded, bus master off, MSI-X off.
pub trait PciFunction {
    /// Reads `out.len()` bytes of configuration space.
    ///
    /// # Errors
    /// [`BusError::BadConfigAccess`] outside it; [`BusError::Gone`] when the device died.
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError>;

    /// Writes `data` to configuration space. The MSI-X capability belongs to
    /// [`PciFunction::enable_vectors`] and must not be written.
    ///
    /// # Errors
    /// As [`PciFunction::config_read`].
    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError>;

    /// Lets the function issue requests (DMA, interrupts), or forbids it. Memory BARs
    /// are decoded either way.
    ///
    /// # Errors
    /// [`BusError::Gone`].
    fn set_bus_master(&mut self, on: bool) -> Result<(), BusError> {
        let mut word = [0; 2];
        self.config_read(COMMAND, &mut word)?;
        let mut command = u16::from_le_bytes(word) | COMMAND_MEMORY | COMMAND_MASTER;
        if !on {
            command &= !COMMAND_MASTER;
        }
        self.config_write(COMMAND, &command.to_le_bytes())
    }

    /// Reads a 32-bit register.
    ///
    /// # Errors
    /// [`BusError::BadAccess`] outside the BAR; [`BusError::Gone`] when the
    /// device died.
    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError>;

    /// Writes a 32-bit register. The write is posted: it is done before any later
    /// access of this function, but maybe not when this returns.
    ///
    /// # Errors
    /// As [`PciFunction::read32`].
    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError>;

    /// Lets the device use `buffer` under address `iova`, a multiple of 4096.
    ///
    /// # Errors
    /// [`BusError::BadMapping`] when the range overlaps another or is not aligned;
    /// [`BusError::PrivateMemory`] when the device cannot reach it.
    ///
    /// # Safety
    /// The memory stays valid until [`PciFunction::dma_unmap`] of it returns, and
    /// the caller touches it only through raw pointers meanwhile: the device
    /// reads and, if permitted, writes it at any time.
    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
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
    /// after power-on. Mappings, the command register and the vectors that are enabled
    /// stay, as when an operating system resets a function for its driver; their masks
    /// are off.
    ///
    /// # Errors
    /// [`BusError::Gone`], [`BusError::TimedOut`].
    fn reset(&mut self) -> Result<(), BusError>;

    /// MSI-X vectors that the function has; 0: it has no interrupts, and
    /// [`PciFunction::wait`] finds completions by itself.
    fn vectors(&self) -> u16;

    /// Turns MSI-X on with vectors 0 to `vectors - 1`, none masked. More may be asked
    /// for later.
    ///
    /// # Errors
    /// [`BusError::TooFewVectors`], [`BusError::Gone`].
    fn enable_vectors(&mut self, vectors: u16) -> Result<(), BusError>;

    /// Turns MSI-X off.
    ///
    /// # Errors
    /// [`BusError::Gone`].
    fn disable_vectors(&mut self) -> Result<(), BusError>;

    /// Masks or unmasks one vector. What it announces while masked is kept pending, and
    /// fires when it is unmasked.
    ///
    /// # Errors
    /// [`BusError::TooFewVectors`] when it is not enabled; [`BusError::Gone`].
    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError>;

    /// Masks all vectors at once, or lets each be as its own mask has it (the
    /// function mask of MSI-X).
    ///
    /// # Errors
    /// [`BusError::Gone`].
    fn mask_all(&mut self, masked: bool) -> Result<(), BusError>;

    /// Moves the vectors that fired since the last call to `out`, each once, and says
    /// whether there were any. Does not wait.
    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool;

    /// The device's clock. Never goes back.
    fn now(&mut self) -> Ticks;

    /// Whether the clock goes on by itself, as any hardware's does. `false`: virtual
    /// time, which moves in [`PciFunction::wait`] only.
    fn runs_by_itself(&self) -> bool;

    /// Waits until a vector fires or the clock reads `deadline`, whichever comes first;
    /// with no deadline, for a vector. In virtual time this is what makes the clock
    /// advance. What an earlier wait has returned for does not count again.
    ///
    /// # Errors
    /// [`BusError::Gone`].
    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError>;
}

/// So that a program can choose the bus when it runs.
impl<F: PciFunction + ?Sized> PciFunction for Box<F> {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError> {
        (**self).config_read(offset, out)
    }
    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError> {
        (**self).config_write(offset, data)
    }
    fn set_bus_master(&mut self, on: bool) -> Result<(), BusError> {
        (**self).set_bus_master(on)
    }
    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        (**self).read32(bar, offset)
    }
    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        (**self).write32(bar, offset, value)
    }
    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { (**self).dma_map(buffer, iova, permission) }
    }
    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        (**self).dma_unmap(iova, bytes)
    }
    fn reset(&mut self) -> Result<(), BusError> {
        (**self).reset()
    }
    fn vectors(&self) -> u16 {
        (**self).vectors()
    }
    fn enable_vectors(&mut self, vectors: u16) -> Result<(), BusError> {
        (**self).enable_vectors(vectors)
    }
    fn disable_vectors(&mut self) -> Result<(), BusError> {
        (**self).disable_vectors()
    }
    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError> {
        (**self).mask_vector(vector, masked)
    }
    fn mask_all(&mut self, masked: bool) -> Result<(), BusError> {
        (**self).mask_all(masked)
    }
    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        (**self).take_fired(out)
    }
    fn now(&mut self) -> Ticks {
        (**self).now()
    }
    fn runs_by_itself(&self) -> bool {
        (**self).runs_by_itself()
    }
    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        (**self).wait(deadline)
    }
}
