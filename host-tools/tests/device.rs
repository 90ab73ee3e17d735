// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic device` and what uses it, as processes: transfers, and deaths of either end at
//! moments that a seed chooses.

mod process;

use process::{PATIENCE, Running, Scratch};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tsonic_driver::{
    Device, DriverError, Fragment, Kind, TxBurst, TxConfig, VfioUserConfig, VfioUserFunction,
};
use tsonic_pci::BusError;
use tsonic_types::{FlowSlot, Nanos, QueueId};

/// Deaths of each kind.
const DEATHS: u64 = 100;
/// Longest time from a death to the survivor's word of it.
const HEARD: Duration = Duration::from_secs(1);

fn tsonic(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tsonic"))
        .args(args)
        .output()
        .expect("the built binary runs")
}

/// A path that nothing has yet.
fn fresh() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("tsonic-cli-{}-{n}", std::process::id()))
}

/// A device process that ends with the test.
struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    socket: PathBuf,
}

impl Process {
    fn start(more: &[&str]) -> Process {
        let socket = fresh();
        let mut child = Command::new(env!("CARGO_BIN_EXE_tsonic"))
            .args(["device", "--json", "--queues", "2", "--socket"])
            .arg(&socket)
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the built binary runs");
        let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let ready: Value = serde_json::from_str(&line).expect("one JSON object");
        assert_eq!(ready["socket"], socket.to_string_lossy().as_ref());
        Process { child, out, socket }
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no memory is involved; the process is our child and not yet waited for.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0);
    }

    /// Asks it to end, and reads its last line.
    fn end(mut self, signal: i32) -> Value {
        self.signal(signal);
        let mut line = String::new();
        self.out.read_line(&mut line).expect("a line");
        let status = self.child.wait().expect("it ends");
        assert!(status.success(), "{status}");
        assert!(!self.socket.exists(), "the socket is gone");
        serde_json::from_str(&line).expect("one JSON object")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        for path in [&self.socket, &far(&self.socket)] {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn far(path: &Path) -> PathBuf {
    format!("{}.far", path.display()).into()
}

fn report(out: &Output, args: &[&str]) -> Value {
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&out.stdout).expect("one JSON object")
}

fn arrived(r: &Value) {
    assert_eq!(r["ok"], true, "{r}");
    assert_eq!(r["sha256_sent"], r["sha256_received"]);
    assert_eq!(r["bytes"], r["bytes_received"]);
    assert_eq!(r["device"], "vfio-user");
}

#[test]
fn a_demo_starts_its_own_device() {
    let args = [
        "demo",
        "--json",
        "--device",
        "vfio-user",
        "--peer",
        "sim",
        "--size",
        "4MiB",
    ];
    let r = report(&tsonic(&args), &args);
    arrived(&r);
    assert_eq!((&r["nic"], &r["peer"]), (&"model".into(), &"sim".into()));
    let lossy = [&args[..], &["--loss", "1%", "--seed", "4"]].concat();
    let r = report(&tsonic(&lossy), &lossy);
    arrived(&r);
    assert!(
        r["wire_dropped"].as_u64() > Some(0),
        "the wire is the device's: {r}"
    );
}

#[test]
fn a_demo_starts_its_own_logic() {
    let args = [
        "demo",
        "--json",
        "--device",
        "vfio-user",
        "--peer",
        "sim",
        "--size",
        "64KiB",
        "--nic",
        "rtl",
    ];
    let r = report(&tsonic(&args), &args);
    arrived(&r);
    assert_eq!(r["nic"], "rtl");
}

#[test]
fn a_demo_uses_a_device_that_is_there() {
    let device = Process::start(&["--wire", "sim"]);
    let place = format!("vfio-user:{}", device.socket.display());
    let args = ["demo", "--json", "--device", &place, "--size", "1MiB"];
    for _ in 0..2 {
        let r = report(&tsonic(&args), &args);
        arrived(&r);
        assert_eq!(r["nic"], Value::Null);
    }
    // It has its own wire and NIC.
    for option in [
        &["--nic", "rtl"][..],
        &["--peer", "linux"],
        &["--queues", "8"],
        &["--loss", "1%"],
        &["--link-rate", "1Gbit"],
        &["--pcap", "/tmp/x"],
    ] {
        let out = tsonic(&[&args[..], option].concat());
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{option:?}: {stderr}");
        assert!(
            stderr.contains(option[0]) && stderr.contains("the device's own"),
            "{stderr}"
        );
    }
    // One client at a time, and another hears why.
    let client = VfioUserFunction::connect(&device.socket, VfioUserConfig::default());
    let client = client.expect("nobody else uses it");
    let out = tsonic(&args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        stderr.contains("another client uses the device at"),
        "{stderr}"
    );
    let out = tsonic(&["doctor", "--device", &place]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(
        stdout.contains("another client") && stdout.contains("end its client"),
        "{stdout}"
    );
    drop(client);
    // Nobody else gets its socket.
    let socket = device.socket.to_string_lossy().into_owned();
    let out = tsonic(&["device", "--socket", &socket, "--wire", "sim"]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        stderr.contains("another process serves this socket"),
        "{stderr}"
    );
    let ended = device.end(libc::SIGTERM);
    assert!(ended["clients"].as_u64() >= Some(4), "{ended}");
    assert!(ended["interrupts"].as_u64() > Some(0), "{ended}");
}

#[test]
fn what_makes_no_sense_gets_one_clear_sentence() {
    for (args, code, says) in [
        (
            &["demo", "--device", "vfio-user:/nonexistent/x"][..],
            1,
            "no device at /nonexistent/x",
        ),
        (&["demo", "--device", "pcie"], 2, "no place of a NIC"),
        (
            &["device", "--socket", "/nonexistent/x", "--wire", "sim"],
            1,
            "/nonexistent: there is no such folder for the socket; make it",
        ),
        (
            &["device", "--socket", "/tmp/x", "--wire", "tap:no-such-tap"],
            1,
            "no interface of that name; make it first",
        ),
        (
            &["device", "--socket", "/tmp/x", "--wire", "copper"],
            2,
            "no wire",
        ),
        (
            &["device", "--socket", "/tmp/x", "--wire", "fd:99"],
            1,
            "--wire fd:99: Bad file descriptor",
        ),
    ] {
        let out = tsonic(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains(says), "{args:?}: {stderr}");
    }
}

#[test]
fn a_capture_that_cannot_be_written_is_an_error_wherever_the_nic_is() {
    let demo = ["demo", "--peer", "sim", "--size", "64KiB"];
    for place in ["inproc", "vfio-user"] {
        let pcap = ["--device", place, "--pcap", "/dev/full"];
        let out = tsonic(&[&demo[..], &pcap].concat());
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{place}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{place}: {stderr}");
        assert!(stderr.contains("the capture is not whole: No space left"));
        let stdout = String::from_utf8_lossy(&out.stdout);
        assert!(stdout.contains("arrived as sent"), "{place}: {stdout}");
    }
    let mut device = Process::start(&["--wire", "sim", "--pcap", "/dev/full"]);
    device.signal(libc::SIGTERM);
    assert_eq!(device.child.wait().expect("it ends").code(), Some(1));
}

/// As when a TAP is deleted: what the wire leads to goes away.
#[test]
fn a_wire_that_leads_nowhere_any_more_ends_the_device() {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    assert_eq!(made, 0);
    // SAFETY: fresh descriptors that nobody else owns.
    let [ours, theirs] = ends.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    let keep = theirs.as_raw_fd();
    // SAFETY: no memory is involved. Every child from now on inherits this one, no harm done.
    let kept = unsafe { libc::fcntl(keep, libc::F_SETFD, 0) };
    assert_eq!(kept, 0);
    let wire = format!("fd:{keep}");
    let mut device = Process::start(&["--wire", &wire]);
    drop(ours);
    assert_eq!(device.child.wait().expect("it ends").code(), Some(1));
    assert!(!device.socket.exists(), "the socket is gone");
}

/// A demo ends by what asks it to, also where a shell has had it ignore SIGINT, and
/// however it ends nothing of its device is left.
#[test]
fn a_demo_that_is_ended_leaves_nothing_of_its_device() {
    let end = |signal, action: libc::sighandler_t| {
        let place = Scratch::new(&format!("left-{signal}"));
        let mut command = place.command(&[
            "demo",
            "--device",
            "vfio-user",
            "--peer",
            "sim",
            "--size",
            "1GiB",
            "--rate",
            "1MB/s",
        ]);
        command.env("TMPDIR", place.path()).stderr(Stdio::null());
        // SAFETY: `signal` may be called between fork and exec, and touches no memory.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, action);
                Ok(())
            });
        }
        let mut demo = Running::start(command);
        place.await_sockets(1, PATIENCE);
        let code = demo.end(signal);
        let started = Instant::now();
        let left = || {
            let entries = std::fs::read_dir(place.path()).expect("the scratch folder");
            let names = entries.flatten().map(|e| e.file_name());
            names
                .filter(|n| n.to_string_lossy().starts_with("tsonic-"))
                .count()
        };
        while left() > 0 {
            assert!(
                started.elapsed() < PATIENCE,
                "signal {signal}: a folder is left"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        code
    };
    assert_eq!(end(libc::SIGHUP, libc::SIG_DFL), Some(1));
    assert_eq!(end(libc::SIGINT, libc::SIG_IGN), Some(1));
    assert_eq!(end(libc::SIGKILL, libc::SIG_DFL), None);
}

#[test]
fn an_interrupted_device_ends_well() {
    let ended = Process::start(&["--wire", "sim"]).end(libc::SIGINT);
    assert_eq!(ended["clients"], 0);
}

/// Ends a process after a while; tells when.
fn killer(pid: u32, after: Duration) -> JoinHandle<Instant> {
    std::thread::spawn(move || {
        std::thread::sleep(after);
        // SAFETY: no memory is involved; the child is not waited for before this ends.
        unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        Instant::now()
    })
}

struct Ends {
    posted: u64,
    completed: u64,
    flushed: u64,
}

/// A driver that sends until the device dies. `by_count`: it is killed once so many
/// messages were sent, else by somebody else's clock. `Err`: it died while it was opened.
fn drive(
    socket: &Path,
    by_count: Option<(u64, u32)>,
    killed: &mut Option<Instant>,
) -> Result<(Ends, DriverError), DriverError> {
    let mut device = Device::open(VfioUserFunction::connect(
        socket,
        VfioUserConfig::default(),
    )?)?;
    let config = TxConfig {
        ring_log2: 6,
        completion_log2: 6,
        ..TxConfig::default()
    };
    let mut tx = device.open_tx(QueueId(0), config)?;
    let mut flows = device.flow_table();
    let mut pool = device.chunk_pool(1, 65_536)?;
    device.start()?;
    let chunk = pool.allocate().expect("a chunk");
    let fragment: Fragment = pool.map().fragment(chunk, 0, 20_000).expect("in the chunk");
    let mut header = [0; 54];
    header[12..15].copy_from_slice(&[8, 0, 0x45]);
    header[23] = 6;
    header[46] = 0x50;
    let mut ends = Ends {
        posted: 0,
        completed: 0,
        flushed: 0,
    };
    let count = |ends: &mut Ends, segments: u32| {
        if segments > 0 {
            ends.completed += 1;
        } else {
            ends.flushed += 1;
        }
    };
    let error = loop {
        while tx.outstanding() < 16 && tx.room() > 0 {
            let burst = TxBurst {
                kind: Kind::Tso,
                ipv6: false,
                ip_id_fixed: false,
                cwr_all: false,
                complete_now: false,
                l2_len: 14,
                l3_len: 20,
                l4_len: 20,
                mss: 1_448,
                header: &header,
                fragments: &[fragment],
                flow: FlowSlot::UNPACED,
                rate: None,
                flow_limit: None,
                launch: None,
                token: ends.posted,
            };
            tx.post(&mut flows, &burst).expect("there is room");
            ends.posted += 1;
        }
        if let Some((messages, pid)) = by_count
            && killed.is_none()
            && device.function().messages() >= messages
        {
            // SAFETY: no memory is involved; the process is a child of ours.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
            *killed = Some(Instant::now());
        }
        let deadline = device.now() + Nanos::from_millis(5);
        let turn = tx
            .flush(device.function())
            .and_then(|_| device.wait_for(Some(deadline), || tx.has_completion()));
        tx.reap(&mut flows, usize::MAX, |c| count(&mut ends, c.segments));
        if let Err(e) = turn {
            break e;
        }
    };
    Device::<VfioUserFunction>::abandon(&mut tx, &mut flows, |c| count(&mut ends, c.segments));
    assert_eq!(tx.outstanding(), 0);
    Ok((ends, error))
}

/// The device dies at a moment that the seed chooses: the driver says so within a second,
/// and knows what became of every burst.
#[test]
fn a_hundred_deaths_of_the_device() {
    let (mut posted, mut completed, mut flushed, mut opening) = (0, 0, 0, 0);
    let mut worst = Duration::ZERO;
    for seed in 0..DEATHS {
        let mut r = Pcg64Mcg::seed_from_u64(seed);
        let trap = r.random_range(0..3) == 0;
        let more: &[&str] = if trap { &["--trap-doorbells"] } else { &[] };
        let device = Process::start(&[&["--wire", "sim"], more].concat());
        let pid = device.child.id();
        let (mut killed, mut clock) = (None, None);
        let by_count = if r.random() {
            // Setting up takes about fifty.
            Some((r.random_range(50..250), pid))
        } else {
            clock = Some(killer(
                pid,
                Duration::from_micros(r.random_range(0..60_000)),
            ));
            None
        };
        let result = drive(&device.socket, by_count, &mut killed);
        let heard = Instant::now();
        let died = match clock {
            Some(clock) => clock.join().expect("the killer"),
            None => killed.expect("it was killed"),
        };
        let late = heard.saturating_duration_since(died);
        worst = worst.max(late);
        assert!(late < HEARD, "seed {seed}: {late:?}");
        match result {
            Ok((ends, error)) => {
                let gone = matches!(error, DriverError::Bus(BusError::Gone(_)));
                assert!(gone, "seed {seed}: {error}");
                assert_eq!(ends.posted, ends.completed + ends.flushed, "seed {seed}");
                posted += ends.posted;
                completed += ends.completed;
                flushed += ends.flushed;
            }
            Err(DriverError::Bus(BusError::Gone(_) | BusError::Os { .. })) => opening += 1,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    eprintln!(
        "{DEATHS} deaths, {opening} of them while it was opened: {posted} bursts = {completed} completed + {flushed} flushed; heard of within {worst:?}"
    );
    assert!(completed > 0 && flushed > 0 && opening < DEATHS / 2);
}

/// The client dies at a moment that the seed chooses: the device serves the next one.
#[test]
fn a_hundred_deaths_of_the_client() {
    let device = Process::start(&["--wire", "sim"]);
    let place = format!("vfio-user:{}", device.socket.display());
    let demo = ["demo", "--json", "--device", &place, "--size", "256KiB"];
    let mut early = 0;
    for seed in 0..DEATHS {
        let mut r = Pcg64Mcg::seed_from_u64(seed ^ 0xdead);
        let mut client = Command::new(env!("CARGO_BIN_EXE_tsonic"))
            .args(["demo", "--device", &place, "--size", "512KiB"])
            // Seconds of work.
            .args(["--rate", "100kB/s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the built binary runs");
        std::thread::sleep(Duration::from_micros(r.random_range(0..150_000)));
        early += u64::from(matches!(client.try_wait(), Ok(Some(_))));
        client.kill().expect("our own child");
        client.wait().expect("it ends");
        if seed % 20 == 19 {
            arrived(&report(&patiently(&demo), &demo));
        }
    }
    // A client that came while the one before was on its way out was turned away.
    eprintln!("{DEATHS} deaths, {early} of clients that had ended by themselves");
    assert_eq!(early, 0);
    arrived(&report(&patiently(&demo), &demo));
    let ended = device.end(libc::SIGTERM);
    eprintln!("{ended}");
    // Each connects twice: to both NICs. Most had come as far.
    assert!(ended["clients"].as_u64() > Some(DEATHS), "{ended}");
}

/// Tries again when the device has not yet seen that its last client is gone.
fn patiently(args: &[&str]) -> Output {
    let started = Instant::now();
    loop {
        let out = tsonic(args);
        let busy = String::from_utf8_lossy(&out.stderr).contains("another client");
        if out.status.success() || !busy || started.elapsed() > HEARD {
            return out;
        }
    }
}
