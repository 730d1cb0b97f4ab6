"""Holds what docs/guarantees.md promises for messages from the broker to sensors.

A sensor is *entitled* to what matches one of its filters from the moment at which it heard SUBACK
and the broker has a subscription of the gateway that covers the filter; until something takes
that away: a new session, or a loss that nobody promised against (a broker or a gateway that
forgets, in this release without a journal).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gateway.frames import Connect, Frame, Puback, Pubcomp, Publish, Regack, Register, Subscribe
from gateway.session.session import Session
from tests.simulation.model_broker import ModelBroker, Publication, matches
from tests.simulation.plan import RETAINED, Plan
from tests.simulation.sensor import Sensor
from tests.simulation.watch import broken


@dataclass(slots=True)
class Ear:
    """One sensor, as far as it listens."""

    under_way: int | None = None  # id of the message it has not acknowledged yet
    heard: dict[bytes, int] = field(default_factory=dict)  # how often its application got each
    owed: dict[bytes, int] = field(default_factory=dict)  # payload -> QoS
    order: dict[str, int] = field(default_factory=dict)  # topic -> number of the latest command
    filters: set[str] = field(default_factory=set)
    entitled: set[str] = field(default_factory=set)
    subscribes: int = 0
    flagged: dict[bytes, int] = field(default_factory=dict)
    last_flagged_id: int | None = None
    may_miss: bool = False
    may_repeat: bool = False
    values: dict[str, bytes] = field(default_factory=dict)  # latest by topic


class DownlinkWatch:
    def __init__(self, plan: Plan, broker: ModelBroker, mqtt_client_id: str) -> None:
        self._plan = plan
        self._broker = broker
        self._mqtt_client_id = mqtt_client_id
        self._ears: dict[str, Ear] = {}
        self._live: set[bytes] = set()
        for sensor in plan.sensors:
            # A clean session is over with each connection, and what it should hear with it.
            self._ears[sensor.client_id] = Ear(may_miss=sensor.clean, may_repeat=sensor.clean)

    # At the gateway

    def heard(self, sensor: Sensor, frame: Frame, session: Session | None) -> None:
        ear = self._ears[sensor.plan.client_id]
        if isinstance(frame, Connect):
            ear.under_way = None if frame.clean_session else ear.under_way
            return
        if session is None:
            return
        if isinstance(frame, Subscribe):
            ear.subscribes += 1
        answers = isinstance(frame, Regack | Puback | Pubcomp)
        if answers and frame.message_id == ear.under_way:
            ear.under_way = None

    def said(self, sensor: Sensor, frame: Frame) -> None:
        if not isinstance(frame, Publish | Register):
            return
        if isinstance(frame, Publish) and frame.qos == 0:
            return
        ear = self._ears[sensor.plan.client_id]
        if ear.under_way not in (None, frame.message_id):
            broken("4 one at a time", f"{sensor.plan.client_id}: {frame} beside {ear.under_way}")
        ear.under_way = frame.message_id

    def restarted(self) -> None:
        for ear in self._ears.values():
            ear.under_way = None
            ear.entitled.clear()

    def rebooted(self, sensor: Sensor) -> None:
        if not sensor.plan.keeps:
            ear = self._ears[sensor.plan.client_id]
            ear.may_repeat = ear.may_miss = True

    def messages_may_be_lost(self) -> None:
        for ear in self._ears.values():
            ear.owed.clear()
            ear.entitled.clear()
            ear.may_miss = ear.may_repeat = True

    # At the broker

    def routed(self, publication: Publication) -> None:
        if not publication.payload.startswith(b"c:"):
            return
        for client_id, ear in self._ears.items():
            self._entitle(ear)
            sensor = next(one for one in self._plan.sensors if one.client_id == client_id)
            qos = max(
                (
                    min(publication.qos, sensor.filters[topic_filter])
                    for topic_filter in ear.entitled
                    if matches(topic_filter, publication.topic)
                ),
                default=0,
            )
            if qos > 0:
                ear.owed[publication.payload] = qos

    def _entitle(self, ear: Ear) -> None:
        session = self._broker.sessions.get(self._mqtt_client_id)
        if session is None:
            ear.entitled.clear()
            return
        for topic_filter in ear.filters - ear.entitled:
            if any(matches(cover, topic_filter) for cover in session.subscriptions):
                ear.entitled.add(topic_filter)

    # At the sensor

    def subscribed(self, sensor: Sensor, topic_filter: str) -> None:
        ear = self._ears[sensor.plan.client_id]
        ear.filters.add(topic_filter)
        self._entitle(ear)

    def received(self, sensor: Sensor, topic: str, frame: Publish) -> None:
        if not frame.payload.startswith(b"c:"):
            return
        ear, payload = self._ears[sensor.plan.client_id], frame.payload
        times = ear.heard[payload] = ear.heard.get(payload, 0) + 1
        ear.values[topic] = payload
        if frame.qos == 2 and times > 1 and not ear.may_repeat:
            if topic not in RETAINED:
                broken("4 QoS 2 down once", f"{sensor.plan.client_id} got {payload!r} {times} times")
        if frame.qos > 0 and times == 1 and topic not in RETAINED:
            number = int(payload[2:])
            ear.order[topic] = number

    # At the end

    def check_end(self, sensors: dict[str, Sensor]) -> None:
        for client_id, ear in self._ears.items():
            if ear.may_miss:
                continue
            missing = sorted(ear.owed.keys() - ear.heard.keys())
            missing = [payload for payload in missing]
            if missing:
                broken("4 nothing missed", f"{client_id} never got {missing}")
