// SPDX-License-Identifier: MIT OR Apache-2.0
//! Random bursts for two NICs: a script that both are given, and a run that judges
//! one of them by the independent checkers and records it for the scoreboard.

use std::collections::{HashMap, VecDeque};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use tsonic_regs::Status;
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::limits::{HEADER_MAX, INV_RATE_FRACTION, MAX_SEGMENT_DEFAULT, PAYLOAD_MAX};
use tsonic_regs::registers::global;
use tsonic_sim::checkers::{Departure, FlowMarks, Ledger, Violation, window_bound};
use tsonic_sim::harness::{Bench, Post};
use tsonic_sim::model::{Layout, Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::scoreboard::{Scoreboard, flow_key};
use tsonic_types::Ticks;

use super::budget::{self, Limits};
use super::frames::payload;

/// Rows of the flow table.
const SLOTS: usize = 64;
/// Most segments of a burst.
const SEGMENTS_MAX: usize = 4_096;
/// Ticks between grant and departure beyond those of an empty data path: what the
/// data path holds (16 KiB) and the MAC at its slowest, and the queues in turn.
const JITTER: u64 = 12_000;
/// An address that is never mapped.
const NOWHERE: u64 = 0xdead_0000_0000;
/// Payload placed at a time, in bytes.
const ROUND: usize = 24 << 20;

/// What is wrong with a burst.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Reserved,
    Kind,
    Slot,
    Fragments,
    L2,
    Length,
    Mss,
    Large,
    Header,
    Payload,
}

const FAULTS: &[Fault] = &[
    Fault::Reserved,
    Fault::Kind,
    Fault::Slot,
    Fault::Fragments,
    Fault::L2,
    Fault::Length,
    Fault::Mss,
    Fault::Large,
    Fault::Header,
    Fault::Payload,
];

/// One burst of a script.
#[derive(Clone, Debug)]
struct Burst {
    queue: usize,
    cookie: u16,
    header: Vec<u8>,
    layout: Layout,
    payload: std::ops::Range<usize>,
    cuts: Vec<usize>,
    slot: u16,
    inv_rate: u64,
    flow_limit: u16,
    launch_after: Option<u64>,
    fault: Option<Fault>,
    /// When it is posted; `None`: as soon as there is room.
    post_at: Option<Ticks>,
}

/// What both NICs are given.
pub struct Script {
    bursts: Vec<Burst>,
    /// Rate of each flow slot.
    rates: Vec<u64>,
    area: Vec<u8>,
    queues: usize,
}

fn even(rng: &mut Pcg64Mcg, range: std::ops::RangeInclusive<usize>, step: usize) -> usize {
    rng.random_range(range.start() / step..=range.end() / step) * step
}

/// A header template of any shape, with ports that name the flow.
fn header(rng: &mut Pcg64Mcg, flow: usize, kind: Kind) -> (Vec<u8>, Layout) {
    let ipv6 = rng.random_bool(0.5);
    let udp = kind == Kind::Csum && rng.random_bool(0.5);
    let vlan = rng.random_range(0..3usize);
    let l2_len = 14 + 4 * vlan;
    let mut h: Vec<u8> = (0..12).map(|_| rng.random::<u8>() & 0xfe).collect();
    for _ in 0..vlan {
        h.extend([0x81, 0, 0, rng.random()]);
    }
    let protocol = if udp { 17 } else { 6 };
    if ipv6 {
        h.extend([0x86, 0xdd]);
        let mut extensions: Vec<(u8, Vec<u8>)> = Vec::new();
        if rng.random_bool(0.3) {
            extensions.push((0, unit(rng, 8)));
        }
        if rng.random_bool(0.3) {
            let addresses = rng.random_range(1..3);
            let mut route = unit(rng, 8 + 16 * addresses);
            route[2] = [0, 2, 4, 253][rng.random_range(0..4)];
            route[3] = rng.random_range(0..2);
            extensions.push((43, route));
        }
        if rng.random_bool(0.3) {
            let bytes = even(rng, 8..=32, 8);
            extensions.push((60, unit(rng, bytes)));
        }
        let mut next: Vec<u8> = extensions.iter().map(|(kind, _)| *kind).collect();
        next.push(protocol);
        h.extend([0x60, rng.random::<u8>() & 0x0f, rng.random(), rng.random()]);
        h.extend([0, 0, next[0], 64]);
        h.extend((0..32).map(|_| rng.random::<u8>()));
        for ((_, mut extension), after) in extensions.into_iter().zip(&next[1..]) {
            extension[0] = *after;
            h.extend(extension);
        }
    } else {
        h.extend([8, 0]);
        let options = even(rng, 0..=40, 4);
        h.extend([0x45 + (options / 4) as u8, rng.random(), 0, 0]);
        h.extend([rng.random(), rng.random(), 0x40, 0, 64, protocol, 0, 0]);
        h.extend((0..8).map(|_| rng.random::<u8>()));
        h.extend((0..options).map(|_| 1));
    }
    let l3_len = h.len() - l2_len;
    h.extend((1_000 + flow as u16).to_be_bytes());
    h.extend((2_000 + flow as u16).to_be_bytes());
    let l4_len = if udp {
        h.extend([0; 4]);
        8
    } else {
        let options = even(rng, 0..=40, 4);
        h.extend((0..8).map(|_| rng.random::<u8>()));
        h.extend([0x50 + (options as u8 / 4) * 0x10, rng.random()]);
        h.extend([rng.random(), rng.random(), 0, 0, 0, 0]);
        h.extend((0..options).map(|_| rng.random::<u8>()));
        20 + options
    };
    let layout = Layout {
        kind,
        ipv6,
        ip_id_fixed: rng.random_bool(0.3),
        cwr_all: rng.random_bool(0.3),
        l2_len,
        l3_len,
        l4_len,
        mss: 0,
    };
    (h, layout)
}

/// An extension header of `bytes` with options that mean nothing.
fn unit(rng: &mut Pcg64Mcg, bytes: usize) -> Vec<u8> {
    let mut u: Vec<u8> = (0..bytes).map(|_| rng.random()).collect();
    u[1] = (bytes / 8 - 1) as u8;
    u
}

/// A slot: slow flows have fewer bursts, so that all end at about the same time.
fn pick(rng: &mut Pcg64Mcg, rates: &[u64]) -> usize {
    if rng.random_bool(0.2) {
        return 0;
    }
    let fastest = (1u64 << INV_RATE_FRACTION) / 8;
    loop {
        let slot = rng.random_range(1..rates.len());
        if rng.random_bool((fastest as f64 / rates[slot] as f64).min(1.0)) {
            return slot;
        }
    }
}

impl Script {
    /// `count` random bursts for `queues` queues, of at most `payload_max` bytes.
    pub fn new(count: usize, queues: usize, payload_max: usize, seed: u64) -> Script {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let area = payload(seed as u32, 2 * PAYLOAD_MAX);
        // From the line's rate to a 64th of it; slot 0 is not paced.
        let line = (1u64 << INV_RATE_FRACTION) / 8;
        let rates: Vec<u64> = (0..SLOTS)
            .map(|slot| match slot {
                0 => 0,
                _ => (line as f64 * 64f64.powf(rng.random::<f64>())) as u64,
            })
            .collect();
        // Flows and their headers: slots 1.. have one flow each, and so has slot 0 in
        // each queue.
        let mut headers = HashMap::new();
        // Limits have numbers of their own, so that the bursts are the same without them.
        let mut limit_rng = Pcg64Mcg::seed_from_u64(!seed);
        let mut limits = [0u16; SLOTS];
        let mut bursts = Vec::new();
        for i in 0..count {
            let slot = pick(&mut rng, &rates);
            let queue = if slot == 0 {
                rng.random_range(0..queues)
            } else {
                slot % queues
            };
            let kind = match rng.random_range(0..10) {
                0 => Kind::Csum,
                1 => Kind::Raw,
                _ => Kind::Tso,
            };
            let flow = if slot == 0 { SLOTS + queue } else { slot };
            let (header, mut layout) = headers
                .entry((flow, kind as u8, i % 3))
                .or_insert_with(|| header(&mut rng, flow, kind))
                .clone();
            let most = if kind == Kind::Tso {
                payload_max
            } else {
                9_000
            };
            let len = ((most as f64).powf(rng.random::<f64>()) as usize).min(most);
            let least = len.div_ceil(SEGMENTS_MAX).max(1);
            let mss = match rng.random_range(0..8) {
                0 if len < 2_000 => rng.random_range(1..64),
                _ => (64.0 * 250f64.powf(rng.random::<f64>())) as usize,
            };
            layout.mss = mss.clamp(least, MAX_SEGMENT_DEFAULT);
            let start = rng.random_range(0..area.len() - len);
            let fault = rng
                .random_bool(0.06)
                .then(|| FAULTS[rng.random_range(0..FAULTS.len())]);
            let pieces = match (fault, rng.random_range(0..4)) {
                (Some(Fault::Payload), _) => 0,
                (_, 0) => rng.random_range(0..15),
                (_, n) => n - 1,
            };
            let cuts = (0..pieces)
                .map(|_| rng.random_range(1..=len / 8 + 1))
                .collect();
            // Half of the flows have a byte limit, which changes now and then.
            if slot % 2 == 1 && (limits[slot] == 0 || limit_rng.random_bool(0.05)) {
                limits[slot] = 1 << limit_rng.random_range(0..8);
            }
            bursts.push(Burst {
                queue,
                cookie: (i % 60_000) as u16,
                header,
                layout,
                payload: start..start + len,
                cuts,
                slot: slot as u16,
                inv_rate: rates[slot],
                flow_limit: limits[slot],
                launch_after: rng.random_bool(0.02).then(|| rng.random_range(0..20_000)),
                fault,
                post_at: None,
            });
        }
        Script {
            bursts,
            rates,
            area,
            queues,
        }
    }
}

impl Script {
    /// The same with a time for each burst, so that the wire and each flow's rate are
    /// half used and every burst finds its flow empty. Bursts without a rate are left
    /// out: what they wait for is the wire alone. Segments are of common size.
    pub fn at_half_load(mut self) -> Script {
        self.bursts.retain(|b| b.slot != 0);
        let mut wire = 0;
        let mut free = [0; SLOTS];
        for b in &mut self.bursts {
            b.layout.mss = b.layout.mss.min(1_448);
            let segments = b.payload.len().div_ceil(b.layout.mss.max(1)).max(1);
            let bytes = (b.payload.len() + segments * b.header.len()) as u64;
            let own = &mut free[usize::from(b.slot)];
            let at = wire.max(*own);
            wire += 2 * bytes / 8;
            *own =
                at + 2 * ((bytes * b.inv_rate) >> INV_RATE_FRACTION) + b.launch_after.unwrap_or(0);
            b.post_at = Some(Ticks(at));
        }
        // A slow flow's burst may be due after later ones.
        self.bursts.sort_by_key(|b| b.post_at);
        self
    }
}

/// Breaks a descriptor. Some faults need a payload; then there may be none.
fn spoil(d: &mut TxDescriptor, fault: Fault) {
    match fault {
        Fault::Reserved => d.control.0 |= 1 << 46,
        Fault::Kind => d.control.set_kind(9),
        Fault::Slot => d.burst.set_flow_slot(SLOTS as u16),
        Fault::Fragments => d.control.set_fragments(18),
        Fault::L2 => d.control.set_l2_len(12),
        Fault::Length => d.lengths.set_frag1_len(d.lengths.frag1_len() + 1),
        Fault::Mss => d.control.set_mss(0),
        Fault::Large => {
            let large = MAX_SEGMENT_DEFAULT as u32 + 1;
            d.control.set_mss(large as u16);
            d.control.set_fragments(1);
            d.burst.set_payload_len(large);
            d.lengths.set_frag0_len(large);
            d.lengths.set_frag1_len(0);
        }
        Fault::Header => d.header_addr = NOWHERE,
        Fault::Payload => d.frag0_addr = NOWHERE,
    }
}

/// What a run came to.
pub struct Run {
    /// For the comparison.
    pub board: Scoreboard,
    /// Frames that departed.
    pub frames: usize,
    /// Completions with an error.
    pub errors: usize,
    /// Crossings of a flow's byte limit.
    pub crossings: usize,
    /// When it ended.
    pub ticks: u64,
}

/// Posts the script as room in the rings allows, with a MAC and a host that are
/// slow at times (or, when it has times, then, with a MAC that never is), and judges
/// what comes out.
///
/// # Errors
/// The first rule that was broken.
pub fn run<N: Nic>(nic: N, script: &Script, limit: Ticks) -> Result<(Run, N), Violation> {
    let fail = |what: String| Err(Violation(what));
    let config = RootComplexConfig {
        read_latency: Ticks(90),
        bytes_per_tick: 12.0,
        ..RootComplexConfig::default()
    };
    let timed = script.bursts.iter().all(|b| b.post_at.is_some());
    let mut b = Bench::new(nic, config, ROUND + (24 << 20));
    let mut write_backs = Vec::new();
    for q in 0..script.queues {
        b.enable_tx(q, 6, 7);
        // Of four queues one has no budget, one finds its own, two have a fixed one.
        let limits = match q % 4 {
            1 => Limits::FREE,
            2 => Limits::fixed(40_000),
            3 => Limits::fixed(150_000),
            _ => continue,
        };
        if !timed {
            write_backs.push((q, budget::start(&mut b, q, limits)));
        }
    }
    let mark = b.alloc(0, 64);
    let mut ledger = Ledger::new(script.queues);
    let mut board = Scoreboard::default();
    let mut rng = Pcg64Mcg::seed_from_u64(99);
    let mut paced: Vec<Vec<Departure>> = vec![Vec::new(); SLOTS];
    let mut marks = MarkBook::default();
    let (mut next, mut frames, mut errors) = (0, 0, 0);
    let mut wire = 0u64;
    while next < script.bursts.len() {
        // A round: as much payload as there is memory for.
        b.free_to(mark);
        let mut waiting: Vec<VecDeque<(Ticks, TxDescriptor)>> =
            vec![VecDeque::new(); script.queues];
        let mut placed = 0;
        while let Some(burst) = script.bursts.get(next) {
            placed += burst.payload.len() + 2 * HEADER_MAX;
            if placed > ROUND {
                break;
            }
            let mut d = b.place(&Post {
                layout: burst.layout,
                header: &burst.header,
                payload: &script.area[burst.payload.clone()],
                cuts: &burst.cuts,
                flow_slot: burst.slot,
                inv_rate: burst.inv_rate,
                launch: None,
                cookie: burst.cookie,
            });
            d.burst.set_flow_limit(burst.flow_limit);
            if let Some(after) = burst.launch_after {
                d.control.set_launch(1);
                d.launch = after;
            }
            if let Some(fault) = burst.fault {
                spoil(&mut d, fault);
            }
            waiting[burst.queue].push_back((burst.post_at.unwrap_or_default(), d));
            next += 1;
        }
        let mut open = vec![0usize; script.queues];
        while waiting.iter().any(|w| !w.is_empty()) || open.iter().any(|n| *n > 0) {
            for (q, open) in open.iter_mut().enumerate() {
                let due = waiting[q].partition_point(|(at, _)| *at <= b.nic.now());
                let many = if timed { due } else { rng.random_range(0..6) };
                let many = many.min(62 - *open).min(due);
                for (_, mut d) in waiting[q].drain(..many) {
                    if d.control.launch() == 1 {
                        d.launch += b.nic.now().0;
                    }
                    ledger.queued(q, d.burst.cookie(), &d);
                    marks.posted(q, &d);
                    b.push(q, &d);
                    *open += 1;
                }
                if many > 0 {
                    b.ring(q);
                }
            }
            // The MAC takes a byte in an eighth of a tick, in a sixth, or as fast as the NIC.
            let slow = [None, Some((1, 8)), Some((1, 6))][rng.random_range(0..3)];
            let until = b.nic.now() + Ticks(rng.random_range(1..6_000));
            if timed {
                let next = waiting.iter().filter_map(|w| w.front()).map(|(at, _)| *at);
                b.run_to(next.min().unwrap_or(until));
            } else {
                b.mac.slow = slow;
                b.run_to(until);
            }
            for (q, open) in open.iter_mut().enumerate() {
                for c in b.completions(q) {
                    ledger.complete(q, &c)?;
                    marks.completed(q, &c)?;
                    board.completion(q, &c);
                    errors += usize::from(c.status.status() != Status::Ok.code());
                    *open -= 1;
                }
            }
            for (at, frame) in b.mac.sent.drain(..) {
                board.frame(at, &frame);
                frames += 1;
                wire += frame.len() as u64;
                if let Some(slot) = slot_of(&frame) {
                    let wire_bytes = frame.len() as u64;
                    paced[slot].push(Departure { at, wire_bytes });
                }
            }
            if b.nic.now() > limit {
                let waiting: usize = waiting.iter().map(VecDeque::len).sum();
                return fail(format!(
                    "not done after {limit} ticks: {next} bursts placed, {waiting} not posted, in the device {open:?}"
                ));
            }
        }
    }
    ledger.drained()?;
    let crossings = marks.check()?;
    if ledger.completed() != (frames as u64, wire) {
        return fail(format!(
            "completed {:?} of {frames} frames",
            ledger.completed()
        ));
    }
    // Beyond the last flush.
    let period = b.read(global::CREDIT_FLUSH.offset);
    b.run_to(b.nic.now() + Ticks(2 * u64::from(period)));
    for (q, at) in write_backs {
        let state = budget::written_back(&b, at).bytes;
        if state.limit() == 0 || state.inflight() != 0 {
            return fail(format!("queue {q}: the budget ends as {state:?}"));
        }
    }
    let debt = u64::from(b.read(global::LATENESS_DEBT.offset)) + JITTER;
    for (slot, sent) in paced.iter().enumerate().skip(1) {
        window_bound(sent, script.rates[slot], debt)
            .map_err(|v| Violation(format!("slot {slot}: {v}")))?;
    }
    for r in [
        global::TX_FRAMES,
        global::TX_BYTES,
        global::TX_BURSTS,
        global::TX_ERRORS,
        global::DOORBELL_ERRORS,
    ] {
        let value = b.counter(r);
        board.counter(r.name, value);
    }
    if b.read(global::STATUS.offset) != 1 {
        return fail("something is left in the NIC".into());
    }
    let ticks = b.nic.now().0;
    Ok((
        Run {
            board,
            frames,
            errors,
            crossings,
            ticks,
        },
        b.nic,
    ))
}

/// The marks of byte limits, by flow.
#[derive(Default)]
struct MarkBook {
    /// Bursts that were posted and have not completed, by queue and cookie.
    open: HashMap<(usize, u16), TxDescriptor>,
    /// Posts and completions of each slot, in order; the former as they joined or not.
    posts: HashMap<u16, Vec<(u16, TxDescriptor)>>,
    done: HashMap<u16, Vec<(u16, TxCompletion)>>,
}

impl MarkBook {
    fn posted(&mut self, q: usize, d: &TxDescriptor) {
        self.open.insert((q, d.burst.cookie()), *d);
        let slot = d.burst.flow_slot();
        self.posts
            .entry(slot)
            .or_default()
            .push((d.burst.cookie(), *d));
    }

    fn completed(&mut self, q: usize, c: &TxCompletion) -> Result<(), Violation> {
        let (cookie, slot) = (c.status.cookie(), c.status.flow_slot());
        let marked = c.status.throttle() == 1 || c.status.wake() == 1;
        if self.open.remove(&(q, cookie)).is_none() || (slot == 0 && marked) {
            return Err(Violation(format!("marks of {c:?}")));
        }
        self.done.entry(slot).or_default().push((cookie, *c));
        Ok(())
    }

    /// Judges every flow; how many crossings there were.
    fn check(&self) -> Result<usize, Violation> {
        let mut crossings = 0;
        for (slot, done) in &self.done {
            // What was refused never joined: in this script, all errors but faults.
            let joined = |c: &TxCompletion| {
                [Status::Ok.code(), Status::AddressFault.code()].contains(&c.status.status())
            };
            let mut flow = FlowMarks::default();
            let mut numbers = HashMap::new();
            for (cookie, d) in self.posts.get(slot).into_iter().flatten() {
                let completion = done.iter().find(|(c, _)| c == cookie);
                if *slot != 0 && completion.is_some_and(|(_, c)| joined(c)) {
                    let number = flow.posted(d.burst.payload_len(), d.burst.flow_limit());
                    numbers.insert(*cookie, number);
                }
            }
            for (cookie, c) in done {
                match numbers.get(cookie) {
                    Some(number) => {
                        flow.completed(*number, c.status.throttle() == 1, c.status.wake() == 1);
                    }
                    None if c.status.throttle() == 1 || c.status.wake() == 1 => {
                        return Err(Violation(format!("slot {slot}: marks of {c:?}")));
                    }
                    None => {}
                }
            }
            flow.check()
                .map_err(|v| Violation(format!("slot {slot}: {v}")))?;
            crossings += flow.seen().0;
        }
        Ok(crossings)
    }
}

/// The slot whose flow the frame is of: the source port tells. Raw frames have
/// the same headers.
fn slot_of(frame: &[u8]) -> Option<usize> {
    let key = flow_key(frame);
    let at = key.len().checked_sub(4)?;
    let port = u16::from_be_bytes([key[at], key[at + 1]]);
    let slot = usize::from(port.checked_sub(1_000)?);
    (1..SLOTS).contains(&slot).then_some(slot)
}

/// The model of the build with `queues` queue pairs.
pub fn model(queues: usize) -> Model {
    Model::new(ModelConfig {
        queues,
        flow_slots: SLOTS,
        ..ModelConfig::default()
    })
}
