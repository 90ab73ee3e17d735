#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The project's gates, from a machine with a Rust toolchain and apt: provides the
# tools, runs every gate, prints its time, and ends with `N passed, N failed`.
# A missing tool fails a gate; nothing is skipped.
#
#   scripts/test.sh            all gates
#   scripts/test.sh GATE...    some: tools fmt clippy doc test cost synth; hdl is the
#                              part of test that is the logic's own
#
# Artefacts go to ${CARGO_TARGET_DIR:-target}, tools and compiled designs to
# ${TSONIC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tsonic}.
set -uo pipefail
cd "$(dirname "$0")/.."

gates=("$@")
[ ${#gates[@]} -gt 0 ] || gates=(tools fmt clippy doc test cost synth)
passed=0
failed=0
failures=()
logs=${CARGO_TARGET_DIR:-target}/gates
mkdir -p "$logs"

# Sum of a column of cargo's "test result" lines in a log: passed or failed.
sum() {
    sed -nE "s/^test result: .* ([0-9]+) $1.*/\\1/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

# Runs one gate; its output goes to a log, and its end to the terminal when it
# fails. A gate of cargo tests counts each test, any other gate is one.
gate() {
    local name=$1 start=$SECONDS log=$logs/$1.log status=0 good bad
    shift
    echo "== $name: $*"
    "$@" > "$log" 2>&1 || status=$?
    good=$(sum passed "$log")
    bad=$(sum failed "$log")
    if [ "$status" -eq 0 ]; then
        [ "$good" -gt 0 ] || good=1
        grep -E '^([a-z0-9_]+: [0-9]+ LUT|instructions per )' "$log"
        echo "== $name: $good passed in $((SECONDS - start)) s"
    else
        [ "$bad" -gt 0 ] || bad=1
        failures+=("$name")
        tail -n 60 "$log"
        echo "== $name: FAILED in $((SECONDS - start)) s (whole log: $log)"
    fi
    passed=$((passed + good))
    failed=$((failed + bad))
}

# One run for the whole workspace: a part of it would have other features of the
# dependencies, and compile them anew.
cargo_tests() {
    cargo test --locked --workspace --no-fail-fast
}

hdl_tests() {
    cargo test --locked -p tsonic-hdl --no-fail-fast
}

docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
}

costs() {
    scripts/cost.sh && scripts/bench-cost.sh
}

for name in "${gates[@]}"; do
    case $name in
        tools) gate tools scripts/tools.sh ;;
        fmt) gate fmt cargo fmt --all --check ;;
        clippy) gate clippy cargo clippy --locked --workspace --all-targets -- -D warnings ;;
        doc) gate doc docs ;;
        test) gate test cargo_tests ;;
        cost) gate cost costs ;;
        hdl) gate hdl hdl_tests ;;
        synth) gate synth scripts/synth.sh ;;
        *)
            echo "test.sh: no gate \`$name\`" >&2
            exit 2
            ;;
    esac
done

[ ${#failures[@]} -eq 0 ] || echo "failed: ${failures[*]}"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
