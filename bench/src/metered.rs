// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PCI function that counts the time spent in it: what a simulated device takes of
//! its host's calls, to be left out of the host's own cost.

use std::time::{Duration, Instant};
use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
use tsonic_types::Ticks;

/// See the module.
#[derive(Debug)]
pub struct Metered<F> {
    function: F,
    spent: Duration,
}

impl<F> Metered<F> {
    /// Counts from 0.
    pub const fn new(function: F) -> Metered<F> {
        Metered {
            function,
            spent: Duration::ZERO,
        }
    }

    /// Wall time spent in register accesses and looks at the clock so far.
    pub const fn spent(&self) -> Duration {
        self.spent
    }

    fn metered<R>(&mut self, call: impl FnOnce(&mut F) -> R) -> R {
        let start = Instant::now();
        let result = call(&mut self.function);
        self.spent += start.elapsed();
        result
    }
}

impl<F: PciFunction> PciFunction for Metered<F> {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError> {
        self.function.config_read(offset, out)
    }
    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError> {
        self.function.config_write(offset, data)
    }
    fn set_bus_master(&mut self, on: bool) -> Result<(), BusError> {
        self.function.set_bus_master(on)
    }
    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        self.metered(|f| f.read32(bar, offset))
    }
    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        self.metered(|f| f.write32(bar, offset, value))
    }
    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { self.function.dma_map(buffer, iova, permission) }
    }
    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        self.function.dma_unmap(iova, bytes)
    }
    fn reset(&mut self) -> Result<(), BusError> {
        self.function.reset()
    }
    fn vectors(&self) -> u16 {
        self.function.vectors()
    }
    fn enable_vectors(&mut self, vectors: u16) -> Result<(), BusError> {
        self.function.enable_vectors(vectors)
    }
    fn disable_vectors(&mut self) -> Result<(), BusError> {
        self.function.disable_vectors()
    }
    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError> {
        self.function.mask_vector(vector, masked)
    }
    fn mask_all(&mut self, masked: bool) -> Result<(), BusError> {
        self.function.mask_all(masked)
    }
    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        self.function.take_fired(out)
    }
    fn now(&mut self) -> Ticks {
        self.metered(F::now)
    }
    fn runs_by_itself(&self) -> bool {
        self.function.runs_by_itself()
    }
    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        self.function.wait(deadline)
    }
}
