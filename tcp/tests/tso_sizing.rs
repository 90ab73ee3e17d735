// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts by their share of the congestion window (`tsonic.tso_sizing`), and the clamp of
//! that window (`tsonic.cwnd_clamp`).

mod common;
use common::*;
use tsonic_tcp::stats::Counters;
use tsonic_types::{Nanos, TenantId};

fn world(link: Link, sysctl: &[(&str, &str)]) -> World {
    let mut w = World::new(5, link);
    let t = w.hosts[0].engine.tunables_mut(TenantId(0)).unwrap();
    for (name, value) in sysctl {
        t.set(name, value).unwrap();
    }
    w
}

/// Sends some megabytes with a window that is held at `cwnd`.
fn counters(sizing: &str, divisor: &str, cwnd: &str) -> Counters {
    let mut w = world(
        Link::clean(500),
        &[
            ("tsonic.tso_sizing", sizing),
            ("net.ipv4.tcp_tso_win_divisor", divisor),
            ("tsonic.initial_cwnd", cwnd),
            ("tsonic.cwnd_clamp", cwnd),
            ("tsonic.pacing", "0"),
        ],
    );
    let (a, b) = w.connect();
    w.transfer(a, b, 4_000_000);
    w.hosts[0].engine.counters().total.clone()
}

#[test]
fn bursts_of_2004_are_the_share_of_the_window() {
    for (cwnd, divisor, want) in [
        ("80", "8", 10),
        ("16", "8", 2),
        ("7", "8", 1),
        ("100", "4", 25),
        ("30", "0", 30),
        ("30", "1", 30),
        ("80", "0", 45),
    ] {
        let c = counters("window", divisor, cwnd);
        let such = c.segments_per_burst[want];
        // But for the last, and for one where what was written had an end.
        assert!(such * 20 >= c.bursts * 19, "{cwnd} / {divisor}: {c:?}");
        let more: u64 = c.segments_per_burst[want + 1..].iter().sum();
        assert_eq!(
            (more, c.retransmitted_segments),
            (0, 0),
            "{cwnd} / {divisor}"
        );
    }
}

#[test]
fn the_window_stops_at_its_clamp() {
    let mut w = world(Link::clean(500), &[("tsonic.cwnd_clamp", "12")]);
    let (a, b) = w.connect();
    w.transfer(a, b, 1_000_000);
    assert_eq!(w.hosts[0].engine.info(a).unwrap().cwnd, 12);
    // One that was larger comes down with the next acknowledgement.
    let mut w = world(Link::clean(500), &[]);
    let (a, b) = w.connect();
    let mut block = vec![0; 100_000];
    let core = tsonic_types::CoreId(0);
    w.hosts[0].engine.write(a, core, &block).unwrap();
    w.settle(Nanos::from_millis(100));
    while w.hosts[1].engine.read(b, &mut block).is_ok() {}
    assert!(w.hosts[0].engine.info(a).unwrap().cwnd > 12);
    let t = w.hosts[0].engine.tunables_mut(TenantId(0)).unwrap();
    t.set("tsonic.cwnd_clamp", "12").unwrap();
    w.transfer(a, b, 1_000_000);
    assert_eq!(w.hosts[0].engine.info(a).unwrap().cwnd, 12);
}

/// A burst that waits for the whole of its window never waits for ever.
#[test]
fn whole_bursts_get_through_small_windows_and_losses() {
    for divisor in ["0", "1", "3", "8"] {
        let mut lossy = Link::clean(500);
        lossy.loss = 0.02;
        let mut w = world(
            lossy,
            &[
                ("tsonic.tso_sizing", "window"),
                ("net.ipv4.tcp_tso_win_divisor", divisor),
            ],
        );
        let (a, b) = w.connect();
        w.transfer(a, b, 1_000_000);

        let mut w = world(
            Link::clean(500),
            &[
                ("tsonic.tso_sizing", "window"),
                ("net.ipv4.tcp_tso_win_divisor", divisor),
                ("tsonic.initial_cwnd", "100"),
            ],
        );
        let t = w.hosts[1].engine.tunables_mut(TenantId(0)).unwrap();
        t.set("net.ipv4.tcp_rmem", "4096 8192 8192").unwrap();
        let (a, b) = w.connect();
        w.transfer(a, b, 200_000);
    }
}
