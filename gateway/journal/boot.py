"""Which boot of the machine this is: monotonic time means something only within one."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = BOOT_ID_FILE) -> bytes:
    """16 octets. Where the machine does not tell (no /proc), each start counts as a boot."""
    try:
        return UUID(path.read_text(encoding="ascii").strip()).bytes
    except (OSError, ValueError):
        return os.urandom(16)
