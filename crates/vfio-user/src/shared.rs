// SPDX-License-Identifier: MIT OR Apache-2.0
//! The doorbell area when both ends map it.
//!
//! The pages are laid out as the device's contract has them (tails and clock); what is
//! here is how the two ends use them as memory.
//!
//! * A tail that holds [`NO_DOORBELL`] has been taken. The client stores a new tail; the
//!   device takes it by exchanging it for that, so that no store is missed, not even of
//!   the value before.
//! * The device stores its clock into each page while it runs.
//! * [`DOZE`] in a page is not 0 while the device sleeps and does not look at the pages.
//!   A client that finds it so after it has stored a tail sends a message, any message,
//!   which wakes the device; not one with the tail, which could arrive after a later
//!   store. Store, full fence, load on one side; store, full fence, look on the other:
//!   one of them sees what the other did.
//! * Stores are not ordered with messages: a client that has posted writes waits for a
//!   reply before it stores a tail that must come after them.

/// What a tail holds that the device has taken: no ring is as long.
pub const NO_DOORBELL: u32 = u32::MAX;
/// Offset of the word, in a doorbell page, that says that the device sleeps. The
/// contract's registers end far before it.
pub const DOZE: usize = 0xff8;
