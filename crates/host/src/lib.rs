// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event loop, application API and control of one host shard
