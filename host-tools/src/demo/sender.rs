// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sending application: each connection writes its part, then ends it.

use super::DemoError;
use super::data::Data;
use std::net::SocketAddr;
use std::ops::Range;
use tsonic_host::Pool;
use tsonic_tcp::{CloseReason, ConnId, Engine, Error, State};
use tsonic_types::{ByteRate, CoreId, Nanos, TenantId};

/// Bytes handed to a connection at once.
const WRITE: usize = 64 * 1024;

struct Flow {
    conn: ConnId,
    core: CoreId,
    /// What is not yet in `block`.
    rest: Range<u64>,
    block: Vec<u8>,
    /// Bytes of `block` that were written.
    written: usize,
    ended: bool,
}

/// See the module.
pub struct Sender {
    flows: Vec<Flow>,
    /// Bytes that the engine took.
    pub taken: u64,
}

impl Sender {
    /// Opens a connection for each part; connection i writes from core i modulo
    /// `cores`.
    ///
    /// # Errors
    /// What the engine says.
    pub fn open(
        engine: &mut Engine<Pool>,
        now: Nanos,
        to: SocketAddr,
        data: &Data,
        flows: u16,
        cores: u16,
        rate: ByteRate,
    ) -> Result<Sender, DemoError> {
        let open = |i: u16| {
            let conn = engine.connect(now, TenantId(0), None, to)?;
            engine.set_max_pacing_rate(conn, rate);
            Ok(Flow {
                conn,
                core: CoreId(i % cores),
                rest: data.part(i, flows),
                block: Vec::with_capacity(WRITE),
                written: 0,
                ended: false,
            })
        };
        let flows = (0..flows).map(open).collect::<Result<_, DemoError>>()?;
        Ok(Sender { flows, taken: 0 })
    }

    /// Our ports, by connection.
    pub fn ports(&self, engine: &Engine<Pool>) -> Vec<u16> {
        let port = |f: &Flow| {
            engine
                .addresses(f.conn)
                .map_or(0, |(local, _)| local.port())
        };
        self.flows.iter().map(port).collect()
    }

    /// Writes what the engine takes.
    ///
    /// # Errors
    /// A connection that ended early, or data that cannot be read.
    pub fn run(&mut self, engine: &mut Engine<Pool>, data: &Data) -> Result<(), DemoError> {
        for flow in self.flows.iter_mut().filter(|f| !f.ended) {
            loop {
                if flow.written == flow.block.len() {
                    let n = (flow.rest.end - flow.rest.start).min(WRITE as u64) as usize;
                    if n == 0 {
                        if engine.state(flow.conn).is_some_and(State::is_synchronized) {
                            engine.shutdown(flow.conn)?;
                            flow.ended = true;
                        }
                        break;
                    }
                    flow.block.resize(n, 0);
                    data.read(flow.rest.start, &mut flow.block)
                        .map_err(DemoError::Read)?;
                    flow.rest.start += n as u64;
                    flow.written = 0;
                }
                match engine.write(flow.conn, flow.core, &flow.block[flow.written..]) {
                    Ok(n) => {
                        flow.written += n;
                        self.taken += n as u64;
                    }
                    Err(Error::WouldBlock) => break,
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    /// Smallest RTT that the first connection has seen.
    pub fn min_rtt(&self, engine: &Engine<Pool>) -> Option<Nanos> {
        engine.info(self.flows.first()?.conn)?.min_rtt
    }

    /// The reason of a connection that ended before everything was sent, or before
    /// its end was acknowledged.
    pub fn broken(&self, engine: &Engine<Pool>) -> Option<Error> {
        self.flows.iter().find_map(|f| {
            let gone = engine.state(f.conn) == Some(State::Closed);
            let reason = engine.close_reason(f.conn)?;
            let early = !f.ended || reason != CloseReason::Normal;
            (gone && early).then_some(Error::Closed(reason))
        })
    }
}
