#!/bin/bash
# SPDX-License-Identifier: MIT OR Apache-2.0
# Provides the tools that the gates need and says what it does before it does it.
#
#   scripts/tools.sh            everything
#   scripts/tools.sh packages   only the machine's own packages (apt-get install)
#   scripts/tools.sh fpga       only yosys, nextpnr-ecp5 and prjtrellis (ecppack)
#
# FPGA tools: Debian bookworm's yosys makes designs three times as large, so the
# suite's next release is unpacked, with all libraries and its own loader, into
# ${TSONIC_CACHE:-${XDG_CACHE_HOME:-~/.cache}/tsonic}/tools/fpga-VERSION; nothing of it is installed. The
# wrappers in its bin/ are what other scripts call. The mirror is the one that
# this machine's apt is configured with.
set -euo pipefail

CACHE=${TSONIC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tsonic}
SUITE=trixie
PACKAGES=(verilator iverilog g++ valgrind iproute2 xz-utils)
FPGA_PACKAGES=(yosys nextpnr-ecp5 fpga-trellis)
# Changes when what is unpacked changes.
RECIPE=1

say() { echo "tools: $*" >&2; }
die() { say "$*"; exit 1; }

# Runs apt-get as root, with the lists refreshed once.
apt_install() {
    local sudo=()
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo > /dev/null || die "not root and no sudo: install by hand: apt-get install $*"
        sudo=(sudo)
    fi
    say "apt-get install $*"
    "${sudo[@]}" apt-get -qq update
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" > /dev/null
}

packages() {
    command -v apt-get > /dev/null || die "no apt-get here: install ${PACKAGES[*]} by hand"
    local missing=() package
    for package in "${PACKAGES[@]}"; do
        dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2> /dev/null | grep -q '^ii' || missing+=("$package")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        say "packages are there: ${PACKAGES[*]}"
    else
        apt_install "${missing[@]}"
    fi
}

# The Debian mirror of this machine's apt.
mirror() {
    local from
    from=$(apt-get indextargets --format '$(CREATED_BY) $(SITE) $(ORIGIN)' 2> /dev/null |
        awk '$1 == "Packages" && $2 ~ /\/debian\/?$/ { print $2; exit }')
    if [ -z "$from" ]; then
        from=$(grep -rhoE 'https?://[^ ]+/debian/?( |$)' /etc/apt/sources.list /etc/apt/sources.list.d 2> /dev/null | head -1)
    fi
    from=${from%% *}
    [ -n "$from" ] || die "no Debian mirror in apt's configuration"
    echo "${from%/}"
}

fpga() {
    local arch triple dir
    command -v apt-get > /dev/null || die "no apt-get here: put ${FPGA_PACKAGES[*]} on the PATH and set TSONIC_FPGA_BIN"
    arch=$(dpkg --print-architecture)
    triple=$(gcc -print-multiarch 2> /dev/null || true)
    case $arch in
        amd64) triple=${triple:-x86_64-linux-gnu} ;;
        arm64) triple=${triple:-aarch64-linux-gnu} ;;
        *) die "no recipe for the architecture $arch" ;;
    esac
    dir=$CACHE/tools/fpga-$SUITE-$RECIPE
    if [ -e "$dir/ok" ]; then
        say "FPGA tools are there: $dir"
        return
    fi
    mkdir -p "$CACHE/tools"
    exec 9> "$CACHE/tools/lock"
    flock 9
    [ ! -e "$dir/ok" ] || return 0
    local url
    url=$(mirror)
    work=$(mktemp -d "$CACHE/tools/new.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    say "unpacking ${FPGA_PACKAGES[*]} of Debian $SUITE from $url into $dir (about 400 MB; nothing is installed)"
    mkdir -p "$work"/apt/{lists/partial,archives/partial,etc} "$work/tree/root" "$work/tree/bin"
    : > "$work/apt/status"
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $url $SUITE main" > "$work/apt/etc/sources.list"
    # A private world of lists, status and archives: the machine's own stays as it is.
    local options=(-qq
        -o "Dir::Etc::sourcelist=$work/apt/etc/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o Dir::Etc::preferencesparts=/dev/null -o Dir::Etc::preferences=/dev/null
        -o "Dir::State::lists=$work/apt/lists" -o "Dir::State::status=$work/apt/status"
        -o "Dir::Cache::archives=$work/apt/archives" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache=
        -o APT::Install-Recommends=false -o Acquire::Languages=none -o APT::Sandbox::User=root
        -o Debug::NoLocking=1)
    apt-get "${options[@]}" update || die "apt-get update of $SUITE failed"
    apt-get "${options[@]}" install -y --download-only "${FPGA_PACKAGES[@]}" > "$work/apt/log" 2>&1 ||
        { tail -20 "$work/apt/log" >&2; die "download failed"; }
    local package
    for package in "$work"/apt/archives/*.deb; do
        dpkg -x "$package" "$work/tree/root"
    done
    # The tools find their data from /proc/self/exe, which is the loader: it goes
    # where they would be. The tools themselves step aside for their wrappers,
    # because yosys calls yosys-abc by that path too.
    local loader bin=$work/tree/root/usr/bin
    loader=$(find "$work/tree/root" -path '*/usr/*' -name 'ld-linux*.so.*' -type f | head -1)
    [ -n "$loader" ] || die "no dynamic loader among the packages"
    cp "$loader" "$bin/loader"
    local tool
    for tool in yosys yosys-abc nextpnr-ecp5 ecppack ecpunpack ecpbram; do
        [ -e "$bin/$tool" ] || continue
        mv "$bin/$tool" "$bin/$tool.real"
        # nextpnr looks for its chip data under a fixed path of the same length as
        # the path of a file descriptor that the wrapper opens for it.
        LC_ALL=C sed -i 's|/usr/share/nextpnr/|/proc/self/fd/9////|g' "$bin/$tool.real"
        cat > "$bin/$tool" << WRAPPER
#!/bin/sh
bin=\$(dirname "\$(readlink -f "\$0")")
usr=\$(dirname "\$bin")
PYTHONHOME=\$usr; export PYTHONHOME
exec 9< "\$usr/share/nextpnr"
exec "\$bin/loader" --argv0 "\$bin/$tool" --library-path "\$usr/lib/$triple" "\$bin/$tool.real" "\$@"
WRAPPER
        chmod +x "$bin/$tool"
        ln -s "../root/usr/bin/$tool" "$work/tree/bin/$tool"
    done
    for package in "${FPGA_PACKAGES[@]}"; do
        dpkg-deb -W --showformat '${Package} ${Version}\n' "$work/apt/archives/${package}"_*.deb
    done > "$work/tree/versions"
    touch "$work/tree/ok"
    rm -rf "$dir"
    mv "$work/tree" "$dir"
    say "FPGA tools: $(tr '\n' ',' < "$dir/versions")"
}

case ${1:-all} in
    all) packages; fpga ;;
    packages) packages ;;
    fpga) fpga ;;
    # Where the wrappers stand, for other scripts.
    fpga-bin) echo "${TSONIC_FPGA_BIN:-$CACHE/tools/fpga-$SUITE-$RECIPE/bin}" ;;
    *) die "usage: tools.sh [all|packages|fpga|fpga-bin]" ;;
esac
