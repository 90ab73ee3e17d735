// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread of one socket: it reads what the client says, has it done by the NIC's
//! thread, and answers. Only this thread uses the socket.
//!
//! # Memory without a file
//! When the NIC needs memory that came without a file, its thread asks this one, which
//! sends DMA_READ or DMA_WRITE and keeps apart what else the client says until the answer
//! is there. This thread listens to the NIC's whenever it waits for it, so neither waits
//! for the other for good; and a client that does not answer within [`FAR_WAIT`] has
//! given the NIC an address fault, no more. (A client that answers nothing while it waits
//! for a reply of its own is one of those.) It is not asked again until it has answered,
//! late: else each access of thousands would cost the NIC, and the clients of others in
//! its world, that wait.

use std::collections::VecDeque;
use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use tsonic_vfio_user::socket::{self, Message, SocketError, timespec};
use tsonic_vfio_user::{
    Command, DmaAccess, Errno, HEADER_BYTES, Header, Kind, Request, parse_access_reply,
};

use super::alarm::Alarm;
use super::doorbells::Doorbells;
use super::session::{Job, Over, Owner, Reply, Session};
use crate::root_complex::FarMemory;

/// How long the NIC waits for memory that it has to ask for.
pub const FAR_WAIT: Duration = Duration::from_secs(1);
/// How long a client may take to finish a message that it has begun, or to take one.
const MESSAGE_WAIT: Duration = Duration::from_secs(10);
/// How often a thread that waits for another looks whether that is still there.
const LOOK: Duration = Duration::from_millis(100);
/// Messages kept apart while the client is asked for memory, and their bytes.
const BACKLOG_MAX: usize = 1024;
const BACKLOG_BYTES: usize = 16 << 20;

/// What the NIC's thread says to a socket's.
pub enum Say {
    /// The job is done.
    Done,
    /// It needs memory.
    Read {
        serial: u64,
        deadline: Instant,
        address: u64,
        bytes: usize,
    },
    /// It writes memory.
    Write {
        serial: u64,
        deadline: Instant,
        address: u64,
        data: Vec<u8>,
    },
}

/// Answer to a request for memory, by its serial number; `None`: it failed.
type Answer = (u64, Option<Vec<u8>>);

/// The client's memory, as the NIC's thread asks for it.
pub struct Far {
    asks: Mutex<Sender<Say>>,
    answers: Mutex<Receiver<Answer>>,
    bell: Arc<Alarm>,
    serial: AtomicU64,
    /// The client owes an answer, and its time is over.
    silent: AtomicBool,
}

impl Far {
    pub fn new(asks: Sender<Say>, answers: Receiver<Answer>, bell: Arc<Alarm>) -> Far {
        Far {
            asks: Mutex::new(asks),
            answers: Mutex::new(answers),
            bell,
            serial: AtomicU64::new(0),
            silent: AtomicBool::new(false),
        }
    }

    fn ask(&self, what: impl FnOnce(u64, Instant) -> Say) -> Option<Vec<u8>> {
        if self.silent.load(Ordering::Relaxed) {
            return None;
        }
        let end = Instant::now() + FAR_WAIT;
        let serial = self.serial.fetch_add(1, Ordering::Relaxed);
        {
            let asks = self.asks.lock().unwrap_or_else(PoisonError::into_inner);
            asks.send(what(serial, end)).ok()?;
        }
        self.bell.raise();
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match answers.recv_timeout(left) {
                Ok((answered, data)) if answered == serial => return data,
                // Too late for an earlier one.
                Ok(_) => {}
                Err(_) => return None,
            }
        }
    }
}

impl FarMemory for Far {
    fn read(&self, iova: u64, out: &mut [u8]) -> bool {
        let bytes = out.len();
        let data = self.ask(|serial, deadline| Say::Read {
            serial,
            deadline,
            address: iova,
            bytes,
        });
        match data {
            Some(data) if data.len() == bytes => {
                out.copy_from_slice(&data);
                true
            }
            _ => false,
        }
    }

    fn write(&self, iova: u64, data: &[u8]) -> bool {
        let done = self.ask(|serial, deadline| Say::Write {
            serial,
            deadline,
            address: iova,
            data: data.to_vec(),
        });
        done.is_some()
    }
}

/// The connection of the client that is served, for who wants to end it.
#[derive(Default)]
pub struct Current(Mutex<Weak<UnixStream>>);

impl Current {
    fn set(&self, stream: &Arc<UnixStream>) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *current = Arc::downgrade(stream);
    }

    /// Ends it: whatever the socket's thread waits for there, it has waited for.
    pub fn hang_up(&self) {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = current.upgrade()
            && let Err(error) = stream.shutdown(Shutdown::Both)
        {
            // The client was faster.
            tracing::debug!(%error, "hang up");
        }
    }
}

/// What a socket's thread has to do with the others.
pub struct Wires {
    /// To the NIC's thread.
    pub jobs: SyncSender<Job>,
    /// Wakes the NIC's thread.
    pub alarm: Arc<Alarm>,
    /// From the NIC's thread.
    pub says: Receiver<Say>,
    pub say: Sender<Say>,
    pub answers: Sender<Answer>,
    pub far: Arc<Far>,
    /// Wakes this thread.
    pub bell: Arc<Alarm>,
    /// Whom this thread serves.
    pub client: Arc<Current>,
    /// This thread is to end; who sets it hangs up next.
    pub stop: Arc<AtomicBool>,
    /// The NIC's thread runs.
    pub alive: Arc<AtomicBool>,
}

/// What a socket's thread has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineStats {
    /// Clients that were served.
    pub clients: u64,
    /// Clients that were turned away, for another was there.
    pub turned_away: u64,
    /// Messages from clients.
    pub messages: u64,
    /// Connections that ended because what came was no message.
    pub broken: u64,
}

/// A socket and its thread's affairs.
pub struct Line {
    node: usize,
    vectors: u32,
    doorbells: Option<Arc<Doorbells>>,
    listener: UnixListener,
    wires: Wires,
    stats: LineStats,
}

fn readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|n| n > 0)
}

fn writable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::OUT)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|n| n > 0)
}

impl Line {
    pub fn new(
        node: usize,
        vectors: u32,
        doorbells: Option<Arc<Doorbells>>,
        listener: UnixListener,
        wires: Wires,
    ) -> Line {
        Line {
            node,
            vectors,
            doorbells,
            listener,
            wires,
            stats: LineStats::default(),
        }
    }

    /// Serves one client after the other until it is told to stop.
    pub fn run(mut self) -> LineStats {
        while !self.wires.stop.load(Ordering::SeqCst) {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.stats.clients += 1;
                    self.serve(stream);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let listener = self.listener.as_fd();
                    self.wires.bell.sleep(&[listener], None);
                }
                Err(error) => {
                    // Too many descriptors, maybe: it can be over soon.
                    tracing::debug!(%error, "accept");
                    std::thread::sleep(LOOK);
                }
            }
        }
        self.stats
    }

    fn serve(&mut self, stream: UnixStream) {
        let node = self.node;
        let stream = Arc::new(stream);
        self.wires.client.set(&stream);
        self.wires.far.silent.store(false, Ordering::Relaxed);
        let mut client = Client {
            wires: &self.wires,
            stream: &stream,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            next_id: 0,
            full: false,
            gone: false,
        };
        let session = Session::new(node, self.vectors, self.doorbells.clone());
        if client.call(Box::new(move |side| side.join(node))).is_ok() {
            let ended = client.converse(session, &self.listener, &mut self.stats);
            tracing::debug!(?ended, "the client has gone");
        }
        // Nothing more is asked of it: what the NIC still wants fails at once.
        client.gone = true;
        if client.call(Box::new(move |side| side.leave(node))).is_err() {
            tracing::debug!("the NIC's thread has gone");
        }
    }
}

struct Client<'a> {
    wires: &'a Wires,
    stream: &'a UnixStream,
    /// What came while the client was asked for memory.
    backlog: VecDeque<(Message, Vec<u8>)>,
    backlog_bytes: usize,
    next_id: u16,
    /// It has not taken what it was asked last.
    full: bool,
    gone: bool,
}

impl Client<'_> {
    /// Until one end has enough.
    fn converse(
        &mut self,
        mut session: Session,
        listener: &UnixListener,
        stats: &mut LineStats,
    ) -> Result<(), Over> {
        let (mut body, mut reply) = (Vec::new(), Reply::default());
        loop {
            let message = match self.backlog.pop_front() {
                Some((message, kept)) => {
                    self.backlog_bytes -= kept.len();
                    body = kept;
                    message
                }
                None => {
                    self.await_message(listener, stats)?;
                    if !self.backlog.is_empty() {
                        continue;
                    }
                    let deadline = Instant::now() + MESSAGE_WAIT;
                    match socket::receive(self.stream, &mut body, Some(deadline)) {
                        Ok(message) => message,
                        Err(SocketError::Closed) => return Err(Over),
                        Err(error) => {
                            tracing::debug!(%error, "the connection ends");
                            stats.broken += 1;
                            return Err(Over);
                        }
                    }
                }
            };
            stats.messages += 1;
            let Message { header, fds } = message;
            self.answered(&header);
            session.message(&header, &body, fds, self, &mut reply)?;
            if !reply.bytes.is_empty() {
                let deadline = Instant::now() + MESSAGE_WAIT;
                let file = reply.doorbells.as_ref().map(|d| d.file()).transpose();
                let file = file.map_err(|_| Over)?;
                let file = file.as_ref().map(|f| f.as_fd());
                let sent = socket::send(self.stream, &reply.bytes, file.as_slice(), Some(deadline));
                sent.map_err(|_| Over)?;
            }
        }
    }

    /// Returns when there is something to read, from the socket or kept apart.
    fn await_message(
        &mut self,
        listener: &UnixListener,
        stats: &mut LineStats,
    ) -> Result<(), Over> {
        loop {
            self.listen_to_nic()?;
            if self.wires.stop.load(Ordering::SeqCst) || self.gone {
                return Err(Over);
            }
            if !self.backlog.is_empty() || readable(self.stream.as_fd()) {
                return Ok(());
            }
            let others = [self.stream.as_fd(), listener.as_fd()];
            let said = self.wires.bell.sleep(&others, None);
            // One client at a time: another is not left waiting, unless this one has just
            // gone.
            if said
                && !readable(self.stream.as_fd())
                && readable(listener.as_fd())
                && let Ok((other, _)) = listener.accept()
            {
                stats.turned_away += 1;
                turn_away(&other);
            }
        }
    }

    /// Does what the NIC's thread has asked for meanwhile, until there is something else
    /// to do: the next may be asked for at once.
    fn listen_to_nic(&mut self) -> Result<(), Over> {
        loop {
            match self.wires.says.try_recv() {
                Ok(said) => {
                    self.hear(said);
                }
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(Over),
            }
            let stop = self.wires.stop.load(Ordering::SeqCst);
            if stop || self.gone || !self.backlog.is_empty() {
                return Ok(());
            }
        }
    }

    /// A client that answers, however late, is asked again.
    fn answered(&self, header: &Header) {
        if matches!(header.kind, Kind::Reply(_)) && is_dma(header.command) {
            self.wires.far.silent.store(false, Ordering::Relaxed);
        }
    }

    /// Whether the job is done.
    fn hear(&mut self, said: Say) -> bool {
        let (serial, result) = match said {
            Say::Done => return true,
            Say::Read {
                serial,
                deadline,
                address,
                bytes,
            } => {
                let access = DmaAccess {
                    address,
                    count: bytes as u64,
                };
                let request = Request::DmaRead(access);
                (serial, self.far(&request, &access, bytes, deadline))
            }
            Say::Write {
                serial,
                deadline,
                address,
                data,
            } => {
                let access = DmaAccess {
                    address,
                    count: data.len() as u64,
                };
                let request = Request::DmaWrite(access, &data);
                (serial, self.far(&request, &access, 0, deadline))
            }
        };
        // The NIC's thread may have given up meanwhile.
        let _ = self.wires.answers.send((serial, result));
        false
    }

    /// Asks the client; the data of the answer.
    fn far(
        &mut self,
        request: &Request<'_>,
        access: &DmaAccess,
        bytes: usize,
        deadline: Instant,
    ) -> Option<Vec<u8>> {
        // This one may have been asked before the last was known to be in vain.
        let silent = self.wires.far.silent.load(Ordering::Relaxed);
        if self.gone || silent || Instant::now() >= deadline {
            return None;
        }
        // It is not waited for once more to make room.
        if self.full && !writable(self.stream.as_fd()) {
            return None;
        }
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let mut body = Vec::new();
        request.encode(&mut body);
        let mut message = Vec::with_capacity(body.len() + 16);
        Header::command(id, request.command(), body.len(), true).encode(&mut message);
        message.extend_from_slice(&body);
        let deadline = Some(deadline);
        if let Err(error) = socket::send(self.stream, &message, &[], deadline) {
            tracing::debug!(%error, "memory cannot be asked for");
            self.full = matches!(error, SocketError::TimedOut);
            self.gone |= !self.full;
            return None;
        }
        self.full = false;
        loop {
            let received = match socket::receive(self.stream, &mut body, deadline) {
                Ok(received) => received,
                Err(error) => {
                    tracing::debug!(%error, "memory that was asked for does not come");
                    let silent = matches!(error, SocketError::TimedOut);
                    self.wires.far.silent.store(silent, Ordering::Relaxed);
                    self.gone |= !silent;
                    return None;
                }
            };
            let header = received.header;
            self.answered(&header);
            match header.kind {
                Kind::Reply(result) if header.id == id && is_dma(header.command) => {
                    result.ok()?;
                    let data = parse_access_reply(access, bytes, &body);
                    return data.ok().map(<[u8]>::to_vec);
                }
                Kind::Reply(_) => {}
                Kind::Command { .. } => {
                    self.backlog_bytes += body.len();
                    let kept = std::mem::take(&mut body);
                    self.backlog.push_back((received, kept));
                    if self.backlog.len() > BACKLOG_MAX || self.backlog_bytes > BACKLOG_BYTES {
                        self.gone = true;
                        return None;
                    }
                }
            }
        }
    }
}

/// Tells a client that another one is served: its VERSION, which is its first message and
/// not waited for here, is answered with EBUSY.
fn turn_away(stream: &UnixStream) {
    let first = Header::command(0, Command::Version, 0, true);
    let mut message = Vec::with_capacity(HEADER_BYTES);
    first.reply(Err(Errno::EBUSY), 0).encode(&mut message);
    if let Err(error) = socket::send(stream, &message, &[], Some(Instant::now())) {
        tracing::debug!(%error, "turned away without a word");
    }
}

const fn is_dma(command: u16) -> bool {
    command == Command::DmaRead as u16 || command == Command::DmaWrite as u16
}

impl Owner for Client<'_> {
    fn call(&mut self, job: Job) -> Result<(), Over> {
        let say = self.wires.say.clone();
        self.post(Box::new(move |side| {
            job(side);
            // What it made fire is there when its reply is.
            side.signal();
            // If nobody listens any more, nobody waits.
            let _ = say.send(Say::Done);
        }))?;
        loop {
            match self.wires.says.recv_timeout(LOOK) {
                Ok(said) => {
                    if self.hear(said) {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if !self.wires.alive.load(Ordering::SeqCst) {
                        return Err(Over);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Over),
            }
        }
    }

    fn post(&mut self, mut job: Job) -> Result<(), Over> {
        loop {
            match self.wires.jobs.try_send(job) {
                Ok(()) => {
                    self.wires.alarm.raise();
                    return Ok(());
                }
                Err(TrySendError::Disconnected(_)) => return Err(Over),
                Err(TrySendError::Full(back)) => {
                    job = back;
                    // It may be waiting for us.
                    self.listen_to_nic()?;
                    std::thread::sleep(Duration::from_micros(50));
                }
            }
        }
    }

    fn far(&self) -> Arc<dyn FarMemory> {
        Arc::clone(&self.wires.far) as Arc<dyn FarMemory>
    }
}
