"""The audit log of the gateway that runs: entries are written by a thread, as a disk may hang.

A change is answered when its entry is on the disk, or after WRITTEN_S_MAX. What cannot be written
waits for the next entry, PENDING_MAX of them at most; what is lost beyond that is counted, and the
count is an entry of its own. That nothing can be written is logged once, and keeps no operator from
acting: the log says the same.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.host.side_thread import BusyError, NoThreadError, OverdueError, SideThread
from gateway.storage.audit_log import AuditEntry, append

__all__ = ["Audit", "AuditEntry", "AuditLog", "no_audit"]

WRITTEN_S_MAX = 2.0
APPEND_S_MAX = 30.0
PENDING_MAX = 1000

log = logging.getLogger("tidegate.admin")

Audit = Callable[[AuditEntry], Awaitable[None]]


async def no_audit(_entry: AuditEntry) -> None:
    """Where there is no state folder."""


class AuditLog:
    def __init__(self, folder: Path) -> None:
        self.lost = 0
        self._folder = folder
        self._pending: list[bytes] = []
        self._thread = SideThread("audit")
        self._task: asyncio.Task[None] | None = None
        self._is_failing = False

    async def record(self, entry: AuditEntry) -> None:
        """Returns when it is on the disk, or that takes too long."""
        self.put(entry)
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=WRITTEN_S_MAX)

    def put(self, entry: AuditEntry) -> None:
        """Without waiting for it."""
        if len(self._pending) >= PENDING_MAX:
            self.lost += 1
            return
        if self.lost:
            gap = AuditEntry("tidegate", "none", "process", "", "lost", {"entries": self.lost})
            self._pending.append(gap.line())
            self.lost = 0
        self._pending.append(entry.line())
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write(), name="audit")

    async def stop(self) -> None:
        """What is pending is written, as far as the disk takes it."""
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=WRITTEN_S_MAX)

    async def _write(self) -> None:
        try:
            while self._pending and await self._written(self._pending[:]):
                pass
        finally:
            self._task = None

    async def _written(self, lines: list[bytes]) -> bool:
        why: object
        try:
            await self._thread.run(lambda: append(self._folder, lines), APPEND_S_MAX)
        except OverdueError:
            # They are in the thread's hands, and may be written yet: not a second time.
            del self._pending[: len(lines)]
            why = f"the disk has not answered for {APPEND_S_MAX:.0f} s"
        except BusyError:
            why = "the disk does not answer"
        except (NoThreadError, OSError) as error:
            why = error.strerror or error
        else:
            del self._pending[: len(lines)]
            self._is_failing = False
            return True
        if not self._is_failing:
            log.error("the audit log in %s cannot be written: %s", self._folder, why)
        self._is_failing = True
        return False
