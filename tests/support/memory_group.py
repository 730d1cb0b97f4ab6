"""A control group with a limit of memory, for processes of a test; version 2 or 1, whichever is."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path("/sys/fs/cgroup")
_EATS = """
import sys
held = bytearray(int(sys.argv[1]))
held[::4096] = b"x" * len(held[::4096])
print("done", flush=True)
sys.stdin.read()
"""


@dataclass
class MemoryGroup:
    folder: Path
    limit_bytes: int
    usage: str

    @property
    def used_bytes(self) -> int:
        return int((self.folder / self.usage).read_text())

    def prefix(self, *, is_first_to_go: bool = False) -> tuple[str, ...]:
        """Before the command of a process that is to be in it."""
        score = "echo 1000 > /proc/self/oom_score_adj; " if is_first_to_go else ""
        script = f'echo $$ > {self.folder}/cgroup.procs; {score}exec "$@"'
        return ("sh", "-c", script, "sh")

    @contextmanager
    def eaten(self, size: int) -> Iterator[None]:
        """So much of it is taken by somebody else; it may not come to that."""
        command = [*self.prefix(), sys.executable, "-c", _EATS, str(size)]
        hog = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert hog.stdout is not None
            hog.stdout.readline()
            yield
        finally:
            hog.kill()
            hog.communicate()


@contextmanager
def memory_group(name: str, limit_bytes: int) -> Iterator[MemoryGroup]:
    is_version_2 = (ROOT / "cgroup.controllers").exists()
    above = ROOT if is_version_2 else ROOT / "memory"
    limit, usage = (
        ("memory.max", "memory.current")
        if is_version_2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    )
    folder = above / name
    try:
        folder.mkdir()
        (folder / limit).write_text(str(limit_bytes))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        pytest.skip(f"not run: no control group of memory here: {error}")
    try:
        yield MemoryGroup(folder, limit_bytes, usage)
    finally:
        for _ in range(100):
            try:
                folder.rmdir()
                break
            except OSError:  # the last process is still being buried
                time.sleep(0.05)
