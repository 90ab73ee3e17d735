// SPDX-License-Identifier: MIT OR Apache-2.0
//! Type-0 configuration space. A register is its bytes, and a mask of the bits that
//! software can write.

use tsonic_pci::config::*;
use tsonic_regs::pci::{
    CLASS_CODE, DEVICE_ID as TSONIC_DEVICE, MSIX_BAR, MSIX_BAR_BYTES, MSIX_PBA_OFFSET,
    MSIX_TABLE_OFFSET, REGISTER_BAR, REVISION, VENDOR_ID as TSONIC_VENDOR,
};
use tsonic_regs::registers::BAR0_BYTES;

/// Where the power management capability stands.
pub const CAP_PM: u16 = 0x40;
/// Where the PCI Express capability stands.
pub const CAP_EXP: u16 = 0x50;
/// Where the MSI-X capability stands.
pub const CAP_MSIX: u16 = 0x90;

/// PM capabilities: version 3 of the specification, no PME.
const PM_CAPABILITIES: u16 = 3;
/// PCI Express capabilities: version 2, endpoint.
const EXP_FLAGS: u16 = 2;
/// Device capabilities: payloads up to 512 bytes, extended tags, role-based errors.
const EXP_DEVICE: u32 = 2 | 1 << 5 | 1 << 15 | EXP_DEVCAP_FLR;
/// Device control that software may set: error reports, relaxed order, payload size,
/// extended tags, no snoop, read request size.
const EXP_DEVCTL_WRITABLE: u16 = 0x79ff;
/// Device control after reset: relaxed order, no snoop, 512 bytes a read request.
const EXP_DEVCTL_RESET: u16 = 1 << 4 | 1 << 11 | 2 << 12;
/// PCI Express: link capabilities and link status, from the capability.
const EXP_LNKCAP: u16 = 0x0c;
const EXP_LNKSTA: u16 = 0x12;
/// Link: 8 GT/s, two lanes.
const EXP_LINK: u16 = 3 | 2 << 4;
/// Where the BARs of an assigned function are, as good as any.
const ASSIGNED_REGISTERS: u64 = 0xfe00_0000;
const ASSIGNED_MSIX: u64 = 0xfe20_0000;

/// See the module.
#[derive(Debug)]
pub struct ConfigSpace {
    bytes: Box<[u8; CONFIG_BYTES]>,
    writable: Box<[u8; CONFIG_BYTES]>,
    vectors: u16,
}

impl ConfigSpace {
    pub fn new(vectors: u16) -> ConfigSpace {
        let mut space = ConfigSpace {
            bytes: Box::new([0; CONFIG_BYTES]),
            writable: Box::new([0; CONFIG_BYTES]),
            vectors,
        };
        space.reset();
        space
    }

    /// As after power-on.
    pub fn reset(&mut self) {
        self.bytes.fill(0);
        self.writable.fill(0);
        self.put16(VENDOR_ID, TSONIC_VENDOR, 0);
        self.put16(DEVICE_ID, TSONIC_DEVICE, 0);
        let command = COMMAND_MEMORY | COMMAND_MASTER | COMMAND_INTX_DISABLE;
        self.put16(COMMAND, 0, command);
        self.put16(STATUS, STATUS_CAP_LIST, 0);
        self.put32(REVISION_ID, u32::from(REVISION) | CLASS_CODE << 8, 0);
        self.put16(CACHE_LINE_SIZE, 0, 0x00ff);
        self.bar(REGISTER_BAR, BAR0_BYTES as u64);
        self.bar(MSIX_BAR, MSIX_BAR_BYTES as u64);
        self.put16(SUBSYSTEM_VENDOR_ID, TSONIC_VENDOR, 0);
        self.put16(SUBSYSTEM_ID, TSONIC_DEVICE, 0);
        self.put16(CAPABILITY_LIST, CAP_PM, 0);
        self.put16(INTERRUPT_LINE, 0, 0x00ff);

        self.capability(CAP_PM, CAP_ID_PM, CAP_EXP);
        self.put16(CAP_PM + 2, PM_CAPABILITIES, 0);
        self.put16(CAP_PM + PM_CTRL, PM_CTRL_NO_SOFT_RESET, PM_CTRL_STATE_MASK);

        self.capability(CAP_EXP, CAP_ID_EXP, CAP_MSIX);
        self.put16(CAP_EXP + 2, EXP_FLAGS, 0);
        self.put32(CAP_EXP + EXP_DEVCAP, EXP_DEVICE, 0);
        let control = EXP_DEVCTL_WRITABLE | EXP_DEVCTL_BCR_FLR;
        self.put16(CAP_EXP + EXP_DEVCTL, EXP_DEVCTL_RESET, control);
        self.put32(CAP_EXP + EXP_LNKCAP, EXP_LINK.into(), 0);
        self.put16(CAP_EXP + EXP_LNKSTA, EXP_LINK, 0);

        self.capability(CAP_MSIX, CAP_ID_MSIX, 0);
        let flags = MSIX_FLAGS_ENABLE | MSIX_FLAGS_MASKALL;
        let size = self.vectors.saturating_sub(1) & MSIX_FLAGS_QSIZE;
        self.put16(CAP_MSIX + MSIX_FLAGS, size, flags);
        let at = |offset: usize| offset as u32 | u32::from(MSIX_BAR);
        self.put32(CAP_MSIX + MSIX_TABLE, at(MSIX_TABLE_OFFSET), 0);
        self.put32(CAP_MSIX + MSIX_PBA, at(MSIX_PBA_OFFSET), 0);
    }

    /// Gives the BARs addresses and turns on their decoding.
    pub fn assign(&mut self) {
        for (bar, address) in [
            (REGISTER_BAR, ASSIGNED_REGISTERS),
            (MSIX_BAR, ASSIGNED_MSIX),
        ] {
            let at = usize::from(BASE_ADDRESS_0) + 4 * usize::from(bar);
            self.write(at, &address.to_le_bytes());
        }
        self.write(COMMAND.into(), &COMMAND_MEMORY.to_le_bytes());
    }

    /// Whether the function is in power state D0.
    pub fn is_on(&self) -> bool {
        let low = self.bytes[usize::from(CAP_PM + PM_CTRL)];
        u16::from(low) & PM_CTRL_STATE_MASK == 0
    }

    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let rest = self.bytes.get(offset..).unwrap_or_default();
        let n = out.len().min(rest.len());
        out[..n].copy_from_slice(&rest[..n]);
        out[n..].fill(0xff);
    }

    pub fn write(&mut self, offset: usize, data: &[u8]) {
        let bytes = self.bytes.iter_mut().zip(self.writable.iter());
        for ((byte, mask), new) in bytes.skip(offset).zip(data) {
            *byte = (*byte & !mask) | (new & mask);
        }
    }

    fn put16(&mut self, offset: u16, value: u16, writable: u16) {
        let at = usize::from(offset);
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        self.writable[at..at + 2].copy_from_slice(&writable.to_le_bytes());
    }

    fn put32(&mut self, offset: u16, value: u32, writable: u32) {
        self.put16(offset, value as u16, writable as u16);
        self.put16(offset + 2, (value >> 16) as u16, (writable >> 16) as u16);
    }

    /// A 64-bit memory BAR: address bits below its size read 0, which is how software
    /// finds the size.
    fn bar(&mut self, bar: u8, bytes: u64) {
        let at = BASE_ADDRESS_0 + 4 * u16::from(bar);
        let address = !(bytes - 1);
        self.put32(at, BASE_ADDRESS_MEM_TYPE_64, address as u32);
        self.put32(at + 4, 0, (address >> 32) as u32);
    }

    fn capability(&mut self, at: u16, id: u8, next: u16) {
        // Capabilities stand in the first 256 bytes.
        self.put16(at, u16::from(id) | next << 8, 0);
    }
}

const _: () = assert!(BAR0_BYTES.is_power_of_two() && MSIX_BAR_BYTES.is_power_of_two());
