from pathlib import Path

import pytest

from gateway.storage.journal.boot import read_boot_id
from gateway.storage.journal.inspect import Inspection
from gateway.storage.journal.options import JournalError
from gateway.storage.journal.recovery import Clocks
from tests.storage.journal.support import (
    BOOT,
    NOW,
    SMALL,
    UNIX_MS_AT_ZERO,
    Driven,
    new_reading,
    options,
)

CLOCKS = Clocks(NOW + 10, UNIX_MS_AT_ZERO, BOOT, 90.0)


def test_the_unfinished_readings_are_shown_in_order_while_the_gateway_writes(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "journal"
    driven = Driven(folder)
    stored = driven.store(*(new_reading(n) for n in range(1000)))
    driven.finish(*stored[:500], stored[700])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    look = Inspection(folder, CLOCKS)
    shown = list(look.unfinished())
    assert [f.sequence for f in shown] == [n for n in range(500, 1000) if n != 700]
    assert shown[0].received_at == NOW
    assert look.report.waiting == 499
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_segment_that_goes_meanwhile_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    driven = Driven(folder, options(SMALL, recent_s=0.0))
    for start in range(0, 1000, 50):
        driven.store(*(new_reading(start + n) for n in range(50)), is_queued=True)
    look = Inspection(folder, CLOCKS)
    back = driven.read()
    driven.finish(*back[:900])
    for start in range(1000, 1300, 50):
        driven.store(*(new_reading(start + n) for n in range(50)), is_queued=True)
    shown = [reading.sequence for reading in look.unfinished()]
    assert set(range(900, 1000)) <= set(shown)
    assert shown == sorted(shown)
    assert len(shown) < 1000


def test_a_damaged_record_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    Driven(folder).store(*(new_reading(n) for n in range(10)))
    (path,) = folder.glob("*.segment")
    octets = bytearray(path.read_bytes())
    octets[300] ^= 1
    path.write_bytes(octets)
    assert [f.sequence for f in Inspection(folder, CLOCKS).unfinished()] == [0, *range(2, 10)]


def test_a_folder_without_a_journal_is_said(tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="there is no journal in"):
        Inspection(tmp_path / "journal", CLOCKS)


def test_the_boot_is_named_or_made_up(tmp_path: Path) -> None:
    (tmp_path / "boot_id").write_text("01234567-89ab-cdef-0123-456789abcdef\n")
    assert read_boot_id(tmp_path / "boot_id").hex() == "0123456789abcdef0123456789abcdef"
    assert len(read_boot_id(tmp_path / "missing")) == 16
    assert read_boot_id(tmp_path / "missing") != read_boot_id(tmp_path / "missing")
