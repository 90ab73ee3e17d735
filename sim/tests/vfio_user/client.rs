// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client that says what it is told to, and a server for it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use tsonic_pci::config::{COMMAND, COMMAND_MASTER, COMMAND_MEMORY};
use tsonic_regs::completion::TxCompletion;
use tsonic_regs::descriptor::{Kind as Burst, TxDescriptor};
use tsonic_regs::registers::{RingSize, global, queue, queue_offset};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::vfio_user::{Server, ServerConfig};
use tsonic_sim::world::{LinkConfig, World};
use tsonic_vfio_user::socket::{receive, send};
use tsonic_vfio_user::{
    DmaMap, DmaUnmap, Errno, Header, Kind, RegionAccess, Request, Version, encode_access_reply,
    parse_access_reply, region,
};

pub const PAGE: u64 = 4096;

/// What is not held up takes milliseconds, and what is, `FAR_WAIT` a time or 10 s.
pub const NOT_HELD_UP: Duration = Duration::from_secs(5);

pub fn nic() -> Box<Model> {
    Box::new(Model::new(ModelConfig {
        queues: 4,
        flow_slots: 16,
        ..ModelConfig::default()
    }))
}

pub fn path() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tsonic-raw-{}-{n}", std::process::id()))
}

pub fn serve() -> (Server, PathBuf) {
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
pub fn serve_pair() -> (Server, [PathBuf; 2]) {
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
pub struct Far {
    pub address: u64,
    pub bytes: Vec<u8>,
    pub reads: usize,
    pub writes: usize,
    /// Says nothing any more.
    pub silent: bool,
    pub ignored: usize,
}

/// A client that says what it is told to.
pub struct Client {
    pub stream: UnixStream,
    pub id: u16,
    pub far: Far,
    /// The last that was asked and not answered.
    pub late: Option<(Header, Vec<u8>)>,
}

pub type Answer = Result<Vec<u8>, Errno>;

impl Client {
    pub fn connect(path: &PathBuf) -> Client {
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

    pub fn say(&mut self, r: &Request<'_>, fds: &[BorrowedFd<'_>]) {
        let mut body = Vec::new();
        r.encode(&mut body);
        let mut out = Vec::new();
        self.id += 1;
        Header::command(self.id, r.command(), body.len(), true).encode(&mut out);
        out.extend_from_slice(&body);
        send(&self.stream, &out, fds, None).unwrap();
    }

    /// Says it, and answers the device until it has answered.
    pub fn ask(&mut self, r: &Request<'_>, fds: &[BorrowedFd<'_>]) -> Answer {
        self.say(r, fds);
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(answer) = self.hear(end) {
                return answer;
            }
        }
    }

    /// One message of the device; its answer to the last request, if it was that.
    pub fn hear(&mut self, end: Instant) -> Option<Answer> {
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

    pub fn serve(&mut self, header: &Header, body: &[u8]) {
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

    pub fn write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let access = RegionAccess {
            offset,
            region,
            count: data.len() as u32,
        };
        self.ask(&Request::RegionWrite(access, data), &[]).unwrap();
    }

    pub fn register(&mut self, offset: usize, value: u32) {
        self.write(region::BAR0, offset as u64, &value.to_le_bytes());
    }

    pub fn read(&mut self, region: u32, offset: u64, bytes: usize) -> Vec<u8> {
        let access = RegionAccess {
            offset,
            region,
            count: bytes as u32,
        };
        let body = self.ask(&Request::RegionRead(access), &[]).unwrap();
        parse_access_reply(&access, bytes, &body).unwrap().to_vec()
    }

    pub fn map(&mut self, address: u64, bytes: u64, offset: u64, file: Option<&OwnedFd>) -> Answer {
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

    pub fn unmap(&mut self, address: u64, bytes: u64) -> Answer {
        let all = false;
        let unmap = DmaUnmap {
            all,
            address,
            bytes,
        };
        self.ask(&Request::DmaUnmap(unmap), &[])
    }

    /// Turns on queue 0 with its rings at `rings`, completions a page behind.
    pub fn start(&mut self, rings: u64) {
        self.start_with(rings, 6);
    }

    /// The same with so many slots, as a power of two.
    pub fn start_with(&mut self, rings: u64, log2: u8) {
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
pub fn descriptor(at: u64, payload: u32) -> [u8; 64] {
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

pub fn completion(bytes: &[u8]) -> TxCompletion {
    let word = |i: usize| u64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    TxCompletion::from_words(std::array::from_fn(word))
}

/// A sealed file of so many pages, and its map.
pub fn file(pages: u64) -> (OwnedFd, MmapRaw) {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = memfd_create("guest", flags).unwrap();
    ftruncate(&file, pages * PAGE).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    let len = (pages * PAGE) as usize;
    let map = MmapOptions::new().len(len).map_raw(&file).unwrap();
    (file, map)
}

pub fn poke(map: &MmapRaw, at: u64, data: &[u8]) {
    assert!(at as usize + data.len() <= map.len());
    // SAFETY: inside the mapping, just tested; the device touches it by copies only.
    unsafe {
        std::ptr::copy(data.as_ptr(), map.as_mut_ptr().add(at as usize), data.len());
    }
}

pub fn peek(map: &MmapRaw, at: u64, bytes: usize) -> Vec<u8> {
    assert!(at as usize + bytes <= map.len());
    // SAFETY: as in `poke`.
    (0..bytes)
        .map(|i| unsafe { map.as_ptr().add(at as usize + i).read_volatile() })
        .collect()
}

/// Waits until the first completion of the ring is there.
pub fn done(mut look: impl FnMut() -> TxCompletion) -> TxCompletion {
    let started = Instant::now();
    loop {
        // The phase is written last, but not read last: the rest is read once more.
        if look().done.phase() == 1 {
            return look();
        }
        assert!(started.elapsed() < Duration::from_secs(20), "no completion");
    }
}
