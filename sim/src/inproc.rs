// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PCI function in this process: the driver's view of a NIC in a [`World`].
//!
//! Waiting is what makes the clock advance. The world is behind a lock, so that
//! it can be looked at (statistics, captures) while a function exists, and so that
//! two functions can share a world with two NICs. Those two are run by one loop
//! that gives both the same deadline; either wait returns on the other's interrupt,
//! too.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use tsonic_pci::{BusError, DmaPermission, PciFunction, Wake};
use tsonic_regs::registers::BAR0_BYTES;
use tsonic_types::Ticks;

use crate::world::{Step, World};

/// A function of a world's NIC.
#[derive(Clone)]
pub struct InprocFunction {
    world: Arc<Mutex<World>>,
    node: usize,
    vectors: Vec<u16>,
}

impl InprocFunction {
    /// The function of the world's first NIC.
    pub fn new(world: World) -> InprocFunction {
        InprocFunction {
            world: Arc::new(Mutex::new(world)),
            node: 0,
            vectors: Vec::new(),
        }
    }

    /// The function of the world's second NIC, if it has one.
    pub fn other(&self) -> Option<InprocFunction> {
        (self.world().nodes() > 1).then(|| InprocFunction {
            world: Arc::clone(&self.world),
            node: 1 - self.node,
            vectors: Vec::new(),
        })
    }

    /// The world. Do not hold it over a call of the function.
    pub fn world(&self) -> MutexGuard<'_, World> {
        // A panic of another holder leaves a world that is still consistent
        // enough to be read and taken down.
        self.world.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl std::fmt::Debug for InprocFunction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InprocFunction")
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

fn register(bar: u8, offset: u64) -> Result<u32, BusError> {
    let inside = bar == 0 && offset.is_multiple_of(4) && offset < BAR0_BYTES as u64;
    match u32::try_from(offset) {
        Ok(offset) if inside => Ok(offset),
        _ => Err(BusError::BadAccess {
            bar,
            offset,
            bytes: 4,
        }),
    }
}

impl PciFunction for InprocFunction {
    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        let offset = register(bar, offset)?;
        Ok(self.world().reg_read(self.node, offset))
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        let offset = register(bar, offset)?;
        self.world().reg_write(self.node, offset, value);
        Ok(())
    }

    unsafe fn dma_map(
        &mut self,
        memory: NonNull<u8>,
        bytes: usize,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        let mut world = self.world();
        let Some(rc) = world.memory_mut(self.node) else {
            return Err(BusError::Gone("no such NIC".into()));
        };
        // SAFETY: the caller keeps the contract of `PciFunction::dma_map`, which
        // is that of `HostMemory::map`.
        unsafe { rc.map(memory, bytes as u64, iova, permission) }
    }

    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        let mut world = self.world();
        match world.memory_mut(self.node) {
            Some(rc) => rc.unmap(iova, bytes as u64),
            None => Err(BusError::Gone("no such NIC".into())),
        }
    }

    fn reset(&mut self) -> Result<(), BusError> {
        self.world().reset(self.node);
        Ok(())
    }

    fn now(&mut self) -> Ticks {
        self.world().now()
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        let node = self.node;
        let mut vectors = std::mem::take(&mut self.vectors);
        vectors.clear();
        let wake = {
            let mut world = self.world();
            loop {
                if world.take_interrupts(node, &mut vectors) {
                    break Wake::Completion;
                }
                match world.step(deadline) {
                    Step::Moved => {}
                    Step::Interrupt => {
                        world.take_interrupts(node, &mut vectors);
                        break Wake::Completion;
                    }
                    Step::Reached => break Wake::Deadline,
                    Step::Idle => break Wake::Idle,
                }
            }
        };
        self.vectors = vectors;
        Ok(wake)
    }
}
