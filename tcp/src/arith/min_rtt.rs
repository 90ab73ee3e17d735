// SPDX-License-Identifier: MIT OR Apache-2.0
//! Windowed minimum of the round-trip time in constant space: the best sample of
//! the window and two runners-up from later parts of it (Kathleen Nichols'
//! algorithm, as Linux has it).
//!
//! It may forget a value in the middle of the window; it never holds one that is
//! older than the window after an update. Units of time and value are the
//! caller's, the same for all calls.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    time: u64,
    value: u64,
}

/// The filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinFilter {
    window: u64,
    slots: Option<[Sample; 3]>,
}

impl MinFilter {
    /// An empty filter over that length of time.
    pub const fn new(window: u64) -> MinFilter {
        MinFilter {
            window,
            slots: None,
        }
    }

    /// Length of the window.
    pub const fn window(&self) -> u64 {
        self.window
    }

    /// Changes the length of the window from the next sample on.
    pub const fn set_window(&mut self, window: u64) {
        self.window = window;
    }

    /// The minimum; `None` before the first sample.
    pub fn get(&self) -> Option<u64> {
        self.slots.map(|s| s[0].value)
    }

    /// Takes a sample and gives the minimum. A value of 0 counts as 1: zero
    /// would stay for ever. A `time` before that of the samples counts as equal
    /// to it.
    #[inline]
    pub fn update(&mut self, time: u64, value: u64) -> u64 {
        let new = Sample {
            time,
            value: value.max(1),
        };
        let window = self.window;
        let age = |s: &Sample| time.saturating_sub(s.time);
        let s = match &mut self.slots {
            Some(s) if new.value > s[0].value && age(&s[2]) <= window => s,
            slots => {
                *slots = Some([new; 3]);
                return new.value;
            }
        };
        if new.value <= s[1].value {
            s[1] = new;
            s[2] = new;
        } else if new.value <= s[2].value {
            s[2] = new;
        }
        let age0 = age(&s[0]);
        if age0 > window {
            *s = [s[1], s[2], new];
            if age(&s[0]) > window {
                *s = [s[1], s[2], new];
            }
        } else if s[1].time == s[0].time && age0 > window / 4 {
            s[1] = new;
            s[2] = new;
        } else if s[2].time == s[1].time && age0 > window / 2 {
            s[2] = new;
        }
        s[0].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors() {
        let mut f = MinFilter::new(300);
        assert_eq!(f.get(), None);
        for (t, rtt, want) in [
            (1, 100, 100),
            (10, 90, 90),
            (60, 120, 90),
            (86, 130, 90),
            (150, 95, 90),
            (170, 140, 90),
            (250, 200, 90),
            (310, 150, 90),
            (311, 150, 95),
            (320, 160, 95),
            (400, 500, 95),
            (620, 700, 700),
            (1_000, 900, 900),
        ] {
            assert_eq!(f.update(t, rtt), want, "t={t}");
            assert_eq!(f.get(), Some(want));
        }
        assert_eq!(f.update(1_001, 0), 1);
    }

    proptest! {
        #[test]
        fn the_answer_is_a_sample_of_the_window(
            window: u64, samples in proptest::collection::vec(any::<(u32, u64)>(), 1..60),
        ) {
            let mut f = MinFilter::new(window);
            let mut t = 0u64;
            let mut seen: Vec<(u64, u64)> = Vec::new();
            for (dt, v) in samples {
                t += u64::from(dt);
                let v = v.max(1);
                seen.push((t, v));
                let got = f.update(t, v);
                prop_assert!(got <= v);
                prop_assert!(seen.iter().any(|(at, x)| *x == got && t - at <= window));
                let least = seen.iter().filter(|(at, _)| t - at <= window).map(|(_, x)| *x).min();
                prop_assert!(Some(got) >= least);
            }
        }

        #[test]
        fn any_times_do(window: u64, samples in proptest::collection::vec(any::<(u64, u64)>(), 1..20)) {
            let mut f = MinFilter::new(window);
            for (t, v) in samples {
                prop_assert!(f.update(t, v) <= v.max(1));
            }
        }
    }
}
