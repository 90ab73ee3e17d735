#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Counts the instructions of hosts in experiments (bench/examples/count.rs, release build, under
# valgrind's callgrind; the device's own work is left out), and fails when a ratio leaves its band:
#
#   tso-rtt     per MB of payload, bursts of 16 segments (tcp_tso_rtt_log 9) over bursts of 4 (off):
#               at most 0.50 where receivers acknowledge each burst, 0.77 where every second segment.
#               What the application copies is left out.
#   throughput  per packet, messages to 10,000 connections in turn over messages to 100: at most 1.30
#
# What they are for: docs/experiments/tso-rtt.md, docs/experiments/throughput.md.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in valgrind; do
    if ! command -v "$tool" >/dev/null; then
        echo "bench-cost.sh: $tool is missing: apt-get install valgrind" >&2
        exit 1
    fi
done

target=${CARGO_TARGET_DIR:-target}
out=$target/bench-cost
mkdir -p "$out"
cargo build --quiet --locked --release -p tsonic-bench --example count
count=$target/release/examples/count

toggles=()
for name in $("$count" names); do
    toggles+=("--toggle-collect=$name")
done

# Instructions for each of what a case counts.
cost() {
    local profile=$out/callgrind units
    units=$(valgrind --tool=callgrind --callgrind-out-file="$profile" --collect-atstart=no \
        "${toggles[@]}" "$count" "$@" 2>"$out/log") || { cat "$out/log" >&2; return 1; }
    awk -v units="$units" '$1 == "totals:" && $2 > 0 { printf "%.6f", $2 / units; found = 1 }
        END { exit !found }' "$profile" || { echo "bench-cost.sh: nothing was counted of $*" >&2; return 1; }
}

over=0
# A ratio and its band.
band() {
    local what=$1 least=$2 most=$3 ratio
    ratio=$(awk -v a="$4" -v b="$5" 'BEGIN { printf "%.3f", a / b }')
    echo "instructions per $what: ratio $ratio ($least to $most)"
    awk -v r="$ratio" -v l="$least" -v m="$most" 'BEGIN { exit !(l <= r && r <= m) }' || over=1
}

for acks in burst two-segments; do
    small=$(cost tso-rtt "$acks" off)
    large=$(cost tso-rtt "$acks" 9)
    echo "tso-rtt, $acks: $(awk -v s="$small" -v l="$large" \
        'BEGIN { printf "%.0f instructions per MB with log off, %.0f with 9", 1e6 * s, 1e6 * l }')"
    most=0.50
    [ "$acks" = burst ] || most=0.77
    band "MB, bursts of 16 segments over bursts of 4, ACK for $acks" 0.10 "$most" "$large" "$small"
done

few=$(cost throughput tsonic on messages 100 2)
many=$(cost throughput tsonic on messages 10000 2)
band "packet, 10,000 connections over 100" 0.80 1.30 "$many" "$few"

if [ "$over" -ne 0 ]; then
    echo "bench-cost.sh: a ratio is outside of its band" >&2
    exit 1
fi
