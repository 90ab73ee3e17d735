// SPDX-License-Identifier: MIT OR Apache-2.0

use super::*;

fn case(stack: Stack, traffic: Traffic, connections: usize, bursts: bool) -> Case {
    Case {
        stack,
        traffic,
        connections,
        bursts,
        per_ack: 2,
    }
}

/// Both stacks, bursts on and off: all bytes arrive, in order, as they were written.
#[test]
fn what_arrives_is_what_was_written() {
    for stack in [Stack::Tsonic, Stack::Smoltcp] {
        for bursts in [true, false] {
            for (traffic, connections) in [
                (Traffic::Backlog, 1),
                (Traffic::Backlog, 20),
                (Traffic::Messages, 20),
            ] {
                let case = case(stack, traffic, connections, bursts);
                let mut run = Run::start(case, true).expect("it runs");
                run.round(2_000).expect("it goes on");
                let arrived = run.sender.far().arrived();
                assert_eq!(arrived.connections, connections as u64, "{case:?}");
                assert_eq!((arrived.wrong, arrived.misplaced), (0, 0), "{case:?}");
                assert!(arrived.bytes > 2_000 * 1_000, "{case:?}: {arrived:?}");
                let row = run.row();
                assert_eq!(row.packets, run.rounds[0].arrived.segments);
                if stack == Stack::Tsonic && !bursts {
                    // Pure acknowledgements and the like are no bursts of data.
                    assert!(row.packets_per_burst <= 1.01, "{row:?}");
                }
                if bursts && connections == 1 {
                    assert!(row.packets_per_burst > 8.0, "{row:?}");
                }
                assert!(row.packets_per_ack <= 2.01 && row.packets_per_ack >= 1.0);
            }
        }
    }
}

#[test]
fn the_figures_of_a_row_belong_together() {
    let run = Run {
        rounds: vec![
            Round {
                spent: Spent {
                    host: 1_000_000,
                    device: 3_000_000,
                },
                arrived: Arrived {
                    bytes: 1_460_000,
                    segments: 1_000,
                    acks: 500,
                    ..Arrived::default()
                },
                bursts: 100,
            };
            3
        ],
        ..Run::start(case(Stack::Smoltcp, Traffic::Backlog, 1, false), false).expect("it runs")
    };
    let row = run.row();
    assert_eq!(row.ns_per_packet, [1_000.0; 3]);
    assert_eq!(row.packets_per_s, [1e6; 3]);
    assert_eq!(row.goodput_gbps, [11.68; 3]);
    assert_eq!((row.packets_per_burst, row.packets_per_ack), (10.0, 2.0));
    assert_eq!(row.times_smoltcp, None);
    assert_eq!((row.device_share, row.packets), (0.75, 3_000));
}

#[test]
fn too_many_connections_are_refused_with_the_most_there_are() {
    let case = case(Stack::Tsonic, Traffic::Messages, CONNECTIONS_MAX + 1, true);
    let error = run(
        &Settings {
            rounds: 1,
            segments: 1,
        },
        &[case],
    );
    let text = error.expect_err("there are no ports").to_string();
    assert!(text.contains("800000"), "{text}");
}
