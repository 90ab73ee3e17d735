// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long a driver looks at its rings before it sleeps.
//!
//! A sleep and its end cost tens of microseconds. Where the next completion is nearer
//! than that, looking for it is cheaper; where it is far, looking is wasted. So the
//! window follows what happens, as KVM's halt polling does: a wait (looking and sleeping
//! together) that was over within [`WINDOW_MAX`] could have been spent looking, so the
//! window grows; one that lasted longer could not, so it shrinks, to nothing at last.

use std::time::Duration;

/// Longest window.
pub const WINDOW_MAX: Duration = Duration::from_micros(100);
/// First window.
const WINDOW_MIN: Duration = Duration::from_micros(10);

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct BusyPoll {
    window: Duration,
    most: Duration,
}

impl BusyPoll {
    /// Never looks longer than `most`; zero: it always sleeps.
    pub fn new(most: Duration) -> BusyPoll {
        BusyPoll {
            window: Duration::ZERO,
            most: most.min(WINDOW_MAX),
        }
    }

    /// Looks only where there are processors to spare: whoever looks keeps one from the
    /// device, whose process has two threads.
    pub fn for_this_machine() -> BusyPoll {
        let spare = std::thread::available_parallelism().is_ok_and(|n| n.get() > 2);
        BusyPoll::new(if spare { WINDOW_MAX } else { Duration::ZERO })
    }

    /// How long to look now.
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// A wait has ended after `waited`.
    pub fn waited(&mut self, waited: Duration) {
        self.window = if waited <= self.most {
            (2 * self.window).clamp(WINDOW_MIN, self.most.max(WINDOW_MIN))
        } else if self.window > WINDOW_MIN {
            self.window / 2
        } else {
            Duration::ZERO
        };
        self.window = self.window.min(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_follows_what_happens() {
        let us = Duration::from_micros;
        let mut p = BusyPoll::new(us(60));
        assert_eq!(p.window(), Duration::ZERO);
        let grown = [10, 20, 40, 60, 60].map(|w| {
            p.waited(us(30));
            (p.window(), us(w))
        });
        assert!(grown.iter().all(|(got, want)| got == want), "{grown:?}");
        let shrunk = [30, 15, 7, 0, 0].map(|w| {
            p.waited(us(61));
            (p.window().as_micros(), w)
        });
        assert!(shrunk.iter().all(|(got, want)| got == want), "{shrunk:?}");
        let mut off = BusyPoll::new(Duration::ZERO);
        off.waited(us(1));
        off.waited(Duration::ZERO);
        assert_eq!(off.window(), Duration::ZERO);
        assert!(BusyPoll::new(Duration::from_secs(1)).most <= WINDOW_MAX);
    }
}
