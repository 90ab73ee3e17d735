// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a case of an experiment for a profiler to count (`scripts/bench-cost.sh`), and prints
//! what the count is to be divided by.
//!
//!     count tso-rtt burst|two-segments LOG|off      payload bytes
//!     count throughput STACK BURSTS TRAFFIC CONNECTIONS PER_ACK    segments
//!
//! With `names` instead of a case it prints the names of the functions to count, and of those below to
//! leave out.
#![allow(missing_docs, reason = "a program")]

use std::process::ExitCode;
use std::time::Duration;
use tsonic_bench::throughput::{self, Stack, Traffic};
use tsonic_bench::tso_rtt::{self, AckPolicy, PacingMode};
use tsonic_types::{ByteRate, Nanos};

/// Segments for which instructions are counted.
const SEGMENTS: u64 = 5_000;

fn tso_rtt(acks: &str, log: &str) -> Option<Result<u64, String>> {
    let case = tso_rtt::Case {
        mode: PacingMode::Nic,
        flows: 40,
        mss: 4_096,
        rtt_log: match log {
            "off" => None,
            log => Some(log.parse().ok()?),
        },
        gso_max: 65_536,
        acks: match acks {
            "burst" => AckPolicy::Burst,
            "two-segments" => AckPolicy::TwoSegments,
            _ => return None,
        },
        react: false,
    };
    let settings = tso_rtt::Settings {
        cases: &[case],
        senders: 2,
        rate: ByteRate(20_000_000),
        spread: 0.01,
        wire: ByteRate(12_500_000_000),
        delay: Nanos::from_micros(15),
        step: 100_000,
        warm_up: Duration::from_millis(40),
        time: Duration::from_millis(50),
        seed: 1,
        seeds: 1,
        jobs: 1,
    };
    Some(tso_rtt::count(&settings, &case).map_err(|e| e.to_string()))
}

fn throughput(case: &[&str]) -> Option<Result<u64, String>> {
    let [stack, bursts, traffic, connections, per_ack] = *case else {
        return None;
    };
    let case = throughput::Case {
        stack: match stack {
            "tsonic" => Stack::Tsonic,
            "smoltcp" => Stack::Smoltcp,
            _ => return None,
        },
        traffic: match traffic {
            "backlog" => Traffic::Backlog,
            "messages" => Traffic::Messages,
            _ => return None,
        },
        connections: connections.parse().ok()?,
        bursts: match bursts {
            "on" => true,
            "off" => false,
            _ => return None,
        },
        per_ack: per_ack.parse().ok()?,
    };
    Some(throughput::count(case, SEGMENTS).map_err(|e| e.to_string()))
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let count = match words[..] {
        ["names"] => {
            let all = [tso_rtt::COUNTED, throughput::LEFT_OUT, tso_rtt::LEFT_OUT[0]];
            let all: Vec<&str> = all.into_iter().chain(throughput::COUNTED).collect();
            println!("{}", all.join(" "));
            return ExitCode::SUCCESS;
        }
        ["tso-rtt", acks, log] => tso_rtt(acks, log),
        ["throughput", ref case @ ..] => throughput(case),
        _ => None,
    };
    match count {
        Some(Ok(count)) => {
            println!("{count}");
            ExitCode::SUCCESS
        }
        Some(Err(e)) => {
            eprintln!("count: {e}");
            ExitCode::FAILURE
        }
        None => {
            eprintln!(
                "usage: count names | tso-rtt burst|two-segments LOG|off | throughput tsonic|smoltcp on|off backlog|messages CONNECTIONS PER_ACK"
            );
            ExitCode::from(2)
        }
    }
}
