// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits of the contract. A build may have less; its registers say so.

/// First register: "TSNC" in ASCII, most significant byte first.
pub const MAGIC: u32 = 0x5453_4e43;
/// Version of the contract. The driver refuses any other major number (the
/// upper 16 bits), and a minor number below the one that it was built for.
pub const CONTRACT_VERSION: u32 = 0x0001_0001;

/// Most queue pairs a build can have.
pub const QUEUES_MAX: usize = 256;
/// Most rows of the flow table, slot 0 included.
pub const FLOW_SLOTS_MAX: usize = 65_536;
/// log2 of the smallest ring.
pub const RING_LOG2_MIN: usize = 6;
/// log2 of the largest ring.
pub const RING_LOG2_MAX: usize = 12;
/// Entries of the largest ring.
pub const RING_MAX: usize = 1 << RING_LOG2_MAX;

/// Longest header template in bytes (Ethernet to the end of the L4 header).
pub const HEADER_MAX: usize = 256;
/// Shortest L2 header in bytes.
pub const L2_LEN_MIN: usize = 14;
/// Payload fragments a descriptor holds itself.
pub const INLINE_FRAGMENTS: usize = 2;
/// Payload fragments a burst can have.
pub const FRAGMENTS_MAX: usize = 17;
/// Most payload bytes of a burst.
pub const PAYLOAD_MAX: usize = (1 << 18) - 1;
/// Largest payload of one segment in the default build: a segment is stored
/// while its checksum is summed, and this fits a ring of 2,048 words of 64 bits.
pub const MAX_SEGMENT_DEFAULT: usize = 16_000;

/// Fraction bits of an inverse rate and of virtual time (ticks per byte).
pub const INV_RATE_FRACTION: usize = 28;
/// Bits of an inverse rate: 20 before the point, 28 behind it.
pub const INV_RATE_BITS: usize = 48;
/// Bits of the pacer's sort key in ticks; compared modulo 2^34.
pub const PACER_KEY_BITS: usize = 34;
/// Maximal frame times of lateness debt that the register holds after reset.
pub const LATENESS_DEBT_FRAMES: usize = 64;

/// log2 of the ticks in one step of a budget's stall detector: about a millisecond at
/// 125 MHz.
pub const BQL_STALL_SHIFT: usize = 17;
/// Largest COALESCE_COUNT: what is written above counts as that.
pub const COALESCE_COUNT_MAX: u32 = 65_535;
/// Bytes in one unit of a descriptor's flow limit.
pub const FLOW_LIMIT_UNIT: usize = 1_024;

/// Rows of the RSS indirection table.
pub const RSS_TABLE: usize = 128;
/// Bytes of the RSS key.
pub const RSS_KEY: usize = 40;
/// The key that Microsoft published and most drivers start with.
pub const RSS_KEY_DEFAULT: [u8; RSS_KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// Bytes the wire adds to a frame: preamble, FCS and inter-frame gap.
pub const WIRE_OVERHEAD: usize = 24;
/// Shortest frame without FCS; the MAC pads up to it.
pub const FRAME_MIN: usize = 60;
/// Longest received frame without FCS that a default build stores.
pub const RX_FRAME_MAX: usize = 9_216;

/// Largest read or write request at the memory port in bytes.
pub const DMA_REQUEST_MAX: usize = 512;
/// No request at the memory port crosses a boundary of this many bytes.
pub const DMA_BOUNDARY: usize = 4_096;

/// TX_QUANTUM after reset in wire bytes: one full Ethernet frame.
pub const QUANTUM_RESET: usize = 1_514;
/// CREDIT_FLUSH after reset in microseconds.
pub const CREDIT_FLUSH_RESET_US: u64 = 32;
/// CN_TARGET after reset in microseconds.
pub const CN_TARGET_RESET_US: u64 = 5_000;
/// HORIZON after reset in microseconds.
pub const HORIZON_RESET_US: u64 = 10_000_000;
/// Most bytes that a budget counts at once: a sixteenth of the counters' range.
pub const BQL_MAX_OBJECT: u32 = u32::MAX / 16;
/// Largest limit of a budget, whatever BQL_MAX says.
pub const BQL_MAX_LIMIT: u32 = u32::MAX / 2 - BQL_MAX_OBJECT;
