"""When a reading that the broker has not settled goes to the journal as well."""

from math import inf

import pytest

from gateway.core.effects import ClientId, Forward
from gateway.core.uplink.spill import BUSY_FACTOR, GRAIN, Spilling, not_overtaken

AFTER_S = 0.05


def reading(received_at: float) -> Forward:
    return Forward(ClientId("s1"), "t", b"", 1, False, 1, 1, received_at)


def test_a_look_is_due_for_the_first_that_waits_and_for_none_at_rest() -> None:
    spilling = Spilling(AFTER_S)
    assert spilling.due_at == inf
    spilling.expect(1.0)
    spilling.expect(1.01)
    assert spilling.due_at == 1.0 + AFTER_S
    spilling.rest()
    assert spilling.due_at == inf


def test_a_broker_that_settles_nothing_has_its_time_for_each() -> None:
    spilling = Spilling(AFTER_S)
    first, second = reading(1.0), reading(1.03)
    assert spilling.take_due([first, second], 1.0 + AFTER_S) == [first]
    assert spilling.due_at == pytest.approx(1.03 + AFTER_S)
    assert spilling.take_due([second], spilling.due_at) == [second]
    assert spilling.due_at == inf


def test_a_broker_that_settles_others_has_more_time_until_it_falls_silent() -> None:
    spilling = Spilling(AFTER_S)
    waiting = [reading(1.0)]
    spilling.settled_at = 1.04
    assert spilling.take_due(waiting, 1.05) == []
    assert spilling.due_at == pytest.approx(1.04 + AFTER_S), "when it will have been silent"
    assert spilling.take_due(waiting, spilling.due_at) == waiting


def test_nobody_waits_for_ever_behind_others() -> None:
    spilling = Spilling(AFTER_S)
    waiting = [reading(1.0)]
    now = 1.0 + BUSY_FACTOR * AFTER_S
    spilling.settled_at = now - 0.002
    assert spilling.take_due(waiting, now - 0.001) == []
    spilling.settled_at = now - 0.001
    assert spilling.take_due(waiting, now) == waiting


def test_looks_are_few_however_many_wait() -> None:
    spilling = Spilling(AFTER_S)
    waiting = [reading(number * 0.0001) for number in range(1000)]
    spilling.expect(0.0)
    looks = 0
    while waiting:
        now = spilling.due_at
        late_s = now - waiting[0].received_at - AFTER_S
        assert -1e-9 <= late_s <= AFTER_S * GRAIN + 1e-9
        waiting = waiting[len(spilling.take_due(waiting, now)) :]
        looks += 1
    assert looks <= 12, "one for each hundredth of a second, in which a hundred came"


def test_what_a_younger_one_of_its_client_is_before_is_not_written() -> None:
    older, younger, youngest = (reading(float(position)) for position in range(3))
    for position, forward in enumerate((older, younger, youngest)):
        forward.epoch, forward.sequence = 1, position
    younger.record = 7
    held = [older, younger, youngest]
    assert not_overtaken([older, youngest], held, ()) == [youngest]
    assert not_overtaken([older, youngest], [older, youngest], ()) == [older, youngest]
    assert not_overtaken([older, youngest], held, {ClientId("s1")}) == []
    assert not_overtaken([older], held, {ClientId("s2")}) == []
