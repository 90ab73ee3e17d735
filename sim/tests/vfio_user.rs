// SPDX-License-Identifier: MIT OR Apache-2.0
//! What other clients than our own do: QEMU maps all of a guest's memory and takes it
//! back, gives memory without a file, grows its vectors one by one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{
    MemfdFlags, OFlags, SealFlags, fcntl_add_seals, fcntl_getfl, fcntl_setfl, ftruncate,
    memfd_create,
};
use tsonic_pci::config::{COMMAND, COMMAND_MASTER, COMMAND_MEMORY};
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{Kind as Burst, TxDescriptor};
use tsonic_regs::registers::{RingSize, doorbell, doorbell_offset, global, queue, queue_offset};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::vfio_user::{FAR_WAIT, Server, ServerConfig};
use tsonic_sim::world::{LinkConfig, World};
use tsonic_vfio_user::socket::{receive, send};
use tsonic_vfio_user::{
    Command, DmaMap, DmaUnmap, Errno, Header, IrqAction, IrqData, IrqInfo, Kind, RegionAccess,
    RegionInfo, Request, SetIrqs, Version, encode_access_reply, irq, parse_access_reply, region,
};

const PAGE: u64 = 4096;

/// What is not held up takes milliseconds, and what is, [`FAR_WAIT`] a time or 10 s.
const NOT_HELD_UP: Duration = Duration::from_secs(5);

fn nic() -> Box<Model> {
    Box::new(Model::new(ModelConfig {
        queues: 4,
        flow_slots: 16,
        ..ModelConfig::default()
    }))
}

fn path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tsonic-raw-{}-{n}", std::process::id()))
}

fn serve() -> (Server, PathBuf) {
    let path = path();
    let memory = RootComplexConfig::default();
    let world = World::new(nic(), memory, LinkConfig::default(), None);
    let config = ServerConfig {
        sockets: vec![path.clone()],
        map_doorbells: false,
    };
    (Server::start(world, &config).unwrap(), path)
}

/// Two NICs back to back.
fn serve_pair() -> (Server, [PathBuf; 2]) {
    let paths = [path(), path()];
    let memory = RootComplexConfig::default();
    let world = World::pair([nic(), nic()], memory, LinkConfig::default()).unwrap();
    let config = ServerConfig {
        sockets: paths.to_vec(),
        map_doorbells: false,
    };
    (Server::start(world, &config).unwrap(), paths)
}

/// Memory without a file: what the device asks for is answered from here.
struct Far {
    address: u64,
    bytes: Vec<u8>,
    reads: usize,
    writes: usize,
    /// Says nothing any more.
    silent: bool,
    ignored: usize,
}

/// A client that says what it is told to.
struct Client {
    stream: UnixStream,
    id: u16,
    far: Far,
    /// The last that was asked and not answered.
    late: Option<(Header, Vec<u8>)>,
}

type Answer = Result<Vec<u8>, Errno>;

impl Client {
    fn connect(path: &PathBuf) -> Client {
        let mut client = Client {
            stream: UnixStream::connect(path).unwrap(),
            id: 0,
            far: Far {
                address: 0,
                bytes: Vec::new(),
                reads: 0,
                writes: 0,
                silent: false,
                ignored: 0,
            },
            late: None,
        };
        client.ask(&Request::Version(Version::ours()), &[]).unwrap();
        let command = COMMAND_MEMORY | COMMAND_MASTER;
        client.write(region::CONFIG, COMMAND.into(), &command.to_le_bytes());
        client
    }

    fn say(&mut self, r: &Request<'_>, fds: &[BorrowedFd<'_>]) {
        let mut body = Vec::new();
        r.encode(&mut body);
        let mut out = Vec::new();
        self.id += 1;
        Header::command(self.id, r.command(), body.len(), true).encode(&mut out);
        out.extend_from_slice(&body);
        send(&self.stream, &out, fds, None).unwrap();
    }

    /// Says it, and answers the device until it has answered.
    fn ask(&mut self, r: &Request<'_>, fds: &[BorrowedFd<'_>]) -> Answer {
        self.say(r, fds);
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(answer) = self.hear(end) {
                return answer;
            }
        }
    }

    /// One message of the device; its answer to the last request, if it was that.
    fn hear(&mut self, end: Instant) -> Option<Answer> {
        let mut body = Vec::new();
        let header = receive(&self.stream, &mut body, Some(end)).unwrap().header;
        match header.kind {
            Kind::Reply(result) if header.id == self.id => Some(result.map(|()| body)),
            Kind::Reply(_) => None,
            Kind::Command { .. } => {
                if self.far.silent {
                    self.far.ignored += 1;
                    self.late = Some((header, body));
                } else {
                    self.serve(&header, &body);
                }
                None
            }
        }
    }

    fn serve(&mut self, header: &Header, body: &[u8]) {
        let far = &mut self.far;
        let mut reply = Vec::new();
        let at = |address: u64| (address - far.address) as usize;
        match Request::parse(header.command, body, 0).unwrap() {
            Request::DmaRead(a) => {
                let from = at(a.address);
                let data = &far.bytes[from..from + a.count as usize];
                encode_access_reply(&a, data, &mut reply);
                far.reads += 1;
            }
            Request::DmaWrite(a, data) => {
                let to = at(a.address);
                far.bytes[to..to + data.len()].copy_from_slice(data);
                encode_access_reply(&a, &[], &mut reply);
                far.writes += 1;
            }
            other => panic!("{other:?}"),
        }
        let mut out = Vec::new();
        header.reply(Ok(()), reply.len()).encode(&mut out);
        out.extend_from_slice(&reply);
        send(&self.stream, &out, &[], None).unwrap();
    }

    fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let access = RegionAccess {
            offset,
            region,
            count: data.len() as u32,
        };
        self.ask(&Request::RegionWrite(access, data), &[]).unwrap();
    }

    fn register(&mut self, offset: usize, value: u32) {
        self.write(region::BAR0, offset as u64, &value.to_le_bytes());
    }

    fn read(&mut self, region: u32, offset: u64, bytes: usize) -> Vec<u8> {
        let access = RegionAccess {
            offset,
            region,
            count: bytes as u32,
        };
        let body = self.ask(&Request::RegionRead(access), &[]).unwrap();
        parse_access_reply(&access, bytes, &body).unwrap().to_vec()
    }

    fn map(&mut self, address: u64, bytes: u64, offset: u64, file: Option<&OwnedFd>) -> Answer {
        let map = DmaMap {
            read: true,
            write: true,
            offset,
            address,
            bytes,
        };
        let fds: Vec<BorrowedFd<'_>> = file.iter().map(|f| f.as_fd()).collect();
        self.ask(&Request::DmaMap(map), &fds)
    }

    fn unmap(&mut self, address: u64, bytes: u64) -> Answer {
        let all = false;
        let unmap = DmaUnmap {
            all,
            address,
            bytes,
        };
        self.ask(&Request::DmaUnmap(unmap), &[])
    }

    /// Turns on queue 0 with its rings at `rings`, completions a page behind.
    fn start(&mut self, rings: u64) {
        self.start_with(rings, 6);
    }

    /// The same with so many slots, as a power of two.
    fn start_with(&mut self, rings: u64, log2: u8) {
        let mut size = RingSize(0);
        size.set_ring_log2(log2);
        size.set_completion_log2(log2);
        let done = rings + PAGE;
        for (offset, value) in [
            (global::CONTROL.offset, 1),
            (queue_offset(0, queue::TX_RING_LO), rings as u32),
            (queue_offset(0, queue::TX_RING_HI), (rings >> 32) as u32),
            (queue_offset(0, queue::TX_COMPLETION_LO), done as u32),
            (
                queue_offset(0, queue::TX_COMPLETION_HI),
                (done >> 32) as u32,
            ),
            (queue_offset(0, queue::TX_RING_SIZE), size.0),
            (queue_offset(0, queue::TX_CONTROL), 1),
        ] {
            self.register(offset, value);
        }
    }
}

/// A raw frame whose header stands at `at`, and its payload 2,000 bytes behind.
fn descriptor(at: u64, payload: u32) -> [u8; 64] {
    let mut d = TxDescriptor::default();
    d.control.set_kind(Burst::Raw as u8);
    d.control.set_l2_len(14);
    d.control.set_fragments(1);
    d.burst.set_payload_len(payload);
    d.lengths.set_frag0_len(payload);
    d.header_addr = at;
    d.frag0_addr = at + 2_000;
    let mut out = [0; 64];
    for (to, word) in out.chunks_exact_mut(8).zip(d.to_words()) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    out
}

fn completion(bytes: &[u8]) -> TxCompletion {
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    TxCompletion::from_words(std::array::from_fn(word))
}

/// A sealed file of so many pages, and its map.
fn file(pages: u64) -> (OwnedFd, MmapRaw) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("guest", flags).unwrap();
    ftruncate(&file, pages * PAGE).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    let len = (pages * PAGE) as usize;
    let map = MmapOptions::new().len(len).map_raw(&file).unwrap();
    (file, map)
}

fn poke(map: &MmapRaw, at: u64, data: &[u8]) {
    assert!(at as usize + data.len() <= map.len());
    // SAFETY: inside the mapping, just tested; the device touches it by copies only.
    unsafe {
        std::ptr::copy(data.as_ptr(), map.as_mut_ptr().add(at as usize), data.len());
    }
}

fn peek(map: &MmapRaw, at: u64, bytes: usize) -> Vec<u8> {
    assert!(at as usize + bytes <= map.len());
    // SAFETY: as in `poke`.
    (0..bytes)
        .map(|i| unsafe { map.as_ptr().add(at as usize + i).read_volatile() })
        .collect()
}

/// Waits until the first completion of the ring is there.
fn done(mut look: impl FnMut() -> TxCompletion) -> TxCompletion {
    let started = Instant::now();
    loop {
        // The phase is written last, but not read last: the rest is read once more.
        if look().done.phase() == 1 {
            return look();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no completion");
    }
}

#[test]
fn all_memory_is_mapped_taken_back_and_mapped_by_the_page() {
    let (server, path) = serve();
    let (memory, map) = file(64);
    let mut c = Client::connect(&path);
    // As before a guest has turned its IOMMU on, and when it does.
    c.map(0, 64 * PAGE, 0, Some(&memory)).unwrap();
    assert_eq!(
        c.map(PAGE, PAGE, 0, Some(&memory)),
        Err(Errno::EINVAL),
        "overlaps"
    );
    assert_eq!(c.unmap(PAGE, PAGE), Err(Errno::EINVAL), "cuts");
    c.unmap(0, 64 * PAGE).unwrap();
    c.unmap(0, 1 << 40).unwrap();
    c.unmap(1 << 50, PAGE).unwrap();
    // Pages in no order: a frame is scattered over them.
    let iova = 1 << 33;
    let place = |page: u64| 63 - page;
    for page in 0..8 {
        let offset = place(page) * PAGE;
        c.map(iova + page * PAGE, PAGE, offset, Some(&memory))
            .unwrap();
    }
    let at = iova + 4 * PAGE - 100;
    poke(&map, place(0) * PAGE, &descriptor(at, 6_000));
    c.start(iova);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    let c0 = done(|| completion(&peek(&map, place(1) * PAGE, 32)));
    assert_eq!((c0.status.status(), c0.done.wire_bytes()), (0, 6_014));
    // A page less: an address fault, and a page that is none of its business stays.
    poke(&map, place(6) * PAGE, &[7; 4096]);
    c.unmap(iova + 5 * PAGE, PAGE).unwrap();
    poke(&map, place(0) * PAGE + 64, &descriptor(at, 6_000));
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 2);
    let c1 = done(|| completion(&peek(&map, place(1) * PAGE + 32, 32)));
    assert_ne!(c1.status.status(), 0);
    // Once it is unmapped, nothing more is written there.
    c.unmap(iova + PAGE, PAGE).unwrap();
    let before = peek(&map, place(1) * PAGE, 4096);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(peek(&map, place(1) * PAGE, 4096), before);
    drop(c);
    let served = server.stop().unwrap();
    assert!(served.world.memory(0).unwrap().memory().is_empty());
}

#[test]
fn files_that_could_shrink_are_refused_and_so_is_what_is_beyond_them() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let open = memfd_create("open", flags).unwrap();
    ftruncate(&open, PAGE).unwrap();
    assert_eq!(c.map(0, PAGE, 0, Some(&open)), Err(Errno::EACCES));
    let (sealed, _map) = file(2);
    assert_eq!(c.map(0, PAGE, 2 * PAGE, Some(&sealed)), Err(Errno::EINVAL));
    assert_eq!(c.map(0, 4 * PAGE, 0, Some(&sealed)), Err(Errno::EINVAL));
    assert_eq!(c.map(0, 0, 0, Some(&sealed)), Err(Errno::EINVAL));
    assert_eq!(c.map(100, PAGE, 0, Some(&sealed)), Err(Errno::EINVAL));
    c.map(0, PAGE, PAGE, Some(&sealed)).unwrap();
}

#[test]
fn memory_without_a_file_is_asked_for() {
    let (server, path) = serve();
    let mut c = Client::connect(&path);
    c.far.address = 1 << 33;
    c.far.bytes = vec![0; 4 * PAGE as usize];
    let iova = c.far.address;
    c.map(iova, 4 * PAGE, 0, None).unwrap();
    let d = descriptor(iova + 2 * PAGE, 1_000);
    c.far.bytes[..64].copy_from_slice(&d);
    c.start(iova);
    // The device asks while this very write waits for its reply, or right after.
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    let started = Instant::now();
    let c0 = loop {
        let c0 = completion(&c.far.bytes[PAGE as usize..]);
        if c0.done.phase() == 1 {
            break c0;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no completion");
        // A round trip: what the device asks for meanwhile is answered.
        c.read(region::BAR0, 0, 4);
    };
    assert_eq!((c0.status.status(), c0.done.wire_bytes()), (0, 1_014));
    assert!(
        c.far.reads >= 3 && c.far.writes >= 1,
        "{} {}",
        c.far.reads,
        c.far.writes
    );
    // It stops answering: its accesses fail, the device goes on.
    c.far.silent = true;
    c.far.bytes[64..128].copy_from_slice(&d);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 2);
    let started = Instant::now();
    let magic = tsonic_regs::MAGIC.to_le_bytes();
    while c.far.ignored == 0 {
        assert_eq!(c.read(region::BAR0, 0, 4), magic);
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "it asks for nothing"
        );
    }
    assert_eq!(c.read(region::BAR0, 0, 4), magic);
    let waited = started.elapsed();
    assert!(
        (FAR_WAIT / 2..10 * FAR_WAIT).contains(&waited),
        "{waited:?}"
    );
    c.unmap(iova, 4 * PAGE).unwrap();
    assert_eq!(c.read(region::BAR0, 0, 4), magic);
    assert!(server.is_running());
}

#[test]
fn vectors_grow_one_by_one_and_foreign_descriptors_are_refused() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    let body = c
        .ask(&Request::DeviceGetIrqInfo { index: irq::MSIX }, &[])
        .unwrap();
    let info = IrqInfo::parse(&body).unwrap();
    assert_eq!(
        (info.count, info.no_resize, info.maskable),
        (5, false, true)
    );
    let set = |action, data, start, count| {
        Request::DeviceSetIrqs(SetIrqs {
            action,
            data,
            index: irq::MSIX,
            start,
            count,
        })
    };
    let event = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let fired = |e: &OwnedFd| rustix::io::read(e, &mut [0u8; 8]).is_ok();
    let trigger = IrqAction::Trigger;
    let mut events: Vec<OwnedFd> = Vec::new();
    for v in 0..5 {
        // All of them anew, each by itself, as QEMU does when one more is used.
        events.push(event());
        c.ask(&set(trigger, IrqData::None, 0, 0), &[]).unwrap();
        for (i, e) in (0..).zip(&events) {
            c.ask(&set(trigger, IrqData::EventFd, i, 1), &[e.as_fd()])
                .unwrap();
        }
        c.ask(
            &set(trigger, IrqData::Bool(&[1; 5][..v + 1]), 0, v as u32 + 1),
            &[],
        )
        .unwrap();
        assert!(events.iter().all(&fired), "{v}");
    }
    // One is taken away.
    c.ask(&set(trigger, IrqData::EventFd, 2, 1), &[]).unwrap();
    c.ask(&set(trigger, IrqData::None, 0, 5), &[]).unwrap();
    let got: Vec<bool> = events.iter().map(&fired).collect();
    assert_eq!(got, [true, true, false, true, true]);
    for (start, count) in [(5, 1), (0, 6), (4, 2)] {
        let beyond = c.ask(&set(trigger, IrqData::None, start, count), &[]);
        assert_eq!(beyond, Err(Errno::EINVAL));
    }
    let (memory, _map) = file(1);
    for foreign in [
        &memory,
        &OwnedFd::from(std::fs::File::open("/dev/null").unwrap()),
    ] {
        let refused = c.ask(&set(trigger, IrqData::EventFd, 0, 1), &[foreign.as_fd()]);
        assert_eq!(refused, Err(Errno::EINVAL));
    }
    // The one that was there still is.
    c.ask(&set(trigger, IrqData::None, 0, 1), &[]).unwrap();
    assert!(fired(&events[0]));
    let masked = c.ask(&set(IrqAction::Mask, IrqData::EventFd, 0, 1), &[]);
    assert_eq!(masked, Err(Errno::EINVAL));
}

#[test]
fn regions_are_described_and_bounded() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    let sizes: Vec<u64> = (0..region::COUNT)
        .map(|index| {
            let body = c
                .ask(&Request::DeviceGetRegionInfo { argsz: 32, index }, &[])
                .unwrap();
            RegionInfo::parse(&body).unwrap().0.bytes
        })
        .collect();
    assert_eq!(sizes, [0x20_0000, 0, 0x4000, 0, 0, 0, 0, 4096, 0]);
    for (region, offset, count) in [
        (0, 0x20_0000, 4),
        (0, 0x1f_fffd, 4),
        (1, 0, 4),
        (7, 4093, 4),
        (9, 0, 4),
        (u32::MAX, 0, 4),
        (0, 0, 0),
    ] {
        let access = RegionAccess {
            offset,
            region,
            count,
        };
        assert_eq!(c.ask(&Request::RegionRead(access), &[]), Err(Errno::EINVAL));
    }
    // Widths that registers do not have.
    assert_eq!(c.read(0, 0, 2), [0xff; 2]);
    assert_eq!(c.read(0, 4, 8), [0xff; 8]);
    assert_eq!(c.read(0, 0, 8)[..4], tsonic_regs::MAGIC.to_le_bytes());
    assert_eq!(c.read(region::CONFIG, 0, 1).len(), 1);
    // Nothing before the version, and that once.
    assert_eq!(
        c.ask(&Request::Version(Version::ours()), &[]),
        Err(Errno::EPROTO)
    );
}

#[test]
fn a_function_level_reset_arrives_as_a_configuration_write() {
    let (_server, path) = serve();
    let mut c = Client::connect(&path);
    c.register(global::CONTROL.offset, 1);
    assert_eq!(c.read(0, global::CONTROL.offset as u64, 4)[0], 1);
    let at = tsonic_sim::function::CAP_EXP + tsonic_pci::config::EXP_DEVCTL;
    let mut control = c.read(region::CONFIG, at.into(), 2);
    control[1] |= 0x80;
    c.write(region::CONFIG, at.into(), &control);
    assert_eq!(c.read(region::CONFIG, COMMAND.into(), 2), [0, 0]);
    assert_eq!(
        c.read(0, global::CONTROL.offset as u64, 4),
        [0xff; 4],
        "not decoded"
    );
    c.write(
        region::CONFIG,
        COMMAND.into(),
        &COMMAND_MEMORY.to_le_bytes(),
    );
    assert_eq!(c.read(0, global::CONTROL.offset as u64, 4), [0; 4]);
}

#[test]
fn an_event_descriptor_that_is_full_and_blocks_holds_nobody_up() {
    let (server, path) = serve();
    let mut c = Client::connect(&path);
    let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let set = |data, count| {
        Request::DeviceSetIrqs(SetIrqs {
            action: IrqAction::Trigger,
            data,
            index: irq::MSIX,
            start: 0,
            count,
        })
    };
    c.ask(&set(IrqData::EventFd, 1), &[event.as_fd()]).unwrap();
    // The open file is the client's, too, and so are its flags.
    let flags = fcntl_getfl(&event).unwrap();
    fcntl_setfl(&event, flags - OFlags::NONBLOCK).unwrap();
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    let started = Instant::now();
    // More than once: nothing runs full on the device's side either.
    for _ in 0..100 {
        c.ask(&set(IrqData::None, 1), &[]).unwrap();
    }
    assert_eq!(c.read(region::BAR0, 0, 4), tsonic_regs::MAGIC.to_le_bytes());
    assert!(fcntl_getfl(&event).unwrap() == flags - OFlags::NONBLOCK);
    drop(c);
    let mut next = Client::connect(&path);
    assert_eq!(
        next.read(region::BAR0, 0, 4),
        tsonic_regs::MAGIC.to_le_bytes()
    );
    let served = server.stop().unwrap();
    assert_eq!((served.lines[0].clients, served.interrupts), (2, 100));
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
}

/// Gives memory without a file and thousands of slots in it, and answers for none.
fn ask_for_much(path: &PathBuf) -> Client {
    let mut c = Client::connect(path);
    c.far.silent = true;
    let iova = 1 << 33;
    c.map(iova, 1 << 20, 0, None).unwrap();
    c.start_with(iova, 12);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 4_000);
    let started = Instant::now();
    while c.far.ignored == 0 {
        c.read(region::BAR0, 0, 4);
        assert!(started.elapsed() < NOT_HELD_UP, "it asks for nothing");
    }
    c
}

#[test]
fn a_silent_client_is_waited_for_once_and_again_when_it_has_answered() {
    let (server, [path, other]) = serve_pair();
    let mut c = ask_for_much(&path);
    let started = Instant::now();
    let magic = tsonic_regs::MAGIC.to_le_bytes();
    for _ in 0..20 {
        assert_eq!(c.read(region::BAR0, 0, 4), magic);
    }
    let mut far = Client::connect(&other);
    for _ in 0..20 {
        assert_eq!(far.read(region::BAR0, 0, 4), magic);
    }
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
    // One ask had no answer; it comes now. A reset, and the same client is asked again.
    assert_eq!(c.far.ignored, 1);
    let late = c.late.take().unwrap();
    c.far.silent = false;
    c.far.address = 1 << 33;
    c.far.bytes = vec![0; 1 << 20];
    c.serve(&late.0, &late.1);
    c.ask(&Request::DeviceReset, &[]).unwrap();
    let iova = c.far.address;
    c.far.bytes[..64].copy_from_slice(&descriptor(iova + 2 * PAGE, 1_000));
    (c.far.reads, c.far.writes) = (0, 0);
    c.start(iova);
    c.register(doorbell_offset(0, doorbell::TX_TAIL), 1);
    let started = Instant::now();
    while c.far.writes == 0 {
        c.read(region::BAR0, 0, 4);
        assert!(started.elapsed() < NOT_HELD_UP, "no completion");
    }
    assert!(c.far.reads > 0);
    drop(server);
}

#[test]
fn a_silent_client_does_not_hold_up_the_end() {
    let (server, [path, _]) = serve_pair();
    let _c = ask_for_much(&path);
    let started = Instant::now();
    server.stop().unwrap();
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
}

#[test]
fn half_a_message_does_not_hold_up_the_end() {
    let (server, path) = serve();
    let c = Client::connect(&path);
    let mut out = Vec::new();
    Header::command(1, Command::RegionRead, 16, true).encode(&mut out);
    send(&c.stream, &out, &[], None).unwrap();
    // Time for its reader to begin; if that is late, the end comes all the sooner.
    std::thread::sleep(Duration::from_millis(100));
    let started = Instant::now();
    let served = server.stop().unwrap();
    assert!(
        started.elapsed() < NOT_HELD_UP,
        "it took {:?}",
        started.elapsed()
    );
    assert_eq!(served.lines[0].clients, 1);
}
