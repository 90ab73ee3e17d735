// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit queues against a device that does what the test says, right or wrong.

mod fake;

use fake::Fake;
use tsonic_driver::{
    Device, DriverError, FlowTable, Fragment, PostError, TxBurst, TxConfig, TxQueue,
};
use tsonic_pci::PciFunction;
use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion as Raw;
use tsonic_regs::descriptor::{COOKIE_NONE, Kind, TxDescriptor};
use tsonic_regs::registers::{Features, doorbell, doorbell_offset, global};
use tsonic_types::{ByteRate, FlowSlot, Nanos, QueueId, WireBytes};

const HEADER: [u8; 66] = [0x5a; 66];

fn burst(token: u64, fragments: &[Fragment]) -> TxBurst<'_> {
    TxBurst {
        kind: Kind::Tso,
        ipv6: false,
        ip_id_fixed: false,
        cwr_all: false,
        complete_now: false,
        l2_len: 14,
        l3_len: 20,
        l4_len: 32,
        mss: 1_448,
        header: &HEADER,
        fragments,
        flow: FlowSlot::UNPACED,
        rate: None,
        flow_limit: None,
        launch: None,
        token,
    }
}

const ONE: [Fragment; 1] = [Fragment {
    iova: 0x1000,
    len: 100,
}];

struct Rig {
    fake: Fake,
    device: Device<Fake>,
    flows: FlowTable,
    tx: TxQueue,
}

/// Queue 2 with 64 slots and room for 120 bursts.
fn rig() -> Rig {
    rig_of(Fake::new())
}

fn rig_of(fake: Fake) -> Rig {
    let mut device = Device::open(fake.clone()).unwrap();
    let config = TxConfig {
        ring_log2: 6,
        completion_log2: 7,
        ..TxConfig::default()
    };
    let tx = device.open_tx(QueueId(2), config).unwrap();
    let flows = device.flow_table();
    Rig {
        fake,
        device,
        flows,
        tx,
    }
}

impl Rig {
    fn post(&mut self, token: u64) -> Result<(), PostError> {
        self.tx.post(&mut self.flows, &burst(token, &ONE))
    }

    fn flush(&mut self) -> bool {
        self.tx.flush(self.device.function()).unwrap()
    }

    fn reap(&mut self) -> Vec<u64> {
        let mut tokens = Vec::new();
        self.tx
            .reap(&mut self.flows, usize::MAX, |c| tokens.push(c.token));
        tokens
    }
}

/// A good completion of a descriptor.
fn done(d: &TxDescriptor) -> Raw {
    let mut c = Raw::default();
    c.status.set_cookie(d.burst.cookie());
    c.status.set_flow_slot(d.burst.flow_slot());
    c.done.set_segments(1);
    c.done.set_wire_bytes(166);
    c
}

#[test]
fn the_device_sees_what_was_posted() {
    let mut r = rig();
    let flow = r.flows.allocate().unwrap();
    let fragments: Vec<Fragment> = (0..17)
        .map(|i| Fragment {
            iova: 0x10_0000 + i * 0x1_0000,
            len: 1_000 + i as u32,
        })
        .collect();
    for n in [0, 1, 2, 3, 17] {
        let b = TxBurst {
            kind: if n == 0 { Kind::Csum } else { Kind::Tso },
            ipv6: false,
            cwr_all: true,
            complete_now: true,
            flow,
            rate: Some(ByteRate(1_250_000)),
            launch: Some(Nanos(1_001)),
            ..burst(n as u64, &fragments[..n])
        };
        r.tx.post(&mut r.flows, &b).unwrap();
    }
    assert!(
        r.fake.doorbells().is_empty(),
        "no doorbell before the flush"
    );
    assert!(r.flush());
    assert!(!r.flush(), "nothing new");
    let at = doorbell_offset(2, doorbell::TX_TAIL) as u64;
    assert_eq!(r.fake.doorbells(), [(at, 5)], "one doorbell a batch");

    for (d, n) in r.fake.fetch(2).into_iter().zip([0usize, 1, 2, 3, 17]) {
        assert_eq!(usize::from(d.control.fragments()), n);
        assert_eq!(
            (d.control.mss(), d.control.cwr_all(), d.control.timestamp()),
            (1_448, 1, 1)
        );
        assert_eq!(
            (d.burst.flow_slot(), d.rate.inv_rate()),
            (flow.0, 100 << 28)
        );
        assert_eq!(
            (d.control.launch(), d.launch),
            (1, 126),
            "125.125 ticks, up"
        );
        assert_eq!(r.fake.read(d.header_addr, 66), HEADER);
        let want: u32 = fragments[..n].iter().map(|f| f.len).sum();
        assert_eq!(d.burst.payload_len(), want);
        let mut seen = Vec::new();
        if n > 0 {
            seen.push((d.frag0_addr, d.lengths.frag0_len()));
        }
        if n == 2 {
            seen.push((d.frag1_addr, d.lengths.frag1_len()));
        }
        if n > 2 {
            assert_eq!(d.lengths.frag1_len(), 0);
            let list = r.fake.read(d.frag1_addr, (n - 1) * 16);
            for e in list.chunks_exact(16) {
                let addr = u64::from_le_bytes(e[..8].try_into().unwrap());
                let len = u64::from_le_bytes(e[8..].try_into().unwrap());
                seen.push((addr, len as u32));
            }
        }
        let want: Vec<_> = fragments[..n].iter().map(|f| (f.iova, f.len)).collect();
        assert_eq!(seen, want);
    }
}

#[test]
fn a_flow_limit_is_rounded_up_and_left_out_where_there_is_none() {
    let limits = [
        (None, 0),
        (Some(0), 1),
        (Some(1), 1),
        (Some(1_024), 1),
        (Some(1_025), 2),
        (Some(16_383 * 1_024), 16_383),
        (Some(u32::MAX), 16_383),
    ];
    let post = |r: &mut Rig| {
        let flow = r.flows.allocate().unwrap();
        for (token, (flow_limit, _)) in limits.iter().enumerate() {
            let b = TxBurst {
                flow,
                flow_limit: *flow_limit,
                ..burst(token as u64, &ONE)
            };
            r.tx.post(&mut r.flows, &b).unwrap();
        }
        assert!(r.flush());
        let slots = r.fake.fetch(2).into_iter();
        slots.map(|d| d.burst.flow_limit()).collect::<Vec<_>>()
    };
    assert_eq!(post(&mut rig()), limits.map(|(_, units)| units));
    let without = Fake::new();
    let mut features = Features(without.get(global::FEATURES.offset));
    features.set_flow_limit(0);
    without.set(global::FEATURES, features.0);
    assert_eq!(post(&mut rig_of(without)), [0; 7]);
}

#[test]
fn completions_are_typed_and_in_nanoseconds() {
    let mut r = rig();
    let flow = r.flows.allocate().unwrap();
    let b = TxBurst {
        flow,
        ..burst(77, &ONE)
    };
    r.tx.post(&mut r.flows, &b).unwrap();
    r.flush();
    let d = r.fake.fetch(2)[0];
    let mut c = done(&d);
    c.first_departure = 125;
    c.last_departure = 250;
    c.status.set_status(Status::AddressFault.code());
    c.status.set_cn(1);
    c.status.set_throttle(1);
    c.status.set_wake(1);
    r.fake.complete(2, c);
    let mut got = Vec::new();
    assert_eq!(r.tx.reap(&mut r.flows, 10, |c| got.push(*c)), 1);
    let c = got[0];
    assert_eq!((c.token, c.queue, c.flow), (77, QueueId(2), flow));
    assert_eq!(c.status(), Some(Status::AddressFault));
    assert_eq!(
        (c.first_departure, c.last_departure),
        (Nanos(1_000), Nanos(2_000))
    );
    assert_eq!((c.wire_bytes, c.segments), (WireBytes(166), 1));
    assert!(c.congested && c.throttled && c.wake);
    let s = r.tx.stats();
    assert_eq!((s.tx_bursts, s.tx_completions, s.tx_errors), (1, 1, 1));
    assert_eq!((s.tx_packets, s.tx_bytes, s.tx_doorbells), (1, 166, 1));
}

#[test]
fn rings_wrap_many_times_and_completions_may_overtake() {
    let mut r = rig();
    let (mut next, mut got) = (0u64, Vec::new());
    while got.len() < 2_000 {
        let room = r.tx.room();
        for _ in 0..room.min(17) {
            r.post(next).unwrap();
            next += 1;
        }
        r.flush();
        let mut fetched = r.fake.fetch(2);
        fetched.reverse();
        for d in &fetched {
            r.fake.complete(2, done(d));
        }
        got.extend(r.reap());
    }
    assert_eq!(r.tx.outstanding(), 0);
    got.sort_unstable();
    assert_eq!(got, (0..next).collect::<Vec<_>>(), "each burst once");
    assert_eq!(r.tx.stats().tx_malformed_completions, 0);
}

#[test]
fn a_full_ring_pushes_back_and_bursts_stay_with_the_caller() {
    let mut r = rig();
    let bursts: Vec<TxBurst<'_>> = (0..100).map(|i| burst(i, &ONE)).collect();
    let (n, why) = r.tx.post_batch(&mut r.flows, &bursts);
    assert_eq!((n, why), (63, Err(PostError::Backpressure(QueueId(2)))));
    assert_eq!((r.tx.room(), r.tx.outstanding()), (0, 63));
    r.flush();
    // Fetched slots are free once a completion tells.
    let first = r.fake.fetch_up_to(2, 40);
    assert_eq!(r.tx.room(), 0);
    r.fake.complete(2, done(&first[0]));
    assert_eq!(r.reap(), [0]);
    assert_eq!(r.tx.room(), 40);
    let (n, why) = r.tx.post_batch(&mut r.flows, &bursts[63..]);
    assert_eq!((n, why), (37, Ok(())));
    assert_eq!(r.tx.stats().tx_busy, 1);
}

#[test]
fn the_completion_ring_bounds_what_is_in_the_device() {
    let mut r = rig();
    let mut fetched = Vec::new();
    let mut posted = 0;
    loop {
        match r.post(posted) {
            Ok(()) => posted += 1,
            Err(PostError::Backpressure(_)) if r.tx.outstanding() == 120 => break,
            Err(PostError::Backpressure(_)) => {
                // The ring is full, the table is not: fetch, and complete one to
                // tell the head.
                r.flush();
                fetched.extend(r.fake.fetch(2));
                r.fake.complete(2, done(&fetched.remove(0)));
                assert_eq!(r.reap().len(), 1);
            }
            Err(e) => panic!("{e}"),
        }
    }
    r.flush();
    fetched.extend(r.fake.fetch(2));
    assert_eq!(fetched.len(), 120, "128 entries less 8");
    for d in &fetched {
        r.fake.complete(2, done(d));
    }
    assert_eq!(r.reap().len(), 120);
    assert_eq!(r.tx.room(), 63);
}

#[test]
fn a_reservation_that_is_dropped_leaves_nothing() {
    let mut r = rig();
    let _ = r.tx.reserve().unwrap();
    assert_eq!((r.tx.room(), r.tx.outstanding()), (63, 0));
    assert!(!r.flush());
    r.tx.reserve()
        .unwrap()
        .commit(&mut r.flows, &burst(1, &ONE))
        .unwrap();
    assert!(r.flush());
}

#[test]
fn bursts_that_break_the_contract_are_refused() {
    let mut r = rig();
    let zero = [Fragment { iova: 0, len: 0 }];
    let huge = [Fragment {
        iova: 0,
        len: 1 << 18,
    }];
    let all = [Fragment {
        iova: 0,
        len: u32::MAX,
    }; 17];
    let many = [ONE[0]; 18];
    let long = [0u8; 300];
    let foreign = r.flows.allocate().unwrap();
    r.flows.release(foreign);
    let good = burst(0, &ONE);
    for (bad, status) in [
        (
            TxBurst {
                header: &HEADER[..65],
                ..good
            },
            Status::BadHeaderLength,
        ),
        (
            TxBurst {
                header: &long,
                l3_len: 254,
                ..good
            },
            Status::BadHeaderLength,
        ),
        (
            TxBurst {
                header: &long[..234],
                l4_len: 200,
                ..good
            },
            Status::BadHeaderLength,
        ),
        (
            TxBurst {
                fragments: &many,
                ..good
            },
            Status::TooManyFragments,
        ),
        (
            TxBurst {
                fragments: &zero,
                ..good
            },
            Status::LengthMismatch,
        ),
        (
            TxBurst {
                fragments: &huge,
                ..good
            },
            Status::LengthMismatch,
        ),
        (
            TxBurst {
                fragments: &all,
                ..good
            },
            Status::LengthMismatch,
        ),
        (TxBurst { mss: 0, ..good }, Status::MssZero),
        (
            TxBurst {
                kind: Kind::Csum,
                fragments: &[Fragment {
                    iova: 0,
                    len: 16_001,
                }],
                ..good
            },
            Status::SegmentTooLarge,
        ),
        (
            TxBurst {
                flow: FlowSlot(16),
                ..good
            },
            Status::BadFlowSlot,
        ),
        (
            TxBurst {
                flow: foreign,
                ..good
            },
            Status::BadFlowSlot,
        ),
    ] {
        let got = r.tx.post(&mut r.flows, &bad);
        assert_eq!(got, Err(PostError::Refused(status)), "{bad:?}");
    }
    assert_eq!((r.tx.room(), r.tx.outstanding()), (63, 0));
    assert_eq!(r.tx.stats().tx_refused, 11);
    assert!(!r.flush());
}

#[test]
fn rubbish_from_the_device_is_counted_and_harms_nothing() {
    let mut r = rig();
    r.post(1).unwrap();
    r.post(2).unwrap();
    r.flush();
    let d = r.fake.fetch(2);
    // Cookies of no burst: never posted, beyond the table.
    for cookie in [100, 120, 0xfffe] {
        let mut c = done(&d[0]);
        c.status.set_cookie(cookie);
        r.fake.complete(2, c);
    }
    // A queue error.
    let mut c = done(&d[0]);
    c.status.set_cookie(COOKIE_NONE);
    c.status.set_status(Status::DoorbellOutOfRange.code());
    r.fake.complete(2, c);
    // A head that cannot be, and a queue that is not ours.
    let mut c = done(&d[0]);
    c.done.set_head(40);
    c.status.set_queue(9);
    r.fake.complete_raw(2, c);
    // The same burst twice.
    r.fake.complete(2, done(&d[0]));
    // A status of another contract.
    let mut c = done(&d[1]);
    c.status.set_status(200);
    r.fake.complete(2, c);
    let mut got = Vec::new();
    let n = r.tx.reap(&mut r.flows, usize::MAX, |c| {
        got.push((c.token, c.status()))
    });
    assert_eq!((n, got), (2, vec![(1, Some(Status::Ok)), (2, None)]));
    let s = r.tx.stats();
    assert_eq!(
        (s.tx_unknown_completions, s.tx_malformed_completions),
        (4, 2)
    );
    assert_eq!((s.tx_queue_errors, s.tx_errors), (1, 1));
    assert_eq!(r.tx.last_error(), Some(Status::DoorbellOutOfRange.code()));
    assert_eq!((r.tx.outstanding(), r.tx.room()), (0, 63));
}

#[test]
fn entries_of_the_last_pass_are_not_taken_for_new_ones() {
    let mut r = rig();
    for round in 0..300u64 {
        r.post(round).unwrap();
        r.flush();
        let d = r.fake.fetch(2);
        assert_eq!(r.reap(), [0; 0], "round {round}: nothing new");
        r.fake.complete(2, done(&d[0]));
        assert_eq!(r.reap(), [round]);
        assert_eq!(r.reap(), [0; 0], "round {round}: once");
    }
}

#[test]
fn the_budget_is_kept() {
    let mut r = rig();
    for i in 0..10 {
        r.post(i).unwrap();
    }
    r.flush();
    for d in r.fake.fetch(2) {
        r.fake.complete(2, done(&d));
    }
    assert_eq!(r.tx.reap(&mut r.flows, 4, |_| ()), 4);
    assert_eq!(r.tx.reap(&mut r.flows, 0, |_| ()), 0);
    assert_eq!(r.tx.reap(&mut r.flows, 100, |_| ()), 6);
}

#[test]
fn a_flow_slot_comes_back_when_its_last_burst_does() {
    let mut r = rig();
    let flow = r.flows.allocate().unwrap();
    for token in 0..2 {
        let b = TxBurst {
            flow,
            ..burst(token, &ONE)
        };
        r.tx.post(&mut r.flows, &b).unwrap();
    }
    r.flush();
    let d = r.fake.fetch(2);
    let before = r.flows.available();
    r.flows.release(flow);
    assert_eq!(r.flows.available(), before);
    r.fake.complete(2, done(&d[0]));
    r.reap();
    assert_eq!(
        (r.flows.outstanding(flow), r.flows.available()),
        (1, before)
    );
    r.fake.complete(2, done(&d[1]));
    r.reap();
    assert_eq!(r.flows.available(), before + 1);
}

#[test]
fn draining_waits_for_every_burst_and_gives_up_in_time() {
    let mut r = rig();
    r.post(5).unwrap();
    let err = r
        .device
        .drain_tx(&mut r.tx, &mut r.flows, Nanos::from_millis(3), |_| ())
        .unwrap_err();
    assert!(matches!(
        err,
        DriverError::NotDrained {
            outstanding: 1,
            millis: 3,
            ..
        }
    ));
    assert!(r.tx.is_enabled());
    let d = r.fake.fetch(2);
    r.fake.complete(2, done(&d[0]));
    let mut got = Vec::new();
    r.device
        .drain_tx(&mut r.tx, &mut r.flows, Nanos::from_millis(3), |c| {
            got.push(c.token)
        })
        .unwrap();
    assert_eq!(got, [5]);
}

#[test]
fn waits_that_end_early_do_not_shorten_a_timeout() {
    let mut r = rig();
    r.post(5).unwrap();
    r.fake.interrupt_every(7);
    let before = r.device.now();
    let timeout = Nanos::from_millis(3);
    let drained = r.device.drain_tx(&mut r.tx, &mut r.flows, timeout, |_| ());
    assert!(drained.is_err());
    let waited = r.device.now().since(before);
    assert!(waited >= timeout && waited.0 < timeout.0 + 100, "{waited}");
    // A clock that stands still does not hold us for ever.
    r.fake.interrupt_every(0);
    let drained = r.device.drain_tx(&mut r.tx, &mut r.flows, timeout, |_| ());
    assert!(drained.is_err());
}

#[test]
fn a_queue_is_reset_alone() {
    let mut r = rig();
    for i in 0..6 {
        r.post(i).unwrap();
    }
    r.flush();
    // Three were fetched; one departed, two are thrown out by the device.
    let d = r.fake.fetch_up_to(2, 3);
    r.fake.complete(2, done(&d[0]));
    for d in &d[1..] {
        let mut c = done(d);
        c.status.set_status(Status::QueueReset.code());
        r.fake.complete(2, c);
    }
    r.post(6).unwrap();
    let mut got = Vec::new();
    r.device
        .reset_tx(&mut r.tx, &mut r.flows, |c| {
            got.push((c.token, c.status().unwrap()))
        })
        .unwrap();
    assert_eq!(got[0], (0, Status::Ok));
    let rest: Vec<_> = (1..7).map(|i| (i, Status::QueueReset)).collect();
    assert_eq!(got[1..], rest);
    assert_eq!((r.tx.outstanding(), r.tx.room()), (0, 63));
    // It works again, from index 0.
    r.post(9).unwrap();
    r.flush();
    let d = r.fake.fetch(2);
    assert_eq!(d.len(), 1);
    r.fake.complete(2, done(&d[0]));
    assert_eq!(r.reap(), [9]);
}

#[test]
fn a_device_that_keeps_bursts_is_not_taken_for_empty() {
    let mut r = rig();
    r.post(1).unwrap();
    r.post(2).unwrap();
    r.flush();
    let d = r.fake.fetch(2);
    r.fake.complete(2, done(&d[1]));
    let err = r
        .device
        .reset_tx(&mut r.tx, &mut r.flows, |_| ())
        .unwrap_err();
    assert!(
        matches!(err, DriverError::NotDrained { outstanding: 1, .. }),
        "{err}"
    );
    assert_eq!(r.post(3), Err(PostError::QueueDown(QueueId(2))));
    // The way out.
    let mut got = Vec::new();
    let tx = std::slice::from_mut(&mut r.tx);
    r.device
        .reset(tx, &mut [], &mut r.flows, |c| {
            got.push((c.token, c.status()))
        })
        .unwrap();
    assert_eq!(got, [(1, Some(Status::QueueReset))]);
    assert_eq!(r.post(3), Ok(()));
}

#[test]
fn the_function_stays_reachable() {
    let mut r = rig();
    r.device.wait(Some(Nanos(4_000))).unwrap();
    assert_eq!(r.device.now(), Nanos(4_000));
    assert_eq!(r.device.function().now().0, 500);
}
