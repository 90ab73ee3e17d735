#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# The project's gates, from a machine with a Rust toolchain and apt: provides the
# tools, runs every gate, prints its time, and ends with `N passed, N failed`.
# A missing tool fails a gate; nothing is skipped.
#
#   scripts/test.sh            all gates
#   scripts/test.sh GATE...    some: tools fmt clippy doc test hdl synth
#
# Artefacts go to ${CARGO_TARGET_DIR:-target}, tools and compiled designs to
# ${TSONIC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tsonic}.
set -uo pipefail
cd "$(dirname "$0")/.."

gates=("$@")
[ ${#gates[@]} -gt 0 ] || gates=(tools fmt clippy doc test hdl synth)
passed=0
failed=0
failures=()
logs=${CARGO_TARGET_DIR:-target}/gates
mkdir -p "$logs"

# Runs one gate; its output goes to a log, and to the terminal when it fails.
gate() {
    local name=$1 start=$SECONDS
    shift
    echo "== $name: $*"
    if "$@" > "$logs/$name.log" 2>&1; then
        passed=$((passed + 1))
        grep -E '^(test result|[a-z0-9_]+: [0-9]+ LUT)' "$logs/$name.log" | sort | uniq -c | sort -rn | head -40
        echo "== $name: passed in $((SECONDS - start)) s"
    else
        failed=$((failed + 1))
        failures+=("$name")
        tail -n 60 "$logs/$name.log"
        echo "== $name: FAILED in $((SECONDS - start)) s (whole log: $logs/$name.log)"
    fi
}

cargo_tests() {
    cargo test --locked --workspace --exclude tsonic-hdl
}

hdl_tests() {
    cargo test --locked -p tsonic-hdl
}

docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --quiet
}

for name in "${gates[@]}"; do
    case $name in
        tools) gate tools scripts/tools.sh ;;
        fmt) gate fmt cargo fmt --all --check ;;
        clippy) gate clippy cargo clippy --locked --workspace --all-targets -- -D warnings ;;
        doc) gate doc docs ;;
        test) gate test cargo_tests ;;
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
