#!/usr/bin/env bash
# Adds what checks the types of what boards load (tests/firmware/board_types.py) to the .venv that
# .ci/setup.sh has made: pyright, a Node.js to run it, and the stubs of three ports of MicroPython,
# each in a folder of its own, because they have modules of the same names.
#
# Only `make test` wants it, and goes on without it: then those tests are reported as not run. Done
# once, it takes milliseconds and no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
READY=$VENV/.types-ready
LOG=$VENV/setup-types.log
STUBS=$VENV/board-stubs
PORTS="esp32 rp2 unix"
DISK_FREE_KIB_MIN=358400 # measured: 246 MiB of environment, 66 MiB of downloads on their way

say() { printf 'types-setup: %s\n' "$*"; }
contents() { cat .ci/requirements-types.lock .ci/setup-types.sh "$VENV/.ready" | sha256sum; }
is_ready() { [[ -r $READY && $(<"$READY") == "$(contents)" ]]; }

give_up() { # why
    say "$1: types of what boards load will not be checked"
    exit 0
}

# Lines of the lock file, with their hashes.
pins_of_stubs() { # port
    awk -v names="^micropython-($1|stdlib)-stubs==" '/^[^ ]/ { is_it = $0 ~ names } is_it' .ci/requirements-types.lock
}
other_pins() { awk '/^[^ ]/ { is_stubs = /-stubs==/ } !is_stubs' .ci/requirements-types.lock; }

install_all() {
    local install=("$VENV/bin/python" -m pip install --no-input --disable-pip-version-check --retries 1)
    local port
    if command -v uv >/dev/null; then install=(uv pip install --python "$VENV/bin/python"); fi
    install+=(--require-hashes --no-deps --only-binary :all:)
    export PIP_USER=0
    rm -rf "$STUBS"
    "${install[@]}" -r <(other_pins) || return
    for port in $PORTS; do
        "${install[@]}" --target "$STUBS/$port" -r <(pins_of_stubs "$port") ||
            return
    done
}

main() {
    if is_ready; then return; fi
    case $(uname -m) in
    x86_64 | aarch64) ;;
    *) give_up "there is no Node.js to install for $(uname -m)" ;;
    esac
    exec 9<"${BASH_SOURCE[0]}"
    flock 9 # two make commands at once: the second waits, and finds everything done
    if is_ready; then return; fi

    local free_kib
    free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if ((free_kib < DISK_FREE_KIB_MIN)); then
        give_up "$((free_kib / 1024)) MiB are free here, $((DISK_FREE_KIB_MIN / 1024)) are needed"
    fi
    say "installing pyright for tests, a quarter of a gigabyte"
    install_all >"$LOG" 2>&1 || give_up "it is not available ($LOG says why)"
    contents >"$READY"
}

trap 'exit 130' INT
trap 'exit 143' TERM
main
