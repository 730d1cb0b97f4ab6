"""Worlds whose sensors are nodes with our own library; all else, and all promises, are the same."""

from __future__ import annotations

from typing import Any, cast

from firmware.mqttsn.cpython import Clock
from tests.simulation.firmware_node import FirmwareNode
from tests.simulation.plan import SensorPlan
from tests.simulation.sleeper import Sleeper
from tests.simulation.world import World


class FirmwareWorld(World):
    def __init__(self, seed: int, **given: Any) -> None:
        super().__init__(seed, **given)
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
        self._sensors[plan.client_id] = sensor
        self._give_address(sensor)
        return sensor
