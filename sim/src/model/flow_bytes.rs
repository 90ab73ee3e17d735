// SPDX-License-Identifier: MIT OR Apache-2.0
//! The byte limit of a flow: marks when its bytes in the device pass it, and when
//! they are within it again. The rules are those of [`tsonic_regs::completion`].

use tsonic_regs::limits::FLOW_LIMIT_UNIT;

/// Payload of one flow in the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowBytes {
    bytes: u64,
    /// In units; 0: none.
    limit: u16,
    throttled: bool,
}

impl FlowBytes {
    fn limit_bytes(&self) -> u64 {
        u64::from(self.limit) * FLOW_LIMIT_UNIT as u64
    }

    /// A burst joins. Whether it passes the limit.
    pub fn join(&mut self, payload: u32, limit: u16) -> bool {
        self.limit = limit;
        self.bytes += u64::from(payload);
        let passes = limit != 0 && !self.throttled && self.bytes > self.limit_bytes();
        self.throttled |= passes;
        passes
    }

    /// A burst completes. Whether the flow is within its limit again.
    pub fn leave(&mut self, payload: u32) -> bool {
        self.bytes = self.bytes.saturating_sub(payload.into());
        let wakes = self.throttled && (self.limit == 0 || self.bytes <= self.limit_bytes());
        self.throttled &= !wakes;
        wakes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_at_the_crossing_and_nowhere_else() {
        let mut f = FlowBytes::default();
        assert!(!f.join(2_048, 2), "at the limit");
        assert!(f.join(1, 2), "above it");
        assert!(!f.join(5_000, 2), "once");
        assert!(!f.leave(2_048));
        assert!(!f.leave(1));
        assert!(f.leave(5_000));
        assert!(!f.join(0, 2) && !f.leave(0));
        // One burst above the limit: both marks in its completion.
        assert!(f.join(4_096, 1) && f.leave(4_096));
    }

    #[test]
    fn the_latest_limit_holds() {
        let mut f = FlowBytes::default();
        assert!(!f.join(10_000, 0), "none");
        assert!(f.join(0, 9));
        assert!(!f.join(0, 10), "raised: the next completion wakes");
        assert!(f.leave(0));
        assert!(f.join(0, 1) && !f.join(0, 0));
        assert!(f.leave(0), "no limit any more");
        assert!(!f.leave(0) && !f.leave(10_000) && !f.leave(0));
        assert_eq!(f, FlowBytes::default());
    }
}
