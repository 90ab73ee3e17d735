// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a request does to the traffic, and how soon.

use crate::lab::{LINE, Lab, QUEUES};
use tsonic_host::control::protocol::{BqlSetting, Reply, Request};
use tsonic_types::{ByteRate, Nanos};

/// Wire bytes of the largest burst: 64 KiB in segments of 1,448 and their headers.
const BURST: u64 = 65_536 + 46 * 66;
/// Wire bytes of a full segment.
const SEGMENT: u64 = 1_514;
const MS: Nanos = Nanos::from_millis(1);

fn busy() -> Lab {
    let mut lab = Lab::new(ByteRate::UNLIMITED, Nanos::from_micros(50));
    lab.run_until(Nanos::from_millis(50));
    // The wire is what limits it: preamble, FCS and gap are not counted.
    let full = lab.departs_in(Nanos::from_millis(10));
    assert!(full > LINE / 100 * 95 / 100, "{full}");
    lab
}

#[test]
fn a_rate_holds_from_the_next_burst_on() {
    let mut lab = busy();
    let set = |rate| Request::RateSet { queue: 0, rate };
    let rate = 10_000_000;
    let Reply::Rate(rates) = lab.ask(set(Some(rate))) else {
        panic!("another reply");
    };
    assert_eq!(
        (rates.len(), rates[0].rate),
        (usize::from(QUEUES), Some(rate))
    );
    // One burst at most is under way at the old rate.
    let span = Nanos::from_millis(10);
    let held = lab.departs_in(span);
    assert!(held <= rate / 100 + BURST, "{held}");
    let held = lab.departs_in(span);
    assert!(
        (rate / 100 * 9 / 10..=rate / 100 + 2 * SEGMENT).contains(&held),
        "{held}"
    );
    // A reset of the queue leaves it.
    lab.ask(Request::QueueReset { queue: 0 });
    lab.run_for(span);
    let held = lab.departs_in(span);
    assert!(held <= rate / 100 + BURST, "{held}");
    let Reply::Rate(rates) = lab.ask(set(None)) else {
        panic!("another reply");
    };
    assert_eq!(rates[0].rate, None);
    // The window has room, so that the wire is full again at once.
    let free = lab.departs_in(span);
    assert!(free > 2 * rate / 100, "{free}");
    for (queue, rate, name) in [
        (QUEUES, Some(rate), "NO_SUCH_QUEUE"),
        (0, Some(10), "OUT_OF_RANGE"),
        (0, Some(0), "OUT_OF_RANGE"),
        (0, Some(u64::MAX), "OUT_OF_RANGE"),
    ] {
        let (found, remedy) = lab.refusal(Request::RateSet { queue, rate });
        assert_eq!(found, name, "{remedy}");
        assert!(
            remedy.contains("from 120 on") || remedy.contains("queues 0 to 3"),
            "{remedy}"
        );
    }
}

#[test]
fn a_byte_budget_holds_from_the_next_burst_on() {
    let mut lab = busy();
    let set = |setting, value| Request::BqlSet {
        queue: 0,
        setting,
        value,
    };
    let Reply::Bql(budgets) = lab.ask(Request::BqlShow {}) else {
        panic!("another reply");
    };
    assert!(budgets.iter().all(|b| !b.active && b.limit.is_none()));
    // A limit of one byte lets one segment leave at a time, and the next only when its
    // credit has come, with the flush every 32 us.
    let Reply::Bql(budgets) = lab.ask(set(BqlSetting::LimitMax, 1)) else {
        panic!("another reply");
    };
    assert!(budgets[0].active && budgets[0].limit_max == 1 && !budgets[1].active);
    lab.run_for(MS);
    let told = lab.stats().queues[0].byte_queue_limits.clone();
    let told = told.expect("the model has budgets");
    assert_eq!((told.limit, told.stall_cnt), (Some(1), Some(0)));
    assert!(told.inflight <= Some(1 + SEGMENT), "{told:?}");
    let span = Nanos::from_millis(10);
    let flushes = span.0 / 32_000 + 1;
    let held = lab.departs_in(span);
    assert!(held <= flushes * SEGMENT + BURST, "{held}");
    let held = lab.departs_in(span);
    assert!(
        (flushes * SEGMENT / 4..=flushes * SEGMENT).contains(&held),
        "{held}"
    );
    let Reply::Bql(budgets) = lab.ask(set(BqlSetting::LimitMax, 0)) else {
        panic!("another reply");
    };
    assert!(!budgets[0].active);
    let free = lab.departs_in(span);
    assert!(free > 2 * flushes * SEGMENT, "{free}");
    // Started by one setting, the others are Linux's.
    let Reply::Bql(budgets) = lab.ask(set(BqlSetting::LimitMin, 3_000)) else {
        panic!("another reply");
    };
    let b = &budgets[0];
    assert_eq!(
        (b.limit_min, b.limit_max, b.hold_time),
        (3_000, 1_879_048_192, 1_000)
    );
    let Reply::Bql(budgets) = lab.ask(set(BqlSetting::HoldTime, 250)) else {
        panic!("another reply");
    };
    assert_eq!((budgets[0].limit_min, budgets[0].hold_time), (3_000, 250));
    for (setting, value) in [
        (BqlSetting::Limit, 1_879_048_193),
        (BqlSetting::LimitMin, u32::MAX),
        (BqlSetting::LimitMax, 2_999),
        (BqlSetting::HoldTime, 40_000),
    ] {
        let (name, remedy) = lab.refusal(set(setting, value));
        assert_eq!(name, "OUT_OF_RANGE");
        assert!(
            remedy.contains("0..=") || remedy.contains("3000"),
            "{remedy}"
        );
    }
    lab.drain();
}

fn bursts(lab: &mut Lab) -> Vec<u64> {
    lab.stats().queues.iter().map(|q| q.bursts).collect()
}

fn move_core_0_to_queue_1(lab: &mut Lab) {
    for (queue, cpus) in [(0, "0"), (1, "3")] {
        let cpus = cpus.parse().unwrap();
        lab.ask(Request::XpsSet { queue, cpus });
    }
}

#[test]
fn a_busy_flow_follows_its_cpus_by_the_reselection_timer() {
    let mut lab = busy();
    lab.set("net.core.txq_reselection_ms", "0");
    move_core_0_to_queue_1(&mut lab);
    // Something of it always waits for an acknowledgement, and the timer is off.
    lab.run_for(Nanos::from_millis(100));
    let stayed = bursts(&mut lab);
    assert!(stayed[0] > 0 && stayed[1..] == [0, 0, 0], "{stayed:?}");
    let moves = lab.stats().total.queue_moves;
    lab.set("net.core.txq_reselection_ms", "200");
    // The queue was chosen more than that ago: the next burst looks again.
    lab.run_for(Nanos::from_millis(250));
    let before = bursts(&mut lab);
    assert!(before[1] > 0, "{before:?}");
    lab.run_for(Nanos::from_millis(50));
    let after = bursts(&mut lab);
    assert_eq!(after[0], before[0], "nothing goes to the old queue");
    assert!(after[1] > before[1]);
    let c = lab.stats().total;
    assert_eq!((c.queue_moves - moves, c.ooo_moves), (1, 1));
    lab.drain();
}

#[test]
fn an_idle_flow_follows_its_cpus_at_once() {
    let mut lab = busy();
    lab.set("net.core.txq_reselection_ms", "0");
    lab.drain();
    lab.run_for(MS);
    let before = bursts(&mut lab);
    move_core_0_to_queue_1(&mut lab);
    lab.writing = true;
    lab.run_for(Nanos::from_millis(10));
    let after = bursts(&mut lab);
    assert_eq!(after[0], before[0]);
    assert!(after[1] > 0);
    assert_eq!(lab.stats().total.ooo_moves, 0);
}

#[test]
fn masks_show_what_was_set() {
    let mut lab = Lab::new(ByteRate::UNLIMITED, MS);
    let shown = |reply| match reply {
        Reply::Xps(rows) => rows.iter().map(|r| r.cpus.to_string()).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    // One core a queue at the start.
    assert_eq!(shown(lab.ask(Request::XpsShow {})), ["1", "2", "4", "8"]);
    let cpus = "80000000,00000005".parse().unwrap();
    let set = lab.ask(Request::XpsSet { queue: 3, cpus });
    assert_eq!(shown(set), ["1", "2", "4", "80000000,00000005"]);
    assert_eq!(
        shown(lab.ask(Request::XpsShow {})),
        ["1", "2", "4", "80000000,00000005"]
    );
    let map = lab.sender.engine().config().xps.clone().unwrap();
    assert_eq!(map.lookup(63, 0, QUEUES), Some(3));
    assert_eq!(map.lookup(3, 0, QUEUES), None);
    // Core 0 has two queues: the hash chooses.
    assert_eq!(map.lookup(0, 0, QUEUES), Some(0));
    assert_eq!(map.lookup(0, u32::MAX, QUEUES), Some(3));
    let cpus = "1".parse().unwrap();
    let (name, _) = lab.refusal(Request::XpsSet { queue: 4, cpus });
    assert_eq!(name, "NO_SUCH_QUEUE");
}

#[test]
fn without_segmentation_offload_a_burst_is_a_segment() {
    let mut lab = busy();
    let (b, s) = (lab.stats().total.bursts, lab.stats().total.segments);
    assert!(s > 4 * b);
    let set = |on| Request::FeaturesSet {
        name: "tso".into(),
        on,
    };
    let Reply::Features(features) = lab.ask(set(false)) else {
        panic!("another reply");
    };
    let tso = features.iter().filter(|f| f.name.contains("segmentation"));
    assert!(tso.clone().count() == 4 && tso.clone().all(|f| !f.on));
    let before = lab.stats().total;
    lab.run_for(Nanos::from_millis(20));
    let after = lab.stats().total;
    assert!(after.bursts > before.bursts + 100);
    assert_eq!(
        after.segments - before.segments,
        after.bursts - before.bursts
    );
    lab.ask(set(true));
    let before = lab.stats().total;
    lab.run_for(Nanos::from_millis(20));
    let after = lab.stats().total;
    assert!(after.segments - before.segments > 4 * (after.bursts - before.bursts));
    for (name, on, code) in [
        ("tx-tcp6-segmentation", false, "FIXED_FEATURE"),
        ("tx", false, "FIXED_FEATURE"),
        ("lro", true, "UNKNOWN_FEATURE"),
    ] {
        let name = name.to_string();
        assert_eq!(lab.refusal(Request::FeaturesSet { name, on }).0, code);
    }
    lab.drain();
}

#[test]
fn a_queue_that_is_reset_sends_again_what_came_back() {
    for tso in [true, false] {
        let mut lab = busy();
        let name = "tso".to_string();
        lab.ask(Request::FeaturesSet { name, on: tso });
        for _ in 0..5 {
            lab.run_for(Nanos::from_millis(5));
            let before = lab.stats();
            let Reply::QueueReset { queue: 0, bursts } = lab.ask(Request::QueueReset { queue: 0 })
            else {
                panic!("another reply");
            };
            assert_eq!(bursts, before.queues[0].outstanding);
            assert_eq!(lab.stats().queues[0].outstanding, 0);
        }
        lab.run_for(Nanos::from_millis(100));
        let before = lab.received;
        lab.run_for(Nanos::from_millis(50));
        assert!(lab.received > before, "it goes on");
        let c = lab.stats().total;
        assert!(c.failed_bursts > 0, "bursts were in the device");
        lab.drain();
    }
    let mut lab = busy();
    assert_eq!(
        lab.refusal(Request::QueueReset { queue: 9 }).0,
        "NO_SUCH_QUEUE"
    );
}

#[test]
fn tunables_name_their_range_and_tenant() {
    let mut lab = Lab::new(ByteRate::UNLIMITED, MS);
    let set = |tenant, name: &str, value: &str| Request::TunableSet {
        tenant,
        name: name.into(),
        value: value.into(),
    };
    let rtt_log = "net.ipv4.tcp_tso_rtt_log";
    let (name, remedy) = lab.refusal(set(0, rtt_log, "32"));
    assert_eq!(name, "OUT_OF_RANGE");
    assert_eq!(
        remedy,
        format!("{rtt_log} takes an integer 0..=31 or off, not 32")
    );
    assert_eq!(
        lab.refusal(set(0, "net.ipv4.tcp_tso", "1")).0,
        "UNKNOWN_TUNABLE"
    );
    let (name, remedy) = lab.refusal(set(1, rtt_log, "3"));
    assert_eq!(
        (name.as_str(), remedy.as_str()),
        ("NO_SUCH_TENANT", "there is no tenant 1: choose 0 to 0")
    );
    let tenant = lab.sender.engine().add_tenant();
    lab.ask(set(tenant.0, rtt_log, "null"));
    let get = |tenant| Request::TunableGet {
        tenant,
        name: rtt_log.into(),
    };
    for (tenant, value) in [(0, "9"), (1, "off")] {
        let Reply::Tunables(list) = lab.ask(get(tenant)) else {
            panic!("another reply");
        };
        assert_eq!((list.len(), list[0].value.as_str()), (1, value));
    }
    let Reply::Tunables(all) = lab.ask(Request::TunableList { tenant: 0 }) else {
        panic!("another reply");
    };
    assert!(
        all.len() > 30
            && all
                .iter()
                .all(|t| !t.range.is_empty() && !t.help.is_empty())
    );
}

#[test]
fn counters_of_tenants_and_connections_add_up() {
    let mut lab = busy();
    lab.drain();
    lab.run_for(MS);
    let s = lab.stats();
    assert_eq!(s.tenants[0].counters, s.total);
    assert_eq!(s.connections.len(), 1);
    let c = &s.connections[0];
    assert_eq!(
        (c.state.as_str(), c.mss, &c.counters),
        ("ESTABLISHED", 1_448, &s.total)
    );
    assert!(c.paced_by_nic && c.min_rtt_us.is_some_and(|t| t > 100.0));
    assert_eq!(s.fq.flows, 1);
    assert_eq!(
        s.queues.iter().map(|q| q.bursts).sum::<u64>(),
        s.total.bursts
    );
    let frames: u64 = s.queues.iter().map(|q| q.tx["tx-packets"]).sum();
    assert_eq!(frames, s.device["tx-frames"]);
    // The connection goes, and its tenant keeps what it counted.
    let (conn, now) = (lab.conn, lab.sender.now());
    lab.sender.engine().abort(conn);
    lab.sender.turn(|_, _| {}).unwrap();
    lab.sender.turn(|_, _| {}).unwrap();
    assert!(lab.sender.now() >= now);
    let s = lab.stats();
    assert_eq!((s.connections.len(), s.engine.connections), (0, 0));
    assert_eq!(s.tenants[0].counters, s.total);
    assert!(s.total.bursts > 100);
}

#[test]
fn moderation_is_set_and_read_back_up_to_its_limits() {
    let mut lab = Lab::new(ByteRate::UNLIMITED, MS);
    let set = |tx_usecs, tx_frames| Request::CoalesceSet {
        queue: 1,
        tx_usecs,
        tx_frames,
    };
    lab.ask(set(Some(50), Some(16)));
    let Reply::Coalesce(rows) = lab.ask(set(None, Some(8))) else {
        panic!("another reply");
    };
    assert_eq!((rows[1].tx_usecs, rows[1].tx_frames), (50, 8));
    assert_eq!((rows[0].tx_usecs, rows[0].tx_frames), (0, 0));
    assert_eq!(lab.refusal(set(Some(2_000_000), None)).0, "OUT_OF_RANGE");
    let Reply::Coalesce(rows) = lab.ask(set(None, Some(65_535))) else {
        panic!("another reply");
    };
    assert_eq!(rows[1].tx_frames, 65_535, "all that the register holds");
    assert_eq!(lab.refusal(set(None, Some(65_536))).0, "OUT_OF_RANGE");
}
