// SPDX-License-Identifier: MIT OR Apache-2.0
//! What other clients than our own do: QEMU maps all of a guest's memory and takes it
//! back, gives memory without a file, grows its vectors one by one.

mod client;
mod hostile;

use client::*;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use tsonic_pci::config::{COMMAND, COMMAND_MEMORY};
use tsonic_regs::registers::{doorbell, doorbell_offset, global};
use tsonic_sim::vfio_user::FAR_WAIT;
use tsonic_vfio_user::{
    Errno, IrqAction, IrqData, IrqInfo, RegionAccess, RegionInfo, Request, SetIrqs, Version, irq,
    region,
};

#[test]
fn all_memory_is_mapped_taken_back_and_mapped_by_the_page() {
    let (server, path) = serve();
    let (memory, map) = file(64);
    let mut c = Client::connect(&path);
    // As before a guest has turned its IOMMU on, and when it does.
    c.map(0, 64 * PAGE, 0, Some(&memory)).unwrap();
    assert_eq!(
        c.map(PAGE, PAGE, 0, Some(&memory)),
        Err(Errno::EINVAL),
        "overlaps"
    );
    assert_eq!(c.unmap(PAGE, PAGE), Err(Errno::EINVAL), "cuts");
    c.unmap(0, 64 * PAGE).unwrap();
    c.unmap(0, 1 << 40).unwrap();
    c.unmap(1 << 50, PAGE).unwrap();
    // Pages in no order: a frame is scattered over them.
    let iova = 1 << 33;
    let place = |page: u64| 63 - page;
    for page in 0..8 {
        let offset = place(page) * PAGE;
        c.map(iova + page * PAGE, PAGE, offset, Some(&memory))
            .unwrap();
    }
    let at = iova + 4 * PAGE - 100;
    poke(&map, place(0) * PAGE, &descriptor(at, 6_000));
    c.start(iova);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    let c0 = done(|| completion(&peek(&map, place(1) * PAGE, 32)));
    assert_eq!((c0.status.status(), c0.done.wire_bytes()), (0, 6_014));
    // A page less: an address fault, and a page that is none of its business stays.
    poke(&map, place(6) * PAGE, &[7; 4096]);
    c.unmap(iova + 5 * PAGE, PAGE).unwrap();
    poke(&map, place(0) * PAGE + 64, &descriptor(at, 6_000));
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 2);
    let c1 = done(|| completion(&peek(&map, place(1) * PAGE + 32, 32)));
    assert_ne!(c1.status.status(), 0);
    // Once it is unmapped, nothing more is written there.
    c.unmap(iova + PAGE, PAGE).unwrap();
    let before = peek(&map, place(1) * PAGE, 4096);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(peek(&map, place(1) * PAGE, 4096), before);
    drop(c);
    let served = server.stop().unwrap();
    assert!(served.world.memory(0).unwrap().memory().is_empty());
}

#[test]
fn files_that_could_shrink_are_refused_and_so_is_what_is_beyond_them() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let open = memfd_create("open", flags).unwrap();
    ftruncate(&open, PAGE).unwrap();
    assert_eq!(c.map(0, PAGE, 0, Some(&open)), Err(Errno::EACCES));
    let (sealed, _map) = file(2);
    assert_eq!(c.map(0, PAGE, 2 * PAGE, Some(&sealed)), Err(Errno::EINVAL));
    assert_eq!(c.map(0, 4 * PAGE, 0, Some(&sealed)), Err(Errno::EINVAL));
    assert_eq!(c.map(0, 0, 0, Some(&sealed)), Err(Errno::EINVAL));
    assert_eq!(c.map(100, PAGE, 0, Some(&sealed)), Err(Errno::EINVAL));
    c.map(0, PAGE, PAGE, Some(&sealed)).unwrap();
}

#[test]
fn memory_without_a_file_is_asked_for() {
    let (server, path) = serve();
    let mut c = Client::connect(&path);
    c.far.address = 1 << 33;
    c.far.bytes = vec![0; 4 * PAGE as usize];
    let iova = c.far.address;
    c.map(iova, 4 * PAGE, 0, None).unwrap();
    let d = descriptor(iova + 2 * PAGE, 1_000);
    c.far.bytes[..64].copy_from_slice(&d);
    c.start(iova);
    // The device asks while this very write waits for its reply, or right after.
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    let started = Instant::now();
    let c0 = loop {
        let c0 = completion(&c.far.bytes[PAGE as usize..]);
        if c0.done.phase() == 1 {
            break c0;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no completion");
        // A round trip: what the device asks for meanwhile is answered.
        c.read(region::BAR0, 0, 4);
    };
    assert_eq!((c0.status.status(), c0.done.wire_bytes()), (0, 1_014));
    assert!(
        c.far.reads >= 3 && c.far.writes >= 1,
        "{} {}",
        c.far.reads,
        c.far.writes
    );
    // It stops answering: its accesses fail, the device goes on.
    c.far.silent = true;
    c.far.bytes[64..128].copy_from_slice(&d);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 2);
    let started = Instant::now();
    let magic = tsonic_regs::MAGIC.to_le_bytes();
    while c.far.ignored == 0 {
        assert_eq!(c.read(region::BAR0, 0, 4), magic);
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "it asks for nothing"
        );
    }
    assert_eq!(c.read(region::BAR0, 0, 4), magic);
    let waited = started.elapsed();
    assert!(
        (FAR_WAIT / 2..10 * FAR_WAIT).contains(&waited),
        "{waited:?}"
    );
    c.unmap(iova, 4 * PAGE).unwrap();
    assert_eq!(c.read(region::BAR0, 0, 4), magic);
    assert!(server.is_running());
}

#[test]
fn vectors_grow_one_by_one_and_foreign_descriptors_are_refused() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    let body = c
        .ask(&Request::DeviceGetIrqInfo { index: irq::MSIX }, &[])
        .unwrap();
    let info = IrqInfo::parse(&body).unwrap();
    assert_eq!(
        (info.count, info.no_resize, info.maskable),
        (5, false, true)
    );
    let set = |action, data, start, count| {
        Request::DeviceSetIrqs(SetIrqs {
            action,
            data,
            index: irq::MSIX,
            start,
            count,
        })
    };
    let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let fired = |e: &OwnedFd| rustix::io::read(e, &mut [0u8; 8]).is_ok();
    let trigger = IrqAction::Trigger;
    let mut events: Vec<OwnedFd> = Vec::new();
    for v in 0..5 {
        // All of them anew, each by itself, as QEMU does when one more is used.
        events.push(event());
        c.ask(&set(trigger, IrqData::None, 0, 0), &[]).unwrap();
        for (i, e) in (0..).zip(&events) {
            c.ask(&set(trigger, IrqData::EventFd, i, 1), &[e.as_fd()])
                .unwrap();
        }
        c.ask(
            &set(trigger, IrqData::Bool(&[1; 5][..v + 1]), 0, v as u32 + 1),
            &[],
        )
        .unwrap();
        assert!(events.iter().all(&fired), "{v}");
    }
    // One is taken away.
    c.ask(&set(trigger, IrqData::EventFd, 2, 1), &[]).unwrap();
    c.ask(&set(trigger, IrqData::None, 0, 5), &[]).unwrap();
    let got: Vec<bool> = events.iter().map(&fired).collect();
    assert_eq!(got, [true, true, false, true, true]);
    for (start, count) in [(5, 1), (0, 6), (4, 2)] {
        let beyond = c.ask(&set(trigger, IrqData::None, start, count), &[]);
        assert_eq!(beyond, Err(Errno::EINVAL));
    }
    let (memory, _map) = file(1);
    for foreign in [
        &memory,
        &OwnedFd::from(std::fs::File::open("/dev/null").unwrap()),
    ] {
        let refused = c.ask(&set(trigger, IrqData::EventFd, 0, 1), &[foreign.as_fd()]);
        assert_eq!(refused, Err(Errno::EINVAL));
    }
    // The one that was there still is.
    c.ask(&set(trigger, IrqData::None, 0, 1), &[]).unwrap();
    assert!(fired(&events[0]));
    let masked = c.ask(&set(IrqAction::Mask, IrqData::EventFd, 0, 1), &[]);
    assert_eq!(masked, Err(Errno::EINVAL));
}

#[test]
fn regions_are_described_and_bounded() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    let sizes: Vec<u64> = (0..region::COUNT)
        .map(|index| {
            let body = c
                .ask(&Request::DeviceGetRegionInfo { argsz: 32, index }, &[])
                .unwrap();
            RegionInfo::parse(&body).unwrap().0.bytes
        })
        .collect();
    assert_eq!(sizes, [0x20_0000, 0, 0x4000, 0, 0, 0, 0, 4096, 0]);
    for (region, offset, count) in [
        (0, 0x20_0000, 4),
        (0, 0x1f_fffd, 4),
        (1, 0, 4),
        (7, 4093, 4),
        (9, 0, 4),
        (u32::MAX, 0, 4),
        (0, 0, 0),
    ] {
        let access = RegionAccess {
            offset,
            region,
            count,
        };
        assert_eq!(c.ask(&Request::RegionRead(access), &[]), Err(Errno::EINVAL));
    }
    // Widths that registers do not have.
    assert_eq!(c.read(0, 0, 2), [0xff; 2]);
    assert_eq!(c.read(0, 4, 8), [0xff; 8]);
    assert_eq!(c.read(0, 0, 8)[..4], tsonic_regs::MAGIC.to_le_bytes());
    assert_eq!(c.read(region::CONFIG, 0, 1).len(), 1);
    // Nothing before the version, and that once.
    assert_eq!(
        c.ask(&Request::Version(Version::ours()), &[]),
        Err(Errno::EPROTO)
    );
}

#[test]
fn a_function_level_reset_arrives_as_a_configuration_write() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    c.register(global::CONTROL.offset, 1);
    assert_eq!(c.read(0, global::CONTROL.offset as u64, 4)[0], 1);
    let at = tsonic_sim::function::CAP_EXP + tsonic_pci::config::EXP_DEVCTL;
    let mut control = c.read(region::CONFIG, at.into(), 2);
    control[1] |= 0x80;
    c.write(region::CONFIG, at.into(), &control);
    assert_eq!(c.read(region::CONFIG, COMMAND.into(), 2), [0, 0]);
    assert_eq!(
        c.read(0, global::CONTROL.offset as u64, 4),
        [0xff; 4],
        "not decoded"
    );
    c.write(
        region::CONFIG,
        COMMAND.into(),
        &COMMAND_MEMORY.to_le_bytes(),
    );
    assert_eq!(c.read(0, global::CONTROL.offset as u64, 4), [0; 4]);
}
