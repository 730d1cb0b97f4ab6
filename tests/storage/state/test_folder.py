"""The state folder: for one gateway at a time, and no epoch twice, whatever became of it."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from gateway.host.causes import user_name
from gateway.storage.state.epoch import EPOCH_MAX, fresh_epoch
from gateway.storage.state.errors import StateError, from_system
from gateway.storage.state.folder import EPOCH_FILE, RUNS_MAX, StateFolder, open_state
from gateway.storage.state.room import PAGE_BYTES
from gateway.storage.state.store import DATABASE_FILE

LINKS = ("udp 0.0.0.0:1883",)


def opened(folder: Path) -> StateFolder:
    return open_state(folder, LINKS)


def next_epoch(folder: Path) -> int:
    state = opened(folder)
    state.release()
    return state.epoch


def epoch_on_disk(folder: Path) -> int:
    with closing(sqlite3.connect(folder / DATABASE_FILE)) as database:
        (found,) = database.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()
    return int(found)


def test_each_start_is_one_epoch_further(tmp_path: Path) -> None:
    first = next_epoch(tmp_path)
    assert [next_epoch(tmp_path) for _ in range(3)] == [first + 1, first + 2, first + 3]


def test_a_folder_without_a_counter_begins_at_random_above_the_clock(tmp_path: Path) -> None:
    before = int(time.time())
    epochs = {next_epoch(tmp_path / f"new{number}" / "folder") for number in range(8)}
    assert len(epochs) == 8
    assert before < min(epochs) <= max(epochs) <= before + (EPOCH_MAX - before) // 2 + 1


def test_the_runs_of_a_gateway_are_counted_from_its_first(tmp_path: Path) -> None:
    runs = []
    for _ in range(3):
        folder = open_state(tmp_path)
        runs.append(folder.run)
        folder.release()
    assert runs == [1, 2, 3]


def test_one_that_has_had_no_epoch_yet_is_at_its_first_run(tmp_path: Path) -> None:
    (tmp_path / "epoch").write_text("0\n")
    folder = open_state(tmp_path)
    assert (folder.run, folder.epoch) == (1, 1)
    folder.release()


def test_a_database_that_a_journal_outlived_does_not_know_which_run_it_is(tmp_path: Path) -> None:
    folder = open_state(tmp_path)
    raised = folder.raised_above(folder.epoch + 7)
    assert raised.run is None
    raised.release()


def test_nor_does_one_that_takes_the_place_of_a_damaged_one(tmp_path: Path) -> None:
    (tmp_path / DATABASE_FILE).write_bytes(b"no database" * 1000)
    folder = open_state(tmp_path)
    assert folder.run is None
    folder.release()


def test_one_that_counted_its_epochs_from_1_goes_on_counting(tmp_path: Path) -> None:
    tmp_path.joinpath(EPOCH_FILE).write_text("6\n")
    folder = open_state(tmp_path)
    assert folder.run == folder.epoch == 7
    folder.release()


def test_nor_does_one_whose_epoch_was_drawn_again(tmp_path: Path) -> None:
    folder = open_state(tmp_path)
    folder.store.raise_epoch(folder.epoch + RUNS_MAX)
    folder.release()
    folder = open_state(tmp_path)
    assert folder.run is None
    folder.release()


@pytest.mark.guarantee("10")
def test_a_clock_that_is_not_set_gives_no_epoch_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (0.0, -5.0, 30.0, 1e11):
        monkeypatch.setattr(time, "time", lambda seconds=seconds: seconds)
        drawn = [fresh_epoch() for _ in range(1000)]
        assert len(set(drawn)) == 1000
        assert 0 <= min(drawn) <= max(drawn) < EPOCH_MAX


def test_an_epoch_can_be_drawn_above_a_known_one_again_and_again() -> None:
    known = 1_800_000_000
    for _ in range(20):
        known, before = fresh_epoch([known]) + 1, known
        assert before < known <= EPOCH_MAX
    assert fresh_epoch([EPOCH_MAX]) < EPOCH_MAX


def test_a_journal_that_outlived_the_database_is_below_the_epoch(tmp_path: Path) -> None:
    state = opened(tmp_path)
    assert state.raised_above(state.epoch - 1) is state
    above = state.raised_above(LATER)
    assert above.epoch > LATER
    above.release()
    assert next_epoch(tmp_path) == above.epoch + 1


@pytest.mark.parametrize("damage", ["", "twelve", "-3", "\x00\x00", "4294967295", "9" * 5000])
def test_a_damaged_counter_begins_there_too(tmp_path: Path, damage: str) -> None:
    (tmp_path / EPOCH_FILE).write_text(damage)
    before = int(time.time())
    assert before < next_epoch(tmp_path) <= EPOCH_MAX


def test_the_counter_of_an_earlier_release_goes_on_in_the_database(tmp_path: Path) -> None:
    (tmp_path / EPOCH_FILE).write_text("41\n")
    assert [next_epoch(tmp_path) for _ in range(2)] == [42, 43]
    assert not (tmp_path / EPOCH_FILE).exists()


def test_a_counter_that_comes_back_with_an_old_file_does_not_fall(tmp_path: Path) -> None:
    (tmp_path / EPOCH_FILE).write_text("41\n")
    next_epoch(tmp_path)
    (tmp_path / EPOCH_FILE).write_text("7\n")
    assert next_epoch(tmp_path) == 43


LATER = 4_000_000_000  # an epoch that the clock of this machine has not come to


def damage(database: Path) -> None:
    """A page of it; which one does not matter."""
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sessions'"
        (page,) = connection.execute(query).fetchone()
    with database.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xa5" * PAGE_BYTES)


def test_the_counter_of_a_damaged_database_goes_on_whatever_the_clock_says(tmp_path: Path) -> None:
    (tmp_path / EPOCH_FILE).write_text(str(LATER))
    known = next_epoch(tmp_path)
    assert known == LATER + 1
    for _ in range(5):
        damage(tmp_path / DATABASE_FILE)
        known, before = next_epoch(tmp_path), known
        assert before < known <= EPOCH_MAX


def test_the_counter_needs_no_log(tmp_path: Path) -> None:
    (tmp_path / EPOCH_FILE).write_text(str(LATER))
    state = opened(tmp_path)
    (tmp_path / "copy").mkdir()
    shutil.copy(tmp_path / DATABASE_FILE, tmp_path / "copy")
    state.release()
    assert epoch_on_disk(tmp_path / "copy") == LATER + 1


def test_a_counter_that_the_journal_has_no_room_for_begins_again(tmp_path: Path) -> None:
    next_epoch(tmp_path)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as database:
        database.execute("UPDATE meta SET value = 4294967295 WHERE name = 'epoch'")
        database.commit()
    before = int(time.time())
    assert before < next_epoch(tmp_path) <= EPOCH_MAX


def test_the_counter_is_on_disk_before_it_is_used(tmp_path: Path) -> None:
    state = opened(tmp_path)
    state.release()
    assert epoch_on_disk(tmp_path) == state.epoch


def test_a_folder_in_use_is_refused_and_its_user_named(tmp_path: Path) -> None:
    state = opened(tmp_path)
    with pytest.raises(StateError, match=rf"another tidegate \(process {os.getpid()}\)"):
        opened(tmp_path)
    state.release()
    assert next_epoch(tmp_path) == state.epoch + 1


def test_a_folder_is_free_again_when_its_user_was_killed(tmp_path: Path) -> None:
    program = f"""
import os, pathlib
from gateway.host.causes import user_name
from gateway.storage.state.folder import open_state
open_state(pathlib.Path({str(tmp_path)!r}), ["udp"])
os.kill(os.getpid(), 9)
"""
    killed = subprocess.run([sys.executable, "-c", program], check=False)
    assert killed.returncode == -9
    left = epoch_on_disk(tmp_path)
    assert next_epoch(tmp_path) == left + 1


def test_a_file_where_the_folder_should_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError, match="is not a folder: remove the file or set another path"):
        opened(tmp_path / "state")


def test_a_folder_that_may_not_be_written_is_said(tmp_path: Path) -> None:
    # What root may not write either: a file system without files of one's own.
    with pytest.raises(StateError, match=r"gateway\.state_dir /proc/tidegate"):
        opened(Path("/proc/tidegate"))


def test_files_of_another_user_are_said_with_the_command_that_mends_it(tmp_path: Path) -> None:
    # Root, who may run the tests, is never refused.
    said = from_system(tmp_path, PermissionError(errno.EACCES, "Permission denied")).strerror
    mends = f"sudo chown -R {user_name()} {tmp_path} && chmod -R u+rwX {tmp_path}"
    assert said == (
        f"gateway.state_dir {tmp_path} may not be written by its owner: `{mends}`, or set another "
        "gateway.state_dir"
    )
