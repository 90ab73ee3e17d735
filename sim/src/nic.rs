// SPDX-License-Identifier: MIT OR Apache-2.0
//! The seam between a NIC and the world around it.
//!
//! [`Nic`] is implemented by the model (event-driven: its clock jumps from event
//! to event) and by the compiled RTL (cycle-driven: its clock counts). Whoever
//! runs a NIC, be it the in-process function, the vfio-user server or a test,
//! sees only this trait; one test suite serves both.
//!
//! A NIC reaches the world through [`Env`], which is lent to it for the length
//! of a call: host memory behind a root complex ([`MemoryPort`]) and the MAC
//! ([`MacPort`]). All times are absolute ticks of the one clock.
//!
//! # How to run a NIC
//! 1. `t` = the earliest of: [`Nic::next_event`] (when its events must
//!    interleave with those of another NIC), [`MemoryPort`]'s and [`MacPort`]'s own
//!    next events, and the caller's deadline.
//! 2. [`Nic::advance`] to `t`. It may stop early, at the first event that the
//!    world can see, because that may cause a new, earlier `t`.
//! 3. Let the world do what is due at [`Nic::now`], and go on at 1.
//!
//! # Splitting
//! A NIC splits its own requests: at most [`tsonic_regs::limits::DMA_REQUEST_MAX`]
//! bytes each, none across a boundary of
//! [`tsonic_regs::limits::DMA_BOUNDARY`] bytes.

use tsonic_pci::DmaFault;
use tsonic_types::{TickRate, Ticks};

/// Host memory as a NIC reaches it: a port into the root complex, with latency
/// and bandwidth. Read data comes back in the order of the requests; writes are
/// posted and land in order; no read passes a write.
pub trait MemoryPort {
    /// Accepts a read request of `bytes` (1..=512, inside 4 KiB) at tick `now`,
    /// and returns the tick at which its data has arrived whole. Never earlier
    /// than that of the request before it. The NIC then calls
    /// [`MemoryPort::read_data`] with the same range, in the order of requests.
    fn read_request(&mut self, now: Ticks, iova: u64, bytes: usize) -> Ticks;

    /// The data of the range of one earlier request (or of several adjacent ones
    /// at once), called at the tick that [`MemoryPort::read_request`] gave, or later.
    ///
    /// # Errors
    /// [`DmaFault`] when any byte of the range is not mapped; `out` is then
    /// undefined.
    fn read_data(&mut self, now: Ticks, iova: u64, out: &mut [u8]) -> Result<(), DmaFault>;

    /// Posts a write of `data` (1..=512 bytes, inside 4 KiB). It lands later; a
    /// fault is counted by the root complex and not told to the NIC, as on PCIe.
    fn write(&mut self, now: Ticks, iova: u64, data: &[u8]);

    /// Posts an interrupt behind the writes before it: the driver that waits is
    /// woken once it lands.
    fn interrupt(&mut self, now: Ticks, vector: u16);
}

/// A frame that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Tick of the first byte at the NIC's MAC port. The rest follows at the
    /// width of the data path.
    pub at: Ticks,
    /// The MAC marks the frame bad (wrong FCS).
    pub bad: bool,
}

/// The MAC's side of the NIC's MAC port. Frames are without padding, FCS and
/// preamble.
pub trait MacPort {
    /// Earliest tick at which the MAC takes the first byte of the next frame. It
    /// takes the rest without a pause. Changes only with [`MacPort::transmit`].
    fn tx_ready_at(&self) -> Ticks;

    /// A frame whose last byte is handed over at tick `departed`.
    fn transmit(&mut self, departed: Ticks, frame: &[u8]);

    /// Tick of the first byte of the next frame for the NIC, if one is known.
    fn rx_next(&self) -> Option<Ticks>;

    /// Takes that frame: replaces what `frame` holds. `None` when there is none.
    fn rx_take(&mut self, frame: &mut Vec<u8>) -> Option<Arrival>;
}

/// The world, lent to a NIC for one call.
pub struct Env<'a> {
    /// Host memory.
    pub memory: &'a mut dyn MemoryPort,
    /// The MAC.
    pub mac: &'a mut dyn MacPort,
}

/// Why [`Nic::advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advance {
    /// The clock reads what was asked for.
    Until,
    /// Something happened that the world can see (a frame departed, a write or an
    /// interrupt was posted); the clock reads the tick of it.
    Event,
}

/// A NIC: the model, or the compiled RTL.
pub trait Nic {
    /// Reads the 32-bit register at `offset` of BAR 0 (aligned, inside the BAR).
    /// The clock may move on by the ticks that an access takes.
    fn reg_read(&mut self, offset: u32, env: &mut Env<'_>) -> u32;

    /// Writes the 32-bit register at `offset` of BAR 0 (aligned, inside the BAR).
    fn reg_write(&mut self, offset: u32, value: u32, env: &mut Env<'_>);

    /// Function-level reset: registers as after power-on, nothing outstanding.
    /// The clock goes on.
    fn reset(&mut self, env: &mut Env<'_>);

    /// Frequency of the clock.
    fn tick_rate(&self) -> TickRate;

    /// The clock. Never goes back.
    fn now(&self) -> Ticks;

    /// Tick of the next thing the NIC will do by itself: `now() + 1` when it
    /// cannot say but is busy; `None` when nothing happens without the world
    /// (a register write, a frame).
    fn next_event(&self) -> Option<Ticks>;

    /// Whether the clock can be moved to [`Nic::next_event`] (or anywhere, when
    /// there is none) at once: no request outstanding, nothing due, the MAC port
    /// empty. Flows may be waiting for their departure.
    fn idle(&self) -> bool;

    /// Runs until the clock reads `until`, or to the first event that the world
    /// can see, whichever is earlier. Takes arriving frames from the MAC as they
    /// come. `until` in the past does nothing.
    fn advance(&mut self, until: Ticks, env: &mut Env<'_>) -> Advance;

    /// Whether a frame may wait for receive buffers that its host has not posted, instead
    /// of being dropped: who runs the NIC says so when it holds the clock for the host
    /// meanwhile ([`Nic::starving`]). What finds no room in the store is dropped in any
    /// case. A NIC that is slower than any host needs no such thing.
    fn wait_for_buffers(&mut self, _wait: bool) {}

    /// Whether a frame waits so, and the host has been told of all that would let it
    /// post buffers.
    fn starving(&self) -> bool {
        false
    }
}
