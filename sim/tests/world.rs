// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC in its world: wire, peers, the in-process function, captures.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tsonic_pci::{BusError, DmaBuffer, DmaPermission, PciFunction, Wake};
use tsonic_regs::completion::{RxCompletion, TxCompletion};
use tsonic_regs::descriptor::{Kind, TxDescriptor};
use tsonic_regs::registers::{RingSize, doorbell, doorbell_offset, global, queue, queue_offset};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::netns::{TapConfig, TapError};
use tsonic_sim::pages::Pages;
use tsonic_sim::peer::KernelPeer;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{Hosts, LinkConfig, Peer, World};
use tsonic_types::{Nanos, Ticks};

/// Sends every frame back after a while, addresses swapped.
#[derive(Default)]
struct Echo {
    held: Vec<(Ticks, Vec<u8>)>,
    seen: Arc<Mutex<Vec<(Ticks, usize)>>>,
}

impl Peer for Echo {
    fn receive(&mut self, now: Ticks, frame: &[u8]) {
        self.seen.lock().unwrap().push((now, frame.len()));
        let mut back = frame.to_vec();
        let (to, from) = back.split_at_mut(6);
        to.swap_with_slice(&mut from[..6]);
        self.held.push((now + Ticks(1_000), back));
    }

    fn next_event(&self) -> Option<Ticks> {
        self.held.first().map(|(at, _)| *at)
    }

    fn poll(&mut self, now: Ticks, send: &mut dyn FnMut(&[u8])) {
        while self.held.first().is_some_and(|(at, _)| *at <= now) {
            send(&self.held.remove(0).1);
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _at_most: Duration) {}
}

fn model() -> Box<Model> {
    Box::new(Model::new(ModelConfig {
        queues: 2,
        flow_slots: 16,
        ..ModelConfig::default()
    }))
}

fn link() -> LinkConfig {
    let path = PathConfig {
        rate: 1_000_000_000,
        delay: Nanos::from_micros(20),
        ..PathConfig::default()
    };
    LinkConfig {
        line_rate: 10_000_000_000,
        out: path,
        back: path,
    }
}

const IOVA: u64 = 0x10_0000;
const TX_RING: usize = 0;
const TX_DONE: usize = 0x1000;
const RX_RING: usize = 0x2000;
const RX_DONE: usize = 0x3000;
const HEADER: usize = 0x4000;
const PAYLOAD: usize = 0x5000;
const BUFFERS: usize = 0x2_0000;

/// A driver of one queue, small enough to be seen through.
struct Driver {
    function: InprocFunction,
    pages: Pages,
    tail: u32,
    tx_next: usize,
    rx_next: usize,
}

impl Driver {
    fn start(mut function: InprocFunction) -> Driver {
        let pages = Pages::new(0x8_0000).unwrap();
        // SAFETY: the pages live in the driver, which ends the mapping with itself.
        unsafe {
            let rw = DmaPermission::ReadWrite;
            let buffer = DmaBuffer::private(pages.as_ptr(), pages.len());
            function.dma_map(buffer, IOVA, rw).unwrap();
        }
        function.set_bus_master(true).unwrap();
        function.enable_vectors(1).unwrap();
        let mut size = RingSize(0);
        size.set_ring_log2(6);
        size.set_completion_log2(6);
        let at = |offset: usize| IOVA as u32 + offset as u32;
        let writes = [
            (global::CONTROL.offset, 1),
            (queue_offset(0, queue::TX_RING_LO), at(TX_RING)),
            (queue_offset(0, queue::TX_COMPLETION_LO), at(TX_DONE)),
            (queue_offset(0, queue::TX_RING_SIZE), size.0),
            (queue_offset(0, queue::TX_CONTROL), 1),
            (queue_offset(0, queue::RX_RING_LO), at(RX_RING)),
            (queue_offset(0, queue::RX_COMPLETION_LO), at(RX_DONE)),
            (queue_offset(0, queue::RX_RING_SIZE), size.0),
            (queue_offset(0, queue::RX_CONTROL), 1),
        ];
        for (offset, value) in writes {
            function.write32(0, offset as u64, value).unwrap();
        }
        for row in 0..128 {
            let offset = global::RSS_TABLE.offset + 4 * row;
            function.write32(0, offset as u64, 0).unwrap();
        }
        for i in 0..63usize {
            let addr = IOVA + (BUFFERS + i * 2048) as u64;
            let words = [addr, (i as u64) << 16 | 2048];
            for (k, word) in words.iter().enumerate() {
                assert!(pages.write(RX_RING + i * 16 + k * 8, &word.to_le_bytes()));
            }
        }
        let rx_bell = doorbell_offset(0, doorbell::RX_TAIL) as u64;
        function.write32(0, rx_bell, 63).unwrap();
        assert!(pages.write(HEADER, &[2; 12]));
        assert!(pages.write(PAYLOAD, &(0..=255).cycle().take(8192).collect::<Vec<u8>>()));
        Driver {
            function,
            pages,
            tail: 0,
            tx_next: 0,
            rx_next: 0,
        }
    }

    /// Posts `frame` as it stands.
    fn post_frame(&mut self, frame: &[u8]) {
        assert!(self.pages.write(HEADER, &frame[..14]));
        assert!(self.pages.write(PAYLOAD, &frame[14..]));
        self.post(frame.len() - 14);
    }

    /// Posts a raw frame of `14 + payload` bytes.
    fn post(&mut self, payload: usize) {
        let mut d = TxDescriptor::default();
        d.control.set_kind(Kind::Raw as u8);
        d.control.set_l2_len(14);
        d.control.set_fragments(1);
        d.burst.set_payload_len(payload as u32);
        d.lengths.set_frag0_len(payload as u32);
        d.header_addr = IOVA + HEADER as u64;
        d.frag0_addr = IOVA + PAYLOAD as u64;
        for (k, word) in d.to_words().iter().enumerate() {
            let at = TX_RING + self.tail as usize * 64 + k * 8;
            assert!(self.pages.write(at, &word.to_le_bytes()));
        }
        self.tail = (self.tail + 1) % 64;
    }

    fn ring(&mut self) {
        let bell = doorbell_offset(0, doorbell::TX_TAIL) as u64;
        self.function.write32(0, bell, self.tail).unwrap();
    }

    fn words(&self, at: usize) -> [u64; 4] {
        let mut bytes = [0; 32];
        assert!(self.pages.read(at, &mut bytes));
        std::array::from_fn(|i| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap()))
    }

    fn sent(&mut self) -> Option<TxCompletion> {
        let c = TxCompletion::from_words(self.words(TX_DONE + self.tx_next * 32));
        (c.done.phase() == 1).then(|| {
            self.tx_next += 1;
            c
        })
    }

    fn received(&mut self) -> Option<(RxCompletion, Vec<u8>)> {
        let c = RxCompletion::from_words(self.words(RX_DONE + self.rx_next * 32));
        (c.done.phase() == 1).then(|| {
            let mut frame = vec![0; c.status.bytes().into()];
            let at = BUFFERS + self.rx_next * 2048;
            assert!(self.pages.read(at, &mut frame));
            self.rx_next += 1;
            (c, frame)
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let len = self.pages.len();
        self.function.dma_unmap(IOVA, len).unwrap();
    }
}

fn echo_run() -> (Vec<(Ticks, usize)>, Vec<u64>, Ticks) {
    let echo = Echo::default();
    let seen = Arc::clone(&echo.seen);
    let world = World::new(
        model(),
        RootComplexConfig::default(),
        link(),
        Some(Box::new(echo)),
    );
    let mut d = Driver::start(InprocFunction::new(world));
    for payload in [1000, 40, 1486] {
        d.post(payload);
    }
    d.ring();
    let mut arrivals = Vec::new();
    let mut sent = 0;
    while arrivals.len() < 3 {
        assert_eq!(d.function.wait(None).unwrap(), Wake::Completion);
        while let Some(c) = d.sent() {
            assert_eq!(c.status.status(), 0);
            sent += 1;
        }
        while let Some((c, frame)) = d.received() {
            assert_eq!(frame[0], 2);
            arrivals.push(c.arrival);
        }
    }
    assert_eq!(sent, 3);
    assert_eq!(d.function.wait(None).unwrap(), Wake::Idle);
    let now = d.function.now();
    let deadline = now + Ticks(12_345);
    assert_eq!(d.function.wait(Some(deadline)).unwrap(), Wake::Deadline);
    assert_eq!(d.function.now(), deadline);
    let seen = seen.lock().unwrap().clone();
    (seen, arrivals, now)
}

#[test]
fn frames_go_out_and_come_back_and_a_run_repeats() {
    let (seen, arrivals, now) = echo_run();
    let lengths: Vec<usize> = seen.iter().map(|(_, n)| *n).collect();
    assert_eq!(lengths, [1014, 60, 1500], "padded to 60");
    // The bottleneck spaces them: 60 + 24 bytes at a byte a tick.
    assert_eq!(seen[1].0.0 - seen[0].0.0, 84);
    assert!(arrivals.windows(2).all(|w| w[0] < w[1]));
    // There and back: two delays of 2,500 ticks, and the echo's 1,000.
    assert!(arrivals[0] > 6_000, "{arrivals:?}");
    assert_eq!(echo_run(), (seen, arrivals, now));
}

#[test]
fn two_nics_share_a_clock() {
    let world = World::pair([model(), model()], RootComplexConfig::default(), link()).unwrap();
    let first = InprocFunction::new(world);
    let second = first.other().unwrap();
    let (mut a, mut b) = (Driver::start(first), Driver::start(second));
    a.post(1000);
    a.ring();
    b.post(500);
    b.ring();
    let (mut at_a, mut at_b) = (None, None);
    while at_a.is_none() || at_b.is_none() {
        assert_eq!(a.function.wait(None).unwrap(), Wake::Completion);
        at_a = at_a.or(a.received().map(|(_, f)| f.len()));
        at_b = at_b.or(b.received().map(|(_, f)| f.len()));
        assert_eq!(a.function.now(), b.function.now());
    }
    assert_eq!((at_a, at_b), (Some(514), Some(1014)));
    assert_eq!(a.function.world().wire_stats().0.frames, 1);
}

#[test]
fn frames_that_arrive_together_do_not_stop_the_clock() {
    let mut link = link();
    link.out.duplicate = 1.0;
    link.back.duplicate = 1.0;
    let world = World::pair([model(), model()], RootComplexConfig::default(), link).unwrap();
    let first = InprocFunction::new(world);
    let second = first.other().unwrap();
    let (mut a, mut b) = (Driver::start(first), Driver::start(second));
    a.post(1000);
    a.ring();
    b.post(500);
    b.ring();
    let (mut at_a, mut at_b) = (Vec::new(), Vec::new());
    while a.function.wait(None).unwrap() == Wake::Completion {
        at_a.extend(a.received().map(|(_, f)| f.len()));
        at_b.extend(b.received().map(|(_, f)| f.len()));
    }
    assert_eq!((at_a, at_b), (vec![514, 514], vec![1014, 1014]));
}

/// Sends so many frames, one behind the other.
struct Volley(usize);

impl Peer for Volley {
    fn receive(&mut self, _now: Ticks, _frame: &[u8]) {}

    fn next_event(&self) -> Option<Ticks> {
        (self.0 > 0).then_some(Ticks::ZERO)
    }

    fn poll(&mut self, _now: Ticks, send: &mut dyn FnMut(&[u8])) {
        for _ in 0..std::mem::take(&mut self.0) {
            send(&[2; 1000]);
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _at_most: Duration) {}
}

/// Hosts that are never in time: counts how often they are waited for.
struct Slow(Arc<AtomicU32>);

impl Hosts for Slow {
    fn wait(&mut self, _peer: Option<BorrowedFd<'_>>, _at_most: Duration) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A volley of 300 frames to a ring of 63 buffers of a host in wall time, that fills it
/// only when it is empty and the clock stands still, if it does. Frames without a buffer.
fn volley(fills: bool) -> u32 {
    let asked = Arc::new(AtomicU32::new(0));
    let peer = Box::new(Volley(300));
    let mut world = World::new(model(), RootComplexConfig::default(), link(), Some(peer));
    world.set_hosts(Box::new(Slow(Arc::clone(&asked))));
    let mut d = Driver::start(InprocFunction::new(world));
    let last = (RX_RING + 63 * 16, IOVA + BUFFERS as u64);
    assert!(d.pages.write(last.0, &last.1.to_le_bytes()));
    assert!(d.pages.write(last.0 + 8, &2048u64.to_le_bytes()));
    let counter = |d: &mut Driver, register: usize| d.function.read32(0, register as u64).unwrap();
    let (frames, dropped) = (global::RX_FRAMES.offset, global::RX_NO_BUFFER.offset);
    let (mut tail, mut rounds) = (63u32, 0);
    loop {
        let before = (asked.load(Ordering::Relaxed), d.function.now());
        d.function.world().step(None);
        let held = asked.load(Ordering::Relaxed) > before.0 && d.function.now() == before.1;
        if held && fills {
            // Every buffer is used, and has been told of.
            let bell = doorbell_offset(0, doorbell::RX_TAIL) as u64;
            tail = (tail + 63) % 64;
            d.function.write32(0, bell, tail).unwrap();
            rounds += 1;
        }
        let arrived = counter(&mut d, frames);
        if arrived == 300 && (rounds == 4 || counter(&mut d, dropped) == 300 - 63) {
            return counter(&mut d, dropped);
        }
    }
}

#[test]
fn a_host_in_wall_time_loses_no_frame_to_a_clock_that_runs_ahead() {
    assert_eq!(volley(true), 0);
}

#[test]
fn a_host_that_posts_no_buffers_loses_what_comes() {
    assert_eq!(volley(false), 300 - 63);
}

#[test]
fn a_capture_that_cannot_be_written_is_an_error_and_the_run_goes_on() {
    // A place that is always full: what is written there fails when it leaves the buffer.
    for payload in [40, 8000] {
        let mut world = World::new(model(), RootComplexConfig::default(), link(), None);
        world.capture(std::path::Path::new("/dev/full")).unwrap();
        let mut d = Driver::start(InprocFunction::new(world));
        for _ in 0..4 {
            d.post(payload);
        }
        d.ring();
        while d.function.wait(None).unwrap() != Wake::Idle {}
        assert_eq!(d.function.world().wire_stats().0.frames, 4);
        let ended = d.function.world().end_capture().unwrap_err().to_string();
        assert!(ended.contains("No space left"), "{ended}");
        assert_eq!(d.function.world().end_capture().unwrap(), 0);
    }
}

#[test]
fn accesses_outside_are_refused() {
    let world = World::new(model(), RootComplexConfig::default(), link(), None);
    let mut f = InprocFunction::new(world);
    let bad = |r: Result<u32, BusError>| matches!(r, Err(BusError::BadAccess { .. }));
    assert!(bad(f.read32(1, 0)));
    assert!(bad(f.read32(0, 2)));
    assert!(bad(f.read32(0, 0x20_0000)));
    assert_eq!(f.read32(0, 0).unwrap(), tsonic_regs::MAGIC);
    assert!(matches!(
        f.dma_unmap(0x1000, 4096),
        Err(BusError::NotMapped { .. })
    ));
    let pages = Pages::new(8192).unwrap();
    // SAFETY: refused, or unmapped before `pages` goes.
    unsafe {
        let rw = DmaPermission::ReadWrite;
        let buffer = |bytes| DmaBuffer::private(pages.as_ptr(), bytes);
        assert!(f.dma_map(buffer(100), 0x1000, rw).is_err());
        f.dma_map(buffer(8192), 0x1000, rw).unwrap();
        assert!(f.dma_map(buffer(4096), 0x2000, rw).is_err());
    }
    f.dma_unmap(0x1000, 8192).unwrap();
}

#[test]
fn a_reset_leaves_nothing_behind() {
    let world = World::new(model(), RootComplexConfig::default(), link(), None);
    let mut d = Driver::start(InprocFunction::new(world));
    d.post(1400);
    d.post(1400);
    d.ring();
    let at = d.function.now() + Ticks(150);
    assert_eq!(d.function.wait(Some(at)).unwrap(), Wake::Deadline);
    d.function.reset().unwrap();
    assert_eq!(d.function.now(), at, "the clock goes on");
    assert_eq!(d.function.wait(None).unwrap(), Wake::Idle);
    assert!(d.sent().is_none());
    assert_eq!(
        d.function.read32(0, global::CONTROL.offset as u64).unwrap(),
        0
    );
    assert_eq!(
        d.function.read32(0, global::STATUS.offset as u64).unwrap(),
        1
    );
}

#[test]
fn captures_hold_both_directions() {
    let path = std::env::temp_dir().join(format!("tsonic-world-{}.pcapng", std::process::id()));
    let mut world = World::new(
        model(),
        RootComplexConfig::default(),
        link(),
        Some(Box::new(Echo::default())),
    );
    world.capture(&path).unwrap();
    let mut d = Driver::start(InprocFunction::new(world));
    d.post(100);
    d.ring();
    while d.received().is_none() {
        assert_eq!(d.function.wait(None).unwrap(), Wake::Completion);
    }
    assert_eq!(d.function.world().end_capture().unwrap(), 2);
    assert!(std::fs::metadata(&path).unwrap().len() > 2 * 114);
    std::fs::remove_file(&path).unwrap();
}

/// The NIC asks a Linux kernel for its address, and the kernel answers. An idle
/// clock is not faster than the wall's: the kernel must have had its time.
#[test]
fn a_kernel_at_the_far_end_answers_in_its_own_time() {
    let (peer, port) = match KernelPeer::start(&TapConfig::default()) {
        Ok(both) => both,
        Err(error @ (TapError::NotPermitted { .. } | TapError::NoTun(_))) => {
            assert!(error.to_string().contains("run as root") || error.to_string().contains("tun"));
            eprintln!("not run: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let world = World::new(
        model(),
        RootComplexConfig::default(),
        link(),
        Some(Box::new(port)),
    );
    let clock = world.clock();
    let mut d = Driver::start(InprocFunction::new(world));
    // RFC 826: who has 10.9.0.2, tell 10.9.0.1.
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend([2, 0, 0, 0, 0, 1, 10, 9, 0, 1]);
    arp.extend([0, 0, 0, 0, 0, 0, 10, 9, 0, 2]);
    d.post_frame(&arp);
    d.ring();
    let give_up = d.function.now() + clock.to_ticks(Nanos::from_secs(10));
    let answer = loop {
        let wake = d.function.wait(Some(give_up)).unwrap();
        assert_eq!(wake, Wake::Completion, "no answer");
        match d.received() {
            Some((_, f)) if f[12..14] == [8, 6] && f[21] == 2 => break f,
            _ => {}
        }
    };
    assert_eq!(answer[22..28], TapConfig::default().mac);
    let (wall, from) = (Instant::now(), d.function.now());
    let pause = Nanos::from_millis(30);
    let mut wake = Wake::Completion;
    while wake == Wake::Completion {
        let deadline = from + clock.to_ticks(pause);
        wake = d.function.wait(Some(deadline)).unwrap();
    }
    let simulated = clock.to_nanos(d.function.now().since(from));
    assert!(simulated >= Nanos(pause.0 - 8), "{simulated}");
    // What the NIC was busy for (a stray frame of the kernel) may be faster.
    assert!(wall.elapsed() >= Duration::from_millis(25));
    drop(peer);
}
