// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench xps`.

use super::BenchError;
use super::output::{Output, OutputArgs};
use super::plot::{Axis, Plot};
use crate::units;
use clap::{Args, ValueEnum};
use std::fmt;
use std::time::Duration;
use tsonic_bench::rig;
use tsonic_bench::xps::{self, CONTEXTS, Case, Lists, ROWS, Row, Settings, Waiting};
use tsonic_sim::model::{Model, ModelConfig};
use tsonic_sim::nic::Nic;
use tsonic_types::ByteRate;

/// Transmit queues that follow the threads (XPS, net.core.txq_reselection_ms).
///
/// 15 threads on cores 0 to 14 write to flows that always have more to send, through the model of
/// a NIC with 32 queue pairs, each of 8 cores; then the threads move to cores 9, 17, ... 121.
/// Columns: reselection time in ms, where bursts wait in the NIC, queues that hold bursts before
/// and at the end, bursts in them, largest deviation of a queue at the end from a fifteenth (bursts
/// and bytes), flows that have moved, time until the first and the last of them, longest time
/// between two bursts of a flow before and while flows move, queue moves and those with bytes of the
/// flow in the NIC, segments that arrived out of order after the move, and their flows. Below each row the
/// bursts of every queue that holds some. Times are virtual.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example, in seconds:\n  tsonic bench xps --flows 150 --reselection 0,100 --opening 60ms --settle 40ms --watch 300ms"
)]
pub struct XpsArgs {
    /// Values of net.core.txq_reselection_ms.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "MS",
        default_value = "0,100,1000",
        value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX))
    )]
    reselection: Vec<u32>,
    /// Where bursts wait in the NIC: in a list of their flow, which keeps its order, or in one of
    /// their queue.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "flow,queue")]
    lists: Vec<ListsArg>,
    /// Flows.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(15..=i64::from(ROWS)))]
    flows: u32,
    /// Speed of the wire.
    #[arg(long, value_parser = units::rate, default_value = "10Gbit", value_name = "RATE")]
    line: ByteRate,
    /// Flows open evenly over this virtual time.
    #[arg(long, value_parser = units::span, default_value = "1s")]
    opening: Duration,
    /// Virtual time from there to the threads' move, and from the last flow's move to the end.
    #[arg(long, value_parser = units::span, default_value = "200ms")]
    settle: Duration,
    /// Virtual time after which flows that have not moved are not waited for.
    #[arg(long, value_parser = units::span, default_value = "3s")]
    watch: Duration,
    /// Seed of sequence numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Where bursts wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ListsArg {
    /// In the list of their flow.
    Flow,
    /// In the list of their queue.
    Queue,
}

impl From<ListsArg> for Lists {
    fn from(lists: ListsArg) -> Lists {
        match lists {
            ListsArg::Flow => Lists::Flow,
            ListsArg::Queue => Lists::Queue,
        }
    }
}

/// Runs the experiment.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &XpsArgs, out: &mut Output<'_>) -> Result<(), BenchError> {
    let nic = || -> Box<dyn Nic + Send> {
        Box::new(Model::new(ModelConfig {
            contexts: CONTEXTS,
            ..rig::fast_model()
        }))
    };
    let mut cases = Vec::new();
    for &lists in &args.lists {
        for &reselection_ms in &args.reselection {
            cases.push(Case {
                reselection_ms,
                lists: lists.into(),
            });
        }
    }
    let settings = Settings {
        nic: &nic,
        bus: rig::fast_bus(),
        wire: args.line,
        flows: args.flows,
        cases: &cases,
        opening: args.opening,
        settle: args.settle,
        watch: args.watch,
        seed: args.seed,
    };
    out.heading(heading());
    let mut rows = Vec::new();
    xps::run(&settings, |row| {
        out.row(&row, &Cells(&row));
        rows.push(row);
    })?;
    out.plot(plot(&rows));
    Ok(())
}

fn heading() -> String {
    format!(
        "{:>8} {:<5} {:>6} {:>11} {:>13} {:>9} {:>8} {:>8} {:>12} {:>6} {:>6} {:>9} {:>5}",
        "reselect",
        "lists",
        "queues",
        "bursts",
        "deviation",
        "moved",
        "first ms",
        "last ms",
        "gaps ms",
        "moves",
        "busy",
        "reordered",
        "flows"
    )
}

const fn lists_name(lists: Lists) -> &'static str {
    match lists {
        Lists::Flow => "flow",
        Lists::Queue => "queue",
    }
}

/// A row of the table.
struct Cells<'a>(&'a Row);

fn queues(f: &mut fmt::Formatter<'_>, when: &str, all: &[Waiting]) -> fmt::Result {
    write!(f, "\n{when:>14}:")?;
    let mut each = all.iter();
    each.try_for_each(|w| write!(f, " {}:{}", w.queue, w.bursts))
}

impl fmt::Display for Cells<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = self.0;
        let (before, after) = row.bursts();
        let ms = |t: Option<f64>| t.map_or("-".into(), |t| format!("{t:.0}"));
        write!(
            f,
            "{:>8} {:<5} {:>2} ->{:>2} {:>4} ->{:>4} {:>4.1}% {:>5.1}% {:>4}/{:>4} {:>8} {:>8} {:>5.0} ->{:>4.0} {:>6} {:>6} {:>9} {:>5}",
            row.case.reselection_ms,
            lists_name(row.case.lists),
            row.before.len(),
            row.after.len(),
            before,
            after,
            100.0 * row.deviation,
            100.0 * row.deviation_bytes,
            row.moved,
            row.flows,
            ms(row.first_ms),
            ms(row.last_ms),
            row.gap_ms,
            row.gap_moving_ms,
            row.moves,
            row.moves_busy,
            row.reordered,
            row.reordered_flows,
        )?;
        queues(f, "before", &row.before)?;
        queues(f, "after", &row.after)
    }
}

fn plot(rows: &[Row]) -> Plot {
    let mut plot = Plot {
        title: "Bursts that wait for each queue".into(),
        x: Axis {
            title: "queue",
            log: false,
        },
        y: Axis {
            title: "bursts",
            log: false,
        },
        series: Vec::new(),
    };
    for row in rows {
        let case = format!(
            "{} ms, lists of a {}",
            row.case.reselection_ms,
            lists_name(row.case.lists)
        );
        for (when, all) in [("before", &row.before), ("after", &row.after)] {
            for w in all {
                plot.add(
                    format!("{case}, {when}"),
                    (f64::from(w.queue), w.bursts as f64),
                );
            }
        }
    }
    plot
}
