// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic sysctl`: tunables of a running engine.

use super::target::Target;
use super::{ControlError, open, print, unexpected};
use clap::Args;
use serde::Serialize;
use tsonic_host::control::protocol::{Reply, Request, Tunable};

/// Reads and writes tunables of a running process.
///
/// Names and units are Linux's where Linux has the tunable. A write takes effect on the
/// next packet or acknowledgement; buffers, congestion control and what a SYN
/// negotiates are those of new connections.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic sysctl -a\n  tsonic sysctl net.ipv4.tcp_tso_rtt_log\n  tsonic sysctl -w net.ipv4.tcp_tso_rtt_log=null\n  tsonic sysctl --pid 4711 --json net.core.txq_reselection_ms"
)]
pub struct SysctlArgs {
    /// Tunables to read, or `NAME=VALUE` to write.
    #[arg(
        required_unless_present = "all",
        conflicts_with = "all",
        value_name = "NAME[=VALUE]"
    )]
    pub names: Vec<String>,
    /// All tunables.
    #[arg(short, long)]
    pub all: bool,
    /// Every argument must be an assignment.
    #[arg(short, long)]
    pub write: bool,
    /// Tenant whose tunables are meant.
    #[arg(long, default_value_t = 0)]
    pub tenant: u16,
    /// Which process.
    #[command(flatten)]
    pub target: Target,
}

#[derive(Serialize)]
struct Tunables {
    tenant: u16,
    tunables: Vec<Tunable>,
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &SysctlArgs) -> Result<(), ControlError> {
    let tenant = args.tenant;
    let one = |argument: &String| match argument.split_once('=') {
        Some((_, value)) if value.trim().is_empty() => Err(ControlError::NoValue(argument.clone())),
        Some((name, value)) if !name.trim().is_empty() => Ok(Request::TunableSet {
            tenant,
            name: name.trim().into(),
            value: value.trim().into(),
        }),
        None if !args.write => Ok(Request::TunableGet {
            tenant,
            name: argument.trim().into(),
        }),
        _ => Err(ControlError::Assignment(argument.clone())),
    };
    // Looked at before anything is written.
    let requests = if args.all {
        vec![Request::TunableList { tenant }]
    } else {
        args.names.iter().map(one).collect::<Result<_, _>>()?
    };
    let mut client = open(&args.target)?;
    let pid = client.greeting().pid;
    for request in requests {
        let (at, reply) = client.ask(request)?;
        let Reply::Tunables(tunables) = reply else {
            return Err(unexpected());
        };
        let list = Tunables { tenant, tunables };
        print(&args.target, (pid, at), &list, |out, list| {
            for t in &list.tunables {
                writeln!(out, "{} = {}", t.name, t.value)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
