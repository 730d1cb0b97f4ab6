"""What seldom happens: other boards, chance, many marks at once."""

import errno
import sys
from pathlib import Path

import pytest

from gateway.storage.journal import backlog, checksums, journal
from gateway.storage.journal.checksums import CHECKSUMS, Algorithm
from gateway.storage.journal.records import Kind, encode_record
from gateway.storage.journal.repair import journal_error
from tests.storage.journal.support import NOW, SMALL, Driven, FaultyFiles, new_reading, options


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_without_crc32c_in_c_the_other_checksum_is_preferred(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    assert checksums._fastest() == (Algorithm.CRC32, checksums.extend_crc32c)

    class Slow:
        implementation = "python"

    monkeypatch.setitem(sys.modules, "google_crc32c", Slow())
    assert checksums._fastest() == (Algorithm.CRC32, checksums.extend_crc32c)


def test_a_journal_may_move_to_a_board_with_another_checksum(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(journal, "PREFERRED", Algorithm.CRC32)
        Driven(folder).store(new_reading(0))
    driven = Driven(folder)
    assert driven.journal.numbers.segments == 2 or checksums.PREFERRED is Algorithm.CRC32
    driven.store(new_reading(1), is_queued=True)
    assert [reading.sequence for reading in driven.read()] == [0, 1]


@pytest.mark.parametrize("kind", [Kind.RELEASED, Kind.EXCHANGE, Kind.MARKS, Kind.DONE_ONE])
def test_a_record_that_is_valid_by_chance_alone_is_passed_over(folder: Path, kind: Kind) -> None:
    driven = Driven(folder)
    driven.store(new_reading(0))
    (segment,) = driven.journal._segment_index.segments
    header = segment.header
    path = folder / segment.name
    octets = bytearray(path.read_bytes())
    chance = encode_record(kind, b"\xff" * 17, header.salt, CHECKSUMS[header.algorithm])
    octets[segment.end : segment.end + len(chance)] = chance
    path.write_bytes(octets)
    again = Driven(folder)
    assert [reading.sequence for reading in again.read()] == [0]
    assert len(again.recovered.report.damaged) == 1


def test_more_marks_than_a_group_takes_are_written_by_the_next(folder: Path) -> None:
    driven = Driven(folder)
    stored = []
    for start in range(0, 1200, 100):
        stored += driven.store(*(new_reading(start + n, qos=2) for n in range(100)))
    for reading in stored[1::2]:
        driven.journal.finish(reading)
    last = 0
    for reading in stored:
        last = driven.journal.release(reading.client_id, reading.message_id)
    driven.run()
    assert driven.journal.durable_mark == last == 1200
    again = Driven(folder)
    assert [reading.sequence for reading in again.read()] == list(range(0, 1200, 2))
    assert again.recovered.exchanges[stored[0].client_id].unreleased == []


def test_open_exchanges_are_written_anew_when_their_segment_goes(folder: Path) -> None:
    driven = Driven(folder, options(SMALL, recent_s=0.0))
    (first,) = driven.store(new_reading(0, qos=2))
    driven.finish(first)
    for start in range(1, 1501, 50):
        driven.finish(*driven.store(*(new_reading(start + n) for n in range(50))))
    assert driven.journal._segment_index.segments[0].first > 0
    again = Driven(folder, options(SMALL, recent_s=0.0))
    unreleased = again.recovered.exchanges[first.client_id].unreleased
    assert [message_id for message_id, _ in unreleased] == [first.message_id]
    again.journal.release(first.client_id, first.message_id)
    again.run()
    exchanges = Driven(folder, now=NOW + 500).recovered.exchanges
    assert first.client_id not in exchanges


def test_marks_of_an_old_segment_outlive_the_segment_they_were_written_in(folder: Path) -> None:
    driven = Driven(folder, options(SMALL, recent_s=0.0))
    old = driven.store(*(new_reading(n) for n in range(300)))
    for start in range(300, 2300, 50):
        driven.finish(*driven.store(*(new_reading(start + n) for n in range(50))))
        driven.finish(*old[1:100])
        del old[1:100]
    assert [reading.sequence for reading in old] == [0]
    assert [reading.sequence for reading in Driven(folder).read()] == [0]


def test_a_file_system_that_takes_nothing_is_one_that_fails(folder: Path) -> None:
    class Stuck(FaultyFiles):
        takes = True

        def write(self, file: int, octets: bytes, offset: int) -> int:
            return super().write(file, octets, offset) if self.takes else 0

    files = Stuck()
    driven = Driven(folder, files=files)
    files.takes = False
    driven.journal.store(new_reading(0), is_queued=False)
    assert len(driven.run().not_stored) == 1


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "may not be made by this user: `sudo install -d -m 0700 -o "),
        (errno.EROFS, "read-only"),
        (errno.EIO, "the disk fails: replace it"),
        (errno.EMFILE, "RLIMIT_NOFILE"),
        (errno.EDQUOT, "quota"),
        (errno.EXDEV, "as the system has it"),
    ],
)
def test_an_error_of_the_folder_says_what_to_do(number: int, advice: str) -> None:
    error = journal_error(
        Path("/var/lib/no-such-folder/journal"), OSError(number, "as the system has it")
    )
    assert error.errno == number
    assert advice in str(error)


def test_a_reading_finished_while_it_was_read_back_is_not_handed_out(folder: Path) -> None:
    driven = Driven(folder)
    first, second = driven.store(new_reading(0), new_reading(1), is_queued=True)
    request = driven.journal.begin_read(driven.now)
    assert request is not None
    readings = driven.journal.read(request)
    driven.journal.finish(first)
    driven.journal.finish(first)
    assert [f.sequence for f in driven.journal.end_read(request, readings)] == [second.sequence]
    assert driven.journal.numbers.finished == 1


def test_a_long_backlog_is_read_in_several_looks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "STRETCHES_MAX", 2)
    driven = Driven(folder, options(8 << 20))
    for start in range(0, 900, 100):
        payloads = [new_reading(start + n, payload=bytes(4000)) for n in range(100)]
        driven.store(*payloads, is_queued=True)
    assert driven.journal.numbers.segments > 3
    assert [reading.sequence for reading in driven.read()] == list(range(900))


def test_no_more_than_eight_damaged_segments_are_kept(folder: Path) -> None:
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.segment.damaged").write_bytes(b"kept")
    driven = Driven(folder)
    for n in range(3):
        driven.store(new_reading(n))
    (segment,) = driven.journal._segment_index.segments
    octets = bytearray((folder / segment.name).read_bytes())
    octets[300] ^= 1
    (folder / segment.name).write_bytes(octets)
    assert len(Driven(folder).recovered.report.damaged) == 1
    assert len(list(folder.glob("*.damaged"))) == 8


def test_a_spare_that_cannot_be_opened_is_passed_over(folder: Path) -> None:
    broken = False

    def fault(call: str) -> object:
        if broken and call == "open":
            raise OSError(errno.EIO, "the disk fails")
        return None

    driven = Driven(folder, options(SMALL, recent_s=0.0), FaultyFiles(fault))
    for start in range(0, 340, 20):
        driven.store(*(new_reading(start + n) for n in range(20)))
    broken = True
    for n in range(340, 360):
        driven.journal.store(new_reading(n), is_queued=False)
    total = driven.run()
    broken = False
    driven.now += 1
    driven.run()
    (last,) = driven.store(new_reading(400))
    waiting = {reading.sequence for reading in Driven(folder).read()}
    stored = {reading.sequence for reading in total.stored}
    assert waiting == set(range(340)) | stored | {last.sequence}
