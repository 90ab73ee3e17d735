// SPDX-License-Identifier: MIT OR Apache-2.0
//! User-space driver of the tsonic NIC
