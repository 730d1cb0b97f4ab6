#!/usr/bin/env bash
# Writes .ci/requirements.lock, .ci/requirements-spark.lock and .ci/requirements-types.lock from
# pyproject.toml. Pins stay unless --upgrade (or --upgrade-package NAME) is given.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v uv >/dev/null; then
    echo "make lock needs uv:  pipx install uv" >&2
    exit 69
fi
pins=$(mktemp)
trap 'rm -f "$pins"' EXIT
if [[ -e .ci/requirements.lock ]]; then cp .ci/requirements.lock "$pins"; fi
uv pip compile --quiet --universal --python-version 3.11 --group dev --extra demo --extra flash --extra hil \
    --no-emit-index-url --no-emit-find-links --no-header --annotation-style line \
    --output-file "$pins" "$@" pyproject.toml >/dev/null
cat - "$pins" >.ci/requirements.lock <<'EOF'
# What `make setup` installs: the gateway, the demo and the tools of development, every version exact,
# for Python 3.11 and newer on x86_64, aarch64 and armv7. Written by:
#
#     make lock                       keeps the versions that still fit pyproject.toml
#     make lock ARGS=--upgrade        takes the newest
#
# Without hashes: Raspberry Pi OS takes its wheels from an index that builds them anew, so theirs
# differ. Without an index: the one that the machine is set to serves.
EOF
# What else there is to install, beside the versions above.
pinned=$(mktemp)
more=$(mktemp)
trap 'rm -f "$pins" "$pinned" "$more"' EXIT
cp .ci/requirements.lock "$pinned"

lock_more() { # file, its first line, what of pyproject.toml, uv's options
    local file=$1 head=$2
    shift 2
    : >"$more"
    if [[ -e $file ]]; then cp "$file" "$more"; fi
    uv pip compile --quiet --universal --python-version 3.11 --constraint "$pinned" \
        --no-emit-index-url --no-emit-find-links --no-header --annotation-style line \
        --output-file "$more" "$@" >/dev/null
    {
        echo "$head"
        sed -E 's/, -c [^ ,]*//; s/-c [^ ,]*, //' "$more" # the constraints have another name each time
    } >"$file"
}

# shellcheck disable=SC2016 # these are not to expand
lock_more .ci/requirements-spark.lock \
    '# What `make spark-setup` adds to .ci/requirements.lock: Spark with its Connect client, Delta, a Java, a client of Kafka.' \
    --extra spark --extra connect --extra kafka "$@" pyproject.toml
# shellcheck disable=SC2016
lock_more .ci/requirements-types.lock \
    '# What `make test` adds to .ci/requirements.lock: pyright, a Node.js, and stubs of MicroPython.' \
    --group types "$@"
