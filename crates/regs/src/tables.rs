// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contract as tables, for whatever prints it.

use crate::completion::{
    rx_done, rx_hash, rx_status, tx_done, tx_status, write_back_bytes, write_back_stalls,
};
use crate::descriptor::{fragment_length, rx_buffer, tx_burst, tx_control, tx_lengths, tx_rate};
use crate::layout::Field;
use crate::limits;
use crate::registers::{
    DOORBELL_BASE, DOORBELL_STRIDE, QUEUE_BLOCK_BASE, QUEUE_BLOCK_STRIDE, Register, control,
    device_status, doorbell, events, features, global, queue, queue_control, ring_size,
};

/// A block of registers.
#[derive(Clone, Copy, Debug)]
pub struct BlockTable {
    /// Name.
    pub name: &'static str,
    /// Offset in BAR 0 of the first block.
    pub base: usize,
    /// Bytes from one block to the next; 0 when there is only one.
    pub stride: usize,
    /// Registers, in order of offset.
    pub registers: &'static [Register],
}

/// The blocks of BAR 0.
pub const BLOCKS: &[BlockTable] = &[
    BlockTable {
        name: "global",
        base: 0,
        stride: 0,
        registers: global::REGISTERS,
    },
    BlockTable {
        name: "queue",
        base: QUEUE_BLOCK_BASE,
        stride: QUEUE_BLOCK_STRIDE,
        registers: queue::REGISTERS,
    },
    BlockTable {
        name: "doorbell",
        base: DOORBELL_BASE,
        stride: DOORBELL_STRIDE,
        registers: doorbell::REGISTERS,
    },
];

/// One word of a structure.
#[derive(Clone, Copy, Debug)]
pub struct WordTable {
    /// Structure, or register, that the word belongs to.
    pub structure: &'static str,
    /// Number of the word in it, each 64 bits (32 in a register).
    pub word: usize,
    /// What an undivided word holds; empty for a word of fields.
    pub doc: &'static str,
    /// Fields, lowest bit first.
    pub fields: &'static [Field],
}

const fn fields(structure: &'static str, word: usize, fields: &'static [Field]) -> WordTable {
    WordTable {
        structure,
        word,
        doc: "",
        fields,
    }
}

const fn whole(structure: &'static str, word: usize, doc: &'static str) -> WordTable {
    WordTable {
        structure,
        word,
        doc,
        fields: &[],
    }
}

/// Every word of descriptors, completions, and registers that have fields.
pub const WORDS: &[WordTable] = &[
    fields("TX_DESCRIPTOR", 0, tx_control::FIELDS),
    fields("TX_DESCRIPTOR", 1, tx_burst::FIELDS),
    whole("TX_DESCRIPTOR", 2, "Address of the header template."),
    fields("TX_DESCRIPTOR", 3, tx_rate::FIELDS),
    whole(
        "TX_DESCRIPTOR",
        4,
        "Launch time in ticks, when LAUNCH is 1.",
    ),
    whole("TX_DESCRIPTOR", 5, "Address of fragment 0."),
    whole(
        "TX_DESCRIPTOR",
        6,
        "Address of fragment 1, or of the continuation list.",
    ),
    fields("TX_DESCRIPTOR", 7, tx_lengths::FIELDS),
    whole("FRAGMENT_ENTRY", 0, "Address of the fragment."),
    fields("FRAGMENT_ENTRY", 1, fragment_length::FIELDS),
    whole("RX_DESCRIPTOR", 0, "Address of the buffer, aligned to 8."),
    fields("RX_DESCRIPTOR", 1, rx_buffer::FIELDS),
    fields("TX_COMPLETION", 0, tx_status::FIELDS),
    whole("TX_COMPLETION", 1, "Departure of the first frame in ticks."),
    whole("TX_COMPLETION", 2, "Departure of the last frame in ticks."),
    fields("TX_COMPLETION", 3, tx_done::FIELDS),
    fields("RX_COMPLETION", 0, rx_status::FIELDS),
    whole(
        "RX_COMPLETION",
        1,
        "Arrival of the frame's first byte in ticks.",
    ),
    fields("RX_COMPLETION", 2, rx_hash::FIELDS),
    fields("RX_COMPLETION", 3, rx_done::FIELDS),
    fields("WRITE_BACK", 0, write_back_bytes::FIELDS),
    fields("WRITE_BACK", 1, write_back_stalls::FIELDS),
    fields("FEATURES", 0, features::FIELDS),
    fields("CONTROL", 0, control::FIELDS),
    fields("STATUS", 0, device_status::FIELDS),
    fields("EVENT_STATUS, EVENT_MASK", 0, events::FIELDS),
    fields("TX_RING_SIZE, RX_RING_SIZE", 0, ring_size::FIELDS),
    fields("TX_CONTROL, RX_CONTROL", 0, queue_control::FIELDS),
];

/// Limits by name.
pub const LIMITS: &[(&str, u64, &str)] = &[
    ("QUEUES_MAX", limits::QUEUES_MAX as u64, "queue pairs"),
    (
        "FLOW_SLOTS_MAX",
        limits::FLOW_SLOTS_MAX as u64,
        "rows of the flow table",
    ),
    (
        "RING_MIN",
        1 << limits::RING_LOG2_MIN,
        "slots of a ring at least",
    ),
    (
        "RING_MAX",
        limits::RING_MAX as u64,
        "slots of a ring at most",
    ),
    (
        "HEADER_MAX",
        limits::HEADER_MAX as u64,
        "bytes of a header template",
    ),
    (
        "FRAGMENTS_MAX",
        limits::FRAGMENTS_MAX as u64,
        "payload fragments of a burst",
    ),
    (
        "PAYLOAD_MAX",
        limits::PAYLOAD_MAX as u64,
        "payload bytes of a burst",
    ),
    (
        "MAX_SEGMENT",
        limits::MAX_SEGMENT_DEFAULT as u64,
        "payload bytes of a segment, default build",
    ),
    (
        "RX_FRAME_MAX",
        limits::RX_FRAME_MAX as u64,
        "bytes of a received frame",
    ),
    (
        "DMA_REQUEST_MAX",
        limits::DMA_REQUEST_MAX as u64,
        "bytes of a memory request",
    ),
    (
        "FLOW_LIMIT_UNIT",
        limits::FLOW_LIMIT_UNIT as u64,
        "bytes in a unit of a descriptor's flow limit",
    ),
    (
        "BQL_STALL_SHIFT",
        limits::BQL_STALL_SHIFT as u64,
        "log2 of the ticks in a step of the stall detector",
    ),
    (
        "INV_RATE_FRACTION",
        limits::INV_RATE_FRACTION as u64,
        "fraction bits of an inverse rate",
    ),
    (
        "PACER_KEY_BITS",
        limits::PACER_KEY_BITS as u64,
        "bits of the pacer's sort key",
    ),
];
