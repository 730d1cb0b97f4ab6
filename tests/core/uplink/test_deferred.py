"""Readings that the broker is offered again."""

from __future__ import annotations

from math import inf

import pytest

from gateway.core.effects import Forward
from gateway.core.uplink import deferred as module
from gateway.core.uplink.deferred import OFFER_AGAIN_S, Postponed
from tests.core.mqtt.broker_side import reading


def test_they_are_offered_before_all_others_in_their_order() -> None:
    offered: list[Forward] = []
    postponed = Postponed(lambda forward: offered.insert(0, forward))
    first, second = reading(b"1"), reading(b"2")
    assert postponed.offer_at == inf
    assert postponed.take(first, 5.0)
    assert postponed.take(second, 7.0)
    assert (len(postponed), postponed.offer_at) == (2, 5.0 + OFFER_AGAIN_S)
    postponed.offer()
    assert offered == [first, second]
    assert (len(postponed), postponed.offer_at) == (0, inf)


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POSTPONED_MAX", 1)
    postponed = Postponed(lambda _forward: None)
    assert postponed.take(reading(), 0.0)
    assert not postponed.take(reading(), 0.0)
    assert len(postponed) == 1
