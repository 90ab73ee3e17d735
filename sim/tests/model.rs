// SPDX-License-Identifier: MIT OR Apache-2.0
//! The suite against the model.

mod suite;

use tsonic_sim::model::{Model, ModelConfig};

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
