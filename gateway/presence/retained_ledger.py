"""Which retained messages of ours the broker may have, over restarts: one line for each change.

A broker keeps a retained message until it is cleared. Without this record messages would stay there
for good when a device is forgotten while the broker cannot be reached, when the gateway gets
another name, or when Home Assistant is switched off. So each topic is written to the file when it
is first sent, and again when it was cleared; a start clears what is found there and is no longer
wanted. An announcement is recorded with its values: after a restart they are announced before the
device sends its next reading. It is recorded with its components as well, behind the values, where
versions before 0.3 pass over them: what it no longer has can then be taken back after a restart.

It is a file of its own and not a table of the state: nothing waits for it, it is never synced, and
the worst that its loss does is that something is not cleared.

It is written in a thread, one batch at a time: the disk may hang. Meanwhile, and after a failure
until a write succeeds (`RETRY_S`), lines wait in memory, the last one of each topic.

Limits: `BYTES_MAX`; beyond it nothing more is written. `LINES_MAX` lines wait; more are dropped and
counted, and a message of that topic may stay at the broker. A start writes the file again, without
what was cleared. A disk that is full or fails is logged once, is an alarm as long as it lasts, and
otherwise does no harm.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from gateway.core.state_records import ClientId
from gateway.presence.entries import LedgerEntry

if TYPE_CHECKING:
    from gateway.presence.catalogue import KnownValue

log = logging.getLogger("tidegate.presence")

FILE = "announced.jsonl"
BYTES_MAX = 64 << 20
LINES_MAX = 100_000
RETRY_S = 10.0
# After which a batch that has not been written is an alarm.
SLOW_S = 10.0


def at_once(work: Callable[[], None]) -> None:
    work()


def in_thread(work: Callable[[], None]) -> None:
    """Raises RuntimeError where the limit on threads is reached."""
    Thread(target=work, name="announced", daemon=True).start()


class RetainedLedgerFile:
    """The `RetainedLedger` of the queue. `begin_work`: where the file is written."""

    def __init__(
        self,
        folder: Path,
        begin_work: Callable[[Callable[[], None]], None] = at_once,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = folder / FILE
        self._begin_work = begin_work
        self._now = now
        self._lines: dict[str, str] = {}  # by topic
        self._written: dict[str, str] | None = None  # under way
        # From the thread: what became of it.
        self._ended: list[OSError | None] = []
        self._begun_at = 0.0
        self._retry_at = 0.0
        self._bytes = 0
        self._lost = 0
        self._problem: str | None = None

    @property
    def error(self) -> str | None:
        """Why something is not recorded, or None."""
        if self._written is not None and self._now() - self._begun_at > SLOW_S:
            waited_s = self._now() - self._begun_at
            return f"{self._path}: the disk has not answered for {waited_s:.0f} s"
        if self._problem is None and self._lost:
            return f"{self._path}: {self._lost} topics were too many to wait for the disk"
        return self._problem

    def load(self) -> dict[str, LedgerEntry]:
        """By topic. What is no line of ours is skipped."""
        found: dict[str, LedgerEntry] = {}
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    _read(line, found)
        except FileNotFoundError:
            pass  # the first start
        except OSError as error:
            self._fail(error)
        return found

    def begin(self, entries: dict[str, LedgerEntry]) -> None:
        """Write the file again, with these entries alone."""
        new = self._path.with_suffix(".new")
        try:
            new.unlink(missing_ok=True)
            with open(new, "x", encoding="utf-8", opener=_private) as file:
                file.writelines(_written(topic, entry) for topic, entry in entries.items())
                self._bytes = file.tell()
            new.replace(self._path)
        except OSError as error:
            self._fail(error)

    def published(self, topic: str, entry: LedgerEntry) -> None:
        self._enqueue(topic, _written(topic, entry))

    def cleared(self, topic: str) -> None:
        self._enqueue(topic, f"{json.dumps([topic])}\n")

    def flush(self) -> bool:
        """Begin to write what waits; whether something is being written."""
        self._take_outcome()
        if self._written is None and self._lines and self._now() >= self._retry_at:
            self._write(self._lines)
            self._take_outcome()
        return self._written is not None

    def _enqueue(self, topic: str, line: str) -> None:
        if len(self._lines) >= LINES_MAX and topic not in self._lines:
            self._lost += 1
            return
        self._lines.pop(topic, None)
        self._lines[topic] = line

    def _write(self, lines: dict[str, str]) -> None:
        self._lines, self._begun_at = {}, self._now()
        # After a failure the last line may be half of one.
        text = ("\n" if self._problem is not None else "") + "".join(lines.values())
        if self._bytes + len(text) > BYTES_MAX:
            return
        self._bytes += len(text)
        self._written = lines
        try:
            self._begin_work(partial(self._append, text))
        except RuntimeError:
            self._ended.append(OSError(errno.EAGAIN, "the limit on threads is reached"))

    def _append(self, text: str) -> None:
        """In the thread."""
        try:
            with open(self._path, "a", encoding="utf-8", opener=_private) as file:
                file.write(text)
        except OSError as error:
            self._ended.append(error)
        else:
            self._ended.append(None)

    def _take_outcome(self) -> None:
        if self._written is None or not self._ended:
            return
        lines, self._written = self._written, None
        error = self._ended.pop()
        if error is not None:
            for topic, line in self._lines.items():
                lines.pop(topic, None)
                lines[topic] = line
            self._lines = lines
            self._retry_at = self._now() + RETRY_S
            self._fail(error)
        elif self._problem is not None:
            self._problem = None
            log.info("%s can be used again", self._path)

    def _fail(self, error: OSError) -> None:
        is_first, self._problem = self._problem is None, f"{self._path}: {error.strerror}"
        if is_first:
            log.warning(
                "%s cannot be used (%s): what is forgotten while the broker is away may stay there",
                self._path,
                error.strerror,
            )


def _private(path: str, flags: int) -> int:
    """For `open`: for our user alone, also where an older version has made the file."""
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # of another user
        if os.fstat(file).st_mode & 0o077:
            os.fchmod(file, 0o600)
    return file


def _written(topic: str, entry: LedgerEntry) -> str:
    values = [[each.topic, each.name, each.kind.value, each.unit] for each in entry.values]
    components = list(map(list, entry.components))
    return f"{json.dumps([topic, entry.client_id, values + components])}\n"


def _read(line: str, found: dict[str, LedgerEntry]) -> None:
    try:
        match json.loads(line):
            case [str(topic)]:
                found.pop(topic, None)
            case [str(topic), str(client_id), [*values]]:
                found[topic] = LedgerEntry(
                    ClientId(client_id), tuple(_values(values)), tuple(_components(values))
                )
    except ValueError:  # torn by a power cut
        return


def _values(listed: Iterable[object]) -> Iterator[KnownValue]:
    if not listed:  # always so without Home Assistant
        return
    from gateway.presence.catalogue import Kind, KnownValue

    for each in listed:
        match each:
            case [str(topic), str(name), str(kind), str(unit)]:
                yield KnownValue(topic=topic, name=name, kind=Kind(kind), unit=unit)


def _components(listed: Iterable[object]) -> Iterator[tuple[str, str]]:
    for each in listed:
        match each:
            case [str(key), str(platform)]:
                yield key, platform
