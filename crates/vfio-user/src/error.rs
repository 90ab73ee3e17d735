// SPDX-License-Identifier: MIT OR Apache-2.0
//! What bytes can have wrong with them.

use thiserror::Error;

/// An error number as it stands in a reply: Linux's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub u32);

impl Errno {
    /// No such mapping or object.
    pub const ENOENT: Errno = Errno(2);
    /// Input or output failed.
    pub const EIO: Errno = Errno(5);
    /// Too large.
    pub const E2BIG: Errno = Errno(7);
    /// No memory, or too many of something.
    pub const ENOMEM: Errno = Errno(12);
    /// Not permitted.
    pub const EACCES: Errno = Errno(13);
    /// Another one uses it.
    pub const EBUSY: Errno = Errno(16);
    /// It exists already.
    pub const EEXIST: Errno = Errno(17);
    /// Invalid.
    pub const EINVAL: Errno = Errno(22);
    /// No such command.
    pub const ENOSYS: Errno = Errno(38);
    /// The protocol was broken.
    pub const EPROTO: Errno = Errno(71);
    /// Not supported.
    pub const EOPNOTSUPP: Errno = Errno(95);

    /// From an error of the operating system.
    pub fn of(error: &std::io::Error) -> Errno {
        let code = error.raw_os_error().and_then(|c| u32::try_from(c).ok());
        code.map_or(Errno::EIO, Errno)
    }

    /// As an error of the operating system.
    pub fn to_io(self) -> std::io::Error {
        i32::try_from(self.0).map_or_else(
            |_| std::io::Error::other("an unknown error number"),
            std::io::Error::from_raw_os_error,
        )
    }
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// Too few bytes.
    #[error("{what} has {has} bytes and needs {needs}")]
    Short {
        /// Of what.
        what: &'static str,
        /// Bytes there are.
        has: usize,
        /// Bytes needed.
        needs: usize,
    },
    /// Bytes that belong to nothing.
    #[error("{what} is followed by {bytes} bytes that belong to nothing")]
    Trailing {
        /// What.
        what: &'static str,
        /// Bytes.
        bytes: usize,
    },
    /// A message that is longer than agreed, or shorter than its header.
    #[error("a message of {0} bytes")]
    MessageSize(u32),
    /// An access that is longer than agreed.
    #[error("an access of {0} bytes is longer than agreed")]
    DataSize(u64),
    /// A command of no known number.
    #[error("command {0} is not known")]
    UnknownCommand(u16),
    /// A message that is neither a command nor a reply, or reserved bits.
    #[error("header flags {0:#x} are not known")]
    HeaderFlags(u32),
    /// Flags of a command.
    #[error("flags {flags:#x} of {what} are not known or contradict each other")]
    Flags {
        /// Of what.
        what: &'static str,
        /// The flags.
        flags: u32,
    },
    /// `argsz` below what the command needs.
    #[error("argsz {argsz} of {what} is too small")]
    Argsz {
        /// Of what.
        what: &'static str,
        /// Its value.
        argsz: u32,
    },
    /// A range that wraps.
    #[error("the range {address:#x}+{bytes:#x} wraps")]
    Range {
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// More descriptors than a message may carry, or than the command takes.
    #[error("{what} carries {fds} file descriptors")]
    Descriptors {
        /// What.
        what: &'static str,
        /// Descriptors.
        fds: usize,
    },
    /// The version's JSON.
    #[error("the version's capabilities are no JSON object of known form: {0}")]
    Json(String),
    /// A version that is not spoken.
    #[error("version {major}.{minor} of the protocol is not spoken")]
    Version {
        /// Major.
        major: u16,
        /// Minor.
        minor: u16,
    },
}

impl WireError {
    /// What the other end is told.
    pub const fn errno(&self) -> Errno {
        match self {
            WireError::UnknownCommand(_) => Errno::ENOSYS,
            WireError::MessageSize(_) | WireError::DataSize(_) => Errno::E2BIG,
            WireError::Version { .. } => Errno::EOPNOTSUPP,
            _ => Errno::EINVAL,
        }
    }
}
