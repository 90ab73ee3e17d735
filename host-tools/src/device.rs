// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic device`: a NIC as a process of its own, over vfio-user.

use crate::link::LinkArgs;
use crate::nics::NicKind;
use crate::signals;
use clap::Args;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use serde::{Deserialize, Serialize};
use signal_hook::iterator::Signals;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use thiserror::Error;
use tsonic_sim::netns::{TapError, open_existing_tap};
use tsonic_sim::pcapng::CaptureError;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl::RtlError;
use tsonic_sim::tap::TapPort;
use tsonic_sim::vfio_user::{LineStats, Server, ServerConfig, ServerError};
use tsonic_sim::world::World;

/// How often the NIC is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Serves a NIC to another process over vfio-user.
///
/// The other process is `tsonic demo --device vfio-user:PATH`, a program on the driver's
/// library, or QEMU (`-device vfio-user-pci`, memory as memory-backend-memfd,share=on).
/// One client at a time; when it goes, however it goes, the NIC is reset and the next
/// one is served. Ends, and removes the socket, at SIGINT or SIGTERM, and when what its
/// wire leads to is gone.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic device --socket /run/nic.sock --wire sim\n  tsonic device --nic rtl --queues 4 --socket /tmp/nic.sock --wire tap:tap0 --json"
)]
pub struct DeviceArgs {
    /// Which NIC.
    #[arg(long, value_enum, default_value = "model")]
    pub nic: NicKind,
    /// Where to listen.
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// What the wire leads to: a TAP interface that exists, by name, an open descriptor of one (or of
    /// a socket that keeps packets apart), or a second NIC, served at PATH.far.
    #[arg(long, value_name = "tap:NAME|fd:N|sim", value_parser = wire)]
    pub wire: Wire,
    /// Queue pairs of the NIC (rtl: 4, 8 or 32).
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub queues: u16,
    /// Do not let clients map the doorbell pages: every doorbell is a message.
    #[arg(long)]
    pub trap_doorbells: bool,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Seed of the wire's faults.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Capture the NIC's port to this pcapng file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// End, too, when standard input does.
    #[arg(long)]
    pub follow_stdin: bool,
    /// Remove the folder of the socket at the end: it was made for this process by one
    /// that may have died.
    #[arg(long, hide = true)]
    pub own_folder: bool,
    /// Print JSON: a line when ready, a line at the end.
    #[arg(long)]
    pub json: bool,
}

/// What the wire leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wire {
    /// A TAP interface.
    Tap(String),
    /// An open descriptor.
    Fd(RawFd),
    /// A second NIC.
    Sim,
}

impl fmt::Display for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wire::Tap(name) => write!(f, "tap:{name}"),
            Wire::Fd(n) => write!(f, "fd:{n}"),
            Wire::Sim => f.write_str("sim"),
        }
    }
}

fn wire(text: &str) -> Result<Wire, String> {
    match text.split_once(':') {
        None if text == "sim" => Ok(Wire::Sim),
        Some(("tap", name)) if (1..=15).contains(&name.len()) => Ok(Wire::Tap(name.into())),
        Some(("fd", n)) => match n.parse() {
            // The first three are not the wire's.
            Ok(fd) if fd > 2 => Ok(Wire::Fd(fd)),
            _ => Err(format!(
                "'{n}' is no descriptor: choose an open one above 2"
            )),
        },
        _ => Err(format!("'{text}' is no wire: write tap:NAME, fd:N or sim")),
    }
}

/// Why a device is not served.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// The compiled NIC is not to be had.
    #[error(transparent)]
    Rtl(#[from] RtlError),
    /// The socket.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The TAP interface.
    #[error("--wire: {0}")]
    Tap(#[from] TapError),
    /// The descriptor.
    #[error("--wire fd:{fd}: {source}; the process that starts this one must leave it open")]
    Descriptor {
        /// Its number.
        fd: RawFd,
        /// What the operating system says.
        source: io::Error,
    },
    /// Two NICs that cannot share a clock.
    #[error("the two NICs have clocks of different frequency")]
    Clocks,
    /// No capture.
    #[error("cannot capture: {0}")]
    Capture(#[from] CaptureError),
    /// Signals cannot be waited for.
    #[error("signals cannot be waited for: {0}")]
    Signals(io::Error),
    /// Standard output.
    #[error("{0}; check where standard output goes")]
    Output(io::Error),
    /// What the wire leads to went away.
    #[error("--wire {wire} is gone ({why}); make it again, then start this again")]
    Lost {
        /// The wire.
        wire: Wire,
        /// What the operating system says.
        why: String,
    },
    /// The NIC has stopped.
    #[error("the NIC's thread has stopped; this is a bug")]
    Stopped,
}

/// The line when ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    pub socket: PathBuf,
    /// Of the second NIC.
    pub far: Option<PathBuf>,
    pub queues: u16,
    pub pid: u32,
}

/// The line at the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Ended {
    pub clients: u64,
    pub turned_away: u64,
    pub messages: u64,
    pub interrupts: u64,
    /// Simulated seconds a second of wall time.
    pub dilation: Option<f64>,
    /// What the wire did to frames of the (first) NIC.
    pub wire_dropped: u64,
    pub wire_dropped_payload_bytes: u64,
    pub wire_duplicated: u64,
    pub wire_reordered: u64,
    /// Frames that what the wire leads to did not take.
    pub refused: u64,
    /// Frames written to the capture.
    pub captured: Option<u64>,
    /// Why the capture is not whole.
    pub capture_error: Option<String>,
}

/// Where the second NIC is served.
pub fn far_socket(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".far");
    name.into()
}

/// The descriptor that the parent left open.
fn inherited(fd: RawFd) -> Result<OwnedFd, DeviceError> {
    let failed = |source: io::Error| DeviceError::Descriptor { fd, source };
    // SAFETY: no memory is involved; the call fails when the descriptor is not open.
    if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    // SAFETY: open, just tested; it is the parent's gift to this command, which is the only
    // one here that uses it.
    let tap = unsafe { OwnedFd::from_raw_fd(fd) };
    let flags = fcntl_getfl(&tap).map_err(|e| failed(e.into()))?;
    fcntl_setfl(&tap, flags | OFlags::NONBLOCK).map_err(|e| failed(e.into()))?;
    Ok(tap)
}

fn world(args: &DeviceArgs) -> Result<World, DeviceError> {
    let (memory, link) = (RootComplexConfig::default(), args.link.config(args.seed));
    let nic = || args.nic.build(args.queues);
    let tap = match &args.wire {
        Wire::Sim => {
            let pair = World::pair([nic()?, nic()?], memory, link);
            return pair.ok_or(DeviceError::Clocks);
        }
        Wire::Tap(name) => open_existing_tap(name)?,
        Wire::Fd(fd) => inherited(*fd)?,
    };
    let port = Box::new(TapPort::new(tap));
    Ok(World::new(nic()?, memory, link, Some(port)))
}

/// What ends the command.
enum End {
    Signal,
    Stdin,
}

/// Runs the command.
///
/// # Errors
/// [`DeviceError`].
pub fn run(args: &DeviceArgs) -> Result<(), DeviceError> {
    // Before the socket is there: from then on it has to be removed.
    let mut signals = Signals::new(signals::ending()).map_err(DeviceError::Signals)?;
    let mut world = world(args)?;
    if let Some(path) = &args.pcap {
        world.capture(path)?;
    }
    let far = (args.wire == Wire::Sim).then(|| far_socket(&args.socket));
    let config = ServerConfig {
        sockets: std::iter::once(args.socket.clone())
            .chain(far.clone())
            .collect(),
        map_doorbells: !args.trap_doorbells,
    };
    let server = Server::start(world, &config)?;
    let (ends, end) = channel();
    let by_signal = ends.clone();
    std::thread::spawn(move || {
        for _ in &mut signals {
            if by_signal.send(End::Signal).is_err() {
                break;
            }
        }
    });
    if args.follow_stdin {
        std::thread::spawn(move || {
            let mut rest = [0; 64];
            while io::stdin().read(&mut rest).is_ok_and(|n| n > 0) {}
            // If nobody listens the command has ended already.
            let _ = ends.send(End::Stdin);
        });
    } else {
        // Lives as long as the signals' one, so that the channel does.
        drop(ends);
    }
    let ready = Ready {
        socket: args.socket.clone(),
        far,
        queues: args.queues,
        pid: std::process::id(),
    };
    announce(args, &ready)?;
    let mut followed = false;
    let lost = loop {
        match end.recv_timeout(LOOK) {
            Ok(End::Stdin) => {
                followed = true;
                break None;
            }
            Ok(End::Signal) | Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) if !server.is_running() => {
                return Err(DeviceError::Stopped);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if let Some(why) = server.lost_wire() {
            break Some(why.to_owned());
        }
    };
    let mut served = server.stop()?;
    let (wire, _) = served.world.wire_stats();
    let sum = |f: fn(&LineStats) -> u64| served.lines.iter().map(f).sum();
    let mut ended = Ended {
        clients: sum(|l| l.clients),
        turned_away: sum(|l| l.turned_away),
        messages: sum(|l| l.messages),
        interrupts: served.interrupts,
        dilation: Some(served.world.dilation().0),
        wire_dropped: wire.lost + wire.queue_drops,
        wire_dropped_payload_bytes: wire.lost_payload_bytes + wire.queue_drop_payload_bytes,
        wire_duplicated: wire.duplicated,
        wire_reordered: wire.reordered,
        refused: served.world.refused(),
        captured: None,
        capture_error: None,
    };
    let mut captured = Ok(());
    if args.pcap.is_some() {
        match served.world.end_capture() {
            Ok(frames) => ended.captured = Some(frames),
            Err(error) => {
                ended.capture_error = Some(error.to_string());
                captured = Err(error);
            }
        }
    }
    if args.own_folder
        && let Some(folder) = args.socket.parent()
        && let Err(error) = fs::remove_dir(folder)
    {
        tracing::debug!(%error, path = %folder.display(), "stays");
    }
    if args.json {
        match line(&serde_json::to_string(&ended).unwrap_or_default()) {
            // Who would have read it has died.
            Err(DeviceError::Output(e)) if followed && e.kind() == io::ErrorKind::BrokenPipe => {}
            told => told?,
        }
    }
    if let Some(why) = lost {
        let wire = args.wire.clone();
        return Err(DeviceError::Lost { wire, why });
    }
    match captured {
        // Whoever started this reads it in the line, and says it.
        Err(_) if args.json && args.follow_stdin => Ok(()),
        captured => Ok(captured?),
    }
}

fn announce(args: &DeviceArgs, ready: &Ready) -> Result<(), DeviceError> {
    if args.json {
        // A structure of strings and numbers always serializes.
        return line(&serde_json::to_string(ready).unwrap_or_default());
    }
    let mut at = ready.socket.display().to_string();
    if let Some(far) = &ready.far {
        at = format!("{at} and {}", far.display());
    }
    let (nic, queues) = (args.nic, args.queues);
    line(&format!("ready: {nic:?} with {queues} queue pairs at {at}"))
}

fn line(text: &str) -> Result<(), DeviceError> {
    let mut out = io::stdout().lock();
    let written = writeln!(out, "{text}").and_then(|()| out.flush());
    written.map_err(DeviceError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wires() {
        assert_eq!(wire("sim"), Ok(Wire::Sim));
        assert_eq!(wire("tap:t0"), Ok(Wire::Tap("t0".into())));
        assert_eq!(wire("fd:7"), Ok(Wire::Fd(7)));
        for bad in [
            "",
            "tap",
            "tap:",
            "tap:0123456789abcdef",
            "fd:2",
            "fd:-1",
            "fd:x",
            "sim:1",
        ] {
            assert!(wire(bad).is_err(), "{bad}");
        }
        assert_eq!(far_socket(Path::new("/a/b")), Path::new("/a/b.far"));
    }
}
