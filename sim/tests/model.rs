// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite against the model.

mod suite;

use tsonic_sim::model::{Model, ModelConfig};
use tsonic_types::Ticks;

fn model() -> Model {
    Model::new(ModelConfig {
        queues: 8,
        flow_slots: 64,
        ..ModelConfig::default()
    })
}

fn large() -> Model {
    Model::new(ModelConfig {
        max_segment: 65_535,
        ..ModelConfig::default()
    })
}

#[test]
fn golden_tcp_and_udp_frames() {
    assert_eq!(suite::vectors::gso(model, |v| v["proto"] == 6), 96);
    assert_eq!(suite::vectors::gso(model, |v| v["proto"] == 17), 22);
}

#[test]
fn golden_frames_of_any_size() {
    assert_eq!(suite::vectors::gso(large, |_| true), 118);
}

#[test]
fn golden_checksum_verdicts() {
    assert_eq!(suite::vectors::csum(model), 126);
}

#[test]
fn golden_hashes() {
    assert!(suite::vectors::rss(model) > 20);
}

#[test]
fn faulty_descriptors_have_their_codes() {
    suite::errors::descriptors(model());
}

#[test]
fn unmapped_addresses_are_faults() {
    suite::errors::unmapped(model());
}

#[test]
fn doorbells_beyond_the_ring_are_refused() {
    suite::errors::doorbells(model());
}

#[test]
fn memory_taken_back_is_left_alone() {
    suite::errors::unmap(model());
}

#[test]
fn a_queue_can_be_reset_alone() {
    suite::errors::queue_reset(model());
}

#[test]
fn bursts_that_wait_are_handed_back() {
    suite::reset::waiting(model());
    suite::reset::under_way(model());
    suite::reset::others(model);
}

#[test]
fn rings_wrap() {
    suite::load::ring_wrap(model());
}

#[test]
fn paced_flows_keep_their_rates() {
    suite::rates::pacing(model(), 0);
    suite::rates::pacing(model(), 20_000);
}

#[test]
fn a_rate_is_exact() {
    suite::rates::rate_error(model());
}

#[test]
fn launch_times_hold() {
    suite::rates::launch_times(model());
    suite::rates::horizon(model());
}

#[test]
fn queues_are_served_by_their_quanta() {
    suite::load::fairness(model());
}

#[test]
fn a_queue_keeps_its_own_rate() {
    suite::rates::queue_rate(model());
    suite::rates::new_queue_rate(model());
}

#[test]
fn every_byte_completes_once() {
    suite::load::conservation(model(), 20_000, 1);
}

#[test]
fn frames_are_received() {
    suite::load::receive(model());
}

#[test]
fn flows_that_are_due_together_take_turns() {
    suite::load::all_at_once(model(), true);
    suite::load::all_at_once(Model::new(ModelConfig::default()), true);
}

#[test]
fn reads_that_fail_leave_no_burst_behind() {
    suite::load::injected_faults(model(), 3_000);
}

#[test]
fn builds_of_any_size_work() {
    for (queues, flow_slots) in [(1, 1), (3, 2), (256, 65_536)] {
        let nic = Model::new(ModelConfig {
            queues,
            flow_slots,
            ..ModelConfig::default()
        });
        suite::load::conservation(nic, 300, queues as u64);
    }
}

#[test]
fn a_gigabit_of_frames_is_received_whole() {
    for bytes in [60, 594, 1_514] {
        assert_eq!(suite::arrivals::back_to_back(model(), bytes, 1_000, 8), 0);
    }
}

#[test]
fn a_budget_bounds_what_is_in_flight() {
    suite::load::budget(model);
    suite::budget::write_back(model());
}

#[test]
fn a_budget_finds_what_fills_the_line() {
    for latency in [0, 250, 1_250] {
        let share = suite::budget::fills_the_line(model, Ticks(latency));
        println!(
            "latency {latency} ticks: {:.2} % of the line",
            share * 100.0
        );
        assert!(share >= 0.99, "{latency}: {share}");
    }
}

#[test]
fn paced_flows_go_on_under_a_small_budget() {
    suite::budget::paced_flows_go_on(model());
}

#[test]
fn what_is_held_is_not_in_flight() {
    suite::budget::a_hold_is_not_in_flight(model);
}

#[test]
fn budgets_balance_whatever_fails() {
    suite::budget::random_faults(model(), 2_000, 1);
}

#[test]
fn a_closed_budget_blocks_no_other_queue() {
    suite::budget::a_closed_queue_blocks_no_other(model());
}

#[test]
fn stalls_are_counted() {
    suite::budget::stalls(model());
}

#[test]
fn completions_are_told_as_moderation_says() {
    suite::interrupts::at_once(model());
    suite::interrupts::count_and_time(model());
    suite::interrupts::flags(model());
}

#[test]
fn no_interrupt_overtakes_its_completion() {
    suite::interrupts::order(model(), 150);
}

#[test]
fn events_are_told_once() {
    suite::interrupts::events(model());
}

#[test]
fn doorbell_pages_have_the_clock() {
    suite::interrupts::clock(model());
}

#[test]
fn congestion_is_marked_to_the_tick() {
    suite::marks::congestion(model);
    suite::marks::no_congestion(model());
}

#[test]
fn byte_limits_mark_each_crossing_once() {
    suite::marks::determined(model());
    suite::marks::wake_interrupts(model());
    suite::marks::random(model, 2_000);
}

#[test]
fn thirty_two_queues_have_thirty_three_vectors() {
    let nic = Model::new(ModelConfig {
        queues: 32,
        ..ModelConfig::default()
    });
    assert_eq!(suite::interrupts::vectors(nic), 33);
}
