// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory port's arbiter: each client gets its own words in its own order,
//! writes are not mixed, and nobody is left waiting.

mod memory_side;
mod support;

use memory_side::{HostMemory, ReadPort, Rtl};
use std::collections::VecDeque;
use support::{Pcg64Mcg, RngExt, SeedableRng};
use tsonic_hdl::memory::{Memory, READERS, WRITERS};

#[derive(Default)]
struct Reader {
    /// Request that is offered.
    offered: Option<(u64, u64)>,
    /// Words that must come: address, last, error.
    want: VecDeque<(Option<u64>, bool)>,
    words: u64,
}

#[derive(Default)]
struct Writer {
    /// Beats of the request that is offered.
    beats: VecDeque<(u64, u64, u64, bool)>,
    /// Beats that must come out, in order.
    want: VecDeque<(u64, u64, u64, bool)>,
    requests: u64,
    /// The first beat is shown, and stays so until it is taken.
    shown: bool,
}

#[test]
fn clients_share_the_port() {
    let mut rng = Pcg64Mcg::seed_from_u64(7);
    let mut rtl = Rtl::new(Memory::default());
    let mut memory = HostMemory::default();
    // Every fourth page is missing.
    for page in (0..64u64).filter(|page| page % 4 != 3) {
        let data: Vec<u8> = (0..4096).map(|_| rng.random()).collect();
        memory.write(page * 4096, &data);
    }
    let mut port = ReadPort::new(1..40, 0.9, 0.7);
    let mut readers: [Reader; READERS] = Default::default();
    let mut writers: [Writer; WRITERS] = Default::default();
    let mut current: Option<usize> = None;
    // Beats taken and not out yet, and an interrupt that stands since a cycle.
    let (mut inside, mut asked, mut interrupts) = (0u64, None, 0u64);
    for cycle in 0..200_000u64 {
        let busy = cycle < 190_000;
        for (n, r) in readers.iter_mut().enumerate() {
            if busy && r.offered.is_none() && rng.random_bool(0.1) {
                let addr = rng.random_range(0..64 * 4096);
                let len = rng.random_range(1..=512u64).min(4096 - addr % 4096);
                r.offered = Some((addr, len));
            }
            let (addr, len) = r.offered.unwrap_or_default();
            rtl.set(&format!("req_valid${n}"), u64::from(r.offered.is_some()));
            rtl.set(&format!("req_addr${n}"), addr);
            rtl.set(&format!("req_len${n}"), len);
            rtl.set(&format!("data_ready${n}"), u64::from(rng.random_bool(0.9)));
        }
        for (n, w) in writers.iter_mut().enumerate() {
            if busy && w.beats.is_empty() && rng.random_bool(0.05) {
                let (start, beats) = (rng.random::<u64>() & !511, rng.random_range(1..=64));
                for i in 0..beats {
                    let beat = (
                        start + 8 * i,
                        rng.random(),
                        rng.random_range(0..256),
                        i + 1 == beats,
                    );
                    w.beats.push_back(beat);
                    w.want.push_back(beat);
                }
                w.requests += 1;
            }
            // A writer may pause within a request.
            w.shown |= rng.random_bool(0.8);
            let beat = w.beats.front().filter(|_| w.shown);
            rtl.set(&format!("write_valid${n}"), u64::from(beat.is_some()));
            let (addr, data, strb, last) = beat.copied().unwrap_or_default();
            rtl.set(&format!("write_addr${n}"), addr);
            rtl.set(&format!("write_data${n}"), data);
            rtl.set(&format!("write_strb${n}"), strb);
            rtl.set(&format!("write_last${n}"), u64::from(last));
        }
        let beat = port.beat(&memory, cycle, &mut rng);
        let b = beat.unwrap_or_default();
        rtl.set("rd_valid", u64::from(beat.is_some()));
        rtl.set("rd_data", b.data);
        rtl.set("rd_last", u64::from(b.last));
        rtl.set("rd_err", u64::from(b.err));
        rtl.set("rd_req_ready", u64::from(rng.random_bool(0.7)));
        rtl.set("wr_ready", u64::from(rng.random_bool(0.7)));
        if busy && asked.is_none() && rng.random_bool(0.02) {
            asked = Some(cycle);
        }
        rtl.set("interrupt_valid", u64::from(asked.is_some()));
        rtl.set("irq_ready", u64::from(rng.random_bool(0.7)));
        rtl.settle();
        // Behind all that was taken, and never long behind it.
        if rtl.high("irq_valid") {
            assert_eq!((asked.is_some(), inside), (true, 0));
            assert!(!rtl.high("wr_valid"));
        }
        let told = rtl.high("irq_valid") && rtl.driven("irq_ready") == 1;
        assert_eq!(told, rtl.high("interrupt_ready") && asked.is_some());
        if let (Some(since), true) = (asked, told) {
            assert!(cycle - since < 600, "{} cycles", cycle - since);
            asked = None;
            interrupts += 1;
        }
        if let (Some(beat), true) = (beat, rtl.high("rd_ready")) {
            port.taken(beat);
        }
        if rtl.high("rd_req_valid") && rtl.driven("rd_req_ready") == 1 {
            port.request(
                rtl.get("rd_req_addr"),
                rtl.get("rd_req_len"),
                cycle,
                &mut rng,
            );
        }
        for (n, r) in readers.iter_mut().enumerate() {
            if let (Some((addr, len)), true) = (r.offered, rtl.high(&format!("req_ready${n}"))) {
                r.offered = None;
                let mut at = addr & !7;
                loop {
                    let word = memory.word(at);
                    let last = word.is_none() || at + 8 >= addr + len;
                    r.want.push_back((word, last));
                    if last {
                        break;
                    }
                    at += 8;
                }
            }
            if rtl.high(&format!("data_valid${n}")) && rtl.driven(&format!("data_ready${n}")) == 1 {
                let (word, last) = r.want.pop_front().expect("a word that was asked for");
                assert_eq!(rtl.high("data_last"), last);
                assert_eq!(rtl.high("data_err"), word.is_none());
                if let Some(word) = word {
                    assert_eq!(rtl.get("data"), word);
                }
                r.words += 1;
            }
        }
        for (n, w) in writers.iter_mut().enumerate() {
            if rtl.driven(&format!("write_valid${n}")) == 1 && rtl.high(&format!("write_ready${n}"))
            {
                w.beats.pop_front();
                w.shown = false;
                inside += 1;
            }
        }
        if rtl.high("wr_valid") && rtl.driven("wr_ready") == 1 {
            let beat = (
                rtl.get("wr_addr"),
                rtl.get("wr_data"),
                rtl.get("wr_strb"),
                rtl.high("wr_last"),
            );
            let n = current.unwrap_or_else(|| {
                let found = writers.iter().position(|w| w.want.front() == Some(&beat));
                found.expect("the first beat of somebody's request")
            });
            assert_eq!(writers[n].want.pop_front(), Some(beat));
            current = (!beat.3).then_some(n);
            inside -= 1;
        }
        rtl.edge();
    }
    assert!(rtl.high("idle"));
    assert!(interrupts > 1_000, "{interrupts} interrupts");
    assert!(
        readers
            .iter()
            .all(|r| r.want.is_empty() && r.words > 20_000)
    );
    assert!(
        writers
            .iter()
            .all(|w| w.want.is_empty() && w.requests > 500)
    );
}
