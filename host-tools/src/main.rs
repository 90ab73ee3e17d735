// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tsonic command.
fn main() {}
