// SPDX-License-Identifier: MIT OR Apache-2.0
//! `tsonic verilog`: the generated Verilog of the NIC, or of one of its blocks.

use crate::CliError;
use crate::nics::no_such;
use clap::builder::PossibleValuesParser;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;
use thiserror::Error;
use tsonic_hdl::blocks::{self, BLOCKS};
use tsonic_hdl::builds::{BUILDS, BuildError, FLOW_SLOTS};
use tsonic_hdl::verilog;
use tsonic_sim::rtl::{self, RtlError};

/// Bytes of stack that making a block takes at most; they are made on the stack.
const STACK: usize = 256 << 20;

/// Why there is no Verilog.
#[derive(Debug, Error)]
pub enum VerilogError {
    /// There is no such build of the NIC.
    #[error(
        "there is no NIC with {queues} queue pairs and {flows} flow slots; there is one with {FLOW_SLOTS} flow slots and {} queue pairs",
        queue_pairs()
    )]
    NoBuild {
        /// Queue pairs asked for.
        queues: u16,
        /// Flow slots asked for.
        flows: u32,
    },
    /// There is no block of that name.
    #[error("there is no block {0}; see tsonic verilog --help for the list")]
    NoBlock(String),
    /// The NIC.
    #[error(transparent)]
    Nic(#[from] RtlError),
    /// The block.
    #[error(transparent)]
    Block(#[from] BuildError),
    /// The file.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Its path.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl VerilogError {
    /// Whether the command line is wrong.
    pub const fn is_usage(&self) -> bool {
        match self {
            VerilogError::NoBuild { .. } | VerilogError::NoBlock(_) => true,
            VerilogError::Nic(e) => no_such(e),
            VerilogError::Block(_) | VerilogError::Write { .. } => false,
        }
    }
}

fn queue_pairs() -> String {
    let all: Vec<String> = BUILDS.iter().map(u16::to_string).collect();
    all.join(" or ")
}

/// Write the generated Verilog of the NIC, or of one of its blocks.
///
/// One file, to standard output or as tsonic_nic.v (tsonic_NAME.v of a block) into a
/// folder. Standard error says what it holds.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example: tsonic verilog --queues 32 --out build\n         tsonic verilog --block segment > segment.v"
)]
pub struct Args {
    /// Queue pairs of the NIC.
    #[arg(long, default_value_t = 4)]
    queues: u16,
    /// Rows of its flow table, that of unpaced bursts included.
    #[arg(long, default_value_t = FLOW_SLOTS)]
    flows: u32,
    /// One block instead of the NIC.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["queues", "flows"],
          value_parser = PossibleValuesParser::new(BLOCKS.iter().map(|b| b.name)))]
    block: Option<String>,
    /// Folder for the file, made if it is not there; standard output when not given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Verilog of all modules, and what is said of it.
struct Design {
    top: String,
    text: String,
    ports: usize,
}

/// Runs the command.
///
/// # Errors
/// [`VerilogError`], and those of standard output.
pub fn run(args: &Args) -> Result<(), CliError> {
    let (name, design) = match &args.block {
        Some(name) => (name.as_str(), block(name)?),
        None => ("nic", nic(args.queues, args.flows)?),
    };
    write(&format!("tsonic_{name}.v"), args.out.as_ref(), &design)
}

/// The very text that `--nic rtl` compiles.
fn nic(queues: u16, flows: u32) -> Result<Design, VerilogError> {
    if flows != FLOW_SLOTS || !BUILDS.contains(&queues) {
        return Err(VerilogError::NoBuild { queues, flows });
    }
    let design = rtl::design(queues)?;
    Ok(Design {
        top: design.top,
        text: design.verilog,
        ports: design.ports.len(),
    })
}

fn block(name: &str) -> Result<Design, VerilogError> {
    let entry = blocks::find(name).ok_or_else(|| VerilogError::NoBlock(name.to_owned()))?;
    let builder = thread::Builder::new().stack_size(STACK);
    let maker = builder
        .spawn(|| verilog::generate(&*(entry.build)()))
        .map_err(BuildError::from)?;
    let generated = maker.join().map_err(|_| BuildError::Constants)?;
    let generated = generated.map_err(BuildError::from)?;
    Ok(Design {
        top: verilog::TOP.to_owned(),
        text: generated.text,
        ports: generated.ports.len(),
    })
}

fn write(name: &str, folder: Option<&PathBuf>, design: &Design) -> Result<(), CliError> {
    let place = match folder {
        None => {
            io::stdout().write_all(design.text.as_bytes())?;
            "standard output".to_owned()
        }
        Some(folder) => {
            let path = folder.join(name);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&path, &design.text))
                .map_err(|source| VerilogError::Write {
                    path: path.clone(),
                    source,
                })?;
            path.display().to_string()
        }
    };
    let lines = design.text.lines();
    let modules = lines.clone().filter(|l| l.starts_with("module ")).count();
    crate::say(format_args!(
        "tsonic: {place}: {} lines, {modules} modules, top module {} with {} ports",
        lines.count(),
        design.top,
        design.ports
    ));
    Ok(())
}
