// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory port's two directions, between beats of 64 bits and requests.

use crate::nic::MemoryPort;
use std::collections::VecDeque;
use tsonic_regs::limits::DMA_REQUEST_MAX;
use tsonic_types::Ticks;

/// Bytes of a beat.
pub(super) const BEAT: usize = 8;
/// Beats of the longest request at the worst alignment.
const BEATS_MAX: usize = DMA_REQUEST_MAX / BEAT + 1;

/// One beat of read data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadBeat {
    pub(super) data: u64,
    pub(super) last: bool,
    pub(super) err: bool,
}

/// Read requests that wait for data, and the one whose beats are given out.
#[derive(Debug)]
pub(super) struct Reads {
    waiting: VecDeque<(Ticks, u64, usize)>,
    beats: [u64; BEATS_MAX],
    next: usize,
    count: usize,
    err: bool,
}

impl Reads {
    pub(super) fn new() -> Reads {
        Reads {
            waiting: VecDeque::new(),
            beats: [0; BEATS_MAX],
            next: 0,
            count: 0,
            err: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next == self.count && self.waiting.is_empty()
    }

    pub(super) fn request(
        &mut self,
        now: Ticks,
        iova: u64,
        bytes: usize,
        port: &mut dyn MemoryPort,
    ) {
        let at = port.read_request(now, iova, bytes);
        self.waiting.push_back((at, iova, bytes));
    }

    /// The beat that stands at the port now, if one does.
    pub(super) fn beat(&mut self, now: Ticks, port: &mut dyn MemoryPort) -> Option<ReadBeat> {
        if self.next == self.count {
            let &(at, iova, bytes) = self.waiting.front()?;
            if at > now {
                return None;
            }
            self.waiting.pop_front();
            self.load(now, iova, bytes, port);
        }
        Some(ReadBeat {
            data: self.beats[self.next],
            last: self.next + 1 == self.count,
            err: self.err,
        })
    }

    /// The beat was taken.
    pub(super) fn taken(&mut self) {
        self.next += 1;
    }

    fn load(&mut self, now: Ticks, iova: u64, bytes: usize, port: &mut dyn MemoryPort) {
        let offset = (iova % BEAT as u64) as usize;
        let mut bytes_of = [0u8; BEATS_MAX * BEAT];
        // A request above the contract's limit is a fault of the logic; it is
        // answered as an error, as a root complex would.
        let range = bytes_of.get_mut(offset..offset + bytes);
        self.err = match range {
            Some(range) if bytes > 0 => port.read_data(now, iova, range).is_err(),
            _ => true,
        };
        self.next = 0;
        self.count = if self.err {
            1
        } else {
            (offset + bytes).div_ceil(BEAT)
        };
        for (beat, word) in self.beats.iter_mut().zip(bytes_of.as_chunks::<BEAT>().0) {
            *beat = u64::from_le_bytes(*word);
        }
    }
}

/// The write request whose beats are being collected.
#[derive(Debug)]
pub(super) struct Writes {
    start: u64,
    data: Vec<u8>,
}

impl Writes {
    pub(super) fn new() -> Writes {
        Writes {
            start: 0,
            data: Vec::with_capacity(DMA_REQUEST_MAX),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Takes a beat; a whole request is posted and its length returned.
    pub(super) fn beat(
        &mut self,
        now: Ticks,
        addr: u64,
        data: u64,
        strobe: u8,
        last: bool,
        port: &mut dyn MemoryPort,
    ) -> Option<usize> {
        let first = strobe.trailing_zeros().min(BEAT as u32);
        if self.data.is_empty() {
            self.start = addr + u64::from(first);
        }
        let bytes = data.to_le_bytes();
        let valid = bytes
            .iter()
            .enumerate()
            .filter(|(lane, _)| strobe >> lane & 1 == 1);
        self.data.extend(valid.map(|(_, byte)| *byte));
        if !last {
            return None;
        }
        let bytes = self.data.len();
        if bytes > 0 {
            port.write(now, self.start, &self.data);
        }
        self.data.clear();
        Some(bytes)
    }
}
