#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Synthesises, places and routes blocks for an ECP5; fails below the clock of
# the design. Figures go to target/synthesis/synthesis.{md,json}.
#
#   scripts/synth.sh [--jobs N] [BLOCK...]      without names: every block
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${TSONIC_FPGA_BIN:-}" ]; then
    scripts/tools.sh fpga
    TSONIC_FPGA_BIN=$(scripts/tools.sh fpga-bin)
    export TSONIC_FPGA_BIN
fi
out=${CARGO_TARGET_DIR:-target}/synthesis
mkdir -p "$out"
exec cargo run --quiet -p tsonic-hdl --example synth -- --out "$out" "$@"
