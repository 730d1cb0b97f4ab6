"""The database of the revision before is read value by value, and written row by row as then."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.storage.state.store import DATABASE_FILE, StateStore
from tests.storage.state.examples import EVERYTHING_BEFORE, LINKS, ROWS_BEFORE
from tests.support.written_before import written_before

EPOCH = 41
ADDED = ("aside", "message_expiries", "retained_expiries", "waiting", "protection")
PRAGMAS = ("user_version", "application_id", "page_size", "journal_mode", "encoding", "auto_vacuum")


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """With all of it in the log, as a power cut leaves it."""
    return written_before(tmp_path / "before", DATABASE_FILE)


def contents_of(folder: Path) -> list[object]:
    """The text of each table's definition, each row and what the file says of itself."""
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as connection:
        pragmas = [connection.execute(f"PRAGMA {name}").fetchone() for name in PRAGMAS]
        return [*connection.iterdump(), *zip(PRAGMAS, pragmas, strict=True)]


def test_every_row_is_read_as_it_was(before: Path) -> None:
    with closing(StateStore.open(before, LINKS)) as store:
        assert store.load() == EVERYTHING_BEFORE
        assert store.skipped == 0
        assert store.raise_epoch(0) == EPOCH + 1


def test_it_goes_on_there(before: Path) -> None:
    with closing(StateStore.open(before, LINKS)) as store:
        store.load()
        expected = contents_of_copy(before)
        store.commit(ROWS_BEFORE)
    assert contents_of(before) == expected, "the rows are what they were"


def contents_of_copy(folder: Path) -> list[object]:
    """The connection has the file for itself."""
    copy = folder / "copy"
    copy.mkdir()
    for path in folder.glob(f"{DATABASE_FILE}*"):
        (copy / path.name).write_bytes(path.read_bytes())
    return contents_of(copy)


def test_the_same_rows_are_written_the_same_way(before: Path, tmp_path: Path) -> None:
    now = tmp_path / "now"
    now.mkdir()
    with closing(StateStore.open(now, LINKS)) as store:
        assert store.raise_epoch(EPOCH - 1) == EPOCH
        store.commit(ROWS_BEFORE)
    # The tables that may be missing, for that an older version opens the database.
    tables = tuple(f"CREATE TABLE {name} " for name in ADDED)
    added = [line for line in contents_of(now) if str(line).startswith(tables)]
    assert len(added) == len(ADDED)
    assert [line for line in contents_of(now) if line not in added] == contents_of(before)
