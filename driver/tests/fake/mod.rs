// SPDX-License-Identifier: MIT OR Apache-2.0
//! A PCI function that is registers and mappings, and does only what a test
//! tells it: fetch descriptors, write completions, deliver frames.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::NonNull;
use std::rc::Rc;
use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
use tsonic_regs::completion::{COMPLETION_BYTES, RxCompletion, TxCompletion};
use tsonic_regs::descriptor::{RxBuffer, RxDescriptor, TxDescriptor};
use tsonic_regs::registers::{
    BAR0_BYTES, Features, Register, RingSize, doorbell, doorbell_offset, global, queue,
    queue_offset,
};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_types::Ticks;

struct Mapping {
    memory: NonNull<u8>,
    bytes: usize,
    iova: u64,
    permission: DmaPermission,
}

/// Where the device stands in a queue's rings.
#[derive(Clone, Copy, Default)]
struct Rings {
    head: usize,
    completed: usize,
}

#[derive(Default)]
struct Inner {
    registers: HashMap<u64, u32>,
    mappings: Vec<Mapping>,
    now: u64,
    tx: HashMap<usize, Rings>,
    rx: HashMap<usize, Rings>,
    doorbells: Vec<(u64, u32)>,
    resets: usize,
    /// CONTROL reads as resetting for so many reads.
    resetting: usize,
    unmap_fails: bool,
    /// What a wait does to the clock, if not what it is asked to.
    wait_ticks: Option<u64>,
}

/// The function, and the test's handle to it.
#[derive(Clone)]
pub struct Fake(Rc<RefCell<Inner>>);

impl Fake {
    /// A good device: 4 queues, 16 flow slots, 125 MHz, all features.
    pub fn new() -> Fake {
        let fake = Fake(Rc::default());
        let mut features = Features(0);
        features.set_tso(1);
        features.set_uso(1);
        features.set_pacing(1);
        features.set_launch_time(1);
        features.set_bql(1);
        features.set_cn(1);
        features.set_flow_limit(1);
        features.set_rss(1);
        features.set_msix(1);
        for (r, v) in [
            (global::MAGIC, MAGIC),
            (global::CONTRACT_VERSION, CONTRACT_VERSION),
            (global::BUILD_HASH, 0xabcd),
            (global::FEATURES, features.0),
            (global::QUEUES, 4),
            (global::FLOW_SLOTS, 16),
            (global::MAX_SEGMENT, 16_000),
            (global::MAX_PAYLOAD, (1 << 18) - 1),
            (global::WIDTH, 64),
            (global::TICK_HZ, 125_000_000),
        ] {
            fake.set(r, v);
        }
        fake
    }

    pub fn set(&self, r: Register, value: u32) {
        let mut i = self.0.borrow_mut();
        i.registers.insert(r.offset as u64, value);
    }

    pub fn set_at(&self, offset: usize, value: u32) {
        self.0.borrow_mut().registers.insert(offset as u64, value);
    }

    pub fn get(&self, offset: usize) -> u32 {
        *self
            .0
            .borrow()
            .registers
            .get(&(offset as u64))
            .unwrap_or(&0)
    }

    pub fn queue_register(&self, q: usize, r: Register) -> u32 {
        self.get(queue_offset(q, r))
    }

    fn queue64(&self, q: usize, lo: Register, hi: Register) -> u64 {
        u64::from(self.queue_register(q, hi)) << 32 | u64::from(self.queue_register(q, lo))
    }

    pub fn keep_resetting(&self, reads: usize) {
        self.0.borrow_mut().resetting = reads;
    }

    pub fn fail_unmaps(&self) {
        self.0.borrow_mut().unmap_fails = true;
    }

    /// Waits end after so many ticks, as if for a completion.
    pub fn interrupt_every(&self, ticks: u64) {
        self.0.borrow_mut().wait_ticks = Some(ticks);
    }

    pub fn resets(&self) -> usize {
        self.0.borrow().resets
    }

    pub fn mappings(&self) -> usize {
        self.0.borrow().mappings.len()
    }

    /// Doorbells rung since the last call.
    pub fn doorbells(&self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.0.borrow_mut().doorbells)
    }

    /// Reads mapped memory as the device.
    pub fn read(&self, iova: u64, bytes: usize) -> Vec<u8> {
        let at = self.find(iova, bytes, false);
        // SAFETY: inside a mapping (`find`), and the driver, on this very thread,
        // is not running.
        (0..bytes)
            .map(|i| unsafe { at.add(i).read_volatile() })
            .collect()
    }

    /// Writes mapped memory as the device.
    pub fn write(&self, iova: u64, data: &[u8]) {
        let at = self.find(iova, data.len(), true);
        for (i, b) in data.iter().enumerate() {
            // SAFETY: inside a mapping for writing (`find`), and the driver, on this
            // very thread, is not running.
            unsafe { at.add(i).write_volatile(*b) };
        }
    }

    fn find(&self, iova: u64, bytes: usize, write: bool) -> *mut u8 {
        let i = self.0.borrow();
        let inside =
            |m: &&Mapping| iova >= m.iova && iova + bytes as u64 <= m.iova + m.bytes as u64;
        let m = i.mappings.iter().find(inside);
        let m = m.unwrap_or_else(|| panic!("{bytes} bytes at {iova:#x} are not mapped"));
        assert!(!write || m.permission.writes(), "write to read-only memory");
        // SAFETY: `iova` lies inside the mapping.
        unsafe { m.memory.as_ptr().add((iova - m.iova) as usize) }
    }

    /// Descriptors between the device's head and the doorbell's tail.
    pub fn fetch(&self, q: usize) -> Vec<TxDescriptor> {
        self.fetch_up_to(q, usize::MAX)
    }

    pub fn fetch_up_to(&self, q: usize, most: usize) -> Vec<TxDescriptor> {
        let size = RingSize(self.queue_register(q, queue::TX_RING_SIZE));
        let ring = self.queue64(q, queue::TX_RING_LO, queue::TX_RING_HI);
        let tail = self.get(doorbell_offset(q, doorbell::TX_TAIL)) as usize;
        let mut head = self.0.borrow().tx.get(&q).copied().unwrap_or_default().head;
        let mut out = Vec::new();
        while head != tail && out.len() < most {
            let bytes = self.read(
                ring + (head * TxDescriptor::BYTES) as u64,
                TxDescriptor::BYTES,
            );
            let mut words = [0; TxDescriptor::WORDS];
            for (w, b) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *w = u64::from_le_bytes(b.try_into().unwrap());
            }
            out.push(TxDescriptor::from_words(words));
            head = (head + 1) % (1 << size.ring_log2());
        }
        self.0.borrow_mut().tx.entry(q).or_default().head = head;
        out
    }

    /// Completes a burst: head and phase as they must be, the rest as given.
    pub fn complete(&self, q: usize, mut c: TxCompletion) {
        let head = self.0.borrow().tx.get(&q).copied().unwrap_or_default().head;
        c.status.set_queue(q as u16);
        c.done.set_head(head as u16);
        self.complete_raw(q, c);
    }

    /// Writes a completion with only the phase as it must be.
    pub fn complete_raw(&self, q: usize, mut c: TxCompletion) {
        let size = RingSize(self.queue_register(q, queue::TX_RING_SIZE));
        let ring = self.queue64(q, queue::TX_COMPLETION_LO, queue::TX_COMPLETION_HI);
        let entries = 1usize << size.completion_log2();
        let n = {
            let mut i = self.0.borrow_mut();
            let r = i.tx.entry(q).or_default();
            r.completed += 1;
            r.completed - 1
        };
        c.done.set_phase(1 - (n / entries % 2) as u8);
        self.write_words(
            ring + (n % entries * COMPLETION_BYTES) as u64,
            &c.to_words(),
        );
    }

    fn write_words(&self, iova: u64, words: &[u64]) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.write(iova, &bytes);
    }

    /// The next receive buffer.
    pub fn take_buffer(&self, q: usize) -> Option<RxDescriptor> {
        let size = RingSize(self.queue_register(q, queue::RX_RING_SIZE));
        let ring = self.queue64(q, queue::RX_RING_LO, queue::RX_RING_HI);
        let tail = self.get(doorbell_offset(q, doorbell::RX_TAIL)) as usize;
        let head = self.0.borrow().rx.get(&q).copied().unwrap_or_default().head;
        if head == tail {
            return None;
        }
        let b = self.read(
            ring + (head * RxDescriptor::BYTES) as u64,
            RxDescriptor::BYTES,
        );
        self.0.borrow_mut().rx.entry(q).or_default().head = (head + 1) % (1 << size.ring_log2());
        Some(RxDescriptor {
            addr: u64::from_le_bytes(b[..8].try_into().unwrap()),
            buffer: RxBuffer(u64::from_le_bytes(b[8..].try_into().unwrap())),
        })
    }

    /// Writes a receive completion with only the phase as it must be.
    pub fn complete_rx(&self, q: usize, mut c: RxCompletion) {
        let size = RingSize(self.queue_register(q, queue::RX_RING_SIZE));
        let ring = self.queue64(q, queue::RX_COMPLETION_LO, queue::RX_COMPLETION_HI);
        let entries = 1usize << size.completion_log2();
        let n = {
            let mut i = self.0.borrow_mut();
            let r = i.rx.entry(q).or_default();
            r.completed += 1;
            r.completed - 1
        };
        c.done.set_phase(1 - (n / entries % 2) as u8);
        self.write_words(
            ring + (n % entries * COMPLETION_BYTES) as u64,
            &c.to_words(),
        );
    }

    /// Delivers a frame into as many buffers as it takes; false when they ran out.
    pub fn deliver(&self, q: usize, frame: &[u8], facts: &RxCompletion) -> bool {
        let mut left = frame;
        let mut first = true;
        while first || !left.is_empty() {
            let Some(d) = self.take_buffer(q) else {
                return false;
            };
            let n = left.len().min(usize::from(d.buffer.bytes()));
            self.write(d.addr, &left[..n]);
            left = &left[n..];
            let mut c = *facts;
            c.status.set_sop(first.into());
            c.status.set_eop(left.is_empty().into());
            c.status.set_queue(q as u16);
            c.status.set_cookie(d.buffer.cookie());
            c.status.set_bytes(n as u16);
            c.hash.set_frame_len(frame.len() as u16);
            self.complete_rx(q, c);
            first = false;
        }
        true
    }
}

impl PciFunction for Fake {
    fn config_read(&mut self, _: u16, out: &mut [u8]) -> Result<(), BusError> {
        out.fill(0);
        Ok(())
    }

    fn config_write(&mut self, _: u16, _: &[u8]) -> Result<(), BusError> {
        Ok(())
    }

    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        check(bar, offset)?;
        let mut i = self.0.borrow_mut();
        if offset == global::CONTROL.offset as u64 && i.resetting > 0 {
            i.resetting -= 1;
            return Ok(2);
        }
        Ok(*i.registers.get(&offset).unwrap_or(&0))
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        check(bar, offset)?;
        let mut i = self.0.borrow_mut();
        i.registers.insert(offset, value);
        if offset >= doorbell_offset(0, doorbell::TX_TAIL) as u64 {
            i.doorbells.push((offset, value));
        }
        // Turning a queue on starts its rings at index 0.
        for q in 0..4 {
            if offset == queue_offset(q, queue::TX_CONTROL) as u64 && value == 1 {
                i.tx.insert(q, Rings::default());
            }
            if offset == queue_offset(q, queue::RX_CONTROL) as u64 && value == 1 {
                i.rx.insert(q, Rings::default());
            }
        }
        Ok(())
    }

    unsafe fn dma_map(
        &mut self,
        buffer: DmaBuffer<'_>,
        iova: u64,
        permission: DmaPermission,
    ) -> Result<(), BusError> {
        let (memory, bytes) = (buffer.memory, buffer.bytes);
        let mut i = self.0.borrow_mut();
        let end = iova + bytes as u64;
        let overlaps = |m: &Mapping| iova < m.iova + m.bytes as u64 && m.iova < end;
        let unaligned = [memory.as_ptr() as u64, bytes as u64, iova]
            .iter()
            .any(|v| v % 4_096 != 0);
        if bytes == 0 || unaligned || i.mappings.iter().any(overlaps) {
            return Err(BusError::BadMapping { iova, bytes });
        }
        i.mappings.push(Mapping {
            memory,
            bytes,
            iova,
            permission,
        });
        Ok(())
    }

    fn dma_unmap(&mut self, iova: u64, bytes: usize) -> Result<(), BusError> {
        let mut i = self.0.borrow_mut();
        if i.unmap_fails {
            return Err(BusError::Gone("unplugged".into()));
        }
        let found = i
            .mappings
            .iter()
            .position(|m| m.iova == iova && m.bytes == bytes);
        match found {
            Some(at) => {
                i.mappings.swap_remove(at);
                Ok(())
            }
            None => Err(BusError::NotMapped { iova }),
        }
    }

    fn reset(&mut self) -> Result<(), BusError> {
        let mut i = self.0.borrow_mut();
        i.resets += 1;
        i.tx.clear();
        i.rx.clear();
        Ok(())
    }

    fn vectors(&self) -> u16 {
        0
    }

    fn enable_vectors(&mut self, wanted: u16) -> Result<(), BusError> {
        Err(BusError::TooFewVectors { wanted, has: 0 })
    }

    fn disable_vectors(&mut self) -> Result<(), BusError> {
        Ok(())
    }

    fn mask_vector(&mut self, vector: u16, _: bool) -> Result<(), BusError> {
        self.enable_vectors(vector + 1)
    }

    fn mask_all(&mut self, _: bool) -> Result<(), BusError> {
        Ok(())
    }

    fn take_fired(&mut self, _: &mut Vec<u16>) -> bool {
        false
    }

    fn runs_by_itself(&self) -> bool {
        false
    }

    fn now(&mut self) -> Ticks {
        Ticks(self.0.borrow().now)
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        let mut i = self.0.borrow_mut();
        if let Some(ticks) = i.wait_ticks {
            i.now += ticks;
            return Ok(Wake::Completion);
        }
        match deadline {
            Some(t) => {
                i.now = i.now.max(t.0);
                Ok(Wake::Deadline)
            }
            None => Ok(Wake::Idle),
        }
    }
}

fn check(bar: u8, offset: u64) -> Result<(), BusError> {
    if bar == 0 && offset.is_multiple_of(4) && offset < BAR0_BYTES as u64 {
        return Ok(());
    }
    Err(BusError::BadAccess {
        bar,
        offset,
        bytes: 4,
    })
}
