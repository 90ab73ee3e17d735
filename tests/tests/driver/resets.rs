// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues and the device, reset and closed.

use super::rig::*;

pub fn a_queue_full_of_slow_flows_is_reset_alone_and_works_again(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 14_480).unwrap()];
    let h = header(0, 5_000);
    let slow = r.flows.allocate().unwrap();
    for token in 0..50 {
        let b = TxBurst {
            flow: slow,
            rate: Some(ByteRate(1_000)),
            ..burst(token, &h, &f)
        };
        r.tx[0].post(&mut r.flows, &b).unwrap();
    }
    r.tx[1].post(&mut r.flows, &burst(100, &h, &f)).unwrap();
    r.flush();
    let soon = r.device.now() + Nanos::from_millis(1);
    while r.device.wait(Some(soon)).unwrap() != Wake::Deadline {}
    r.flows.release(slow);
    let mut got = Vec::new();
    r.device
        .reset_tx(&mut r.tx[0], &mut r.flows, |c| {
            got.push((c.token, c.status()))
        })
        .unwrap();
    got.sort_unstable();
    let want: Vec<_> = (0..50).map(|t| (t, Some(Status::QueueReset))).collect();
    assert_eq!(got, want);
    assert_eq!(r.flows.outstanding(slow), 0);
    r.tx[0].post(&mut r.flows, &burst(101, &h, &f)).unwrap();
    r.settle();
    let tokens: Vec<_> = r.done.iter().map(|c| (c.token, c.status())).collect();
    assert_eq!(tokens.len(), 2, "{tokens:?}");
    assert!(tokens.contains(&(100, Some(Status::Ok))));
    assert!(tokens.contains(&(101, Some(Status::Ok))));
}

pub fn the_whole_device_is_reset_and_works_again(mut r: Rig) {
    let chunk = r.fill(0);
    let f = [r.pool.map().fragment(chunk, 0, 60_000).unwrap()];
    let h = header(0, 5_000);
    for token in 0..20 {
        r.tx[0].post(&mut r.flows, &burst(token, &h, &f)).unwrap();
    }
    r.flush();
    let soon = r.device.now() + Nanos(30_000);
    r.device.wait(Some(soon)).unwrap();
    let mut given_up = Vec::new();
    r.device
        .reset(&mut r.tx, &mut r.rx, &mut r.flows, |c| {
            given_up.push(c.token)
        })
        .unwrap();
    given_up.sort_unstable();
    assert_eq!(given_up, (0..20).collect::<Vec<_>>(), "each burst once");
    let table = Device::<Function>::rss_round_robin(2);
    r.device.set_rss(&RSS_KEY_DEFAULT, &table).unwrap();
    r.device.start().unwrap();
    r.tx[1].post(&mut r.flows, &burst(7, &h, &f)).unwrap();
    r.settle();
    assert_eq!(r.done.iter().map(|c| c.token).collect::<Vec<_>>(), [7]);
}

pub fn a_closed_device_leaves_no_mapping(r: Rig) {
    let Rig { mut device, .. } = r;
    let function = device.function().clone();
    let mapped = || {
        function
            .inner
            .world()
            .memory(0)
            .unwrap()
            .memory()
            .mapped_bytes()
    };
    assert!(mapped() > 0);
    drop(device);
    assert_eq!(mapped(), 0);
}
