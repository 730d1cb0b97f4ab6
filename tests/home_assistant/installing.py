"""Home Assistant, from the package index, in a Debian 13 of its own in a folder.

    python -m tests.home_assistant.installing

It needs Python 3.13.2, which Debian 12 does not have. The folder is build/home, or what
$TIDEGATE_HOME names; what is in it is kept, so a second run has nothing to do. Needs root and
debootstrap, as tests/fresh does. Exit code 69 where it cannot be done.

Wheels are installed where there are some, so that no compiler is needed. `lru-dict` 1.3.0, which
Home Assistant 2026.2 asks for, has none for Python 3.13: the next version is taken, whose interface
is the same.

`libfaketime`, of Debian 13 as well, is added to what is there, also to a folder of before it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.support.debian_folder import (
    REPOSITORY,
    Network,
    base,
    entered,
    prepare_network,
    run,
    why_not,
)

VERSION = "2026.2.3"
# What its integrations `mqtt` and `frontend` need; it would fetch them at its first start. The last
# five are of integrations that it imports when a browser asks which actions there are.
FOR_INTEGRATIONS = (
    "paho-mqtt==2.1.0",
    "home-assistant-frontend==20260128.6",
    "hassil==3.5.0",
    "home-assistant-intents==2026.1.28",
    "mutagen==1.47.0",
    "PyTurboJPEG==1.8.0",
    "ha-ffmpeg==3.2.2",
)
# Imported then, too, and never called: the next versions, which have a wheel for Python 3.13.
ONLY_IMPORTED = ("pymicro-vad==2.1.0", "pyspeex-noise==2.0.1")
RELEASE = "trixie"
PACKAGES = ("python3", "python3-venv", "ca-certificates")
CLOCK = "libfaketime"  # a wall clock that runs faster
UNAVAILABLE = 69
INSTALL = f"""
set -e
python3 -m venv /srv/venv
cd /srv/venv
bin/pip install -q --no-deps homeassistant=={VERSION}
bin/python >needs.txt <<'END'
from importlib.metadata import requires
for line in requires("homeassistant"):
    print("lru-dict" if line.startswith("lru-dict") else line)
END
grep -v '^lru-dict' lib/python3*/site-packages/homeassistant/package_constraints.txt >limits.txt
bin/pip install -q --prefer-binary -r needs.txt -c limits.txt {" ".join(FOR_INTEGRATIONS)}
bin/pip install -q --only-binary :all: {" ".join(ONLY_IMPORTED)}
"""
INSTALL_CLOCK = f"""
set -e
apt-get update -qq
apt-get install -qq --no-install-recommends {CLOCK}
"""


def folder() -> Path:
    return Path(os.environ.get("TIDEGATE_HOME") or REPOSITORY / "build" / "home")


def root() -> Path:
    return folder() / "root"


def is_installed() -> bool:
    return _is_home_installed() and _clock() is not None


def clock_library() -> str:
    """As a path within the folder."""
    found = _clock()
    assert found is not None, f"{CLOCK} is not installed: make home-test"
    return f"/{found.relative_to(root())}"


def _is_home_installed() -> bool:
    stamp = folder() / "complete"
    return stamp.exists() and stamp.read_text() == INSTALL


def _clock() -> Path | None:
    return next((root() / "usr" / "lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def why_not_there() -> str | None:
    """Why there is no Home Assistant to test with, or None."""
    if why := why_not():
        return f"Home Assistant runs in a folder, and {why}"
    if importlib.util.find_spec("websockets") is None:
        return "websockets is not installed (64-bit machines only): make setup"
    return None if is_installed() else "Home Assistant is not installed: make home-test"


def install() -> None:
    """Raises AssertionError with what was said when something fails."""
    if not _is_home_installed():
        _install_home()
    if _clock() is None:
        _do(INSTALL_CLOCK)


def _install_home() -> None:
    _say("Debian 13 by debootstrap: five minutes, once")
    made = base(RELEASE, PACKAGES)
    folder().mkdir(parents=True, exist_ok=True)
    shutil.rmtree(root(), ignore_errors=True)
    run("cp", "--archive", "--reflink=auto", made, root())
    prepare_network(root(), Network.SHARED)
    _say(f"Home Assistant {VERSION} by pip: 150 MB")
    _do(INSTALL)
    (folder() / "complete").write_text(INSTALL)


def _do(script: str) -> None:
    """In the folder."""
    with entered(root(), "home", ("sh", "-c", script)) as process:
        said = process.communicate()[0].decode(errors="replace")
        assert process.returncode == 0, said[-2000:]


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} home-test: {text}\n")
    sys.stderr.flush()


def main() -> int:
    if why := why_not():
        _say(f"not run: {why}")
        return UNAVAILABLE
    if not is_installed():
        try:
            install()
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            _say(f"not run: {error}")
            return UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
