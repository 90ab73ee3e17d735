#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Counts the instructions that two sending hosts' engines and drivers spend on a megabyte of
# payload, with bursts of 4 segments (tcp_tso_rtt_log off) and of 16 (9): `bench tso-rtt`
# under valgrind's callgrind. What the device does of a host's calls, and what the application
# copies, is left out; opening and slow start are in. For the docs: docs/experiments/tso-rtt.md.
#
# Fails when the larger bursts need more than half of the instructions where receivers
# acknowledge a burst at once, or more than 0.77 where they acknowledge every second segment.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in valgrind callgrind_annotate; do
    if ! command -v "$tool" >/dev/null; then
        echo "tso-cost.sh: $tool is missing: apt-get install valgrind" >&2
        exit 1
    fi
done

target=${CARGO_TARGET_DIR:-target}
out=$target/tso-cost
mkdir -p "$out"
cargo build --quiet --locked --release -p tsonic

over=0
for acks in burst two-segments; do
    declare -A cost=()
    for log in off 9; do
        profile=$out/callgrind.$acks.$log
        json=$(valgrind --tool=callgrind --callgrind-out-file="$profile" \
            "$target/release/tsonic" bench tso-rtt --mode nic --flows 40 --mss 4096 --log "$log" \
            --gso-max 65536 --acks "$acks" --warm-up 10ms --time 90ms --seeds 1 --no-react --json \
            2>"$out/log") || { cat "$out/log" >&2; exit 1; }
        # Instructions of a function and all that it called.
        table=$(callgrind_annotate --auto=no --inclusive=yes --threshold=100 "$profile")
        inclusive() {
            awk -v file="$1" -v name="$2" 'index($0, file ":") && index($0, name) \
                { gsub(",", "", $1); print $1; exit }' <<<"$table"
        }
        turn=$(inclusive bench/src/tso_rtt/sender.rs 'Sender::turn')
        copy=$(inclusive bench/src/tso_rtt/sender.rs 'sender::write_all')
        bell=$(inclusive bench/src/metered.rs 'PciFunction>::write32')
        if [ -z "$turn" ] || [ -z "$copy" ] || [ -z "$bell" ]; then
            echo "tso-cost.sh: the functions are not in $profile" >&2
            exit 1
        fi
        megabytes=$(sed 's/.*"goodput":{"mean":\([0-9.]*\).*/\1/' <<<"$json" | awk '{ print $1 * 0.1 / 1e6 }')
        cost[$log]=$(awk -v t="$turn" -v c="$copy" -v b="$bell" -v m="$megabytes" 'BEGIN { printf "%.0f", (t - c - b) / m }')
    done
    ratio=$(awk -v a="${cost[9]}" -v b="${cost[off]}" 'BEGIN { printf "%.2f", a / b }')
    limit=0.50
    [ "$acks" = burst ] || limit=0.77
    echo "$acks: instructions per MB ${cost[off]} with log off, ${cost[9]} with 9; ratio $ratio (at most $limit)"
    awk -v r="$ratio" -v l="$limit" 'BEGIN { exit !(r <= l) }' || over=1
done
if [ "$over" -ne 0 ]; then
    echo "tso-cost.sh: above the limit" >&2
    exit 1
fi
