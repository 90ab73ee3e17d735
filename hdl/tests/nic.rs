// SPDX-License-Identifier: MIT OR Apache-2.0
//! The joined NIC as a driver and a wire see it, under Verilator.

mod memory_side;
mod support;

use memory_side::{HostMemory, ReadPort, Rtl};
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::nic::Nic4;
use tsonic_regs::MAGIC;
use tsonic_regs::Status;
use tsonic_regs::completion::{COMPLETION_BYTES, COMPLETION_WORDS, RxCompletion, TxCompletion};
use tsonic_regs::descriptor::{Kind, RxDescriptor, TxDescriptor};
use tsonic_regs::limits::INV_RATE_FRACTION;
use tsonic_regs::registers::{
    Control, QueueControl, Register, RingSize, doorbell, doorbell_offset, global, queue,
    queue_offset,
};

const TX_RING: u64 = 0x10_0000;
const TX_DONE: u64 = 0x20_0000;
const RX_RING: u64 = 0x30_0000;
const RX_DONE: u64 = 0x40_0000;
const HEADERS: u64 = 0x50_0000;
const PAYLOAD: u64 = 0x60_0000;
const BUFFERS: u64 = 0x70_0000;
const LOG2: u32 = 8;
const ENTRIES: u64 = 1 << LOG2;
/// Bytes from one queue's area to the next.
const QUEUE_AREA: u64 = 0x1_0000;
/// Longest reset in cycles: two passes over the registers, and what drains.
const RESET_CYCLES: u64 = 20_000;

struct Bench {
    rtl: Rtl,
    rng: Pcg64Mcg,
    memory: HostMemory,
    reads: ReadPort,
    write_bytes: u64,
    writes: u64,
    frame: Vec<u8>,
    frames: Vec<Vec<u8>>,
    rx: Vec<u8>,
    tails: [u64; 4],
    /// Completions of each queue that no interrupt has followed.
    untold: [u64; 4],
}

impl Bench {
    /// A NIC whose power-up is over, with queues 0 to 3 and the device on.
    fn new(seed: u64) -> Self {
        let mut bench = Self {
            rtl: Rtl::new(Nic4::new(0xabcd)),
            rng: Pcg64Mcg::seed_from_u64(seed),
            memory: HostMemory::default(),
            reads: ReadPort::new(20..60, 0.9, 0.9),
            write_bytes: 0,
            writes: 0,
            frame: Vec::new(),
            frames: Vec::new(),
            rx: Vec::new(),
            tails: [0; 4],
            untold: [0; 4],
        };
        bench.end_of_reset();
        bench.bring_up();
        bench
    }

    fn cycle(&mut self) {
        let beat = self.reads.beat(&self.memory, self.rtl.now, &mut self.rng);
        self.rtl.set("rd_valid", u64::from(beat.is_some()));
        if let Some(beat) = beat {
            self.rtl.set("rd_data", beat.data);
            self.rtl.set("rd_last", u64::from(beat.last));
            self.rtl.set("rd_err", u64::from(beat.err));
        }
        let (ready, writable, mac) = (
            self.rng.random_bool(0.9),
            self.rng.random_bool(0.9),
            self.rng.random_bool(0.95),
        );
        self.rtl.set("rd_req_ready", u64::from(ready));
        self.rtl.set("wr_ready", u64::from(writable));
        self.rtl.set("tx_ready", u64::from(mac));
        let listens = self.rng.random_bool(0.5);
        self.rtl.set("irq_ready", u64::from(listens));
        let bytes = self.rx.len().min(8);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.rx[..bytes]);
        self.rtl.set("rx_valid", u64::from(bytes > 0));
        self.rtl.set("rx_data", u64::from_le_bytes(word));
        self.rtl.set("rx_bytes", bytes as u64);
        self.rtl.set("rx_last", u64::from(bytes == self.rx.len()));
        self.rx.drain(..bytes);
        self.rtl.settle();
        if let Some(beat) = beat
            && self.rtl.high("rd_ready")
        {
            self.reads.taken(beat);
        }
        if ready && self.rtl.high("rd_req_valid") {
            let (addr, len) = (self.rtl.get("rd_req_addr"), self.rtl.get("rd_req_len"));
            self.reads.request(addr, len, self.rtl.now, &mut self.rng);
        }
        if writable && self.rtl.high("wr_valid") {
            let (addr, data) = (self.rtl.get("wr_addr"), self.rtl.get("wr_data"));
            let strobe = self.rtl.get("wr_strb");
            assert_eq!(addr % 8, 0);
            for lane in 0..8 {
                if strobe >> lane & 1 == 1 {
                    assert!(
                        self.memory.byte(addr + lane).is_some(),
                        "a write to {:#x}, where nothing is",
                        addr + lane
                    );
                    self.memory
                        .write(addr + lane, &[(data >> (8 * lane)) as u8]);
                    self.write_bytes += 1;
                }
            }
            self.writes += u64::from(self.rtl.high("wr_last"));
            for done in [TX_DONE, RX_DONE] {
                if self.rtl.high("wr_last") && (done..done + 4 * QUEUE_AREA).contains(&addr) {
                    self.untold[((addr - done) / QUEUE_AREA) as usize] += 1;
                }
            }
        }
        if listens && self.rtl.high("irq_valid") {
            // Nothing is gathered: each completion is told, behind its write.
            let vector = self.rtl.get("irq_vector") as usize;
            assert!(self.untold[vector] > 0, "vector {vector} for nothing");
            self.untold[vector] -= 1;
        }
        if mac && self.rtl.high("tx_valid") {
            let bytes = self.rtl.get("tx_bytes") as usize;
            self.frame
                .extend_from_slice(&self.rtl.get("tx_data").to_le_bytes()[..bytes]);
            if self.rtl.high("tx_last") {
                self.frames.push(std::mem::take(&mut self.frame));
            }
        }
        self.rtl.edge();
    }

    fn run(&mut self, cycles: u64) {
        (0..cycles).for_each(|_| self.cycle());
    }

    fn reg_write(&mut self, offset: usize, value: u32) {
        self.rtl.set("reg_addr", offset as u64);
        self.rtl.set("reg_wdata", value.into());
        self.rtl.set("reg_wr_valid", 1);
        self.cycle();
        self.rtl.set("reg_wr_valid", 0);
    }

    fn reg_read(&mut self, offset: usize) -> u32 {
        self.rtl.set("reg_addr", offset as u64);
        self.rtl.set("reg_rd_valid", 1);
        for _ in 0..10 {
            self.cycle();
            self.rtl.set("reg_rd_valid", 0);
            if self.rtl.high("reg_rd_ack") {
                return self.rtl.get("reg_rd_data") as u32;
            }
        }
        panic!("the read of {offset:#x} was not answered");
    }

    fn counter(&mut self, register: Register) -> u64 {
        let low = self.reg_read(register.offset);
        u64::from(low) | u64::from(self.reg_read(register.offset + 4)) << 32
    }

    /// Waits until CONTROL.RESET reads 0; returns the cycles it took.
    fn end_of_reset(&mut self) -> u64 {
        let start = self.rtl.now;
        while Control(self.reg_read(global::CONTROL.offset)).reset() == 1 {
            assert!(
                self.rtl.now - start < RESET_CYCLES,
                "the reset does not end"
            );
        }
        self.rtl.now - start
    }

    fn bring_up(&mut self) {
        let mut size = RingSize(0);
        size.set_ring_log2(LOG2 as u8);
        size.set_completion_log2(LOG2 as u8);
        let mut on = QueueControl(0);
        on.set_enable(1);
        for q in 0..4u64 {
            let area = q * QUEUE_AREA;
            for base in [TX_DONE + area, RX_DONE + area] {
                self.memory.write(base, &vec![0; COMPLETION_BYTES << LOG2]);
            }
            self.memory.map(TX_RING + area, 64 << LOG2);
            self.memory.map(RX_RING + area, 16 << LOG2);
            for (register, value) in [
                (queue::TX_RING_LO, (TX_RING + area) as u32),
                (queue::TX_RING_HI, 0),
                (queue::TX_COMPLETION_LO, (TX_DONE + area) as u32),
                (queue::TX_COMPLETION_HI, 0),
                (queue::TX_RING_SIZE, size.0),
                (queue::TX_CONTROL, on.0),
                (queue::RX_RING_LO, (RX_RING + area) as u32),
                (queue::RX_RING_HI, 0),
                (queue::RX_COMPLETION_LO, (RX_DONE + area) as u32),
                (queue::RX_COMPLETION_HI, 0),
                (queue::RX_RING_SIZE, size.0),
                (queue::RX_CONTROL, on.0),
            ] {
                self.reg_write(queue_offset(q as usize, register), value);
            }
        }
        self.tails = [0; 4];
        let mut control = Control(0);
        control.set_enable(1);
        self.reg_write(global::CONTROL.offset, control.0);
    }

    /// Posts a TSO burst of `segments` segments of `mss` bytes into queue `q`.
    fn post(&mut self, q: usize, cookie: u16, slot: u16, inv_rate: u64, segments: u64, mss: u64) {
        let area = q as u64 * QUEUE_AREA;
        let mut d = TxDescriptor::default();
        d.control.set_kind(Kind::Tso as u8);
        d.control.set_l2_len(14);
        d.control.set_l3_len(20);
        d.control.set_l4_len(20);
        d.control.set_fragments(1);
        d.control.set_mss(mss as u16);
        d.burst.set_payload_len((segments * mss) as u32);
        d.burst.set_flow_slot(slot);
        d.burst.set_cookie(cookie);
        d.rate.set_inv_rate(inv_rate);
        d.header_addr = HEADERS + area;
        d.frag0_addr = PAYLOAD + area;
        d.lengths.set_frag0_len((segments * mss) as u32);
        let mut header = vec![0; 54];
        header[12..14].copy_from_slice(&[0x08, 0x00]);
        header[14] = 0x45;
        header[23] = 6;
        header[46] = 0x50;
        self.memory.write(d.header_addr, &header);
        let payload: Vec<u8> = (0..segments * mss).map(|i| (i * 7) as u8).collect();
        self.memory.write(d.frag0_addr, &payload);
        let tail = self.tails[q];
        self.memory
            .write_words(TX_RING + area + 64 * tail, &d.to_words());
        self.tails[q] = (tail + 1) % ENTRIES;
    }

    fn ring(&mut self, q: usize) {
        self.reg_write(doorbell_offset(q, doorbell::TX_TAIL), self.tails[q] as u32);
    }

    fn words(&self, addr: u64) -> [u64; COMPLETION_WORDS] {
        [0, 8, 16, 24].map(|at| self.memory.word(addr + at).expect("memory"))
    }

    fn tx_completion(&self, q: usize, n: u64) -> TxCompletion {
        let at = TX_DONE + q as u64 * QUEUE_AREA + n * COMPLETION_BYTES as u64;
        TxCompletion::from_words(self.words(at))
    }
}

#[test]
fn registers_tell_the_build() {
    let mut nic = Bench::new(1);
    assert_eq!(nic.reg_read(global::MAGIC.offset), MAGIC);
    assert_eq!(nic.reg_read(global::BUILD_HASH.offset), 0xabcd);
    assert_eq!(nic.reg_read(global::QUEUES.offset), 4);
    assert_eq!(nic.reg_read(global::FLOW_SLOTS.offset), 64);
    nic.run(100);
    assert_eq!(nic.reg_read(global::STATUS.offset), 1);
    assert!(nic.rtl.high("idle"));
}

#[test]
fn bursts_of_all_queues_depart_and_complete() {
    let mut nic = Bench::new(2);
    for round in 0..20u16 {
        for q in 0..4 {
            nic.post(q, round, 0, 0, 3, 1000);
            nic.ring(q);
        }
        nic.run(1500);
    }
    nic.run(10_000);
    assert_eq!(nic.frames.len(), 20 * 4 * 3);
    assert!(nic.frames.iter().all(|frame| frame.len() == 1054));
    // Payload is what was posted, in order within a burst of a queue.
    let mut positions = [0; 3];
    for frame in &nic.frames {
        let at = (0..3).find(|&i| frame[54] == (i as u64 * 1000 * 7) as u8);
        positions[at.expect("the start of a segment")] += 1;
    }
    assert_eq!(positions, [80; 3]);
    for q in 0..4 {
        for n in 0..20 {
            let done = nic.tx_completion(q, n);
            assert_eq!(done.status.status(), Status::Ok.code());
            assert_eq!(done.status.cookie(), n as u16);
            assert_eq!(done.done.segments(), 3);
            assert_eq!(done.done.wire_bytes(), 3 * 1054);
            assert_eq!(done.done.phase(), 1);
            assert!(done.first_departure < done.last_departure);
        }
    }
    assert_eq!(nic.untold, [0; 4]);
    assert_eq!(nic.counter(global::TX_FRAMES), 240);
    assert_eq!(nic.counter(global::TX_BYTES), 240 * 1054);
    assert_eq!(nic.counter(global::TX_BURSTS), 80);
    assert_eq!(nic.counter(global::TX_ERRORS), 0);
    assert_eq!(nic.reg_read(global::STATUS.offset), 1);
}

#[test]
fn a_paced_flow_keeps_its_gap_over_a_skip_of_the_clock() {
    let mut nic = Bench::new(3);
    // 100 ticks a wire byte: a segment of 1054 bytes every 105,400 ticks.
    nic.post(0, 7, 5, 100 << INV_RATE_FRACTION, 4, 1000);
    nic.ring(0);
    nic.run(3000);
    for _ in 0..3 {
        assert!(nic.rtl.high("idle") && nic.rtl.high("next_event_valid"));
        assert_eq!(nic.reg_read(global::STATUS.offset), 0, "a burst is inside");
        nic.rtl.set("ticks_load_valid", 1);
        nic.rtl.set("ticks_load_value", nic.rtl.get("next_event"));
        nic.cycle();
        nic.rtl.set("ticks_load_valid", 0);
        nic.run(3000);
    }
    assert_eq!(nic.frames.len(), 4);
    let done = nic.tx_completion(0, 0);
    assert_eq!(done.done.segments(), 4);
    let span = done.last_departure - done.first_departure;
    let ideal = 3 * 105_400;
    assert!(
        span.abs_diff(ideal) < 1000,
        "{span} ticks, {ideal} expected"
    );
}

#[test]
fn a_reset_empties_the_device_and_it_works_again() {
    let mut nic = Bench::new(4);
    for life in 0..4 {
        // Flows that would wait for minutes, half of them with a segment out.
        for n in 0..60u16 {
            for q in 0..4 {
                let slot = if n % 3 == 0 { 0 } else { n + 1 };
                nic.post(q, n, slot, ((1 << 20) - 1) << INV_RATE_FRACTION, 2, 500);
            }
        }
        (0..4).for_each(|q| nic.ring(q));
        nic.run(500 + 2500 * life);
        let mut control = Control(0);
        control.set_reset(1);
        nic.reg_write(global::CONTROL.offset, control.0);
        nic.run(10);
        // A write that was under way may still land; then nothing more.
        nic.run(200);
        let writes = nic.writes;
        let cycles = nic.end_of_reset();
        assert_eq!(nic.writes, writes, "nothing is written in a reset");
        assert!(
            nic.reads.idle(),
            "no read is outstanding after {cycles} cycles"
        );
        assert_eq!(nic.counter(global::TX_FRAMES), 0);
        let frames = nic.frames.len();
        nic.run(2000);
        assert_eq!((nic.frames.len(), nic.writes), (frames, writes));
        nic.bring_up();
    }
    // All contexts are there: each queue gets its share at once.
    nic.frames.clear();
    for n in 0..60 {
        (0..4).for_each(|q| nic.post(q, n, 0, 0, 1, 100));
    }
    (0..4).for_each(|q| nic.ring(q));
    nic.run(20_000);
    assert_eq!(nic.frames.len(), 240);
    assert_eq!(nic.counter(global::TX_BURSTS), 240);
}

#[test]
fn frames_from_the_wire_reach_buffers() {
    let mut nic = Bench::new(5);
    for n in 0..32u64 {
        let mut d = RxDescriptor {
            addr: BUFFERS + 2048 * n,
            ..Default::default()
        };
        d.buffer.set_bytes(2048);
        d.buffer.set_cookie(n as u16);
        nic.memory.map(d.addr, 2048);
        nic.memory
            .write_words(RX_RING + 16 * n, &[d.addr, d.buffer.0]);
    }
    // Frames that are no IP go to queue 0.
    nic.reg_write(doorbell_offset(0, doorbell::RX_TAIL), 32);
    nic.run(500);
    let mut sent = Vec::new();
    for n in 0..20usize {
        let mut frame = vec![0u8; 60 + 37 * n];
        frame
            .iter_mut()
            .enumerate()
            .for_each(|(i, byte)| *byte = (i * 3 + n) as u8);
        frame[12..14].copy_from_slice(&[0x88, 0xb5]);
        nic.rx = frame.clone();
        nic.run(400);
        sent.push(frame);
    }
    nic.run(2000);
    for (n, frame) in sent.iter().enumerate() {
        let done = RxCompletion::from_words(nic.words(RX_DONE + 32 * n as u64));
        assert_eq!(done.done.phase(), 1, "completion {n}");
        assert_eq!(done.status.status(), Status::Ok.code());
        assert_eq!(usize::from(done.status.bytes()), frame.len());
        let at = BUFFERS + 2048 * u64::from(done.status.cookie());
        let data: Vec<u8> = (0..frame.len() as u64)
            .map(|i| nic.memory.byte(at + i).expect("memory"))
            .collect();
        assert_eq!(data, *frame);
    }
    assert_eq!(nic.counter(global::RX_FRAMES), 20);
}

#[test]
fn doorbells_out_of_range_are_refused_and_told() {
    let mut nic = Bench::new(6);
    nic.reg_write(doorbell_offset(1, doorbell::TX_TAIL), 999);
    nic.run(1000);
    let done = nic.tx_completion(1, 0);
    assert_eq!(done.status.status(), Status::DoorbellOutOfRange.code());
    assert_eq!(nic.counter(global::DOORBELL_ERRORS), 1);
    // The queue goes on.
    nic.post(1, 3, 0, 0, 1, 200);
    nic.ring(1);
    nic.run(2000);
    assert_eq!(nic.tx_completion(1, 1).status.cookie(), 3);
    assert_eq!(nic.frames.len(), 1);
}
