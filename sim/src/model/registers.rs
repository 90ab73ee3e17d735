// SPDX-License-Identifier: MIT OR Apache-2.0
//! The register space as the contract has it.
//!
//! A 64-bit value takes effect with the write of its high half. Ring addresses and
//! sizes are latched when a direction is enabled; a size outside the contract is
//! not enabled: the bit reads back 0. Reserved and read-only registers ignore
//! writes, unknown ones read 0.

use tsonic_regs::Status;
use tsonic_regs::completion::{RxCompletion, TxCompletion};
use tsonic_regs::descriptor::{COOKIE_NONE, RxDescriptor, TxDescriptor};
use tsonic_regs::limits::{
    CN_TARGET_RESET_US, CREDIT_FLUSH_RESET_US, HORIZON_RESET_US, PAYLOAD_MAX, QUANTUM_RESET,
    RING_LOG2_MAX, RING_LOG2_MIN, RSS_KEY, RSS_KEY_DEFAULT, RSS_TABLE,
};
use tsonic_regs::registers::{
    Control, DOORBELL_BASE, DOORBELL_STRIDE, DeviceStatus, Events, QUEUE_BLOCK_BASE,
    QUEUE_BLOCK_STRIDE, QueueControl, Register, RingSize, doorbell, global, queue,
};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_types::Ticks;

use super::events::EventRegisters;
use super::state::Rings;
use super::{Model, ModelConfig};
use crate::nic::{Env, Nic};

/// Completion rings may have twice the entries of the largest descriptor ring.
const COMPLETION_LOG2_MAX: usize = RING_LOG2_MAX + 1;
const QUEUE_WORDS: usize = QUEUE_BLOCK_STRIDE / 4;

/// Counters of the device, in the order of their registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// TX_FRAMES.
    pub tx_frames: u64,
    /// TX_BYTES.
    pub tx_bytes: u64,
    /// TX_BURSTS.
    pub tx_bursts: u64,
    /// TX_ERRORS.
    pub tx_errors: u64,
    /// DOORBELL_ERRORS.
    pub doorbell_errors: u64,
    /// RX_FRAMES.
    pub rx_frames: u64,
    /// RX_BYTES.
    pub rx_bytes: u64,
    /// RX_NO_BUFFER.
    pub rx_no_buffer: u64,
    /// RX_ERRORS.
    pub rx_errors: u64,
    /// RX_CSUM_ERRORS.
    pub rx_csum_errors: u64,
}

/// What software has written.
pub(super) struct Registers {
    control: Control,
    ticks_high: u32,
    lateness_debt: u32,
    credit_flush: u32,
    cn_target: u32,
    horizon: u32,
    pub events: EventRegisters,
    pub rss_key: [u8; RSS_KEY],
    pub rss_table: [u32; RSS_TABLE],
    /// Raw queue blocks.
    queues: Vec<[u32; QUEUE_WORDS]>,
    pub counters: Counters,
}

impl Registers {
    pub fn new(config: &ModelConfig) -> Registers {
        let us = |us: u64| {
            let ticks = us * u64::from(config.tick_rate.hz()) / 1_000_000;
            ticks.clamp(1, u32::MAX.into()) as u32
        };
        let mut rss_table = [0; RSS_TABLE];
        for (i, row) in rss_table.iter_mut().enumerate() {
            *row = (i % config.queues) as u32;
        }
        let mut block = [0; QUEUE_WORDS];
        block[queue::TX_QUANTUM.offset / 4] = QUANTUM_RESET as u32;
        Registers {
            control: Control(0),
            ticks_high: 0,
            lateness_debt: config.lateness_debt(),
            credit_flush: us(CREDIT_FLUSH_RESET_US),
            cn_target: us(CN_TARGET_RESET_US),
            horizon: us(HORIZON_RESET_US),
            events: EventRegisters::default(),
            rss_key: RSS_KEY_DEFAULT,
            rss_table,
            queues: vec![block; config.queues],
            counters: Counters::default(),
        }
    }

    /// Period of the credit flush in ticks.
    pub fn credit_flush(&self) -> u64 {
        self.credit_flush.max(1).into()
    }

    pub fn enabled(&self) -> bool {
        self.control.enable() == 1
    }

    pub fn lateness_debt(&self) -> Ticks {
        Ticks(self.lateness_debt.into())
    }

    pub fn cn_target(&self) -> Ticks {
        Ticks(self.cn_target.into())
    }

    pub fn horizon(&self) -> Ticks {
        Ticks(self.horizon.into())
    }

    pub fn queue(&self, q: usize, r: Register) -> u32 {
        self.queues[q][r.offset / 4]
    }

    /// A 64-bit value in two registers.
    pub fn pair(&self, q: usize, low: Register, high: Register) -> u64 {
        u64::from(self.queue(q, high)) << 32 | u64::from(self.queue(q, low))
    }
}

/// A register of a row, by offset: its index in the row.
fn row(r: Register, offset: usize) -> Option<usize> {
    (offset >= r.offset && offset < r.offset + 4 * r.count).then(|| (offset - r.offset) / 4)
}

impl Model {
    pub(super) fn read_register(&mut self, offset: usize) -> u32 {
        if offset >= DOORBELL_BASE {
            let (q, r) = split(offset - DOORBELL_BASE, DOORBELL_STRIDE);
            return match r {
                _ if q >= self.config.queues => 0,
                r if r == doorbell::CLOCK_LO.offset => self.now.0 as u32,
                r if r == doorbell::CLOCK_HI.offset => (self.now.0 >> 32) as u32,
                _ => 0,
            };
        }
        if offset >= QUEUE_BLOCK_BASE {
            let (q, r) = split(offset - QUEUE_BLOCK_BASE, QUEUE_BLOCK_STRIDE);
            return self.registers.queues.get(q).map_or(0, |block| block[r / 4]);
        }
        if let Some(i) = row(global::RSS_KEY, offset) {
            let k = &self.registers.rss_key[i * 4..i * 4 + 4];
            return u32::from_le_bytes([k[0], k[1], k[2], k[3]]);
        }
        if let Some(i) = row(global::RSS_TABLE, offset) {
            return self.registers.rss_table[i];
        }
        if let Some(value) = self.read_counter(offset) {
            return value;
        }
        let c = &self.config;
        let at = |r: Register| r.offset == offset;
        match () {
            () if at(global::MAGIC) => MAGIC,
            () if at(global::CONTRACT_VERSION) => CONTRACT_VERSION,
            () if at(global::BUILD_HASH) => c.build_hash,
            () if at(global::FEATURES) => c.features().0,
            () if at(global::QUEUES) => c.queues as u32,
            () if at(global::FLOW_SLOTS) => c.flow_slots as u32,
            () if at(global::MAX_SEGMENT) => c.max_segment,
            () if at(global::MAX_PAYLOAD) => PAYLOAD_MAX as u32,
            () if at(global::WIDTH) => c.width,
            () if at(global::TICK_HZ) => c.tick_rate.hz(),
            () if at(global::TICKS_LO) => {
                self.registers.ticks_high = (self.now.0 >> 32) as u32;
                self.now.0 as u32
            }
            () if at(global::TICKS_HI) => self.registers.ticks_high,
            () if at(global::CONTROL) => self.registers.control.0,
            () if at(global::STATUS) => {
                let mut s = DeviceStatus(0);
                s.set_idle((self.idle() && self.bursts_held() == 0).into());
                s.0
            }
            () if at(global::LATENESS_DEBT) => self.registers.lateness_debt,
            () if at(global::CREDIT_FLUSH) => self.registers.credit_flush,
            () if at(global::CN_TARGET) => self.registers.cn_target,
            () if at(global::HORIZON) => self.registers.horizon,
            () if at(global::EVENT_STATUS) => self.registers.events.status,
            () if at(global::EVENT_MASK) => self.registers.events.mask,
            () => 0,
        }
    }

    fn read_counter(&self, offset: usize) -> Option<u32> {
        let c = &self.registers.counters;
        let rows = [
            (global::TX_FRAMES, c.tx_frames),
            (global::TX_BYTES, c.tx_bytes),
            (global::TX_BURSTS, c.tx_bursts),
            (global::TX_ERRORS, c.tx_errors),
            (global::DOORBELL_ERRORS, c.doorbell_errors),
            (global::RX_FRAMES, c.rx_frames),
            (global::RX_BYTES, c.rx_bytes),
            (global::RX_NO_BUFFER, c.rx_no_buffer),
            (global::RX_ERRORS, c.rx_errors),
            (global::RX_CSUM_ERRORS, c.rx_csum_errors),
        ];
        rows.iter()
            .find_map(|(r, value)| row(*r, offset).map(|half| (value >> (32 * half)) as u32))
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        self.registers.counters
    }

    pub(super) fn write_register(&mut self, offset: usize, value: u32, env: &mut Env<'_>) {
        if offset >= DOORBELL_BASE {
            let (q, r) = split(offset - DOORBELL_BASE, DOORBELL_STRIDE);
            self.write_doorbell(q, r, value, env);
        } else if offset >= QUEUE_BLOCK_BASE {
            let (q, r) = split(offset - QUEUE_BLOCK_BASE, QUEUE_BLOCK_STRIDE);
            self.write_queue(q, r, value, env);
        } else if let Some(i) = row(global::RSS_KEY, offset) {
            self.registers.rss_key[i * 4..i * 4 + 4].copy_from_slice(&value.to_le_bytes());
            self.receiver.set_key(&self.registers.rss_key);
        } else if let Some(i) = row(global::RSS_TABLE, offset) {
            self.registers.rss_table[i] = value;
        } else if offset == global::CONTROL.offset {
            let control = Control(value);
            if control.reset() == 1 {
                self.power_on();
            } else {
                self.registers.control.set_enable(control.enable());
                self.fetch(env);
                self.fetch_buffers(env);
            }
        } else if offset == global::LATENESS_DEBT.offset {
            self.registers.lateness_debt = value;
        } else if offset == global::CREDIT_FLUSH.offset {
            self.registers.credit_flush = value.max(1);
            self.plan_flush_again();
        } else if offset == global::CN_TARGET.offset {
            self.registers.cn_target = value;
        } else if offset == global::HORIZON.offset {
            self.registers.horizon = value;
        } else if offset == global::EVENT_STATUS.offset {
            self.clear_events(env, value);
        } else if offset == global::EVENT_MASK.offset {
            self.mask_events(env, value);
        }
    }

    fn write_queue(&mut self, q: usize, r: usize, value: u32, env: &mut Env<'_>) {
        let Some(block) = self.registers.queues.get_mut(q) else {
            return;
        };
        if !queue::REGISTERS.iter().any(|known| known.offset == r) {
            return;
        }
        let at = |known: Register| known.offset == r;
        if at(queue::TX_CONTROL) {
            self.enable_tx(q, QueueControl(value).enable() == 1, env);
            return;
        }
        if at(queue::RX_CONTROL) {
            self.enable_rx(q, QueueControl(value).enable() == 1, env);
            return;
        }
        block[r / 4] = value;
        if at(queue::TX_RATE_HI) {
            let rate = self.registers.pair(q, queue::TX_RATE_LO, queue::TX_RATE_HI);
            let bits = tsonic_regs::limits::INV_RATE_BITS;
            self.set_rate(q, rate & ((1 << bits) - 1));
        } else if at(queue::BQL_LIMIT) {
            self.start_budget(q, env);
        } else if at(queue::TX_QUANTUM) {
            self.arbiter.set_quantum(q, value & 0xffff);
        } else if at(queue::COALESCE_COUNT) {
            self.moderation[q].set_count(value);
        } else if at(queue::COALESCE_TICKS) {
            self.moderation[q].set_ticks(value);
        }
    }

    fn enable_tx(&mut self, q: usize, on: bool, env: &mut Env<'_>) {
        if on == self.tx[q].rings.enabled {
            return;
        }
        if !on {
            self.reset_queue(env, q);
            self.tx[q].rings.enabled = false;
            self.tx[q].rings.fetching = false;
            self.update_fetchable(q);
        } else if let Some(rings) = self.latch(
            q,
            [
                queue::TX_RING_LO,
                queue::TX_RING_HI,
                queue::TX_COMPLETION_LO,
                queue::TX_COMPLETION_HI,
                queue::TX_RING_SIZE,
            ],
            TxDescriptor::BYTES as u64,
            self.tx[q].rings.generation,
        ) {
            self.tx[q].rings = rings;
        }
        let enabled = self.tx[q].rings.enabled;
        self.registers.queues[q][queue::TX_CONTROL.offset / 4] = enabled.into();
    }

    fn enable_rx(&mut self, q: usize, on: bool, _env: &mut Env<'_>) {
        if on == self.rx[q].rings.enabled {
            return;
        }
        self.rx[q].buffers.clear();
        self.receiver.wake(self.now);
        if !on {
            self.rx[q].rings.enabled = false;
            self.rx[q].rings.fetching = false;
        } else if let Some(rings) = self.latch(
            q,
            [
                queue::RX_RING_LO,
                queue::RX_RING_HI,
                queue::RX_COMPLETION_LO,
                queue::RX_COMPLETION_HI,
                queue::RX_RING_SIZE,
            ],
            RxDescriptor::BYTES as u64,
            self.rx[q].rings.generation,
        ) {
            self.rx[q].rings = rings;
        }
        let enabled = self.rx[q].rings.enabled;
        self.registers.queues[q][queue::RX_CONTROL.offset / 4] = enabled.into();
    }

    /// The rings that five registers describe; `None` when their sizes are none.
    fn latch(
        &self,
        q: usize,
        [ring_lo, ring_hi, completion_lo, completion_hi, size]: [Register; 5],
        align: u64,
        generation: u32,
    ) -> Option<Rings> {
        let size = RingSize(self.registers.queue(q, size));
        let (ring, completion) = (
            usize::from(size.ring_log2()),
            usize::from(size.completion_log2()),
        );
        if !(RING_LOG2_MIN..=RING_LOG2_MAX).contains(&ring)
            || !(RING_LOG2_MIN..=COMPLETION_LOG2_MAX).contains(&completion)
        {
            return None;
        }
        Some(Rings {
            enabled: true,
            generation: generation.wrapping_add(1),
            ring: self.registers.pair(q, ring_lo, ring_hi) & !(align - 1),
            slots: 1 << ring,
            completions: self.registers.pair(q, completion_lo, completion_hi) & !31,
            entries: 1 << completion,
            phase: 1,
            ..Rings::default()
        })
    }

    fn write_doorbell(&mut self, q: usize, r: usize, value: u32, env: &mut Env<'_>) {
        let tx = r == doorbell::TX_TAIL.offset;
        if !tx && r != doorbell::RX_TAIL.offset {
            return;
        }
        let rings = match (self.tx.get(q), self.rx.get(q)) {
            (Some(t), _) if tx => t.rings,
            (_, Some(r)) if !tx => r.rings,
            _ => Rings::default(),
        };
        if !rings.enabled || value >= rings.slots {
            self.registers.counters.doorbell_errors += 1;
            let mut events = Events(0);
            events.set_doorbell(1);
            self.raise(env, events);
            if rings.enabled {
                self.refuse_doorbell(env, q, tx);
            }
        } else if tx {
            self.tx_doorbell(env, q, value);
        } else {
            self.rx[q].rings.tail = value;
            self.fetch_buffers(env);
        }
    }

    fn refuse_doorbell(&mut self, env: &mut Env<'_>, q: usize, tx: bool) {
        let status = Status::DoorbellOutOfRange.code();
        if tx {
            let mut c = TxCompletion::default();
            c.status.set_status(status);
            c.status.set_cookie(COOKIE_NONE);
            c.first_departure = self.now.0;
            c.last_departure = self.now.0;
            self.complete(env, q, c, true);
        } else {
            let mut c = RxCompletion::default();
            c.status.set_status(status);
            c.status.set_cookie(COOKIE_NONE);
            c.arrival = self.now.0;
            self.complete_rx(env, q, c);
        }
    }
}

/// Number of a block and offset in it.
fn split(offset: usize, stride: usize) -> (usize, usize) {
    (offset / stride, offset % stride)
}
