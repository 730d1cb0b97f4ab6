"""A day of the demo's fleet: memory stays flat, and the log is small."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.presence.retained_ledger import FILE
from tests.simulation.demo_day import HOUR_S, DemoDay

HOURS = 24
# The past of each value is full soon, and nothing else may grow.
BLOCKS_GROWN_MAX = 1.01
LOG_BYTES_AN_HOUR_MAX = 20_000
LOG_BYTES_OF_START_MAX = 5_000
READINGS_AN_HOUR = 3 * 3600 + 2 * 600


def assert_flat(folder: Path, parts: int, part_s: float) -> None:
    passed = list(DemoDay(folder).run(parts, part_s))
    hours = parts * part_s / HOUR_S
    assert passed[-1].acknowledged >= 0.95 * hours * READINGS_AN_HOUR
    assert passed[-1].blocks <= BLOCKS_GROWN_MAX * passed[0].blocks, passed
    assert passed[-1].log_bytes <= LOG_BYTES_OF_START_MAX + hours * LOG_BYTES_AN_HOUR_MAX, passed
    assert passed[-1].said <= 6 * passed[-1].acknowledged
    assert len((folder / FILE).read_text().splitlines()) <= 1 + 4 * 5


@pytest.mark.soak
def test_a_day_leaves_memory_flat_and_the_log_small(tmp_path: Path) -> None:
    assert_flat(tmp_path, HOURS, HOUR_S)


def test_some_minutes_do_as_well(tmp_path: Path) -> None:
    assert_flat(tmp_path, 3, 120.0)
