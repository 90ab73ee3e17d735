// SPDX-License-Identifier: MIT OR Apache-2.0
//! More connections than a queue has room for: each gets on, and none is asked for bursts
//! for which there is no room.

mod common;
use common::*;
use std::collections::HashMap;
use std::net::SocketAddr;
use tsonic_tcp::*;
use tsonic_types::{CoreId, Nanos, TenantId};

const FLOWS: usize = 60;
const BYTES: usize = 300_000;

/// Sends `BYTES` over each of `FLOWS` connections through queues of `ring` bursts;
/// bursts, and tries that found no room.
fn run(ring: usize, queues: u16) -> (u64, u64) {
    let mut w = World::new(41, Link::clean(100));
    let server = SocketAddr::new(w.hosts[1].ip(), 80);
    let engine = &mut w.hosts[1].engine;
    let listener = engine.listen(TenantId(0), server, FLOWS).unwrap();
    (w.hosts[0].nic.ring, w.hosts[0].nic.queues) = (ring, queues);
    let now = w.now;
    let mut left: Vec<(ConnId, usize)> = (0..FLOWS)
        .map(|_| {
            let engine = &mut w.hosts[0].engine;
            (
                engine.connect(now, TenantId(0), None, server).unwrap(),
                BYTES,
            )
        })
        .collect();
    let mut got: HashMap<ConnId, usize> = HashMap::new();
    let mut block = vec![7; 65_536];
    while got.len() < FLOWS || got.values().any(|n| *n < BYTES) {
        for (n, (id, left)) in left.iter_mut().enumerate() {
            while *left > 0 {
                let core = CoreId(n as u16 % 4);
                match w.hosts[0]
                    .engine
                    .write(*id, core, &block[..(*left).min(65_536)])
                {
                    Ok(n) => *left -= n,
                    Err(Error::WouldBlock) => break,
                    Err(e) => panic!("{e}"),
                }
            }
        }
        while let Some(id) = w.hosts[1].engine.accept(listener) {
            got.insert(id, 0);
        }
        for (id, got) in &mut got {
            while let Ok(n) = w.hosts[1].engine.read(*id, &mut block) {
                *got += n;
            }
        }
        w.poll();
        assert!(w.step(), "nothing is under way, and {got:?} is there");
        assert!(w.now < Nanos::from_secs(60), "{got:?}");
    }
    let c = &w.hosts[0].engine.counters().total;
    (c.bursts, c.backpressure)
}

#[test]
fn who_waits_for_room_is_not_asked_in_vain() {
    for (ring, queues) in [(4, 1), (8, 1), (4, 4)] {
        let (bursts, in_vain) = run(ring, queues);
        // One try when it comes to wait; none at the bursts and acknowledgements of others.
        assert!(
            in_vain <= bursts + FLOWS as u64,
            "ring of {ring}, {queues} queues: {in_vain} tries in vain, {bursts} bursts"
        );
    }
}

#[test]
fn where_there_is_room_nobody_waits() {
    assert_eq!(run(100_000, 1).1, 0);
}
