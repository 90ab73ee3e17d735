// SPDX-License-Identifier: MIT OR Apache-2.0
//! Constants that a constructor computes.

use rust_hdl::core::constraint::PinConstraint;
use rust_hdl::prelude::*;

/// A constant of N bits (at most 64) that the constructor of a block sets, 0 by
/// default: [`super::Fixed`] for values that the type system does not know.
#[derive(Clone, Copy, Debug)]
pub struct Setting<const N: usize> {
    id: usize,
    value: u64,
}

impl<const N: usize> Default for Setting<N> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<const N: usize> Setting<N> {
    /// The constant `value`.
    ///
    /// # Panics
    /// When the value does not fit.
    pub fn new(value: u64) -> Self {
        assert!(N >= 64 || value >> N == 0, "{value} does not fit {N} bits");
        Self {
            id: rust_hdl::core::signal::get_signal_id(),
            value,
        }
    }

    /// The constant.
    pub fn val(&self) -> Bits<N> {
        bits(self.value)
    }
}

impl<const N: usize> Logic for Setting<N> {
    fn update(&mut self) {}
}

impl<const N: usize> Atom for Setting<N> {
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

impl<const N: usize> Block for Setting<N> {
    fn connect_all(&mut self) {}
    fn update_all(&mut self) {}
    fn has_changed(&self) -> bool {
        false
    }
    fn accept(&self, name: &str, probe: &mut dyn Probe) {
        probe.visit_atom(name, self);
    }
}
