"""What to type to get a package that is missing: for the very Python that misses it, and by the
installer that its environment has.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

_EXTRA = re.compile(r"(?:\s+and)?\s*\(?extra == ['\"]([a-z]+)['\"]\)?")


def brings(extra: str, *missing: str) -> str:
    """The command for an extra of pyproject.toml; for `missing` where that is not known, as in an
    archive for a cluster.
    """
    return installs(*(_requirements(extra) or missing))


def installs(*packages: str) -> str:
    place = Path(__file__).parents[1]
    if sys.prefix == sys.base_prefix and (place / ".ci" / "setup.sh").exists():
        return f"make -C {shlex.quote(str(place))} setup, then .venv/bin/python there"
    sudo = "" if os.access(sysconfig.get_path("purelib"), os.W_OK) else "sudo "
    python, words = shlex.quote(sys.executable), shlex.join(packages)
    if importlib.util.find_spec("pip") is not None:
        return f"{sudo}{python} -m pip install {words}"
    uv = '"$(command -v uv)"' if sudo else "uv"
    return f"{sudo}{uv} pip install --python {python} {words}"


def _requirements(extra: str) -> list[str]:
    try:
        found = requires("tidegate") or []
    except PackageNotFoundError:
        return []
    packages = []
    for each in found:
        package, _, marker = each.partition(";")
        named = _EXTRA.search(marker)
        if named is not None and named[1] == extra:
            rest = _EXTRA.sub("", marker).strip()
            packages.append(f"{package.strip()}; {rest}" if rest else package.strip())
    return packages
