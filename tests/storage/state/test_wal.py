"""The write-ahead log read without SQLite, and what a damaged one has lost."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from gateway.core.state_records import ClientId, SessionRecord
from gateway.storage.state.commit_notes import LostCommits, compare, lost_commits, notes_of
from gateway.storage.state.folder import open_state
from gateway.storage.state.room import PAGE_BYTES, log_of
from gateway.storage.state.store import DATABASE_FILE
from gateway.storage.state.wal import Wal, _sums, read_wal, with_pages
from tests.storage.state.examples import LINKS, session

FRAME = PAGE_BYTES + 24
CLIENTS = [f"client-{number}" for number in range(5)]


def session_of(name: str) -> SessionRecord:
    return session(ClientId(name))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A folder as a kill leaves it, with a commit for each client in the log."""
    state = open_state(tmp_path / "lives", LINKS)
    for name in CLIENTS:
        state.store.commit([session_of(name)])
    shutil.copytree(tmp_path / "lives", tmp_path / "killed")
    state.release()
    return tmp_path / "killed"


def spoil(log: Path, frame: int) -> None:
    octets = bytearray(log.read_bytes())
    octets[32 + frame * FRAME + 100] ^= 0xFF
    log.write_bytes(octets)


def commit_ends(log: Path) -> list[int]:
    """Of frames; each of the clients' commits is one."""
    count = read_wal(log.read_bytes(), PAGE_BYTES).frames
    return list(range(count - len(CLIENTS), count))


def test_what_it_reads_is_what_sqlite_reads(killed: Path) -> None:
    database = killed / DATABASE_FILE
    wal = read_wal(log_of(database).read_bytes(), PAGE_BYTES)
    image = with_pages(database.read_bytes(), wal)
    with closing(sqlite3.connect(":memory:")) as ours, closing(sqlite3.connect(database)) as theirs:
        ours.deserialize(image)
        assert ours.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert list(ours.iterdump()) == list(theirs.iterdump())


def test_any_octets_are_read() -> None:
    for octets in (b"", b"x" * 31, bytes(32), bytes(20_000), b"\xff" * 32):
        assert read_wal(octets, PAGE_BYTES) == Wal()
    assert read_wal(b"\xff" * 10_000, PAGE_BYTES).frames == 0


def test_a_whole_log_has_lost_nothing(killed: Path) -> None:
    assert lost_commits(killed / DATABASE_FILE) is None
    assert read_wal(log_of(killed / DATABASE_FILE).read_bytes(), PAGE_BYTES).left_out == 0


@pytest.mark.guarantee("12")
@pytest.mark.parametrize("place", range(len(CLIENTS)))
def test_a_spoilt_commit_costs_it_and_those_behind_and_all_are_named(
    killed: Path, place: int
) -> None:
    log = log_of(killed / DATABASE_FILE)
    spoil(log, commit_ends(log)[place])
    lost = lost_commits(killed / DATABASE_FILE)
    assert lost == LostCommits(len(CLIENTS) - place, tuple(CLIENTS[place:]))


@pytest.mark.parametrize("place", range(len(CLIENTS)))
def test_without_notes_the_log_tells_all_but_its_last_commit(killed: Path, place: int) -> None:
    log = log_of(killed / DATABASE_FILE)
    spoil(log, commit_ends(log)[place])
    notes_of(killed / DATABASE_FILE).unlink()
    lost = lost_commits(killed / DATABASE_FILE)
    behind = len(CLIENTS) - 1 - place
    assert lost == (LostCommits(behind) if behind else None)
    assert lost is None or "which sessions they were about is not known" in str(lost)


@pytest.mark.parametrize("how", ["gone", "empty", "zeros", "header", "old header", "cut"])
def test_a_log_without_its_beginning_or_end_is_noticed(killed: Path, how: str) -> None:
    log = log_of(killed / DATABASE_FILE)
    octets = bytearray(log.read_bytes())
    match how:
        case "gone":
            log.unlink()
        case "empty":
            log.write_bytes(b"")
        case "zeros":
            log.write_bytes(bytes(len(octets)))
        case "header":
            log.write_bytes(b"x" * 32 + octets[32:])
        case "old header":
            # The sector of the header was never written: it is of the use before.
            first_salt = int.from_bytes(octets[16:20], "big")
            old = _header_with_salt(bytes(octets[:32]), first_salt - 1)
            log.write_bytes(old + octets[32:])
        case "cut":
            log.write_bytes(octets[: 32 + FRAME * (commit_ends(log)[1])])
    lost = lost_commits(killed / DATABASE_FILE)
    assert lost is not None
    assert lost.clients[-1] == CLIENTS[-1]
    assert lost.commits >= len(CLIENTS) - 1


def _header_with_salt(header: bytes, salt: int) -> bytes:
    head = header[:16] + salt.to_bytes(4, "big") + header[20:24]
    order = "<" if header[3] == 0x82 else ">"
    first, second = _sums(head, order, (0, 0))
    return head + first.to_bytes(4, "big") + second.to_bytes(4, "big")


def test_a_clean_stop_loses_nothing_whatever_becomes_of_the_log(tmp_path: Path) -> None:
    state = open_state(tmp_path, LINKS)
    state.store.commit([session()])
    state.release()
    assert not notes_of(tmp_path / DATABASE_FILE).exists()
    assert lost_commits(tmp_path / DATABASE_FILE) is None
    log_of(tmp_path / DATABASE_FILE).unlink()
    assert lost_commits(tmp_path / DATABASE_FILE) is None


def test_notes_of_a_log_that_was_begun_anew_since_say_nothing(killed: Path) -> None:
    """A kill between a commit and its note."""
    database = killed / DATABASE_FILE
    log = log_of(database).read_bytes()
    first_salt = int.from_bytes(log[16:20], "big")
    fresh = _header_with_salt(log[:32], first_salt + 1) + bytes(FRAME)
    lines = notes_of(database).read_text().splitlines()
    assert compare(fresh, lines) is None


def test_notes_that_are_cut_or_spoilt_are_read_as_far_as_they_go(killed: Path) -> None:
    log = log_of(killed / DATABASE_FILE).read_bytes()
    lines = notes_of(killed / DATABASE_FILE).read_text().splitlines()
    empty = compare(b"", lines)
    assert empty is not None
    assert empty.commits == len(lines) - 1
    assert compare(b"", [*lines[:2], lines[2][:7]]) == LostCommits(1, (CLIENTS[0],))
    for spoilt in ([], ["{}"], ["x"], ["[1]"], ['{"salts": 3}'], ['{"salts": ["a", "b"]}']):
        assert compare(log, spoilt) is None


def test_a_start_says_how_many_and_which_keeps_a_copy_and_goes_on(
    killed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = log_of(killed / DATABASE_FILE)
    spoil(log, commit_ends(log)[2])
    before = log.read_bytes()
    with caplog.at_level(logging.ERROR):
        state = open_state(killed, LINKS)
    (said,) = (record.getMessage() for record in caplog.records)
    assert "3 commits in it cannot be read, and they were about 3 sessions" in said
    assert "'client-2', 'client-3', 'client-4'" in said
    assert "state.db.damaged-1" in said
    assert state.lost is not None
    assert state.lost.count == 3
    assert (killed / "state.db.damaged-1-wal").read_bytes() == before
    assert [row.session.client_id for row in state.saved.clients] == CLIENTS[:2]
    state.store.commit([session_of("another")])
    state.release()
    again = open_state(killed, LINKS)
    assert again.lost is None
    assert len(again.saved.clients) == 3
    again.release()


def test_the_sentence_names_ten_and_counts_the_others() -> None:
    names = tuple(f"c{number}" for number in range(12))
    said = str(LostCommits(7, names, others=5))
    assert "17 sessions" in said
    assert "'c9' and 7 more" in said


def test_many_commits_are_counted_and_the_notes_stay_small(tmp_path: Path) -> None:
    """The log begins again after a while, and so do the notes."""
    state = open_state(tmp_path / "lives", LINKS)
    for number in range(400):
        state.store.commit([session_of(f"client-{number}")])
    shutil.copytree(tmp_path / "lives", tmp_path / "killed")
    state.release()
    database = tmp_path / "killed" / DATABASE_FILE
    assert len(notes_of(database).read_text().splitlines()) <= 66
    assert lost_commits(database) is None
    log_of(database).unlink()
    lost = lost_commits(database)
    assert lost is not None
    assert lost.clients[-1] == "client-399"
