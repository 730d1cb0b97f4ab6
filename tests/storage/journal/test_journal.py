"""One life: storing, finishing, reading back; and what a start brings back of it."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from gateway.core.drop_reasons import Reason
from gateway.core.state_records import ClientId
from gateway.core.values import KeptRecords, contents_of
from gateway.storage.journal.numbers import JournalState
from gateway.storage.journal.options import JournalError, JournalOptions
from tests.storage.journal.support import (
    NEXT_BOOT,
    NOW,
    SMALL,
    UNIX_MS_AT_ZERO,
    Driven,
    FaultyFiles,
    new_reading,
    options,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def test_a_group_costs_one_write_and_one_fdatasync(folder: Path) -> None:
    files = FaultyFiles()
    driven = Driven(folder, files=files)
    files.calls.clear()
    driven.store(*(new_reading(position) for position in range(64)))
    assert files.calls == ["write", "sync_data"]


def test_numbers_are_contiguous_over_lives(folder: Path) -> None:
    for life in range(3):
        driven = Driven(folder)
        stored = driven.store(*(new_reading(position) for position in range(5)))
        assert [reading.record for reading in stored] == list(range(life * 5, life * 5 + 5))
        driven.stop()


def test_what_was_stored_comes_back_in_order_as_it_was(folder: Path) -> None:
    before = [new_reading(position, client=f"s{position % 3}") for position in range(600)]
    Driven(folder).store(*before)
    driven = Driven(folder)
    assert driven.recovered.queued == {"s0": 200, "s1": 200, "s2": 200}
    assert driven.recovered.last_packet_id == 600
    assert driven.recovered.report.waiting == 600
    after = driven.read()
    for old, new in zip(before, after, strict=True):
        assert new.machine_at == NOW
        new.machine_at = old.machine_at
        assert [getattr(new, field.name) for field in fields(new)] == [
            getattr(old, field.name) for field in fields(old)
        ]


def test_a_will_has_no_message_id_that_somebody_would_release(folder: Path) -> None:
    driven = Driven(folder)
    will = replace(new_reading(0, qos=2), message_id=0)
    driven.finish(*driven.store(will, new_reading(1, qos=2)))
    (exchanges,) = Driven(folder).recovered.exchanges.values()
    assert [message_id for message_id, _ in exchanges.unreleased] == [2]


def test_the_newest_packet_id_is_that_of_the_newest_reading_that_has_one(folder: Path) -> None:
    Driven(folder).store(new_reading(40), replace(new_reading(41, qos=0), packet_id=0, sequence=-1))
    assert Driven(folder).recovered.last_packet_id == 41


def test_a_reading_stored_late_does_not_take_the_newest_packet_id_back(
    folder: Path,
) -> None:
    Driven(folder).store(new_reading(64_998), new_reading(2), new_reading(64_999), new_reading(1))
    assert Driven(folder).recovered.last_packet_id == 3


def test_each_reading_is_read_back_once(folder: Path) -> None:
    driven = Driven(folder)
    queued, live = new_reading(0), new_reading(1)
    driven.store(queued, is_queued=True)
    driven.store(live)
    assert [reading.sequence for reading in driven.read()] == [0]
    assert driven.read() == []
    driven.store(new_reading(2), is_queued=True)
    assert [reading.sequence for reading in driven.read()] == [2]


def test_what_is_finished_does_not_come_back(folder: Path) -> None:
    driven = Driven(folder)
    stored = driven.store(*(new_reading(position) for position in range(10)))
    driven.finish(*stored[:4], *stored[6:8])
    assert driven.journal.numbers.depth == 4
    assert [reading.sequence for reading in Driven(folder).read()] == [4, 5, 8, 9]


def test_a_reading_finished_before_it_was_stored_does_not_come_back(folder: Path) -> None:
    driven = Driven(folder)
    early = new_reading(0)
    assert driven.journal.store(early, is_queued=False) is None
    driven.journal.finish(early)
    assert driven.run().stored == [early]
    assert driven.journal.numbers.depth == 0
    assert Driven(folder).recovered.report.waiting == 0


def test_a_run_is_finished_over_segments_and_into_what_is_not_stored_yet(folder: Path) -> None:
    driven = Driven(folder)
    stored = [one for start in range(0, 1000, 50)
              for one in driven.store(*(new_reading(start + n) for n in range(50)))]  # fmt: skip
    assert driven.journal.numbers.segments > 2
    early = [new_reading(1000), new_reading(1001)]
    for reading in early:
        assert driven.journal.store(reading, is_queued=True) is None
    driven.journal.finish(stored[500])
    driven.journal.finish_run(stored[1].record, 1000)  # to the first of those
    assert driven.journal.numbers.finished == 999, "one was before, one is not stored yet"
    assert driven.run().stored == early
    assert (driven.journal.numbers.depth, driven.journal.numbers.finished) == (2, 1000)
    again = Driven(folder)
    assert [reading.sequence for reading in again.read()] == [0, 1001]
    again.journal.finish_run(0, 0)
    assert again.journal.numbers.depth == 2


def test_finishing_alone_is_not_synced_until_some_time_has_passed(folder: Path) -> None:
    files = FaultyFiles()
    driven = Driven(folder, files=files)
    stored = driven.store(new_reading(0), new_reading(1))
    files.calls.clear()
    driven.finish(stored[0])
    assert files.calls == ["write"]
    wake_at = driven.journal.wake_at()
    assert wake_at == NOW + 2.0
    driven.now = wake_at
    driven.run()
    assert files.calls == ["write", "sync_data"]


def test_stopping_syncs_what_was_only_written(folder: Path) -> None:
    files = FaultyFiles()
    driven = Driven(folder, files=files)
    driven.finish(*driven.store(new_reading(0)))
    files.calls.clear()
    driven.run(is_stopping=True)
    assert files.calls == ["sync_data"]


def test_a_reading_that_the_broker_received_goes_to_the_core_at_once(folder: Path) -> None:
    driven = Driven(folder)
    first, second = driven.store(new_reading(0, qos=2), new_reading(1, qos=2))
    mark = driven.journal.receive(first)
    driven.run()
    assert driven.journal.durable_mark == mark
    again = Driven(folder)
    assert [reading.sequence for reading in again.recovered.received] == [0]
    assert [reading.sequence for reading in again.read()] == [1]
    again.finish(again.recovered.received[0])
    assert Driven(folder).recovered.received == []
    assert second.record == 1


def test_a_message_id_is_known_until_it_is_released(folder: Path) -> None:
    driven = Driven(folder)
    reading = new_reading(0, qos=2, received_at=NOW - 200)
    driven.finish(*driven.store(reading))
    contents = contents_of(reading.topic, reading.payload, 2)
    again = Driven(folder, now=NOW + 500)
    exchanges = again.recovered.exchanges[reading.client_id]
    assert exchanges.unreleased == [(reading.message_id, contents)]
    assert exchanges.recent == []
    mark = again.journal.release(reading.client_id, reading.message_id)
    again.run()
    assert again.journal.durable_mark == mark
    assert Driven(folder, now=NOW + 500).recovered.exchanges == {}


def test_a_message_id_used_again_is_that_of_the_newer_reading(folder: Path) -> None:
    driven = Driven(folder)
    old, new = new_reading(0, qos=2), new_reading(1, qos=2, payload=b"new")
    new.message_id = old.message_id
    driven.finish(*driven.store(old, new))
    for _ in range(2):
        exchanges = Driven(folder).recovered.exchanges[old.client_id]
        assert [contents for _, contents in exchanges.unreleased] == [
            contents_of(new.topic, new.payload, 2)
        ]


def test_marks_of_what_is_not_stored_are_nothing(folder: Path) -> None:
    driven = Driven(folder)
    journal = driven.journal
    assert journal.receive(new_reading(0, qos=2)) == 0
    assert journal.release(ClientId("nobody"), 7) == 0
    journal.finish(new_reading(0))
    assert not journal.has_pending


def test_recent_readings_are_known_as_copies_for_90_seconds(folder: Path) -> None:
    driven = Driven(folder)
    stored = driven.store(
        *(new_reading(position, received_at=NOW + position) for position in (0, 60))
    )
    driven.finish(*stored)
    driven.stop()
    contents = contents_of(stored[0].topic, stored[0].payload, 1)
    ((message_id, known, age),) = (
        Driven(folder, now=NOW + 100).recovered.exchanges[stored[0].client_id].recent
    )
    assert (message_id, known) == (61, contents)
    assert age == pytest.approx(40.0)


def test_after_a_reboot_age_is_told_by_the_wall_clock(folder: Path) -> None:
    Driven(folder).store(new_reading(0, received_at=NOW))
    later = UNIX_MS_AT_ZERO + NOW * 1000 + 60_000 - 5000  # a minute later, five seconds up
    (reading,) = Driven(folder, now=5.0, boot=NEXT_BOOT, unix_ms_at_zero=later).read()
    assert reading.received_at == pytest.approx(5.0 - 60.0)


@pytest.mark.parametrize("unix_ms_at_zero", [0.0, UNIX_MS_AT_ZERO - 1e9])
def test_after_a_reboot_without_a_clock_a_reading_is_as_new(
    folder: Path, unix_ms_at_zero: float
) -> None:
    Driven(folder).store(new_reading(0))
    driven = Driven(folder, now=5.0, boot=NEXT_BOOT, unix_ms_at_zero=unix_ms_at_zero)
    assert driven.read()[0].received_at == 5.0


def test_a_boot_in_the_middle_of_a_segment_is_noticed(folder: Path) -> None:
    Driven(folder).store(new_reading(0))
    unset = 0.0
    driven = Driven(folder, now=5.0, boot=NEXT_BOOT, unix_ms_at_zero=unset)
    driven.store(new_reading(1, received_at=4.0))
    again = Driven(folder, now=50.0, boot=NEXT_BOOT, unix_ms_at_zero=unset)
    assert [reading.received_at for reading in again.read()] == [50.0, 4.0]


def test_starting_again_and_again_takes_no_more_room(folder: Path) -> None:
    for life in range(20):
        Driven(folder).store(new_reading(life), is_queued=True)
    driven = Driven(folder)
    assert driven.journal.numbers.segments == 1
    assert len(driven.read()) == 20


def test_what_is_larger_than_a_segment_is_refused(folder: Path) -> None:
    driven = Driven(folder)
    huge = new_reading(0, payload=bytes(62_000))
    assert driven.journal.store(huge, is_queued=False) is Reason.PAYLOAD_TOO_LARGE
    assert huge.record == -1
    large = Driven(folder.parent / "large", JournalOptions())
    largest = new_reading(0, topic="t" * 65_535, payload=bytes(65_535))
    large.store(largest, is_queued=True)
    assert large.read()[0].payload == largest.payload


def test_too_much_at_once_is_refused(folder: Path) -> None:
    journal = Driven(folder, JournalOptions(pending_bytes_max=1000)).journal
    assert [journal.store(new_reading(n), is_queued=False) for n in range(6)] == [
        *[None] * 5,
        Reason.JOURNAL_FULL,
    ]


def test_drained_segments_are_used_again_and_given_back(folder: Path) -> None:
    driven = Driven(folder, options(SMALL, recent_s=0.0))
    made = 0
    for start in range(0, 6000, 50):
        stored = driven.store(*(new_reading(start + n) for n in range(50)))
        driven.finish(*stored)
        made = max(made, sum(1 for _ in folder.iterdir()))
    assert made <= 4
    assert driven.journal.numbers.depth == 0
    assert driven.journal.numbers.finished == 6000
    assert driven.journal.numbers.state is JournalState.OK


def test_drained_segments_are_kept_for_copies_within_their_share(folder: Path) -> None:
    driven = Driven(folder)
    for start in range(0, 2000, 50):
        driven.finish(*driven.store(*(new_reading(start + n) for n in range(50))))
    kept = driven.journal.numbers.segments
    assert 2 <= kept <= 4
    driven.now += 91
    driven.run()
    assert driven.journal.numbers.segments == 1


def test_the_oldest_unfinished_reading_is_told(folder: Path) -> None:
    driven = Driven(folder)
    assert driven.journal.numbers.oldest_received_at is None
    stored = driven.store(*(new_reading(n, received_at=NOW + n) for n in range(5)))
    driven.finish(stored[0], stored[2])
    numbers = driven.journal.numbers
    assert (numbers.oldest_received_at, numbers.depth) == (NOW + 1, 3)
    assert 0 < numbers.fill < 0.01


def test_a_budget_too_small_to_work_is_refused(folder: Path) -> None:
    with pytest.raises(JournalError, match="at least 262144"):
        Driven(folder, JournalOptions(size_max_bytes=100_000))


def test_a_file_in_place_of_the_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "journal").write_text("")
    with pytest.raises(JournalError, match="is not a folder"):
        Driven(tmp_path / "journal")


def test_what_is_not_ours_stays(folder: Path) -> None:
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "making").write_text("left by a crash")
    Driven(folder).store(new_reading(0))
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "making").exists()


def test_what_is_kept_waits_for_nobody_and_frees_nothing(folder: Path) -> None:
    driven = Driven(folder)
    first, second, third = driven.store(*(new_reading(position) for position in range(3)))
    driven.journal.keep(first.record)
    driven.journal.keep(first.record)
    numbers = driven.journal.numbers
    assert (numbers.depth, numbers.kept, numbers.fill > 0) == (2, 1, True)
    driven.finish(second, third)
    assert (driven.journal.numbers.depth, driven.journal.numbers.kept) == (0, 1)
    assert driven.journal.numbers.oldest_received_at is None
    driven.journal.finish_run(first.record, 1)
    assert (driven.journal.numbers.kept, driven.journal.numbers.fill) == (0, 0.0)
    driven.journal.keep(first.record)
    driven.journal.keep(1000)
    assert driven.journal.numbers.kept == 0, "what is finished, or not there, is not kept"


def test_the_oldest_that_waits_is_not_one_that_is_kept(folder: Path) -> None:
    driven = Driven(folder)
    old, new = driven.store(new_reading(0, received_at=NOW - 60), new_reading(1, received_at=NOW))
    assert driven.journal.numbers.oldest_received_at == NOW - 60
    driven.journal.keep(old.record)
    assert driven.journal.numbers.oldest_received_at == new.received_at


def test_what_was_kept_is_told_in_runs_and_not_read_back(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(*(new_reading(position) for position in range(10)))
    for record in (0, 1, 2, 5, 9):
        driven.journal.keep(record)
    driven.journal.finish_run(1, 1)
    driven.stop()
    driven = Driven(folder)
    assert driven.recovered.kept == [
        KeptRecords(epoch=3, first=first, record=first, count=count)
        for first, count in ((0, 1), (2, 1), (5, 1), (9, 1))
    ]
    assert (driven.recovered.report.waiting, driven.journal.numbers.kept) == (5, 4)
    assert [reading.sequence for reading in driven.read()] == [3, 4, 6, 7, 8]


def test_neighbours_that_were_kept_are_one_run(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(*(new_reading(position) for position in range(600)))
    for record in range(600):
        driven.journal.keep(record)
    driven.stop()
    runs = Driven(folder).recovered.kept
    assert sum(run.count for run in runs) == 600
    assert len(runs) <= len(list(folder.glob("*.segment"))), "one for each segment"


@pytest.mark.guarantee("8")
def test_what_is_kept_outlasts_the_segment_that_says_so(folder: Path) -> None:
    """Its mark is written again before the segment that has it goes."""
    driven = Driven(folder)
    kept = driven.store(new_reading(0, payload=b"k"))[0]
    others = 0
    driven.journal.keep(kept.record)
    for _ in range(40):
        driven.finish(*driven.store(*(new_reading(1 + others + each) for each in range(64))))
        others += 64
        driven.now += 200.0
    driven.stop()
    driven = Driven(folder, now=driven.now)
    assert driven.recovered.kept == [KeptRecords(3, 0, kept.record, 1)]
    assert driven.recovered.queued == {}


def test_kept_ones_are_read_again_whenever_they_are_asked_for(folder: Path) -> None:
    driven = Driven(folder)
    driven.store(*(new_reading(position) for position in range(600)), is_queued=True)
    driven.read()
    for _ in range(2):
        request = driven.journal.begin_again((3, 599, 7000), driven.now)
        assert [reading.sequence for reading in driven.journal.read(request)] == [3, 599]
