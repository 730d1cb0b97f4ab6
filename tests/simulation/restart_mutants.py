"""Mistakes about what must be durable, and about what a new life must know of the one before."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from gateway.core.downlink.downlink import Downlink
from gateway.core.downlink.subscriptions import Subscriptions
from gateway.core.effects import (
    Arrived,
    Finish,
    Forward,
    Send,
    Store,
    Transmit,
)
from gateway.core.engine import Engine
from gateway.core.mqtt.backlog import Backlog
from gateway.core.mqtt.publisher import Readings
from gateway.core.session.inbound import Publishing
from gateway.core.session.outbound import Delivering
from gateway.core.session.persistence import LastingSession
from gateway.core.session.session import Session
from gateway.core.session.topic_registry import TopicRegistry
from gateway.core.state_records import State
from gateway.core.uplink import uplink
from gateway.core.uplink.uplink import Uplink, _Way
from gateway.frames import Pubrel
from gateway.storage.state.store import StateStore
from tests.simulation import world_rules
from tests.simulation.downlink_watch import NOTHING_MISSED
from tests.simulation.downlink_watch import ONCE as COMMANDS_ONCE
from tests.simulation.mutant import Mutant, constant
from tests.simulation.watch import IN_ORDER, ONCE, SAFE
from tests.simulation.will_watch import WILLS


def acknowledge_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    store_first = Uplink._store_first

    def mutant(self: Uplink, forward: Forward, now: float) -> Any:
        effects = store_first(self, forward, now)
        session = self._sessions.get(forward.client_id)
        return effects + ([] if session is None else session.settled(forward))

    monkeypatch.setattr(Uplink, "_store_first", mutant)


def send_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    store_first = Uplink._store_first

    def mutant(self: Uplink, forward: Forward, now: float) -> Any:
        effects = store_first(self, forward, now)
        if self.storing.get(forward) is not _Way.PASS_ON:
            return effects
        self._let_follow(forward, 0.0)
        self.storing[forward] = _Way.SPILLED
        return [Store(forward), *self._pass_on(forward, 0.0)]

    monkeypatch.setattr(Uplink, "_store_first", mutant)


def finish_when_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Uplink.stored

    def mutant(self: Uplink, forwards: list[Forward], now: float) -> Any:
        return stored(self, forwards, now) + [Finish(forward) for forward in forwards]

    monkeypatch.setattr(Uplink, "stored", mutant)


def release_before_record(monkeypatch: pytest.MonkeyPatch) -> None:
    record_received = Readings._record_received

    def mutant(self: Readings, packet_id: int, forward: Forward) -> Any:
        effects = record_received(self, packet_id, forward)
        self.in_flight.release(packet_id)
        return [*effects, Transmit(mqtt5.PubRelPacket(packet_id).write())]

    monkeypatch.setattr(Readings, "_record_received", mutant)
    monkeypatch.setattr(Readings, "recorded", lambda *_: [])


def hand_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: Downlink, arrived: Arrived, _now: float) -> Any:
        arrived.copies = 0
        return self._upstream.acknowledge(arrived)

    monkeypatch.setattr(Downlink, "_hand_back", mutant)


def release_sensor_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    receive_pubrec = Delivering.receive_pubrec

    def mutant(self: Delivering, message_id: int, client_id: Any, peer: Any, *given: Any) -> Any:
        effects = receive_pubrec(self, message_id, client_id, peer, *given)
        return [Send(peer, Pubrel(message_id)), *effects]

    monkeypatch.setattr(Delivering, "receive_pubrec", mutant)


def other_message_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Delivering.restore

    def mutant(self: Delivering, *given: Any) -> None:
        restore(self, *given)
        if self.under_way is not None:
            self.under_way.message_id = self.under_way.message_id % 60_000 + 77

    monkeypatch.setattr(Delivering, "restore", mutant)


def topic_ids_of_the_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_rules, "first_topic_id", lambda _: 1)
    monkeypatch.setattr(TopicRegistry, "restore", lambda *_: None)


def forget_will(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = LastingSession.restore

    def mutant(self: LastingSession, *given: Any, **named: Any) -> None:
        restore(self, *given, **named)
        self._testament = None

    monkeypatch.setattr(LastingSession, "restore", mutant)


def forget_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    changed_row = LastingSession._changed_row

    def mutant(self: LastingSession, *given: Any) -> Any:
        return [] if self.state is State.DISCONNECTED else changed_row(self, *given)

    monkeypatch.setattr(LastingSession, "_changed_row", mutant)


def spill_behind_younger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplink, "not_overtaken", lambda due, *_: list(due))


RESTART_MUTANTS = (
    Mutant("acknowledged before the group is durable", acknowledge_before_durable, SAFE, 8),
    Mutant("finished in the journal before it is settled", finish_when_stored, SAFE, 64),
    Mutant(
        "what is parked is forgotten at a restart",
        constant(Backlog, "restore", None),
        SAFE,
        within=64,
    ),
    Mutant("QoS 2 is sent to the broker before it is durable", send_before_durable, ONCE, 500),
    Mutant("PUBREL to the broker before the record of PUBREC", release_before_record, ONCE, 2000),
    Mutant(
        "the receive set is forgotten at a restart",
        constant(Publishing, "restore", None),
        ONCE,
        within=250,
    ),
    Mutant(
        "CONNECT is not on record before it is sent",
        constant(Readings, "may_be_on_record", False),
        SAFE,
        within=500,
        kind="forgetful",
    ),
    Mutant(
        "a reading that may be on the disk goes on at once",
        constant(Uplink, "_hold", False),
        ONCE,
        within=1000,
        kind="failing",
    ),
    Mutant("the epoch is not raised", constant(StateStore, "raise_epoch", 1), ONCE, 250),
    Mutant("topic ids begin again in each life", topic_ids_of_the_life, ONCE, 1000),
    Mutant(
        "what a client left behind is written behind a younger one",
        spill_behind_younger,
        IN_ORDER,
        within=250,
        kind="slow",
    ),
    Mutant(
        "what is stored leaves older ones of its client behind",
        constant(Session, "unsettled_but", ()),
        IN_ORDER,
        within=250,
        kind="eager",
    ),
    Mutant(
        "live readings overtake parked ones", constant(Uplink, "_is_behind", False), IN_ORDER, 250
    ),
    Mutant(
        "the broker hears that a message is in good hands before it is saved",
        hand_back_at_once,
        NOTHING_MISSED,
        within=1000,
    ),
    Mutant(
        "subscriptions are forgotten at a restart",
        constant(Subscriptions, "restore", None),
        NOTHING_MISSED,
        within=64,
    ),
    Mutant(
        "sessions are forgotten at a restart", constant(Engine, "restore", []), NOTHING_MISSED, 64
    ),
    Mutant("PUBREL to a sensor before that is saved", release_sensor_at_once, COMMANDS_ONCE, 2000),
    Mutant("other message ids in the next life", other_message_ids, COMMANDS_ONCE, 1000),
    Mutant("wills are forgotten at a restart", forget_will, WILLS, 100),
    Mutant("a goodbye is not saved", forget_goodbye, WILLS, 1000),
)
