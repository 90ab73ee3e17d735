// SPDX-License-Identifier: MIT OR Apache-2.0
//! The transmit path under circumstances: small rings, failing bursts, late
//! completions, pacing by NIC or engine, queues, marks, many flows.

mod common;
use common::*;
use std::net::SocketAddr;
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::*;
use tsonic_types::{ByteRate, CoreId, Nanos, QueueId, TenantId};

fn goodput(total: u64, t: Nanos) -> f64 {
    total as f64 * 1e3 / t.0 as f64
}

fn tune(w: &mut World, name: &str, value: &str) {
    for h in &mut w.hosts {
        h.engine
            .tunables_mut(TenantId(0))
            .unwrap()
            .set(name, value)
            .unwrap();
    }
}

fn lossy() -> Link {
    Link {
        loss: 0.01,
        duplicate: 0.001,
        late: 0.01,
        late_by: Nanos::from_micros(200),
        ..Link::clean(500)
    }
}

#[test]
fn content_survives_with_every_option_off() {
    for (name, value) in [
        ("net.ipv4.tcp_sack", "0"),
        ("net.ipv4.tcp_timestamps", "0"),
        ("net.ipv4.tcp_window_scaling", "0"),
        ("net.ipv4.tcp_dsack", "0"),
        ("net.ipv4.tcp_recovery", "0"),
        ("net.ipv4.tcp_early_retrans", "0"),
        ("net.ipv4.tcp_congestion_control", "reno"),
        ("net.ipv4.tcp_tso_rtt_log", "off"),
        ("tsonic.pacing", "0"),
        ("tsonic.hystart", "0"),
        ("tsonic.tsq_bql", "1"),
        ("net.ipv4.tcp_tso_win_divisor", "0"),
    ] {
        let mut w = World::new(11, lossy());
        tune(&mut w, name, value);
        let (a, b) = w.connect();
        let total = 4 << 20;
        let t = w.transfer(a, b, total);
        let c = w.hosts[0].engine.info(a).unwrap().counters;
        eprintln!(
            "{name}={value}: {:.2} MB/s, rto {}, retransmitted {} of {} dropped",
            goodput(total, t),
            c.rto_count,
            c.retransmitted_bytes,
            w.hosts[0].dropped_payload
        );
        // Selective acknowledgement makes it quick; without, it must still end.
        let floor = if name.ends_with("tcp_sack") { 1.0 } else { 5.0 };
        assert!(goodput(total, t) > floor, "{name}: {}", goodput(total, t));
    }
}

#[test]
fn heavy_loss_and_reordering() {
    for seed in 0..4 {
        let link = Link {
            loss: 0.1,
            duplicate: 0.05,
            late: 0.2,
            late_by: Nanos::from_millis(3),
            ..Link::clean(500)
        };
        let mut w = World::new(seed, link);
        let (a, b) = w.connect();
        w.transfer(a, b, 256 << 10);
        let now = w.now;
        w.hosts[0].engine.close(now, a);
        w.hosts[1].engine.close(now, b);
        w.settle(now + Nanos::from_secs(2000));
        for h in &w.hosts {
            assert_eq!(h.engine.connections(), 0);
            assert_eq!(h.pool.available(), 1024);
            assert_eq!(h.engine.bursts_in_nic(), 0);
        }
    }
}

#[test]
fn a_small_ring_pushes_back_and_wakes() {
    let mut w = World::new(3, Link::clean(500));
    for h in &mut w.hosts {
        h.nic.ring = 2;
    }
    tune(&mut w, "net.ipv4.tcp_min_tso_segs", "1");
    w.hosts[0].engine.set_gso(None, false);
    let (a, b) = w.connect();
    let t = w.transfer(a, b, 2 << 20);
    assert!(w.hosts[0].engine.counters().total.backpressure > 0);
    assert!(goodput(2 << 20, t) > 50.0, "{}", goodput(2 << 20, t));
    assert!(
        w.hosts[0]
            .engine
            .info(a)
            .unwrap()
            .counters
            .segments_per_burst[1]
            > 1000
    );
}

#[test]
fn failed_bursts_are_sent_again() {
    let mut w = World::new(4, Link::clean(500));
    let (a, b) = w.connect();
    w.hosts[0].nic.fail_every = Some(20);
    w.transfer(a, b, 4 << 20);
    let c = w.hosts[0].engine.info(a).unwrap().counters;
    assert!(c.failed_bursts > 3, "{}", c.failed_bursts);
    assert_eq!(c.rto_count, 0);
}

#[test]
fn a_device_that_never_sends_ends_the_connection() {
    let mut w = World::new(4, Link::clean(500));
    let (a, _) = w.connect();
    w.hosts[0].nic.fail_every = Some(1);
    w.hosts[0].engine.write(a, CoreId(0), &[1; 100]).unwrap();
    w.settle(Nanos::from_secs(10_000));
    assert_eq!(w.hosts[0].engine.close_reason(a), Some(CloseReason::Device));
}

#[test]
fn completions_two_round_trips_late_do_not_stall() {
    let mut w = World::new(5, Link::clean(500));
    w.completion_delay = Nanos::from_millis(2);
    let (a, b) = w.connect();
    let total = 16 << 20;
    let t = w.transfer(a, b, total);
    let c = w.hosts[0].engine.info(a).unwrap().counters;
    assert_eq!((c.rto_count, c.retransmitted_bytes), (0, 0));
    assert!(goodput(total, t) > 30.0, "{}", goodput(total, t));
}

#[test]
fn a_capped_flow_keeps_its_rate_by_nic_and_by_engine() {
    for nic in [true, false] {
        let mut w = World::new(6, Link::clean(500));
        w.hosts[0].nic.paces = nic;
        let (a, b) = w.connect();
        w.hosts[0]
            .engine
            .set_max_pacing_rate(a, ByteRate(5_000_000));
        let total = 4 << 20;
        let t = w.transfer(a, b, total);
        let got = goodput(total, t);
        assert!((4.7..5.1).contains(&got), "nic {nic}: {got} MB/s");
        let i = w.hosts[0].engine.info(a).unwrap();
        assert_eq!(i.paced_by_nic, nic);
        // A paced burst waits in the NIC; that is no round-trip time.
        assert!(
            i.min_rtt.unwrap() < Nanos::from_micros(1_100),
            "{:?}",
            i.min_rtt
        );
        assert!(i.srtt < Nanos::from_micros(2_000), "{:?}", i.srtt);
    }
}

#[test]
fn a_very_slow_flow_never_times_out_in_the_nic() {
    let mut w = World::new(6, Link::clean(500));
    let (a, b) = w.connect();
    // 45 segments take half a second at this rate: longer than the RTO.
    w.hosts[0].engine.set_max_pacing_rate(a, ByteRate(20_000));
    tune(&mut w, "net.ipv4.tcp_min_tso_segs", "20");
    w.transfer(a, b, 200_000);
    let c = w.hosts[0].engine.info(a).unwrap().counters;
    assert_eq!(
        (c.rto_count, c.retransmitted_bytes, c.tlp_probes),
        (0, 0, 0)
    );
}

#[test]
fn small_queues_bound_what_lies_in_the_nic() {
    let mut w = World::new(7, Link::clean(500));
    let (a, b) = w.connect();
    tune(&mut w, "net.ipv4.tcp_limit_output_bytes", "131072");
    let data = vec![1u8; 65_536];
    let mut buf = vec![0u8; 65_536];
    let mut most = 0;
    while w.hosts[0].engine.counters().total.payload_bytes < 8 << 20 {
        while w.hosts[0].engine.write(a, CoreId(0), &data).is_ok() {}
        while w.hosts[1].engine.read(b, &mut buf).is_ok() {}
        w.poll();
        most = most.max(w.hosts[0].engine.info(a).unwrap().in_nic);
        assert!(w.step());
    }
    // The burst that passes the gate comes on top.
    assert!(most <= 131_072 + 65_536 + 320, "{most}");
    assert!(most > 65_536);
    let c = w.hosts[0].engine.info(a).unwrap().counters;
    assert!(c.tsq_stops > 10, "{}", c.tsq_stops);
}

#[test]
fn the_queue_follows_the_writing_core() {
    let mut w = World::new(8, Link::clean(500));
    for h in &mut w.hosts {
        h.nic.queues = 16;
        h.engine.set_xps(Some(XpsMap::Blocks {
            queues: 16,
            cores_per_queue: 8,
        }));
    }
    let (a, b) = w.connect();
    let data = vec![1u8; 65_536];
    let mut buf = vec![0u8; 65_536];
    // Busy all the time from core 3, then from core 9.
    let mut moved = None;
    let start = w.now;
    let switch = start + Nanos::from_millis(500);
    while w.now < start + Nanos::from_millis(2500) {
        let core = CoreId(if w.now < switch { 3 } else { 9 });
        while w.hosts[0].engine.write(a, core, &data).is_ok() {}
        while w.hosts[1].engine.read(b, &mut buf).is_ok() {}
        w.poll();
        let q = w.hosts[0].engine.info(a).unwrap().queue;
        if w.now < switch {
            assert_eq!(q, Some(0));
        } else if moved.is_none() && q == Some(1) {
            moved = Some(w.now);
        }
        assert!(w.step());
    }
    let after = moved.unwrap().since(start).as_millis();
    assert!((950..1100).contains(&after), "moved after {after} ms");
    let used = &w.hosts[0].engine.counters().bursts_by_queue;
    assert!(used[0] > 100 && used[1] > 100 && used[2..].iter().all(|n| *n == 0));
    assert_eq!(w.hosts[0].engine.info(a).unwrap().counters.ooo_moves, 1);
}

#[test]
fn without_reselection_a_busy_flow_stays() {
    let mut w = World::new(8, Link::clean(500));
    tune(&mut w, "net.core.txq_reselection_ms", "0");
    for h in &mut w.hosts {
        h.engine.set_xps(Some(XpsMap::Blocks {
            queues: 4,
            cores_per_queue: 8,
        }));
    }
    let (a, b) = w.connect();
    let data = vec![1u8; 65_536];
    let mut buf = vec![0u8; 65_536];
    let start = w.now;
    while w.now < start + Nanos::from_millis(1500) {
        let core = CoreId(if w.now < start + Nanos::from_millis(100) {
            3
        } else {
            9
        });
        while w.hosts[0].engine.write(a, core, &data).is_ok() {}
        while w.hosts[1].engine.read(b, &mut buf).is_ok() {}
        w.poll();
        assert!(w.step());
    }
    assert_eq!(w.hosts[0].engine.info(a).unwrap().queue, Some(0));
    assert_eq!(w.hosts[0].nic.queue_state(QueueId(1)).free, 256);
}

#[test]
fn marks_slow_down_instead_of_losses() {
    for algorithm in ["cubic", "dctcp"] {
        let link = Link {
            mark: 0.02,
            ..Link::clean(500)
        };
        let mut w = World::new(9, link);
        tune(&mut w, "net.ipv4.tcp_ecn", "1");
        tune(&mut w, "net.ipv4.tcp_congestion_control", algorithm);
        let (a, b) = w.connect();
        let total = 8 << 20;
        let t = w.transfer(a, b, total);
        let i = w.hosts[0].engine.info(a).unwrap();
        assert!(i.ecn);
        assert!(i.counters.ecn_reductions > 10, "{algorithm}");
        assert_eq!(i.counters.retransmitted_bytes, 0, "{algorithm}");
        let g = goodput(total, t);
        eprintln!(
            "{algorithm}: {g:.1} MB/s, {} reductions",
            i.counters.ecn_reductions
        );
        assert!(g > 6.0, "{algorithm}: {g}");
    }
}

#[test]
fn both_directions_at_once() {
    let mut w = World::new(10, lossy());
    let ends = w.connect();
    let ends = [ends.0, ends.1];
    let total = 4u64 << 20;
    let (mut sent, mut got) = ([0u64; 2], [0u64; 2]);
    let mut buf = vec![0u8; 65_536];
    while got != [total; 2] {
        for i in 0..2 {
            let engine = &mut w.hosts[i].engine;
            let room = engine
                .room(ends[i])
                .unwrap()
                .0
                .min(65_536)
                .min(total - sent[i]) as usize;
            for (k, x) in buf[..room].iter_mut().enumerate() {
                *x = pattern(sent[i] + k as u64 + i as u64);
            }
            if let Ok(n) = engine.write(ends[i], CoreId(0), &buf[..room]) {
                sent[i] += n as u64;
            }
            while let Ok(n) = engine.read(ends[i], &mut buf) {
                for x in &buf[..n] {
                    assert_eq!(*x, pattern(got[i] + 1 - i as u64));
                    got[i] += 1;
                }
            }
        }
        w.poll();
        assert!(w.step(), "stuck at {got:?}");
    }
}

#[test]
fn many_flows_share_a_wire_and_slots() {
    let mut w = World::new(12, Link::clean(100));
    // Fewer flow handles than flows: the rest is paced by the engine.
    let server = SocketAddr::new(w.hosts[1].ip(), 80);
    let l = w.hosts[1].engine.listen(TenantId(0), server, 1000).unwrap();
    let now = w.now;
    let conns: Vec<ConnId> = (0..100)
        .map(|_| {
            w.hosts[0]
                .engine
                .connect(now, TenantId(0), None, server)
                .unwrap()
        })
        .collect();
    let data = vec![3u8; 16_384];
    let mut buf = vec![0u8; 65_536];
    let mut left: Vec<u64> = vec![200_000; conns.len()];
    let mut peers: Vec<ConnId> = Vec::new();
    let mut got = 0;
    while got < 200_000 * 100 {
        for (c, left) in conns.iter().zip(&mut left) {
            while *left > 0 {
                let n = (*left).min(16_384) as usize;
                match w.hosts[0].engine.write(*c, CoreId(0), &data[..n]) {
                    Ok(n) => *left -= n as u64,
                    Err(_) => break,
                }
            }
        }
        while let Some(p) = w.hosts[1].engine.accept(l) {
            peers.push(p);
        }
        while let Some(e) = w.hosts[1].engine.next_event() {
            if let Event::Ready(id, r) = e
                && r.readable()
            {
                while let Ok(n) = w.hosts[1].engine.read(id, &mut buf) {
                    got += n;
                }
            }
        }
        w.poll();
        assert!(w.step(), "stuck at {got}");
    }
    let by_nic = conns
        .iter()
        .filter(|c| w.hosts[0].engine.info(**c).unwrap().paced_by_nic)
        .count();
    assert_eq!((by_nic, peers.len()), (63, 100));
    let now = w.now;
    for c in conns {
        w.hosts[0].engine.abort(c);
    }
    w.settle(now + Nanos::from_secs(1));
    for p in peers {
        w.hosts[1].engine.close(w.now, p);
    }
    w.settle(now + Nanos::from_secs(2));
    for h in &w.hosts {
        assert_eq!((h.engine.connections(), h.pool.available()), (0, 1024));
    }
    // The handles came back.
    let n = std::iter::from_fn(|| w.hosts[0].nic.allocate_flow()).count();
    assert_eq!(n, 63);
}

#[test]
fn same_seed_same_trace() {
    let trace = || {
        let mut w = World::new(13, lossy());
        let log = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let sink = log.clone();
        w.filter = Some(Box::new(move |t, from, f| {
            sink.borrow_mut().push((t, from, f.to_vec()));
            true
        }));
        let (a, b) = w.connect();
        w.transfer(a, b, 1 << 20);
        let n = log.borrow().len();
        assert!(n > 500);
        log.take()
    };
    assert!(trace() == trace());
}

#[test]
fn echo_requests_are_answered() {
    let mut w = World::new(14, Link::clean(100));
    let (a, b) = w.connect();
    let _ = (a, b);
    let mut p = vec![8u8, 0, 0, 0, 0, 1, 0, 2];
    p.extend([7u8; 56]);
    let c = !wire::checksum::fold(wire::checksum::sum(0, &p));
    p[2..4].copy_from_slice(&c.to_be_bytes());
    let ip = wire::ip::Ip {
        src: w.hosts[1].ip(),
        dst: w.hosts[0].ip(),
        protocol: 1,
        ecn: 0,
        ttl: 64,
    };
    let mut frame = vec![0u8; 34];
    wire::ethernet::Ethernet {
        dst: Mac([2, 0, 0, 0, 0, 1]),
        src: Mac([2, 0, 0, 0, 0, 2]),
        vlan: None,
        ethertype: 0x0800,
    }
    .emit(&mut frame);
    wire::ip::emit(&ip, 0, p.len(), &mut frame[14..]);
    frame.extend(&p);
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let sink = seen.clone();
    w.filter = Some(Box::new(move |_, from, f| {
        if from == 0 {
            sink.borrow_mut().push(f.to_vec());
        }
        true
    }));
    let now = w.now;
    w.hosts[0].engine.on_frame(now, &frame, &RxMeta::default());
    w.settle(now + Nanos::from_millis(1));
    let reply = &seen.borrow()[0];
    let (i, body) = wire::ip::parse_v4(&reply[14..], true).unwrap();
    assert_eq!((i.src, i.dst), (ip.dst, ip.src));
    assert_eq!((body[0], &body[8..]), (0, &p[8..]));
    assert_eq!(wire::checksum::fold(wire::checksum::sum(0, body)), 0xffff);
    assert_eq!(w.hosts[0].pool.available(), 1024);
}

#[test]
fn tagged_frames_stay_in_their_vlan() {
    for vlans in [[Some(5), Some(5)], [Some(5), Some(6)]] {
        let mut w = World::new(15, Link::clean(100));
        for (h, v) in w.hosts.iter_mut().zip(vlans) {
            let mut config = h.engine.config().clone();
            config.interface.vlan = v;
            h.engine = Engine::new(config, h.pool.clone());
        }
        if vlans[0] == vlans[1] {
            let (a, b) = w.connect();
            w.transfer(a, b, 100_000);
            continue;
        }
        let server = SocketAddr::new(w.hosts[1].ip(), 80);
        let now = w.now;
        let a = w.hosts[0]
            .engine
            .connect(now, TenantId(0), None, server)
            .unwrap();
        w.settle(now + Nanos::from_secs(10));
        let reason = w.hosts[0].engine.close_reason(a);
        assert_eq!(reason, Some(CloseReason::Unreachable));
    }
}

#[test]
fn tenants_have_their_own_tunables() {
    let mut w = World::new(16, Link::clean(500));
    let second = w.hosts[0].engine.add_tenant();
    w.hosts[0]
        .engine
        .tunables_mut(second)
        .unwrap()
        .set("tsonic.max_pacing_rate", "2000000")
        .unwrap();
    let (a, b) = w.connect();
    let total = 2 << 20;
    let t = w.transfer(a, b, total);
    assert!(goodput(total, t) > 50.0, "{}", goodput(total, t));
    let server = SocketAddr::new(w.hosts[1].ip(), 81);
    let l = w.hosts[1].engine.listen(TenantId(0), server, 4).unwrap();
    let now = w.now;
    let a = w.hosts[0]
        .engine
        .connect(now, second, None, server)
        .unwrap();
    let b = loop {
        w.poll();
        if let Some(b) = w.hosts[1].engine.accept(l) {
            break b;
        }
        assert!(w.step());
    };
    let t = w.transfer(a, b, total);
    assert!(
        (1.9..2.1).contains(&goodput(total, t)),
        "{}",
        goodput(total, t)
    );
    assert!(matches!(
        w.hosts[0].engine.connect(now, TenantId(7), None, server),
        Err(Error::NoTenant(TenantId(7)))
    ));
}

#[test]
fn an_empty_pool_stops_the_writer_and_wakes_it() {
    let mut w = World::new(17, Link::clean(500));
    let (a, b) = w.connect();
    // All chunks but two are somebody else's.
    let held: Vec<ChunkId> = {
        let pool = &mut w.hosts[0].pool;
        (0..pool.available() - 2)
            .map(|_| pool.allocate().unwrap())
            .collect()
    };
    let data = vec![5u8; 100_000];
    // What is left is set aside for others, but for its own first one.
    assert_eq!(w.hosts[0].engine.write(a, CoreId(0), &data), Ok(32_768));
    assert_eq!(
        w.hosts[0].engine.write(a, CoreId(0), &data),
        Err(Error::WouldBlock)
    );
    let (mut got, mut sent) = (0, 32_768);
    let mut buf = vec![0u8; 65_536];
    while got < 1 << 20 {
        w.poll();
        while let Some(e) = w.hosts[0].engine.next_event() {
            if let Event::Ready(id, r) = e
                && r.writable()
            {
                while let Ok(n) = w.hosts[0].engine.write(id, CoreId(0), &data) {
                    sent += n;
                }
            }
        }
        while let Ok(n) = w.hosts[1].engine.read(b, &mut buf) {
            got += n;
        }
        assert!(w.step(), "stuck: got {got} of {sent}");
    }
    for c in held {
        w.hosts[0].pool.release(c);
    }
}
