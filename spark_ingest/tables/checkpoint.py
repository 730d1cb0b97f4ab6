"""The folder in which Spark keeps how far a query is, and what we add to it.

    <lake>/checkpoints/<query>/
        .tidegate-lock    held by the one process that may run the query
        tidegate-app      the name under which it writes to tables; new with each new checkpoint
        offsets, commits  Spark's own

Rule 1: one process runs a query at a time. Spark notices two only after both have begun.
Rule 2: what a batch has is durable before any table has the batch. Spark leaves that to the system;
        after a power cut the same number could stand for other rows, which the tables would then
        take for a replay.
Rule 3: the name is made once and durable before anything is written under it.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from pathlib import Path
from typing import Any

from spark_ingest.segments.disk import Disk

APP = "tidegate-app"
LOCK = ".tidegate-lock"


class CheckpointError(Exception):
    """A checkpoint that another process has, or that is not what it should be."""


class Checkpoint:
    """As a context manager it is held on entry and given back on exit."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._disk = Disk()
        self._lock: int | None = None

    def __enter__(self) -> Checkpoint:
        """Raises CheckpointError, and OSError."""
        self._disk.make_folder(self.folder)
        lock = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise CheckpointError(
                f"another process is at work with {self.folder}; end that one first, or run "
                "another query with --set spark.name=second"
            ) from None
        self._lock = lock
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @property
    def app(self) -> str:
        """Made, if there is none."""
        path = self.folder / APP
        try:
            name = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if self.last_batch is not None:
                raise CheckpointError(
                    f"{path} is gone, which says under what name tables were written. Bring it "
                    "back, or move checkpoint and tables away to build both again"
                ) from None
            name = str(uuid.uuid4())
            self._disk.replace(path, f"{name}\n".encode())
        if not name:
            raise CheckpointError(f"{path} is empty; bring it back from a backup")
        return name

    def must_be_of(self, app: str) -> None:
        """For a process that only has its path. Raises CheckpointError."""
        try:
            found = (self.folder / APP).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            found = ""
        if found != app:
            raise CheckpointError(
                f"{self.folder} is not there, or is another one, on the machine of the Spark "
                "Connect server: the lake must have one path everywhere (NFS will do)"
            )

    @property
    def last_batch(self) -> int | None:
        """The last one that Spark knows to be done."""
        return _last_of(self.folder / "commits")

    def make_durable(self, batch: int) -> None:
        """Rule 2; from within the batch."""
        self._disk.sync_file(self.folder / "offsets" / str(batch))
        self._disk.sync_folder(self.folder / "offsets")

    @property
    def segments_read(self) -> dict[str, int]:
        """The first segment of each collector that no finished batch has had."""
        batch = self.last_batch
        if batch is None:
            return {}
        offset = self._offset(batch)
        try:
            return dict(offset["next"])
        except (KeyError, ValueError, TypeError) as error:
            raise self._damaged(batch, error) from None

    @property
    def newest_offset(self) -> dict[str, Any] | None:
        """Of the newest batch, finished or not, as the source has it. Raises CheckpointError."""
        batch = _last_of(self.folder / "offsets")
        return None if batch is None else self._offset(batch)

    def _offset(self, batch: int) -> dict[str, Any]:
        lines = (self.folder / "offsets" / str(batch)).read_text(encoding="utf-8").splitlines()
        try:
            # A version, Spark's own affairs, and a line for each source: we have one.
            return dict(json.loads(lines[2]))
        except (IndexError, ValueError, TypeError) as error:
            raise self._damaged(batch, error) from None

    def _damaged(self, batch: int, error: Exception) -> CheckpointError:
        return CheckpointError(
            f"{self.folder}/offsets/{batch} is not what Spark and gwlog write: {error!r}; "
            "bring the checkpoint back from a backup, or build it and the tables again"
        )


def _last_of(folder: Path) -> int | None:
    try:
        numbers = [int(each.name) for each in folder.iterdir() if each.name.isdecimal()]
    except FileNotFoundError:
        return None
    return max(numbers, default=None)
