"""The journal of the revision before is read value by value, and written byte by byte as then."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gateway.core.values import KeptRecords, Reading
from gateway.storage.journal.checksums import CHECKSUMS, PREFERRED, Algorithm
from gateway.storage.journal.records import Found, Kind, records
from gateway.storage.journal.segment import HEADER_BYTES, decode_header
from tests.storage.journal.fixed_journal import (
    BOB,
    NEXT_NOW,
    NEXT_UNIX_MS_AT_ZERO,
    ÄNN,
    FixedJournal,
)
from tests.storage.journal.support import NEXT_BOOT, UNIX_MS_AT_ZERO, Driven
from tests.support.written_before import written_before

KEPT, RECEIVED = 1, 683
# Format 1 wrote these.
OLDER = {Kind.RECEIVED_1, Kind.MARKS_1}


@pytest.fixture
def before(tmp_path: Path) -> Path:
    return written_before(tmp_path, "journal/") / "journal"


@pytest.fixture
def now(tmp_path: Path) -> FixedJournal:
    made = FixedJournal(tmp_path / "now")
    made.write()
    return made


def opened(folder: Path) -> Driven:
    """After the second power cut, in the same boot of the machine."""
    return Driven(folder, now=NEXT_NOW + 30.0, boot=NEXT_BOOT, unix_ms_at_zero=NEXT_UNIX_MS_AT_ZERO)


def kinds_in(folder: Path) -> set[Kind]:
    found = set()
    for path in folder.glob("*.segment"):
        octets = path.read_bytes()
        header = decode_header(octets)
        assert header is not None
        for record in records(octets, HEADER_BYTES, header.salt, CHECKSUMS[header.algorithm]):
            assert isinstance(record, Found), f"{path.name}: {record}"
            found.add(Kind(record.kind))
    return found


def assert_same(found: Reading, expected: Reading) -> None:
    for field in fields(Reading):
        if field.name not in ("record", "received_at", "machine_at"):
            assert getattr(found, field.name) == getattr(expected, field.name), field.name
    since_zero_ms = found.received_at * 1000 + NEXT_UNIX_MS_AT_ZERO
    expected_ms = expected.received_at * 1000 + (
        UNIX_MS_AT_ZERO if expected.sequence < 680 else NEXT_UNIX_MS_AT_ZERO
    )
    assert since_zero_ms == pytest.approx(expected_ms, abs=2.0)


def test_every_kind_of_record_is_in_it(before: Path) -> None:
    assert kinds_in(before) == set(Kind) - OLDER


def test_each_reading_that_waits_is_read_back_once_as_it_was(
    before: Path, now: FixedJournal
) -> None:
    life = opened(before)
    expected = {each.sequence: each for each in now.waiting}
    assert list(expected) == [1, 2, 3, *range(5, 12), *range(13, 18), 679, 680, *range(682, 686)]
    found = life.read()
    # One is at the broker and kept; of another it has sent PUBREC.
    assert [each.sequence for each in found] == [
        number for number in expected if number not in (KEPT, RECEIVED)
    ]
    for each in (*found, *life.recovered.received):
        assert_same(each, expected[each.sequence])
    assert life.read() == []


def test_what_is_known_beside_the_readings_is_recovered(before: Path) -> None:
    recovered = opened(before).recovered
    assert recovered.queued == {ÄNN: 9, BOB: 10}
    assert [each.sequence for each in recovered.received] == [RECEIVED]
    assert recovered.kept == [KeptRecords(epoch=41, first=KEPT, record=1, count=1)]
    assert (recovered.last_packet_id, recovered.newest_epoch) == (686, 41)
    unreleased = {name: each.unreleased for name, each in recovered.exchanges.items()}
    assert unreleased == {
        ÄNN: [(9, 2113288909), (15, 1245737069), (681, 1764750242)],
        BOB: [
            (6, 1882505955), (12, 1036095611), (18, 2517553311), (101, 1776543588),
            (684, 2091588636),
        ],
        "bulk": [],
    }  # fmt: skip
    recent = {name: len(each.recent) for name, each in recovered.exchanges.items()}
    assert recent == {ÄNN: 8, BOB: 9, "bulk": 64}
    report = recovered.report
    assert (report.segments, report.records, report.waiting) == (4, 178, 20)
    assert (report.torn_bytes, report.damaged) == (0, [])


def test_it_goes_on_there(before: Path) -> None:
    life = opened(before)
    found = life.read()
    life.finish(*found)
    life.stop()
    life = opened(before)
    assert life.read() == []
    assert [each.sequence for each in life.recovered.received] == [RECEIVED]


@pytest.mark.skipif(
    PREFERRED is not Algorithm.CRC32C, reason="not run: another checksum is written here"
)
def test_the_same_calls_write_the_same_bytes(before: Path, now: FixedJournal) -> None:
    names = sorted(path.name for path in before.iterdir())
    assert sorted(path.name for path in now.folder.iterdir()) == names
    for name in names:
        found, expected = (now.folder / name).read_bytes(), (before / name).read_bytes()
        assert len(found) == len(expected)
        differing = [at for at in range(len(found)) if found[at] != expected[at]]
        assert not differing, f"{name}: other bytes from {differing[0]} on"
