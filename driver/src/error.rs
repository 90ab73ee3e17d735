// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can fail: one variant a failure, each with what to do about it.

use std::io;
use thiserror::Error;
use tsonic_pci::BusError;
use tsonic_regs::Status;
use tsonic_types::QueueId;

/// A contract version as people write it.
fn version(v: u32) -> String {
    format!("{}.{}", v >> 16, v & 0xffff)
}

/// Why the device or one of its queues cannot be had.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The function's bus failed.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// Registers read as all ones.
    #[error(
        "the device does not answer (registers read as all ones): check that it has power and link, that memory decoding is on, and that no other driver has reset it"
    )]
    NotResponding,
    /// Another device, or none of ours.
    #[error(
        "this is no tsonic NIC (first register {found:#010x}): check the PCI address, and that the bitstream is loaded"
    )]
    WrongMagic {
        /// What the first register holds.
        found: u32,
    },
    /// The device speaks another contract.
    #[error(
        "the device speaks contract {}, this driver {}: load a bitstream built for contract {}.x, or use the driver that came with the bitstream",
        version(*device), version(*driver), driver >> 16
    )]
    ContractMajor {
        /// Version of the device.
        device: u32,
        /// Version of the driver.
        driver: u32,
    },
    /// The device speaks an older form of the contract.
    #[error(
        "the device speaks contract {}, older than this driver's {}: load a newer bitstream, or use an older driver",
        version(*device), version(*driver)
    )]
    ContractMinor {
        /// Version of the device.
        device: u32,
        /// Version of the driver.
        driver: u32,
    },
    /// A limit register holds what cannot be.
    #[error(
        "register {register} holds {value}, which no build can have: the bitstream is damaged, load it again"
    )]
    BadLimit {
        /// Name of the register.
        register: &'static str,
        /// Its value.
        value: u32,
    },
    /// A reset did not end.
    #[error("the device is still resetting after {millis} ms: power-cycle it")]
    ResetTimedOut {
        /// How long was waited on the device's clock.
        millis: u64,
    },
    /// The device has fewer queues.
    #[error("queue {queue} does not exist: the device has queues 0 to {}", queues - 1)]
    NoSuchQueue {
        /// The queue asked for.
        queue: QueueId,
        /// Queue pairs of the device.
        queues: u16,
    },
    /// The queue has a handle already.
    #[error("queue {0} is in use: close its handle first")]
    QueueInUse(QueueId),
    /// The ring size is none of the contract's.
    #[error("{what} of 2^{log2} entries: choose 2^{min} to 2^{max}")]
    RingSize {
        /// Which ring.
        what: &'static str,
        /// log2 of its entries.
        log2: u8,
        /// Least.
        min: usize,
        /// Most.
        max: usize,
    },
    /// A setting is out of range.
    #[error("{name} is {value}: choose {range}")]
    BadSetting {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: u64,
        /// What it may be.
        range: &'static str,
    },
    /// No memory.
    #[error(
        "cannot get {bytes} bytes of DMA memory ({source}): free some, raise the memlock limit, or ask for fewer or smaller rings"
    )]
    Memory {
        /// Bytes asked for.
        bytes: usize,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Bursts stay in a queue that was turned off.
    #[error(
        "queue {queue} still holds {outstanding} bursts {millis} ms after it was turned off: reset the device"
    )]
    NotDrained {
        /// The queue.
        queue: QueueId,
        /// Bursts without a completion.
        outstanding: usize,
        /// How long was waited on the device's clock.
        millis: u64,
    },
    /// The device does not have that.
    #[error("this build has no {0}: see its FEATURES register, or load another bitstream")]
    NotSupported(&'static str),
}

/// Why a burst was not posted. Nothing was, and it stays with the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// No room for a burst until a completion makes some.
    #[error("queue {0} is full: reap completions, then post again")]
    Backpressure(QueueId),
    /// The queue is turned off.
    #[error("queue {0} is down: enable it")]
    QueueDown(QueueId),
    /// The device would not take the burst.
    #[error("the burst breaks the contract: {0}")]
    Refused(Status),
}
