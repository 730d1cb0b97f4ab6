"""How much time messages had left is saved beside them, where an older release leaves it alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.core.state_records import (
    MessageDeleted,
    RetainedDeleted,
    RunTimeRecord,
    SessionDeleted,
)
from gateway.storage.state.store import DATABASE_FILE, StateStore
from tests.storage.state.examples import ANN, COMMAND, EXPIRY, FULL_SESSION, LINKS, MODE

TABLES = ("message_expiries", "retained_expiries")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    with closing(StateStore.open(tmp_path, LINKS)) as opened:
        opened.commit([FULL_SESSION, COMMAND, MODE])
        yield opened


def rows(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as database:
        return [database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES]


def reopened(store: StateStore, folder: Path, *statements: str) -> StateStore:
    """After something else has had the database."""
    store.close()
    with closing(sqlite3.connect(folder / DATABASE_FILE, isolation_level=None)) as database:
        for statement in statements:
            assert database.execute(statement).rowcount == 1
    return StateStore.open(folder, LINKS)


def test_they_come_back_with_their_messages(store: StateStore) -> None:
    assert store.load().clients[0].messages == [COMMAND]
    assert store.load().retained == [MODE]


def test_they_go_with_their_messages(store: StateStore, tmp_path: Path) -> None:
    store.commit([MessageDeleted(ANN, COMMAND.position, expires=True), RetainedDeleted(MODE.topic)])
    store.close()
    assert rows(tmp_path) == [0, 0]


def test_they_go_with_the_session(store: StateStore, tmp_path: Path) -> None:
    store.commit([SessionDeleted(ANN)])
    store.close()
    assert rows(tmp_path) == [0, 1]


def test_a_retained_message_may_lose_its_time(store: StateStore, tmp_path: Path) -> None:
    store.commit([replace(MODE, expiry=None)])
    assert store.load().retained == [replace(MODE, expiry=None)]
    store.close()
    assert rows(tmp_path) == [1, 0]


def test_how_long_the_gateway_ran_is_the_latest_that_is_known(store: StateStore) -> None:
    assert store.load().run_ms == EXPIRY.run_ms
    store.commit([RunTimeRecord(EXPIRY.run_ms + 1)])
    assert store.load().run_ms == EXPIRY.run_ms + 1
    store.commit([RunTimeRecord(1)])
    assert store.load().run_ms == EXPIRY.run_ms


@pytest.mark.parametrize(
    "statement",
    [
        # An older release, which does not know of these tables.
        "UPDATE messages SET payload = x'07'",
        "UPDATE message_expiries SET contents = contents + 1",
    ],
)
def test_the_time_of_another_message_does_not_count(
    store: StateStore, tmp_path: Path, statement: str
) -> None:
    with closing(reopened(store, tmp_path, statement)) as again:
        (message,) = again.load().clients[0].messages
        assert message.expiry is None
        assert again.load().retained == [MODE]
        assert again.skipped == 0


def test_the_time_of_another_retained_value_does_not_count(
    store: StateStore, tmp_path: Path
) -> None:
    statement = "UPDATE retained SET payload = x'07'"
    with closing(reopened(store, tmp_path, statement)) as again:
        assert again.load().retained == [replace(MODE, payload=b"\x07", expiry=None)]


def test_what_an_older_release_left_behind_is_removed_and_not_reported(
    store: StateStore, tmp_path: Path
) -> None:
    statements = ("DELETE FROM messages", "DELETE FROM retained")
    with closing(reopened(store, tmp_path, *statements)) as again:
        assert (again.load().run_ms, again.skipped) == (0, 0)
    assert rows(tmp_path) == [0, 0]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE message_expiries SET left_ms = -1",
        "UPDATE message_expiries SET run_ms = 'long'",
        "UPDATE message_expiries SET unix_ms = 1e99",
        "UPDATE message_expiries SET position = -1",
        "UPDATE message_expiries SET client_id = CAST(x'ff' AS TEXT)",
    ],
)
def test_a_time_that_makes_no_sense_is_removed(
    store: StateStore, tmp_path: Path, statement: str
) -> None:
    with closing(reopened(store, tmp_path, statement)) as again:
        (message,) = again.load().clients[0].messages
        assert message.expiry is None
    assert rows(tmp_path) == [0, 1]


@pytest.mark.parametrize("value", ["-1", "'long'", str(1 << 60)])
def test_a_run_time_that_makes_no_sense_does_not_count(
    store: StateStore, tmp_path: Path, value: str
) -> None:
    store.commit([RunTimeRecord(EXPIRY.run_ms + 1)])
    statement = f"UPDATE meta SET value = {value} WHERE name = 'run_ms'"
    with closing(reopened(store, tmp_path, statement)) as again:
        assert again.load().run_ms == EXPIRY.run_ms
