// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench throughput`.

use super::BenchError;
use super::output::{Output, OutputArgs};
use super::plot::{Axis, Plot};
use clap::Args;
use std::fmt;
use std::process::Command;
use tsonic_bench::throughput::{
    self, CONNECTIONS_MAX, COUNTED, Case, LEFT_OUT, Row, Settings, Stack, Traffic,
};

/// Segments for which instructions are counted.
const COUNTED_SEGMENTS: u64 = 5_000;
/// Segments that an acknowledgement is for, where the number of connections is what differs.
const SWEEP_PER_ACK: u32 = 2;
/// Program that counts instructions.
const COUNTER: &str = "valgrind";

/// What engine and driver cost a core, beside smoltcp.
///
/// Both send over the same wire of 100 Gb/s in virtual time to the same receiver; what counts is the time of
/// the core in the sender: write, stack, driver. The time of the NIC model, the wire and the receiver
/// is shown as a share of all. First each connection always has data (backlog), then all
/// connections get a message of 10 segments in turn (messages). Columns: payload per second of
/// the core and over that of smoltcp without bursts, packets of data per second of the core, time and
/// instructions for a packet of data, the time to copy it once; median of the rounds, with the
/// range for the time. Run it on a quiet machine; ratios matter.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  tsonic bench throughput --flows 1,1000 --connections 100,100000 --svg cost.svg"
)]
pub struct ThroughputArgs {
    /// Numbers of connections that always have data.
    #[arg(long, value_delimiter = ',', default_value = "1,1000", value_parser = connections, value_name = "N")]
    flows: Vec<usize>,
    /// Segments of a connection that the receiver acknowledges at once: 2 as every host does, 44
    /// as one that merges what it receives.
    #[arg(long, value_delimiter = ',', default_value = "2,44", value_parser = clap::value_parser!(u32).range(1..=1024), value_name = "N")]
    per_ack: Vec<u32>,
    /// Numbers of connections that get messages in turn.
    #[arg(long, value_delimiter = ',', default_value = "1,10,100,1000,10000,100000", value_parser = connections, value_name = "N")]
    connections: Vec<usize>,
    /// Most connections of smoltcp, which looks at each socket for each packet.
    #[arg(long, default_value_t = 1000, value_name = "N")]
    smoltcp_max: usize,
    /// Rounds; in each, every stack has its turn.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Packets of data of a stack in a round.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    packets: u64,
    /// Also counts instructions: each row runs once more under valgrind, for a minute or so.
    #[arg(long)]
    instructions: bool,
    /// Runs this case, for valgrind to count.
    #[arg(long, hide = true, value_parser = case, value_name = "JSON")]
    count: Option<Case>,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn connections(s: &str) -> Result<usize, String> {
    let n = s.parse().ok().filter(|n| (1..=CONNECTIONS_MAX).contains(n));
    n.ok_or_else(|| format!("a number from 1 to {CONNECTIONS_MAX} is wanted"))
}

fn case(s: &str) -> Result<Case, String> {
    serde_json::from_str(s).map_err(|e| e.to_string())
}

impl ThroughputArgs {
    /// What is run side by side.
    fn groups(&self) -> Vec<Vec<Case>> {
        let group = |traffic, connections, per_ack| {
            let both = [(Stack::Tsonic, true), (Stack::Tsonic, false)];
            let beside = [(Stack::Smoltcp, true), (Stack::Smoltcp, false)];
            let beside = beside
                .into_iter()
                .filter(|_| connections <= self.smoltcp_max);
            (both.into_iter().chain(beside))
                .map(|(stack, bursts)| Case {
                    stack,
                    traffic,
                    connections,
                    bursts,
                    per_ack,
                })
                .collect()
        };
        let mut groups = Vec::new();
        for &n in &self.flows {
            for &per_ack in &self.per_ack {
                groups.push(group(Traffic::Backlog, n, per_ack));
            }
        }
        for &n in &self.connections {
            groups.push(group(Traffic::Messages, n, SWEEP_PER_ACK));
        }
        groups
    }
}

/// Runs the experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &ThroughputArgs, out: &mut Output<'_>) -> Result<(), BenchError> {
    if let Some(case) = args.count {
        println!("{}", throughput::count(case, COUNTED_SEGMENTS)?);
        return Ok(());
    }
    let settings = Settings {
        rounds: usize::from(args.rounds),
        segments: args.packets,
    };
    out.heading(heading());
    let mut rows = Vec::new();
    for group in args.groups() {
        for mut row in throughput::run(&settings, &group)? {
            if args.instructions {
                row.instructions_per_packet = Some(instructions(&row.case)?);
            }
            out.row(&row, &Cells(&row));
            rows.push(row);
        }
    }
    out.plot(plot(&rows));
    Ok(())
}

/// Instructions of the host for a packet of data, by callgrind.
fn instructions(case: &Case) -> Result<f64, BenchError> {
    let failed = |what: String| BenchError::Count(what);
    let program = std::env::current_exe().map_err(|e| failed(e.to_string()))?;
    let profile = std::env::temp_dir().join(format!("tsonic-callgrind.{}", std::process::id()));
    // Cases are words and numbers: they always serialize.
    let case = serde_json::to_string(case).unwrap_or_default();
    let mut command = Command::new(COUNTER);
    command.args(["--tool=callgrind", "--collect-atstart=no"]);
    command.arg(format!("--callgrind-out-file={}", profile.display()));
    for name in COUNTED.into_iter().chain([LEFT_OUT]) {
        command.arg(format!("--toggle-collect={name}"));
    }
    let command = command
        .arg(program)
        .args(["bench", "throughput", "--count"]);
    let output = command.arg(case).output();
    let text = std::fs::read_to_string(&profile);
    // Nobody needs it any more, and it may never have been there.
    let _ = std::fs::remove_file(&profile);
    let output = output.map_err(|e| {
        failed(format!(
            "{COUNTER} does not run ({e}); install it, or leave --instructions away"
        ))
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|l| !l.trim().is_empty());
        return Err(failed(format!(
            "{COUNTER} ended with {}: {}",
            output.status,
            last.unwrap_or("it said nothing")
        )));
    }
    let packets = String::from_utf8_lossy(&output.stdout);
    let packets = packets.trim().parse::<f64>().ok();
    let total = text.ok().as_deref().and_then(total);
    match (total, packets) {
        (Some(total), Some(packets)) if total > 0.0 && packets > 0.0 => Ok(total / packets),
        _ => Err(failed(format!(
            "{COUNTER} left no profile of the functions {}; is the program stripped?",
            COUNTED.join(" and ")
        ))),
    }
}

/// What a profile of callgrind counted in all.
fn total(profile: &str) -> Option<f64> {
    let line = profile.lines().find_map(|l| l.strip_prefix("totals:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn heading() -> String {
    format!(
        "{:<8} {:>7} {:>4} {:<7} {:<6} {:>7} {:>8} {:>7} {:>7} {:>11} {:>7} {:>6} {:>7} {:>6}",
        "traffic",
        "flows",
        "ack",
        "stack",
        "bursts",
        "Gb/s",
        "x plain",
        "Mpkt/s",
        "ns/pkt",
        "range",
        "instr.",
        "copy",
        "burst",
        "device"
    )
}

const fn traffic_name(traffic: Traffic) -> &'static str {
    match traffic {
        Traffic::Backlog => "backlog",
        Traffic::Messages => "messages",
    }
}

const fn bursts_name(bursts: bool) -> &'static str {
    if bursts { "on" } else { "off" }
}

/// A row of the table.
struct Cells<'a>(&'a Row);

impl fmt::Display for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (row, case) = (self.0, &self.0.case);
        let [least, median, most] = row.ns_per_packet;
        let or_dash = |value: Option<f64>, digits: usize| match value {
            Some(v) => format!("{v:.digits$}"),
            None => "-".to_owned(),
        };
        write!(
            f,
            "{:<8} {:>7} {:>4} {:<7} {:<6} {:>7.1} {:>8} {:>7.2} {:>7.0} {:>11} {:>7} {:>6.0} {:>7.1} {:>5.0}%",
            traffic_name(case.traffic),
            case.connections,
            case.per_ack,
            case.stack.to_string(),
            bursts_name(case.bursts),
            row.goodput_gbps[1],
            or_dash(row.times_smoltcp, 2),
            row.packets_per_s[1] / 1e6,
            median,
            format!("{least:.0}..{most:.0}"),
            or_dash(row.instructions_per_packet, 0),
            row.copy_ns_per_packet,
            row.packets_per_burst,
            100.0 * row.device_share
        )
    }
}

fn plot(rows: &[Row]) -> Plot {
    let mut plot = Plot {
        title: "Time on a core for a packet of data, messages to all connections in turn".into(),
        x: Axis {
            title: "connections",
            log: true,
        },
        y: Axis {
            title: "ns",
            log: true,
        },
        series: Vec::new(),
    };
    for row in rows.iter().filter(|r| r.case.traffic == Traffic::Messages) {
        let name = format!(
            "{}, bursts {}",
            row.case.stack,
            bursts_name(row.case.bursts)
        );
        plot.add(name, (row.case.connections as f64, row.ns_per_packet[1]));
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ThroughputArgs,
    }

    #[test]
    fn a_case_comes_back_from_the_command_line() {
        let args = Line::parse_from(["throughput", "--flows", "3", "--connections", "2000"]).args;
        let groups = args.groups();
        // Two numbers of segments an acknowledgement; then messages, without smoltcp.
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [4, 4, 2]);
        for c in groups.iter().flatten() {
            assert_eq!(case(&serde_json::to_string(c).unwrap()), Ok(*c));
        }
    }

    #[test]
    fn the_total_of_a_profile_is_read() {
        let profile = "version: 1\nevents: Ir\nfn=(1) f\n1 7\n\ntotals: 45560741\n";
        assert_eq!(total(profile), Some(45_560_741.0));
        assert_eq!(total("version: 1\n"), None);
    }

    #[test]
    fn numbers_of_connections_have_a_range() {
        assert_eq!(connections("100000"), Ok(100_000));
        for wrong in ["0", "1000000", "x"] {
            let said = connections(wrong).unwrap_err();
            assert!(said.contains("from 1 to"), "{said}");
        }
    }
}
