// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk transfers between two engines: content, goodput, economy of
//! retransmission.

mod common;
use common::*;
use tsonic_tcp::*;
use tsonic_types::Nanos;

fn mbytes(total: u64, t: Nanos) -> f64 {
    total as f64 / (t.0 as f64 / 1e9) / 1e6
}

#[test]
fn clean_link_both_families() {
    for ipv6 in [false, true] {
        let mut w = World::with(1, Link::clean(500), ipv6, 125_000_000);
        let (a, b) = w.connect();
        let total = 32 << 20;
        let t = w.transfer(a, b, total);
        let c = w.hosts[0].engine.info(a).unwrap();
        assert_eq!(c.counters.retransmitted_bytes, 0);
        assert_eq!(c.counters.rto_count, 0);
        assert!(mbytes(total, t) > 90.0, "{} MB/s", mbytes(total, t));
        // About a round trip's worth in the network and as much in the NIC.
        assert!(c.cwnd < 300, "the window fills the NIC: {}", c.cwnd);
        eprintln!(
            "ipv6 {ipv6}: {:.1} MB/s, {} bursts, {} segments, srtt {} cwnd {}",
            mbytes(total, t),
            c.counters.bursts,
            c.counters.segments,
            c.srtt,
            c.cwnd
        );
    }
}

#[test]
fn everything_is_released_after_close() {
    let mut w = World::new(2, Link::clean(500));
    let (a, b) = w.connect();
    w.transfer(a, b, 1 << 20);
    let now = w.now;
    w.hosts[1].engine.close(now, b);
    w.hosts[0].engine.close(now, a);
    w.settle(Nanos::from_secs(1));
    assert_eq!(w.hosts[0].engine.bursts_in_nic(), 0);
    for h in &w.hosts {
        assert_eq!(h.pool.available(), 1024);
    }
    assert_eq!(w.hosts[1].engine.connections(), 0);
    assert_eq!(w.hosts[0].engine.connections(), 1, "TIME_WAIT");
    w.settle(Nanos::from_secs(1000));
    assert_eq!(w.hosts[0].engine.connections(), 0);
    assert_eq!(w.next(), None, "idle: nothing runs");
}

#[test]
fn lossy_link() {
    let total = 64 << 20;
    let (mut rtos, mut goodput) = (0, 0.0);
    for seed in 1..=5 {
        let link = Link {
            delay: Nanos::from_micros(500),
            loss: 0.01,
            duplicate: 0.001,
            late: 0.01,
            late_by: Nanos::from_micros(200),
            mark: 0.0,
        };
        let mut w = World::new(seed, link);
        let (a, b) = w.connect();
        let t = w.transfer(a, b, total);
        let i = w.hosts[0].engine.info(a).unwrap();
        let c = i.counters;
        let ratio = c.retransmitted_bytes as f64 / w.hosts[0].dropped_payload as f64;
        eprintln!(
            "seed {seed}: {:.2} MB/s, ratio {ratio:.3}, rto {}, tlp {}, recoveries {}, undone {}, dsacks {}, tsq {}, bursts {}, segs {}, srtt {} min {:?} cwnd {}",
            mbytes(total, t),
            c.rto_count,
            c.tlp_probes,
            c.recoveries,
            c.undone,
            c.dsacks,
            c.tsq_stops,
            c.bursts,
            c.segments,
            i.srtt,
            i.min_rtt,
            i.cwnd
        );
        rtos += c.rto_count;
        goodput += mbytes(total, t) / 5.0;
        assert!(ratio <= 1.5, "{ratio}");
    }
    eprintln!("mean {goodput:.2} MB/s, {rtos} RTOs");
    assert!(rtos <= 2, "{rtos}");
    assert!(goodput >= 12.4, "{goodput}");
}
