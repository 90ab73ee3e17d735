// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic demo`: a file through the whole stack, and back to a hash.

mod args;
mod data;
mod lab;
mod process;
mod receiver;
mod report;
mod sender;

pub use args::DemoArgs;

use crate::control::prometheus::PrometheusError;
use crate::control::serve::{self, LOOK as CONTROL_LOOK};
use crate::device::Ended;
use crate::nics::no_such;
use crate::signals::Stop;
use args::DeviceKind;
use data::{Data, Hashing};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lab::{Bus, Lab, Place, Receiver};
use receiver::{EngineSink, KernelSink, OwnThread};
use report::Report;
use sender::Sender;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;
use tsonic_host::{HostError, Shard, control};
use tsonic_pci::{BusError, Wake};
use tsonic_sim::netns::TapError;
use tsonic_sim::pcapng::CaptureError;
use tsonic_sim::rtl::RtlError;
use tsonic_tcp::tunables::TunableError;
use tsonic_types::Nanos;

/// How often a sender whose receiver is a kernel looks at it, on the device's clock.
const LOOK: Nanos = Nanos::from_millis(5);
/// A run that lasts longer than this shows its progress.
const PATIENCE: Duration = Duration::from_secs(2);
/// Least MTU of a link that carries IPv6 (RFC 8200, section 5).
const IPV6_MTU_MIN: u16 = 1_280;
/// Turns between two looks at the wall clock.
const CLOCK_TURNS: u32 = 64;

/// Why a demo did not end well.
#[derive(Debug, Error)]
pub enum DemoError {
    /// The file cannot be opened.
    #[error("cannot send {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file cannot be read any more.
    #[error("the file cannot be read to its end: {0}")]
    Read(io::Error),
    /// The compiled NIC is not to be had.
    #[error(transparent)]
    Rtl(#[from] RtlError),
    /// No kernel peer.
    #[error("no kernel peer: {0}; --peer sim needs none")]
    Tap(#[from] TapError),
    /// No capture.
    #[error("cannot capture: {0}")]
    Capture(#[from] CaptureError),
    /// The capture was begun, and could not be written to its end.
    #[error("the capture is not whole: {0}")]
    CaptureCut(String),
    /// The interface of the kernel peer went away.
    #[error(
        "the kernel peer's interface is gone ({0}) after {1} bytes; leave it alone while a demo runs"
    )]
    Lost(String, u64),
    /// The capture would empty the file that is sent.
    #[error("--pcap names the file that is sent: choose another")]
    CaptureOfInput,
    /// The report cannot be written.
    #[error("{0}; check where standard output goes")]
    Output(io::Error),
    /// IPv6 on a link that cannot carry it.
    #[error("IPv6 needs an MTU of {IPV6_MTU_MIN} at least, not {0} (RFC 8200, section 5)")]
    Ipv6Mtu(u16),
    /// A tunable was refused.
    #[error("--sysctl: {}", control::tunable(.0))]
    Tunable(#[from] TunableError),
    /// Device or driver.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The engine, or a connection.
    #[error("TCP: {0}")]
    Tcp(#[from] tsonic_tcp::Error),
    /// The device process.
    #[error("the device process: {what}: {source}")]
    Process {
        /// What was tried.
        what: &'static str,
        /// What came of it.
        source: io::Error,
    },
    /// There is no device at a path.
    #[error(
        "no device at {}: {source}; start one with `tsonic device --wire sim --socket PATH`",
        path.display()
    )]
    Connect {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: BusError,
    },
    /// The device at a path has one NIC only.
    #[error(
        "the device at {} has no second NIC for the receiver (nobody serves {}): its wire leads elsewhere; start one with `tsonic device --wire sim --socket PATH`",
        path.display(),
        far.display()
    )]
    NoFar {
        /// The path.
        path: PathBuf,
        /// Where its second NIC would be.
        far: PathBuf,
    },
    /// The device at a path has another client.
    #[error("another client uses the device at {}; end that one, or start another device with `tsonic device`", .0.display())]
    Busy(PathBuf),
    /// A thread of the demo panicked.
    #[error("the receiver's thread has panicked; this is a bug")]
    Panicked,
    /// Two NICs that cannot share a clock.
    #[error("the two NICs have clocks of different frequency")]
    Clocks,
    /// Nothing more would happen.
    #[error(
        "the transfer stopped after {0} bytes: nothing is under way and no timer runs; this is a bug, report the seed"
    )]
    Stalled(u64),
    /// Too slow.
    #[error("not done after {0} s of wall time; give a longer --timeout, or less to send")]
    TimedOut(u64),
    /// Told to end.
    #[error("ended by a signal after {0} bytes")]
    Interrupted(u64),
    /// Signals cannot be caught.
    #[error("signals cannot be caught: {0}")]
    Signals(io::Error),
    /// No metrics.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// What arrived is not what was sent.
    #[error("what arrived is not what was sent")]
    Differs,
}

impl DemoError {
    /// Whether the command line is wrong.
    pub const fn is_usage(&self) -> bool {
        match self {
            DemoError::CaptureOfInput | DemoError::Ipv6Mtu(_) | DemoError::Tunable(_) => true,
            DemoError::Rtl(e) => no_such(e),
            _ => false,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// [`DemoError`].
pub fn run(args: &DemoArgs) -> Result<(), DemoError> {
    let data = match &args.file {
        Some(path) => Data::open(path).map_err(|source| DemoError::File {
            path: path.clone(),
            source,
        })?,
        None => Data::Random {
            seed: args.seed,
            len: args.size,
        },
    };
    if args.pcap.as_ref().is_some_and(|p| data.is_at(p)) {
        return Err(DemoError::CaptureOfInput);
    }
    if args.ipv6 && args.mtu < IPV6_MTU_MIN {
        return Err(DemoError::Ipv6Mtu(args.mtu));
    }
    let report = transfer(args, &Arc::new(data))?;
    let mut out = io::stdout().lock();
    if args.json {
        // A report is made of numbers, strings and maps: it always serializes.
        let line = serde_json::to_string(&report).unwrap_or_default();
        writeln!(out, "{line}").map_err(DemoError::Output)?;
    } else {
        writeln!(out, "{report}").map_err(DemoError::Output)?;
    }
    match report.capture_error {
        _ if !report.ok => Err(DemoError::Differs),
        Some(why) => Err(DemoError::CaptureCut(why)),
        None => Ok(()),
    }
}

enum Sink {
    Kernel(KernelSink),
    /// On the sender's clock, in its loop.
    Engine(EngineSink, Box<Shard<Bus>>),
    /// On a clock that goes on by itself.
    Thread(OwnThread),
}

fn transfer(args: &DemoArgs, data: &Arc<Data>) -> Result<Report, DemoError> {
    let stop = Stop::catch().map_err(DemoError::Signals)?;
    let mut lab = Lab::new(args)?;
    stop.armed();
    let wall = Instant::now();
    let timed_out = || DemoError::TimedOut(args.timeout.as_secs());
    let hash = Hashing::start(Arc::clone(data)).map_err(DemoError::Read)?;
    let target = lab.addresses.target();
    let mut kernel = None;
    let mut sink = match lab.receiver {
        Receiver::Kernel(k) => {
            let sink = KernelSink::listen(&k, target, args.flows)?;
            kernel = Some(k);
            Sink::Kernel(sink)
        }
        Receiver::Engine(mut shard) => {
            let sink = EngineSink::listen(shard.engine(), target, args.flows)?;
            match args.device {
                DeviceKind::Inproc => Sink::Engine(sink, shard),
                _ => Sink::Thread(OwnThread::spawn(sink, shard)?),
            }
        }
    };
    // With both engines in this loop the clock is virtual, and waiting takes no time.
    let look = (!matches!(sink, Sink::Engine(..))).then_some(CONTROL_LOOK);
    let nic = match args.device {
        DeviceKind::Inproc | DeviceKind::Process => args.nic.name(),
        DeviceKind::At(_) => "vfio-user",
    };
    let roles = ("demo", nic);
    let served = serve::start(&mut lab.sender, &args.serve, roles, look)?;
    let started = lab.sender.now();
    let wall_started = Instant::now();
    let mut app = Sender::open(
        lab.sender.engine(),
        started,
        target,
        data,
        args.flows,
        lab.queues,
        Lab::rate(args),
    )?;
    let ports = app.ports(lab.sender.engine());
    let progress = Progress::new(data.len());
    let mut turns = 0u32;
    loop {
        let mut result = Ok(());
        let mut again = lab.sender.turn(|engine, _| {
            result = app.run(engine, data);
        })?;
        result?;
        if let Sink::Engine(sink, shard) = &mut sink {
            let mut result = Ok(());
            again |= shard.turn(|engine, now| {
                result = sink.run(engine, now);
            })?;
            result?;
        }
        let received = match &sink {
            Sink::Kernel(_) => kernel.as_ref().map_or(0, |k| k.bytes_received()),
            Sink::Engine(sink, _) => sink.bytes,
            Sink::Thread(thread) => thread.bytes(),
        };
        let finished = match &sink {
            Sink::Kernel(sink) => sink.is_finished(),
            Sink::Engine(sink, _) => sink.is_finished(),
            Sink::Thread(thread) => thread.is_finished(),
        };
        if finished {
            break;
        }
        if let Some(error) = app.broken(lab.sender.engine()) {
            return Err(error.into());
        }
        turns = turns.wrapping_add(1);
        if turns.is_multiple_of(CLOCK_TURNS) {
            if wall.elapsed() > args.timeout {
                return Err(timed_out());
            }
            if let Place::Here(function) = &lab.place
                && let Some(why) = function.world().lost_peer()
            {
                return Err(DemoError::Lost(why.to_string(), received));
            }
            progress.show(received);
            hash.sent(app.taken);
        }
        if stop.is_told() {
            return Err(DemoError::Interrupted(received));
        }
        if again {
            continue;
        }
        let deadline = match &mut sink {
            Sink::Kernel(_) | Sink::Thread(_) => Some(lab.sender.now() + LOOK),
            Sink::Engine(_, shard) => shard.engine().next_timer(),
        };
        if lab.sender.wait(deadline)? == Wake::Idle {
            return Err(DemoError::Stalled(received));
        }
    }
    drop(served);
    let ended = lab.sender.now();
    let wall_seconds = wall_started.elapsed().as_secs_f64();
    let mut rx_no_buffer = receiver::no_buffer(&mut lab.sender)?;
    let (bytes_received, sha256_received) = match sink {
        Sink::Kernel(sink) => sink.finish(&ports)?,
        Sink::Engine(sink, mut shard) => {
            rx_no_buffer += receiver::no_buffer(&mut shard)?;
            sink.finish(&ports)
        }
        Sink::Thread(thread) => {
            let (sink, dropped) = thread.finish()?;
            rx_no_buffer += dropped;
            sink.finish(&ports)
        }
    };
    let late = || stop.is_told() || wall.elapsed() > args.timeout;
    let sha256_sent = match hash.finish(late).map_err(DemoError::Read)? {
        Some(hash) => hash,
        None if stop.is_told() => return Err(DemoError::Interrupted(bytes_received)),
        None => return Err(timed_out()),
    };
    progress.end();
    let seconds = ended.since(started).0 as f64 / 1e9;
    let pacing = lab.sender.nic().pacing().clone();
    let counters = lab.sender.engine().counters().clone();
    let watched = lab.sender.nic().watched();
    let min_rtt = app.min_rtt(lab.sender.engine());
    // The device's process ends when nobody uses it any more.
    drop(lab.sender);
    let wire = seen(lab.place, args.pcap.is_some())?;
    let total = &counters.total;
    let histogram = total.segments_per_burst.iter().copied().enumerate();
    Ok(Report {
        ok: sha256_sent == sha256_received && bytes_received == data.len(),
        sha256_sent: hex::encode(sha256_sent),
        sha256_received: hex::encode(sha256_received),
        bytes: data.len(),
        bytes_received,
        nic: (!matches!(args.device, DeviceKind::At(_))).then_some(args.nic),
        device: match args.device {
            DeviceKind::Inproc => "inproc",
            _ => "vfio-user",
        },
        peer: lab.peer,
        flows: args.flows,
        ipv6: args.ipv6,
        seed: args.seed,
        seconds,
        goodput: if seconds > 0.0 {
            bytes_received as f64 / seconds
        } else {
            0.0
        },
        wall_seconds,
        dilation: wire
            .dilation
            .unwrap_or(seconds / wall_seconds.max(f64::EPSILON)),
        bursts: total.bursts,
        segments: total.segments,
        segments_per_burst: total.segments as f64 / total.bursts.max(1) as f64,
        segments_per_burst_histogram: histogram.filter(|(_, n)| *n > 0).collect(),
        bursts_by_queue: counters.bursts_by_queue.clone(),
        tsq_stops: total.tsq_stops,
        queue_moves: total.queue_moves,
        retransmitted: total.retransmitted_segments,
        retransmitted_bytes: total.retransmitted_bytes,
        rto_count: total.rto_count,
        tlp_probes: total.tlp_probes,
        recoveries: total.recoveries,
        lost_interrupts: watched.lost_interrupts,
        tx_timeouts: watched.tx_timeouts,
        wire_dropped: wire.wire_dropped,
        wire_dropped_payload_bytes: wire.wire_dropped_payload_bytes,
        wire_duplicated: wire.wire_duplicated,
        wire_reordered: wire.wire_reordered,
        rx_no_buffer,
        kernel_refused: wire.refused,
        paced_gaps: pacing.gaps(),
        pacing_error_mean_ns: pacing.mean_ns(),
        pacing_error_p99_ns: pacing.percentile_ns(0.99),
        pacing_error_max_ns: pacing.max_ns(),
        min_rtt_us: min_rtt.map(|t| t.0 as f64 / 1e3),
        captured: wire.captured,
        capture_error: wire.capture_error,
    })
}

/// What the device counted, wherever it was.
fn seen(place: Place, captures: bool) -> Result<Ended, DemoError> {
    match place {
        Place::Here(function) => {
            let mut world = function.world();
            let captured = captures.then(|| world.end_capture()).transpose();
            let (captured, capture_error) = match captured {
                Ok(frames) => (frames, None),
                Err(error) => (None, Some(error.to_string())),
            };
            let (wire, _) = world.wire_stats();
            Ok(Ended {
                dilation: Some(world.dilation().0),
                wire_dropped: wire.lost + wire.queue_drops,
                wire_dropped_payload_bytes: wire.lost_payload_bytes + wire.queue_drop_payload_bytes,
                wire_duplicated: wire.duplicated,
                wire_reordered: wire.reordered,
                refused: world.refused(),
                captured,
                capture_error,
                ..Ended::default()
            })
        }
        Place::Process(process) => process.end(),
        // Its owner hears of it.
        Place::Elsewhere => Ok(Ended::default()),
    }
}

/// A bar on standard error, for runs that take a while.
struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    fn new(bytes: u64) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        // The template is ours and right; without it the bar has its default look.
        if let Ok(style) = ProgressStyle::with_template(
            "{bar:40} {bytes}/{total_bytes} received, {elapsed} of wall time, {eta} left",
        ) {
            bar.set_style(style);
        }
        Progress {
            bar,
            started: Instant::now(),
        }
    }

    fn show(&self, bytes: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(bytes);
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
