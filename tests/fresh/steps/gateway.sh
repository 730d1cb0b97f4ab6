# The command that is on PATH: a gateway of its own, sensors, their readings on its disk.
set -eu
folder=$(mktemp -d)
cat >"$folder/config.toml" <<CONFIG
[gateway]
name = "fresh"
state_dir = "$folder/state"
[[udp]]
listen = "127.0.0.1:21883"
[admin]
listen = "127.0.0.1:28080"
CONFIG
tidegate --version
tidegate check "$folder/config.toml"
tidegate run --config "$folder/config.toml" >"$folder/log" 2>&1 &
gateway=$!
trap 'cat "$folder/log"; kill $gateway 2>/dev/null || true' EXIT
for _ in $(seq 100); do
    if tidegate status --config "$folder/config.toml" >/dev/null 2>&1; then break; fi
    sleep 0.3
done
tidegate simulate --gateway 127.0.0.1:21883 --sensors 3 --qos 1,2 --interval 1 --seconds 8
readings=$(tidegate buffer --config "$folder/config.toml" --json peek -n 1000 |
    python3 -c 'import json, sys; print(len(json.load(sys.stdin)["readings"]))')
form=$(grep -o -m 1 '(\(not \)\?compiled[^)]*)' "$folder/log" | tr -d '()')
kill $gateway
wait $gateway
trap - EXIT
cat "$folder/log"
((readings >= 6))
echo "=> $readings readings on disk; $form"
