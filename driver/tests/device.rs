// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening, setting up and closing a device.

mod fake;

use fake::Fake;
use tsonic_driver::{BqlConfig, Device, DriverError, RxConfig, TxConfig};
use tsonic_regs::completion::WriteBack;
use tsonic_regs::limits::{RSS_KEY_DEFAULT, RSS_TABLE};
use tsonic_regs::registers::{RingSize, doorbell, doorbell_offset, global, queue};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_types::{ByteRate, Nanos, QueueId, WireBytes};

fn refused(set_up: impl FnOnce(&Fake)) -> DriverError {
    let fake = Fake::new();
    set_up(&fake);
    match Device::open(fake.clone()) {
        Ok(_) => panic!("opened"),
        Err(e) => e,
    }
}

#[test]
fn a_good_device_opens_and_tells_its_limits() {
    let fake = Fake::new();
    fake.keep_resetting(3);
    let device = Device::open(fake.clone()).unwrap();
    let info = device.info();
    assert_eq!(
        (info.queues, info.flow_slots, info.max_segment),
        (4, 16, 16_000)
    );
    assert_eq!(info.ticks.hz(), 125_000_000);
    assert_eq!((info.features.tso(), info.features.msix()), (1, 1));
    assert_eq!(fake.resets(), 1);
    drop(device);
    assert_eq!(fake.resets(), 2, "closing resets");
}

#[test]
fn what_is_not_ours_is_refused_with_advice() {
    let e = refused(|f| f.set(global::MAGIC, 0x1234));
    assert!(matches!(e, DriverError::WrongMagic { found: 0x1234 }));
    let e = refused(|f| f.set(global::MAGIC, u32::MAX));
    assert!(matches!(e, DriverError::NotResponding));
    let e = refused(|f| f.set(global::CONTRACT_VERSION, CONTRACT_VERSION + 0x1_0000));
    assert!(matches!(e, DriverError::ContractMajor { .. }), "{e}");
    assert!(e.to_string().contains("load a bitstream"));
    for (register, value) in [
        (global::QUEUES, 0),
        (global::QUEUES, 257),
        (global::FLOW_SLOTS, 0),
        (global::MAX_SEGMENT, 1 << 18),
        (global::MAX_PAYLOAD, 0),
        (global::TICK_HZ, 0),
    ] {
        let e = refused(|f| f.set(register, value));
        assert!(e.to_string().contains(register.name), "{e}");
    }
    let e = refused(|f| f.keep_resetting(usize::MAX));
    assert!(
        matches!(e, DriverError::ResetTimedOut { millis: 100 }),
        "{e}"
    );
    // A newer minor version has everything that this driver uses.
    let fake = Fake::new();
    fake.set(global::CONTRACT_VERSION, CONTRACT_VERSION + 1);
    assert!(Device::open(fake).is_ok());
    assert_eq!(MAGIC.to_be_bytes(), *b"TSNC");
}

#[test]
fn registers_hold_what_was_set() {
    let fake = Fake::new();
    let mut d = Device::open(fake.clone()).unwrap();
    let table = Device::<Fake>::rss_round_robin(3);
    d.set_rss(&RSS_KEY_DEFAULT, &table).unwrap();
    assert_eq!(fake.get(global::RSS_KEY.offset), 0xda56_5a6d);
    let row = |i: usize| fake.get(global::RSS_TABLE.offset + 4 * i);
    assert_eq!((row(0), row(5), row(127)), (0, 2, 1));
    let bad = [QueueId(4); RSS_TABLE];
    assert!(matches!(
        d.set_rss(&RSS_KEY_DEFAULT, &bad),
        Err(DriverError::NoSuchQueue { queues: 4, .. })
    ));
    d.set_lateness_debt(Nanos(1_000)).unwrap();
    d.set_credit_flush(Nanos(0)).unwrap();
    d.set_congestion_target(Nanos::from_millis(5)).unwrap();
    d.set_horizon(Nanos::from_secs(1_000)).unwrap();
    for (r, want) in [
        (global::LATENESS_DEBT, 125),
        (global::CREDIT_FLUSH, 1),
        (global::CN_TARGET, 625_000),
        (global::HORIZON, u32::MAX),
    ] {
        assert_eq!(fake.get(r.offset), want, "{}", r.name);
    }
    d.set_moderation(QueueId(2), 8, Nanos(801)).unwrap();
    assert_eq!(fake.queue_register(2, queue::COALESCE_COUNT), 8);
    assert_eq!(fake.queue_register(2, queue::COALESCE_TICKS), 101);
    d.start().unwrap();
    assert_eq!(fake.get(global::CONTROL.offset), 1);
    d.stop().unwrap();
    assert_eq!(fake.get(global::CONTROL.offset), 0);
    fake.set(global::STATUS, 1);
    assert!(d.is_idle().unwrap());
    assert_eq!(d.flow_table().available(), 15);
}

#[test]
fn queues_are_set_up_before_they_are_turned_on() {
    let fake = Fake::new();
    let mut d = Device::open(fake.clone()).unwrap();
    let config = TxConfig {
        ring_log2: 6,
        completion_log2: 7,
        quantum: Some(3_028),
        rate: Some(ByteRate(125_000_000)),
        bql: Some(BqlConfig {
            limit: 1,
            min: 2,
            max: 3,
            hold: Nanos(8_000),
            stall: Nanos(80),
        }),
    };
    let tx = d.open_tx(QueueId(1), config).unwrap();
    assert_eq!((tx.room(), tx.outstanding(), tx.id()), (63, 0, QueueId(1)));
    let size = RingSize(fake.queue_register(1, queue::TX_RING_SIZE));
    assert_eq!((size.ring_log2(), size.completion_log2()), (6, 7));
    for (r, want) in [
        (queue::TX_CONTROL, 1),
        (queue::TX_QUANTUM, 3_028),
        (queue::TX_RATE_LO, 1 << 28),
        (queue::TX_RATE_HI, 0),
        (queue::BQL_LIMIT, 1),
        (queue::BQL_MIN, 2),
        (queue::BQL_MAX, 3),
        (queue::BQL_HOLD, 1_000),
        (queue::BQL_STALL, 10),
    ] {
        assert_eq!(fake.queue_register(1, r), want, "{}", r.name);
    }
    assert_eq!(fake.queue_register(1, queue::TX_RING_LO) % 64, 0);
    assert_eq!(fake.queue_register(1, queue::TX_RING_HI), 1, "above 4 GiB");

    let rx = d.open_rx(QueueId(1), RxConfig::default()).unwrap();
    assert_eq!(fake.queue_register(1, queue::RX_CONTROL), 1);
    let rung = (doorbell_offset(1, doorbell::RX_TAIL) as u64, 511);
    assert_eq!(fake.doorbells(), [rung], "every buffer posted");
    assert_eq!(rx.stats().rx_buffers_posted, 511);
}

#[test]
fn a_budget_is_read_where_the_device_writes_it_back() {
    let fake = Fake::new();
    let mut d = Device::open(fake.clone()).unwrap();
    let tx = d.open_tx(QueueId(2), TxConfig::default()).unwrap();
    assert_eq!(tx.bql_state(), None);
    let at = |fake: &Fake| {
        let half = |r| u64::from(fake.queue_register(2, r));
        half(queue::WRITE_BACK_HI) << 32 | half(queue::WRITE_BACK_LO)
    };
    let iova = at(&fake);
    assert!(iova != 0 && iova.is_multiple_of(64));
    let mut back = WriteBack::default();
    assert_eq!(back.to_words(), [0, 0]);
    back.bytes.set_limit(68_130);
    back.bytes.set_inflight(1_502);
    back.stalls.set_count(3);
    back.stalls.set_longest(5 << 17);
    for (i, word) in back.to_words().into_iter().enumerate() {
        fake.write(iova + 8 * i as u64, &word.to_le_bytes());
    }
    let state = tx.bql_state().unwrap();
    assert_eq!(state.limit, WireBytes(68_130));
    assert_eq!(state.inflight, WireBytes(1_502));
    assert_eq!((state.stalls, state.longest_stall), (3, 5 << 17));
    d.close_tx(tx, &mut d.flow_table(), |_| ()).unwrap();
    assert_eq!(at(&fake), 0, "its memory is gone");
}

#[test]
fn wrong_queues_and_sizes_are_refused() {
    let mut d = Device::open(Fake::new()).unwrap();
    let tx = d.open_tx(QueueId(0), TxConfig::default()).unwrap();
    let again = d.open_tx(QueueId(0), TxConfig::default()).unwrap_err();
    assert!(matches!(again, DriverError::QueueInUse(QueueId(0))));
    let none = d.open_rx(QueueId(4), RxConfig::default()).unwrap_err();
    assert_eq!(
        none.to_string(),
        "queue 4 does not exist: the device has queues 0 to 3"
    );
    for (ring_log2, completion_log2) in [(5, 8), (13, 8), (8, 5), (8, 14)] {
        let config = TxConfig {
            ring_log2,
            completion_log2,
            ..TxConfig::default()
        };
        let e = d.open_tx(QueueId(1), config).unwrap_err();
        assert!(matches!(e, DriverError::RingSize { .. }), "{e}");
    }
    for buffer_bytes in [0, 63, 100] {
        let config = RxConfig {
            buffer_bytes,
            ..RxConfig::default()
        };
        let e = d.open_rx(QueueId(1), config).unwrap_err();
        assert!(matches!(e, DriverError::BadSetting { .. }), "{e}");
    }
    for (chunks, bytes) in [(1, 8_192), (1, 16_390), (0, 16_384)] {
        let e = d.chunk_pool(chunks, bytes).unwrap_err();
        assert!(matches!(e, DriverError::BadSetting { .. }), "{e}");
    }
    assert!(d.set_quantum(QueueId(0), 65_536).is_err());
    let mut flows = d.flow_table();
    d.close_tx(tx, &mut flows, |_| ()).unwrap();
    assert!(d.open_tx(QueueId(0), TxConfig::default()).is_ok());
}

#[test]
fn memory_is_unmapped_before_it_is_freed() {
    let fake = Fake::new();
    let mut d = Device::open(fake.clone()).unwrap();
    let tx = d.open_tx(QueueId(0), TxConfig::default()).unwrap();
    let rx = d.open_rx(QueueId(0), RxConfig::default()).unwrap();
    let mut pool = d.chunk_pool(4, 65_536).unwrap();
    assert_eq!(fake.mappings(), 5);
    d.close_rx(rx).unwrap();
    assert_eq!(fake.mappings(), 3);
    drop(d);
    assert_eq!(fake.mappings(), 0);
    // Handles outlive the device: their memory is there, just not the device's.
    let c = pool.allocate().unwrap();
    pool.write(c, 0, b"still there");
    drop(tx);
}

#[test]
fn memory_that_cannot_be_unmapped_is_leaked_and_not_freed() {
    let fake = Fake::new();
    let mut d = Device::open(fake.clone()).unwrap();
    let pool = d.chunk_pool(1, 16_384).unwrap();
    let f = pool.map().fragment(0, 0, 8).unwrap();
    fake.fail_unmaps();
    drop(d);
    drop(pool);
    assert_eq!(fake.mappings(), 1);
    // The device can still reach it.
    assert_eq!(fake.read(f.iova, 8), [0; 8]);
}

#[test]
fn counters_are_read_whole() {
    let fake = Fake::new();
    let mut d = Device::open(fake.clone()).unwrap();
    fake.set(global::TX_BYTES, 5);
    fake.set_at(global::TX_BYTES.offset + 4, 2);
    let counters = d.counters().unwrap();
    assert!(counters.contains(&("TX_BYTES", (2 << 32) + 5)));
    assert!(counters.contains(&("RX_NO_BUFFER", 0)));
    assert_eq!(counters.len(), 10);
}
