// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two NICs and the wire between them, as small as the driver lets them be: one
//! queue pair each, doorbells that only note the tail, and [`Wire::carry`], which
//! does the device's work when it is told to. So what a driver and an engine do
//! between two calls of `carry` is theirs alone.
//!
//! Bursts are cut into segments as the contract says; checksums are not written,
//! and reported as right. Frames leave at 100 Gb/s and arrive after a delay of 50 us.

use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::rc::Rc;
use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
use tsonic_regs::completion::{COMPLETION_BYTES, ChecksumVerdict, RxCompletion, TxCompletion};
use tsonic_regs::descriptor::{FragmentEntry, Kind, RxBuffer, RxDescriptor, TxDescriptor};
use tsonic_regs::registers::{
    DOORBELL_BASE, Features, QUEUE_BLOCK_BASE, Register, RingSize, doorbell, doorbell_offset,
    global, queue, queue_offset,
};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_types::Ticks;

/// Ticks per second.
const TICK_HZ: u32 = 125_000_000;
/// Bytes that leave in a tick.
const BYTES_PER_TICK: u64 = 100;
/// Ticks from one end to the other.
const DELAY: u64 = 6_250;
/// Flags that only the last segment has (FIN, PSH), and only the first (CWR).
const LAST_ONLY: u8 = 0x09;
const FIRST_ONLY: u8 = 0x80;

struct Mapping {
    memory: NonNull<u8>,
    bytes: u64,
    iova: u64,
    permission: DmaPermission,
}

#[derive(Default)]
struct Nic {
    /// Global registers and the queue's block, by offset / 4.
    registers: Vec<u32>,
    mappings: Vec<Mapping>,
    tx_tail: usize,
    tx_head: usize,
    tx_done: usize,
    rx_tail: usize,
    rx_head: usize,
    rx_done: usize,
}

impl Nic {
    fn new() -> Nic {
        let mut features = Features(0);
        features.set_tso(1);
        features.set_pacing(1);
        let mut nic = Nic {
            registers: vec![0; (QUEUE_BLOCK_BASE + queue::BYTES) / 4],
            ..Nic::default()
        };
        for (r, v) in [
            (global::MAGIC, MAGIC),
            (global::CONTRACT_VERSION, CONTRACT_VERSION),
            (global::FEATURES, features.0),
            (global::QUEUES, 1),
            (global::FLOW_SLOTS, 64),
            (global::MAX_SEGMENT, 16_000),
            (global::MAX_PAYLOAD, (1 << 18) - 1),
            (global::WIDTH, 64),
            (global::TICK_HZ, TICK_HZ),
        ] {
            nic.registers[r.offset / 4] = v;
        }
        nic
    }

    fn ring(&self, lo: Register, hi: Register) -> u64 {
        let half = |r| u64::from(self.registers[queue_offset(0, r) / 4]);
        half(hi) << 32 | half(lo)
    }

    /// Slots of the descriptor ring, entries of the completion ring.
    fn sizes(&self, r: Register) -> (usize, usize) {
        let size = RingSize(self.registers[queue_offset(0, r) / 4]);
        (1 << size.ring_log2(), 1 << size.completion_log2())
    }

    fn at(&self, iova: u64, bytes: usize, write: bool) -> *mut u8 {
        let end = iova + bytes as u64;
        let inside = |m: &&Mapping| iova >= m.iova && end <= m.iova + m.bytes;
        let m = self.mappings.iter().find(inside);
        let m = m.unwrap_or_else(|| panic!("{bytes} bytes at {iova:#x} are not mapped"));
        assert!(!write || m.permission.writes(), "write to read-only memory");
        // SAFETY: `iova` lies inside the mapping.
        unsafe { m.memory.as_ptr().add((iova - m.iova) as usize) }
    }

    fn read(&self, iova: u64, out: &mut [u8]) {
        let from = self.at(iova, out.len(), false);
        // SAFETY: `from` has as many bytes (`at`); the driver shares this thread and
        // holds no reference into mapped memory, so nobody writes meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
    }

    fn write(&self, iova: u64, data: &[u8]) {
        let to = self.at(iova, data.len(), true);
        // SAFETY: as for `read`; nobody reads meanwhile.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()) };
    }

    fn words<const N: usize>(&self, iova: u64) -> [u64; N] {
        let mut b = [0; 64];
        self.read(iova, &mut b[..8 * N]);
        std::array::from_fn(|i| u64::from_le_bytes(std::array::from_fn(|k| b[8 * i + k])))
    }

    fn complete(&self, ring: u64, n: usize, entries: usize, words: [u64; 4]) {
        let at = ring + (n % entries * COMPLETION_BYTES) as u64;
        for (i, w) in words.iter().enumerate() {
            self.write(at + 8 * i as u64, &w.to_le_bytes());
        }
    }

    fn fetch(&mut self) -> Option<TxDescriptor> {
        if self.tx_head == self.tx_tail {
            return None;
        }
        let ring = self.ring(queue::TX_RING_LO, queue::TX_RING_HI);
        let at = ring + (self.tx_head * TxDescriptor::BYTES) as u64;
        let (slots, _) = self.sizes(queue::TX_RING_SIZE);
        self.tx_head = (self.tx_head + 1) % slots;
        Some(TxDescriptor::from_words(self.words(at)))
    }

    /// Template and payload of a burst, one behind the other.
    fn gather(&self, d: &TxDescriptor, out: &mut Vec<u8>) {
        out.resize(d.header_len(), 0);
        self.read(d.header_addr, out);
        let mut append = |iova: u64, len: u32| {
            let start = out.len();
            out.resize(start + len as usize, 0);
            self.read(iova, &mut out[start..]);
        };
        let n = u64::from(d.control.fragments());
        if n > 0 {
            append(d.frag0_addr, d.lengths.frag0_len());
        }
        if n == 2 {
            append(d.frag1_addr, d.lengths.frag1_len());
        } else if n > 2 {
            for i in 0..n - 1 {
                let entry = d.frag1_addr + i * FragmentEntry::BYTES as u64;
                let [iova, len] = self.words(entry);
                append(iova, len as u32);
            }
        }
    }

    fn departed(&mut self, d: &TxDescriptor, wire: u64, segments: u32, times: (u64, u64)) {
        let (_, entries) = self.sizes(queue::TX_RING_SIZE);
        let mut c = TxCompletion::default();
        c.status.set_cookie(d.burst.cookie());
        c.status.set_flow_slot(d.burst.flow_slot());
        c.first_departure = times.0;
        c.last_departure = times.1;
        c.done.set_wire_bytes(wire as u32);
        c.done.set_segments(segments);
        c.done.set_head(self.tx_head as u16);
        c.done.set_phase(1 - (self.tx_done / entries % 2) as u8);
        let ring = self.ring(queue::TX_COMPLETION_LO, queue::TX_COMPLETION_HI);
        self.complete(ring, self.tx_done, entries, c.to_words());
        self.tx_done += 1;
    }

    /// Stores a frame; false when there is no buffer.
    fn deliver(&mut self, frame: &[u8], now: u64, verdict: ChecksumVerdict) -> bool {
        if self.rx_head == self.rx_tail {
            return false;
        }
        let (slots, entries) = self.sizes(queue::RX_RING_SIZE);
        let ring = self.ring(queue::RX_RING_LO, queue::RX_RING_HI);
        let [iova, buffer] = self.words(ring + (self.rx_head * RxDescriptor::BYTES) as u64);
        self.rx_head = (self.rx_head + 1) % slots;
        let buffer = RxBuffer(buffer);
        assert!(frame.len() <= usize::from(buffer.bytes()));
        self.write(iova, frame);
        let mut c = RxCompletion::default();
        c.status.set_sop(1);
        c.status.set_eop(1);
        c.status.set_ip_csum(verdict as u8);
        c.status.set_l4_csum(verdict as u8);
        c.status.set_cookie(buffer.cookie());
        c.status.set_bytes(frame.len() as u16);
        c.arrival = now;
        c.hash.set_frame_len(frame.len() as u16);
        c.done.set_phase(1 - (self.rx_done / entries % 2) as u8);
        let ring = self.ring(queue::RX_COMPLETION_LO, queue::RX_COMPLETION_HI);
        self.complete(ring, self.rx_done, entries, c.to_words());
        self.rx_done += 1;
        true
    }
}

/// A frame on the wire.
struct Frame {
    lands: u64,
    verdict: ChecksumVerdict,
    bytes: Vec<u8>,
}

struct Inner {
    nics: [Nic; 2],
    /// Frames on their way from each NIC.
    flying: [VecDeque<Frame>; 2],
    /// Memory of frames that have landed.
    spare: Vec<Vec<u8>>,
    now: u64,
    /// Every so many segments of data one is lost; 0: none.
    lose_every: u64,
    segments: u64,
    burst: Vec<u8>,
}

/// The wire, and the clock of both NICs.
#[derive(Clone)]
pub struct Wire(Rc<RefCell<Inner>>);

impl Wire {
    /// A wire that loses one in `lose_every` segments of data (0: none).
    pub fn new(lose_every: u64) -> Wire {
        Wire(Rc::new(RefCell::new(Inner {
            nics: [Nic::new(), Nic::new()],
            flying: Default::default(),
            spare: Vec::new(),
            now: 1,
            lose_every,
            segments: 0,
            burst: Vec::new(),
        })))
    }

    /// The function of a NIC: 0 or 1.
    pub fn function(&self, end: usize) -> Function {
        Function {
            wire: self.clone(),
            end,
        }
    }

    /// Lets the clock go on.
    pub fn advance_to(&self, now: Ticks) {
        let mut inner = self.0.borrow_mut();
        inner.now = inner.now.max(now.0);
    }

    /// When the next frame lands; `None`: the wire is empty.
    pub fn next_landing(&self) -> Option<Ticks> {
        let inner = self.0.borrow();
        let first = |end: usize| inner.flying[end].front().map(|f| f.lands);
        first(0).into_iter().chain(first(1)).min().map(Ticks)
    }

    /// Hands NIC `end` the frames that have landed by now, and says how many.
    pub fn land(&self, end: usize) -> usize {
        let inner = &mut *self.0.borrow_mut();
        let mut n = 0;
        while let Some(f) = inner.flying[1 - end].pop_front_if(|f| f.lands <= inner.now) {
            let stored = inner.nics[end].deliver(&f.bytes, f.lands, f.verdict);
            assert!(stored, "NIC {end} has no receive buffer");
            inner.spare.push(f.bytes);
            n += 1;
        }
        n
    }

    /// Sends at most `bursts` bursts of NIC `end`, and says how many there were.
    pub fn carry(&self, end: usize, bursts: usize) -> usize {
        let mut inner = self.0.borrow_mut();
        let mut n = 0;
        while n < bursts {
            let Some(d) = inner.nics[end].fetch() else {
                break;
            };
            inner.send(end, &d);
            n += 1;
        }
        n
    }
}

impl Inner {
    fn send(&mut self, end: usize, d: &TxDescriptor) {
        let mut burst = std::mem::take(&mut self.burst);
        self.nics[end].gather(d, &mut burst);
        let (header, payload) = burst.split_at(d.header_len());
        let kind = Kind::from_code(d.control.kind());
        let mss = if kind == Some(Kind::Tso) {
            usize::from(d.control.mss())
        } else {
            payload.len().max(1)
        };
        let segments = payload.len().div_ceil(mss).max(1);
        let verdict = match kind {
            Some(Kind::Raw) | None => ChecksumVerdict::None,
            _ => ChecksumVerdict::Ok,
        };
        let (mut wire, mut first) = (0, 0);
        for i in 0..segments {
            let part = &payload[i * mss..payload.len().min((i + 1) * mss)];
            let mut frame = self.spare.pop().unwrap_or_default();
            frame.clear();
            frame.extend_from_slice(header);
            frame.extend_from_slice(part);
            if segments > 1 {
                let l3 = usize::from(d.control.l2_len());
                let l4 = l3 + usize::from(d.control.l3_len());
                let ip_len = frame.len() - l3;
                if d.control.ipv6() == 1 {
                    put16(&mut frame, l3 + 4, ip_len - 40);
                } else {
                    put16(&mut frame, l3 + 2, ip_len);
                    let id = usize::from(u16::from_be_bytes([header[l3 + 4], header[l3 + 5]]));
                    put16(&mut frame, l3 + 4, id + i);
                }
                let seq = u32::from_be_bytes(std::array::from_fn(|k| header[l4 + 4 + k]));
                let seq = seq.wrapping_add((i * mss) as u32);
                frame[l4 + 4..l4 + 8].copy_from_slice(&seq.to_be_bytes());
                if i + 1 < segments {
                    frame[l4 + 13] &= !LAST_ONLY;
                }
                if i > 0 {
                    frame[l4 + 13] &= !FIRST_ONLY;
                }
            }
            self.now += (frame.len() as u64).div_ceil(BYTES_PER_TICK);
            wire += frame.len() as u64;
            if i == 0 {
                first = self.now;
            }
            self.segments += u64::from(!part.is_empty());
            let lost = self.lose_every > 0
                && !part.is_empty()
                && self.segments.is_multiple_of(self.lose_every);
            if lost {
                self.spare.push(frame);
            } else {
                self.flying[end].push_back(Frame {
                    lands: self.now + DELAY,
                    verdict,
                    bytes: frame,
                });
            }
        }
        let times = (first, self.now);
        self.nics[end].departed(d, wire, segments as u32, times);
        self.burst = burst;
    }
}

/// Low 16 bits of `v` in network order.
fn put16(frame: &mut [u8], at: usize, v: usize) {
    frame[at..at + 2].copy_from_slice(&(v as u16).to_be_bytes());
}

/// The driver's view of one of the NICs.
pub struct Function {
    wire: Wire,
    end: usize,
}

impl Function {
    fn nic(&mut self) -> RefMut<'_, Nic> {
        let end = self.end;
        RefMut::map(self.wire.0.borrow_mut(), |i| &mut i.nics[end])
    }
}

impl PciFunction for Function {
    fn config_read(&mut self, _: u16, out: &mut [u8]) -> Result<(), BusError> {
        out.fill(0);
        Ok(())
    }

    fn config_write(&mut self, _: u16, _: &[u8]) -> Result<(), BusError> {
        Ok(())
    }

    fn read32(&mut self, bar: u8, offset: u64) -> Result<u32, BusError> {
        let value = self.nic().registers.get(offset as usize / 4).copied();
        value.ok_or(BusError::BadAccess {
            bar,
            offset,
            bytes: 4,
        })
    }

    fn write32(&mut self, bar: u8, offset: u64, value: u32) -> Result<(), BusError> {
        let mut nic = self.nic();
        let at = offset as usize;
        if at >= DOORBELL_BASE {
            if at == doorbell_offset(0, doorbell::TX_TAIL) {
                nic.tx_tail = value as usize;
            } else {
                nic.rx_tail = value as usize;
            }
            return Ok(());
        }
        match nic.registers.get_mut(at / 4) {
            Some(r) => *r = value,
            None => {
                return Err(BusError::BadAccess {
                    bar,
                    offset,
                    bytes: 4,
                });
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
        self.nic().mappings.push(Mapping {
            memory: buffer.memory,
            bytes: buffer.bytes as u64,
            iova,
            permission,
        });
        Ok(())
    }

    fn dma_unmap(&mut self, iova: u64, _: usize) -> Result<(), BusError> {
        self.nic().mappings.retain(|m| m.iova != iova);
        Ok(())
    }

    fn reset(&mut self) -> Result<(), BusError> {
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
        Ticks(self.wire.0.borrow().now)
    }

    fn wait(&mut self, deadline: Option<Ticks>) -> Result<Wake, BusError> {
        match deadline {
            Some(t) => {
                self.wire.advance_to(t);
                Ok(Wake::Deadline)
            }
            None => Ok(Wake::Idle),
        }
    }
}
