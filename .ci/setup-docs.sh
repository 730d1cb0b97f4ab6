#!/usr/bin/env bash
# Puts the programs by which blocks of the documents are tried (tests/docs) into .venv/docs, where the
# machine has none: promtool and the clients of mosquitto, and Prometheus itself for what is asked of it
# (tests/examples), from this Debian's own archive, unpacked and not installed; no root is needed.
#
# Only `make test` wants it, and goes on without it: then those blocks are reported as not run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly ROOT=$PWD/.venv/docs
readonly LOG=$PWD/.venv/setup-docs.log

give_up() { # why
    echo "docs-setup: $1: some blocks of the documents will not be tried" >&2
    exit 0
}

if [[ -e $ROOT/bin/prometheus ]] ||
    { command -v prometheus && command -v promtool && command -v mosquitto_sub; } >/dev/null; then exit 0; fi
if ! command -v apt-get >/dev/null; then give_up "promtool is not installed, and there is no apt-get"; fi
exec 9<"${BASH_SOURCE[0]}"
flock 9 # two make commands at once: the second waits, and finds everything done
if [[ -e $ROOT/bin/prometheus ]]; then exit 0; fi
echo "docs-setup: fetching Prometheus and mosquitto's clients for tests, 20 MB" >&2
folder=$(mktemp -d)
trap 'rm -rf "$folder" "$ROOT.new"' EXIT
chmod 0755 "$folder" # for apt's own user
rm -rf "$ROOT.new"
mkdir "$ROOT.new"
fetch() {
    cd "$folder"
    apt-get download prometheus mosquitto-clients libmosquitto1 libcjson1 libc-ares2
    for package in *.deb; do dpkg-deb -x "$package" whole; done
    mkdir "$ROOT.new/bin" "$ROOT.new/lib"
    mv whole/usr/bin/{prometheus,promtool,mosquitto_pub,mosquitto_sub,mosquitto_rr} "$ROOT.new/bin"
    find whole/usr/lib whole/lib -name '*.so.*' -exec mv -t "$ROOT.new/lib" {} + 2>/dev/null || true
    LD_LIBRARY_PATH=$ROOT.new/lib "$ROOT.new/bin/promtool" --version
    { LD_LIBRARY_PATH=$ROOT.new/lib "$ROOT.new/bin/mosquitto_sub" --help || true; } | grep '^mosquitto_sub is'
}
# Not in an `if` or before `||`, where the shell would go on after a command that failed.
set +e
(set -e; fetch) >"$LOG" 2>&1
ended=$?
set -e
if ((ended)); then give_up "Prometheus cannot be fetched (.venv/setup-docs.log says why)"; fi
rm -rf "$ROOT"
mv "$ROOT.new" "$ROOT"
