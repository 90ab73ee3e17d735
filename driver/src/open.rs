// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opening: is it ours, do we speak its contract, what can it do.

use crate::device::{BAR, WAIT};
use crate::error::DriverError;
use std::mem;
use tsonic_pci::PciFunction;
use tsonic_regs::limits::{FLOW_SLOTS_MAX, PAYLOAD_MAX, QUEUES_MAX};
use tsonic_regs::registers::{Control, Features, Register, features, global};
use tsonic_regs::{CONTRACT_VERSION, MAGIC};
use tsonic_types::{Nanos, TickRate, Ticks};

/// Steps in which is waited.
const WAIT_STEPS: u64 = 1_000;
/// Waits in a row, without the clock moving, after which it is taken to stand.
const STUCK_MAX: u32 = 100_000;
/// What a read of a device that is not there gives.
const ALL_ONES: u32 = u32::MAX;

/// What the device says about itself. Does not change.
#[derive(Clone, Copy, Debug)]
pub struct DeviceInfo {
    /// Contract version: major in the upper 16 bits.
    pub contract_version: u32,
    /// First 32 bits of the build's hash.
    pub build_hash: u32,
    /// What the build can do.
    pub features: Features,
    /// Queue pairs.
    pub queues: u16,
    /// Rows of the flow table, slot 0 included.
    pub flow_slots: u32,
    /// Largest payload of a segment.
    pub max_segment: u32,
    /// Largest payload of a burst.
    pub max_payload: u32,
    /// Bits of the data path.
    pub width: u32,
    /// Frequency of the device's clock.
    pub ticks: TickRate,
}

impl DeviceInfo {
    /// Names of what the build can do, as the FEATURES register has them.
    pub fn feature_names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let bits = self.features.0;
        let built = features::FIELDS.iter();
        built
            .filter(move |f| bits >> f.lsb & 1 == 1)
            .map(|f| f.name)
    }
}

fn read<F: PciFunction>(function: &mut F, register: Register) -> Result<u32, DriverError> {
    Ok(function.read32(BAR, register.offset as u64)?)
}

pub(crate) fn identify<F: PciFunction>(function: &mut F) -> Result<(), DriverError> {
    match read(function, global::MAGIC)? {
        MAGIC => {}
        ALL_ONES => return Err(DriverError::NotResponding),
        found => return Err(DriverError::WrongMagic { found }),
    }
    check_version(read(function, global::CONTRACT_VERSION)?, CONTRACT_VERSION)
}

/// The same major number, and a minor one that has all this driver uses.
fn check_version(device: u32, driver: u32) -> Result<(), DriverError> {
    if device >> 16 != driver >> 16 {
        return Err(DriverError::ContractMajor { device, driver });
    }
    if device & 0xffff < driver & 0xffff {
        return Err(DriverError::ContractMinor { device, driver });
    }
    Ok(())
}

pub(crate) fn await_reset<F: PciFunction>(function: &mut F) -> Result<(), DriverError> {
    let rate = read_tick_rate(function)?;
    let done = poll(function, rate, WAIT, |function| {
        Ok(Control(read(function, global::CONTROL)?).reset() == 0)
    })?;
    if done {
        return Ok(());
    }
    Err(DriverError::ResetTimedOut {
        millis: WAIT.as_millis(),
    })
}

/// Asks `ready` again and again until it is; false when `timeout` has passed on the
/// device's clock, or when that clock stands still.
pub(crate) fn poll<F: PciFunction>(
    function: &mut F,
    rate: TickRate,
    timeout: Nanos,
    mut ready: impl FnMut(&mut F) -> Result<bool, DriverError>,
) -> Result<bool, DriverError> {
    let step = rate.to_ticks_ceil(Nanos(timeout.0 / WAIT_STEPS)) + Ticks(1);
    let mut now = function.now();
    let end = now + rate.to_ticks_ceil(timeout);
    let mut stuck = 0;
    while !ready(function)? {
        if now >= end || stuck > STUCK_MAX {
            return Ok(false);
        }
        // Returns early for completions of any queue.
        function.wait(Some((now + step).min(end)))?;
        let before = mem::replace(&mut now, function.now());
        stuck = if now > before { 0 } else { stuck + 1 };
    }
    Ok(true)
}

fn read_tick_rate<F: PciFunction>(function: &mut F) -> Result<TickRate, DriverError> {
    let value = read(function, global::TICK_HZ)?;
    let register = global::TICK_HZ.name;
    TickRate::new(value).ok_or(DriverError::BadLimit { register, value })
}

pub(crate) fn read_info<F: PciFunction>(function: &mut F) -> Result<DeviceInfo, DriverError> {
    let mut limit = |register: Register, max: usize| {
        let value = read(function, register)?;
        if (1..=max).contains(&(value as usize)) {
            Ok(value)
        } else {
            Err(DriverError::BadLimit {
                register: register.name,
                value,
            })
        }
    };
    let queues = limit(global::QUEUES, QUEUES_MAX)?;
    let flow_slots = limit(global::FLOW_SLOTS, FLOW_SLOTS_MAX)?;
    let max_segment = limit(global::MAX_SEGMENT, PAYLOAD_MAX)?;
    let max_payload = limit(global::MAX_PAYLOAD, PAYLOAD_MAX)?;
    Ok(DeviceInfo {
        contract_version: read(function, global::CONTRACT_VERSION)?,
        build_hash: read(function, global::BUILD_HASH)?,
        features: Features(read(function, global::FEATURES)?),
        // At most QUEUES_MAX.
        queues: queues as u16,
        flow_slots,
        max_segment,
        max_payload,
        width: read(function, global::WIDTH)?,
        ticks: read_tick_rate(function)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        assert!(check_version(0x0001_0003, 0x0001_0003).is_ok());
        assert!(check_version(0x0001_0004, 0x0001_0003).is_ok());
        let refusal = |device| check_version(device, 0x0001_0003).unwrap_err().to_string();
        assert_eq!(
            refusal(0x0002_0003),
            "the device speaks contract 2.3, this driver 1.3: load a bitstream built for \
             contract 1.x, or use the driver that came with the bitstream"
        );
        assert_eq!(
            refusal(0x0001_0002),
            "the device speaks contract 1.2, older than this driver's 1.3: load a newer \
             bitstream, or use an older driver"
        );
    }
}
