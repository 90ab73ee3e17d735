// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong, and what to do about it.

use std::path::PathBuf;

/// Error of a build, or of the look-up of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Verilator is not there.
    #[error(
        "the program `verilator` was not found: install the package `verilator` (5.006 or newer), for instance with `apt-get install verilator`"
    )]
    VerilatorMissing,
    /// The C++ compiler is not there.
    #[error(
        "the C++ compiler `{0}` was not found: install the package `g++`, or name another compiler in CXX"
    )]
    CompilerMissing(String),
    /// Verilator is there, its run-time sources are not.
    #[error(
        "Verilator's run-time sources were not found in {0}: reinstall the package `verilator`, or set VERILATOR_ROOT"
    )]
    RuntimeMissing(PathBuf),
    /// Verilator refused the design.
    #[error("Verilator refused the design (full log: {log}); its last lines:\n{tail}")]
    Verilate {
        /// File with the whole log.
        log: PathBuf,
        /// Last lines of the log.
        tail: String,
    },
    /// The C++ compiler failed.
    #[error("the C++ compiler failed (full log: {log}); its last lines:\n{tail}")]
    Compile {
        /// File with the whole log.
        log: PathBuf,
        /// Last lines of the log.
        tail: String,
    },
    /// No place for the cache.
    #[error(
        "no place for the cache: set TSONIC_CACHE, XDG_CACHE_HOME or HOME to a folder that can be written"
    )]
    NoCache,
    /// A file or folder could not be used.
    #[error("{what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
    /// A program could not be run.
    #[error("cannot run `{program}`: {source}")]
    Run {
        /// The program.
        program: String,
        /// Why it failed.
        source: std::io::Error,
    },
    /// The compiled object could not be loaded.
    #[error("cannot load {path} (delete it to have it built anew): {source}")]
    Load {
        /// The object.
        path: PathBuf,
        /// Why it failed.
        source: libloading::Error,
    },
    /// The design has no such port.
    #[error("the design has no {direction} named `{name}`")]
    UnknownPort {
        /// Name asked for.
        name: String,
        /// `input` or `output`.
        direction: &'static str,
    },
    /// A port's width is not between 1 and 65,536.
    #[error("port `{name}` is {width} bits wide; 1 to 65536 can be bound")]
    PortWidth {
        /// Name of the port.
        name: String,
        /// Its width.
        width: usize,
    },
    /// The design stopped itself or did not settle.
    #[error("the design stopped: {0}")]
    Stopped(String),
}

impl Error {
    pub(crate) fn io(
        what: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}
