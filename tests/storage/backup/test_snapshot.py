"""A moment of the state folder, copied while its owner goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from random import Random

import pytest

from gateway.core.values import Reading
from gateway.storage.backup import snapshot
from gateway.storage.backup.archive import BackupError
from gateway.storage.backup.guarded import Folder
from gateway.storage.backup.snapshot import copy_database, segments
from gateway.storage.journal.boot import read_boot_id
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.inspect import Inspection
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.options import JournalOptions
from gateway.storage.journal.recovery import Clocks
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE
from gateway.transports.clock import now, unix_ms_at_zero
from tests.cli.stored import new_reading

PAYLOAD = bytes(900)
ROWS = 4000
COPIES = 25


class World:
    """A journal of small segments that goes on: it stores, and finishes what is old."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal(folder, OsFiles(), JournalOptions(size_max_bytes=512 << 10))
        self.journal.open(now(), unix_ms_at_zero(), read_boot_id())
        self.waiting: list[Reading] = []
        self._next = 0

    def go_on(self, readings: int) -> None:
        for _ in range(readings):
            reading = new_reading(PAYLOAD, sequence=self._next)
            self._next += 1
            assert self.journal.store(reading, is_queued=False) is None
            self.waiting.append(reading)
            self._write()
            while len(self.waiting) > 150:
                self.journal.finish(self.waiting.pop(0))
        self._write()

    @property
    def sequences(self) -> set[int]:
        return {reading.sequence for reading in self.waiting}

    def _write(self) -> None:
        group = self.journal.begin_group(now(), is_stopping=True)
        if group is not None:
            self.journal.write(group)
            assert not self.journal.end_group(group, None).not_stored


def found_in(folder: Path, copied: Iterator[tuple[str, bytes]]) -> set[int]:
    folder.mkdir()
    for name, octets in copied:
        (folder / name).write_bytes(octets)
    look = Inspection(folder, Clocks(now(), unix_ms_at_zero(), read_boot_id(), recent_s=0.0))
    assert look.report.damaged == []
    return {reading.sequence for reading in look.unfinished()}


@pytest.mark.parametrize("moves_on_after", range(5))
@pytest.mark.parametrize("by", [1, 40, 200, 1000])
def test_a_journal_that_goes_on_meanwhile_is_one_moment(
    tmp_path: Path, moves_on_after: int, by: int
) -> None:
    world = World(tmp_path / "journal")
    world.go_on(400)
    before = world.sequences

    def copied() -> Iterator[tuple[str, bytes]]:
        for number, each in enumerate(segments(tmp_path / "journal")):
            if number == moves_on_after:
                world.go_on(by)
            yield each

    found = found_in(tmp_path / "copy", copied())
    still = world.sequences
    assert found >= before & still, "what waited all the time"
    assert found == set(range(min(found), max(found) + 1)), "no hole"
    # Not more than what waited at one moment, but for the moments of finishing.
    assert len(found) <= 150 + 1
    world.journal.close()


def test_what_stands_still_is_copied_octet_by_octet(tmp_path: Path) -> None:
    world = World(tmp_path / "journal")
    world.go_on(400)
    for name, octets in segments(tmp_path / "journal"):
        assert octets == (tmp_path / "journal" / name).read_bytes()
    world.journal.close()


def test_a_journal_that_is_not_there_has_no_segments(tmp_path: Path) -> None:
    assert list(segments(tmp_path / "none")) == []


@pytest.mark.parametrize("pause_s", [0.003, 0.01])
def test_a_database_that_is_written_to_is_one_moment(
    tmp_path: Path, pause_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every commit takes from one row what it gives to another, and the log begins again often."""
    # Far more often than a gateway: on a busy machine few tries fall between two logs then.
    monkeypatch.setattr(snapshot, "TRIES_MAX", 2000)
    database = tmp_path / DATABASE_FILE
    over, ready = threading.Event(), threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(database, isolation_level=None)) as connection:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")  # only to be faster
            connection.execute("PRAGMA wal_autocheckpoint = 0")
            connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, room BLOB)")
            rows = [(number, 0, bytes(1000)) for number in range(ROWS)]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")
            ready.set()
            dice = Random(1)
            while not over.is_set():
                for _ in range(200):
                    one, other = dice.sample(range(ROWS), 2)
                    connection.execute(
                        "UPDATE t SET n = n + iif(id = ?, 1, -1) WHERE id IN (?, ?)",
                        (one, one, other),
                    )
                # The log begins anew with the next commit; until then all of it is in both files.
                connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
                over.wait(pause_s)

    writer = threading.Thread(target=write)
    writer.start()
    ready.wait(20)
    values: set[int] = set()
    try:
        for number in range(COPIES):
            copy = tmp_path / f"copy-{number}"
            assert copy_database(tmp_path, copy)
            with closing(sqlite3.connect(copy)) as connection:
                (total, moved) = connection.execute("SELECT sum(n), sum(abs(n)) FROM t").fetchone()
            assert total == 0
            values.add(moved)
    finally:
        over.set()
        writer.join()
    assert len(values) > COPIES / 2, "it was written to meanwhile"


def test_one_whose_log_begins_anew_during_every_copy_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy, log = snapshot._copy, tmp_path / f"{DATABASE_FILE}-wal"
    heads = count()

    def begin_anew_meanwhile(folder: Folder, name: str, target: Path) -> None:
        copy(folder, name, target)
        log.write_bytes(b"%032d" % next(heads))

    (tmp_path / DATABASE_FILE).touch()
    monkeypatch.setattr(snapshot, "_copy", begin_anew_meanwhile)
    with pytest.raises(BackupError, match="changes too fast to be copied: try again"):
        copy_database(tmp_path, tmp_path / "copy")
    assert next(heads) == 2 * snapshot.TRIES_MAX


def test_a_database_that_a_commit_found_damaged_is_no_backup(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).touch()
    (tmp_path / DISTRUST_FILE).touch()
    with pytest.raises(BackupError, match="is damaged: restart the gateway"):
        copy_database(tmp_path, tmp_path / "copy")
