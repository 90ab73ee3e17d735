// SPDX-License-Identifier: MIT OR Apache-2.0
//! What engine and driver cost a core, beside smoltcp.
//!
//! Both send TCP over a wire of 100 Gb/s to the same far end, which acknowledges
//! and sends nothing. Frames hold 1,460 bytes; checksums are the device's. Ours is on the NIC
//! model: descriptors, payload and completions go through the memory that the driver
//! registers. smoltcp is on a link in memory that takes frames where smoltcp wrote them.
//!
//! Both hosts are polled every 20 us of virtual time. What counts is the time of this thread on
//! its core during the host's turns: the application's write with its copy, stack and driver, sending
//! and taking in acknowledgements. What the model, the wire and the far end take is
//! measured, too, and shown as a share; so is nothing but the sender.
//!
//! *Backlog*: each connection always has data. *Messages*: all connections are open, and get
//! a message of 14,600 bytes in turn, 8 in 20 us, so that the load is the same
//! whatever their number.

mod far;
mod ours;
mod smol;
#[cfg(test)]
mod tests;

use crate::meter::{self, Spent};
use far::{Arrived, Far, MSS, PERIOD};
use ours::Ours;
use serde::{Deserialize, Serialize};
use smol::Smol;
use thiserror::Error;
use tsonic_host::HostError;
use tsonic_sim::rtl::RtlError;

pub use far::CONNECTIONS_MAX;

/// Speed of the wire in bits per second.
const WIRE_BITS: u64 = 100_000_000_000;
/// Virtual time from one turn of a host to the next.
const TURN_NS: u64 = 20_000;
/// Messages of the load [`Load::Messages`].
const MESSAGE: usize = 10 * MSS;
const PER_TURN: usize = 8;
/// Send buffer of a connection: so much for all, within limits.
const BUFFERS: usize = 64 << 20;
const BUFFER: (usize, usize) = (65_536, 1 << 20);
const MESSAGE_BUFFER: usize = 65_536;
/// Segments, at least, before anything counts, and turns.
const WARM_UP: u64 = 20_000;
const WARM_UP_TURNS: u64 = 200;
/// Turns without progress after which something is wrong.
const PATIENCE: u64 = 200_000;

/// Why there is no result.
#[derive(Debug, Error)]
pub enum ThroughputError {
    /// The NIC.
    #[error(transparent)]
    Nic(#[from] RtlError),
    /// Our host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Our engine.
    #[error("the engine: {0}")]
    Engine(#[from] tsonic_tcp::Error),
    /// smoltcp.
    #[error("smoltcp does not open a connection: {0}")]
    Smoltcp(String),
    /// Nothing arrives.
    #[error(
        "{stack} with {connections} connections stands still: {segments} segments have arrived, {connected} connections are open"
    )]
    Stalled {
        /// Whose run.
        stack: Stack,
        /// Asked for.
        connections: usize,
        /// So far.
        segments: u64,
        /// So far.
        connected: usize,
    },
    /// More connections than there are ports for.
    #[error("{0} connections are asked for; give 1 to {CONNECTIONS_MAX}")]
    Connections(usize),
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stack {
    /// Engine and driver of this project.
    Tsonic,
    /// smoltcp.
    Smoltcp,
}

impl std::fmt::Display for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stack::Tsonic => "tsonic",
            Stack::Smoltcp => "smoltcp",
        })
    }
}

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traffic {
    /// Each connection always has data.
    Backlog,
    /// A message to each connection in turn.
    Messages,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Case {
    /// Who sends.
    pub stack: Stack,
    /// What.
    pub traffic: Traffic,
    /// Connections.
    pub connections: usize,
    /// Whether the device cuts bursts into segments.
    pub bursts: bool,
    /// Segments of a connection that are acknowledged at once; fewer after 40 us, one alone
    /// after 10 ms.
    pub per_ack: u32,
}

/// How often and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Rounds. In each, every stack has its turn.
    pub rounds: usize,
    /// Segments, at least, of a round of one stack.
    pub segments: u64,
}

/// A row of the result. Where there are three values they are the least of all rounds, their
/// median, and the largest.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Row {
    /// What was run.
    #[serde(flatten)]
    pub case: Case,
    /// Payload that arrived in order, Gb/s of a core that does nothing else.
    pub goodput_gbps: [f64; 3],
    /// Segments of data, per second of a core.
    pub packets_per_s: [f64; 3],
    /// Time on the core for a segment of data, ns.
    pub ns_per_packet: [f64; 3],
    /// Segments of data that the stack hands over at once, on average.
    pub packets_per_burst: f64,
    /// Segments of data that an acknowledgement is for, on average.
    pub packets_per_ack: f64,
    /// Share of all time that the device, the wire and the far end took, 0 to 1.
    pub device_share: f64,
    /// Time to copy the payload of a segment once, ns: below this comes no stack that copies
    /// what it is given.
    pub copy_ns_per_packet: f64,
    /// Goodput over that of smoltcp without bursts and else the same, if that was run
    /// beside it.
    pub times_smoltcp: Option<f64>,
    /// Segments of data of all rounds.
    pub packets: u64,
    /// Instructions of the host for a segment of data, if they were counted.
    pub instructions_per_packet: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    Backlog,
    Messages { bytes: usize, per_turn: usize },
}

/// What a sender is made for.
#[derive(Clone, Copy, Debug)]
struct Plan {
    connections: usize,
    per_ack: u32,
    load: Load,
    /// Send buffer of a connection, bytes.
    buffer: u32,
    /// The far end compares every byte.
    check: bool,
}

impl Plan {
    fn of(case: &Case, check: bool) -> Plan {
        let (load, buffer) = match case.traffic {
            Traffic::Backlog => {
                let share = BUFFERS / case.connections.max(1);
                (Load::Backlog, share.clamp(BUFFER.0, BUFFER.1))
            }
            Traffic::Messages => {
                let (bytes, per_turn) = (MESSAGE, PER_TURN);
                (Load::Messages { bytes, per_turn }, MESSAGE_BUFFER)
            }
        };
        Plan {
            connections: case.connections,
            per_ack: case.per_ack.max(1),
            load,
            buffer: buffer as u32,
            check,
        }
    }
}

/// A host that sends, with its device and the far end.
trait Sender {
    /// A turn of the host, then what happens until the next.
    fn turn(&mut self) -> Result<(), ThroughputError>;
    /// Connections that were made.
    fn connected(&self) -> usize;
    fn far(&self) -> &Far;
    fn spent(&self) -> Spent;
    /// What was handed to the device so far, in bursts.
    fn bursts(&mut self) -> u64;
    /// Others have run since the last turn.
    fn resume(&mut self);
    /// From now on turns run under the name that a profiler counts, and are not timed.
    fn count(&mut self);
}

/// The pattern of the data, long enough for a write of `bytes` from any place of it.
fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes + PERIOD).map(|i| (i % PERIOD) as u8).collect()
}

/// A sender that is running.
struct Run {
    case: Case,
    sender: Box<dyn Sender>,
    rounds: Vec<Round>,
    /// Time to copy a segment once, ns, for each round.
    copies: Vec<f64>,
}

/// What a round brought.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    spent: Spent,
    arrived: Arrived,
    bursts: u64,
}

impl Run {
    /// Connects.
    fn open(case: Case, check: bool) -> Result<Run, ThroughputError> {
        if !(1..=CONNECTIONS_MAX).contains(&case.connections) {
            return Err(ThroughputError::Connections(case.connections));
        }
        let plan = Plan::of(&case, check);
        let sender: Box<dyn Sender> = match case.stack {
            Stack::Tsonic => Box::new(Ours::new(plan, case.bursts)?),
            Stack::Smoltcp => Box::new(Smol::new(plan, case.bursts)),
        };
        let mut run = Run {
            case,
            sender,
            rounds: Vec::new(),
            copies: Vec::new(),
        };
        run.until(|sender| sender.connected() >= case.connections)?;
        Ok(run)
    }

    /// Connects, and sends until it goes at its usual pace.
    fn start(case: Case, check: bool) -> Result<Run, ThroughputError> {
        let mut run = Run::open(case, check)?;
        // Each connection has sent, so that what it takes at first has been taken.
        let segments = match case.traffic {
            Traffic::Backlog => WARM_UP,
            Traffic::Messages => WARM_UP.max((case.connections * (MESSAGE / MSS + 1)) as u64),
        };
        let target = run.sender.far().arrived().segments + segments;
        let mut turns = 0;
        run.until(|sender| {
            turns += 1;
            turns > WARM_UP_TURNS && sender.far().arrived().segments >= target
        })?;
        Ok(run)
    }

    fn until(&mut self, mut done: impl FnMut(&dyn Sender) -> bool) -> Result<(), ThroughputError> {
        let progress = |s: &dyn Sender| (s.far().arrived().segments, s.connected());
        let (mut last, mut idle) = (progress(&*self.sender), 0);
        while !done(&*self.sender) {
            self.sender.turn()?;
            let now = progress(&*self.sender);
            idle = if now == last { idle + 1 } else { 0 };
            last = now;
            if idle > PATIENCE {
                return Err(ThroughputError::Stalled {
                    stack: self.case.stack,
                    connections: self.case.connections,
                    segments: now.0,
                    connected: now.1,
                });
            }
        }
        Ok(())
    }

    fn so_far(&mut self) -> Round {
        Round {
            spent: self.sender.spent(),
            arrived: self.sender.far().arrived(),
            bursts: self.sender.bursts(),
        }
    }

    fn round(&mut self, segments: u64) -> Result<(), ThroughputError> {
        self.sender.resume();
        let before = self.so_far();
        let target = before.arrived.segments + segments;
        self.until(|sender| sender.far().arrived().segments >= target)?;
        let after = self.so_far();
        self.rounds.push(after.since(&before));
        Ok(())
    }

    fn row(&self) -> Row {
        let of = |f: fn(&Round) -> f64| spread(self.rounds.iter().map(f).collect());
        let sum = |f: fn(&Round) -> u64| self.rounds.iter().map(f).sum::<u64>() as f64;
        let packets = sum(|r| r.arrived.segments);
        let (host, device) = (sum(|r| r.spent.host), sum(|r| r.spent.device));
        Row {
            case: self.case,
            // Bits per ns are Gb/s.
            goodput_gbps: of(|r| 8.0 * r.arrived.bytes as f64 / r.host()),
            packets_per_s: of(|r| 1e9 * r.arrived.segments as f64 / r.host()),
            ns_per_packet: of(|r| r.host() / r.arrived.segments.max(1) as f64),
            packets_per_burst: packets / sum(|r| r.bursts).max(1.0),
            packets_per_ack: packets / sum(|r| r.arrived.acks).max(1.0),
            device_share: device / (host + device).max(1.0),
            packets: packets as u64,
            copy_ns_per_packet: spread(self.copies.clone())[1],
            times_smoltcp: None,
            instructions_per_packet: None,
        }
    }
}

/// Least, median, largest; zeros of none.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let at = |i: usize| values.get(i).copied().unwrap_or(0.0);
    let last = values.len().saturating_sub(1);
    [at(0), at(last / 2), at(last)]
}

/// Time to copy the payload of a segment once, ns, in writes of a burst through memory of
/// the size of the send buffers: below this comes no stack that copies what it is given.
struct Copies {
    from: Vec<u8>,
    to: Vec<u8>,
    at: usize,
}

impl Copies {
    const WRITE: usize = 44 * MSS;
    const SEGMENTS: usize = 8_800;

    fn new(case: &Case) -> Copies {
        let plan = Plan::of(case, false);
        let buffers = match plan.load {
            Load::Backlog => plan.connections * plan.buffer as usize,
            Load::Messages { bytes, per_turn } => 4 * bytes * per_turn,
        };
        Copies {
            from: pattern(Copies::WRITE),
            to: vec![1; buffers.clamp(Copies::WRITE, BUFFERS)],
            at: 0,
        }
    }

    fn round(&mut self) -> f64 {
        let start = meter::now();
        for _ in 0..Copies::SEGMENTS * MSS / Copies::WRITE {
            if self.at + Copies::WRITE > self.to.len() {
                self.at = 0;
            }
            let end = self.at + Copies::WRITE;
            if let (Some(to), Some(from)) = (
                self.to.get_mut(self.at..end),
                self.from.get(..Copies::WRITE),
            ) {
                to.copy_from_slice(from);
            }
            self.at = end;
            std::hint::black_box(&mut self.to);
        }
        (meter::now() - start) as f64 / Copies::SEGMENTS as f64
    }
}

impl Round {
    /// Time on the core, ns; never 0, so that it may divide.
    fn host(&self) -> f64 {
        self.spent.host.max(1) as f64
    }

    fn since(&self, before: &Round) -> Round {
        let (a, b) = (&self.arrived, &before.arrived);
        Round {
            spent: Spent {
                host: self.spent.host - before.spent.host,
                device: self.spent.device - before.spent.device,
            },
            arrived: Arrived {
                bytes: a.bytes - b.bytes,
                segments: a.segments - b.segments,
                acks: a.acks - b.acks,
                misplaced: a.misplaced - b.misplaced,
                wrong: a.wrong - b.wrong,
                connections: a.connections - b.connections,
            },
            bursts: self.bursts - before.bursts,
        }
    }
}

/// Runs `cases` side by side, round by round, in this thread.
///
/// # Errors
/// [`ThroughputError`].
pub fn run(settings: &Settings, cases: &[Case]) -> Result<Vec<Row>, ThroughputError> {
    let runs = cases.iter().map(|c| Run::start(*c, false));
    let mut runs = runs.collect::<Result<Vec<_>, _>>()?;
    let mut copies: Vec<Copies> = cases.iter().map(Copies::new).collect();
    for _ in 0..settings.rounds.max(1) {
        for (run, copies) in runs.iter_mut().zip(&mut copies) {
            run.round(settings.segments)?;
            run.copies.push(copies.round());
        }
    }
    let mut rows: Vec<Row> = runs.iter().map(Run::row).collect();
    let plain: Vec<(Case, f64)> = rows.iter().map(|r| (r.case, r.goodput_gbps[1])).collect();
    for row in &mut rows {
        let beside = Case {
            stack: Stack::Smoltcp,
            bursts: false,
            ..row.case
        };
        let found = plain.iter().find(|p| p.0 == beside);
        row.times_smoltcp = found.map(|p| row.goodput_gbps[1] / p.1);
    }
    Ok(rows)
}

/// What the experiment itself keeps on the heap for a connection: bytes.
pub const OWN_BYTES: usize = far::CONNECTION_BYTES + size_of::<tsonic_tcp::ConnId>() + 8;
/// Buffers of a connection of smoltcp with messages: bytes.
pub const SMOLTCP_BUFFERS: usize = MESSAGE_BUFFER + smol::RECEIVE_BUFFER;

/// Connections that are open and do nothing.
pub struct Open(Run);

impl Open {
    /// Opens those of `case`.
    ///
    /// # Errors
    /// [`ThroughputError`].
    pub fn new(case: Case) -> Result<Open, ThroughputError> {
        Run::open(case, false).map(Open)
    }

    /// How many there are.
    pub fn connections(&self) -> usize {
        self.0.sender.connected()
    }
}

/// Runs `case` for a profiler: after the warm-up all turns of the host are below a function
/// [`COUNTED`], and what they ask of the device below [`LEFT_OUT`]. Answers the segments of
/// data that arrived meanwhile.
///
/// # Errors
/// [`ThroughputError`].
pub fn count(case: Case, segments: u64) -> Result<u64, ThroughputError> {
    let mut run = Run::start(case, false)?;
    run.sender.count();
    run.round(segments)?;
    Ok(run.rounds.iter().map(|r| r.arrived.segments).sum())
}

/// Names of the functions whose instructions count, with all that they call.
pub const COUNTED: [&str; 2] = ["tsonic_bench_ours", "tsonic_bench_smoltcp"];
/// Name of the function below those that does not count.
pub const LEFT_OUT: &str = crate::metered::DEVICE;
