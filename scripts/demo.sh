#!/usr/bin/env bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Sends a file through the NIC: installs a C linker if there is none, builds
# the tsonic command in release mode, and runs `tsonic demo` with your arguments.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo >/dev/null; then
    echo "demo.sh: cargo is missing; install it with rustup first" >&2
    exit 1
fi

missing=()
command -v cc >/dev/null || missing+=(gcc)
[ -e /usr/include/stdio.h ] || missing+=(libc6-dev)
if [ ${#missing[@]} -gt 0 ]; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo)
    echo "demo.sh: installing ${missing[*]} with apt-get"
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

echo "demo.sh: building and running: cargo run --release -- demo $*" >&2
exec cargo run --release --locked -- demo "$@"
