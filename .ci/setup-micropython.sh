#!/usr/bin/env bash
# Puts MicroPython's Unix port into .venv/bin, for boards of the kind `unix` (docs/hil.md), where the
# machine has none: Debian 13 has the package `micropython`, older ones do not, so it and its C library
# are taken from Debian 13's archive, signed as all of it is, and unpacked in .venv; nothing is
# installed and no root is needed.
#
# Only `make test` wants it, and goes on without it: then those tests are reported as not run. Done
# once, it takes milliseconds and no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# shellcheck source=.ci/debian-archive.sh
source .ci/debian-archive.sh

readonly SUITE=trixie
VENV=$PWD/.venv
ROOT=$VENV/micropython
PROGRAM=$VENV/bin/micropython
LOG=$VENV/setup-micropython.log

say() { printf 'micropython-setup: %s\n' "$*"; }

give_up() { # why
    say "$1: boards of the kind unix will not be tested"
    exit 0
}

# By the C library that it was built for.
write_program() {
    local loader
    loader=$(find "$ROOT/usr/lib" -name 'ld-linux*.so*' -type f | head -n 1)
    if [[ -z $loader ]]; then return 1; fi
    cat >"$PROGRAM.new" <<EOF
#!/bin/sh
exec '$loader' --library-path '$(dirname "$loader")' '$ROOT/usr/bin/micropython' "\$@"
EOF
    chmod +x "$PROGRAM.new"
    "$PROGRAM.new" -c 'print("works")' | grep -qx works
    mv "$PROGRAM.new" "$PROGRAM"
}

install_it() { # mirror
    local folder=$VENV/micropython-new
    rm -rf "$folder"
    unpack_from_archive "$1" "$SUITE" "$(dpkg --print-architecture)" "$folder" install micropython
    rm -rf "$ROOT"
    mv "$folder/root" "$ROOT"
    rm -rf "$folder"
    write_program
}

main() {
    if [[ -x $PROGRAM ]] || command -v micropython >/dev/null; then return; fi
    if ! command -v apt-get >/dev/null; then give_up "micropython is not installed, and there is no apt-get"; fi
    if [[ ! -r $KEYS ]]; then give_up "micropython is not installed, and Debian's keys are not here"; fi
    exec 9<"${BASH_SOURCE[0]}"
    flock 9 # two make commands at once: the second waits, and finds everything done
    if [[ -x $PROGRAM ]]; then return; fi
    local from
    from=$(mirror 2>/dev/null)
    if [[ -z $from ]]; then give_up "micropython is not installed, and apt knows no mirror of Debian"; fi
    say "fetching MicroPython for tests, 4 MB (and 10 MB of Debian's index)"
    # Not in an `if`, where the shell would go on after a command that failed.
    local ended=0
    (install_it "$from") >"$LOG" 2>&1 &
    wait $! || ended=$?
    if ((ended)); then give_up "MicroPython is not available (.venv/setup-micropython.log says why)"; fi
}

trap 'exit 130' INT
trap 'exit 143' TERM
main
