// SPDX-License-Identifier: MIT OR Apache-2.0
//! How an experiment's rows come out: as a table, or one JSON object a line; and the
//! plot, as SVG.

use super::BenchError;
use super::plot::Plot;
use clap::Args;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, StdoutLock, Write};
use std::path::{Path, PathBuf};

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
    table: Vec<String>,
    plot: Option<Plot>,
}

/// What an experiment brought, as a reader sees it.
pub struct Shown {
    /// The heading, and a line for each row.
    pub table: Vec<String>,
    /// The plot.
    pub plot: Option<Plot>,
}

/// Runs an experiment whose rows go to standard output, and its plot to a file if that is
/// wanted.
///
/// # Errors
/// [`BenchError`].
pub fn show(
    args: &OutputArgs,
    experiment: impl FnOnce(&mut Output<'_>) -> Result<(), BenchError>,
) -> Result<Shown, BenchError> {
    // Before hours have gone by.
    if let Some(path) = &args.svg {
        check_file(path)?;
    }
    let mut out = Output::new(args);
    experiment(&mut out)?;
    out.end()
}

impl<'a> Output<'a> {
    fn new(args: &'a OutputArgs) -> Output<'a> {
        Output {
            args,
            out: io::stdout().lock(),
            failed: None,
            table: Vec::new(),
            plot: None,
        }
    }

    /// The heading of the table.
    pub fn heading(&mut self, heading: String) {
        if !self.args.json {
            self.line(&heading);
        }
        self.table.push(heading);
    }

    fn line(&mut self, line: &str) {
        // Rows come out while the experiment runs; what fails is told at its end.
        let written = writeln!(self.out, "{line}").and_then(|()| self.out.flush());
        self.failed = self.failed.take().or(written.err());
    }

    /// A row: `cells` of the table, or `row` as JSON.
    pub fn row(&mut self, row: &impl Serialize, cells: &dyn Display) {
        let cells = cells.to_string();
        if self.args.json {
            // Rows are numbers and words: they always serialize.
            let json = serde_json::to_string(row).unwrap_or_default();
            self.line(&json);
        } else {
            self.line(&cells);
        }
        self.table.push(cells);
    }

    /// The plot of all rows.
    pub fn plot(&mut self, plot: Plot) {
        self.plot = Some(plot);
    }

    fn end(self) -> Result<Shown, BenchError> {
        if let Some(error) = self.failed {
            return Err(BenchError::Output(error));
        }
        if let (Some(path), Some(plot)) = (&self.args.svg, &self.plot) {
            write_file(path, &plot.svg()?)?;
        }
        Ok(Shown {
            table: self.table,
            plot: self.plot,
        })
    }
}

/// Whether a file can be written; what is in it stays.
///
/// # Errors
/// [`BenchError::File`].
pub fn check_file(path: &Path) -> Result<(), BenchError> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.create(true).append(true).open(path);
    opened.map(drop).map_err(|source| BenchError::File {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file of the result.
///
/// # Errors
/// [`BenchError::File`].
pub fn write_file(path: &Path, text: &str) -> Result<(), BenchError> {
    std::fs::write(path, text).map_err(|source| BenchError::File {
        path: path.to_owned(),
        source,
    })
}
