"""What a start finds in the journal's folder is judged by what it is, not by the settings."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from random import Random

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.values import Reading
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN
from tests.simulation.simulated_files import SimulatedFiles
from tests.storage.journal.support import SMALL, Driven, FaultyFiles, new_reading, options
from tests.support.samples import sample

LARGE = 64 << 20  # segments of 1 MiB
SIZES = {
    SMALL: SEGMENT_BYTES_MIN,
    2 << 20: 256 << 10,
    LARGE: SEGMENT_BYTES_MAX,
}
READINGS = 700  # 100 KiB, so that no segment of the least size is enough
GROUP = 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def spares(folder: Path) -> list[Path]:
    return sorted(folder.glob("spare-*"))


def state_of(driven: Driven) -> JournalState:
    return driven.journal.numbers.state


def newest(folder: Path) -> Path:
    return max(folder.glob("*.segment"))


def used(driven: Driven, start: int, count: int = READINGS, qos: int = 1) -> None:
    """Readings are stored, read back and finished, in groups."""
    for position in range(start, start + count, GROUP):
        group = [new_reading(position + each, qos=qos) for each in range(GROUP)]
        assert len(driven.store(*group, is_queued=True)) == GROUP
        driven.finish(*driven.read())


def stored_over_restart(folder: Path, size: int, start: int = 0) -> None:
    """A journal on what is in the folder stores readings, and the next one has them."""
    driven = Driven(folder, options(size))
    used(driven, start)
    wanted = [new_reading(start + READINGS + each) for each in range(GROUP)]
    assert len(driven.store(*wanted, is_queued=True)) == GROUP
    assert driven.journal.numbers.state is JournalState.OK
    driven.stop()
    again = Driven(folder, options(size))
    assert [each.payload for each in again.read()] == [each.payload for each in wanted]
    again.finish(*wanted)
    again.stop()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "spare_bytes",
    [0, 1, 68, 4096, SEGMENT_BYTES_MIN - 1, SEGMENT_BYTES_MIN, 100_000, 1 << 17, 1 << 20, 3 << 20],
)
def test_a_spare_of_any_size_stops_nothing(folder: Path, size: int, spare_bytes: int) -> None:
    Driven(folder, options(size)).stop()
    for spare in spares(folder):
        os.truncate(spare, spare_bytes)
    stored_over_restart(folder, size)


@pytest.mark.parametrize("before", SIZES)
@pytest.mark.parametrize("after", SIZES)
def test_the_size_may_change_between_starts(folder: Path, before: int, after: int) -> None:
    for start, size in enumerate((before, after, before, after)):
        stored_over_restart(folder, size, start=10_000 * start)
    usual = [each.stat().st_size for each in spares(folder)]
    assert all(bytes_ <= SIZES[after] for bytes_ in usual)


def test_a_smaller_budget_is_kept_again_once_what_was_there_is_finished(folder: Path) -> None:
    driven = Driven(folder, options(LARGE, recent_s=0.0))
    for start in range(0, 8000, GROUP):
        readings = [new_reading(start + each, payload=bytes(400)) for each in range(GROUP)]
        driven.store(*readings, is_queued=True)
    driven.stop()
    driven = Driven(folder, options(SMALL, recent_s=0.0))
    assert driven.journal.numbers.bytes > SMALL
    driven.finish(*driven.read())
    used(driven, 8000)
    assert driven.journal.numbers.bytes <= SMALL
    assert sum(each.stat().st_size for each in folder.iterdir()) <= SMALL


@pytest.mark.parametrize("is_full", [False, True])
def test_a_large_newest_segment_does_not_take_all_of_a_smaller_budget(
    folder: Path, is_full: bool
) -> None:
    driven = Driven(folder, options(LARGE, recent_s=0.0))
    while is_full and driven.journal._segment_index.segments[-1].end < (1 << 20) - 70_000:
        driven.finish(*driven.store(new_reading(0, payload=bytes(60_000))))
    driven.store(new_reading(1), is_queued=True)
    driven.stop()
    for spare in spares(folder):
        spare.unlink()
    stored_over_restart(folder, SMALL)
    used(Driven(folder, options(SMALL)), 0)
    assert sum(each.stat().st_size for each in folder.iterdir()) <= SMALL


def test_a_reading_that_only_whole_segments_take_is_stored_or_refused(folder: Path) -> None:
    """The spare is a small one: the disk was nearly full."""
    Driven(folder, options(LARGE)).stop()
    for spare in spares(folder):
        os.truncate(spare, SEGMENT_BYTES_MIN)
    driven = Driven(folder, options(LARGE))
    position = 0
    while driven.journal.numbers.segments < 4:
        assert len(driven.store(new_reading(position, payload=bytes(65_000)), is_queued=True)) == 1
        position += 1
    files = FaultyFiles()
    driven.stop()

    def full(call: str) -> None:
        if call == "create":
            raise OSError(errno.ENOSPC, "full")

    files.fault = full
    driven = Driven(folder, options(LARGE), files)
    for _ in range(40):
        large = new_reading(position, payload=bytes(65_000))
        position += 1
        if driven.journal.store(large, is_queued=True) is not None:
            break
        total = driven.run()
        assert total.stored == [large] or total.reasons == {Reason.JOURNAL_FULL}
        if total.reasons:
            break
    else:
        raise AssertionError("it has room for ever")
    assert len(driven.store(new_reading(position))) == 1  # a small one has room


@pytest.mark.parametrize("place", ["spare-0000000009", "making", "making-1.damaged"])
@pytest.mark.parametrize("kind", ["folder", "folder with a file", "pipe", "link to nothing"])
def test_what_is_no_file_stops_nothing(folder: Path, place: str, kind: str) -> None:
    Driven(folder, options()).stop()
    _put(folder / place, kind)
    stored_over_restart(folder, SMALL)


def test_folders_with_the_names_of_the_next_spares_stop_nothing(folder: Path) -> None:
    Driven(folder, options()).stop()
    for number in range(1, 40):
        (folder / f"spare-{number:010d}").unlink(missing_ok=True)
        (folder / f"spare-{number:010d}").mkdir()
    for _ in range(2):
        (folder / "making").mkdir()
        (folder / "making" / "x").touch()
        stored_over_restart(folder, SMALL)
    assert len(list(folder.glob("making-*.damaged"))) == 2


def _sized(position: int, bytes_: int) -> Reading:
    return new_reading(position, payload=bytes(bytes_))


@pytest.mark.parametrize("bytes_", sample((20, 70, 130, *range(30, 140, 10)), 3))
def test_a_full_journal_whose_spare_is_gone_goes_on(folder: Path, bytes_: int) -> None:
    """Marks have room nowhere, and without them no reading of it goes."""
    driven, position = Driven(folder, options()), 0
    while driven.journal.store(_sized(position, bytes_), is_queued=True) is None:
        driven.run()
        position += 1
    driven.stop()
    for spare in spares(folder):
        spare.unlink()
        spare.mkdir()
    driven = Driven(folder, options(recent_s=0.0))
    for waiting in driven.read():
        driven.finish(waiting)
    driven.stop()
    assert sum(path.stat().st_size for path in folder.glob("*.segment")) <= 2 * SMALL
    again = Driven(folder, options(recent_s=0.0))
    assert again.read() == []
    used(again, position)


@pytest.mark.parametrize("kind", ["folder", "link to nothing"])
def test_what_has_a_segments_name_and_is_no_file_is_reported(folder: Path, kind: str) -> None:
    Driven(folder, options()).stop()
    name = f"{99:020d}-{99:010d}-{1:08x}.segment"
    _put(folder / name, kind)
    driven = Driven(folder, options())
    assert driven.recovered.report.damaged == [f"{name}: is no file, and is left alone"]
    used(driven, 0)


def test_a_folder_that_comes_in_the_way_while_it_runs_stops_nothing(folder: Path) -> None:
    driven = Driven(folder, options(recent_s=0.0))
    (folder / "making").mkdir()
    used(driven, 0, 2000)
    assert driven.journal.numbers.failures == 0


def test_a_segment_of_no_length_is_reported_and_stops_nothing(folder: Path) -> None:
    driven = Driven(folder, options())
    driven.store(new_reading(0), is_queued=True)
    driven.stop()
    os.truncate(newest(folder), 0)
    driven = Driven(folder, options())
    assert "nothing in it can be read" in driven.recovered.report.damaged[0]
    used(driven, 10)


def test_a_segment_that_is_larger_than_any_of_ours_is_read_to_its_end(folder: Path) -> None:
    """As a later release may write them, or a tool that fills up files."""
    driven = Driven(folder, options(LARGE))
    first = [new_reading(each) for each in range(GROUP)]
    driven.store(*first, is_queued=True)
    driven.stop()
    os.truncate(newest(folder), 3 << 20)
    driven = Driven(folder, options(LARGE))
    count = 0
    while newest(folder).stat().st_size == 3 << 20 and driven.journal.numbers.segments == 1:
        readings = [new_reading(100 + count + each, payload=bytes(1000)) for each in range(GROUP)]
        assert len(driven.store(*readings, is_queued=True)) == GROUP
        count += GROUP
    driven.stop()
    again = Driven(folder, options(LARGE))
    assert again.recovered.report.waiting == len(first) + count
    assert len(again.read()) == len(first) + count


def test_a_spare_with_holes_is_filled_before_it_is_counted_on(folder: Path) -> None:
    Driven(folder, options(LARGE)).stop()
    for spare in spares(folder):
        spare.unlink()
    hole = folder / "spare-0000000001"
    with hole.open("wb") as file:
        file.truncate(SEGMENT_BYTES_MAX)
    if hole.stat().st_blocks * 512 >= SEGMENT_BYTES_MAX:
        pytest.skip("this file system has no holes")
    Driven(folder, options(LARGE)).stop()
    assert hole.stat().st_blocks * 512 >= SEGMENT_BYTES_MAX


def test_a_spare_with_holes_goes_where_the_disk_is_full() -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("journal")
    Driven(folder, files=files).stop()
    (spare,) = (Path(name) for name in files.sizes() if "spare" in name)
    _punch(files, spare)
    files.capacity_bytes = files.used_bytes
    driven = Driven(folder, files=files)
    assert os.fspath(spare) not in files.sizes()
    # Nothing is kept back now for what must be written on a full disk, so nothing is taken on.
    assert driven.journal.store(new_reading(0), is_queued=True) in (None, Reason.JOURNAL_FULL)
    driven.run()
    assert state_of(driven) is JournalState.FULL
    files.capacity_bytes = 1 << 40
    driven.now += 1.1
    driven.run()
    used(driven, 10)
    assert state_of(driven) is JournalState.OK


def test_a_newest_segment_with_holes_on_a_full_disk_is_no_reason_not_to_start() -> None:
    files = SimulatedFiles(Random(1))
    folder = Path("journal")
    driven = Driven(folder, files=files)
    kept = [new_reading(each) for each in range(GROUP)]
    driven.store(*kept, is_queued=True)
    driven.stop()
    (segment,) = (Path(name) for name in files.sizes() if name.endswith(".segment"))
    _punch(files, segment, 8192)
    files.capacity_bytes = files.used_bytes
    driven = Driven(folder, files=files)
    back = driven.read()
    assert [each.sequence for each in back] == [each.sequence for each in kept]
    driven.finish(*back)
    files.capacity_bytes = 1 << 40
    driven.now += 1.1
    driven.run()
    used(driven, 100)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_where_no_whole_segment_can_be_made_smaller_ones_do(folder: Path, error: int) -> None:
    files = Limited(200_000, error)
    driven = Driven(folder, options(LARGE, recent_s=0.0), files)
    used(driven, 0, 2000, qos=2)
    assert 0 < max(each.stat().st_size for each in spares(folder)) <= 200_000
    assert driven.journal.numbers.failures == 0
    files.bytes_max = 1 << 30
    used(driven, 2000, 4000)
    driven.stop()
    assert newest(folder).stat().st_size == SEGMENT_BYTES_MAX  # and whole ones once they can


def test_a_spare_that_is_cut_while_it_runs_is_not_taken_for_a_whole_one(folder: Path) -> None:
    driven = Driven(folder, options(recent_s=0.0))
    for spare in spares(folder):
        os.truncate(spare, 100)
    refused = 0
    for position in range(0, 2000):
        if driven.journal.store(new_reading(position), is_queued=True) is not None:
            refused += 1
            assert driven.journal.numbers.state is JournalState.FAILED
        driven.run()
        driven.finish(*driven.read())
        driven.now += 0.3
    assert 0 < refused < 10
    assert driven.journal.numbers.state is JournalState.OK


def test_marks_of_which_there_are_many_go_into_a_small_spare_in_parts(folder: Path) -> None:
    """Released and received marks by the thousand, and only a spare of the least size."""
    files = Limited(SEGMENT_BYTES_MIN, errno.ENOSPC)
    files.bytes_max = 1 << 30
    driven = Driven(folder, options(LARGE), files)
    readings = [
        new_reading(each, client=f"sensor-{each}", qos=2, payload=bytes(10)) for each in range(6000)
    ]
    for start in range(0, len(readings), 500):
        driven.store(*readings[start : start + 500], is_queued=True)
    files.bytes_max = SEGMENT_BYTES_MIN
    for spare in spares(folder):
        os.truncate(spare, SEGMENT_BYTES_MIN)
    driven.stop()
    driven = Driven(folder, options(LARGE), files)
    for reading in driven.read():
        driven.journal.receive(reading)
        driven.journal.release(reading.client_id, reading.message_id)
        driven.journal.finish(reading)
    driven.run()
    assert driven.journal.durable_mark == driven.journal.last_mark
    assert driven.journal.numbers.failures == 0
    used(driven, 10_000)


class Limited(FaultyFiles):
    """No file can be made with more than so many bytes."""

    def __init__(self, bytes_max: int, error: int) -> None:
        super().__init__()
        self.bytes_max = bytes_max
        self.error = error

    def write(self, file: int, octets: bytes, offset: int) -> int:
        is_new = self.entry_of(file).size < offset + len(octets)
        if is_new and offset + len(octets) > self.bytes_max:
            raise OSError(self.error, os.strerror(self.error))
        return super().write(file, octets, offset)


def _put(path: Path, kind: str) -> None:
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link to nothing":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
        if kind == "folder with a file":
            (path / "x").touch()


def _punch(files: SimulatedFiles, path: Path, behind: int = 0) -> None:
    """Of this file the disk has no blocks behind so many bytes, as after a copy that left zeros
    out.
    """
    file = files.open(path)
    size = files.entry_of(file).size
    files.truncate(file, behind)
    files.truncate(file, size)
    files.sync(file)
    files.close(file)
