// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a driver does, over vfio-user.

use super::rig::*;
use std::fs;
use std::time::Duration;
use tsonic_pci::{DmaBuffer, DmaPermission};
use tsonic_regs::pci::{DEVICE_ID, VENDOR_ID};
use tsonic_regs::registers::{doorbell, doorbell_offset, global};
use tsonic_sim::pages::Pages;
use tsonic_sim::vfio_user::{Server, ServerConfig, ServerError};

#[test]
fn bursts_are_sent_with_mapped_and_with_trapped_doorbells() {
    let look = Duration::from_micros(100);
    for (map, look) in [
        (true, Duration::ZERO),
        (true, look),
        (false, Duration::ZERO),
        (false, look),
    ] {
        let (server, paths) = serve(world(4), map);
        let mut s = Sender::open(connect(&paths[0], map), 4);
        s.device.set_busy_poll(look);
        for round in 0..50 {
            for q in 0..4 {
                s.burst(q, 1_000 + 997 * round);
            }
            s.settle();
        }
        assert_eq!((s.posted, s.with(Status::Ok)), (200, 200));
        let counters = s.device.counters().unwrap();
        assert!(counters.contains(&("TX_BURSTS", 200)) && counters.contains(&("TX_ERRORS", 0)));
        let clock = s.device.now();
        std::thread::sleep(Duration::from_millis(30));
        let later = s.device.now();
        assert!(
            later.since(clock) >= Nanos::from_millis(10),
            "{clock} {later}"
        );
        drop(s);
        let served = server.stop().unwrap();
        assert_eq!(served.lines[0].clients, 1);
        assert_eq!(served.lines[0].broken, 0);
        assert!(!paths[0].exists(), "the socket is gone");
    }
}

#[test]
fn a_clock_of_64_bits_is_read_at_once() {
    let (_server, paths) = serve(world(1), false);
    let mut f = connect(&paths[0], false);
    let mut id = [0; 4];
    f.config_read(0, &mut id).unwrap();
    assert_eq!(id[..2], VENDOR_ID.to_le_bytes());
    assert_eq!(id[2..], DEVICE_ID.to_le_bytes());
    let before = f.now();
    std::thread::sleep(Duration::from_millis(2));
    let at = doorbell_offset(0, doorbell::CLOCK_LO) as u64;
    let low = f.read32(0, at).unwrap();
    let after = f.now();
    assert!(before < after && before.0 as u32 <= low && low <= after.0 as u32);
    assert_eq!(f.read32(0, at + 4).unwrap(), 0);
    assert_eq!(
        f.read32(0, global::MAGIC.offset as u64).unwrap(),
        tsonic_regs::MAGIC
    );
}

#[test]
fn refusals_come_with_a_reason() {
    let (_server, paths) = serve(world(1), false);
    let mut f = connect(&paths[0], false);
    // Outside of the BAR.
    let beyond = f.read32(0, 0x20_0000);
    assert!(
        matches!(&beyond, Err(BusError::Refused { source, .. }) if source.raw_os_error() == Some(22)),
        "{beyond:?}"
    );
    let none = f.read32(1, 0);
    assert!(matches!(none, Err(BusError::Refused { .. })));
    // Memory that nobody else can reach.
    let pages = Pages::new(4096).unwrap();
    // SAFETY: refused.
    let private = unsafe {
        let buffer = DmaBuffer::private(pages.as_ptr(), 4096);
        f.dma_map(buffer, 0x1000, DmaPermission::Read)
    };
    assert!(matches!(
        private,
        Err(BusError::PrivateMemory { iova: 0x1000 })
    ));
    assert!(matches!(
        f.dma_unmap(0x1000, 4096),
        Err(BusError::NotMapped { .. })
    ));
    // It goes on all the same.
    assert_eq!(
        f.read32(0, global::MAGIC.offset as u64).unwrap(),
        tsonic_regs::MAGIC
    );
}

#[test]
fn a_socket_in_use_is_not_taken_and_a_dead_one_is() {
    let (server, paths) = serve(world(1), false);
    let start = |path: &std::path::PathBuf| {
        let config = ServerConfig {
            sockets: vec![path.clone()],
            map_doorbells: false,
        };
        Server::start(world(1), &config)
    };
    let again = start(&paths[0]);
    assert!(matches!(again, Err(ServerError::InUse { .. })));
    assert!(paths[0].exists());
    drop(again);
    drop(connect(&paths[0], false));
    drop(server);
    // Left behind by a process that was killed.
    drop(std::os::unix::net::UnixListener::bind(&paths[0]).unwrap());
    start(&paths[0]).unwrap().stop().unwrap();
    fs::write(&paths[0], "no socket").unwrap();
    let refused = start(&paths[0]);
    assert!(matches!(refused, Err(ServerError::NotASocket { .. })));
    drop(refused);
    assert_eq!(fs::read(&paths[0]).unwrap(), b"no socket");
    fs::remove_file(&paths[0]).unwrap();
}
