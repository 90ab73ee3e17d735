// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an experiment's rows come out: as a table, or one JSON object a line; and the
//! plot, as SVG.

use super::BenchError;
use super::plot::Plot;
use clap::Args;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, StdoutLock, Write};
use std::path::PathBuf;

/// What every experiment takes.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// One JSON object a row.
    #[arg(long)]
    json: bool,
    /// Also plots the result, as SVG.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The rows so far.
pub struct Output<'a> {
    args: &'a OutputArgs,
    out: StdoutLock<'static>,
    failed: Option<io::Error>,
}

impl<'a> Output<'a> {
    /// Writes the heading of a table.
    pub fn new(args: &'a OutputArgs, heading: &str) -> Output<'a> {
        let mut output = Output {
            args,
            out: io::stdout().lock(),
            failed: None,
        };
        if !args.json {
            output.line(&heading);
        }
        output
    }

    fn line(&mut self, line: &dyn Display) {
        // Rows come out while the experiment runs; what fails is told at its end.
        let written = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        self.failed = self.failed.take().or(written.err());
    }

    /// A row: `cells` of the table, or `row` as JSON.
    pub fn row(&mut self, row: &impl Serialize, cells: &dyn Display) {
        if self.args.json {
            // Rows are numbers and words: they always serialize.
            let json = serde_json::to_string(row).unwrap_or_default();
            self.line(&json);
        } else {
            self.line(cells);
        }
    }

    /// All rows are out: the plot, if it is wanted.
    ///
    /// # Errors
    /// [`BenchError::Output`], [`BenchError::Plot`].
    pub fn end(self, plot: impl FnOnce() -> Plot) -> Result<(), BenchError> {
        if let Some(error) = self.failed {
            return Err(BenchError::Output(error));
        }
        let Some(path) = &self.args.svg else {
            return Ok(());
        };
        let failed = |what: String| BenchError::Plot {
            path: path.clone(),
            what,
        };
        let svg = plot().svg().map_err(failed)?;
        std::fs::write(path, svg).map_err(|e| failed(e.to_string()))
    }
}
