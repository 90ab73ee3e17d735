// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames that arrive back to back.

use tsonic_regs::registers::global;
use tsonic_sim::harness::Bench;
use tsonic_sim::nic::Nic;
use tsonic_types::Ticks;

use super::bench;
use super::frames::payload;

/// Buffers in the ring.
const BUFFERS: usize = 255;
/// Bytes of each.
const BUFFER_BYTES: u16 = 2_048;
/// Preamble, FCS and gap of Ethernet, in bytes.
const OVERHEAD: u64 = 24;

/// `count` frames of `bytes` at one byte in `eighths` eighths of a tick, with a host
/// that always has buffers there; how many were dropped.
pub fn back_to_back<N: Nic>(nic: N, bytes: usize, count: u64, eighths: u64) -> u64 {
    let mut b = bench(nic);
    b.enable_rx(0, 8, 10);
    for i in 0..128 {
        b.write(global::RSS_TABLE.offset + 4 * i, 0);
    }
    let frame = payload(1, bytes);
    let area = b.alloc(BUFFERS * usize::from(BUFFER_BYTES), 64);
    let post = |b: &mut Bench<N>, i: usize| {
        let at = area + (i % BUFFERS * usize::from(BUFFER_BYTES)) as u64;
        b.push_buffer(0, at, BUFFER_BYTES, (i % BUFFERS) as u16);
    };
    (0..BUFFERS).for_each(|i| post(&mut b, i));
    b.ring_rx(0);
    let start = b.nic.now() + Ticks(1_000);
    let gap = (bytes as u64 + OVERHEAD) * eighths;
    for i in 0..count {
        b.arrive(start + Ticks(i * gap / 8), &frame, false);
    }
    let (mut posted, mut delivered) = (BUFFERS, 0);
    let end = start + Ticks(count * gap / 8 + 20_000);
    while b.nic.now() < end {
        b.run_to(b.nic.now() + Ticks(500));
        for c in b.rx_completions(0) {
            assert_eq!(usize::from(c.status.bytes()), bytes);
            delivered += 1;
            post(&mut b, posted);
            posted += 1;
        }
        b.ring_rx(0);
    }
    let dropped = b.counter(global::RX_NO_BUFFER);
    assert_eq!(b.counter(global::RX_FRAMES), count);
    assert_eq!(delivered + dropped, count);
    dropped
}
