"""Tells the time to nodes that ask, as the depot does, but in this process.

A test that is not about the time need not start one, nor wait while nobody answers.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from firmware.depot import Depot
from hil.rig.mosquitto import Mosquitto

PATIENCE_S = 20.0


class Timekeeper:
    def __init__(self, broker: Mosquitto) -> None:
        self._depot = Depot(None)
        self._ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.on_message = self._heard
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.connect("127.0.0.1", broker.port)
        self._client.loop_start()
        self._client.subscribe("sensors/+/ask", 1)
        assert self._ready.wait(PATIENCE_S)

    def _heard(self, client: object, userdata: object, message: paho.MQTTMessage) -> None:
        topic = message.topic.removesuffix("ask") + "set/answer"
        for answer in self._depot.answers(bytes(message.payload), time.time_ns() // 1_000_000):
            self._client.publish(topic, answer, 1)

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
