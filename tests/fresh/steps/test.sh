# What is in the way on a machine that is used: another gateway, on the ports that are the default.
cd ~/tidegate
mkdir -p /tmp/other
cat >/tmp/other/config.toml <<'CONFIG'
[gateway]
name = "other"
state_dir = "/tmp/other/state"
CONFIG
.venv/bin/tidegate run --config /tmp/other/config.toml >/tmp/other/log 2>&1 &
python3 - <<'LOOK'
import time
from urllib.request import urlopen

for _ in range(100):
    try:
        print("on port 8080:", urlopen("http://127.0.0.1:8080/healthz", timeout=5).status)
        break
    except OSError:
        time.sleep(0.3)
else:
    raise SystemExit("no other gateway on port 8080")
LOOK
unset PYTHONUNBUFFERED
PYTEST_ADDOPTS=-rs make test
