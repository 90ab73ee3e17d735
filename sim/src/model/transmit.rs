// SPDX-License-Identifier: MIT OR Apache-2.0
//! Transmit: from the arbiter's grant of a segment to the burst's completion.
//!
//! A granted segment's payload is read, the frame is made, and it departs when the
//! data path and the MAC are free; segments depart in the order of grants. A
//! segment whose payload cannot be read is dropped, and the rest of its burst is
//! not wanted: what was granted already still departs, the next grant is the last.

use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion;
use tsonic_types::Ticks;

use super::Model;
use super::segment::{Place, finish};
use super::state::{FlowState, Job, Read, UNPACED};
use crate::nic::Env;

impl Model {
    /// Whether the arbiter has something to grant and room for it.
    pub(super) fn can_grant(&self) -> bool {
        self.arbiter.any()
            && self.registers.enabled()
            && self.jobs.len() < self.config.payload_jobs
            && (self.jobs.len() < 2 || self.job_bytes < self.config.payload_window)
    }

    /// Tells the arbiter whether queue `q` may be served.
    pub(super) fn refresh(&mut self, q: usize) {
        let queue = &self.tx[q];
        if queue.due.is_empty() {
            self.arbiter.emptied(q);
        } else {
            self.arbiter
                .set_eligible(q, queue.gate_open && queue.budget.is_open());
        }
    }

    /// One decision of the arbiter.
    pub(super) fn grant(&mut self, env: &mut Env<'_>) {
        let Some(q) = self.arbiter.pick() else {
            return;
        };
        self.next_grant = self.now + Ticks(self.config.decision_ticks);
        let Some((member, _)) = self.tx[q].due.pop_front() else {
            self.refresh(q);
            return;
        };
        let id = if member == UNPACED {
            self.tx[q].unpaced.head
        } else {
            self.flows[member as usize].bursts.head
        };
        let (job, wire_bytes, inv_rate) = self.cut(id);
        let last = job.place.last;
        self.start_job(env, job);
        if wire_bytes > 0 {
            self.charge(q, wire_bytes);
        }
        if member == UNPACED {
            let queue = &mut self.tx[q];
            if last {
                queue.unpaced.pop(&self.bursts);
            }
            if queue.unpaced.is_empty() {
                queue.unpaced_due = false;
            } else {
                self.push_due(q, UNPACED);
            }
        } else {
            self.flow_granted(member as usize, wire_bytes, inv_rate, last);
        }
        self.refresh(q);
    }

    /// The next segment of a burst, its wire bytes (0: it does not depart), and the
    /// inverse rate behind it.
    fn cut(&mut self, id: u32) -> (Job, usize, u64) {
        let b = &mut self.bursts[id as usize];
        let payload = b.descriptor.burst.payload_len() as usize;
        let offset = b.offset as usize;
        let dropped = b.status != Status::Ok;
        let len = if dropped {
            0
        } else {
            b.layout.segment_len(payload, offset)
        };
        let last = dropped || offset + len >= payload;
        let wire_bytes = if dropped {
            0
        } else {
            b.layout.header_len() + len
        };
        let job = Job {
            burst: id,
            place: Place {
                index: b.index,
                offset: b.offset,
                first: b.index == 0,
                last,
            },
            len,
            charged: wire_bytes,
            dropped,
            ready: None,
            frame: Vec::new(),
        };
        b.offset += len as u32;
        b.index += 1;
        b.in_flight += 1;
        b.all_granted = last;
        b.listed = !last;
        (job, wire_bytes, b.descriptor.rate.inv_rate())
    }

    /// Gives a queue a rate. What the rate before led to ends: a closed gate opens, and
    /// the next grant starts anew.
    pub(super) fn set_rate(&mut self, q: usize, inv_rate: u64) {
        let queue = &mut self.tx[q];
        queue.inv_rate = inv_rate;
        queue.renewed = true;
        if !queue.gate_open {
            queue.gate_open = true;
            self.gates.remove(q);
            self.refresh(q);
        }
    }

    /// Charges a segment to its queue: deficit, budget and rate.
    fn charge(&mut self, q: usize, wire_bytes: usize) {
        self.arbiter.charge(q, wire_bytes);
        self.charge_budget(q, wire_bytes);
        let queue = &mut self.tx[q];
        if queue.inv_rate != 0 {
            let debt = self.registers.lateness_debt();
            if std::mem::take(&mut queue.renewed) {
                queue.pace.restart(self.now);
            }
            queue
                .pace
                .depart(self.now, wire_bytes, queue.inv_rate, debt);
            if queue.pace.key() > self.now {
                queue.gate_open = false;
                self.gates.insert(q, queue.pace.key());
            }
        }
    }

    /// A flow's segment was granted: when the next one may be.
    fn flow_granted(&mut self, slot: usize, wire_bytes: usize, inv_rate: u64, last: bool) {
        let debt = self.registers.lateness_debt();
        let flow = &mut self.flows[slot];
        if wire_bytes > 0 {
            flow.pace.depart(self.now, wire_bytes, inv_rate, debt);
        }
        if !last {
            self.schedule_flow(slot);
            return;
        }
        flow.bursts.pop(&self.bursts);
        if flow.bursts.is_empty() {
            flow.state = FlowState::Idle;
        } else {
            self.flow_has_head(slot);
        }
    }

    /// Asks for a segment's payload.
    fn start_job(&mut self, env: &mut Env<'_>, mut job: Job) {
        let number = self.first_job + self.jobs.len() as u64;
        let b = &self.bursts[job.burst as usize];
        let header_len = b.layout.header_len();
        if job.dropped {
            job.ready = Some(self.now);
        } else {
            job.frame = self.frames.pop().unwrap_or_default();
            job.frame.clear();
            job.frame.extend_from_slice(&b.header[..header_len]);
            self.job_bytes += header_len + job.len;
        }
        if !job.dropped && job.len == 0 {
            finish(&mut job.frame, &b.layout, job.place);
            job.ready = Some(self.now + Ticks(self.config.segment_latency));
        } else if !job.dropped {
            let mut pieces = [(0u64, 0usize); tsonic_regs::limits::FRAGMENTS_MAX];
            let mut count = 0;
            b.pieces(job.place.offset as usize, job.len, |at, n| {
                pieces[count] = (at, n);
                count += 1;
                true
            });
            let mut due = self.now;
            for (at, n) in &pieces[..count] {
                due = self.request(env, *at, *n);
            }
            self.reads.push_back((due, Read::Payload { job: number }));
        }
        self.jobs.push_back(job);
        self.plan_departure(env);
    }

    pub(super) fn payload_read(&mut self, env: &mut Env<'_>, number: u64) {
        let Some(at) = number.checked_sub(self.first_job) else {
            return;
        };
        let Some(job) = self.jobs.get_mut(at as usize) else {
            return;
        };
        let b = &mut self.bursts[job.burst as usize];
        let header_len = b.layout.header_len();
        job.frame.resize(header_len + job.len, 0);
        let mut done = header_len;
        let (frame, now) = (&mut job.frame, self.now);
        let mut fault = false;
        b.pieces(job.place.offset as usize, job.len, |at, n| {
            fault = env
                .memory
                .read_data(now, at, &mut frame[done..done + n])
                .is_err();
            done += n;
            !fault
        });
        if fault {
            job.dropped = true;
            if b.status == Status::Ok {
                b.status = Status::AddressFault;
            }
            self.job_bytes -= header_len + job.len;
            self.frames.push(std::mem::take(&mut job.frame));
        } else {
            finish(&mut job.frame, &b.layout, job.place);
        }
        job.ready = Some(self.now + Ticks(self.config.segment_latency));
        if fault {
            self.read_fault(env);
        }
        self.plan_departure(env);
    }

    /// Plans the departure of the segment at the front, once its frame is whole;
    /// segments that do not depart leave the line here.
    fn plan_departure(&mut self, env: &mut Env<'_>) {
        while self.departure.is_none() {
            let Some(job) = self.jobs.front() else {
                return;
            };
            let Some(ready) = job.ready else {
                return;
            };
            if job.dropped {
                let (id, charged) = (job.burst, job.charged);
                self.jobs.pop_front();
                self.first_job += 1;
                self.segment_done(env, id, charged);
                continue;
            }
            let start = ready.max(self.path_free).max(self.mac_ready);
            self.departure = Some(start + Ticks(self.config.beats(job.frame.len())));
        }
    }

    /// The frame at the front has been handed to the MAC.
    pub(super) fn depart(&mut self, env: &mut Env<'_>) {
        let Some(at) = self.departure.take() else {
            return;
        };
        let Some(job) = self.jobs.pop_front() else {
            return;
        };
        self.first_job += 1;
        let bytes = job.frame.len();
        self.job_bytes -= bytes;
        self.path_free = at;
        self.visible = true;
        env.mac.transmit(at, &job.frame);
        self.mac_ready = env.mac.tx_ready_at();
        self.registers.counters.tx_frames += 1;
        self.registers.counters.tx_bytes += bytes as u64;
        let b = &mut self.bursts[job.burst as usize];
        b.wire_bytes = b.wire_bytes.saturating_add(bytes as u32);
        b.segments += 1;
        b.first = b.first.or(Some(at));
        b.last = at;
        self.frames.push(job.frame);
        self.segment_done(env, job.burst, bytes);
        self.plan_departure(env);
    }

    /// A segment departed or was dropped.
    fn segment_done(&mut self, env: &mut Env<'_>, id: u32, charged: usize) {
        let q = usize::from(self.bursts[id as usize].queue);
        self.credit_budget(q, charged);
        let b = &mut self.bursts[id as usize];
        b.in_flight -= 1;
        if b.all_granted && b.in_flight == 0 {
            self.finish_burst(env, id);
        }
    }

    /// Completes a burst of which nothing is under way any more.
    pub(super) fn finish_burst(&mut self, env: &mut Env<'_>, id: u32) {
        let b = &self.bursts[id as usize];
        let (slot, payload) = (
            b.descriptor.burst.flow_slot(),
            b.descriptor.burst.payload_len(),
        );
        let wake = b.counted && self.flows[usize::from(slot)].bytes.leave(payload);
        let mut c = TxCompletion::default();
        c.status.set_status(b.status.code());
        c.status.set_cn(b.cn.into());
        c.status.set_throttle(b.throttle.into());
        c.status.set_wake(wake.into());
        c.status.set_flow_slot(slot);
        c.status.set_cookie(b.descriptor.burst.cookie());
        c.first_departure = b.first.unwrap_or(self.now).0;
        c.last_departure = if b.first.is_some() { b.last } else { self.now }.0;
        c.done.set_wire_bytes(b.wire_bytes);
        c.done.set_segments(b.segments);
        let error = b.status != Status::Ok;
        let at_once = error || wake || b.descriptor.control.timestamp() == 1;
        let (q, generation) = (usize::from(b.queue), b.generation);
        self.registers.counters.tx_bursts += 1;
        self.registers.counters.tx_errors += u64::from(error);
        // The rings of an earlier enable are not the device's any more.
        if self.tx[q].rings.generation == generation {
            self.complete(env, q, c, at_once);
        }
        self.free_burst(env, id);
    }

    /// Writes a transmit completion.
    pub(super) fn complete(
        &mut self,
        env: &mut Env<'_>,
        q: usize,
        mut c: TxCompletion,
        at_once: bool,
    ) {
        let rings = &mut self.tx[q].rings;
        let (at, phase) = rings.complete();
        c.status.set_queue(q as u16);
        c.done.set_head(rings.head as u16);
        c.done.set_phase(phase);
        let mut bytes = [0u8; 32];
        for (b, word) in bytes.chunks_exact_mut(8).zip(c.to_words()) {
            b.copy_from_slice(&word.to_le_bytes());
        }
        self.post_write(env, at, &bytes);
        self.signal(env, q, at_once);
    }

    /// Takes the bursts of queue `q` out of the device: what was granted still
    /// departs, the rest completes with `QUEUE_RESET`.
    pub(super) fn reset_queue(&mut self, env: &mut Env<'_>, q: usize) {
        let of_queue = |b: &super::state::Burst| usize::from(b.queue) == q;
        let mut removed = self.tx[q].unpaced.remove(&mut self.bursts, of_queue);
        self.tx[q].unpaced_due = false;
        let mut slots: Vec<u16> = self
            .bursts
            .iter()
            .filter(|b| b.active && b.listed && of_queue(b))
            .map(|b| b.descriptor.burst.flow_slot())
            .filter(|slot| *slot != 0)
            .collect();
        slots.sort_unstable();
        slots.dedup();
        for slot in slots {
            let slot = usize::from(slot);
            let flow = &mut self.flows[slot];
            let head = flow.bursts.head;
            removed.extend(flow.bursts.remove(&mut self.bursts, of_queue));
            if flow.bursts.head == head {
                continue;
            }
            // Its head is another burst, or none: out of the structures, and in again.
            match flow.state {
                FlowState::Due(due) => {
                    let due = usize::from(due);
                    self.tx[due].due.retain(|(m, _)| *m != slot as u32);
                    self.refresh(due);
                }
                FlowState::Waiting => self.waiting.remove(slot),
                FlowState::Idle => {}
            }
            self.flows[slot].state = FlowState::Idle;
            if !self.flows[slot].bursts.is_empty() {
                self.flow_has_head(slot);
            }
        }
        self.tx[q].due.retain(|(m, _)| *m != UNPACED);
        self.arbiter.reset(q);
        self.refresh(q);
        for b in &mut self.bursts {
            if b.active && usize::from(b.queue) == q && b.status == Status::Ok && !b.all_granted {
                b.status = Status::QueueReset;
            }
        }
        for id in removed {
            let b = &mut self.bursts[id as usize];
            b.listed = false;
            b.all_granted = true;
            if b.in_flight == 0 {
                self.finish_burst(env, id);
            }
        }
    }
}
