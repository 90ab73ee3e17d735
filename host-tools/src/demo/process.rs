// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device process of a demo.

use super::DemoError;
use super::args::DemoArgs;
use crate::device::{Ended, Ready, far_socket};
use crate::nics::NicKind;
use clap::ValueEnum;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Tells several of one process apart.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// See the module. Dropping it ends the process.
pub struct DeviceProcess {
    child: Child,
    out: BufReader<ChildStdout>,
    folder: PathBuf,
    pub socket: PathBuf,
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> DemoError {
    move |source| DemoError::Process { what, source }
}

impl DeviceProcess {
    /// Starts `tsonic device` and returns when it is ready. `tap`: the wire leads there,
    /// else to a second NIC.
    ///
    /// # Errors
    /// [`DemoError::Process`].
    pub fn start(args: &DemoArgs, nic: NicKind, tap: Option<OwnedFd>) -> Result<Self, DemoError> {
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tsonic-{}-{n}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let mut private = fs::DirBuilder::new();
        private.mode(0o700);
        private
            .create(&folder)
            .map_err(failed("make a folder for its socket"))?;
        let socket = folder.join("nic.sock");
        let program = std::env::current_exe().map_err(failed("find this program"))?;
        let mut command = Command::new(program);
        command
            .args([
                "device",
                "--json",
                "--follow-stdin",
                "--own-folder",
                "--socket",
            ])
            .arg(&socket)
            .args(["--queues", &args.queues.to_string()])
            .args(["--seed", &args.seed.to_string()])
            .args(args.link.to_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(name) = nic.to_possible_value() {
            command.args(["--nic", name.get_name()]);
        }
        if let Some(path) = &args.pcap {
            command.arg("--pcap").arg(path);
        }
        match &tap {
            Some(tap) => {
                // The child keeps it open under the number that it has here.
                fcntl_setfd(tap, FdFlags::empty())
                    .map_err(|e| failed("hand it the wire")(e.into()))?;
                command.args(["--wire", &format!("fd:{}", tap.as_raw_fd())]);
            }
            None => {
                command.args(["--wire", "sim"]);
            }
        }
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(e) => {
                // The error that counts is the one that is returned.
                let _ = fs::remove_dir(&folder);
                return Err(failed("start it")(e));
            }
        };
        drop(tap);
        let Some(out) = child.stdout.take() else {
            return Err(failed("start it")(io::Error::other("it has no output")));
        };
        let mut process = DeviceProcess {
            child,
            out: BufReader::new(out),
            folder,
            socket,
        };
        let line = process.line()?;
        let ready: Ready = serde_json::from_str(&line).map_err(|_| DemoError::Process {
            what: "start it",
            source: io::Error::other("it ended before it was ready; it has said why"),
        })?;
        debug_assert_eq!(ready.socket, process.socket);
        Ok(process)
    }

    /// Where the second NIC is served.
    pub fn far(&self) -> PathBuf {
        far_socket(&self.socket)
    }

    fn line(&mut self) -> Result<String, DemoError> {
        let mut line = String::new();
        self.out
            .read_line(&mut line)
            .map_err(failed("hear from it"))?;
        Ok(line)
    }

    /// Ends it, and returns what it counted.
    ///
    /// # Errors
    /// [`DemoError::Process`] when it did not end well.
    pub fn end(mut self) -> Result<Ended, DemoError> {
        drop(self.child.stdin.take());
        let line = self.line()?;
        let status = self.child.wait().map_err(failed("wait for its end"))?;
        if !status.success() {
            let source = io::Error::other(format!("{status}"));
            return Err(failed("end it")(source));
        }
        serde_json::from_str(&line).map_err(|e| failed("hear from it")(e.into()))
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It may be busy, and nobody waits for what it has to say any more.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // With the sockets, if it could not remove them itself.
        if let Err(error) = fs::remove_dir_all(&self.folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, path = %self.folder.display(), "stays");
        }
    }
}
