// SPDX-License-Identifier: MIT OR Apache-2.0
//! The model against the compiled logic: the same random bursts to both, frames of
//! each flow, completions and counters compared by the scoreboard, and both judged
//! by the independent checkers. 2,000 bursts; 20,000 with `TSONIC_LONG=1`.

mod suite;

use suite::pair::{Script, model, run};
use tsonic_regs::limits::PAYLOAD_MAX;
use tsonic_sim::rtl;
use tsonic_types::Ticks;

/// Most cycles of a run of the logic with 2,000 bursts.
const CYCLES_MAX: u64 = 10_000_000;

fn bursts() -> usize {
    match std::env::var_os("TSONIC_LONG") {
        Some(_) => 20_000,
        None => 2_000,
    }
}

#[test]
fn model_and_logic_agree() {
    let count = bursts();
    let script = Script::new(count, 32, PAYLOAD_MAX, 1);
    let limit = CYCLES_MAX * count.div_ceil(2_000) as u64;
    let (model, _) = run(model(32), &script, Ticks(limit)).unwrap();
    let nic = rtl::build(32).unwrap_or_else(|e| panic!("{e}"));
    let (logic, nic) = run(nic, &script, Ticks(limit)).unwrap();
    let agreement = model.board.compare(&logic.board, Ticks(u64::MAX)).unwrap();
    assert_eq!(agreement.frames as usize, model.frames);
    assert!(model.frames > 10 * count, "{} frames", model.frames);
    assert!(model.errors > count / 40, "{} errors", model.errors);
    // Which completion carries a mark depends on who was faster: both were judged alone.
    for run in [&model, &logic] {
        assert!(run.crossings > count / 100, "{} crossings", run.crossings);
    }
    assert!(nic.cycles() <= limit, "{} cycles", nic.cycles());
    println!(
        "{count} bursts, {} frames, {} errors, {} and {} crossings of byte limits; departures at most {} ticks apart; model {} ticks, logic {} ticks, {} cycles",
        model.frames,
        model.errors,
        model.crossings,
        logic.crossings,
        agreement.departure.0,
        model.ticks,
        logic.ticks,
        nic.cycles()
    );
}

/// Ticks of the largest frame of the script: 9,000 bytes behind a header.
const FRAME_TICKS: u64 = 9_200 / 8;

/// With the wire half used and every flow at half its rate, no departure of the two
/// NICs is further apart than this. What is left between them is the latency of the
/// data path, and frames of other flows that are due at about the same time and that
/// the two may take in another order.
const DEPARTURE_BOUND: Ticks = Ticks(8 * FRAME_TICKS);

#[test]
fn departures_agree_below_saturation() {
    let script = || Script::new(1_000, 32, 1 << 16, 2).at_half_load();
    let limit = Ticks(CYCLES_MAX);
    let (model, _) = run(model(32), &script(), limit).unwrap();
    let nic = rtl::build(32).unwrap_or_else(|e| panic!("{e}"));
    let (logic, _) = run(nic, &script(), limit).unwrap();
    let agreement = model.board.compare(&logic.board, DEPARTURE_BOUND).unwrap();
    assert_eq!(agreement.frames as usize, model.frames);
    println!(
        "{} frames, departures at most {} ticks apart",
        agreement.frames, agreement.departure.0
    );
}
