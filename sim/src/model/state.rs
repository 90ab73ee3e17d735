// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model keeps: queues, flows, bursts, segments under way, reads under
//! way.

use std::collections::VecDeque;

use tsonic_regs::Status;
use tsonic_regs::descriptor::{RxDescriptor, TxDescriptor};
use tsonic_regs::limits::{FRAGMENTS_MAX, HEADER_MAX};
use tsonic_types::Ticks;

use super::budget::Budget;
use super::flow_bytes::FlowBytes;
use super::pacer::Pace;
use super::segment::{Layout, Place};

/// End of a list of bursts.
pub const NONE: u32 = u32::MAX;
/// A queue's list of unpaced bursts, as a member of its due list.
pub const UNPACED: u32 = u32::MAX;

/// Where one direction's rings lie; latched when the direction is enabled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rings {
    /// Doorbells are taken.
    pub enabled: bool,
    /// Counts up with each enable: what belongs to an earlier one is dropped.
    pub generation: u32,
    /// Address and slots of the descriptor ring.
    pub ring: u64,
    pub slots: u32,
    /// Address, entries and next index of the completion ring.
    pub completions: u64,
    pub entries: u32,
    pub next: u32,
    /// Phase of the present pass.
    pub phase: u8,
    /// Index of the slot after the last one filled.
    pub tail: u32,
    /// Index of the next slot to be asked for.
    pub fetched: u32,
    /// Index of the next slot to be taken: those before it are free.
    pub head: u32,
    /// A read of descriptors is under way.
    pub fetching: bool,
}

impl Rings {
    /// Slots filled and not asked for, up to the ring's end.
    pub fn run(&self) -> u32 {
        if self.tail >= self.fetched {
            self.tail - self.fetched
        } else {
            self.slots - self.fetched
        }
    }

    /// Slots filled and not asked for.
    pub fn pending(&self) -> u32 {
        self.tail.wrapping_sub(self.fetched) & self.slots.wrapping_sub(1)
    }

    /// Index `n` slots after `index`.
    pub fn after(&self, index: u32, n: u32) -> u32 {
        (index + n) & self.slots.wrapping_sub(1)
    }

    /// Address of the next completion and its phase; moves on.
    pub fn complete(&mut self) -> (u64, u8) {
        let at = self.completions + u64::from(self.next) * 32;
        let phase = self.phase;
        self.next += 1;
        if self.next >= self.entries {
            self.next = 0;
            self.phase ^= 1;
        }
        (at, phase)
    }
}

/// Transmit side of a queue.
#[derive(Default)]
pub struct TxQueue {
    pub rings: Rings,
    /// Due flows with the tick since when; [`UNPACED`] stands for `unpaced`.
    pub due: VecDeque<(u32, Ticks)>,
    /// Bursts of flow slot 0.
    pub unpaced: BurstList,
    pub unpaced_due: bool,
    /// Rate of the queue: ticks per wire byte; 0 is none.
    pub inv_rate: u64,
    pub pace: Pace,
    /// The rate was written since the last grant: `pace` starts anew with the next.
    pub renewed: bool,
    pub gate_open: bool,
    pub budget: Budget,
    /// Contexts in use or reserved.
    pub contexts: usize,
}

/// Receive side of a queue.
#[derive(Default)]
pub struct RxQueue {
    pub rings: Rings,
    /// Buffers fetched and not used.
    pub buffers: VecDeque<RxDescriptor>,
}

/// A list of bursts in the order of posting, linked through [`Burst::next`].
#[derive(Clone, Copy, Debug)]
pub struct BurstList {
    pub head: u32,
    pub tail: u32,
}

impl Default for BurstList {
    fn default() -> Self {
        BurstList {
            head: NONE,
            tail: NONE,
        }
    }
}

impl BurstList {
    pub fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub fn push(&mut self, bursts: &mut [Burst], burst: u32) {
        bursts[burst as usize].next = NONE;
        if self.head == NONE {
            self.head = burst;
        } else {
            bursts[self.tail as usize].next = burst;
        }
        self.tail = burst;
    }

    pub fn pop(&mut self, bursts: &[Burst]) {
        if self.head != NONE {
            self.head = bursts[self.head as usize].next;
            if self.head == NONE {
                self.tail = NONE;
            }
        }
    }

    /// Takes out the bursts for which `out` says so, in order.
    pub fn remove(&mut self, bursts: &mut [Burst], out: impl Fn(&Burst) -> bool) -> Vec<u32> {
        let mut removed = Vec::new();
        let mut kept = BurstList::default();
        let mut at = self.head;
        while at != NONE {
            let next = bursts[at as usize].next;
            if out(&bursts[at as usize]) {
                removed.push(at);
            } else {
                kept.push(bursts, at);
            }
            at = next;
        }
        *self = kept;
        removed
    }
}

/// What a flow does at present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowState {
    /// It has no burst.
    #[default]
    Idle,
    /// Its next departure is in the future.
    Waiting,
    /// It stands in the due list of this queue.
    Due(u16),
}

/// A row of the flow table.
#[derive(Default)]
pub struct Flow {
    pub bursts: BurstList,
    pub pace: Pace,
    pub state: FlowState,
    pub bytes: FlowBytes,
}

/// A burst in the device.
pub struct Burst {
    pub descriptor: TxDescriptor,
    pub layout: Layout,
    pub header: [u8; HEADER_MAX],
    pub fragments: [(u64, u32); FRAGMENTS_MAX],
    pub fragment_count: usize,
    pub queue: u16,
    pub generation: u32,
    /// What is wrong with it.
    pub status: Status,
    pub cn: bool,
    pub throttle: bool,
    /// It counts in its flow's bytes.
    pub counted: bool,
    /// In a list, waiting to be granted (its header has been read).
    pub listed: bool,
    pub active: bool,
    /// Next segment to be granted.
    pub offset: u32,
    pub index: u32,
    pub all_granted: bool,
    /// Segments granted and not departed.
    pub in_flight: u32,
    pub wire_bytes: u32,
    pub segments: u32,
    pub first: Option<Ticks>,
    pub last: Ticks,
    pub next: u32,
}

impl Burst {
    /// Calls `piece(address, bytes)` for each piece of payload
    /// `offset..offset + len`, until it says no.
    pub fn pieces(&self, offset: usize, len: usize, mut piece: impl FnMut(u64, usize) -> bool) {
        let (mut skip, mut left) = (offset, len);
        for (addr, bytes) in &self.fragments[..self.fragment_count] {
            let bytes = *bytes as usize;
            if skip >= bytes {
                skip -= bytes;
                continue;
            }
            let n = left.min(bytes - skip);
            if n == 0 || !piece(addr.wrapping_add(skip as u64), n) {
                return;
            }
            left -= n;
            skip = 0;
        }
    }
}

/// A segment that was granted and has not departed.
pub struct Job {
    pub burst: u32,
    pub place: Place,
    pub len: usize,
    /// Wire bytes that were charged to its queue.
    pub charged: usize,
    /// It does not depart.
    pub dropped: bool,
    /// When its frame is whole; `None` while its payload is read.
    pub ready: Option<Ticks>,
    pub frame: Vec<u8>,
}

/// A read under way.
pub enum Read {
    /// Transmit descriptors.
    Descriptors {
        queue: u16,
        generation: u32,
        index: u32,
        count: u32,
    },
    /// Header template (and continuation list) of a burst.
    Header { burst: u32 },
    /// Payload of a segment, by its number since the start.
    Payload { job: u64 },
    /// Receive descriptors.
    Buffers {
        queue: u16,
        generation: u32,
        index: u32,
        count: u32,
    },
}
