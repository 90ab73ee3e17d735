// SPDX-License-Identifier: MIT OR Apache-2.0
//! One NIC (or two) with its host memory, the wire, and what is at its far end,
//! on one clock.
//!
//! # The clock
//! It is the NIC's. *Virtual time*: it jumps from event to event, and a run repeats
//! bit by bit. *With a real peer* ([`Peer::real_time`]): while the NIC is busy the
//! clock advances as simulated; while it is idle it never runs faster than wall
//! time, for the peer may be about to answer, and timers must not fire before it
//! could. [`World::dilation`] reports how the two compared.

use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use tsonic_pci::PciDevice;
use tsonic_types::{Nanos, TickRate, Ticks};

use crate::nic::{Arrival, Env, MacPort, Nic};
use crate::pcapng::{Capture, CaptureError, Direction};
use crate::root_complex::{RootComplex, RootComplexConfig};
use crate::wire::{Line, Path, PathConfig, PathStats};

/// Ticks that a busy NIC, alone on the clock, may run before the world looks again.
const STRIDE: Ticks = Ticks(64);
/// Longest wait for a real peer in one step.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Steps of a busy NIC after which a real peer is looked at.
const LOOK_STEPS: u32 = 16;

/// What is at the far end of the wire, if it is not a NIC.
pub trait Peer: Send {
    /// A frame arrives at `now`.
    fn receive(&mut self, now: Ticks, frame: &[u8]);

    /// When it does something by itself. Not asked of a real peer.
    fn next_event(&self) -> Option<Ticks>;

    /// Lets it do what is due at `now`, and calls `send` for each frame it sends.
    fn poll(&mut self, now: Ticks, send: &mut dyn FnMut(&[u8]));

    /// Whether it lives in wall time.
    fn real_time(&self) -> bool;

    /// Waits until it may have frames to send, or for `at_most`. Asked of a real
    /// peer only.
    fn wait(&mut self, at_most: Duration);
}

/// The wire between the NIC and the far end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkConfig {
    /// Speed of the NIC's own port in bits per second; 0: as fast as the NIC.
    pub line_rate: u64,
    /// From the (first) NIC.
    pub out: PathConfig,
    /// To the (first) NIC.
    pub back: PathConfig,
}

/// A NIC and its host.
struct Node {
    nic: Box<dyn Nic + Send>,
    memory: RootComplex,
    line: Line,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something, or time passed.
    Moved,
    /// An interrupt landed.
    Interrupt,
    /// The clock reads what was asked for.
    Reached,
    /// Nothing is under way, and nothing will happen by itself.
    Idle,
}

/// The NIC's port, for the length of a call.
struct Port<'a> {
    line: &'a mut Line,
    out: &'a mut Path,
    back: &'a mut Path,
    capture: &'a mut Option<Capture>,
    clock: TickRate,
    /// Captures are of the first NIC's port.
    captures: bool,
}

impl Port<'_> {
    fn capture(&mut self, at: Ticks, direction: Direction, frame: &[u8]) {
        let Some(capture) = self.capture.as_mut().filter(|_| self.captures) else {
            return;
        };
        if let Err(error) = capture.write(self.clock.to_nanos(at), direction, frame) {
            tracing::warn!(%error, "the capture ends here");
            *self.capture = None;
        }
    }
}

impl MacPort for Port<'_> {
    fn tx_ready_at(&self) -> Ticks {
        self.line.ready_at()
    }

    fn transmit(&mut self, departed: Ticks, frame: &[u8]) {
        self.capture(departed, Direction::Out, frame);
        let on_line = self.line.send(departed, frame.len());
        self.out.send(on_line, frame);
    }

    fn rx_next(&self) -> Option<Ticks> {
        self.back.next()
    }

    fn rx_take(&mut self, frame: &mut Vec<u8>) -> Option<Arrival> {
        let at = self.back.take(frame)?;
        self.capture(at, Direction::In, frame);
        Some(Arrival { at, bad: false })
    }
}

/// The world.
pub struct World {
    nodes: Vec<Node>,
    peer: Option<Box<dyn Peer>>,
    out: Path,
    back: Path,
    capture: Option<Capture>,
    clock: TickRate,
    frame: Vec<u8>,
    steps: u32,
    interrupted: bool,
    started: Option<(Instant, Ticks)>,
    /// Wall time spent waiting for a real peer.
    waited: Duration,
}

impl World {
    /// A NIC with `peer` at the far end; `None`: frames vanish there.
    pub fn new(
        nic: Box<dyn Nic + Send>,
        memory: RootComplexConfig,
        link: LinkConfig,
        peer: Option<Box<dyn Peer>>,
    ) -> World {
        let clock = nic.tick_rate();
        World {
            nodes: vec![Node {
                nic,
                memory: RootComplex::new(memory),
                line: Line::new(link.line_rate, clock),
            }],
            peer,
            out: Path::new(link.out, clock),
            back: Path::new(link.back, clock),
            capture: None,
            clock,
            frame: Vec::new(),
            steps: 0,
            interrupted: false,
            started: None,
            waited: Duration::ZERO,
        }
    }

    /// Two NICs, back to back. They must have the same clock frequency; `None`
    /// when they do not.
    pub fn pair(
        nics: [Box<dyn Nic + Send>; 2],
        memory: RootComplexConfig,
        link: LinkConfig,
    ) -> Option<World> {
        let [first, second] = nics;
        if first.tick_rate() != second.tick_rate() {
            return None;
        }
        let mut world = World::new(first, memory, link, None);
        world.nodes.push(Node {
            nic: second,
            memory: RootComplex::new(memory),
            line: Line::new(link.line_rate, world.clock),
        });
        Some(world)
    }

    /// Captures the (first) NIC's port to a pcapng file from now on.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn capture(&mut self, path: &FilePath) -> Result<(), CaptureError> {
        self.capture = Some(Capture::create(path)?);
        Ok(())
    }

    /// Ends the capture; frames captured.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn end_capture(&mut self) -> Result<u64, CaptureError> {
        match self.capture.take() {
            Some(mut c) => c.flush().map(|()| c.frames()),
            None => Ok(0),
        }
    }

    /// NICs.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Frequency of the clock.
    pub fn clock(&self) -> TickRate {
        self.clock
    }

    /// The clock.
    pub fn now(&self) -> Ticks {
        self.nodes
            .iter()
            .map(|n| n.nic.now())
            .max()
            .unwrap_or_default()
    }

    /// What the wire counted: from the first NIC, and to it.
    pub fn wire_stats(&self) -> (PathStats, PathStats) {
        (self.out.stats(), self.back.stats())
    }

    /// Host memory of NIC `node`.
    pub fn memory(&self, node: usize) -> Option<&RootComplex> {
        self.nodes.get(node).map(|n| &n.memory)
    }

    /// Host memory of NIC `node`, to map and unmap.
    pub fn memory_mut(&mut self, node: usize) -> Option<&mut RootComplex> {
        self.nodes.get_mut(node).map(|n| &mut n.memory)
    }

    /// Simulated seconds per second of wall time since the first step, and the wall
    /// time spent waiting for a real peer.
    pub fn dilation(&self) -> (f64, Duration) {
        let Some((wall, ticks)) = self.started else {
            return (1.0, self.waited);
        };
        let simulated = self.clock.to_nanos(self.now().since(ticks)).0 as f64;
        let real = wall.elapsed().as_nanos().max(1) as f64;
        (simulated / real, self.waited)
    }

    /// Runs `f` on NIC `i` with its world.
    fn with_nic<R>(
        &mut self,
        i: usize,
        f: impl FnOnce(&mut dyn Nic, &mut Env<'_>) -> R,
    ) -> Option<R> {
        let node = self.nodes.get_mut(i)?;
        let (out, back) = if i == 0 {
            (&mut self.out, &mut self.back)
        } else {
            (&mut self.back, &mut self.out)
        };
        let mut port = Port {
            line: &mut node.line,
            out,
            back,
            capture: &mut self.capture,
            clock: self.clock,
            captures: i == 0,
        };
        let mut env = Env {
            memory: &mut node.memory,
            mac: &mut port,
        };
        Some(f(&mut *node.nic, &mut env))
    }

    /// Reads a register of NIC `node`; all ones when there is no such NIC.
    pub fn reg_read(&mut self, node: usize, offset: u32) -> u32 {
        let value = self.with_nic(node, |nic, env| nic.reg_read(offset, env));
        value.unwrap_or(u32::MAX)
    }

    /// Writes a register of NIC `node`.
    pub fn reg_write(&mut self, node: usize, offset: u32, value: u32) {
        self.with_nic(node, |nic, env| nic.reg_write(offset, value, env));
    }

    /// Function-level reset of NIC `node`. What it had posted lands first.
    pub fn reset(&mut self, node: usize) {
        self.with_nic(node, |nic, env| nic.reset(env));
        if let Some(n) = self.nodes.get_mut(node) {
            n.memory.land_all();
            n.memory.take_interrupts(&mut Vec::new());
        }
    }

    /// Moves the vectors that interrupted at NIC `node` to `out`; whether there
    /// were any.
    pub fn take_interrupts(&mut self, node: usize, out: &mut Vec<u16>) -> bool {
        let n = self.nodes.get_mut(node);
        n.is_some_and(|n| n.memory.take_interrupts(out))
    }

    /// The earliest event outside the NICs, that may need the world's hand.
    fn next_outside(&self) -> Option<Ticks> {
        let landing = self.nodes.iter().filter_map(|n| n.memory.next_event());
        let to_peer = (self.nodes.len() == 1).then(|| self.out.next()).flatten();
        let peer = self.peer.as_ref().filter(|p| !p.real_time());
        landing
            .chain(to_peer)
            .chain(peer.and_then(|p| p.next_event()))
            .min()
    }

    /// The earliest event inside a NIC, or arrival at one, that lies ahead. What
    /// is due already is done on the way there; a frame that arrives while the
    /// one before it is still being taken in has to wait for its end, which is an
    /// event of its own.
    fn next_inside(&self, now: Ticks) -> Option<Ticks> {
        let arrivals = if self.nodes.len() == 1 {
            [self.back.next(), None]
        } else {
            [self.back.next(), self.out.next()]
        };
        let all = || {
            let events = self.nodes.iter().filter_map(|n| n.nic.next_event());
            events.chain(arrivals.into_iter().flatten())
        };
        let ahead = all().filter(|t| *t > now).min();
        ahead.or_else(|| all().next().map(|_| now + Ticks(1)))
    }

    fn real_time(&self) -> bool {
        self.peer.as_ref().is_some_and(|p| p.real_time())
    }

    /// Lets the world do the next thing, at `until` at the latest.
    pub fn step(&mut self, until: Option<Ticks>) -> Step {
        if self.started.is_none() {
            self.started = Some((Instant::now(), self.now()));
        }
        let now = self.now();
        if until.is_some_and(|t| t <= now) {
            return Step::Reached;
        }
        let real = self.real_time();
        self.steps = self.steps.wrapping_add(1);
        if real && self.steps.is_multiple_of(LOOK_STEPS) {
            self.look_at_peer(now);
        }
        let outside = self.next_outside();
        let inside = self.next_inside(now);
        let busy = self.nodes.iter().any(|n| !n.nic.idle());
        let next = match (outside, inside) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let next = match (next, until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let mut target = match next {
            Some(t) => t.max(now),
            None if real => Ticks(u64::MAX),
            None => return Step::Idle,
        };
        if real && !busy && target > now {
            target = self.wait_for_peer(now, target);
        } else if busy && self.nodes.len() == 1 {
            // It stops by itself at whatever the world can see.
            let limit = outside.into_iter().chain(until).min();
            target = (now + STRIDE)
                .max(target)
                .min(limit.unwrap_or(Ticks(u64::MAX)));
        }
        // What is due now is done within the next tick: compiled logic does nothing
        // without one.
        let target = target.max(now + Ticks(1));
        for i in 0..self.nodes.len() {
            self.with_nic(i, |nic, env| nic.advance(target, env));
        }
        self.settle();
        if std::mem::take(&mut self.interrupted) {
            Step::Interrupt
        } else if until.is_some_and(|t| t <= self.now()) {
            Step::Reached
        } else {
            Step::Moved
        }
    }

    /// Does what is due outside the NICs.
    fn settle(&mut self) {
        let now = self.now();
        for n in &mut self.nodes {
            let before = n.memory.stats().interrupts;
            n.memory.settle(n.nic.now());
            self.interrupted |= n.memory.stats().interrupts != before;
        }
        if self.nodes.len() > 1 {
            return;
        }
        let mut received = false;
        while self.out.next().is_some_and(|t| t <= now) {
            let Some(at) = self.out.take(&mut self.frame) else {
                break;
            };
            if let Some(peer) = &mut self.peer {
                peer.receive(at, &self.frame);
                received = true;
            }
        }
        let due = |p: &dyn Peer| !p.real_time() && p.next_event().is_some_and(|t| t <= now);
        if received || self.peer.as_deref().is_some_and(due) {
            self.look_at_peer(now);
        }
    }

    /// Takes what the peer has to send.
    fn look_at_peer(&mut self, now: Ticks) {
        let back = &mut self.back;
        if let Some(peer) = &mut self.peer {
            peer.poll(now, &mut |frame| back.send(now, frame));
        }
    }

    /// Waits for a real peer, until its answer or for as long as the clock has to
    /// go from `now` to `target`; returns how far the clock may go.
    fn wait_for_peer(&mut self, now: Ticks, target: Ticks) -> Ticks {
        let before = self.back.stats().frames;
        let started = Instant::now();
        self.look_at_peer(now);
        let gap = Duration::from_nanos(self.clock.to_nanos(target.since(now)).0);
        if self.back.stats().frames == before
            && let Some(peer) = &mut self.peer
        {
            peer.wait(gap.min(WAIT_MAX));
        }
        let waited = started.elapsed();
        self.waited += waited;
        let elapsed = self.clock.to_ticks(Nanos(waited.as_nanos() as u64));
        let reached = target.min(now + elapsed);
        self.look_at_peer(reached);
        // An answer may be due before that.
        let arrival = self.back.next().map_or(reached, |t| t.max(now));
        reached.min(arrival)
    }
}

/// NIC 0 as a device on a bus.
impl PciDevice for World {
    fn bar_read32(&mut self, bar: u8, offset: u64) -> u32 {
        match (bar, u32::try_from(offset)) {
            (0, Ok(offset)) => self.reg_read(0, offset),
            _ => u32::MAX,
        }
    }

    fn bar_write32(&mut self, bar: u8, offset: u64, value: u32) {
        if let (0, Ok(offset)) = (bar, u32::try_from(offset)) {
            self.reg_write(0, offset, value);
        }
    }

    fn reset(&mut self) {
        World::reset(self, 0);
    }
}
