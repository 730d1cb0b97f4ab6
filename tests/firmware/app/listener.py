"""An operator at the broker: hears what a node says, and publishes settings. It is paho."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import paho.mqtt.client as paho

from gateway.cli.sensors import senml
from hil.rig.mosquitto import Mosquitto
from tests.support.at_broker import PATIENCE_S, AtBroker


class Listener(AtBroker):
    def __init__(self, broker: Mosquitto, name: str) -> None:
        """`name`: of the node whose topics they are."""
        self.topic = f"sensors/{name}"
        self.messages: list[tuple[str, bytes]] = []
        self._came = threading.Condition()
        super().__init__(broker, f"{self.topic}/#", 2)

    def publish(self, topic: str, payload: bytes, *, retain: bool = True) -> None:
        self._client.publish(f"{self.topic}/{topic}", payload, 1, retain).wait_for_publish(
            PATIENCE_S
        )

    def on(self, topic: str) -> list[bytes]:
        return [payload for name, payload in self.messages if name == topic]

    def readings(self) -> dict[int, senml.Pack]:
        """By sequence number; what is no pack raises."""
        found = {}
        for payload in self.on(self.topic):
            pack = senml.decode(payload)
            sequence = pack.value("seq")
            assert sequence is not None
            found[int(sequence)] = pack
        return found

    def states(self) -> list[dict[str, Any]]:
        return [json.loads(payload) for payload in self.on(f"{self.topic}/state")]

    def state(self) -> dict[str, Any]:
        """The last one; an empty one before."""
        return next(reversed(self.states()), {})

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        with self._came:
            while not is_so():
                left = deadline - time.monotonic()
                assert left > 0, self.messages
                self._came.wait(left)

    def _heard(self, client: object, userdata: object, message: paho.MQTTMessage) -> None:
        with self._came:
            self.messages.append((message.topic, bytes(message.payload)))
            self._came.notify_all()
