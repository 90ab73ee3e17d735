// SPDX-License-Identifier: MIT OR Apache-2.0
//! One NIC (or two) with its host memory, the wire, and what is at its far end,
//! on one clock.
//!
//! # The clock
//! It is the NIC's. *Virtual time*: it jumps from event to event, and a run repeats
//! bit by bit. *With a real peer* ([`Peer::real_time`]): while the NIC is busy the
//! clock advances as simulated; while it is idle it never runs faster than wall
//! time, for the peer may be about to answer, and timers must not fire before it
//! could. So it is with hosts in other processes ([`World::set_hosts`]). While the next
//! frame for one of those finds its receive ring empty, the clock stands still for up to
//! [`HOLD_MAX`] of wall time: simulated time is faster than any process, and what the
//! host would lose to that says nothing about it.
//! [`World::dilation`] reports how the two compared.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use tsonic_regs::pci::vectors;
use tsonic_regs::registers::{DOORBELL_BASE, DOORBELL_STRIDE, doorbell, global};
use tsonic_types::{Nanos, TickRate, Ticks};

use crate::function::Function;
use crate::nic::{Arrival, Env, MacPort, Nic};
use crate::pcapng::{Capture, CaptureError, Direction};
use crate::root_complex::{RootComplex, RootComplexConfig};
pub use crate::slot::Slot;
use crate::wire::{Line, Path, PathConfig, PathStats};

/// Ticks that a busy NIC, alone on the clock, may run before the world looks again.
const STRIDE: Ticks = Ticks(64);
/// Longest wait for a real peer in one step.
const WAIT_MAX: Duration = Duration::from_millis(20);
/// Longest wait for a host to fill its receive ring; what finds it empty then is dropped,
/// until buffers come.
pub const HOLD_MAX: Duration = Duration::from_millis(200);
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

    /// What becomes readable when it has frames to send, for one who waits for other
    /// things, too. `None`: there is nothing of the kind.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Why it is gone for good, if it is: nothing will come from it any more.
    fn lost(&self) -> Option<&io::Error> {
        None
    }

    /// Frames that arrived and that it did not take.
    fn refused(&self) -> u64 {
        0
    }
}

/// Hosts that live in wall time and may ask something of the world at any moment: how
/// to wait for them.
pub trait Hosts: Send {
    /// Waits until a host asks for something or `peer` becomes readable, or for
    /// `at_most`.
    fn wait(&mut self, peer: Option<BorrowedFd<'_>>, at_most: Duration);
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

/// A NIC, the function around it, and its host.
struct Node {
    nic: Box<dyn Nic + Send>,
    function: Function,
    memory: RootComplex,
    line: Line,
    /// Vectors that landed, on their way to the function.
    landed: Vec<u16>,
    /// Wall time that the clock has stood still for this host since it posted buffers.
    held: Duration,
}

impl Node {
    /// Bring the host's side of the bus in line with the command register.
    fn update(&mut self) {
        self.memory.set_bus_master(self.function.is_bus_master());
    }

    /// Hands landed interrupts to the function; whether a vector fired.
    fn deliver(&mut self) -> bool {
        if !self.memory.take_interrupts(&mut self.landed) {
            return false;
        }
        let mut fired = false;
        for vector in self.landed.drain(..) {
            fired |= self.function.interrupt(vector);
        }
        fired
    }
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something, or time passed.
    Moved,
    /// A vector fired.
    Interrupt,
    /// The clock reads what was asked for.
    Reached,
    /// Nothing is under way, and nothing will happen by itself.
    Idle,
}

/// The capture of the first NIC's port.
#[derive(Default)]
enum Recording {
    #[default]
    Off,
    On(Capture),
    /// It has ended early.
    Failed(CaptureError),
}

/// The NIC's port, for the length of a call.
struct Port<'a> {
    line: &'a mut Line,
    out: &'a mut Path,
    back: &'a mut Path,
    capture: &'a mut Recording,
    clock: TickRate,
    /// Captures are of the first NIC's port.
    captures: bool,
}

impl Port<'_> {
    fn capture(&mut self, at: Ticks, direction: Direction, frame: &[u8]) {
        let Recording::On(capture) = &mut *self.capture else {
            return;
        };
        if !self.captures {
            return;
        }
        if let Err(error) = capture.write(self.clock.to_nanos(at), direction, frame) {
            // The run goes on; whoever ends the capture hears of it.
            *self.capture = Recording::Failed(error);
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
    hosts: Option<Box<dyn Hosts>>,
    out: Path,
    back: Path,
    capture: Recording,
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
        let mut world = World {
            nodes: Vec::new(),
            peer,
            hosts: None,
            out: Path::new(link.out, clock),
            back: Path::new(link.back, clock),
            capture: Recording::Off,
            clock,
            frame: Vec::new(),
            steps: 0,
            interrupted: false,
            started: None,
            waited: Duration::ZERO,
        };
        world.add(nic, memory, link);
        world
    }

    fn add(&mut self, nic: Box<dyn Nic + Send>, memory: RootComplexConfig, link: LinkConfig) {
        let node = self.nodes.len();
        self.nodes.push(Node {
            nic,
            function: Function::new(1),
            memory: RootComplex::new(memory),
            line: Line::new(link.line_rate, self.clock),
            landed: Vec::new(),
            held: Duration::ZERO,
        });
        let queues = self.reg_read(node, global::QUEUES.offset as u32);
        if let Some(n) = self.nodes.get_mut(node) {
            // At most 257 (`regs::pci`).
            n.function = Function::new(vectors(queues as usize) as u16);
            n.update();
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
        world.add(second, memory, link);
        Some(world)
    }

    /// The hosts live in wall time from now on.
    pub fn set_hosts(&mut self, hosts: Box<dyn Hosts>) {
        self.hosts = Some(hosts);
        for n in &mut self.nodes {
            n.nic.wait_for_buffers(true);
        }
    }

    /// Captures the (first) NIC's port to a pcapng file from now on.
    ///
    /// # Errors
    /// [`CaptureError`].
    pub fn capture(&mut self, path: &FilePath) -> Result<(), CaptureError> {
        self.capture = Recording::On(Capture::create(path)?);
        Ok(())
    }

    /// Ends the capture; frames captured.
    ///
    /// # Errors
    /// [`CaptureError`]: not every frame is in the file.
    pub fn end_capture(&mut self) -> Result<u64, CaptureError> {
        match std::mem::take(&mut self.capture) {
            Recording::On(mut c) => c.flush().map(|()| c.frames()),
            Recording::Failed(error) => Err(error),
            Recording::Off => Ok(0),
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

    /// Why the peer is gone for good, if it is. The clock goes on without it.
    pub fn lost_peer(&self) -> Option<&io::Error> {
        self.peer.as_ref().and_then(|p| p.lost())
    }

    /// Frames that the peer did not take.
    pub fn refused(&self) -> u64 {
        self.peer.as_ref().map_or(0, |p| p.refused())
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

    /// Reads a register of NIC `node`; all ones when there is no such NIC. What the NIC
    /// had posted has landed then: on PCIe a completion pushes writes ahead of it.
    pub fn reg_read(&mut self, node: usize, offset: u32) -> u32 {
        let value = self.with_nic(node, |nic, env| nic.reg_read(offset, env));
        if let Some(n) = self.nodes.get_mut(node) {
            n.memory.land_all();
            self.interrupted |= n.deliver();
        }
        value.unwrap_or(u32::MAX)
    }

    /// Writes a register of NIC `node`.
    pub fn reg_write(&mut self, node: usize, offset: u32, value: u32) {
        self.with_nic(node, |nic, env| nic.reg_write(offset, value, env));
        if self.hosts.is_some()
            && is_buffer_doorbell(offset as usize)
            && let Some(n) = self.nodes.get_mut(node)
        {
            n.held = Duration::ZERO;
            n.nic.wait_for_buffers(true);
        }
    }

    /// The function around NIC `node`.
    pub fn function(&self, node: usize) -> Option<&Function> {
        self.nodes.get(node).map(|n| &n.function)
    }

    /// Runs `f` on the function around NIC `node`; `None` when there is no such NIC.
    pub fn with_function<R>(
        &mut self,
        node: usize,
        f: impl FnOnce(&mut Function) -> R,
    ) -> Option<R> {
        let n = self.nodes.get_mut(node)?;
        let result = f(&mut n.function);
        n.update();
        Some(result)
    }

    /// NIC `node` as a device on a bus; `None` when there is no such NIC.
    pub fn slot(&mut self, node: usize) -> Option<Slot<'_>> {
        (node < self.nodes.len()).then(|| Slot::new(self, node))
    }

    /// Function-level reset of NIC `node`. What it had posted lands first; its
    /// configuration space is as after power-on.
    pub fn reset(&mut self, node: usize) {
        self.with_nic(node, |nic, env| nic.reset(env));
        if let Some(n) = self.nodes.get_mut(node) {
            n.memory.land_all();
            n.memory.take_interrupts(&mut n.landed);
            n.landed.clear();
            n.function.reset();
            n.update();
        }
    }

    /// Moves the vectors that fired at NIC `node` to `out`, each once; whether there
    /// were any.
    pub fn take_fired(&mut self, node: usize, out: &mut Vec<u16>) -> bool {
        let Some(n) = self.nodes.get_mut(node) else {
            return false;
        };
        n.deliver();
        n.function.take_fired(out)
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
        self.hosts.is_some() || self.peer.as_ref().is_some_and(|p| p.real_time())
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
        if self.hold() {
            return Step::Moved;
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

    /// Waits for a host whose receive ring is empty, if there is one that has been told
    /// of everything and has time left; whether it did.
    fn hold(&mut self) -> bool {
        let Some(hosts) = &mut self.hosts else {
            return false;
        };
        let starves = |n: &Node| n.nic.starving() && n.memory.next_event().is_none();
        let Some(n) = self.nodes.iter_mut().find(|n| starves(n)) else {
            return false;
        };
        let left = HOLD_MAX.saturating_sub(n.held);
        if left.is_zero() {
            n.nic.wait_for_buffers(false);
            return false;
        }
        let started = Instant::now();
        hosts.wait(None, left.min(WAIT_MAX));
        let waited = started.elapsed();
        n.held += waited;
        self.waited += waited;
        true
    }

    /// Does what is due outside the NICs.
    fn settle(&mut self) {
        let now = self.now();
        for n in &mut self.nodes {
            n.memory.settle(n.nic.now());
            self.interrupted |= n.deliver();
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

    /// Waits for a real peer and for hosts, until one of them wants something or for as
    /// long as the clock has to go from `now` to `target`; returns how far the clock may go.
    fn wait_for_peer(&mut self, now: Ticks, target: Ticks) -> Ticks {
        let before = self.back.stats().frames;
        let started = Instant::now();
        self.look_at_peer(now);
        let gap = Duration::from_nanos(self.clock.to_nanos(target.since(now)).0);
        if self.back.stats().frames == before {
            let at_most = gap.min(WAIT_MAX);
            let peer = self.peer.as_mut().filter(|p| p.real_time());
            match (&mut self.hosts, peer) {
                (Some(hosts), peer) => {
                    hosts.wait(peer.as_ref().and_then(|p| p.descriptor()), at_most);
                }
                (None, Some(peer)) => peer.wait(at_most),
                (None, None) => {}
            }
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

/// Whether an offset in BAR 0 is that of a doorbell for receive buffers.
const fn is_buffer_doorbell(offset: usize) -> bool {
    offset >= DOORBELL_BASE && offset % DOORBELL_STRIDE == doorbell::RX_TAIL.offset
}
