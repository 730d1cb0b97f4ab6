"""The store: every kind of row comes back as it was said, and nonsense never stops a start."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.state_records import (
    AsideDeleted,
    Change,
    DueWillDeleted,
    FilterDeleted,
    MessageDeleted,
    PacketDeleted,
    PacketRecord,
    PacketsDeleted,
    PermitDeleted,
    ProtectionDeleted,
    RetainedDeleted,
    SessionDeleted,
    StateRecords,
    SubscriptionDeleted,
    WaitingDeleted,
)
from gateway.storage.state.errors import StateError
from gateway.storage.state.store import DATABASE_FILE, StateStore, epoch_in_remains
from tests.storage.state.examples import (
    ANN,
    BOB,
    EVERY_ROW,
    EVERYTHING,
    FULL_SESSION,
    LINKS,
    NOTHING,
    PROTECTION,
    Rows,
    apply,
    message,
    rows_of,
    session,
    topic,
)
from tests.storage.state.test_pending import CHANGES

LAST_POSITION = 1 << 62


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StateStore]:
    with closing(StateStore.open(tmp_path, LINKS)) as opened:
        yield opened


def loaded(folder: Path, links: tuple[str, ...] = LINKS) -> StateRecords:
    with closing(StateStore.open(folder, links)) as store:
        return store.load()


def in_database(folder: Path, *statements: str) -> None:
    """As somebody with the sqlite3 command would."""
    with closing(sqlite3.connect(folder / DATABASE_FILE, isolation_level=None)) as database:
        for statement in statements:
            assert database.execute(statement).rowcount != 0, statement


def test_a_new_store_is_empty(store: StateStore) -> None:
    assert (store.load(), store.skipped) == (NOTHING, 0)


def test_every_kind_of_row_comes_back_as_it_was_said(store: StateStore, tmp_path: Path) -> None:
    store.commit(EVERY_ROW)
    assert store.load() == EVERYTHING
    store.close()
    assert loaded(tmp_path) == EVERYTHING


def test_what_is_gone_is_gone(store: StateStore) -> None:
    store.commit(EVERY_ROW)
    store.commit(
        [
            SubscriptionDeleted(ANN, "cmd/#"),
            MessageDeleted(ANN, 11),
            RetainedDeleted("site/mode"),
            PacketDeleted(65535),
            FilterDeleted("cmd/#"),
            DueWillDeleted(ANN),
            PermitDeleted(ANN),
            WaitingDeleted(BOB),
            ProtectionDeleted(PROTECTION.sender_id, PROTECTION.epoch),
            AsideDeleted(3),
        ]
    )
    assert store.load().aside == []
    ann, bob = store.load().clients
    assert (ann.subscriptions, ann.messages, bob) == ([], [], EVERYTHING.clients[1])
    store.commit([SessionDeleted(ANN), SessionDeleted(BOB), PacketRecord(1, 1), PacketsDeleted()])
    assert store.load() == NOTHING


def test_a_session_that_is_gone_takes_all_rows_of_its_client_but_a_will_that_is_due(
    store: StateStore,
) -> None:
    store.commit(EVERY_ROW)
    store.commit([SessionDeleted(ANN), session(ANN)])
    assert store.load().due_wills == EVERYTHING.due_wills
    (ann, _) = store.load().clients
    assert (ann.session, ann.topics, ann.subscriptions, ann.messages) == (session(ANN), [], [], [])


@given(st.lists(CHANGES, max_size=40))
def test_changes_count_in_the_order_in_which_they_are_given(changes: list[Change]) -> None:
    store = StateStore(sqlite3.connect(":memory:"), LINKS)
    store.commit([session(ANN), session(BOB)])
    said: Rows = {}
    for change in (session(ANN), session(BOB), *changes, session(ANN), session(BOB)):
        apply(said, change)
    store.commit([*changes, session(ANN), session(BOB)])
    assert rows_of(store.load()) == said
    store.close()


def test_rows_come_in_the_order_of_their_keys(store: StateStore) -> None:
    store.commit([session(BOB), session(ANN), *(message(position=at) for at in (10, 9, 2))])
    ann, bob = store.load().clients
    assert [bob.session.client_id, *(row.position for row in ann.messages)] == [BOB, 2, 9, 10]


def test_a_link_is_found_by_its_name(store: StateStore, tmp_path: Path) -> None:
    store.commit([FULL_SESSION])
    store.close()
    assert loaded(tmp_path, ("udp1", "udp0")).clients[0].session.link == 0
    assert loaded(tmp_path, ("serial0",)).clients[0].session.link == -1


def test_a_session_of_no_link_keeps_none(store: StateStore, tmp_path: Path) -> None:
    store.commit([replace(FULL_SESSION, link=-1)])
    store.close()
    assert loaded(tmp_path, ("", "udp1")).clients[0].session.link == -1


def test_each_commit_is_synced_to_the_disk(store: StateStore) -> None:
    connection = store._connection
    assert connection is not None
    found = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode",)]
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    assert (found, synchronous) == (["wal"], 2)


# What makes no sense


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET state = 'dancing' WHERE client_id = 'ann'",
        "UPDATE sessions SET clean = 2 WHERE client_id = 'ann'",
        "UPDATE sessions SET address = 'text' WHERE client_id = 'ann'",
        "UPDATE sessions SET keep_alive_s = -1 WHERE client_id = 'ann'",
        "UPDATE sessions SET sleep_s = 65536 WHERE client_id = 'ann'",
        "UPDATE sessions SET will_qos = NULL WHERE client_id = 'ann'",
        "UPDATE sessions SET will_payload = 'text' WHERE client_id = 'ann'",
        "UPDATE sessions SET next_position = 1.5 WHERE client_id = 'ann'",
        f"UPDATE sessions SET next_position = {LAST_POSITION + 1} WHERE client_id = 'ann'",
        "UPDATE sessions SET client_id = '' WHERE client_id = 'ann'",
        "UPDATE sessions SET client_id = CAST(x'c3' AS TEXT) WHERE client_id = 'ann'",
        "DELETE FROM sessions WHERE client_id = 'ann'",
    ],
)
def test_a_session_that_makes_no_sense_goes_with_its_rows(tmp_path: Path, statement: str) -> None:
    with closing(StateStore.open(tmp_path, LINKS)) as store:
        store.commit(EVERY_ROW)
    in_database(tmp_path, statement)
    with closing(StateStore.open(tmp_path, LINKS)) as store:
        assert [client.session for client in store.load().clients] == [session(BOB)]
        assert store.skipped == (3 if statement.startswith("DELETE") else 4)
        # A client of this name that comes now begins with nothing.
        store.commit([session(ANN)])
        assert store.load().clients[0].topics == []


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE topics SET topic_id = 0", "topics"),
        ("UPDATE topics SET topic_id = 65536", "topics"),
        ("UPDATE topics SET name = ''", "topics"),
        ("UPDATE topics SET name = x'00'", "topics"),
        ("UPDATE topics SET name = CAST(x'ff' AS TEXT)", "topics"),
        ("UPDATE subscriptions SET qos = 3", "subscriptions"),
        ("UPDATE subscriptions SET topic_id_type = 4", "subscriptions"),
        ("UPDATE messages SET qos = 0", "messages"),
        ("UPDATE messages SET position = -1", "messages"),
        (f"UPDATE messages SET position = {LAST_POSITION + 1}", "messages"),
        ("UPDATE messages SET payload = 17", "messages"),
        ("UPDATE messages SET is_released = 'yes'", "messages"),
    ],
)
def test_a_row_of_a_client_that_makes_no_sense_goes_alone(
    tmp_path: Path, statement: str, what: str
) -> None:
    with closing(StateStore.open(tmp_path, LINKS)) as store:
        store.commit(EVERY_ROW)
    in_database(tmp_path, statement)
    with closing(StateStore.open(tmp_path, LINKS)) as store:
        ann = store.load().clients[0]
        assert store.skipped == 1
    left = {name: getattr(ann, name) for name in ("topics", "subscriptions", "messages")}
    assert [name for name, rows in left.items() if not rows] == [what]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE retained SET qos = 'two'",
        "UPDATE retained SET is_exact = 2",
        "UPDATE retained SET topic = CAST(x'80' AS TEXT)",
        "UPDATE packets SET packet_id = 0",
        "UPDATE packets SET contents = 4294967296",
        "UPDATE filters SET topic_filter = ''",
    ],
)
def test_another_row_that_makes_no_sense_goes_too(tmp_path: Path, statement: str) -> None:
    with closing(StateStore.open(tmp_path, LINKS)) as store:
        store.commit(EVERY_ROW)
    in_database(tmp_path, statement)
    with closing(StateStore.open(tmp_path, LINKS)) as store:
        state = store.load()
        assert store.skipped == 1
    assert len(state.retained) + len(state.packets) + len(state.filters) == 2


# While it runs


def test_a_database_that_was_removed_is_said_instead_of_written(
    store: StateStore, tmp_path: Path
) -> None:
    (tmp_path / DATABASE_FILE).rename(tmp_path / "elsewhere")
    with pytest.raises(StateError, match=r"was removed or replaced while Tidegate ran: start it"):
        store.commit(EVERY_ROW)
    (tmp_path / "elsewhere").rename(tmp_path / DATABASE_FILE)
    store.commit(EVERY_ROW)
    assert store.load() == EVERYTHING


def test_so_is_a_database_that_was_replaced(store: StateStore, tmp_path: Path) -> None:
    shutil.copy(tmp_path / DATABASE_FILE, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / DATABASE_FILE)
    with pytest.raises(StateError, match=r"was removed or replaced while Tidegate ran"):
        store.commit(EVERY_ROW)


# Without a file


def test_a_connection_in_memory_serves_one_life_after_another() -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    first = StateStore(connection, LINKS)
    assert first.raise_epoch(0) == 1
    first.commit(EVERY_ROW)
    connection.execute("BEGIN")
    connection.execute("DELETE FROM sessions")
    connection.rollback()  # the power went in the middle of a commit
    second = StateStore(connection, LINKS)
    assert second.load() == EVERYTHING
    assert second.raise_epoch(0) == 2
    second.close()


def test_two_may_close_it(store: StateStore) -> None:
    store.commit([session(), topic()])
    store.close()
    store.close()


def test_remains_of_a_database_tell_its_epoch_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "remains"
    assert epoch_in_remains(path) == 0, "there is none"
    path.write_bytes(b"no database at all" * 100)
    assert epoch_in_remains(path) == 0
    path.unlink()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE meta (name TEXT, value)")
    assert epoch_in_remains(path) == 0, "it has none"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("INSERT INTO meta VALUES ('epoch', 7)")
    assert epoch_in_remains(path) == 7
