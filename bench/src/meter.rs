// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time of this thread on its core, what the host does apart from what the device does.

use rustix::time::{ClockId, clock_gettime};
use std::cell::Cell;

/// Time of this thread on a core so far, in ns; preemption does not count.
pub(crate) fn now() -> u64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Spent so far, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// By the host: application's write, stack, driver.
    pub host: u64,
    /// By what stands for the device, the wire and the far end.
    pub device: u64,
}

/// Tells host from device. It is off at first.
///
/// A look at the clock costs time itself; half of it falls into the span that it ends, half
/// into the one that it begins, and both are taken off.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    host: Cell<u64>,
    device: Cell<u64>,
    since: Cell<u64>,
    at_host: Cell<bool>,
    on: Cell<bool>,
    /// A profiler counts; nothing is timed.
    counted: Cell<bool>,
    /// What a look costs.
    look: Cell<u64>,
}

impl Meter {
    /// From here on it is the host (`true`) or the device.
    pub fn switch(&self, to_host: bool) {
        let was = self.at_host.replace(to_host);
        if !self.on.get() {
            return;
        }
        let at = now();
        let span = (at - self.since.replace(at)).saturating_sub(self.look.get());
        let sum = if was { &self.host } else { &self.device };
        sum.set(sum.get() + span);
    }

    /// On, or on again: what was done since the last switch was neither's.
    pub fn resume(&self) {
        if self.counted.get() {
            return;
        }
        if !self.on.replace(true) {
            const LOOKS: u64 = 256;
            let cost = || {
                let start = now();
                for _ in 0..LOOKS - 1 {
                    now();
                }
                (now() - start) / LOOKS
            };
            self.look.set((0..8).map(|_| cost()).min().unwrap_or(0));
        }
        self.since.set(now());
    }

    /// From now on a profiler counts.
    pub fn count(&self) {
        self.on.set(false);
        self.counted.set(true);
    }

    pub fn is_counted(&self) -> bool {
        self.counted.get()
    }

    pub fn is_host(&self) -> bool {
        self.at_host.get()
    }

    pub fn spent(&self) -> Spent {
        Spent {
            host: self.host.get(),
            device: self.device.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_its_owners() {
        let meter = Meter::default();
        meter.switch(true);
        assert!(meter.is_host());
        assert_eq!(meter.spent(), Spent::default());
        meter.resume();
        meter.switch(false);
        let spent = meter.spent();
        assert_eq!(spent.device, 0);
        meter.switch(true);
        assert_eq!(meter.spent().host, spent.host);
        meter.count();
        let spent = meter.spent();
        meter.switch(false);
        meter.resume();
        assert_eq!(meter.spent(), spent);
    }
}
