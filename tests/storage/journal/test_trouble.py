"""Full disks, failing disks, damaged files."""

import errno
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.values import Reading
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import UNREADABLE_S, JournalError, WhenFull
from gateway.storage.journal.segment import HEADER_BYTES, VERSION, decode_header
from tests.storage.journal.support import (
    BOOT,
    NOW,
    SMALL,
    UNIX_MS_AT_ZERO,
    Driven,
    FaultyFiles,
    new_reading,
    options,
)

ROOM = 4 * (64 << 10)  # the least


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.segment"))


def state_of(driven: Driven) -> JournalState:
    return driven.journal.numbers.state


def fill(driven: Driven, start: int = 0) -> list[Reading]:
    """Parked readings until one is refused."""
    stored: list[Reading] = []
    for position in range(start, start + 100_000):
        reading = new_reading(position)
        if driven.journal.store(reading, is_queued=True) is not None:
            return stored
        if position % 20 == 19:
            total = driven.run()
            stored += total.stored
            if total.not_stored:
                return stored
    raise AssertionError("the journal is never full")


class Failing(FaultyFiles):
    """Calls in `broken` fail, with `error`."""

    def __init__(self, *broken: str, error: int = errno.EIO) -> None:
        super().__init__(self._fail)
        self.broken = set(broken)
        self.error = error

    def _fail(self, call: str) -> object:
        if call in self.broken:
            raise OSError(self.error, "the disk fails")
        return None


# Full


def test_a_full_journal_refuses_and_lets_go_on_finishing(folder: Path) -> None:
    driven = Driven(folder, options(ROOM, recent_s=0.0))
    stored = fill(driven)
    assert state_of(driven) is JournalState.FULL
    assert driven.journal.numbers.bytes <= ROOM
    back = driven.read()
    assert len(back) == len(stored)
    driven.finish(*back)
    assert driven.journal.numbers.depth == 0
    assert driven.store(new_reading(99_999)) != []
    assert state_of(driven) is JournalState.OK


def test_a_full_journal_drops_its_oldest_parked_readings_if_told_so(folder: Path) -> None:
    driven = Driven(folder, options(ROOM, WhenFull.DROP_OLDEST))
    dropped = 0
    for start in range(0, 4000, 20):
        for position in range(start, start + 20):
            assert driven.journal.store(new_reading(position), is_queued=True) is None
        total = driven.run()
        assert len(total.stored) == 20
        dropped += sum(total.dropped.values())
    back = driven.read()
    assert dropped == driven.journal.numbers.dropped > 1000
    assert [reading.sequence for reading in back] == list(range(dropped, 4000))
    assert driven.journal.numbers.bytes <= ROOM


def test_what_the_core_holds_is_never_dropped(folder: Path) -> None:
    driven = Driven(folder, options(ROOM, WhenFull.DROP_OLDEST))
    (held,) = driven.store(new_reading(0))
    for start in range(1, 4001, 20):
        for position in range(start, start + 20):
            driven.journal.store(new_reading(position), is_queued=True)
        driven.run()
    waiting = Driven(folder, options(ROOM)).read()
    assert waiting[0].sequence == held.sequence
    assert driven.journal.numbers.dropped > 1000


def test_a_full_disk_is_a_full_journal_until_there_is_room_again(folder: Path) -> None:
    files = Failing("create", error=errno.ENOSPC)
    files.broken.clear()
    driven = Driven(folder, options(SMALL, recent_s=0.0), files)
    files.broken.add("create")
    stored = fill(driven)
    assert state_of(driven) is JournalState.FULL
    driven.finish(*driven.read()[: len(stored) // 2])
    files.calls.clear()
    driven.run()
    assert "create" not in files.calls  # not more than once a second
    files.broken.clear()
    driven.now += 1.0
    driven.journal.store(new_reading(5000), is_queued=False)
    driven.run()
    assert driven.store(new_reading(5001)) != []


def test_a_start_on_a_full_disk_succeeds(folder: Path) -> None:
    files = Failing("create", error=errno.ENOSPC)
    driven = Driven(folder, files=files)
    assert driven.journal.store(new_reading(0), is_queued=False) is Reason.JOURNAL_FULL
    files.broken.clear()
    driven.now += 1
    driven.run()
    assert len(driven.store(new_reading(1))) == 1


def test_a_small_disk_gets_small_segments(folder: Path) -> None:
    class Small(FaultyFiles):
        def write(self, file: int, octets: bytes, offset: int) -> int:
            if offset >= 128 << 10:
                raise OSError(errno.ENOSPC, "the disk is full")
            return super().write(file, octets, offset)

    driven = Driven(folder, options(4 << 20), Small())
    assert [path.stat().st_size for path in segments(folder)] == [128 << 10]
    assert len(driven.store(new_reading(0))) == 1


# Failing


@pytest.mark.parametrize("call", ["write", "sync_data"])
def test_a_group_that_fails_is_saved_in_another_segment(folder: Path, call: str) -> None:
    files = Failing()
    driven = Driven(folder, files=files)
    driven.store(new_reading(0), is_queued=True)
    fails = [True]

    def once(name: str) -> object:
        if name == call and fails:
            fails.pop()
            raise OSError(errno.EIO, "the disk fails")
        return None

    files.fault = once
    group = driven.journal.begin_group(driven.now)
    assert group is None
    driven.journal.store(new_reading(1), is_queued=True)
    group = driven.journal.begin_group(driven.now)
    assert group is not None
    outcome = driven.write(group)
    assert [reading.sequence for reading in outcome.stored] == [1]
    assert state_of(driven) is JournalState.DEGRADED
    assert files.calls.count("sync_data") <= 3
    driven.run()
    assert state_of(driven) is JournalState.OK
    assert [reading.sequence for reading in Driven(folder).read()] == [0, 1]


def test_a_failed_sync_is_never_tried_again_on_its_file(folder: Path) -> None:
    synced: list[int] = []

    class Watching(Failing):
        def sync_data(self, file: int) -> None:
            synced.append(file)
            super().sync_data(file)

        def close(self, file: int) -> None:
            """Keeps the number from being given again."""

    files = Watching()
    driven = Driven(folder, files=files)
    files.broken = {"sync_data"}
    driven.journal.store(new_reading(0), is_queued=False)
    total = driven.run()
    assert total.reasons == {Reason.JOURNAL_FAILED}
    assert total.not_stored[0].record == -1
    assert len(synced) == len(set(synced)) == 2


def test_after_a_failed_group_new_readings_wait_for_a_second(folder: Path) -> None:
    files = Failing()
    driven = Driven(folder, files=files)
    files.broken = {"sync_data"}
    driven.journal.store(new_reading(0), is_queued=True)
    driven.run()
    files.broken.clear()
    assert state_of(driven) is JournalState.FAILED
    assert driven.journal.store(new_reading(1), is_queued=True) is Reason.JOURNAL_FAILED
    assert driven.journal.begin_group(driven.now + 0.5) is None
    assert driven.journal.wake_at() == driven.now + 1.0
    driven.now += 1.0
    driven.run()
    assert [f.sequence for f in driven.store(new_reading(2), is_queued=True)] == [2]
    # The first one reached the file though nobody was told so: it must not come back.
    assert [reading.sequence for reading in Driven(folder).read()] == [2]


def test_a_failed_group_keeps_its_marks(folder: Path) -> None:
    files = Failing()
    driven = Driven(folder, files=files)
    first, second = driven.store(new_reading(0, qos=2), new_reading(1))
    files.broken = {"sync_data"}
    mark = driven.journal.release(first.client_id, first.message_id)
    driven.journal.finish(second)
    driven.run()
    assert driven.journal.durable_mark < mark
    files.broken.clear()
    driven.now += 1
    driven.run()
    assert driven.journal.durable_mark == mark
    again = Driven(folder)
    assert again.recovered.exchanges[first.client_id].unreleased == []
    assert [reading.sequence for reading in again.read()] == [0]


def test_a_start_on_a_failing_disk_is_refused(folder: Path) -> None:
    with pytest.raises(JournalError, match="the disk fails: replace it"):
        Driven(folder, files=Failing("sync"))
    with pytest.raises(JournalError, match="read-only"):
        Driven(folder, files=Failing("create", error=errno.EROFS))


def test_a_newest_segment_that_takes_no_more_is_replaced(folder: Path) -> None:
    Driven(folder).store(new_reading(0))
    files = Failing("sync_data")
    driven = Driven(folder, files=files)
    files.broken.clear()
    driven.store(new_reading(1))
    assert [reading.sequence for reading in Driven(folder).read()] == [0, 1]


class Unreadable(FaultyFiles):
    """A block of each file cannot be read."""

    def read(self, file: int, size: int, offset: int) -> bytes:
        if offset < 8192 and offset + size > 4096:
            raise OSError(errno.EIO, "unreadable")
        return super().read(file, size, offset)


def test_an_unreadable_block_costs_only_what_is_in_it(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(*(new_reading(n) for n in range(100)), is_queued=True)
    driven.files = driven.journal._files = Unreadable()
    before = driven.now
    back = driven.read()
    assert 70 < len(back) < 80
    assert driven.journal.numbers.lost == 100 - len(back)
    assert driven.journal.lost_in == [segments(folder)[0].name]
    assert UNREADABLE_S <= driven.now - before <= UNREADABLE_S + 1


@pytest.mark.guarantee("12")
def test_a_disk_that_cannot_be_read_for_a_moment_costs_nothing(folder: Path) -> None:
    """Unplugged and back: what was asked for meanwhile is asked for again."""

    class Away(FaultyFiles):
        is_away = True

        def read(self, file: int, size: int, offset: int) -> bytes:
            if self.is_away:
                raise OSError(errno.EIO, "unreadable")
            return super().read(file, size, offset)

    driven = Driven(folder)
    driven.store(*(new_reading(n) for n in range(100)), is_queued=True)
    files = driven.files = driven.journal._files = Away()
    for _ in range(int(UNREADABLE_S) - 1):
        request = driven.journal.begin_read(driven.now)
        assert request is not None
        assert driven.journal.end_read(request, driven.journal.read(request)) == []
        driven.now += 1
    numbers = driven.journal.numbers
    assert segments(folder)[0].name in numbers.backlog_problem
    assert (numbers.out_of_reach, numbers.lost) == (100, 0)
    files.is_away = False
    assert len(driven.read()) == 100
    assert driven.journal.numbers.backlog_problem == ""


def test_a_disk_that_is_spoilt_in_many_places_holds_up_the_rest_once(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(*(new_reading(n) for n in range(1200)), is_queued=True)
    assert len(segments(folder)) > 2
    driven.files = driven.journal._files = Unreadable()
    before = driven.now
    back = driven.read()
    assert driven.journal.numbers.lost == 1200 - len(back) > 0
    assert UNREADABLE_S <= driven.now - before <= UNREADABLE_S + 1
    assert driven.journal.numbers.depth == len(back)


# Damaged


def flip(path: Path, place: int) -> None:
    octets = bytearray(path.read_bytes())
    octets[place] ^= 0x01
    path.write_bytes(octets)


def test_a_flipped_bit_costs_one_record_and_is_reported(folder: Path) -> None:
    driven = Driven(folder)
    for start in range(0, 1000, 50):
        driven.store(*(new_reading(start + n) for n in range(50)))
    driven.stop()
    oldest = segments(folder)[0]
    flip(oldest, 30_000)
    again = Driven(folder)
    assert len(again.read()) == 999
    assert len(again.recovered.report.damaged) == 1
    assert oldest.name in again.recovered.report.damaged[0]
    assert (folder / f"{oldest.name}.damaged").read_bytes() == oldest.read_bytes()
    assert again.journal.numbers.damaged == 1


def test_a_flipped_bit_in_the_newest_segment_is_repaired(folder: Path) -> None:
    driven = Driven(folder)
    for n in range(5):
        driven.store(new_reading(n))
    driven.stop()
    flip(segments(folder)[0], 400)
    again = Driven(folder)
    assert [reading.sequence for reading in again.read()] == [0, 2, 3, 4]
    assert len(again.recovered.report.damaged) == 1
    assert Driven(folder).recovered.report.damaged == []


def test_the_last_record_of_an_older_segment_is_missed(folder: Path) -> None:
    driven = Driven(folder)
    for start in range(0, 1000, 50):
        driven.store(*(new_reading(start + n) for n in range(50)))
    oldest = driven.journal._segment_index.segments[0]
    flip(folder / oldest.name, oldest.end - 10)
    damaged = Driven(folder).recovered.report.damaged
    assert damaged == [f"{oldest.name}: 1 readings at its end cannot be read"]


def test_a_torn_write_is_no_damage(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(new_reading(0))
    end = driven.journal._segment_index.segments[0].end
    driven.store(*(new_reading(n) for n in range(1, 10)))
    flip(segments(folder)[0], end + 300)
    again = Driven(folder)
    report = again.recovered.report
    assert (report.damaged, report.torn_bytes) == ([], 172)
    assert [reading.sequence for reading in again.read()] == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    again.store(new_reading(10), is_queued=True)
    third = Driven(folder)
    assert (third.recovered.report.damaged, third.recovered.report.torn_bytes) == ([], 0)


@pytest.mark.parametrize("is_newest", [True, False])
def test_a_damaged_header_costs_nothing(folder: Path, is_newest: bool) -> None:
    driven = Driven(folder)
    for start in range(0, 1000, 50):
        driven.store(*(new_reading(start + n) for n in range(50)))
    driven.stop()
    damaged = segments(folder)[-1 if is_newest else 0]
    flip(damaged, 20)
    again = Driven(folder)
    assert [reading.sequence for reading in again.read()] == list(range(1000))
    assert again.recovered.report.damaged == [f"{damaged.name}: its header is damaged"]
    assert (decode_header(damaged.read_bytes()) is not None) is is_newest


def test_a_segment_of_which_nothing_can_be_read_is_put_aside(folder: Path) -> None:
    Driven(folder).store(new_reading(0))
    (path,) = segments(folder)
    path.write_bytes(bytes(64 << 10))
    driven = Driven(folder)
    assert driven.recovered.report.damaged == [f"{path.name}: nothing in it can be read"]
    assert (folder / f"{path.name}.damaged").exists()
    assert len(driven.store(new_reading(1))) == 1


def test_a_journal_of_a_newer_release_is_left_alone(folder: Path) -> None:
    Driven(folder).store(new_reading(0))
    (path,) = segments(folder)
    octets = bytearray(path.read_bytes())
    octets[8:10] = (VERSION + 1).to_bytes(2, "big")
    body = HEADER_BYTES - 4
    octets[body:HEADER_BYTES] = zlib.crc32(octets[:body]).to_bytes(4, "big")
    path.write_bytes(octets)
    before = {name: name.read_bytes() for name in folder.iterdir()}
    with pytest.raises(JournalError, match="newer release"):
        Driven(folder)
    assert {name: name.read_bytes() for name in folder.iterdir()} == before


def test_no_number_is_given_again_though_every_segment_failed_and_was_freed(folder: Path) -> None:
    files = Failing()
    driven = Driven(folder, options(SMALL, recent_s=0.0), files)
    (stored,) = driven.store(new_reading(0))
    driven.finish(stored)
    files.broken = {"sync_data"}
    driven.journal.store(new_reading(1), is_queued=False)
    driven.run()
    files.broken = {"create", "sync"}
    for _ in range(5):
        driven.now += 1
        driven.run()
    (again,) = Driven(folder).store(new_reading(2))
    assert again.record > stored.record


def test_a_failed_journal_says_so_until_something_was_written_again(folder: Path) -> None:
    files = Failing()
    driven = Driven(folder, options(SMALL, recent_s=0.0), files)
    files.broken = {"sync_data"}
    driven.journal.store(new_reading(0), is_queued=False)
    driven.run()
    files.broken = {"create"}
    for _ in range(3):
        driven.now += 1
        driven.run()
        assert state_of(driven) is JournalState.FAILED
    files.broken.clear()
    driven.now += 1
    driven.run()
    assert state_of(driven) is not JournalState.FAILED
    assert len(driven.store(new_reading(1))) == 1


@pytest.mark.parametrize("error", [errno.EROFS, errno.EIO])
def test_a_journal_that_cannot_be_written_at_the_start_is_read_and_used_again_later(
    folder: Path, error: int
) -> None:
    before = Driven(folder)
    before.store(*(new_reading(n, qos=1 + n % 2) for n in range(20)), is_queued=True)
    files = FaultyFiles()
    writes = {"create", "write", "sync", "sync_data", "sync_folder", "rename"}

    def fault(call: str) -> object:
        if call in writes:
            raise OSError(error, "made to fail")
        return None

    files.fault = fault
    journal = Journal(folder, files, options())
    refused = JournalError(error, "made to fail")
    names = sorted(path.name for path in folder.iterdir())
    recovered = journal.open_to_read(NOW, UNIX_MS_AT_ZERO, BOOT, refused)
    assert sorted(path.name for path in folder.iterdir()) == names
    assert recovered.report.waiting == 20
    assert journal.state is JournalState.FAILED
    assert journal.store(new_reading(20), is_queued=True) is Reason.JOURNAL_FAILED
    request = journal.begin_read(NOW)
    assert request is not None
    assert len(journal.end_read(request, journal.read(request))) == 20
    assert journal.begin_group(NOW + 0.5) is None
    group = journal.begin_group(NOW + 1)
    assert group is not None
    with suppress(OSError):
        journal.write(group)
    journal.end_group(group, OSError(error, "made to fail"))
    assert journal.state is JournalState.FAILED
    writes.clear()
    for second in range(2, 5):
        group = journal.begin_group(NOW + second)
        if group is not None:
            journal.write(group)
            journal.end_group(group, None)
    assert journal.store(new_reading(20), is_queued=True) is None
    group = journal.begin_group(NOW + 5)
    assert group is not None
    journal.write(group)
    assert [each.sequence for each in journal.end_group(group, None).stored] == [20]
    journal.close()
    after = Driven(folder).read()
    assert [each.sequence for each in after] == list(range(21))


def test_where_a_segment_cannot_be_opened_the_others_are_read_and_nothing_is_written(
    folder: Path,
) -> None:
    """What would be numbered as new might be in it."""
    before = Driven(folder)
    before.store(*(new_reading(n) for n in range(1200)), is_queued=True)
    spoilt = segments(folder)[1].name

    class Guarded(FaultyFiles):
        def open_to_read(self, path: Path) -> int:
            if path.name == spoilt:
                raise OSError(errno.EIO, "unreadable")
            return super().open_to_read(path)

    files = Guarded()
    with pytest.raises(JournalError) as raised:
        Journal(folder, files, options()).open(NOW, UNIX_MS_AT_ZERO, BOOT)
    journal = Journal(folder, files, options())
    recovered = journal.open_to_read(NOW, UNIX_MS_AT_ZERO, BOOT, raised.value)
    assert any(spoilt in sentence for sentence in recovered.report.damaged)
    assert 0 < recovered.report.waiting < 1200
    assert journal.begin_group(NOW + 1e9) is None
    assert journal.store(new_reading(1200), is_queued=True) is Reason.JOURNAL_FAILED
    journal.close()
    assert len(Driven(folder).read()) == 1200


def test_a_folder_that_cannot_be_listed_is_named(folder: Path) -> None:
    class Dead(FaultyFiles):
        def names(self, folder: Path) -> list[str]:
            raise OSError(errno.EIO, "dead")

    folder.mkdir()
    journal = Journal(folder, Dead(), options())
    recovered = journal.open_to_read(NOW, UNIX_MS_AT_ZERO, BOOT, OSError(errno.EIO, "dead"))
    (sentence,) = recovered.report.damaged
    assert "cannot be read: the disk fails" in sentence
    assert journal.begin_group(NOW + 1e9) is None
    journal.close()
