// SPDX-License-Identifier: MIT OR Apache-2.0
//! The compiled segmenter between streams.

use super::golden::{Segment, job_words};
use crate::support::{Pcg64Mcg, RngExt, SeedableRng, design};
use rust_hdl::prelude::*;
use std::collections::VecDeque;
use tsonic_hdl::segment::Segmenter;
use tsonic_hdl::verilog;
use tsonic_verilate::{Input, Model, Optimisation, Output};

/// How often each stream offers or takes, as chances of 0 to 1.
#[derive(Clone, Copy, Debug)]
pub struct Pattern {
    pub job: f64,
    pub header: f64,
    pub payload: f64,
    pub ready: f64,
    /// `ready` comes in runs of about this many cycles.
    pub run: u32,
}

impl Pattern {
    pub const FULL: Pattern = Pattern {
        job: 1.0,
        header: 1.0,
        payload: 1.0,
        ready: 1.0,
        run: 1,
    };
    /// The patterns under which results must not differ.
    pub const ALL: [Pattern; 6] = [
        Pattern::FULL,
        Pattern {
            ready: 0.5,
            ..Pattern::FULL
        },
        Pattern {
            ready: 0.5,
            run: 40,
            ..Pattern::FULL
        },
        Pattern {
            job: 0.1,
            header: 0.3,
            payload: 0.6,
            ready: 1.0,
            run: 1,
        },
        Pattern {
            job: 1.0,
            header: 0.2,
            payload: 1.0,
            ready: 0.9,
            run: 7,
        },
        Pattern {
            job: 0.7,
            header: 0.7,
            payload: 0.7,
            ready: 0.3,
            run: 3,
        },
    ];
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Beat {
    pub data: u64,
    pub last: bool,
    pub err: bool,
}

/// Bytes as beats; what lies above the last byte is rubbish.
pub fn beats(bytes: &[u8], err: bool) -> Vec<Beat> {
    let count = bytes.len().div_ceil(8);
    bytes
        .chunks(8)
        .enumerate()
        .map(|(n, chunk)| {
            let mut word = 0xa5c3_5a3c_9669_f00du64.rotate_left(n as u32).to_le_bytes();
            word[..chunk.len()].copy_from_slice(chunk);
            Beat {
                data: u64::from_le_bytes(word),
                last: n + 1 == count,
                err: err && n + 1 == count,
            }
        })
        .collect()
}

/// A departure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    pub cycle: u64,
    pub ctx: u8,
    pub wire_bytes: u32,
    pub err: bool,
    pub last: bool,
}

/// A frame, with the cycles of its first and last beat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub bytes: Vec<u8>,
    pub begin: u64,
    pub end: u64,
}

struct Stream {
    valid: Input,
    ready: Output,
    data: Input,
    last: Input,
    err: Input,
    queue: VecDeque<Beat>,
    offered: bool,
}

pub struct Bench {
    model: Model,
    clock: Input,
    job_valid: Input,
    job_ready: Output,
    job: Input,
    jobs: VecDeque<[u32; 3]>,
    job_offered: bool,
    header: Stream,
    payload: Stream,
    frame_valid: Output,
    frame_ready: Input,
    frame_data: Output,
    frame_bytes: Output,
    frame_last: Output,
    departed_valid: Output,
    departed: Output,
    idle: Output,
    rng: Pcg64Mcg,
    pattern: Pattern,
    ready: bool,
    pub cycle: u64,
    /// Cycles in which a beat was handed over.
    pub beats: u64,
    begin: Option<u64>,
    bytes: Vec<u8>,
    pub frames: Vec<Frame>,
    pub departures: Vec<Departure>,
}

impl Bench {
    /// The default build.
    pub fn new(pattern: Pattern, seed: u64) -> Self {
        Self::of(Segmenter::<11, 12>::default(), pattern, seed)
    }

    pub fn of<const A: usize, const P: usize>(
        mut block: Segmenter<A, P>,
        pattern: Pattern,
        seed: u64,
    ) -> Self {
        block.connect_all();
        let generated = verilog::generate(&block).expect("the segmenter generates");
        let model = Model::build(&design(&generated), Optimisation::Full)
            .unwrap_or_else(|error| panic!("{error}"));
        let input = |name: &str| model.input(name).expect("an input");
        let output = |name: &str| model.output(name).expect("an output");
        let stream = |name: &str| Stream {
            valid: input(&format!("{name}_valid")),
            ready: output(&format!("{name}_ready")),
            data: input(&format!("{name}_data")),
            last: input(&format!("{name}_last")),
            err: input(&format!("{name}_err")),
            queue: VecDeque::new(),
            offered: false,
        };
        Self {
            clock: input("clock"),
            job_valid: input("job_valid"),
            job_ready: output("job_ready"),
            job: input("job"),
            jobs: VecDeque::new(),
            job_offered: false,
            header: stream("header"),
            payload: stream("payload"),
            frame_valid: output("frame_valid"),
            frame_ready: input("frame_ready"),
            frame_data: output("frame_data"),
            frame_bytes: output("frame_bytes"),
            frame_last: output("frame_last"),
            departed_valid: output("departed_valid"),
            departed: output("departed"),
            idle: output("idle"),
            model,
            rng: Pcg64Mcg::seed_from_u64(seed),
            pattern,
            ready: true,
            cycle: 0,
            beats: 0,
            begin: None,
            bytes: Vec::new(),
            frames: Vec::new(),
            departures: Vec::new(),
        }
    }

    pub fn set_pattern(&mut self, pattern: Pattern) {
        self.pattern = pattern;
    }

    /// Queues a segment as it should be.
    pub fn post(&mut self, segment: &Segment) {
        let header = beats(&segment.burst.header, false);
        let payload = beats(&segment.burst.payload, false);
        self.post_raw(job_words(segment.job()), header, payload);
    }

    /// Queues a job with any beats.
    pub fn post_raw(&mut self, job: [u32; 3], header: Vec<Beat>, payload: Vec<Beat>) {
        self.jobs.push_back(job);
        self.header.queue.extend(header);
        self.payload.queue.extend(payload);
    }

    fn offer(model: &mut Model, stream: &mut Stream, rng: &mut Pcg64Mcg, chance: f64) {
        // What has been offered stays until it is taken.
        let Some(&beat) = stream.queue.front() else {
            model.set(stream.valid, 0);
            return;
        };
        stream.offered = stream.offered || rng.random_bool(chance);
        model.set(stream.valid, u64::from(stream.offered));
        model.set(stream.data, beat.data);
        model.set(stream.last, u64::from(beat.last));
        model.set(stream.err, u64::from(beat.err));
    }

    fn accept(model: &Model, stream: &mut Stream) {
        if stream.offered && model.is_high(stream.ready) {
            stream.queue.pop_front();
            stream.offered = false;
        }
    }

    pub fn step(&mut self) {
        self.model.set(self.clock, 0);
        let pattern = self.pattern;
        if let Some(job) = self.jobs.front() {
            self.job_offered = self.job_offered || self.rng.random_bool(pattern.job);
            self.model.set(self.job_valid, u64::from(self.job_offered));
            self.model.set_words(self.job, job);
        } else {
            self.model.set(self.job_valid, 0);
        }
        Self::offer(
            &mut self.model,
            &mut self.header,
            &mut self.rng,
            pattern.header,
        );
        Self::offer(
            &mut self.model,
            &mut self.payload,
            &mut self.rng,
            pattern.payload,
        );
        if self.rng.random_ratio(1, pattern.run) {
            self.ready = self.rng.random_bool(pattern.ready);
        }
        self.model.set(self.frame_ready, u64::from(self.ready));
        self.model.eval();

        if self.job_offered && self.model.is_high(self.job_ready) {
            self.jobs.pop_front();
            self.job_offered = false;
        }
        Self::accept(&self.model, &mut self.header);
        Self::accept(&self.model, &mut self.payload);
        let mut ended = false;
        if self.ready && self.model.is_high(self.frame_valid) {
            self.beats += 1;
            let count = self.model.get(self.frame_bytes) as usize;
            let last = self.model.is_high(self.frame_last);
            assert!((1..=8).contains(&count), "a beat of {count} bytes");
            assert!(last || count == 8, "a short beat within a frame");
            let word = self.model.get(self.frame_data).to_le_bytes();
            self.bytes.extend_from_slice(&word[..count]);
            let begin = *self.begin.get_or_insert(self.cycle);
            if last {
                ended = true;
                self.frames.push(Frame {
                    bytes: std::mem::take(&mut self.bytes),
                    begin,
                    end: self.cycle,
                });
                self.begin = None;
            }
        }
        let departed = self.model.is_high(self.departed_valid);
        if departed {
            let bits = self.model.get(self.departed);
            let departure = Departure {
                cycle: self.cycle,
                ctx: bits as u8,
                wire_bytes: (bits >> 8 & 0x1ffff) as u32,
                err: bits >> 25 & 1 == 1,
                last: bits >> 26 & 1 == 1,
            };
            assert_eq!(ended, !departure.err, "{departure:?} without its frame");
            if ended {
                let frame = self.frames.last().expect("just pushed");
                assert_eq!(departure.wire_bytes as usize, frame.bytes.len());
            } else {
                assert_eq!(departure.wire_bytes, 0);
            }
            self.departures.push(departure);
        } else {
            assert!(!ended, "a frame left without departing");
        }
        self.model.set(self.clock, 1);
        self.model.eval();
        self.cycle += 1;
    }

    /// Runs until `departures` have been seen in all.
    pub fn run(&mut self, departures: usize) {
        let mut quiet = 0;
        while self.departures.len() < departures {
            let before = self.beats + self.departures.len() as u64;
            let queued = self.header.queue.len() + self.payload.queue.len() + self.jobs.len();
            self.step();
            let moved = before != self.beats + self.departures.len() as u64
                || queued != self.header.queue.len() + self.payload.queue.len() + self.jobs.len();
            quiet = if moved { 0 } else { quiet + 1 };
            assert!(
                quiet < 5_000,
                "nothing moves at cycle {}: {} of {departures} have departed, {} jobs, {} header \
                 and {} payload beats wait",
                self.cycle,
                self.departures.len(),
                self.jobs.len(),
                self.header.queue.len(),
                self.payload.queue.len(),
            );
        }
    }

    /// Runs on until the segmenter says it is idle, and checks that nothing more
    /// comes.
    pub fn drain(&mut self) {
        let (frames, departures) = (self.frames.len(), self.departures.len());
        for _ in 0..100 {
            self.step();
        }
        assert!(self.model.is_high(self.idle), "not idle at the end");
        assert_eq!(
            (self.frames.len(), self.departures.len()),
            (frames, departures)
        );
        assert!(self.begin.is_none() && self.jobs.is_empty());
        assert!(self.header.queue.is_empty() && self.payload.queue.is_empty());
    }

    /// Posts segments, runs, and compares frames and departures.
    pub fn check(&mut self, segments: &[Segment]) {
        let (frames, departures) = (self.frames.len(), self.departures.len());
        for segment in segments {
            self.post(segment);
        }
        self.run(departures + segments.len());
        for (n, segment) in segments.iter().enumerate() {
            let frame = &self.frames[frames + n].bytes;
            let expected = segment.frame();
            assert!(
                *frame == expected,
                "segment {n} ({} of burst {:?}, l2 {} l3 {} l4 {}, {} bytes):\n got {}\nwant {}",
                segment.index,
                segment.burst.kind,
                segment.burst.l2_len,
                segment.burst.l3_len,
                segment.burst.l4_len,
                segment.len,
                hex::encode(&frame[..frame.len().min(300)]),
                hex::encode(&expected[..expected.len().min(300)]),
            );
            let departure = self.departures[departures + n];
            assert_eq!(
                (departure.ctx, departure.last, departure.err),
                (segment.burst.ctx, segment.last, false)
            );
        }
    }
}
