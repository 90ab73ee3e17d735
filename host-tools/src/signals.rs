// SPDX-License-Identifier: MIT OR Apache-2.0
//! Signals that end a command, and what it does about them.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals that ask for an end. SIGINT is heard also by one that a shell started in the
/// background with SIGINT ignored: whoever sends it by number means it. SIGHUP is not,
/// or `nohup` would be of no use.
pub fn ending() -> Vec<i32> {
    let mut all = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        all.push(SIGHUP);
    }
    all
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all zeros is a valid `sigaction`.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action the call only fills in the live structure.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Whether the command was told to end. Until [`Stop::armed`] it ends at once, as if
/// nothing had been caught: there is nothing to put in order yet, and what it waits for
/// (a compiler, say) would not look.
#[derive(Debug)]
pub struct Stop {
    told: Arc<AtomicBool>,
    preparing: Arc<AtomicBool>,
}

impl Stop {
    /// Catches the signals.
    ///
    /// # Errors
    /// The operating system's.
    pub fn catch() -> io::Result<Stop> {
        let stop = Stop {
            told: Arc::new(AtomicBool::new(false)),
            preparing: Arc::new(AtomicBool::new(true)),
        };
        for signal in ending() {
            flag::register_conditional_default(signal, Arc::clone(&stop.preparing))?;
            flag::register(signal, Arc::clone(&stop.told))?;
        }
        Ok(stop)
    }

    /// From now on a signal is told by [`Stop::is_told`] only.
    pub fn armed(&self) {
        self.preparing.store(false, Ordering::Relaxed);
    }

    /// Whether a signal has come.
    pub fn is_told(&self) -> bool {
        self.told.load(Ordering::Relaxed)
    }
}
