// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verilog out of a block: text and ports of the top module, whose name is
//! [`TOP`].

use rust_hdl::core::check_error::CheckError;
use rust_hdl::prelude::*;

/// Name of the generated top module.
pub const TOP: &str = "top";

/// A port of the top module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name; the fields of an interface are joined by `$`.
    pub name: String,
    /// Width in bits.
    pub width: usize,
    /// True: the world drives it.
    pub input: bool,
}

/// A block as Verilog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// All modules; the top is [`TOP`].
    pub text: String,
    /// Ports of the top, in order.
    pub ports: Vec<Port>,
}

/// Why a block gives no Verilog.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// RustHDL's own check failed: an open signal, a logic loop, an input that
    /// is written from inside.
    #[error("the block is not connected as it should be: {0:?}")]
    Check(CheckError),
}

/// Ports of the outermost block, as the generator names them.
#[derive(Default)]
struct Ports {
    depth: usize,
    names: Vec<String>,
    ports: Vec<Port>,
}

impl Probe for Ports {
    fn visit_start_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth += 1;
    }
    fn visit_end_scope(&mut self, _: &str, _: &dyn Block) {
        self.depth -= 1;
    }
    fn visit_start_namespace(&mut self, name: &str, _: &dyn Block) {
        self.names.push(name.into());
    }
    fn visit_end_namespace(&mut self, _: &str, _: &dyn Block) {
        self.names.pop();
    }
    fn visit_atom(&mut self, name: &str, atom: &dyn Atom) {
        let input = match atom.kind() {
            AtomKind::InputParameter => true,
            AtomKind::OutputParameter => false,
            _ => return,
        };
        if self.depth == 1 {
            self.ports.push(Port {
                name: full_name(&self.names, name),
                width: atom.bits(),
                input,
            });
        }
    }
}

/// Name of an atom in Verilog, within the interfaces it stands in.
pub(crate) fn full_name(names: &[String], name: &str) -> String {
    names
        .iter()
        .map(String::as_str)
        .chain([name])
        .collect::<Vec<_>>()
        .join("$")
}

/// Verilog of a block on which `connect_all` has been called.
///
/// # Errors
/// [`Error::Check`].
pub fn generate(block: &dyn Block) -> Result<Generated, Error> {
    check_all(block).map_err(Error::Check)?;
    let mut ports = Ports::default();
    block.accept(TOP, &mut ports);
    let mut modules = ModuleDefines::default();
    block.accept(TOP, &mut modules);
    Ok(Generated {
        text: modules.defines(),
        ports: ports.ports,
    })
}
