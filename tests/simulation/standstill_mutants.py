"""Mistakes by which something stands still: a lost wake-up, a timer that is not set again, an
answer that never comes. Nothing is lost by them at once, and a sensor that connects again may hide
them; promise 9 sees each.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest

from gateway.core import durability_gate
from gateway.core.clients.client_table import ClientTable
from gateway.core.downlink.downlink import Downlink
from gateway.core.effects import Durable, Effect, ReleaseRecorded
from gateway.core.engine import Engine
from gateway.core.events import Output
from gateway.core.mqtt.backlog import Backlog
from gateway.core.mqtt.inflight import InFlight
from gateway.core.mqtt.qos_order import QosOrder
from gateway.core.session.lifecycle import SessionLifecycle
from gateway.core.session.outbound import Outbound
from gateway.core.session.outbox import Stage
from gateway.core.session.session import Session
from gateway.core.state_records import State
from gateway.core.uplink.indeterminate_writes import IndeterminateWrites
from gateway.core.uplink.pending_wills import PendingWills
from gateway.core.uplink.uplink import Uplink
from gateway.core.values import Reading
from gateway.storage.journal import journal as journals
from gateway.storage.journal.commit_group import CommitGroup
from gateway.storage.journal.committer import JournalCommitter
from gateway.storage.journal.segment_choice import place, size_of
from gateway.storage.journal.segment_files import SegmentFiles
from gateway.storage.journal.space import Space
from gateway.storage.state.committer import StateCommitter
from tests.simulation.liveness import LIVENESS
from tests.simulation.mutant import Mutant, Patch, constant
from tests.simulation.watch import SAFE

EACH = 5  # of so many calls one goes wrong


def now_and_then(owner: Any, name: str, result: Any = None) -> Patch:
    """One call in EACH does nothing."""

    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        proper, calls = getattr(owner, name), 0

        def mutant(*given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            return proper(*given, **named) if calls % EACH else result

        monkeypatch.setattr(owner, name, mutant)

    return patch


def slot_not_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledge = InFlight.acknowledge

    def mutant(self: InFlight, packet_ids: Any) -> list[Reading]:
        before = dict(self.published)
        readings = acknowledge(self, packet_ids)
        self.published = before
        return readings

    monkeypatch.setattr(InFlight, "acknowledge", mutant)


def timer_not_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    due = ClientTable.due

    def mutant(self: ClientTable, now: float) -> Any:
        for session in due(self, now):
            yield session
            session.scheduled_at = now  # as if one was set already

    monkeypatch.setattr(ClientTable, "due", mutant)


def commit_sets_no_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    land = StateCommitter._land

    def mutant(self: StateCommitter, flight: Any) -> None:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(StateCommitter, "_set_alarm", lambda _: None)
            land(self, flight)

    monkeypatch.setattr(StateCommitter, "_land", mutant)


def outbox_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Outbound._finish

    def mutant(self: Outbound, *given: Any) -> list[Output]:
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(Outbound, "_next", lambda *_: [])
            return finish(self, *given)

    monkeypatch.setattr(Outbound, "_finish", mutant)


def backlog_always_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    read_back = Backlog.read_back

    def mutant(self: Backlog, readings: list[Reading]) -> None:
        read_back(self, readings)
        self.is_reading = bool(readings)

    monkeypatch.setattr(Backlog, "read_back", mutant)


def not_repeated(stage: Stage) -> Patch:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        retry = Outbound.retry

        def mutant(self: Outbound, *given: Any) -> list[Output] | None:
            effects = retry(self, *given)
            current = self.outstanding
            return [] if current is not None and current.stage is stage else effects

        monkeypatch.setattr(Outbound, "retry", mutant)

    return patch


def awake_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    until_drained = SessionLifecycle._until_drained

    def mutant(self: SessionLifecycle, effects: list[Output], now: float) -> list[Output]:
        return effects if self.state is State.AWAKE else until_drained(self, effects, now)

    monkeypatch.setattr(SessionLifecycle, "_until_drained", mutant)


def released_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    durable = Engine._durable

    def mutant(self: Engine, output: Durable, now: float) -> list[Effect]:
        return [] if type(output) is ReleaseRecorded else durable(self, output, now)

    monkeypatch.setattr(Engine, "_durable", mutant)


def pubrec_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    durable = Engine.durable

    def mutant(self: Engine, then: Sequence[Durable], now: float) -> list[Effect]:
        return durable(self, then[:1], now)

    monkeypatch.setattr(Engine, "durable", mutant)


def not_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: IndeterminateWrites, now: float) -> list[Reading]:
        if now >= self.store_at:
            self.store_at = inf
        return []

    monkeypatch.setattr(IndeterminateWrites, "due", mutant)


def small_spare_in_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: a group is made so small that the smallest spare would take it, too, and is empty
    where that takes no reading at all.
    """

    def mutant(group: CommitGroup, waiting: Any, current: Any, room: Space) -> None:
        sizes = [room.group_bytes_max(spare.size) for spare in room.spares]
        is_stuck = bool(waiting) and min(sizes, default=inf) < size_of(waiting[0])
        place(group, [] if is_stuck else waiting, current, room)

    monkeypatch.setattr(journals, "place", mutant)


def files_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentFiles, "_check_place", lambda *_: None)
    monkeypatch.setattr(SegmentFiles, "_check_folder", lambda *_: None)


STANDSTILL_MUTANTS = (
    Mutant(
        "a group of the journal whose end nobody hears of",
        now_and_then(JournalCommitter, "_end_group"),
        LIVENESS,
        within=32,
    ),
    Mutant(
        "a group of the journal that nobody begins while one is under way",
        constant(JournalCommitter, "_go_on", None),
        LIVENESS,
        within=32,
    ),
    Mutant(
        "a spare segment that is too small is taken into service",
        small_spare_in_service,
        LIVENESS,
        within=32,
        kind="resized",
    ),
    Mutant(
        "files that are gone are written to",
        files_not_checked,
        SAFE,
        within=64,
        kind="taken",
    ),
    Mutant(
        "nobody looks whether files are gone",
        constant(SegmentFiles, "look", None),
        LIVENESS,
        within=250,
        kind="taken",
    ),
    Mutant("the backlog is asked for once", backlog_always_reads, LIVENESS, within=64),
    Mutant(
        "of what waits for one record the first goes on", pubrec_not_recorded, LIVENESS, within=64
    ),
    Mutant("a place in the broker's window is not freed", slot_not_freed, LIVENESS, within=8),
    Mutant(
        "what waited for a QoS 2 reading waits on",
        constant(QosOrder, "next_free", None),
        LIVENESS,
        within=64,
    ),
    Mutant(
        "a connection that takes bytes again stays congested",
        constant(Engine, "uncongested", ()),
        LIVENESS,
        within=64,
    ),
    Mutant(
        "QoS 0 behind a reading that is stored stays there",
        constant(Uplink, "_let_follow", []),
        LIVENESS,
        within=64,
    ),
    Mutant(
        "what a failed write has left is not stored again",
        not_stored_again,
        LIVENESS,
        within=64,
        kind="failing",
    ),
    Mutant("a timer that rang is not set again", timer_not_set_again, LIVENESS, within=8),
    Mutant(
        "a session whose timer is not set now and then",
        now_and_then(ClientTable, "schedule"),
        LIVENESS,
        within=8,
    ),
    Mutant("the outbox ends with an acknowledgement", outbox_stops, LIVENESS, within=32),
    Mutant("REGISTER is not repeated", not_repeated(Stage.REGACK), LIVENESS, within=64),
    Mutant("PUBREL is not repeated", not_repeated(Stage.PUBCOMP), LIVENESS, within=250),
    Mutant(
        "a commit of the state sets no timer for the next",
        commit_sets_no_alarm,
        LIVENESS,
        within=64,
    ),
    Mutant(
        "what waited for the state is not sent",
        constant(durability_gate, "let_go", []),
        LIVENESS,
        8,
    ),
    Mutant(
        "WILLMSGREQ is not sent",
        constant(Session, "_receive_will_topic", []),
        LIVENESS,
        within=8,
    ),
    Mutant(
        "SUBACK does not follow the broker's grant", constant(Downlink, "granted", []), LIVENESS, 8
    ),
    Mutant(
        "a will that nobody takes is given up",
        constant(PendingWills, "refused", []),
        LIVENESS,
        within=250,
        kind="dying",
    ),
    Mutant("PUBCOMP to a sensor is forgotten", released_unanswered, LIVENESS, within=8),
    Mutant("PINGRESP to one that is awake is forgotten", awake_without_end, LIVENESS, within=32),
)
