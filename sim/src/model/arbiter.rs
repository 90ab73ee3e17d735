// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arbiter: deficit round robin over queues that have a due segment, an open
//! rate gate and a budget.
//!
//! The deficit may go negative, so that no length is needed to decide (surplus
//! round robin: Shreedhar and Varghese, SIGCOMM 1995, with the charge after the
//! fact): a queue that is reached gets its quantum and is served while its
//! deficit is positive. In any interval in which two queues are both eligible
//! their service, divided by their quanta, differs by no more than a quantum and a
//! largest segment of each. A queue that is not eligible costs no time; one
//! that runs empty loses what it had left, but not what it owes.

/// Queues as a bit set.
#[derive(Clone, Debug, Default)]
pub struct QueueSet {
    words: Vec<u64>,
    count: usize,
}

impl QueueSet {
    /// The empty set, for `queues` queues.
    pub fn new(queues: usize) -> QueueSet {
        QueueSet {
            words: vec![0; queues.div_ceil(64)],
            count: 0,
        }
    }

    /// Whether no queue is in it.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `q` is in it.
    pub fn contains(&self, q: usize) -> bool {
        self.words[q / 64] >> (q % 64) & 1 == 1
    }

    /// Puts `q` in, or takes it out.
    pub fn set(&mut self, q: usize, inside: bool) {
        if self.contains(q) != inside {
            self.words[q / 64] ^= 1 << (q % 64);
            if inside {
                self.count += 1;
            } else {
                self.count -= 1;
            }
        }
    }

    /// The first member at or after `q`, going round.
    pub fn next_from(&self, q: usize) -> Option<usize> {
        let (word, bit) = (q / 64, q % 64);
        let first = self.words.get(word)? >> bit << bit;
        if first != 0 {
            return Some(word * 64 + first.trailing_zeros() as usize);
        }
        let n = self.words.len();
        (1..=n).map(|i| (word + i) % n).find_map(|w| {
            let bits = self.words[w];
            (bits != 0).then(|| w * 64 + bits.trailing_zeros() as usize)
        })
    }
}

/// Deficit round robin.
pub struct Arbiter {
    /// Queues that may be served.
    eligible: QueueSet,
    deficit: Vec<i64>,
    quantum: Vec<i64>,
    /// The queue that is served at present.
    pointer: usize,
}

impl Arbiter {
    /// An arbiter over `queues` queues.
    pub fn new(queues: usize, quantum: u32) -> Arbiter {
        Arbiter {
            eligible: QueueSet::new(queues),
            deficit: vec![0; queues],
            quantum: vec![i64::from(quantum); queues],
            pointer: 0,
        }
    }

    /// Sets the quantum of a queue in wire bytes; 0 counts as 1.
    pub fn set_quantum(&mut self, q: usize, bytes: u32) {
        self.quantum[q] = i64::from(bytes.max(1));
    }

    /// Says whether a queue may be served.
    pub fn set_eligible(&mut self, q: usize, eligible: bool) {
        self.eligible.set(q, eligible);
    }

    /// A queue has no due segment any more.
    pub fn emptied(&mut self, q: usize) {
        self.deficit[q] = self.deficit[q].min(0);
        self.eligible.set(q, false);
    }

    /// Forgets what a queue has and owes.
    pub fn reset(&mut self, q: usize) {
        self.deficit[q] = 0;
        self.eligible.set(q, false);
    }

    /// Whether any queue may be served.
    pub fn any(&self) -> bool {
        !self.eligible.is_empty()
    }

    /// The queue to serve now. The caller charges it.
    pub fn pick(&mut self) -> Option<usize> {
        let mut q = self.eligible.next_from(self.pointer)?;
        if q == self.pointer && self.deficit[q] > 0 {
            return Some(q);
        }
        if q == self.pointer {
            q = self.eligible.next_from((q + 1) % self.deficit.len())?;
        }
        // Each step is a new visit. Once `skip_rounds` has run, some queue needs
        // no more than one further quantum, so two turns are enough.
        let mut skipped = false;
        loop {
            self.pointer = q;
            self.deficit[q] += self.quantum[q];
            if self.deficit[q] > 0 {
                return Some(q);
            }
            if !skipped {
                self.skip_rounds();
                skipped = true;
            }
            q = self.eligible.next_from((q + 1) % self.deficit.len())?;
        }
    }

    /// Adds the rounds in which no queue would be served, at once: a small
    /// quantum against a large debt costs no time.
    fn skip_rounds(&mut self) {
        let n = self.deficit.len();
        let members = || (0..n).filter(|q| self.eligible.contains(*q));
        let rounds = members()
            .map(|q| (-self.deficit[q]).max(0) / self.quantum[q])
            .min()
            .unwrap_or(0);
        if rounds > 0 {
            for q in 0..n {
                if self.eligible.contains(q) {
                    self.deficit[q] += rounds * self.quantum[q];
                }
            }
        }
    }

    /// Charges a granted segment to its queue.
    pub fn charge(&mut self, q: usize, wire_bytes: usize) {
        self.deficit[q] -= wire_bytes as i64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_go_round() {
        let mut s = QueueSet::new(130);
        assert_eq!(s.next_from(0), None);
        for q in [3, 64, 129] {
            s.set(q, true);
        }
        assert_eq!(s.next_from(0), Some(3));
        assert_eq!(s.next_from(4), Some(64));
        assert_eq!(s.next_from(65), Some(129));
        s.set(129, false);
        assert_eq!(s.next_from(65), Some(3));
        s.set(64, false);
        assert_eq!(s.next_from(4), Some(3));
        s.set(3, false);
        assert!(s.is_empty());
    }

    #[test]
    fn service_follows_the_quanta_whatever_the_sizes() {
        let mut a = Arbiter::new(5, 1514);
        let quanta = [1514, 3028, 100, 1514, 9000];
        let sizes = [1514, 300, 9014, 64, 1514];
        let mut served = [0u64; 5];
        for (q, quantum) in quanta.iter().enumerate() {
            a.set_quantum(q, *quantum);
            a.set_eligible(q, q != 3);
        }
        for _ in 0..100_000 {
            let q = a.pick().unwrap();
            a.charge(q, sizes[q]);
            served[q] += sizes[q] as u64;
        }
        assert_eq!(served[3], 0);
        let share: Vec<f64> = (0..5)
            .map(|q| served[q] as f64 / f64::from(quanta[q]))
            .collect();
        for q in [1, 2, 4] {
            let bound = (9014.0 + 9000.0) / 100.0;
            assert!((share[q] - share[0]).abs() <= bound, "{share:?}");
        }
    }

    #[test]
    fn a_queue_that_comes_back_has_no_credit() {
        let mut a = Arbiter::new(2, 1000);
        a.set_eligible(0, true);
        a.set_eligible(1, true);
        let q = a.pick().unwrap();
        a.charge(q, 100);
        a.emptied(q);
        let other = 1 - q;
        assert_eq!(a.pick(), Some(other));
        a.charge(other, 100);
        a.set_eligible(q, true);
        // The one being served goes on with what it has left.
        assert_eq!(a.pick(), Some(other));
    }
}
