#!/usr/bin/env bash
# Adds what builds the documentation site (docs/site) to the .venv that .ci/setup.sh has made: Sphinx
# with its theme, 60 MB. What tries the blocks of the documents is another thing: setup-docs.sh.
#
# Done once, it takes milliseconds and no network. Exit codes as those of .ci/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
READY=$VENV/.site-ready
LOG=$VENV/setup-site.log

contents() { cat .ci/requirements-site.lock .ci/setup-site.sh "$VENV/.ready" | sha256sum; }
is_ready() { [[ -r $READY && $(<"$READY") == "$(contents)" ]]; }

if is_ready; then exit 0; fi
case $(uname -m) in
x86_64 | aarch64) ;;
*)
    echo "site-setup: a part of the site's packages has no build for $(uname -m)" >&2
    exit 69
    ;;
esac
exec 9<"${BASH_SOURCE[0]}"
flock 9 # two make commands at once: the second waits, and finds everything done
if is_ready; then exit 0; fi
install=("$VENV/bin/python" -m pip install --no-input --disable-pip-version-check)
if command -v uv >/dev/null; then install=(uv pip install --python "$VENV/bin/python"); fi
echo "site-setup: installing Sphinx and its theme (some seconds)"
PIP_USER=0 "${install[@]}" --require-hashes --no-deps --only-binary :all: \
    -r .ci/requirements-site.lock >"$LOG" 2>&1 || {
    tail -n 6 "$LOG" | cut -c1-160 >&2
    echo "site-setup: that failed; the whole output is in $LOG." >&2
    exit 69
}
contents >"$READY"
