// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bench of the scheduler under Verilator: feeds bursts, takes grants, keeps the
//! log that `tsonic_hdl::schedule::check` judges.

#![allow(dead_code)] // Every test file takes what it needs.

use crate::support::design;
use rust_hdl::prelude::Block;
use std::collections::{BTreeMap, VecDeque};
use tsonic_hdl::schedule::check::{Burst, Event, Grant, Segment, Violation, replay, window};
use tsonic_hdl::verilog;
use tsonic_regs::registers::queue::{TX_CONTROL, TX_QUANTUM, TX_RATE_HI, TX_RATE_LO};
use tsonic_verilate::{Input, Model, Optimisation, Output};

macro_rules! ports {
    ($name:ident: $kind:ident, $find:ident { $($port:ident),+ $(,)? }) => {
        struct $name { $($port: $kind),+ }
        impl $name {
            fn of(model: &Model) -> Self {
                Self { $($port: model.$find(stringify!($port)).expect("a port")),+ }
            }
        }
    };
}

ports!(Inputs: Input, input {
    clock, reset, ticks, lateness_debt, cn_target, cfg_valid, cfg_queue, cfg_offset, cfg_value,
    enqueue_valid, enqueue_ctx, enqueue_queue, enqueue_flow_slot, enqueue_inv_rate,
    enqueue_payload_len, enqueue_mss, enqueue_header_len, enqueue_launch_valid, enqueue_launch,
    abort_valid, abort_ctx, budget_ok, grant_ready,
});
ports!(Outputs: Output, output {
    resetting, enqueue_ready, charge_valid, charge_queue, charge_bytes, grant_valid, grant_ctx,
    grant_queue, grant_offset, grant_len, grant_index, grant_first, grant_last, grant_aborted,
    grant_revoked, mark_valid, mark_ctx, idle, next_event_valid, next_event,
});

/// What takes the grants.
#[derive(Clone, Copy, Debug)]
pub enum Sink {
    /// Takes every grant at once.
    Always,
    /// A wire of this many ticks per byte (24 bytes added to a frame) behind
    /// room for `depth` segments.
    Wire {
        /// 256ths of a tick per byte.
        ticks_per_byte_256: u64,
        /// Segments.
        depth: usize,
    },
    /// Ready in this many of 256 cycles.
    Random(u8),
}

/// A burst to be enqueued, without context and tick.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    pub queue: u8,
    pub flow_slot: u16,
    pub inv_rate: u64,
    pub payload_len: u32,
    pub mss: u32,
    pub header_len: u32,
    pub launch: Option<u64>,
}

impl Want {
    /// `segments` segments of `wire` bytes with a header of 54.
    pub fn new(queue: u8, flow_slot: u16, inv_rate: u64, wire: u32, segments: u32) -> Self {
        Self {
            queue,
            flow_slot,
            inv_rate,
            payload_len: (wire - 54) * segments,
            mss: wire - 54,
            header_len: 54,
            launch: None,
        }
    }
}

pub struct Bench {
    model: Model,
    i: Inputs,
    o: Outputs,
    pub ticks: u64,
    pub cycles: u64,
    pub lateness_debt: u64,
    pub cn_target: u64,
    /// Bursts that were marked.
    pub marks: Vec<u8>,
    pub sink: Sink,
    pub log: Vec<Event>,
    pub waiting: VecDeque<Want>,
    pub aborts: VecDeque<u8>,
    pub free: VecDeque<u8>,
    pub grants: Vec<(u64, Grant)>,
    pub budget: u64,
    pub charged: BTreeMap<u8, u64>,
    offered: Option<Burst>,
    /// Cycles until a burst that was taken joins its list.
    departures: VecDeque<u64>,
    wire_free: u64,
    held: Option<Grant>,
    random: u64,
}

/// Compiles a scheduler.
pub fn compile<B: Block>(mut block: B) -> Model {
    block.connect_all();
    let generated = verilog::generate(&block).expect("a block that generates");
    Model::build(&design(&generated), Optimisation::Full).unwrap_or_else(|error| panic!("{error}"))
}

impl Bench {
    pub fn new<B: Block>(block: B) -> Self {
        let model = compile(block);
        let (i, o) = (Inputs::of(&model), Outputs::of(&model));
        let mut bench = Self {
            model,
            i,
            o,
            ticks: 1000,
            cycles: 0,
            lateness_debt: 100_000,
            cn_target: 0,
            marks: Vec::new(),
            sink: Sink::Always,
            log: Vec::new(),
            waiting: VecDeque::new(),
            aborts: VecDeque::new(),
            free: (0..=255).collect(),
            grants: Vec::new(),
            budget: u64::MAX,
            charged: BTreeMap::new(),
            offered: None,
            departures: VecDeque::new(),
            wire_free: 0,
            held: None,
            random: 0x9e37_79b9_7f4a_7c15,
        };
        while bench.cycles < 2 || bench.model.is_high(bench.o.resetting) {
            bench.cycle();
        }
        bench
    }

    fn random(&mut self) -> u8 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 24) as u8
    }

    /// Writes a queue's rate.
    pub fn queue_rate(&mut self, queue: u8, inv_rate: u64) {
        self.configure(queue, TX_RATE_LO.offset, inv_rate as u32);
        self.configure(queue, TX_RATE_HI.offset, (inv_rate >> 32) as u32);
        self.log.push(Event::QueueRate { queue, inv_rate });
    }

    /// Writes a queue's quantum.
    pub fn quantum(&mut self, queue: u8, bytes: u32) {
        self.configure(queue, TX_QUANTUM.offset, bytes);
    }

    /// Turns a queue on or off.
    pub fn enable(&mut self, queue: u8, on: bool) {
        self.log.push(Event::QueueEnable { queue, on });
        self.configure(queue, TX_CONTROL.offset, on.into());
    }

    /// Bursts of a queue that are inside or on their way there.
    pub fn inside(&self, queue: u8) -> usize {
        let mut open = BTreeMap::new();
        for event in &self.log {
            match event {
                Event::Enqueue(b) if b.queue == queue => {
                    open.insert(b.ctx, ());
                }
                Event::Grant(g) if g.last && g.queue == queue => {
                    open.remove(&g.ctx);
                }
                _ => {}
            }
        }
        let coming = self.waiting.iter().filter(|w| w.queue == queue).count();
        let offered = self.offered.is_some_and(|b| b.queue == queue);
        open.len() + coming + usize::from(offered)
    }

    fn configure(&mut self, queue: u8, offset: usize, value: u32) {
        self.model.set(self.i.cfg_valid, 1);
        self.model.set(self.i.cfg_queue, queue.into());
        self.model.set(self.i.cfg_offset, offset as u64);
        self.model.set(self.i.cfg_value, value.into());
        self.cycle();
        self.model.set(self.i.cfg_valid, 0);
    }

    /// Function-level reset, until it is done.
    pub fn reset(&mut self) {
        self.model.set(self.i.reset, 1);
        self.offered = None;
        self.cycle();
        self.model.set(self.i.reset, 0);
        self.held = None;
        self.cycle();
        while self.model.is_high(self.o.resetting) {
            self.cycle();
        }
        self.log.clear();
        self.free = (0..=255).collect();
    }

    pub fn state(&self) -> String {
        format!(
            "idle {} grant {} enqueue ready {} offered {:?}",
            self.model.get(self.o.idle),
            self.model.get(self.o.grant_valid),
            self.model.get(self.o.enqueue_ready),
            self.offered
        )
    }

    pub fn idle(&self) -> bool {
        self.model.is_high(self.o.idle)
            && self.waiting.is_empty()
            && self.offered.is_none()
            && self.aborts.is_empty()
    }

    /// The next event as a tick, if there is one.
    pub fn next_event(&self) -> Option<u64> {
        self.model.is_high(self.o.next_event_valid).then(|| {
            let key = self.model.get(self.o.next_event);
            let mask = (1 << 34) - 1;
            let ahead = key.wrapping_sub(self.ticks) & mask;
            if ahead >> 33 == 0 {
                self.ticks + ahead
            } else {
                self.ticks
            }
        })
    }

    fn ready(&mut self) -> bool {
        match self.sink {
            Sink::Always => true,
            Sink::Random(chance) => self.random() < chance,
            Sink::Wire { depth, .. } => {
                while self
                    .departures
                    .front()
                    .is_some_and(|&tick| tick <= self.ticks)
                {
                    self.departures.pop_front();
                }
                self.departures.len() < depth
            }
        }
    }

    /// One cycle.
    pub fn cycle(&mut self) {
        if self.offered.is_none()
            && let (Some(&ctx), Some(&want)) = (self.free.front(), self.waiting.front())
        {
            self.free.pop_front();
            self.waiting.pop_front();
            self.offered = Some(Burst {
                tick: 0,
                ctx,
                queue: want.queue,
                flow_slot: want.flow_slot,
                inv_rate: want.inv_rate,
                payload_len: want.payload_len,
                mss: want.mss,
                header_len: want.header_len,
                launch: want.launch,
            });
        }
        let ready = self.ready();
        let m = &mut self.model;
        m.set(self.i.clock, 0);
        m.set(self.i.ticks, self.ticks);
        m.set(self.i.lateness_debt, self.lateness_debt);
        m.set(self.i.cn_target, self.cn_target);
        m.set(self.i.budget_ok, self.budget);
        m.set(self.i.grant_ready, ready.into());
        m.set(self.i.enqueue_valid, self.offered.is_some().into());
        if let Some(burst) = self.offered {
            m.set(self.i.enqueue_ctx, burst.ctx.into());
            m.set(self.i.enqueue_queue, burst.queue.into());
            m.set(self.i.enqueue_flow_slot, burst.flow_slot.into());
            m.set(self.i.enqueue_inv_rate, burst.inv_rate);
            m.set(self.i.enqueue_payload_len, burst.payload_len.into());
            m.set(self.i.enqueue_mss, burst.mss.into());
            m.set(self.i.enqueue_header_len, burst.header_len.into());
            m.set(self.i.enqueue_launch_valid, burst.launch.is_some().into());
            m.set(self.i.enqueue_launch, burst.launch.unwrap_or(u64::MAX));
        }
        let abort = self.aborts.pop_front();
        m.set(self.i.abort_valid, abort.is_some().into());
        m.set(self.i.abort_ctx, abort.unwrap_or(0).into());
        m.eval();
        if let Some(ctx) = abort {
            self.log.push(Event::Abort {
                tick: self.ticks,
                ctx,
            });
        }
        let high = |port| self.model.is_high(port);
        let get = |port| self.model.get(port) as u32;
        let grant = high(self.o.grant_valid).then(|| Grant {
            tick: self.ticks,
            ctx: get(self.o.grant_ctx) as u8,
            queue: get(self.o.grant_queue) as u8,
            offset: get(self.o.grant_offset),
            len: get(self.o.grant_len),
            index: get(self.o.grant_index),
            first: high(self.o.grant_first),
            last: high(self.o.grant_last),
            aborted: high(self.o.grant_aborted),
            revoked: high(self.o.grant_revoked),
        });
        // A grant that stands does not change.
        if let Some(held) = self.held {
            let now = grant.map(|grant| Grant {
                tick: held.tick,
                ..grant
            });
            assert_eq!(now, Some(held), "a grant changed before it was taken");
        }
        self.held = grant.filter(|_| !ready);
        if high(self.o.mark_valid) {
            self.marks.push(get(self.o.mark_ctx) as u8);
        }
        if high(self.o.charge_valid) {
            *self
                .charged
                .entry(get(self.o.charge_queue) as u8)
                .or_default() += u64::from(get(self.o.charge_bytes));
        }
        if high(self.o.enqueue_ready)
            && let Some(burst) = self.offered.take()
        {
            self.log.push(Event::Enqueue(Burst {
                tick: self.ticks + 1,
                ..burst
            }));
        }
        if let Some(grant) = grant.filter(|_| ready) {
            self.log.push(Event::Grant(grant));
            self.grants.push((self.cycles, grant));
            if let Sink::Wire {
                ticks_per_byte_256, ..
            } = self.sink
            {
                let bytes = u64::from(grant.len) + 54 + 24;
                self.wire_free = self.wire_free.max(self.ticks * 256) + bytes * ticks_per_byte_256;
                self.departures.push_back(self.wire_free / 256);
            }
            if grant.last {
                self.free.push_back(grant.ctx);
            }
        }
        self.model.set(self.i.clock, 1);
        self.model.eval();
        self.ticks += 1;
        self.cycles += 1;
    }

    /// Runs until idle without a next event, skipping idle time.
    pub fn drain(&mut self) {
        let mut quiet = 0;
        for _ in 0..1_000_000 {
            self.cycle();
            quiet = if self.idle() { quiet + 1 } else { 0 };
            if quiet > 1 {
                match self.next_event() {
                    Some(tick) => self.ticks = self.ticks.max(tick),
                    None => return,
                }
            }
        }
        panic!("the scheduler does not come to rest");
    }

    /// Replays the log, and the window bound of every paced flow of one rate.
    pub fn check(&self, drained: bool) -> Vec<Segment> {
        let segments = match replay(&self.log, self.lateness_debt, drained) {
            Ok(segments) => segments,
            Err(violation) => panic!("{violation}"),
        };
        let mut rates: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        for s in &segments {
            rates
                .entry(s.burst.flow_slot)
                .or_default()
                .push(s.burst.inv_rate);
        }
        for (slot, mut list) in rates {
            list.dedup();
            if slot != 0
                && list.len() == 1
                && let Err(violation) = window(&segments, slot, self.lateness_debt)
            {
                panic!("{violation}");
            }
        }
        segments
    }
}

/// Fails the test with the violation's words.
pub fn pass<T>(result: Result<T, Violation>) -> T {
    result.unwrap_or_else(|violation| panic!("{violation}"))
}

/// Inverse rate of `ticks` per byte.
pub fn inv(ticks_per_byte: f64) -> u64 {
    (ticks_per_byte * f64::from(1 << 28)).ceil() as u64
}
