"""A machine of its own for each page: its files, network and processes, gone afterwards.

The root is this machine's in an overlay, so /etc, /var and the clone can be written as a page says,
and nothing of it stays. In it are 127.0.0.1 and the addresses of the examples, a mosquitto on port
1883, and in `stubs/` what would need a service manager, packages of the network, or a person (each
says what it does instead). It needs root and Linux's overlay; where those are missing, why_not()
says so.

A page's blocks are run in its order, so that a later one finds what a former one made.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.docs.blocks import REPOSITORY
from tests.support.debian_folder import DEVICES

STUBS = REPOSITORY / "tests" / "docs" / "stubs"
STEP_S_MAX = 90.0
# Of the gateway, its standby, the broker and the OTA server's in the examples.
_ADDRESSES = ("10.0.0.5", "192.168.1.10", "192.168.1.11", "192.168.1.2")
# What there is before the first block.
STATES = {
    "bare": "",
    "clone": "systemctl start mosquitto",
    "running": """\
ln -s $STUBS/user/tidegate /usr/bin/tidegate
useradd --system --home-dir /var/lib/tidegate tidegate
install -d /etc/tidegate /media/usb
install -d -m 0700 -o tidegate -g tidegate /var/lib/tidegate
tidegate init /etc/tidegate/config.toml
sed -i '0,/^#name = .*/s//name = "greenhouse"/' /etc/tidegate/config.toml
systemctl start mosquitto
systemctl start tidegate
""",
}
STATES["multicast"] = STATES["running"].replace(
    "systemctl start mosquitto",
    """\
sed -i 's/^#multicast = .*/multicast = "225.1.1.1:1883"/' /etc/tidegate/config.toml
systemctl start mosquitto""",
)
_BUILD = (
    r"""
set -eu
top=$1 results=$2 clone=$3 root=$1/root
mount -t tmpfs none "$top"
mkdir "$top/upper" "$top/work" "$root" "$top/clone-upper" "$top/clone-work"
mount -t overlay -o "lowerdir=/,upperdir=$top/upper,workdir=$top/work" overlay "$root"
if [ "$(stat -c %d /)" != "$(stat -c %d "$clone")" ]; then
    layers="lowerdir=$clone,upperdir=$top/clone-upper,workdir=$top/clone-work"
    mount -t overlay -o "$layers" overlay "$root$clone"
fi
mount -t proc proc "$root/proc"
"""
    + DEVICES
    + r"""
mount -t sysfs -o ro none "$root/sys"
mkdir -p "$root/results"
mount --bind "$results" "$root/results"
ip link set lo up multicast on
ip route add 224.0.0.0/4 dev lo
for address in $4; do ip address add "$address/32" dev lo; done
exec chroot "$root" /bin/bash /results/all.sh
"""
)
_PREPARE = r"""
rm -rf /etc/tidegate /var/lib/tidegate /etc/sysusers.d /media /srv/pi
rm -f /etc/systemd/system/tidegate.service /usr/bin/tidegate /usr/local/bin/tidegate
install -d /srv/pi/.local/bin /media /tmp /run
ln -s $STUBS/user/uv /srv/pi/.local/bin/uv
ln -s {clone} /srv/pi/tidegate
cd /srv/pi/tidegate && rm -rf dist build/firmware
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    code: int
    said: str


@cache
def why_not() -> str | None:
    """Why there is no root of its own here, or None."""
    if os.geteuid() != 0:
        return "blocks are run in a root of their own, which only root can make"
    try:
        ran = run("bare", ["true"])
    except OSError as error:
        return str(error)
    return None if ran[0].code == 0 else ran[0].said


def run(state: str, scripts: Sequence[str]) -> list[Outcome]:
    """Each in a shell of its own, in this order. Raises OSError where there can be no such root."""
    with tempfile.TemporaryDirectory(prefix="tidegate-blocks-") as folder:
        top, results = Path(folder) / "top", Path(folder) / "results"
        top.mkdir()
        results.mkdir()
        for number, script in enumerate(["", *scripts]):
            (results / f"{number}.sh").write_text(script)
        prepare = _PREPARE.format(clone=shlex.quote(str(REPOSITORY))) + STATES[state]
        (results / "0.sh").write_text("set -eu\n" + prepare)
        (results / "all.sh").write_text(_all(len(scripts)))
        privileges = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--uts"]
        arguments = [str(top), str(results), str(REPOSITORY), " ".join(_ADDRESSES)]
        done = subprocess.run(
            ["unshare", *privileges, "bash", "-c", _BUILD, "build", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_S_MAX * (len(scripts) + 1),
        )
        outcomes = [_outcome(results, number) for number in range(len(scripts) + 1)]
    if outcomes[0].code:
        raise OSError(f"no root of its own: {done.stderr.strip() or outcomes[0].said}")
    return outcomes[1:]


def _all(count: int) -> str:
    environment = {
        "HOME": "/srv/pi",
        "USER": "root",
        "LC_ALL": "C.UTF-8",
        "SHELL": "/bin/bash",
        "TERM": "dumb",
        "COLUMNS": "80",
        "CLONE": str(REPOSITORY),
        "STUBS": str(STUBS),
        "PATH": f"{STUBS}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/srv/pi/.local/bin",
    }
    clean = "".join(f" {name}={shlex.quote(value)}" for name, value in environment.items())
    return f"""\
cd /results
for number in $(seq 0 {count}); do
    r=/results/$number
    cd /srv/pi/tidegate 2>/dev/null
    echo 'a long one' | env -i{clean} timeout -k 2 {STEP_S_MAX:.0f} bash "$r.sh" >"$r.said" 2>&1
    echo $? >"$r.code"
done
"""


def _outcome(results: Path, number: int) -> Outcome:
    code, said = results / f"{number}.code", results / f"{number}.said"
    if not code.exists():
        return Outcome(code=-1, said="it was not begun")
    return Outcome(code=int(code.read_text()), said=said.read_text(errors="replace"))
