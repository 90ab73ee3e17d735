// SPDX-License-Identifier: MIT OR Apache-2.0
//! A whole NIC behind the real driver, for one burst or one frame at a time: the
//! far end of the wire records what the NIC sends, and sends what it is given.
//!
//! Frames are without FCS, and the wire pads none. Time is virtual.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use thiserror::Error;
use tsonic_driver::{Device, DriverError};
use tsonic_sim::inproc::InprocFunction;
use tsonic_sim::model::ModelConfig;
use tsonic_sim::nic::Nic;
use tsonic_sim::root_complex::RootComplexConfig;
use tsonic_sim::rtl::RtlError;
use tsonic_sim::wire::PathConfig;
use tsonic_sim::world::{LinkConfig, Peer, World};
use tsonic_types::{Nanos, TickRate, Ticks};

/// Why there is no bench.
#[derive(Debug, Error)]
pub enum RigError {
    /// The compiled NIC is not to be had.
    #[error(transparent)]
    Rtl(#[from] RtlError),
    /// The driver does not get along with the NIC.
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// An open device.
pub type NicDevice = Device<InprocFunction>;

#[derive(Default)]
struct Ends {
    /// Frames that the NIC sent, oldest first.
    sent: Vec<Vec<u8>>,
    /// Frames for the NIC.
    given: VecDeque<Vec<u8>>,
}

/// The far end of the wire, as its owner sees it.
#[derive(Clone, Default)]
pub struct FarEnd(Arc<Mutex<Ends>>);

impl FarEnd {
    fn ends(&self) -> MutexGuard<'_, Ends> {
        // Two queues of frames are whole at any time.
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes all frames that the NIC has sent.
    pub fn take(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.ends().sent)
    }

    /// Sends a frame to the NIC as soon as time moves.
    pub fn give(&self, frame: Vec<u8>) {
        self.ends().given.push_back(frame);
    }
}

impl Peer for FarEnd {
    fn receive(&mut self, _: Ticks, frame: &[u8]) {
        self.ends().sent.push(frame.to_vec());
    }

    fn next_event(&self) -> Option<Ticks> {
        // At once: the world never moves to an earlier tick than its own.
        (!self.ends().given.is_empty()).then_some(Ticks::ZERO)
    }

    fn poll(&mut self, _: Ticks, send: &mut dyn FnMut(&[u8])) {
        for frame in self.ends().given.drain(..) {
            send(&frame);
        }
    }

    fn real_time(&self) -> bool {
        false
    }

    fn wait(&mut self, _: Duration) {}
}

/// Opens `nic` behind a wire without delay or padding.
///
/// # Errors
/// [`RigError::Driver`].
pub fn open(nic: Box<dyn Nic + Send>) -> Result<(NicDevice, FarEnd), RigError> {
    let far = FarEnd::default();
    let path = PathConfig {
        delay: Nanos::ZERO,
        pad: false,
        ..PathConfig::default()
    };
    let link = LinkConfig {
        out: path,
        back: path,
        ..LinkConfig::default()
    };
    let bus = RootComplexConfig::default();
    Ok((open_behind(nic, bus, link, Box::new(far.clone()))?, far))
}

/// Opens `nic` on `bus` and a wire with `peer` at its far end.
///
/// # Errors
/// [`RigError::Driver`].
pub fn open_behind(
    nic: Box<dyn Nic + Send>,
    bus: RootComplexConfig,
    link: LinkConfig,
    peer: Box<dyn Peer>,
) -> Result<NicDevice, RigError> {
    let world = World::new(nic, bus, link, Some(peer));
    Ok(Device::open(InprocFunction::new(world))?)
}

/// A model that fills a wire of 100 Gb/s.
pub fn fast_model() -> ModelConfig {
    ModelConfig {
        width: 512,
        tick_rate: FAST_CLOCK,
        payload_window: 16_384,
        ..ModelConfig::default()
    }
}

/// PCI Express 4.0 x16 at the clock of [`fast_model`], behind a server's memory.
pub fn fast_bus() -> RootComplexConfig {
    RootComplexConfig {
        read_latency: Ticks(120),
        write_latency: Ticks(60),
        bytes_per_tick: 126.0,
        outstanding: 256,
        ..RootComplexConfig::default()
    }
}

const FAST_CLOCK: TickRate = match TickRate::new(250_000_000) {
    Some(rate) => rate,
    None => unreachable!(),
};
