// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic stats`: counters and state of a running process.

use super::target::Target;
use super::{ControlError, bql, open, print_line, unexpected};
use crate::units;
use clap::Args;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};
use tsonic_host::control::protocol::{
    CONNECTIONS_MAX, ConnectionStats, Reply, Request, Stats, TcpCounters,
};
use tsonic_host::control::{Client, ClientError, Code};

/// Shows counters and state of a running process.
///
/// Times are the engine's: the NIC's clock. Counters of queues have the names of `ethtool -S`
/// and of byte_queue_limits; what this NIC does not report is null, or left out.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Examples:\n  tsonic stats\n  tsonic stats --json | jq .total.segments_per_burst\n  tsonic stats --watch 1"
)]
pub struct StatsArgs {
    /// Again and again, this many seconds apart, until the process ends: the change since
    /// the time before. With --json an object each.
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "1", value_parser = interval)]
    pub watch: Option<Duration>,
    /// Most connections to list.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(0..=i64::from(CONNECTIONS_MAX)))]
    pub connections: u32,
    /// Which process.
    #[command(flatten)]
    pub target: Target,
}

/// Shortest interval of `--watch`.
const WATCH_MIN: Duration = Duration::from_millis(10);

fn interval(text: &str) -> Result<Duration, String> {
    let span = units::span(text)?;
    if span < WATCH_MIN {
        return Err("the shortest interval is 10 ms".into());
    }
    Ok(span)
}

/// Runs the command.
///
/// # Errors
/// [`ControlError`].
pub fn run(args: &StatsArgs) -> Result<(), ControlError> {
    let mut client = open(&args.target)?;
    let pid = client.greeting().pid;
    let mut before = sample(&mut client, args.connections)?;
    let Some(interval) = args.watch else {
        let line = Line {
            pid,
            stats: &before,
        };
        return print_line(&args.target, &line, |out, s| whole(out, s.stats));
    };
    let mut next = Instant::now();
    if args.target.json {
        let line = Line {
            pid,
            stats: &before,
        };
        print_line(&args.target, &line, |_, _| Ok(()))?;
    }
    loop {
        next += interval;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        let now = match sample(&mut client, args.connections) {
            Ok(sample) => sample,
            // It has ended, which is no failure of the watcher's.
            Err(ControlError::Client(e)) if gone(&e) => return Ok(()),
            Err(e) => return Err(e),
        };
        let line = Line { pid, stats: &now };
        print_line(&args.target, &line, |out, s| change(out, &before, s.stats))?;
        before = now;
    }
}

fn gone(e: &ClientError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    match e {
        ClientError::Io(e) => matches!(e.kind(), UnexpectedEof | BrokenPipe | ConnectionReset),
        ClientError::Failed(f) => f.code == Code::NoAnswer.number(),
        _ => false,
    }
}

fn sample(client: &mut Client, connections: u32) -> Result<Stats, ControlError> {
    match client.ask(Request::Stats { connections })? {
        (_, Reply::Stats(stats)) => Ok(*stats),
        _ => Err(unexpected()),
    }
}

/// The statistics as they are printed: with their process.
#[derive(serde::Serialize)]
struct Line<'a> {
    pid: u32,
    #[serde(flatten)]
    stats: &'a Stats,
}

fn mean(c: &TcpCounters) -> String {
    c.segments_per_burst
        .map_or("none yet".into(), |m| format!("{m:.2} a burst"))
}

fn whole(out: &mut dyn Write, s: &Stats) -> io::Result<()> {
    writeln!(out, "engine time  {:.6} s", s.engine_time_ns as f64 / 1e9)?;
    tcp(out, "tcp         ", &s.total)?;
    if s.tenants.len() > 1 {
        for t in &s.tenants {
            tcp(out, &format!("tenant {:<5}", t.tenant), &t.counters)?;
        }
    }
    let e = &s.engine;
    writeln!(
        out,
        "engine       {} connections, {} bursts in the NIC, {} chunks free, {} reserves left; frames in {}, ignored {}, bad checksums {}, resets {}, SYNs dropped {}, refused {}, stopped by share {}, echoes {}",
        e.connections,
        e.bursts_in_nic,
        e.chunks_free,
        e.reserves_left,
        e.frames_in,
        e.frames_ignored,
        e.bad_checksums,
        e.resets_out,
        e.syn_drops,
        e.refused,
        e.share_stops,
        e.echoes
    )?;
    for c in &s.connections {
        connection(out, c)?;
    }
    if s.connections_left_out > 0 {
        writeln!(out, "  and {} connections more", s.connections_left_out)?;
    }
    for q in &s.queues {
        writeln!(
            out,
            "tx-{:<9} bursts {}, outstanding {}, room {}{}",
            q.queue,
            q.bursts,
            q.outstanding,
            q.room,
            counters(&q.tx)
        )?;
        if let Some(b) = q.byte_queue_limits.as_ref().filter(|b| b.active) {
            writeln!(out, "  byte_queue_limits {}", bql::line(b))?;
        }
        if q.rx.values().any(|n| *n > 0) {
            writeln!(
                out,
                "rx-{:<9}{}",
                q.queue,
                counters(&q.rx).trim_start_matches(',')
            )?;
        }
    }
    writeln!(
        out,
        "fq           flows {} of {}",
        s.fq.flows, s.fq.flow_slots
    )?;
    writeln!(
        out,
        "device      {}",
        counters(&s.device).trim_start_matches(',')
    )
}

/// Counters that are not 0.
fn counters(all: &BTreeMap<String, u64>) -> String {
    all.iter()
        .filter(|(_, n)| **n > 0)
        .map(|(name, n)| format!(", {name} {n}"))
        .collect()
}

fn tcp(out: &mut dyn Write, label: &str, c: &TcpCounters) -> io::Result<()> {
    writeln!(
        out,
        "{label} {} bursts of {} segments ({}), {} payload bytes, {} ACKs; {} bytes in",
        c.bursts,
        c.segments,
        mean(c),
        c.payload_bytes,
        c.acks,
        c.bytes_in
    )?;
    writeln!(
        out,
        "             retransmitted {} segments ({} bytes), {} time-outs, {} probes, {} recoveries",
        c.retransmitted_segments, c.retransmitted_bytes, c.rto_count, c.tlp_probes, c.recoveries
    )?;
    writeln!(
        out,
        "             {} small-queue stops, {} deferred, {} without room, {} queue moves ({} with bytes in the NIC)",
        c.tsq_stops, c.deferred, c.backpressure, c.queue_moves, c.ooo_moves
    )
}

fn connection(out: &mut dyn Write, c: &ConnectionStats) -> io::Result<()> {
    let us = |t: Option<f64>| t.map_or("?".into(), |t| format!("{t:.1}"));
    let rate = c.pacing_rate.map_or("unpaced".into(), |r| {
        format!(
            "{r} B/s by the {}",
            if c.paced_by_nic { "NIC" } else { "engine" }
        )
    });
    let queue = c.queue.map_or("none".into(), |q| format!("tx-{q}"));
    writeln!(
        out,
        "  {} > {} {} cwnd {} in_flight {} mss {} srtt {} us min_rtt {} us, {rate}, queue {queue}, {} bursts ({})",
        c.local,
        c.remote,
        c.state,
        c.cwnd,
        c.in_flight,
        c.mss,
        us(c.srtt_us),
        us(c.min_rtt_us),
        c.counters.bursts,
        mean(&c.counters)
    )
}

/// One line: what changed since `before`.
fn change(out: &mut dyn Write, before: &Stats, now: &Stats) -> io::Result<()> {
    let (b, n) = (&before.total, &now.total);
    let span = now.engine_time_ns.saturating_sub(before.engine_time_ns) as f64 / 1e9;
    let bursts = n.bursts - b.bursts.min(n.bursts);
    let segments = n.segments - b.segments.min(n.segments);
    let per_second = |new: u64, old: u64| {
        if span > 0.0 {
            new.saturating_sub(old) as f64 / span / 1e6
        } else {
            0.0
        }
    };
    let mean = if bursts == 0 {
        "-".into()
    } else {
        format!("{:.2}", segments as f64 / bursts as f64)
    };
    writeln!(
        out,
        "{:.3} s: out {:.3} MB/s, in {:.3} MB/s, {bursts} bursts of {mean} segments, {} stops, {} sent again, {} time-outs",
        now.engine_time_ns as f64 / 1e9,
        per_second(n.payload_bytes, b.payload_bytes),
        per_second(n.bytes_in, b.bytes_in),
        n.tsq_stops.saturating_sub(b.tsq_stops),
        n.retransmitted_segments
            .saturating_sub(b.retransmitted_segments),
        n.rto_count.saturating_sub(b.rto_count)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_a_floor() {
        assert_eq!(interval("1"), Ok(Duration::from_secs(1)));
        assert_eq!(interval("50ms"), Ok(Duration::from_millis(50)));
        assert!(interval("1ms").is_err() && interval("0").is_err());
    }
}
