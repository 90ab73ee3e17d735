// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receiving end: a kernel's socket, or an application on our own engine.

use super::DemoError;
use super::data::BLOCK;
use super::lab::Bus;
use sha2::{Digest, Sha256};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tsonic_host::{HostError, Pool, Shard};
use tsonic_sim::peer::{KernelPeer, OnData, Pending, Received};
use tsonic_tcp::{ConnId, Engine, Error, ListenerId};
use tsonic_types::{Nanos, TenantId};

/// What the connections brought, put together in the order of the parts.
fn whole(parts: &[(u16, &[u8])], ports: &[u16]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for port in ports {
        for (_, bytes) in parts.iter().filter(|(p, _)| p == port) {
            hash.update(bytes);
        }
    }
    hash.finalize().into()
}

/// Connections that a kernel's socket accepts.
pub struct KernelSink {
    pending: Pending<Vec<Received>>,
    /// Bytes by number of the connection; empty when there is only one, whose
    /// hash the socket's thread computes.
    contents: Arc<Mutex<Vec<Vec<u8>>>>,
    flows: u16,
}

impl KernelSink {
    /// Listens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn listen(kernel: &KernelPeer, at: SocketAddr, flows: u16) -> Result<Self, DemoError> {
        let contents = Arc::new(Mutex::new(vec![Vec::new(); usize::from(flows)]));
        let keep = Arc::clone(&contents);
        let on_data: OnData = Arc::new(move |connection, _, bytes: &[u8]| {
            let mut all = keep.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(part) = all.get_mut(connection) {
                part.extend_from_slice(bytes);
            }
        });
        let on_data = (flows > 1).then_some(on_data);
        let (pending, _) = kernel.listen(at, usize::from(flows), on_data)?;
        Ok(KernelSink {
            pending,
            contents,
            flows,
        })
    }

    /// Whether every connection has ended.
    pub fn is_finished(&self) -> bool {
        self.pending.is_finished()
    }

    /// Bytes and SHA-256 of all that was received.
    ///
    /// # Errors
    /// What went wrong at the socket.
    pub fn finish(self, ports: &[u16]) -> Result<(u64, [u8; 32]), DemoError> {
        let received = self.pending.join()?;
        let bytes = received.iter().map(|r| r.bytes).sum();
        if let ([only], 1) = (received.as_slice(), self.flows) {
            return Ok((bytes, only.sha256));
        }
        let all = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let parts: Vec<(u16, &[u8])> = received
            .iter()
            .zip(all.iter())
            .map(|(r, c)| (r.from.port(), c.as_slice()))
            .collect();
        Ok((bytes, whole(&parts, ports)))
    }
}

struct Incoming {
    conn: ConnId,
    port: u16,
    hash: Sha256,
    content: Vec<u8>,
    ended: bool,
}

/// Connections that an application on our engine accepts.
pub struct EngineSink {
    listener: ListenerId,
    incoming: Vec<Incoming>,
    flows: u16,
    block: Vec<u8>,
    /// Bytes received so far.
    pub bytes: u64,
}

impl EngineSink {
    /// Listens.
    ///
    /// # Errors
    /// What the engine says.
    pub fn listen(
        engine: &mut Engine<Pool>,
        at: SocketAddr,
        flows: u16,
    ) -> Result<Self, DemoError> {
        let listener = engine.listen(TenantId(0), at, usize::from(flows))?;
        Ok(EngineSink {
            listener,
            incoming: Vec::new(),
            flows,
            block: vec![0; BLOCK],
            bytes: 0,
        })
    }

    /// Accepts, reads, and closes what has ended.
    ///
    /// # Errors
    /// A connection that was reset.
    pub fn run(&mut self, engine: &mut Engine<Pool>, now: Nanos) -> Result<(), DemoError> {
        while let Some(conn) = engine.accept(self.listener) {
            let port = engine
                .addresses(conn)
                .map_or(0, |(_, remote)| remote.port());
            let (hash, content) = (Sha256::new(), Vec::new());
            self.incoming.push(Incoming {
                conn,
                port,
                hash,
                content,
                ended: false,
            });
        }
        for i in self.incoming.iter_mut().filter(|i| !i.ended) {
            loop {
                match engine.read(i.conn, &mut self.block) {
                    Ok(0) => {
                        i.ended = true;
                        engine.close(now, i.conn);
                        break;
                    }
                    Ok(n) => {
                        self.bytes += n as u64;
                        if self.flows == 1 {
                            i.hash.update(&self.block[..n]);
                        } else {
                            i.content.extend_from_slice(&self.block[..n]);
                        }
                    }
                    Err(Error::WouldBlock) => break,
                    Err(e) => return Err(e.into()),
                }
            }
        }
        Ok(())
    }

    /// Whether every connection has ended.
    pub fn is_finished(&self) -> bool {
        self.incoming.len() == usize::from(self.flows) && self.incoming.iter().all(|i| i.ended)
    }

    /// Bytes and SHA-256 of all that was received.
    pub fn finish(self, ports: &[u16]) -> (u64, [u8; 32]) {
        if let ([only], 1) = (self.incoming.as_slice(), self.flows) {
            return (self.bytes, only.hash.clone().finalize().into());
        }
        let parts: Vec<(u16, &[u8])> = self
            .incoming
            .iter()
            .map(|i| (i.port, i.content.as_slice()))
            .collect();
        (self.bytes, whole(&parts, ports))
    }
}

/// Frames that found no receive buffer at a shard's NIC.
///
/// # Errors
/// [`DemoError::Host`]: the device is gone.
pub fn no_buffer(shard: &mut Shard<Bus>) -> Result<u64, DemoError> {
    let counters = shard.nic().device().counters().map_err(HostError::Driver)?;
    let named = counters.iter().find(|(name, _)| *name == "RX_NO_BUFFER");
    Ok(named.map_or(0, |(_, n)| *n))
}

/// How often a receiver in a thread looks whether it should end, on the device's clock.
const LOOK: Nanos = Nanos::from_millis(20);

/// A receiver with a loop of its own, on a NIC whose clock goes on by itself. Dropping
/// it ends its thread.
pub struct OwnThread {
    thread: Option<JoinHandle<Result<(EngineSink, u64), DemoError>>>,
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
}

impl OwnThread {
    /// Starts it.
    ///
    /// # Errors
    /// [`DemoError::Process`] when there is no thread.
    pub fn spawn(mut sink: EngineSink, mut shard: Box<Shard<Bus>>) -> Result<Self, DemoError> {
        let stop = Arc::new(AtomicBool::new(false));
        let bytes = Arc::new(AtomicU64::new(0));
        let (stopped, counted) = (Arc::clone(&stop), Arc::clone(&bytes));
        let thread = std::thread::Builder::new().name("tsonic-receiver".into());
        let thread = thread.spawn(move || {
            while !sink.is_finished() && !stopped.load(Ordering::Relaxed) {
                let mut result = Ok(());
                let again = shard.turn(|engine, now| {
                    result = sink.run(engine, now);
                })?;
                result?;
                counted.store(sink.bytes, Ordering::Relaxed);
                if !again && !sink.is_finished() {
                    let look = shard.now() + LOOK;
                    shard.wait(Some(look))?;
                }
            }
            let dropped = no_buffer(&mut shard)?;
            Ok((sink, dropped))
        });
        let thread = thread.map_err(|source| DemoError::Process {
            what: "start the receiver's thread",
            source,
        })?;
        Ok(OwnThread {
            thread: Some(thread),
            stop,
            bytes,
        })
    }

    /// Bytes received so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// What was received, and the frames that found no receive buffer.
    ///
    /// # Errors
    /// What went wrong in the thread.
    pub fn finish(mut self) -> Result<(EngineSink, u64), DemoError> {
        let thread = self.thread.take().ok_or(DemoError::Panicked)?;
        thread.join().map_err(|_| DemoError::Panicked)?
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it says is of no interest any more.
            let _ = thread.join();
        }
    }
}
