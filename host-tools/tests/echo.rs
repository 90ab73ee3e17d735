// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic echo` on a TAP interface in a network namespace made for the test: a Linux
//! kernel pings it, echoes through it, and fetches from it. Where the system does not
//! permit a namespace, the tests check that the refusal says what to do, and no more.

mod process;

use process::{PATIENCE, Running, Scratch};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tsonic_sim::netns::{Namespace, TapConfig, TapError};

const OURS: [&str; 2] = ["10.9.0.1", "fd09::1"];
const MTU: u16 = 9_000;
/// What is echoed and fetched.
const BYTES: usize = 16 << 20;

/// Pseudo-random bytes.
fn content(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let words = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.rotate_left(29).to_le_bytes()
    });
    words
        .take(bytes.div_ceil(8))
        .flatten()
        .take(bytes)
        .collect()
}

/// A host under test, and the namespace that reaches it.
struct Host {
    namespace: Namespace,
    running: Running,
    place: Scratch,
}

impl Host {
    fn start(name: &str, more: &[&str]) -> Option<Host> {
        let place = Scratch::new(name);
        let folder = place.path().join("public");
        std::fs::create_dir(&folder).expect("a folder to serve");
        let address = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let tap = TapConfig {
            addresses: vec![(address("10.9.0.2"), 24), (address("fd09::2"), 64)],
            mtu: MTU,
            persistent: true,
            ..TapConfig::default()
        };
        let (namespace, descriptor) = match Namespace::create(&tap) {
            Ok(made) => made,
            Err(error @ (TapError::NotPermitted { .. } | TapError::NoTun(_))) => {
                let text = error.to_string();
                assert!(text.contains("run as root") || text.contains("load the module"));
                eprintln!("not run: {text}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        drop(descriptor);
        let http = format!("{}:80", folder.display());
        let mtu = MTU.to_string();
        let args = [
            &[
                "echo",
                "--tap",
                &tap.name,
                "--ip",
                "10.9.0.1/24",
                "--ip",
                "fd09::1/64",
            ][..],
            &["--http", &http, "--mtu", &mtu],
            more,
        ]
        .concat();
        let command = place.command(&args);
        let running = namespace.spawn(move || Running::start(command));
        let running = running.expect("a thread").join().expect("it started");
        // The compiled NIC may have to be compiled first.
        place.await_sockets(1, Duration::from_mins(15));
        Some(Host {
            namespace,
            running,
            place,
        })
    }

    /// Runs `f` where the kernel is.
    fn inside<T: Send + 'static>(&self, f: impl FnOnce() -> T + Send + 'static) -> T {
        let thread = self.namespace.spawn(f).expect("a thread");
        thread.join().expect("it ends well")
    }

    /// Ends it by a signal; it must do so well, and take its socket along.
    fn end(mut self, signal: i32) {
        assert_eq!(self.running.end(signal), Some(0));
        assert_eq!(self.place.sockets().len(), 0);
    }
}

fn connect(address: &str, port: u16) -> TcpStream {
    let to = SocketAddr::new(address.parse().expect("an address"), port);
    let stream = TcpStream::connect_timeout(&to, PATIENCE).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream
        .set_write_timeout(Some(PATIENCE))
        .expect("a time-out");
    stream
}

/// Sends `data` to port 7 and compares what comes back, to its end.
fn echo(address: &str, data: &Arc<Vec<u8>>) {
    let mut stream = connect(address, 7);
    let mut sender = stream.try_clone().expect("a descriptor");
    let sent = Arc::clone(data);
    let sending = std::thread::spawn(move || {
        sender.write_all(&sent).expect("it takes everything");
        // Half-closed: the rest still comes back.
        sender.shutdown(Shutdown::Write).expect("an end");
    });
    let mut back = Vec::with_capacity(data.len());
    stream.read_to_end(&mut back).expect("it comes back");
    sending.join().expect("all was sent");
    assert!(
        back == **data,
        "{} of {} bytes, or others",
        back.len(),
        data.len()
    );
}

/// Sends a request and reads its answer, of a connection that stays open: head and body.
fn http(stream: &mut TcpStream, request: &str, head_only: bool) -> (String, Vec<u8>) {
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let length = head
        .lines()
        .find_map(|l| l.strip_prefix("Content-Length: "))
        .and_then(|n| n.parse().ok())
        .expect("a length");
    let mut body = vec![0; if head_only { 0 } else { length }];
    stream.read_exact(&mut body).expect("the body");
    (head, body)
}

/// An echo request from a raw socket of the kernel; whether the answer has the same data.
fn ping(address: &str) -> bool {
    let address: IpAddr = address.parse().expect("an address");
    let (family, protocol, request, reply) = match address {
        IpAddr::V4(_) => (libc::AF_INET, libc::IPPROTO_ICMP, 8, 0),
        IpAddr::V6(_) => (libc::AF_INET6, libc::IPPROTO_ICMPV6, 128, 129),
    };
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::socket(family, libc::SOCK_RAW | libc::SOCK_CLOEXEC, protocol) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // It sends and receives datagrams, as the type wants it.
    // SAFETY: a fresh descriptor that nobody else owns.
    let socket: std::net::UdpSocket = unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) };
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let mut packet = vec![request, 0, 0, 0, 0x12, 0x34, 0, 1];
    packet.extend(content(1_000, 7));
    // The kernel does it for IPv6.
    if address.is_ipv4() {
        let sum = packet
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum::<u32>();
        let folded = (sum & 0xffff) + (sum >> 16);
        let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
        packet[2..4].copy_from_slice(&checksum.to_be_bytes());
    }
    socket.connect((address, 0)).expect("a route");
    socket.send(&packet).expect("it is sent");
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let mut answer = [0; 2_000];
        let n = socket.recv(&mut answer).expect("an answer");
        // With IPv4 the IP header stands before it.
        let at = if address.is_ipv4() {
            usize::from(answer[0] & 15) * 4
        } else {
            0
        };
        // Neighbour discovery comes this way, too.
        if answer[at] == reply {
            return answer[at + 4..n] == packet[4..];
        }
    }
    false
}

fn fetched(data: &[u8], address: &str) {
    let mut stream = connect(address, 80);
    let host = if address.contains(':') {
        format!("[{address}]")
    } else {
        address.into()
    };
    let get = |path: &str, more: &str| format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}\r\n");
    let started = Instant::now();
    let (head, body) = http(&mut stream, &get("/large.bin", ""), false);
    println!(
        "{} bytes over HTTP in {:.2} s",
        body.len(),
        started.elapsed().as_secs_f64()
    );
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(body == data, "what was fetched differs");
    // The connection stays open.
    let (head, body) = http(
        &mut stream,
        &get("/large.bin", "Range: bytes=1000-1999\r\n"),
        false,
    );
    assert!(
        head.starts_with("HTTP/1.1 206 ") && body == data[1_000..2_000],
        "{head}"
    );
    let (head, _) = http(&mut stream, &get("/missing", ""), false);
    assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
}

fn serves(nic: &str) {
    let Some(host) = Host::start(&format!("echo-{nic}"), &["--nic", nic]) else {
        return;
    };
    for address in OURS {
        assert!(host.inside(move || ping(address)), "{address}");
    }
    let data = Arc::new(content(BYTES, 1));
    let sent = Arc::clone(&data);
    let started = Instant::now();
    host.inside(move || echo("10.9.0.1", &sent));
    println!(
        "{BYTES} bytes echoed by the {nic} NIC in {:.2} s",
        started.elapsed().as_secs_f64()
    );
    let few = Arc::new(content(100_000, 2));
    host.inside(move || echo("fd09::1", &few));
    let file = host.place.path().join("public/large.bin");
    std::fs::write(&file, &*data).expect("a file to fetch");
    let whole = Arc::clone(&data);
    host.inside(move || fetched(&whole, "10.9.0.1"));
    let stats = host.place.json(&["stats"]);
    assert!(stats["engine"]["echoes"].as_u64() >= Some(2));
    assert!(stats["total"]["bytes_in"].as_u64() > Some(BYTES as u64));
    host.end(libc::SIGTERM);
}

#[test]
fn the_model_pings_echoes_and_serves() {
    serves("model");
}

#[test]
fn the_compiled_logic_pings_echoes_and_serves() {
    serves("rtl");
}

#[test]
fn a_hundred_connections_at_once() {
    let Some(host) = Host::start("echo-hundred", &[]) else {
        return;
    };
    host.inside(|| {
        let data = |n: u64| Arc::new(content(50_000 + n as usize * 100, n));
        // All are open before any sends.
        let mut open: Vec<(TcpStream, Arc<Vec<u8>>)> = (0..100)
            .map(|n| (connect(OURS[n as usize % 2], 7), data(n)))
            .collect();
        for (stream, data) in &mut open {
            stream.write_all(&data[..1_000]).expect("it takes a little");
        }
        let threads: Vec<_> = open
            .into_iter()
            .map(|(mut stream, data)| {
                std::thread::spawn(move || {
                    let mut sender = stream.try_clone().expect("a descriptor");
                    let rest = Arc::clone(&data);
                    let sending = std::thread::spawn(move || {
                        sender.write_all(&rest[1_000..]).expect("it takes the rest");
                        sender.shutdown(Shutdown::Write).expect("an end");
                    });
                    let mut back = Vec::new();
                    stream.read_to_end(&mut back).expect("it comes back");
                    sending.join().expect("all was sent");
                    assert!(back == *data, "another content");
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("each echoes");
        }
    });
    let stats = host.place.json(&["stats", "--connections", "0"]);
    assert_eq!(stats["engine"]["syn_drops"], 0);
    let bytes: u64 = (0..100).map(|n| 50_000 + n * 100).sum();
    assert_eq!(stats["total"]["bytes_in"].as_u64(), Some(bytes));
    host.end(libc::SIGINT);
}

#[test]
fn a_peer_that_does_not_read_fills_no_memory() {
    let Some(host) = Host::start("echo-stalled", &[]) else {
        return;
    };
    let (stream, sent) = host.inside(|| {
        let mut stream = connect("10.9.0.1", 7);
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .expect("a time-out");
        let block = content(1 << 20, 3);
        let mut sent = 0;
        // Windows and buffers of both ends take what they take, and no more.
        loop {
            match stream.write(&block) {
                Ok(n) => sent += n,
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
                Err(e) => panic!("{e}"),
            }
            assert!(sent < 64 << 20, "it takes without an end");
        }
        (stream, sent)
    });
    let s = host.place.json(&["stats"]);
    let c = &s["connections"][0];
    let held = c["send_queue"].as_u64().unwrap_or(u64::MAX)
        + c["receive_queue"].as_u64().unwrap_or(u64::MAX);
    // Ours: a send buffer, a receive buffer at most.
    assert!(held < (4 << 20) + (6 << 20) + 200_000, "{held} of {sent}");
    // Others are served meanwhile, and the stalled one goes on when it is read.
    let few = Arc::new(content(1_000_000, 4));
    host.inside(move || echo("10.9.0.1", &few));
    let back = host.inside(move || {
        let mut stream = stream;
        stream.shutdown(Shutdown::Write).expect("an end");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("it comes back");
        back.len()
    });
    assert_eq!(back, sent);
    host.end(libc::SIGTERM);
}

/// A connection to port 7 that has sent until nothing more is taken, and has not read.
fn stalled(block: &[u8]) -> TcpStream {
    let stream = connect("10.9.0.1", 7);
    // It is not the kernel's memory that is to run out.
    let small: libc::c_int = 16_384;
    // SAFETY: the pointer is to an int that lives longer than the call.
    let set = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const small).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0);
    stream.set_nonblocking(true).expect("it does not wait");
    fill(&stream, block);
    stream
}

/// Sends until nothing more is taken; whether anything was.
fn fill(mut stream: &TcpStream, block: &[u8]) -> bool {
    let mut some = false;
    loop {
        match stream.write(block) {
            Ok(n) => some |= n > 0,
            Err(e) if e.kind() == ErrorKind::WouldBlock => return some,
            Err(e) => panic!("cut off: {e}"),
        }
    }
}

#[test]
fn peers_that_do_not_read_leave_memory_to_those_that_do() {
    let Some(host) = Host::start("echo-shared", &[]) else {
        return;
    };
    std::fs::write(host.place.path().join("public/large"), content(1 << 20, 5)).expect("a file");
    let peers = host.inside(|| {
        let block = content(1 << 18, 6);
        let peers: Vec<TcpStream> = (0..300).map(|_| stalled(&block)).collect();
        // What is on its way still moves; then nothing does, three times in a row.
        let mut quiet = 0;
        while quiet < 3 {
            std::thread::sleep(Duration::from_millis(200));
            let moved = peers.iter().filter(|p| fill(p, &block)).count();
            quiet = if moved == 0 { quiet + 1 } else { 0 };
        }
        peers
    });
    let data = Arc::new(content(1 << 20, 7));
    host.inside(move || echo("10.9.0.1", &data));
    let (_, body) = host.inside(|| {
        let mut stream = connect("10.9.0.1", 80);
        http(&mut stream, "GET /large HTTP/1.1\r\nHost: h\r\n\r\n", false)
    });
    assert!(body == content(1 << 20, 5));
    let stats = host.place.json(&["stats", "--connections", "0"]);
    let engine = &stats["engine"];
    assert!(engine["share_stops"].as_u64() > Some(0), "{engine}");
    assert_eq!(
        (&engine["refused"], &engine["resets_out"]),
        (&0.into(), &0.into())
    );
    // None was cut off.
    host.inside(move || {
        for peer in &peers {
            assert!(peer.take_error().expect("an answer").is_none());
        }
    });
    host.end(libc::SIGTERM);
}

#[test]
fn the_file_server_keeps_to_http_and_to_its_folder() {
    let Some(host) = Host::start("echo-http", &[]) else {
        return;
    };
    std::fs::write(host.place.path().join("public/index.html"), "<p>hello").expect("a file");
    std::fs::write(host.place.path().join("secret"), "secret").expect("a file outside");
    host.inside(|| {
        let ask = |request: &str| {
            let mut stream = connect("10.9.0.1", 80);
            stream.write_all(request.as_bytes()).expect("it reads");
            stream.shutdown(Shutdown::Write).ok();
            let mut answer = String::new();
            stream
                .read_to_string(&mut answer)
                .expect("it answers and closes");
            answer
        };
        for (request, status) in [
            (
                "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                "200",
            ),
            (
                "GET /../secret HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                "404",
            ),
            (
                "GET /%2e%2e/secret HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                "404",
            ),
            (
                "GET //etc/passwd HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
                "404",
            ),
            ("DELETE / HTTP/1.1\r\nHost: h\r\n\r\n", "405"),
            ("GET / HTTP/1.1\r\n\r\n", "400"),
            ("\u{1}\u{2}\r\n\r\n", "400"),
            (
                "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=100-\r\nConnection: close\r\n\r\n",
                "416",
            ),
        ] {
            let answer = ask(request);
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{request}: {answer}"
            );
            assert!(!answer.contains("secret\n") && !answer.contains("root:"));
        }
        let long = format!(
            "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
            "x".repeat(7_000)
        );
        assert!(ask(&long).starts_with("HTTP/1.1 200 "));
        // Pipelined requests are answered in order; HEAD has no body.
        let mut stream = connect("10.9.0.1", 80);
        let (head, _) = http(&mut stream, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n", true);
        assert!(head.contains("Content-Length: 8\r\n") && head.contains("text/html"));
        let two = "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
        let (first, _) = http(&mut stream, two, false);
        let (second, body) = http(&mut stream, "", false);
        assert!(first.starts_with("HTTP/1.1 404 ") && second.starts_with("HTTP/1.1 200 "));
        assert_eq!(body, b"<p>hello");
    });
    // As people fetch, where that program is installed.
    let curl = host.inside(|| {
        Command::new("curl")
            .args([
                "-sS",
                "--max-time",
                "30",
                "http://[fd09::1]/",
                "http://10.9.0.1/index.html",
            ])
            .stdin(Stdio::null())
            .output()
    });
    match curl {
        Ok(out) => assert_eq!(out.stdout, b"<p>hello<p>hello", "{out:?}"),
        Err(e) if e.kind() == ErrorKind::NotFound => eprintln!("no curl here"),
        Err(e) => panic!("{e}"),
    }
    host.end(libc::SIGINT);
}

#[test]
fn an_interface_that_is_deleted_ends_it() {
    let Some(mut host) = Host::start("echo-gone", &[]) else {
        return;
    };
    let deleted = host.inside(|| {
        let ip = |args: &[&str]| Command::new("ip").args(args).status().expect("ip runs");
        ip(&["link", "set", "tsonic0", "down"]).success()
            && ip(&["link", "del", "tsonic0"]).success()
    });
    assert!(deleted);
    assert_eq!(host.running.wait(), Some(1));
    assert_eq!(host.place.sockets().len(), 0);
}

#[test]
fn what_cannot_be_is_refused_with_the_remedy() {
    let place = Scratch::new("echo-refused");
    let folder = place.path().display().to_string();
    let refused = place.refusal(1, &["echo", "--tap", "no-such-tap", "--ip", "10.9.0.1/24"]);
    assert!(refused.contains("ip tuntap add dev"), "{refused}");
    let refused = place.refusal(1, &["echo", "--tap", "lo", "--ip", "10.9.0.1/24"]);
    assert!(
        refused.contains("no TAP")
            || refused.contains("run as root")
            || refused.contains("load the module"),
        "{refused}"
    );
    let same = format!("{folder}:7");
    let refused = place.refusal(
        2,
        &[
            "echo",
            "--tap",
            "lo",
            "--ip",
            "10.9.0.1/24",
            "--http",
            &same,
        ],
    );
    assert!(refused.contains("both name port 7"), "{refused}");
    let refused = place.refusal(
        2,
        &["echo", "--tap", "lo", "--ip", "fd09::1/64", "--mtu", "1000"],
    );
    assert!(refused.contains("1280"), "{refused}");
    for bad in [
        &["echo", "--tap", "lo"][..],
        &["echo", "--ip", "10.9.0.1/24"],
        &["echo", "--tap", "lo", "--ip", "10.9.0.0/24"],
        &[
            "echo",
            "--tap",
            "lo",
            "--ip",
            "10.9.0.1/24",
            "--gateway",
            "10.8.0.1",
        ],
        &["echo", "--tap", "lo", "--ip", "10.9.0.1"],
        &["echo", "--tap", "lo", "--ip", "10.9.0.1/24", "--port", "0"],
        &[
            "echo",
            "--tap",
            "lo",
            "--ip",
            "10.9.0.1/24",
            "--http",
            "public",
        ],
    ] {
        place.refusal(2, bad);
    }
}
