// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic bench all`.

use super::output::{check_file, write_file};
use super::report::{self, Section};
use super::{BenchError, Experiment};
use clap::{Args, FromArgMatches, Subcommand, ValueEnum};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Instant;

/// All experiments, and one report of them with the plots, as HTML.
///
/// The report says for each the command that gives it again. What is simulated repeats
/// exactly; throughput measures this machine, which is to be quiet.
#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  tsonic bench all --form short report.html")]
pub struct AllArgs {
    /// The report.
    #[arg(default_value = "tsonic-bench.html", value_name = "FILE")]
    report: PathBuf,
    /// How long the experiments are.
    #[arg(long, value_enum, default_value = "usual")]
    form: Form,
}

/// How long the experiments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// Seconds: a few points of each.
    Short,
    /// Minutes: what a claim rests on.
    Usual,
    /// Hours: each as it is without an option.
    Full,
}

impl Form {
    /// Options of each experiment.
    const fn lines(self) -> [&'static str; 6] {
        match self {
            Form::Short => [
                "pacing --flows 1,32 --time 2ms",
                "tsq --line 10Gbit --rtt 2ms --flush 100us --limit 16384,65536,262144 --time 20ms",
                "tso-rtt --mode line,nic --flows 60 --mss 4096 --acks burst --warm-up 50ms --time 20ms --seeds 1 --no-react",
                "xps --flows 150 --lists flow --reselection 0,100 --opening 60ms --settle 40ms --watch 300ms",
                "win-divisor --rtt 1ms --form 2004,today --divisor 1,8 --cwnd 16,64 --warm-up 20ms --time 40ms",
                "throughput --flows 1 --per-ack 44 --connections 1,100 --rounds 3 --packets 2000",
            ],
            Form::Usual => [
                "pacing --time 50ms",
                "tsq --flush 0s,100us,1ms",
                "tso-rtt --mode line,nic --flows 240 --mss 4096 --acks burst --time 100ms --seeds 2",
                "xps --reselection 0,1000",
                "win-divisor --time 100ms",
                "throughput",
            ],
            Form::Full => [
                "pacing",
                "tsq",
                "tso-rtt",
                "xps",
                "win-divisor",
                "throughput --instructions",
            ],
        }
    }
}

/// Reads the command line of an experiment.
fn experiment(line: &str) -> Result<(Experiment, String), clap::Error> {
    let command = Experiment::augment_subcommands(clap::Command::new("bench"));
    let words = std::iter::once("bench").chain(line.split_whitespace());
    let matches = command.clone().try_get_matches_from(words)?;
    let about = matches.subcommand_name();
    let about = about.and_then(|name| command.find_subcommand(name));
    let about = about.and_then(|c| c.get_long_about().or(c.get_about()));
    let about = about.map(ToString::to_string).unwrap_or_default();
    Ok((Experiment::from_arg_matches(&matches)?, about))
}

/// Runs the experiments one after the other.
///
/// # Errors
/// [`BenchError`].
pub fn run(args: &AllArgs) -> Result<(), BenchError> {
    // Before hours have gone by.
    check_file(&args.report)?;
    let mut sections = Vec::new();
    let lines = args.form.lines();
    for line in lines {
        // The lines stand above, and a test reads them all.
        let (experiment, about) = experiment(line).map_err(|e| BenchError::Line(e.to_string()))?;
        let command = format!("tsonic bench {line}");
        say(&format!("$ {command}"))?;
        let start = Instant::now();
        let shown = experiment.run()?;
        let seconds = start.elapsed().as_secs_f64();
        say(&format!("({seconds:.1} s)\n"))?;
        let plot = shown.plot.map(|p| p.svg()).transpose()?;
        sections.push(Section {
            command,
            about,
            table: shown.table,
            plot,
        });
        // What is there is not lost when a later one fails, or someone has had enough.
        let left = lines.len() - sections.len();
        write_file(&args.report, &report::html(&sections, left))?;
    }
    say(&format!("{}: the report", args.report.display()))
}

/// A line between the tables.
fn say(line: &str) -> Result<(), BenchError> {
    writeln!(io::stdout(), "{line}").map_err(BenchError::Output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_forms_are_of_all_experiments() {
        let command = Experiment::augment_subcommands(clap::Command::new("bench"));
        let mut names: Vec<_> = command.get_subcommands().map(|c| c.get_name()).collect();
        names.sort_unstable();
        for form in Form::value_variants() {
            let mut these = Vec::new();
            for line in form.lines() {
                let (_, about) = experiment(line).unwrap();
                assert!(!about.is_empty(), "{line}");
                these.extend(line.split_whitespace().next());
            }
            these.sort_unstable();
            assert_eq!(these, names, "{form:?}");
        }
    }
}
