// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic doctor`: what this machine allows, and what to do where it does not.
//!
//! | file | purpose |
//! |---|---|
//! | `kernel` | TAP, namespaces, IOMMU, VFIO, hugepages, limits |
//! | `tools` | Verilator and the C++ compiler |
//! | `device` | a NIC's contract, in this process or behind a socket |

mod device;
mod kernel;
mod tools;

use clap::Args;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use thiserror::Error;

/// Tells what this machine allows: each finding with what to do about it.
///
/// The exit code is 0 unless something is missing that `tsonic demo` needs as it runs by
/// default. A warning costs what it says.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic doctor\n  tsonic doctor --json | jq '.findings[] | select(.status != \"ok\")'\n  tsonic doctor --device vfio-user:/run/nic.sock"
)]
pub struct DoctorArgs {
    /// A NIC in another process to open, too: vfio-user:PATH. It must have no driver: it
    /// is reset.
    #[arg(long, value_name = "vfio-user:PATH", value_parser = device::place)]
    pub device: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Why the machine is not well.
#[derive(Debug, Error)]
pub enum DoctorError {
    /// Something is missing that the demo needs.
    #[error("{0} of what `tsonic demo` or the device needs is missing: see the lines marked fail")]
    Missing(usize),
    /// Writing.
    #[error("{0}; check where standard output goes")]
    Output(#[from] io::Error),
}

/// How something stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// There.
    Ok,
    /// Not there; something is not possible, but not the default demo.
    Warn,
    /// Not there, and the default demo needs it.
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What.
    pub name: &'static str,
    /// How it stands.
    pub status: Health,
    /// What was found.
    pub found: String,
    /// What to do, and for what; null when all is well.
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            name,
            status: Health::Ok,
            found: found.into(),
            remedy: None,
        }
    }

    /// Something else than the default demo is not possible.
    pub fn warn(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            name,
            status: Health::Warn,
            found: found.into(),
            remedy: Some(remedy.into()),
        }
    }

    /// The default demo is not possible.
    pub fn fail(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            status: Health::Fail,
            ..Finding::warn(name, found, remedy)
        }
    }
}

#[derive(Serialize)]
struct Report {
    ok: bool,
    findings: Vec<Finding>,
}

/// Runs the command.
///
/// # Errors
/// [`DoctorError`].
pub fn run(args: &DoctorArgs) -> Result<(), DoctorError> {
    let mut findings = vec![device::in_process()];
    findings.extend(args.device.as_deref().map(device::behind));
    findings.extend(kernel::findings());
    findings.extend(tools::findings());
    let missing = findings.iter().filter(|f| f.status == Health::Fail).count();
    let report = Report {
        ok: missing == 0,
        findings,
    };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        for f in &report.findings {
            let status = match f.status {
                Health::Ok => "ok",
                Health::Warn => "warn",
                Health::Fail => "fail",
            };
            writeln!(out, "{status:<5} {:<18} {}", f.name, f.found)?;
            if let Some(remedy) = &f.remedy {
                writeln!(out, "{:24} -> {remedy}", "")?;
            }
        }
    }
    out.flush()?;
    match missing {
        0 => Ok(()),
        n => Err(DoctorError::Missing(n)),
    }
}
