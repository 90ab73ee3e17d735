// SPDX-License-Identifier: MIT OR Apache-2.0
//! The TAP port and the kernel behind it. Where the system does not permit
//! a namespace, the tests check that the refusal says what to do, and no more.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tsonic_sim::netns::{TapConfig, TapError};
use tsonic_sim::peer::KernelPeer;
use tsonic_sim::tap::TapPort;
use tsonic_sim::world::Peer;
use tsonic_types::Ticks;

const KERNEL: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);
const OURS: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn start(config: &TapConfig) -> Option<(KernelPeer, TapPort)> {
    match KernelPeer::start(config) {
        Ok(peer) => Some(peer),
        Err(error @ (TapError::NotPermitted { .. } | TapError::NoTun(_))) => {
            let text = error.to_string();
            assert!(text.contains("run as root") || text.contains("load the module"));
            eprintln!("not run: {text}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// An ARP packet (RFC 826).
fn arp(operation: u8, target_mac: [u8; 6], target: Ipv4Addr) -> Vec<u8> {
    let mut f = vec![0xff; 6];
    if operation == 2 {
        f.copy_from_slice(&target_mac);
    }
    f.extend(MAC);
    f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    f.extend(MAC);
    f.extend(OURS.octets());
    f.extend(target_mac);
    f.extend(target.octets());
    f
}

/// Waits for a frame that `is` accepts.
fn expect(port: &mut TapPort, is: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < Duration::from_secs(10), "no answer");
        let mut found = None;
        port.poll(Ticks(0), &mut |f| {
            if is(f) {
                found = Some(f.to_vec());
            }
        });
        if let Some(f) = found {
            return f;
        }
        port.wait(Duration::from_millis(5));
    }
}

#[test]
fn the_kernel_answers() {
    let Some((peer, mut port)) = start(&TapConfig::default()) else {
        return;
    };
    port.receive(Ticks(0), &arp(1, [0; 6], KERNEL));
    let answer = expect(&mut port, |f| f[12..14] == [8, 6] && f[21] == 2);
    assert_eq!(answer[22..28], TapConfig::default().mac);
    assert_eq!(answer[28..32], KERNEL.octets());
    assert!(port.stats().from_kernel >= 1);
    drop(peer);
}

#[test]
fn sockets_of_the_namespace_talk() {
    // Both ends in the kernel, over its loopback: what is tested is the peer.
    let Some((peer, _port)) = start(&TapConfig::default()) else {
        return;
    };
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let (receiving, at) = peer
        .listen(
            (IpAddr::V4(KERNEL), 0).into(),
            2,
            Some(Arc::new(move |_, offset, data: &[u8]| {
                for (i, byte) in data.iter().enumerate() {
                    assert_eq!(*byte, (offset + i as u64) as u8);
                }
                count.fetch_add(data.len() as u64, Ordering::Relaxed);
            })),
        )
        .unwrap();
    let send = || {
        let source = Box::new(|offset: u64, out: &mut [u8]| {
            for (i, byte) in out.iter_mut().enumerate() {
                *byte = (offset + i as u64) as u8;
            }
        });
        peer.send(at, 1_000_000, source, Duration::from_secs(5))
            .unwrap()
    };
    let (one, two) = (send(), send());
    assert_eq!(one.join().unwrap().bytes, 0);
    assert_eq!(two.join().unwrap().bytes, 0);
    let received = receiving.join().unwrap();
    assert_eq!(received.len(), 2);
    assert_eq!(received[0].sha256, received[1].sha256);
    assert!(received.iter().all(|r| r.bytes == 1_000_000));
    assert_eq!(seen.load(Ordering::Relaxed), 2_000_000);
    assert_eq!(peer.bytes_received(), 2_000_000);
}

#[test]
fn ipv6_addresses_can_be_listened_on() {
    let ip: Ipv6Addr = "fd09::2".parse().unwrap();
    let config = TapConfig {
        addresses: vec![(IpAddr::V4(KERNEL), 24), (IpAddr::V6(ip), 64)],
        mtu: 9_000,
        ..TapConfig::default()
    };
    let Some((peer, _port)) = start(&config) else {
        return;
    };
    let (waiting, at) = peer.listen((IpAddr::V6(ip), 5001).into(), 1, None).unwrap();
    assert_eq!(at.port(), 5001);
    drop(peer);
    // A peer that ends takes its helpers with it.
    assert!(matches!(waiting.join(), Err(TapError::Gone(_))));
}

/// The ends of a wire that go away, each in its way, and what is there for a while only.
#[test]
fn a_port_that_is_gone_says_so_and_is_not_waited_for() {
    use std::os::unix::net::UnixDatagram;
    let gone = |port: &mut TapPort| {
        port.poll(Ticks(0), &mut |_| {});
        port.lost().is_some()
    };
    // A socket that keeps packets apart, as `fd:N` takes it.
    let pair = || {
        use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    };
    let (ours, theirs) = pair();
    let mut port = TapPort::new(ours);
    assert!(!gone(&mut port) && port.descriptor().is_some());
    drop(theirs);
    assert!(gone(&mut port) && port.descriptor().is_none());
    // Seen by a write only.
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    let mut port = TapPort::new(ours.into());
    drop(theirs);
    port.receive(Ticks(0), &arp(1, [0; 6], KERNEL));
    assert!(port.lost().is_some());
    assert_eq!(port.refused(), 1);
    let Some((peer, mut port)) = start(&TapConfig::default()) else {
        return;
    };
    let ip = |args: &'static [&str]| {
        let run = move || std::process::Command::new("ip").args(args).status();
        let thread = peer.namespace().spawn(run).unwrap();
        thread.join().unwrap().expect("ip runs").success()
    };
    // One that is down is there.
    assert!(ip(&["link", "set", "tsonic0", "down"]));
    port.receive(Ticks(0), &arp(1, [0; 6], KERNEL));
    assert!(!gone(&mut port));
    assert_eq!(port.refused(), 1);
    assert!(ip(&["link", "del", "tsonic0"]));
    assert!(gone(&mut port));
}

#[test]
fn nonsense_is_refused() {
    let config = TapConfig {
        name: "a-name-that-is-too-long".into(),
        ..TapConfig::default()
    };
    assert!(matches!(
        KernelPeer::start(&config),
        Err(TapError::Config(_))
    ));
    let config = TapConfig {
        mtu: 10,
        ..TapConfig::default()
    };
    assert!(matches!(
        KernelPeer::start(&config),
        Err(TapError::Config(_))
    ));
}
