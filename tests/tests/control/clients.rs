// SPDX-License-Identifier: MIT OR Apache-2.0
//! The socket and its clients, well-behaved and hostile, while traffic flows.

use crate::lab::Lab;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tsonic_host::control::protocol::{PROTOCOL, REQUEST_MAX, Reply, Request};
use tsonic_host::control::{Client, ClientError, Directory, Limits, Server, mailbox};
use tsonic_types::{ByteRate, Nanos};

fn directory(name: &str) -> Directory {
    let path = std::env::temp_dir().join(format!("tsonic-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    Directory::at(path)
}

/// Runs `clients` against the socket of a lab whose traffic flows meanwhile.
fn against(name: &str, limits: Limits, clients: impl FnOnce(&Path) + Send) {
    let directory = directory(name);
    let mut lab = Lab::new(ByteRate(20_000_000), Nanos::from_micros(50));
    let (mailbox, inbox) = mailbox();
    let greeting = lab.sender.greeting("test", "model");
    lab.sender.answer(inbox, None);
    let server = Server::start(&directory, greeting, mailbox, limits).unwrap();
    let socket = PathBuf::from(server.path());
    thread::scope(|scope| {
        let clients = scope.spawn(|| clients(&socket));
        while !clients.is_finished() {
            lab.turn(None);
        }
        clients.join().unwrap();
    });
    lab.drain();
    drop(server);
    assert!(!socket.exists(), "the socket goes with its server");
    std::fs::remove_dir_all(directory.path()).unwrap();
}

/// A connection whose greeting was read.
fn raw(socket: &Path) -> BufReader<UnixStream> {
    let stream = UnixStream::connect(socket).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut stream = BufReader::new(stream);
    assert!(line(&mut stream).contains("\"protocol\""));
    stream
}

fn line(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    // A server that has closed with data unread resets.
    let _ = stream.read_line(&mut line);
    line
}

fn say(stream: &mut BufReader<UnixStream>, bytes: &[u8]) {
    // It may have been closed already.
    let _ = stream.get_mut().write_all(bytes);
}

#[test]
fn a_client_watches_and_tunes() {
    against("client", Limits::default(), |socket| {
        let mode = std::fs::metadata(socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut client = Client::connect(socket).unwrap();
        let g = client.greeting();
        assert_eq!((g.protocol, g.pid), (PROTOCOL, std::process::id()));
        assert_eq!((g.nic.kind.as_str(), g.nic.queues), ("model", 4));
        assert!(g.nic.contract.starts_with("1.") && g.nic.features.contains(&"TSO".into()));
        assert_eq!(g.engine.addresses, ["10.9.0.1/24"]);
        let mut last = Nanos::ZERO;
        for _ in 0..50 {
            let (at, reply) = client.ask(Request::Stats { connections: 1 }).unwrap();
            let Reply::Stats(s) = reply else {
                panic!("another reply");
            };
            assert!(at >= last && s.engine_time_ns == at.0);
            last = at;
        }
        assert!(last > Nanos::ZERO, "the engine's time goes on");
        let name = "net.ipv4.tcp_min_tso_segs".to_string();
        let set = |value: &str| Request::TunableSet {
            tenant: 0,
            name: name.clone(),
            value: value.into(),
        };
        client.ask(set("4")).unwrap();
        let refused = client.ask(set("256")).unwrap_err();
        assert!(matches!(&refused, ClientError::Failed(f) if f.name == "OUT_OF_RANGE"));
        assert!(refused.to_string().contains("1..=255"));
        // The connection goes on after a failure.
        client.ask(Request::XpsShow {}).unwrap();
    });
}

#[test]
fn garbage_is_answered_and_nothing_breaks() {
    against("garbage", Limits::default(), |socket| {
        let mut stream = raw(socket);
        for bad in [
            &b"\n"[..],
            b"hello\n",
            b"{}\n",
            b"[]\n",
            b"\xff\xfe\x00\n",
            b"{\"id\":1,\"request\":{\"stats\":{}}}\n",
            b"{\"id\":1,\"request\":{\"stats\":{\"connections\":-1}}}\n",
            b"{\"id\":1,\"request\":{\"format_disk\":{}}}\n",
            b"{\"id\":1,\"request\":{\"xps_show\":{}},\"extra\":1}\n",
        ] {
            say(&mut stream, bad);
            let answer = line(&mut stream);
            assert!(
                answer.contains("\"BAD_REQUEST\"") && answer.contains("\"code\":256"),
                "{answer}"
            );
            // Whose answer it is can be told where the number can be read.
            let id = match bad.starts_with(b"{\"id\":1,") {
                true => "{\"id\":1,",
                false => "{\"id\":null,",
            };
            assert!(answer.starts_with(id), "{answer}");
        }
        // Deep nesting ends at the parser's limit.
        say(&mut stream, &[b"[".repeat(10_000), vec![b'\n']].concat());
        assert!(line(&mut stream).contains("BAD_REQUEST"));
        // A request may be as long as is said, in one write or not, and no longer.
        let mut longest = b"{\"id\":6,\"request\":{\"rate_show\":{}}}".to_vec();
        longest.resize(REQUEST_MAX, b' ');
        let mut longer = longest.clone();
        longest.push(b'\n');
        say(&mut stream, &longest);
        assert!(line(&mut stream).starts_with("{\"id\":6"));
        longer.extend(b" \n");
        let mut other = raw(socket);
        say(&mut other, &longer);
        assert!(line(&mut other).contains("REQUEST_TOO_LONG"));
        // Two in one write are answered in order.
        say(&mut stream, b"{\"id\":7,\"request\":{\"rate_show\":{}}}\n{\"id\":8,\"request\":{\"xps_show\":{}}}\n");
        assert!(line(&mut stream).starts_with("{\"id\":7"));
        assert!(line(&mut stream).starts_with("{\"id\":8"));
        // A request in pieces.
        for piece in [&b"{\"id\":9,\"requ"[..], b"est\":{\"xps_show\":{}}}", b"\n"] {
            say(&mut stream, piece);
            thread::sleep(Duration::from_millis(10));
        }
        assert!(line(&mut stream).starts_with("{\"id\":9"));
    });
}

#[test]
fn a_huge_line_ends_the_connection() {
    against("huge", Limits::default(), |socket| {
        let mut stream = raw(socket);
        say(&mut stream, &vec![b'x'; 1 << 20]);
        let answer = line(&mut stream);
        // Unless the reset was quicker than the answer.
        assert!(
            answer.is_empty() || answer.contains("REQUEST_TOO_LONG"),
            "{answer}"
        );
        assert_eq!(stream.read(&mut [0; 64]).unwrap_or(0), 0);
        Client::connect(socket)
            .unwrap()
            .ask(Request::XpsShow {})
            .unwrap();
    });
}

#[test]
fn slow_and_silent_clients_are_sent_away() {
    let limits = Limits {
        request: Duration::from_millis(300),
        idle: Duration::from_millis(600),
        ..Limits::default()
    };
    against("slow", limits, |socket| {
        let (mut slow, mut silent) = (raw(socket), raw(socket));
        say(&mut slow, b"{\"id\":1,");
        assert!(line(&mut slow).contains("TOO_SLOW"));
        assert_eq!(line(&mut slow), "");
        assert_eq!(line(&mut silent), "");
    });
}

#[test]
fn one_client_too_many_is_told_so() {
    let limits = Limits::default();
    against("many", limits, |socket| {
        let held: Vec<_> = (0..limits.clients).map(|_| raw(socket)).collect();
        for _ in 0..20 {
            let refused = Client::connect(socket).unwrap_err();
            assert!(
                matches!(&refused, ClientError::Failed(f) if f.name == "TOO_MANY_CLIENTS"),
                "{refused}"
            );
        }
        // In the middle of a request, too, one may go.
        for mut stream in held {
            say(
                &mut stream,
                b"{\"id\":1,\"request\":{\"stats\":{\"connections\":4096}}}\n{\"id\"",
            );
        }
        let mut tries = 0;
        let mut client = loop {
            match Client::connect(socket) {
                Ok(client) => break client,
                Err(e) if tries == 500 => panic!("{e}"),
                Err(_) => {}
            }
            tries += 1;
            thread::sleep(Duration::from_millis(10));
        };
        client.ask(Request::Stats { connections: 0 }).unwrap();
    });
}

#[test]
fn many_requests_at_once_are_all_answered() {
    against("flood", Limits::default(), |socket| {
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut client = Client::connect(socket).unwrap();
                    for _ in 0..50 {
                        client.ask(Request::Stats { connections: 100 }).unwrap();
                    }
                });
            }
        });
    });
}
