#!/usr/bin/env bash
# `make quick`: what one runs after each change, in under a minute. Lint of the changed files, layers and
# types of all by their caches, the quick tests of the core, and the tests that lie where the changes do.
# Changed: since the last commit; BASE=main for a branch.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
bin=.venv/bin
failed=()
began=$SECONDS

# What takes seconds for one test; `make test` has it.
slow=(core/test_engine_any_input.py core/test_engine_any_input_saved.py core/test_engine_timers.py
    core/test_token_buckets.py core/test_crash_points.py core/downlink/test_downlink_power_cuts.py
    core/downlink/test_downlink_with_mosquitto.py core/downlink/test_subscriptions.py core/uplink/test_uplink_overrun.py
    core/session/test_memory.py core/session/test_outbound.py core/mqtt/test_subscribing_any_order.py)

run() { # its name, the command
    local name=$1
    shift
    if ! "$@"; then failed+=("$name"); fi
}

mapfile -t changed < <({ git diff --name-only "${BASE:-HEAD}" -- && git ls-files --others --exclude-standard; } | sort -u)
python=() tests=()
for file in "${changed[@]}"; do
    if [[ $file == *.md && -e $file && " ${tests[*]} " != *" tests/docs "* ]]; then tests+=(tests/docs tests/house/test_documents.py); fi
    [[ $file == *.py && -e $file ]] || continue
    python+=("$file")
    case $file in
    tests/*/test_*.py)
        tests+=("$file")
        mapfile -t slow < <(printf '%s\n' "${slow[@]}" | grep -Fxv -- "${file#tests/}") # it changed: it runs
        ;;
    gateway/* | hil/* | firmware/* | spark_ingest/*)
        near=tests/${file#gateway/}
        near=${near%/*}/test_$(basename "$file")
        if [[ -e $near ]]; then tests+=("$near"); fi
        ;;
    esac
done

if ((${#python[@]})); then
    run "lint" "$bin/ruff" check --quiet "${python[@]}"
    run "format" "$bin/ruff" format --quiet --check "${python[@]}"
    if [[ -x $bin/lint-imports ]]; then run "layers" "$bin/lint-imports" --no-logo; fi
    if [[ -x $bin/mypy ]]; then run "types" "$bin/mypy"; fi
fi
run "tests" "$bin/python" -m pytest -q -x -m "not soak" -n "$(($(nproc) + 1))" --dist loadfile -p no:cacheprovider \
    tests/core tests/packets tests/frames/test_rows.py "${slow[@]/#/--ignore=tests/}" "${tests[@]}"

echo "quick: $((SECONDS - began)) s, ${#python[@]} changed Python files"
if ((${#failed[@]})); then
    echo "quick: failed: ${failed[*]}" >&2
    exit 1
fi
