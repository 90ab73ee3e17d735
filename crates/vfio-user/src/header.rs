// SPDX-License-Identifier: MIT OR Apache-2.0
//! The header of every message.

use crate::MESSAGE_MAX;
use crate::bytes::{Fields, Put};
use crate::error::{Errno, WireError};

/// Bytes of a header.
pub const HEADER_BYTES: usize = 16;

const TYPE_MASK: u32 = 0xf;
const TYPE_COMMAND: u32 = 0;
const TYPE_REPLY: u32 = 1;
const NO_REPLY: u32 = 1 << 4;
const ERROR: u32 = 1 << 5;

macro_rules! commands {
    ($( $(#[doc = $doc:literal])* $name:ident = $number:literal, )*) => {
        /// What a message asks for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Command { $( $(#[doc = $doc])* $name = $number, )* }

        impl Command {
            /// Every command.
            pub const ALL: &[Command] = &[$( Command::$name, )*];

            /// The command of a number.
            pub const fn from_number(n: u16) -> Option<Command> {
                match n {
                    $( $number => Some(Command::$name), )*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    /// Negotiates version and capabilities; the first message.
    Version = 1,
    /// Gives the device memory.
    DmaMap = 2,
    /// Takes it back.
    DmaUnmap = 3,
    /// What the device is.
    DeviceGetInfo = 4,
    /// What a region is.
    DeviceGetRegionInfo = 5,
    /// Descriptors that stand for writes to a region.
    DeviceGetRegionIoFds = 6,
    /// What an interrupt is.
    DeviceGetIrqInfo = 7,
    /// Sets up interrupts.
    DeviceSetIrqs = 8,
    /// Reads a region.
    RegionRead = 9,
    /// Writes a region.
    RegionWrite = 10,
    /// The device reads memory.
    DmaRead = 11,
    /// The device writes memory.
    DmaWrite = 12,
    /// Resets the device.
    DeviceReset = 13,
    /// Several small writes.
    RegionWriteMulti = 15,
}

/// Command or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A command, and whether its sender wants a reply.
    Command {
        /// It does.
        reply: bool,
    },
    /// A reply: done, or why not.
    Reply(Result<(), Errno>),
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's number for the message; a reply has its command's.
    pub id: u16,
    /// Number of the command; see [`Header::command`].
    pub command: u16,
    /// Bytes of the message with its header.
    pub size: u32,
    /// Command or reply.
    pub kind: Kind,
}

impl Header {
    /// Of a command with `body` bytes behind the header.
    pub const fn command(id: u16, command: Command, body: usize, reply: bool) -> Header {
        Header {
            id,
            command: command as u16,
            size: (HEADER_BYTES + body) as u32,
            kind: Kind::Command { reply },
        }
    }

    /// Of the reply to `self`.
    pub const fn reply(&self, result: Result<(), Errno>, body: usize) -> Header {
        Header {
            id: self.id,
            command: self.command,
            size: (HEADER_BYTES + body) as u32,
            kind: Kind::Reply(result),
        }
    }

    /// Bytes behind the header.
    pub const fn body(&self) -> usize {
        (self.size as usize).saturating_sub(HEADER_BYTES)
    }

    /// Whether its sender wants a reply.
    pub const fn wants_reply(&self) -> bool {
        matches!(self.kind, Kind::Command { reply: true })
    }

    /// Appends the header.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (flags, error) = match self.kind {
            Kind::Command { reply: true } => (TYPE_COMMAND, 0),
            Kind::Command { reply: false } => (TYPE_COMMAND | NO_REPLY, 0),
            Kind::Reply(Ok(())) => (TYPE_REPLY, 0),
            Kind::Reply(Err(e)) => (TYPE_REPLY | ERROR, e.0),
        };
        out.u16(self.id);
        out.u16(self.command);
        out.u32(self.size);
        out.u32(flags);
        out.u32(error);
    }

    /// The header at the front of a message.
    ///
    /// # Errors
    /// [`WireError`]; the stream cannot be followed any further then.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, WireError> {
        let mut f = Fields::new("a header", bytes);
        let (id, command, size) = (f.u16()?, f.u16()?, f.u32()?);
        let (flags, error) = (f.u32()?, f.u32()?);
        if (size as usize) < HEADER_BYTES || size as usize > MESSAGE_MAX {
            return Err(WireError::MessageSize(size));
        }
        let kind = match (flags & TYPE_MASK, flags & !TYPE_MASK) {
            (TYPE_COMMAND, 0) => Kind::Command { reply: true },
            (TYPE_COMMAND, NO_REPLY) => Kind::Command { reply: false },
            (TYPE_REPLY, 0) => Kind::Reply(Ok(())),
            // An error of number 0 is an error all the same.
            (TYPE_REPLY, ERROR) => {
                Kind::Reply(Err(if error == 0 { Errno::EIO } else { Errno(error) }))
            }
            _ => return Err(WireError::HeaderFlags(flags)),
        };
        Ok(Header {
            id,
            command,
            size,
            kind,
        })
    }
}
