#!/usr/bin/env bash
# Adds a group of dependencies, of .ci/requirements-GROUP.lock, to the .venv that .ci/setup.sh has made:
#
#     bash .ci/setup-group.sh GROUP WHAT
#
# Done once, it takes milliseconds and no network. Exit codes as those of .ci/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly GROUP=$1 WHAT=$2
readonly READY=.venv/.$GROUP-ready LOCK=.ci/requirements-$GROUP.lock LOG=.venv/setup-$GROUP.log
contents() { cat "$LOCK" .ci/setup-group.sh .venv/.ready | sha256sum; }
is_ready() { [[ -r $READY && $(<"$READY") == "$(contents)" ]]; }

fail() { # what
    echo "$GROUP-setup: $1" >&2
    exit 69
}

if is_ready; then exit 0; fi
case $(uname -m) in
x86_64 | aarch64) ;;
*) fail "a part of $WHAT has no build for $(uname -m)" ;;
esac
exec 9<"${BASH_SOURCE[0]}"
flock 9 # two make commands at once: the second waits, and finds everything done
if is_ready; then exit 0; fi
install=(.venv/bin/python -m pip install --no-input --disable-pip-version-check --retries 1)
if command -v uv >/dev/null; then install=(uv pip install --python .venv/bin/python); fi
echo "$GROUP-setup: installing $WHAT" >&2
PIP_USER=0 "${install[@]}" --require-hashes --no-deps --only-binary :all: -r "$LOCK" >"$LOG" 2>&1 || {
    tail -n 6 "$LOG" | cut -c1-160 >&2
    fail "that failed; the whole output is in $LOG"
}
contents >"$READY"
