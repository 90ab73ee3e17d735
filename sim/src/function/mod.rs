// SPDX-License-Identifier: MIT OR Apache-2.0
//! The PCI function around a NIC: what a hard block of PCI Express does for the logic
//! behind it, whichever bus carries the accesses.
//!
//! * `config`: type-0 configuration space: identity, command register, BARs that can be
//!   sized, power management, PCI Express with function-level reset, MSI-X.
//! * `msix`: the table of vectors with their masks, and the pending bits.
//!
//! [`Function`] holds both. It carries out nothing by itself: what a configuration
//! write means for the NIC comes back as an [`Effect`], and vectors that fire gather
//! until they are taken.

mod config;
mod msix;

use tsonic_pci::config::{
    COMMAND, COMMAND_MASTER, COMMAND_MEMORY, EXP_DEVCTL, EXP_DEVCTL_BCR_FLR, MSIX_FLAGS,
    MSIX_FLAGS_ENABLE, MSIX_FLAGS_MASKALL,
};

use config::ConfigSpace;
pub use config::{CAP_EXP, CAP_MSIX, CAP_PM};
use msix::Msix;

/// What a configuration write asks of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing more.
    None,
    /// A function-level reset.
    Reset,
}

/// See the module.
#[derive(Debug)]
pub struct Function {
    config: ConfigSpace,
    msix: Msix,
    /// Vectors that fired and were not taken, each once.
    fired: Vec<u16>,
}

impl Function {
    /// A function with `vectors` MSI-X vectors (1 to 2048), as after power-on: BARs not
    /// assigned, nothing decoded, no bus master.
    pub fn new(vectors: u16) -> Function {
        Function {
            config: ConfigSpace::new(vectors),
            msix: Msix::new(vectors),
            fired: Vec::with_capacity(vectors.into()),
        }
    }

    /// MSI-X vectors.
    pub fn vectors(&self) -> u16 {
        self.msix.vectors()
    }

    /// Everything as after power-on. Vectors that fired are forgotten.
    pub fn reset(&mut self) {
        self.config.reset();
        self.msix.reset();
        self.fired.clear();
    }

    /// Does what the firmware and the operating system of a host do before a driver
    /// sees the function: memory BARs get addresses and are decoded.
    pub fn assign(&mut self) {
        self.config.assign();
    }

    /// Reads configuration space; all ones beyond its end.
    pub fn config_read(&self, offset: u16, out: &mut [u8]) {
        self.config.read(offset.into(), out);
    }

    /// A 16-bit register of configuration space.
    pub fn config16(&self, offset: u16) -> u16 {
        let mut word = [0; 2];
        self.config_read(offset, &mut word);
        u16::from_le_bytes(word)
    }

    /// Writes configuration space; read-only bits stay.
    #[must_use]
    pub fn config_write(&mut self, offset: u16, data: &[u8]) -> Effect {
        self.config.write(offset.into(), data);
        if self.config16(CAP_EXP + EXP_DEVCTL) & EXP_DEVCTL_BCR_FLR != 0 {
            return Effect::Reset;
        }
        self.update();
        Effect::None
    }

    /// Whether memory BARs are decoded.
    pub fn decodes_memory(&self) -> bool {
        self.config16(COMMAND) & COMMAND_MEMORY != 0 && self.config.is_on()
    }

    /// Whether the function may issue requests.
    pub fn is_bus_master(&self) -> bool {
        self.config16(COMMAND) & COMMAND_MASTER != 0 && self.config.is_on()
    }

    /// Reads an aligned 32- or 64-bit piece of the MSI-X BAR; anything else is all ones.
    pub fn msix_read(&self, offset: u64, out: &mut [u8]) {
        if self.decodes_memory() {
            self.msix.read(offset, out);
        } else {
            out.fill(0xff);
        }
    }

    /// Writes an aligned 32- or 64-bit piece of the MSI-X BAR; anything else is ignored.
    pub fn msix_write(&mut self, offset: u64, data: &[u8]) {
        if self.decodes_memory() {
            self.msix.write(offset, data);
            self.update();
        }
    }

    /// Turns MSI-X on or off as an operating system does: without touching a table that
    /// the driver never sees. Off masks every vector.
    pub fn enable_msix(&mut self, on: bool) {
        let flags = self.config16(CAP_MSIX + MSIX_FLAGS);
        let flags = match on {
            true => flags | MSIX_FLAGS_ENABLE,
            false => flags & !(MSIX_FLAGS_ENABLE | MSIX_FLAGS_MASKALL),
        };
        self.config
            .write((CAP_MSIX + MSIX_FLAGS).into(), &flags.to_le_bytes());
        if !on {
            self.msix.reset();
            self.fired.clear();
        }
        self.update();
    }

    /// Masks or unmasks one vector; `false` when there is none of that number.
    #[must_use]
    pub fn mask_vector(&mut self, vector: u16, masked: bool) -> bool {
        let known = self.msix.set_mask(vector, masked);
        self.update();
        known
    }

    /// The function mask.
    pub fn mask_all(&mut self, masked: bool) {
        let flags = self.config16(CAP_MSIX + MSIX_FLAGS) & !MSIX_FLAGS_MASKALL;
        let flags = flags | if masked { MSIX_FLAGS_MASKALL } else { 0 };
        self.config
            .write((CAP_MSIX + MSIX_FLAGS).into(), &flags.to_le_bytes());
        self.update();
    }

    /// Whether a vector is pending.
    pub fn is_pending(&self, vector: u16) -> bool {
        self.msix.is_pending(vector)
    }

    /// The NIC signals a vector. It fires, stays pending while it may not, or, with
    /// MSI-X off, is lost. Says whether it fired.
    pub fn interrupt(&mut self, vector: u16) -> bool {
        let flags = self.config16(CAP_MSIX + MSIX_FLAGS);
        if flags & MSIX_FLAGS_ENABLE == 0 || vector >= self.vectors() {
            return false;
        }
        self.msix.set_pending(vector);
        self.update()
    }

    /// Moves the vectors that fired to `out`, each once, and says whether there were any.
    pub fn take_fired(&mut self, out: &mut Vec<u16>) -> bool {
        let any = !self.fired.is_empty();
        for v in self.fired.drain(..) {
            if !out.contains(&v) {
                out.push(v);
            }
        }
        any
    }

    /// Whether a vector fired that was not taken.
    pub fn has_fired(&self) -> bool {
        !self.fired.is_empty()
    }

    /// Fires what is pending and may.
    fn update(&mut self) -> bool {
        let flags = self.config16(CAP_MSIX + MSIX_FLAGS);
        let may = flags & (MSIX_FLAGS_ENABLE | MSIX_FLAGS_MASKALL) == MSIX_FLAGS_ENABLE;
        if !may || !self.is_bus_master() {
            return false;
        }
        let fired = &mut self.fired;
        let mut any = false;
        self.msix.fire(|v| {
            any = true;
            if !fired.contains(&v) {
                fired.push(v);
            }
        });
        any
    }
}

#[cfg(test)]
mod tests;
