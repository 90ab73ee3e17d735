// SPDX-License-Identifier: MIT OR Apache-2.0
//! The small-queue limit tied to the queue's byte budget (`tsonic.tsq_bql`): how many bytes
//! of a flow are in the NIC, and that the flow keeps going.

mod common;
use common::*;
use tsonic_tcp::ConnId;
use tsonic_types::{CoreId, Nanos, TenantId};

/// Payload of a burst here, and its size by the measure of small queues.
const GSO_MAX: u32 = 10 * 1448;
const TRUESIZE: u64 = GSO_MAX as u64 + 320;

struct Run {
    w: World,
    a: ConnId,
    b: ConnId,
    block: Vec<u8>,
    /// Bytes received.
    got: u64,
}

impl Run {
    fn new(tied: bool, bql: Option<u64>) -> Run {
        let mut w = World::new(9, Link::clean(500));
        w.hosts[0].nic.bql = bql;
        w.hosts[0].engine.set_gso(Some(GSO_MAX), true);
        let (a, b) = w.connect();
        let mut run = Run {
            w,
            a,
            b,
            block: vec![0; 65_536],
            got: 0,
        };
        run.tie(tied);
        // Through slow start.
        run.most_in_nic(Nanos::from_millis(100));
        run
    }

    fn tie(&mut self, tied: bool) {
        let t = self.w.hosts[0].engine.tunables_mut(TenantId(0)).unwrap();
        t.set("tsonic.tsq_bql", if tied { "1" } else { "0" })
            .unwrap();
    }

    /// Sends for a while; the most bytes of the flow that were in the NIC.
    fn most_in_nic(&mut self, span: Nanos) -> u64 {
        let end = self.w.now + span;
        let mut most = 0;
        while self.w.now < end {
            while self.w.hosts[0]
                .engine
                .write(self.a, CoreId(0), &self.block)
                .is_ok()
            {}
            while let Ok(n) = self.w.hosts[1].engine.read(self.b, &mut self.block) {
                self.got += n as u64;
            }
            self.w.poll();
            most = most.max(self.w.hosts[0].engine.info(self.a).unwrap().in_nic);
            assert!(self.w.step(), "nothing is under way");
        }
        most
    }

    fn stops(&self) -> u64 {
        self.w.hosts[0].engine.counters().total.tsq_stops
    }

    /// MB/s over a while.
    fn goodput(&mut self, span: Nanos) -> f64 {
        let before = self.got;
        self.most_in_nic(span);
        (self.got - before) as f64 * 1e3 / span.0 as f64
    }
}

const WHILE: Nanos = Nanos::from_millis(100);

#[test]
fn a_flow_keeps_to_the_budget_and_one_burst() {
    for budget in [0, 5_000, 30_000, 60_000] {
        let mut run = Run::new(true, Some(budget));
        let stops = run.stops();
        let most = run.most_in_nic(WHILE);
        // What is compared with the limit is there already: a burst more may go.
        let limit = budget + TRUESIZE;
        assert!(most < limit + TRUESIZE, "{budget}: {most}");
        assert!(most + TRUESIZE > limit, "{budget}: {most} uses the limit");
        assert!(
            run.stops() > stops + 100,
            "{budget}: the limit is what stops it"
        );
    }
}

#[test]
fn a_single_flow_is_not_starved_by_its_own_bytes() {
    // The rest of a budget that the flow itself fills would be nothing.
    let mut run = Run::new(true, Some(30_000));
    let rate = run.goodput(WHILE);
    assert!(rate > 100.0, "{rate}");
}

#[test]
fn the_limit_follows_the_budget_as_it_changes() {
    let mut run = Run::new(true, Some(60_000));
    let wide = run.most_in_nic(WHILE);
    run.w.hosts[0].nic.bql = Some(5_000);
    run.most_in_nic(Nanos::from_millis(5));
    let narrow = run.most_in_nic(WHILE);
    assert!(
        narrow < 5_000 + 2 * TRUESIZE && wide > 60_000,
        "{wide}, then {narrow}"
    );
}

#[test]
fn off_or_without_a_budget_the_rate_decides() {
    let most = |tied, bql| Run::new(tied, bql).most_in_nic(WHILE);
    let off = most(false, Some(5_000));
    assert_eq!(most(true, None), off, "a port that reports none");
    assert_eq!(most(false, None), off);
    assert!(off > 100_000, "{off}");
    let mut run = Run::new(false, Some(5_000));
    run.tie(true);
    run.most_in_nic(Nanos::from_millis(5));
    let tied = run.most_in_nic(WHILE);
    assert!(tied < 5_000 + 2 * TRUESIZE, "{tied}");
}

#[test]
fn bursts_that_come_back_together_are_one_failure() {
    // All of a reset queue's bursts, far more than retries2, without an end of the
    // connection.
    let mut run = Run::new(false, None);
    run.w.hosts[0].engine.set_gso(None, false);
    run.most_in_nic(Nanos::from_millis(20));
    let now = run.w.now;
    let host = &mut run.w.hosts[0];
    let back = host.nic.recall();
    assert!(back.len() > 20, "{}", back.len());
    for c in &back {
        host.engine.on_tx_completion(now, c);
    }
    assert!(run.goodput(WHILE) > 50.0);
    let c = run.w.hosts[0].engine.counters().total.clone();
    assert_eq!((c.failed_bursts, c.rto_count), (back.len() as u64, 0));
}
