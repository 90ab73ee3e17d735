// SPDX-License-Identifier: MIT OR Apache-2.0
//! Timers, and the transmit side of a turn.

use super::{Engine, conn_at};
use crate::conn::{CloseReason, State, Stop};
use crate::port::{ChunkPool, TxPort};
use core::net::IpAddr;
use std::collections::VecDeque;
use tsonic_types::{Nanos, QueueId};

impl<P: ChunkPool> Engine<P> {
    /// Does what is due at `now`, posts what may be sent, and rings the
    /// doorbells once.
    pub fn poll<T: TxPort>(&mut self, now: Nanos, port: &mut T) {
        self.core.limits = port.limits();
        for flow in self.core.freed_flows.drain(..) {
            port.free_flow(flow);
        }
        self.core.neighbours.on_timer(now);
        while let Some(index) = self.timers.pop(now) {
            if let Some(c) = conn_at(&mut self.slots, index) {
                c.on_timer(&mut self.core, now);
            }
            self.enqueue(index);
            self.settle(index);
        }
        while let Some(ip) = self.core.neighbours.next_failure() {
            self.neighbour_failed(ip);
        }
        self.wake_those_with_a_neighbour();
        if core::mem::take(&mut self.completed) {
            self.run_those_that_wait(now, port);
        }
        while let Some(index) = self.ready.pop_front() {
            self.run(index, now, port);
        }
        while let Some(q) = self.core.neighbours.next_question() {
            self.control.ask(&self.core.config.interface, &q);
        }
        self.control
            .send(&mut self.core.memory.pool, &mut self.core.bursts, port);
        self.core.counters.control_drops = self.control.dropped;
        port.flush();
    }

    /// When the next poll is due if nothing comes in: zero means at once, `None`
    /// never.
    pub fn next_timer(&self) -> Option<Nanos> {
        if !self.ready.is_empty() || self.control.is_due() {
            return Some(Nanos::ZERO);
        }
        [self.timers.first(), self.core.neighbours.next_timer()]
            .into_iter()
            .flatten()
            .min()
    }

    fn run<T: TxPort>(&mut self, index: u32, now: Nanos, port: &mut T) {
        let Some(c) = conn_at(&mut self.slots, index) else {
            return;
        };
        c.queued = false;
        if c.waits_in.is_some_and(|q| port.queue_state(q).free == 0) {
            // Whatever it has to send would be refused; its turn comes.
            return self.settle(index);
        }
        match c.output(&mut self.core, now, port) {
            Ok(()) => {}
            Err(Stop::Neighbour) => {
                // A reset that cannot be delivered is nobody's loss.
                if c.state == State::Closed {
                    c.reset_due = None;
                }
            }
            Err(Stop::Queue(q)) => {
                if self.waiting.len() <= q.index() {
                    self.waiting.resize_with(q.index() + 1, VecDeque::new);
                }
                if c.waits_in.replace(q) != Some(q) {
                    self.waiting[q.index()].push_back(index);
                }
            }
            Err(Stop::Refused) => {
                c.finish(CloseReason::Device);
                c.reset_due = None;
            }
        }
        self.settle(index);
    }

    /// Runs connections that wait for room in a queue, longest waiting first, each once and
    /// no more than find some: each that does not has built a burst for nothing.
    fn run_those_that_wait<T: TxPort>(&mut self, now: Nanos, port: &mut T) {
        for q in 0..self.waiting.len() {
            let queue = QueueId(q as u16);
            for _ in 0..self.waiting[q].len() {
                if port.queue_state(queue).free == 0 {
                    break;
                }
                let Some(index) = self.waiting[q].pop_front() else {
                    break;
                };
                let Some(c) = conn_at(&mut self.slots, index) else {
                    continue;
                };
                // It may wait elsewhere by now, or be another.
                if c.waits_in == Some(queue) {
                    c.waits_in = None;
                    self.run(index, now, port);
                }
            }
        }
    }

    fn wake_those_with_a_neighbour(&mut self) {
        let generation = self.core.neighbours.generation();
        if generation == self.neighbours_seen {
            return;
        }
        self.neighbours_seen = generation;
        for index in 0..self.slots.len() as u32 {
            if conn_at(&mut self.slots, index).is_some_and(|c| c.nic.waits_for_neighbour) {
                self.enqueue(index);
            }
        }
    }

    /// Nobody answered for `ip`: opens fail, others after many times.
    fn neighbour_failed(&mut self, ip: IpAddr) {
        for index in 0..self.slots.len() as u32 {
            let Some(c) = conn_at(&mut self.slots, index) else {
                continue;
            };
            let hop = self.core.config.interface.next_hop(c.remote.ip());
            if !c.nic.waits_for_neighbour || hop != Some(ip) {
                continue;
            }
            c.nic.unanswered += 1;
            let retries = self.core.tunables(c.tenant).retries2;
            if !c.state.is_synchronized() || c.nic.unanswered > u32::from(retries) {
                c.finish(CloseReason::Unreachable);
                c.reset_due = None;
            }
            self.settle(index);
        }
    }
}
