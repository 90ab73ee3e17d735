// SPDX-License-Identifier: MIT OR Apache-2.0
//! Test bench of the segmenter: a plain-Rust reference, the compiled RTL behind
//! streams with gaps, and generators of bursts.

#![allow(dead_code)] // Every test file takes what it needs.

pub mod bench;
pub mod golden;
pub mod random;
