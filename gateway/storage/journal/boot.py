"""Which boot of the machine this is: monotonic time means something only within one."""

from __future__ import annotations

import os
from pathlib import Path

BOOT_ID_BYTES = 16
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


def read_boot_id(path: Path = BOOT_ID_FILE) -> bytes:
    """16 bytes. Where the machine does not tell (no /proc), each start counts as a boot."""
    try:
        octets = bytes.fromhex(path.read_text(encoding="ascii").strip().replace("-", ""))
        if len(octets) != BOOT_ID_BYTES:
            raise ValueError(path)
    except (OSError, ValueError):
        return os.urandom(BOOT_ID_BYTES)
    return octets
