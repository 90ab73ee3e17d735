// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bursts out, frames back.

use std::collections::BTreeMap;

use super::rig::*;

pub fn a_burst_of_many_fragments_comes_back_byte_for_byte(mut r: Rig) {
    let chunk = r.fill(0);
    let map = r.pool.map();
    // 17 fragments of odd sizes, back to back.
    let mut at = 0;
    let fragments: Vec<Fragment> = (0..17)
        .map(|i| {
            let len = 1_001 + 97 * i;
            at += len;
            map.fragment(chunk, at - len, len).unwrap()
        })
        .collect();
    let h = header(1_000, 5_000);
    let b = burst(42, &h, &fragments);
    r.tx[0].post(&mut r.flows, &b).unwrap();
    r.settle();

    let done = &r.done[0];
    assert_eq!(
        (r.done.len(), done.token, done.status()),
        (1, 42, Some(Status::Ok))
    );
    let segments = at.div_ceil(u32::from(MSS));
    assert_eq!(
        (done.segments, r.frames.len()),
        (segments, segments as usize)
    );
    let bytes: usize = r.frames.iter().map(Vec::len).sum();
    assert_eq!(done.wire_bytes.0, bytes as u64);
    assert_eq!(bytes, at as usize + HEADER * segments as usize);
    assert!(done.first_departure < done.last_departure);
    let mut stream = BTreeMap::new();
    for f in &r.frames {
        let seq = u32::from_be_bytes(f[38..42].try_into().unwrap());
        stream.insert(seq - 1_000, f[HEADER..].to_vec());
    }
    let got: Vec<u8> = stream.into_values().flatten().collect();
    assert_eq!(got.len(), at as usize);
    assert!(got.iter().enumerate().all(|(i, b)| *b == payload(i)));
}

pub fn thousands_of_bursts_wrap_every_ring(mut r: Rig) {
    let chunk = r.fill(0);
    let map = r.pool.map();
    let flows: Vec<FlowSlot> = (0..8).map(|_| r.flows.allocate().unwrap()).collect();
    // (Logic is slower to simulate.)
    let total = match r.on {
        On::Model => 3_000,
        On::Rtl => 400,
    };
    let mut next = 0u64;
    let mut payload_bytes = 0;
    while (r.done.len() as u64) < total {
        for q in 0..2 {
            for _ in 0..r.tx[q].room().min(40) {
                if next == total {
                    break;
                }
                let len = 1 + (next as u32 * 37) % 4_000;
                let f = [map.fragment(chunk, (next % 64) as u32, len).unwrap()];
                let h = header(0, 5_000 + (next % 100) as u16);
                let b = TxBurst {
                    flow: flows[next as usize % flows.len()],
                    rate: Some(ByteRate(400_000_000)),
                    ..burst(next, &h, &f)
                };
                r.tx[q].post(&mut r.flows, &b).unwrap();
                payload_bytes += len as usize;
                next += 1;
            }
        }
        r.settle();
    }
    let mut tokens: Vec<u64> = r.done.iter().map(|c| c.token).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..total).collect::<Vec<_>>());
    assert!(r.done.iter().all(|c| c.status() == Some(Status::Ok)));
    // By the IP header: the wire pads short frames.
    let ip_payload = |f: &Vec<u8>| usize::from(u16::from_be_bytes([f[16], f[17]])) - 40;
    let got: usize = r.frames.iter().map(ip_payload).sum();
    let counters = r.device.counters().unwrap();
    assert_eq!(got, payload_bytes, "{counters:?}");
    for q in 0..2 {
        let (tx, rx) = (r.tx[q].stats(), r.rx[q].stats());
        assert_eq!(
            (tx.tx_unknown_completions, tx.tx_malformed_completions),
            (0, 0)
        );
        assert_eq!(
            (rx.rx_unknown_completions, rx.rx_malformed_completions),
            (0, 0)
        );
        assert!(rx.rx_packets > 0, "RSS reaches queue {q}");
    }
    let counters: BTreeMap<_, _> = r.device.counters().unwrap().into_iter().collect();
    assert_eq!(counters["TX_FRAMES"], r.frames.len() as u64);
    assert_eq!(counters["RX_NO_BUFFER"], 0);
    for f in flows {
        assert_eq!(r.flows.outstanding(f), 0);
        assert!(r.flows.release(f));
    }
}

pub fn a_flow_leaves_at_its_rate(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 14_480).unwrap()];
    let h = header(0, 5_000);
    let flow = r.flows.allocate().unwrap();
    let b = TxBurst {
        flow,
        rate: Some(ByteRate(1_502_000)),
        ..burst(1, &h, &f)
    };
    r.tx[0].post(&mut r.flows, &b).unwrap();
    r.settle();
    let span = r.done[0].last_departure.since(r.done[0].first_departure);
    // Nine gaps of 1,502 wire bytes at as many kB/s: 9 ms.
    assert!(span.0.abs_diff(9_000_000) < 9_000, "{span}");
}

pub fn a_launch_time_is_kept(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 1_000).unwrap()];
    let h = header(0, 5_000);
    let launch = r.device.now() + Nanos::from_millis(2);
    let b = TxBurst {
        flow: r.flows.allocate().unwrap(),
        launch: Some(launch),
        ..burst(1, &h, &f)
    };
    r.tx[0].post(&mut r.flows, &b).unwrap();
    r.settle();
    let left = r.done[0].first_departure;
    assert!(
        left >= launch && left.since(launch) < Nanos(10_000),
        "{left}"
    );
}
