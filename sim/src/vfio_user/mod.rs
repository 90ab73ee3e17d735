// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NICs of a world as devices of other processes, over vfio-user.
//!
//! A thread a socket reads what its client says and answers (`line`, `session`); one
//! thread owns the world, and so the clock (`side`). They are joined by a queue of jobs:
//!
//! ```text
//! client -- socket --> line --jobs--> NIC's thread --> world
//!                           <--done--              --> event descriptors, memory
//! ```
//!
//! The clock follows the rules of [`crate::world`] for hosts in wall time: a busy NIC as
//! simulated, an idle one never faster than the wall. While nothing happens the thread
//! sleeps, until a message, a frame, or the NIC's own next event.
//!
//! # Memory
//! A client's files are mapped once each ([`files`]); its DMA mappings are ranges of
//! them. A mapping without a file is served by messages. What a client may not do to this
//! process is in `docs/boundary.md`.
//!
//! # A client that goes
//! However it goes, nothing of it stays: the NIC is reset, mappings, files and event
//! descriptors are closed. Then the next one is served; one that comes before is turned
//! away.

mod alarm;
mod doorbells;
pub mod files;
mod line;
mod session;
mod side;
mod signals;
mod socket_file;
pub mod talk;

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use thiserror::Error;

use crate::world::World;
use alarm::{Alarm, Sleeper};
use doorbells::Doorbells;
use line::{Current, Far, Line, Wires};
pub use line::{FAR_WAIT, LineStats};
use session::Job;
use side::Side;
use socket_file::SocketFile;

/// Jobs that may wait for the NIC's thread.
const JOBS_MAX: usize = 1024;
/// Jobs done before the NIC has a turn.
const JOBS_A_TURN: usize = 64;

/// Why NICs are not served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Somebody listens there.
    #[error("{}: another process serves this socket; end it, or choose another path", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{}: exists and is no socket; choose another path", path.display())]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// There is no folder for it.
    #[error("{}: there is no such folder for the socket; make it, or choose another path", path.display())]
    NoFolder {
        /// The folder.
        path: PathBuf,
    },
    /// A path that no socket can have.
    #[error("{}: a path of {} bytes, of which a socket takes {most}; choose a shorter one", path.display(), path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Longest in bytes.
        most: usize,
    },
    /// The operating system refused.
    #[error("{}: {source}; choose a path that this user can make a socket at", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// Another failure of the system.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: &'static str,
        /// Its answer.
        source: io::Error,
    },
    /// More sockets than NICs, or fewer.
    #[error("{sockets} sockets for {nics} NICs: give one a NIC")]
    Sockets {
        /// Sockets.
        sockets: usize,
        /// NICs.
        nics: usize,
    },
    /// A thread panicked.
    #[error("the {0} thread has panicked; this is a bug")]
    Panicked(&'static str),
}

/// How NICs are served.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// A socket a NIC.
    pub sockets: Vec<PathBuf>,
    /// Whether clients may map the doorbell pages.
    pub map_doorbells: bool,
}

/// What is left of a server.
pub struct Served {
    /// The world, at rest.
    pub world: World,
    /// What each socket counted.
    pub lines: Vec<LineStats>,
    /// Vectors signalled.
    pub interrupts: u64,
}

/// NICs that are being served. Dropping it ends that, too, and removes the sockets.
pub struct Server {
    stop: Arc<AtomicBool>,
    alarm: Arc<Alarm>,
    bells: Vec<Arc<Alarm>>,
    clients: Vec<Arc<Current>>,
    nic: Option<JoinHandle<Side>>,
    lines: Vec<JoinHandle<LineStats>>,
    lost: Arc<OnceLock<String>>,
    /// Removes them when it goes.
    _sockets: Vec<SocketFile>,
}

impl Server {
    /// Listens, and serves from threads of its own from now on.
    ///
    /// # Errors
    /// [`ServerError`].
    pub fn start(mut world: World, config: &ServerConfig) -> Result<Server, ServerError> {
        let os = |what| move |source| ServerError::Os { what, source };
        if config.sockets.len() != world.nodes() {
            return Err(ServerError::Sockets {
                sockets: config.sockets.len(),
                nics: world.nodes(),
            });
        }
        let alarm = Alarm::new().map_err(os("make an event descriptor"))?;
        let mut doorbells = Vec::new();
        for node in 0..world.nodes() {
            let vectors = world.function(node).map_or(1, |f| f.vectors());
            let pages = config
                .map_doorbells
                .then(|| Doorbells::new(vectors - 1))
                .transpose();
            let pages = pages.map_err(os("make the doorbell pages"))?;
            doorbells.push(pages.map(Arc::new));
        }
        world.set_hosts(Box::new(Sleeper {
            alarm: Arc::clone(&alarm),
            doorbells: doorbells.iter().flatten().cloned().collect(),
        }));
        let mut side = Side::new(world, doorbells.clone());
        side.prepare_signals()
            .map_err(os("set up asynchronous I/O (io_setup), for interrupts"))?;
        let mut sockets = Vec::new();
        for path in &config.sockets {
            sockets.push(SocketFile::bind(path)?);
        }
        let (jobs, queue) = sync_channel(JOBS_MAX);
        let mut server = Server {
            stop: Arc::new(AtomicBool::new(false)),
            alarm: Arc::clone(&alarm),
            bells: Vec::new(),
            clients: Vec::new(),
            nic: None,
            lines: Vec::new(),
            lost: Arc::new(OnceLock::new()),
            _sockets: Vec::new(),
        };
        let alive = Arc::new(AtomicBool::new(true));
        for (node, socket) in sockets.iter_mut().enumerate() {
            let bell = Alarm::new().map_err(os("make an event descriptor"))?;
            let client = Arc::new(Current::default());
            let (say, says) = channel();
            let (answer, answers) = channel();
            let wires = Wires {
                jobs: jobs.clone(),
                alarm: Arc::clone(&alarm),
                says,
                far: Arc::new(Far::new(say.clone(), answers, Arc::clone(&bell))),
                say,
                answers: answer,
                bell: Arc::clone(&bell),
                client: Arc::clone(&client),
                stop: Arc::clone(&server.stop),
                alive: Arc::clone(&alive),
            };
            let listener = socket.listener().map_err(os("duplicate a socket"))?;
            let pages = doorbells.get(node).cloned().flatten();
            let line = Line::new(node, side.vectors(node), pages, listener, wires);
            let thread = std::thread::Builder::new().name("tsonic-vfio".into());
            let thread = thread.spawn(move || line.run());
            server.lines.push(thread.map_err(os("start a thread"))?);
            server.bells.push(bell);
            server.clients.push(client);
        }
        let (stop, again) = (Arc::clone(&server.stop), alarm);
        let lost = Arc::clone(&server.lost);
        let thread = std::thread::Builder::new().name("tsonic-nic".into());
        let thread = thread.spawn(move || {
            let _alive = Alive(alive);
            run(side, &queue, &stop, &again, &lost)
        });
        server.nic = Some(thread.map_err(os("start a thread"))?);
        server._sockets = sockets;
        Ok(server)
    }

    /// Whether the NIC's thread still runs; it ends by itself only by a panic.
    pub fn is_running(&self) -> bool {
        self.nic.as_ref().is_some_and(|n| !n.is_finished())
    }

    /// Why what the wire leads to is gone for good, if it is. The NIC is served on.
    pub fn lost_wire(&self) -> Option<&str> {
        self.lost.get().map(String::as_str)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // A thread that waits for its client to go on does not hear its bell.
        self.clients.iter().for_each(|c| c.hang_up());
        self.bells.iter().for_each(|b| b.raise());
    }

    /// Ends it: clients see a closed connection.
    ///
    /// # Errors
    /// [`ServerError::Panicked`].
    pub fn stop(mut self) -> Result<Served, ServerError> {
        self.end();
        let mut lines = Vec::new();
        // The sockets' threads first: they need the NIC's to take leave.
        for line in self.lines.drain(..) {
            lines.push(line.join().map_err(|_| ServerError::Panicked("socket's"))?);
        }
        self.alarm.raise();
        let nic = self.nic.take().ok_or(ServerError::Panicked("NIC's"))?;
        let side = nic.join().map_err(|_| ServerError::Panicked("NIC's"))?;
        Ok(Served {
            interrupts: side.signalled(),
            world: side.into_world(),
            lines,
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        for line in self.lines.drain(..) {
            // A panic has said so on standard error.
            let _ = line.join();
        }
        self.alarm.raise();
        if let Some(nic) = self.nic.take() {
            let _ = nic.join();
        }
    }
}

/// Says, however the thread ends, that it has.
struct Alive(Arc<AtomicBool>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// The NIC's thread. It ends when the last socket's thread has gone.
fn run(
    mut side: Side,
    jobs: &Receiver<Job>,
    stop: &AtomicBool,
    again: &Alarm,
    lost: &OnceLock<String>,
) -> Side {
    use std::sync::mpsc::TryRecvError;
    loop {
        side.exchange();
        let mut done = 0;
        while done < JOBS_A_TURN {
            match jobs.try_recv() {
                Ok(job) => {
                    // Tails that the client stored before it spoke.
                    side.exchange();
                    job(&mut side);
                    done += 1;
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return side,
            }
        }
        if done == JOBS_A_TURN || stop.load(Ordering::SeqCst) {
            // More is waiting: no sleep.
            again.raise();
        }
        side.signal();
        side.world().step(None);
        side.signal();
        if let Some(why) = side.world().lost_peer() {
            lost.get_or_init(|| why.to_string());
        }
    }
}
