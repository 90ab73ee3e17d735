// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit queues that follow the threads: busy flows whose writers move to other cores.
//!
//! Threads on neighbouring cores write to many flows, each always backlogged, through one
//! NIC whose wire is the bottleneck: what small queues allow a flow waits in the NIC, two
//! bursts. A core sends from the queue that its block of cores has (XPS), so neighbouring
//! cores fill few queues. Then each thread moves to a core of another block. A flow with bytes
//! in the NIC keeps its queue, as a move could reorder it; so busy flows would stay for
//! ever, were it not for `net.core.txq_reselection_ms`, after which a flow looks up its queue all
//! the same.
//!
//! What a move costs depends on who keeps the order. A flow with a row of the NIC's table has
//! its bursts in one list, whatever queues they came from ([`Lists::Flow`]). Bursts without a row
//! wait in the list of their queue, and those of the new one may overtake those of the old one
//! ([`Lists::Queue`]).

use crate::hosts::{Backlog, Hosts, HostsError, Setting};
use serde::Serialize;
use std::time::Duration;
use tsonic_driver::TxConfig;
use tsonic_host::{NicConfig, PoolConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::LinkConfig;
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_types::{ByteRate, CoreId, Nanos};

/// Queue pairs that the experiment wants of the NIC.
pub const QUEUES: u16 = 32;
/// Bursts that the NIC must hold, so that what waits, waits there and not in the rings:
/// half of its contexts are dealt out to the queues, and the other half has to do for two of them.
pub const CONTEXTS: usize = 4_096;
/// Rows of the flow table that flows can have.
pub const ROWS: u32 = 1_023;
/// Cores of a queue.
const BLOCK: u16 = 8;
/// Threads: one on each core from 0 on, then one in each block of cores from the second on.
const THREADS: u16 = 15;
/// Place of a thread's core in its block after it has moved.
const PLACE: u16 = 1;
/// Payload bytes of a burst at most.
const BURST: u32 = 65_536;
/// A send buffer: two bursts in the NIC, and as much to come.
const BUFFER: u32 = 4 * BURST;
/// Segments of the window at the start: two bursts and one on its way, so that no time
/// is spent on growing it.
const WINDOW: u32 = 135;
/// Flows are looked at so often.
const LOOK: Nanos = Nanos(1_000_000);
/// Interrupts: at most so many completions at once, and the longest wait.
const MODERATION: (u32, Nanos) = (256, Nanos(100_000));

/// Where bursts wait in the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Lists {
    /// In the list of their flow, which has a row of the NIC's table.
    Flow,
    /// In the list of their queue.
    Queue,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// `net.core.txq_reselection_ms`.
    pub reselection_ms: u32,
    /// Where bursts wait.
    pub lists: Lists,
}

/// What is the same in all rows.
pub struct Settings<'a> {
    /// Makes a NIC of [`QUEUES`] queue pairs and [`CONTEXTS`] contexts at least.
    pub nic: &'a dyn Fn() -> Box<dyn Nic + Send>,
    /// The bus between it and the host.
    pub bus: RootComplexConfig,
    /// Speed of the wire.
    pub wire: ByteRate,
    /// Flows, 15 to [`ROWS`].
    pub flows: u32,
    /// The rows.
    pub cases: &'a [Case],
    /// Flows open evenly over this time, so that the times of their choices differ.
    pub opening: Duration,
    /// Between that and the move, at least, and between the last flow's move and what is seen
    /// afterwards.
    pub settle: Duration,
    /// How long flows that do not move are watched; from 1 ms on.
    pub watch: Duration,
    /// Seed.
    pub seed: u64,
}

/// What waits in the NIC for one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Waiting {
    /// Queue.
    pub queue: u16,
    /// Bursts posted and not completed.
    pub bursts: u64,
    /// Their wire bytes.
    pub bytes: u64,
}

/// A row of the result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    #[serde(flatten)]
    pub case: Case,
    /// Flows.
    pub flows: u32,
    /// Queues that hold anything just before the threads move.
    pub before: Vec<Waiting>,
    /// The same at the end.
    pub after: Vec<Waiting>,
    /// Largest deviation of a busy queue's bursts at the end from the share of one thread, as a
    /// share of that.
    pub deviation: f64,
    /// The same of its bytes.
    pub deviation_bytes: f64,
    /// Flows that send from the queue of their thread's core at the end.
    pub moved: u32,
    /// Time from the threads' move until the first flow had moved, ms.
    pub first_ms: Option<f64>,
    /// Until the last had; `None` if one has not.
    pub last_ms: Option<f64>,
    /// Longest time that a flow has between two bursts before the threads move, ms.
    pub gap_ms: f64,
    /// The same from there until all flows have moved, or have been watched for long enough.
    pub gap_moving_ms: f64,
    /// Queue moves since the threads' move.
    pub moves: u64,
    /// Those with bytes of the flow in the NIC.
    pub moves_busy: u64,
    /// Segments that arrived behind a gap before the threads move.
    pub reordered_before: u64,
    /// Since then.
    pub reordered: u64,
    /// Flows that have such segments.
    pub reordered_flows: u32,
    /// Most of one flow.
    pub reordered_max: u64,
    /// Payload bytes sent again since the threads' move.
    pub retransmitted: u64,
    /// Posts that found no room in a ring.
    pub no_room: u64,
    /// Segments in a burst, mean.
    pub segments_per_burst: f64,
    /// Payload bits a second that were read after the move.
    pub goodput: f64,
}

impl Row {
    /// Bursts in the NIC before and at the end.
    pub fn bursts(&self) -> (u64, u64) {
        let sum = |all: &[Waiting]| all.iter().map(|w| w.bursts).sum();
        (sum(&self.before), sum(&self.after))
    }
}

fn thread(flow: usize) -> u16 {
    (flow % usize::from(THREADS)) as u16
}

/// Core of a flow's thread, before and after it moves.
fn core(flow: usize, moved: bool) -> CoreId {
    let t = thread(flow);
    CoreId(if moved { (t + 1) * BLOCK + PLACE } else { t })
}

/// Queue that belongs there.
fn home(flow: usize) -> u16 {
    core(flow, true).0 / BLOCK
}

fn busy(backlogs: &[Backlog]) -> Vec<Waiting> {
    let each = backlogs.iter().zip(0..);
    each.filter(|(b, _)| b.bursts > 0)
        .map(|(b, queue)| Waiting {
            queue,
            bursts: b.bursts,
            bytes: b.bytes,
        })
        .collect()
}

/// Largest difference from the share of a thread.
fn deviation(values: impl Iterator<Item = u64> + Clone) -> f64 {
    let share = values.clone().sum::<u64>() as f64 / f64::from(THREADS);
    let worst = values.map(|v| (v as f64 - share).abs()).fold(0.0, f64::max);
    if share > 0.0 { worst / share } else { 0.0 }
}

/// When each flow has last sent a burst, and the longest time between two.
struct Gaps {
    flows: Vec<(u64, Nanos)>,
    longest: Nanos,
}

impl Gaps {
    fn look(&mut self, now: Nanos, hosts: &Hosts) {
        for (i, (bursts, at)) in self.flows.iter_mut().enumerate() {
            let sent = hosts.connection(i).map_or(0, |c| c.counters.bursts);
            if sent != *bursts {
                if *bursts > 0 {
                    self.longest = self.longest.max(now.since(*at));
                }
                (*bursts, *at) = (sent, now);
            }
        }
    }
}

/// Segments that arrived behind a gap, by flow.
fn reordered(hosts: &Hosts) -> Vec<(u16, u64)> {
    let each = hosts.received();
    let mut all: Vec<(u16, u64)> = each
        .map(|i| (i.remote.port(), i.counters.out_of_order_in))
        .collect();
    all.sort_unstable();
    all
}

fn nanos(d: Duration) -> Nanos {
    Nanos(d.as_nanos() as u64)
}

fn start(settings: &Settings<'_>, case: &Case) -> Result<Hosts, HostsError> {
    let path = PathConfig {
        seed: settings.seed,
        ..PathConfig::default()
    };
    let link = LinkConfig {
        line_rate: 8 * settings.wire.0,
        out: path,
        back: path,
    };
    let sysctl = [
        (
            "net.core.txq_reselection_ms",
            case.reselection_ms.to_string(),
        ),
        // Looked at before a burst is posted: two are in the NIC.
        ("net.ipv4.tcp_limit_output_bytes", BURST.to_string()),
        ("net.ipv4.tcp_wmem", format!("4096 {BUFFER} {BUFFER}")),
        ("tsonic.initial_cwnd", WINDOW.to_string()),
        (
            "tsonic.pacing",
            u8::from(case.lists == Lists::Flow).to_string(),
        ),
    ];
    // Three eighths of the chunks are shared, and each connection may have as many as are
    // free: with one share more than there are connections all have theirs.
    let memory = PoolConfig::default();
    let share = BUFFER / memory.chunk_bytes + 2;
    let mut hosts = Hosts::start(&Setting {
        queues: NicConfig {
            queues: Some(QUEUES),
            tx: TxConfig {
                ring_log2: 11,
                completion_log2: 12,
                ..TxConfig::default()
            },
            ..NicConfig::default()
        },
        receiver: NicConfig {
            queues: Some(QUEUES / 8),
            ..NicConfig::default()
        },
        sysctl: &sysctl,
        gso_max: BURST,
        xps: Some(XpsMap::Blocks {
            queues: QUEUES,
            cores_per_queue: BLOCK.into(),
        }),
        connections: settings.flows,
        opening: nanos(settings.opening),
        memory: PoolConfig {
            chunks: (settings.flows + 2) * share * 8 / 3,
            ..memory
        },
        moderation: Some(MODERATION),
        seed: settings.seed,
        ..Setting::new(settings.nic, settings.bus, link)
    })?;
    hosts.place(|flow| core(flow, false));
    Ok(hosts)
}

/// One row.
///
/// # Errors
/// [`HostsError`].
pub fn measure(settings: &Settings<'_>, case: &Case) -> Result<Row, HostsError> {
    let mut hosts = start(settings, case)?;
    let flows = settings.flows as usize;
    let ready = hosts.now() + nanos(settings.opening);
    hosts.run(ready, |_, _| {})?;
    let mut gaps = Gaps {
        flows: vec![(0, ready); flows],
        longest: Nanos::ZERO,
    };
    let move_at = ready + nanos(settings.settle);
    while hosts.now() < move_at {
        let now = hosts.now();
        gaps.look(now, &hosts);
        hosts.run(move_at.min(now + LOOK), |_, _| {})?;
    }

    let moved_at = hosts.now();
    let before = busy(&hosts.backlogs());
    let (counters, look) = (hosts.counters().clone(), hosts.look());
    let out_of_order = reordered(&hosts);
    hosts.place(|flow| core(flow, true));
    let gap = std::mem::take(&mut gaps.longest);

    let mut at_home: Vec<Option<Nanos>> = vec![None; flows];
    let give_up = moved_at + nanos(settings.watch);
    while at_home.contains(&None) && hosts.now() < give_up {
        let next = hosts.now() + LOOK;
        hosts.run(next, |_, _| {})?;
        let now = hosts.now();
        gaps.look(now, &hosts);
        for (flow, at) in at_home.iter_mut().enumerate() {
            let queue = || hosts.connection(flow).and_then(|c| c.queue);
            if at.is_none() && queue() == Some(home(flow)) {
                *at = Some(now);
            }
        }
    }
    let end = hosts.now() + nanos(settings.settle);
    hosts.run(end, |_, _| {})?;

    let after = busy(&hosts.backlogs());
    let (total, seen) = (hosts.counters(), hosts.look());
    let late: Vec<u64> = (reordered(&hosts).iter().zip(&out_of_order))
        .map(|((_, now), (_, then))| now - then)
        .filter(|n| *n > 0)
        .collect();
    let ms = |at: Nanos| at.since(moved_at).0 as f64 / 1e6;
    let each = at_home.iter().flatten().copied();
    let all_there = !at_home.contains(&None);
    let moves = total.queue_moves - counters.queue_moves;
    let moves_busy = total.ooo_moves - counters.ooo_moves;
    let no_room = total.backpressure;
    let span = end.since(moved_at).0 as f64 / 1e9;
    Ok(Row {
        case: *case,
        flows: settings.flows,
        deviation: deviation(after.iter().map(|w| w.bursts)),
        deviation_bytes: deviation(after.iter().map(|w| w.bytes)),
        before,
        after,
        moved: each.clone().count() as u32,
        first_ms: each.clone().min().map(ms),
        last_ms: each.max().filter(|_| all_there).map(ms),
        gap_ms: gap.0 as f64 / 1e6,
        gap_moving_ms: gaps.longest.0 as f64 / 1e6,
        moves,
        moves_busy,
        reordered_before: out_of_order.iter().map(|(_, n)| n).sum(),
        reordered: late.iter().sum(),
        reordered_flows: late.len() as u32,
        reordered_max: late.iter().copied().max().unwrap_or(0),
        retransmitted: seen.retransmitted - look.retransmitted,
        no_room,
        segments_per_burst: (seen.segments - look.segments) as f64
            / (seen.bursts - look.bursts).max(1) as f64,
        goodput: 8.0 * (seen.received - look.received) as f64 / span,
    })
}

/// Runs all rows; `row` gets each as it is there.
///
/// # Errors
/// [`HostsError`].
pub fn run(settings: &Settings<'_>, mut row: impl FnMut(Row)) -> Result<(), HostsError> {
    for case in settings.cases {
        row(measure(settings, case)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rig;
    use tsonic_sim::model::{Model, ModelConfig};

    fn rows(flows: u32, cases: &[(u32, Lists)]) -> Vec<Row> {
        let nic = || -> Box<dyn Nic + Send> {
            Box::new(Model::new(ModelConfig {
                contexts: CONTEXTS,
                ..rig::fast_model()
            }))
        };
        let case = |&(reselection_ms, lists)| Case {
            reselection_ms,
            lists,
        };
        let cases: Vec<Case> = cases.iter().map(case).collect();
        let settings = Settings {
            nic: &nic,
            bus: rig::fast_bus(),
            wire: ByteRate(1_250_000_000),
            flows,
            cases: &cases,
            opening: Duration::from_millis(60),
            settle: Duration::from_millis(40),
            watch: Duration::from_millis(300),
            seed: 1,
        };
        let mut rows = Vec::new();
        run(&settings, |row| rows.push(row)).unwrap();
        rows
    }

    #[test]
    fn flows_follow_their_threads_after_the_reselection_time() {
        let all = rows(
            150,
            &[(0, Lists::Flow), (100, Lists::Flow), (100, Lists::Queue)],
        );
        for row in &all {
            // Eight threads of fifteen write on the cores of the first queue.
            let queues: Vec<u16> = row.before.iter().map(|w| w.queue).collect();
            assert_eq!(queues, [0, 1], "{row:?}");
            let share = row.before[0].bursts as f64 / row.bursts().0 as f64;
            assert!((share - 8.0 / 15.0).abs() < 0.03, "{row:?}");
            // Two bursts a flow, of 45 segments, and none in a ring.
            let each = row.bursts().0 as f64 / f64::from(row.flows);
            assert!((1.7..=2.0).contains(&each), "{row:?}");
            assert!(row.segments_per_burst > 44.5, "{row:?}");
            assert_eq!((row.no_room, row.reordered_before), (0, 0), "{row:?}");
            assert!(row.goodput > 0.93 * 1e10, "{row:?}");
        }
        let [stays, flow, queue] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!((stays.moved, stays.moves, stays.last_ms), (0, 0, None));
        assert_eq!(stays.after.len(), 2, "{stays:?}");
        for row in [flow, queue] {
            let queues: Vec<u16> = row.after.iter().map(|w| w.queue).collect();
            assert_eq!(queues, (1..=15).collect::<Vec<_>>(), "{row:?}");
            assert!(row.deviation <= 0.15, "{row:?}");
            assert!(row.deviation_bytes <= 0.15, "{row:?}");
            assert_eq!((row.moved, row.moves), (150, 150), "{row:?}");
            assert_eq!(row.moves_busy, row.moves, "{row:?}");
            let last = row.last_ms.unwrap();
            // A burst cut before the thread has written from its new core, and the next.
            assert!(last <= 100.0 + 2.0 * row.gap_moving_ms + 1.0, "{row:?}");
        }
        // A flow's list keeps its order; lists of queues do not.
        assert_eq!(flow.reordered, 0, "{flow:?}");
        assert!(queue.reordered_flows >= 15, "{queue:?}");
        assert_eq!(queue.retransmitted, 0, "{queue:?}");
        // And again, bit by bit.
        assert_eq!(rows(150, &[(100, Lists::Flow)]).first(), Some(flow));
    }
}
