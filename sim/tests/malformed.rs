// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a client of vfio-user may say that it should not: the server answers an error or
//! closes the connection, and serves the next one. Seeded; `fuzz/` goes further.

use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use memmap2::MmapOptions;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::vfio_user::talk::talk;
use tsonic_sim::vfio_user::{Server, ServerConfig};
use tsonic_sim::world::{LinkConfig, World};
use tsonic_vfio_user::socket::{receive, send};
use tsonic_vfio_user::{
    Command, DmaAccess, DmaMap, DmaUnmap, Header, IrqAction, IrqData, RegionAccess, Request,
    SetIrqs, Version, irq,
};

const SEED: u64 = 0x6d61_6c66;
/// Messages that must have been said.
const MESSAGES: usize = 10_000;

fn world() -> World {
    let nic = Box::new(Model::new(ModelConfig {
        queues: 4,
        flow_slots: 16,
        ..ModelConfig::default()
    }));
    let memory = RootComplexConfig::default();
    World::new(nic, memory, LinkConfig::default(), None)
}

/// Small, at an edge, or anything.
fn number(r: &mut Pcg64Mcg) -> u64 {
    match r.random_range(0..6) {
        0 => r.random_range(0..16),
        1 => 1 << r.random_range(0..64),
        2 => (1u64 << r.random_range(0..64)).wrapping_sub(1),
        3 => 0x1000 * r.random_range(0..64),
        4 => u64::MAX - r.random_range(0..4096),
        _ => r.random(),
    }
}

/// A command that could be meant, with numbers that might not be.
fn body(r: &mut Pcg64Mcg, command: Command) -> Vec<u8> {
    let mut out = Vec::new();
    let data: Vec<u8> = (0..r.random_range(0..32)).map(|_| r.random()).collect();
    // Half of the accesses are to something.
    let access = RegionAccess {
        offset: if r.random() {
            4 * r.random_range(0..0x20)
        } else {
            number(r)
        },
        region: if r.random() {
            [0, 2, 7][r.random_range(0..3)]
        } else {
            number(r) as u32
        },
        count: if r.random() {
            data.len() as u32
        } else {
            [4, 8, number(r) as u32][r.random_range(0..3)]
        },
    };
    let far = DmaAccess {
        address: number(r),
        count: number(r),
    };
    let pages = |r: &mut Pcg64Mcg| 0x1000 * r.random_range(0..16);
    let request = match command {
        Command::Version => Request::Version(Version {
            major: r.random_range(0..2),
            minor: r.random(),
            ..Version::ours()
        }),
        Command::DmaMap => Request::DmaMap(DmaMap {
            read: r.random(),
            write: r.random(),
            offset: if r.random() { pages(r) } else { number(r) },
            address: if r.random() { pages(r) } else { number(r) },
            bytes: if r.random() { pages(r) } else { number(r) },
        }),
        Command::DmaUnmap => Request::DmaUnmap(DmaUnmap {
            all: r.random_range(0..8) == 0,
            address: if r.random() { pages(r) } else { number(r) },
            bytes: if r.random() { pages(r) } else { number(r) },
        }),
        Command::DeviceGetInfo => Request::DeviceGetInfo,
        Command::DeviceGetRegionInfo => Request::DeviceGetRegionInfo {
            argsz: number(r) as u32,
            index: number(r) as u32,
        },
        Command::DeviceGetRegionIoFds => Request::DeviceGetRegionIoFds {
            index: number(r) as u32,
        },
        Command::DeviceGetIrqInfo => Request::DeviceGetIrqInfo {
            index: number(r) as u32,
        },
        Command::DeviceSetIrqs => Request::DeviceSetIrqs(SetIrqs {
            action: [IrqAction::Mask, IrqAction::Unmask, IrqAction::Trigger][r.random_range(0..3)],
            data: [IrqData::None, IrqData::Bool(&data), IrqData::EventFd][r.random_range(0..3)],
            index: if r.random() {
                irq::MSIX
            } else {
                number(r) as u32
            },
            start: number(r) as u32,
            count: if r.random() {
                data.len() as u32
            } else {
                number(r) as u32
            },
        }),
        Command::RegionRead => Request::RegionRead(access),
        Command::RegionWrite => Request::RegionWrite(access, &data),
        Command::DmaRead => Request::DmaRead(far),
        Command::DmaWrite => Request::DmaWrite(far, &data),
        Command::DeviceReset => Request::DeviceReset,
        Command::RegionWriteMulti => {
            let few = &data[..data.len().min(8)];
            let access = RegionAccess {
                count: few.len() as u32,
                ..access
            };
            Request::RegionWriteMulti(vec![(access, few); r.random_range(0..4)])
        }
    };
    request.encode(&mut out);
    out
}

/// A message with something wrong with it, more often than not.
fn message(r: &mut Pcg64Mcg) -> Vec<u8> {
    let command = Command::ALL[r.random_range(0..Command::ALL.len())];
    let mut body = body(r, command);
    match r.random_range(0..12) {
        0 => body.truncate(r.random_range(0..=body.len())),
        1 => body.extend((0..r.random_range(1..64)).map(|_| r.random::<u8>())),
        2 if !body.is_empty() => {
            for _ in 0..r.random_range(1..4) {
                let at = r.random_range(0..body.len());
                body[at] = r.random();
            }
        }
        _ => {}
    }
    let mut header = Header::command(r.random(), command, body.len(), r.random_range(0..4) > 0);
    if r.random_range(0..16) == 0 {
        header.command = r.random();
    }
    let mut out = Vec::new();
    header.encode(&mut out);
    // The stream cannot be followed any further after these.
    if r.random_range(0..64) == 0 {
        let at = r.random_range(4..12);
        out[at] = r.random();
    }
    out.extend_from_slice(&body);
    out
}

/// What a client says before all else.
fn hello() -> Vec<u8> {
    let mut body = Vec::new();
    Request::Version(Version::ours()).encode(&mut body);
    let mut out = Vec::new();
    Header::command(0, Command::Version, body.len(), true).encode(&mut out);
    out.extend_from_slice(&body);
    out
}

/// A conversation.
fn stream(r: &mut Pcg64Mcg) -> Vec<u8> {
    let mut out = if r.random_range(0..8) > 0 {
        hello()
    } else {
        Vec::new()
    };
    for _ in 0..r.random_range(1..60) {
        out.extend(message(r));
    }
    out
}

#[test]
fn ten_thousand_messages_that_are_not_as_they_should_be() {
    let mut r = Pcg64Mcg::seed_from_u64(SEED);
    let (mut messages, mut refused, mut done, mut broken) = (0, 0, 0, 0);
    while messages < MESSAGES {
        let said = talk(world(), &stream(&mut r));
        messages += said.messages;
        refused += said.refused;
        done += said.done;
        broken += usize::from(said.broken);
    }
    eprintln!("{messages} messages: {refused} refused, {done} done, {broken} streams broken");
    // It is no exercise in one answer only.
    assert!(refused > MESSAGES / 4, "{refused}");
    assert!(done > MESSAGES / 25, "{done}");
    assert!(broken > 10, "{broken}");
}

/// The same over a socket, with memory beside the one that is shared.
#[test]
fn a_server_survives_them_and_serves_the_next_client() {
    const PAGE: usize = 4096;
    let mut r = Pcg64Mcg::seed_from_u64(SEED ^ 1);
    let path = std::env::temp_dir().join(format!("tsonic-malformed-{}", std::process::id()));
    let config = ServerConfig {
        sockets: vec![path.clone()],
        map_doorbells: true,
    };
    let server = Server::start(world(), &config).unwrap();
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("memory", flags).unwrap();
    ftruncate(&memory, 3 * PAGE as u64).unwrap();
    fcntl_add_seals(&memory, SealFlags::SHRINK | SealFlags::GROW).unwrap();
    let map = MmapOptions::new().len(3 * PAGE).map_raw(&memory).unwrap();
    let guard = |page: usize| -> Vec<u8> {
        // SAFETY: inside the mapping.
        (0..PAGE)
            .map(|i| unsafe { map.as_ptr().add(page * PAGE + i).read_volatile() })
            .collect()
    };
    let mut said = 0;
    for _ in 0..60 {
        let stream = UnixStream::connect(&path).unwrap();
        send(&stream, &hello(), &[], None).unwrap();
        // The middle page only.
        let map = request(&Request::DmaMap(DmaMap {
            read: true,
            write: true,
            offset: PAGE as u64,
            address: 0x1000,
            bytes: PAGE as u64,
        }));
        send(&stream, &map, &[memory.as_fd()], None).unwrap();
        for _ in 0..r.random_range(1..40) {
            let bytes = message(&mut r);
            let fds: Vec<OwnedFd> = (0..r.random_range(0..3))
                .filter_map(|_| fs::File::open("/dev/null").ok().map(OwnedFd::from))
                .collect();
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(|f| f.as_fd()).collect();
            let soon = Some(Instant::now() + Duration::from_secs(5));
            if send(&stream, &bytes, &fds, soon).is_err() {
                break;
            }
            said += 1;
            // Answers must be taken, or the server waits for us.
            drain(&stream);
        }
    }
    assert!(said > 300, "{said}");
    assert_eq!((guard(0), guard(2)), (vec![0; PAGE], vec![0; PAGE]));
    let fds = fs::read_dir("/proc/self/fd").unwrap().count();
    greet(&path);
    let served = server.stop().unwrap();
    assert_eq!(served.lines[0].clients, 61);
    assert!(served.world.memory(0).unwrap().memory().is_empty());
    let after = fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(after < fds, "{fds} descriptors, then {after}");
    assert!(memory.as_raw_fd() > 2);
}

fn request(r: &Request<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    r.encode(&mut body);
    let mut out = Vec::new();
    Header::command(1, r.command(), body.len(), true).encode(&mut out);
    out.extend_from_slice(&body);
    out
}

fn drain(stream: &UnixStream) {
    let mut body = Vec::new();
    let now = Some(Instant::now() + Duration::from_millis(1));
    while receive(stream, &mut body, now).is_ok() {}
}

/// A client as it should be is served as it should be.
fn greet(path: &Path) {
    let started = Instant::now();
    loop {
        let stream = UnixStream::connect(path).unwrap();
        let soon = Some(Instant::now() + Duration::from_secs(10));
        let mut body = Vec::new();
        let answered =
            send(&stream, &hello(), &[], soon).is_ok() && receive(&stream, &mut body, soon).is_ok();
        if answered {
            assert_eq!(Version::parse(&body).unwrap().major, 0);
            return;
        }
        // The one before may be on its way out.
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "nobody answers"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The fuzzer's corpus: what it has found interesting is said in every run of the tests.
#[test]
fn the_corpus_is_survived() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/vfio_user");
    if std::env::var_os("TSONIC_WRITE_CORPUS").is_some() {
        write_corpus(&folder);
    }
    let mut files = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        talk(world(), &bytes);
        files += 1;
    }
    assert!(files >= 40, "{files} files in {}", folder.display());
}

/// A start for a fuzzer: conversations that the generator makes.
fn write_corpus(folder: &Path) {
    let mut r = Pcg64Mcg::seed_from_u64(SEED ^ 2);
    fs::create_dir_all(folder).unwrap();
    for i in 0..48 {
        let mut bytes = if i % 6 == 5 { Vec::new() } else { hello() };
        for _ in 0..r.random_range(1..12) {
            bytes.extend(message(&mut r));
        }
        let mut file = fs::File::create(folder.join(format!("seed-{i:02}"))).unwrap();
        file.write_all(&bytes).unwrap();
    }
}
