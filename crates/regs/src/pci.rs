// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the function is on a PCI bus: identity, BARs, interrupt vectors.
//!
//! BAR 0 holds the registers ([`crate::registers`]), BAR 2 the MSI-X table and its
//! pending bits. Both are 64-bit and not prefetchable. Vector q belongs to queue pair q,
//! the one after the last queue pair to the device's events.
//!
//! # Moderation
//! Completions of both directions of queue pair q count for vector q. One that is
//! written while none is gathered starts COALESCE_TICKS; the vector interrupts
//!
//! * at once, with a completion when COALESCE_TICKS is 0, when it is the
//!   COALESCE_COUNT-th that is gathered (a COUNT of 0 counts as 1), or when it asks
//!   for it: its burst has `TIMESTAMP`, its status is an error, or it carries `WAKE`;
//! * else when the first one that is gathered has waited for COALESCE_TICKS.
//!
//! An interrupt is for all that are gathered; then none is. Interrupts of one vector
//! that wait behind each other may become one. What is written to the two
//! registers counts from the next completion on. A logic looks at the vectors in turn:
//! the time rule may be late by four ticks a queue pair.
//!
//! # Order
//! An interrupt is posted behind the writes of the completions that it is for.
//!
//! # Events
//! The events' vector interrupts, without moderation, when a bit that is set in both
//! EVENT_STATUS and EVENT_MASK was not so before: when an event occurs whose bit was
//! clear and is in the mask, and when the mask gets the bit of an event that stands. An
//! event in the tick in which its bit is cleared comes behind the clearing.

/// Vendor ID. Not assigned by the PCI-SIG: a board must bring its own.
pub const VENDOR_ID: u16 = 0x7473;
/// Device ID.
pub const DEVICE_ID: u16 = 0x6e63;
/// Revision.
pub const REVISION: u8 = 1;
/// Class code: network controller, Ethernet.
pub const CLASS_CODE: u32 = 0x02_0000;

/// BAR of the registers.
pub const REGISTER_BAR: u8 = 0;
/// BAR of the MSI-X structures.
pub const MSIX_BAR: u8 = 2;
/// Bytes of that BAR.
pub const MSIX_BAR_BYTES: usize = 0x4000;
/// Offset of the MSI-X table in it.
pub const MSIX_TABLE_OFFSET: usize = 0;
/// Offset of the pending bits in it.
pub const MSIX_PBA_OFFSET: usize = 0x2000;
/// Bytes of an entry of the table (PCIe base specification, 6.1.4.2).
pub const MSIX_ENTRY_BYTES: usize = 16;

/// Vectors of a build with that many queue pairs.
pub const fn vectors(queues: usize) -> usize {
    queues + 1
}

/// Vector of the device's events in such a build.
pub const fn event_vector(queues: usize) -> usize {
    queues
}

const _: () = {
    use crate::limits::QUEUES_MAX;
    assert!(MSIX_TABLE_OFFSET + vectors(QUEUES_MAX) * MSIX_ENTRY_BYTES <= MSIX_PBA_OFFSET);
    assert!(MSIX_PBA_OFFSET + vectors(QUEUES_MAX).div_ceil(64) * 8 <= MSIX_BAR_BYTES);
};
