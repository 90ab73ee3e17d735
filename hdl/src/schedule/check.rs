// SPDX-License-Identifier: MIT OR Apache-2.0
//! Independent checks of a scheduler's behaviour: plain functions over a log of
//! what went in and came out. They know the rules of the [module](super), not how
//! the logic follows them, and serve the logic and the NIC model alike.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Fraction bits of rates and of virtual time.
const FRACTION: u32 = tsonic_regs::limits::INV_RATE_FRACTION as u32;

/// A burst as it was enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Tick at which it joined its list, or shortly before.
    pub tick: u64,
    /// Context.
    pub ctx: u8,
    /// Queue.
    pub queue: u8,
    /// Flow slot; 0 is unpaced.
    pub flow_slot: u16,
    /// Ticks per wire byte, 20.28.
    pub inv_rate: u64,
    /// Payload bytes.
    pub payload_len: u32,
    /// Payload bytes of a segment.
    pub mss: u32,
    /// Header bytes.
    pub header_len: u32,
    /// Launch time in ticks.
    pub launch: Option<u64>,
}

/// A grant as it was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Tick of the handshake.
    pub tick: u64,
    /// Context.
    pub ctx: u8,
    /// Queue.
    pub queue: u8,
    /// Payload offset.
    pub offset: u32,
    /// Payload bytes.
    pub len: u32,
    /// Segment number.
    pub index: u32,
    /// First of the burst.
    pub first: bool,
    /// Last of the burst.
    pub last: bool,
    /// The burst was aborted.
    pub aborted: bool,
    /// That is so because its queue is off.
    pub revoked: bool,
}

/// One entry of the log, in the order of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A burst was enqueued.
    Enqueue(Burst),
    /// The rest of a burst was given up.
    Abort {
        /// Tick.
        tick: u64,
        /// Context.
        ctx: u8,
    },
    /// A queue got a rate (ticks per wire byte, 20.28; 0 is none).
    QueueRate {
        /// Queue.
        queue: u8,
        /// Inverse rate.
        inv_rate: u64,
    },
    /// A queue is turned on or off. It is turned on again when nothing of it is left.
    QueueEnable {
        /// Queue.
        queue: u8,
        /// On.
        on: bool,
    },
    /// A grant was taken.
    Grant(Grant),
}

/// A grant with what the log says about its burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The grant.
    pub grant: Grant,
    /// Its burst.
    pub burst: Burst,
    /// Wire bytes: header and payload; 0 when aborted.
    pub wire_bytes: u32,
    /// Earliest tick that the flow's pacing and launch times allow; 0 for an
    /// unpaced burst.
    pub earliest: u64,
    /// Earliest tick that the queue's rate allows.
    pub gate: u64,
    /// Ticks by which the grant is behind the flow's virtual time; no rate is lost
    /// while that is below D.
    pub lag: u64,
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A context was enqueued before its burst had ended.
    #[error("context {ctx} was enqueued while in use")]
    ContextInUse {
        /// Context.
        ctx: u8,
    },
    /// A grant whose burst is not the first of its list, or not there at all.
    #[error("{grant:?} is not of the first burst of its list ({expected:?})")]
    Order {
        /// Grant.
        grant: Grant,
        /// First burst of the list.
        expected: Option<Burst>,
    },
    /// A grant that is not the next segment of its burst.
    #[error("{grant:?} should be {expected:?}")]
    Segment {
        /// Grant.
        grant: Grant,
        /// The segment that was to come.
        expected: Grant,
    },
    /// A grant before its time.
    #[error("{grant:?} came before tick {earliest}")]
    Early {
        /// Grant.
        grant: Grant,
        /// Earliest tick.
        earliest: u64,
    },
    /// A queue that is off was granted a segment, or one that is on was revoked.
    #[error("{grant:?} of a queue that is {}", if *.off { "off" } else { "on" })]
    Off {
        /// Grant.
        grant: Grant,
        /// The queue is off.
        off: bool,
    },
    /// Bursts that were not sent to their end.
    #[error("{bursts} bursts are left, the first is {first:?}")]
    Left {
        /// Number.
        bursts: usize,
        /// One of them.
        first: Burst,
    },
    /// A flow sent too much in a window.
    #[error("flow {flow_slot}: {excess} wire bytes too many between ticks {from} and {to}")]
    Window {
        /// Flow.
        flow_slot: u16,
        /// First grant of the window.
        from: u64,
        /// Last grant of the window.
        to: u64,
        /// Bytes above the bound.
        excess: u64,
    },
    /// Two segments of a flow are too close.
    #[error("flow {flow_slot}: ticks {from} and {to} are less than half a gap apart")]
    Spacing {
        /// Flow.
        flow_slot: u16,
        /// First grant.
        from: u64,
        /// Second grant.
        to: u64,
    },
    /// Two queues that always had work got too different shares.
    #[error("queues {a} and {b} differ by {difference:.2} rounds at tick {tick}")]
    Unfair {
        /// One queue.
        a: u8,
        /// The other.
        b: u8,
        /// Rounds of quanta between them.
        difference: f64,
        /// When.
        tick: u64,
    },
}

/// Virtual time and earliest departure, in units of 2^-28 tick.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    v: i128,
    e: i128,
}

impl Times {
    fn granted(&mut self, tick: u64, wire_bytes: u32, inv_rate: u64, lateness_debt: u64) {
        let cap = i128::from(super::LONGEST_GAP) << FRACTION;
        let gap = (i128::from(wire_bytes) * i128::from(inv_rate)).min(cap);
        let tick = i128::from(tick) << FRACTION;
        let debt = i128::from(lateness_debt) << FRACTION;
        self.v = self.v.max(tick - debt) + gap;
        self.e = self.v.max(tick + gap / 2);
    }

    fn joined(&mut self, tick: u64, launch: Option<u64>) {
        if let Some(launch) = launch {
            let launch = i128::from(launch.min(tick + super::LONGEST_GAP)) << FRACTION;
            self.v = self.v.max(launch);
            self.e = self.e.max(launch);
        }
    }

    fn restart(&mut self, tick: u64) {
        if self.tick() <= tick {
            self.v = i128::from(tick) << FRACTION;
            self.e = self.v;
        }
    }

    fn virtual_tick(&self) -> u64 {
        u64::try_from(self.v >> FRACTION).unwrap_or(0)
    }

    fn tick(&self) -> u64 {
        let ticks = (self.e + (1 << FRACTION) - 1) >> FRACTION;
        u64::try_from(ticks).unwrap_or(0)
    }
}

/// Bursts of one list, and its pacing.
#[derive(Default)]
struct List {
    bursts: VecDeque<Burst>,
    offset: u32,
    index: u32,
    times: Times,
}

/// Replays a log: every grant is the next segment of the first burst of its
/// list, and not before its time; at the end nothing is left, if `drained`.
/// `Enqueue.tick` must be the tick from which an idle flow starts.
///
/// # Errors
/// The first violation.
pub fn replay(log: &[Event], lateness_debt: u64, drained: bool) -> Result<Vec<Segment>, Violation> {
    let mut lists: BTreeMap<(bool, u16), List> = BTreeMap::new();
    let mut owner: HashMap<u8, (bool, u16)> = HashMap::new();
    let mut aborted: HashMap<u8, bool> = HashMap::new();
    let mut rates: HashMap<u8, u64> = HashMap::new();
    let mut queues: HashMap<u8, Times> = HashMap::new();
    // Queues whose rate was written, and whether a grant was taken since. That one
    // starts the queue anew, or it stood before and the next one does.
    let mut renewed: HashMap<u8, bool> = HashMap::new();
    // Queues that are off, and whether the grant that stood then was taken since.
    let mut off: HashMap<u8, bool> = HashMap::new();
    let mut segments = Vec::new();
    for &event in log {
        match event {
            Event::QueueRate { queue, inv_rate } => {
                rates.insert(queue, inv_rate);
                queues.remove(&queue);
                renewed.insert(queue, false);
            }
            Event::QueueEnable { queue, on: true } => {
                off.remove(&queue);
            }
            Event::QueueEnable { queue, on: false } => {
                off.entry(queue).or_insert(false);
            }
            Event::Abort { ctx, .. } => {
                aborted.insert(ctx, true);
            }
            Event::Enqueue(burst) => {
                let key = match burst.flow_slot {
                    0 => (true, u16::from(burst.queue)),
                    slot => (false, slot),
                };
                if owner.insert(burst.ctx, key).is_some() {
                    return Err(Violation::ContextInUse { ctx: burst.ctx });
                }
                aborted.insert(burst.ctx, false);
                let list = lists.entry(key).or_default();
                if list.bursts.is_empty() {
                    list.times.restart(burst.tick);
                    list.times.joined(burst.tick, burst.launch);
                }
                list.bursts.push_back(burst);
            }
            Event::Grant(grant) => {
                let key = owner.get(&grant.ctx).copied();
                let list = key.and_then(|key| lists.get_mut(&key).map(|list| (key, list)));
                let Some(((unpaced, _), list)) = list else {
                    return Err(Violation::Order {
                        grant,
                        expected: None,
                    });
                };
                let burst = match list.bursts.front() {
                    Some(burst) if burst.ctx == grant.ctx => *burst,
                    other => {
                        return Err(Violation::Order {
                            grant,
                            expected: other.copied(),
                        });
                    }
                };
                // An abort counts from some cycles before the grant is taken.
                let given_up =
                    grant.revoked || (grant.aborted && aborted.get(&grant.ctx) == Some(&true));
                match off.get_mut(&grant.queue) {
                    Some(_) if grant.revoked => {}
                    // One may have stood when the queue was turned off.
                    Some(stood) if !*stood => *stood = true,
                    None if !grant.revoked => {}
                    state => {
                        return Err(Violation::Off {
                            grant,
                            off: state.is_some(),
                        });
                    }
                }
                let rest = burst.payload_len.saturating_sub(list.offset);
                let expected = Grant {
                    tick: grant.tick,
                    ctx: burst.ctx,
                    queue: burst.queue,
                    offset: list.offset,
                    len: if given_up { 0 } else { rest.min(burst.mss) },
                    index: list.index,
                    first: list.index == 0,
                    last: given_up || rest <= burst.mss,
                    aborted: given_up,
                    revoked: grant.revoked,
                };
                if grant != expected {
                    return Err(Violation::Segment { grant, expected });
                }
                let wire_bytes = if given_up {
                    0
                } else {
                    burst.header_len + grant.len
                };
                let (mut earliest, mut gate) = (0, 0);
                if !unpaced && !grant.revoked {
                    earliest = list.times.tick();
                }
                if !grant.revoked && !renewed.contains_key(&grant.queue) {
                    gate = queues.get(&grant.queue).map_or(0, Times::tick);
                }
                if grant.tick < earliest.max(gate) {
                    return Err(Violation::Early {
                        grant,
                        earliest: earliest.max(gate),
                    });
                }
                segments.push(Segment {
                    grant,
                    burst,
                    wire_bytes,
                    earliest,
                    gate,
                    lag: grant.tick.saturating_sub(list.times.virtual_tick()),
                });
                if grant.revoked {
                    list.times.restart(grant.tick);
                } else {
                    list.times
                        .granted(grant.tick, wire_bytes, burst.inv_rate, lateness_debt);
                }
                list.offset += grant.len;
                list.index += 1;
                if grant.last {
                    list.bursts.pop_front();
                    owner.remove(&grant.ctx);
                    (list.offset, list.index) = (0, 0);
                    if let Some(next) = list.bursts.front() {
                        list.times.joined(grant.tick, next.launch);
                    }
                }
                let rate = rates.get(&grant.queue).copied().unwrap_or(0);
                if rate != 0 && !grant.revoked {
                    let times = queues.entry(grant.queue).or_default();
                    if let Some(second) = renewed.remove(&grant.queue) {
                        if !second || grant.tick < times.tick() {
                            *times = Times::default();
                            times.restart(grant.tick);
                        }
                        if !second {
                            renewed.insert(grant.queue, true);
                        }
                    }
                    times.granted(grant.tick, wire_bytes, rate, lateness_debt);
                }
            }
        }
    }
    let left: usize = lists.values().map(|list| list.bursts.len()).sum();
    match lists.values().find_map(|list| list.bursts.front()) {
        Some(&first) if drained => Err(Violation::Left {
            bursts: left,
            first,
        }),
        _ => Ok(segments),
    }
}

/// Window bound of one flow whose rate did not change: in any window of W ticks
/// at most `W + D` ticks' worth of bytes and one segment; and two segments are
/// half a gap apart at least. What was given up because its queue was off sends nothing.
///
/// # Errors
/// The first violation.
pub fn window(segments: &[Segment], flow_slot: u16, lateness_debt: u64) -> Result<(), Violation> {
    let flow: Vec<_> = segments
        .iter()
        .filter(|s| s.burst.flow_slot == flow_slot && !s.grant.revoked)
        .collect();
    // Cost of a segment in units of 2^-28 tick.
    let cap = i128::from(super::LONGEST_GAP) << FRACTION;
    let cost = |s: &Segment| (i128::from(s.wire_bytes) * i128::from(s.burst.inv_rate)).min(cap);
    let largest = flow.iter().map(|s| cost(s)).max().unwrap_or(0);
    let mut sent = 0;
    // Least of (cost before the window - its start) over all starts so far.
    let mut start: Option<(i128, u64)> = None;
    for (n, s) in flow.iter().enumerate() {
        let tick = i128::from(s.grant.tick) << FRACTION;
        let begin = sent - tick;
        if start.is_none_or(|(least, _)| begin < least) {
            start = Some((begin, s.grant.tick));
        }
        sent += cost(s);
        let debt = i128::from(lateness_debt) << FRACTION;
        if let Some((least, from)) = start {
            let excess = sent - tick - least - debt - largest;
            if excess > 0 {
                let inv_rate = i128::from(s.burst.inv_rate).max(1);
                return Err(Violation::Window {
                    flow_slot,
                    from,
                    to: s.grant.tick,
                    excess: u64::try_from(excess / inv_rate).unwrap_or(u64::MAX),
                });
            }
        }
        if let Some(next) = flow.get(n + 1) {
            let apart = i128::from(next.grant.tick - s.grant.tick) << FRACTION;
            if apart < cost(s) / 2 {
                return Err(Violation::Spacing {
                    flow_slot,
                    from: s.grant.tick,
                    to: next.grant.tick,
                });
            }
        }
    }
    Ok(())
}

/// Deficit round robin: over grants during which every queue of `quanta` always
/// had something that it was allowed to send, the rounds that two queues got
/// (wire bytes by quantum) differ by 2 and two of the longest segments at most.
///
/// # Errors
/// The first violation.
pub fn fairness(segments: &[Segment], quanta: &BTreeMap<u8, u32>) -> Result<(), Violation> {
    let longest = segments.iter().map(|s| s.wire_bytes).max().unwrap_or(0);
    let mut sent: BTreeMap<u8, u64> = quanta.keys().map(|&queue| (queue, 0)).collect();
    for s in segments {
        if let Some(bytes) = sent.get_mut(&s.grant.queue) {
            *bytes += u64::from(s.wire_bytes);
        }
        for (&a, &quantum_a) in quanta {
            for (&b, &quantum_b) in quanta.range(a + 1..) {
                let rounds = |queue: u8, quantum: u32| sent[&queue] as f64 / f64::from(quantum);
                let difference = (rounds(a, quantum_a) - rounds(b, quantum_b)).abs();
                let least = quantum_a.min(quantum_b);
                if difference > 2.0 + 2.0 * f64::from(longest) / f64::from(least) {
                    return Err(Violation::Unfair {
                        a,
                        b,
                        difference,
                        tick: s.grant.tick,
                    });
                }
            }
        }
    }
    Ok(())
}
