// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between senders and receivers: each sender's wire ends at the same port, and behind
//! the port are the receivers.
//!
//! Every sender is a [`World`](tsonic_sim::world::World) of its own with its own clock.
//! All of them are run to the same time, one after the other; then [`Fabric::settle`]
//! takes what they have sent meanwhile, in the order of time, through the port to the
//! receivers, whose answers lie in the future of all clocks: no less than the delay
//! back, which is why clocks advance by [`Fabric::stride`]. So what happens
//! is exactly what one clock would make happen, and it repeats.

use super::frame::{Frame, Picos};
use super::port::StepPort;
use super::receiver::Receiver;
use core::net::Ipv4Addr;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tsonic_sim::world::Peer;
use tsonic_types::{Nanos, TickRate, Ticks};

/// A sender's wire at its far end.
#[derive(Default)]
struct Wire {
    /// What came, oldest first.
    sent: VecDeque<Frame>,
    /// What is on its way to the sender, earliest first.
    answers: VecDeque<Frame>,
}

/// The far end of a sender's wire.
#[derive(Clone)]
pub struct FarEnd {
    wire: Arc<Mutex<Wire>>,
    clock: TickRate,
}

/// Ticks as picoseconds.
pub fn picos(t: Ticks, clock: TickRate) -> Picos {
    (u128::from(t.0) * 1_000_000_000_000 / u128::from(clock.hz())) as Picos
}

fn ticks(at: Picos, clock: TickRate) -> Ticks {
    let ticks = (u128::from(at) * u128::from(clock.hz())).div_ceil(1_000_000_000_000);
    Ticks(ticks as u64)
}

impl FarEnd {
    /// A wire of a NIC with this clock.
    pub fn new(clock: TickRate) -> FarEnd {
        FarEnd {
            wire: Arc::default(),
            clock,
        }
    }

    fn wire(&self) -> MutexGuard<'_, Wire> {
        // Two queues of frames are whole at any time.
        self.wire.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Peer for FarEnd {
    fn receive(&mut self, now: Ticks, frame: &[u8]) {
        let frame = Frame::new(picos(now, self.clock), frame);
        self.wire().sent.push_back(frame);
    }

    fn next_event(&self) -> Option<Ticks> {
        let wire = self.wire();
        wire.answers.front().map(|f| ticks(f.at, self.clock))
    }

    fn poll(&mut self, now: Ticks, send: &mut dyn FnMut(&[u8])) {
        let mut wire = self.wire();
        while let Some(f) = wire
            .answers
            .front()
            .filter(|f| ticks(f.at, self.clock) <= now)
        {
            send(f.head());
            wire.answers.pop_front();
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Duration) {}
}

/// See the module.
pub struct Fabric {
    ends: Vec<(Ipv4Addr, FarEnd)>,
    delay: Picos,
    /// The port.
    pub port: StepPort,
    /// The receivers.
    pub receiver: Receiver,
    /// Frames behind the port on their way to the receivers.
    behind: VecDeque<Frame>,
}

impl Fabric {
    /// Senders' addresses with the ends of their wires; between the port and the receivers, and
    /// on the way back from those, frames take `delay`, at least 1 us.
    pub fn new(
        ends: Vec<(Ipv4Addr, FarEnd)>,
        delay: Nanos,
        port: StepPort,
        receiver: Receiver,
    ) -> Fabric {
        Fabric {
            ends,
            delay: delay.0.max(1_000) * 1_000,
            port,
            receiver,
            behind: VecDeque::new(),
        }
    }

    /// How far clocks may advance from one call of [`Fabric::settle`] to the next.
    pub fn stride(&self) -> Nanos {
        // What is acknowledged after a delay is sent without a frame that would have come
        // first: it has the way back only. A part of it is for rounding.
        Nanos(self.delay / 1_000 * 9 / 10)
    }

    /// All clocks have reached `now`: carries what was sent until then. `seen` gets each
    /// frame with its sender as it reaches the port.
    pub fn settle(&mut self, now: Picos, mut seen: impl FnMut(usize, &Frame)) {
        let Fabric {
            ends,
            delay,
            port,
            receiver,
            behind,
        } = self;
        loop {
            let first = |(i, (_, e)): (usize, &(Ipv4Addr, FarEnd))| {
                e.wire().sent.front().map(|f| (f.at, i))
            };
            let Some((at, i)) = ends.iter().enumerate().filter_map(first).min() else {
                break;
            };
            if at > now {
                break;
            }
            let Some(mut frame) = ends[i].1.wire().sent.pop_front() else {
                break;
            };
            seen(i, &frame);
            port.send(&mut frame);
            frame.at += *delay;
            behind.push_back(frame);
        }
        let mut answer = |to: Ipv4Addr, mut f: Frame| {
            f.at += *delay;
            if let Some((_, end)) = ends.iter().find(|(a, _)| *a == to) {
                end.wire().answers.push_back(f);
            }
        };
        while let Some(f) = behind.pop_front_if(|f| f.at <= now) {
            receiver.on_timer(f.at, &mut answer);
            receiver.on_frame(&f, &mut answer);
        }
        receiver.on_timer(now, &mut answer);
    }
}
