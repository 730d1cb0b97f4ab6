"""When a reading that the broker has not settled goes to the journal as well."""

from math import inf

import pytest

from gateway.core.state_records import ClientId
from gateway.core.uplink.spill import BUSY_FACTOR, GRAIN, Spill, not_overtaken
from gateway.core.values import Reading

AFTER_S = 0.05


def new_reading(received_at: float) -> Reading:
    return Reading(ClientId("s1"), "t", b"", 1, False, 1, 1, received_at)


def test_a_look_is_due_for_the_first_that_waits_and_for_none_at_rest() -> None:
    spill = Spill(AFTER_S)
    assert spill.due_at == inf
    spill.expect(1.0)
    spill.expect(1.01)
    assert spill.due_at == 1.0 + AFTER_S
    spill.rest()
    assert spill.due_at == inf


def test_a_broker_that_settles_nothing_has_its_time_for_each() -> None:
    spill = Spill(AFTER_S)
    first, second = new_reading(1.0), new_reading(1.03)
    assert spill.take_due([first, second], 1.0 + AFTER_S) == [first]
    assert spill.due_at == pytest.approx(1.03 + AFTER_S)
    assert spill.take_due([second], spill.due_at) == [second]
    assert spill.due_at == inf


def test_a_broker_that_settles_others_has_more_time_until_it_falls_silent() -> None:
    spill = Spill(AFTER_S)
    waiting = [new_reading(1.0)]
    spill.settled_at = 1.04
    assert spill.take_due(waiting, 1.05) == []
    assert spill.due_at == pytest.approx(1.04 + AFTER_S), "when it will have been silent"
    assert spill.take_due(waiting, spill.due_at) == waiting


def test_nobody_waits_for_ever_behind_others() -> None:
    spill = Spill(AFTER_S)
    waiting = [new_reading(1.0)]
    now = 1.0 + BUSY_FACTOR * AFTER_S
    spill.settled_at = now - 0.002
    assert spill.take_due(waiting, now - 0.001) == []
    spill.settled_at = now - 0.001
    assert spill.take_due(waiting, now) == waiting


def test_looks_are_few_however_many_wait() -> None:
    spill = Spill(AFTER_S)
    waiting = [new_reading(number * 0.0001) for number in range(1000)]
    spill.expect(0.0)
    looks = 0
    while waiting:
        now = spill.due_at
        late_s = now - waiting[0].received_at - AFTER_S
        assert -1e-9 <= late_s <= AFTER_S * GRAIN + 1e-9
        waiting = waiting[len(spill.take_due(waiting, now)) :]
        looks += 1
    assert looks <= 12, "one for each hundredth of a second, in which a hundred came"


def test_what_a_younger_one_of_its_client_is_before_is_not_written() -> None:
    older, younger, youngest = (new_reading(float(position)) for position in range(3))
    for position, reading in enumerate((older, younger, youngest)):
        reading.epoch, reading.sequence = 1, position
    younger.record = 7
    held = [older, younger, youngest]
    assert not_overtaken([older, youngest], held, ()) == [youngest]
    assert not_overtaken([older, youngest], [older, youngest], ()) == [older, youngest]
    assert not_overtaken([older, youngest], held, {ClientId("s1")}) == []
    assert not_overtaken([older], held, {ClientId("s2")}) == []
