// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic verilog`: the generated Verilog of a block of the NIC.

use crate::CliError;
use clap::builder::PossibleValuesParser;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use thiserror::Error;
use tsonic_hdl::blocks::{self, BLOCKS};
use tsonic_hdl::verilog::{self, Generated, TOP};

/// Why there is no Verilog.
#[derive(Debug, Error)]
pub enum VerilogError {
    /// There is no block of that name.
    #[error("there is no block {0}; see tsonic verilog --help for the list")]
    NoBlock(String),
    /// The generator's own check.
    #[error(transparent)]
    Generate(#[from] verilog::Error),
    /// The file.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Write the generated Verilog of the NIC or of one of its blocks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: tsonic verilog --block segment --out build")]
pub struct Args {
    /// Which block.
    #[arg(long, value_name = "NAME",
          value_parser = PossibleValuesParser::new(BLOCKS.iter().map(|b| b.name)))]
    block: String,
    /// Folder for the file, made if it is not there; standard output when not given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// [`VerilogError`], and those of standard output.
pub fn run(args: &Args) -> Result<(), CliError> {
    let entry = blocks::find(&args.block).ok_or(VerilogError::NoBlock(args.block.clone()))?;
    let generated = verilog::generate(&*(entry.build)()).map_err(VerilogError::from)?;
    write(
        &format!("tsonic_{}.v", entry.name),
        args.out.as_ref(),
        &generated,
    )
}

fn write(name: &str, folder: Option<&PathBuf>, generated: &Generated) -> Result<(), CliError> {
    let place = match folder {
        None => {
            io::stdout().write_all(generated.text.as_bytes())?;
            "standard output".to_owned()
        }
        Some(folder) => {
            let path = folder.join(name);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&path, &generated.text))
                .map_err(|source| VerilogError::Write {
                    path: path.clone(),
                    source,
                })?;
            path.display().to_string()
        }
    };
    let modules = generated
        .text
        .lines()
        .filter(|l| l.starts_with("module "))
        .count();
    eprintln!(
        "tsonic: {place}: {} lines, {modules} modules, top module {TOP} with {} ports",
        generated.text.lines().count(),
        generated.ports.len()
    );
    Ok(())
}
