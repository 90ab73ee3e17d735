// SPDX-License-Identifier: MIT OR Apache-2.0
//! What any driver, and the kernel's, expects of a function.

use super::*;
use tsonic_pci::config::{
    BASE_ADDRESS_0, CAP_ID_EXP, CAP_ID_MSIX, CAP_ID_PM, CAPABILITY_LIST, MSIX_FLAGS_QSIZE, PM_CTRL,
    STATUS, STATUS_CAP_LIST,
};
use tsonic_regs::pci::{DEVICE_ID, MSIX_PBA_OFFSET, VENDOR_ID};

const VECTORS: u16 = 33;

fn read32(f: &Function, offset: u16) -> u32 {
    let mut word = [0; 4];
    f.config_read(offset, &mut word);
    u32::from_le_bytes(word)
}

fn write16(f: &mut Function, offset: u16, value: u16) {
    assert_eq!(f.config_write(offset, &value.to_le_bytes()), Effect::None);
}

fn pending(f: &Function) -> u64 {
    let mut word = [0; 8];
    f.msix_read(MSIX_PBA_OFFSET as u64, &mut word);
    u64::from_le_bytes(word)
}

fn fired(f: &mut Function) -> Vec<u16> {
    let mut out = Vec::new();
    assert_eq!(f.has_fired(), f.take_fired(&mut out));
    out
}

/// On, all vectors unmasked in the table, bus master on.
fn running() -> Function {
    let mut f = Function::new(VECTORS);
    f.assign();
    write16(&mut f, COMMAND, COMMAND_MEMORY | COMMAND_MASTER);
    write16(&mut f, CAP_MSIX + MSIX_FLAGS, MSIX_FLAGS_ENABLE);
    for v in 0..u64::from(VECTORS) {
        f.msix_write(16 * v + 12, &[0; 4]);
    }
    f
}

#[test]
fn identity_and_capabilities_are_found_by_walking() {
    let f = Function::new(VECTORS);
    assert_eq!(
        read32(&f, 0),
        u32::from(DEVICE_ID) << 16 | u32::from(VENDOR_ID)
    );
    assert_ne!(f.config16(STATUS) & STATUS_CAP_LIST, 0);
    let mut next = f.config16(CAPABILITY_LIST) & 0xff;
    let mut ids = Vec::new();
    while next != 0 && ids.len() < 16 {
        let head = f.config16(next);
        ids.push(head as u8);
        next = head >> 8;
    }
    assert_eq!(ids, [CAP_ID_PM, CAP_ID_EXP, CAP_ID_MSIX]);
    let flags = f.config16(CAP_MSIX + MSIX_FLAGS);
    assert_eq!(flags & MSIX_FLAGS_QSIZE, VECTORS - 1);
    let mut beyond = [0; 8];
    f.config_read(4092, &mut beyond);
    assert_eq!(beyond, [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
}

#[test]
fn bars_tell_their_size_and_take_an_address() {
    let mut f = Function::new(VECTORS);
    for (bar, size) in [(0, 0x20_0000u64), (2, 0x4000)] {
        let at = BASE_ADDRESS_0 + 4 * bar;
        assert_eq!(read32(&f, at) & 0xf, 4, "64 bits, not prefetchable");
        for half in [at, at + 4] {
            let _ = f.config_write(half, &[0xff; 4]);
        }
        let address = u64::from(read32(&f, at + 4)) << 32 | u64::from(read32(&f, at) & !0xf);
        assert_eq!(!address + 1, size);
        let _ = f.config_write(at, &0x1_2345_6789_abcd_u64.to_le_bytes());
        let got = u64::from(read32(&f, at + 4)) << 32 | u64::from(read32(&f, at) & !0xf);
        assert_eq!(got, 0x1_2345_6789_abcd & !(size - 1));
    }
    for none in [BASE_ADDRESS_0 + 16, BASE_ADDRESS_0 + 20] {
        let _ = f.config_write(none, &[0xff; 4]);
        assert_eq!(read32(&f, none), 0);
    }
    let _ = f.config_write(0, &[0xff; 4]);
    assert_eq!(read32(&f, 0) as u16, VENDOR_ID, "read only");
}

#[test]
fn nothing_is_decoded_before_memory_is_enabled_and_in_d3() {
    let mut f = Function::new(VECTORS);
    let mut word = [0; 4];
    f.msix_read(12, &mut word);
    assert_eq!(word, [0xff; 4]);
    f.assign();
    f.msix_read(12, &mut word);
    assert_eq!(word, [1, 0, 0, 0], "masked after reset");
    write16(&mut f, CAP_PM + PM_CTRL, 3);
    f.msix_read(12, &mut word);
    assert_eq!(word, [0xff; 4]);
    assert!(!f.is_bus_master());
    write16(&mut f, CAP_PM + PM_CTRL, 0);
    assert!(f.decodes_memory());
}

#[test]
fn a_masked_vector_is_pending_and_fires_when_it_is_unmasked() {
    let mut f = running();
    for v in [0, 31, 32] {
        assert!(f.interrupt(v));
    }
    assert_eq!(fired(&mut f), [0, 31, 32]);
    // By its own mask.
    f.msix_write(16 * 32 + 12, &[1, 0, 0, 0]);
    assert!(!f.interrupt(32) && !f.interrupt(32));
    assert_eq!((fired(&mut f), pending(&f)), (vec![], 1 << 32));
    assert!(f.is_pending(32));
    f.msix_write(16 * 32 + 8, &[0; 8]);
    assert_eq!((fired(&mut f), pending(&f)), (vec![32], 0), "once");
    // By the function mask.
    f.mask_all(true);
    assert!(!f.interrupt(1) && !f.interrupt(2));
    assert_eq!(pending(&f), 0b110);
    assert!(f.mask_vector(1, true));
    f.mask_all(false);
    assert_eq!((fired(&mut f), pending(&f)), (vec![2], 0b010));
    assert!(f.mask_vector(1, false));
    assert_eq!(fired(&mut f), [1]);
    // There is none of that number.
    assert!(!f.interrupt(VECTORS) && !f.mask_vector(VECTORS, false));
}

#[test]
fn bus_master_off_holds_interrupts_back() {
    let mut f = running();
    write16(&mut f, COMMAND, COMMAND_MEMORY);
    assert!(!f.interrupt(3));
    assert_eq!(pending(&f), 1 << 3);
    write16(&mut f, COMMAND, COMMAND_MEMORY | COMMAND_MASTER);
    assert_eq!((fired(&mut f), pending(&f)), (vec![3], 0));
    write16(&mut f, CAP_MSIX + MSIX_FLAGS, 0);
    assert!(!f.interrupt(3));
    assert_eq!(pending(&f), 0, "without MSI-X there is nobody to tell");
}

#[test]
fn accesses_of_other_widths_do_nothing() {
    let mut f = running();
    let entry: Vec<u8> = (1..=16).collect();
    f.msix_write(0, &entry[..8]);
    f.msix_write(8, &entry[8..12]);
    for (offset, bytes) in [
        (0u64, 1usize),
        (0, 2),
        (2, 4),
        (4, 8),
        (0, 16),
        (0, 0),
        (0, 3),
    ] {
        let mut out = vec![0; bytes];
        f.msix_read(offset, &mut out);
        assert_eq!(out, vec![0xff; bytes], "{offset}+{bytes}");
        f.msix_write(offset, &vec![0x77; bytes]);
    }
    let mut out = [0; 8];
    f.msix_read(0, &mut out);
    assert_eq!(out, [1 & !3, 2, 3, 4, 5, 6, 7, 8]);
    f.msix_read(8, &mut out);
    assert_eq!(out, [9, 10, 11, 12, 0, 0, 0, 0]);
    f.msix_write(MSIX_PBA_OFFSET as u64, &[0xff; 8]);
    f.msix_write(0x3ff8, &[0xff; 8]);
    assert_eq!(pending(&f), 0, "read only");
    f.msix_read(0x3ff8, &mut out);
    assert_eq!(out, [0; 8], "beyond the pending bits");
}

#[test]
fn a_function_level_reset_is_asked_for_and_leaves_power_on_state() {
    let mut f = running();
    f.mask_all(true);
    assert!(!f.interrupt(5));
    let flr = EXP_DEVCTL_BCR_FLR.to_le_bytes();
    assert_eq!(f.config_write(CAP_EXP + EXP_DEVCTL, &flr), Effect::Reset);
    f.reset();
    assert_eq!(f.config16(CAP_EXP + EXP_DEVCTL) & EXP_DEVCTL_BCR_FLR, 0);
    assert_eq!(f.config16(COMMAND), 0);
    assert_eq!(f.config16(CAP_MSIX + MSIX_FLAGS), VECTORS - 1);
    assert!(!f.is_pending(5) && !f.has_fired());
}
