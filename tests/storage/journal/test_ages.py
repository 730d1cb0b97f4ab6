"""When a reading came, by clocks that may be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.storage.journal.support import NOW, UNIX_MS_AT_ZERO, Driven, new_reading


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


HOUR_S, DECADE_S = 3600.0, 10 * 365 * 86_400.0


@pytest.mark.guarantee("10")
@pytest.mark.parametrize(
    ("monotonic_s", "wall_s", "age_s"),
    [
        (60.0, 60.0, 60.0),
        (DECADE_S, 60.0, 60.0),  # a container that was moved, a machine that was restored
        (60.0, DECADE_S, 60.0),  # the clock was set from a battery that was empty
        (60.0, -HOUR_S, 0.0),
        (60.0, -DECADE_S, 60.0),  # the clock is not set any more
        (-60.0, 60.0, 0.0),
    ],
)
def test_in_the_same_boot_the_younger_age_counts(
    folder: Path, monotonic_s: float, wall_s: float, age_s: float
) -> None:
    """What the two clocks say since the reading was written by a previous run."""
    Driven(folder).store(new_reading(0, received_at=NOW))
    now, at_zero = NOW + monotonic_s, UNIX_MS_AT_ZERO + (wall_s - monotonic_s) * 1000
    (reading,) = Driven(folder, now=now, unix_ms_at_zero=at_zero).read()
    assert now - reading.received_at == pytest.approx(age_s, abs=0.01)


def test_a_clock_that_was_not_set_says_nothing_of_the_age(folder: Path) -> None:
    early = new_reading(0, received_at=NOW)
    early.unix_ms = 60_000
    Driven(folder).store(early)
    (reading,) = Driven(folder, now=NOW + 60.0).read()
    assert reading.received_at == pytest.approx(NOW)


@pytest.mark.guarantee("10")
@pytest.mark.parametrize("jump_s", [-DECADE_S, -HOUR_S, HOUR_S, DECADE_S])
def test_a_wall_clock_that_jumps_while_the_gateway_runs_changes_no_age(
    folder: Path, jump_s: float
) -> None:
    driven = Driven(folder)
    driven.store(new_reading(0, received_at=NOW), is_queued=True)
    driven.now += 60.0
    driven.journal.unix_ms_at_zero += jump_s * 1000
    (reading,) = driven.read()
    assert reading.received_at == pytest.approx(NOW)


def test_files_have_the_time_of_the_machine_and_the_core_its_own(folder: Path) -> None:
    driven = Driven(folder)
    driven.journal.pauses.beat(NOW)
    driven.now = NOW + 1000.0
    core_at = driven.journal.pauses.now(driven.now)
    driven.store(
        new_reading(0, received_at=NOW), new_reading(1, received_at=core_at), is_queued=True
    )
    request = driven.journal.begin_again((0, 1), driven.now)
    for readings in (driven.read(), driven.journal.end_again(driven.journal.read(request))):
        assert [each.received_at for each in readings] == pytest.approx([NOW, core_at])
    again = Driven(folder, now=driven.now + 5.0)
    assert [each.received_at for each in again.read()] == pytest.approx([NOW, driven.now])
    assert again.recovered.newest_epoch == 3
