"""Which retained messages of ours the broker may have, over restarts: one line for each change.

A broker keeps a retained message until it is cleared. Without this record messages would stay there
for good when a device is forgotten while the broker cannot be reached, when the gateway gets
another name, or when Home Assistant is switched off. So each topic is written to the file when it
is first sent, and again when it was cleared; a start clears what is found there and is no longer
wanted. An announcement is recorded with its values: after a restart they are announced before the
device sends its next reading. It is recorded with its components as well, behind the values, where
versions before 0.3 pass over them: what it no longer has can then be taken back after a restart.
Behind those are the commands that the device has declared, and the turn of the claim to it, if it
came from another gateway (claims.py), and which numbers had no unit (late_units.py).

It is a file of its own and not a table of the state (`LineFile`): the worst that its loss does is
that something is not cleared.

Limits: `BYTES_MAX`; beyond it nothing more is written. `LINES_MAX` lines wait; more are dropped and
counted, and a message of that topic may stay at the broker. A start writes the file again, without
what was cleared. A disk that is full or fails is an alarm as long as it lasts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.core.state_records import ClientId
from gateway.presence.documents import LedgerEntry
from gateway.presence.line_file import LineFile, at_once, log, written_again

if TYPE_CHECKING:
    from gateway.presence.catalogue import KnownValue

FILE = "announced.jsonl"
BYTES_MAX = 64 << 20
LINES_MAX = 100_000
WITHOUT_UNIT = "without unit"
DECLARED = "commands"  # begins such a row
# After which a batch that has not been written is an alarm.
SLOW_S = 10.0


class RetainedLedgerFile(LineFile):
    """The `RetainedLedger` of the queue."""

    def __init__(
        self,
        folder: Path,
        begin_work: Callable[[Callable[[], None]], None] = at_once,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(folder / FILE, begin_work, now)
        self._lost = 0

    @property
    def error(self) -> str | None:
        """Why something is not recorded, or None."""
        if self._writing is not None and self._now() - self._begun_at > SLOW_S:
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
        try:
            self._bytes = written_again(self._path, map(_line, entries.items()))
        except OSError as error:
            self._fail(error)

    def published(self, topic: str, entry: LedgerEntry) -> None:
        self._enqueue(topic, _line((topic, entry)))

    def cleared(self, topic: str) -> None:
        self._enqueue(topic, f"{json.dumps([topic])}\n")

    def _enqueue(self, topic: str, line: str) -> None:
        if len(self._lines) >= LINES_MAX and topic not in self._lines:
            self._lost += 1
            return
        self._lines.pop(topic, None)
        self._lines[topic] = line

    def _work(self, text: str) -> Callable[[], int] | None:
        if self._bytes + len(text) > BYTES_MAX:
            return None
        return partial(self._append, text)

    def _log(self, reason: str | None) -> None:
        log.warning(
            "%s cannot be used (%s): what is forgotten while the broker is away may stay there",
            self._path,
            reason,
        )


def _line(item: tuple[str, LedgerEntry]) -> str:
    topic, entry = item
    values = [[each.topic, each.name, each.kind.value, each.unit] for each in entry.values]
    components = list(map(list, entry.components))
    declared = [[DECLARED, *each] for each in entry.declared]
    turn = [[entry.turn]] if entry.turn else []
    without_unit = [[WITHOUT_UNIT, list(entry.without_unit)]] if entry.without_unit else []
    parts = [*values, *components, *declared, *turn, *without_unit]
    return f"{json.dumps([topic, entry.client_id, parts])}\n"


def _read(line: str, found: dict[str, LedgerEntry]) -> None:
    try:
        match json.loads(line):
            case [str(topic)]:
                found.pop(topic, None)
            case [str(topic), str(client_id), [*values]]:
                found[topic] = LedgerEntry(
                    ClientId(client_id),
                    tuple(_values(values)),
                    tuple(_components(values)),
                    tuple(_declared(values)),
                    _turn(values),
                    _without_unit(values),
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


def _declared(listed: Iterable[object]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for each in listed:
        match each:
            case [str(kind), str(topic), [*names]] if kind == DECLARED:
                yield topic, tuple(map(str, names))


def _turn(listed: Iterable[object]) -> int:
    for each in listed:
        match each:
            case [int(turn)]:
                return turn
    return 0


def _without_unit(listed: Iterable[object]) -> tuple[str, ...]:
    for each in listed:
        match each:
            case [str(kind), [*keys]] if kind == WITHOUT_UNIT:
                return tuple(map(str, keys))
    return ()
