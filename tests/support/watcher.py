"""What is said on a broker's topics, as an independent client hears it."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from hil.rig.mosquitto import Mosquitto


class Watcher:
    def __init__(self, broker: Mosquitto, topic_filter: str) -> None:
        self._heard: dict[str, bytes] = {}
        self._filter = topic_filter
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._keep
        self._client.on_connect = lambda client, *_: client.subscribe(self._filter)
        self._client.connect("127.0.0.1", broker.port)

    def __enter__(self) -> Self:
        self._client.loop_start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def topics(self) -> list[str]:
        """On which anything was heard."""
        return sorted(self._heard)

    def last(self, topic: str) -> dict[str, Any] | None:
        """Of a receipt: ranges by epoch."""
        payload = self._heard.get(topic)
        if not payload:
            return None
        epochs: dict[str, Any] = json.loads(payload)["epochs"]
        return epochs

    def _keep(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        self._heard[message.topic] = bytes(message.payload)
