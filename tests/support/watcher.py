"""What is said on a broker's topics, as an independent client hears it."""

from __future__ import annotations

import json
from typing import Any

import paho.mqtt.client as paho

from hil.rig.mosquitto import Mosquitto
from tests.support.at_broker import AtBroker


class Watcher(AtBroker):
    def __init__(self, broker: Mosquitto, topic_filter: str) -> None:
        self._last: dict[str, bytes] = {}
        super().__init__(broker, topic_filter, 0)

    def topics(self) -> list[str]:
        """On which anything was heard."""
        return sorted(self._last)

    def last(self, topic: str) -> dict[str, Any] | None:
        """Of a receipt: ranges by epoch."""
        payload = self._last.get(topic)
        if not payload:
            return None
        epochs: dict[str, Any] = json.loads(payload)["epochs"]
        return epochs

    def _heard(self, client: object, userdata: object, message: paho.MQTTMessage) -> None:
        self._last[message.topic] = bytes(message.payload)
