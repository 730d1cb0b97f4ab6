"""Mistakes about time in which the gateway was not there, and about clocks that jump."""

from __future__ import annotations

from math import inf
from typing import Any

import pytest

from gateway.core import process_pauses
from gateway.core.engine import Engine
from gateway.core.process_pauses import ProcessPauses
from gateway.storage.journal import reading, recovery
from gateway.storage.journal.journal import Journal
from tests.simulation.late_loop import LateLoop
from tests.simulation.lateness import NOT_THERE
from tests.simulation.mutant import Mutant, constant
from tests.simulation.watch import SAFE


def time_of_the_core_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so in what another run reads, whose clock has left out nothing."""
    monkeypatch.setattr(Journal, "end_again", lambda _journal, readings: readings)


def stamps_by_the_clock_of_the_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProcessPauses, "machine_time", lambda _clock, core_at: core_at)


def timers_before_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the clock goes on: what a gateway does that knows nothing of all this."""
    monkeypatch.setattr(process_pauses, "LATE_S", inf)
    monkeypatch.setattr(LateLoop, "is_reading", property(lambda _: False, lambda *_: None),
                        raising=False)  # fmt: skip


def monotonic_age_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    received_at = reading.received_at

    def mutant(*given: Any, is_same_boot: bool) -> float:
        if is_same_boot:
            return min(float(given[0]), float(given[2]))
        return received_at(*given, is_same_boot=False)

    for module in (reading, recovery):
        monkeypatch.setattr(module, "received_at", mutant)


LATE_MUTANTS = (
    Mutant(
        "the clock of the core does not leave out pauses",
        constant(process_pauses, "LATE_S", inf),
        NOT_THERE,
        within=64,
        kind="late",
    ),
    Mutant(
        "timers run before what waits in the sockets",
        timers_before_sockets,
        NOT_THERE,
        within=64,
        kind="late",
    ),
    Mutant(
        "clients do not have their full time again after a pause",
        constant(Engine, "paused", ()),
        NOT_THERE,
        within=1000,
        kind="late",
    ),
    Mutant(
        "time stamps by the clock of the core",
        stamps_by_the_clock_of_the_core,
        NOT_THERE,
        within=64,
        kind="late",
    ),
    Mutant(
        "in the same boot the monotonic clock alone tells an age",
        monotonic_age_alone,
        SAFE,
        within=250,
        kind="late",
    ),
    Mutant(
        "what is read back has the time of the machine",
        time_of_the_core_in_files,
        NOT_THERE,
        within=1000,
        kind="late",
    ),
)
