// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt moderation of one vector: completions are gathered until there are
//! `count` of them, or the first has waited `ticks`.

use tsonic_types::Ticks;

/// State of one vector.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moderation {
    /// Completions that are gathered; 0: none are.
    pub count: u32,
    /// Ticks that a completion waits at most; 0: it does not.
    pub ticks: u32,
    gathered: u32,
    deadline: Option<Ticks>,
}

impl Moderation {
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
        m.count = 3;
        m.ticks = 100;
        assert!(!m.completed(Ticks(10), false));
        assert!(!m.completed(Ticks(20), false));
        assert_eq!(m.deadline(), Some(Ticks(110)));
        assert!(m.completed(Ticks(30), false));
        assert_eq!(m.deadline(), None);
        assert!(m.completed(Ticks(40), true));
    }
}
