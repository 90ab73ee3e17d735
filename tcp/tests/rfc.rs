// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state machine against a hand-written peer: RFC 9293, 5961, 7323.

mod common;
mod script;
use script::*;
use tsonic_tcp::wire::tcp::{Flags, Options};
use tsonic_tcp::*;
use tsonic_types::{CoreId, Nanos, TenantId};

const ACK: Flags = Flags::ACK;
const CORE: CoreId = CoreId(0);

fn fin() -> Flags {
    Flags::FIN.with(Flags::ACK)
}

fn write(s: &mut Script, c: ConnId, n: usize) {
    assert_eq!(s.engine.write(c, CORE, &vec![7; n]), Ok(n));
}

#[test]
fn active_open_offers_what_is_tuned_and_agrees() {
    let mut s = Script::new();
    let (c, syn) = s.active();
    let o = syn.header.options;
    assert_eq!((o.mss, o.window_scale), (Some(1460), Some(7)));
    assert!(o.sack_permitted && o.timestamp.is_some());
    assert_eq!(syn.header.flags, Flags::SYN);
    let o = s.syn_options();
    let isn = s.isn;
    s.raw(
        PEER_ISN,
        isn.wrapping_add(1),
        Flags::SYN.with(ACK),
        1000,
        o,
        &[],
    );
    let a = s.one();
    assert_eq!((a.header.flags, s.rel(&a)), (ACK, (1, 1)));
    assert_eq!(s.engine.state(c), Some(State::Established));
    assert!(matches!(s.engine.next_event(), Some(Event::Ready(id, r)) if id == c && r.connected()));
    // Peer without options.
    let mut s = Script::new();
    let (c, _) = s.active();
    let isn = s.isn;
    s.raw(
        PEER_ISN,
        isn.wrapping_add(1),
        Flags::SYN.with(ACK),
        1000,
        Options::default(),
        &[],
    );
    let a = s.one();
    assert_eq!(a.header.options, Options::default());
    let i = s.engine.info(c).unwrap();
    assert_eq!((i.mss, i.send_window), (536, 1000));
}

#[test]
fn wrong_answers_to_a_syn() {
    let mut s = Script::new();
    let (c, _) = s.active();
    let isn = s.isn;
    // An ACK of something else: reset, and the open goes on.
    s.raw(
        PEER_ISN,
        isn.wrapping_add(9),
        Flags::SYN.with(ACK),
        1000,
        Options::default(),
        &[],
    );
    let r = s.one();
    assert_eq!(
        (r.header.flags, r.header.seq.0),
        (Flags::RST, isn.wrapping_add(9))
    );
    s.raw(
        PEER_ISN,
        isn.wrapping_add(9),
        Flags::RST.with(ACK),
        0,
        Options::default(),
        &[],
    );
    s.none();
    assert_eq!(s.engine.state(c), Some(State::SynSent));
    s.raw(
        0,
        isn.wrapping_add(1),
        Flags::RST.with(ACK),
        0,
        Options::default(),
        &[],
    );
    assert_eq!(s.engine.state(c), Some(State::Closed));
    assert_eq!(s.engine.close_reason(c), Some(CloseReason::Refused));
    assert_eq!(
        s.engine.read(c, &mut [0; 4]),
        Err(Error::Closed(CloseReason::Refused))
    );
    s.engine.close(s.now, c);
    s.none();
    assert_eq!(s.engine.connections(), 0);
}

#[test]
fn an_open_backs_off_and_gives_up() {
    let mut s = Script::new();
    let (c, _) = s.active();
    let start = s.now;
    s.pass(Nanos::from_secs(200));
    let at: Vec<u64> = s
        .take_sent()
        .iter()
        .map(|o| o.at.since(start).as_millis() / 1000)
        .collect();
    assert_eq!(at, [1, 3, 7, 15, 31, 63]);
    assert_eq!(s.engine.close_reason(c), Some(CloseReason::TimedOut));
    assert_eq!(
        s.engine.next_timer().is_some(),
        !s.engine.ids().count() == 0
    );
}

#[test]
fn nobody_answers_for_the_neighbour() {
    let mut s = Script::new();
    s.answer_arp = false;
    let to = std::net::SocketAddr::from((PEER, 80));
    let c = s.engine.connect(s.now, TenantId(0), None, to).unwrap();
    s.pass(Nanos::from_secs(20));
    assert_eq!(s.arp_requests, 3);
    assert_eq!(s.engine.close_reason(c), Some(CloseReason::Unreachable));
    assert_eq!(s.engine.next_timer(), None);
}

#[test]
fn simultaneous_open() {
    let mut s = Script::new();
    let (c, _) = s.active();
    let o = s.syn_options();
    s.raw(PEER_ISN, 0, Flags::SYN, 1000, o, &[]);
    let a = s.one();
    assert_eq!(a.header.flags, Flags::SYN.with(ACK));
    assert_eq!(s.rel(&a), (0, 1));
    s.peer(1, 1, ACK, 1000, &[]);
    s.none();
    assert_eq!(s.engine.state(c), Some(State::Established));
}

#[test]
fn no_listener_is_a_reset() {
    let mut s = Script::new();
    s.raw(77, 0, Flags::SYN, 1000, Options::default(), &[]);
    let r = s.one();
    assert_eq!(r.header.flags, Flags::RST.with(ACK));
    assert_eq!((r.header.seq.0, r.header.ack.0), (0, 78));
    s.raw(77, 1234, ACK, 1000, Options::default(), &[1, 2]);
    let r = s.one();
    assert_eq!((r.header.flags, r.header.seq.0), (Flags::RST, 1234));
    s.raw(77, 0, Flags::RST, 1000, Options::default(), &[]);
    s.none();
}

#[test]
fn a_lost_syn_ack_goes_again() {
    let mut s = Script::new();
    let o = s.syn_options();
    let at = std::net::SocketAddr::from((OURS, 80));
    let l = s.engine.listen(TenantId(0), at, 4).unwrap();
    s.raw(PEER_ISN, 0, Flags::SYN, 1000, o, &[]);
    let first = s.one();
    s.isn = first.header.seq.0;
    s.pass_ms(500);
    s.raw(PEER_ISN, 0, Flags::SYN, 1000, o, &[]);
    let again = s.one();
    assert_eq!(again.header.flags, first.header.flags);
    assert_eq!(again.header.seq, first.header.seq);
    s.pass_ms(3100);
    assert!(!s.take_sent().is_empty(), "and by its own time-out");
    s.peer(1, 1, ACK, 1000, &[]);
    assert!(s.engine.accept(l).is_some());
}

#[test]
fn data_echoes_and_is_acknowledged_at_once_at_first() {
    let mut s = Script::new();
    let c = s.passive();
    s.peer(1, 1, ACK, 65_535, b"hello");
    let a = s.one();
    assert_eq!((a.header.flags, s.rel(&a)), (ACK, (1, 6)));
    let mut b = [0; 16];
    assert_eq!(s.engine.read(c, &mut b), Ok(5));
    assert_eq!(&b[..5], b"hello");
    assert_eq!(s.engine.read(c, &mut b), Err(Error::WouldBlock));
    assert_eq!(s.engine.write(c, CORE, b"world"), Ok(5));
    let d = s.one();
    assert_eq!((d.payload.as_slice(), s.rel(&d)), (&b"world"[..], (1, 6)));
    assert!(d.header.flags.has(Flags::PSH));
}

#[test]
fn a_delayed_ack_comes_every_second_segment_or_after_40_ms() {
    let mut s = Script::new();
    let c = s.passive();
    let mut seq = 1;
    let mut buf = vec![0; 65_536];
    for _ in 0..20 {
        s.peer(seq, 1, ACK, 65_535, &[0; 1448]);
        seq += 1448;
        s.take_sent();
        let _ = s.engine.read(c, &mut buf);
    }
    s.take_sent();
    s.peer(seq, 1, ACK, 65_535, &[0; 1448]);
    seq += 1448;
    if s.take_sent().is_empty() {
        s.peer(seq, 1, ACK, 65_535, &[0; 1448]);
        seq += 1448;
        assert_eq!(s.take_sent().len(), 1, "the second full segment");
    }
    s.peer(seq, 1, ACK, 65_535, &[0; 1448]);
    s.none();
    s.pass_ms(39);
    s.none();
    s.pass_ms(2);
    let a = s.one();
    assert_eq!(s.rel(&a).1, seq + 1448);
}

#[test]
fn orderly_close_by_us_then_time_wait() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.write(c, CORE, b"bye").unwrap();
    s.engine.shutdown(c).unwrap();
    let f = s.one();
    assert!(f.header.flags.has(Flags::FIN));
    assert_eq!(f.payload, b"bye");
    assert_eq!(s.engine.state(c), Some(State::FinWait1));
    assert_eq!(s.engine.write(c, CORE, b"x"), Err(Error::ShutDown));
    s.peer(1, 5, ACK, 65_535, b"more");
    assert_eq!(s.engine.state(c), Some(State::FinWait2));
    s.take_sent();
    s.peer(5, 5, fin(), 65_535, &[]);
    let a = s.one();
    assert_eq!(s.rel(&a), (5, 6));
    assert_eq!(s.engine.state(c), Some(State::TimeWait));
    let mut b = [0; 8];
    assert_eq!(s.engine.read(c, &mut b), Ok(4));
    assert_eq!(s.engine.read(c, &mut b), Ok(0));
    // The peer's FIN again: our ACK was lost.
    s.pass_ms(1000);
    s.peer(5, 5, fin(), 65_535, &[]);
    let a = s.one();
    assert_eq!(s.rel(&a), (5, 6));
    s.engine.close(s.now, c);
    s.pass(Nanos::from_secs(61));
    assert_eq!(s.engine.connections(), 0);
    assert_eq!(s.engine.next_timer(), None);
}

#[test]
fn close_by_the_peer_first() {
    let mut s = Script::new();
    let c = s.passive();
    s.peer(1, 1, fin(), 65_535, b"last");
    let a = s.one();
    assert_eq!(s.rel(&a).1, 6);
    assert_eq!(s.engine.state(c), Some(State::CloseWait));
    let mut b = [0; 8];
    assert_eq!(s.engine.read(c, &mut b), Ok(4));
    assert_eq!(s.engine.read(c, &mut b), Ok(0));
    // We may still send.
    s.engine.write(c, CORE, b"answer").unwrap();
    assert_eq!(s.one().payload, b"answer");
    s.peer(6, 7, ACK, 65_535, &[]);
    s.engine.close(s.now, c);
    let f = s.one();
    assert!(f.header.flags.has(Flags::FIN));
    assert_eq!(s.engine.state(c), None, "the id is dead");
    s.peer(6, 8, ACK, 65_535, &[]);
    s.none();
    assert_eq!(s.engine.connections(), 0);
}

#[test]
fn both_close_at_once() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.shutdown(c).unwrap();
    s.one();
    s.peer(1, 1, fin(), 65_535, &[]);
    s.one();
    assert_eq!(s.engine.state(c), Some(State::Closing));
    s.peer(2, 2, ACK, 65_535, &[]);
    assert_eq!(s.engine.state(c), Some(State::TimeWait));
}

#[test]
fn closing_with_unread_data_is_a_reset() {
    let mut s = Script::new();
    let c = s.passive();
    s.peer(1, 1, ACK, 65_535, b"unread");
    s.take_sent();
    s.engine.close(s.now, c);
    let r = s.one();
    assert!(r.header.flags.has(Flags::RST));
    assert_eq!(s.rel(&r).0, 1);
    assert_eq!(s.engine.connections(), 0);
    assert_eq!(s.pool.available(), 256);
}

#[test]
fn data_for_a_closed_application_is_a_reset() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.close(s.now, c);
    s.one();
    s.peer(1, 2, ACK, 65_535, &[]);
    s.peer(1, 2, ACK, 65_535, b"late");
    assert!(s.one().header.flags.has(Flags::RST));
    assert_eq!(s.engine.connections(), 0);
}

#[test]
fn fin_wait2_of_a_closed_application_ends() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.close(s.now, c);
    s.one();
    s.peer(1, 2, ACK, 65_535, &[]);
    s.pass(Nanos::from_secs(59));
    assert_eq!(s.engine.connections(), 1);
    s.pass(Nanos::from_secs(2));
    assert_eq!(s.engine.connections(), 0);
    assert_eq!(s.engine.next_timer(), None);
}

#[test]
fn resets_must_be_exact() {
    let mut s = Script::new();
    let c = s.passive();
    // In the window, but not exact: a challenge (RFC 5961, 3).
    s.peer(100, 1, Flags::RST, 0, &[]);
    let a = s.one();
    assert_eq!((a.header.flags, s.rel(&a)), (ACK, (1, 1)));
    // A SYN: a challenge (4); within half a second no second one.
    s.peer(100, 1, Flags::SYN, 0, &[]);
    s.none();
    s.pass_ms(600);
    s.peer(100, 1, Flags::SYN, 0, &[]);
    assert_eq!(s.one().header.flags, ACK);
    // Outside the window: nothing.
    s.pass_ms(600);
    s.peer(10_000_000, 1, Flags::RST, 0, &[]);
    s.none();
    assert_eq!(s.engine.state(c), Some(State::Established));
    // An ACK of what was never sent: a challenge (5).
    s.peer(1, 5000, ACK, 65_535, b"evil");
    assert_eq!(s.one().header.flags, ACK);
    assert_eq!(s.engine.room(c).unwrap().1, 0);
    s.peer(1, 1, Flags::RST, 0, &[]);
    s.none();
    assert_eq!(s.engine.close_reason(c), Some(CloseReason::Reset));
}

#[test]
fn challenges_of_a_tenant_are_limited() {
    let mut s = Script::new();
    s.tune("net.ipv4.tcp_challenge_ack_limit", "10");
    s.tune("net.ipv4.tcp_invalid_ratelimit", "0");
    s.passive();
    for _ in 0..100 {
        s.peer(100, 1, Flags::RST, 0, &[]);
        s.poll();
    }
    let n = s.take_sent().len();
    assert!((5..15).contains(&n), "{n}");
}

#[test]
fn paws_drops_what_is_old() {
    let mut s = Script::new();
    let c = s.passive();
    s.peer(1, 1, ACK, 65_535, &[1; 10]);
    s.take_sent();
    s.tsval -= 500;
    s.peer(11, 1, ACK, 65_535, &[1; 10]);
    s.take_sent();
    assert_eq!(s.engine.room(c).unwrap().1, 10);
    assert_eq!(s.engine.info(c).unwrap().counters.paws_drops, 1);
    s.tsval += 600;
    s.peer(11, 1, ACK, 65_535, &[1; 10]);
    assert_eq!(s.engine.room(c).unwrap().1, 20);
    // Without the option it is dropped too.
    s.ts = false;
    s.peer(21, 1, ACK, 65_535, &[1; 10]);
    assert_eq!(s.engine.room(c).unwrap().1, 20);
}

#[test]
fn a_syn_reopens_time_wait() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.close(s.now, c);
    s.one();
    s.peer(1, 2, fin(), 65_535, &[]);
    s.one();
    s.pass_ms(100);
    let o = s.syn_options();
    s.raw(PEER_ISN.wrapping_add(100_000), 0, Flags::SYN, 1000, o, &[]);
    let a = s.one();
    assert_eq!(a.header.flags, Flags::SYN.with(ACK));
    assert_eq!(a.header.ack.0, PEER_ISN.wrapping_add(100_001));
}

#[test]
fn a_closed_window_is_probed() {
    let mut s = Script::new();
    let c = s.passive();
    write(&mut s, c, 100);
    s.one();
    s.peer(1, 101, ACK, 0, &[]);
    write(&mut s, c, 5000);
    s.none();
    let start = s.now;
    s.pass_ms(2000);
    let probes = s.take_sent();
    assert!(probes.len() >= 3, "{}", probes.len());
    for p in &probes {
        assert_eq!((s.rel(p).0, p.payload.len()), (100, 0), "below the window");
    }
    let gaps: Vec<u64> = probes
        .iter()
        .map(|p| p.at.since(start).as_millis())
        .collect();
    assert!(gaps[1] - gaps[0] >= 2 * gaps[0] - 5, "{gaps:?}");
    s.peer(1, 101, ACK, 65_535, &[]);
    let n: usize = s.take_sent().iter().map(|o| o.payload.len()).sum();
    assert_eq!(n, 5000);
}

#[test]
fn a_slow_reader_closes_and_opens_the_window() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.set_receive_buffer(c, 20_000);
    let mut seq = 1u32;
    let mut window = u32::MAX;
    while window > 0 {
        s.peer(seq, 1, ACK, 65_535, &vec![1; 1448]);
        let out = s.take_sent();
        let Some(a) = out.last() else { continue };
        seq = s.rel(a).1;
        window = u32::from(a.header.window) << 7;
        assert!(seq < 140_000);
    }
    // Data beyond the window is not taken.
    s.pass_ms(1000);
    s.peer(seq, 1, ACK, 65_535, &[1; 100]);
    let a = s.one();
    assert_eq!(s.rel(&a).1, seq);
    // Reading a little says nothing, reading a lot does.
    let mut b = vec![0; 200_000];
    s.engine.read(c, &mut b[..100]).unwrap();
    s.none();
    s.engine.read(c, &mut b).unwrap();
    let a = s.one();
    assert!(a.header.window > 0);
}

#[test]
fn nagle_holds_the_second_small_segment() {
    let mut s = Script::new();
    let c = s.passive();
    write(&mut s, c, 10);
    assert_eq!(s.one().payload.len(), 10);
    write(&mut s, c, 20);
    write(&mut s, c, 30);
    s.none();
    s.peer(1, 11, ACK, 65_535, &[]);
    assert_eq!(s.one().payload.len(), 50);
    s.engine.set_nodelay(c, true);
    write(&mut s, c, 5);
    assert_eq!(s.one().payload.len(), 5);
    write(&mut s, c, 6);
    assert_eq!(s.one().payload.len(), 6);
}

#[test]
fn keepalive_probes_and_gives_up() {
    let mut s = Script::new();
    let c = s.passive();
    s.engine.set_keepalive(s.now, c, true);
    let start = s.now;
    s.pass(Nanos::from_secs(7150));
    s.none();
    s.pass(Nanos::from_secs(100));
    let p = s.one();
    assert_eq!(s.rel(&p).0, 0);
    s.peer(1, 1, ACK, 65_535, &[]);
    s.pass(Nanos::from_secs(100));
    s.none();
    assert_eq!(s.engine.state(c), Some(State::Established));
    s.pass(Nanos::from_secs(8000));
    let sent = s.take_sent();
    assert_eq!(sent.len(), 10, "nine probes and a reset");
    assert_eq!(s.engine.close_reason(c), Some(CloseReason::TimedOut));
    assert!(sent[0].at.since(start) > Nanos::from_secs(14_000));
}

#[test]
fn a_backlog_is_bounded() {
    let mut s = Script::new();
    let at = std::net::SocketAddr::from((OURS, 80));
    let l = s.engine.listen(TenantId(0), at, 2).unwrap();
    for port in 0..5u16 {
        s.peer_port = 6000 + port;
        let o = s.syn_options();
        s.raw(PEER_ISN, 0, Flags::SYN, 1000, o, &[]);
        let out = s.take_sent();
        if let Some(a) = out.first() {
            s.isn = a.header.seq.0;
            s.peer(1, 1, ACK, 1000, &[]);
        }
    }
    let n = std::iter::from_fn(|| s.engine.accept(l)).count();
    assert_eq!(n, 2);
    assert_eq!(s.engine.counters().syn_drops, 3);
}
