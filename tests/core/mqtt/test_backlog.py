"""Readings that wait in the journal: how many of whom, and those that were read back."""

from __future__ import annotations

import pytest

from gateway.core.mqtt import backlog as module
from gateway.core.mqtt.backlog import READY_MAX, Backlog
from gateway.core.state_records import ClientId
from gateway.core.values import Reading
from tests.core.mqtt.broker_side import new_reading

S1, S2 = ClientId("s1"), ClientId("s2")


def queued(backlog: Backlog, *readings: Reading, coalesce: bool = False) -> None:
    for reading in readings:
        backlog.enqueue(reading.client_id)
        backlog.queued(reading, coalesce=coalesce)


def numbered(sequence: int, *, client: str = "s1", retain: bool = True, epoch: int = 3) -> Reading:
    reading = new_reading(b"%d" % sequence, client=client, retain=retain)
    reading.sequence, reading.epoch = sequence, epoch
    return reading


def test_what_is_not_durable_yet_cannot_be_read_but_holds_its_client_back() -> None:
    backlog = Backlog()
    backlog.enqueue(S1)
    assert not backlog.wants_more
    assert backlog.of_clients == {S1: 1}
    backlog.queued(new_reading(), coalesce=False)
    assert backlog.wants_more
    assert len(backlog) == 1


def test_a_client_is_free_when_its_last_reading_has_gone_on() -> None:
    backlog = Backlog()
    readings = [new_reading(b"1"), new_reading(b"2"), new_reading(b"3", client="s2")]
    queued(backlog, *readings)
    backlog.is_reading = True
    backlog.read_back(readings)
    assert not backlog.is_reading
    assert not backlog.wants_more
    held = [(backlog.take().payload, dict(backlog.of_clients)) for _ in range(3)]
    assert held == [(b"1", {S1: 1, S2: 1}), (b"2", {S2: 1}), (b"3", {})]


def test_one_look_at_a_time_and_none_while_enough_is_ready() -> None:
    backlog = Backlog()
    backlog.restore({S1: 2 * READY_MAX})
    backlog.is_reading = True
    assert not backlog.wants_more
    backlog.read_back([new_reading() for _ in range(READY_MAX)])
    assert not backlog.wants_more
    backlog.take()
    assert backlog.wants_more
    assert len(backlog) == 2 * READY_MAX - 1


def test_a_journal_that_has_less_than_was_counted_sets_all_free() -> None:
    backlog = Backlog()
    backlog.restore({S1: 3})
    backlog.read_back([])
    assert not backlog.wants_more
    assert backlog.of_clients == {}


def test_nothing_is_set_free_while_something_is_ready_or_on_its_way_to_the_disk() -> None:
    backlog = Backlog()
    backlog.restore({S1: 2})
    backlog.read_back([new_reading()])
    backlog.read_back([])
    assert backlog.of_clients == {S1: 2}, "one of them is ready"
    backlog.take()
    backlog.enqueue(S2)
    backlog.read_back([])
    assert S2 in backlog.of_clients, "it is being written, and nothing of its client may pass it"
    backlog.queued(new_reading(client="s2"), coalesce=False)
    assert backlog.wants_more


def test_a_journal_that_brings_more_than_was_counted_counts_from_nothing() -> None:
    backlog = Backlog()
    backlog.restore({S1: 1})
    backlog.read_back([new_reading(), new_reading()])
    assert len(backlog) == 2
    queued(backlog, new_reading())
    assert len(backlog) == 3


def test_what_could_not_be_stored_waits_no_longer() -> None:
    backlog = Backlog()
    backlog.enqueue(S1)
    backlog.enqueue(S1)
    backlog.not_queued(S1)
    assert backlog.of_clients == {S1: 1}
    backlog.not_queued(S1)
    assert backlog.of_clients == {}


def test_what_the_journal_dropped_is_neither_read_nor_waited_for() -> None:
    backlog = Backlog()
    backlog.restore({S1: 3, S2: 1})
    backlog.drop(S1, 3)
    assert len(backlog) == 1
    assert backlog.of_clients == {S2: 1}
    backlog.drop(S2, 5)
    assert len(backlog) == 0


# Retained values that changed meanwhile


def test_only_the_newest_retained_value_of_a_topic_is_worth_sending() -> None:
    backlog = Backlog()
    old, new = numbered(1), numbered(2)
    queued(backlog, old, new, coalesce=True)
    assert backlog.is_outdated(old, epoch=3)
    assert not backlog.is_outdated(new, epoch=3)


def test_what_is_not_retained_or_of_a_former_life_or_not_to_be_coalesced_is_sent() -> None:
    backlog = Backlog()
    queued(backlog, numbered(5), coalesce=True)
    assert not backlog.is_outdated(numbered(1, retain=False), epoch=3)
    assert not backlog.is_outdated(numbered(1, epoch=2), epoch=3)
    backlog = Backlog()
    queued(backlog, numbered(5), coalesce=False)
    assert not backlog.is_outdated(numbered(1), epoch=3)


def test_newest_values_are_forgotten_when_nothing_is_parked_any_more() -> None:
    backlog = Backlog()
    queued(backlog, numbered(5), coalesce=True)
    backlog.unqueue(S1)
    assert not backlog.is_outdated(numbered(1), epoch=3)


def test_newest_values_are_kept_for_so_many_topics_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TOPICS_MAX", 1)
    backlog = Backlog()
    first, other = numbered(1), numbered(2)
    other.topic = "other"
    newer = [numbered(3), numbered(4)]
    newer[1].topic = "other"
    queued(backlog, first, other, *newer, coalesce=True)
    assert backlog.is_outdated(first, epoch=3)
    assert not backlog.is_outdated(other, epoch=3)
