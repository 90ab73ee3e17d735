// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic echo`: our engine as a host on a TAP interface, until it is told to end.
//!
//! | file | purpose |
//! |---|---|
//! | `args` | the command line |
//! | `service` | listeners, and which connection belongs to which |
//! | `tcp_echo` | sends back what comes |
//! | `http` | the HTTP/1.1 side of a connection |
//! | `request` | a request's head, read |
//! | `files` | a path, as a file below the served folder |

mod args;
mod files;
mod http;
mod request;
mod service;
mod tcp_echo;

pub use args::EchoArgs;

use crate::control::prometheus::PrometheusError;
use crate::control::serve::{self, LOOK};
use crate::nics::no_such;
use crate::signals::Stop;
use service::Service;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error;
use tsonic_host::control;
use tsonic_host::{HostError, NicConfig, PoolConfig, Shard};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::netns::{TapError, open_existing_tap};
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl::RtlError;
use tsonic_sim::tap::TapPort;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, World};
use tsonic_tcp::arith::txq::XpsMap;
use tsonic_tcp::tunables::TunableError;
use tsonic_tcp::{Config, Interface, Mac};
use tsonic_types::TenantId;

/// Why the host could not start, or ended.
#[derive(Debug, Error)]
pub enum EchoError {
    /// The interface cannot be had.
    #[error("--tap {name}: {source}")]
    Tap {
        /// Its name.
        name: String,
        /// Why.
        source: TapError,
    },
    /// The interface went away.
    #[error("--tap {name}: the interface is gone ({why}); make it again, then start this again")]
    Lost {
        /// Its name.
        name: String,
        /// What the operating system says.
        why: String,
    },
    /// The folder cannot be served.
    #[error("--http {}: {source}; name a folder that can be read", path.display())]
    Folder {
        /// Its path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Two services on one port.
    #[error("--port and --http both name port {0}: choose two")]
    SamePort(u16),
    /// A router that cannot be reached.
    #[error("--gateway {0} is in no network of --ip: name a router that a frame reaches")]
    Gateway(IpAddr),
    /// IPv6 on a link that cannot carry it.
    #[error("IPv6 needs an MTU of 1280 at least, not {0} (RFC 8200, section 5)")]
    Ipv6Mtu(u16),
    /// The compiled NIC is not to be had.
    #[error(transparent)]
    Rtl(#[from] RtlError),
    /// A tunable was refused.
    #[error("--sysctl: {}", control::tunable(.0))]
    Tunable(#[from] TunableError),
    /// Device or driver.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The engine.
    #[error("TCP: {0}")]
    Tcp(#[from] tsonic_tcp::Error),
    /// No metrics.
    #[error(transparent)]
    Prometheus(#[from] PrometheusError),
    /// Signals cannot be caught.
    #[error("signals cannot be caught: {0}")]
    Signals(io::Error),
}

impl EchoError {
    /// Whether the command line is wrong.
    pub const fn is_usage(&self) -> bool {
        match self {
            EchoError::SamePort(_)
            | EchoError::Ipv6Mtu(_)
            | EchoError::Gateway(_)
            | EchoError::Tunable(_) => true,
            EchoError::Rtl(e) => no_such(e),
            _ => false,
        }
    }
}

/// Runs the command until SIGINT or SIGTERM, or until the interface goes away.
///
/// # Errors
/// [`EchoError`].
pub fn run(args: &EchoArgs) -> Result<(), EchoError> {
    if args.mtu < 1_280 && args.ip.iter().any(|a| a.address.is_ipv6()) {
        return Err(EchoError::Ipv6Mtu(args.mtu));
    }
    if args.http.as_ref().is_some_and(|h| h.port == args.port) {
        return Err(EchoError::SamePort(args.port));
    }
    let outside = |g: &&IpAddr| !args.ip.iter().any(|a| a.holds(**g));
    if let Some(gateway) = args.gateway.iter().find(outside) {
        return Err(EchoError::Gateway(*gateway));
    }
    let stop = Stop::catch().map_err(EchoError::Signals)?;
    let tap = open_existing_tap(&args.tap).map_err(|source| EchoError::Tap {
        name: args.tap.clone(),
        source,
    })?;
    let world = World::new(
        args.nic.build(args.queues)?,
        RootComplexConfig::default(),
        link(args),
        Some(Box::new(TapPort::new(tap))),
    );
    let function = InprocFunction::new(world);
    let wire = function.clone();
    let mut shard = Shard::start(
        function,
        engine_config(args),
        &NicConfig::default(),
        PoolConfig::default(),
    )?;
    if let Some(tunables) = shard.engine().tunables_mut(TenantId(0)) {
        for (name, value) in &args.sysctl {
            tunables.set(name, value)?;
        }
    }
    stop.armed();
    let mut service = Service::start(shard.engine(), args)?;
    let nic = args.nic.name();
    let served = serve::start(&mut shard, &args.serve, ("echo", nic), Some(LOOK))?;
    let addresses: Vec<String> = args.ip.iter().map(ToString::to_string).collect();
    crate::say(format_args!(
        "tsonic: {} on {} with the {nic} NIC, process {}; TCP echo on port {}{}; ends with SIGINT or SIGTERM",
        addresses.join(", "),
        args.tap,
        std::process::id(),
        args.port,
        args.http.as_ref().map_or(String::new(), |h| format!(
            ", {} over HTTP on port {}",
            h.folder.display(),
            h.port
        ))
    ));
    while !stop.is_told() {
        let again = shard.turn(|engine, now| service.run(engine, now))?;
        if let Some(why) = wire.world().lost_peer() {
            return Err(EchoError::Lost {
                name: args.tap.clone(),
                why: why.to_string(),
            });
        }
        if !again {
            // Signals, too, are looked at this often.
            let deadline = shard.now() + LOOK;
            shard.wait(Some(deadline))?;
        }
    }
    drop(served);
    Ok(())
}

/// The wire is as fast both ways: what the kernel sends at once arrives frame by frame.
fn link(args: &EchoArgs) -> LinkConfig {
    let bits = args.link_rate.0.saturating_mul(8);
    LinkConfig {
        line_rate: bits,
        out: PathConfig::default(),
        back: PathConfig {
            rate: bits,
            ..PathConfig::default()
        },
    }
}

fn engine_config(args: &EchoArgs) -> Config {
    let mut interface = Interface::new(
        Mac(args.ethernet_address()),
        args.ip[0].address,
        args.ip[0].prefix,
    );
    interface.addresses = args.ip.iter().map(|a| (a.address, a.prefix)).collect();
    interface.mtu = args.mtu;
    for gateway in &args.gateway {
        match gateway {
            IpAddr::V4(g) => interface.gateway_v4 = Some(*g),
            IpAddr::V6(g) => interface.gateway_v6 = Some(*g),
        }
    }
    let mut config = Config::new(interface);
    // Peers are not to be trusted with what comes of it.
    config.seed = rand::random();
    config.xps = Some(XpsMap::Blocks {
        queues: args.queues,
        cores_per_queue: 1,
    });
    config
}
