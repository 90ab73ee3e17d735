#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Counts the instructions that engine and driver spend on a burst and on a
# received acknowledgement, of a bulk flow in bursts of 45 segments of 1,448 bytes
# (crates/host/examples/cost.rs, release build, under valgrind's callgrind; the
# device's own work is left out). Two receivers: one acknowledges every second
# segment, one a whole burst at once.
#
#   per burst: choice of size, gate, queue, header, post, doorbell, completion
#   per ACK:   ring to scoreboard, round-trip time and window; buffer refill
#
# Fails above the limits below, of which one holds for both receivers. The
# acknowledgement of a burst costs more, for it ends one range of the scoreboard and
# cuts another, gives an RTT sample and frees a chunk. The copy of the application's
# write is shown beside. For the hot spots of the last run:
#   callgrind_annotate "${CARGO_TARGET_DIR:-target}"/cost/callgrind.2 | less
set -euo pipefail
cd "$(dirname "$0")/.."

bursts=2000
burst_limit=4000
ack_limit=1500

for tool in valgrind callgrind_annotate; do
    if ! command -v "$tool" >/dev/null; then
        echo "cost.sh: $tool is missing: apt-get install valgrind" >&2
        exit 1
    fi
done

target=${CARGO_TARGET_DIR:-target}
out=$target/cost
mkdir -p "$out"
cargo build --quiet --locked --release -p tsonic-host --example cost

over=0
worst_burst=0
for per_ack in 2 64; do
    profile=$out/callgrind.$per_ack
    if ! counts=$(valgrind --tool=callgrind --callgrind-out-file="$profile" \
        --collect-atstart=no --toggle-collect=cost_reap --toggle-collect=cost_receive \
        --toggle-collect=cost_poll --toggle-collect=cost_write \
        "$target/release/examples/cost" "$per_ack" "$bursts" 2>"$out/log"); then
        cat "$out/log" >&2
        exit 1
    fi
    read -r posted segments acks <<<"$counts"
    # Instructions of a function and all that it called.
    table=$(callgrind_annotate --auto=no --inclusive=yes --threshold=100 "$profile")
    inclusive() {
        awk -v name=":$1" '{ f = $0; sub(/ \[[^]]*\]$/, "", f) }
            substr(f, length(f) - length(name) + 1) == name { gsub(",", "", $1); print $1; exit }' <<<"$table"
    }
    reap=$(inclusive cost_reap)
    receive=$(inclusive cost_receive)
    poll=$(inclusive cost_poll)
    write=$(inclusive cost_write)
    if [ -z "$reap" ] || [ -z "$receive" ] || [ -z "$poll" ] || [ -z "$write" ]; then
        echo "cost.sh: the functions cost_* are not in $profile" >&2
        exit 1
    fi
    if [ "$segments" -ne $((45 * posted)) ]; then
        echo "cost.sh: $segments segments in $posted bursts: they were to be of 45" >&2
        exit 1
    fi
    # Rounded up.
    burst=$(((reap + poll + posted - 1) / posted))
    ack=$(((receive + acks - 1) / acks))
    echo "$posted bursts, $acks ACKs: burst $burst (completion $((reap / posted)), post $((poll / posted))), ACK $ack, write of a burst $((write / posted))"
    worst_burst=$((burst > worst_burst ? burst : worst_burst))
    case $per_ack in
        2) what="2 segments" ;;
        *) what="a burst" ;;
    esac
    echo "instructions per ACK of $what: $ack (at most $ack_limit)"
    [ "$ack" -le "$ack_limit" ] || over=1
done

echo "instructions per burst: $worst_burst (at most $burst_limit)"
if [ "$over" -ne 0 ] || [ "$worst_burst" -gt "$burst_limit" ]; then
    echo "cost.sh: above the limit" >&2
    exit 1
fi
