"""The list of retained topics on disk: while the disk hangs or fails, and who may read it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.core.state_records import ClientId
from gateway.presence.catalogue import Kind, KnownValue
from gateway.presence.documents import LedgerEntry
from gateway.presence.line_file import RETRY_S
from gateway.presence.retained_ledger import BYTES_MAX, FILE, LINES_MAX, RetainedLedgerFile
from tests.support.written_before import written_before

TANK = ClientId("tank")
ÄNN, BOB = ClientId("änn"), ClientId("bob")
VALUES = (
    KnownValue("gewächshaus/1", "t", Kind.NUMBER, "Cel"),
    KnownValue("gewächshaus/1", "door", Kind.BOOLEAN),
    KnownValue("gewächshaus/1", "mode", Kind.TEXT),
)
# What the revision before has written, and then cleared that of bob.
WRITTEN_BEFORE = {
    "tide/gateway": LedgerEntry(ClientId("")),
    "tide/clients/änn": LedgerEntry(ÄNN),
    "tide/clients/bob": LedgerEntry(BOB),
    "homeassistant/device/änn/config": LedgerEntry(ÄNN, VALUES),
}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_while_the_disk_hangs_lines_wait_and_are_written_once_in_order(tmp_path: Path) -> None:
    begun: list[Callable[[], None]] = []
    clock = Clock()
    ledger = RetainedLedgerFile(tmp_path, begun.append, clock)
    ledger.published("a", LedgerEntry(TANK))
    assert ledger.flush()
    for number in range(1000):
        ledger.published(f"b{number % 3}", LedgerEntry(TANK))
        ledger.cleared("a")
        assert ledger.flush(), "one batch at a time"
    assert len(begun) == 1
    assert ledger.error is None
    clock.now += 11
    assert ledger.error == f"{tmp_path / FILE}: the disk has not answered for 11 s"
    begun.pop()()
    assert ledger.flush(), "and the next one"
    begun.pop()()
    assert not ledger.flush()
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [line[0] for line in lines] == ["a", "b1", "b2", "b0", "a"]
    assert set(RetainedLedgerFile(tmp_path).load()) == {"b0", "b1", "b2"}
    assert ledger.error is None


def test_what_a_failing_disk_did_not_take_is_written_when_it_does_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = Clock()
    (tmp_path / FILE).mkdir()
    ledger = RetainedLedgerFile(tmp_path, now=clock)
    ledger.published("a", LedgerEntry(TANK))
    ledger.flush()
    (tmp_path / FILE).rmdir()
    ledger.published("b", LedgerEntry(TANK))
    ledger.cleared("a")
    ledger.flush()
    assert not (tmp_path / FILE).exists(), "it is not tried in each beat"
    clock.now += RETRY_S
    ledger.flush()
    assert set(RetainedLedgerFile(tmp_path).load()) == {"b"}
    assert ledger.error is None
    assert "can be used again" in caplog.messages[-1]


def test_topics_beyond_what_may_wait_are_counted(tmp_path: Path) -> None:
    ledger = RetainedLedgerFile(tmp_path, lambda _work: None)
    for number in range(LINES_MAX + 7):
        ledger.published(f"t{number}", LedgerEntry(TANK))
    ledger.published("t0", LedgerEntry(TANK))
    assert ledger.error == f"{tmp_path / FILE}: 7 topics were too many to wait for the disk"


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_nobody_else_reads_it_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / FILE).touch(0o644)
    before = os.umask(umask)
    try:
        for folder in (tmp_path, tmp_path / "old"):
            ledger = RetainedLedgerFile(folder)
            ledger.published("a", LedgerEntry(TANK))
            ledger.flush()
            assert (folder / FILE).stat().st_mode & 0o777 == 0o600
            ledger.begin({"a": LedgerEntry(TANK)})
            assert (folder / FILE).stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    ledger = RetainedLedgerFile(tmp_path)
    begun: list[int] = []
    for _ in range(2 * BYTES_MAX >> 23):
        for topic in range(8):
            ledger.published(str(topic) + "t" * (1 << 20), LedgerEntry(TANK))
        assert not ledger.flush()
        begun.append((tmp_path / FILE).stat().st_size)
    assert BYTES_MAX / 2 < begun[-1] <= BYTES_MAX
    assert begun[-1] == begun[-2], "it was full before"


def test_the_list_of_the_revision_before_is_read(tmp_path: Path) -> None:
    kept = {topic: entry for topic, entry in WRITTEN_BEFORE.items() if entry.client_id != BOB}
    assert RetainedLedgerFile(written_before(tmp_path, FILE)).load() == kept


def test_the_list_is_written_as_the_revision_before_wrote_it(tmp_path: Path) -> None:
    ledger = RetainedLedgerFile(tmp_path)
    ledger.begin({})
    for topic, entry in WRITTEN_BEFORE.items():
        ledger.published(topic, entry)
        ledger.flush()
    ledger.cleared("tide/clients/bob")
    ledger.flush()
    before = written_before(tmp_path / "before", FILE)
    assert (tmp_path / FILE).read_bytes() == (before / FILE).read_bytes()
