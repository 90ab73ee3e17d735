// SPDX-License-Identifier: MIT OR Apache-2.0
//! A transmit queue that is turned off with bursts in the device: what was granted
//! departs, the rest is handed back at once, and other queues do not notice.

use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::Kind;
use tsonic_regs::limits::MAX_SEGMENT_DEFAULT;
use tsonic_regs::registers::global;
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::nic::Nic;
use tsonic_types::Ticks;

use super::bench;
use super::frames::{payload, tcp4_header, tcp4_layout};

const MSS: usize = 1_448;
/// Ticks in which everything must have come back: no frame of the tests takes longer
/// than 2,000, and there are fewer than 100 bursts.
const SOON: u64 = 8_000;

fn post<'a>(header: &'a [u8], data: &'a [u8], flow_slot: u16, cookie: u16) -> Post<'a> {
    Post {
        layout: tcp4_layout(Kind::Tso, MSS),
        header,
        payload: data,
        cuts: &[],
        flow_slot,
        inv_rate: 0,
        launch: None,
        cookie,
    }
}

fn status(c: &TxCompletion) -> Status {
    Status::from_code(c.status.status()).expect("a code of the table")
}

/// The bytes on the wire are those of the completions, and nothing is left inside.
fn adds_up<N: Nic>(b: &mut Bench<N>, completions: &[TxCompletion]) {
    let told: u64 = completions
        .iter()
        .map(|c| u64::from(c.done.wire_bytes()))
        .sum();
    let frames: u64 = completions
        .iter()
        .map(|c| u64::from(c.done.segments()))
        .sum();
    let wire: usize = b.mac.sent.iter().map(|(_, f)| f.len()).sum();
    assert_eq!((told, frames), (wire as u64, b.mac.sent.len() as u64));
    assert_eq!(b.read(global::STATUS.offset), 1, "the NIC is empty");
}

/// Bursts that wait for a departure in the far future, for the rate of their flow,
/// and for that of their queue.
pub fn waiting<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    b.enable_tx(1, 6, 7);
    // 1,000 ticks a byte: the second unpaced segment would come after 1.5 M ticks.
    b.set_queue_rate(1, 1_000 << 28);
    let (header, data) = (tcp4_header(0), payload(1, 4 * MSS));
    let far = b.nic.now().0 + 1_000_000_000;
    let mut posted = [0, 0];
    for cookie in 0..24u16 {
        let slot = 1 + cookie % 4;
        let d = b.place(&Post {
            launch: (slot % 2 == 0).then_some(far + u64::from(cookie)),
            inv_rate: 500 << 28,
            ..post(&header, &data, slot, cookie)
        });
        b.push(0, &d);
        posted[0] += 1;
        let d = b.place(&post(
            &header,
            &data,
            [0, 0, 9][usize::from(cookie % 3)],
            cookie,
        ));
        b.push(1, &d);
        posted[1] += 1;
    }
    b.ring(0);
    b.ring(1);
    b.run_to(b.nic.now() + Ticks(30_000));
    assert!(b.completions(0).is_empty() && b.completions(1).is_empty());
    // Slots 1 and 3 of queue 0 have sent their first segment, and queue 1 one.
    assert_eq!(b.mac.sent.len(), 3);
    let start = b.nic.now();
    b.disable_tx(0);
    b.disable_tx(1);
    b.run_to(start + Ticks(SOON));
    let mut all = Vec::new();
    for (q, posted) in posted.into_iter().enumerate() {
        let c = b.completions(q);
        assert_eq!(c.len(), posted, "every burst completes once");
        for c in &c {
            assert_eq!(status(c), Status::QueueReset);
            assert!(c.last_departure <= start.0 + SOON, "{c:?}");
        }
        let mut cookies: Vec<u16> = c.iter().map(|c| c.status.cookie()).collect();
        cookies.sort_unstable();
        assert!(cookies.into_iter().eq(0..posted as u16));
        all.extend(c);
    }
    adds_up(&mut b, &all);
    assert_eq!(b.mac.sent.len(), 3, "nothing departs later");
    // It works again.
    b.enable_tx(0, 6, 7);
    let d = b.place(&post(&header, &data, 20, 50));
    b.push(0, &d);
    let d = b.place(&post(&header, &data, 0, 51));
    b.push(0, &d);
    b.ring(0);
    b.run_to(b.nic.now() + Ticks(SOON));
    let c = b.completions(0);
    assert_eq!(c.len(), 2);
    for c in c {
        assert_eq!((status(&c), c.done.segments()), (Status::Ok, 4));
    }
}

/// A burst of which some segments have departed: its frames are the first of it, and
/// its completion counts them; the one behind it has none.
pub fn under_way<N: Nic>(nic: N) {
    let mut b = bench(nic);
    b.enable_tx(0, 6, 7);
    // A frame takes about 1,500 ticks.
    b.mac.slow = Some((1, 1));
    let (header, data) = (tcp4_header(0), payload(7, 44 * MSS));
    for cookie in 0..2 {
        let d = b.place(&post(&header, &data, 0, cookie));
        b.push(0, &d);
    }
    b.ring(0);
    while b.mac.sent.len() < 10 {
        b.run_to(b.nic.now() + Ticks(100));
    }
    b.disable_tx(0);
    // Granted segments lie in the data path, which has room for two of the largest.
    let granted_at_most = 10 + 2 * MAX_SEGMENT_DEFAULT / MSS;
    assert!(granted_at_most < 44);
    let mut c = Vec::new();
    while c.len() < 2 {
        b.run_to(b.nic.now() + Ticks(100));
        c.extend(b.completions(0));
        assert!(b.mac.sent.len() <= granted_at_most);
    }
    c.sort_by_key(|c| c.status.cookie());
    assert!(c.iter().all(|c| status(c) == Status::QueueReset));
    let sent = b.mac.sent.len();
    assert_eq!(c[0].done.segments() as usize, sent);
    assert_eq!(c[1].done.segments(), 0);
    b.run_to(b.nic.now() + Ticks(SOON));
    assert_eq!(
        b.mac.sent.len(),
        sent,
        "nothing departs after the completion"
    );
    adds_up(&mut b, &c);
    let mut body = Vec::new();
    for (_, frame) in &b.mac.sent {
        body.extend_from_slice(&frame[54..]);
    }
    assert_eq!(body, data[..body.len()]);
}

/// A paced flow of another queue departs as if nothing had happened.
pub fn others<N: Nic>(mut make: impl FnMut() -> N) {
    let mut run = |disturb: bool| {
        let mut b = bench(make());
        b.enable_tx(0, 6, 7);
        b.enable_tx(1, 6, 7);
        let (header, data) = (tcp4_header(0), payload(3, 30 * MSS));
        let far = b.nic.now().0 + 1_000_000_000;
        for cookie in 0..40 {
            let d = b.place(&Post {
                launch: Some(far),
                ..post(&header, &data[..MSS], 10 + cookie, cookie)
            });
            b.push(0, &d);
        }
        b.ring(0);
        b.run_to(b.nic.now() + Ticks(5_000));
        let start = b.nic.now();
        let d = b.place(&Post {
            inv_rate: 1 << 27,
            ..post(&header, &data, 1, 1)
        });
        b.push(1, &d);
        b.ring(1);
        b.run_to(start + Ticks(10_000));
        if disturb {
            b.disable_tx(0);
        }
        b.run_to(start + Ticks(30_000));
        let c = b.completions(1);
        assert_eq!((c.len(), status(&c[0])), (1, Status::Ok));
        let back = b.completions(0);
        assert_eq!(back.len(), if disturb { 40 } else { 0 });
        assert_eq!(b.mac.sent.len(), 30);
        b.mac
            .sent
            .iter()
            .map(|(at, _)| at.0 - start.0)
            .collect::<Vec<_>>()
    };
    let (alone, disturbed) = (run(false), run(true));
    for (a, d) in alone.iter().zip(&disturbed) {
        assert!(a.abs_diff(*d) < 64, "{alone:?}\n{disturbed:?}");
    }
}
