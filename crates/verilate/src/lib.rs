// SPDX-License-Identifier: MIT OR Apache-2.0
//! Binds a Verilog design, compiled by Verilator, to Rust
