// SPDX-License-Identifier: MIT OR Apache-2.0
//! A port of a switch that marks by a step: one queue without end in front of a wire.

use super::frame::{Frame, Picos};
use crate::stats::Histogram;
use tsonic_regs::limits::{FRAME_MIN, WIRE_OVERHEAD};
use tsonic_sim::wire::mark_congestion;
use tsonic_types::ByteRate;

/// Picoseconds in a second.
const SECOND: u128 = 1_000_000_000_000;

/// See the module.
#[derive(Clone, Debug)]
pub struct StepPort {
    rate: u64,
    step: u64,
    free: Picos,
    /// Backlog that frames found, in wire bytes.
    pub backlog: Histogram,
    /// Frames marked.
    pub marked: u64,
}

impl StepPort {
    /// An empty port of a speed in wire bytes a second, at least 1, that marks
    /// ECN-capable frames which find more than `step` wire bytes in front of them.
    pub fn new(rate: ByteRate, step: u64) -> StepPort {
        StepPort {
            rate: rate.0.max(1),
            step,
            free: 0,
            backlog: Histogram::default(),
            marked: 0,
        }
    }

    /// Wire bytes that wait or are being sent at `at`.
    pub fn backlog_at(&self, at: Picos) -> u64 {
        let ahead = u128::from(self.free.saturating_sub(at));
        (ahead * u128::from(self.rate) / SECOND) as u64
    }

    /// Takes a frame whose last byte has arrived; its last byte has left when `frame.at`
    /// says afterwards. Frames come in the order of their arrival.
    pub fn send(&mut self, frame: &mut Frame) {
        let backlog = self.backlog_at(frame.at);
        self.backlog.add(backlog);
        if backlog > self.step && mark_congestion(frame.head_mut()) {
            self.marked += 1;
        }
        let bytes = (frame.bytes as usize).max(FRAME_MIN) + WIRE_OVERHEAD;
        let takes = bytes as u128 * SECOND / u128::from(self.rate);
        self.free = self.free.max(frame.at) + takes as Picos;
        frame.at = self.free;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tsonic_tcp::wire::checksum::{fold, sum};
    use tsonic_tcp::wire::ip::{self, Ip};

    fn frame(at: Picos, ecn: u8) -> Frame {
        let mut head = [0; 34];
        head[12] = 8;
        let ip = Ip {
            src: [10, 9, 0, 1].into(),
            dst: [10, 9, 0, 2].into(),
            protocol: ip::TCP,
            ecn,
            ttl: 64,
        };
        ip::emit(&ip, 7, 1_000 - 34, &mut head[14..]);
        let mut f = Frame::new(at, &head);
        f.bytes = 1_000 - 24;
        f
    }

    fn ecn(f: &Frame) -> u8 {
        let head = f.head();
        assert_eq!(fold(sum(0, &head[14..34])), 0xffff);
        head[15] & 3
    }

    #[test]
    fn it_marks_exactly_above_the_step() {
        // A byte is 80 ps; each frame is 1,000 bytes on the wire.
        let mut port = StepPort::new(ByteRate(12_500_000_000), 100_000);
        for n in 0..=100u64 {
            let mut f = frame(0, ip::ECT0);
            assert_eq!(port.backlog_at(0), n * 1_000);
            port.send(&mut f);
            assert_eq!((f.at, ecn(&f)), ((n + 1) * 80_000, ip::ECT0), "{n}");
        }
        // 101,000 wait: 1,000 too many. A byte's time before they are 100,000, and then.
        for (at, want) in [(79_920, ip::CE), (160_000, ip::ECT0)] {
            let mut f = frame(at, ip::ECT0);
            port.send(&mut f);
            assert_eq!(ecn(&f), want, "{at}");
        }
        let mut f = frame(160_000, ip::NOT_ECT);
        port.send(&mut f);
        assert_eq!((ecn(&f), port.marked), (ip::NOT_ECT, 1));
        assert_eq!(port.backlog.max(), 101_000);
        assert_eq!(port.backlog_at(u64::MAX), 0);
    }
}
