"""How much of the memory that this process may have is used, by all together.

The kernel ends a process that cannot get more, without a word. Which limit comes first: that of its
control group or of one above (version 2: memory.high, memory.max; version 1: limit_in_bytes), or
what the machine has. What the kernel takes back when it needs it (the contents of files) is not
counted: a group that writes files is soon full of them. Of the machine the last GIBIBYTE counts
alone: a share of a large one would be much.

Reads a few files of the kernel; None where there are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GIBIBYTE = 1 << 30
# A limit of version 1 that is none.
_UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """`place`: whose limit it is, for the operator."""

    used_bytes: int
    limit_bytes: int
    place: str

    @property
    def share(self) -> float:
        return self.used_bytes / self.limit_bytes


def memory_use(root: Path = Path("/")) -> MemoryUse | None:
    """The tightest. `root`: where proc and sys are."""
    found: list[MemoryUse] = []
    with suppress(OSError, ValueError):
        found += _of_groups(root)
    with suppress(OSError, ValueError, KeyError, IndexError):
        found.append(_of_machine(root))
    return max(found, key=lambda each: each.share, default=None)


def _of_machine(root: Path) -> MemoryUse:
    kilobytes: dict[str, int] = {}
    for line in (root / "proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, rest = line.partition(":")
        kilobytes[name] = int(rest.split()[0])
    limit = min(kilobytes["MemTotal"] << 10, GIBIBYTE)
    used = max(0, limit - (kilobytes["MemAvailable"] << 10))
    return MemoryUse(used, limit, "this machine")


def _of_groups(root: Path) -> Iterator[MemoryUse]:
    for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            mount = root / "sys/fs/cgroup"
            yield from _of_group(mount, path, ("memory.high", "memory.max"), "memory.current")
        elif "memory" in controllers.split(","):
            mount = root / "sys/fs/cgroup/memory"
            limits, usage = ("memory.limit_in_bytes",), "memory.usage_in_bytes"
            yield from _of_group(mount, path, limits, usage)


def _of_group(mount: Path, path: str, limits: tuple[str, ...], usage: str) -> Iterator[MemoryUse]:
    """The group and those above it. In a container the path may be the host's, and only the mount
    itself be there.
    """
    folder = mount / path.lstrip("/")
    folders = [folder, *folder.parents]
    for each in folders[: folders.index(mount) + 1]:
        with suppress(OSError, ValueError):
            texts = [_read(each / name) for name in limits]
            numbers = [int(text) for text in texts if text.isdecimal()]
            limit = min(numbers, default=_UNLIMITED)
            if 0 < limit < _UNLIMITED:
                used = int(_read(each / usage)) - _file_bytes(each)
                yield MemoryUse(max(0, used), limit, f"its control group ({each.name})")


def _file_bytes(folder: Path) -> int:
    """Of the group and those below; what is in a tmpfs is none of it."""
    found = dict(line.split(" ", 1) for line in _read(folder / "memory.stat").splitlines())
    names = ("inactive_file", "active_file")
    return sum(int(found.get(f"total_{name}", found.get(name, "0"))) for name in names)


def _read(path: Path) -> str:
    return path.read_text(encoding="ascii").strip()
