"""What a disk does that forgets, fails again and again, or cannot be read any more."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from gateway.storage.journal.options import SEGMENT_BYTES_MIN
from tests.simulation.simulated_files import PowerCutError, SimulatedFiles
from tests.storage.journal.support import SMALL, Driven, new_reading

FOLDER = Path("journal")


def opened(files: SimulatedFiles) -> Driven:
    return Driven(FOLDER, files=files)


def segments(files: SimulatedFiles) -> list[Path]:
    return sorted(Path(name) for name in files.sizes() if name.endswith(".segment"))


def test_a_spare_that_lost_its_length_is_not_used() -> None:
    files = SimulatedFiles(Random(1))
    opened(files).stop()
    spare = next(Path(name) for name in files.sizes() if "spare" in name)
    file = files.open(spare)
    files.truncate(file, SEGMENT_BYTES_MIN - 1)
    files.kill()
    driven = opened(files)
    assert all(size >= SEGMENT_BYTES_MIN for size in files.sizes().values())
    assert len(driven.store(new_reading(0))) == 1


@pytest.mark.guarantee("J9")
def test_a_tail_that_cannot_be_read_is_told_and_kept() -> None:
    files = SimulatedFiles(Random(1))
    driven = opened(files)
    for number in range(40):
        driven.store(new_reading(number, payload=bytes(300)))
    files.kill()
    files.spoil(segments(files)[-1], 12_000)
    driven = opened(files)
    assert 0 < driven.recovered.report.waiting < 40
    assert any("blocks of the disk" in one for one in driven.recovered.report.damaged)
    assert any(name.endswith(".damaged") for name in files.sizes())


@pytest.mark.guarantee("J7")
def test_a_disk_that_goes_on_failing_costs_no_more_than_the_budget() -> None:
    files = SimulatedFiles(Random(1))
    driven = opened(files)
    driven.store(new_reading(0), is_queued=True)
    files.faults.write_fails = 1.0
    driven.journal.store(new_reading(1), is_queued=True)
    driven.run()
    files.faults.write_fails = 0.0
    for _ in range(100):
        # Each time a segment can be made, and not be begun.
        driven.now += 1.1
        driven.run_once()
        files.faults.sync_folder_fails = 1.0
        driven.run_once()
        files.faults.sync_folder_fails = 0.0
        assert sum(files.sizes().values()) <= SMALL + 2 * SEGMENT_BYTES_MIN
    driven.now += 1.1
    driven.run()
    assert len(driven.store(new_reading(2))) == 1


def test_segments_into_which_nothing_came_do_not_pile_up_behind_one_with_marks() -> None:
    files = SimulatedFiles(Random(1))
    driven = opened(files)
    finished, _ = driven.store(new_reading(0), new_reading(1), is_queued=True)
    files.faults.sync_fails = 1.0
    driven.journal.store(new_reading(2), is_queued=True)
    driven.run()
    files.faults.sync_fails = 0.0
    driven.now += 1.1
    driven.run()
    driven.finish(*driven.store(new_reading(3), is_queued=True))
    driven.journal.finish(finished)
    driven.run_once()

    def fail_to_sync_data(call: str) -> None:
        files.faults.sync_fails = 1.0 if "sync_data" in call else 0.0

    files.trace = fail_to_sync_data
    for number in range(4, 50):
        driven.now += 1.1
        driven.journal.store(new_reading(number), is_queued=True)
        driven.run_once()
        driven.run_once()
        assert sum(files.sizes().values()) <= SMALL + 2 * SEGMENT_BYTES_MIN, number


def flaky(driven: Driven, files: SimulatedFiles, dice: Random) -> None:
    """Three hundred readings come while the disk fails now and then, and few are taken."""
    fails, taken = dice.choice((0.2, 0.4)), dice.choice((0.1, 0.2))
    files.trace = lambda call: files.faults.fail("sync_data" in call and dice.random() < fails)
    held: list[Reading] = []
    for number in range(300):
        driven.now += dice.choice((0.01, 0.5, 1.1))
        driven.journal.store(
            new_reading(number, payload=bytes(dice.choice((10, 300)))), is_queued=True
        )
        if held and dice.random() < taken:
            driven.journal.finish(held.pop(dice.randrange(len(held))))
        group = driven.journal.begin_group(driven.now)
        if group is not None:
            held += driven.write(group).stored
        assert sum(files.sizes().values()) <= SMALL + 2 * SEGMENT_BYTES_MIN, number
    files.trace = None
    files.faults.fail(False)
    for reading in held:
        driven.journal.finish(reading)


@pytest.mark.guarantee("J7")
@pytest.mark.parametrize("seed", range(40))
def test_a_disk_that_fails_now_and_then_costs_no_more_than_the_budget_either(seed: int) -> None:
    files = SimulatedFiles(Random(seed))
    driven = opened(files)
    flaky(driven, files, Random(seed))
    for _ in range(3):
        driven.now += 1.1
        driven.run()
    assert sum(files.sizes().values()) <= SMALL
    assert len(driven.store(new_reading(999))) == 1


def test_the_newest_segment_stays_if_a_group_landed_there_though_it_was_empty() -> None:
    """It alone knows which numbers have been used: those before it are gone."""
    files = SimulatedFiles(Random(1))
    driven = opened(files)
    number = 0
    while len(segments(files)) < 2:  # the first one is full, and waits
        driven.store(new_reading(number, payload=bytes(900)), is_queued=True)
        number += 1
    driven.finish(*driven.store(new_reading(number)), *driven.read()[-1:])

    def fail() -> None:
        files.faults.write_fails = 1.0
        driven.journal.store(new_reading(number + 1), is_queued=True)
        driven.run_once()
        files.faults.write_fails = 0.0
        driven.now += 1.1

    driven.now += 5
    driven.run()  # all that is finished is durable there
    used = driven.journal._next
    fail()
    driven.run()
    assert driven.journal._segment_index.segments[-1].first >= used
    fail()
    for _ in range(3):
        driven.run_once()
        files.kill()
        driven = opened(files)
        assert driven.journal._next >= used


def test_of_segments_into_which_nothing_came_one_stays() -> None:
    files = SimulatedFiles(Random(1))
    driven = opened(files)
    files.trace = lambda call: files.faults.fail("sync_data" in call)
    driven.journal.store(new_reading(0), is_queued=True)
    driven.run_once()
    files.trace = None
    files.faults.fail(False)
    for _ in range(5):
        assert segments(files)
        driven.now += 1.1
        driven.run_once()
    assert len(driven.store(new_reading(1))) == 1


@pytest.mark.guarantee("J6")
def test_what_only_the_page_cache_has_of_the_last_but_one_segment_is_written_again() -> None:
    for seed in range(20):
        files = SimulatedFiles(Random(seed))
        driven = opened(files)
        driven.store(new_reading(6, qos=2))

        def fail_to_sync_data(call: str, files: SimulatedFiles = files) -> None:
            files.faults.sync_fails = 1.0 if "sync_data" in call else 0.0

        files.trace = fail_to_sync_data
        files.stop_in(1, "rename", before=False)
        driven.journal.release(ClientId("sensor-001"), 7)
        with pytest.raises(PowerCutError):
            driven.run()
        files.trace, files.faults.sync_fails = None, 0.0
        files.kill()
        unreleased = unreleased_in(opened(files))
        files.crash()
        assert unreleased_in(opened(files)) == unreleased


def unreleased_in(driven: Driven) -> list[tuple[int, int]]:
    return driven.recovered.exchanges[ClientId("sensor-001")].unreleased
