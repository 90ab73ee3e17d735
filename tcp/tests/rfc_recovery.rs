// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loss recovery and congestion marks against a hand-written peer: RFC 2018, 2883,
//! 3168, 6298, 8985.

mod common;
mod script;
use script::*;
use tsonic_tcp::wire::tcp::{Flags, Options};
use tsonic_tcp::*;
use tsonic_types::{CoreId, Nanos, TenantId};

const ACK: Flags = Flags::ACK;
const CORE: CoreId = CoreId(0);

fn write(s: &mut Script, c: ConnId, n: usize) {
    assert_eq!(s.engine.write(c, CORE, &vec![7; n]), Ok(n));
}

#[test]
fn sack_reports_the_newest_first_and_duplicates() {
    let mut s = Script::new();
    s.passive();
    let blocks = |s: &mut Script| -> Vec<(u32, u32)> {
        let o = s.one();
        o.header
            .options
            .blocks()
            .iter()
            .map(|b| (b.0.0.wrapping_sub(PEER_ISN), b.1.0.wrapping_sub(PEER_ISN)))
            .collect()
    };
    s.peer(101, 1, ACK, 65_535, &[0; 100]);
    assert_eq!(blocks(&mut s), [(101, 201)]);
    s.peer(401, 1, ACK, 65_535, &[0; 100]);
    assert_eq!(blocks(&mut s), [(401, 501), (101, 201)]);
    s.peer(201, 1, ACK, 65_535, &[0; 100]);
    assert_eq!(blocks(&mut s), [(101, 301), (401, 501)]);
    // A duplicate behind the gap: reported, then the range that holds it.
    s.peer(401, 1, ACK, 65_535, &[0; 50]);
    assert_eq!(blocks(&mut s)[0], (401, 451));
    s.peer(1, 1, ACK, 65_535, &[0; 100]);
    let o = s.one();
    assert_eq!(s.rel(&o).1, 301);
    // A duplicate below the acknowledgement.
    s.peer(1, 1, ACK, 65_535, &[0; 100]);
    assert_eq!(blocks(&mut s)[0], (1, 101));
}

#[test]
fn time_outs_double_and_the_connection_is_given_up() {
    let mut s = Script::new();
    let c = s.passive();
    write(&mut s, c, 100);
    let start = s.one().at;
    s.pass(Nanos::from_secs(1000));
    let sent = s.take_sent();
    let at: Vec<u64> = sent.iter().map(|o| o.at.since(start).as_millis()).collect();
    // RTT 10 ms; the first repetition may be a tail loss probe, time-outs of 0.21 s
    // follow from there, doubled up to 120 s; 15 of them and a reset.
    let rto = at[2] - at[1];
    assert!((400..450).contains(&rto), "{at:?}");
    for w in at[1..9].windows(2) {
        assert!(w[1] - w[0] >= rto);
    }
    assert!(sent.last().unwrap().header.flags.has(Flags::RST));
    assert_eq!(s.engine.close_reason(c), Some(CloseReason::TimedOut));
    assert_eq!(s.engine.info(c).unwrap().counters.rto_count, 15);
    assert!(at.last().unwrap().abs_diff(924_600) < 50_000, "{at:?}");
}

#[test]
fn three_sacked_segments_start_a_recovery() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.set_nodelay(c, true);
    write(&mut s, c, 1448 * 8);
    let n: usize = s.take_sent().iter().map(|o| o.payload.len()).sum();
    assert_eq!(n, 1448 * 8);
    s.pass_ms(10);
    let m = |i: u32| 1 + 1448 * i;
    // The first is missing; one ACK for each other.
    s.peer_with(1, 1, ACK, 65_535, &[(m(1), m(2))], &[]);
    s.none();
    s.peer_with(1, 1, ACK, 65_535, &[(m(1), m(3))], &[]);
    s.none();
    s.peer_with(1, 1, ACK, 65_535, &[(m(1), m(4))], &[]);
    let r = s.one();
    assert_eq!((s.rel(&r).0, r.payload.len()), (1, 1448));
    let i = s.engine.info(c).unwrap();
    assert_eq!(i.counters.recoveries, 1);
    assert_eq!(i.ssthresh, 7, "CUBIC keeps 0.7 of ten");
    s.pass_ms(10);
    s.peer(1, m(8), ACK, 65_535, &[]);
    s.none();
    let i = s.engine.info(c).unwrap();
    assert_eq!((i.cwnd, i.in_flight), (7, 0));
    assert_eq!(s.engine.next_timer(), None);
}

#[test]
fn three_duplicate_acks_do_without_sack() {
    let mut s = Script::new();
    let o = Options {
        mss: Some(1460),
        ..Options::default()
    };
    s.ts = false;
    let c = s.passive_with(o, 65_535);
    write(&mut s, c, 1460 * 8);
    s.take_sent();
    s.pass_ms(10);
    for _ in 0..2 {
        s.peer(1, 1, ACK, 65_535, &[]);
        s.none();
    }
    s.peer(1, 1, ACK, 65_535, &[]);
    let r = s.one();
    assert_eq!((s.rel(&r).0, r.payload.len()), (1, 1460));
    // A partial acknowledgement: the next one is missing too.
    s.pass_ms(10);
    s.peer(1, 1 + 1460 * 2, ACK, 65_535, &[]);
    let r = s.take_sent();
    assert_eq!((s.rel(&r[0]).0, r[0].payload.len()), (1 + 1460 * 2, 1460));
    s.pass_ms(10);
    s.peer(1, 1 + 1460 * 8, ACK, 65_535, &[]);
    assert_eq!(s.engine.info(c).unwrap().in_flight, 0);
    assert_eq!(s.engine.info(c).unwrap().counters.rto_count, 0);
}

#[test]
fn a_lost_tail_is_probed() {
    let mut s = Script::new();
    let c = s.passive();
    write(&mut s, c, 1448 * 4);
    s.take_sent();
    s.pass_ms(10);
    s.peer(1, 1 + 1448 * 2, ACK, 65_535, &[]);
    s.none();
    // Two are out and lost: a probe of the last after 2 srtt + 2 ms.
    let start = s.now;
    s.pass_ms(60);
    let p = s.one();
    assert_eq!((s.rel(&p).0, p.payload.len()), (1 + 1448 * 3, 1448));
    let after = p.at.since(start).as_millis();
    assert!((21..24).contains(&after), "{after}");
    // Its SACK shows that the one before is lost.
    s.peer_with(
        1,
        1 + 1448 * 2,
        ACK,
        65_535,
        &[(1 + 1448 * 3, 1 + 1448 * 4)],
        &[],
    );
    let mut r = s.take_sent();
    if r.is_empty() {
        s.pass_ms(10);
        r = s.take_sent();
    }
    assert_eq!((s.rel(&r[0]).0, r[0].payload.len()), (1 + 1448 * 2, 1448));
    let k = s.engine.info(c).unwrap().counters;
    assert_eq!((k.tlp_probes, k.rto_count), (1, 0));
}

#[test]
fn ecn_is_negotiated_echoed_and_obeyed() {
    let mut s = Script::new();
    let o = s.syn_options();
    let at = std::net::SocketAddr::from((OURS, 80));
    let l = s.engine.listen(TenantId(0), at, 4).unwrap();
    let flags = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    s.raw(PEER_ISN, 0, flags, 65_535, o, &[]);
    let a = s.one();
    assert_eq!(a.header.flags, Flags::SYN.with(ACK).with(Flags::ECE));
    s.isn = a.header.seq.0;
    s.pass_ms(10);
    s.peer(1, 1, ACK, 65_535, &[]);
    let c = s.engine.accept(l).unwrap();
    write(&mut s, c, 1448 * 6);
    let sent = s.take_sent();
    assert!(sent.iter().all(|o| o.ecn == 2), "ECT(0)");
    s.pass_ms(10);
    s.peer(1, 1 + 1448, ACK.with(Flags::ECE), 65_535, &[]);
    let i = s.engine.info(c).unwrap();
    assert_eq!((i.counters.ecn_reductions, i.ssthresh), (1, 7));
    write(&mut s, c, 1448 * 2);
    s.pass_ms(1);
    s.peer(1, 1 + 1448 * 6, ACK.with(Flags::ECE), 65_535, &[]);
    let sent = s.take_sent();
    assert!(sent[0].header.flags.has(Flags::CWR));
    assert!(sent[1..].iter().all(|o| !o.header.flags.has(Flags::CWR)));
    assert_eq!(s.engine.info(c).unwrap().counters.ecn_reductions, 1);
}

#[test]
fn an_early_retransmission_is_undone_by_its_timestamp() {
    let mut s = Script::new();
    let c = s.passive();
    write(&mut s, c, 1448 * 4);
    s.take_sent();
    let before = s.engine.info(c).unwrap().cwnd;
    let early = s.tsecr;
    s.pass_ms(800);
    assert!(s.engine.info(c).unwrap().counters.rto_count >= 1);
    s.take_sent();
    // The ACK of the originals was only late.
    s.tsecr = early;
    s.peer(1, 1 + 1448 * 4, ACK, 65_535, &[]);
    let i = s.engine.info(c).unwrap();
    assert_eq!(i.counters.undone, 1);
    assert!(i.cwnd >= before, "{} {before}", i.cwnd);
}
