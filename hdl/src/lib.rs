// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC in RustHDL
