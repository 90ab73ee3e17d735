// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbour cache: Ethernet addresses of IP neighbours, by ARP (RFC 826) and
//! neighbour discovery (RFC 4861, 7). An entry is reachable for a while, then
//! stale: still used, and asked for again; after three questions without an
//! answer it is gone.

use crate::wire::ethernet::Mac;
use core::net::IpAddr;
use std::collections::BTreeMap;
use tsonic_types::Nanos;

/// An answer counts for this long (RFC 4861, 10: REACHABLE_TIME).
const REACHABLE: Nanos = Nanos::from_secs(30);
/// Between two questions (RETRANS_TIMER).
const RETRANS: Nanos = Nanos::from_secs(1);
/// Questions before giving up (MAX_MULTICAST_SOLICIT).
const QUESTIONS_MAX: u32 = 3;
/// Most entries; a stranger cannot grow the table beyond.
const ENTRIES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Entry {
    mac: Option<Mac>,
    /// When the answer becomes stale, or when to ask again.
    due: Nanos,
    /// Questions asked since the last answer; 0: none is open.
    questions: u32,
}

/// A question to ask on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Question {
    pub target: IpAddr,
    /// Known address to ask directly, else everybody.
    pub mac: Option<Mac>,
}

/// The cache.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    entries: BTreeMap<IpAddr, Entry>,
    /// Changes whenever an answer or a failure may matter to somebody.
    generation: u32,
    questions: Vec<Question>,
    failures: Vec<IpAddr>,
    open: usize,
}

impl Neighbours {
    /// Changes with every change of an address.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The address of `ip`; asks for it if it is unknown or stale.
    pub fn resolve(&mut self, ip: IpAddr, now: Nanos) -> Option<Mac> {
        if let Some(e) = self.entries.get_mut(&ip) {
            if e.questions == 0 && now >= e.due {
                e.questions = 1;
                e.due = now + RETRANS;
                self.open += 1;
                self.questions.push(Question {
                    target: ip,
                    mac: e.mac,
                });
            }
            return e.mac;
        }
        if self.entries.len() >= ENTRIES_MAX {
            self.evict();
        }
        let e = Entry {
            mac: None,
            due: now + RETRANS,
            questions: 1,
        };
        self.entries.insert(ip, e);
        self.open += 1;
        self.questions.push(Question {
            target: ip,
            mac: None,
        });
        None
    }

    /// `ip` said that it is at `mac`. Without `create`, only a known neighbour's
    /// entry is changed.
    pub fn learn(&mut self, ip: IpAddr, mac: Mac, now: Nanos, create: bool) {
        if mac.is_group() || ip.is_unspecified() || ip.is_multicast() {
            return;
        }
        let known = self.entries.get(&ip).copied();
        if known.is_none() && (!create || self.entries.len() >= ENTRIES_MAX) {
            return;
        }
        if let Some(e) = known {
            self.open -= usize::from(e.questions > 0);
        }
        if known.and_then(|e| e.mac) != Some(mac) {
            self.generation = self.generation.wrapping_add(1);
        }
        let e = Entry {
            mac: Some(mac),
            due: now + REACHABLE,
            questions: 0,
        };
        self.entries.insert(ip, e);
    }

    /// Asks again where no answer came, and gives up where none will.
    pub fn on_timer(&mut self, now: Nanos) {
        if self.open == 0 {
            return;
        }
        let Neighbours {
            entries,
            generation,
            questions,
            failures,
            open,
        } = self;
        entries.retain(|ip, e| {
            if e.questions == 0 || now < e.due {
                return true;
            }
            if e.questions >= QUESTIONS_MAX {
                *open -= 1;
                failures.push(*ip);
                *generation = generation.wrapping_add(1);
                return false;
            }
            e.questions += 1;
            e.due = now + RETRANS;
            questions.push(Question {
                target: *ip,
                mac: None,
            });
            true
        });
    }

    /// When [`Neighbours::on_timer`] has something to do.
    pub fn next_timer(&self) -> Option<Nanos> {
        if self.open == 0 {
            return None;
        }
        self.entries
            .values()
            .filter(|e| e.questions > 0)
            .map(|e| e.due)
            .min()
    }

    /// The next question to send.
    pub fn next_question(&mut self) -> Option<Question> {
        self.questions.pop()
    }

    /// The next neighbour that did not answer.
    pub fn next_failure(&mut self) -> Option<IpAddr> {
        self.failures.pop()
    }

    fn evict(&mut self) {
        let oldest = self
            .entries
            .iter()
            .min_by_key(|(_, e)| e.due)
            .map(|(ip, _)| *ip);
        if let Some(ip) = oldest
            && let Some(e) = self.entries.remove(&ip)
        {
            self.open -= usize::from(e.questions > 0);
            self.generation = self.generation.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_three_times_then_gives_up() {
        let mut n = Neighbours::default();
        let ip: IpAddr = "10.0.0.2".parse().unwrap();
        let mut now = Nanos(0);
        assert_eq!(n.resolve(ip, now), None);
        assert_eq!(n.resolve(ip, now), None);
        let mut asked = 0;
        while let Some(t) = n.next_timer() {
            while n.next_question().is_some() {
                asked += 1;
            }
            now = t;
            n.on_timer(now);
        }
        assert_eq!((asked, now), (3, Nanos::from_secs(3)));
        assert_eq!(n.next_failure(), Some(ip));
    }

    #[test]
    fn an_answer_serves_until_stale_and_is_then_checked() {
        let mut n = Neighbours::default();
        let ip: IpAddr = "10.0.0.2".parse().unwrap();
        let mac = Mac([2, 0, 0, 0, 0, 2]);
        n.learn(ip, mac, Nanos(0), false);
        assert_eq!(n.next_timer(), None, "a stranger is not kept");
        n.resolve(ip, Nanos(0));
        n.next_question();
        let g = n.generation();
        n.learn(ip, mac, Nanos(0), false);
        assert_ne!(n.generation(), g);
        assert_eq!(n.next_timer(), None);
        assert_eq!(n.resolve(ip, Nanos::from_secs(29)), Some(mac));
        assert_eq!(n.next_question(), None);
        assert_eq!(n.resolve(ip, Nanos::from_secs(31)), Some(mac));
        assert_eq!(n.next_question().unwrap().mac, Some(mac));
        n.learn(ip, mac, Nanos::from_secs(31), false);
        assert_eq!(n.next_timer(), None);
        n.learn(ip, Mac::BROADCAST, Nanos(0), true);
        assert_eq!(n.resolve(ip, Nanos::from_secs(32)), Some(mac));
    }
}
