// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command that runs an engine starts so that it can be watched and tuned.

use super::prometheus::{Prometheus, PrometheusError};
use clap::Args;
use std::net::SocketAddr;
use tsonic_host::Shard;
use tsonic_host::control::{Directory, Limits, Server, mailbox};
use tsonic_pci::PciFunction;
use tsonic_types::Nanos;

/// How often a shard whose clock follows wall time looks for requests when idle.
pub const LOOK: Nanos = Nanos::from_millis(20);

/// Watching and tuning of the process.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Run without a control socket.
    #[arg(long)]
    pub no_control: bool,
    /// Serve counters in Prometheus's text format at http://ADDR/metrics.
    #[arg(long, value_name = "ADDR:PORT")]
    pub prometheus: Option<SocketAddr>,
}

/// Dropping it ends all of it, and takes the socket away.
#[derive(Debug)]
pub struct Served {
    _server: Option<Server>,
    _prometheus: Option<Prometheus>,
}

/// Starts what is asked for. A control socket that cannot be is told of, but does
/// not keep the command from its work.
///
/// # Errors
/// [`PrometheusError`].
pub fn start<F: PciFunction>(
    shard: &mut Shard<F>,
    args: &ServeArgs,
    (role, nic): (&str, &str),
    look: Option<Nanos>,
) -> Result<Served, PrometheusError> {
    let (mailbox, inbox) = mailbox();
    let prometheus = args
        .prometheus
        .map(|at| Prometheus::start(at, mailbox.clone(), shard.greeting(role, nic)))
        .transpose()?;
    let server = if args.no_control {
        None
    } else {
        let greeting = shard.greeting(role, nic);
        match Server::start(&Directory::of_user(), greeting, mailbox, Limits::default()) {
            Ok(server) => Some(server),
            Err(error) => {
                crate::say(format_args!("tsonic: {error}"));
                None
            }
        }
    };
    if server.is_some() || prometheus.is_some() {
        shard.answer(inbox, look);
    }
    Ok(Served {
        _server: server,
        _prometheus: prometheus,
    })
}
