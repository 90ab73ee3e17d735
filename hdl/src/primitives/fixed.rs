// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constants that a block can hold and still derive `Default`.

use rust_hdl::core::constraint::PinConstraint;
use rust_hdl::prelude::*;

/// The constant `V` in N bits: what `#[hdl_gen]` needs in place of a named
/// constant, whose name would stand in the Verilog undeclared.
#[derive(Clone, Copy, Debug)]
pub struct Fixed<const N: usize, const V: u64> {
    id: usize,
}

impl<const N: usize, const V: u64> Default for Fixed<N, V> {
    /// # Panics
    /// When the value does not fit.
    fn default() -> Self {
        assert!(N >= 64 || V >> N == 0, "{V} does not fit {N} bits");
        Self {
            id: rust_hdl::core::signal::get_signal_id(),
        }
    }
}

impl<const N: usize, const V: u64> Fixed<N, V> {
    /// The constant.
    pub fn val(&self) -> Bits<N> {
        bits(V)
    }
}

impl<const N: usize, const V: u64> Logic for Fixed<N, V> {
    fn update(&mut self) {}
}

impl<const N: usize, const V: u64> Atom for Fixed<N, V> {
    fn bits(&self) -> usize {
        N
    }
    fn connected(&self) -> bool {
        true
    }
    fn changed(&self) -> bool {
        false
    }
    fn kind(&self) -> AtomKind {
        AtomKind::Constant
    }
    fn descriptor(&self) -> TypeDescriptor {
        Bits::<N>::descriptor()
    }
    fn vcd(&self) -> VCDValue {
        self.val().vcd()
    }
    fn id(&self) -> usize {
        self.id
    }
    fn verilog(&self) -> VerilogLiteral {
        self.val().verilog()
    }
    fn constraints(&self) -> Vec<PinConstraint> {
        vec![]
    }
}

impl<const N: usize, const V: u64> Block for Fixed<N, V> {
    fn connect_all(&mut self) {}
    fn update_all(&mut self) {}
    fn has_changed(&self) -> bool {
        false
    }
    fn accept(&self, name: &str, probe: &mut dyn Probe) {
        probe.visit_atom(name, self);
    }
}
