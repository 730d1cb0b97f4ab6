"""Many lives of the production journal on a file system that loses power, from seeds.

A failing seed is in the message, with the command that repeats it.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.commit_group import CommitGroup, Outcome
from gateway.storage.journal.journal import Journal
from gateway.storage.journal.options import JournalOptions
from gateway.storage.journal.recovered import Recovered
from tests.simulation.journal_memory import (
    JournalBrokenPromiseError,
)
from tests.simulation.journal_schedules import Schedule
from tests.simulation.simulated_files import LyingFiles
from tests.support.samples import named, seeds

SCHEDULES, MEDDLED_SCHEDULES = 400, 100
SCHEDULES_SOAKED, MEDDLED_SCHEDULES_SOAKED = 22_000, 2000
SEEN_IN, SEEN_MIN = 250, 2

# Each of these broke a promise once, as long as schedules are dealt as they are now.
REGRESSIONS = (2093, 8126, 14436, 16681, 1020359)


def failures(seeds: range, *, is_meddled: bool = False) -> list[str]:
    found = []
    for seed in seeds:
        try:
            Schedule(seed, is_meddled=is_meddled).run()
        except JournalBrokenPromiseError as error:
            found.append(str(error))
    return found


@pytest.mark.guarantee("J1", "J2", "J3", "J4", "J5", "J6", "J7", "J8", "J9")
@pytest.mark.parametrize("some", seeds(SCHEDULES, SCHEDULES_SOAKED, each=50))
def test_the_journal_keeps_its_promises_in_every_schedule(some: range) -> None:
    found = failures(some)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("some", seeds(MEDDLED_SCHEDULES, MEDDLED_SCHEDULES_SOAKED, each=50))
def test_it_keeps_them_whatever_size_its_files_have(some: range) -> None:
    """The budget is another one in each run, and what holds no reading was cut or replaced."""
    found = failures(some, is_meddled=True)
    assert not found, "\n\n".join(found)


@pytest.mark.parametrize("seed", REGRESSIONS)
def test_what_broke_once_keeps_its_promises(seed: int) -> None:
    Schedule(seed).run()


def test_a_seed_is_one_schedule_and_a_trace_does_not_change_it() -> None:
    def history(seed: int, *, is_traced: bool) -> tuple[int, int, dict[str, int]]:
        lines: list[str] = []
        schedule = Schedule(seed, lines.append if is_traced else None).run()
        assert bool(lines) == is_traced
        return schedule.files.calls, schedule.memory.life, schedule.files.sizes()

    assert history(7, is_traced=False) == history(7, is_traced=True)
    assert history(7, is_traced=False) != history(8, is_traced=False)


def test_a_broken_promise_is_told_with_its_seed_and_how_to_repeat_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened = Journal.open

    def forget_all(self: Journal, *arguments: Any) -> Recovered:
        opened(self, *arguments)
        return Recovered()

    monkeypatch.setattr(Journal, "open", forget_all)
    told = failures(range(20))
    assert len(told) > 10
    assert all("promise J" in one and "tests.simulation.journal_schedules" in one for one in told)


def test_the_schedules_go_where_it_hurts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A promise that is kept because nothing ever happens is worth nothing."""
    seen: Counter[str] = Counter()
    end_group, opened, store = Journal.end_group, Journal.open, Journal.store

    def counted_end(self: Journal, group: CommitGroup, error: OSError | None) -> Outcome:
        outcome = end_group(self, group, error)
        seen["groups saved in another segment"] += error is None and group.failures > 0
        seen["groups failed"] += error is not None
        seen["refused for want of room"] += bool(group.refused)
        seen["dropped by drop_oldest"] += bool(outcome.dropped)
        seen["disk full"] += group.room_error is not None
        seen["segments recycled"] += len(group.freed)
        seen["marks restated"] += len(group.restated_segments)
        seen["exchanges restated"] += len(group.restated_exchanges)
        seen["written without sync"] += group.is_lazy
        return outcome

    def counted_open(self: Journal, *arguments: Any) -> Recovered:
        recovered = opened(self, *arguments)
        seen["readings recovered"] += sum(recovered.queued.values())
        seen["received by the broker"] += len(recovered.received)
        seen["exchanges open"] += sum(len(one.unreleased) for one in recovered.exchanges.values())
        seen["torn"] += recovered.report.torn_bytes > 0
        seen["damaged"] += len(recovered.report.damaged)
        return recovered

    def counted_store(self: Journal, reading: Reading, *, is_queued: bool) -> Reason | None:
        reason = store(self, reading, is_queued=is_queued)
        seen[f"answered {reason and reason.value}"] += 1
        return reason

    monkeypatch.setattr(Journal, "end_group", counted_end)
    monkeypatch.setattr(Journal, "open", counted_open)
    monkeypatch.setattr(Journal, "store", counted_store)
    assert not failures(range(SEEN_IN))
    assert seen["answered journal_full"] > 0
    assert seen["answered journal_failed"] > 0
    assert min(seen.values()) >= SEEN_MIN, seen


@pytest.mark.parametrize("some", seeds(10, 400, each=10))
def test_a_card_that_lies_costs_the_tail_and_no_more(some: range) -> None:
    """No software can mend that; what is older than the card's own memory is safe."""
    for seed in some:
        with named(seed=seed):
            assert_only_the_tail_is_lost(seed)


def assert_only_the_tail_is_lost(seed: int) -> None:
    dice = Random(seed)
    forgets = dice.randint(1, 30)
    files = LyingFiles(Random(seed), forgets)
    folder = Path("journal")
    options = JournalOptions(512 << 10, salt=lambda: dice.getrandbits(32))
    journal = Journal(folder, files, options)
    journal.open(1.0, 1_767_225_600_000.0, b"one boot........")
    stored: list[int] = []
    for number in range(300):
        journal.store(forward_of(number), is_queued=True)
        for _ in range(3):
            if group := journal.begin_group(1.0):
                journal.write(group)
                stored += [reading.record for reading in journal.end_group(group, None).stored]
    files.crash()
    journal = Journal(folder, files, options)
    journal.open(2.0, 1_767_225_600_000.0, b"another boot....")
    found: list[int] = []
    while request := journal.begin_read(2.0):
        found += [one.record for one in journal.end_read(request, journal.read(request))]
    assert stored == list(range(300))
    lost = sorted(set(stored) - set(found))
    # Each reading takes at least one write, and those at the end are the newest.
    assert len(lost) <= forgets
    assert not lost or lost[0] >= 300 - forgets


def forward_of(number: int) -> Reading:
    return Reading(
        ClientId("sensor"), "t", bytes(1000), 1, False, 1, number + 1, 1.0, number, packet_id=1
    )
