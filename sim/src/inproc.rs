// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PCI function in this process: the driver's view of a NIC in a [`World`].
//!
//! Waiting is what makes the clock advance. The world is behind a lock, so that
//! it can be looked at (statistics, captures) while a function exists, and so that
//! two functions can share a world with two NICs. Those two are run by one loop
//! that gives both the same deadline; either wait returns on the other's interrupt,
//! too.

use std::sync::{Arc, Mutex, MutexGuard};

use tsonic_pci::config::{COMMAND, CONFIG_BYTES};
use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciDevice, PciFunction, Wake};
use tsonic_regs::pci::{MSIX_BAR, MSIX_BAR_BYTES, REGISTER_BAR};
use tsonic_regs::registers::BAR0_BYTES;
use tsonic_types::Ticks;

use crate::function::Function;
use crate::world::{Slot, Step, World};

/// A function of a world's NIC.
#[derive(Clone)]
pub struct InprocFunction {
    world: Arc<Mutex<World>>,
    node: usize,
    /// Vectors that fired and were not taken, each once.
    fired: Vec<u16>,
    /// Vectors that the driver has enabled.
    enabled: u16,
}

impl InprocFunction {
    /// The function of the world's first NIC, its memory BARs assigned.
    pub fn new(world: World) -> InprocFunction {
        InprocFunction::of(Arc::new(Mutex::new(world)), 0)
    }

    /// The function of the world's second NIC, if it has one.
    pub fn other(&self) -> Option<InprocFunction> {
        let other = || InprocFunction::of(Arc::clone(&self.world), 1 - self.node);
        let nodes = self.world().nodes();
        (nodes > 1).then(other)
    }

    fn of(world: Arc<Mutex<World>>, node: usize) -> InprocFunction {
        let function = InprocFunction {
            world,
            node,
            fired: Vec::new(),
            enabled: 0,
        };
        function.world().with_function(node, |f| f.assign());
        function
    }

    /// The world. Do not hold it over a call of the function.
    pub fn world(&self) -> MutexGuard<'_, World> {
        // A panic of another holder leaves a world that is still consistent
        // enough to be read and taken down.
        self.world.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Runs `f` on the device's side of the function.
    fn slot<R>(&self, f: impl FnOnce(Slot<'_>) -> R) -> Result<R, BusError> {
        let mut world = self.world();
        world.slot(self.node).map(f).ok_or_else(gone)
    }
}

fn gone() -> BusError {
    BusError::Gone("no such NIC".into())
}

/// The offset, if the range lies inside configuration space.
fn config(offset: u16, bytes: usize) -> Result<u16, BusError> {
    match usize::from(offset).checked_add(bytes) {
        Some(end) if end <= CONFIG_BYTES => Ok(offset),
        _ => Err(BusError::BadConfigAccess { offset, bytes }),
    }
}

impl std::fmt::Debug for InprocFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InprocFunction")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

fn register(bar: u8, offset: u64) -> Result<(), BusError> {
    let bytes = match bar {
        REGISTER_BAR => BAR0_BYTES,
        MSIX_BAR => MSIX_BAR_BYTES,
        _ => 0,
    };
    if offset.is_multiple_of(4) && offset < bytes as u64 {
        return Ok(());
    }
    Err(BusError::BadAccess {
        bar,
        offset,
        bytes: 4,
    })
}

impl PciFunction for InprocFunction {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) -> Result<(), BusError> {
        let offset = config(offset, out.len())?;
        self.slot(|mut s| s.config_read(offset, out))
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) -> Result<(), BusError> {
        let offset = config(offset, data.len())?;
        self.slot(|mut s| s.config_write(offset, data))
    }

    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        register(bar, offset)?;
        let mut word = [0; 4];
        self.slot(|mut s| s.bar_read(bar, offset, &mut word))?;
        Ok(u32::from_le_bytes(word))
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        register(bar, offset)?;
        self.slot(|mut s| s.bar_write(bar, offset, &value.to_le_bytes()))
    }

    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        let mut world = self.world();
        let rc = world.memory_mut(self.node).ok_or_else(gone)?;
        // SAFETY: the caller keeps the contract of `PciFunction::dma_map`, which
        // is that of `HostMemory::map`.
        unsafe { rc.map(buffer.memory, buffer.bytes as u64, iova, permission) }
    }

    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        let mut world = self.world();
        let rc = world.memory_mut(self.node).ok_or_else(gone)?;
        rc.unmap(iova, bytes as u64)
    }

    fn reset(&mut self) -> Result<(), BusError> {
        let (node, enabled) = (self.node, self.enabled);
        self.fired.clear();
        let mut world = self.world();
        let command = world.function(node).ok_or_else(gone)?.config16(COMMAND);
        world.reset(node);
        world.with_function(node, |f| {
            f.assign();
            // No bit of the command register resets anything.
            let _ = f.config_write(COMMAND, &command.to_le_bytes());
            enable(f, enabled)
        });
        Ok(())
    }

    fn vectors(&self) -> u16 {
        let world = self.world();
        world.function(self.node).map_or(0, Function::vectors)
    }

    fn enable_vectors(&mut self, vectors: u16) -> Result<(), BusError> {
        let has = self.vectors();
        if vectors > has {
            return Err(BusError::TooFewVectors {
                wanted: vectors,
                has,
            });
        }
        self.enabled = self.enabled.max(vectors);
        let enabled = self.enabled;
        self.with_function(|f| enable(f, enabled))
    }

    fn disable_vectors(&mut self) -> Result<(), BusError> {
        self.enabled = 0;
        self.fired.clear();
        self.with_function(|f| f.enable_msix(false))
    }

    fn mask_vector(&mut self, vector: u16, masked: bool) -> Result<(), BusError> {
        if vector >= self.enabled {
            return Err(BusError::TooFewVectors {
                wanted: vector.saturating_add(1),
                has: self.enabled,
            });
        }
        self.with_function(|f| f.mask_vector(vector, masked))
            .map(drop)
    }

    fn mask_all(&mut self, masked: bool) -> Result<(), BusError> {
        self.with_function(|f| f.mask_all(masked))
    }

    fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        self.collect();
        let any = !self.fired.is_empty();
        out.append(&mut self.fired);
        any
    }

    fn now(&mut self) -> Ticks {
        self.world().now()
    }

    fn runs_by_itself(&self) -> bool {
        false
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        loop {
            if self.collect() {
                return Ok(Wake::Completion);
            }
            let step = self.world().step(deadline);
            match step {
                Step::Moved => {}
                Step::Interrupt => {
                    self.collect();
                    return Ok(Wake::Completion);
                }
                Step::Reached => return Ok(Wake::Deadline),
                Step::Idle => return Ok(Wake::Idle),
            }
        }
    }
}

/// Turns MSI-X on with vectors 0 to `vectors - 1` unmasked.
fn enable(f: &mut Function, vectors: u16) {
    for v in 0..vectors {
        // There are as many: `enable_vectors` has looked.
        let _ = f.mask_vector(v, false);
    }
    f.enable_msix(vectors > 0);
}

impl InprocFunction {
    fn with_function<R>(&self, f: impl FnOnce(&mut Function) -> R) -> Result<R, BusError> {
        self.world().with_function(self.node, f).ok_or_else(gone)
    }

    /// Takes what has fired at the device; whether that was anything.
    fn collect(&mut self) -> bool {
        let mut fired = std::mem::take(&mut self.fired);
        let any = self.world().take_fired(self.node, &mut fired);
        self.fired = fired;
        any
    }
}
