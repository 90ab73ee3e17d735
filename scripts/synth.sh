#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Synthesises, places and routes blocks for an ECP5; fails when a block is below the
# clock of the design, or the NIC with 8 queue pairs above its budget of LUTs and block
# RAMs. Figures go to target/synthesis/synthesis.{md,json}.
#
#   scripts/synth.sh [--jobs N] [--fresh] [--docs FILE] [BLOCK...]
#
# Without names: every block. Figures of Verilog and tools that have not changed come
# from the cache folder; --fresh measures them again. --docs writes the table into FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${TSONIC_FPGA_BIN:-}" ]; then
    scripts/tools.sh fpga
    TSONIC_FPGA_BIN=$(scripts/tools.sh fpga-bin)
    export TSONIC_FPGA_BIN
fi
out=${CARGO_TARGET_DIR:-target}/synthesis
mkdir -p "$out"
# With the features that the whole workspace's tests are built with, so that nothing is
# compiled twice.
cargo build --quiet --locked --workspace --example synth
exec "${CARGO_TARGET_DIR:-target}/debug/examples/synth" --out "$out" "$@"
