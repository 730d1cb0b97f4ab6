"""Mistakes about who is believed."""

from __future__ import annotations

import pytest

from gateway.core.acceptor import Acceptor
from gateway.core.clients.contests import Contest, Contests
from gateway.core.events import Output
from gateway.core.session.session import Session
from tests.simulation.downlink_watch import NOTHING_MISSED
from tests.simulation.mutant import Mutant


def end_the_former_session(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Acceptor._begin_anew

    def mutant(
        self: Acceptor, former: Session, before: Contest | None, *, takes_over: bool
    ) -> tuple[list[Output], Session]:
        return begin(self, former, before, takes_over=True)

    monkeypatch.setattr(Acceptor, "_begin_anew", mutant)


def believe_any_id(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Contests.judge

    def mutant(self: Contests, contest: Contest, answers: bool | None, now: float) -> bool:
        return judge(self, contest, None if answers is None else True, now)

    monkeypatch.setattr(Contests, "judge", mutant)


ATTACK_MUTANTS = (
    Mutant(
        "a clean CONNECT from anywhere ends the session",
        end_the_former_session,
        NOTHING_MISSED,
        within=64,
        kind="attacked",
    ),
    Mutant(
        "any message id is the right one",
        believe_any_id,
        NOTHING_MISSED,
        within=250,
        kind="attacked",
    ),
)
