// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dynamic queue limit three times: the reference arithmetic, `tsonic explain`,
//! and the budget block of the logic, compiled. Each trace of queueings and
//! completions gives the same limit, room and bytes in flight after every event.

mod golden;

use golden::{ask, rows};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};
use tsonic_sim::dql::{Dql, MAX_LIMIT, StallDetector};

/// A trace and what it starts from.
struct Trace {
    limit: u32,
    min: u32,
    max: u32,
    hold: u32,
    now: u64,
    /// Queued or completed, bytes, time.
    events: Vec<(bool, u32, u64)>,
}

/// Limit, room, in flight.
type State = (u32, i64, u32);

impl Trace {
    /// The reference arithmetic.
    fn reference(&self) -> Vec<State> {
        let mut dql = Dql::new(self.limit, self.min, self.max, self.hold.into(), self.now);
        let step = |&(queued, bytes, t): &(bool, u32, u64)| {
            let done = match queued {
                true => dql.queue(bytes),
                false => dql.complete(bytes, t),
            };
            done.expect("a trace that may happen");
            (dql.limit(), dql.avail(), dql.inflight())
        };
        self.events.iter().map(step).collect()
    }

    fn question(&self, id: usize) -> Value {
        let event = |&(queued, bytes, t): &(bool, u32, u64)| {
            json!([if queued { "q" } else { "c" }, bytes, t])
        };
        json!({
            "id": id, "fn": "dql", "hold": self.hold, "min": self.min, "max": self.max,
            "now": self.now, "limit": self.limit,
            "events": self.events.iter().map(event).collect::<Vec<_>>(),
        })
    }
}

fn states(answer: &Value) -> Vec<State> {
    let step = |s: &Value| {
        let number = |key: &str| s[key].as_i64().unwrap_or_else(|| panic!("{answer}"));
        (
            number("limit") as u32,
            number("avail"),
            number("inflight") as u32,
        )
    };
    let steps = answer.get("steps").and_then(Value::as_array);
    steps
        .unwrap_or_else(|| panic!("{answer}"))
        .iter()
        .map(step)
        .collect()
}

/// A random trace: queues that run dry and queues that never do.
fn random(rng: &mut Pcg64Mcg) -> Trace {
    let min = rng.random_range(0..40_000) * rng.random_range(0..2);
    let max = [MAX_LIMIT, rng.random_range(40_000..400_000)][rng.random_range(0..2)];
    let mut trace = Trace {
        limit: rng.random_range(0..200_000) * rng.random_range(0..2),
        min,
        max,
        hold: [50, 1_000, 100_000][rng.random_range(0..3)],
        now: rng.random_range(0..1_000),
        events: Vec::new(),
    };
    let (mut now, mut flying) = (trace.now, 0u32);
    let drains = rng.random_range(0.0..0.5);
    for _ in 0..rng.random_range(1..120) {
        now += [0, 1, rng.random_range(0..600)][rng.random_range(0..3)];
        if rng.random_bool(0.55) {
            let bytes = rng.random_range(1..70_000);
            flying += bytes;
            trace.events.push((true, bytes, now));
        } else {
            let bytes = match rng.random_bool(drains) {
                true => flying,
                false => rng.random_range(0..=flying),
            };
            flying -= bytes;
            trace.events.push((false, bytes, now));
        }
    }
    trace
}

fn vectors() -> Vec<(Trace, Vec<State>)> {
    let rows = rows("tcp.json");
    let trace = |row: &Value| {
        let ask = &row["ask"];
        let number = |key: &str, or: u64| ask.get(key).map_or(or, |v| v.as_u64().unwrap());
        let event = |e: &Value| {
            let bytes = e[1].as_u64().unwrap() as u32;
            (e[0] == "q", bytes, e[2].as_u64().unwrap())
        };
        let trace = Trace {
            limit: number("limit", 0) as u32,
            min: number("min", 0) as u32,
            max: number("max", MAX_LIMIT.into()) as u32,
            hold: number("hold", 0) as u32,
            now: number("now", 0),
            events: ask["events"]
                .as_array()
                .unwrap()
                .iter()
                .map(event)
                .collect(),
        };
        (trace, states(&row["expect"]))
    };
    let is_dql = |row: &&Value| row["ask"]["fn"] == "dql";
    rows.iter().filter(is_dql).map(trace).collect()
}

/// Runs the traces on all three.
fn compare(traces: &[Trace], expected: &[Vec<State>]) {
    let questions: Vec<Value> = traces
        .iter()
        .enumerate()
        .map(|(i, t)| t.question(i))
        .collect();
    let answers = ask(&["explain"], &questions);
    let mut block = block::Block::new();
    for (i, trace) in traces.iter().enumerate() {
        assert_eq!(trace.reference(), expected[i], "trace {i}: reference");
        assert_eq!(states(&answers[i]), expected[i], "trace {i}: explain");
        let queue = i as u64 % block::QUEUES;
        assert_eq!(block.run(queue, trace), expected[i], "trace {i}: logic");
    }
}

#[test]
fn golden_traces_are_the_same_in_reference_command_and_logic() {
    let (traces, expected): (Vec<_>, Vec<_>) = vectors().into_iter().unzip();
    assert!(traces.len() >= 20, "{} traces", traces.len());
    compare(&traces, &expected);
    let events: usize = expected.iter().map(Vec::len).sum();
    println!("{} traces, {events} events", traces.len());
}

#[test]
fn random_traces_are_the_same_in_reference_command_and_logic() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let traces: Vec<Trace> = (0..1_000).map(|_| random(&mut rng)).collect();
    let expected: Vec<_> = traces.iter().map(Trace::reference).collect();
    compare(&traces, &expected);
    let events: usize = expected.iter().map(Vec::len).sum();
    println!("{} traces, {events} events", traces.len());
}

#[test]
fn stalls_are_those_of_the_reference() {
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    let mut block = block::Block::new();
    let (mut found, mut clock) = (0, 0u64);
    for round in 0..300 {
        let q = round % block::QUEUES;
        let threshold = rng.random_range(0..40u64);
        clock += rng.random_range(0..100);
        let mut reference = StallDetector::new(threshold, clock);
        block.watch(q, threshold, clock);
        let mut flying = 0;
        for _ in 0..rng.random_range(1..30) {
            clock +=
                [0, 1, rng.random_range(0..60), rng.random_range(0..400)][rng.random_range(0..4)];
            // At times beyond what the write-back's 32 bits of ticks hold.
            if rng.random_bool(0.002) {
                clock += 40_000;
            }
            if rng.random_bool(0.6) {
                reference.queue(clock);
                block.queue(q, 100, clock);
                flying += 100;
            } else if flying > 0 {
                let stalled = reference.complete(clock).is_some();
                found += u64::from(stalled);
                let done = rng.random_range(1..=flying);
                flying -= done;
                let (count, longest, pulses) = block.complete(q, done, clock);
                assert_eq!(u64::from(count), reference.count(), "round {round}");
                let ticks = match reference.longest() {
                    steps if steps < 1 << 15 => (steps << 17) as u32,
                    _ => u32::MAX,
                };
                assert_eq!(longest, ticks, "round {round}");
                assert_eq!(pulses, u64::from(stalled), "round {round}");
            }
        }
        block.end(q, flying);
    }
    assert!(found > 100, "{found}");
}

/// The compiled block behind its ports.
mod block {
    use super::{State, Trace};
    use tsonic_hdl::blocks;
    use tsonic_hdl::verilog::{self, TOP};
    use tsonic_regs::completion::WriteBack;
    use tsonic_regs::registers::{Register, queue};
    use tsonic_verilate::{Design, Model, Optimisation, PortSpec};

    /// Queue pairs of the block.
    pub const QUEUES: u64 = 8;
    /// Ticks in a tick of a trace: a flush period, so that each event can have its own.
    const SCALE: u64 = 1_000;
    /// Most wire bytes of a segment, and most that are credited at a time.
    const MOST: u32 = (1 << 17) - 1;
    /// Where the queues' budgets are written back.
    const BACK: u64 = 0x12_3456_7000;

    pub struct Block {
        model: Model,
        /// Words written back, by address.
        written: Vec<(u64, u64)>,
        /// Cycles with `stalled`.
        pulses: u64,
    }

    impl Block {
        pub fn new() -> Block {
            let entry = blocks::find("budget_8").expect("the block of 8 queues");
            let generated =
                verilog::generate((entry.build)().as_ref()).expect("Verilog of the block");
            let port = |p: verilog::Port| match p.input {
                true => PortSpec::input(p.name, p.width),
                false => PortSpec::output(p.name, p.width),
            };
            let design = Design {
                top: TOP.into(),
                verilog: generated.text,
                ports: generated.ports.into_iter().map(port).collect(),
            };
            let model =
                Model::build(&design, Optimisation::Full).unwrap_or_else(|error| panic!("{error}"));
            let mut block = Block {
                model,
                written: Vec::new(),
                pulses: 0,
            };
            block.set("wr_ready", 1);
            block.set("credit_flush", SCALE);
            block.cycles(50);
            block
        }

        fn set(&mut self, port: &str, value: u64) {
            let input = self.model.input(port).expect("an input");
            self.model.set(input, value);
        }

        fn get(&self, port: &str) -> u64 {
            self.model.get(self.model.output(port).expect("an output"))
        }

        fn cycles(&mut self, n: u64) {
            for _ in 0..n {
                self.set("clock", 0);
                self.model.eval();
                if self.get("wr_valid") == 1 {
                    let beat = (self.get("wr_addr"), self.get("wr_data"));
                    assert_eq!(self.get("wr_strb"), 0xff);
                    assert_eq!(self.get("wr_last"), u64::from(beat.0 % 64 == 8));
                    self.written.push(beat);
                }
                self.pulses += self.get("stalled");
                self.set("clock", 1);
                self.model.eval();
            }
        }

        /// Cycles until the block has nothing to do.
        fn settle(&mut self) {
            self.cycles(1);
            for _ in 0..1_000 {
                self.cycles(1);
                if self.get("idle") == 1 {
                    return;
                }
            }
            panic!("the block never comes to rest");
        }

        fn write(&mut self, q: u64, register: Register, value: u32) {
            self.set("cfg_valid", 1);
            self.set("cfg_queue", q);
            self.set("cfg_offset", register.offset as u64);
            self.set("cfg_value", value.into());
            self.cycles(1);
            self.set("cfg_valid", 0);
        }

        /// The clock, before the flush that happens at time `t` of a trace, or at it.
        fn at(&mut self, t: u64, flush: bool) {
            let before = if flush { 0 } else { SCALE / 2 };
            self.set("ticks_set", 1);
            self.cycles(1);
            self.set("ticks_set", 0);
            self.set("ticks", (t + 2) * SCALE - before);
        }

        /// One pulse of a port with queue and bytes.
        fn pulse(&mut self, what: &str, q: u64, bytes: u32) {
            assert!(bytes <= MOST, "{bytes} bytes at once");
            self.set(&format!("{what}_valid"), 1);
            self.set(&format!("{what}_queue"), q);
            self.set(&format!("{what}_bytes"), bytes.into());
            self.cycles(1);
            self.set(&format!("{what}_valid"), 0);
        }

        /// Limit and bytes in flight as they were written back last; one write since
        /// the last call.
        fn written_back(&mut self, q: u64) -> (u32, u32) {
            let at = BACK + 64 * q;
            let words: Vec<_> = self.written.drain(..).collect();
            assert_eq!(words.len(), 2, "one write of two words: {words:x?}");
            assert_eq!((words[0].0, words[1].0), (at, at + 8));
            let back = WriteBack::from_words([words[0].1, words[1].1]);
            assert_eq!(back.stalls.0, 0);
            (back.bytes.limit(), back.bytes.inflight())
        }

        pub fn run(&mut self, q: u64, trace: &Trace) -> Vec<State> {
            self.at(trace.now, true);
            let back = BACK + 64 * q;
            self.write(q, queue::WRITE_BACK_LO, back as u32);
            self.write(q, queue::WRITE_BACK_HI, (back >> 32) as u32);
            self.write(q, queue::BQL_MIN, trace.min);
            self.write(q, queue::BQL_MAX, trace.max);
            self.write(q, queue::BQL_HOLD, trace.hold * SCALE as u32);
            self.write(q, queue::BQL_LIMIT, trace.limit);
            self.settle();
            let (mut limit, mut inflight) = self.written_back(q);
            assert_eq!(inflight, 0, "the trace before it drained");
            let mut states = Vec::new();
            for &(queued, bytes, t) in &trace.events {
                self.at(t, false);
                if queued {
                    self.pulse("charge", q, bytes);
                    inflight += bytes;
                    // The flag counts for the very next decision.
                    let room = i64::from(limit) - i64::from(inflight);
                    assert_eq!(self.get("open") >> q & 1, u64::from(room >= 0));
                } else if bytes > 0 {
                    let mut left = bytes;
                    while left > 0 {
                        let part = left.min(MOST);
                        self.pulse("credit", q, part);
                        left -= part;
                    }
                    self.settle();
                    assert!(
                        self.written.is_empty(),
                        "a credit before the period is over"
                    );
                    self.at(t, true);
                    self.settle();
                    (limit, inflight) = self.written_back(q);
                }
                let room = i64::from(limit) - i64::from(inflight);
                assert_eq!(self.get("open") >> q & 1, u64::from(room >= 0));
                states.push((limit, room, inflight));
            }
            self.end(q, inflight);
            states
        }

        /// Starts a budget with a stall threshold, at a step of the detector.
        pub fn watch(&mut self, q: u64, threshold: u64, step: u64) {
            self.at_step(step);
            let back = BACK + 64 * q;
            self.write(q, queue::WRITE_BACK_LO, back as u32);
            self.write(q, queue::WRITE_BACK_HI, (back >> 32) as u32);
            self.write(q, queue::BQL_MIN, 0);
            self.write(q, queue::BQL_MAX, u32::MAX);
            self.write(q, queue::BQL_HOLD, 0);
            // Rounded up: less than a step counts as one.
            let ticks = (threshold << 17).saturating_sub(77);
            self.write(q, queue::BQL_STALL, ticks as u32);
            self.write(q, queue::BQL_LIMIT, 0);
            self.settle();
            self.written.clear();
        }

        /// Somewhere in that step, a little before a flush.
        fn at_step(&mut self, step: u64) {
            self.set("ticks_set", 1);
            self.cycles(1);
            self.set("ticks_set", 0);
            let middle = (step << 17) + (1 << 16);
            self.set("ticks", middle / SCALE * SCALE - SCALE / 2);
        }

        pub fn queue(&mut self, q: u64, bytes: u32, step: u64) {
            self.at_step(step);
            self.pulse("charge", q, bytes);
        }

        /// Completes bytes. Stalls, the longest, and pulses of `stalled` meanwhile.
        pub fn complete(&mut self, q: u64, bytes: u32, step: u64) -> (u32, u32, u64) {
            self.at_step(step);
            self.pulse("credit", q, bytes);
            self.settle();
            self.pulses = 0;
            self.set("ticks", ((step << 17) + (1 << 16)) / SCALE * SCALE);
            self.settle();
            let words: Vec<_> = self.written.drain(..).collect();
            assert_eq!(words.len(), 2, "{words:x?}");
            let back = WriteBack::from_words([words[0].1, words[1].1]);
            (back.stalls.count(), back.stalls.longest(), self.pulses)
        }

        /// Ends the budget and drains the queue.
        pub fn end(&mut self, q: u64, inflight: u32) {
            self.write(q, queue::BQL_MAX, 0);
            self.write(q, queue::BQL_LIMIT, 0);
            self.settle();
            assert_eq!(
                self.get("open") >> q & 1,
                1,
                "a queue without a budget is open"
            );
            let mut left = inflight;
            while left > 0 {
                let part = left.min(MOST);
                self.pulse("credit", q, part);
                left -= part;
            }
            self.settle();
            assert!(self.written.is_empty());
        }
    }
}
