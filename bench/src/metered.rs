// SPDX-License-Identifier: MIT OR Apache-2.0
//! A function whose work is the device's on the [`Meter`], whoever calls it.

use crate::meter::Meter;
use std::rc::Rc;
use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
use tsonic_sim::inproc::InprocFunction;
use tsonic_types::Ticks;

/// Name of the function below which all is the device's: a profiler is told to leave it out.
pub(crate) const DEVICE: &str = "tsonic_bench_device";

/// Works as [`InprocFunction`] does.
#[derive(Debug)]
pub(crate) struct Metered {
    inner: InprocFunction,
    meter: Rc<Meter>,
}

/// What a host's turn asks of the device.
enum Ask {
    Read(u8, u64),
    Write(u8, u64, u32),
    Now,
}

/// Work of the device inside a turn of the host: see [`DEVICE`].
// SAFETY: no other symbol of the program has this name.
#[unsafe(no_mangle)]
#[inline(never)]
fn tsonic_bench_device(f: &mut InprocFunction, ask: &Ask) -> Result<u64, BusError> {
    ask.of(f)
}

impl Ask {
    fn of(&self, f: &mut InprocFunction) -> Result<u64, BusError> {
        match *self {
            Ask::Read(bar, offset) => f.read32(bar, offset).map(u64::from),
            Ask::Write(bar, offset, value) => f.write32(bar, offset, value).map(|()| 0),
            Ask::Now => Ok(f.now().0),
        }
    }
}

impl Metered {
    pub fn new(inner: InprocFunction, meter: Rc<Meter>) -> Metered {
        Metered { inner, meter }
    }

    fn ask(&mut self, ask: &Ask) -> Result<u64, BusError> {
        if !self.meter.is_host() {
            return ask.of(&mut self.inner);
        }
        if self.meter.is_counted() {
            return tsonic_bench_device(&mut self.inner, ask);
        }
        self.meter.switch(false);
        let answer = ask.of(&mut self.inner);
        self.meter.switch(true);
        answer
    }
}

impl PciFunction for Metered {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError> {
        self.inner.config_read(offset, out)
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError> {
        self.inner.config_write(offset, data)
    }

    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        self.ask(&Ask::Read(bar, offset)).map(|v| v as u32)
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        self.ask(&Ask::Write(bar, offset, value)).map(drop)
    }

    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { self.inner.dma_map(buffer, iova, permission) }
    }

    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        self.inner.dma_unmap(iova, bytes)
    }

    fn reset(&mut self) -> Result<(), BusError> {
        self.inner.reset()
    }

    fn vectors(&self) -> u16 {
        self.inner.vectors()
    }

    fn enable_vectors(&mut self, wanted: u16) -> Result<(), BusError> {
        self.inner.enable_vectors(wanted)
    }

    fn disable_vectors(&mut self) -> Result<(), BusError> {
        self.inner.disable_vectors()
    }

    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError> {
        self.inner.mask_vector(vector, masked)
    }

    fn mask_all(&mut self, masked: bool) -> Result<(), BusError> {
        self.inner.mask_all(masked)
    }

    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        self.inner.take_fired(out)
    }

    fn now(&mut self) -> Ticks {
        Ticks(self.ask(&Ask::Now).unwrap_or_default())
    }

    fn runs_by_itself(&self) -> bool {
        self.inner.runs_by_itself()
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        self.inner.wait(deadline)
    }
}
