"""A journal on real files, driven as its owner drives it, and files that fail on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.files import Files, OsFiles
from gateway.storage.journal.journal import CommitGroup, Journal, Outcome
from gateway.storage.journal.options import JournalOptions, WhenFull
from gateway.storage.journal.recovered import Recovered

BOOT = b"first boot......"
NEXT_BOOT = b"second boot....."
NOW = 1000.0
UNIX_MS_AT_ZERO = 1_767_225_600_000.0  # 2026-01-01 at monotonic zero

SALTS = Random(1)  # one for all lives: a salt must not come twice

SMALL = 512 << 10  # eight segments of 64 KiB

OPEN: list[Journal] = []  # on real files; conftest.py closes them


def new_reading(
    position: int,
    *,
    client: str = "sensor-001",
    topic: str = "sensors/001/climate",
    payload: bytes = b"x" * 100,
    qos: int = 1,
    received_at: float = NOW,
) -> Reading:
    return Reading(
        client_id=ClientId(client),
        topic=topic,
        payload=payload,
        qos=qos,
        retain=False,
        topic_id=7,
        message_id=position % 65_535 + 1,
        received_at=received_at,
        sequence=position,
        unix_ms=int(UNIX_MS_AT_ZERO + received_at * 1000),
        epoch=3,
        packet_id=position % 65_000 + 1,
    )


def options(
    size: int = SMALL, when_full: WhenFull = WhenFull.REJECT, recent_s: float = 90.0
) -> JournalOptions:
    return JournalOptions(size, when_full, recent_s, salt=lambda: SALTS.getrandbits(32))


class Killed(BaseException):
    """The process ends here; what it wrote is in the page cache."""


@dataclass
class FaultyFiles(OsFiles):
    """`fault(call, path or None)` may raise, or return what to do instead: "short"."""

    fault: Callable[[str], object] = lambda _: None
    calls: list[str] = field(default_factory=list)

    def _call(self, name: str) -> object:
        self.calls.append(name)
        return self.fault(name)

    def open(self, path: Path, *, create: bool = False) -> int:
        self._call("create" if create else "open")
        return super().open(path, create=create)

    def open_to_read(self, path: Path) -> int:
        self._call("open")
        return super().open_to_read(path)

    def read(self, file: int, size: int, offset: int) -> bytes:
        short = self._call("read")
        return super().read(file, size // 2 + 1 if short else size, offset)

    def write(self, file: int, octets: bytes, offset: int) -> int:
        short = self._call("write")
        return super().write(file, octets[: len(octets) // 2 + 1] if short else octets, offset)

    def sync_data(self, file: int) -> None:
        self._call("sync_data")
        super().sync_data(file)

    def sync(self, file: int) -> None:
        self._call("sync")
        super().sync(file)

    def rename(self, old: Path, new: Path) -> None:
        self._call("rename")
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._call("remove")
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        self._call("sync_folder")
        super().sync_folder(folder)


@dataclass
class Total:
    """What several groups came to."""

    stored: list[Reading] = field(default_factory=list)
    not_stored: list[Reading] = field(default_factory=list)
    reasons: set[Reason] = field(default_factory=set)
    dropped: dict[ClientId, int] = field(default_factory=dict)

    def add(self, other: Outcome | Total) -> None:
        self.stored += other.stored
        self.not_stored += other.not_stored
        if isinstance(other, Outcome):
            self.not_stored += other.indeterminate
        if isinstance(other, Total):
            self.reasons |= other.reasons
        elif other.not_stored or other.indeterminate:
            self.reasons.add(other.reason)
        for client_id, count in other.dropped.items():
            self.dropped[client_id] = self.dropped.get(client_id, 0) + count


class Driven:
    """One life of a journal."""

    def __init__(
        self,
        folder: Path,
        journal_options: JournalOptions | None = None,
        files: Files | None = None,
        now: float = NOW,
        boot: bytes = BOOT,
        unix_ms_at_zero: float = UNIX_MS_AT_ZERO,
    ) -> None:
        self.files: Files = files or OsFiles()
        self.now = now
        self.journal = Journal(folder, self.files, journal_options or options())
        self.recovered: Recovered = self.journal.open(now, unix_ms_at_zero, boot)
        if isinstance(self.files, OsFiles):
            OPEN.append(self.journal)

    def store(self, *readings: Reading, is_queued: bool = False) -> list[Reading]:
        """Returns those that are stored; all that were taken on are written at once."""
        for reading in readings:
            assert self.journal.store(reading, is_queued=is_queued) is None
        return self.run().stored

    def run(self, *, is_stopping: bool = False) -> Total:
        """Groups until nothing is left to do."""
        total = Total()
        for group in self._groups(is_stopping=is_stopping):
            total.add(self.write(group))
        return total

    def run_once(self) -> None:
        group = self.journal.begin_group(self.now)
        if group is not None:
            self.write(group)

    def _groups(self, *, is_stopping: bool) -> Iterator[CommitGroup]:
        for _ in range(1000):
            group = self.journal.begin_group(self.now, is_stopping=is_stopping)
            if group is None:
                return
            yield group
        raise AssertionError("the journal never comes to rest")

    def write(self, group: CommitGroup) -> Outcome:
        try:
            self.journal.write(group)
        except OSError as error:
            return self.journal.end_group(group, error)
        return self.journal.end_group(group, None)

    def read(self) -> list[Reading]:
        """The whole backlog."""
        readings: list[Reading] = []
        while (request := self.journal.begin_read(self.now)) is not None:
            readings += self.journal.end_read(request, self.journal.read(request))
            if request.failed is not None:
                assert request.failed.has_gaps
                self.now += 1  # it is tried again
        return readings

    def look(self) -> int:
        """As once a second; returns how many readings are in reach again."""
        look = self.journal.begin_look()
        self.journal.look(look)
        return self.journal.end_look(look, self.now)

    def finish(self, *readings: Reading) -> None:
        for reading in readings:
            self.journal.finish(reading)
        self.run()

    def stop(self) -> None:
        self.run(is_stopping=True)
        self.journal.close()
