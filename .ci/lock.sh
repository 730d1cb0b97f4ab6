#!/usr/bin/env bash
# Writes the lock files, .ci/requirements*.lock, from pyproject.toml: each version exact, with the
# sha256 of each of its files. Pins stay unless --upgrade (or --upgrade-package NAME) is given; a pin
# that stays keeps its hashes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if ! command -v uv >/dev/null; then
    echo "make lock needs uv:  pipx install uv" >&2
    exit 69
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
constraints=()

lock() { # file, its head, uv's options and what of pyproject.toml
    local file=.ci/$1 head=$2 pins=$folder/$1
    shift 2
    if [[ -e $file ]]; then cp "$file" "$pins"; fi
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes "${constraints[@]}" \
        --no-emit-index-url --no-emit-find-links --no-header --annotation-style line \
        --output-file "$pins" "$@" >/dev/null
    # Constraints are no reason, and have another name each time.
    { echo "$head" && sed -E 's/, -c [^ ,]*//; s/-c [^ ,]*, //; /^ +# via -c [^ ,]*$/d' "$pins"; } >"$folder/whole"
    cp "$folder/whole" "$file"
}

# shellcheck disable=SC2016 # these are not to expand
lock requirements.lock '# What `make setup` installs: the gateway, the demo and the tools of development, for Python 3.11 and
# newer on x86_64, aarch64 and armv7. Written by:
#
#     make lock                       keeps the versions that still fit pyproject.toml
#     make lock ARGS=--upgrade        takes the newest
#
# Without an index: the one that the machine is set to serves. On 32-bit ARM the hashes are left out:
# the index of Raspberry Pi OS builds its own wheels.' \
    --group dev --extra demo --extra dtls --extra flash --extra hil --extra qr --extra security "$@" pyproject.toml

# The others are the same versions, and more.
cp .ci/requirements.lock "$folder/constraints"
constraints=(--constraint "$folder/constraints")

lock requirements-gateway.lock '# Of .ci/requirements.lock: what the gateway needs to run. For packages and containers.' \
    "$@" pyproject.toml
lock requirements-build.lock '# Of .ci/requirements.lock: what builds the gateway, and what has no wheel. Installed before the rest.' \
    --group build "$@"
# shellcheck disable=SC2016
lock requirements-spark.lock \
    '# What `make spark-setup` adds to .ci/requirements.lock: Spark with its Connect client, Delta, a Java, a client of Kafka.' \
    --extra spark --extra connect --extra kafka "$@" pyproject.toml
# shellcheck disable=SC2016
lock requirements-types.lock \
    '# What `make test` adds to .ci/requirements.lock: pyright, a Node.js, and stubs of MicroPython.' \
    --group types "$@"
# shellcheck disable=SC2016
lock requirements-site.lock \
    '# What `make docs` adds to .ci/requirements.lock: Sphinx with the theme furo and MyST, and what checks OpenAPI documents.' \
    --group site "$@"
# shellcheck disable=SC2016
lock requirements-release.lock \
    '# What `make release` adds to .ci/requirements.lock: what writes its SBOM, and schemas for tests.' \
    --group release "$@"
