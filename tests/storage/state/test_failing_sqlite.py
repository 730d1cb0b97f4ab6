"""SQLite fails in each of its ways, at each statement: nothing by half, and only a StateError."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gateway.core.state_records import ClientId, StateRecords
from gateway.storage.state.errors import StateError
from gateway.storage.state.folder import StateFolder, open_state
from gateway.storage.state.store import DATABASE_FILE, DISTRUST_FILE, StateStore
from tests.storage.state.examples import ANN, EVERY_ROW, EVERYTHING, LINKS, session, topic
from tests.support.dying_card import dying_card
from tests.support.samples import sample

CODES = (
    "SQLITE_IOERR_FSYNC",
    "SQLITE_CORRUPT",
    "SQLITE_FULL",
    "SQLITE_READONLY",
    "SQLITE_IOERR",
    "SQLITE_IOERR_READ",
    "SQLITE_NOTADB",
    "SQLITE_CANTOPEN",
    "SQLITE_BUSY",
)
DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


class Faults:
    """The statement at which SQLite says `code`, counted from when it was set; once."""

    def __init__(self) -> None:
        self.fails_at: int | None = None
        self.code = ""
        self.count = 0
        self.said = ""  # the statement that failed

    def arm(self, code: str, at: int) -> None:
        self.fails_at, self.code, self.count, self.said = at, code, 0, ""

    def disarm(self) -> None:
        self.fails_at = None

    def look(self, statement: str) -> None:
        self.count += 1
        if self.count - 1 == self.fails_at:
            self.said = statement
            kind = sqlite3.DatabaseError if self.code in DAMAGED else sqlite3.OperationalError
            error = kind(f"made to fail: {self.code}")
            error.sqlite_errorcode = getattr(sqlite3, self.code)
            raise error


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    found = Faults()

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            found.look(sql)
            return super().execute(sql, *given)

        def executemany(self, sql: str, *given: Any) -> sqlite3.Cursor:
            found.look(sql)
            return super().executemany(sql, *given)

    connect: Callable[..., sqlite3.Connection] = sqlite3.connect

    def connecting(*given: Any, **named: Any) -> sqlite3.Connection:
        return connect(*given, factory=Failing, **named)

    monkeypatch.setattr(sqlite3, "connect", connecting)
    return found


def saved(folder: Path) -> StateRecords:
    state = open_state(folder, LINKS)
    state.release()
    return state.saved


@pytest.mark.guarantee("12")
@pytest.mark.parametrize("code", CODES)
def test_a_commit_is_there_whole_or_not_whatever_fails_in_it(
    tmp_path: Path, faults: Faults, code: str
) -> None:
    at = 0
    while True:
        folder = tmp_path / str(at)
        state = open_state(folder, LINKS)
        state.store.commit([session()])
        faults.arm(code, at)
        failed: StateError | None = None
        try:
            state.store.commit([topic()])
        except StateError as error:
            failed = error
        is_over = not faults.said
        faults.disarm()
        assert failed is None or failed.strerror
        assert (folder / DISTRUST_FILE).exists() == (failed is not None and code in DAMAGED)
        (folder / DISTRUST_FILE).unlink(missing_ok=True)
        if failed is not None:
            # It can be tried again, or something else.
            state.store.commit([topic(ANN, 2, "c/d")])
        state.release()
        (client,) = saved(folder).clients
        wanted = [topic()] if failed is None else [topic(ANN, 2, "c/d")]
        assert client.topics == wanted, (at, faults.said)
        if is_over:
            break
        at += 1
    assert at > 3


@pytest.mark.guarantee("12")
@pytest.mark.parametrize("code", sample(CODES, 4))
def test_a_start_succeeds_or_says_why_whatever_fails_in_it(
    tmp_path: Path, faults: Faults, code: str
) -> None:
    at = 0
    while True:
        folder = tmp_path / str(at)
        state = open_state(folder, LINKS)
        state.store.commit(EVERY_ROW)
        state.release()
        faults.arm(code, at)
        begun: StateFolder | None = None
        refused: StateError | None = None
        try:
            begun = open_state(folder, LINKS)
        except StateError as error:
            refused = error
        is_over = not faults.said
        faults.disarm()
        if begun is not None:
            is_begun_anew = (folder / f"{DATABASE_FILE}.damaged-1").exists()
            assert is_begun_anew <= (code in DAMAGED)
            assert (begun.saved == EVERYTHING) != is_begun_anew, (at, faults.said)
            assert begun.epoch > state.epoch
            begun.store.commit([session()])  # the folder takes it, whatever was at the start
            begun.release()
        else:
            assert refused is not None
            assert refused.strerror
            assert code not in DAMAGED
            assert saved(folder) == EVERYTHING, (at, faults.said)
        if is_over:
            break
        at += 1
    assert at > 20


def test_a_folder_is_opened_again_wherever_the_try_before_failed(
    tmp_path: Path, faults: Faults
) -> None:
    at = 0
    while True:
        folder = tmp_path / str(at)
        state = open_state(folder, LINKS)
        state.store.commit(EVERY_ROW)
        state.release()
        faults.arm("SQLITE_IOERR", 0)
        begun = open_state(folder, LINKS)
        assert begun.trouble is not None
        faults.arm("SQLITE_IOERR", at)
        with suppress(StateError):
            begun.store.commit([topic(ANN, 9, "new")])
        is_over = not faults.said
        faults.disarm()
        begun.store.commit([topic(ANN, 9, "new")])
        begun.release()
        again = open_state(folder, LINKS)
        assert again.epoch == begun.epoch + 1
        assert any(topic(ANN, 9, "new") in client.topics for client in again.saved.clients)
        again.release()
        if is_over:
            break
        at += 1
    assert at > 20


def test_another_database_that_appears_meanwhile_is_not_written_to(
    tmp_path: Path, faults: Faults
) -> None:
    state = open_state(tmp_path / "one", LINKS)
    state.release()
    other = open_state(tmp_path / "other", LINKS)
    other.release()
    faults.arm("SQLITE_IOERR", 0)
    begun = open_state(tmp_path / "one", LINKS)
    faults.disarm()
    (tmp_path / "other" / DATABASE_FILE).replace(tmp_path / "one" / DATABASE_FILE)
    for _ in range(2):
        with pytest.raises(StateError, match="another one than at the start"):
            begun.store.commit([session()])
    begun.release()


@pytest.mark.parametrize("how", ["turn_read_only", "die"])
def test_what_was_committed_before_the_card_went_is_there_when_it_is_back(
    tmp_path: Path, how: str
) -> None:
    """In the middle of commits and of the checkpoints that SQLite makes meanwhile."""
    with dying_card(tmp_path / "card") as card:
        folder = card.path / "state"
        for before in (40, 63, 64, 65, 200):
            state = open_state(folder, LINKS)
            for number in range(before):
                state.store.commit([session(ClientId(f"c{before}-{number}"))])
            getattr(card, how)()
            for _ in range(3):
                with pytest.raises(StateError, match=r"the disk fails|read-only"):
                    state.store.commit([session(ClientId("refused"))])
            state.release()
            card.replug()
            again = open_state(folder, LINKS)
            assert again.lost is None
            found = {client.session.client_id for client in again.saved.clients}
            assert {f"c{before}-{number}" for number in range(before)} <= found
            again.release()


def test_what_sqlite_calls_damage_after_a_failure_of_the_disk_is_not_believed(
    tmp_path: Path, faults: Faults
) -> None:
    """It could not read a page; the next start would else begin with an empty database."""
    state = open_state(tmp_path, LINKS)
    state.store.commit(EVERY_ROW)
    for code in ("SQLITE_IOERR", "SQLITE_CORRUPT", "SQLITE_CORRUPT"):
        faults.arm(code, 0)
        with pytest.raises(StateError, match="disk does not do what it is told"):
            state.store.commit([topic()])
    assert not (tmp_path / DISTRUST_FILE).exists()
    faults.disarm()
    state.store.commit([topic(ANN, 9, "new")])
    faults.arm("SQLITE_CORRUPT", 0)
    with pytest.raises(StateError, match=r"state\.db is damaged"):
        state.store.commit([topic()])
    assert (tmp_path / DISTRUST_FILE).exists()
    faults.disarm()
    state.release()


def test_what_is_refused_at_the_start_is_read_and_saved_later(
    tmp_path: Path, faults: Faults
) -> None:
    """Of each way to fail that a disk may recover from."""
    for number, code in enumerate(("SQLITE_IOERR", "SQLITE_FULL", "SQLITE_READONLY")):
        folder = tmp_path / str(number)
        state = open_state(folder, LINKS)
        state.store.commit(EVERY_ROW)
        state.release()
        faults.arm(code, 0)
        begun = open_state(folder, LINKS)
        faults.disarm()
        assert begun.trouble is not None
        assert begun.saved == EVERYTHING
        assert isinstance(begun.store, StateStore)
        begun.store.commit([topic(ANN, 9, "new")])
        begun.release()
        again = open_state(folder, LINKS)
        assert again.epoch == begun.epoch + 1
        assert any(topic(ANN, 9, "new") in client.topics for client in again.saved.clients)
        again.release()
