// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every block that goes through the gates: lint, Verilator's and Icarus
//! Verilog's opinion of its Verilog, synthesis and place-and-route.
//!
//! Who writes a block adds a line to [`BLOCKS`], and a lock-step test.

use rust_hdl::prelude::*;
use tsonic_regs::limits::MAX_SEGMENT_DEFAULT;

/// A block in the form that the gates take.
pub struct Entry {
    /// Name in reports and on the command line.
    pub name: &'static str,
    /// Makes the block, connected.
    pub build: fn() -> Box<dyn Block>,
    /// It is synthesised, placed and routed by itself, and must reach 125 MHz; false
    /// for what a larger block of the list contains, and for the scheduler of more
    /// than 32 queues or 64 flows, which does not yet.
    pub synthesise: bool,
}

fn made<B: Block + 'static>(mut block: B) -> Box<dyn Block> {
    block.connect_all();
    Box::new(block)
}

macro_rules! block {
    ($name:literal, $make:expr, $synthesise:literal) => {
        Entry {
            name: $name,
            build: || made($make),
            synthesise: $synthesise,
        }
    };
}

/// All blocks.
pub const BLOCKS: &[Entry] = &[
    block!("fetch_4", crate::fetch::Fetch::<4>::default(), false),
    block!("fetch_8", crate::fetch::Fetch::<8>::default(), true),
    block!("fetch_32", crate::fetch::Fetch::<32>::default(), true),
    block!(
        "complete_4",
        crate::complete::Complete::<4>::default(),
        false
    ),
    block!(
        "complete_8",
        crate::complete::Complete::<8>::default(),
        true
    ),
    block!(
        "complete_32",
        crate::complete::Complete::<32>::default(),
        true
    ),
    block!("payload", crate::payload::Payload::default(), true),
    block!("memory", crate::memory::Memory::default(), true),
    block!("segment", crate::segment::DefaultSegmenter::default(), true),
    block!(
        "receive_parse",
        crate::receive::parse::Parse::default(),
        false
    ),
    block!(
        "receive_4",
        crate::receive::Receive::<4, 2, 6>::default(),
        false
    ),
    block!(
        "receive_8",
        crate::receive::Receive::<8, 3, 7>::default(),
        true
    ),
    block!(
        "receive_32",
        crate::receive::Receive::<32, 5, 9>::default(),
        true
    ),
    block!("schedule_4", crate::schedule::Schedule4::default(), false),
    block!("schedule_8", crate::schedule::Schedule8::default(), true),
    block!("schedule_32", crate::schedule::Schedule32::default(), true),
    block!(
        "schedule_256",
        crate::schedule::Schedule256::default(),
        false
    ),
    block!(
        "schedule_32_flows_256",
        crate::schedule::Schedule32Wide::default(),
        false
    ),
    block!(
        "csr_8",
        crate::csr::Csr::<8>::new(&crate::csr::Build {
            hash: 0,
            queues: 8,
            flow_slots: crate::builds::FLOW_SLOTS,
            max_segment: MAX_SEGMENT_DEFAULT as u32
        }),
        true
    ),
    block!(
        "csr_32",
        crate::csr::Csr::<10>::new(&crate::csr::Build {
            hash: 0,
            queues: 32,
            flow_slots: crate::builds::FLOW_SLOTS,
            max_segment: MAX_SEGMENT_DEFAULT as u32
        }),
        true
    ),
    block!(
        "budget_8",
        crate::budget::Budget::<8, 3, 8>::default(),
        true
    ),
    block!(
        "budget_32",
        crate::budget::Budget::<32, 5, 10>::default(),
        true
    ),
    block!("drain", crate::nic::Drain::default(), true),
    block!("recalled", crate::nic::Recalled::default(), true),
    block!(
        "flow_limit",
        crate::flow_limit::FlowLimit::<6, 7>::default(),
        true
    ),
    block!(
        "interrupt_4",
        crate::interrupt::Interrupt::<4>::default(),
        false
    ),
    block!(
        "interrupt_8",
        crate::interrupt::Interrupt::<8>::default(),
        true
    ),
    block!(
        "interrupt_32",
        crate::interrupt::Interrupt::<32>::default(),
        true
    ),
    block!("nic_4", crate::nic::Nic4::new(0), false),
    block!("nic_8", crate::builds::Nic8::new(0), false),
    block!("nic_32", crate::nic::Nic32::new(0), false),
];

/// The blocks that make up [`Nic8`](crate::builds::Nic8), the NIC with 8 queue
/// pairs and 64 flow slots. Their sum is held to a budget of LUTs and block RAMs.
pub const NIC_8: &[&str] = &[
    "csr_8",
    "fetch_8",
    "drain",
    "recalled",
    "flow_limit",
    "schedule_8",
    "budget_8",
    "payload",
    "segment",
    "complete_8",
    "interrupt_8",
    "receive_8",
    "memory",
];

/// The block of that name.
pub fn find(name: &str) -> Option<&'static Entry> {
    BLOCKS.iter().find(|entry| entry.name == name)
}
