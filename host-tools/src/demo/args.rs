// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `tsonic demo` takes.

use crate::control::serve::ServeArgs;
use crate::link::{LINK_OPTIONS, LinkArgs};
use crate::nics::NicKind;
use crate::units;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Error, ValueEnum};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use tsonic_regs::limits::PAYLOAD_MAX;
use tsonic_types::ByteRate;

/// Moves a file from the engine through the NIC to a TCP receiver, and compares.
///
/// The file (or random bytes) is written to one or more connections of our TCP
/// engine, leaves through driver and NIC, crosses a wire with the faults you ask for,
/// and arrives at a receiver. SHA-256 is compared at both ends.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic demo\n  tsonic demo --json --size 4MiB --nic rtl --peer linux\n  tsonic demo --peer sim --loss 1% --dup 0.1% --reorder 1% --seed 3\n  tsonic demo --device vfio-user --nic rtl --size 1MiB\n  tsonic demo movie.mkv --flows 4 --rate 20MB/s --sysctl net.ipv4.tcp_tso_rtt_log=null"
)]
pub struct DemoArgs {
    /// File to send; random bytes (from the seed) when absent.
    pub file: Option<PathBuf>,
    /// Bytes to send when no file is given.
    #[arg(long, default_value = "64MiB", value_parser = units::size, conflicts_with = "file")]
    pub size: u64,
    /// Which NIC.
    #[arg(long, value_enum, default_value = "model")]
    pub nic: NicKind,
    /// Where the NIC is: `inproc` in this process, `vfio-user` in one that is started for
    /// the run, `vfio-user:PATH` in one that serves a second NIC at PATH.far
    /// (`tsonic device --wire sim`), where the receiver then is.
    #[arg(long, default_value = "inproc", value_name = "inproc|vfio-user[:PATH]", value_parser = device)]
    pub device: DeviceKind,
    /// Who receives: `linux` is a kernel TCP socket behind a TAP in a network namespace
    /// made for the run, `sim` our own engine on a second NIC. The default is `linux`
    /// where it is permitted.
    #[arg(long, value_enum)]
    pub peer: Option<PeerKind>,
    /// Connections; each carries a part of the file.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub flows: u16,
    /// Queue pairs of the NIC (rtl: 4, 8 or 32).
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub queues: u16,
    /// Payload rate that each connection keeps below; 200 B/s at least.
    #[arg(long, value_parser = paced)]
    pub rate: Option<ByteRate>,
    #[command(flatten)]
    pub link: LinkArgs,
    /// Most bytes of an IP packet at both ends.
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u16).range(576..=9000))]
    pub mtu: u16,
    /// Most payload bytes of a burst.
    #[arg(long, default_value = "64KiB", value_parser = gso_max)]
    pub gso_max: u32,
    /// Use IPv6.
    #[arg(long)]
    pub ipv6: bool,
    /// A tunable of the engine, `NAME=VALUE`; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = units::assignment)]
    pub sysctl: Vec<(String, String)>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Wall time after which the run is given up.
    #[arg(long, default_value = "300s", value_parser = units::span)]
    pub timeout: Duration,
    /// Capture the NIC's port to this pcapng file.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
    /// Watching and tuning of the sender while it runs.
    #[command(flatten)]
    pub serve: ServeArgs,
}

/// Where the NIC is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// In this process.
    Inproc,
    /// In a process started for the run.
    Process,
    /// In a process that is there.
    At(PathBuf),
}

fn device(text: &str) -> Result<DeviceKind, String> {
    match text.split_once(':') {
        None if text == "inproc" => Ok(DeviceKind::Inproc),
        None if text == "vfio-user" => Ok(DeviceKind::Process),
        Some(("vfio-user", path)) if !path.is_empty() => Ok(DeviceKind::At(path.into())),
        _ => Err(format!(
            "'{text}' is no place of a NIC: write inproc, vfio-user or vfio-user:PATH"
        )),
    }
}

impl DemoArgs {
    /// Refuses what was asked of a device that is there already and has its own.
    ///
    /// # Errors
    /// The option.
    pub fn check(&self, given: &ArgMatches) -> Result<(), Error> {
        if !matches!(self.device, DeviceKind::At(_)) {
            return Ok(());
        }
        let own = ["nic", "peer", "queues", "pcap"];
        let mut all = own.into_iter().chain(LINK_OPTIONS);
        let option = all.find(|id| given.value_source(id) == Some(ValueSource::CommandLine));
        option.map_or(Ok(()), |id| {
            let text = match id {
                "peer" => "--peer is the device's own business: its --wire leads to the receiver; leave out --peer, or the path\n".to_owned(),
                _ => format!(
                    "--{} is the device's own business: give it to `tsonic device`, or leave out the path\n",
                    id.replace('_', "-")
                ),
            };
            Err(Error::raw(ErrorKind::ArgumentConflict, text))
        })
    }
}

/// Who receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerKind {
    /// A kernel TCP socket.
    Linux,
    /// Our own engine.
    Sim,
}

/// Slowest rate of a connection: the NIC's rates end at 2^20 ticks a wire byte, 119 bytes
/// a second, and headers are on the wire, too.
const RATE_MIN: ByteRate = ByteRate(200);

fn paced(text: &str) -> Result<ByteRate, String> {
    match units::rate(text)? {
        rate if rate >= RATE_MIN => Ok(rate),
        rate => Err(format!(
            "{} B/s is slower than the NIC can pace: choose {} B/s or more",
            rate.0, RATE_MIN.0
        )),
    }
}

fn gso_max(text: &str) -> Result<u32, String> {
    let most = PAYLOAD_MAX as u64;
    match units::size(text)? {
        n if (1..=most).contains(&n) => Ok(n as u32),
        n => Err(format!("a burst of {n} bytes: choose 1 to {most}")),
    }
}
