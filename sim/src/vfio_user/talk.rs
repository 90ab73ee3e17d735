// SPDX-License-Identifier: MIT OR Apache-2.0
//! A client's words without a client: bytes become messages and descriptors, and go to a
//! conversation with a NIC in this very thread. For tests and fuzzing: whatever the bytes
//! are, this returns.
//!
//! The bytes are a stream of messages as they would come over the socket. What comes
//! beside a message is chosen by the upper half of its number: bits 0 to 2 of it say how
//! many descriptors, bits 3 to 5 of what kind.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use tsonic_vfio_user::{HEADER_BYTES, Header};

use super::alarm::event;
use super::session::{Job, Over, Owner, Reply, Session};
use super::side::Side;
use crate::root_complex::FarMemory;
use crate::world::World;

/// Bytes of a file that comes with a message.
const FILE_BYTES: u64 = 1 << 16;
/// Steps of the world after each message.
const STEPS: usize = 32;

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    /// Messages.
    pub messages: usize,
    /// Replies that said no.
    pub refused: usize,
    /// Replies that said yes.
    pub done: usize,
    /// Whether the bytes ended in something that is no message.
    pub broken: bool,
}

/// Memory that is never there.
struct Nowhere;

impl FarMemory for Nowhere {
    fn read(&self, _: u64, _: &mut [u8]) -> bool {
        false
    }
    fn write(&self, _: u64, _: &[u8]) -> bool {
        false
    }
}

struct Here<'a>(&'a mut Side);

impl Owner for Here<'_> {
    fn call(&mut self, job: Job) -> Result<(), Over> {
        job(self.0);
        Ok(())
    }
    fn post(&mut self, job: Job) -> Result<(), Over> {
        self.call(job)
    }
    fn far(&self) -> Arc<dyn FarMemory> {
        Arc::new(Nowhere)
    }
}

/// A descriptor of one of the kinds that a client could send.
fn descriptor(kind: u16) -> Option<OwnedFd> {
    let file = |seals: SealFlags| {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = memfd_create("talk", flags).ok()?;
        ftruncate(&file, FILE_BYTES).ok()?;
        fcntl_add_seals(&file, seals).ok()?;
        Some(file)
    };
    match kind {
        0..=2 => file(SealFlags::SHRINK | SealFlags::GROW),
        3 => file(SealFlags::empty()),
        4 => std::fs::File::open("/dev/null").ok().map(OwnedFd::from),
        5 => file(SealFlags::SHRINK | SealFlags::WRITE),
        _ => event().ok(),
    }
}

/// Says `bytes` to the first NIC of a fresh world, and takes leave.
pub fn talk(world: World, bytes: &[u8]) -> Talk {
    let mut side = Side::new(world, vec![None]);
    side.join(0);
    let mut session = Session::new(0, side.vectors(0), None);
    let mut reply = Reply::default();
    let mut talk = Talk::default();
    let mut rest = bytes;
    while let Some((head, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::parse(head) else {
            talk.broken = true;
            break;
        };
        let body = &after[..header.body().min(after.len())];
        if body.len() < header.body() {
            talk.broken = true;
            break;
        }
        rest = &after[body.len()..];
        talk.messages += 1;
        let beside = header.id >> 8;
        let fds = (0..beside & 7).filter_map(|_| descriptor(beside >> 3 & 7));
        let fds: Vec<OwnedFd> = fds.collect();
        let mut owner = Here(&mut side);
        if session
            .message(&header, body, fds, &mut owner, &mut reply)
            .is_err()
        {
            break;
        }
        if let Some(Ok(answer)) = reply.bytes.first_chunk().map(Header::parse) {
            match answer.kind {
                tsonic_vfio_user::Kind::Reply(Ok(())) => talk.done += 1,
                _ => talk.refused += 1,
            }
        }
        for _ in 0..STEPS {
            side.world().step(None);
            side.signal();
        }
    }
    side.leave(0);
    talk
}
