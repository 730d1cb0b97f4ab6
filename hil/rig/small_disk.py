"""A disk of a few MiB that a gateway can have for itself and that another program can fill.

It is a tmpfs, mounted as root or in a mount namespace of its own where users may have one. In the
namespace a program gets to it by `prefix`, and this process through /proc.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CHUNK = b"\0" * 4096


class NoSmallDiskError(Exception):
    """This system lets us mount nothing."""


@dataclass(frozen=True, slots=True)
class SmallDisk:
    path: Path  # as this process sees it
    prefix: tuple[str, ...]  # of the command that shall see it at its place

    @property
    def free_bytes(self) -> int:
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    @property
    def is_full(self) -> bool:
        return self.free_bytes < len(CHUNK)

    def fill(self, leave_bytes: int = 0) -> None:
        """As another program would that writes what it can, beside another writer."""
        with (self.path / "somebody-elses").open("ab", buffering=0) as file:
            while self.free_bytes > leave_bytes:
                try:
                    file.write(CHUNK)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def free(self) -> None:
        (self.path / "somebody-elses").unlink(missing_ok=True)


@contextmanager
def small_disk(place: Path, size_bytes: int, *, is_resolved: bool = False) -> Iterator[SmallDisk]:
    """Mounted at `place`, a folder.

    `is_resolved`: this process opens databases or tables there. SQLite and Delta follow the links
    of /proc by their names, and so miss a disk that is in a namespace.
    """
    mounting = subprocess.run(
        ["mount", *_options(place, size_bytes)], capture_output=True, text=True, check=False
    )
    if mounting.returncode == 0:
        try:
            yield SmallDisk(place, ())
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True)
    elif is_resolved:
        raise NoSmallDiskError("tests of a full disk mount a tmpfs for this: run them as root")
    else:
        with disk_in_a_namespace(place, size_bytes, mounting.stderr) as disk:
            yield disk


@contextmanager
def disk_in_a_namespace(
    place: Path, size_bytes: int, why_not_mounted: str = "not tried"
) -> Iterator[SmallDisk]:
    """Held by a process that does nothing else."""
    options = _options(place, size_bytes)
    script = 'mount "$@" && echo mounted && exec cat'
    keeper = subprocess.Popen(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert keeper.stdout is not None
    try:
        if keeper.stdout.readline() != b"mounted\n":
            _, why = keeper.communicate()
            raise NoSmallDiskError(
                "tests of a full disk mount a tmpfs: run them as root or allow user namespaces "
                f"(mount: {why_not_mounted.strip()}; unshare: {why.decode().strip()})"
            )
        yield SmallDisk(
            Path(f"/proc/{keeper.pid}/root{place}"),
            ("nsenter", "--preserve-credentials", "--user", "--mount", f"--target={keeper.pid}"),
        )
    finally:
        with contextlib.suppress(BrokenPipeError, ValueError):
            keeper.communicate()


def _options(place: Path, size_bytes: int) -> tuple[str, ...]:
    return ("-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(place))
