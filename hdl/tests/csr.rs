// SPDX-License-Identifier: MIT OR Apache-2.0
//! The register space: read and written over its bus, and in lock-step.

mod support;

use rust_hdl::prelude::*;
use support::{RngExt, bits_of, lock_step};
use tsonic_hdl::csr::{Build, Csr, TICK_HZ};
use tsonic_hdl::verilog;
use tsonic_regs::limits::{PAYLOAD_MAX, QUANTUM_RESET, RSS_KEY_DEFAULT};
use tsonic_regs::registers::{Register, doorbell, doorbell_offset, global, queue, queue_offset};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_verilate::{Model, Optimisation};

const BUILD: Build = Build {
    hash: 0x1234_5678,
    queues: 5,
    flow_slots: 64,
    max_segment: 16_000,
};

fn csr() -> Csr<8> {
    let mut block = Csr::new(&BUILD);
    block.connect_all();
    block
}

/// The bus, driven by hand.
struct Bus {
    model: Model,
}

impl Bus {
    /// A register space whose power-up reset is over.
    fn new() -> Bus {
        let generated = verilog::generate(&csr()).unwrap();
        let model = Model::build(&support::design(&generated), Optimisation::Quick).unwrap();
        let mut bus = Bus { model };
        bus.set("device_idle", 1);
        bus.cycle();
        bus.end_of_reset();
        bus.set("device_idle", 0);
        bus
    }

    /// Runs until a reset is over: two passes over all registers, and idle time
    /// between them.
    fn end_of_reset(&mut self) {
        for _ in 0..2 * (32 * BUILD.queues + 256) + 80 {
            self.cycle();
            if self.get("resetting") == 0 {
                return;
            }
        }
        panic!("the reset does not end");
    }

    fn set(&mut self, name: &str, value: u64) {
        let pin = self.model.input(name).unwrap();
        self.model.set(pin, value);
    }

    fn get(&self, name: &str) -> u64 {
        self.model.get(self.model.output(name).unwrap())
    }

    fn cycle(&mut self) {
        for level in [0, 1] {
            self.set("clock", level);
            self.model.eval();
        }
    }

    fn write(&mut self, offset: usize, value: u32) {
        self.set("reg_addr", offset as u64);
        self.set("reg_wdata", value.into());
        self.set("reg_wr_valid", 1);
        self.cycle();
        self.set("reg_wr_valid", 0);
    }

    fn read(&mut self, offset: usize) -> u32 {
        self.set("reg_addr", offset as u64);
        self.set("reg_rd_valid", 1);
        for _ in 0..5 {
            self.cycle();
            self.set("reg_rd_valid", 0);
            if self.get("reg_rd_ack") == 1 {
                return self.get("reg_rd_data") as u32;
            }
        }
        panic!("the read of {offset:#x} was not answered");
    }

    fn read64(&mut self, r: Register) -> u64 {
        u64::from(self.read(r.offset)) | u64::from(self.read(r.offset + 4)) << 32
    }
}

/// Cycles until a total has what was counted: its adder comes around.
const COUNTED: usize = 18;

#[test]
fn constants_tell_the_build() {
    let mut bus = Bus::new();
    for (register, value) in [
        (global::MAGIC, MAGIC),
        (global::CONTRACT_VERSION, CONTRACT_VERSION),
        (global::BUILD_HASH, BUILD.hash),
        (global::FEATURES, Build::features().0),
        (global::QUEUES, 5),
        (global::FLOW_SLOTS, 64),
        (global::MAX_SEGMENT, 16_000),
        (global::MAX_PAYLOAD, PAYLOAD_MAX as u32),
        (global::WIDTH, 64),
        (global::TICK_HZ, TICK_HZ),
    ] {
        bus.write(register.offset, 0xdead_beef);
        assert_eq!(bus.read(register.offset), value, "{}", register.name);
    }
}

#[test]
fn what_is_written_is_read_back() {
    let mut bus = Bus::new();
    let mut expect = Vec::new();
    let mut value = 0x9e37_79b9u32;
    let mut next = || {
        value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        value | 1
    };
    for r in [
        global::LATENESS_DEBT,
        global::CREDIT_FLUSH,
        global::CN_TARGET,
        global::HORIZON,
    ] {
        expect.push((r.offset, next()));
    }
    for r in [global::RSS_KEY, global::RSS_TABLE] {
        expect.extend((0..r.count).map(|i| (r.offset + 4 * i, next())));
    }
    for q in 0..5 {
        expect.extend(
            queue::REGISTERS
                .iter()
                .map(|r| (queue_offset(q, *r), next())),
        );
    }
    for (offset, value) in &expect {
        bus.write(*offset, *value);
    }
    for (offset, value) in &expect {
        assert_eq!(bus.read(*offset), *value, "{offset:#x}");
    }
    // A period of 0 is none.
    bus.write(global::CREDIT_FLUSH.offset, 0);
    assert_eq!(bus.read(global::CREDIT_FLUSH.offset), 1);
    // Nobody is there.
    for offset in [
        queue_offset(5, queue::TX_RING_LO),
        0x7ff8,
        0x1_0000,
        0x1f_fffc,
    ] {
        bus.write(offset, 7);
        assert_eq!(bus.read(offset), 0, "{offset:#x}");
    }
}

#[test]
fn writes_reach_the_blocks_they_are_for() {
    let mut bus = Bus::new();
    let strobes = [
        "cfg_valid",
        "tx_bell",
        "rx_bell",
        "key_write",
        "table_write",
    ];
    for (offset, strobe, place, number) in [
        (
            queue_offset(3, queue::TX_RATE_HI),
            Some("cfg_valid"),
            "cfg_queue",
            3,
        ),
        (
            queue_offset(4, queue::TX_RATE_HI),
            Some("cfg_valid"),
            "cfg_offset",
            0x1c,
        ),
        (
            doorbell_offset(2, doorbell::TX_TAIL),
            Some("tx_bell"),
            "bell_queue",
            2,
        ),
        (
            doorbell_offset(4, doorbell::RX_TAIL),
            Some("rx_bell"),
            "bell_queue",
            4,
        ),
        (
            global::RSS_KEY.offset + 36,
            Some("key_write"),
            "key_index",
            9,
        ),
        (
            global::RSS_TABLE.offset + 4 * 127,
            Some("table_write"),
            "table_index",
            127,
        ),
        (queue_offset(5, queue::TX_RATE_HI), None, "cfg_queue", 5),
        (doorbell_offset(5, doorbell::TX_TAIL), None, "bell_queue", 5),
        (
            doorbell_offset(1, doorbell::TX_TAIL) + 8,
            None,
            "bell_queue",
            1,
        ),
        (global::RSS_TABLE.offset + 4 * 128, None, "cfg_queue", 6),
    ] {
        bus.write(offset, 0x5555_aaaa);
        for s in strobes {
            assert_eq!(bus.get(s) == 1, strobe == Some(s), "{offset:#x} {s}");
        }
        if strobe.is_some() {
            assert_eq!(
                (bus.get(place), bus.get("cfg_value")),
                (number, 0x5555_aaaa)
            );
        }
        bus.cycle();
        assert!(strobes.iter().all(|s| bus.get(s) == 0));
    }
}

#[test]
fn the_clock_counts_and_is_read_whole() {
    let mut bus = Bus::new();
    bus.set("ticks_load_valid", 1);
    bus.set("ticks_load_value", 0x7_ffff_fffe);
    bus.cycle();
    bus.set("ticks_load_valid", 0);
    assert_eq!(bus.get("ticks"), 0x7_ffff_fffe);
    // The low half is read before the carry, the high half after it.
    let low = bus.read(global::TICKS_LO.offset);
    let high = bus.read(global::TICKS_HI.offset);
    assert_eq!((low, high), (0xffff_ffff, 0x7));
    assert!(bus.get("ticks") >= 0x8_0000_0000);
}

#[test]
fn a_doorbell_page_has_both_halves_of_the_clock() {
    let mut bus = Bus::new();
    bus.set("ticks_load_valid", 1);
    bus.set("ticks_load_value", 0x7_ffff_fffe);
    bus.cycle();
    bus.set("ticks_load_valid", 0);
    // Each is the half at its own tick.
    let low = bus.read(doorbell_offset(4, doorbell::CLOCK_LO));
    let high = bus.read(doorbell_offset(0, doorbell::CLOCK_HI));
    assert_eq!((low, high), (0xffff_ffff, 0x8));
    assert_eq!(bus.read(doorbell_offset(5, doorbell::CLOCK_HI)), 0);
    assert_eq!(bus.read(doorbell_offset(0, doorbell::TX_TAIL)), 0);
}

#[test]
fn events_stand_until_they_are_cleared_and_are_told_once() {
    let mut bus = Bus::new();
    let (status, mask) = (global::EVENT_STATUS.offset, global::EVENT_MASK.offset);
    // One cycle with an event (and a write at the same time); whether it was told.
    let during = |bus: &mut Bus, pin: Option<&str>, write: Option<(usize, u32)>| {
        if let Some((offset, value)) = write {
            bus.write(offset, value);
        }
        // A write takes effect in the cycle after it.
        pin.iter().for_each(|pin| bus.set(pin, 1));
        bus.cycle();
        pin.iter().for_each(|pin| bus.set(pin, 0));
        let mut told = bus.get("event_fires");
        for _ in 0..3 {
            bus.cycle();
            told += bus.get("event_fires");
        }
        told
    };
    let pins = ["tx_bell_refused", "bql_stall", "address_fault"];
    for (bit, pin) in pins.into_iter().enumerate() {
        assert_eq!(during(&mut bus, Some(pin), None), 0, "masked");
        assert_eq!(bus.read(status), 1 << bit);
        assert_eq!(
            during(&mut bus, None, Some((mask, 1 << bit))),
            1,
            "unmasked"
        );
        assert_eq!(during(&mut bus, Some(pin), None), 0, "stands");
        assert_eq!(during(&mut bus, None, Some((mask, 7))), 0);
        // Cleared while it occurs: it comes behind.
        assert_eq!(during(&mut bus, Some(pin), Some((status, 1 << bit))), 1);
        assert_eq!(bus.read(status), 1 << bit);
        assert_eq!(during(&mut bus, None, Some((status, 1 << bit))), 0);
        assert_eq!((bus.read(status), bus.read(mask)), (0, 7));
        assert_eq!(during(&mut bus, Some(pin), None), 1);
        bus.write(mask, 0);
        bus.write(status, u32::MAX);
        assert_eq!((bus.read(status), bus.read(mask)), (0, 0));
    }
    // All at once are one.
    bus.write(mask, u32::MAX);
    for pin in ["rx_bell_refused", "bql_stall", "address_fault"] {
        bus.set(pin, 1);
    }
    assert_eq!(during(&mut bus, None, None), 1);
    assert_eq!((bus.read(status), bus.read(mask)), (7, 7));
}

#[test]
fn counters_count() {
    let mut bus = Bus::new();
    for (event, amount, register, expect) in [
        ("tx_frame", None, global::TX_FRAMES, 3),
        (
            "tx_frame",
            Some(("tx_frame_bytes", 0x1_ffff)),
            global::TX_BYTES,
            3 * 0x1_ffff,
        ),
        ("tx_burst", None, global::TX_BURSTS, 3),
        ("tx_error", None, global::TX_ERRORS, 3),
        ("tx_bell_refused", None, global::DOORBELL_ERRORS, 3),
        ("rx_bell_refused", None, global::DOORBELL_ERRORS, 6),
        (
            "rx_frame",
            Some(("rx_frame_bytes", 60)),
            global::RX_BYTES,
            180,
        ),
        ("rx_frame", None, global::RX_FRAMES, 6),
        ("rx_no_buffer", None, global::RX_NO_BUFFER, 3),
        ("rx_error", None, global::RX_ERRORS, 3),
        ("rx_csum_error", None, global::RX_CSUM_ERRORS, 3),
    ] {
        if let Some((pin, value)) = amount {
            bus.set(pin, value);
        }
        bus.set(event, 1);
        (0..3).for_each(|_| bus.cycle());
        bus.set(event, 0);
        (0..COUNTED).for_each(|_| bus.cycle());
        if register.name == "TX_BYTES" {
            assert_eq!(bus.read64(register), expect);
        } else {
            assert_eq!(bus.read64(register), expect, "{event}");
        }
    }
}

#[test]
fn a_reset_lasts_until_all_is_idle() {
    let mut bus = Bus::new();
    let control = global::CONTROL.offset;
    bus.write(control, 1);
    bus.cycle();
    assert_eq!((bus.get("enable"), bus.read(control)), (1, 1));
    bus.write(control, 2);
    bus.cycle();
    assert_eq!(
        (bus.get("enable"), bus.get("resetting"), bus.read(control)),
        (0, 1, 2)
    );
    (0..100).for_each(|_| bus.cycle());
    bus.write(control, 1);
    assert_eq!(bus.read(control), 2, "nothing turns it on while it resets");
    bus.set("device_idle", 1);
    bus.end_of_reset();
    assert_eq!((bus.get("resetting"), bus.read(control)), (0, 0));
    assert_eq!(bus.read(global::STATUS.offset), 1);
}

#[test]
fn a_reset_gives_every_register_its_reset_value() {
    let mut bus = Bus::new();
    let expect = |bus: &mut Bus| {
        let value = BUILD.lateness_debt() as u32;
        assert_eq!(bus.read(global::LATENESS_DEBT.offset), value);
        for (i, word) in RSS_KEY_DEFAULT.chunks(4).enumerate() {
            let word = u32::from_le_bytes(word.try_into().unwrap());
            assert_eq!(bus.read(global::RSS_KEY.offset + 4 * i), word);
        }
        for row in 0..global::RSS_TABLE.count {
            assert_eq!(bus.read(global::RSS_TABLE.offset + 4 * row), row as u32 % 5);
        }
        for q in 0..5 {
            for r in queue::REGISTERS {
                let value = if *r == queue::TX_QUANTUM {
                    QUANTUM_RESET as u32
                } else {
                    0
                };
                assert_eq!(bus.read(queue_offset(q, *r)), value, "{}", r.name);
            }
        }
        assert_eq!(bus.read64(global::TX_FRAMES), 0);
    };
    expect(&mut bus);
    for r in [global::LATENESS_DEBT, global::RSS_KEY, global::RSS_TABLE] {
        (0..r.count).for_each(|i| bus.write(r.offset + 4 * i, 0x77));
    }
    for q in 0..5 {
        queue::REGISTERS
            .iter()
            .for_each(|r| bus.write(queue_offset(q, *r), 0x77));
    }
    bus.set("tx_frame", 1);
    bus.cycle();
    bus.set("tx_frame", 0);
    (0..COUNTED).for_each(|_| bus.cycle());
    assert_eq!(bus.read64(global::TX_FRAMES), 1);
    let before = bus.get("ticks");
    bus.write(global::CONTROL.offset, 2);
    bus.set("device_idle", 1);
    bus.end_of_reset();
    assert!(bus.get("ticks") > before, "the clock goes on");
    expect(&mut bus);
}

#[test]
fn the_block_is_its_verilog() {
    lock_step(
        csr(),
        |b| &mut b.clock,
        20_000,
        1,
        |b, rng| {
            b.reg_wr_valid.next = rng.random_bool(0.4);
            b.reg_rd_valid.next = rng.random_bool(0.4);
            let offset: u64 = match rng.random_range(0..4) {
                0 => rng.random_range(0..0x500),
                1 => rng.random_range(0x8000..0x8000 + 6 * 0x80),
                2 => 0x10_0000 + (rng.random_range(0u64..6) << 12) + rng.random_range(0u64..8),
                _ => rng.random_range(0..0x20_0000),
            };
            b.reg_addr.next = (offset & !3).into();
            b.reg_wdata.next = bits_of(rng);
            b.ticks_load_valid.next = rng.random_bool(0.01);
            b.ticks_load_value.next = bits_of(rng);
            b.device_idle.next = rng.random_bool(0.999);
            b.tx_frame.next = rng.random_bool(0.3);
            b.tx_frame_bytes.next = bits_of(rng);
            b.tx_burst.next = rng.random_bool(0.3);
            b.tx_error.next = rng.random_bool(0.3);
            b.tx_bell_refused.next = rng.random_bool(0.3);
            b.rx_bell_refused.next = rng.random_bool(0.3);
            b.rx_frame.next = rng.random_bool(0.3);
            b.rx_frame_bytes.next = bits_of(rng);
            b.rx_no_buffer.next = rng.random_bool(0.3);
            b.rx_error.next = rng.random_bool(0.3);
            b.rx_csum_error.next = rng.random_bool(0.3);
            b.bql_stall.next = rng.random_bool(0.1);
            b.address_fault.next = rng.random_bool(0.1);
        },
    );
}
