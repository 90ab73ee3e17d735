// SPDX-License-Identifier: MIT OR Apache-2.0
//! Send memory is shared out: peers that send and never read hold no reader up, one
//! connection alone has all it can use, and who comes beyond the reserve is refused.

mod common;
use common::*;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::rc::Rc;
use tsonic_tcp::*;
use tsonic_types::{CoreId, Nanos, TenantId};

/// What an echo sends and receives.
const BYTES: u64 = 1 << 20;
/// Chunk and pool of a host by default: 32 MiB.
const CHUNK: usize = 32_768;
const CHUNKS: u32 = 1_024;

/// Host 1 echoes; host 0 has clients.
struct Lab {
    world: World,
    server: SocketAddr,
    listener: ListenerId,
    /// What was read and not written, by connection; the flag: no more comes.
    echoes: HashMap<ConnId, (Vec<u8>, bool)>,
    /// Clients that send without an end and never read.
    stalled: HashSet<ConnId>,
    block: Vec<u8>,
}

/// A client that reads what it gets back.
struct Reader {
    id: ConnId,
    sent: u64,
    got: u64,
}

impl Lab {
    /// The server has `chunks` chunks, the clients more than they need.
    fn new(chunks: u32) -> Lab {
        let line = 1_250_000_000;
        let mut world = World::with(31, Link::clean(100), false, line);
        let pool = |n| SharedPool(Rc::new(RefCell::new(HeapPool::new(CHUNK, n))));
        world.hosts = [(1, 4 * CHUNKS), (2, chunks)]
            .map(|(n, chunks)| Host::with_pool(n, false, 31, line, pool(chunks)));
        let server = SocketAddr::new(world.hosts[1].ip(), 7);
        let engine = &mut world.hosts[1].engine;
        let listener = engine.listen(TenantId(0), server, 4096).unwrap();
        Lab {
            world,
            server,
            listener,
            echoes: HashMap::new(),
            stalled: HashSet::new(),
            block: vec![0; 65_536],
        }
    }

    fn connect(&mut self) -> ConnId {
        let (now, server) = (self.world.now, self.server);
        let engine = &mut self.world.hosts[0].engine;
        engine.connect(now, TenantId(0), None, server).unwrap()
    }

    fn client(&mut self) -> &mut Engine<SharedPool> {
        &mut self.world.hosts[0].engine
    }

    fn host(&mut self) -> &mut Engine<SharedPool> {
        &mut self.world.hosts[1].engine
    }

    /// Chunks that the server could still give.
    fn free(&self) -> usize {
        self.world.hosts[1].pool.available()
    }

    /// Lets both hosts run once. The server's application is run by events alone.
    fn turn(&mut self) {
        self.applications();
        self.world.poll();
        assert!(self.world.step(), "nothing will ever happen");
    }

    /// For `span` of virtual time.
    fn run(&mut self, span: Nanos) {
        let end = self.world.now + span;
        loop {
            self.applications();
            self.world.poll();
            if self.world.next().is_none_or(|t| t >= end) {
                break;
            }
            self.world.step();
        }
        self.world.now = end;
    }

    fn applications(&mut self) {
        while let Some(event) = self.world.hosts[0].engine.next_event() {
            if let Event::Ready(id, _) = event
                && self.stalled.contains(&id)
            {
                self.push(id);
            }
        }
        self.serve();
    }

    fn serve(&mut self) {
        let now = self.world.now;
        let engine = &mut self.world.hosts[1].engine;
        let mut due = Vec::new();
        while let Some(event) = engine.next_event() {
            match event {
                Event::Incoming(l) => {
                    assert_eq!(l, self.listener);
                    while let Some(id) = engine.accept(l) {
                        self.echoes.insert(id, (Vec::new(), false));
                        due.push(id);
                    }
                }
                Event::Ready(id, _) => due.push(id),
            }
            for id in due.drain(..) {
                if let Some(echo) = self.echoes.get_mut(&id)
                    && !move_on(engine, id, echo, &mut self.block)
                {
                    self.echoes.remove(&id);
                    engine.close(now, id);
                }
            }
        }
    }

    /// A connection that sends without an end, and will never read what comes back.
    fn stall(&mut self) -> ConnId {
        let id = self.connect();
        self.stalled.insert(id);
        while self.client().state(id) == Some(State::SynSent) {
            self.turn();
        }
        self.push(id);
        id
    }

    fn push(&mut self, id: ConnId) {
        let engine = &mut self.world.hosts[0].engine;
        while let Ok(1..) = engine.write(id, CoreId(0), &self.block) {}
    }

    fn reader(&mut self) -> Reader {
        let id = self.connect();
        Reader {
            id,
            sent: 0,
            got: 0,
        }
    }

    /// Echoes [`BYTES`] and ends the connection in order. Answers the time it took.
    fn echo(&mut self, mut r: Reader) -> Nanos {
        let start = self.world.now;
        while self.client().state(r.id) == Some(State::SynSent) {
            self.turn();
        }
        let mut block = vec![0; 65_536];
        let mut over = false;
        while !over {
            let client = &mut self.world.hosts[0].engine;
            while r.sent < BYTES {
                let n = (BYTES - r.sent).min(65_536) as usize;
                for (i, b) in block[..n].iter_mut().enumerate() {
                    *b = pattern(r.sent + i as u64);
                }
                match client.write(r.id, CoreId(0), &block[..n]) {
                    Ok(n) => r.sent += n as u64,
                    Err(Error::WouldBlock) => break,
                    Err(e) => panic!("after {} bytes: {e}", r.sent),
                }
                if r.sent == BYTES {
                    client.shutdown(r.id).unwrap();
                }
            }
            loop {
                match client.read(r.id, &mut block) {
                    Ok(0) => {
                        over = true;
                        break;
                    }
                    Ok(n) => {
                        for b in &block[..n] {
                            assert_eq!(*b, pattern(r.got), "at {}", r.got);
                            r.got += 1;
                        }
                    }
                    Err(Error::WouldBlock) => break,
                    Err(e) => panic!("after {} bytes back: {e}", r.got),
                }
            }
            let waited = self.world.now.since(start);
            assert!(waited < Nanos::from_secs(60), "{} bytes in 60 s", r.got);
            self.turn();
        }
        assert_eq!(r.got, BYTES);
        let now = self.world.now;
        self.client().close(now, r.id);
        now.since(start)
    }
}

/// Moves what can be moved; false at the end of the connection.
fn move_on(
    engine: &mut Engine<SharedPool>,
    id: ConnId,
    (rest, ended): &mut (Vec<u8>, bool),
    block: &mut [u8],
) -> bool {
    loop {
        while !rest.is_empty() {
            match engine.write(id, CoreId(0), rest) {
                Ok(n) => drop(rest.drain(..n)),
                Err(Error::WouldBlock) => return true,
                Err(_) => return false,
            }
        }
        if *ended {
            return false;
        }
        match engine.read(id, block) {
            Ok(0) => *ended = true,
            Ok(n) => rest.extend_from_slice(&block[..n]),
            Err(Error::WouldBlock) => return true,
            Err(_) => return false,
        }
    }
}

#[test]
fn peers_that_never_read_hold_no_reader_up() {
    let mut lab = Lab::new(CHUNKS);
    let alone = lab.reader();
    let alone = lab.echo(alone);
    let early = lab.reader();
    let stalled: Vec<ConnId> = (0..600).map(|_| lab.stall()).collect();
    lab.run(Nanos::from_secs(2));
    // One that was there before, and one that comes when all have stalled.
    let late = lab.reader();
    let times = [lab.echo(early), lab.echo(late)];
    eprintln!("alone {alone}, beside 600 that do not read {times:?}");
    // Nobody was cut off.
    for id in &stalled {
        assert_eq!(lab.client().state(*id), Some(State::Established));
    }
    lab.stalled.clear();
    for id in stalled {
        lab.client().abort(id);
    }
    lab.run(Nanos::from_secs(1));
    assert_eq!(lab.free(), CHUNKS as usize);
    assert!(lab.echoes.is_empty());
}

/// Whether the server took the connection, once that is known.
fn taken(lab: &mut Lab, id: ConnId) -> bool {
    while lab.client().state(id) == Some(State::SynSent) {
        lab.turn();
    }
    lab.client().state(id) == Some(State::Established)
}

#[test]
fn who_comes_beyond_the_reserves_is_refused() {
    // Ten of 16 chunks are set aside.
    let mut lab = Lab::new(16);
    let first: Vec<ConnId> = (0..10).map(|_| lab.connect()).collect();
    for id in &first {
        assert!(taken(&mut lab, *id));
    }
    assert_eq!(lab.host().reserves_left(), 0);
    let late = lab.connect();
    assert!(!taken(&mut lab, late));
    assert_eq!(
        lab.client().close_reason(late),
        Some(CloseReason::Refused),
        "at once, not by a time-out"
    );
    let c = lab.host().counters();
    assert_eq!((c.refused, c.syn_drops), (1, 0));
    let (now, nobody) = (lab.world.now, SocketAddr::from(([10, 0, 0, 1], 99)));
    let other = lab.host().connect(now, TenantId(0), None, nobody);
    assert_eq!(other, Err(Error::NoMemory));
    // One goes, another comes; the echo has closed as well, and remembers nothing.
    lab.client().shutdown(first[0]).unwrap();
    lab.run(Nanos::from_millis(10));
    assert_eq!(lab.host().reserves_left(), 1);
    let late = lab.reader();
    lab.echo(late);
    for id in &first[1..] {
        assert_eq!(lab.client().state(*id), Some(State::Established));
    }
}

#[test]
fn time_wait_holds_no_reserve() {
    let mut lab = Lab::new(16);
    for _ in 0..100 {
        let id = lab.connect();
        assert!(taken(&mut lab, id));
        lab.run(Nanos::from_millis(1));
        // The server ends it first, so it has to remember it.
        let ours = *lab.echoes.keys().next().expect("accepted");
        lab.echoes.clear();
        let now = lab.world.now;
        lab.host().close(now, ours);
        lab.run(Nanos::from_millis(10));
        let now = lab.world.now;
        lab.client().close(now, id);
        lab.run(Nanos::from_millis(10));
    }
    // But for a few whose port came again.
    assert!(lab.host().connections() > 80);
    assert_eq!((lab.host().reserves_left(), lab.free()), (10, 16));
}

#[test]
fn one_connection_alone_fills_its_whole_buffer() {
    let mut lab = Lab::new(CHUNKS);
    let buffer = 4 << 20;
    let tunables = lab.host().tunables_mut(TenantId(0)).unwrap();
    let wmem = format!("4096 {buffer} {buffer}");
    tunables.set("net.ipv4.tcp_wmem", &wmem).unwrap();
    lab.stall();
    lab.run(Nanos::from_secs(2));
    let id = *lab.echoes.keys().next().expect("accepted");
    assert_eq!(lab.host().info(id).unwrap().send_queue, buffer);
    assert_eq!(lab.host().counters().share_stops, 0);
    // The next one finds half of what it left.
    lab.stall();
    lab.run(Nanos::from_secs(2));
    let next = lab.echoes.keys().find(|i| **i != id).copied();
    let held = lab.host().info(next.expect("accepted")).unwrap().send_queue;
    assert!(held > 1 << 21, "{held}");
}

#[test]
fn a_silent_peer_is_ended_by_tcp_and_one_that_answers_is_not() {
    let mut lab = Lab::new(CHUNKS);
    for _ in 0..3 {
        lab.stall();
    }
    // Windows are closed and probes answered: that may go on for hours.
    lab.run(Nanos::from_secs(4 * 3_600));
    assert_eq!(lab.host().connections(), 3);
    assert!(lab.host().counters().total.window_probes > 3 * 50);
    let free = lab.free();
    lab.world.filter = Some(Box::new(|_, from, _| from == 1));
    lab.run(Nanos::from_secs(3_600));
    assert_eq!(lab.host().connections(), 0);
    assert!(free < lab.free() && lab.free() == CHUNKS as usize);
    assert!(lab.echoes.is_empty(), "each was told");
}
