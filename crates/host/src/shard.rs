// SPDX-License-Identifier: MIT OR Apache-2.0
//! The event loop of one shard: an engine, a NIC and its clock.
//!
//! A turn is: reap transmit completions, receive frames, call the application,
//! let the engine post, ring doorbells. Completions come first, so that the ACK
//! of a burst finds the burst's departure known. Between turns the shard waits
//! on the device's clock: for a completion, or for the engine's next timer.

use crate::control::protocol::{Greeting, Reply, Request};
use crate::control::{self, Failure, Inbox};
use crate::nic::{Nic, NicConfig, Pool};
use thiserror::Error;
use tsonic_driver::{Device, DriverError};
use tsonic_pci::{PciFunction, Wake};
use tsonic_tcp::{Config, Engine, RxPort};
use tsonic_types::Nanos;

/// Frames handled in one turn before the engine posts.
const RX_BUDGET: usize = 256;

/// Control requests answered in one turn.
const REQUESTS: usize = 2;

/// Why a shard stopped.
#[derive(Debug, Error)]
pub enum HostError {
    /// The driver or the device failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Memory of a shard's engine, for what its connections send. Five eighths of the chunks
/// are set aside, one for each connection: so many can be open (by default 640), and
/// more are refused. The rest is shared by dynamic thresholds.
#[derive(Clone, Copy, Debug)]
pub struct PoolConfig {
    /// Chunks.
    pub chunks: u32,
    /// Bytes of a chunk: a multiple of 64, at least 16 KiB.
    pub chunk_bytes: u32,
}

impl Default for PoolConfig {
    /// 32 MiB. A burst of 64 KiB lies in three chunks at most; smaller ones would cost
    /// more at each burst, larger ones would admit fewer connections.
    fn default() -> PoolConfig {
        PoolConfig {
            chunks: 1_024,
            chunk_bytes: 32_768,
        }
    }
}

/// An engine on a NIC.
#[derive(Debug)]
pub struct Shard<F: PciFunction> {
    engine: Engine<Pool>,
    nic: Nic<F>,
    control: Option<Control>,
}

/// Where control requests come from.
#[derive(Debug)]
struct Control {
    inbox: Inbox,
    /// How often a shard that waits looks for them.
    look: Option<Nanos>,
}

impl<F: PciFunction> Shard<F> {
    /// Opens the device and starts an engine on it.
    ///
    /// # Errors
    /// [`HostError`].
    pub fn start(
        function: F,
        engine: Config,
        nic: &NicConfig,
        pool: PoolConfig,
    ) -> Result<Shard<F>, HostError> {
        let mut device = Device::open(function)?;
        let pool = Pool::new(device.chunk_pool(pool.chunks, pool.chunk_bytes)?);
        let nic = Nic::start(device, nic, pool.map())?;
        Ok(Shard {
            engine: Engine::new(engine, pool),
            nic,
            control: None,
        })
    }

    /// What the shard says about itself to a client of its control socket: that it
    /// does `role`, with a NIC called `kind`.
    pub fn greeting(&mut self, role: &str, kind: &str) -> Greeting {
        control::greeting(&self.engine, &mut self.nic, role, kind)
    }

    /// Answers requests from `inbox` between turns, from now on. `look` bounds a
    /// [`Shard::wait`], on the device's clock, so that an idle shard answers, too;
    /// `None` where waiting takes no time as the clock is virtual.
    pub fn answer(&mut self, inbox: Inbox, look: Option<Nanos>) {
        self.control = Some(Control { inbox, look });
    }

    /// Does what a client could ask for, at once.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn request(&mut self, request: Request) -> Result<Reply, Failure> {
        let now = self.now();
        control::serve(&mut self.engine, &mut self.nic, now, request)
    }

    /// Does what control asks for.
    #[inline]
    fn control(&mut self, now: Nanos) {
        let Some(control) = &self.control else {
            return;
        };
        for _ in 0..REQUESTS {
            let Some(message) = control.inbox.take() else {
                return;
            };
            let done = control::serve(&mut self.engine, &mut self.nic, now, message.request);
            // Whoever asked may have gone.
            let _ = message.answer.try_send((now, done));
        }
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut Engine<Pool> {
        &mut self.engine
    }

    /// The NIC.
    pub fn nic(&mut self) -> &mut Nic<F> {
        &mut self.nic
    }

    /// The device's clock.
    pub fn now(&mut self) -> Nanos {
        self.nic.device().now()
    }

    /// One turn. `application` runs between input and output; it reads, writes,
    /// opens and closes connections of the engine. Says whether received frames
    /// may be left, in which case the next turn is due at once.
    ///
    /// # Errors
    /// [`HostError::Driver`] when the device is gone.
    pub fn turn(
        &mut self,
        application: impl FnOnce(&mut Engine<Pool>, Nanos),
    ) -> Result<bool, HostError> {
        let now = self.now();
        self.control(now);
        let (nic, engine) = (&mut self.nic, &mut self.engine);
        nic.look(now);
        nic.reap(usize::MAX, |c| engine.on_tx_completion(now, c));
        nic.revive(now, |c| engine.on_tx_completion(now, c))?;
        let received = nic.receive(RX_BUDGET, |frame, meta| engine.on_frame(now, frame, meta));
        application(engine, now);
        engine.poll(now, nic);
        match nic.take_fault() {
            Some(fault) => Err(fault.into()),
            None => Ok(received == RX_BUDGET),
        }
    }

    /// Waits until there is something to do, at most until `deadline`.
    ///
    /// # Errors
    /// [`HostError::Driver`] when the device is gone.
    pub fn wait(&mut self, deadline: Option<Nanos>) -> Result<Wake, HostError> {
        let timer = self.engine.next_timer();
        let until = match (timer, deadline) {
            (Some(t), Some(d)) => Some(t.min(d)),
            (t, d) => t.or(d),
        };
        let look = self.control.as_ref().and_then(|c| c.look);
        let until = match look.map(|span| self.nic.device().now() + span) {
            Some(look) => Some(until.map_or(look, |u| u.min(look))),
            None => until,
        };
        Ok(self.nic.wait(until)?)
    }
}
