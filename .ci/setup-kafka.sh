#!/usr/bin/env bash
# Fetches what the tests with Kafka run, 50 MiB of jars, by Maven into the user's cache, and holds each
# against .ci/kafka/jars.sha256. Nothing but those tests needs it: who has a Kafka has its own, and
# Spark fetches its connector itself.
#
#     bash .ci/setup-kafka.sh            fetches, unless all is there
#     bash .ci/setup-kafka.sh --look     says what is missing, and fetches nothing
#
# Exit codes as those of .ci/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/kafka"

JARS=${TIDEGATE_KAFKA_JARS:-${XDG_CACHE_HOME:-$HOME/.cache}/tidegate/kafka}
SUMS=$PWD/jars.sha256

is_whole() { [[ -d $JARS ]] && (cd "$JARS" && sha256sum --quiet --check "$SUMS" >/dev/null 2>&1); }

fail() { # code, line
    printf 'kafka-setup: %s\n' "$2" >&2
    exit "$1"
}

main() {
    if is_whole; then return; fi
    if [[ ${1:-} == --look ]]; then fail 69 "the jars are not in $JARS:  make kafka-test fetches them"; fi
    command -v mvn >/dev/null || fail 69 "Maven fetches the jars:  sudo apt-get install maven"
    mkdir -p "$JARS" || fail 73 "$JARS cannot be made."
    exec 9<"$JARS"
    flock 9 # two make commands at once: the second waits, and finds everything done
    if is_whole; then return; fi
    printf 'kafka-setup: fetching 50 MiB to %s\n' "$JARS"
    local part
    for part in broker spark; do
        rm -rf "${JARS:?}/$part"
        mvn --quiet --batch-mode --activate-profiles "$part" dependency:copy-dependencies \
            -DoutputDirectory="$JARS/$part" >"$JARS/$part.log" 2>&1 || {
            grep -m 3 ERROR "$JARS/$part.log" | cut -c 1-160 >&2
            fail 69 "that failed; the whole output is in $JARS/$part.log."
        }
    done
    is_whole || fail 1 "what came is not what $SUMS says: sha256sum --check it in $JARS."
}

trap 'exit 130' INT
trap 'exit 143' TERM
main "$@"
