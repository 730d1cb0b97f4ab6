"""Mistakes about what must be durable, and about what a new life must know of the one before."""

from __future__ import annotations

from typing import Any

import mqtt5
import pytest

from gateway.core.downlink.downlink import Downlink
from gateway.core.downlink.subscriptions import Subscriptions
from gateway.core.effects import Finish, Send, Store, Transmit
from gateway.core.engine import Engine
from gateway.core.mqtt.backlog import Backlog
from gateway.core.mqtt.publisher import Publisher
from gateway.core.session.inbound import Inbound
from gateway.core.session.lifecycle import SessionLifecycle
from gateway.core.session.outbound import Outbound
from gateway.core.session.session import Session
from gateway.core.session.topic_registry import TopicRegistry
from gateway.core.state_records import State
from gateway.core.uplink import uplink
from gateway.core.uplink.uplink import Uplink, _Way
from gateway.core.values import Publication, Reading
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

    def mutant(self: Uplink, reading: Reading, now: float) -> Any:
        effects = store_first(self, reading, now)
        session = self._sessions.get(reading.client_id)
        return effects + ([] if session is None else session.acknowledged(reading))

    monkeypatch.setattr(Uplink, "_store_first", mutant)


def send_before_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    store_first = Uplink._store_first

    def mutant(self: Uplink, reading: Reading, now: float) -> Any:
        effects = store_first(self, reading, now)
        if self.storing.get(reading) is not _Way.PASS_ON:
            return effects
        self._let_follow(reading, 0.0)
        self.storing[reading] = _Way.SPILLED
        return [Store(reading), *self._pass_on(reading, 0.0)]

    monkeypatch.setattr(Uplink, "_store_first", mutant)


def finish_when_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = Uplink.stored

    def mutant(self: Uplink, readings: list[Reading], now: float) -> Any:
        return stored(self, readings, now) + [Finish(reading) for reading in readings]

    monkeypatch.setattr(Uplink, "stored", mutant)


def release_before_record(monkeypatch: pytest.MonkeyPatch) -> None:
    record_received = Publisher._record_received

    def mutant(self: Publisher, packet_id: int, reading: Reading) -> Any:
        effects = record_received(self, packet_id, reading)
        self.in_flight.release(packet_id)
        return [*effects, Transmit(mqtt5.PubRelPacket(packet_id).write())]

    monkeypatch.setattr(Publisher, "_record_received", mutant)
    monkeypatch.setattr(Publisher, "recorded", lambda *_: [])


def hand_back_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def mutant(self: Downlink, arrived: Publication, _now: float) -> Any:
        arrived.copies = 0
        return self._upstream.acknowledge(arrived)

    monkeypatch.setattr(Downlink, "_hand_back", mutant)


def release_sensor_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    receive_pubrec = Outbound.receive_pubrec

    def mutant(self: Outbound, message_id: int, client_id: Any, peer: Any, *given: Any) -> Any:
        effects = receive_pubrec(self, message_id, client_id, peer, *given)
        return [Send(peer, Pubrel(message_id)), *effects]

    monkeypatch.setattr(Outbound, "receive_pubrec", mutant)


def other_message_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = Outbound.restore

    def mutant(self: Outbound, *given: Any) -> None:
        restore(self, *given)
        if self.outstanding is not None:
            self.outstanding.message_id = self.outstanding.message_id % 60_000 + 77

    monkeypatch.setattr(Outbound, "restore", mutant)


def topic_ids_of_the_life(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_rules, "first_topic_id", lambda *_: 1)
    monkeypatch.setattr(TopicRegistry, "restore", lambda *_: None)


def forget_will(monkeypatch: pytest.MonkeyPatch) -> None:
    restore = SessionLifecycle.restore

    def mutant(self: SessionLifecycle, *given: Any, **named: Any) -> None:
        restore(self, *given, **named)
        self._will_handshake = None

    monkeypatch.setattr(SessionLifecycle, "restore", mutant)


def forget_goodbye(monkeypatch: pytest.MonkeyPatch) -> None:
    changed_row = SessionLifecycle._changed_row

    def mutant(self: SessionLifecycle, *given: Any) -> Any:
        return [] if self.state is State.DISCONNECTED else changed_row(self, *given)

    monkeypatch.setattr(SessionLifecycle, "_changed_row", mutant)


def spill_behind_younger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uplink, "not_overtaken", lambda due, *_: list(due))


RESTART_MUTANTS = (
    Mutant("acknowledged before the group is durable", acknowledge_before_durable, SAFE, 8),
    Mutant("finished in the journal before it is acknowledged", finish_when_stored, SAFE, 64),
    Mutant(
        "what is queued is forgotten at a restart",
        constant(Backlog, "restore", None),
        SAFE,
        within=64,
    ),
    Mutant("QoS 2 is sent to the broker before it is durable", send_before_durable, ONCE, 500),
    Mutant("PUBREL to the broker before the record of PUBREC", release_before_record, ONCE, 2000),
    Mutant(
        "the receive set is forgotten at a restart",
        constant(Inbound, "restore", None),
        ONCE,
        within=250,
    ),
    Mutant(
        "CONNECT is not on record before it is sent",
        constant(Publisher, "may_be_on_record", False),
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
        constant(Session, "unacknowledged_but", ()),
        IN_ORDER,
        within=250,
        kind="eager",
    ),
    Mutant(
        "live readings overtake queued ones", constant(Uplink, "_is_behind", False), IN_ORDER, 250
    ),
    Mutant(
        "a message is acknowledged to the broker before it is saved",
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
    Mutant("other message ids in the next run", other_message_ids, COMMANDS_ONCE, 1000),
    Mutant("wills are forgotten at a restart", forget_will, WILLS, 100),
    Mutant("DISCONNECT is not saved", forget_goodbye, WILLS, 1000),
)
