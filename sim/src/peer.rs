// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Linux kernel as the peer of a connection: sockets in the namespace of a TAP
//! port, served by helper threads.
//!
//! Every wait of a helper ends: with its work, with [`KernelPeer`]'s end, or with a
//! time-out of its own.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::netns::{Namespace, TapConfig, TapError};
use crate::tap::TapPort;

/// How often a helper looks whether it should end.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a read or write.
const CHUNK: usize = 256 * 1024;
/// How long an address may take to become usable.
const ADDRESS_WAIT: Duration = Duration::from_secs(3);

/// What one connection brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The other end.
    pub from: SocketAddr,
    /// Bytes up to the end of the stream.
    pub bytes: u64,
    /// SHA-256 over them.
    pub sha256: [u8; 32],
    /// From the accept (or the first write) to the end.
    pub elapsed: Duration,
}

/// Sees the bytes of a connection as they come: connection number, offset, bytes.
pub type OnData = Arc<dyn Fn(usize, u64, &[u8]) + Send + Sync>;

/// Fills the buffer with the bytes of a stream from an offset.
pub type Source = Box<dyn FnMut(u64, &mut [u8]) + Send>;

/// The kernel at the far end. Dropping it tells every helper to end.
pub struct KernelPeer {
    namespace: Namespace,
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
}

/// Work that goes on in helper threads.
pub struct Pending<T> {
    thread: JoinHandle<Result<T, TapError>>,
}

impl<T> Pending<T> {
    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for its end. The NIC's clock must go on meanwhile for it to come, so
    /// this is called when [`Pending::is_finished`], or by another thread.
    ///
    /// # Errors
    /// [`TapError`].
    pub fn join(self) -> Result<T, TapError> {
        let result = self.thread.join();
        result.unwrap_or(Err(TapError::Gone("it panicked")))
    }
}

impl KernelPeer {
    /// A kernel in a namespace of its own, and the port that reaches it.
    ///
    /// # Errors
    /// [`TapError`], with the remedy when it is a matter of permission.
    pub fn start(config: &TapConfig) -> Result<(KernelPeer, TapPort), TapError> {
        let (peer, tap) = KernelPeer::behind_tap(config)?;
        Ok((peer, TapPort::new(tap)))
    }

    /// A kernel in a namespace of its own, and the descriptor of the TAP interface that
    /// reaches it, for a NIC in another process.
    ///
    /// # Errors
    /// As [`KernelPeer::start`].
    pub fn behind_tap(config: &TapConfig) -> Result<(KernelPeer, OwnedFd), TapError> {
        let (namespace, tap) = Namespace::create(config)?;
        let peer = KernelPeer {
            namespace,
            stop: Arc::new(AtomicBool::new(false)),
            received: Arc::new(AtomicU64::new(0)),
        };
        Ok((peer, tap))
    }

    /// The namespace, for sockets of other kinds.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Bytes received by all connections so far.
    pub fn bytes_received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Listens, and receives from `connections` connections to their ends. The
    /// socket listens when this returns. Port 0: any; see the second value.
    ///
    /// # Errors
    /// [`TapError`] when it cannot listen.
    pub fn listen(
        &self,
        address: SocketAddr,
        connections: usize,
        on_data: Option<OnData>,
    ) -> Result<(Pending<Vec<Received>>, SocketAddr), TapError> {
        let (ready, listening) = channel();
        let (stop, total) = (Arc::clone(&self.stop), Arc::clone(&self.received));
        let thread = self.namespace.spawn(move || {
            let listener = match listen(address) {
                Ok(l) => l,
                Err(e) => {
                    // The asker waits for exactly this.
                    let _ = ready.send(Err(e));
                    return Err(TapError::Gone("it could not listen"));
                }
            };
            let _ = ready.send(
                listener
                    .local_addr()
                    .map_err(TapError::os("name of a socket")),
            );
            accept_all(&listener, connections, &on_data, &stop, &total)
        })?;
        let at = listening
            .recv()
            .map_err(|_| TapError::Gone("it could not listen"))??;
        Ok((Pending { thread }, at))
    }

    /// Connects, sends `bytes` bytes of `source`, ends the stream, and receives to
    /// the other end's end. `timeout` bounds the connecting.
    ///
    /// # Errors
    /// [`TapError`] when there is no thread.
    pub fn send(
        &self,
        to: SocketAddr,
        bytes: u64,
        mut source: Source,
        timeout: Duration,
    ) -> Result<Pending<Received>, TapError> {
        let (stop, total) = (Arc::clone(&self.stop), Arc::clone(&self.received));
        let thread = self.namespace.spawn(move || {
            let stream =
                TcpStream::connect_timeout(&to, timeout).map_err(TapError::os("connect"))?;
            let started = Instant::now();
            let sender = stream
                .try_clone()
                .map_err(TapError::os("duplicate a socket"))?;
            let stop_sending = Arc::clone(&stop);
            // Both directions at once, or a peer that answers as it receives
            // would fill both.
            let sending =
                std::thread::spawn(move || send_all(sender, bytes, &mut source, &stop_sending));
            let received = receive_all(stream, to, started, 0, &None, &stop, &total)?;
            match sending.join() {
                Ok(sent) => sent.map(|()| received),
                Err(_) => Err(TapError::Gone("the sending one panicked")),
            }
        })?;
        Ok(Pending { thread })
    }
}

impl Drop for KernelPeer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, TapError> {
    let started = Instant::now();
    loop {
        match TcpListener::bind(address) {
            Ok(l) => {
                l.set_nonblocking(true)
                    .map_err(TapError::os("make a socket non-blocking"))?;
                return Ok(l);
            }
            // An IPv6 address that is still being tried for duplicates.
            Err(e)
                if e.kind() == ErrorKind::AddrNotAvailable && started.elapsed() < ADDRESS_WAIT =>
            {
                std::thread::sleep(LOOK);
            }
            Err(e) => return Err(TapError::os("listen")(e)),
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    connections: usize,
    on_data: &Option<OnData>,
    stop: &Arc<AtomicBool>,
    total: &Arc<AtomicU64>,
) -> Result<Vec<Received>, TapError> {
    let mut receivers = Vec::new();
    while receivers.len() < connections {
        if stop.load(Ordering::Relaxed) {
            return Err(TapError::Gone("it was told to end"));
        }
        match listener.accept() {
            Ok((stream, from)) => {
                let (on_data, number) = (on_data.clone(), receivers.len());
                let (stop, total) = (Arc::clone(stop), Arc::clone(total));
                receivers.push(std::thread::spawn(move || {
                    stream
                        .set_nonblocking(false)
                        .map_err(TapError::os("make a socket blocking"))?;
                    receive_all(
                        stream,
                        from,
                        Instant::now(),
                        number,
                        &on_data,
                        &stop,
                        &total,
                    )
                }));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::sleep(LOOK / 10),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(TapError::os("accept")(e)),
        }
    }
    let ended = receivers.into_iter().map(|r| match r.join() {
        Ok(received) => received,
        Err(_) => Err(TapError::Gone("a receiving one panicked")),
    });
    ended.collect()
}

fn receive_all(
    mut stream: TcpStream,
    from: SocketAddr,
    started: Instant,
    number: usize,
    on_data: &Option<OnData>,
    stop: &AtomicBool,
    total: &AtomicU64,
) -> Result<Received, TapError> {
    stream
        .set_read_timeout(Some(LOOK))
        .map_err(TapError::os("set a time-out"))?;
    let mut buffer = vec![0; CHUNK];
    let mut digest = Sha256::new();
    let mut bytes = 0u64;
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => {
                digest.update(&buffer[..n]);
                if let Some(f) = on_data {
                    f(number, bytes, &buffer[..n]);
                }
                bytes += n as u64;
                total.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(e) if later(&e) => {}
            Err(e) => return Err(TapError::os("receive")(e)),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(TapError::Gone("it was told to end"));
        }
    }
    Ok(Received {
        from,
        bytes,
        sha256: digest.finalize().into(),
        elapsed: started.elapsed(),
    })
}

fn send_all(
    mut stream: TcpStream,
    bytes: u64,
    source: &mut Source,
    stop: &AtomicBool,
) -> Result<(), TapError> {
    stream
        .set_write_timeout(Some(LOOK))
        .map_err(TapError::os("set a time-out"))?;
    let mut buffer = vec![0; CHUNK];
    let mut sent = 0;
    while sent < bytes {
        let n = (bytes - sent).min(CHUNK as u64) as usize;
        source(sent, &mut buffer[..n]);
        let mut done = 0;
        while done < n {
            match stream.write(&buffer[done..n]) {
                Ok(written) => done += written,
                Err(e) if later(&e) => {}
                Err(e) => return Err(TapError::os("send")(e)),
            }
            if stop.load(Ordering::Relaxed) {
                return Err(TapError::Gone("it was told to end"));
            }
        }
        sent += n as u64;
    }
    stream
        .shutdown(Shutdown::Write)
        .map_err(TapError::os("end the stream"))
}

/// Nothing yet: try again.
fn later(e: &std::io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
