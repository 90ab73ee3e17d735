// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scheduler: when may which segment leave?
//!
//! ```text
//! enqueue ─► BurstLists ──────────────► next segment ─► grant
//!               │ list got work             ▲             │ T, wire bytes
//!               ▼                           │ list        ▼
//!            Pacer ─key─► WinnerTree ─due─► DueLists ◄── Drr (queue)
//!               │         (flows)                         ▲ may send
//!               └──key──► WinnerTree ──────► gates ───────┘
//!                         (queues)
//! ```
//!
//! # Semantics
//!
//! Times are ticks of the clock. `L` are the wire bytes of a segment: its header
//! and payload. `T` is the tick of the cycle in which a grant is taken (`valid`
//! and `ready`). Arithmetic is that of [`Pacer`].
//!
//! *Lists.* A burst with flow slot f > 0 joins flow f, one with slot 0 the
//! unpaced list of its queue; its rate and launch time then mean nothing. A list
//! is in posting order. Segment i of a burst starts at payload offset i mss and
//! holds min(mss, what is left) bytes; a burst without payload has one segment.
//!
//! *Flow.* On the grant of a segment at T, with `inv` the inverse rate of that
//! segment's burst:
//! `gap = min(L inv, 2^32)`, `V = max(V, T - D) + gap`, `E = max(V, T + gap/2)`.
//! If it was the burst's last and another burst waits that has a launch time:
//! `V = max(V, launch)`, `E = max(E, launch)`. The flow is due at tick `ceil(E)`.
//! Work for an empty flow: if `ceil(E)` is later than the tick of the enqueue
//! then V and E stay, else V = E = that tick; then its launch time joins. Launch
//! times later than T (or the enqueue) + 2^32 count as that. Inverse rate 0
//! leaves the launch time only. D is read when V is computed.
//!
//! *Due.* When the clock reaches a flow's key, it goes to the end of the due list
//! of the queue of its first burst; of flows that reach it at one tick the lower
//! slot goes first. An unpaced list with work is always due: it goes there with
//! its first burst and again after each grant. Each grant takes one segment of
//! the list at the front, so lists that are due share a queue segment by segment.
//!
//! *Arbiter.* [`Drr`] over the queues that have something due, whose gate is
//! open, and whose `budget_ok` is high, charging L. A choice is made only while
//! `grant_ready` is high; once `grant_valid` rises the grant stands until taken.
//!
//! *Queue rate.* On a grant from a queue with an inverse rate other than 0 the
//! gate closes, V and E of the queue follow the rule of flows (without launch
//! times), and the gate opens at `ceil(E)`. When `TX_RATE_HI` is written, whatever the
//! value, what the rate before led to ends: a closed gate opens within 24 cycles, and the
//! next grant finds V = E = T. (A grant that was looked up before still goes by the rate
//! of then; the gate behind it opens at once.) An idle queue falls behind by
//! D at most, as a waiting one does.
//!
//! *Abort.* After `abort` of a burst its next grant is its last: no payload, no
//! wire bytes (nothing is charged, the gap is 0), `aborted` set. A grant that
//! stands already stands. An abort of a burst whose last grant was taken means
//! nothing.
//!
//! *Off.* While the last value written to a queue's `TX_CONTROL` has `ENABLE` low,
//! its bursts are aborted at their next grant, as above, with `revoked` set, and
//! that grant waits for nothing but its place: neither for the flow's departure or
//! launch time nor for the queue's rate or budget. V and E of flow and queue stay
//! as they are (V = E = T for a flow whose E is reached), and the arbiter's turn of the
//! queue ends with each, so that other queues do not wait for it. A burst that
//! stands behind one of another queue in the list of its flow waits for that one.
//!
//! *Budgets.* `charge_valid` is high for one cycle after each grant, with queue
//! and wire bytes; the next choice is made in the cycle after it at the
//! earliest, so `budget_ok` must be low there if the charge used the budget up.
//!
//! *Congestion.* `mark_valid` is high for one cycle when a burst joined its list while
//! the list at the front of its queue's due lists had stood there for more than
//! `cn_target` ticks, as of the tick before the joining; three cycles behind it. Times count
//! modulo 2^34. A list that is off or behind a closed gate stands there too, one that waits
//! for its key does not.
//!
//! *Configuration* counts from the next cycle on. After power-up and `reset` the
//! block clears its memories while `resetting`; configuration and enqueues are
//! not taken then: all queues without rate, quantum [`DEFAULT_QUANTUM`].
//! A quantum below [`LEAST_QUANTUM`] counts as that.
//!
//! *Idle* says that nothing happens before `next_event` unless something
//! arrives: a queue whose gate is closed or whose budget is used up may hold work.
//! The clock may then jump to `next_event`, not beyond; without an event,
//! anywhere. Flows without work report their key too. For a few cycles
//! `next_event` may already be reached: then there is nothing to skip.
//!
//! # Limits
//!
//! Launch times beyond the horizon are refused by `fetch`. A burst's context must
//! not be used again before its last grant was taken; slots and queues that the
//! build does not have must not be enqueued.
//!
//! # Latency in cycles
//!
//! | from | to | cycles |
//! |---|---|---|
//! | grant taken | next grant, if something is due | 7 (with queues in turn and with paced flows in turn too) |
//! | enqueue taken, all idle | grant of an unpaced burst | 14 |
//! | enqueue taken, all idle | grant of a paced burst | 28 |
//! | grant taken | the flow's key is in the tree, or the flow is due again | 16 |
//! | key reached | flow is due | 4, and A + 3 for each flow before it at the same time (A = log2 of the slots) |
//! | rate arithmetic of a grant | that of the next | 7 for each of flow and queue rate |
//! | queue turned off | its flows that wait are due | 2 to 3 for each slot, and as above |
//!
//! So a paced flow alone sends a segment every 23 cycles at most, whatever its
//! rate, and a queue with a rate one every 25 or so.

pub mod check;
mod drr;
mod due;
mod lists;
mod pacer;
mod recall;
mod renew;
mod top;
mod tree;

pub use drr::Drr;
pub use due::DueLists;
pub use lists::BurstLists;
pub use pacer::Pacer;
pub use recall::Recall;
pub use renew::Renew;
pub use top::Schedule;
pub use tree::{TreeLevel, WinnerTree};

/// Quantum of a queue whose register holds 0, in wire bytes.
pub const DEFAULT_QUANTUM: u64 = 16_384;
/// Least quantum in wire bytes; a smaller one counts as this, so that rounds in
/// which no queue gets out of debt never take longer than the wire.
pub const LEAST_QUANTUM: u64 = 64;
/// Longest gap, and furthest launch time, in ticks.
pub const LONGEST_GAP: u64 = 1 << 32;

/// 1 queue (the second one of the vectors is not used), 64 slots.
pub type Schedule1 = Schedule<2, 1, 6, 6, 7, 64, 128, 41, 36, 66>;
/// 4 queues, 64 slots.
pub type Schedule4 = Schedule<4, 2, 6, 6, 7, 64, 128, 41, 37, 67>;
/// 8 queues, 64 slots.
pub type Schedule8 = Schedule<8, 3, 6, 6, 7, 64, 128, 41, 38, 68>;
/// 32 queues, 64 slots.
pub type Schedule32 = Schedule<32, 5, 6, 6, 7, 64, 128, 41, 40, 70>;
/// 256 queues, 64 slots.
pub type Schedule256 = Schedule<256, 8, 6, 8, 9, 256, 512, 41, 43, 73>;
/// 32 queues, 256 slots.
pub type Schedule32Wide = Schedule<32, 5, 8, 8, 9, 256, 512, 43, 40, 70>;
