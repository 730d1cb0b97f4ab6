"""What a finding tells to type, as it runs on this machine: with the packages that it needs first.

A Debian that is nothing but installed has no editor, no ping, no openssl.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator

from gateway.cli.called import SUDO_LOOKS_IN, runnable

# Of Debian, for programs that are not on every one.
PACKAGES = {
    "certbot": "certbot",
    "fuser": "psmisc",
    "ip": "iproute2",
    "nano": "nano",
    "openssl": "openssl",
    "ping": "iputils-ping",
    "resolvectl": "systemd-resolved",
    "ss": "iproute2",
}
EDITORS = ("editor", "nano", "vim", "vi")  # which `systemctl edit` starts, one of them
_PROGRAM = re.compile(r"(?:^|[|;&] ?|\$\()\s*(?:sudo (?:-u \S+ )?)?([a-z][\w-]*)")


def typed(command: str) -> str:
    missing = sorted(set(_missing(command)))
    first = f"sudo apt-get install -y {' '.join(missing)} && " if missing else ""
    return runnable(first + command)


def _missing(command: str) -> Iterator[str]:
    for found in _PROGRAM.finditer(command):
        package = PACKAGES.get(found[1])
        if package is not None and not _is_there(found[1]):
            yield package
    if "systemctl edit" in command and not any(map(_is_there, EDITORS)):
        yield PACKAGES["nano"]


def _is_there(program: str) -> bool:
    looked = os.pathsep.join([os.environ.get("PATH", ""), *map(str, sorted(SUDO_LOOKS_IN))])
    return shutil.which(program, path=looked) is not None
