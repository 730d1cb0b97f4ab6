"""How worn the card is, as far as it says: eMMC does, SD cards do not. From the kernel's /sys.

`life_time` are two numbers from 1 to 11 in tenths of its life (JEDEC, JESD84-B51: 7.4.35), for its
two kinds of memory; `pre_eol_info` is 1 well, 2 when 80 % of its spare blocks are used, 3 urgent.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gateway.cli.doctor.block_device import SYS, BlockDevice
from gateway.cli.doctor.findings import Finding, Level

WORN_TENTHS = 9
ENDED_TENTHS = 11


def wear(device: BlockDevice | None, sys: Path = SYS) -> Iterator[Finding]:
    if device is None or not device.name.startswith("mmcblk"):
        return
    folder = sys / "class" / "block" / device.name / "device"
    life = max(_numbers(folder / "life_time"), default=0)
    spare = max(_numbers(folder / "pre_eol_info"), default=0)
    if life >= ENDED_TENTHS or spare >= 3:
        yield _worn(Level.FAILURE, f"{device.name} is worn out: it may fail any day")
    elif life >= WORN_TENTHS or spare == 2:
        used = f"{min(life, 10) * 10} % of its life" if life else "80 % of its spare blocks"
        yield _worn(Level.WARNING, f"{device.name} has used {used}")


def _worn(level: Level, what: str) -> Finding:
    place = shlex.quote("/media/usb/tidegate.backup")
    return Finding(level, what, "take a backup, then replace it", f"sudo tidegate backup {place}")


def _numbers(path: Path) -> list[int]:
    with suppress(OSError, ValueError):
        return [int(word, 16) for word in path.read_text().split()]
    return []
