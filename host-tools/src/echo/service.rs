// SPDX-License-Identifier: MIT OR Apache-2.0
//! The services of the host: listeners, and the connections that they gave.
//!
//! A connection is run when the engine has an event of it, so that idle ones cost
//! nothing.

use super::http::{Http, Server};
use super::tcp_echo::Echo;
use super::{EchoArgs, EchoError};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tsonic_host::Pool;
use tsonic_tcp::{ConnId, Engine, Event, ListenerId};
use tsonic_types::{CoreId, Nanos, TenantId};

/// Bytes moved at once.
const BLOCK: usize = 64 * 1024;
/// Connections that wait to be accepted.
const BACKLOG: usize = 1024;
/// Connections at once; beyond, a new one is reset.
const CONNECTIONS_MAX: usize = 8192;
/// How often connections that wait for their peer are looked at.
const SWEEP: Nanos = Nanos::from_secs(1);

enum App {
    Echo(Echo),
    Http(Box<Http>),
}

/// See the module.
pub struct Service {
    echo: ListenerId,
    http: Option<(ListenerId, Server)>,
    connections: HashMap<ConnId, App>,
    block: Vec<u8>,
    cores: u16,
    next_core: u16,
    sweep_at: Nanos,
}

impl Service {
    /// Listens.
    ///
    /// # Errors
    /// The folder, or what the engine says.
    pub fn start(engine: &mut Engine<Pool>, args: &EchoArgs) -> Result<Service, EchoError> {
        // Any address of ours, of either family.
        let any = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port);
        let echo = engine.listen(TenantId(0), any(args.port), BACKLOG)?;
        let http = match &args.http {
            Some(http) => {
                let server = Server::open(&http.folder).map_err(|source| EchoError::Folder {
                    path: http.folder.clone(),
                    source,
                })?;
                let listener = engine.listen(TenantId(0), any(http.port), BACKLOG)?;
                Some((listener, server))
            }
            None => None,
        };
        Ok(Service {
            echo,
            http,
            connections: HashMap::new(),
            block: vec![0; BLOCK],
            cores: args.queues.max(1),
            next_core: 0,
            sweep_at: Nanos::ZERO,
        })
    }

    /// Does what the engine's events ask for.
    pub fn run(&mut self, engine: &mut Engine<Pool>, now: Nanos) {
        while let Some(event) = engine.next_event() {
            match event {
                Event::Incoming(listener) => self.accept(engine, now, listener),
                Event::Ready(conn, _) => self.serve(engine, now, conn),
            }
        }
        if now >= self.sweep_at {
            self.sweep_at = now + SWEEP;
            self.sweep(engine, now);
        }
    }

    fn accept(&mut self, engine: &mut Engine<Pool>, now: Nanos, listener: ListenerId) {
        while let Some(conn) = engine.accept(listener) {
            if self.connections.len() >= CONNECTIONS_MAX {
                engine.abort(conn);
                continue;
            }
            let core = CoreId(self.next_core);
            self.next_core = (self.next_core + 1) % self.cores;
            let app = if listener == self.echo {
                App::Echo(Echo::new(core))
            } else {
                // Answers are written in whole pieces: nothing gains by waiting.
                engine.set_nodelay(conn, true);
                App::Http(Box::new(Http::new(core, now)))
            };
            self.connections.insert(conn, app);
            // It may have brought data with it.
            self.serve(engine, now, conn);
        }
    }

    fn serve(&mut self, engine: &mut Engine<Pool>, now: Nanos, conn: ConnId) {
        let goes_on = match (self.connections.get_mut(&conn), &self.http) {
            (Some(App::Echo(echo)), _) => echo.run(engine, now, conn, &mut self.block),
            (Some(App::Http(http)), Some((_, server))) => {
                http.run(server, engine, now, conn, &mut self.block)
            }
            _ => return,
        };
        if !goes_on {
            self.connections.remove(&conn);
        }
    }

    /// Ends what has waited for too long.
    fn sweep(&mut self, engine: &mut Engine<Pool>, now: Nanos) {
        self.connections.retain(|conn, app| match app {
            App::Echo(_) => true,
            App::Http(http) => http.may_wait(engine, now, *conn),
        });
    }
}
