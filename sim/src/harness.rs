// SPDX-License-Identifier: MIT OR Apache-2.0
//! A bench for any NIC: host memory, a MAC that records, and a small software
//! driver that builds rings by hand from the contract. Tests of the model and of
//! the compiled RTL stand on it; it knows nothing of the real driver.
//!
//! Everything here panics on misuse: it is for tests.

use std::collections::VecDeque;

use tsonic_pci::DmaPermission;
use tsonic_regs::completion::{COMPLETION_BYTES, RxCompletion, TxCompletion};
use tsonic_regs::descriptor::{FragmentEntry, Kind, RxDescriptor, TxDescriptor};
use tsonic_regs::limits::INLINE_FRAGMENTS;
use tsonic_regs::registers::{
    Control, QueueControl, Register, RingSize, doorbell, doorbell_offset, global, queue,
    queue_offset,
};
use tsonic_types::Ticks;

use crate::model::Layout;
use crate::nic::{Advance, Arrival, Env, MacPort, Nic};
use crate::pages::Pages;
use crate::root_complex::{RootComplex, RootComplexConfig};

/// First I/O virtual address of the bench's memory.
pub const MEMORY_IOVA: u64 = 0x1_0000_0000;

/// A MAC that records what departs and plays what it is given.
#[derive(Default)]
pub struct BenchMac {
    /// Frames that departed.
    pub sent: Vec<(Ticks, Vec<u8>)>,
    /// Frames to arrive, in order.
    pub arrivals: VecDeque<(Arrival, Vec<u8>)>,
    /// Ticks that the MAC takes per byte with overhead, as (numerator,
    /// denominator); `None`: as fast as the NIC.
    pub slow: Option<(u64, u64)>,
    ready: Ticks,
}

impl BenchMac {
    /// Takes no frame before `at`.
    pub fn hold_until(&mut self, at: Ticks) {
        self.ready = self.ready.max(at);
    }
}

impl MacPort for BenchMac {
    fn tx_ready_at(&self) -> Ticks {
        self.ready
    }

    fn transmit(&mut self, departed: Ticks, frame: &[u8]) {
        if let Some((n, d)) = self.slow {
            let ticks = (frame.len() as u64 + 24) * n / d;
            self.ready = self.ready.max(departed) + Ticks(ticks);
        }
        self.sent.push((departed, frame.to_vec()));
    }

    fn rx_next(&self) -> Option<Ticks> {
        self.arrivals.front().map(|(a, _)| a.at)
    }

    fn rx_take(&mut self, frame: &mut Vec<u8>) -> Option<Arrival> {
        let (arrival, bytes) = self.arrivals.pop_front()?;
        *frame = bytes;
        Some(arrival)
    }
}

/// Software's side of a queue pair.
#[derive(Clone, Debug, Default)]
struct Queue {
    tx_ring: u64,
    tx_slots: u32,
    tx_tail: u32,
    tx_completions: u64,
    tx_entries: u32,
    tx_next: u32,
    tx_phase: u8,
    rx_ring: u64,
    rx_slots: u32,
    rx_tail: u32,
    rx_completions: u64,
    rx_entries: u32,
    rx_next: u32,
    rx_phase: u8,
}

/// A burst to post.
#[derive(Clone, Debug)]
pub struct Post<'a> {
    /// Lengths and flags.
    pub layout: Layout,
    /// Header template.
    pub header: &'a [u8],
    /// Payload.
    pub payload: &'a [u8],
    /// Bytes of each payload fragment but the last; empty: one fragment.
    pub cuts: &'a [usize],
    /// Row of the flow table.
    pub flow_slot: u16,
    /// Ticks per wire byte, 20.28.
    pub inv_rate: u64,
    /// Launch time.
    pub launch: Option<u64>,
    /// The driver's own number.
    pub cookie: u16,
}

/// A NIC on the bench.
pub struct Bench<N: Nic> {
    /// The NIC.
    pub nic: N,
    /// Host memory.
    pub memory: RootComplex,
    /// The MAC.
    pub mac: BenchMac,
    pages: Pages,
    allocated: usize,
    queues: Vec<Queue>,
}

impl<N: Nic> Bench<N> {
    /// A bench with `bytes` of host memory, and the NIC enabled.
    pub fn new(nic: N, config: RootComplexConfig, bytes: usize) -> Bench<N> {
        let pages = Pages::new(bytes).expect("memory for the bench");
        let mut memory = RootComplex::new(config);
        // SAFETY: the pages live as long as the root complex that they are mapped
        // in (both are fields of the bench), and are touched by copies only.
        unsafe {
            memory
                .map(
                    pages.as_ptr(),
                    pages.len() as u64,
                    MEMORY_IOVA,
                    DmaPermission::ReadWrite,
                )
                .expect("the first mapping");
        }
        let mut bench = Bench {
            nic,
            memory,
            mac: BenchMac::default(),
            pages,
            allocated: 0,
            queues: Vec::new(),
        };
        let queues = bench.read(global::QUEUES.offset) as usize;
        bench.queues = vec![Queue::default(); queues];
        let mut control = Control(0);
        control.set_enable(1);
        bench.write(global::CONTROL.offset, control.0);
        bench
    }

    /// Reads a register.
    pub fn read(&mut self, offset: usize) -> u32 {
        let mut env = Env {
            memory: &mut self.memory,
            mac: &mut self.mac,
        };
        self.nic.reg_read(offset as u32, &mut env)
    }

    /// Writes a register.
    pub fn write(&mut self, offset: usize, value: u32) {
        let mut env = Env {
            memory: &mut self.memory,
            mac: &mut self.mac,
        };
        self.nic.reg_write(offset as u32, value, &mut env);
    }

    /// Reads a 64-bit counter.
    pub fn counter(&mut self, r: Register) -> u64 {
        u64::from(self.read(r.offset + 4)) << 32 | u64::from(self.read(r.offset))
    }

    /// Writes a register of a queue block.
    pub fn write_queue(&mut self, q: usize, r: Register, value: u32) {
        self.write(queue_offset(q, r), value);
    }

    /// Sets the rate of a queue: ticks per wire byte, 20.28.
    pub fn set_queue_rate(&mut self, q: usize, inv_rate: u64) {
        self.write_queue(q, queue::TX_RATE_LO, inv_rate as u32);
        self.write_queue(q, queue::TX_RATE_HI, (inv_rate >> 32) as u32);
    }

    /// Address of `bytes` fresh zeroed bytes, aligned to `align`.
    pub fn alloc(&mut self, bytes: usize, align: usize) -> u64 {
        let at = self.allocated.next_multiple_of(align);
        self.allocated = at + bytes;
        assert!(
            self.allocated <= self.pages.len(),
            "the bench is out of memory"
        );
        MEMORY_IOVA + at as u64
    }

    /// Frees everything allocated after `mark` (an address from [`Bench::alloc`]).
    pub fn free_to(&mut self, mark: u64) {
        self.allocated = (mark - MEMORY_IOVA) as usize;
    }

    /// Writes host memory.
    pub fn poke(&mut self, iova: u64, data: &[u8]) {
        assert!(self.pages.write((iova - MEMORY_IOVA) as usize, data));
    }

    /// Reads host memory.
    pub fn peek(&self, iova: u64, bytes: usize) -> Vec<u8> {
        let mut out = vec![0; bytes];
        assert!(self.pages.read((iova - MEMORY_IOVA) as usize, &mut out));
        out
    }

    fn pair(&mut self, q: usize, low: Register, high: Register, value: u64) {
        self.write_queue(q, low, value as u32);
        self.write_queue(q, high, (value >> 32) as u32);
    }

    /// Sets up and enables the transmit side of a queue.
    pub fn enable_tx(&mut self, q: usize, ring_log2: u8, completion_log2: u8) {
        let ring = self.alloc(64 << ring_log2, 64);
        let completions = self.alloc(COMPLETION_BYTES << completion_log2, 64);
        let mut size = RingSize(0);
        size.set_ring_log2(ring_log2);
        size.set_completion_log2(completion_log2);
        self.pair(q, queue::TX_RING_LO, queue::TX_RING_HI, ring);
        self.pair(
            q,
            queue::TX_COMPLETION_LO,
            queue::TX_COMPLETION_HI,
            completions,
        );
        self.write_queue(q, queue::TX_RING_SIZE, size.0);
        let mut on = QueueControl(0);
        on.set_enable(1);
        self.write_queue(q, queue::TX_CONTROL, on.0);
        let s = &mut self.queues[q];
        s.tx_ring = ring;
        s.tx_slots = 1 << ring_log2;
        s.tx_tail = 0;
        s.tx_completions = completions;
        s.tx_entries = 1 << completion_log2;
        s.tx_next = 0;
        s.tx_phase = 1;
    }

    /// Disables the transmit side of a queue.
    pub fn disable_tx(&mut self, q: usize) {
        self.write_queue(q, queue::TX_CONTROL, 0);
    }

    /// Sets up and enables the receive side of a queue.
    pub fn enable_rx(&mut self, q: usize, ring_log2: u8, completion_log2: u8) {
        let ring = self.alloc(16 << ring_log2, 64);
        let completions = self.alloc(COMPLETION_BYTES << completion_log2, 64);
        let mut size = RingSize(0);
        size.set_ring_log2(ring_log2);
        size.set_completion_log2(completion_log2);
        self.pair(q, queue::RX_RING_LO, queue::RX_RING_HI, ring);
        self.pair(
            q,
            queue::RX_COMPLETION_LO,
            queue::RX_COMPLETION_HI,
            completions,
        );
        self.write_queue(q, queue::RX_RING_SIZE, size.0);
        let mut on = QueueControl(0);
        on.set_enable(1);
        self.write_queue(q, queue::RX_CONTROL, on.0);
        let s = &mut self.queues[q];
        s.rx_ring = ring;
        s.rx_slots = 1 << ring_log2;
        s.rx_tail = 0;
        s.rx_completions = completions;
        s.rx_entries = 1 << completion_log2;
        s.rx_next = 0;
        s.rx_phase = 1;
    }

    /// The descriptor of a burst, its header, list and payload placed in memory.
    pub fn place(&mut self, post: &Post<'_>) -> TxDescriptor {
        let mut d = TxDescriptor::default();
        let l = &post.layout;
        d.control.set_kind(l.kind as u8);
        d.control.set_ipv6(l.ipv6.into());
        d.control.set_ip_id_fixed(l.ip_id_fixed.into());
        d.control.set_cwr_all(l.cwr_all.into());
        d.control.set_l2_len(l.l2_len as u8);
        d.control.set_l3_len(l.l3_len as u16);
        d.control.set_l4_len(l.l4_len as u8);
        d.control.set_mss(l.mss.min(0xffff) as u16);
        d.burst.set_payload_len(post.payload.len() as u32);
        d.burst.set_flow_slot(post.flow_slot);
        d.burst.set_cookie(post.cookie);
        d.rate.set_inv_rate(post.inv_rate);
        if let Some(launch) = post.launch {
            d.control.set_launch(1);
            d.launch = launch;
        }
        // Odd addresses, so that alignment is never taken for granted.
        d.header_addr = self.alloc(post.header.len() + 1, 1) + 1;
        self.poke(d.header_addr, post.header);
        let mut fragments = Vec::new();
        let mut rest = post.payload;
        for cut in post.cuts {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            rest = later;
            fragments.push(now);
        }
        fragments.push(rest);
        fragments.retain(|f| !f.is_empty());
        let mut entries = Vec::new();
        for f in &fragments {
            let at = self.alloc(f.len() + 3, 1) + 3;
            self.poke(at, f);
            entries.push((at, f.len() as u32));
        }
        d.control.set_fragments(entries.len() as u8);
        if let Some((at, n)) = entries.first() {
            d.frag0_addr = *at;
            d.lengths.set_frag0_len(*n);
        }
        if entries.len() > INLINE_FRAGMENTS {
            let list = self.alloc((entries.len() - 1) * FragmentEntry::BYTES, 16);
            for (i, (at, n)) in entries[1..].iter().enumerate() {
                let mut e = FragmentEntry {
                    addr: *at,
                    ..FragmentEntry::default()
                };
                e.length.set_bytes(*n);
                let to = list + (i * FragmentEntry::BYTES) as u64;
                self.poke(to, &e.addr.to_le_bytes());
                self.poke(to + 8, &e.length.0.to_le_bytes());
            }
            d.frag1_addr = list;
        } else if let Some((at, n)) = entries.get(1) {
            d.frag1_addr = *at;
            d.lengths.set_frag1_len(*n);
        }
        d
    }

    /// Writes a descriptor to the next slot. No doorbell.
    pub fn push(&mut self, q: usize, d: &TxDescriptor) {
        let s = &self.queues[q];
        let at = s.tx_ring + u64::from(s.tx_tail) * TxDescriptor::BYTES as u64;
        let mut bytes = [0u8; TxDescriptor::BYTES];
        for (b, word) in bytes.chunks_exact_mut(8).zip(d.to_words()) {
            b.copy_from_slice(&word.to_le_bytes());
        }
        self.poke(at, &bytes);
        let s = &mut self.queues[q];
        s.tx_tail = (s.tx_tail + 1) % s.tx_slots;
    }

    /// Rings a transmit doorbell with the present tail.
    pub fn ring(&mut self, q: usize) {
        let tail = self.queues[q].tx_tail;
        self.write(doorbell_offset(q, doorbell::TX_TAIL), tail);
    }

    /// Writes a receive buffer of `bytes` to the next slot. No doorbell.
    pub fn push_buffer(&mut self, q: usize, addr: u64, bytes: u16, cookie: u16) {
        let mut d = RxDescriptor {
            addr,
            ..RxDescriptor::default()
        };
        d.buffer.set_bytes(bytes);
        d.buffer.set_cookie(cookie);
        self.push_rx(q, &d);
    }

    /// Writes a receive descriptor to the next slot. No doorbell.
    pub fn push_rx(&mut self, q: usize, d: &RxDescriptor) {
        let s = &self.queues[q];
        let at = s.rx_ring + u64::from(s.rx_tail) * RxDescriptor::BYTES as u64;
        self.poke(at, &d.addr.to_le_bytes());
        self.poke(at + 8, &d.buffer.0.to_le_bytes());
        let s = &mut self.queues[q];
        s.rx_tail = (s.rx_tail + 1) % s.rx_slots;
    }

    /// Rings a receive doorbell with the present tail.
    pub fn ring_rx(&mut self, q: usize) {
        let tail = self.queues[q].rx_tail;
        self.write(doorbell_offset(q, doorbell::RX_TAIL), tail);
    }

    /// Runs to `until`.
    pub fn run_to(&mut self, until: Ticks) {
        while self.nic.now() < until {
            let target = self.memory.next_event().map_or(until, |t| t.min(until));
            let mut env = Env {
                memory: &mut self.memory,
                mac: &mut self.mac,
            };
            self.nic
                .advance(target.max(self.nic.now() + Ticks(1)).min(until), &mut env);
            self.memory.settle(self.nic.now());
        }
        self.memory.settle(self.nic.now());
    }

    /// Runs until nothing more happens by itself, or `limit` ticks have passed;
    /// `false` in the second case.
    pub fn drain(&mut self, limit: u64) -> bool {
        let end = self.nic.now() + Ticks(limit);
        loop {
            let world = [self.memory.next_event(), self.mac.rx_next()];
            let next = world
                .into_iter()
                .flatten()
                .chain(self.nic.next_event())
                .min();
            let Some(next) = next else {
                return true;
            };
            if self.nic.now() >= end {
                return false;
            }
            let until = self
                .memory
                .next_event()
                .unwrap_or(next)
                .max(next)
                .max(self.nic.now() + Ticks(1))
                .min(end);
            let mut env = Env {
                memory: &mut self.memory,
                mac: &mut self.mac,
            };
            if self.nic.advance(until, &mut env) == Advance::Until && self.nic.now() < until {
                return false;
            }
            self.memory.settle(self.nic.now());
        }
    }

    /// Transmit completions of a queue that are new.
    pub fn completions(&mut self, q: usize) -> Vec<TxCompletion> {
        let mut out = Vec::new();
        loop {
            let s = &self.queues[q];
            let at = s.tx_completions + u64::from(s.tx_next) * COMPLETION_BYTES as u64;
            let c = TxCompletion::from_words(self.words(at));
            let s = &mut self.queues[q];
            if s.tx_entries == 0 || c.done.phase() != s.tx_phase {
                return out;
            }
            s.tx_next += 1;
            if s.tx_next == s.tx_entries {
                s.tx_next = 0;
                s.tx_phase ^= 1;
            }
            out.push(c);
        }
    }

    /// Queue whose completion ring (of either direction) holds this address.
    pub fn completion_queue(&self, iova: u64) -> Option<usize> {
        self.queues.iter().position(|s| {
            let within = |base: u64, entries: u32| {
                let bytes = u64::from(entries) * COMPLETION_BYTES as u64;
                (base..base + bytes).contains(&iova)
            };
            within(s.tx_completions, s.tx_entries) || within(s.rx_completions, s.rx_entries)
        })
    }

    /// Receive completions of a queue that are new.
    pub fn rx_completions(&mut self, q: usize) -> Vec<RxCompletion> {
        let mut out = Vec::new();
        loop {
            let s = &self.queues[q];
            let at = s.rx_completions + u64::from(s.rx_next) * COMPLETION_BYTES as u64;
            let c = RxCompletion::from_words(self.words(at));
            let s = &mut self.queues[q];
            if s.rx_entries == 0 || c.done.phase() != s.rx_phase {
                return out;
            }
            s.rx_next += 1;
            if s.rx_next == s.rx_entries {
                s.rx_next = 0;
                s.rx_phase ^= 1;
            }
            out.push(c);
        }
    }

    fn words(&self, at: u64) -> [u64; 4] {
        if at < MEMORY_IOVA {
            return [0; 4];
        }
        let bytes = self.peek(at, COMPLETION_BYTES);
        std::array::from_fn(|i| {
            u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap_or_default())
        })
    }

    /// Lets a frame arrive with its first byte at `at`.
    pub fn arrive(&mut self, at: Ticks, frame: &[u8], bad: bool) {
        self.mac
            .arrivals
            .push_back((Arrival { at, bad }, frame.to_vec()));
    }

    /// A one-frame burst that is sent as it stands: `l2_len` and the rest as payload.
    pub fn raw(payload: &[u8], cookie: u16) -> Post<'_> {
        Post {
            layout: Layout {
                kind: Kind::Raw,
                ipv6: false,
                ip_id_fixed: false,
                cwr_all: false,
                l2_len: 14,
                l3_len: 0,
                l4_len: 0,
                mss: 0,
            },
            header: &[0x02; 14],
            payload,
            cuts: &[],
            flow_slot: 0,
            inv_rate: 0,
            launch: None,
            cookie,
        }
    }
}
