"""Which retained messages of ours the broker may have, over restarts: one line for each change.

A broker keeps a retained message until it is cleared. Who forgets a device while the broker is
away, changes the gateway's name or switches Home Assistant off would leave messages behind that
nobody clears, and devices that never were. So each topic is written down before it is said for the
first time, and crossed out when it was cleared; what a start finds and nobody wants any more is
cleared then. Beside a device's announcement stands which values it has: they are announced again
before it was heard again.

It is a file of its own and not a table of the state: nobody waits for it, it is never synced, and
a gateway that loses it forgets at worst to clear something.

Limits: `BYTES_MAX`; beyond it nothing more is written down. A start writes it anew, without what
was crossed out. A disk that is full or fails is logged once and otherwise does no harm.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.effects import ClientId
from gateway.notices.saying import Entry

if TYPE_CHECKING:
    from gateway.notices.catalogue import Known

log = logging.getLogger("tidegate.presence")

FILE = "announced.jsonl"
BYTES_MAX = 64 << 20


class AnnouncedFile:
    """The ledger that `notices/` asks for."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._lines: list[str] = []
        self._bytes = 0
        self.error: str | None = None

    def load(self) -> dict[str, Entry]:
        """By topic. What is no line of ours is passed over."""
        found: dict[str, Entry] = {}
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                for line in file:
                    _read(line, found)
        except FileNotFoundError:
            pass  # the first start
        except OSError as error:
            self._fail(error)
        return found

    def begin(self, kept: dict[str, Entry]) -> None:
        """Write it anew, with these alone."""
        new = self._path.with_suffix(".new")
        try:
            with new.open("w", encoding="utf-8") as file:
                file.writelines(_written(topic, entry) for topic, entry in kept.items())
                self._bytes = file.tell()
            new.replace(self._path)
        except OSError as error:
            self._fail(error)

    def told(self, topic: str, entry: Entry) -> None:
        self._lines.append(_written(topic, entry))

    def cleared(self, topic: str) -> None:
        self._lines.append(f"{json.dumps([topic])}\n")

    def flush(self) -> None:
        if not self._lines:
            return
        text, self._lines = "".join(self._lines), []
        self._bytes += len(text)
        if self._bytes > BYTES_MAX:
            return
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        if self.error is None:
            self.error = f"{self._path}: {error.strerror}"
            log.warning(
                "%s cannot be used (%s): what is forgotten while the broker is away may stay there",
                self._path,
                error.strerror,
            )


def _written(topic: str, entry: Entry) -> str:
    values = [[each.topic, each.name, each.kind.value, each.unit] for each in entry.values]
    return f"{json.dumps([topic, entry.client_id, values])}\n"


def _read(line: str, found: dict[str, Entry]) -> None:
    try:
        match json.loads(line):
            case [str(topic)]:
                found.pop(topic, None)
            case [str(topic), str(client_id), [*values]]:
                found[topic] = Entry(ClientId(client_id), tuple(_values(values)))
    except ValueError:  # torn by a power cut
        return


def _values(listed: Iterable[object]) -> Iterator[Known]:
    if not listed:  # as ever, without Home Assistant
        return
    from gateway.notices.catalogue import Kind, Known

    for each in listed:
        match each:
            case [str(topic), str(name), str(kind), str(unit)]:
                yield Known(topic, name, Kind(kind), unit)
