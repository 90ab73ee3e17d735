// SPDX-License-Identifier: MIT OR Apache-2.0
//! What software can get wrong.

use tsonic_driver::{DriverError, PostError};
use tsonic_pci::DmaMemory;
use tsonic_regs::CONTRACT_VERSION;
use tsonic_regs::descriptor::TxDescriptor;
use tsonic_regs::registers::{doorbell, doorbell_offset, queue, queue_offset};

use super::rig::*;

/// An address that is never mapped.
const NOWHERE: u64 = 0x7000_0000_0000;

pub fn an_address_fault_ends_its_burst_and_no_other(mut r: Rig) {
    let chunk = r.fill(0);
    let good = [r.pool.map().fragment(chunk, 0, 3_000).unwrap()];
    let bad = [Fragment {
        iova: NOWHERE,
        len: 3_000,
    }];
    let h = header(0, 5_000);
    for (token, f) in [(1, &good), (2, &bad), (3, &good)] {
        r.tx[0].post(&mut r.flows, &burst(token, &h, f)).unwrap();
    }
    r.settle();
    let got: Vec<_> = r.done.iter().map(|c| (c.token, c.status())).collect();
    let want = [
        (1, Some(Status::Ok)),
        (2, Some(Status::AddressFault)),
        (3, Some(Status::Ok)),
    ];
    assert_eq!(got, want);
    assert_eq!(r.frames.len(), 6);
}

/// The driver's own check, with the device's limits: the caller hears the code of
/// the contract, the burst stays with it, and the NIC never sees it.
pub fn a_burst_that_breaks_the_contract_is_not_posted(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 3_000).unwrap()];
    let none = [Fragment { len: 0, ..f[0] }];
    let h = header(0, 5_000);
    let good = burst(1, &h, &f);
    let max_segment = r.device.info().max_segment;
    let many = [Fragment { len: 100, ..f[0] }; 18];
    let long = [Fragment {
        len: max_segment + 1,
        ..f[0]
    }];
    let bad = [
        (Status::MssZero, TxBurst { mss: 0, ..good }),
        (
            Status::LengthMismatch,
            TxBurst {
                fragments: &none,
                ..good
            },
        ),
        (
            Status::TooManyFragments,
            TxBurst {
                fragments: &many,
                ..good
            },
        ),
        (Status::BadHeaderLength, TxBurst { l2_len: 13, ..good }),
        (Status::BadHeaderLength, TxBurst { l3_len: 24, ..good }),
        (
            Status::BadHeaderLength,
            TxBurst {
                header: &h[..HEADER - 1],
                ..good
            },
        ),
        (
            Status::BadFlowSlot,
            TxBurst {
                flow: FlowSlot(u16::MAX),
                ..good
            },
        ),
        (
            Status::SegmentTooLarge,
            TxBurst {
                mss: max_segment as u16 + 1,
                fragments: &long,
                ..good
            },
        ),
    ];
    for (status, b) in &bad {
        let refused = r.tx[0].post(&mut r.flows, b);
        assert_eq!(refused, Err(PostError::Refused(*status)), "{b:?}");
    }
    assert_eq!(r.tx[0].stats().tx_refused, bad.len() as u64);
    r.tx[0].post(&mut r.flows, &good).unwrap();
    r.settle();
    assert_eq!(r.ends(), [(1, Some(Status::Ok))]);
    assert_eq!((r.counter("TX_BURSTS"), r.counter("TX_ERRORS")), (1, 0));
}

/// Ring memory that someone else writes to: what the NIC finds there is refused by
/// the NIC itself, and the driver hands the burst back with the reason.
pub fn a_descriptor_spoilt_in_memory_ends_its_burst_and_no_other(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 3_000).unwrap()];
    let h = header(0, 5_000);
    type Spoil = fn(&mut TxDescriptor);
    let spoils: [(Status, Spoil); 5] = [
        (Status::MssZero, |d| d.control.set_mss(0)),
        (Status::LengthMismatch, |d| d.lengths.set_frag0_len(2_999)),
        (Status::LengthMismatch, |d| d.burst.set_payload_len(3_001)),
        (Status::ReservedBits, |d| d.control.0 |= 1 << 46),
        (Status::AddressFault, |d| d.header_addr = NOWHERE),
    ];
    for (i, (status, spoil)) in spoils.into_iter().enumerate() {
        r.done.clear();
        r.frames.clear();
        for token in 1..=3 {
            r.tx[0].post(&mut r.flows, &burst(token, &h, &f)).unwrap();
        }
        rewrite(&mut r, 3 * i + 1, spoil);
        r.settle();
        let mut ends = r.ends();
        ends.sort_unstable();
        let want = [(1, Status::Ok), (2, status), (3, Status::Ok)];
        assert_eq!(ends, want.map(|(token, s)| (token, Some(s))));
        assert_eq!(r.frames.len(), 6);
        assert_eq!(r.counter("TX_ERRORS"), i as u64 + 1);
    }
    assert_eq!(r.tx[0].outstanding(), 0);
    assert_eq!(r.tx[0].stats().tx_unknown_completions, 0);
}

/// Rewrites a slot of queue 0's ring, which has 64.
fn rewrite(r: &mut Rig, slot: usize, spoil: fn(&mut TxDescriptor)) {
    let function = r.device.function();
    let mut half = |register| {
        let offset = queue_offset(0, register) as u64;
        u64::from(function.read32(0, offset).unwrap())
    };
    let ring = half(queue::TX_RING_LO) | half(queue::TX_RING_HI) << 32;
    let at = ring + (slot % 64 * TxDescriptor::BYTES) as u64;
    let world = function.inner.world();
    let memory = world.memory(0).unwrap().memory();
    let mut bytes = [0; TxDescriptor::BYTES];
    memory.read(at, &mut bytes).unwrap();
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    let mut d = TxDescriptor::from_words(std::array::from_fn(word));
    spoil(&mut d);
    let spoilt: Vec<u8> = d.to_words().iter().flat_map(|w| w.to_le_bytes()).collect();
    memory.write(at, &spoilt).unwrap();
}

/// A tail beyond the ring, from elsewhere: refused, counted, and known to the driver;
/// the queue goes on where it was.
pub fn a_doorbell_beyond_the_ring_is_refused(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 3_000).unwrap()];
    let h = header(0, 5_000);
    r.tx[0].post(&mut r.flows, &burst(1, &h, &f)).unwrap();
    r.settle();
    for tail in [64, 1 << 13, u32::MAX] {
        let offset = doorbell_offset(0, doorbell::TX_TAIL) as u64;
        r.device.function().write32(0, offset, tail).unwrap();
        r.settle();
    }
    assert_eq!(r.counter("DOORBELL_ERRORS"), 3);
    assert_eq!(r.tx[0].stats().tx_queue_errors, 3);
    let last = r.tx[0].last_error();
    assert_eq!(last, Some(Status::DoorbellOutOfRange.code()));
    r.tx[0].post(&mut r.flows, &burst(2, &h, &f)).unwrap();
    r.settle();
    let want = [(1, Some(Status::Ok)), (2, Some(Status::Ok))];
    assert_eq!(r.ends(), want);
}

pub fn another_contract_is_refused(r: Rig) {
    let open = |version| {
        let mut function = r.on.function();
        function.version = Some(version);
        Device::open(function).map(drop)
    };
    open(CONTRACT_VERSION).unwrap();
    let newer = open(CONTRACT_VERSION + (1 << 16)).unwrap_err();
    assert!(
        matches!(newer, DriverError::ContractMajor { .. }),
        "{newer}"
    );
    let older = open(CONTRACT_VERSION - (1 << 16)).unwrap_err();
    assert!(
        matches!(older, DriverError::ContractMajor { .. }),
        "{older}"
    );
    let gone = open(u32::MAX).unwrap_err();
    assert!(matches!(gone, DriverError::ContractMajor { .. }), "{gone}");
    let advice = newer.to_string();
    assert!(advice.contains("load a bitstream"), "{advice}");
}
