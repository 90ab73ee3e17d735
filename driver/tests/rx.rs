// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receive queues against a device that does what the test says, right or wrong.

mod fake;

use fake::Fake;
use tsonic_driver::{Device, RxConfig, RxQueue};
use tsonic_regs::Status;
use tsonic_regs::completion::{ChecksumVerdict, HashKind, RxCompletion};
use tsonic_regs::descriptor::COOKIE_NONE;
use tsonic_types::{Nanos, QueueId};

struct Rig {
    fake: Fake,
    device: Device<Fake>,
    rx: RxQueue,
}

/// Queue 1 with 63 buffers of 256 bytes.
fn rig() -> Rig {
    let fake = Fake::new();
    let mut device = Device::open(fake.clone()).unwrap();
    let config = RxConfig {
        ring_log2: 6,
        completion_log2: 7,
        buffer_bytes: 256,
    };
    let rx = device.open_rx(QueueId(1), config).unwrap();
    Rig { fake, device, rx }
}

fn frame(n: usize, seed: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + seed) as u8).collect()
}

impl Rig {
    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        self.rx.receive(usize::MAX, |f, _| got.push(f.to_vec()));
        self.rx.flush(self.device.function()).unwrap();
        got
    }
}

#[test]
fn frames_come_with_the_devices_verdicts() {
    let mut r = rig();
    let mut facts = RxCompletion {
        arrival: 125,
        ..RxCompletion::default()
    };
    facts.status.set_ip_csum(ChecksumVerdict::Ok as u8);
    facts.status.set_l4_csum(ChecksumVerdict::Bad as u8);
    facts.status.set_hash_kind(HashKind::L4 as u8);
    facts.hash.set_hash(0xdead_beef);
    r.fake.deliver(1, &frame(60, 1), &facts);
    r.fake.deliver(1, &frame(61, 2), &RxCompletion::default());
    let mut got = Vec::new();
    assert_eq!(r.rx.receive(10, |f, m| got.push((f.to_vec(), *m))), 2);
    let (bytes, meta) = &got[0];
    assert_eq!(*bytes, frame(60, 1));
    assert_eq!((meta.queue, meta.arrival), (QueueId(1), Nanos(1_000)));
    assert_eq!(meta.ip_checksum, ChecksumVerdict::Ok);
    assert_eq!(meta.l4_checksum, ChecksumVerdict::Bad);
    assert_eq!(
        (meta.hash, meta.hash_kind),
        (Some(0xdead_beef), HashKind::L4)
    );
    let (bytes, meta) = &got[1];
    assert_eq!(*bytes, frame(61, 2));
    assert_eq!((meta.hash, meta.l4_checksum), (None, ChecksumVerdict::None));
    let s = r.rx.stats();
    assert_eq!((s.rx_packets, s.rx_bytes, s.rx_csum_errors), (2, 121, 1));
}

#[test]
fn frames_span_buffers_and_rings_wrap() {
    let mut r = rig();
    let mut sent = 0;
    for round in 0..400 {
        let sizes = [60, 256, 257, 1_514, 512];
        for (i, n) in sizes.into_iter().enumerate() {
            assert!(
                r.fake
                    .deliver(1, &frame(n, round + i), &RxCompletion::default())
            );
        }
        let want: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(i, n)| frame(*n, round + i))
            .collect();
        assert_eq!(r.receive(), want);
        sent += sizes.len();
    }
    let s = r.rx.stats();
    assert_eq!(s.rx_packets, sent as u64);
    assert_eq!(s.rx_multi_buffer, 400 * 3);
    assert_eq!(
        (s.rx_malformed_completions, s.rx_unknown_completions),
        (0, 0)
    );
    assert_eq!(s.rx_doorbells, 401, "one a batch");
}

#[test]
fn single_frames_share_a_doorbell_and_never_find_the_ring_dry() {
    let mut r = rig();
    let before = r.rx.stats().rx_doorbells;
    for seed in 0..1_600 {
        let delivered = r
            .fake
            .deliver(1, &frame(60, seed), &RxCompletion::default());
        assert!(delivered, "frame {seed} found no buffer");
        assert_eq!(r.rx.receive(usize::MAX, |_, _| {}), 1);
        r.rx.refill(r.device.function()).unwrap();
    }
    assert_eq!(r.rx.stats().rx_doorbells - before, 100);
}

#[test]
fn a_frame_under_way_waits_for_its_end_and_buffers_come_back() {
    let mut r = rig();
    // 63 buffers hold two frames of 7,680 bytes and half of a third.
    for seed in 0..2 {
        assert!(
            r.fake
                .deliver(1, &frame(7_680, seed), &RxCompletion::default())
        );
    }
    assert!(
        !r.fake
            .deliver(1, &frame(7_680, 2), &RxCompletion::default())
    );
    assert_eq!(r.receive(), [frame(7_680, 0), frame(7_680, 1)]);
    // A new frame begins although the last one never ended.
    assert!(r.fake.deliver(1, &frame(60, 3), &RxCompletion::default()));
    assert_eq!(r.receive(), [frame(60, 3)]);
    assert_eq!(r.rx.stats().rx_malformed_completions, 1);
    // Every buffer is with the device again.
    assert_eq!(
        (0..)
            .take_while(|_| r.fake.take_buffer(1).is_some())
            .count(),
        63
    );
}

#[test]
fn the_budget_counts_frames() {
    let mut r = rig();
    for i in 0..5 {
        r.fake.deliver(1, &frame(300, i), &RxCompletion::default());
    }
    assert_eq!(r.rx.receive(2, |_, _| ()), 2);
    assert_eq!(r.rx.receive(2, |_, _| ()), 2);
    assert_eq!(r.rx.receive(2, |_, _| ()), 1);
}

/// One buffer completed as the device would, after a change.
fn bad(r: &Rig, change: impl FnOnce(&mut RxCompletion)) {
    let d = r.fake.take_buffer(1).unwrap();
    let mut c = RxCompletion::default();
    c.status.set_sop(1);
    c.status.set_eop(1);
    c.status.set_queue(1);
    c.status.set_cookie(d.buffer.cookie());
    c.status.set_bytes(60);
    c.hash.set_frame_len(60);
    change(&mut c);
    r.fake.complete_rx(1, c);
}

#[test]
fn rubbish_from_the_device_is_counted_and_dropped() {
    let mut r = rig();
    bad(&r, |c| c.status.set_bytes(257));
    bad(&r, |c| c.hash.set_frame_len(61));
    bad(&r, |c| c.status.set_queue(2));
    bad(&r, |c| c.status.set_sop(0));
    bad(&r, |c| c.status.set_status(Status::RxTooLong.code()));
    bad(&r, |c| c.status.set_status(250));
    bad(&r, |c| c.status.set_cookie(63));
    bad(&r, |c| {
        c.status.set_cookie(COOKIE_NONE);
        c.status.set_status(Status::DoorbellOutOfRange.code());
    });
    assert!(r.receive().is_empty());
    r.fake.deliver(1, &frame(64, 9), &RxCompletion::default());
    assert_eq!(r.receive(), [frame(64, 9)]);
    let s = r.rx.stats();
    assert_eq!((s.rx_malformed_completions, s.rx_errors), (4, 2));
    assert_eq!((s.rx_unknown_completions, s.rx_queue_errors), (1, 1));
    assert_eq!(r.rx.last_error(), Some(Status::DoorbellOutOfRange.code()));
}

#[test]
fn a_frame_longer_than_any_is_dropped() {
    let mut r = rig();
    for round in 0..5 {
        for i in 0..60 {
            bad(&r, |c| {
                c.status.set_sop((round == 0 && i == 0).into());
                c.status.set_eop(0);
                c.status.set_bytes(256);
            });
        }
        r.receive();
    }
    assert_eq!(r.rx.stats().rx_malformed_completions, 1);
    r.fake.deliver(1, &frame(64, 9), &RxCompletion::default());
    assert_eq!(r.receive(), [frame(64, 9)]);
}

#[test]
fn after_a_reset_every_buffer_is_posted_again() {
    let mut r = rig();
    r.fake.deliver(1, &frame(700, 0), &RxCompletion::default());
    let mut flows = r.device.flow_table();
    let rx = std::slice::from_mut(&mut r.rx);
    r.device.reset(&mut [], rx, &mut flows, |_| ()).unwrap();
    assert!(r.receive().is_empty(), "what was received before is gone");
    r.fake.deliver(1, &frame(64, 1), &RxCompletion::default());
    assert_eq!(r.receive(), [frame(64, 1)]);
}
