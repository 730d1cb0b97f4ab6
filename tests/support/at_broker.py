"""Somebody at the broker, by paho: hears what comes on a filter, as long as it is entered."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from hil.rig.mosquitto import Mosquitto

PATIENCE_S = 200.0


class AtBroker(ABC):
    def __init__(self, broker: Mosquitto, topic_filter: str, qos: int) -> None:
        """Hears from now on, in a thread of paho's."""
        ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._heard
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        self._client.subscribe(topic_filter, qos)
        assert ready.wait(PATIENCE_S)

    @abstractmethod
    def _heard(self, client: object, userdata: object, message: paho.MQTTMessage) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()
