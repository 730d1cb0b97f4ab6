"""Where a folder lies: which file system, on what, with which options, and how much room it has.

Linux says so in /proc/self/mountinfo (proc(5)). Where it does not, nothing is known, which is not
an error.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gateway.config.settings import MIB

MOUNTINFO = Path("/proc/self/mountinfo")
# A machine with very many mounts is still read whole; a damaged file cannot take all memory.
MOUNTINFO_BYTES_MAX = 4 * MIB

IN_MEMORY = frozenset({"tmpfs", "ramfs"})
OVER_THE_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "afs", "ceph"})


@dataclass(frozen=True, slots=True)
class Mount:
    """`device` is the kernel's "major:minor"; "0:..." where no single device is behind it."""

    point: str
    file_system: str
    source: str
    device: str
    options: tuple[str, ...]
    was_made_read_only: bool = False  # by the kernel, after an error; nobody mounted it so

    @property
    def is_in_memory(self) -> bool:
        return self.file_system in IN_MEMORY

    @property
    def is_over_the_network(self) -> bool:
        return self.file_system in OVER_THE_NETWORK


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    for path in (folder.absolute(), *folder.absolute().parents):
        with suppress(OSError):  # a folder that we may not look into
            if path.is_dir():
                return path
    return Path("/")


def mount_of(folder: Path, mountinfo: Path = MOUNTINFO) -> Mount | None:
    """The mount that holds the folder, or would hold it once it is made."""
    try:
        place = str(existing(folder).resolve())
        with mountinfo.open(errors="surrogateescape") as file:
            lines = file.read(MOUNTINFO_BYTES_MAX).splitlines()
    except (OSError, RuntimeError):  # RuntimeError: links that lead in a circle
        return None
    found: Mount | None = None
    for line in lines:
        mount = _parsed(line)
        # Of two at the same point the later one hides the earlier.
        if mount is not None and _is_below(place, mount.point):
            found = mount if found is None or len(mount.point) >= len(found.point) else found
    return found


def _parsed(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    if not separator or len(left) < 6 or len(right) < 3:
        return None
    ours, theirs = left[5].split(","), right[2].split(",")
    options = dict.fromkeys([*ours, *theirs])
    # `mount -o ro` sets both; errors=remount-ro only the file system's own.
    was_made = "rw" in ours and not {"ro", "emergency_ro"}.isdisjoint(theirs)
    return Mount(
        point=_unescaped(left[4]),
        file_system=right[0],
        source=_unescaped(right[1]),
        device=left[2],
        options=tuple(options),
        was_made_read_only=was_made,
    )


def _unescaped(text: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, letter)
    return text


def _is_below(place: str, point: str) -> bool:
    return point == "/" or place == point or place.startswith(point + "/")


def free_bytes(folder: Path) -> int | None:
    """What this user could still write there."""
    try:
        found = os.statvfs(existing(folder))
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def taken_bytes(folder: Path) -> int:
    """What the files in a folder take already."""
    try:
        with os.scandir(folder) as entries:
            return sum(entry.stat(follow_symlinks=False).st_blocks * 512 for entry in entries)
    except OSError:
        return 0
