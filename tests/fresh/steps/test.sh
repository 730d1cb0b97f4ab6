# What is in the way on a machine that is used: another gateway, on the ports that are the default.
cd ~/tidegate
mkdir -p ~/other
cat >~/other/config.toml <<CONFIG
[gateway]
name = "other"
state_dir = "$HOME/other/state"
CONFIG
.venv/bin/tidegate run --config ~/other/config.toml >~/other/log 2>&1 &
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
