// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tsonic process that runs in the background, in a runtime directory of its own, and
//! commands that talk to it.
#![allow(dead_code)]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take that takes an instant.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A directory that goes with its owner.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("tsonic-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder for the test");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The command with this as its runtime directory.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tsonic"));
        command.args(args).env("XDG_RUNTIME_DIR", &self.0);
        command
    }

    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the built binary runs")
    }

    /// What a command that must succeed prints.
    pub fn text(&self, args: &[&str]) -> String {
        let out = self.run(args);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{args:?}: {stderr}");
        String::from_utf8(out.stdout).expect("text")
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.text(&[args, &["--json"]].concat());
        serde_json::from_str(&text).expect("one JSON object")
    }

    /// Standard error of a command that must fail with that exit code.
    pub fn refusal(&self, code: i32, args: &[&str]) -> String {
        let out = self.run(args);
        let stderr = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(code), "{args:?}: {stderr}");
        assert!(out.stdout.is_empty(), "{args:?} printed a result");
        stderr
    }

    /// The sockets in it.
    pub fn sockets(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join("tsonic")).into_iter().flatten();
        entries.flatten().map(|e| e.path()).collect()
    }

    /// Waits until so many processes listen.
    pub fn await_sockets(&self, n: usize, patience: Duration) {
        let started = Instant::now();
        while self.sockets().len() < n {
            assert!(started.elapsed() < patience, "no control socket");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A process in the background; it is killed with its owner.
pub struct Running(pub Child);

impl Running {
    pub fn start(mut command: Command) -> Running {
        command.stdin(Stdio::null());
        Running(command.spawn().expect("the built binary runs"))
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal, and waits for the end; the exit code.
    pub fn end(&mut self, signal: i32) -> Option<i32> {
        // SAFETY: no memory is involved; the child was not waited for, so the number is its.
        let sent = unsafe { libc::kill(self.0.id() as libc::pid_t, signal) };
        assert_eq!(sent, 0);
        self.wait()
    }

    pub fn wait(&mut self) -> Option<i32> {
        let started = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child can be waited for") {
                return status.code();
            }
            assert!(started.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
