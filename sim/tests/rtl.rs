// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite against the compiled logic.

mod suite;

use tsonic_hdl::builds;
use tsonic_sim::rtl::{self, RtlNic};
use tsonic_types::Ticks;

#[test]
fn other_builds_are_refused_by_name() {
    let error = rtl::build(5).expect_err("no such build").to_string();
    assert!(
        error.contains("5 queue pairs") && error.contains("4, 8 or 32"),
        "{error}"
    );
}

fn nic() -> RtlNic {
    match rtl::build(4) {
        Ok(nic) => nic,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_build_has_the_same_pins() {
    let pins = |queues| match rtl::design(queues) {
        Ok(design) => design.ports,
        Err(error) => panic!("{error}"),
    };
    for queues in builds::BUILDS {
        assert_eq!(pins(*queues), pins(4));
    }
}

#[test]
fn golden_tcp_frames() {
    assert_eq!(suite::vectors::gso(nic, |v| v["proto"] == 6), 96);
}

#[test]
fn golden_udp_frames() {
    let whole = |v: &serde_json::Value| v["proto"] == 17 && v["gso"] != "udp_l4";
    assert!(suite::vectors::gso(nic, whole) > 0);
}

#[test]
fn golden_checksum_verdicts() {
    assert_eq!(suite::vectors::csum(nic), 126);
}

#[test]
fn golden_hashes() {
    assert!(suite::vectors::rss(nic) > 20);
}

#[test]
fn faulty_descriptors_have_their_codes() {
    suite::errors::descriptors(nic());
}

#[test]
fn unmapped_addresses_are_faults() {
    suite::errors::unmapped(nic());
}

#[test]
fn doorbells_beyond_the_ring_are_refused() {
    suite::errors::doorbells(nic());
}

#[test]
fn memory_taken_back_is_left_alone() {
    suite::errors::unmap(nic());
}

#[test]
fn a_queue_can_be_reset_alone() {
    suite::errors::queue_reset(nic());
}

#[test]
fn bursts_that_wait_are_handed_back() {
    suite::reset::waiting(nic());
    suite::reset::under_way(nic());
    suite::reset::others(nic);
}

#[test]
fn rings_wrap() {
    suite::load::ring_wrap(nic());
}

#[test]
fn paced_flows_keep_their_rates() {
    suite::rates::pacing(nic(), 0);
    suite::rates::pacing(nic(), 20_000);
}

#[test]
fn a_rate_is_exact() {
    suite::rates::rate_error(nic());
}

#[test]
fn launch_times_hold() {
    suite::rates::launch_times(nic());
    suite::rates::horizon(nic());
}

#[test]
fn queues_are_served_by_their_quanta() {
    suite::load::fairness(nic());
}

#[test]
fn a_queue_keeps_its_own_rate() {
    suite::rates::queue_rate(nic());
    suite::rates::new_queue_rate(nic());
}

#[test]
fn every_byte_completes_once() {
    suite::load::conservation(nic(), 2_000, 1);
}

#[test]
fn frames_are_received() {
    suite::load::receive(nic());
}

#[test]
fn flows_that_are_due_together_take_turns() {
    suite::load::all_at_once(nic(), false);
}

#[test]
fn the_wire_is_kept_busy() {
    let share = suite::load::busy(nic());
    println!("{:.2} % of cycles have a beat", share * 100.0);
    assert!(share >= 0.97, "{share}");
}

#[test]
fn reads_that_fail_leave_no_burst_behind() {
    suite::load::injected_faults(nic(), 1_000);
}

#[test]
fn a_gigabit_of_frames_is_received_whole() {
    for bytes in [60, 594, 1_514] {
        assert_eq!(suite::arrivals::back_to_back(nic(), bytes, 1_000, 8), 0);
    }
}

#[test]
fn a_budget_bounds_what_is_in_flight() {
    suite::load::budget(nic);
    suite::budget::write_back(nic());
}

#[test]
fn a_budget_finds_what_fills_the_line() {
    for latency in [0, 250, 1_250] {
        let share = suite::budget::fills_the_line(nic, Ticks(latency));
        println!(
            "latency {latency} ticks: {:.2} % of the line",
            share * 100.0
        );
        assert!(share >= 0.99, "{latency}: {share}");
    }
}

#[test]
fn paced_flows_go_on_under_a_small_budget() {
    suite::budget::paced_flows_go_on(nic());
}

#[test]
fn what_is_held_is_not_in_flight() {
    suite::budget::a_hold_is_not_in_flight(nic);
}

#[test]
fn budgets_balance_whatever_fails() {
    suite::budget::random_faults(nic(), 400, 1);
}

#[test]
fn a_closed_budget_blocks_no_other_queue() {
    suite::budget::a_closed_queue_blocks_no_other(nic());
}

#[test]
fn stalls_are_counted() {
    suite::budget::stalls(nic());
}

#[test]
fn completions_are_told_as_moderation_says() {
    suite::interrupts::at_once(nic());
    suite::interrupts::count_and_time(nic());
    suite::interrupts::flags(nic());
}

#[test]
fn no_interrupt_overtakes_its_completion() {
    suite::interrupts::order(nic(), 150);
}

#[test]
fn events_are_told_once() {
    suite::interrupts::events(nic());
}

#[test]
fn doorbell_pages_have_the_clock() {
    suite::interrupts::clock(nic());
}

#[test]
fn congestion_is_marked_to_the_tick() {
    suite::marks::congestion(nic);
    suite::marks::no_congestion(nic());
}

#[test]
fn byte_limits_mark_each_crossing_once() {
    suite::marks::determined(nic());
    suite::marks::wake_interrupts(nic());
    suite::marks::random(nic, 2_000);
}

#[test]
fn thirty_two_queues_have_thirty_three_vectors() {
    let nic = rtl::build(32).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(suite::interrupts::vectors(nic), 33);
}
