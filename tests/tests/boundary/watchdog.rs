// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lost interrupts and stalled queues, in virtual time.

use super::rig::*;
use tsonic_driver::{Watchdog, WatchdogConfig};
use tsonic_regs::registers::{queue, queue_offset};
use tsonic_sim::inproc::InprocFunction;

struct Watched {
    s: Sender<InprocFunction>,
    dog: Watchdog,
    resets: Vec<usize>,
}

impl Watched {
    fn new(queues: u16) -> Watched {
        let mut s = Sender::open(InprocFunction::new(world(queues)), queues);
        let now = s.device.now();
        Watched {
            dog: Watchdog::new(WatchdogConfig::default(), queues.into(), now),
            s,
            resets: Vec::new(),
        }
    }

    /// A loop as a shard has it, until nothing is outstanding or `end` is reached.
    fn run(&mut self, end: Nanos) {
        self.s.flush().unwrap();
        let mut wake = Wake::Completion;
        loop {
            let now = self.s.device.now();
            self.dog
                .look(now, &self.s.tx, &[], wake != Wake::Completion);
            self.s.reap();
            while let Some(q) = self.dog.stalled(now, &self.s.tx) {
                self.resets.push(q);
                let (s, done) = (&mut self.s, &mut Vec::new());
                let each = |c: &TxCompletion| done.push(*c);
                self.dog
                    .reset(&mut s.device, &mut s.tx[q], &mut s.flows, each)
                    .unwrap();
                s.done.append(done);
            }
            let Some(look) = self.dog.next(&self.s.tx, false).filter(|_| now < end) else {
                return;
            };
            wake = self.s.device.wait(Some(look)).unwrap();
        }
    }
}

#[test]
fn a_lost_interrupt_is_made_up_for_and_counted() {
    let mut w = Watched::new(2);
    let function = w.s.device.function().clone();
    w.s.burst(0, 30_000);
    w.run(Nanos::from_secs(60));
    assert_eq!(w.dog.stats(0).lost_interrupts, 0);
    function.world().memory_mut(0).unwrap().lose_interrupts(1);
    w.s.burst(0, 30_000);
    let before = w.s.device.now();
    w.run(Nanos::from_secs(60));
    assert_eq!(w.s.with(Status::Ok), 2);
    let took = w.s.device.now().since(before);
    assert!(took <= Nanos::from_millis(1_100), "{took}");
    assert_eq!(w.dog.stats(0).lost_interrupts, 1);
    assert_eq!(w.dog.stats(1).lost_interrupts, 0);
    assert!(w.resets.is_empty());
}

#[test]
fn a_stalled_queue_is_reset_and_no_other() {
    let mut w = Watched::new(2);
    // Behind the driver's back: no frame of queue 0 leaves for minutes.
    let slow = [(queue::TX_RATE_LO, 0), (queue::TX_RATE_HI, 0xffff)];
    for (register, value) in slow {
        let at = queue_offset(0, register) as u64;
        w.s.device.function().write32(0, at, value).unwrap();
    }
    for _ in 0..3 {
        w.s.burst(0, 20_000);
        w.s.burst(1, 20_000);
    }
    let before = w.s.device.now();
    w.run(Nanos::from_secs(60));
    assert_eq!(w.resets, [0], "once");
    assert_eq!(w.dog.stats(0).tx_timeouts, 1);
    assert_eq!(w.s.done.len() as u64, w.s.posted);
    assert_eq!(w.s.with(Status::Ok), 3, "all of queue 1");
    assert_eq!(w.s.with(Status::QueueReset), 3);
    let took = w.s.device.now().since(before);
    assert!((5_000..7_500).contains(&took.as_millis()), "{took}");
    // It takes bursts again.
    assert!(w.s.tx[0].is_enabled() && w.s.tx[0].room() > 0);
}

#[test]
fn waiting_for_its_pace_is_no_stall() {
    let mut w = Watched::new(2);
    let flow = w.s.flows.allocate().unwrap();
    // 40,000 bytes and headers at 2,000 bytes a second: more than 20 s.
    w.s.post(0, 40_000, flow, Some(ByteRate(2_000)));
    w.run(Nanos::from_secs(100));
    assert_eq!(w.s.with(Status::Ok), 1);
    let now = w.s.device.now();
    assert!(now > Nanos::from_secs(20), "{now}");
    assert!(w.resets.is_empty());
}
