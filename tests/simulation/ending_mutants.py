"""Mistakes about what the broker does not take: how its cause is found, and what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.effects import Finish
from gateway.core.events import Output
from gateway.core.mqtt.caution import Caution
from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.subscriber import Subscriber
from gateway.core.uplink.aside import Aside
from gateway.core.uplink.uplink import Uplink
from gateway.core.values import Reading
from tests.simulation.ending_watch import ENDINGS
from tests.simulation.liveness import LIVENESS
from tests.simulation.mutant import Mutant, constant
from tests.simulation.watch import IN_ORDER, SAFE


def not_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Caution, "goes_alone", lambda *_: False)
    monkeypatch.setattr(Caution, "is_suspect", lambda *_: False)


def no_strikes_over_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Caution.opened

    def mutant(self: Caution, now: float, **named: Any) -> None:
        self.suspects.clear()
        opened(self, now, **named)

    monkeypatch.setattr(Caution, "opened", mutant)


def forget_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    set_aside = Uplink._set_aside

    def mutant(self: Uplink, reading: Reading, reason: str) -> list[Output]:
        finished = [Finish(reading)] if reading.record >= 0 else []
        return [*finished, *set_aside(self, reading, reason)]

    monkeypatch.setattr(Uplink, "_set_aside", mutant)


def blocked_filters_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subscriber, "_refuse_blocked", lambda _: [])


def behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: InFlight) -> None:
        self.waiting += self.over_quota
        self.over_quota.clear()

    monkeypatch.setattr(InFlight, "end_quota_wait", mutant)


ENDING_MUTANTS = (
    Mutant("what may be the cause goes with others", not_alone, SAFE, 64, "ending"),
    Mutant("each connection begins the search", no_strikes_over_connections, ENDINGS, 64, "ending"),
    Mutant(
        "the journal forgets what is not durable aside", forget_before_durable, SAFE, 1000, "ending"
    ),
    Mutant(
        "what is set aside is forgotten at a restart",
        constant(Aside, "restore", None),
        ENDINGS,
        64,
        "ending",
    ),
    Mutant(
        "a blocked filter is asked for again",
        blocked_filters_again,
        ENDINGS,
        250,
        "ending",
    ),
    Mutant(
        "a filter does not get its turn alone",
        constant(Subscriber, "ask_alone", []),
        LIVENESS,
        64,
        "ending",
    ),
    Mutant(
        "a suspect is not tried again",
        constant(InFlight, "take_held", None),
        LIVENESS,
        64,
        "ending",
    ),
    Mutant("over quota, readings go to the end", behind_the_others, IN_ORDER, 1000, "ending"),
)
