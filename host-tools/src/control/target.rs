// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which process a command means: the one of `--pid`, or the only one.

use clap::Args;
use std::fmt::Write;
use thiserror::Error;
use tsonic_host::control::{Client, ClientError, Directory, DirectoryError, Process};

/// Why no process is meant.
#[derive(Debug, Error)]
pub enum TargetError {
    /// The directory of sockets.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// None runs.
    #[error(
        "no tsonic process of this user can be controlled (none listens in {0}); start one, for example `tsonic echo --tap tap0 --ip 10.9.0.1/24`"
    )]
    None(String),
    /// Not that one.
    #[error("process {pid} has no control socket in {directory}; {others}")]
    NotThere {
        /// Asked for.
        pid: u32,
        /// Where was looked.
        directory: String,
        /// What there is.
        others: String,
    },
    /// Several run.
    #[error("several tsonic processes run: {0}; choose one with --pid")]
    Several(String),
    /// It does not answer.
    #[error("process {pid}: {source}")]
    Client {
        /// Which.
        pid: u32,
        /// Why.
        source: ClientError,
    },
}

/// Which process, and how its answer is printed.
#[derive(Args, Clone, Debug)]
pub struct Target {
    /// The process; may be left out when only one tsonic process of this user runs.
    #[arg(long)]
    pub pid: Option<u32>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

fn connect(process: &Process) -> Result<Client, TargetError> {
    Client::connect(&process.socket).map_err(|source| TargetError::Client {
        pid: process.pid,
        source,
    })
}

/// The processes as a list for people.
fn list(processes: &[Process]) -> String {
    let mut text = String::new();
    for (i, process) in processes.iter().enumerate() {
        let role = match Client::connect(&process.socket) {
            Ok(client) => {
                let g = client.greeting();
                format!("{} with the {} NIC", g.role, g.nic.kind)
            }
            Err(_) => "does not answer".into(),
        };
        let comma = if i == 0 { "" } else { ", " };
        // A string takes everything.
        let _ = write!(text, "{comma}{} ({role})", process.pid);
    }
    text
}

impl Target {
    /// Connects to the process.
    ///
    /// # Errors
    /// [`TargetError`].
    pub fn connect(&self) -> Result<Client, TargetError> {
        let directory = Directory::of_user();
        let place = directory.path().display().to_string();
        let processes = directory.processes()?;
        match (self.pid, processes.as_slice()) {
            (Some(pid), all) => match all.iter().find(|p| p.pid == pid) {
                Some(process) => connect(process),
                None => Err(TargetError::NotThere {
                    pid,
                    directory: place,
                    others: match all {
                        [] => "no other has one, either".into(),
                        all => format!("there are {}", list(all)),
                    },
                }),
            },
            (None, []) => Err(TargetError::None(place)),
            (None, [only]) => connect(only),
            (None, several) => Err(TargetError::Several(list(several))),
        }
    }
}
