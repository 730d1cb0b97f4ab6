"""Databases of every version that was ever released come to today's schema, with all they hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.storage.state.errors import StateError
from gateway.storage.state.migrations import (
    FIRST_VERSION,
    STEPS,
    Step,
    migrate,
    statements,
    version_of,
)
from gateway.storage.state.store import StateStore
from tests.storage.state.examples import EVERYTHING_BEFORE, LINKS

STORED = sorted(Path(__file__).parent.glob("version_*.sql"))
NEWEST = STEPS[-1].version if STEPS else FIRST_VERSION

# What a change of the schema may look like.
NEXT = Step(
    NEWEST + 1,
    "ALTER TABLE sessions ADD COLUMN battery INTEGER NOT NULL DEFAULT -1;\n"
    "-- A comment; with a semicolon.\n"
    "CREATE TABLE visits (client_id TEXT PRIMARY KEY, note TEXT DEFAULT ';') WITHOUT ROWID;\n",
)
BROKEN = Step(NEWEST + 2, "CREATE TABLE halls (name TEXT);\nDROP TABLE no_such_table;\n")


def stored(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(path.read_text(encoding="utf-8"))
    return connection


def brought_on(connection: sqlite3.Connection, steps: Sequence[Step]) -> sqlite3.Connection:
    migrate(connection, steps)
    return connection


def schema_of(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Tables by name, with what SQLite makes of their columns; spelling and comments aside."""
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {
        name: connection.execute(f"PRAGMA table_xinfo({name})").fetchall()
        for (name,) in names
        if not name.startswith("sqlite_")
    }


def test_there_is_a_stored_database_of_every_version() -> None:
    versions = [FIRST_VERSION, *(step.version for step in STEPS)]
    assert [path.name for path in STORED] == [f"version_{number}.sql" for number in versions]
    assert versions == list(range(1, NEWEST + 1))


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_an_older_database_comes_to_the_schema_of_a_new_one(path: Path) -> None:
    with (
        closing(brought_on(stored(path), STEPS)) as older,
        closing(brought_on(sqlite3.connect(":memory:", isolation_level=None), STEPS)) as new,
    ):
        assert schema_of(older) == schema_of(new)
        assert version_of(older) == version_of(new) == NEWEST


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_an_older_database_keeps_what_it_holds(path: Path) -> None:
    held = EVERYTHING_BEFORE  # some tables need no step: they are made where they are missing
    if path.stem < "version_5":
        held = replace(held, retained=[replace(each, is_exact=True) for each in held.retained])
    if path.stem < "version_4":
        held = replace(held, packets=[replace(each, brought_by=0) for each in held.packets])
    held = held if path.stem >= "version_3" else replace(held, permits=[])
    held = held if path.stem >= "version_2" else replace(held, due_wills=[])
    with closing(StateStore(stored(path), LINKS)) as store:
        assert store.load() == held
        assert store.raise_epoch(0) == 42


def test_a_step_is_taken_once() -> None:
    with closing(brought_on(stored(STORED[-1]), [*STEPS, NEXT])) as connection:
        migrate(connection, [*STEPS, NEXT])
        assert version_of(connection) == NEXT.version
        found = connection.execute("SELECT client_id, battery FROM sessions").fetchall()
    assert found == [("ann", -1), ("bob", -1)]


def test_a_step_that_fails_leaves_the_database_at_the_one_before() -> None:
    with closing(stored(STORED[-1])) as connection:
        with pytest.raises(sqlite3.OperationalError, match="no_such_table"):
            migrate(connection, [*STEPS, NEXT, BROKEN])
        assert not connection.in_transaction
        assert version_of(connection) == NEXT.version
        assert "halls" not in schema_of(connection)
        # And the next start takes it up there.
        mended = Step(BROKEN.version, "CREATE TABLE halls (name TEXT);")
        migrate(connection, [*STEPS, NEXT, mended])
        assert version_of(connection) == BROKEN.version


def test_a_database_of_a_newer_version_is_refused() -> None:
    with closing(brought_on(stored(STORED[-1]), [*STEPS, NEXT])) as connection:
        before = list(connection.iterdump())
        with pytest.raises(StateError, match=rf"schema {NEXT.version}, this one knows {NEWEST}"):
            migrate(connection, STEPS)
        assert list(connection.iterdump()) == before


def test_a_script_is_taken_apart_at_the_ends_of_its_statements() -> None:
    found = [statement.strip() for statement in statements(NEXT.script)]
    assert len(found) == 2
    assert found[1].endswith("WITHOUT ROWID;")
