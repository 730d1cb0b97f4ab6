"""A database that cannot be trusted is kept aside, and the gateway starts without it."""

from __future__ import annotations

import logging
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gateway.core.state_records import RetainedRecord
from gateway.storage.state.epoch import EPOCH_MAX
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import DAMAGED_KEPT, EPOCH_FILE, open_state
from gateway.storage.state.migrations import FIRST_VERSION
from gateway.storage.state.room import PAGE_BYTES
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE
from tests.storage.state.examples import (
    EVERY_ROW,
    EVERYTHING,
    LINKS,
    NOTHING,
    message,
    session,
    topic,
)


def used_folder(folder: Path) -> Path:
    state = open_state(folder, LINKS)
    state.store.commit(EVERY_ROW)
    state.release()
    return folder


def overwrite(path: Path, start: int, octets: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(octets)


def assert_begins_anew(folder: Path, before: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        state = open_state(folder, LINKS)
    assert state.saved == NOTHING
    (said,) = (record.getMessage() for record in caplog.records)
    assert "is kept as state.db.damaged-1; a new one begins" in said
    assert (folder / "state.db.damaged-1").read_bytes() == before
    # And it is as good as any other.
    state.store.commit(EVERY_ROW)
    state.release()
    again = open_state(folder, LINKS)
    assert (again.saved, again.epoch) == (EVERYTHING, state.epoch + 1)
    again.release()


@pytest.mark.parametrize("start", [0, 16, 100])
def test_a_database_with_a_spoilt_beginning_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, start: int
) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    overwrite(database, start, b"\xa5" * 64)
    assert_begins_anew(tmp_path, database.read_bytes(), caplog)


def test_a_file_that_is_no_database_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / DATABASE_FILE).write_bytes(b"once upon a time " * 1000)
    assert_begins_anew(tmp_path, b"once upon a time " * 1000, caplog)


def test_a_database_with_a_spoilt_page_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sessions'"
        (page,) = connection.execute(query).fetchone()
    overwrite(database, (page - 1) * PAGE_BYTES, b"\xa5" * PAGE_BYTES)
    assert_begins_anew(tmp_path, database.read_bytes(), caplog)


def test_a_database_of_something_else_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = tmp_path / DATABASE_FILE
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE room (door TEXT)")
        connection.execute("CREATE TABLE meta (title TEXT)")
        connection.execute("PRAGMA journal_mode = WAL")
    assert_begins_anew(tmp_path, database.read_bytes(), caplog)


def test_a_database_without_one_of_its_tables_is_kept_aside(tmp_path: Path) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("DROP TABLE packets")
    state = open_state(tmp_path, LINKS)
    assert state.saved == NOTHING
    state.release()


def test_a_database_whose_schema_is_no_text_is_kept_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    # SQLite leaves what it has moved to another page where it was.
    for found in re.finditer(b"TABLE topics", database.read_bytes()):
        overwrite(database, found.start(), b"\xff")
    assert_begins_anew(tmp_path, database.read_bytes(), caplog)


def test_a_database_with_another_column_is_kept_aside(tmp_path: Path) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("ALTER TABLE retained ADD COLUMN since INTEGER")
    state = open_state(tmp_path, LINKS)
    assert state.saved == NOTHING
    state.release()


def test_a_database_in_which_a_commit_found_damage_is_not_looked_at_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    state = open_state(tmp_path, LINKS)
    before = database.read_bytes()
    connection = state.store._connection
    assert connection is not None
    query = "SELECT rootpage FROM sqlite_master WHERE name = 'topics'"
    (page,) = connection.execute(query).fetchone()
    overwrite(database, (page - 1) * PAGE_BYTES, b"\xa5" * PAGE_BYTES)
    connection.execute("PRAGMA shrink_memory")
    with pytest.raises(StateError, match=r"state\.db is damaged: start Tidegate again"):
        state.store.commit([topic(topic_id=9)])
    state.release()
    # What the card gave once it need not give again.
    database.write_bytes(before)
    assert_begins_anew(tmp_path, before, caplog)
    assert "(as a commit found)" in caplog.text


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_kill_while_it_is_kept_aside_does_not_bring_it_back(tmp_path: Path, steps: int) -> None:
    (tmp_path / EPOCH_FILE).write_text("4000000000")
    (used_folder(tmp_path) / DISTRUST_FILE).touch()
    program = f"""
import os, pathlib, sys
from gateway.storage.state.folder import open_state
steps = []
def watch(event, args):
    if event == "os.rename" or event == "os.remove" and "distrusted" in str(args[0]):
        steps.append(event)
        if len(steps) > {steps}:
            os.kill(os.getpid(), 9)
sys.addaudithook(watch)
open_state(pathlib.Path({str(tmp_path)!r}), {LINKS!r})
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    state = open_state(tmp_path, LINKS)
    assert state.saved == NOTHING
    assert 4_000_000_002 <= state.epoch <= EPOCH_MAX
    state.release()


def test_no_more_than_a_few_damaged_ones_are_kept(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / DATABASE_FILE).write_bytes(b"%d. damage" % number * 100)
        open_state(tmp_path, LINKS).release()
    kept = sorted(path.name for path in tmp_path.glob("*.damaged-*"))
    assert kept == sorted(f"state.db.damaged-{number}" for number in (10, 11, 12))
    assert len(kept) == DAMAGED_KEPT


def test_nonsense_rows_are_said_with_their_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(sqlite3.connect(used_folder(tmp_path) / DATABASE_FILE)) as connection:
        connection.execute("UPDATE topics SET topic_id = 0")
        connection.commit()
    open_state(tmp_path, LINKS).release()
    assert "rows that made no sense and were removed: 1" in caplog.text


def test_a_log_that_cannot_be_read_is_kept_aside_with_its_database(tmp_path: Path) -> None:
    (tmp_path / EPOCH_FILE).write_text("4000000000")
    state = open_state(tmp_path, LINKS)
    # A larger log than a new one, so that what is spoilt is of the old files alone.
    state.store.commit([RetainedRecord(f"r/{number}", bytes(400), 0) for number in range(2500)])
    shutil.copytree(tmp_path, tmp_path / "copy")
    state.release()
    program = f"""
import pathlib, sys
from gateway.storage.state.folder import open_state
from tests.storage.state.examples import EVERY_ROW
from tests.support.bad_sector import spoil
spoil({32 + 200 * (PAGE_BYTES + 24)})
state = open_state(pathlib.Path({str(tmp_path / "copy")!r}), {LINKS!r})
assert state.saved.retained == [] and state.epoch >= 4000000002, state.epoch
state.store.commit(EVERY_ROW)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    again = open_state(tmp_path / "copy", LINKS)
    assert again.saved == EVERYTHING
    again.release()


def test_a_log_with_a_torn_end_loses_that_commit_alone(tmp_path: Path) -> None:
    state = open_state(tmp_path, LINKS)
    state.store.checkpoint()
    log = tmp_path / f"{DATABASE_FILE}-wal"
    for change in (session(), topic(), message()):
        state.store.commit([change])
    spoilt = bytearray(log.read_bytes())
    lives = tmp_path / "copy"
    lives.mkdir()
    frame = PAGE_BYTES + 24
    # A page each; SQLite begins the log anew at its start after a checkpoint.
    spoilt[32 + 2 * frame + 100] ^= 0xFF
    (lives / DATABASE_FILE).write_bytes((tmp_path / DATABASE_FILE).read_bytes())
    (lives / log.name).write_bytes(spoilt)
    state.release()
    again = open_state(lives, LINKS)
    (client,) = again.saved.clients
    assert (client.session, client.topics, client.messages) == (session(), [topic()], [])
    again.release()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    database = used_folder(tmp_path) / DATABASE_FILE
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {FIRST_VERSION + 41}")
    before = database.read_bytes()
    with pytest.raises(
        StateError, match=r"written by a newer Tidegate .*install that version"
    ) as e:
        open_state(tmp_path, LINKS)
    assert "move state.db away" in str(e.value)
    assert database.read_bytes() == before
    assert list(tmp_path.glob("*.damaged-*")) == []


def test_a_database_that_another_program_holds_is_said(tmp_path: Path) -> None:
    with closing(sqlite3.connect(used_folder(tmp_path) / DATABASE_FILE)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateError, match=r"is open in another program: close it"):
            open_state(tmp_path, LINKS)


def test_a_file_of_another_user_is_said(tmp_path: Path) -> None:
    # What root cannot open either.
    log = used_folder(tmp_path) / f"{DATABASE_FILE}-wal"
    log.unlink()
    log.mkdir()
    with pytest.raises(StateError, match=r"do all belong to the user that Tidegate runs as\?"):
        open_state(tmp_path, LINKS)
    assert list(tmp_path.glob("*.damaged-*")) == []
