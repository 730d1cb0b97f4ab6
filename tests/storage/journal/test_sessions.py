"""What the broker has received counts in one of its sessions, in memory and over restarts."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from gateway.core.values import Reading
from gateway.storage.journal.checksums import CHECKSUMS
from gateway.storage.journal.records import Kind, encode_record, number_body, record_at
from gateway.storage.journal.segment import HEADER_BYTES, VERSION, decode_header
from gateway.storage.journal.segment_index import RECEIVED
from tests.storage.journal.support import Driven, new_reading


def received_in(life: Driven) -> list[int]:
    return [reading.sequence for reading in life.recovered.received]


def with_two_readings(folder: Path) -> tuple[Driven, list[Reading]]:
    life = Driven(folder)
    return life, life.store(new_reading(0, qos=2), new_reading(1, qos=2))


def receive(life: Driven, reading: Reading) -> None:
    mark = life.journal.receive(reading)
    life.run()
    assert life.journal.durable_mark >= mark


def connect(life: Driven) -> None:
    mark = life.journal.begin_session()
    life.run()
    assert life.journal.durable_mark >= mark


def recycle(life: Driven) -> None:
    """Use every segment again but those that hold what is unfinished."""
    for start in range(2, 12_000, 100):
        numbers = range(start, start + 100)
        life.finish(*life.store(*(new_reading(number, received_at=life.now) for number in numbers)))
        life.now += 1.0


def test_what_was_received_before_connect_counts_no_more(tmp_path: Path) -> None:
    life, (first, _) = with_two_readings(tmp_path)
    receive(life, first)
    connect(life)
    recovered = Driven(tmp_path).recovered
    assert recovered.received == []
    assert sum(recovered.queued.values()) == 2


def test_what_is_received_again_after_connect_counts(tmp_path: Path) -> None:
    life, (first, second) = with_two_readings(tmp_path)
    for reading in (first, second, first):
        connect(life)
        receive(life, reading)
    assert received_in(Driven(tmp_path)) == [0]


def test_the_next_life_goes_on_with_the_number_of_the_session(tmp_path: Path) -> None:
    life, (first, _) = with_two_readings(tmp_path)
    connect(life)
    life.stop()
    life = Driven(tmp_path)
    receive(life, first)
    life.stop()
    assert received_in(Driven(tmp_path)) == [0]
    life = Driven(tmp_path)
    connect(life)
    assert received_in(Driven(tmp_path)) == []


@pytest.mark.parametrize("is_received_again", [False, True])
def test_a_segment_that_goes_takes_no_session_with_it(
    tmp_path: Path, is_received_again: bool
) -> None:
    """Neither the number of the session, nor what was received in it."""
    life, (first, _) = with_two_readings(tmp_path)
    receive(life, first)
    recycle(life)
    connect(life)
    if is_received_again:
        receive(life, first)
    recycle(life)
    life.stop()
    assert received_in(Driven(tmp_path)) == ([0] if is_received_again else [])


def test_each_segment_begins_with_the_number_of_the_session(tmp_path: Path) -> None:
    """Marks that are restated carry it on as well, but only if there are any."""
    life, _ = with_two_readings(tmp_path)
    connect(life)
    connect(life)
    recycle(life)
    beginnings = []
    for path in sorted(tmp_path.glob("*.segment"))[1:]:
        octets = path.read_bytes()
        header = decode_header(octets)
        assert header is not None
        extend = CHECKSUMS[header.algorithm]
        first = record_at(octets, HEADER_BYTES, header.salt, extend)
        beginnings.append(first and (first.kind, octets[first.end - 8 : first.end]))
    assert beginnings
    assert set(beginnings) == {(Kind.SESSION, number_body(2))}


def test_marks_of_another_segment_are_restated_in_their_session(tmp_path: Path) -> None:
    life, (first, second) = with_two_readings(tmp_path)
    recycle(life)
    connect(life)
    receive(life, first)
    recycle(life)
    connect(life)
    receive(life, second)
    life.stop()
    assert received_in(Driven(tmp_path)) == [1]


# Format 1, which had no sessions


def with_mark_of_format_1(folder: Path, kind: Kind, body: bytes) -> None:
    """The one segment there is, as an older release would have left it, with one mark more."""
    (path,) = folder.glob("*.segment")
    octets = bytearray(path.read_bytes())
    header = decode_header(bytes(octets))
    assert header is not None
    life = Driven(folder)
    end = life.journal._segment_index.segments[0].end
    life.journal.close()
    record = encode_record(kind, body, header.salt, CHECKSUMS[header.algorithm])
    octets[end : end + len(record)] = record
    octets[8:10] = (1).to_bytes(2, "big")
    octets[HEADER_BYTES - 4 : HEADER_BYTES] = zlib.crc32(octets[: HEADER_BYTES - 4]).to_bytes(
        4, "big"
    )
    path.write_bytes(octets)


def marks_of_format_1(serial: int, flags: bytes) -> bytes:
    return serial.to_bytes(8, "big") + bytes(8) + zlib.compress(flags)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (Kind.RECEIVED_1, number_body(0)),
        (Kind.MARKS_1, marks_of_format_1(1, bytes([RECEIVED, 0]))),
    ],
)
def test_a_journal_of_format_1_is_read_and_goes_on_in_this_one(
    tmp_path: Path, kind: Kind, body: bytes
) -> None:
    life, _ = with_two_readings(tmp_path)
    life.stop()
    with_mark_of_format_1(tmp_path, kind, body)
    life = Driven(tmp_path)
    assert received_in(life) == [0]
    (path,) = tmp_path.glob("*.segment")
    assert int.from_bytes(path.read_bytes()[8:10], "big") == VERSION, "an older release refuses it"
    connect(life)
    assert received_in(Driven(tmp_path)) == []
