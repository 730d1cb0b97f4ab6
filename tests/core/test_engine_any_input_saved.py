"""Any input, a disk that is slow at times, and power that goes: what is durable is what there is
once the disk has caught up, and a new life begins with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.core.session.client_queue import POSITIONS_BLOCK
from gateway.core.session.session import Session
from gateway.core.state_records import ClientId, RetainedRecord, State, StateRecords
from gateway.core.values import Publication
from tests.core.test_engine_any_input import RULES, STEPS, World
from tests.support.samples import named, seeds
from tests.support.state_bench import StateBench

WORLDS, WORLDS_SOAKED = 30, 1000
SAVED_AS = {State.AWAKE: State.ASLEEP}


class SavedWorld(World):
    def __init__(self, seed: int) -> None:
        self.store = StateBench(replace(RULES, saves=True), connected=False)
        super().__init__(seed, self.store)
        self.steps |= {self.hold_disk: 4, self.let_disk_go: 6, self.cut_power: 2}

    def hold_disk(self) -> None:
        self.store.holds_disk = True

    def let_disk_go(self) -> None:
        self.store.let_disk_go()

    def cut_power(self) -> None:
        """What the broker has of us stays, and is asked for again in the next connection."""
        self.store.restart(connected=False)

    def check(self) -> None:
        super().check()
        if not (self.store.rows.pending or self.store.rows.waiting):
            self.check_rows(self.store.rows.state())

    def check_rows(self, saved: StateRecords) -> None:
        engine = self.bench.engine
        everyone = engine.sessions | engine.client_table.formers
        known = {key: one for key, one in everyone.items() if one._row is not None}
        assert {client.session.client_id for client in saved.clients} == known.keys()
        for client in saved.clients:
            session = known[client.session.client_id]
            assert session.held == ()
            self.check_session(session, saved)
            outbound = session.outbound
            queued = [*outbound._outbox._queue] if outbound._outbox is not None else []
            waiting = [each for each in (outbound.outstanding, *queued) if each is not None]
            saved_ones = [row.position for row in client.messages]
            unsaved = [each.position for each in waiting if is_unsaved(session, each.publication)]
            assert [*saved_ones, *unsaved] == [
                each.position for each in waiting if each.message.qos
            ]
            assert client.session.next_position + 2 * POSITIONS_BLOCK > outbound.next_position
            assert [(row.topic_id, row.name) for row in client.topics] == [
                (topic.topic_id, topic.name) for topic in session._topics._topics
            ]
            assert {
                row.topic_filter: row.qos for row in client.subscriptions
            } == session._subscribing.filters
        retained = engine.downlink.retained
        kept = [each for part in ("#", "$s") for each in retained.matching(part, 0, 0.0)]
        exact = [each for part in ("#", "$s") for each in retained.matching(part, 3, 0.0)]  # > 2
        assert {row.topic: row for row in saved.retained} == {
            each.topic: RetainedRecord(each.topic, each.payload, each.qos, each in exact)
            for each in kept
        }
        unreleased = engine.upstream._receiver._unreleased
        assert {row.packet_id: row for row in saved.packets} == unreleased
        assert set(saved.filters) == engine.upstream.subscriptions._saved.keys()
        assert engine.upstream.subscriptions._wanted.keys() <= set(saved.filters) or (
            not self.is_up() or engine.upstream.caution.is_on
        )

    def check_session(self, session: Session, saved: StateRecords) -> None:
        if session.state is State.CONNECTING:
            return  # saved when it is admitted, or when it leaves
        (row,) = [
            each.session for each in saved.clients if each.session.client_id == self.id_of(session)
        ]
        assert row.state is SAVED_AS.get(session.state, session.state)
        assert (row.clean, row.will) == (session.clean, session.will and session.will.row)
        if session.peer.link >= 0:
            assert row.address == session.peer.address

    def id_of(self, session: Session) -> ClientId:
        return session.client_id

    def is_up(self) -> bool:
        return self.bench.engine.upstream.subscriptions.is_open


def is_unsaved(session: Session, arrived: Publication | None) -> bool:
    return arrived is not None and session.client_id in (arrived.unsaved or {})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("some", seeds(WORLDS, WORLDS_SOAKED, each=10))
def test_what_is_durable_is_what_there_is(some: range) -> None:
    for seed in some:
        with named(seed=seed):
            world = SavedWorld(seed)
            for _ in range(STEPS):
                world.step()
                world.check()
