// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC of a world as a device on a bus: what an access to its configuration space and
//! its BARs does.

use tsonic_pci::PciDevice;
use tsonic_regs::pci::{MSIX_BAR, REGISTER_BAR};
use tsonic_regs::registers::{BAR0_BYTES, DOORBELL_BASE, DOORBELL_STRIDE, doorbell};

use crate::function::Effect;
use crate::world::World;

/// A NIC of a world as a device on a bus.
pub struct Slot<'a> {
    world: &'a mut World,
    node: usize,
}

/// Whether an offset in BAR 0 is that of a clock in a doorbell page.
const fn is_clock(offset: usize) -> bool {
    let at = offset % DOORBELL_STRIDE;
    offset >= DOORBELL_BASE && (at == doorbell::CLOCK_LO.offset || at == doorbell::CLOCK_HI.offset)
}

impl<'a> Slot<'a> {
    /// NIC `node`, which there is.
    pub(crate) fn new(world: &'a mut World, node: usize) -> Slot<'a> {
        Slot { world, node }
    }

    /// Where in BAR 0 an access is, if it is one that the function supports.
    fn register(&self, offset: u64, bytes: usize) -> Option<u32> {
        let decodes = self.world.function(self.node)?.decodes_memory();
        let fits = matches!(bytes, 4 | 8)
            && offset.is_multiple_of(bytes as u64)
            && offset < BAR0_BYTES as u64;
        (decodes && fits).then_some(offset as u32)
    }
}

impl PciDevice for Slot<'_> {
    fn config_read(&mut self, offset: u16, out: &mut [u8]) {
        match self.world.function(self.node) {
            Some(f) => f.config_read(offset, out),
            None => out.fill(0xff),
        }
    }

    fn config_write(&mut self, offset: u16, data: &[u8]) {
        let effect = self
            .world
            .with_function(self.node, |f| f.config_write(offset, data));
        if effect == Some(Effect::Reset) {
            self.reset();
        }
    }

    fn bar_read(&mut self, bar: u8, offset: u64, out: &mut [u8]) {
        let at = self.register(offset, out.len());
        match (bar, at, self.world.function(self.node)) {
            // The whole clock at one tick, however wide the NIC's register port is.
            (REGISTER_BAR, Some(at), _) if is_clock(at as usize) => {
                let now = self.world.now().0.to_le_bytes();
                let from = at as usize % 8;
                out.copy_from_slice(&now[from..from + out.len()]);
            }
            (REGISTER_BAR, Some(at), _) => {
                for (i, word) in out.chunks_exact_mut(4).enumerate() {
                    let value = self.world.reg_read(self.node, at + 4 * i as u32);
                    word.copy_from_slice(&value.to_le_bytes());
                }
            }
            (MSIX_BAR, _, Some(f)) => f.msix_read(offset, out),
            _ => out.fill(0xff),
        }
    }

    fn bar_write(&mut self, bar: u8, offset: u64, data: &[u8]) {
        let at = self.register(offset, data.len());
        match (bar, at) {
            // Read only.
            (REGISTER_BAR, Some(at)) if is_clock(at as usize) => {}
            (REGISTER_BAR, Some(at)) => {
                for (i, word) in data.as_chunks().0.iter().enumerate() {
                    let value = u32::from_le_bytes(*word);
                    self.world.reg_write(self.node, at + 4 * i as u32, value);
                }
            }
            (MSIX_BAR, _) => {
                self.world
                    .with_function(self.node, |f| f.msix_write(offset, data));
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        self.world.reset(self.node);
    }
}
