"""Mistakes about clients that sleep, and about the wills of those that are lost."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.effects import Send
from gateway.core.events import Output, PublishWill
from gateway.core.session import session as sessions
from gateway.core.session.outbound import Outbound
from gateway.core.session.outbox import Outbox, gone
from gateway.core.session.session import Session
from gateway.core.state_records import State
from gateway.core.uplink.pending_wills import PendingWills
from gateway.frames import Disconnect, Pingreq, Pingresp
from tests.simulation.downlink_watch import (
    ALL_ASKED_FOR,
    NOTHING_MISSED,
    ONE_AT_A_TIME,
    PINGRESP_LAST,
)
from tests.simulation.mutant import Mutant, constant
from tests.simulation.will_watch import WILLS


def pingresp_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = sessions._RECEIVERS[Pingreq]

    def mutant(self: Session, frame: Pingreq, now: float) -> list[Output]:
        effects = receive(self, frame, now)
        return [*effects, Send(self.peer, Pingresp())] if self.state is State.AWAKE else effects

    monkeypatch.setitem(sessions._RECEIVERS, Pingreq, mutant)


def drop_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    unanswered = Session._unanswered

    def mutant(self: Session, now: float) -> list[Output]:
        if self.state is not State.AWAKE:
            return unanswered(self, now)
        self.outbound.pause()
        dropped = self.outbound._finish(self.client_id, self.peer, now)
        return dropped + unanswered(self, now)

    monkeypatch.setattr(Session, "_unanswered", mutant)


def empty_when_sleep_is_declared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = sessions._RECEIVERS[Disconnect]

    def mutant(self: Session, frame: Disconnect, now: float) -> list[Output]:
        outbox = self.outbound._outbox
        effects: list[Output] = []
        if self.state is State.ASLEEP and outbox is not None:
            for queued in outbox.take_all():
                effects += gone(self.client_id, queued)
        return effects + receive(self, frame, now)

    monkeypatch.setitem(sessions._RECEIVERS, Disconnect, mutant)


def will_of_one_that_said_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    receive = sessions._RECEIVERS[Disconnect]

    def mutant(self: Session, frame: Disconnect, now: float) -> list[Output]:
        if frame.duration_s or self.will is None:
            return receive(self, frame, now)
        return [PublishWill(self.will.reading(self.client_id, now)), *receive(self, frame, now)]

    monkeypatch.setitem(sessions._RECEIVERS, Disconnect, mutant)


def forget_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Outbound.restore

    def mutant(self: Outbound, _saved: Any, *rest: Any) -> None:
        restore(self, [], *rest)

    monkeypatch.setattr(Outbound, "restore", mutant)


SLEEP_MUTANTS = (
    Mutant("PINGRESP before the last acknowledgement", pingresp_at_once, PINGRESP_LAST, 16),
    Mutant(
        "PINGRESP before all that waited when it was asked for",
        constant(Outbox, "owe_all", None),
        ALL_ASKED_FOR,
        within=64,
    ),
    Mutant(
        "what is not acknowledged while awake is dropped",
        drop_unanswered,
        ONE_AT_A_TIME,
        within=1000,
    ),
    Mutant(
        "DISCONNECT with a duration again empties what waits",
        empty_when_sleep_is_declared_again,
        NOTHING_MISSED,
        within=250,
    ),
    Mutant("what waits is forgotten at a restart", forget_what_waits, NOTHING_MISSED, 250),
    Mutant("DISCONNECT publishes the will", will_of_one_that_said_goodbye, WILLS, 250),
    Mutant(
        "a will that is due is forgotten at a restart",
        constant(PendingWills, "restore", None),
        WILLS,
        within=2000,
    ),
)
