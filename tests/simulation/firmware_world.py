"""Worlds whose sensors are nodes with our own library; all promises are the same.

So is the trouble, but for two rare settings of the gateway that have nothing to do with who the
sensors are: a queue of only two readings, and leaving out older values.
"""

from __future__ import annotations

from typing import Any, cast

from firmware.mqttsn.cpython import Clock
from gateway.core.session.session import Session
from gateway.frames import Frame, Subscribe
from tests.simulation.downlink_watch import DownlinkWatch
from tests.simulation.firmware_node import FirmwareNode
from tests.simulation.model_broker import matches
from tests.simulation.plan import RETAINED, SensorPlan
from tests.simulation.sensor import Sensor
from tests.simulation.sleeper import Sleeper
from tests.simulation.world import World
from tests.simulation.world_rules import MQTT_CLIENT_ID

WAITING_MESSAGES_MAX = 1000


class NodesWatch(DownlinkWatch):
    """Knows that SUBSCRIBE may be what makes a caller a client: it has no session before that."""

    def heard(self, sensor: Sensor, frame: Frame, session: Session | None) -> None:
        super().heard(sensor, frame, session)
        if session is None and isinstance(frame, Subscribe):
            ear = self._ears[sensor.plan.client_id]
            topic_filter = ear.subscribes[frame.message_id] = frame.topic.decode()
            for topic in RETAINED:
                if matches(topic_filter, topic):
                    ear.welcomes[topic] = ear.welcomes.get(topic, 0) + 1


class FirmwareWorld(World):
    def __init__(self, seed: int, **given: Any) -> None:
        super().__init__(seed, **given)
        self.plan.waiting_messages_max = WAITING_MESSAGES_MAX
        self.plan.coalesce = False
        self.downlink = NodesWatch(self.plan, self.broker, MQTT_CLIENT_ID)
        self._nodes: list[FirmwareNode] = []

    def run(self) -> FirmwareWorld:
        now_ms, agenda = Clock.now_ms, self.agenda
        Clock.now_ms = staticmethod(lambda: int(agenda.now * 1000))
        try:
            super().run()
        finally:
            for node in self._nodes:
                node.end()
            Clock.now_ms = now_ms
        return self

    def _add_sensor(self, plan: SensorPlan) -> Sleeper:
        lifetime_s = self.plan.weather.lifetime_s
        transmit: Any = self._from_sensor
        node = FirmwareNode(plan, self.agenda, transmit, lifetime_s, self._dice)
        self._nodes.append(node)
        sensor = cast(Sleeper, node)
        hears: Any = node
        hears.on_acknowledged = self._acknowledged
        hears.on_message = self.downlink.received
        hears.on_subscribed = self.downlink.subscribed
        hears.on_gone = self._sensor_gone
        self.sensors[plan.client_id] = sensor
        self.give_address(sensor)
        return sensor
