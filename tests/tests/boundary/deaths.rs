// SPDX-License-Identifier: MIT OR Apache-2.0
//! One end goes, whatever the other is doing. Processes that are killed are a test of
//! the command's; here threads end, which is the same to a socket.

use super::rig::*;
use std::time::{Duration, Instant};
use tsonic_driver::DriverError;

/// The device goes while the driver sleeps, waits for a reply, or posts.
#[test]
fn a_device_that_goes_ends_every_wait_and_every_burst_is_accounted_for() {
    for (map, after) in [(true, 0), (true, 3), (false, 1), (false, 10)] {
        let (server, paths) = serve(world(2), map);
        let mut s = Sender::open(connect(&paths[0], map), 2);
        s.device.set_busy_poll(Duration::from_micros(20 * after));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(after));
            drop(server);
            Instant::now()
        });
        let error = loop {
            for q in 0..2 {
                while s.tx[q].room() > 0 && s.tx[q].outstanding() < 20 {
                    s.burst(q, 40_000);
                }
            }
            let waited = s.flush().and_then(|()| {
                let tx = &s.tx;
                let ready = || tx.iter().any(TxQueue::has_completion);
                s.device.wait_for(None, ready).map(drop)
            });
            s.reap();
            if let Err(e) = waited {
                break e;
            }
        };
        let heard = Instant::now();
        let gone = killer.join().unwrap();
        assert!(
            matches!(error, DriverError::Bus(BusError::Gone(_))),
            "{error}"
        );
        let late = heard.saturating_duration_since(gone);
        assert!(late < Duration::from_secs(1), "{late:?}");
        s.abandon();
        assert_eq!(s.done.len() as u64, s.posted);
        let mut tokens: Vec<u64> = s.done.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len() as u64, s.posted, "each once");
        assert_eq!(s.with(Status::Ok) + s.with(Status::QueueReset), s.posted);
        assert!(s.tx.iter().all(|q| q.outstanding() == 0 && q.room() == 0));
        // Whatever is asked of it: gone.
        let asked = s.device.is_idle();
        assert!(matches!(asked, Err(DriverError::Bus(BusError::Gone(_)))));
    }
}

/// Clients that go in the middle of things leave a device for the next one.
#[test]
fn the_next_client_finds_a_device_as_new() {
    let (server, paths) = serve(world(2), true);
    for round in 0..20 {
        let mut s = Sender::open(connect(&paths[0], round % 2 == 0), 2);
        assert!(
            s.device.counters().unwrap().contains(&("TX_BURSTS", 0)),
            "as new"
        );
        s.burst(0, 60_000);
        if round % 2 == 0 {
            s.flush().unwrap();
        } else {
            s.settle();
        }
    }
    let served = server.stop().unwrap();
    assert_eq!(served.lines[0].clients, 20);
    let memory = served.world.memory(0).unwrap().memory();
    assert!(memory.is_empty(), "no mapping is left");
}

/// A device has one client at a time, and another is told at once.
#[test]
fn a_second_client_is_turned_away() {
    let (server, paths) = serve(world(1), false);
    let mut first = connect(&paths[0], false);
    let started = Instant::now();
    let second = VfioUserFunction::connect(&paths[0], VfioUserConfig::default());
    assert!(matches!(second, Err(BusError::Busy)), "{second:?}");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert_eq!(first.read32(0, 0).unwrap(), tsonic_regs::MAGIC);
    drop(first);
    assert_eq!(server.stop().unwrap().lines[0].turned_away, 1);
}

/// A device that is there and says nothing.
#[test]
fn a_device_that_does_not_answer_is_given_up_in_time() {
    let path = socket();
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let config = VfioUserConfig {
        timeout: Duration::from_millis(50),
        ..VfioUserConfig::default()
    };
    let silent = VfioUserFunction::connect(&path, config);
    assert!(
        matches!(silent, Err(BusError::TimedOut { millis: 50, .. })),
        "{silent:?}"
    );
    drop(listener);
    std::fs::remove_file(&path).unwrap();
}
