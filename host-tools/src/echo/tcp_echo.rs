// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP echo (RFC 862): what comes is sent back, and the end of it, too.
//!
//! No more is read than can be written, so a peer that does not read finds its window
//! closed, and a connection holds a byte here at most.

use tsonic_host::Pool;
use tsonic_tcp::{ConnId, Engine, Error};
use tsonic_types::{CoreId, Nanos};

/// An echoing connection.
#[derive(Debug)]
pub struct Echo {
    core: CoreId,
    /// What was read and not yet taken.
    rest: Vec<u8>,
    ended: bool,
}

impl Echo {
    /// One whose writes come from `core`.
    pub const fn new(core: CoreId) -> Echo {
        Echo {
            core,
            rest: Vec::new(),
            ended: false,
        }
    }

    /// Moves what can be moved; false when the connection is done with and was
    /// closed.
    pub fn run(
        &mut self,
        engine: &mut Engine<Pool>,
        now: Nanos,
        conn: ConnId,
        block: &mut [u8],
    ) -> bool {
        loop {
            while !self.rest.is_empty() {
                match engine.write(conn, self.core, &self.rest) {
                    Ok(n) => {
                        self.rest.drain(..n);
                    }
                    Err(Error::WouldBlock) => return true,
                    Err(_) => return self.close(engine, now, conn),
                }
            }
            if self.ended {
                return self.close(engine, now, conn);
            }
            // At least a byte: a write that is refused asks to be told of room.
            let room = engine.room(conn).map_or(1, |(write, _)| write);
            let most = room.clamp(1, block.len() as u64) as usize;
            let n = match engine.read(conn, &mut block[..most]) {
                Ok(0) => {
                    self.ended = true;
                    continue;
                }
                Ok(n) => n,
                Err(Error::WouldBlock) => return true,
                Err(_) => return self.close(engine, now, conn),
            };
            match engine.write(conn, self.core, &block[..n]) {
                Ok(taken) => self.rest.extend_from_slice(&block[taken..n]),
                Err(Error::WouldBlock) => self.rest.extend_from_slice(&block[..n]),
                Err(_) => return self.close(engine, now, conn),
            }
        }
    }

    /// What was written is still sent.
    fn close(&mut self, engine: &mut Engine<Pool>, now: Nanos, conn: ConnId) -> bool {
        engine.close(now, conn);
        false
    }
}
