// SPDX-License-Identifier: MIT OR Apache-2.0

use super::fabric::{Fabric, FarEnd};
use super::frame::Frame;
use super::port::StepPort;
use super::receiver::Receiver;
use super::run::one;
use super::*;
use core::net::Ipv4Addr;
use tsonic_sim::world::Peer;
use tsonic_tcp::Mac;
use tsonic_tcp::wire::ethernet::{self, Ethernet};
use tsonic_tcp::wire::ip::{self, Ip};
use tsonic_tcp::wire::tcp::{Flags, Header, Options};
use tsonic_types::{SeqNum, TickRate, Ticks};

const CLOCK: TickRate = TickRate::new(250_000_000).unwrap();
/// Ticks that the delay takes, 15 us.
const DELAY: u64 = 3_750;

fn sender(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 9, 0, host)
}

/// A frame of flow `port` of a host, `payload` bytes behind the header.
fn frame(host: u8, port: u16, seq: u32, flags: Flags, ecn: u8, payload: usize) -> Vec<u8> {
    let syn = flags.has(Flags::SYN);
    let header = Header {
        src_port: port,
        dst_port: receiver::PORT,
        seq: SeqNum(seq),
        flags,
        options: Options {
            mss: syn.then_some(4_056),
            window_scale: syn.then_some(7),
            timestamp: Some((7, 0)),
            ..Options::default()
        },
        ..Header::default()
    };
    let mut b = vec![0; 14 + 20 + header.emitted_len() + payload];
    let ethernet = Ethernet {
        dst: receiver::MAC,
        src: Mac([2, 0, 0, 0, 0, host]),
        vlan: None,
        ethertype: ethernet::IPV4,
    };
    ethernet.emit(&mut b);
    let packet = Ip {
        src: sender(host).into(),
        dst: receiver::ADDRESS.into(),
        protocol: ip::TCP,
        ecn,
        ttl: 64,
    };
    ip::emit(&packet, 0, header.emitted_len() + payload, &mut b[14..]);
    header.emit(&mut b[34..]);
    b
}

/// A TCP header that a sender gets.
fn header(frame: &[u8]) -> Header {
    let (ip, segment) = ip::parse_v4(&frame[14..], true).unwrap();
    assert!(tsonic_tcp::wire::checksum::l4_ok(
        ip.src,
        ip.dst,
        ip::TCP,
        segment
    ));
    Header::parse(segment).unwrap().0
}

/// Two senders without NICs.
struct Lab {
    ends: Vec<FarEnd>,
    fabric: Fabric,
}

impl Lab {
    fn new(policy: AckPolicy, step: u64) -> Lab {
        let ends: Vec<_> = (0..2).map(|_| FarEnd::new(CLOCK)).collect();
        let named = (1..).map(sender).zip(ends.iter().cloned()).collect();
        let port = StepPort::new(ByteRate(12_500_000_000), step);
        let delay = Nanos::from_micros(15);
        Lab {
            fabric: Fabric::new(named, delay, port, Receiver::new(policy)),
            ends,
        }
    }

    fn settle(&mut self, now: u64) -> Vec<(usize, u32)> {
        let mut seen = Vec::new();
        let note =
            |i, f: &Frame| seen.push((i, u32::from_be_bytes(f.head()[38..42].try_into().unwrap())));
        self.fabric.settle(now * 4_000, note);
        seen
    }

    /// What sender `i` gets until `now`.
    fn answers(&mut self, i: usize, now: u64) -> Vec<Header> {
        let mut got = Vec::new();
        self.ends[i].poll(Ticks(now), &mut |f| got.push(header(f)));
        got
    }

    fn open(&mut self, i: usize, port: u16) {
        let flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
        let syn = frame(i as u8 + 1, port, 99, flags, 0, 0);
        self.ends[i].receive(Ticks(0), &syn);
        self.settle(DELAY + 100);
        let answer = self.answers(i, u64::MAX >> 1).pop().unwrap();
        let want = Flags::SYN.with(Flags::ACK).with(Flags::ECE);
        assert_eq!((answer.flags, answer.ack), (want, SeqNum(100)));
        assert_eq!((answer.options.mss, answer.dst_port), (Some(4_056), port));
    }

    fn data(&mut self, i: usize, at: u64, port: u16, seq: u32, flags: Flags, ecn: u8) {
        let f = frame(i as u8 + 1, port, seq, flags, ecn, 1_000);
        self.ends[i].receive(Ticks(at), &f);
    }
}

#[test]
fn frames_of_both_senders_reach_the_port_in_the_order_of_time_and_none_is_lost() {
    let mut lab = Lab::new(AckPolicy::TwoSegments, u64::MAX);
    lab.open(0, 7);
    lab.open(1, 8);
    for n in 0..10u32 {
        let seq = 100 + n * 1_000;
        lab.data(0, 10_000 + u64::from(n) * 100, 7, seq, Flags::ACK, ip::ECT0);
        lab.data(1, 10_050 + u64::from(n) * 90, 8, seq, Flags::ACK, ip::ECT0);
    }
    // The second sender is ahead of the time that both have reached.
    let first = lab.settle(10_500);
    assert_eq!(first.len(), 6 + 6);
    let rest = lab.settle(20_000);
    assert_eq!(first.len() + rest.len(), 20);
    let r = lab.fabric.receiver.received;
    assert_eq!((r.segments, r.bytes, r.acks), (20, 20_000, 10));
    assert_eq!((r.out_of_order, r.unknown), (0, 0));
    let order: Vec<usize> = first.iter().chain(&rest).map(|s| s.0).collect();
    assert_eq!(order[..6], [0, 1, 0, 1, 0, 1]);
    // Back after both delays and two frames' time, not earlier.
    assert!(lab.answers(0, 10_100 + 2 * DELAY).is_empty());
    let acks: Vec<u32> = lab.answers(0, 30_000).iter().map(|h| h.ack.0).collect();
    assert_eq!(acks, [2_100, 4_100, 6_100, 8_100, 10_100]);
    assert_eq!(lab.answers(1, 30_000).len(), 5);
}

#[test]
fn a_burst_is_acknowledged_by_its_push_and_marks_are_echoed_where_they_were() {
    let mut lab = Lab::new(AckPolicy::Burst, u64::MAX);
    lab.open(0, 7);
    let push = Flags::ACK.with(Flags::PSH);
    for (n, (flags, ecn)) in [
        (Flags::ACK, ip::ECT0),
        (Flags::ACK, ip::ECT0),
        (Flags::ACK, ip::CE),
        (push, ip::CE),
        (push, ip::ECT0),
        (Flags::ACK, ip::ECT0),
    ]
    .into_iter()
    .enumerate()
    {
        lab.data(0, 10_000, 7, 100 + n as u32 * 1_000, flags, ecn);
    }
    lab.settle(20_000);
    let acks: Vec<(u32, bool)> = (lab.answers(0, 100_000).iter())
        .map(|h| (h.ack.0, h.flags.has(Flags::ECE)))
        .collect();
    assert_eq!(acks, [(2_100, false), (4_100, true), (5_100, false)]);
    // The last one is alone, and acknowledged after 40 ms.
    lab.settle(10_000 + DELAY + 10_000_000);
    assert!(lab.answers(0, u64::MAX >> 1).is_empty());
    lab.settle(20_000 + DELAY + 10_000_000);
    assert_eq!(
        lab.answers(0, u64::MAX >> 1).pop().unwrap().ack,
        SeqNum(6_100)
    );
}

fn settings(cases: &[Case]) -> Settings<'_> {
    Settings {
        cases,
        senders: 2,
        rate: ByteRate(20_000_000),
        spread: 0.01,
        wire: ByteRate(12_500_000_000),
        delay: Nanos::from_micros(15),
        step: 100_000,
        warm_up: Duration::from_millis(80),
        time: Duration::from_millis(40),
        seed: 1,
        seeds: 1,
        jobs: 1,
    }
}

const CASE: Case = Case {
    mode: PacingMode::Line,
    flows: 4,
    mss: 4_096,
    rtt_log: Some(9),
    gso_max: 185_000,
    acks: AckPolicy::Burst,
    react: false,
};

#[test]
fn bursts_have_the_segments_that_the_arithmetic_gives() {
    for mode in [PacingMode::Line, PacingMode::Nic] {
        for acks in [AckPolicy::Burst, AckPolicy::TwoSegments] {
            for (rtt_log, gso_max, want) in [
                (None, 65_536, 4.0),
                (Some(9), 65_536, 16.0),
                (Some(9), 185_000, 45.0),
            ] {
                let case = Case {
                    mode,
                    rtt_log,
                    gso_max,
                    acks,
                    ..CASE
                };
                let r = one(&settings(&[case]), &case, 1, false).unwrap();
                let mean = r.segments as f64 / r.bursts as f64;
                assert!((mean / want - 1.0).abs() < 0.02, "{case:?}: {mean}");
                assert_eq!(
                    (r.retransmitted, r.received.out_of_order),
                    (0, 0),
                    "{case:?}"
                );
                assert_eq!((r.received.unknown, r.marks), (0, 0), "{case:?}");
                // The time has room for four of the largest bursts of a flow.
                let rate = r.received.bytes as f64 / 0.04 / 160e6;
                assert!((rate - 1.0).abs() < 0.15, "{case:?}: {rate}");
            }
        }
    }
}

#[test]
fn a_run_repeats_by_its_seed() {
    let s = settings(&[]);
    let key = |seed| {
        let r = one(&s, &CASE, seed, false).unwrap();
        (r.bursts, r.received, r.queue, r.gaps, r.min_rtt)
    };
    assert_eq!(key(3), key(3));
    assert_ne!(key(3), key(4));
}
