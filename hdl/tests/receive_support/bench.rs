// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive path under Verilator, with host memory, a memory port that is
//! slow and moody, and a driver's view of rings and completions.

use super::{RSS_KEY, RSS_TABLE};
use crate::support::{Pcg64Mcg, RngExt, SeedableRng, design};
use rust_hdl::prelude::Block;
use std::collections::{HashMap, VecDeque};
use tsonic_hdl::receive::Receive;
use tsonic_hdl::verilog::generate;
use tsonic_regs::completion::{COMPLETION_BYTES, RxCompletion};
use tsonic_regs::descriptor::{RxBuffer, RxDescriptor};
use tsonic_regs::limits::{DMA_BOUNDARY, DMA_REQUEST_MAX};
use tsonic_regs::registers::{Register, RingSize, queue};
use tsonic_verilate::{Input, Model, Optimisation, Output};

const PAGE: u64 = DMA_BOUNDARY as u64;

/// Host memory: pages that are mapped; anything else faults.
#[derive(Default)]
pub struct Memory {
    pages: HashMap<u64, Vec<u8>>,
}

impl Memory {
    pub fn map(&mut self, addr: u64, bytes: u64) {
        for page in addr / PAGE..=(addr + bytes - 1) / PAGE {
            self.pages
                .entry(page)
                .or_insert_with(|| vec![0xee; PAGE as usize]);
        }
    }
    pub fn unmap(&mut self, addr: u64) {
        self.pages.remove(&(addr / PAGE));
    }
    pub fn word(&self, addr: u64) -> Option<u64> {
        let page = self.pages.get(&(addr / PAGE))?;
        let at = ((addr % PAGE) & !7) as usize;
        Some(u64::from_le_bytes(
            page[at..at + 8].try_into().expect("eight bytes"),
        ))
    }
    pub fn write(&mut self, addr: u64, data: &[u8]) {
        for (n, byte) in data.iter().enumerate() {
            let at = addr + n as u64;
            let page = self.pages.get_mut(&(at / PAGE));
            page.unwrap_or_else(|| panic!("a write to {at:#x}, which is not mapped"))
                [(at % PAGE) as usize] = *byte;
        }
    }
    pub fn read(&self, addr: u64, count: usize) -> Vec<u8> {
        (addr..addr + count as u64)
            .map(|at| self.pages[&(at / PAGE)][(at % PAGE) as usize])
            .collect()
    }
}

/// How the memory port behaves.
#[derive(Clone, Copy)]
pub struct Mood {
    /// Chance in percent that it takes a request or a beat.
    pub ready: u32,
    /// Cycles from a read request to its first word, at most.
    pub latency: u64,
}

/// A frame as it came out of the completions.
#[derive(Debug, PartialEq, Eq)]
pub struct Received {
    pub data: Vec<u8>,
    pub buffers: usize,
    pub last: RxCompletion,
}

/// A queue pair's receive half, as a driver keeps it.
#[derive(Default)]
pub struct DriverQueue {
    pub ring: u64,
    pub ring_log2: u32,
    pub completions: u64,
    pub completion_log2: u32,
    tail: u64,
    next: u64,
    /// Buffers in the device, oldest first: address, bytes, cookie.
    pub posted: VecDeque<(u64, u16, u16)>,
    partial: Vec<u8>,
    partial_buffers: usize,
    /// Frames that ended with status OK.
    pub frames: VecDeque<Received>,
    /// Completions that carry no part of a good frame.
    pub errors: Vec<RxCompletion>,
    pub completed: u64,
    /// Times the completion ring was passed over.
    pub passes: u64,
}

/// What the counters counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub frames: u64,
    pub bytes: u64,
    pub no_buffer: u64,
    pub errors: u64,
    pub csum_errors: u64,
    pub refused: u64,
    pub written: u64,
}

pub struct Bench {
    model: Model,
    inputs: HashMap<&'static str, Input>,
    outputs: HashMap<&'static str, Output>,
    pub rng: Pcg64Mcg,
    pub memory: Memory,
    pub mood: Mood,
    pub queues: Vec<DriverQueue>,
    pub counters: Counters,
    pub cycle: u64,
    /// Beats of the MAC that are still to be sent.
    pub wire: VecDeque<Option<(u64, usize, bool, bool)>>,
    reads: VecDeque<(u64, u64, u64)>,
    read_at: u64,
    beat: Option<(u64, bool, bool)>,
    request: Option<(u64, u64)>,
    next_buffer: u64,
    next_cookie: u16,
    pub reads_seen: u64,
    pub most_reads: usize,
    in_frame: bool,
    /// Tick at which each frame's first beat was on the wire.
    pub starts: Vec<u64>,
}

const INPUTS: [&str; 26] = [
    "clock",
    "enable",
    "ticks",
    "rx_valid",
    "rx_data",
    "rx_bytes",
    "rx_last",
    "rx_bad",
    "cfg_valid",
    "cfg_queue",
    "cfg_offset",
    "cfg_value",
    "bell_valid",
    "bell_queue",
    "bell_tail",
    "key_write",
    "key_index",
    "key_value",
    "table_write",
    "table_index",
    "table_value",
    "rd_req_ready",
    "rd_valid",
    "rd_data",
    "rd_last",
    "rd_err",
];
const OUTPUTS: [&str; 17] = [
    "rd_req_valid",
    "rd_req_addr",
    "rd_req_len",
    "rd_ready",
    "wr_valid",
    "wr_addr",
    "wr_data",
    "wr_strb",
    "wr_last",
    "written",
    "count_frame",
    "count_bytes",
    "count_no_buffer",
    "count_error",
    "count_csum_error",
    "count_refused",
    "idle",
];

impl Bench {
    pub fn new<const Q: usize, const A: usize, const C: usize>(seed: u64) -> Self {
        let mut block = Receive::<Q, A, C>::default();
        block.connect_all();
        let generated = generate(&block).expect("the receive path generates");
        let model = Model::build(&design(&generated), Optimisation::Quick)
            .unwrap_or_else(|error| panic!("{error}"));
        let mut inputs: HashMap<_, _> = INPUTS
            .into_iter()
            .map(|name| (name, model.input(name).expect("an input")))
            .collect();
        for name in ["wr_ready", "resetting"] {
            inputs.insert(name, model.input(name).expect("an input"));
        }
        let outputs = OUTPUTS
            .into_iter()
            .map(|name| (name, model.output(name).expect("an output")))
            .collect();
        let mut bench = Self {
            model,
            inputs,
            outputs,
            rng: Pcg64Mcg::seed_from_u64(seed),
            memory: Memory::default(),
            mood: Mood {
                ready: 100,
                latency: 10,
            },
            queues: (0..Q).map(|_| DriverQueue::default()).collect(),
            counters: Counters::default(),
            cycle: 0,
            wire: VecDeque::new(),
            reads: VecDeque::new(),
            read_at: 0,
            beat: None,
            request: None,
            next_buffer: 1 << 32,
            next_cookie: 0,
            reads_seen: 0,
            most_reads: 0,
            in_frame: false,
            starts: Vec::new(),
        };
        bench.set("enable", 1);
        bench
    }

    pub fn set(&mut self, name: &str, value: u64) {
        self.model.set(self.inputs[name], value);
    }

    fn get(&self, name: &str) -> u64 {
        self.model.get(self.outputs[name])
    }

    fn ready(&mut self) -> bool {
        self.rng.random_range(0..100) < self.mood.ready
    }

    /// Ticks run behind a constant, to see both halves move.
    pub fn ticks(&self) -> u64 {
        0x1_ffff_fe00 + self.cycle
    }

    pub fn step(&mut self) {
        let (rd_req_ready, wr_ready) = (self.ready(), self.ready());
        self.set("ticks", self.ticks());
        self.set("rd_req_ready", rd_req_ready.into());
        self.set("wr_ready", wr_ready.into());
        let wire = self.wire.pop_front().flatten();
        let (data, count, last, bad) = wire.unwrap_or((0, 0, false, false));
        if wire.is_some() {
            if !self.in_frame {
                self.starts.push(self.ticks());
            }
            self.in_frame = !last;
        }
        self.set("rx_valid", wire.is_some().into());
        self.set("rx_data", data);
        self.set("rx_bytes", count as u64);
        self.set("rx_last", last.into());
        self.set("rx_bad", bad.into());
        if self.beat.is_none()
            && self.ready()
            && let Some(&(addr, bytes, when)) = self.reads.front()
            && when <= self.cycle
        {
            let at = addr + self.read_at;
            let word = self.memory.word(at);
            let last = word.is_none() || self.read_at + 8 >= bytes;
            self.read_at += 8;
            if last {
                self.reads.pop_front();
                self.read_at = 0;
            }
            self.beat = Some((word.unwrap_or(0), last, word.is_none()));
        }
        let (data, last, err) = self.beat.unwrap_or((0, false, false));
        self.set("rd_valid", self.beat.is_some().into());
        self.set("rd_data", data);
        self.set("rd_last", last.into());
        self.set("rd_err", err.into());
        self.set("clock", 0);
        self.model.eval();
        if self.get("rd_ready") == 1 {
            self.beat = None;
        }
        if self.get("rd_req_valid") == 1 && rd_req_ready {
            let (addr, bytes) = (self.get("rd_req_addr"), self.get("rd_req_len"));
            assert!((1..=DMA_REQUEST_MAX as u64).contains(&bytes) && bytes.is_multiple_of(16));
            assert_eq!(
                addr / PAGE,
                (addr + bytes - 1) / PAGE,
                "a read crosses a page"
            );
            let latency = self.rng.random_range(1..=self.mood.latency);
            let after = self.reads.back().map_or(0, |read| read.2);
            self.reads
                .push_back((addr, bytes, after.max(self.cycle + latency)));
            self.reads_seen += 1;
            self.most_reads = self.most_reads.max(self.reads.len());
        }
        if self.get("wr_valid") == 1 && wr_ready {
            let addr = self.get("wr_addr");
            let (start, bytes) = self.request.unwrap_or((addr, 0));
            assert_eq!(addr, start + bytes, "beats of a request follow each other");
            assert!(addr.is_multiple_of(8) && bytes + 8 <= DMA_REQUEST_MAX as u64);
            assert_eq!(start / PAGE, addr / PAGE, "a write crosses a page");
            let strobe = self.get("wr_strb");
            let count = strobe.trailing_ones() as usize;
            assert_eq!(strobe, (1u64 << count) - 1, "bytes from the first on");
            let data = self.get("wr_data").to_le_bytes();
            self.memory.write(addr, &data[..count]);
            let last = self.get("wr_last") == 1;
            assert!(last || count == 8);
            self.request = if last { None } else { Some((start, bytes + 8)) };
        }
        self.counters.frames += self.get("count_frame");
        self.counters.bytes += self.get("count_bytes") * self.get("count_frame");
        self.counters.no_buffer += self.get("count_no_buffer");
        self.counters.errors += self.get("count_error");
        self.counters.csum_errors += self.get("count_csum_error");
        self.counters.refused += self.get("count_refused");
        self.counters.written += self.get("written");
        self.set("clock", 1);
        self.model.eval();
        self.cycle += 1;
        self.set("cfg_valid", 0);
        self.set("bell_valid", 0);
    }

    pub fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    /// Runs until nothing is inside.
    pub fn drain(&mut self) {
        for _ in 0..100_000 {
            self.step();
            if self.wire.is_empty() && self.get("idle") == 1 && self.reads.is_empty() {
                self.steps(40);
                if self.get("idle") == 1 {
                    return;
                }
            }
        }
        panic!("the receive path does not come to rest");
    }

    pub fn rss(&mut self, key: &[u8; RSS_KEY], table: &[u8; RSS_TABLE]) {
        for (n, word) in key.chunks(4).enumerate() {
            let value = u32::from_le_bytes(word.try_into().expect("four bytes"));
            self.set("key_write", 1);
            self.set("key_index", n as u64);
            self.set("key_value", value.into());
            self.step();
        }
        self.set("key_write", 0);
        for (n, queue) in table.iter().enumerate() {
            self.set("table_write", 1);
            self.set("table_index", n as u64);
            self.set("table_value", (*queue).into());
            self.step();
        }
        self.set("table_write", 0);
    }

    pub fn register(&mut self, q: usize, register: Register, value: u32) {
        self.set("cfg_valid", 1);
        self.set("cfg_queue", q as u64);
        self.set("cfg_offset", register.offset as u64);
        self.set("cfg_value", value.into());
        self.step();
    }

    pub fn bell(&mut self, q: usize, tail: u32) {
        self.set("bell_valid", 1);
        self.set("bell_queue", q as u64);
        self.set("bell_tail", tail.into());
        self.step();
    }

    /// Lays out and enables a queue; `lean` shifts the ring by as many slots.
    pub fn open(&mut self, q: usize, ring_log2: u32, completion_log2: u32, lean: u64) {
        let ring = 0x10_0000_0000 + q as u64 * 0x100_0000 + 16 * lean;
        let completions = 0x20_0000_0000 + q as u64 * 0x100_0000 + 0x20;
        self.memory.map(ring, 16 << ring_log2);
        self.memory
            .map(completions, (COMPLETION_BYTES as u64) << completion_log2);
        for n in 0..1u64 << completion_log2 {
            self.memory.write(
                completions + n * COMPLETION_BYTES as u64,
                &[0; COMPLETION_BYTES],
            );
        }
        self.queues[q] = DriverQueue {
            ring,
            ring_log2,
            completions,
            completion_log2,
            ..Default::default()
        };
        let mut size = RingSize(0);
        size.set_ring_log2(ring_log2 as u8);
        size.set_completion_log2(completion_log2 as u8);
        self.register(q, queue::RX_RING_LO, ring as u32);
        self.register(q, queue::RX_RING_HI, (ring >> 32) as u32);
        self.register(q, queue::RX_COMPLETION_LO, completions as u32);
        self.register(q, queue::RX_COMPLETION_HI, (completions >> 32) as u32);
        self.register(q, queue::RX_RING_SIZE, size.0);
        self.register(q, queue::RX_CONTROL, 1);
    }

    /// Room for more buffers in a queue's ring.
    pub fn room(&self, q: usize) -> usize {
        (1 << self.queues[q].ring_log2) - 1 - self.queues[q].posted.len()
    }

    /// Puts a descriptor into the ring, without a doorbell.
    pub fn put(&mut self, q: usize, addr: u64, word1: u64) {
        let queue = &mut self.queues[q];
        let slot = queue.ring + RxDescriptor::BYTES as u64 * queue.tail;
        queue.tail = (queue.tail + 1) & ((1 << queue.ring_log2) - 1);
        self.memory.write(slot, &addr.to_le_bytes());
        self.memory.write(slot + 8, &word1.to_le_bytes());
    }

    /// Posts buffers of `bytes` bytes each and rings.
    pub fn post(&mut self, q: usize, sizes: &[u16]) {
        for &bytes in sizes {
            let addr = self.next_buffer + 8 * self.rng.random_range(0..600u64);
            self.next_buffer = (addr + u64::from(bytes) + 4 * PAGE) & !(PAGE - 1);
            self.memory.map(addr, bytes.into());
            let mut buffer = RxBuffer(0);
            buffer.set_bytes(bytes);
            buffer.set_cookie(self.next_cookie);
            self.put(q, addr, buffer.0);
            self.queues[q]
                .posted
                .push_back((addr, bytes, self.next_cookie));
            self.next_cookie = (self.next_cookie + 1) % 0xffff;
        }
        self.ring(q);
    }

    /// Rings with the tail that `put` left.
    pub fn ring(&mut self, q: usize) {
        let tail = self.queues[q].tail as u32;
        self.bell(q, tail);
    }

    /// Puts a frame on the wire, `gap` idle cycles before it.
    pub fn send(&mut self, frame: &[u8], bad: bool, gap: usize) {
        self.wire.extend(std::iter::repeat_n(None, gap));
        let beats = frame.len().div_ceil(8);
        for (n, chunk) in frame.chunks(8).enumerate() {
            let mut beat = [0x5a; 8];
            beat[..chunk.len()].copy_from_slice(chunk);
            let last = n + 1 == beats;
            self.wire.push_back(Some((
                u64::from_le_bytes(beat),
                chunk.len(),
                last,
                bad && last,
            )));
        }
    }

    /// Takes the completions that were written.
    pub fn reap(&mut self) {
        for q in 0..self.queues.len() {
            while self.reap_one(q) {}
        }
    }

    fn reap_one(&mut self, q: usize) -> bool {
        let queue = &mut self.queues[q];
        if queue.completions == 0 {
            return false;
        }
        let entry = queue.next & ((1 << queue.completion_log2) - 1);
        let addr = queue.completions + COMPLETION_BYTES as u64 * entry;
        let word = |n: u64| self.memory.word(addr + 8 * n).expect("a mapped ring");
        let found = RxCompletion::from_words([word(0), word(1), word(2), word(3)]);
        let pass = queue.next >> queue.completion_log2;
        if u64::from(found.done.phase()) != (pass + 1) & 1 {
            return false;
        }
        queue.next += 1;
        queue.passes = pass;
        queue.completed += 1;
        assert_eq!(
            usize::from(found.status.queue()),
            q,
            "a completion in another queue's ring"
        );
        if found.status.status() != 0 && found.status.cookie() == 0xffff {
            queue.errors.push(found);
            return true;
        }
        let (buffer, size, cookie) = queue.posted.pop_front().expect("a completion too many");
        assert_eq!(found.status.cookie(), cookie, "buffers complete in order");
        let bytes = usize::from(found.status.bytes());
        assert!(bytes <= usize::from(size));
        if found.status.sop() == 1 {
            assert!(queue.partial.is_empty(), "a frame starts inside another");
        }
        if found.status.status() != 0 {
            queue.partial.clear();
            queue.partial_buffers = 0;
            queue.errors.push(found);
            return true;
        }
        assert_eq!(found.status.sop() == 1, queue.partial.is_empty());
        queue.partial.extend(self.memory.read(buffer, bytes));
        queue.partial_buffers += 1;
        if found.status.eop() == 1 {
            assert_eq!(usize::from(found.hash.frame_len()), queue.partial.len());
            queue.frames.push_back(Received {
                data: std::mem::take(&mut queue.partial),
                buffers: std::mem::take(&mut queue.partial_buffers),
                last: found,
            });
        } else {
            assert_eq!(
                bytes,
                usize::from(size) & !7,
                "a buffer is filled before the next"
            );
        }
        true
    }
}
