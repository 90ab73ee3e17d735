// SPDX-License-Identifier: MIT OR Apache-2.0
//! The register space: BAR 0. 32-bit little-endian registers; 64-bit values
//! stand in two, low half first, and take effect with the write of the high half.
//!
//! | offset | what |
//! |---|---|
//! | 0x0000 | [`GlobalBlock`] |
//! | 0x8000 + 0x80 q | [`QueueBlock`] of queue pair q |
//! | 0x10_0000 + 0x1000 q | [`DoorbellPage`] of queue pair q |
//!
//! The MSI-X table and its pending bits are a BAR of their own: [`crate::pci`].

use crate::layout::word;
use volatile_register::{RO, RW, WO};

/// Bytes of BAR 0.
pub const BAR0_BYTES: usize = 0x20_0000;
/// Offset of queue pair 0's block.
pub const QUEUE_BLOCK_BASE: usize = 0x8000;
/// Bytes from one queue block to the next.
pub const QUEUE_BLOCK_STRIDE: usize = 0x80;
/// Offset of queue pair 0's doorbell page.
pub const DOORBELL_BASE: usize = 0x10_0000;
/// Bytes from one doorbell page to the next.
pub const DOORBELL_STRIDE: usize = 0x1000;

word! {
    /// What a build can do.
    Features(u32) / features {
        /// TCP segmentation.
        tso, set_tso, TSO: u8 = 0..0;
        /// UDP segmentation.
        uso, set_uso, USO: u8 = 1..1;
        /// Segments of a flow are spaced by its rate.
        pacing, set_pacing, PACING: u8 = 2..2;
        /// Launch times.
        launch_time, set_launch_time, LAUNCH_TIME: u8 = 3..3;
        /// Byte budget per queue (dynamic queue limit).
        bql, set_bql, BQL: u8 = 4..4;
        /// Congestion notification at enqueue.
        cn, set_cn, CN: u8 = 5..5;
        /// Byte limit per flow (throttle, wake).
        flow_limit, set_flow_limit, FLOW_LIMIT: u8 = 6..6;
        /// Receive-side scaling.
        rss, set_rss, RSS: u8 = 7..7;
        /// Interrupts (MSI-X).
        msix, set_msix, MSIX: u8 = 8..8;
    }
}

word! {
    /// Control of the device.
    Control(u32) / control {
        /// 1: the device fetches, sends and receives.
        enable, set_enable, ENABLE: u8 = 0..0;
        /// Write 1: reset everything but this register space's constants; reads 1 until done.
        reset, set_reset, RESET: u8 = 1..1;
    }
}

word! {
    /// State of the device.
    DeviceStatus(u32) / device_status {
        /// 1: no burst is in the device, no request is outstanding, the MAC port is empty.
        idle, set_idle, IDLE: u8 = 0..0;
    }
}

word! {
    /// Events of the device, one vector for all of them ([`crate::pci::event_vector`]).
    Events(u32) / events {
        /// A doorbell was refused; DOORBELL_ERRORS counts them.
        doorbell, set_doorbell, DOORBELL: u8 = 0..0;
        /// A queue's stall detector found a stall; its write-back says which.
        bql_stall, set_bql_stall, BQL_STALL: u8 = 1..1;
        /// A read of the device met an address that is not mapped for it.
        address_fault, set_address_fault, ADDRESS_FAULT: u8 = 2..2;
    }
}

word! {
    /// Size of a queue's rings.
    RingSize(u32) / ring_size {
        /// log2 of the descriptor ring's slots, 6 to 12.
        ring_log2, set_ring_log2, RING_LOG2: u8 = 3..0;
        /// log2 of the completion ring's entries, 6 to 13.
        completion_log2, set_completion_log2, COMPLETION_LOG2: u8 = 11..8;
    }
}

word! {
    /// Control of one direction of a queue pair.
    QueueControl(u32) / queue_control {
        /// 1: doorbells are taken. Turning it on starts both rings at index 0 and phase 1.
        enable, set_enable, ENABLE: u8 = 0..0;
    }
}

macro_rules! block {
    (
        $(#[$doc:meta])* $name:ident / $module:ident [$bytes:literal] {
            $( $(#[doc = $fdoc:literal])* $offset:literal $field:ident $konst:ident : $access:ident $([$n:expr])?; )*
        }
    ) => {
        $(#[$doc])*
        #[doc = ""]
        #[doc = "| offset | register | access | meaning |"]
        #[doc = "|---|---|---|---|"]
        $( #[doc = concat!("| ", stringify!($offset), " | ", stringify!($konst), " | ", stringify!($access), " | ", $($fdoc,)* " |")] )*
        pub struct $name;

        #[doc = concat!("Registers of [`", stringify!($name), "`].")]
        pub mod $module {
            use super::*;
            /// Bytes of the block.
            pub const BYTES: usize = $bytes;
            $( $(#[doc = $fdoc])* pub const $konst: Register = Register {
                name: stringify!($konst), offset: $offset,
                count: 1 $( * $n )?, access: Access::$access, doc: concat!($($fdoc),*) }; )*
            /// Every register, in order of offset.
            pub const REGISTERS: &[Register] = &[$($konst),*];
        }

        impl $name {
            $( $(#[doc = $fdoc])*
            ///
            /// # Safety
            /// `base` is the address of this block in a mapping of the device's BAR
            /// that outlives the pointer's use.
            pub const unsafe fn $field(base: *mut u8) -> *const block!(@ty $access) {
                // SAFETY: the caller vouches for the mapping; the offset lies inside the block.
                unsafe { base.add($offset) as *const block!(@ty $access) }
            } )*
        }

        // Registers stand in order, do not overlap, and fit their block.
        const _: () = {
            let mut next = 0;
            let mut i = 0;
            while i < $module::REGISTERS.len() {
                let r = $module::REGISTERS[i];
                assert!(r.offset >= next && r.offset % 4 == 0);
                next = r.offset + 4 * r.count;
                i += 1;
            }
            assert!(next <= $bytes);
        };
    };
    (@ty Ro) => { RO<u32> };
    (@ty Wo) => { WO<u32> };
    (@ty Rw) => { RW<u32> };
}

/// How a register may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only.
    Ro,
    /// Write only; reads as 0.
    Wo,
    /// Read and write.
    Rw,
}

/// One register, or a row of equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Name as the register page prints it.
    pub name: &'static str,
    /// Bytes from the start of its block.
    pub offset: usize,
    /// Registers in the row.
    pub count: usize,
    /// Access.
    pub access: Access,
    /// Meaning, with unit and range.
    pub doc: &'static str,
}

block! {
    /// Registers of the whole device.
    GlobalBlock / global [0x8000] {
        /// [`crate::MAGIC`].
        0x000 magic MAGIC: Ro;
        /// Contract version: major in the upper 16 bits, minor in the lower.
        0x004 contract_version CONTRACT_VERSION: Ro;
        /// First 32 bits of the build's hash.
        0x008 build_hash BUILD_HASH: Ro;
        /// [`Features`] of the build.
        0x00c features FEATURES: Ro;
        /// Queue pairs.
        0x010 queues QUEUES: Ro;
        /// Rows of the flow table, slot 0 included.
        0x014 flow_slots FLOW_SLOTS: Ro;
        /// Largest payload of a segment in bytes.
        0x018 max_segment MAX_SEGMENT: Ro;
        /// Largest payload of a burst in bytes.
        0x01c max_payload MAX_PAYLOAD: Ro;
        /// Bits of the data path.
        0x020 width WIDTH: Ro;
        /// Ticks per second.
        0x024 tick_hz TICK_HZ: Ro;
        /// The clock in ticks, low half; reading it holds the high half.
        0x028 ticks_lo TICKS_LO: Ro;
        /// The clock in ticks, high half as held.
        0x02c ticks_hi TICKS_HI: Ro;
        /// [`Control`].
        0x040 control CONTROL: Rw;
        /// [`DeviceStatus`].
        0x044 status STATUS: Ro;
        /// Lateness debt D of the pacer in ticks.
        0x048 lateness_debt LATENESS_DEBT: Rw;
        /// Period of the budgets' credit flush in ticks, at least 1.
        0x04c credit_flush CREDIT_FLUSH: Rw;
        /// Sojourn in ticks above which a new burst is told of congestion.
        0x050 cn_target CN_TARGET: Rw;
        /// Launch times beyond this many ticks from now are refused or capped.
        0x054 horizon HORIZON: Rw;
        /// [`Events`] that happened; write 1 to a bit to clear it.
        0x058 event_status EVENT_STATUS: Rw;
        /// [`Events`] that interrupt: the vector fires when one of them appears in EVENT_STATUS.
        0x05c event_mask EVENT_MASK: Rw;
        /// RSS key, first byte in the least significant byte of the first register.
        0x080 rss_key RSS_KEY: Rw [10];
        /// RSS indirection table: the queue of each row.
        0x100 rss_table RSS_TABLE: Rw [128];
        /// Frames handed to the MAC.
        0x400 tx_frames TX_FRAMES: Ro [2];
        /// Wire bytes handed to the MAC.
        0x408 tx_bytes TX_BYTES: Ro [2];
        /// Bursts completed, with whatever status.
        0x410 tx_bursts TX_BURSTS: Ro [2];
        /// Bursts completed with an error.
        0x418 tx_errors TX_ERRORS: Ro [2];
        /// Doorbells refused.
        0x420 doorbell_errors DOORBELL_ERRORS: Ro [2];
        /// Frames received whole from the MAC.
        0x440 rx_frames RX_FRAMES: Ro [2];
        /// Bytes of those frames without FCS.
        0x448 rx_bytes RX_BYTES: Ro [2];
        /// Received frames dropped: no buffer in the ring.
        0x450 rx_no_buffer RX_NO_BUFFER: Ro [2];
        /// Received frames dropped: longer than the device stores, or marked bad by the MAC.
        0x458 rx_errors RX_ERRORS: Ro [2];
        /// Received frames with a wrong IPv4 or L4 checksum (delivered all the same).
        0x460 rx_csum_errors RX_CSUM_ERRORS: Ro [2];
    }
}

block! {
    /// Registers of one queue pair.
    QueueBlock / queue [0x80] {
        /// Address of the transmit ring, low half; aligned to 64.
        0x00 tx_ring_lo TX_RING_LO: Rw;
        /// High half.
        0x04 tx_ring_hi TX_RING_HI: Rw;
        /// Address of the transmit completion ring, low half; aligned to 32.
        0x08 tx_completion_lo TX_COMPLETION_LO: Rw;
        /// High half.
        0x0c tx_completion_hi TX_COMPLETION_HI: Rw;
        /// [`RingSize`] of the transmit rings.
        0x10 tx_ring_size TX_RING_SIZE: Rw;
        /// [`QueueControl`] of transmit.
        0x14 tx_control TX_CONTROL: Rw;
        /// Queue rate as ticks per wire byte, 20.28 fixed point, low half; 0 in both: no limit.
        /// The high half is written last: then the rate counts, and pacing starts anew.
        0x18 tx_rate_lo TX_RATE_LO: Rw;
        /// High half.
        0x1c tx_rate_hi TX_RATE_HI: Rw;
        /// Quantum of deficit round robin in wire bytes, 1 to 65,535.
        0x20 tx_quantum TX_QUANTUM: Rw;
        /// Byte budget: limit to start from, in wire bytes. The write starts the budget with what BQL_MIN, BQL_MAX, BQL_HOLD and BQL_STALL hold; BQL_MAX 0 ends it.
        0x24 bql_limit BQL_LIMIT: Rw;
        /// Byte budget: least limit.
        0x28 bql_min BQL_MIN: Rw;
        /// Byte budget: largest limit.
        0x2c bql_max BQL_MAX: Rw;
        /// Byte budget: hold time in ticks.
        0x30 bql_hold BQL_HOLD: Rw;
        /// Byte budget: stall threshold in ticks, rounded up to 2^[`crate::limits::BQL_STALL_SHIFT`]; 0 is off.
        0x34 bql_stall BQL_STALL: Rw;
        /// Address of the receive ring, low half; aligned to 16.
        0x40 rx_ring_lo RX_RING_LO: Rw;
        /// High half.
        0x44 rx_ring_hi RX_RING_HI: Rw;
        /// Address of the receive completion ring, low half; aligned to 32.
        0x48 rx_completion_lo RX_COMPLETION_LO: Rw;
        /// High half.
        0x4c rx_completion_hi RX_COMPLETION_HI: Rw;
        /// [`RingSize`] of the receive rings.
        0x50 rx_ring_size RX_RING_SIZE: Rw;
        /// [`QueueControl`] of receive.
        0x54 rx_control RX_CONTROL: Rw;
        /// Completions that are gathered before one interrupt; 0: none are. At most 65,535; more count as that.
        0x60 coalesce_count COALESCE_COUNT: Rw;
        /// Ticks that a completion waits for others at most; 0: it does not.
        0x64 coalesce_ticks COALESCE_TICKS: Rw;
        /// Address where the budget is written back ([`crate::completion::WriteBack`]), low half; aligned to 64; 0 in both: nowhere.
        0x68 write_back_lo WRITE_BACK_LO: Rw;
        /// High half.
        0x6c write_back_hi WRITE_BACK_HI: Rw;
    }
}

block! {
    /// Doorbells of one queue pair, in a page of their own.
    DoorbellPage / doorbell [0x1000] {
        /// New tail of the transmit ring: index of the slot after the last one filled.
        0x000 tx_tail TX_TAIL: Wo;
        /// New tail of the receive ring.
        0x004 rx_tail RX_TAIL: Wo;
        /// The clock in ticks, low half; one 64-bit read gives both.
        0x008 clock_lo CLOCK_LO: Ro;
        /// High half; a 32-bit read gives the half as it is at that tick.
        0x00c clock_hi CLOCK_HI: Ro;
    }
}

/// Offset in BAR 0 of a register of queue pair `queue`.
pub const fn queue_offset(queue: usize, register: Register) -> usize {
    QUEUE_BLOCK_BASE + queue * QUEUE_BLOCK_STRIDE + register.offset
}

/// Offset in BAR 0 of a doorbell of queue pair `queue`.
pub const fn doorbell_offset(queue: usize, register: Register) -> usize {
    DOORBELL_BASE + queue * DOORBELL_STRIDE + register.offset
}

const _: () = {
    use crate::limits::*;
    assert!(global::BYTES == QUEUE_BLOCK_BASE);
    assert!(QUEUE_BLOCK_BASE + QUEUES_MAX * QUEUE_BLOCK_STRIDE <= DOORBELL_BASE);
    assert!(DOORBELL_BASE + QUEUES_MAX * DOORBELL_STRIDE <= BAR0_BYTES);
    assert!(queue::BYTES == QUEUE_BLOCK_STRIDE && doorbell::BYTES == DOORBELL_STRIDE);
    assert!(global::RSS_TABLE.count == RSS_TABLE && global::RSS_KEY.count * 4 == RSS_KEY);
};
