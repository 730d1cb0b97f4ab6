#!/usr/bin/env bash
# Adds to the .venv that .ci/setup.sh has made what writes the SBOM of a release, and the schemas by
# which tests look at compose files and workflows: 25 MiB, on 64-bit machines. Done once, it takes
# milliseconds and no network.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly READY=.venv/.release-ready LOCK=.ci/requirements-release.lock LOG=.venv/setup-release.log
contents() { cat "$LOCK" .ci/setup-release.sh .venv/.ready | sha256sum; }
is_ready() { [[ -r $READY && $(<"$READY") == "$(contents)" ]]; }

fail() { # what
    echo "release-setup: $1" >&2
    exit 69
}

if is_ready; then exit 0; fi
case $(uname -m) in
x86_64 | aarch64) ;;
*) fail "a part of what writes the SBOM has no build for $(uname -m)" ;;
esac
exec 9<"${BASH_SOURCE[0]}"
flock 9 # two make commands at once: the second waits, and finds everything done
if is_ready; then exit 0; fi
install=(.venv/bin/python -m pip install --no-input --disable-pip-version-check --retries 1)
if command -v uv >/dev/null; then install=(uv pip install --python .venv/bin/python); fi
echo "release-setup: installing what writes the SBOM of a release" >&2
PIP_USER=0 "${install[@]}" --require-hashes --no-deps --only-binary :all: -r "$LOCK" >"$LOG" 2>&1 ||
    fail "that failed; the whole output is in $LOG"
contents >"$READY"
