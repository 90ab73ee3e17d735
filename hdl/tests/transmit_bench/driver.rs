// SPDX-License-Identifier: MIT OR Apache-2.0
//! The driver's part: rings, posting, reaping.

use super::{Bench, Posted, Q, Queue};
use crate::support::RngExt;
use tsonic_regs::Status;
use tsonic_regs::completion::{COMPLETION_BYTES, TxCompletion};
use tsonic_regs::descriptor::{COOKIE_NONE, FragmentEntry, Kind, TxDescriptor};
use tsonic_regs::registers::{QueueControl, RingSize, queue};

impl Bench {
    pub fn enable(&mut self, q: usize) {
        let ring = ((q as u64 + 1) << 30) + 64 * self.rng.random_range(0..64);
        let completions = ((q as u64 + 9) << 30) + 32 * self.rng.random_range(0..128);
        let (ring_log2, completion_log2) = (6 + q as u32 % 2, 7);
        self.memory.map(ring, 64 << ring_log2);
        self.memory.map(completions, 32 << completion_log2);
        self.queues[q] = Queue {
            ring,
            ring_log2,
            completions,
            completion_log2,
            cookie: self.queues[q].cookie,
            ..Queue::default()
        };
        let mut size = RingSize(0);
        size.set_ring_log2(ring_log2 as u8);
        size.set_completion_log2(completion_log2 as u8);
        let mut control = QueueControl(0);
        control.set_enable(1);
        for (register, value) in [
            (queue::TX_CONTROL, 0),
            (queue::TX_RING_LO, ring as u32),
            (queue::TX_RING_HI, (ring >> 32) as u32),
            (queue::TX_COMPLETION_LO, completions as u32),
            (queue::TX_COMPLETION_HI, (completions >> 32) as u32),
            (queue::TX_RING_SIZE, size.0),
            (queue::TX_CONTROL, control.0),
        ] {
            self.writes
                .push_back((q as u64, register.offset as u64, u64::from(value)));
        }
        // The driver clears the completions of a former life.
        self.memory
            .write(completions, &vec![0; 32 << completion_log2]);
    }

    pub fn area(&mut self, len: u64) -> u64 {
        let addr = self.next_page * 4096 + self.rng.random_range(0..4096);
        self.next_page += len / 4096 + 3;
        let data: Vec<u8> = (0..len).map(|_| self.rng.random()).collect();
        self.memory.write(addr, &data);
        if self.rng.random_bool(self.hole) {
            let page = self.rng.random_range(addr / 4096..=(addr + len - 1) / 4096);
            self.memory.unmap(page);
        }
        addr
    }

    pub fn mapped(&self, mut addrs: impl Iterator<Item = u64>) -> bool {
        addrs.all(|a| self.memory.byte(a).is_some())
    }

    pub fn post(&mut self, q: usize) {
        let mut d = TxDescriptor::default();
        let kind = if self.rng.random_bool(0.8) {
            Kind::Tso
        } else {
            Kind::Csum
        };
        d.control.set_kind(kind as u8);
        d.control.set_l2_len(14);
        d.control.set_l3_len(20 + 4 * self.rng.random_range(0..4));
        d.control.set_l4_len(20 + 4 * self.rng.random_range(0..4));
        d.control.set_timestamp(self.rng.random_range(0..2));
        d.burst.set_flow_slot(self.rng.random_range(0..64));
        while self.queues[q]
            .outstanding
            .contains_key(&self.queues[q].cookie)
        {
            self.queues[q].cookie = (self.queues[q].cookie + 1) % COOKIE_NONE;
        }
        let cookie = self.queues[q].cookie;
        self.queues[q].cookie = (cookie + 1) % COOKIE_NONE;
        d.burst.set_cookie(cookie);
        d.header_addr = self.area(d.header_len() as u64);
        let count = *[0usize, 1, 1, 2, 3, 6, 17]
            .get(self.rng.random_range(0..7))
            .unwrap_or(&1);
        let mut fragments = Vec::new();
        for _ in 0..count {
            let len = self.rng.random_range(1..900);
            fragments.push((self.area(len), len));
        }
        let payload: u64 = fragments.iter().map(|f| f.1).sum();
        let mss = self.rng.random_range(200..2000);
        d.control.set_mss(mss as u16);
        d.control.set_fragments(count as u8);
        d.burst.set_payload_len(payload as u32);
        if let Some(&(addr, len)) = fragments.first() {
            d.frag0_addr = addr;
            d.lengths.set_frag0_len(len as u32);
        }
        let mut status = Status::Ok;
        if count == 2 {
            d.frag1_addr = fragments[1].0;
            d.lengths.set_frag1_len(fragments[1].1 as u32);
        } else if count > 2 {
            let mut words = Vec::new();
            for &(addr, len) in &fragments[1..] {
                let mut entry = FragmentEntry {
                    addr,
                    ..FragmentEntry::default()
                };
                entry.length.set_bytes(len as u32);
                words.extend([entry.addr, entry.length.0]);
            }
            d.frag1_addr = self.area(8 * words.len() as u64 + 16) & !15;
            let there = self.mapped(d.frag1_addr..d.frag1_addr + 8 * words.len() as u64);
            if there {
                self.memory.write_words(d.frag1_addr, &words);
                if self.rng.random_bool(0.05) {
                    words[1] += 1;
                    self.memory.write_words(d.frag1_addr, &words);
                    status = Status::LengthMismatch;
                }
            } else {
                status = Status::AddressFault;
            }
        }
        if self.rng.random_bool(0.05) {
            d.control.set_kind(7);
            status = Status::BadKind;
        }
        let refused = status != Status::Ok;
        // How far it gets: up to the first segment that cannot be read.
        let (mut frames, mut bytes) = (0, 0);
        if !refused {
            let size = if kind == Kind::Tso {
                mss.min(payload)
            } else {
                payload
            };
            let addrs: Vec<u64> = fragments.iter().flat_map(|&(a, n)| a..a + n).collect();
            let header = d.header_addr..d.header_addr + d.header_len() as u64;
            let mut offset = 0;
            loop {
                let len = size.min(payload - offset);
                let part = &addrs[offset as usize..(offset + len) as usize];
                if !self.mapped(header.clone()) || !self.mapped(part.iter().copied()) {
                    status = Status::AddressFault;
                    break;
                }
                frames += 1;
                bytes += d.header_len() as u32 + len as u32;
                offset += len;
                if offset == payload {
                    break;
                }
            }
        }
        let mark = if self.rng.random_bool(0.2) {
            self.rng.random_range(0..8)
        } else {
            0
        };
        let queue = &mut self.queues[q];
        if !refused {
            queue.good.push_back(cookie);
        }
        self.memory
            .write_words(queue.ring + 64 * queue.tail, &d.to_words());
        queue.tail = (queue.tail + 1) % (1 << queue.ring_log2);
        queue.outstanding.insert(
            cookie,
            Posted {
                descriptor: d,
                fragments,
                status,
                refused,
                frames,
                bytes,
                mark,
                first: 0,
                last: 0,
            },
        );
        self.posted += 1;
    }

    /// The driver's part of a cycle: posts, rings, reaps.
    pub fn drive_host(&mut self) {
        if self.posted < self.limit && self.rng.random_bool(0.01) {
            let q = self.rng.random_range(0..Q);
            let size = 1 << self.queues[q].ring_log2;
            let space = size - 1 - (self.queues[q].tail + size - self.queues[q].head) % size;
            let room =
                (1 << self.queues[q].completion_log2) - 8 - self.queues[q].outstanding.len() as u64;
            let n = self.rng.random_range(1..6).min(space).min(room);
            for _ in 0..n {
                self.post(q);
            }
            if n > 0 {
                self.writes
                    .push_back((q as u64, u64::MAX, self.queues[q].tail));
            }
            if self.rng.random_bool(0.02)
                && self.queues[q].errors_expected == self.queues[q].errors_seen
            {
                self.writes
                    .push_back((q as u64, u64::MAX, 1 << self.queues[q].ring_log2));
                self.queues[q].errors_expected += 1;
            }
        }
        for q in 0..Q {
            self.reap(q);
        }
    }

    pub fn reap(&mut self, q: usize) {
        let queue = &mut self.queues[q];
        let size = 1u64 << queue.completion_log2;
        let at = queue.completions + COMPLETION_BYTES as u64 * (queue.next % size);
        let words = [0, 8, 16, 24].map(|o| self.memory.word(at + o).expect("mapped"));
        let c = TxCompletion::from_words(words);
        let phase = 1 - (queue.next / size % 2) as u8;
        if c.done.phase() != phase {
            return;
        }
        queue.next += 1;
        let status = Status::from_code(c.status.status()).expect("a status");
        *self.seen.entry(status).or_default() += 1;
        assert_eq!(usize::from(c.status.queue()), q);
        let ring = 1u64 << queue.ring_log2;
        let (head, free) = (
            u64::from(c.done.head()),
            (queue.tail + ring - queue.head) % ring,
        );
        assert!(
            (head + ring - queue.head) % ring <= free,
            "head {head} is not between {} and {}",
            queue.head,
            queue.tail
        );
        queue.head = head;
        if status == Status::DoorbellOutOfRange {
            assert_eq!(c.status.cookie(), COOKIE_NONE);
            queue.errors_seen += 1;
            return;
        }
        let p = queue
            .outstanding
            .remove(&c.status.cookie())
            .expect("a burst that is out");
        assert_eq!(status, p.status, "{p:?}");
        assert_eq!(c.status.flow_slot(), p.descriptor.burst.flow_slot());
        assert_eq!(
            (c.done.segments(), c.done.wire_bytes()),
            (p.frames, p.bytes),
            "{p:?}"
        );
        assert_eq!((c.first_departure, c.last_departure), (p.first, p.last));
        let marks = u64::from(c.status.cn())
            | u64::from(c.status.throttle()) << 1
            | u64::from(c.status.wake()) << 2;
        assert_eq!(marks, if p.refused { 0 } else { p.mark });
        queue.done += 1;
    }
}
