"""What a file system lies on: a card, a disk, or nobody knows. From the kernel's /sys.

The device of a partition is the one above it, and that of an encrypted or logical volume the first
one below it.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.config.mounts import Mount

SYS = Path("/sys")
LAYERS_MAX = 8  # of volumes on volumes


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """`kind` is `SD card`, `eMMC`, `rotating disk` or `solid state`; None where /sys is silent."""

    name: str
    kind: str | None
    model: str | None

    @property
    def is_sd_card(self) -> bool:
        return self.kind == "SD card"


def block_device(mount: Mount, sys: Path = SYS) -> BlockDevice | None:
    number = _number(mount)
    if number is None:
        return None
    with suppress(OSError, RuntimeError):
        folder = _whole(sys / "dev" / "block" / number)
        for _ in range(LAYERS_MAX):
            below = _names(folder / "slaves")
            if not below:
                break
            folder = _whole(sys / "class" / "block" / below[0])
        model = _text(folder / "device" / "model") or _text(folder / "device" / "name")
        return BlockDevice(folder.name, _kind(folder), model)
    return None


def _number(mount: Mount) -> str | None:
    """File systems of several devices have a number of their own, which leads nowhere."""
    if not mount.device.startswith("0:"):
        return mount.device
    with suppress(OSError, ValueError):
        if mount.source.startswith("/dev/"):
            device = Path(mount.source).stat().st_rdev
            return f"{os.major(device)}:{os.minor(device)}"
    return None


def _whole(link: Path) -> Path:
    folder = link.resolve(strict=True)
    return folder.parent if (folder / "partition").exists() else folder


def _kind(folder: Path) -> str | None:
    if folder.name.startswith("mmcblk"):
        # The kernel's words for the two: what is soldered on is "MMC".
        return "eMMC" if _text(folder / "device" / "type") == "MMC" else "SD card"
    rotates = _text(folder / "queue" / "rotational")
    return {"0": "solid state", "1": "rotating disk"}.get(rotates or "")


def _names(folder: Path) -> list[str]:
    with suppress(OSError):
        return sorted(path.name for path in folder.iterdir())
    return []


def _text(path: Path) -> str | None:
    with suppress(OSError):
        return path.read_text(errors="replace").strip() or None
    return None
