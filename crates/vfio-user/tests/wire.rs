// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages to bytes and back, bytes that are none, and descriptors over a socket.

use proptest::prelude::*;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tsonic_vfio_user::socket::{SocketError, receive, send};
use tsonic_vfio_user::*;

fn bytes_of(r: &Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    r.encode(&mut out);
    out
}

fn again(r: &Request<'_>, fds: usize) {
    let body = bytes_of(r);
    let parsed = Request::parse(r.command() as u16, &body, fds);
    assert_eq!(parsed.as_ref(), Ok(r));
    // A byte less, and it is none (what a description's asker leaves out is the reply's).
    let descriptions = [
        Command::DeviceGetInfo,
        Command::DeviceGetRegionInfo,
        Command::DeviceGetIrqInfo,
        Command::DeviceGetRegionIoFds,
    ];
    if !body.is_empty() && !descriptions.contains(&r.command()) {
        let short = Request::parse(r.command() as u16, &body[..body.len() - 1], fds);
        assert!(short.is_err(), "{short:?}");
    }
}

#[test]
fn every_command_survives_its_bytes() {
    let access = RegionAccess {
        offset: 0x10_0008,
        region: region::BAR0,
        count: 5,
    };
    let far = DmaAccess {
        address: 1 << 40,
        count: 5,
    };
    let all = [
        (Request::Version(Version::ours()), 0),
        (
            Request::DmaMap(DmaMap {
                read: true,
                write: false,
                offset: 0x1000,
                address: 1 << 32,
                bytes: 0x2000,
            }),
            1,
        ),
        (
            Request::DmaUnmap(DmaUnmap {
                all: true,
                address: 0,
                bytes: 0,
            }),
            0,
        ),
        (Request::DeviceGetInfo, 0),
        (
            Request::DeviceGetRegionInfo {
                argsz: 80,
                index: 3,
            },
            0,
        ),
        (Request::DeviceGetRegionIoFds { index: 2 }, 0),
        (Request::DeviceGetIrqInfo { index: irq::MSIX }, 0),
        (Request::RegionRead(access), 0),
        (Request::RegionWrite(access, b"hello"), 0),
        (Request::DmaRead(far), 0),
        (Request::DmaWrite(far, b"world"), 0),
        (Request::DeviceReset, 0),
        (
            Request::RegionWriteMulti(vec![(access, &b"hello"[..]), (access, b"again")]),
            0,
        ),
    ];
    let mut commands: Vec<Command> = all.iter().map(|(r, _)| r.command()).collect();
    commands.push(Command::DeviceSetIrqs);
    assert!(Command::ALL.iter().all(|c| commands.contains(c)));
    for (r, fds) in &all {
        again(r, *fds);
        let body = bytes_of(r);
        let more = Request::parse(r.command() as u16, &body, fds + 1);
        assert!(
            matches!(more, Err(WireError::Descriptors { .. })),
            "{more:?}"
        );
    }
    for action in [IrqAction::Mask, IrqAction::Unmask, IrqAction::Trigger] {
        for (data, fds) in [
            (IrqData::None, 0),
            (IrqData::Bool(&[0, 1, 1]), 0),
            (IrqData::EventFd, 3),
            (IrqData::EventFd, 0),
        ] {
            let set = SetIrqs {
                action,
                data,
                index: irq::MSIX,
                start: 30,
                count: 3,
            };
            again(&Request::DeviceSetIrqs(set), fds);
            let body = bytes_of(&Request::DeviceSetIrqs(set));
            let wrong = Request::parse(Command::DeviceSetIrqs as u16, &body, 2);
            assert!(wrong.is_err(), "{wrong:?}");
        }
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let parse = |c: Command, body: &[u8]| Request::parse(c as u16, body, 0).map(drop);
    assert_eq!(
        Request::parse(99, &[], 0),
        Err(WireError::UnknownCommand(99))
    );
    let map = |address, bytes, offset| {
        bytes_of(&Request::DmaMap(DmaMap {
            read: true,
            write: true,
            offset,
            address,
            bytes,
        }))
    };
    for (address, bytes, offset) in [(u64::MAX, 2, 0), (0, 0x1000, u64::MAX)] {
        let r = parse(Command::DmaMap, &map(address, bytes, offset));
        assert!(matches!(r, Err(WireError::Range { .. })), "{r:?}");
    }
    let mut flags = map(0, 0x1000, 0);
    flags[4] = 0x10;
    assert!(matches!(
        parse(Command::DmaMap, &flags),
        Err(WireError::Flags { .. })
    ));
    let mut argsz = map(0, 0x1000, 0);
    argsz[0] = 31;
    assert!(matches!(
        parse(Command::DmaMap, &argsz),
        Err(WireError::Argsz { .. })
    ));
    let long = RegionAccess {
        offset: 0,
        region: 0,
        count: DATA_MAX as u32 + 1,
    };
    let r = parse(Command::RegionRead, &bytes_of(&Request::RegionRead(long)));
    assert_eq!(r, Err(WireError::DataSize(DATA_MAX as u64 + 1)));
    let mut many = Vec::new();
    many.extend_from_slice(&u64::MAX.to_ne_bytes());
    assert!(matches!(
        parse(Command::RegionWriteMulti, &many),
        Err(WireError::DataSize(_))
    ));
    let mut trailing = bytes_of(&Request::DeviceReset);
    trailing.push(0);
    let r = parse(Command::DeviceReset, &trailing);
    assert!(matches!(r, Err(WireError::Trailing { bytes: 1, .. })));
}

#[test]
fn headers() {
    let header = Header::command(7, Command::DmaMap, 32, false);
    let mut out = Vec::new();
    header.encode(&mut out);
    header.reply(Err(Errno::EINVAL), 0).encode(&mut out);
    header.reply(Ok(()), 8).encode(&mut out);
    let parse = |i: usize| Header::parse(out[16 * i..][..16].try_into().unwrap());
    assert_eq!(parse(0), Ok(header));
    assert!(!header.wants_reply() && header.body() == 32);
    let reply = parse(1).unwrap();
    assert_eq!((reply.id, reply.kind), (7, Kind::Reply(Err(Errno::EINVAL))));
    assert_eq!(parse(2).unwrap().body(), 8);
    for (at, value) in [(4, 15u8), (7, 0xff), (8, 2), (8, 0x11), (8, 0x40)] {
        let mut bad: [u8; 16] = out[..16].try_into().unwrap();
        bad[at] = value;
        if at == 4 {
            bad[5..8].fill(0);
        }
        assert!(Header::parse(&bad).is_err(), "{at} {value}");
    }
}

fn version(json: &str) -> Result<Version, WireError> {
    let mut body = vec![0, 0, 1, 0];
    body.extend_from_slice(json.as_bytes());
    Version::parse(&body)
}

#[test]
fn versions_are_negotiated() {
    let silent = Version::parse(&[0, 0, 0, 0]).unwrap();
    assert_eq!(silent.capabilities, Capabilities::default());
    // As QEMU writes it.
    let qemu = "{\"capabilities\": {\"max_msg_fds\": 8, \"max_data_xfer_size\": 1048576, \
        \"pgsizes\": 4096, \"max_dma_maps\": 65535, \"migration\": {\"pgsize\": 4096}, \
        \"write_multiple\": true}}\0";
    let c = version(qemu).unwrap().capabilities;
    assert_eq!(
        (c.max_msg_fds, c.write_multiple, c.twin_socket),
        (8, true, false)
    );
    let twin = "{\"capabilities\":{\"twin_socket\":{\"supported\":true}}}\0";
    assert!(version(twin).unwrap().capabilities.twin_socket);
    assert_eq!(
        version("{}\0").unwrap().capabilities,
        Capabilities::default()
    );
    let deep = format!("{}{}\0", "[".repeat(2_000), "]".repeat(2_000));
    for bad in [
        "{}",
        "{\0",
        "[]\0",
        "\"x\"\0",
        "{\"capabilities\":[]}\0",
        "{\"capabilities\":{\"max_msg_fds\":-1}}\0",
        "{\"capabilities\":{\"max_msg_fds\":\"8\"}}\0",
        "{\"capabilities\":{\"write_multiple\":1}}\0",
        &deep,
        &format!("{{\"x\":\"{}\"}}\0", "y".repeat(5_000)),
    ] {
        assert!(matches!(version(bad), Err(WireError::Json(_))), "{bad:.60}");
    }
    let newer = Version {
        minor: 9,
        ..Version::ours()
    };
    assert_eq!(newer.answer().unwrap().minor, MINOR);
    let other = Version {
        major: MAJOR + 1,
        ..Version::ours()
    };
    assert!(matches!(other.answer(), Err(WireError::Version { .. })));
}

#[test]
fn descriptions_of_regions_have_room_or_say_how_much() {
    let info = RegionInfo {
        index: 0,
        flags: RegionFlags {
            read: true,
            write: true,
            mmap: true,
        },
        bytes: 0x20_0000,
        offset: 0,
        areas: vec![
            SparseArea {
                offset: 0x10_0000,
                bytes: 0x4000,
            };
            2
        ],
    };
    let mut whole = Vec::new();
    info.encode(info.argsz() as u32, &mut whole);
    assert_eq!(RegionInfo::parse(&whole), Ok((info.clone(), 80)));
    let mut part = Vec::new();
    info.encode(79, &mut part);
    let (less, needs) = RegionInfo::parse(&part).unwrap();
    assert_eq!((less.areas.len(), needs, part.len()), (0, 80, 32));
    // An area beyond the region, and a list that goes round.
    let mut beyond = whole.clone();
    beyond[48..56].copy_from_slice(&0x20_0000u64.to_ne_bytes());
    assert!(matches!(
        RegionInfo::parse(&beyond),
        Err(WireError::Range { .. })
    ));
    let mut round = whole.clone();
    round[36..40].copy_from_slice(&32u32.to_ne_bytes());
    assert!(RegionInfo::parse(&round).is_ok());
}

#[test]
fn replies_answer_what_was_asked() {
    let asked = RegionAccess {
        offset: 8,
        region: 0,
        count: 4,
    };
    let mut body = Vec::new();
    encode_access_reply(&asked, &[1, 2, 3, 4], &mut body);
    assert_eq!(parse_access_reply(&asked, 4, &body), Ok(&[1, 2, 3, 4][..]));
    assert!(parse_access_reply(&asked, 5, &body).is_err());
    assert!(parse_access_reply(&asked, 3, &body).is_err());
    let other = RegionAccess {
        offset: 12,
        ..asked
    };
    assert!(parse_access_reply(&other, 4, &body).is_err());
}

proptest! {
    #[test]
    fn any_bytes_end_in_a_message_or_an_error(
        command in 0u16..20, body in proptest::collection::vec(any::<u8>(), 0..200), fds in 0usize..20,
    ) {
        if let Ok(r) = Request::parse(command, &body, fds) {
            prop_assert_eq!(r.command() as u16, command);
        }
        let _ = RegionInfo::parse(&body);
        let _ = DeviceInfo::parse(&body);
        let _ = IrqInfo::parse(&body);
        if let Some(header) = body.first_chunk() {
            let _ = Header::parse(header);
        }
    }

    #[test]
    fn accesses_of_any_numbers(offset: u64, region: u32, count in 0u32..64, data: [u8; 64]) {
        let access = RegionAccess { offset, region, count };
        let r = Request::RegionWrite(access, &data[..count as usize]);
        let body = bytes_of(&r);
        match Request::parse(Command::RegionWrite as u16, &body, 0) {
            Ok(parsed) => prop_assert_eq!(parsed, r),
            Err(e) => {
                let wraps = offset.checked_add(u64::from(count).saturating_sub(1)).is_none();
                prop_assert!(wraps, "{}", e);
            }
        }
    }
}

#[test]
fn messages_carry_descriptors() {
    let (a, b) = UnixStream::pair().unwrap();
    let mut message = Vec::new();
    Header::command(1, Command::DeviceReset, 3, true).encode(&mut message);
    message.extend_from_slice(b"abc");
    let (mut reader, writer) = std::io::pipe().unwrap();
    let file = File::open("/dev/null").unwrap();
    send(&a, &message, &[writer.as_fd(), file.as_fd()], None).unwrap();
    drop(writer);
    send(&a, &message, &[], None).unwrap();
    let mut body = Vec::new();
    let got = receive(&b, &mut body, None).unwrap();
    assert_eq!(
        (got.header.id, body.as_slice(), got.fds.len()),
        (1, &b"abc"[..], 2)
    );
    let mut fds = got.fds.into_iter();
    let mut writer = File::from(fds.next().unwrap());
    writer.write_all(b"through").unwrap();
    drop(writer);
    let mut through = String::new();
    reader.read_to_string(&mut through).unwrap();
    assert_eq!(through, "through");
    assert!(receive(&b, &mut body, None).unwrap().fds.is_empty());
}

#[test]
fn no_more_descriptors_than_agreed_are_sent() {
    let (a, b) = UnixStream::pair().unwrap();
    let mut message = Vec::new();
    Header::command(1, Command::DeviceReset, 0, true).encode(&mut message);
    let file = File::open("/dev/null").unwrap();
    let fds = vec![file.as_fd(); FDS_MAX];
    send(&a, &message, &fds, None).unwrap();
    let mut body = Vec::new();
    assert_eq!(receive(&b, &mut body, None).unwrap().fds.len(), FDS_MAX);
    let fds = vec![file.as_fd(); FDS_MAX + 1];
    assert!(send(&a, &message, &fds, None).is_err());
}

#[test]
fn every_wait_ends() {
    let soon = || Some(Instant::now() + Duration::from_millis(20));
    let (a, b) = UnixStream::pair().unwrap();
    let mut body = Vec::new();
    let nothing = receive(&b, &mut body, soon());
    assert!(matches!(nothing, Err(SocketError::TimedOut)));
    // A message that stops half-way.
    let mut message = Vec::new();
    Header::command(1, Command::DeviceReset, 100, true).encode(&mut message);
    (&a).write_all(&message).unwrap();
    let half = receive(&b, &mut body, soon());
    assert!(matches!(half, Err(SocketError::Unfinished)), "{half:?}");
    // An end that takes nothing.
    let big = vec![0; 1 << 20];
    let full = loop {
        if let Err(e) = send(&a, &big, &[], soon()) {
            break e;
        }
    };
    assert!(matches!(
        full,
        SocketError::Unfinished | SocketError::TimedOut
    ));
    drop(b);
    let (a, b) = UnixStream::pair().unwrap();
    drop(b);
    assert!(matches!(
        receive(&a, &mut body, None),
        Err(SocketError::Closed)
    ));
    assert!(matches!(
        send(&a, &message, &[], None),
        Err(SocketError::Closed)
    ));
}
