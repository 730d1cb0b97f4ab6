#!/usr/bin/env bash
# A commit's subject is `area: what it does`, of at most 60 characters, and its body says why.
set -euo pipefail
subject=$(grep -m 1 -v '^#' "$1" || true)
if [[ $subject == Merge\ * || $subject == Revert\ * ]]; then exit 0; fi
if [[ ! $subject =~ ^[a-z0-9_-]+:\ .+ ]] || ((${#subject} > 60)); then
    echo "the subject is not 'area: what it does' in 60 characters: ${subject:-nothing}" >&2
    exit 1
fi
if (($(grep -cv '^#\|^$' "$1") < 2)); then
    echo "say in the body why: a line of it, behind an empty one" >&2
    exit 1
fi
