// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC as compiled RTL: the generated Verilog, run cycle by cycle, behind
//! the same [`Nic`] trait as the model.
//!
//! A cycle is: drive the inputs with the clock low, let the logic settle, see
//! which handshakes happen, raise the clock. While the logic says that it is
//! idle, its counter is loaded instead of counted: to the next arrival, to the
//! next event that it reports (of pacer or moderation), or to where the caller wants to be.

mod memory;
mod pins;

use crate::nic::{Advance, Env, Nic};
use memory::{Reads, Writes};
use pins::Pins;
use thiserror::Error;
use tsonic_hdl::builds::{self, BuildError};
use tsonic_hdl::csr::TICK_HZ;
use tsonic_hdl::verilog::{Port, TOP};
use tsonic_regs::completion::COMPLETION_BYTES;
use tsonic_regs::limits::PACER_KEY_BITS;
use tsonic_regs::registers::{Control, global};
use tsonic_types::{TickRate, Ticks};
pub use tsonic_verilate::before_compiling;
use tsonic_verilate::{Design, Model, Optimisation, PortSpec};

/// Cycles that the logic must have been idle for before its counter is loaded:
/// longer than anything takes from a pin to where `idle` sees it.
const SETTLE_CYCLES: u32 = 32;
/// Cycles that a register read may take. Beyond them the read is answered with
/// all ones, as by a root complex whose request timed out.
const READ_CYCLES_MAX: u32 = 256;
/// Cycles that the reset at power-up may take.
const POWER_UP_CYCLES_MAX: u32 = 1 << 20;
/// BUILD_HASH of the simulated logic: "rtl" and a version.
const BUILD_HASH: u32 = 0x7274_6c01;

/// Why there is no compiled NIC.
#[derive(Debug, Error)]
pub enum RtlError {
    /// The design does not compile, or its pins are not those of the NIC.
    #[error(transparent)]
    Verilate(#[from] tsonic_verilate::Error),
    /// There is no such build.
    #[error("{0} (or take the model of the NIC)")]
    Build(#[from] BuildError),
    /// The logic does not come out of its power-up.
    #[error("the logic does not come up within {POWER_UP_CYCLES_MAX} cycles: the design is faulty")]
    PowerUp,
}

/// A frame that is being fed to the MAC receive pins.
#[derive(Debug, Default)]
struct Feed {
    frame: Vec<u8>,
    at: usize,
    bad: bool,
}

/// The NIC as compiled RTL.
#[derive(Debug)]
pub struct RtlNic {
    design: Design,
    optimisation: Optimisation,
    model: Model,
    pins: Pins,
    rate: TickRate,
    now: Ticks,
    idle_for: u32,
    reads: Reads,
    writes: Writes,
    transmit: Vec<u8>,
    feed: Feed,
    cycles: u64,
}

impl RtlNic {
    /// Compiles `design` (or takes it from the cache) and powers it on. `rate`
    /// is the frequency that its TICK_HZ register tells.
    ///
    /// # Errors
    /// [`RtlError`].
    pub fn new(
        design: Design,
        rate: TickRate,
        optimisation: Optimisation,
    ) -> Result<RtlNic, RtlError> {
        let model = Model::build(&design, optimisation)?;
        let pins = Pins::find(&model)?;
        let mut nic = RtlNic {
            design,
            optimisation,
            model,
            pins,
            rate,
            now: Ticks::ZERO,
            idle_for: 0,
            reads: Reads::new(),
            writes: Writes::new(),
            transmit: Vec::new(),
            feed: Feed::default(),
            cycles: 0,
        };
        nic.model.set(nic.pins.rd_req_ready, 1);
        nic.model.set(nic.pins.wr_ready, 1);
        nic.model.set(nic.pins.irq_ready, 1);
        nic.power_up()?;
        Ok(nic)
    }

    /// Waits for the end of the reset that power-up is. Nothing moves at the other
    /// pins meanwhile. The counter then starts at 0.
    fn power_up(&mut self) -> Result<(), RtlError> {
        let p = self.pins;
        let m = &mut self.model;
        m.set(p.reg_addr, global::CONTROL.offset as u64);
        let mut asked = false;
        for _ in 0..POWER_UP_CYCLES_MAX {
            m.set(p.reg_rd_valid, u64::from(!asked));
            asked = true;
            m.set(p.clock, 0);
            m.eval();
            m.set(p.clock, 1);
            m.eval();
            self.cycles += 1;
            if m.is_high(p.reg_rd_ack) {
                if Control(m.get(p.reg_rd_data) as u32).reset() == 0 {
                    m.set(p.reg_rd_valid, 0);
                    m.set(p.ticks_load_valid, 1);
                    m.set(p.ticks_load_value, 0);
                    m.set(p.clock, 0);
                    m.eval();
                    m.set(p.clock, 1);
                    m.eval();
                    m.set(p.ticks_load_valid, 0);
                    return Ok(());
                }
                asked = false;
            }
        }
        Err(RtlError::PowerUp)
    }

    /// Clock cycles simulated so far, those skipped not counted.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// One clock cycle. Says whether the world saw something.
    #[inline]
    fn cycle(&mut self, env: &mut Env<'_>) -> bool {
        let p = self.pins;
        let m = &mut self.model;
        let now = self.now;

        let beat = if self.reads.is_empty() {
            None
        } else {
            self.reads.beat(now, env.memory)
        };
        m.set(p.rd_valid, u64::from(beat.is_some()));
        if let Some(beat) = beat {
            m.set(p.rd_data, beat.data);
            m.set(p.rd_last, u64::from(beat.last));
            m.set(p.rd_err, u64::from(beat.err));
        }
        let sending = !self.transmit.is_empty();
        m.set(
            p.tx_ready,
            u64::from(sending || now >= env.mac.tx_ready_at()),
        );
        self.feed.drive(m, &p, now, env);
        m.set(p.clock, 0);
        m.eval();

        // The handshakes of this cycle.
        let mut seen = false;
        if beat.is_some() && m.is_high(p.rd_ready) {
            self.reads.taken();
        }
        if m.is_high(p.rd_req_valid) {
            let (addr, len) = (m.get(p.rd_req_addr), m.get(p.rd_req_len));
            self.reads.request(now, addr, len as usize, env.memory);
        }
        if m.is_high(p.wr_valid) {
            let written = self.writes.beat(
                now,
                m.get(p.wr_addr),
                m.get(p.wr_data),
                m.get(p.wr_strb) as u8,
                m.is_high(p.wr_last),
                env.memory,
            );
            // A write of a completion's size may be one.
            seen |= written == Some(COMPLETION_BYTES);
        }
        // Behind the writes of the cycles before; none stands beside it.
        if m.is_high(p.irq_valid) {
            env.memory.interrupt(now, m.get(p.irq_vector) as u16);
            seen = true;
        }
        if m.is_high(p.tx_valid) && (sending || now >= env.mac.tx_ready_at()) {
            let bytes = (m.get(p.tx_bytes) as usize).min(memory::BEAT);
            self.transmit
                .extend_from_slice(&m.get(p.tx_data).to_le_bytes()[..bytes]);
            if m.is_high(p.tx_last) {
                env.mac.transmit(now, &self.transmit);
                self.transmit.clear();
                seen = true;
            }
        }

        m.set(p.clock, 1);
        m.eval();
        let busy = !m.is_high(p.idle)
            || !self.reads.is_empty()
            || !self.writes.is_empty()
            || !self.transmit.is_empty()
            || !self.feed.is_empty();
        self.idle_for = if busy {
            0
        } else {
            self.idle_for.saturating_add(1)
        };
        self.now = Ticks(now.0 + 1);
        self.cycles += 1;
        seen
    }

    /// One cycle in which the counter takes the value `to`.
    fn load_ticks(&mut self, to: Ticks, env: &mut Env<'_>) {
        self.model.set(self.pins.ticks_load_valid, 1);
        self.model.set(self.pins.ticks_load_value, to.0);
        self.cycle(env);
        self.model.set(self.pins.ticks_load_valid, 0);
        self.now = to;
    }

    /// Tick of the next event of pacer or moderation.
    fn own_event(&self) -> Option<Ticks> {
        if !self.model.is_high(self.pins.next_event_valid) {
            return None;
        }
        let span = 1u64 << PACER_KEY_BITS;
        let ahead = self
            .model
            .get(self.pins.next_event)
            .wrapping_sub(self.now.0)
            & (span - 1);
        // The upper half of the range is the past.
        Some(if ahead < span / 2 {
            self.now + Ticks(ahead)
        } else {
            self.now
        })
    }
}

impl Feed {
    fn is_empty(&self) -> bool {
        self.at == self.frame.len()
    }

    /// Drives the next beat of the frame that arrives, if one does.
    fn drive(&mut self, m: &mut Model, p: &Pins, now: Ticks, env: &mut Env<'_>) {
        if self.is_empty() {
            let due = env.mac.rx_next().is_some_and(|at| at <= now);
            match if due {
                env.mac.rx_take(&mut self.frame)
            } else {
                None
            } {
                Some(arrival) => (self.at, self.bad) = (0, arrival.bad),
                None => {
                    self.frame.clear();
                    self.at = 0;
                    m.set(p.rx_valid, 0);
                    return;
                }
            }
            if self.frame.is_empty() {
                m.set(p.rx_valid, 0);
                return;
            }
        }
        let rest = &self.frame[self.at..];
        let bytes = rest.len().min(memory::BEAT);
        let mut word = [0; memory::BEAT];
        word[..bytes].copy_from_slice(&rest[..bytes]);
        self.at += bytes;
        let last = self.at == self.frame.len();
        m.set(p.rx_valid, 1);
        m.set(p.rx_data, u64::from_le_bytes(word));
        m.set(p.rx_bytes, bytes as u64);
        m.set(p.rx_last, u64::from(last));
        m.set(p.rx_bad, u64::from(last && self.bad));
    }
}

impl Nic for RtlNic {
    fn reg_read(&mut self, offset: u32, env: &mut Env<'_>) -> u32 {
        self.model.set(self.pins.reg_addr, u64::from(offset));
        self.model.set(self.pins.reg_rd_valid, 1);
        for _ in 0..READ_CYCLES_MAX {
            self.cycle(env);
            self.model.set(self.pins.reg_rd_valid, 0);
            if self.model.is_high(self.pins.reg_rd_ack) {
                return self.model.get(self.pins.reg_rd_data) as u32;
            }
        }
        tracing::warn!(offset, "register read was not answered");
        u32::MAX
    }

    fn reg_write(&mut self, offset: u32, value: u32, env: &mut Env<'_>) {
        self.model.set(self.pins.reg_addr, u64::from(offset));
        self.model.set(self.pins.reg_wdata, u64::from(value));
        self.model.set(self.pins.reg_wr_valid, 1);
        self.cycle(env);
        self.model.set(self.pins.reg_wr_valid, 0);
        self.idle_for = 0;
    }

    fn reset(&mut self, env: &mut Env<'_>) {
        // Flip-flops have an initial value and no reset line, so a reset of the
        // function is a new power-on; the clock goes on.
        let now = self.now;
        match RtlNic::new(self.design.clone(), self.rate, self.optimisation) {
            Ok(fresh) => {
                *self = RtlNic {
                    cycles: self.cycles,
                    ..fresh
                }
            }
            // It compiled before and is in the cache; without it there is no NIC to go on with.
            Err(error) => tracing::error!(%error, "the NIC could not be reset"),
        }
        self.load_ticks(now, env);
    }

    fn tick_rate(&self) -> TickRate {
        self.rate
    }

    fn now(&self) -> Ticks {
        self.now
    }

    fn next_event(&self) -> Option<Ticks> {
        if self.idle() {
            self.own_event()
        } else {
            Some(self.now + Ticks(1))
        }
    }

    fn idle(&self) -> bool {
        self.idle_for >= SETTLE_CYCLES
    }

    fn advance(&mut self, until: Ticks, env: &mut Env<'_>) -> Advance {
        while self.now < until {
            if self.idle() {
                let mut to = until;
                for event in [self.own_event(), env.mac.rx_next()].into_iter().flatten() {
                    to = to.min(event);
                }
                // Loading takes a cycle itself.
                if to > self.now + Ticks(1) {
                    self.load_ticks(to, env);
                    continue;
                }
            }
            if self.cycle(env) {
                return Advance::Event;
            }
        }
        Advance::Until
    }
}

/// Verilog and pins of the NIC with `queues` queue pairs.
///
/// # Errors
/// [`RtlError`].
pub fn design(queues: u16) -> Result<Design, RtlError> {
    let generated = builds::build(queues, BUILD_HASH)?;
    let port = |port: Port| match port.input {
        true => PortSpec::input(port.name, port.width),
        false => PortSpec::output(port.name, port.width),
    };
    Ok(Design {
        top: TOP.into(),
        verilog: generated.text,
        ports: generated.ports.into_iter().map(port).collect(),
    })
}

/// The NIC with `queues` queue pairs, compiled (or from the cache).
///
/// # Errors
/// [`RtlError`].
pub fn build(queues: u16) -> Result<RtlNic, RtlError> {
    let rate = TickRate::new(TICK_HZ).ok_or(RtlError::PowerUp)?;
    RtlNic::new(design(queues)?, rate, Optimisation::Full)
}
