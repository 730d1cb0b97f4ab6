"""Readings that the broker is offered again."""

from __future__ import annotations

from math import inf

import pytest

from gateway.core.mqtt.inflight import InFlight
from gateway.core.uplink import deferred as module
from gateway.core.uplink.deferred import OFFER_AGAIN_S, Deferred
from tests.core.mqtt.broker_side import new_reading


def test_they_are_offered_before_all_others_in_their_order() -> None:
    in_flight = InFlight(10, 10_000)
    deferred = Deferred(in_flight)
    first, second = new_reading(b"1"), new_reading(b"2")
    assert deferred.offer_at == inf
    assert deferred.take(first, 5.0)
    assert deferred.take(second, 7.0)
    assert (len(deferred), deferred.offer_at) == (2, 5.0 + OFFER_AGAIN_S)
    deferred.offer()
    assert list(in_flight.waiting) == [first, second]
    assert (len(deferred), deferred.offer_at) == (0, inf)


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POSTPONED_MAX", 1)
    deferred = Deferred(InFlight(10, 10_000))
    assert deferred.take(new_reading(), 0.0)
    assert not deferred.take(new_reading(), 0.0)
    assert len(deferred) == 1
