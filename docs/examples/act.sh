#!/bin/sh
# Does what the status page can do, from a script:  sh act.sh ACTION [JSON]
# docs/scripts.md has the actions. Needs curl and jq.
set -eu
page=${TIDEGATE_PAGE:-http://127.0.0.1:8080}
password=${TIDEGATE_PASSWORD_FILE:-/etc/tidegate/admin.password}
body=${2:-"{}"}

cookies=$(mktemp)
trap 'rm -f "$cookies"' EXIT
# On failure the gateway's answer says why; it is shown, and the exit code of curl is 22.
ask() {
    curl -sS --fail-with-body -b "$cookies" -c "$cookies" -H 'Content-Type: application/json' "$@"
}

# The password never stands on a command line, where `ps` would show it.
session=$(jq -Rs '{password: rtrimstr("\n")}' "$password" | ask --data @- "$page/api/session") ||
    { echo "$session" >&2; exit 1; }
token=$(echo "$session" | jq -r .token)
answer=$(ask -H "X-Tidegate-Token: $token" --data "$body" "$page/api/actions/$1") ||
    { echo "$answer" >&2; exit 1; }
ask -X DELETE -H "X-Tidegate-Token: $token" "$page/api/session" >/dev/null
echo "$answer" | jq -r .done
