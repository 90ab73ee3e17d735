// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of transmit descriptors and completions as blocks that take them
//! apart or build them.

use crate::prelude::*;
use crate::primitives::{pack_word, unpack_word};
use tsonic_regs::completion::{tx_done, tx_status};
use tsonic_regs::descriptor::{fragment_length, tx_burst, tx_control, tx_lengths, tx_rate};
use tsonic_regs::registers::{queue_control, ring_size};

unpack_word! {
    /// Word 0 of a burst descriptor.
    UnpackControl, 64 {
        kind: 4 = tx_control::KIND,
        ipv6: 1 = tx_control::IPV6,
        ip_id_fixed: 1 = tx_control::IP_ID_FIXED,
        cwr_all: 1 = tx_control::CWR_ALL,
        timestamp: 1 = tx_control::TIMESTAMP,
        launch: 1 = tx_control::LAUNCH,
        l2_len: 8 = tx_control::L2_LEN,
        l3_len: 9 = tx_control::L3_LEN,
        l4_len: 7 = tx_control::L4_LEN,
        fragments: 5 = tx_control::FRAGMENTS,
        mss: 16 = tx_control::MSS,
    }
}

unpack_word! {
    /// Word 1 of a burst descriptor.
    UnpackBurst, 64 {
        payload_len: 18 = tx_burst::PAYLOAD_LEN,
        flow_slot: 16 = tx_burst::FLOW_SLOT,
        cookie: 16 = tx_burst::COOKIE,
        flow_limit: 14 = tx_burst::FLOW_LIMIT,
    }
}

unpack_word! {
    /// Word 3 of a burst descriptor.
    UnpackRate, 64 { inv_rate: 48 = tx_rate::INV_RATE }
}

unpack_word! {
    /// Word 7 of a burst descriptor.
    UnpackLengths, 64 {
        frag0_len: 18 = tx_lengths::FRAG0_LEN,
        frag1_len: 18 = tx_lengths::FRAG1_LEN,
    }
}

unpack_word! {
    /// Word 1 of a continuation entry.
    UnpackFragment, 64 { length: 18 = fragment_length::BYTES }
}

unpack_word! {
    /// Sizes of a queue's rings.
    UnpackRingSize, 32 {
        ring: 4 = ring_size::RING_LOG2,
        completion: 4 = ring_size::COMPLETION_LOG2,
    }
}

unpack_word! {
    /// Control register of a queue.
    UnpackQueueControl, 32 { enable: 1 = queue_control::ENABLE }
}

pack_word! {
    /// Word 0 of a transmit completion.
    PackStatus, 64 {
        status: 8 = tx_status::STATUS,
        cn: 1 = tx_status::CN,
        throttle: 1 = tx_status::THROTTLE,
        wake: 1 = tx_status::WAKE,
        queue: 16 = tx_status::QUEUE,
        flow_slot: 16 = tx_status::FLOW_SLOT,
        cookie: 16 = tx_status::COOKIE,
    }
}

pack_word! {
    /// Word 3 of a transmit completion.
    PackDone, 64 {
        wire_bytes: 32 = tx_done::WIRE_BYTES,
        segments: 18 = tx_done::SEGMENTS,
        head: 12 = tx_done::HEAD,
        phase: 1 = tx_done::PHASE,
    }
}
