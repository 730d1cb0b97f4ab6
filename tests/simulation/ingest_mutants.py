"""Mistakes in keeping readings until they are ingested, and the promise that each breaks."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.core.effects import Finish, FinishRun
from gateway.core.uplink.custody.custody import Custody
from gateway.core.uplink.custody.kept import Run
from gateway.core.values import Reading
from gateway.storage.journal.journal import Journal
from tests.simulation.model_ingest import INGESTED
from tests.simulation.mutant import Mutant, constant


def finish_when_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(_self: Custody, reading: Reading, _now: float) -> Any:
        return [Finish(reading)] if reading.record >= 0 else []

    monkeypatch.setattr(Custody, "acknowledged", mutant)


def forget_over_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(_self: Custody, runs: Any, _now: float) -> Any:
        return [FinishRun(run.record, run.count) for run in runs]

    monkeypatch.setattr(Custody, "restore", mutant)


def finish_what_goes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    read_again = Custody.read_again

    def mutant(self: Custody, readings: Any, now: float) -> Any:
        going, effects = read_again(self, readings, now)
        return going, [*effects, *(Finish(each) for each in going)]

    monkeypatch.setattr(Custody, "read_again", mutant)


def keep_one_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    finish_run = Journal.finish_run

    def mutant(self: Journal, first: int, count: int) -> None:
        finish_run(self, first, count + 1)

    monkeypatch.setattr(Journal, "finish_run", mutant)


def never_miss_what_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    is_overdue = Custody._is_overdue

    def mutant(self: Custody, run: Run, now: float) -> bool:
        return run.taken_at >= self._lost_at and is_overdue(self, run, now)

    monkeypatch.setattr(Custody, "_is_overdue", mutant)


INGEST_MUTANTS = (
    Mutant("what the broker has taken is finished", finish_when_settled, INGESTED, 8, "losing"),
    Mutant("kept readings end with a restart", forget_over_restarts, INGESTED, 250, "losing"),
    Mutant("what is sent again is finished", finish_what_goes_again, INGESTED, 250, "losing"),
    Mutant("a receipt ends one reading too many", keep_one_too_few, INGESTED, 64, "losing"),
    Mutant("nothing is sent again", constant(Custody, "_is_overdue", False), INGESTED, 8, "losing"),
    Mutant(
        "what a broker lost with its sessions is not missed",
        never_miss_what_was_lost,
        INGESTED,
        64,
        "losing",
    ),
)
