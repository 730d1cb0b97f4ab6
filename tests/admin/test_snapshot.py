"""What the journal says of itself, as metrics and status show it."""

from pathlib import Path

from gateway.admin.metrics.sync_times import KEPT_MAX, SyncTimes
from gateway.admin.part_numbers import Condition, JournalNumbers
from gateway.admin.snapshot import TimedFiles, journal_numbers
from gateway.storage.journal import numbers as journal_side

FOUND = journal_side.JournalNumbers(
    state=journal_side.JournalState.DEGRADED,
    depth=1,
    queued=2,
    bytes=3,
    bytes_max=4,
    fill=0.5,
    oldest_received_at=90.0,
    segments=6,
    damaged=7,
    lost=8,
    readings=9,
    finished=10,
    dropped=11,
    groups=12,
    syncs=13,
    bytes_written=14,
    failures=15,
)


def test_each_number_of_the_journal_is_where_it_belongs() -> None:
    times = SyncTimes()
    for hundredth in range(1, 101):
        times.note(hundredth / 100)
    assert journal_numbers(FOUND, times, now=100.0, error="I/O error") == JournalNumbers(
        condition=Condition.DEGRADED,
        error="I/O error",
        depth=1,
        parked=2,
        used_bytes=3,
        budget_bytes=4,
        fill=0.5,
        oldest_age_s=10.0,
        segments=6,
        damaged=7,
        lost=8,
        stored=9,
        finished=10,
        dropped_oldest=11,
        groups=12,
        syncs=13,
        bytes_written=14,
        failures=15,
        sync_s_p50=0.5,
        sync_s_p99=0.99,
        sync_s_worst=1.0,
        sync_s_total=50.5,
        syncs_timed=100,
    )


def test_a_fresh_journal_has_no_times_no_oldest_reading_and_no_error() -> None:
    fresh = journal_side.JournalNumbers()
    assert journal_numbers(fresh, SyncTimes(), now=100.0, error="long ago") == JournalNumbers()


def test_every_state_of_the_journal_has_a_condition() -> None:
    assert {state.value for state in journal_side.JournalState} == {one.value for one in Condition}


def test_each_fdatasync_is_timed(tmp_path: Path) -> None:
    times = SyncTimes()
    files = TimedFiles(times)
    file = files.open(tmp_path / "f", create=True)
    assert times.quantiles(1.0) == [None]
    files.write(file, b"x", 0)
    files.sync_data(file)
    files.close(file)
    (worst,) = times.quantiles(1.0)
    assert worst is not None
    assert 0 <= worst < 60


def test_only_the_last_times_of_syncing_are_kept() -> None:
    times = SyncTimes()
    times.note(9.0)
    for _ in range(KEPT_MAX):
        times.note(0.001)
    assert times.quantiles(0.5, 1.0) == [0.001, 0.001]
