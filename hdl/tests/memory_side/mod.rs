// SPDX-License-Identifier: MIT OR Apache-2.0
//! What stands around the memory side of the NIC in its tests: host memory with
//! holes, and a memory port with latency, gaps and back-pressure.

#![allow(dead_code)] // Every test file takes what it needs.

use super::support::{Pcg64Mcg, RngExt, design};
use rust_hdl::prelude::Block;
use std::collections::{HashMap, HashSet, VecDeque};
use tsonic_hdl::verilog;
use tsonic_regs::limits::{DMA_BOUNDARY, DMA_REQUEST_MAX};
use tsonic_verilate::{Input, Model, Optimisation, Output};

const PAGE: u64 = DMA_BOUNDARY as u64;

/// Host memory, mapped by pages.
#[derive(Default)]
pub struct HostMemory {
    pages: HashMap<u64, Box<[u8]>>,
    hidden: HashSet<u64>,
}

impl HostMemory {
    /// Maps the pages that hold these bytes.
    pub fn map(&mut self, addr: u64, len: u64) {
        for page in addr / PAGE..=(addr + len.max(1) - 1) / PAGE {
            self.pages
                .entry(page)
                .or_insert_with(|| vec![0; PAGE as usize].into());
        }
    }

    /// Takes a page away.
    pub fn unmap(&mut self, page: u64) {
        self.pages.remove(&page);
    }

    /// Takes a page away from the device; the host still writes to it.
    pub fn hide(&mut self, page: u64) {
        self.hidden.insert(page);
    }

    /// Gives it back.
    pub fn show(&mut self, page: u64) {
        self.hidden.remove(&page);
    }

    /// Maps and fills.
    pub fn write(&mut self, addr: u64, data: &[u8]) {
        self.map(addr, data.len() as u64);
        for (i, byte) in data.iter().enumerate() {
            let at = addr + i as u64;
            if let Some(page) = self.pages.get_mut(&(at / PAGE)) {
                page[(at % PAGE) as usize] = *byte;
            }
        }
    }

    /// Maps and fills with words.
    pub fn write_words(&mut self, addr: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write(addr, &bytes);
    }

    /// A byte; `None` where nothing is mapped.
    pub fn byte(&self, addr: u64) -> Option<u8> {
        self.pages
            .get(&(addr / PAGE))
            .filter(|_| !self.hidden.contains(&(addr / PAGE)))
            .map(|page| page[(addr % PAGE) as usize])
    }

    /// The aligned word that holds the address.
    pub fn word(&self, addr: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte((addr & !7) + i as u64)?;
        }
        Some(u64::from_le_bytes(bytes))
    }
}

/// A word of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadBeat {
    pub data: u64,
    pub last: bool,
    pub err: bool,
}

/// The read half of the memory port: in order, each request after a latency.
pub struct ReadPort {
    /// Cycles from request to first word, drawn from this range.
    pub latency: std::ops::Range<u64>,
    /// Chance that a word comes in a cycle in which it could.
    pub rate: f64,
    /// Chance that a request is taken.
    pub ready: f64,
    /// Requests taken.
    pub requests: u64,
    queue: VecDeque<(u64, u64, u64)>,
    done: u64,
}

impl ReadPort {
    pub fn new(latency: std::ops::Range<u64>, rate: f64, ready: f64) -> Self {
        Self {
            latency,
            rate,
            ready,
            requests: 0,
            queue: VecDeque::new(),
            done: 0,
        }
    }

    /// A request was taken.
    pub fn request(&mut self, addr: u64, len: u64, now: u64, rng: &mut Pcg64Mcg) {
        assert!(
            (1..=DMA_REQUEST_MAX as u64).contains(&len),
            "a read of {len} bytes"
        );
        assert_eq!(
            addr / PAGE,
            (addr + len - 1) / PAGE,
            "a read of {len} at {addr:#x} crosses a page"
        );
        self.queue
            .push_back((addr, len, now + rng.random_range(self.latency.clone())));
        self.requests += 1;
    }

    /// The word of this cycle, if there is one.
    pub fn beat(&self, memory: &HostMemory, now: u64, rng: &mut Pcg64Mcg) -> Option<ReadBeat> {
        let &(addr, len, ready) = self.queue.front()?;
        if now < ready || !rng.random_bool(self.rate) {
            return None;
        }
        let at = (addr & !7) + 8 * self.done;
        let last = at + 8 >= addr + len;
        Some(match memory.word(at) {
            Some(data) => ReadBeat {
                data,
                last,
                err: false,
            },
            None => ReadBeat {
                data: rng.random(),
                last: true,
                err: true,
            },
        })
    }

    /// The word was taken.
    pub fn taken(&mut self, beat: ReadBeat) {
        self.done += 1;
        if beat.last {
            self.done = 0;
            self.queue.pop_front();
        }
    }

    pub fn idle(&self) -> bool {
        self.queue.is_empty()
    }
}

/// A design under Verilator, with its ports by name.
pub struct Rtl {
    pub model: Model,
    inputs: HashMap<String, Input>,
    outputs: HashMap<String, Output>,
    driven: HashMap<String, u64>,
    clock: Input,
    /// Cycles run.
    pub now: u64,
}

impl Rtl {
    pub fn new<B: Block>(mut block: B) -> Self {
        block.connect_all();
        let generated = verilog::generate(&block).expect("a block that generates");
        let model = Model::build(&design(&generated), Optimisation::Full)
            .unwrap_or_else(|error| panic!("{error}"));
        let (mut inputs, mut outputs) = (HashMap::new(), HashMap::new());
        for port in &generated.ports {
            if port.input {
                inputs.insert(
                    port.name.clone(),
                    model.input(&port.name).expect("an input"),
                );
            } else {
                outputs.insert(
                    port.name.clone(),
                    model.output(&port.name).expect("an output"),
                );
            }
        }
        let clock = inputs["clock"];
        Self {
            model,
            inputs,
            outputs,
            driven: HashMap::new(),
            clock,
            now: 0,
        }
    }

    pub fn set(&mut self, name: &str, value: u64) {
        let input = self
            .inputs
            .get(name)
            .unwrap_or_else(|| panic!("no input {name}"));
        self.model.set(*input, value);
        match self.driven.get_mut(name) {
            Some(driven) => *driven = value,
            None => {
                self.driven.insert(name.into(), value);
            }
        }
    }

    /// What an input was last set to.
    pub fn driven(&self, name: &str) -> u64 {
        self.driven.get(name).copied().unwrap_or(0)
    }

    pub fn get(&self, name: &str) -> u64 {
        let output = self
            .outputs
            .get(name)
            .unwrap_or_else(|| panic!("no output {name}"));
        self.model.get(*output)
    }

    pub fn high(&self, name: &str) -> bool {
        self.get(name) & 1 == 1
    }

    /// Bits of a wide output.
    pub fn field(&self, name: &str, offset: usize, width: usize) -> u64 {
        let output = self
            .outputs
            .get(name)
            .unwrap_or_else(|| panic!("no output {name}"));
        let words = self.model.words(*output);
        (0..width)
            .map(|i| u64::from(words[(offset + i) / 32] >> ((offset + i) % 32) & 1) << i)
            .sum()
    }

    /// Drives a struct: fields from the lowest, each (value, width).
    pub fn set_fields(&mut self, name: &str, fields: &[(u64, usize)]) {
        let mut words = vec![0u32; fields.iter().map(|f| f.1).sum::<usize>().div_ceil(32)];
        let mut at = 0;
        for &(value, width) in fields {
            for i in 0..width {
                words[(at + i) / 32] |= ((value >> i & 1) as u32) << ((at + i) % 32);
            }
            at += width;
        }
        let input = self
            .inputs
            .get(name)
            .unwrap_or_else(|| panic!("no input {name}"));
        self.model.set_words(*input, &words);
    }

    /// Lets the outputs follow the inputs of this cycle.
    pub fn settle(&mut self) {
        self.model.set(self.clock, 0);
        self.model.eval();
    }

    /// The edge that ends this cycle.
    pub fn edge(&mut self) {
        self.model.set(self.clock, 1);
        self.model.eval();
        self.now += 1;
    }
}

/// Splits a struct of an output: widths from the lowest field.
pub fn fields(rtl: &Rtl, name: &str, widths: &[usize]) -> Vec<u64> {
    let mut at = 0;
    widths
        .iter()
        .map(|&width| {
            let value = rtl.field(name, at, width);
            at += width;
            value
        })
        .collect()
}
