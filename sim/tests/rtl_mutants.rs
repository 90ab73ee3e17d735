// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the comparison of model and logic finds anything: faults in the text of
//! the Verilog, each of which must be found. Two of them; all with `TSONIC_LONG=1`,
//! because each has to be compiled.

mod suite;

use std::panic::{AssertUnwindSafe, catch_unwind};

use suite::pair::{Script, model, run};
use tsonic_hdl::csr::TICK_HZ;
use tsonic_sim::rtl::{self, RtlNic};
use tsonic_types::{TickRate, Ticks};
use tsonic_verilate::Optimisation;

/// More ticks than the script takes.
const LIMIT: Ticks = Ticks(4_000_000);
/// Bursts of the script: completion rings wrap, and every fault is met.
const BURSTS: usize = 700;

/// A line of the Verilog, and what stands there instead.
struct Mutant {
    what: &'static str,
    from: &'static str,
    to: &'static str,
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        what: "offset of a segment loses its high bits",
        from: "offset = ((plan1$q[(64'h59)+:(18)]) & 32'hffffffff);",
        to: "offset = ((plan1$q[(64'h59)+:(18)]) & 32'h00000fff);",
    },
    Mutant {
        what: "a flow is paced at twice its rate",
        from: "b_virtual$d = start$q + gap$q;",
        to: "b_virtual$d = start$q + (gap$q >> 1);",
    },
    Mutant {
        what: "the IP identification wraps at 16",
        from: "id_add = ((plan1$q[(64'h49)+:(16)]) & 32'hffffffff) << 32'h10;",
        to: "id_add = ((plan1$q[(64'h49)+:(16)]) & 32'h0000000f) << 32'h10;",
    },
    Mutant {
        what: "the payload's sum loses a carry",
        from: "sum4$d = sum_base + ((sum3$q) & 32'hffffffff);",
        to: "sum4$d = sum_base + ((sum3$q) & 32'h0001ffff);",
    },
    Mutant {
        what: "the carries of a checksum are not added",
        from: "folded$d = ((added$q[(32'h0)+:(16)]) & 17'h1ffff) + ((added$q[(32'h10)+:(3)]) & 17'h1ffff);",
        to: "folded$d = ((added$q[(32'h0)+:(16)]) & 17'h1ffff);",
    },
    Mutant {
        what: "a routing header is not followed",
        from: "restart4$d = masks3$q[(64'h4)+:(1)];",
        to: "restart4$d = 1'b0;",
    },
    Mutant {
        what: "dropped segments are counted as sent",
        from: "updated$d[(64'h20)+:(18)] = old$q[(64'h20)+:(18)] + frame_one;",
        to: "updated$d[(64'h20)+:(18)] = old$q[(64'h20)+:(18)] + one;",
    },
    Mutant {
        what: "the phase of a completion ring does not turn",
        from: "places$write_data[(64'hd)+:(1)] = turned$q ^ (index$q == mask$q);",
        to: "places$write_data[(64'hd)+:(1)] = turned$q;",
    },
    Mutant {
        what: "segments of one byte too many are taken",
        from: "(~segmented | (mss_wide > max_segment));",
        to: "(~segmented | (mss_wide > (max_segment + 18'h1)));",
    },
    Mutant {
        what: "a read goes on in the same 512 bytes",
        from: "high_after = addr$q[(32'h9)+:(55)] + 32'h1;",
        to: "high_after = addr$q[(32'h9)+:(55)];",
    },
];

#[test]
fn broken_logic_is_found() {
    let script = Script::new(BURSTS, 4, 100_000, 7);
    let (expected, _) = run(model(4), &script, LIMIT).unwrap();
    let rate = TickRate::new(TICK_HZ).expect("a frequency");
    let design = rtl::design(4).unwrap_or_else(|e| panic!("{e}"));
    let nic = RtlNic::new(design.clone(), rate, Optimisation::Quick).unwrap();
    let sound_nic = RtlNic::new(design.clone(), rate, Optimisation::Quick).unwrap();
    let (sound, _) = run(nic, &script, LIMIT).unwrap();
    let bound = Ticks(u64::MAX);
    expected.board.compare(&sound.board, bound).unwrap();
    let count = match std::env::var_os("TSONIC_LONG") {
        Some(_) => MUTANTS.len(),
        None => 2,
    };
    suite::rates::pacing(sound_nic, 20_000);
    let mut missed = Vec::new();
    for mutant in &MUTANTS[..count] {
        let mut broken = design.clone();
        assert!(
            broken.verilog.contains(mutant.from),
            "{}: no such line",
            mutant.what
        );
        broken.verilog = broken.verilog.replace(mutant.from, mutant.to);
        let make = || RtlNic::new(broken.clone(), rate, Optimisation::Quick).unwrap();
        // A checker may say so, the scoreboard, or the bench by a panic; flows that
        // are too fast show in the suite's test of rates.
        let found = match catch_unwind(AssertUnwindSafe(|| run(make(), &script, LIMIT))) {
            Err(_) => Some("the bench gave up".to_string()),
            Ok(Err(violation)) => Some(violation.to_string()),
            Ok(Ok((run, _))) => match expected.board.compare(&run.board, bound) {
                Err(violation) => Some(violation.to_string()),
                Ok(_) => catch_unwind(AssertUnwindSafe(|| suite::rates::pacing(make(), 20_000)))
                    .err()
                    .map(|_| "a flow does not keep its rate".to_string()),
            },
        };
        match found {
            Some(found) => println!("{}: {}", mutant.what, &found[..found.len().min(200)]),
            None => missed.push(mutant.what),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
