// SPDX-License-Identifier: MIT OR Apache-2.0
//! Configuration space, as far as drivers and devices of this project use it: offsets
//! and bits of the PCI Local Bus (3.0), PCI Power Management (1.2) and PCI Express
//! (5.0) specifications, under the names that Linux gives them.

/// Bytes of a PCI Express function's configuration space.
pub const CONFIG_BYTES: usize = 4096;
/// Bytes of the part that conventional PCI has, too.
pub const CONVENTIONAL_BYTES: usize = 256;

/// Vendor ID (16 bits).
pub const VENDOR_ID: u16 = 0x00;
/// Device ID (16 bits).
pub const DEVICE_ID: u16 = 0x02;
/// Command register (16 bits).
pub const COMMAND: u16 = 0x04;
/// Status register (16 bits).
pub const STATUS: u16 = 0x06;
/// Revision ID (8 bits), and the class code in the 24 bits above.
pub const REVISION_ID: u16 = 0x08;
/// Cache line size (8 bits).
pub const CACHE_LINE_SIZE: u16 = 0x0c;
/// Header type (8 bits).
pub const HEADER_TYPE: u16 = 0x0e;
/// First base address register.
pub const BASE_ADDRESS_0: u16 = 0x10;
/// Subsystem vendor ID (16 bits).
pub const SUBSYSTEM_VENDOR_ID: u16 = 0x2c;
/// Subsystem ID (16 bits).
pub const SUBSYSTEM_ID: u16 = 0x2e;
/// Offset of the first capability (8 bits).
pub const CAPABILITY_LIST: u16 = 0x34;
/// Interrupt line (8 bits).
pub const INTERRUPT_LINE: u16 = 0x3c;

/// COMMAND: memory BARs are decoded.
pub const COMMAND_MEMORY: u16 = 1 << 1;
/// COMMAND: the function may issue requests: DMA and message-signalled interrupts.
pub const COMMAND_MASTER: u16 = 1 << 2;
/// COMMAND: INTx is off.
pub const COMMAND_INTX_DISABLE: u16 = 1 << 10;
/// STATUS: there is a list of capabilities.
pub const STATUS_CAP_LIST: u16 = 1 << 4;

/// Base address register: 64 bits wide.
pub const BASE_ADDRESS_MEM_TYPE_64: u32 = 1 << 2;

/// Capability ID: power management.
pub const CAP_ID_PM: u8 = 0x01;
/// Capability ID: PCI Express.
pub const CAP_ID_EXP: u8 = 0x10;
/// Capability ID: MSI-X.
pub const CAP_ID_MSIX: u8 = 0x11;

/// Power management: control and status, from the capability.
pub const PM_CTRL: u16 = 0x04;
/// PM_CTRL: power state.
pub const PM_CTRL_STATE_MASK: u16 = 3;
/// PM_CTRL: going back to D0 resets nothing.
pub const PM_CTRL_NO_SOFT_RESET: u16 = 1 << 3;

/// PCI Express: device capabilities (32 bits), from the capability.
pub const EXP_DEVCAP: u16 = 0x04;
/// EXP_DEVCAP: function-level reset.
pub const EXP_DEVCAP_FLR: u32 = 1 << 28;
/// PCI Express: device control (16 bits), from the capability.
pub const EXP_DEVCTL: u16 = 0x08;
/// EXP_DEVCTL: initiates a function-level reset; reads 0.
pub const EXP_DEVCTL_BCR_FLR: u16 = 1 << 15;

/// MSI-X: message control (16 bits), from the capability.
pub const MSIX_FLAGS: u16 = 0x02;
/// MSIX_FLAGS: entries of the table, less one.
pub const MSIX_FLAGS_QSIZE: u16 = 0x07ff;
/// MSIX_FLAGS: every vector is masked.
pub const MSIX_FLAGS_MASKALL: u16 = 1 << 14;
/// MSIX_FLAGS: MSI-X is on.
pub const MSIX_FLAGS_ENABLE: u16 = 1 << 15;
/// MSI-X: offset and BAR of the table (32 bits), from the capability.
pub const MSIX_TABLE: u16 = 0x04;
/// MSI-X: offset and BAR of the pending bits (32 bits), from the capability.
pub const MSIX_PBA: u16 = 0x08;

/// Table entry: message address, low half.
pub const MSIX_ENTRY_LOWER_ADDR: usize = 0x0;
/// Table entry: message address, high half.
pub const MSIX_ENTRY_UPPER_ADDR: usize = 0x4;
/// Table entry: message data.
pub const MSIX_ENTRY_DATA: usize = 0x8;
/// Table entry: vector control.
pub const MSIX_ENTRY_VECTOR_CTRL: usize = 0xc;
/// Vector control: the vector is masked.
pub const MSIX_ENTRY_CTRL_MASKBIT: u32 = 1;
