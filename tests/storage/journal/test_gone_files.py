"""Files that are taken away, replaced or made unreadable while the journal is open."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.core.effects import ReadAgain, ReadBacklog, Store
from gateway.core.values import Reading
from gateway.host.causes import brief
from gateway.storage.journal.files import OsFiles
from gateway.storage.journal.held_files import HELD_MAX
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import RETRY_AFTER_S, UNREADABLE_S, WhenFull
from tests.storage.journal.support import Driven, new_reading, options
from tests.storage.journal.test_committer import Running, now, on_loop

LOOK_S = 0.02


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def state_of(driven: Driven) -> JournalState:
    return driven.journal.numbers.state


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.segment"))


def moved_and_made_again(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.mkdir()


def copied_over(folder: Path) -> None:
    """As a restored copy: the same names, other files."""
    shutil.copytree(folder, folder.with_name("copy"))
    shutil.rmtree(folder)
    folder.with_name("copy").rename(folder)


def replaced_by_a_file(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.touch()


TAKEN_AWAY: dict[str, Callable[[Path], object]] = {
    "removed": shutil.rmtree,
    "moved": lambda folder: folder.rename(folder.with_name("moved")),
    "moved and made again": moved_and_made_again,
    "replaced by a copy": copied_over,
    "moved with its parent": lambda folder: folder.parent.rename(f"{folder.parent}-moved"),
    "replaced by a file": replaced_by_a_file,
}


@pytest.mark.parametrize("how", TAKEN_AWAY)
def test_nothing_is_stored_in_a_folder_that_is_not_in_its_place(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "state" / "journal"
    driven = Driven(folder)
    assert len(driven.store(new_reading(0))) == 1
    TAKEN_AWAY[how](folder)
    driven.journal.store(new_reading(1), is_queued=True)
    total = driven.run()
    assert total.stored == []
    assert len(total.not_stored) == 1
    assert state_of(driven) is JournalState.FAILED


@pytest.mark.parametrize("how", TAKEN_AWAY)
def test_a_look_sees_it_before_a_reading_comes(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "state" / "journal"
    driven = Driven(folder)
    driven.store(new_reading(0), is_queued=True)
    TAKEN_AWAY[how](folder)
    driven.look()
    assert state_of(driven) is JournalState.FAILED
    numbers = driven.journal.numbers
    assert (numbers.out_of_reach, bool(numbers.backlog_problem)) in ((1, True), (0, False))
    assert (numbers.out_of_reach == 0) == (how == "replaced by a copy")


def test_a_folder_that_is_put_back_is_used_again_and_all_is_read(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(new_reading(0), new_reading(1), is_queued=True)
    folder.rename(folder.with_name("moved"))
    driven.journal.store(new_reading(2), is_queued=True)
    assert driven.run().stored == []
    folder.with_name("moved").rename(folder)
    driven.now += RETRY_AFTER_S
    driven.run()
    driven.look()
    assert state_of(driven) in (JournalState.OK, JournalState.DEGRADED)
    assert driven.journal.numbers.backlog_problem == ""
    assert len(driven.store(new_reading(3), is_queued=True)) == 1
    assert [each.sequence for each in driven.read()] == [0, 1, 3]


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_segment_that_goes_while_it_is_written_to_is_left(folder: Path, how: str) -> None:
    driven = Driven(folder)
    driven.store(new_reading(0))
    (segment,) = segments(folder)
    octets = segment.read_bytes()
    segment.unlink()
    if how == "replaced":
        segment.write_bytes(octets)
    (stored,) = driven.store(new_reading(1), is_queued=True)
    assert driven.journal.numbers.failures == 1
    driven.stop()
    again = Driven(folder)
    assert stored.payload in [each.payload for each in again.read()]


def test_a_removed_file_with_waiting_readings_is_reported_at_once(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(*(new_reading(each, payload=bytes(4000)) for each in range(30)), is_queued=True)
    assert len(segments(folder)) > 1
    oldest = segments(folder)[0]
    oldest.unlink()
    driven.look()
    numbers = driven.journal.numbers
    assert 0 < numbers.out_of_reach < 30
    assert oldest.name in numbers.backlog_problem


# The backlog


def backlog_of(driven: Driven, count: int = 48) -> list[Reading]:
    """More segments than descriptors are held."""
    readings = [new_reading(each, payload=bytes(8000)) for each in range(count)]
    for reading in readings:
        driven.store(reading, is_queued=True)
    assert driven.journal.numbers.segments > HELD_MAX
    return readings


def test_what_was_written_last_is_read_though_its_file_is_removed(folder: Path) -> None:
    driven = Driven(folder)
    readings = [new_reading(each, payload=bytes(4000)) for each in range(30)]
    driven.store(*readings, is_queued=True)
    for segment in segments(folder):
        segment.unlink()
    assert [each.sequence for each in driven.read()] == [each.sequence for each in readings]


class Guarded(OsFiles):
    """Files of these names cannot be opened."""

    def __init__(self) -> None:
        self.closed: set[str] = set()
        self.error = errno.EACCES

    def open(self, path: Path, *, create: bool = False) -> int:
        if path.name in self.closed:
            raise OSError(self.error, os.strerror(self.error))
        return super().open(path, create=create)

    def open_to_read(self, path: Path) -> int:
        if path.name in self.closed:
            raise OSError(self.error, os.strerror(self.error))
        return super().open_to_read(path)


@pytest.mark.parametrize("error", [errno.EACCES, errno.EMFILE, errno.ENFILE, errno.EIO])
def test_a_file_that_cannot_be_opened_is_reported_and_waited_for(folder: Path, error: int) -> None:
    files = Guarded()
    files.error = error
    driven = Driven(folder, files=files)
    readings = backlog_of(driven)
    files.closed = {segments(folder)[1].name}
    first = read_once(driven)
    assert 0 < len(first) < 20
    assert read_once(driven) == []
    numbers = driven.journal.numbers
    assert numbers.out_of_reach > 0
    assert segments(folder)[1].name in numbers.backlog_problem
    assert brief(OSError(error, os.strerror(error))) in numbers.backlog_problem
    files.closed = set()
    rest = driven.read()
    assert [each.sequence for each in first + rest] == [each.sequence for each in readings]
    assert driven.journal.numbers.backlog_problem == ""
    assert driven.journal.numbers.lost == 0


def test_what_is_behind_a_file_that_cannot_be_opened_goes_on_after_a_while(folder: Path) -> None:
    files = Guarded()
    driven = Driven(folder, files=files)
    readings = backlog_of(driven)
    files.closed = {segments(folder)[1].name}
    first = read_once(driven)
    driven.now += UNREADABLE_S - 0.1
    assert read_once(driven) == []
    driven.now += 0.2
    assert read_once(driven) == []
    behind = driven.read()
    assert behind[-1].sequence == readings[-1].sequence
    missing = {each.sequence for each in readings} - {each.sequence for each in first + behind}
    assert driven.journal.numbers.out_of_reach == len(missing) > 0
    assert driven.journal.numbers.backlog_problem != ""
    assert driven.look() == 0
    files.closed = set()
    assert driven.look() == len(missing)
    assert driven.journal.numbers.backlog_problem == ""
    assert {each.sequence for each in driven.read()} == missing
    assert driven.journal.numbers.lost == 0


def test_the_oldest_is_not_dropped_when_nobody_knows_whose_it_is(folder: Path) -> None:
    """`drop_oldest` reads a segment before it goes."""
    files = Guarded()

    driven = Driven(folder, options(4 * (64 << 10), WhenFull.DROP_OLDEST), files)
    position = 0
    while driven.journal.numbers.dropped == 0:
        driven.journal.store(new_reading(position, payload=bytes(4000)), is_queued=True)
        driven.run()
        position += 1
    files.closed = {each.name for each in segments(folder)}
    driven.journal._volume.held.close()
    for _ in range(100):
        driven.journal.store(new_reading(position, payload=bytes(4000)), is_queued=True)
        driven.run()
        driven.now += 0.1
        position += 1
    dropped = driven.journal.numbers.dropped
    files.closed = set()
    driven.now += 2.0
    while driven.journal.numbers.dropped == dropped:
        driven.journal.store(new_reading(position, payload=bytes(4000)), is_queued=True)
        driven.run()
        position += 1
        assert position < 1000


def read_once(driven: Driven) -> list[Reading]:
    request = driven.journal.begin_read(driven.now)
    assert request is not None
    return driven.journal.end_read(request, driven.journal.read(request))


# Beside the loop


@on_loop
async def test_the_committer_looks_by_itself(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    async with Running(folder, look_s=LOOK_S) as running:
        heard = running.heard
        folder.rename(tmp_path / "moved")
        await heard.until(lambda: heard.states == [JournalState.FAILED])
        assert "is gone" in (running.committer.check() or "")
        (tmp_path / "moved").rename(folder)
        await heard.until(lambda: heard.states[-1] is not JournalState.FAILED)
        running.committer.perform([Store(new_reading(0, received_at=now()))])
        await heard.until(lambda: len(heard.stored) == 1)


@on_loop
async def test_a_backlog_out_of_reach_is_told_once_and_read_when_it_is_back(tmp_path: Path) -> None:
    folder, files = tmp_path / "journal", Guarded()
    driven = Driven(folder)
    readings = backlog_of(driven)
    driven.stop()
    async with Running(folder, files, look_s=LOOK_S) as running:
        heard = running.heard
        files.closed = {segments(folder)[0].name}
        running.committer.perform([ReadBacklog()])
        await heard.until(lambda: len(heard.out_of_reach) == 1)
        count, problem = heard.out_of_reach[0]
        assert count > 0
        assert "Permission denied" in problem
        files.closed = set()
        await heard.until(lambda: heard.has_backlogs(1))
        assert heard.backlogs[0][0].sequence == readings[0].sequence
        await heard.until(lambda: heard.out_of_reach[-1] == (0, ""))
        assert len(heard.out_of_reach) == 2


@on_loop
async def test_readings_that_cannot_be_read_again_do_not_hold_up_the_backlog(
    tmp_path: Path,
) -> None:
    folder, files = tmp_path / "journal", Guarded()
    driven = Driven(folder)
    backlog_of(driven)
    driven.stop()
    async with Running(folder, files, look_s=LOOK_S) as running:
        heard = running.heard
        name = segments(folder)[1].name
        files.closed = {name}
        number = int(name[:20])
        running.committer.perform([ReadAgain((number,)), ReadBacklog()])
        await heard.until(lambda: heard.has_backlogs(1))
        assert heard.read_again == []
        files.closed = set()
        await heard.until(lambda: len(heard.read_again) == 1)
        assert len(heard.read_again[0]) == 1
