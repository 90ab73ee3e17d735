// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC in plain Rust: what the logic does, event by event.
//!
//! ```text
//! doorbell -> fetch -> check -> header -> flow's list -> pacer -> due list -> arbiter
//!                                                                              |
//! completion <- MAC <- data path <- segment (header, payload, checksums) <- payload read
//! ```
//!
//! Blocks are one file each: `registers`, `fetch` (descriptors in
//! batches, [`tsonic_regs::check`]), `pacer`, `arbiter`, `budget`, `transmit` (grant to
//! completion), `receive`, and the two that the CLI calls by themselves,
//! [`segment_frame`] and [`classify`].
//!
//! # Time
//! The clock jumps from event to event. A read occupies the memory port for as
//! many ticks as it has words, a frame of n bytes occupies the data path for
//! ceil(n / W) ticks, the arbiter decides every
//! [`ModelConfig::decision_ticks`]. Departure is the tick at which the last byte was
//! handed to the MAC; the pacer's T is the tick of the grant.
//!
//! # Interrupts
//! A vector is posted where the MSI-X table of the function would send its message:
//! table, masks and pending bits belong to the function, not to the NIC.

mod arbiter;
mod budget;
pub mod checksum;
mod classify;
mod config;
mod events;
mod fetch;
mod flow_bytes;
mod moderation;
mod pacer;
mod receive;
mod registers;
mod segment;
mod state;
mod transmit;

pub use classify::{Classified, Layers, Toeplitz, classify};
pub use config::{MAX_SEGMENT_LIMIT, ModelConfig};
pub use pacer::{Pace, Waiting};
pub use segment::{Layout, Place, finish, segment_frame};

use std::collections::VecDeque;

use tsonic_regs::check::BuildLimits;
use tsonic_regs::limits::{DMA_BOUNDARY, DMA_REQUEST_MAX, QUANTUM_RESET};
use tsonic_types::{TickRate, Ticks};

use crate::nic::{Advance, Env, Nic};
use arbiter::{Arbiter, QueueSet};
use moderation::Moderation;
use receive::Receiver;
use registers::Registers;
use state::{Burst, Flow, Job, Read, RxQueue, TxQueue};

/// The NIC model.
pub struct Model {
    config: ModelConfig,
    limits: BuildLimits,
    now: Ticks,
    /// Something happened that the world can see.
    visible: bool,
    registers: Registers,
    tx: Vec<TxQueue>,
    rx: Vec<RxQueue>,
    flows: Vec<Flow>,
    /// Flows waiting for their departure, and queues for their rate gate.
    waiting: Waiting,
    gates: Waiting,
    arbiter: Arbiter,
    bursts: Vec<Burst>,
    free_bursts: Vec<u32>,
    /// Contexts that queues use above their own share.
    shared_used: usize,
    /// Queues with descriptors to fetch, and the one to ask first.
    fetchable: QueueSet,
    fetch_pointer: usize,
    descriptor_reads: usize,
    reads: VecDeque<(Ticks, Read)>,
    /// When the read port has delivered all that was asked for.
    port_free: Ticks,
    jobs: VecDeque<Job>,
    /// Number of the job at the front.
    first_job: u64,
    job_bytes: usize,
    next_grant: Ticks,
    path_free: Ticks,
    mac_ready: Ticks,
    /// When the frame at the front departs.
    departure: Option<Ticks>,
    /// When departed bytes are credited to budgets.
    flush_at: Option<Ticks>,
    moderation: Vec<Moderation>,
    receiver: Receiver,
    frames: Vec<Vec<u8>>,
}

impl Model {
    /// A NIC as after power-on, its clock at 0.
    pub fn new(config: ModelConfig) -> Model {
        let config = config.bounded();
        let queues = config.queues;
        let mut model = Model {
            limits: config.limits(),
            now: Ticks::ZERO,
            visible: false,
            registers: Registers::new(&config),
            tx: Vec::new(),
            rx: Vec::new(),
            flows: Vec::new(),
            waiting: Waiting::default(),
            gates: Waiting::default(),
            arbiter: Arbiter::new(queues, QUANTUM_RESET as u32),
            bursts: Vec::new(),
            free_bursts: Vec::new(),
            shared_used: 0,
            fetchable: QueueSet::default(),
            fetch_pointer: 0,
            descriptor_reads: 0,
            reads: VecDeque::new(),
            port_free: Ticks::ZERO,
            jobs: VecDeque::new(),
            first_job: 0,
            job_bytes: 0,
            next_grant: Ticks::ZERO,
            path_free: Ticks::ZERO,
            mac_ready: Ticks::ZERO,
            departure: None,
            flush_at: None,
            moderation: Vec::new(),
            receiver: Receiver::new(&config),
            frames: Vec::new(),
            config,
        };
        model.power_on();
        model
    }

    /// The build constants.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Bursts in the device.
    pub fn bursts_held(&self) -> usize {
        self.bursts.len() - self.free_bursts.len()
    }

    /// Everything but the clock and the constants as after power-on.
    fn power_on(&mut self) {
        let queues = self.config.queues;
        let generation = |i: usize, old: &[TxQueue]| old.get(i).map_or(0, |q| q.rings.generation);
        let rx_generation =
            |i: usize, old: &[RxQueue]| old.get(i).map_or(0, |q| q.rings.generation);
        self.tx = (0..queues)
            .map(|i| {
                let mut q = TxQueue {
                    gate_open: true,
                    ..TxQueue::default()
                };
                q.rings.generation = generation(i, &self.tx);
                q
            })
            .collect();
        self.rx = (0..queues)
            .map(|i| {
                let mut q = RxQueue::default();
                q.rings.generation = rx_generation(i, &self.rx);
                q
            })
            .collect();
        self.flows = std::iter::repeat_with(Flow::default)
            .take(self.config.flow_slots)
            .collect();
        self.waiting = Waiting::new(self.config.flow_slots);
        self.gates = Waiting::new(queues);
        self.arbiter = Arbiter::new(queues, QUANTUM_RESET as u32);
        self.bursts.clear();
        self.free_bursts.clear();
        self.shared_used = 0;
        self.fetchable = QueueSet::new(queues);
        self.fetch_pointer = 0;
        self.descriptor_reads = 0;
        self.reads.clear();
        self.jobs.clear();
        self.job_bytes = 0;
        self.departure = None;
        self.flush_at = None;
        self.moderation = vec![Moderation::default(); queues];
        self.registers = Registers::new(&self.config);
        self.receiver.reset(&self.registers, queues);
    }

    /// Asks for a range, split as the contract has it, and returns when all of it
    /// has come through the read port.
    fn request(&mut self, env: &mut Env<'_>, iova: u64, bytes: usize) -> Ticks {
        debug_assert!(DMA_BOUNDARY.is_multiple_of(DMA_REQUEST_MAX));
        let (mut at, mut left) = (iova, bytes);
        while left > 0 {
            let to_boundary = DMA_REQUEST_MAX - (at % DMA_REQUEST_MAX as u64) as usize;
            let n = left.min(to_boundary);
            let due = env.memory.read_request(self.now, at, n);
            let beats = self.config.beats((at % 8) as usize + n);
            self.port_free = self.port_free.max(due) + Ticks(beats);
            at = at.wrapping_add(n as u64);
            left -= n;
        }
        self.port_free
    }

    /// Posts a write, split as the contract has it.
    fn post_write(&mut self, env: &mut Env<'_>, iova: u64, data: &[u8]) {
        self.visible = true;
        let (mut at, mut rest) = (iova, data);
        while !rest.is_empty() {
            let to_boundary = DMA_REQUEST_MAX - (at % DMA_REQUEST_MAX as u64) as usize;
            let (now, later) = rest.split_at(rest.len().min(to_boundary));
            env.memory.write(self.now, at, now);
            at = at.wrapping_add(now.len() as u64);
            rest = later;
        }
    }

    /// A completion was written for queue pair `q`: interrupt, now or later.
    fn signal(&mut self, env: &mut Env<'_>, q: usize, at_once: bool) {
        if self.moderation[q].completed(self.now, at_once) {
            self.visible = true;
            env.memory.interrupt(self.now, q as u16);
        }
    }

    /// The earliest event inside the device.
    fn next_internal(&self) -> Option<Ticks> {
        let mut next = u64::MAX;
        let mut at = |t: Option<Ticks>| {
            if let Some(t) = t {
                next = next.min(t.0);
            }
        };
        at(self.reads.front().map(|(due, _)| *due));
        at(self.departure);
        at(self.flush_at);
        at(self.waiting.next());
        at(self.gates.next());
        if self.can_grant() {
            at(Some(self.next_grant.max(self.now)));
        }
        at(self.receiver.next_event());
        for m in &self.moderation {
            at(m.deadline());
        }
        (next != u64::MAX).then_some(Ticks(next))
    }

    /// Does all that is due at `self.now`.
    fn step(&mut self, env: &mut Env<'_>) {
        while let Some((due, _)) = self.reads.front() {
            if *due > self.now {
                break;
            }
            if let Some((_, read)) = self.reads.pop_front() {
                self.read_done(read, env);
            }
        }
        while self.departure.is_some_and(|t| t <= self.now) {
            self.depart(env);
        }
        while let Some(flow) = self.waiting.pop_due(self.now) {
            self.flow_due(flow);
        }
        while let Some(queue) = self.gates.pop_due(self.now) {
            self.tx[queue].gate_open = true;
            self.refresh(queue);
        }
        if self.can_grant() && self.next_grant <= self.now {
            self.grant(env);
        }
        if self.flush_at.is_some_and(|t| t <= self.now) {
            self.flush_credits(env);
        }
        self.receive(env);
        for q in 0..self.moderation.len() {
            if self.moderation[q].deadline().is_some_and(|t| t <= self.now) {
                self.moderation[q].fired();
                self.visible = true;
                env.memory.interrupt(self.now, q as u16);
            }
        }
    }

    fn read_done(&mut self, read: Read, env: &mut Env<'_>) {
        match read {
            Read::Descriptors {
                queue,
                generation,
                index,
                count,
            } => self.descriptors_read(env, queue.into(), generation, index, count),
            Read::Header { burst } => self.header_read(env, burst),
            Read::Payload { job } => self.payload_read(env, job),
            Read::Buffers {
                queue,
                generation,
                index,
                count,
            } => self.buffers_read(env, queue.into(), generation, index, count),
        }
    }
}

impl Nic for Model {
    fn reg_read(&mut self, offset: u32, _env: &mut Env<'_>) -> u32 {
        self.read_register(offset as usize)
    }

    fn reg_write(&mut self, offset: u32, value: u32, env: &mut Env<'_>) {
        self.mac_ready = env.mac.tx_ready_at();
        self.write_register(offset as usize, value, env);
    }

    fn reset(&mut self, _env: &mut Env<'_>) {
        self.power_on();
    }

    fn tick_rate(&self) -> TickRate {
        self.config.tick_rate
    }

    fn now(&self) -> Ticks {
        self.now
    }

    fn next_event(&self) -> Option<Ticks> {
        self.next_internal().map(|t| t.max(self.now))
    }

    fn wait_for_buffers(&mut self, wait: bool) {
        self.receiver.set_patient(wait, self.now);
    }

    fn starving(&self) -> bool {
        self.starving_queue()
            .is_some_and(|q| self.moderation[q].deadline().is_none())
    }

    fn idle(&self) -> bool {
        self.reads.is_empty()
            && self.jobs.is_empty()
            && !self.can_grant()
            && self.receiver.is_idle()
    }

    fn advance(&mut self, until: Ticks, env: &mut Env<'_>) -> Advance {
        self.visible = false;
        loop {
            let arrival = if self.receiver.busy() {
                None
            } else {
                env.mac.rx_next()
            };
            let internal = self.next_internal();
            let next = match (internal, arrival) {
                (Some(a), Some(b)) => a.min(b),
                (Some(t), None) | (None, Some(t)) => t,
                (None, None) => until,
            };
            if next > until || (internal.is_none() && arrival.is_none()) {
                self.now = self.now.max(until);
                return Advance::Until;
            }
            self.now = self.now.max(next);
            self.step(env);
            if self.visible {
                return Advance::Event;
            }
        }
    }
}
