// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt moderation of one vector, as [`tsonic_regs::pci`] has it: completions are
//! gathered until there are `count` of them, or the first has waited `ticks`.

use tsonic_regs::limits::COALESCE_COUNT_MAX;
use tsonic_types::Ticks;

/// State of one vector.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moderation {
    count: u32,
    ticks: u32,
    gathered: u32,
    deadline: Option<Ticks>,
}

impl Moderation {
    /// COALESCE_COUNT was written. What is gathered stays gathered.
    pub fn set_count(&mut self, count: u32) {
        self.count = count.min(COALESCE_COUNT_MAX);
    }

    /// COALESCE_TICKS was written. A deadline that is set stays.
    pub fn set_ticks(&mut self, ticks: u32) {
        self.ticks = ticks;
    }

    /// A completion was written. Whether the vector interrupts now.
    pub fn completed(&mut self, now: Ticks, at_once: bool) -> bool {
        self.gathered += 1;
        if at_once || self.ticks == 0 || self.gathered >= self.count {
            self.fired();
            return true;
        }
        if self.deadline.is_none() {
            self.deadline = Some(now + Ticks(u64::from(self.ticks)));
        }
        false
    }

    /// When the vector interrupts for what it has gathered.
    pub const fn deadline(&self) -> Option<Ticks> {
        self.deadline
    }

    /// The vector has interrupted.
    pub fn fired(&mut self) {
        self.gathered = 0;
        self.deadline = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathers_by_count_and_time() {
        let mut m = Moderation::default();
        assert!(m.completed(Ticks(1), false), "off: each interrupts");
        m.set_ticks(100);
        assert!(m.completed(Ticks(1), false), "none are gathered");
        m.set_count(3);
        assert!(!m.completed(Ticks(10), false));
        assert!(!m.completed(Ticks(20), false));
        assert_eq!(m.deadline(), Some(Ticks(110)));
        assert!(m.completed(Ticks(30), false));
        assert_eq!(m.deadline(), None);
        assert!(m.completed(Ticks(40), true));
    }

    #[test]
    fn new_values_count_from_the_next_completion_on() {
        let mut m = Moderation::default();
        m.set_count(u32::MAX);
        m.set_ticks(1_000);
        for t in 1..COALESCE_COUNT_MAX {
            assert!(!m.completed(Ticks(t.into()), false));
        }
        m.set_ticks(5);
        assert_eq!(m.deadline(), Some(Ticks(1_001)));
        assert!(m.completed(Ticks(70_000), false), "the largest count");
        m.set_count(2);
        assert!(!m.completed(Ticks(80_000), false));
        m.set_count(1);
        assert_eq!(m.deadline(), Some(Ticks(80_005)));
        assert!(m.completed(Ticks(80_001), false));
    }
}
