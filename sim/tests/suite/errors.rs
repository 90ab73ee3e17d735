// SPDX-License-Identifier: MIT OR Apache-2.0
//! What software can get wrong: each fault has its code, and the queue goes on.

use tsonic_pci::DmaPermission;
use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{COOKIE_NONE, Kind, TxDescriptor};
use tsonic_regs::registers::{doorbell, doorbell_offset, global};
use tsonic_sim::harness::{Bench, MEMORY_IOVA, Post};
use tsonic_sim::nic::Nic;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, tcp4_header, tcp4_layout};

const LIMIT: u64 = 1_000_000;
/// An address that is never mapped.
const NOWHERE: u64 = 0xdead_0000_0000;

fn burst<'a>(header: &'a [u8], data: &'a [u8], cookie: u16) -> Post<'a> {
    Post {
        layout: tcp4_layout(Kind::Tso, 1000),
        header,
        payload: data,
        cuts: &[100],
        flow_slot: 0,
        inv_rate: 0,
        launch: None,
        cookie,
    }
}

fn status(c: &TxCompletion) -> Status {
    Status::from_code(c.status.status()).expect("a code of the table")
}

/// Posts a bad descriptor between two good ones. The good ones must be served.
fn between<N: Nic>(b: &mut Bench<N>, bad: &TxDescriptor) -> TxCompletion {
    let (header, data) = (tcp4_header(0), payload(1, 2_500));
    let good = |b: &mut Bench<N>, cookie| b.place(&burst(&header, &data, cookie));
    let (first, last) = (good(b, 1), good(b, 3));
    b.mac.sent.clear();
    b.push(0, &first);
    b.push(0, bad);
    b.push(0, &last);
    b.ring(0);
    assert!(b.drain(LIMIT), "the queue hangs");
    let c = b.completions(0);
    assert_eq!(c.len(), 3);
    for cookie in [1, 3] {
        let good = c.iter().find(|c| c.status.cookie() == cookie).expect("it");
        assert_eq!(status(good), Status::Ok);
        assert_eq!(good.done.segments(), 3);
    }
    let bad_cookie = bad.burst.cookie();
    *c.iter()
        .find(|c| c.status.cookie() == bad_cookie)
        .expect("an error completion")
}

/// A descriptor that breaks a rule completes with the rule's code and sends nothing.
pub fn descriptors<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let slots = b.read(global::FLOW_SLOTS.offset);
    let limit = b.read(global::MAX_SEGMENT.offset);
    let (header, data) = (tcp4_header(0), payload(2, 2_500));
    let good = b.place(&burst(&header, &data, 2));
    type Fault = Box<dyn Fn(&mut TxDescriptor)>;
    let mut faults: Vec<(Status, Fault)> = vec![
        (Status::MssZero, Box::new(|d| d.control.set_mss(0))),
        (
            Status::BadHeaderLength,
            Box::new(|d| d.control.set_l2_len(13)),
        ),
        (
            Status::BadHeaderLength,
            Box::new(|d| d.control.set_l2_len(12)),
        ),
        (
            Status::BadHeaderLength,
            Box::new(|d| d.control.set_l3_len(300)),
        ),
        (
            Status::LengthMismatch,
            Box::new(|d| d.lengths.set_frag1_len(7)),
        ),
        (
            Status::LengthMismatch,
            Box::new(|d| d.control.set_fragments(0)),
        ),
        (
            Status::TooManyFragments,
            Box::new(|d| d.control.set_fragments(18)),
        ),
        (Status::ReservedBits, Box::new(|d| d.control.0 |= 1 << 46)),
        (Status::BadKind, Box::new(|d| d.control.set_kind(7))),
        (
            Status::BadFlowSlot,
            Box::new(move |d| d.burst.set_flow_slot(slots.min(0xffff) as u16)),
        ),
    ];
    if limit < 65_000 {
        faults.push((
            Status::SegmentTooLarge,
            Box::new(move |d| {
                d.control.set_mss(limit as u16 + 1);
                d.burst.set_payload_len(limit + 1);
                d.control.set_fragments(1);
                d.lengths.set_frag0_len(limit + 1);
                d.lengths.set_frag1_len(0);
            }),
        ));
    }
    let errors = faults.len() as u64;
    for (expected, fault) in &faults {
        let mut bad = good;
        fault(&mut bad);
        let c = between(&mut b, &bad);
        assert_eq!(status(&c), *expected);
        assert_eq!((c.done.segments(), c.done.wire_bytes()), (0, 0));
        assert_eq!(b.mac.sent.len(), 6);
    }
    assert_eq!(b.counter(global::TX_ERRORS), errors);
    assert_eq!(b.counter(global::TX_BURSTS), 3 * errors);
    assert_eq!(b.counter(global::TX_FRAMES), 6 * errors);
}

/// Addresses that are not mapped: header, payload (first, middle, last segment),
/// list. What could be read departs at most; what does not is not counted.
pub fn unmapped<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    let (header, data) = (tcp4_header(0), payload(2, 3_000));
    let good = b.place(&burst(&header, &data, 2));

    let mut bad = good;
    bad.header_addr = NOWHERE;
    let c = between(&mut b, &bad);
    assert_eq!(status(&c), Status::AddressFault);
    assert_eq!(c.done.segments(), 0);

    let mut bad = good;
    bad.frag0_addr = NOWHERE;
    let c = between(&mut b, &bad);
    assert_eq!(status(&c), Status::AddressFault);
    // Segments 1 and 2 may have been granted before the fault was known.
    assert!(c.done.segments() <= 2);
    assert_eq!(c.done.wire_bytes(), c.done.segments() * 1054);
    assert_eq!(b.mac.sent.len(), 6 + c.done.segments() as usize);

    let list = Post {
        cuts: &[1000, 1000],
        ..burst(&header, &data, 2)
    };
    let mut bad = b.place(&list);
    bad.frag1_addr = NOWHERE;
    let c = between(&mut b, &bad);
    assert_eq!(status(&c), Status::AddressFault);
    assert_eq!(c.done.segments(), 0);

    // A list that does not add up.
    let bad = b.place(&list);
    b.poke(bad.frag1_addr + 8, &1001u64.to_le_bytes());
    let c = between(&mut b, &bad);
    assert_eq!(status(&c), Status::LengthMismatch);
    assert_eq!(c.done.segments(), 0);
    b.poke(bad.frag1_addr + 8, &(1u64 << 40 | 1000).to_le_bytes());
    let c = between(&mut b, &bad);
    assert_eq!(status(&c), Status::ReservedBits);
    assert!(b.memory.stats().read_faults >= 3);
}

/// Doorbells beyond the ring, and for a queue that is not enabled.
pub fn doorbells<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 6);
    let before = b.counter(global::DOORBELL_ERRORS);
    b.write(doorbell_offset(0, doorbell::TX_TAIL), 64);
    assert!(b.drain(LIMIT));
    let c = b.completions(0);
    assert_eq!(c.len(), 1);
    assert_eq!(status(&c[0]), Status::DoorbellOutOfRange);
    assert_eq!(c[0].status.cookie(), COOKIE_NONE);
    b.write(doorbell_offset(1, doorbell::TX_TAIL), 1);
    assert!(b.drain(LIMIT));
    assert_eq!(b.counter(global::DOORBELL_ERRORS), before + 2);
    assert!(b.mac.sent.is_empty());
    // The queue goes on where it was.
    let (header, data) = (tcp4_header(0), payload(1, 100));
    let d = b.place(&burst(&header, &data, 5));
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(LIMIT));
    let c = b.completions(0);
    assert_eq!((c.len(), status(&c[0])), (1, Status::Ok));
    // A tail that did not move is no work.
    b.ring(0);
    assert!(b.drain(LIMIT));
    assert!(b.completions(0).is_empty());
}

/// Memory that was taken back is not touched any more.
pub fn unmap<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 6);
    let pages = tsonic_sim::pages::Pages::new(4096).expect("a page");
    let iova = MEMORY_IOVA - 0x10_0000;
    let (header, data) = (tcp4_header(0), payload(1, 1_000));
    assert!(pages.write(0, &data));
    // SAFETY: `pages` outlives the mapping, which ends below.
    unsafe {
        let p = pages.as_ptr();
        let mapped = b.memory.map(p, 4096, iova, DmaPermission::Read);
        mapped.expect("a free range");
    }
    let mut d = b.place(&Post {
        cuts: &[],
        ..burst(&header, &data, 1)
    });
    d.frag0_addr = iova;
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(LIMIT));
    assert_eq!(status(&b.completions(0)[0]), Status::Ok);
    assert_eq!(b.mac.sent[0].1[54..], data[..]);
    b.push(0, &d);
    b.ring(0);
    b.memory.unmap(iova, 4096).expect("it was mapped");
    assert!(b.drain(LIMIT));
    assert_eq!(status(&b.completions(0)[0]), Status::AddressFault);
    assert_eq!(b.mac.sent.len(), 1);
}

/// A queue that is disabled with bursts in the device hands them back; others
/// do not notice, and it works again.
pub fn queue_reset<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 6);
    b.enable_tx(1, 6, 6);
    let (header, data) = (tcp4_header(0), payload(1, 50_000));
    for i in 0..8u16 {
        let mut d = b.place(&burst(&header, &data, i));
        d.burst.set_flow_slot(i % 3);
        // A slow flow: 100 ticks a byte.
        d.rate.set_inv_rate(100 << 28);
        b.push(0, &d);
        d.burst.set_flow_slot(0);
        b.push(1, &d);
    }
    b.ring(0);
    b.ring(1);
    b.run_to(Ticks(30_000));
    let mut c0 = b.completions(0);
    b.disable_tx(0);
    assert!(b.drain(LIMIT));
    c0.extend(b.completions(0));
    assert_eq!(c0.len(), 8, "every burst completes once");
    assert!(c0.iter().any(|c| status(c) == Status::QueueReset));
    let sent0: u32 = c0.iter().map(|c| c.done.wire_bytes()).sum();
    let c1 = b.completions(1);
    assert!(c1.len() == 8 && c1.iter().all(|c| status(c) == Status::Ok));
    let sent1: u32 = c1.iter().map(|c| c.done.wire_bytes()).sum();
    let wire: usize = b.mac.sent.iter().map(|(_, f)| f.len()).sum();
    assert_eq!((sent0 + sent1) as usize, wire);
    b.enable_tx(0, 6, 6);
    let d = b.place(&burst(&header, &data, 9));
    b.push(0, &d);
    b.ring(0);
    assert!(b.drain(LIMIT));
    let c = b.completions(0);
    assert_eq!((c.len(), status(&c[0])), (1, Status::Ok));
}
