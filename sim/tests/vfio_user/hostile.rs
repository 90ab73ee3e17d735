// SPDX-License-Identifier: MIT OR Apache-2.0
//! Clients that would hold the device up: one that does not answer for its memory, one
//! that stops in the middle of a message, one whose event descriptor is full and blocks.

use super::client::*;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use tsonic_regs::registers::{doorbell, doorbell_offset};
use tsonic_vfio_user::socket::send;
use tsonic_vfio_user::{Command, Header, IrqAction, IrqData, Request, SetIrqs, irq, region};

#[test]
fn an_event_descriptor_that_is_full_and_blocks_holds_nobody_up() {
    let (server, path) = serve();
    let mut c = Client::connect(&path);
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let set = |data, count| {
        Request::DeviceSetIrqs(SetIrqs {
            action: IrqAction::Trigger,
            data,
            index: irq::MSIX,
            start: 0,
            count,
        })
    };
    c.ask(&set(IrqData::EventFd, 1), &[event.as_fd()]).unwrap();
    // The open file is the client's, too, and so are its flags.
    let flags = fcntl_getfl(&event).unwrap();
    fcntl_setfl(&event, flags - OFlags::NONBLOCK).unwrap();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let started = Instant::now();
    // More than once: nothing runs full on the device's side either.
    for _ in 0..100 {
        c.ask(&set(IrqData::None, 1), &[]).unwrap();
    }
    assert_eq!(c.read(region::BAR0, 0, 4), tsonic_regs::MAGIC.to_le_bytes());
    assert!(fcntl_getfl(&event).unwrap() == flags - OFlags::NONBLOCK);
    drop(c);
    let mut next = Client::connect(&path);
    assert_eq!(
        next.read(region::BAR0, 0, 4),
        tsonic_regs::MAGIC.to_le_bytes()
    );
    let served = server.stop().unwrap();
    assert_eq!((served.lines[0].clients, served.interrupts), (2, 100));
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
}

/// Gives memory without a file and thousands of slots in it, and answers for none.
fn ask_for_much(path: &PathBuf) -> Client {
    let mut c = Client::connect(path);
    c.far.silent = true;
    let iova = 1 << 33;
    c.map(iova, 1 << 20, 0, None).unwrap();
    c.start_with(iova, 12);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 4_000);
    let started = Instant::now();
    while c.far.ignored == 0 {
        c.read(region::BAR0, 0, 4);
        assert!(started.elapsed() < NOT_HELD_UP, "it asks for nothing");
    }
    c
}

#[test]
fn a_silent_client_is_waited_for_once_and_again_when_it_has_answered() {
    let (server, [path, other]) = serve_pair();
    let mut c = ask_for_much(&path);
    let started = Instant::now();
    let magic = tsonic_regs::MAGIC.to_le_bytes();
    for _ in 0..20 {
        assert_eq!(c.read(region::BAR0, 0, 4), magic);
    }
    let mut far = Client::connect(&other);
    for _ in 0..20 {
        assert_eq!(far.read(region::BAR0, 0, 4), magic);
    }
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
    // One ask had no answer; it comes now. A reset, and the same client is asked again.
    assert_eq!(c.far.ignored, 1);
    let late = c.late.take().unwrap();
    c.far.silent = false;
    c.far.address = 1 << 33;
    c.far.bytes = vec![0; 1 << 20];
    c.serve(&late.0, &late.1);
    c.ask(&Request::DeviceReset, &[]).unwrap();
    let iova = c.far.address;
    c.far.bytes[..64].copy_from_slice(&descriptor(iova + 2 * PAGE, 1_000));
    (c.far.reads, c.far.writes) = (0, 0);
    c.start(iova);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    let started = Instant::now();
    while c.far.writes == 0 {
        c.read(region::BAR0, 0, 4);
        assert!(started.elapsed() < NOT_HELD_UP, "no completion");
    }
    assert!(c.far.reads > 0);
    drop(server);
}

#[test]
fn a_silent_client_does_not_hold_up_the_end() {
    let (server, [path, _]) = serve_pair();
    let _c = ask_for_much(&path);
    let started = Instant::now();
    server.stop().unwrap();
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
}

#[test]
fn half_a_message_does_not_hold_up_the_end() {
    let (server, path) = serve();
    let c = Client::connect(&path);
    let mut out = Vec::new();
    Header::command(1, Command::RegionRead, 16, true).encode(&mut out);
    send(&c.stream, &out, &[], None).unwrap();
    // Time for its reader to begin; if that is late, the end comes all the sooner.
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    let served = server.stop().unwrap();
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
    assert_eq!(served.lines[0].clients, 1);
}
